"""The evaluation page: scores, confusions, attachment and calibration in one HTML file without
scripts, which needs no network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape

from turbotag.metrics.attachment import Attachment, AttachmentScore
from turbotag.metrics.calibration import Calibration
from turbotag.metrics.conll18 import Conll18Score
from turbotag.metrics.spans import SpanScore
from turbotag.metrics.tags import Counts, TagScore
from turbotag.models.comparison import Confusion, Details
from turbotag.report.markup import Markup, bar, cell, document, html, table
from turbotag.report.tables import conll18_rows, docstarts, percent

TILES = {"Sentences", "Words", "UPOS", "UFeats", "Lemmas", "LAS"}
SHOWN_LABELS, SHOWN_CONFUSIONS, MATRIX = 50, 20, 12
FEW = 20  # predictions in a bin say little
BLUE, ORANGE = "#0072B2", "#D55E00"  # colour-blind people can tell them apart too
_COUNTS = ["precision", "recall", "F1", "", "gold", "predicted", "correct"]

AnyScore = TagScore | AttachmentScore | Conll18Score

# ---- The page ------------------------------------------------------------------------------------


def evaluation_page(
    sections: dict[str, tuple[AnyScore, Details]], gold: str, predicted: str
) -> str:
    """The page of comparisons, each with the name of what is compared, or "" if there is only one.
    gold, predicted: the names of the two sides."""
    sides = f"<code>{html(predicted)}</code> against <code>{html(gold)}</code>"
    body = [line for name, found in sections.items() for line in _section(name, sides, *found)]
    return document(f"Evaluation of {predicted}", body)


def _section(name: str, sides: str, score: AnyScore, details: Details) -> list[str]:
    if isinstance(score, Conll18Score):
        return _whole(sides, score)
    is_trees, is_spans = isinstance(score, AttachmentScore), isinstance(score, SpanScore)
    kind = "trees" if is_trees else "spans" if is_spans else "tags"
    body = [
        f"<h1>Evaluation: {html(name or kind)}</h1>",
        f'<p class="quiet">{sides}</p>',
        *(_tree_scores(score) if isinstance(score, AttachmentScore) else _tag_scores(score)),
        *_labels(kind, score.types),
        *_confusions(kind, details.confusion),
    ]
    if isinstance(score, AttachmentScore):
        body += [
            "<h2>Attachment by length</h2>",
            '<p class="quiet">Below each bucket: how many words are counted in it.</p>',
            '<div class="side">',
            _attachment("Words of the sentence", details.lengths),
            _attachment("Distance of word and gold head", score.chosen.lengths),
            "</div>",
        ]
    body.append("<h2>Calibration</h2>")
    body += [part for of, c in details.calibration.items() for part in _calibration(of, c)]
    if not details.calibration:
        body.append(
            "<p>No probabilities are known: score a model with <code>--model</code>, or write the "
            "predicted file with <code>turbotag predict --marginals</code>.</p>"
        )
    return body


def _whole(sides: str, score: Conll18Score) -> list[str]:
    """All columns of CoNLL-U, from raw text."""
    shown = [(f"{n} F1", percent(c.f1)) for n, c in score.scores.items() if n in TILES]
    header = ["", "precision", "recall", "F1", "gold", "predicted", "correct", "aligned acc."]
    missing = f"not scored, as a file lacks their columns: {', '.join(score.missing)}"
    notes = [*([missing] if score.missing else []), f"convention: {score.convention}"]
    return [
        "<h1>Evaluation: from tokens to trees</h1>",
        f'<p class="quiet">{sides}</p>',
        _tiles(shown),
        table(header, conll18_rows(score)),
        *(f'<p class="quiet">{html(note)}</p>' for note in notes),
    ]


def _tiles(values: Iterable[tuple[str, object]]) -> str:
    boxes = (
        f'<div class="tile"><b>{html(v)}</b><span>{html(name)}</span></div>' for name, v in values
    )
    return f'<div class="tiles">{"".join(boxes)}</div>'


def _tag_scores(score: TagScore) -> list[str]:
    tiles: list[tuple[str, object]] = []
    if isinstance(score, SpanScore):
        precision, recall, f1 = (f"{p:.2f}" for p in score.total.percentages)
        tiles = [("F1", f1), ("precision", precision), ("recall", recall)]
        tiles += [("gold spans", f"{score.total.gold:,}")]
    tiles += [
        ("tag accuracy" if tiles else "accuracy", percent(score.accuracy)),
        ("sentences all right", percent(score.sentence_accuracy)),
        ("tokens", f"{score.tokens:,}"),
        ("sentences", f"{score.sentences:,}"),
    ]
    notes = [docstarts(score)] if score.docstarts else []
    notes.append(f"convention: {score.convention}")
    return [_tiles(tiles), *(f'<p class="quiet">{html(note)}</p>' for note in notes)]


def _tree_scores(score: AttachmentScore) -> list[str]:
    c = score.chosen
    tiles = [("LAS", percent(c.las)), ("UAS", percent(c.uas))]
    tiles += [("label accuracy", percent(c.label_accuracy))]
    tiles += [("trees all right", percent(c.exact_match))]
    tiles += [("words", f"{c.tokens:,}"), ("sentences", f"{c.sentences:,}")]
    header = ["", "UAS", "LAS", "label acc.", "exact", "labelled", "root", "words"]
    scores, crossing = [], []
    for name, s in score.conventions.items():
        shares = s.uas, s.las, s.label_accuracy, s.exact_match, s.labelled_exact_match
        scores.append([name, *map(percent, (*shares, s.root_accuracy)), f"{s.tokens:,}"])
        crossing.append([name, *_counts(s.nonprojective)])
    listed = "".join(f"<br>{html(s.convention)}" for s in score.conventions.values())
    return [
        _tiles(tiles),
        f'<p class="quiet">convention: {html(c.convention)}</p>',
        "<h2>Scores by convention</h2>",
        table(header, scores),
        f'<p class="quiet">exact: all heads of a sentence right, labelled: all labels too{listed}'
        "</p>",
        "<h3>Non-projective arcs</h3>",
        table(["", *_COUNTS], crossing),
    ]


def _counts(c: Counts) -> list[object]:
    shares = (f"{p:.2f}" for p in c.percentages)
    return [*shares, bar(c.f1), *(f"{n:,}" for n in (c.gold, c.predicted, c.correct))]


def _labels(kind: str, types: dict[str, Counts]) -> list[str]:
    """The table by label, most frequent first."""
    known = [(t, c) for t, c in types.items() if c.gold or c.predicted]
    known.sort(key=lambda item: (-item[1].gold, item[0]))
    if not known:
        return []
    what = "Types" if kind == "spans" else "Labels"
    note = "A label is right if the head is too. " if kind == "trees" else ""
    if len(known) > SHOWN_LABELS:
        note += f"{len(known) - SHOWN_LABELS} rarer ones are left out."
    return [
        f"<h2>{what}</h2>",
        f'<p class="quiet">{note}</p>' if note else "",
        table(["", *_COUNTS], ([t, *_counts(c)] for t, c in known[:SHOWN_LABELS])),
    ]


# ---- Confusions ----------------------------------------------------------------------------------


CONFUSED = {
    "tags": "tokens",
    "spans": "spans, gold and predicted; those of the same words meet, others are missed (gold "
    "only) or spurious (predicted only)",
    "trees": "words with the right head that the convention counts",
}


def _confusions(kind: str, confusion: Confusion) -> list[str]:
    if not confusion:
        return []
    errors = Counter({pair: n for pair, n in confusion.items() if pair[0] != pair[1]})
    total = sum(errors.values())
    body = [
        "<h2>Confusions</h2>",
        f'<p class="quiet">{total:,} errors in {sum(confusion.values()):,} {CONFUSED[kind]}.</p>',
    ]
    if not total:
        return body
    most = sorted(errors.items(), key=lambda e: (-e[1], e[0][0] or "", e[0][1] or ""))
    listed = [
        [Markup(f"{_name(g, 'spurious')} → {_name(p, 'missed')}"), n, percent(n / total, 1)]
        for (g, p), n in most[:SHOWN_CONFUSIONS]
    ]
    caption = f"{len(listed)} of {len(most)} kinds of errors"
    return [
        *body,
        '<div class="side">',
        f"<div>{_matrix(confusion, errors)}</div>",
        f"<div>{table(['gold → predicted', 'count', '% of errors'], listed, 'list')}"
        f'<p class="quiet">{caption}</p></div>',
        "</div>",
    ]


def _name(label: str | None, nothing: str) -> str:
    if label is None:
        return f"<i>{nothing}</i>"
    return f'<span title="{escape(label)}">{html(label)}</span>'


def _matrix(confusion: Confusion, errors: Confusion) -> str:
    """Counts of the labels with most errors; rows are gold."""
    by_label: Counter[str] = Counter()
    for pair, n in errors.items():
        for label in pair:
            if label is not None:
                by_label[label] += n
    names = sorted(by_label, key=lambda s: (-by_label[s], s))
    missing = any(None in pair for pair in errors)
    shown: list[str | None] = [*names[:MATRIX], *([None] if missing else [])]
    most = max(errors[g, p] for g in shown for p in shown)

    def count(g: str | None, p: str | None) -> Markup:
        n = confusion[g, p]
        if not n:
            return cell("")
        if g == p:
            return cell(n, 'style="background: #e6eff6"')
        strength = 0.08 + 0.72 * (n / max(1, most)) ** 0.5
        return cell(n, f'style="background: rgb(213 94 0 / {strength:.2f})"')

    header = [Markup(f"<span>{_name(p, 'missed')}</span>") for p in shown]
    rows = [[Markup(_name(g, "spurious")), *(count(g, p) for p in shown)] for g in shown]
    note = "Orange: errors, blue: right."
    if len(names) > MATRIX:
        note = f"The {MATRIX} labels with most errors; {len(names) - MATRIX} more have some. {note}"
    shown_counts = table([Markup("gold ↓&ensp;predicted →"), *header], rows, "matrix")
    return f'{shown_counts}<p class="quiet">{note}</p>'


# ---- Charts --------------------------------------------------------------------------------------


def _svg(width: float, height: float, parts: Iterable[str], label: str) -> Markup:
    return Markup(
        f'<svg width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" aria-label="{escape(label)}">\n' + "\n".join(parts) + "\n</svg>"
    )


def _text(x: float, y: float, text: object, anchor: str = "middle", kind: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html(text)}</text>'
    )


def _box(x: float, y: float, width: float, height: float, fill: str, rest: str = "") -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{fill}" {rest}/>'
    )


def _line(x: float, y: float, to_x: float, to_y: float, stroke: str, rest: str = "") -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" '
        f'stroke="{stroke}" {rest}/>'
    )


def _attachment(title: str, by: dict[str, Attachment]) -> str:
    """Bars of UAS and LAS for each bucket that has words, their number below."""
    shown = [(name, a) for name, a in by.items() if a.tokens]
    series = [("UAS", BLUE), ("LAS", ORANGE)]
    if any(a.las is None for _, a in shown):
        series = series[:1]
    wide, gap, left, top, high = 31, 18, 34, 34, 190
    step = wide * len(series) + gap
    width = left + step * len(shown) + gap
    parts = []
    for y in range(0, 101, 20):
        at = top + high * (1 - y / 100)
        parts.append(_line(left, at, width, at, "#e3e7eb"))
        parts.append(_text(left - 6, at + 4, y, "end", "soft"))
    for k, (name, fill) in enumerate(series):
        parts.append(_box(left + 70 * k, 4, 12, 12, fill))
        parts.append(_text(left + 70 * k + 18, 14, f"{name} %", "start"))
    for k, (name, a) in enumerate(shown):
        x = left + gap + step * k
        for j, share in enumerate([a.uas, a.las][: len(series)]):
            tall = high * (share or 0.0)
            parts.append(_box(x + wide * j, top + high - tall, wide - 2, tall, series[j][1]))
            middle = x + wide * j + wide / 2 - 1
            parts.append(_text(middle, top + high - tall - 4, percent(share, 1)))
        middle = x + wide * len(series) / 2 - 1
        parts.append(_text(middle, top + high + 17, name))
        parts.append(_text(middle, top + high + 33, f"{a.tokens:,}", kind="soft"))
    chart = _svg(width, top + high + 40, parts, title)
    return f"<figure><h3>{html(title)}</h3>{chart}</figure>"


def _calibration(of: str, found: Calibration) -> list[str]:
    """The reliability diagram over a histogram, and the table of its bins."""
    if not found.count:
        return [f"<h3>{html(of.capitalize())}</h3>", "<p>There are none.</p>"]
    size, left, top, low = 300, 40, 26, 70  # of the diagram, its margins and the histogram
    bottom, floor = top + size, top + size + 34 + low
    parts = []
    for k in range(6):
        at = k / 5
        parts.append(_line(left, bottom - size * at, left + size, bottom - size * at, "#e3e7eb"))
        parts.append(_text(left - 6, bottom - size * at + 4, f"{at:.1f}", "end", "soft"))
        parts.append(_text(left + size * at, bottom + 16, f"{at:.1f}", kind="soft"))
    most = max(b.count for b in found.bins)
    dots = []
    for b in found.bins:
        if b.count:
            x, wide = left + size * b.low + 1, size * (b.high - b.low) - 2
            up, tall = size * b.accuracy, low * b.count / most
            pale = "" if b.count >= FEW else 'opacity="0.4"'
            parts.append(_box(x, bottom - up, wide, up, "#9cc4e0", pale))
            parts.append(_box(x, floor - tall, wide, tall, "#8b949e"))
            centre = f'cx="{left + size * b.probability:.1f}" cy="{bottom - up:.1f}"'
            dots.append(f'<circle {centre} r="4.5" fill="{ORANGE}" {pale}/>')
    parts += [
        _line(left, bottom, left + size, top, "#1f2328", 'stroke-dasharray="5 4"'),
        *dots,
        _line(left, floor, left + size, floor, "#8b949e"),
        _text(left, 12, "share right", "start"),
        _text(left, bottom + 40, f"count (most: {most:,})", "start", "soft"),
        _text(left + size / 2, floor + 18, "probability"),
    ]
    chart = _svg(left + size + 16, floor + 24, parts, f"reliability diagram of {of}")
    rows = [
        [
            f"{b.low:.1f}–{b.high:.1f}",  # noqa: RUF001
            f"{b.count:,}",
            *([f"{b.probability:.3f}", f"{b.accuracy:.3f}"] if b.count else ["", ""]),
            f"{b.accuracy - b.probability:+.3f}" if b.count else "",
        ]
        for b in found.bins
    ]
    return [
        f"<h3>{html(of.capitalize())}: ECE {found.ece:.4f}</h3>",
        f'<p class="quiet">Expected calibration error over {len(found.bins)} bins of equal width, '
        f"{found.count:,} predictions: mean probability {found.probability:.4f}, share right "
        f"{found.accuracy:.4f}. Dots below the dashed line are too sure of themselves; bins with "
        f"fewer than {FEW} are pale.</p>",
        '<div class="side">',
        f"<figure>{chart}</figure>",
        table(["bin", "count", "mean probability", "share right", "difference"], rows),
        "</div>",
    ]
