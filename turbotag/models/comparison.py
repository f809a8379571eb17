"""Predictions compared with gold: the score, and the details behind it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from turbotag.corpus.reader import Block, Column
from turbotag.errors import DataError
from turbotag.metrics.attachment import Attachment
from turbotag.metrics.calibration import Calibration

Confusion = Counter[tuple[str | None, str | None]]


@dataclass
class Details:
    """What a page shows beside a score.

    confusion: how often a gold label met a predicted one, None where only one side has an item;
    calibration: of each kind of probability that is known; lengths: attachment by the length of
    sentences.
    """

    confusion: Confusion
    calibration: dict[str, Calibration] = field(default_factory=dict)
    lengths: dict[str, Attachment] = field(default_factory=dict)


class Comparison(Protocol):
    """Gold and predicted annotation of the same words, or of the same text."""

    @property
    def score(self) -> Any:
        """A score of the package metrics: it has as_dict, and `main`, the number to choose by."""

    def details(self) -> Details: ...


def confusion_of(gold: Column, predicted: Column, where: np.ndarray) -> Confusion:
    """How often two labels meet at the tokens `where`."""
    k = len(predicted.strings)
    codes = gold.ids[where].astype(np.int64) * k + predicted.ids[where]
    confusion: Confusion = Counter()
    for code, n in zip(*np.unique(codes, return_counts=True), strict=True):
        confusion[gold.strings[code // k], predicted.strings[code % k]] += int(n)
    return confusion


def probabilities_in(block: Block, column: int, name: str = "") -> np.ndarray:
    """(tokens,) probabilities from a column, or from NAME= in it if a name is given; nan where
    there is none."""
    if column >= len(block.format.columns):
        return np.full(block.n_tokens, np.nan)
    strings, ids = block.column(column)
    pattern = rf"(?:.*\|)?{name}=([01]\.\d+)(?:\|.*)?" if name else r"([01]\.\d+)"
    found = (re.fullmatch(pattern, s) for s in strings)
    return np.array([float(m[1]) if m else np.nan for m in found])[ids]


def all_known(p: np.ndarray) -> np.ndarray | None:
    return None if np.isnan(p).any() else p


def same_tokens(a: Block, b: Block) -> None:
    shared = min(a.n_sentences, b.n_sentences)
    differ = np.flatnonzero(a.sentences[1 : shared + 1] != b.sentences[1 : shared + 1])
    if a.format.columns and b.format.columns:
        at, to = a.format.index("word") or 0, b.format.index("word") or 0
        n = min(a.n_tokens, b.n_tokens)
        for t, (x, y) in enumerate(zip(a.strings(at)[:n], b.strings(to)[:n], strict=True)):
            if x != y:
                raise b.error(
                    f"has {y!r} where {a.path}, line {a.lines[t]} has {x!r}: not the same tokens", t
                )
    if differ.size or a.n_sentences != b.n_sentences:
        s = int(differ[0]) if differ.size else shared
        t = min(int(b.sentences[min(s, b.n_sentences - 1)]), b.n_tokens - 1)
        raise DataError(
            f"sentence {s + 1} differs in length from that of {a.path} "
            f"({a.n_sentences} and {b.n_sentences} sentences)",
            b.path,
            int(b.lines[t]),
        )
