"""Trees and entities as SVG: arcs above the words, missed gold arcs dashed below them."""

from __future__ import annotations

import html
from string import Template

from turbotag.report.draw_layout import (
    LABEL,
    MARGIN,
    Arc,
    label_middle,
    place_words,
    set_levels,
    spread_ends,
    text_width,
)
from turbotag.report.drawing import Drawing, clean, summary

WORD, TAG, TYPE = 15, 10, 9  # sizes of the text
LEVEL = 21  # from an arc to the one above it
GAP = 14  # between words
LONGEST = 32  # characters of a word that are shown

LIGHT = {"page": "#fff", "ink": "#1f2328", "dim": "#656d76", "wrong": "#b84a00", "gold": "#0058b0"}
DARK = {
    "page": "#15181d",
    "ink": "#e6e8eb",
    "dim": "#99a2ad",
    "wrong": "#ff9a4d",
    "gold": "#6cb6ff",
}
# Entities are tinted thinly enough for a light and a dark page; their types are written below.
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#c8b900", "#808080")
FONT = '"Segoe UI","Helvetica Neue",Arial,"Noto Sans",sans-serif'

_RULES = Template(f"""
.drawing{{font-family:{FONT}}}
.drawing text{{text-anchor:middle;fill:$ink}}
.words{{font-size:{WORD}px}}
.tags{{font-size:{TAG}px}}
.drawing .tags text,.drawing .score{{fill:$dim}}
.drawing .score{{font-size:{LABEL}px;text-anchor:start}}
.arcs{{font-size:{LABEL}px;fill:none;stroke:$dim;stroke-width:1.3}}
.arcs rect{{fill:$page;stroke:none}}
.arcs .root{{font-weight:600}}
.entities{{font-size:{TYPE}px;font-weight:600}}
.entities rect{{fill-opacity:.2}}
.wrong{{stroke:$wrong}}
.tips{{fill:$dim}}
.drawing .wrong text,.struck,.tips.wrong{{fill:$wrong}}
.struck{{text-decoration:line-through}}
.missed{{stroke:$gold}}
.drawing .missed text,.tips.missed{{fill:$gold}}
.missed path,.missed rect{{stroke-dasharray:5 3}}
.entities .missed rect{{fill:none}}
.drawing text,.drawing .tips{{stroke:none}}
""")


def rules(palette: dict[str, str]) -> str:
    """The style sheet of drawings."""
    entities = "".join(f".t{k}{{fill:{hue}}}\n" for k, hue in enumerate(HUES))
    return _RULES.substitute(palette) + entities


def hues(drawings: list[Drawing]) -> dict[str, int]:
    """The number of the colour of each type of entity."""
    found = {e[2] for d in drawings for e in [*d.entities, *(d.gold_entities or [])]}
    return {name: k % len(HUES) for k, name in enumerate(sorted(found))}


def escape(text: str) -> str:
    return html.escape(clean(text))


def svg(*drawings: Drawing) -> str:
    """A file with one sentence, or with several below each other."""
    every = list(drawings)
    colours = hues(every)
    parts, width, y = [], 0, 0
    for d in every:
        markup, w, h = picture(d, colours, len(every) > 1)
        parts.append(f'<g transform="translate(0 {y})">{markup}</g>\n')
        width, y = max(width, w), y + h
    x = MARGIN
    for markup, w in legend(every):
        if x > MARGIN and x + w > max(width, 600):
            x, y = MARGIN, y + 20
        parts.append(f'<g transform="translate({x} {y})">{markup}</g>\n')
        x += w
        width = max(width, x)
    y += 30 if x > MARGIN else 0
    page = f'<style>{rules(LIGHT)}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n'
    return frame(page + "".join(parts), width, y, ' xmlns="http://www.w3.org/2000/svg"') + "\n"


def frame(markup: str, width: int, height: int, more: str = "") -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg class="drawing"{more} {size}>{markup}</svg>'


