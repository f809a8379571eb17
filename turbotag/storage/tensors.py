"""Reading safetensors files that may be hostile: every claim of a file is compared with its size
before it is used, and only arrays that were asked for are read."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.corpus.reader import Steady

LARGEST_HEADER = 1 << 23  # bytes; read into memory it is some ten times as large
MOST_LISTS = 1 << 17  # lists and tables in a header
MOST_DIMENSIONS = 8
DTYPES = {"BOOL": "bool", "F16": "float16", "F32": "float32", "F64": "float64"}
DTYPES |= {f"I{n}": f"int{n}" for n in (8, 16, 32, 64)}
DTYPES |= {f"U{n}": f"uint{n}" for n in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Entry:
    """An array of a file: what it is, and where it begins."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int


Entries = dict[str, Entry]


def read_entries(f: Steady) -> tuple[dict[str, Any], Entries]:
    """The metadata of a safetensors file, and its arrays; ValueError if it is no such file."""
    info = os.fstat(f.fileno())
    size = info.st_size - 8
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("it is a device or a pipe")
    if size < 0:
        raise ValueError("it is too short")
    length = int.from_bytes(_read(f, bytearray(8)), "little")
    if length > min(size, LARGEST_HEADER):
        raise ValueError(f"a header of {length} bytes in a file of {size + 8}")
    table = read_json(_read(f, bytearray(length)).decode())
    if not isinstance(table, dict):
        raise ValueError("the header is not a table")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise ValueError("the metadata are not a table")
    entries = {name: _entry(name, told, 8 + length) for name, told in table.items()}
    at = 8 + length
    for entry in sorted(entries.values(), key=lambda e: (e.begin, math.prod(e.shape))):
        if entry.begin != at:
            raise ValueError(f"an array begins at byte {entry.begin}, expected {at}")
        at += math.prod(entry.shape) * entry.dtype.itemsize
    if at != size + 8:
        raise ValueError(f"the arrays end at byte {at}, the file at {size + 8}")
    return metadata, entries


def _entry(name: str, told: Any, start: int) -> Entry:
    if not isinstance(told, dict) or told.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"array {name!r} is described wrongly")
    dtype, shape, place = told["dtype"], told["shape"], told["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"array {name!r} has the unknown type {dtype!r}")
    for numbers in (shape, place):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"array {name!r} has shape {shape!r} at {place!r}")
    found = np.dtype(DTYPES[dtype])
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"array {name!r} has {len(shape)} dimensions")
    if len(place) != 2 or place[1] - place[0] != math.prod(shape) * found.itemsize:
        raise ValueError(f"array {name!r} has shape {shape!r} at {place!r}")
    return Entry(found, tuple(shape), start + place[0])


def _read(f: Steady, buffer: Any) -> Any:
    """Fill a buffer from the file; ValueError if the file ends before."""
    view = memoryview(buffer).cast("B")
    while len(view):
        n = f.readinto(view)
        if not n:
            raise ValueError("it is truncated")
        view = view[n:]
    return buffer


def read_array(f: Steady, entry: Entry) -> np.ndarray:
    out = np.empty(entry.shape, entry.dtype)
    f.seek(entry.begin)
    if out.size:
        _read(f, out)
    return out


def read_json(text: str) -> Any:
    """JSON without duplicate keys; ValueError if it would need too much memory."""
    if text.count("[") + text.count("{") > MOST_LISTS:
        raise ValueError("too many lists and tables")
    return json.loads(text, object_pairs_hook=_distinct)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
