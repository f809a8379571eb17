"""What a parser is made of: tables of weights, each with what it decides.

They are made from the packed arrays of a stage (features/compact), in training as soon as the stage
is trained, and from the file when a parser is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from turbotag.corpus.hashing import KeyTable, hash_strings
from turbotag.features import compact
from turbotag.features.arcs import SUPER
from turbotag.features.weights import WeightTable
from turbotag.models.scanner import Scanner
from turbotag.structures import pruning

PACKED = ("counts", "lows", "weights", "scales")  # arrays of a stage (features/compact)
Candidates = tuple[np.ndarray, np.ndarray]  # (cuts, heads): see structures/pruning


def unpacked(
    arrays: dict[str, np.ndarray], stage: str, classes: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(folded keys, float32 weights) of a stage, whose arrays are STAGE.counts and so on; else
    ValueError. classes: how many weights a row has, 0 if it is one number."""
    keys, weights = compact.unpack(*(arrays[f"{stage}.{name}"] for name in PACKED))
    shape = (keys.size, classes) if classes else (keys.size,)
    if weights.shape != shape:
        raise ValueError(f"{stage} weights are {weights.shape}, expected {shape}")
    return keys, weights


class Classifier(NamedTuple):
    """Classes of words: each has the sum of its features' rows, (rows, classes), as scores."""

    table: KeyTable
    weights: np.ndarray

    def scores(self, keys: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """(words, classes); the features of word t are keys[ends[t-1]:ends[t]]."""
        out = np.zeros((ends.size, self.weights.shape[1]), np.float32)
        _add_rows(self.table.lookup(compact.fold(keys)), ends, self.weights, out)
        return out


def classifier(arrays: dict[str, np.ndarray], stage: str, classes: list[str]) -> Classifier:
    """The classifier that the arrays of a stage hold."""
    keys, weights = unpacked(arrays, stage, len(classes))
    return Classifier(KeyTable.of(keys), weights)


@dataclass(frozen=True)
class Supertagger:
    """Gives each word a guess of its label and of the side of its head; values: (classes,) hashes
    of the supertags, as templates see them."""

    classifier: Classifier
    values: np.ndarray

    def scores(self, matrix: np.ndarray, scanner: Scanner) -> np.ndarray:
        """(n, supertags) scores of the words of a sentence."""
        return self.classifier.scores(*scanner.supertag_keys(matrix))

    def fill(self, matrix: np.ndarray, sentences: np.ndarray, scanner: Scanner) -> None:
        """Write the best supertags of all words where the templates look for them."""
        if SUPER not in scanner.words.at:
            return
        cuts = sentences.tolist()
        for a, b in zip(cuts, cuts[1:], strict=False):
            best = self.scores(matrix[a:b], scanner).argmax(axis=1)
            scanner.put_supertags(matrix[a:b], self.values[best])


def supertagger(arrays: dict[str, np.ndarray], names: list[str]) -> Supertagger:
    return Supertagger(classifier(arrays, "super", names), hash_strings(names))


@dataclass(frozen=True)
class Pruner:
    """Leaves each word a few heads; kept: how many at most, and how improbable they may be beside
    the best. Without a table it leaves all."""

    decoder: str
    single_root: bool
    kept: tuple[int, float]
    table: WeightTable | None = None

    def candidates(self, matrix: np.ndarray, scanner: Scanner) -> Candidates:
        """The arcs that may be used in a sentence."""
        cuts, heads = pruning.full(matrix.shape[0])
        if self.table is None:
            return cuts, heads
        theta = self.table.sums(*scanner.stage["prune"].keys(matrix, cuts, heads))
        return pruning.prune(theta, self.decoder, self.single_root, *self.kept)


def kept_heads(second_order: bool, asked: int | None) -> tuple[int, float]:
    """How many heads a word keeps, and how improbable they may be beside the best."""
    usual, ratio = pruning.NARROW if second_order else pruning.WIDE
    return asked or usual, ratio


@njit(cache=True, nogil=True)
def _add_rows(rows, ends, weights, out):
    o = 0
    for t in range(ends.size):
        to = out[t]
        while o < ends[t]:
            if rows[o] >= 0:
                row = weights[rows[o]]
                for k in range(to.size):
                    to[k] += row[k]
            o += 1
