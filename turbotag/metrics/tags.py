"""Accuracy of plain tags, and the counts that every score is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from turbotag.corpus.reader import Column

MOST_TYPES = 300  # values of tags: a table of more, such as lemmas, tells nothing
_ATTRIBUTES = re.compile(r"[^=|]+=[^=|]+(\|[^=|]+=[^=|]+)*")


@dataclass
class Counts:
    """Gold, predicted and common items."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        p, r = self.precision, self.recall
        return 2 * p * r / (p + r) if p + r else 0.0

    @property
    def percentages(self) -> tuple[float, float, float]:
        """Precision, recall and F1 by the arithmetic of conlleval.pl, so that they print alike:
        where the third decimal is a 5, another order of operations may round to the other side."""
        p = 100 * self.correct / self.predicted if self.predicted else 0.0
        r = 100 * self.correct / self.gold if self.gold else 0.0
        return p, r, 2 * p * r / (p + r) if p + r else 0.0

    def as_dict(self) -> dict[str, float]:
        return {
            "gold": self.gold,
            "predicted": self.predicted,
            "correct": self.correct,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }


@dataclass
class TagScore:
    """Accuracy of tags, with the convention it was counted by and counts for each type.

    docstarts: -DOCSTART- lines beside the tokens, which conlleval counts as tokens.
    """

    convention: str
    tokens: int
    right_tokens: int
    sentences: int
    right_sentences: int
    types: dict[str, Counts]
    docstarts: int = 0

    @classmethod
    def of(
        cls, convention: str, right: np.ndarray, sentences: np.ndarray, types: dict[str, Counts]
    ) -> TagScore:
        """right: (tokens,) bool; sentences: (n + 1,) offsets of its sentences."""
        whole = int(np.logical_and.reduceat(right, sentences[:-1]).sum())
        return cls(convention, right.size, int(right.sum()), sentences.size - 1, whole, types)

    @property
    def accuracy(self) -> float:
        return self.right_tokens / max(1, self.tokens)

    @property
    def sentence_accuracy(self) -> float:
        return self.right_sentences / max(1, self.sentences)

    @property
    def main(self) -> float:
        """The one number that models are compared by."""
        return self.accuracy

    measure = "accuracy"

    def as_dict(self) -> dict[str, object]:
        return {
            "measure": self.measure,
            "convention": self.convention,
            "tokens": self.tokens,
            "right_tokens": self.right_tokens,
            "accuracy": self.accuracy,
            "sentences": self.sentences,
            "sentence_accuracy": self.sentence_accuracy,
            "docstarts": self.docstarts,
            "types": {t: c.as_dict() for t, c in sorted(self.types.items())},
        }


def same_tag(gold: Column, predicted: Column) -> np.ndarray:
    """(tokens,) bool: the predicted string is the gold one."""
    at = {s: n for n, s in enumerate(gold.strings)}
    return np.array([at.get(s, -1) for s in predicted.strings])[predicted.ids] == gold.ids


def _attributes(tags: list[str]) -> list[dict[str, str]]:
    return [
        {name: value for name, _, value in (a.partition("=") for a in tag.split("|")) if value}
        for tag in tags
    ]


def _by_attribute(gold: Column, predicted: Column) -> dict[str, Counts]:
    """How often a word has an attribute, in gold, predicted, and with the same value in both."""
    sides = _attributes(gold.strings), _attributes(predicted.strings)
    types: dict[str, Counts] = {}
    codes = gold.ids.astype(np.int64) * len(sides[1]) + predicted.ids
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        ours, theirs = sides[0][code // len(sides[1])], sides[1][code % len(sides[1])]
        for name in ours.keys() | theirs.keys():
            counts = types.setdefault(name, Counts())
            counts.gold += int(count) * (name in ours)
            counts.predicted += int(count) * (name in theirs)
            counts.correct += int(count) * (ours.get(name) == theirs.get(name))
    return types


def score_tags(gold: Column, predicted: Column, sentences: np.ndarray) -> TagScore:
    """Accuracy over all tokens, and counts of each tag.

    Tags that are attributes, such as Case=Nom|Number=Sing, are counted by attribute. Columns with
    more than MOST_TYPES values have no counts.
    """
    right = same_tag(gold, predicted)
    if any(map(_ATTRIBUTES.fullmatch, gold.strings)) and all(
        value == "_" or _ATTRIBUTES.fullmatch(value) for value in gold.strings
    ):
        types = _by_attribute(gold, predicted)
        return TagScore.of("all tokens; attributes with their values", right, sentences, types)
    types = {}
    if len({*gold.strings, *predicted.strings}) > MOST_TYPES:
        return TagScore.of("all tokens", right, sentences, types)
    for n, count in zip(*np.unique(gold.ids, return_counts=True), strict=True):
        types.setdefault(gold.strings[n], Counts()).gold = int(count)
    for n, count in zip(*np.unique(predicted.ids, return_counts=True), strict=True):
        types.setdefault(predicted.strings[n], Counts()).predicted = int(count)
    for n, count in zip(*np.unique(gold.ids[right], return_counts=True), strict=True):
        types[gold.strings[n]].correct = int(count)
    return TagScore.of("all tokens", right, sentences, types)
