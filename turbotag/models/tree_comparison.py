"""Trees beside gold ones: of two files, or of a parser and a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block, Column, Source, read
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError
from turbotag.metrics.attachment import Attachment, AttachmentScore
from turbotag.metrics.calibration import calibrate
from turbotag.metrics.tags import same_tag
from turbotag.models.comparison import (
    Confusion,
    Details,
    all_known,
    confusion_of,
    probabilities_in,
    same_tokens,
)
from turbotag.models.gold import score_block, words_of

if TYPE_CHECKING:
    from turbotag.models.parser import Parser

LENGTHS = {"1-10": 1, "11-20": 11, "21-30": 21, "31-40": 31, "41+": 41}  # of sentences, as words


@dataclass
class Trees:
    """Trees of a gold file and predicted ones: heads (tokens,), labels if there are any, and the
    probabilities that heads and labels are right, if known."""

    gold: Block
    heads: np.ndarray
    labels: Column | None
    head_probability: np.ndarray | None = None
    label_probability: np.ndarray | None = None

    @cached_property
    def score(self) -> AttachmentScore:
        return score_block(self.gold, self.heads, self.labels)

    def details(self) -> Details:
        """Confusions of labels at right heads, calibration, and attachment by length of sentence,
        for the words and labels that the first convention of the score counts."""
        gold, upos = self.gold, words_of(self.gold)[1]
        counted = np.array([tag != "PUNCT" for tag in upos or ["_"] * gold.n_tokens], np.bool_)
        right, arcs = counted & (self.heads == read_heads(gold)), None
        confusion: Confusion = Counter()
        calibration = {}
        if self.head_probability is not None:
            calibration["heads"] = calibrate(self.head_probability[counted], right[counted])
        if self.labels is not None:
            whole = gold.column(Conll.DEPREL), self.labels
            cut, other = (Column([s.split(":")[0] for s in of.strings], of.ids) for of in whole)
            confusion = confusion_of(cut, other, right)
            arcs = right & same_tag(cut, other)
            if self.head_probability is not None and self.label_probability is not None:
                same = same_tag(*whole)[counted]
                p, q = self.head_probability[counted], self.label_probability[counted]
                calibration["labels, with subtypes"] = calibrate(q, same)
                # Head and label are mostly wrong together: the smaller probability stands for both.
                both = calibrate(np.minimum(p, q), right[counted] & same)
                calibration["heads and labels, by the less probable of the two"] = both
        return Details(confusion, calibration, self._lengths(counted, right, arcs))

    def _lengths(
        self, counted: np.ndarray, right: np.ndarray, arcs: np.ndarray | None
    ) -> dict[str, Attachment]:
        words = np.diff(self.gold.sentences)
        bucket = np.searchsorted(list(LENGTHS.values()), np.repeat(words, words), side="right") - 1
        out = {}
        for k, name in enumerate(LENGTHS):
            here = counted & (bucket == k)
            labelled = None if arcs is None else int((here & arcs).sum())
            out[name] = Attachment(int(here.sum()), int((here & right).sum()), labelled)
        return out


def evaluate_trees(
    gold_path: Source, predicted: Source | Parser, format: str | None = None
) -> AttachmentScore:
    """Compare the trees of a gold file with those of another file or of a parser."""
    if isinstance(predicted, str | bytes):
        return compare_tree_files(gold_path, predicted, format).score
    return compare_parser(predicted, gold_path, format).score


def read_gold_trees(path: Source, format: str | None = None) -> Block:
    """A file with trees; their heads are checked when they are read."""
    block = read(path, format)
    if not block.format.ids:
        raise DataError(f"is {block.format.name}; trees are in CoNLL-U or CoNLL-X", block.path)
    return block


def compare_parser(
    parser: Parser, gold_path: Source, format: str | None = None, probabilities: bool = False
) -> Trees:
    """The trees of a gold file and those of a parser."""
    gold = read_gold_trees(gold_path, format)
    parsed = parser.parse(gold, probabilities=probabilities)
    if not parser.labelled:
        return Trees(gold, parsed.heads, None, parsed.head_probability)
    labels = Column(parser.labels, parsed.labels)
    return Trees(gold, parsed.heads, labels, parsed.head_probability, parsed.label_probability)


def compare_tree_files(gold_path: Source, predicted: Source, format: str | None = None) -> Trees:
    """The trees of two files with the same sentences."""
    gold, other = (read_gold_trees(path, format) for path in (gold_path, predicted))
    same_tokens(gold, other)
    return compare_tree_blocks(gold, other)


def compare_tree_blocks(gold: Block, other: Block) -> Trees:
    """Trees of the same sentences, with the probabilities that `predict --marginals` wrote."""
    labels = other.column(Conll.DEPREL)
    if other.format.name == "conllx":
        head, label = (probabilities_in(other, column) for column in (Conll.PHEAD, Conll.PDEPREL))
    else:
        head, label = (
            probabilities_in(other, Conll.MISC, name) for name in ("HeadProb", "LabelProb")
        )
    return Trees(
        gold,
        read_heads(other),
        None if labels.strings == ["_"] else labels,
        all_known(head),
        all_known(label),
    )
