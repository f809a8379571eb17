"""Tables from keys to weights, or to rows of weights, made for fast lookups.

To score an arc, two hundred keys are looked up, half of them unknown, in a table that is larger
than the near caches. So what counts is the size of the table, and how many lookups wait for memory
at the same time. A bucket is a line of 32 bytes that never crosses two cache lines, and one
comparison of all its tags tells whether a key is in it. Only the upper 32 bits of a key, its mark,
are told apart (features/compact).

Marks in rising order are dealt to buckets in rising order: with n buckets, mark x is in bucket n x
/ 2^32. So the tables are made by one pass over the sorted marks of a model file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.corpus.scan import find
from turbotag.features import compact
from turbotag.features.simd import LINE, first_bit, matches, prefetch
from turbotag.lean import njit

LARGEST_SQUARE = np.float32(127.0**2)  # of an eight-bit weight
HALF, QUARTER = np.uint64(32), np.uint64(16)
AHEAD = 32  # lookups whose memory is asked for in advance

# A line of weights: the tags of ten keys, 16 bits each, their weights, eight bits each, a weight
# of 0 for unknown keys, and whether there were more than ten.
TAGS, WEIGHTS, NO_WEIGHT, MORE = 10, 20, 30, 31
MEAN_WEIGHTS = 6  # of a line
# A line of rows: seven marks, and the row of the first; the others follow in order.
MARKS, MEAN_ROWS = 7, 4
FULL = np.uint32(1 << 31)  # in the row of the first mark: there are more than seven


class Weights(NamedTuple):
    """lines: (buckets, 32) uint8; marks, extra: the keys that found no room, in order, and their
    int8 weights; values: (256,) float32, the value of each weight byte.

    There are at least 2^16 buckets. The marks of one bucket then differ in the 16 bits that follow
    its number in the product n x, so the tag tells the whole mark.
    """

    lines: np.ndarray
    marks: np.ndarray
    extra: np.ndarray
    values: np.ndarray


class Rows(NamedTuple):
    """lines: (buckets, 8) uint32; marks: (rows,) uint32, in order."""

    lines: np.ndarray
    marks: np.ndarray


class SmallRows(NamedTuple):
    """Rows of eight-bit weights, (rows, classes), and their scales (features/compact)."""

    weights: np.ndarray
    scales: np.ndarray


class CompactWeights(NamedTuple):
    """Weights of a compact tagger: of its features, and the shared rows, float32."""

    rows: SmallRows
    shared: np.ndarray


class WeightTable:
    """Weights of features by key, 0 for unknown keys. keys: in order of their marks, which are
    distinct and not 0; weights: int8, with this scale (features/compact)."""

    def __init__(self, keys: np.ndarray, weights: np.ndarray, scales: np.ndarray):
        lines = _aligned(max(1 << 16, keys.size // MEAN_WEIGHTS), LINE)
        every = np.arange(256, dtype=np.uint8).view(np.int8)
        more = np.empty(keys.size, np.int64)
        more = more[: _fill_weights(keys, weights, lines, lines.view(np.uint16), more)]
        values = compact.dequantize(every, scales)
        self.data = Weights(lines, keys[more] >> HALF, weights[more], values)

    def sums(self, keys: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The sum of the weights of keys[ends[e-1]:ends[e]] for every e."""
        out = np.empty(ends.size)
        _sums(keys, ends, *self.data, out)
        return out


