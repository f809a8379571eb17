"""Stable 64-bit hashes, the open-addressing table from keys to rows, and string interning.

Nothing here depends on Python's own `hash`, on the machine or on the order of insertion of other
keys, so a key written into a model file means the same everywhere. Two different strings share a
key with probability 2^-64 a pair; with a million keys that is 3e-8 in all, and the harm would be a
shared weight row.
"""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit

EMPTY = np.uint64(0)  # no key is ever 0: see mix64
WALK = 400  # keys that are hashes never lie so far from their places


@njit(cache=True, nogil=True, inline="always")
def mix64(h):
    """The finalizer of splitmix64; 0, which marks an empty slot, is mapped to 1."""
    h = np.uint64(h)
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    if h == np.uint64(0):
        h = np.uint64(1)
    return h


@njit(cache=True, nogil=True, inline="always")
def combine(h, a):
    """Key of an ordered pair of keys."""
    return mix64((h * np.uint64(0x9E3779B97F4A7C15)) ^ a)


@njit(cache=True, nogil=True)
def hash_spans(buf, starts, ends):
    """Keys of the byte strings buf[starts[i]:ends[i]]: FNV-1a, then the finalizer."""
    out = np.empty(starts.size, np.uint64)
    for i in range(starts.size):
        h = np.uint64(0xCBF29CE484222325)
        for p in range(starts[i], ends[i]):
            h = (h ^ np.uint64(buf[p])) * np.uint64(0x100000001B3)
        out[i] = mix64(h)
    return out


def pack(strings: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """UTF-8 bytes of the strings in one array, and their (n + 1) offsets."""
    encoded = [s.encode() for s in strings]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def unpack(arena: np.ndarray, offsets: np.ndarray) -> list[str]:
    """The inverse of `pack`; ValueError if they are not from it."""
    data, cuts = arena.tobytes(), offsets.tolist()
    if not cuts or cuts[0] or cuts[-1] != len(data) or (np.diff(offsets) < 0).any():
        raise ValueError("offsets of strings are not in order")
    return [data[a:b].decode() for a, b in zip(cuts, cuts[1:], strict=False)]


def hash_strings(strings: list[str]) -> np.ndarray:
    """Keys of a list of strings, equal to those of their UTF-8 bytes in a file."""
    arena, offsets = pack(strings)
    return hash_spans(arena, offsets[:-1], offsets[1:])


@njit(cache=True, nogil=True)
def _insert(keys, begin, slots, size, limit, rows, firsts):
    """Insert keys[begin:] until `size` reaches `limit`; returns (keys done, new size)."""
    mask = slots.shape[0] - 1
    for i in range(begin, keys.size):
        key = keys[i]
        if key == EMPTY:
            rows[i] = -1
            continue
        s = np.int64(key) & mask
        while slots[s, 0] != EMPTY and slots[s, 0] != key:
            s = (s + 1) & mask
        if slots[s, 0] == EMPTY:
            if size == limit:
                return i, size
            slots[s, 0] = key
            slots[s, 1] = size
            firsts[size] = i
            size += 1
        rows[i] = np.int32(slots[s, 1])
    return keys.size, size


@njit(cache=True, nogil=True)
def longest_walk(keys, shift, places, room):
    """The largest distance of a key from its place in a table of `places` with room for `room` keys
    each, where a key that finds no room goes to the next place. The place of a key is given by some
    of the lower bits of key >> shift. The result is more than WALK if 255 keys have the same place.
    A file whose keys were made to fall together would let a table take forever."""
    counts = np.zeros(places, np.uint8)
    for i in range(keys.size):
        p = np.int64(keys[i] >> np.uint64(shift)) & (places - 1)
        if counts[p] == 255:
            return 2 * WALK
        counts[p] += np.uint8(1)
    longest, waiting = 0, 0
    for p in range(places):
        waiting = max(0, waiting + counts[p] - room)
        longest = max(longest, waiting)
    return longest


@njit(cache=True, nogil=True)
def lookup(keys, slots):
    """Rows of the keys, -1 where a key is 0 or unknown."""
    mask = slots.shape[0] - 1
    rows = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        key = keys[i]
        rows[i] = -1
        if key != EMPTY:
            s = np.int64(key) & mask
            while slots[s, 0] != EMPTY:
                if slots[s, 0] == key:
                    rows[i] = np.int32(slots[s, 1])
                    break
                s = (s + 1) & mask
    return rows


class KeyTable:
    """Keys to rows 0, 1, 2, ... in order of first insertion.

    slots: (capacity, 2) uint64, key and row side by side so that a hit costs one cache line;
    linear probing, capacity a power of two, at most half full.
    """

    def __init__(self, capacity: int = 1024):
        self.slots = np.zeros((1 << max(4, int(capacity - 1).bit_length()), 2), np.uint64)
        self.size = 0

    @classmethod
    def of(cls, keys: np.ndarray) -> KeyTable:
        """The table in which keys[r], all distinct, has row r."""
        table = cls(2 * max(1, keys.size))
        if longest_walk(keys, 0, table.slots.shape[0], 1) > WALK:
            raise ValueError("keys are not those of features: too many fall together")
        rows, _ = table.insert(keys)
        if table.size != keys.size or (keys.size and rows[-1] != keys.size - 1):
            raise ValueError("keys are not distinct")
        return table

    def insert(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the keys (-1 for key 0), and the index in `keys` where each new row began."""
        rows = np.empty(keys.size, np.int32)
        old, done = self.size, 0
        firsts = np.empty(min(self.size + keys.size, self.slots.shape[0]), np.int64)
        while True:
            limit = self.slots.shape[0] // 2
            done, self.size = _insert(keys, done, self.slots, self.size, limit, rows, firsts)
            if done == keys.size:
                return rows, firsts[old : self.size].copy()
            self._grow()
            firsts = np.concatenate([firsts, np.empty(firsts.size, np.int64)])

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        return lookup(keys, self.slots)

    def keys(self) -> np.ndarray:
        """Keys in row order."""
        used = self.slots[self.slots[:, 0] != EMPTY]
        keys = np.empty(self.size, np.uint64)
        keys[used[:, 1].astype(np.int64)] = used[:, 0]
        return keys

    def _grow(self) -> None:
        bigger = np.zeros((2 * self.slots.shape[0], 2), np.uint64)
        keys = self.keys()
        _insert(
            keys,
            0,
            bigger,
            0,
            keys.size,
            np.empty(keys.size, np.int32),
            np.empty(keys.size, np.int64),
        )
        self.slots = bigger


class Interner:
    """Gives every distinct string of a column a small integer, in order of first appearance."""

    def __init__(self) -> None:
        self.table = KeyTable()
        self.strings: list[str] = []

    def ids(self, buf: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Ids (int32) of the UTF-8 strings buf[starts[i]:ends[i]]."""
        ids, firsts = self.table.insert(hash_spans(buf, starts, ends))
        data = buf.data
        for a, b in zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True):
            self.strings.append(str(data[a:b], "utf-8"))
        return ids

    def ids_of(self, strings: list[str]) -> np.ndarray:
        """Ids of Python strings."""
        arena, offsets = pack(strings)
        return self.ids(arena, offsets[:-1], offsets[1:])
