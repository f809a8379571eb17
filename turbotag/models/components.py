"""The parts of a parser: tables of weights, each with what it decides.

They are made from the packed arrays of a stage (features/compact): in training as soon as the stage
is trained, and from the file when a parser is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from turbotag.corpus.hashing import hash_strings
from turbotag.features import compact
from turbotag.features.arc_kernels import arc_scores, class_scores
from turbotag.features.arcs import SECOND, SUPER, ArcExtractor
from turbotag.features.indexing import best_two
from turbotag.features.weights import RowTable, SmallRows, WeightTable
from turbotag.models.scanner import Scanner
from turbotag.structures import pruning

PACKED = ("counts", "lows", "weights", "scales")  # arrays of a stage (features/compact)
Candidates = tuple[np.ndarray, np.ndarray]  # (cuts, heads): see structures/pruning


def unpacked(
    arrays: dict[str, np.ndarray], stage: str, classes: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(folded keys, float32 weights) of a stage, whose arrays are called STAGE.counts and so on;
    ValueError if they do not fit together. classes: the number of weights of a row, 0 for a single
    number."""
    keys, weights = compact.unpack(*(arrays[f"{stage}.{name}"] for name in PACKED))
    shape = (keys.size, classes) if classes else (keys.size,)
    if weights.shape != shape:
        raise ValueError(f"{stage} weights are {weights.shape}, expected {shape}")
    return keys, weights


def weight_table(arrays: dict[str, np.ndarray], stage: str) -> WeightTable:
    """The table of a stage that scores arcs; ValueError if its arrays do not fit together."""
    counts, lows, weights, scales = (arrays[f"{stage}.{name}"] for name in PACKED)
    if weights.shape != lows.shape:
        raise ValueError(f"{stage} weights are {weights.shape}, expected {lows.shape}")
    return WeightTable(compact.unpack_keys(counts, lows), weights, scales)


class Classifier(NamedTuple):
    """Decides between classes of words: the scores of a word are the sum of the rows, (rows,
    classes), of its features. Weights have eight bits, w = s q|q| / 127^2 (features/compact)."""

    table: RowTable
    rows: SmallRows

    def scores(
        self,
        matrix: np.ndarray,
        sentences: np.ndarray,
        extractor: ArcExtractor,
        tree: np.ndarray | None = None,
    ) -> np.ndarray:
        """(words, classes) for the words of a block and their arcs; without trees, the arcs come
        from the root."""
        heads = np.zeros(matrix.shape[0], np.int32) if tree is None else tree
        where = matrix, sentences, heads, tree is not None, extractor.data
        found: np.ndarray = class_scores(*where, *self.table.data, *self.rows)
        return found

    def row(self, r: int) -> np.ndarray:
        """(classes,) the weights of a feature."""
        return compact.dequantize(*(x[r : r + 1] for x in self.rows))[0]


def classifier(arrays: dict[str, np.ndarray], stage: str, classes: list[str]) -> Classifier:
    """The classifier that the arrays of a stage hold; ValueError if they do not fit together."""
    counts, lows, weights, scales = (arrays[f"{stage}.{name}"] for name in PACKED)
    table = RowTable(compact.unpack_keys(counts, lows))
    if weights.shape != (lows.size, len(classes)):
        raise ValueError(f"{stage} weights are {weights.shape}")
    compact.check_scales(weights, scales)
    return Classifier(table, SmallRows(weights, scales))


@dataclass(frozen=True)
class Supertagger:
    """Guesses the label of each word and the side of its head. values: (classes,) hashes of the
    supertags, as templates see them."""

    classifier: Classifier
    values: np.ndarray

    def scores(
        self, matrix: np.ndarray, scanner: Scanner, sentences: np.ndarray | None = None
    ) -> np.ndarray:
        """(words, supertags) scores of a block; without `sentences` it is one sentence."""
        cuts = one_sentence(matrix) if sentences is None else sentences
        return self.classifier.scores(matrix, cuts, scanner.stage["super"])

    def fill(self, matrix: np.ndarray, sentences: np.ndarray, scanner: Scanner) -> None:
        """Write the best supertags of all words where the templates look for them."""
        if {SUPER, SECOND} & set(scanner.words.at) and matrix.shape[0]:
            found = np.empty((matrix.shape[0], 2), np.int32)
            best_two(self.scores(matrix, scanner, sentences), found)
            scanner.put_supertags(matrix, self.values, found)


def supertagger(arrays: dict[str, np.ndarray], names: list[str]) -> Supertagger:
    return Supertagger(classifier(arrays, "super", names), hash_strings(names))


def one_sentence(matrix: np.ndarray) -> np.ndarray:
    """The offsets of the sentences of words that are all of one sentence."""
    return np.array([0, matrix.shape[0]])


@dataclass(frozen=True)
class Pruner:
    """Leaves each word a few heads. kept: how many at most, and how improbable they may be relative
    to the best. Without a table it leaves all heads."""

    decoder: str
    single_root: bool
    kept: tuple[int, float]
    table: WeightTable | None = None

    def candidates(
        self, matrix: np.ndarray, scanner: Scanner, sentences: np.ndarray | None = None
    ) -> Candidates:
        """The arcs that may be used in the sentences of a block; without `sentences` it is one."""
        own = one_sentence(matrix) if sentences is None else sentences
        cuts, heads = pruning.every(own)
        if self.table is None:
            return cuts, heads
        extractor = scanner.stage["prune"]
        theta = arc_scores(matrix, own, cuts, heads, extractor.data, self.table.data)
        scores = pruning.squares(theta, cuts, heads, own)
        return pruning.prune(scores, own, self.decoder, self.single_root, self.kept)


def kept_heads(second_order: bool, asked: int | None, training: bool = False) -> tuple[int, float]:
    """How many heads a word keeps, and how improbable they may be relative to the best."""
    usual, ratio = pruning.NARROW if second_order else pruning.WIDE
    return asked or usual, ratio if training else pruning.CHOOSE