def picture(
    d: Drawing, colours: dict[str, int], numbered: bool = False, linked: bool = False
) -> tuple[str, int, int]:
    """A sentence without its frame: markup, width and height. linked: words, tags and arcs get the
    number of their word as data-word, so that a page can find them."""
    words = [w if len(w) <= LONGEST else w[: LONGEST - 1] + "…" for w in d.words]
    above, below = _arcs(d), _missed_arcs(d)
    cells = _cells(d, words, above, below)
    x = place_words([*above, *below], cells)
    head = " · ".join(filter(None, [f"sentence {d.number}" if numbered else "", summary([d])]))
    feet = (20 if head else 0) + LEVEL * max((a.level for a in above), default=0) + MARGIN
    rows = [feet + 18]  # baselines of words, tags, types of entities, types of missed ones
    for row in (d.tags is not None, bool(d.entities), bool(d.missed)):
        rows.append(rows[-1] + 14 * row)
    bottom = rows[-1] + 9
    spans = [(x[a] - cells[a] / 2, x[b] + cells[b] / 2) for a, b, _ in [*d.entities, *d.missed]]
    kinds = ["wrong" if e in d.spurious else "" for e in d.entities] + ["missed"] * len(d.missed)
    boxes = [
        _box(name, kind, colours[name], span, feet, rows[3 if kind == "missed" else 2])
        for (_, _, name), kind, span in zip([*d.entities, *d.missed], kinds, spans, strict=True)
    ]
    parts = [
        f'<text class="score" x="{MARGIN}" y="20">{head}</text>' if head else "",
        f'<g class="entities">{"".join(boxes)}</g>' if boxes else "",
        _draw_arcs(above, feet, -1, linked),
        _draw_arcs(below, bottom, 1),
        _row("words", rows[0], x, words, d.words, linked),
        _row("tags", rows[1], x, d.tags, d.tags, linked) if d.tags is not None else "",
    ]
    width = max(x[-1] + cells[-1] / 2, text_width(head, LABEL)) + MARGIN
    height = bottom + LEVEL * max((a.level for a in below), default=0) + MARGIN
    return "".join(parts), round(width), height


def _box(name: str, kind: str, hue: int, span: tuple[float, float], top: int, baseline: int) -> str:
    """An entity: a box behind its words, with its type below them. The box of a missed entity is
    drawn around them."""
    inset = 1 if kind == "missed" else 3
    left, right = round(span[0]) + inset, round(span[1]) - inset
    markup = (
        f'<rect class="t{hue}" x="{left}" y="{top + inset - 2}" width="{right - left}" '
        f'height="{baseline + 6 - inset - top}" rx="4"/><text x="{(left + right) // 2}" '
        f'y="{baseline}">{"✗ " if kind == "wrong" else ""}{escape(name)}</text>'
    )
    return f'<g class="{kind}">{markup}</g>' if kind else markup


def _row(kind: str, y: int, x: list[int], shown: list[str], full: list[str], linked: bool) -> str:
    texts = []
    for m, (at, text, whole) in enumerate(zip(x, shown, full, strict=True)):
        title = f"<title>{escape(whole)}</title>" if text != whole else ""
        texts.append(f'<text{_link(m, linked)} x="{at}">{title}{escape(text)}</text>')
    return f'<g class="{kind}" transform="translate(0 {y})">{"".join(texts)}</g>'


def _link(m: int, linked: bool) -> str:
    return f' data-word="{m + 1}"' if linked else ""


def _cells(d: Drawing, words: list[str], above: list[Arc], below: list[Arc]) -> list[float]:
    """The width of each word with all that belongs to it, and of the space to the next word. Also
    sets the levels of the arcs and the places of their ends."""
    n = len(words)
    set_levels(above)
    set_levels(below)
    widths = [
        [text_width(w, WORD) for w in words],
        [text_width(t, TAG) for t in d.tags or [""] * n],
        spread_ends(above, n),
        spread_ends(below, n),
    ]
    cells = [max(column) for column in zip(*widths, strict=True)]
    for arc in [*above, *below]:
        if arc.head < 0:
            cells[arc.modifier] = max(cells[arc.modifier], arc.width + 4 + 2 * abs(arc.ends[0]))
    for a, b, name in [*d.entities, *d.missed]:
        for m in range(a, b + 1):
            cells[m] = max(cells[m], text_width(f"✗ {name}", TYPE) / (b - a + 1))
    return [w + GAP for w in cells]


def _arcs(d: Drawing) -> list[Arc]:
    """The arcs of the sentence, right or wrong."""
    arcs = []
    right_heads, right_labels = d.right_heads, d.right_labels
    for m, head in enumerate(d.heads or []):
        label = d.labels[m] if d.labels is not None else "" if head else "root"
        p = None if d.probabilities is None else d.probabilities[m]
        title = _title(d, head, m, label) + ("" if p is None else f" {p:.2f}")
        arc = Arc(head - 1, m, label, title, probability=p)
        if not right_heads[m]:
            arc.kind, arc.label = "wrong", f"✗ {label}"
        elif not right_labels[m] and d.gold_labels is not None:
            gold = d.gold_labels[m]
            arc.title, arc.label = f"{title} (gold: {gold})", f"✗ {label} {gold}"
            arc.markup = f'✗ <tspan class="struck">{escape(label)}</tspan> {escape(gold)}'
        arcs.append(arc)
    return arcs


