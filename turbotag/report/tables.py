"""Scores as aligned text."""

from __future__ import annotations

from turbotag.metrics.conll18 import Conll18Score
from turbotag.metrics.spans import SpanScore
from turbotag.metrics.tags import Counts, TagScore


def percent(share: float | None, digits: int = 2) -> str:
    """A share c / n as the percentage that 100 * c / n prints as.

    100 * (c / n) may fall short of it by a unit in the last place, which shows where the decimal to
    be rounded is a 5; twelve decimals are exact enough to tell, and too few to keep the error.
    """
    return "-" if share is None else f"{round(100 * share, 12):.{digits}f}"


def count_cells(c: Counts) -> list[str]:
    """Precision, recall, F1 and the counts that they are made of."""
    return [*(f"{p:.2f}" for p in c.percentages), *map(str, (c.gold, c.predicted, c.correct))]


_WIDTHS = (10, 8, 8, 8, 11, 9)
_HEADER = ["precision", "recall", "F1", "gold", "predicted", "correct"]


def _row(name: str, cells: list[str]) -> str:
    return f"{name:<12}" + "".join(f"{c:>{w}}" for c, w in zip(cells, _WIDTHS, strict=True))


def score_table(score: TagScore) -> str:
    """A table by type, the total last, and the convention it was counted by."""
    shown = {t: c for t, c in score.types.items() if c.gold or c.predicted}
    lines = [_row("", _HEADER)] if shown or isinstance(score, SpanScore) else []
    lines += [_row(t, count_cells(c)) for t, c in sorted(shown.items())]
    if isinstance(score, SpanScore):
        lines.append(_row("all", count_cells(score.total)))
    lines.append(
        f"{score.tokens} tokens, accuracy {percent(score.accuracy)}; {score.sentences} sentences, "
        f"{percent(score.sentence_accuracy)} all right"
    )
    if score.docstarts:
        lines.append(docstarts(score))
    lines.append(f"convention: {score.convention}")
    return "\n".join(lines)


def docstarts(score: TagScore) -> str:
    """What a user of conlleval.pl will miss: it takes a -DOCSTART- line for a token tagged O."""
    tokens, right = score.tokens + score.docstarts, score.right_tokens + score.docstarts
    return (
        f"{score.docstarts} -DOCSTART- lines not counted; conlleval.pl counts them: "
        f"{tokens} tokens, accuracy {percent(right / tokens)}"
    )


def align(rows: list[list[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def conll18_table(score: Conll18Score) -> str:
    """A row for each score, what could not be scored, and the convention."""
    lines = [align([["", *_HEADER, "aligned acc."], *conll18_rows(score)])]
    if score.missing:
        lines.append(f"not scored, as a file lacks their columns: {', '.join(score.missing)}")
    lines.append(f"convention: {score.convention}")
    return "\n".join(lines)


def conll18_rows(score: Conll18Score) -> list[list[str]]:
    """Name, precision, recall, F1, counts, and the share of aligned words that are right."""
    return [[name, *count_cells(c), percent(c.accuracy)] for name, c in score.scores.items()]
