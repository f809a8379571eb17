"""Matrices of small numbers that are mostly 0, stored by what is not: two bytes a number.

Weights of eight bits, of which a row has few that are not 0, take a third of their room in a file
in this way. In memory they are matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.storage.tensors import Entries, Entry

MOST_COLUMNS = 1 << 8
# Arrays in the place of one: how many numbers each row has, their columns, and they themselves.
PARTS = ("counts", "columns", "values")
Arrays = dict[str, np.ndarray]


def _names(name: str) -> tuple[str, ...]:
    return tuple(f"{name}/{part}" for part in PARTS)


def thinned(arrays: Arrays) -> tuple[Arrays, dict[str, int]]:
    """(arrays, with those that get smaller in this way in parts; how many columns each of them
    has, by name)."""
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
    """The parts of a matrix; None if they are not smaller than it."""
    if array.dtype != np.int8 or array.ndim != 2 or array.shape[1] >= MOST_COLUMNS:
        return None
    kept = array != 0
    if 2 * np.count_nonzero(kept) + len(array) >= array.size:
        return None
    rows, columns = np.nonzero(kept)
    counts = np.bincount(rows, minlength=len(array))
    return counts.astype(np.uint8), columns.astype(np.uint8), array[rows, columns]


def whole_entries(entries: Entries, widths: dict[str, Any]) -> Entries:
    """What a file holds, with matrices in place of their parts; ValueError if they do not fit."""
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
    """An array from what was stored of it; ValueError if it is damaged."""
    if name not in widths:
        return arrays[name]
    counts, columns, values = (arrays[part] for part in _names(name))
    rows = np.repeat(np.arange(counts.size), counts)
    if rows.size != columns.size or columns.max(initial=0) >= widths[name]:
        raise ValueError(f"the parts of {name!r:.60} do not fit together")
    out = np.zeros((counts.size, widths[name]), np.int8)
    out[rows, columns] = values
    return out
