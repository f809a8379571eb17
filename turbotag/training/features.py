"""The features of training data: a row for each, and where they occur."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block
from turbotag.features import compact
from turbotag.features.extract import Extractor
from turbotag.structures import sparse


@dataclass
class Features:
    """Training features: the keys of the rows, occurrences sorted for the optimizer, names."""

    keys: np.ndarray
    occurrences: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    origins: np.ndarray


def index_features(block: Block, extractor: Extractor, folded: bool = False) -> Features:
    """Give every feature of the training data a row. folded: features that a compact model cannot
    tell apart share a row."""
    found = extractor.occurrences(block)
    table = KeyTable(1 << 16)
    keys = np.maximum(compact.fold(found.keys), np.uint64(1)) if folded else found.keys
    rows, first = table.insert(keys)
    origins = extractor.origins(found.token[first], found.which[first], found.ids, block.sentences)
    ends = np.searchsorted(found.token, block.sentences)
    start_of = np.repeat(block.sentences[:-1], np.diff(ends))
    positions = (found.token - start_of).astype(np.int32)
    values = found.values
    sparse.sort_occurrences(ends, rows, positions, values)
    return Features(table.keys(), (ends, rows, positions, values), origins)
