"""Attachment scores of dependency trees, by the conventions of the field's scripts.

conllx   The CoNLL-X script (eval.pl, or eval07.pl with -p): a word is not counted if its form is
         one or more characters of the Unicode category P, nothing else. Symbols (`$`, `+`, `=`)
         are not punctuation and count; `_` is, so a missing form is not counted. Labels are
         compared whole.
conll18  conll18_ud_eval.py on the same words: all words count, so that precision, recall and F1 are
         one number; labels are compared up to the first ':'.
nopunct  As conll18, but words with UPOS PUNCT in the gold file are not counted.

In all conventions the modifier decides whether an arc counts, as the gold file has it: a wrong head
does not change the number of words, and a word attached to punctuation counts.
Sentences without a counted word do not count. The scripts have no exact match or root accuracy;
here a sentence matches if its counted words do, and its root is right if the counted words with
head 0 are the same, however many. Whether an arc is non-projective is told from the whole tree.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from turbotag.corpus.reader import Column
from turbotag.corpus.trees import crossing
from turbotag.metrics.tags import Counts

CONVENTIONS = {
    "nopunct": "nopunct (words with UPOS PUNCT not counted, labels without subtypes)",
    "conll18": "conll18 (all words counted, labels without subtypes)",
    "conllx": "conllx (words of punctuation characters not counted, labels whole)",
}
LENGTHS = {"root": 0, "1": 1, "2": 2, "3-6": 3, "7-10": 7, "11+": 11}  # the least of each bucket


@dataclass
class Attachment:
    """Numbers of words: all, those with the right head, and those with the right head and label
    (None without labels)."""

    tokens: int
    right_heads: int
    right_arcs: int | None

    @property
    def uas(self) -> float:
        return self.right_heads / max(1, self.tokens)

    @property
    def las(self) -> float | None:
        return _share(self.right_arcs, self.tokens)

    def as_dict(self) -> dict[str, object]:
        return {"tokens": self.tokens, "uas": self.uas, "las": self.las}


@dataclass
class ConventionScore(Attachment):
    """Everything that is counted by one convention.

    types: counts by label, where an arc is right if its head and its label are; lengths: arcs by
    the distance of word and gold head, those of the root apart.
    """

    convention: str
    right_labels: int | None
    sentences: int
    right_trees: int
    right_labelled_trees: int | None
    right_roots: int
    nonprojective: Counts
    types: dict[str, Counts]
    lengths: dict[str, Attachment]

    @property
    def label_accuracy(self) -> float | None:
        return _share(self.right_labels, self.tokens)

    @property
    def exact_match(self) -> float:
        return self.right_trees / max(1, self.sentences)

    @property
    def labelled_exact_match(self) -> float | None:
        return _share(self.right_labelled_trees, self.sentences)

    @property
    def root_accuracy(self) -> float:
        return self.right_roots / max(1, self.sentences)

    def as_dict(self) -> dict[str, object]:
        """The scores for JSON, without those by type and by length."""
        return {
            "convention": self.convention,
            **super().as_dict(),
            "label_accuracy": self.label_accuracy,
            "sentences": self.sentences,
            "exact_match": self.exact_match,
            "labelled_exact_match": self.labelled_exact_match,
            "root_accuracy": self.root_accuracy,
            "nonprojective": self.nonprojective.as_dict(),
        }


@dataclass
class AttachmentScore:
    """Scores by each convention (keys of CONVENTIONS); models are compared by the first."""

    conventions: dict[str, ConventionScore]

    @property
    def chosen(self) -> ConventionScore:
        """By nopunct, or by conll18 if there were no parts of speech."""
        return next(iter(self.conventions.values()))

    @property
    def convention(self) -> str:
        return self.chosen.convention

    @property
    def types(self) -> dict[str, Counts]:
        return self.chosen.types

    @property
    def measure(self) -> str:
        return "UAS" if self.chosen.las is None else "LAS"

    @property
    def main(self) -> float:
        """The one number that models are compared by."""
        las = self.chosen.las
        return self.chosen.uas if las is None else las

    def as_dict(self) -> dict[str, object]:
        return {
            "measure": self.measure,
            **self.chosen.as_dict(),
            "types": {t: c.as_dict() for t, c in sorted(self.types.items())},
            "lengths": {d: a.as_dict() for d, a in self.chosen.lengths.items()},
            "conventions": {name: c.as_dict() for name, c in self.conventions.items()},
        }


def score_trees(
    gold_heads: np.ndarray,
    predicted_heads: np.ndarray,
    sentences: np.ndarray,
    forms: list[str],
    upos: list[str] | None = None,
    gold_labels: Column | None = None,
    predicted_labels: Column | None = None,
) -> AttachmentScore:
    """Compare the trees of the same sentences: heads (tokens,), sentences (n + 1,) offsets.

    Without `upos` there is no score by nopunct; without labels on both sides, none of labels.
    """
    if not gold_heads.size == predicted_heads.size == len(forms) == sentences[-1]:
        raise ValueError("heads, forms and sentences differ in their number of tokens")
    heads = _Heads(gold_heads, predicted_heads, sentences)
    whole = _shared(gold_labels, predicted_labels, subtypes=True)
    cut = _shared(gold_labels, predicted_labels, subtypes=False)
    everything = np.ones(len(forms), np.bool_)
    counted = {"conll18": (everything, cut), "conllx": (~_punctuation(forms), whole)}
    if upos is not None:
        counted["nopunct"] = (np.array([tag != "PUNCT" for tag in upos], np.bool_), cut)
    return AttachmentScore({c: heads.score(c, *counted[c]) for c in CONVENTIONS if c in counted})


def _share(right: int | None, n: int) -> float | None:
    return None if right is None else right / max(1, n)


def _punctuation(forms: list[str]) -> np.ndarray:
    """(tokens,) bool: the form is of punctuation characters only."""
    known = {
        form: form != "" and all(unicodedata.category(c)[0] == "P" for c in form)
        for form in set(forms)
    }
    return np.array([known[form] for form in forms], np.bool_)


@dataclass
class _Common:
    """Gold and predicted labels (tokens,) as numbers of the same names."""

    names: list[str]
    gold: np.ndarray
    predicted: np.ndarray


def _shared(gold: Column | None, predicted: Column | None, subtypes: bool) -> _Common | None:
    if gold is None or predicted is None:
        return None
    number: dict[str, int] = {}

    def renumber(labels: Column) -> np.ndarray:
        names = (s if subtypes else s.split(":")[0] for s in labels.strings)
        return np.array([number.setdefault(s, len(number)) for s in names], np.int64)[labels.ids]

    ids = renumber(gold), renumber(predicted)
    return _Common(list(number), *ids)


class _Heads:
    """Gold and predicted heads, compared once for all conventions."""

    def __init__(self, gold: np.ndarray, predicted: np.ndarray, sentences: np.ndarray):
        self.n = sentences.size - 1
        self.sentence = np.repeat(np.arange(self.n), np.diff(sentences))
        self.right = gold == predicted
        self.right_root = (gold == 0) == (predicted == 0)
        self.crossing = crossing(gold, sentences), crossing(predicted, sentences)
        word = np.arange(gold.size) - sentences[self.sentence] + 1
        length = np.where(gold == 0, 0, abs(gold - word))
        self.bucket = np.searchsorted(list(LENGTHS.values()), length, side="right") - 1

    def score(self, name: str, counted: np.ndarray, labels: _Common | None) -> ConventionScore:
        in_gold, in_predicted = self.crossing
        same = arcs = None  # label right; label and head right
        if labels is not None:
            same = labels.gold == labels.predicted
            arcs = same & self.right

        def attachment(where: np.ndarray) -> tuple[int, int, int | None]:
            return int(where.sum()), int((where & self.right).sum()), _total(arcs, where)

        return ConventionScore(
            *attachment(counted),
            convention=CONVENTIONS[name],
            right_labels=_total(same, counted),
            sentences=np.unique(self.sentence[counted]).size,
            right_trees=self._whole(self.right, counted),
            right_labelled_trees=None if arcs is None else self._whole(arcs, counted),
            right_roots=self._whole(self.right_root, counted),
            nonprojective=Counts(
                int((counted & in_gold).sum()),
                int((counted & in_predicted).sum()),
                int((counted & in_gold & in_predicted & self.right).sum()),
            ),
            types={} if labels is None else _types(labels, counted, self.right),
            lengths={
                length: Attachment(*attachment(counted & (self.bucket == k)))
                for k, length in enumerate(LENGTHS)
            },
        )

    def _whole(self, right: np.ndarray, counted: np.ndarray) -> int:
        """Sentences with counted words, all of them right."""
        words = np.bincount(self.sentence[counted], minlength=self.n)
        good = np.bincount(self.sentence[counted & right], minlength=self.n)
        return int(((words > 0) & (words == good)).sum())


def _total(right: np.ndarray | None, where: np.ndarray) -> int | None:
    return None if right is None else int((right & where).sum())


def _types(labels: _Common, counted: np.ndarray, right_head: np.ndarray) -> dict[str, Counts]:
    """Labelled arcs by label: an arc is right if its head and its label are."""
    n = len(labels.names)
    right = counted & right_head & (labels.gold == labels.predicted)
    counts = zip(
        np.bincount(labels.gold[counted], minlength=n).tolist(),
        np.bincount(labels.predicted[counted], minlength=n).tolist(),
        np.bincount(labels.gold[right], minlength=n).tolist(),
        strict=True,
    )
    return {s: Counts(*c) for s, c in zip(labels.names, counts, strict=True) if c[0] or c[1]}
