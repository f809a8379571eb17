"""Gazetteers: lists of names, one a line, matched leftmost and longest over one or more words."""

from __future__ import annotations

import zlib

import numpy as np
from numba import njit

from turbotag.corpus.hashing import KeyTable, combine, hash_strings
from turbotag.corpus.reader import Source, display_name, open_binary
from turbotag.errors import DataError

POSITIONS = ["", "U", "B", "I", "L"]  # no match; the only word of one; first, inner, last
_SEED = np.uint64(0x7475726274616721)


class Gazetteer:
    """Names as keys of their word prefixes, without regard to case.

    prefixes: (m,) keys of every prefix of every name; whole: (m,) 1 where it is a name.
    """

    def __init__(self, name: str, prefixes: np.ndarray, whole: np.ndarray):
        self.name, self.prefixes, self.whole = name, prefixes, whole
        self._table = KeyTable.of(prefixes)

    @classmethod
    def of(cls, name: str, names: list[str]) -> Gazetteer:
        split = [n.lower().split() for n in names]
        words = [w for n in split for w in n]
        keys, ends = hash_strings(words), np.cumsum([len(n) for n in split])
        flat, last = _prefixes(keys, ends)
        table = KeyTable(2 * max(1, flat.size))
        rows, _ = table.insert(flat)
        whole = np.zeros(table.size, np.uint8)
        whole[rows[last > 0]] = 1
        return cls(name, table.keys(), whole)

    @classmethod
    def read(cls, name: str, path: Source) -> Gazetteer:
        """From a UTF-8 file; blank lines and lines that open with '#' are left out."""
        with open_binary(path) as f:
            try:
                lines = f.read().decode("utf-8-sig").splitlines()
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as e:
                raise DataError(f"cannot be read as a gazetteer: {e}", display_name(path)) from e
        names = [s for line in lines if (s := line.strip()) and not s.startswith("#")]
        if not names:
            raise DataError("holds no names", display_name(path))
        return cls.of(name, names)

    def match(self, lower: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """Codes into POSITIONS, (tokens,) int32, for the keys of the lower-cased words."""
        return _match(lower, sentences, self._table.slots, self.whole)


@njit(cache=True, nogil=True)
def _prefixes(keys, ends):
    flat = np.empty(keys.size, np.uint64)
    last = np.zeros(keys.size, np.uint8)
    p = 0
    for i in range(ends.size):
        h = _SEED
        while p < ends[i]:
            h = combine(h, keys[p])
            flat[p] = h
            last[p] = p == ends[i] - 1
            p += 1
    return flat, last


@njit(cache=True, nogil=True)
def _match(lower, sentences, slots, whole):
    codes = np.zeros(lower.size, np.int32)
    mask = slots.shape[0] - 1
    for s in range(sentences.size - 1):
        t = sentences[s]
        while t < sentences[s + 1]:
            h, length = _SEED, 0
            for e in range(t, sentences[s + 1]):
                h = combine(h, lower[e])
                p = np.int64(h) & mask
                while slots[p, 0] != 0 and slots[p, 0] != h:
                    p = (p + 1) & mask
                if slots[p, 0] == 0:
                    break
                if whole[slots[p, 1]]:
                    length = e - t + 1
            if length == 1:
                codes[t] = 1
            elif length > 1:
                codes[t], codes[t + length - 1] = 2, 4
                for e in range(t + 1, t + length - 1):
                    codes[e] = 3
            t += max(1, length)
    return codes
