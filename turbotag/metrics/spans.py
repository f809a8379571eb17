"""Precision, recall and F1 of spans (chunks, entities), by conlleval's convention or strictly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turbotag.corpus import schemes
from turbotag.metrics.tags import Counts, TagScore, same_tag


@dataclass
class SpanScore(TagScore):
    """F1 of spans beside the accuracy of their tags; types are those of the spans."""

    measure = "span F1"

    @property
    def total(self) -> Counts:
        """Spans of all types."""
        counts = self.types.values()
        return Counts(
            sum(c.gold for c in counts),
            sum(c.predicted for c in counts),
            sum(c.correct for c in counts),
        )

    @property
    def main(self) -> float:
        return self.total.f1

    def as_dict(self) -> dict[str, object]:
        return {**super().as_dict(), **self.total.as_dict()}


CONVENTIONS = {
    "conlleval": "conlleval (lenient: I- after O or another type opens a span)",
    "strict": "strict (only well-formed spans count)",
}


def score(
    gold: list[str],
    gold_ids: np.ndarray,
    predicted: list[str],
    predicted_ids: np.ndarray,
    sentences: np.ndarray,
    strict: bool = False,
) -> SpanScore | None:
    """Compare two tag sequences, each (strings, ids); None if the tags are not span tags."""
    g = schemes.parse(gold)
    p = schemes.parse(predicted, g.types) if g else None
    if g is None or p is None:
        return None
    names = p.types
    if strict and schemes.detect(g, gold_ids, sentences).scheme == "iob1":
        strict = False  # every reading of IOB1 is well-formed, and this is the one
    in_gold = schemes.spans(g.prefix[gold_ids], g.type[gold_ids], sentences, strict).keys()
    in_pred = schemes.spans(
        p.prefix[predicted_ids], p.type[predicted_ids], sentences, strict
    ).keys()
    types = {name: Counts() for name in names}
    for _, _, k in in_gold:
        types[names[k]].gold += 1
    for _, _, k in in_pred:
        types[names[k]].predicted += 1
    for _, _, k in in_gold & in_pred:
        types[names[k]].correct += 1
    right = same_tag(gold, gold_ids, predicted, predicted_ids)
    found = SpanScore.of(CONVENTIONS["strict" if strict else "conlleval"], right, sentences, types)
    assert isinstance(found, SpanScore)
    return found
