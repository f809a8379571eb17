"""Rows for features: which keys get one, and the features of all sentences as numbers of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from turbotag.corpus.hashing import KeyTable
from turbotag.lean import njit

CHUNK = 1 << 26  # bytes: malloc keeps chunks smaller than half of this for itself
DOUBT = 2.0  # a class whose score is this near to the best one is a second guess
MOST_LOCAL = 1 << 16  # different features of a sentence that numbers of 16 bits can tell apart
SAMPLE = 100  # sentences from which the number of all features is guessed

# gives (keys, where each part ends) of a sentence
Keys = Callable[[int], tuple[np.ndarray, np.ndarray]]
Lookup = Callable[[np.ndarray], np.ndarray]  # rows of keys, -1 for unknown ones
Occurrences = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Table(Protocol):
    """Rows of keys, -1 for unknown ones."""

    size: int

    def lookup(self, keys: np.ndarray) -> np.ndarray: ...


class Pieces:
    """Arrays that are joined with little memory beside the result. They are gathered in chunks so
    large that the system gets each back as soon as it is copied."""

    def __init__(self) -> None:
        self.chunks: list[np.ndarray] = []
        self.small: list[np.ndarray] = []
        self.waiting = self.size = 0

    def add(self, piece: np.ndarray) -> None:
        self.small.append(piece)
        self.waiting += piece.nbytes
        self.size += piece.size
        if self.waiting > CHUNK:
            self._gather()

    def _gather(self) -> None:
        if self.small:
            self.chunks.append(np.concatenate(self.small))
        self.small, self.waiting = [], 0

    def change(self, dtype: type) -> None:
        """Let all that was added, and the result, be of another type."""
        self.chunks = [chunk.astype(dtype) for chunk in self.chunks]
        self.small = [piece.astype(dtype) for piece in self.small]

    def joined(self) -> np.ndarray:
        self._gather()
        out, end = np.empty(self.size, self.chunks[0].dtype), self.size
        while self.chunks:
            chunk = self.chunks.pop()
            out[end - chunk.size : end] = chunk
            end -= chunk.size
        return out


def part_table(
    arcs: np.ndarray, gold: Keys, all_parts: Keys, min_count: int, known: Lookup | None = None
) -> KeyTable:
    """A row for each feature of a gold arc or part, for each feature that is `known`, and, if
    min_count is not 0, for each feature that is seen on at least so many candidate arcs (or parts).
    arcs: (n,) the number of candidate arcs of each of n sentences."""
    table, n = KeyTable(1 << 16), arcs.size
    for i in range(n):
        table.insert(gold(i)[0])
    if known:
        for i in range(n):
            keys = all_parts(i)[0]
            table.insert(keys[known(keys) >= 0])
    if min_count:
        seen = sum(all_parts(i)[0].size for i in range(min(n, SAMPLE)))
        total = int(seen / max(1, arcs[:SAMPLE].sum()) * arcs.sum())
        counts = np.zeros(1 << min(max(total, 1 << 16).bit_length(), 28), np.uint8)
        for i in range(n):
            _count(all_parts(i)[0], counts)
        for i in range(n):
            table.insert(_frequent(all_parts(i)[0], counts, min(min_count, 255)))
    return table


def part_rows(
    n: int, parts: Keys, table: Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(ends, local, firsts, rows) of the features that have a row, numbered within their sentences,
    as in structures/arc_verbs.Arcs. The numbers, of which there are most, have 16 bits unless a
    sentence has too many different features."""
    seen, number = np.full(table.size, -1, np.int32), np.empty(table.size, np.int32)
    rows, local, ends = Pieces(), Pieces(), Pieces()
    width: type = np.uint16
    firsts = [0]
    for i in range(n):
        keys, end = parts(i)
        mine, here = _localise(table.lookup(keys), end, i, seen, number)
        if mine.size > MOST_LOCAL and width is np.uint16:
            width = np.int32
            local.change(width)
        ends.add(end + local.size)
        rows.add(mine)
        local.add(here.astype(width))
        firsts.append(rows.size)
    return ends.joined(), local.joined(), np.array(firsts), rows.joined()


