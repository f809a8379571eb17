"""Attachment scores as aligned text."""

from __future__ import annotations

from turbotag.metrics.attachment import AttachmentScore, ConventionScore
from turbotag.report.tables import align, count_cells, percent

SHOWN_LABELS = 15
_COUNTS = ["precision", "recall", "F1", "gold", "predicted", "correct"]


def attachment_table(score: AttachmentScore, all_labels: bool = False) -> str:
    """Scores by convention, non-projective arcs, then the most frequent labels (or all)."""
    by = score.conventions
    header = ["", "UAS", "LAS", "label acc.", "exact", "labelled", "root", "tokens"]
    scores = [[name, *_summary(c)] for name, c in by.items()]
    arcs = [[name, *count_cells(c.nonprojective)] for name, c in by.items()]
    parts = [align([header, *scores]), align([["non-projective", *_COUNTS], *arcs])]
    labels = sorted(score.types.items(), key=lambda item: (-item[1].gold, item[0]))
    shown = labels if all_labels else labels[:SHOWN_LABELS]
    if shown:
        parts.append(align([["label", *_COUNTS], *([t, *count_cells(c)] for t, c in shown)]))
    if len(shown) < len(labels):
        parts[-1] += f"\n({len(labels) - len(shown)} rarer labels left out)"
    parts.append(
        f"{score.chosen.sentences} sentences; exact: all heads right, labelled: all labels too\n"
        + "\n".join(f"convention: {c.convention}" for c in by.values())
    )
    return "\n\n".join(parts)


def _summary(c: ConventionScore) -> list[str]:
    heads, labels = c.exact_match, c.labelled_exact_match
    shares = c.uas, c.las, c.label_accuracy, heads, labels, c.root_accuracy
    return [*map(percent, shares), str(c.tokens)]
