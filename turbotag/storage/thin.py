"""Matrices of eight-bit numbers, mostly 0: only the others are stored, in two bytes each.

Weights of eight bits, of which few in a row are not 0, take a third of their room in a file in this
way. In memory they are whole matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.storage.tensors import Entries, Entry

MOST_COLUMNS = 1 << 8
# The parts that a matrix is stored in: how many numbers each row has, their columns, the numbers.
PARTS = ("counts", "columns", "values")
Arrays = dict[str, np.ndarray]


def _names(name: str) -> tuple[str, ...]:
    return tuple(f"{name}/{part}" for part in PARTS)


def thinned(arrays: Arrays) -> tuple[Arrays, dict[str, int]]:
    """(arrays, where parts replace each matrix that gets smaller by that; the number of columns of
    each such matrix, by name)."""
    out: Arrays = {}
    widths: dict[str, int] = {}
    for name, array in arrays.items():
        parts = _parts(array)
        if parts is None:
            out[name] = array
        else:
            out |= zip(_names(name), parts, strict=True)
            widths[name] = array.shape[1]
    return out, widths


def _parts(array: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The parts of a matrix; None if they are not smaller than the matrix."""
    if array.dtype != np.int8 or array.ndim != 2 or array.shape[1] >= MOST_COLUMNS:
        return None
    kept = array != 0
    if 2 * np.count_nonzero(kept) + len(array) >= array.size:
        return None
    rows, columns = np.nonzero(kept)
    counts = np.bincount(rows, minlength=len(array))
    return counts.astype(np.uint8), columns.astype(np.uint8), array[rows, columns]


def whole_entries(entries: Entries, widths: dict[str, Any]) -> Entries:
    """The entries of a file, with matrices in place of their parts; ValueError if the parts of a
    matrix do not fit together."""
    out = dict(entries)
    for name, width in widths.items():
        if type(width) is not int or not 0 < width < MOST_COLUMNS or name in entries:
            raise ValueError(f"{name!r:.60} has {width!r:.20} columns")
        counts, columns, values = (out.pop(part) for part in _names(name))
        same = columns.shape == values.shape and counts.dtype == columns.dtype == np.uint8
        if not same or values.dtype != np.int8 or len(counts.shape) != 1 or len(values.shape) != 1:
            raise ValueError(f"the parts of {name!r:.60} do not fit together")
        out[name] = Entry(values.dtype, (counts.shape[0], width), counts.begin)
    return out


def stored_names(name: str, widths: dict[str, int]) -> tuple[str, ...]:
    """The arrays of a file that one array is read from."""
    return _names(name) if name in widths else (name,)


def whole(name: str, arrays: Arrays, widths: dict[str, int]) -> np.ndarray:
    """An array from the arrays that it was stored in; ValueError if they do not fit together."""
    if name not in widths:
        return arrays[name]
    counts, columns, values = (arrays[part] for part in _names(name))
    rows = np.repeat(np.arange(counts.size), counts)
    if rows.size != columns.size or columns.max(initial=0) >= widths[name]:
        raise ValueError(f"the parts of {name!r:.60} do not fit together")
    out = np.zeros((counts.size, widths[name]), np.int8)
    out[rows, columns] = values
    return out
