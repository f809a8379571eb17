"""Scores as aligned text."""

from __future__ import annotations

from turbotag.metrics.spans import SpanScore
from turbotag.metrics.tags import Counts, TagScore


def _row(name: str, c: Counts) -> str:
    return (
        f"{name:<12}{100 * c.precision:>10.2f}{100 * c.recall:>8.2f}{100 * c.f1:>8.2f}"
        f"{c.gold:>8}{c.predicted:>11}{c.correct:>9}"
    )


_HEADER = (
    f"{'':<12}{'precision':>10}{'recall':>8}{'F1':>8}{'gold':>8}{'predicted':>11}{'correct':>9}"
)


def score_table(score: TagScore) -> str:
    """A table by type, the total last, and the convention it was counted by."""
    lines = [_HEADER]
    shown = {t: c for t, c in score.types.items() if c.gold or c.predicted}
    lines += [_row(t, c) for t, c in sorted(shown.items())]
    if isinstance(score, SpanScore):
        lines.append(_row("all", score.total))
    lines.append(
        f"{score.tokens} tokens, accuracy {100 * score.accuracy:.2f}; {score.sentences} sentences, "
        f"{100 * score.sentence_accuracy:.2f} all right"
    )
    lines.append(f"convention: {score.convention}")
    return "\n".join(lines)
