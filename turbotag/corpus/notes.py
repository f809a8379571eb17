"""Notes of words, NAME=VALUE|NAME=VALUE in the column MISC of CoNLL-U, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.hashing import Interner, pack
from turbotag.corpus.reader import Block, Column
from turbotag.corpus.scan import is_number
from turbotag.lean import njit

BAR, EQUALS, ZERO = ord("|"), ord("="), ord("0")
MOST_DIGITS = 18  # that an int64 holds in any case


class Note(NamedTuple):
    """The values of one name: that of word t is the bytes starts[t]..ends[t]-1 of the block, and
    starts[t] is -1 where the word has none."""

    block: Block
    starts: np.ndarray
    ends: np.ndarray

    @property
    def given(self) -> np.ndarray:
        """(words,) bool: which have one."""
        has: np.ndarray = self.starts >= 0
        return has

    def text(self, t: int) -> str | None:
        """The value of one word."""
        a, b = int(self.starts[t]), int(self.ends[t])
        return None if a < 0 else self.block.buf[a:b].tobytes().decode()

    def numbers(self) -> np.ndarray:
        """(words,) int64: the values, -1 where there is none or it is no number."""
        found: np.ndarray = _numbers(self.block.buf, self.starts, self.ends)
        return found

    def column(self) -> Column:
        """The values as strings; the first of these is empty, and that of words without any."""
        ids = np.zeros(self.starts.size, np.int32)
        interner, given = Interner(), self.given
        if given.any():
            starts, ends = self.starts[given], self.ends[given]
            ids[given] = 1 + interner.ids(self.block.buf, starts, ends)
        return Column(["", *interner.strings], ids)


def notes(block: Block, *names: str) -> list[Note]:
    """The notes of some names in a block of CoNLL-U."""
    arena, offsets = pack(list(names))
    spans = _spans(block.buf, *block.spans(Conll.MISC), arena, offsets)
    return [Note(block, spans[k, 0], spans[k, 1]) for k in range(len(names))]


@njit(cache=True, nogil=True)
def _spans(buf, starts, ends, names, offsets):
    """(names, 2, words) where the values of names lie; of a name that a word has twice, the last.
    Name k is names[offsets[k]:offsets[k+1]]."""
    K = offsets.size - 1
    found = np.full((K, 2, starts.size), -1, np.int64)
    for t in range(starts.size):
        begin = starts[t]
        while begin < ends[t]:
            end, equals = begin, -1
            while end < ends[t] and buf[end] != BAR:
                if buf[end] == EQUALS and equals < 0:
                    equals = end
                end += 1
            for k in range(K if equals >= 0 else 0):
                size = offsets[k + 1] - offsets[k]
                same = equals - begin == size
                for q in range(size if same else 0):
                    same = same and buf[begin + q] == names[offsets[k] + q]
                if same:
                    found[k, 0, t], found[k, 1, t] = equals + 1, end
            begin = end + 1
    return found


@njit(cache=True, nogil=True)
def _numbers(buf, starts, ends):
    out = np.full(starts.size, -1, np.int64)
    for t in range(starts.size):
        a, b = starts[t], ends[t]
        if a >= 0 and b - a <= MOST_DIGITS and is_number(buf, a, b):
            out[t] = 0
            for q in range(a, b):
                out[t] = 10 * out[t] + buf[q] - ZERO
    return out