def word_table(
    n: int, words: Keys, least: int, known: Lookup | None = None
) -> tuple[np.ndarray, Occurrences]:
    """(keys, occurrences). keys: of the features of words that are seen at least `least` times in n
    sentences, or are known; occurrences: of these, by sentence as in structures/chain_problem, not
    yet sorted."""
    flat, at, ends = Pieces(), Pieces(), [0]
    for i in range(n):
        found, end = words(i)
        flat.add(found)
        at.add(np.repeat(np.arange(end.size), np.diff(end, prepend=0)).astype(np.int32))
        ends.append(ends[-1] + found.size)
    table = KeyTable(1 << 16)
    rows, _ = table.insert(flat.joined())
    often = np.bincount(rows, minlength=table.size) >= least
    if known:
        often |= known(table.keys()) >= 0
    renumber = np.where(often, np.cumsum(often) - 1, -1).astype(np.int32)
    rows = renumber[rows]
    has_row = rows >= 0
    offsets = np.concatenate([[0], np.cumsum(has_row)])[ends]
    positions = at.joined()[has_row]
    occurrences = offsets, rows[has_row], positions, np.ones(positions.size, np.float32)
    return table.keys()[often], occurrences


def chosen_occurrences(occurrences: Occurrences, chosen: np.ndarray) -> Occurrences:
    """The occurrences of some sentences alone."""
    offsets, *rest = occurrences
    sizes = np.diff(offsets)
    kept = np.repeat(chosen, sizes)
    rows, positions, values = (x[kept] for x in rest)
    return np.concatenate([[0], np.cumsum(sizes[chosen])]), rows, positions, values


@njit(cache=True, nogil=True)
def tag_words(sentences, offsets, rows, positions, chosen, W, out):
    """The best two classes of every word of the chosen sentences, by the sums of its features'
    rows, as best_two has them."""
    K = W.shape[1]
    for s in range(chosen.size):
        if not chosen[s]:
            continue
        a = sentences[s]
        scores = np.zeros((sentences[s + 1] - a, K))
        for o in range(offsets[s], offsets[s + 1]):
            to, row = scores[positions[o]], W[rows[o]]
            for k in range(K):
                to[k] += row[k]
        best_two(scores, out[a : a + scores.shape[0]])


@njit(cache=True, nogil=True)
def best_two(scores, out):
    """(words, 2) the best class of every word, and the second if it is near the best, else -1."""
    for t in range(scores.shape[0]):
        row = scores[t]
        best, second = 0, -1
        for k in range(1, row.size):
            if row[k] > row[best]:
                best, second = k, best
            elif second < 0 or row[k] > row[second]:
                second = k
        doubt = second >= 0 and row[best] - row[second] < DOUBT
        out[t, 0] = best
        out[t, 1] = second if doubt else -1


@njit(cache=True, nogil=True)
def _count(keys, counts):
    """Approximate counts: keys that share a slot are counted together; they stop at 255."""
    mask = np.uint64(counts.size - 1)
    for i in range(keys.size):
        s = keys[i] & mask
        if counts[s] < 255:
            counts[s] += 1


@njit(cache=True, nogil=True)
def _frequent(keys, counts, least):
    mask, n = np.uint64(counts.size - 1), 0
    out = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        if counts[keys[i] & mask] >= least:
            out[n] = keys[i]
            n += 1
    return out[:n]


@njit(cache=True, nogil=True)
def _localise(rows, ends, stamp, seen, number):
    """(rows of the sentence, their numbers at each arc); `ends` is brought up to date."""
    mine, local = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    n, k, o = 0, 0, 0
    for e in range(ends.size):
        while o < ends[e]:
            r = rows[o]
            if r >= 0:
                if seen[r] != stamp:
                    seen[r], number[r] = stamp, n
                    mine[n] = r
                    n += 1
                local[k] = number[r]
                k += 1
            o += 1
        ends[e] = k
    return mine[:n].copy(), local[:k].copy()
