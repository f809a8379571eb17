"""Sparse rows with their weights, as models with many labels keep and store them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.features import compact
from turbotag.models.tagger_file import check_weights
from turbotag.models.tasks import coder_named
from turbotag.storage.checks import expect
from turbotag.storage.tensors import Entries
from turbotag.structures.sparse_rows import SparseRows

MOST_LABELS = 1 << 16


@dataclass(frozen=True)
class Cells:
    """Sparse rows and their weights, float32."""

    rows: SparseRows
    weights: np.ndarray

    def of_rows(self, chosen: np.ndarray, least: float) -> Cells:
        """Some rows, in this order, without the weights of size `least` or less."""
        first, labels = self.rows
        counts = np.diff(first)[chosen]
        at = np.repeat(first[chosen] - np.append(0, np.cumsum(counts)[:-1]), counts)
        at += np.arange(at.size)
        kept = np.abs(self.weights[at]) > least
        ends = np.append(0, np.cumsum(kept))[np.append(0, np.cumsum(counts))]
        return Cells(SparseRows(ends, labels[at[kept]]), self.weights[at[kept]])

    def largest(self) -> np.ndarray:
        """(rows,) the size of the largest weight of each row."""
        first, _ = self.rows
        out = np.zeros(first.size - 1, np.float32)
        full = np.diff(first) > 0
        if full.any():
            out[full] = np.maximum.reduceat(np.abs(self.weights), first[:-1][full])
        return out

    def arrays(self, name: str, small: bool) -> dict[str, np.ndarray]:
        """As they are stored; small: eight bits a weight."""
        return {
            f"{name}.counts": np.diff(self.rows.first).astype(np.uint16),
            f"{name}.labels": self.rows.labels.astype(np.uint16),
            **stored(f"{name}.weights", self.weights, small),
        }

    @classmethod
    def of(cls, name: str, arrays: dict[str, np.ndarray], n_rows: int, K: int) -> Cells:
        """From a file; ValueError if they are not from `arrays`."""
        counts, labels = arrays[f"{name}.counts"], arrays[f"{name}.labels"].astype(np.int32)
        first = np.append(0, np.cumsum(counts, dtype=np.int64))
        weights = restored(f"{name}.weights", arrays)
        if counts.size != n_rows or first[-1] != labels.size or labels.max(initial=0) >= K:
            raise ValueError(f"the cells of {name} do not fit its rows")
        inner = np.ones(labels.size, bool)
        inner[first[:-1][counts > 0]] = False
        if (np.diff(labels, prepend=0)[inner] <= 0).any():
            raise ValueError(f"the labels of {name} are not in order")
        return cls(SparseRows(first, labels), weights)


def rounded(cells: Cells) -> Cells:
    """The cells with their weights rounded to eight bits."""
    return Cells(cells.rows, compact.dequantize(*compact.quantize(cells.weights)))


def stored(name: str, weights: np.ndarray, small: bool) -> dict[str, np.ndarray]:
    """A vector of weights as it is stored."""
    if not small:
        return {name: weights}
    q, scales = compact.quantize(weights)
    return {name: q, f"{name}.scale": scales}


def restored(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The inverse of `stored`."""
    weights = arrays[name]
    if f"{name}.scale" in arrays:
        weights = compact.dequantize(weights, arrays[f"{name}.scale"])
    check_weights(weights)
    return weights


def list_arrays(header: dict[str, Any], entries: Entries) -> tuple[int, list[str]]:
    """(number of rows, the arrays of weights) of a file; ValueError if they are not those of a
    model with lists."""
    by, small = header["lists"]["by"], bool(header.get("compact"))
    coder = coder_named(by)
    if not (coder or by == "weights") or len(header["labels"]) > MOST_LABELS:
        raise ValueError(f"lists by {by!r:.20} of {len(header['labels'])} labels")
    if small:
        n = expect(entries, "lows", "uint16", (None,))
        expect(entries, "counts", "uint8 uint16", (compact.HIGHS,))
        found = ["counts", "lows"]
    else:
        n = expect(entries, "keys", "uint64", (None,))
        found = ["keys"]
    for name in ("fine", *([] if coder else ["coarse"])):
        expect(entries, f"{name}.counts", "uint16", (n,))
        m = expect(entries, f"{name}.labels", "uint16", (None,))
        found += [f"{name}.counts", f"{name}.labels"]
        found += _vector(entries, f"{name}.weights", m, small)
    if coder:
        found += coder.expected(entries)
    if header["order"]:
        found += _vector(entries, "pairs", None, small)
    return n, found


def _vector(entries: Entries, name: str, size: int | None, small: bool) -> list[str]:
    expect(entries, name, "int8" if small else "float32", (size,))
    if not small:
        return [name]
    expect(entries, f"{name}.scale", "float32", (1,))
    return [name, f"{name}.scale"]