class RowTable:
    """Rows of features by key, -1 for unknown keys: the i-th key has row i. keys: in order of their
    marks, which are distinct and not 0."""

    def __init__(self, keys: np.ndarray):
        marks = (keys >> HALF).astype(np.uint32)
        lines = _aligned(max(1, keys.size // MEAN_ROWS), LINE).view(np.uint32)
        _fill_rows(marks, lines)
        self.data = Rows(lines, marks)

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        out = np.empty(keys.size, np.int32)
        _lookup(keys, *self.data, out)
        return out


def _aligned(n: int, size: int) -> np.ndarray:
    """(n, size) uint8 zeros; each row begins at a multiple of its size in memory."""
    memory = np.zeros(size * (n + 1), np.uint8)
    skip = -memory.ctypes.data % size
    return memory[skip : skip + size * n].reshape(n, size)


# ---- Weights -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill_weights(keys, weights, lines, tags, more):
    """Fill the lines. Returns the number of keys that found no room; their numbers are then in
    `more`."""
    n, last, j, left = np.uint64(lines.shape[0]), np.int64(-1), 0, 0
    for i in range(keys.size):
        if weights[i] == 0:
            continue
        product = (keys[i] >> HALF) * n
        b = np.int64(product >> HALF)
        if b != last:
            last, j = b, 0
        if j < TAGS:
            tags[b, j] = np.uint16(product >> QUARTER)
            lines[b, WEIGHTS + j] = np.uint8(weights[i])
            j += 1
        else:
            lines[b, MORE] = 1
            more[left] = i
            left += 1
    return left


@njit(cache=True, nogil=True)
def _among_more(mark, marks, extra):
    """The weight, as a byte, of a mark whose line is full."""
    at = find(marks, 0, marks.size, mark)
    return np.uint8(extra[at]) if at >= 0 else np.uint8(0)


@njit(cache=True, nogil=True)
def ask(keys, begin, end, lines, products):
    """First half of `total` and `add_rows`: compute where the keys are, and let the processor
    begin to read there."""
    n, memory = np.uint64(lines.shape[0]), lines.ctypes.data
    for i in range(begin, end):
        products[i] = (keys[i] >> HALF) * n
    for i in range(begin, end):
        prefetch(memory + LINE * np.int64(products[i] >> HALF))


@njit(cache=True, nogil=True)
def total(keys, begin, end, products, lines, marks, extra, values):
    """The sum of the weights of keys[begin:end], for which `ask` was called.

    Unused slots have tag and weight 0 and stand behind the used ones. A lookup that ends at one has
    found nothing.
    """
    memory = lines.ctypes.data
    found = 0.0
    for i in range(begin, end):
        b = np.int64(products[i] >> HALF)
        mask = matches(memory + LINE * b, np.uint16(products[i] >> QUARTER))
        slot = first_bit(mask | np.uint32(1 << TAGS))
        weight = lines[b, WEIGHTS + slot]
        if (slot == TAGS) & (lines[b, MORE] != 0):  # one branch, hardly ever taken
            weight = _among_more(keys[i] >> HALF, marks, extra)
        found += values[weight]
    return found


@njit(cache=True, nogil=True)
def _sums(keys, ends, lines, marks, extra, values, out):
    size = 0
    for e in range(ends.size):
        size = max(size, ends[e] - (ends[e - 1] if e else 0))
    products, begin = np.empty(size, np.uint64), 0
    for e in range(ends.size):
        own = keys[begin : ends[e]]
        ask(own, 0, own.size, lines, products)
        out[e] = total(own, 0, own.size, products, lines, marks, extra, values)
        begin = ends[e]


# ---- Rows ----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _fill_rows(marks, lines):
    n, last, j = np.uint64(lines.shape[0]), np.int64(-1), 0
    for r in range(marks.size):
        b = np.int64((np.uint64(marks[r]) * n) >> HALF)
        if b != last:
            last, j = b, 0
            lines[b, :MARKS] = marks[r]  # those that are not filled are found behind the first
            lines[b, MARKS] = r
        if j == MARKS:
            lines[b, MARKS] |= FULL
        elif j < MARKS:
            lines[b, j] = marks[r]
        j += 1


@njit(cache=True, nogil=True, inline="always")
def _row(mark, b, memory, lines, marks):
    """The row of a mark in line b of the lines at an address, or -1. Half of all keys are unknown,
    which no processor can foresee: the only branch is hardly ever taken."""
    first = lines[b, MARKS]
    mask = matches(memory + LINE * b, mark) & np.uint32((1 << MARKS) - 1)
    found = np.int64((mask != 0) & (mark != 0))
    r = np.int64(first & ~FULL)
    if (found == 0) & ((first & FULL) != 0):
        r = find(marks, 0, marks.size, mark)
    else:
        r = found * (r + first_bit(mask | np.uint32(1 << MARKS)) + 1) - 1
    return r


@njit(cache=True, nogil=True, error_model="numpy")
def add_rows(keys, begin, end, products, lines, marks, weights, scales, out, t):
    """Add the rows of keys[begin:end], of which `ask` was told, to row t of scores. The numbers of
    the rows are written over the products.

    w = s q|q| / 127^2, in the order in which `compact.dequantize` rounds
    """
    memory, rows, K, size = lines.ctypes.data, weights.ctypes.data, weights.shape[1], begin
    for i in range(begin, end):
        mark, b = np.uint32(keys[i] >> HALF), np.int64(products[i] >> HALF)
        row = _row(mark, b, memory, lines, marks)
        products[size] = np.uint64(row)
        size += row >= 0
    for i in range(begin, size):
        prefetch(rows + K * np.int64(products[i]))
    for i in range(begin, size):
        row = np.int64(products[i])
        scale = scales[row]
        for k in range(K):
            q = np.float32(weights[row, k])
            out[t, k] += q * abs(q) / LARGEST_SQUARE * scale


@njit(cache=True, nogil=True)
def _lookup(keys, lines, marks, out):
    n, memory = np.uint64(lines.shape[0]), lines.ctypes.data
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch(memory + LINE * np.int64(((keys[i + AHEAD] >> HALF) * n) >> HALF))
        mark = keys[i] >> HALF
        out[i] = _row(np.uint32(mark), np.int64((mark * n) >> HALF), memory, lines, marks)
