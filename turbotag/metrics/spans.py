"""Precision, recall and F1 of spans (chunks, entities), by conlleval's convention or strictly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turbotag.corpus import schemes
from turbotag.metrics.tags import Counts, same_tag


@dataclass
class SpanScore:
    """A score with the convention it was counted by."""

    convention: str
    total: Counts
    types: dict[str, Counts]
    tokens: int
    right_tokens: int
    sentences: int = 0
    right_sentences: int = 0

    @property
    def accuracy(self) -> float:
        return self.right_tokens / self.tokens if self.tokens else 0.0

    @property
    def main(self) -> float:
        return self.total.f1

    def as_dict(self) -> dict[str, object]:
        return {
            "measure": "span F1",
            "convention": self.convention,
            "tokens": self.tokens,
            "token_accuracy": self.accuracy,
            "sentences": self.sentences,
            "sentence_accuracy": self.right_sentences / max(1, self.sentences),
            **self.total.as_dict(),
            "types": {t: c.as_dict() for t, c in sorted(self.types.items())},
        }


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
    total = Counts(len(in_gold), len(in_pred), len(in_gold & in_pred))
    right = same_tag(gold, gold_ids, predicted, predicted_ids)
    return SpanScore(
        CONVENTIONS["strict" if strict else "conlleval"],
        total,
        types,
        right.size,
        int(right.sum()),
        sentences.size - 1,
        int(np.logical_and.reduceat(right, sentences[:-1]).sum()),
    )