def _missed_arcs(d: Drawing) -> list[Arc]:
    """The gold arcs that were missed."""
    arcs = []
    right_heads = d.right_heads
    for m, head in enumerate(d.gold_heads or []):
        if not right_heads[m]:
            label = d.gold_labels[m] if d.gold_labels is not None else "" if head else "root"
            arcs.append(Arc(head - 1, m, label, f"gold: {_title(d, head, m, label)}", "missed"))
    return arcs


def _title(d: Drawing, head: int, m: int, label: str) -> str:
    return f"{d.words[head - 1] if head else 'root'} → {d.words[m]}: {label}"


def _draw_arcs(arcs: list[Arc], feet: int, up: int, linked: bool = False) -> str:
    """The arcs above the words (up = -1) or below them (1). The highest come first, so that a label
    covers the lines that go through it. Lines stand on half pixels, where they are sharp."""
    if not arcs:
        return ""
    parts, tips = [], {"": "", "wrong": "", "missed": ""}
    for arc in sorted(arcs, key=lambda a: -a.level):
        y = up * LEVEL * arc.level
        start, end = arc.ends if arc.head < arc.modifier else arc.ends[::-1]
        kind = f' class="{arc.kind}"' if arc.kind else ""
        parts.append(
            f"<g{kind}{_link(arc.modifier, linked)}><title>{escape(arc.title)}</title>"
            f'<path{_weight(arc.probability)} d="{_path(arc, start, end, y, up)}"/>'
        )
        if arc.label:
            middle, half = label_middle(arc, arcs), round(arc.width / 2) + 2
            root = ' class="root"' if arc.head < 0 else ""
            parts.append(
                f'<rect x="{middle - half}" y="{y - 7}" width="{2 * half}" height="14"/>'
                f'<text{root} x="{middle}" y="{y + 4}">{arc.markup or escape(arc.label)}</text>'
            )
        parts.append("</g>")
        tips[arc.kind] += f"M{end} 0l-3.5 {up * 7}h7z"
    for kind, path in tips.items():
        if path:
            parts.append(f'<path class="{"tips " + kind}" d="{path}"/>')
    return f'<g class="arcs" transform="translate(.5 {feet}.5)">{"".join(parts)}</g>'


def _path(arc: Arc, start: int, end: int, y: int, up: int) -> str:
    """From the head up to the height y, with round corners, and down to the modifier's arrow."""
    if arc.head < 0:
        return f"M{end} {y}V{6 * up}"
    right, away = 8 if start < end else -8, 8 * up
    return (
        f"M{start} 0V{y - away}q0 {away} {right} {away}"
        f"H{end - right}q{right} 0 {right} {-away}V{6 * up}"
    )


def _weight(p: float | None) -> str:
    if p is None:
        return ""
    return f' stroke-width="{0.5 + 2 * p:.1f}" stroke-opacity="{0.4 + 0.6 * p:.1f}"'


def legend(drawings: list[Drawing]) -> list[tuple[str, int]]:
    """What lines and colours mean: the markup of each item, in a row of height 20, and its
    width."""
    items = []
    if any(d.probabilities is not None for d in drawings):
        thin, thick = (f'<path{_weight(p)} d="M{x} 9.5h10"/>' for x, p in ((0, 0.2), (10, 1.0)))
        items.append((f'<g class="arcs">{thin}{thick}</g>', "thicker: more probable"))
    if any(d.gold_heads is not None for d in drawings):
        for kind, text in ("", "right"), ("wrong", "✗ wrong"), ("missed", "missed"):
            items.append((f'<g class="arcs"><g class="{kind}"><path d="M0 9.5h20"/></g></g>', text))
    for name, k in hues(drawings).items():
        box = f'<rect class="t{k}" x="4" y="3" width="16" height="14" rx="4"/>'
        items.append((f'<g class="entities">{box}</g>', name))
    return [
        (
            f'{mark}<text class="score" x="26" y="14">{escape(text)}</text>',
            round(text_width(text, LABEL)) + 46,
        )
        for mark, text in items
    ]
