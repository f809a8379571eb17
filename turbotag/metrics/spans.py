"""Precision, recall and F1 of spans (chunks, entities), by conlleval's convention or strictly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.reader import Column
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


CONLLEVAL = "conlleval (lenient: I- after O or another type opens a span)"


@dataclass
class Compared:
    """Spans of the same tokens, with the names of their types and the convention of reading."""

    gold: schemes.Spans
    predicted: schemes.Spans
    types: list[str]
    convention: str


def compare(
    gold: Column, predicted: Column, sentences: np.ndarray, strict: bool = False
) -> Compared | None:
    """The spans of two columns of tags; None if the tags are not span tags.

    With `strict` a span counts only if all its tags fit the scheme of the gold tags. Predicted tags
    may also be IOBES, which is known by its letters, or IOB2 where the gold tags are IOBES.
    """
    g = schemes.parse(gold.strings)
    p = schemes.parse(predicted.strings, g.types) if g else None
    if g is None or p is None:
        return None
    in_gold = schemes.spans(g.prefix[gold.ids], g.type[gold.ids], sentences)
    in_predicted = schemes.spans(p.prefix[predicted.ids], p.type[predicted.ids], sentences)
    if not strict:
        return Compared(in_gold, in_predicted, p.types, CONLLEVAL)
    rules = schemes.detect(g, gold.ids, sentences)
    among = ("iobes", "iob2" if rules.scheme == "iobes" else rules.scheme)
    followed = schemes.detect(p, predicted.ids, sentences, among)
    return Compared(
        in_gold.without(rules.irregular),
        in_predicted.without(followed.irregular),
        p.types,
        _strict(rules, followed),
    )


def _strict(gold: schemes.Detected, predicted: schemes.Detected) -> str:
    """The convention in words: which scheme, and how many tags are not of it."""
    either = " or ".join(dict.fromkeys(d.scheme.upper() for d in (gold, predicted)))
    unfit = (
        f"; tags that do not fit: {gold.irregular.size} gold, {predicted.irregular.size} predicted"
        if gold.irregular.size or predicted.irregular.size
        else ""
    )
    return f"strict (only well-formed {either} spans count{unfit})"


def score(
    gold: Column, predicted: Column, sentences: np.ndarray, strict: bool = False
) -> SpanScore | None:
    """Compare two columns of tags; None if the tags are not span tags."""
    compared = compare(gold, predicted, sentences, strict)
    if compared is None:
        return None
    in_gold, in_predicted = compared.gold.keys(), compared.predicted.keys()
    counts = [Counts() for _ in compared.types]
    for _, _, k in in_gold:
        counts[k].gold += 1
    for _, _, k in in_predicted:
        counts[k].predicted += 1
    for _, _, k in in_gold & in_predicted:
        counts[k].correct += 1
    types = dict(zip(compared.types, counts, strict=True))
    found = SpanScore.of(compared.convention, same_tag(gold, predicted), sentences, types)
    assert isinstance(found, SpanScore)
    return found
