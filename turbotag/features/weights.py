"""A table from keys to weights for prediction, built around what a lookup waits for.

Scoring an arc looks up a hundred keys, half of them unknown, in a table that no near cache holds.
A bucket of the table is one cache line: seven tags of one byte, seven marks and seven weights. One
load and a few integer operations on all tags at once tell an unknown key from one that is likely
known, and only for the latter is a mark compared. That runs over a batch of keys without a branch,
so that the processor waits for many cache misses at the same time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from turbotag.corpus.hashing import WALK, longest_walk

SLOTS, WORDS, BATCH = 7, 8, 64
LOW = np.uint64(0x0101010101010101)
HIGH = np.uint64(0x8080808080808080)
ONE, SHIFT, HALF = np.uint64(1), np.uint64(56), np.uint64(32)
NO_SLOT = np.uint64(2) << SHIFT  # the eighth byte: neither empty nor any key's tag


class WeightTable:
    """Weights of features by key, 0 for those unknown.

    lines: (buckets, 8) uint64: the tags, then mark and weight (float32) of each slot. Keys are
    folded (features/compact): 32 bits are a key's mark, the lower of these choose its bucket, the
    upper eight are its tag; what a full bucket cannot hold goes into the next.
    """

    def __init__(self, keys: np.ndarray, weights: np.ndarray):
        used = weights != 0
        buckets = 1 << max(1, int(used.sum() // 5)).bit_length()
        memory = np.empty(WORDS * (buckets + 1), np.uint64)
        skip = -memory.ctypes.data % 64 // 8  # cache lines begin at multiples of 64 bytes
        self.lines = memory[skip : skip + WORDS * buckets].reshape(buckets, WORDS)
        self.lines[:] = 0
        self.lines[:, 0] = NO_SLOT
        kept = weights[used].astype(np.float32).view(np.uint32).astype(np.uint64)
        if longest_walk(keys[used], 32, buckets, SLOTS) > WALK:
            raise ValueError("keys are not those of features: too many fall together")
        _fill(keys[used], kept, self.lines)

    def sums(self, keys: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The sum of the weights of keys[ends[e-1]:ends[e]] for every e."""
        return _sums(keys, ends, self.lines, self.lines.view(np.float32))


@njit(cache=True, nogil=True, inline="always")
def _tag(key):
    """One byte of a mark, always odd."""
    return ((key >> np.uint64(24)) & np.uint64(0xFF)) | ONE


@njit(cache=True, nogil=True)
def _fill(keys, weights, lines):
    last = np.uint64(lines.shape[0] - 1)
    for i in range(keys.size):
        key = keys[i] >> HALF
        b, j = key & last, 0
        while lines[b, 1 + j] != 0:
            j += 1
            if j == SLOTS:
                b, j = (b + ONE) & last, 0
        lines[b, 0] |= _tag(key) << np.uint64(8 * j)
        lines[b, 1 + j] = (key << HALF) | weights[i]


@njit(cache=True, nogil=True)
def _slow(key, lines, values):
    """One lookup slot by slot, for the few keys whose bucket or tag is ambiguous."""
    last = np.uint64(lines.shape[0] - 1)
    b = key & last
    while True:
        for j in range(SLOTS):
            entry = lines[b, 1 + j]
            if entry == 0:
                return np.float32(0.0)
            if entry >> HALF == key:
                return values[b, 2 + 2 * j]
        b = (b + ONE) & last


@njit(cache=True, nogil=True)
def _sums(keys, ends, lines, values):
    """A byte of x is 0 where the lowest bit of (x - LOW) & ~x & HIGH is; higher ones may be
    borrowed."""
    last = np.uint64(lines.shape[0] - 1)
    out = np.empty(ends.size)
    batch, tags = np.empty(BATCH, np.uint64), np.empty(BATCH, np.uint64)
    slot, which = np.empty(BATCH, np.int64), np.empty(BATCH, np.int64)
    found = np.zeros(BATCH, np.float32)
    e, total = 0, 0.0
    for begin in range(0, keys.size, BATCH):
        n = min(BATCH, keys.size - begin)
        for i in range(n):
            batch[i] = keys[begin + i] >> HALF
            tags[i] = lines[batch[i] & last, 0]
        likely = 0
        for i in range(n):
            found[i] = 0.0
            word = tags[i]
            x = word ^ (_tag(batch[i]) * LOW)
            same = (x - LOW) & ~x & HIGH
            empty = (word - LOW) & ~word & HIGH
            below = ((same & (~same + ONE)) - ONE) & LOW
            slot[likely] = np.int64((below * LOW) >> SHIFT) - 1  # the lowest byte in `same`
            which[likely] = i
            likely += int((same != 0) | (empty == 0))
        for c in range(likely):
            i, j = which[c], min(slot[c], SLOTS - 1)
            b = batch[i] & last
            if lines[b, 1 + j] >> HALF == batch[i]:
                found[i] = values[b, 2 + 2 * j]
            else:
                found[i] = _slow(batch[i], lines, values)
        for i in range(n):
            while begin + i == ends[e]:
                out[e], total = total, 0.0
                e += 1
            total += found[i]
    while e < ends.size:
        out[e], total = total, 0.0
        e += 1
    return out
