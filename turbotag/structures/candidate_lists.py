"""Candidate lists: the few labels of each word that a chain runs over, and the parts of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.corpus.scan import longest_of
from turbotag.lean import njit
from turbotag.structures.elementary import find_each
from turbotag.structures.sparse_rows import MixedRows, SparseRows, add_mixed
from turbotag.structures.verbs import chosen_ranges

AT_ONCE = 1 << 20  # occurrences whose pairs are in memory at one time
Occurrences = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Lists(NamedTuple):
    """The candidates of word t: labels[cuts[t]:cuts[t+1]], rising."""

    cuts: np.ndarray
    labels: np.ndarray

    @property
    def n_words(self) -> int:
        return self.cuts.size - 1

    def places(self, wanted: np.ndarray) -> np.ndarray:
        """(words,) the place of a label in the list of its word, -1 if it is not there."""
        found = find_each(self.cuts, self.labels, wanted)
        return np.where(found < 0, -1, found - self.cuts[:-1]).astype(np.int32)


class Parts(NamedTuple):
    """What labels are made of: label k has the parts parts[first[k]:first[k+1]], rising.

    Labels that share a part share its weights: Case=Dat of Case=Dat|Number=Sing is learned from
    the words of every number.
    """

    first: np.ndarray
    parts: np.ndarray

    @property
    def n(self) -> int:
        """The number of different parts."""
        return int(self.parts.max(initial=-1)) + 1


def whole(K: int) -> Parts:
    """Labels that share nothing."""
    return Parts(np.arange(K + 1, dtype=np.int64), np.arange(K, dtype=np.int32))


class Slots(NamedTuple):
    """The different parts of the candidates of a word, without those that all candidates have,
    which change all scores alike.

    candidates: the lists that these slots are of; parts[cuts[t]:cuts[t+1]]: the slots of word t,
    rising; of[first[c]:first[c+1]]: the slots of candidate c, as numbers of entries of `parts`.
    """

    candidates: Lists
    cuts: np.ndarray
    parts: np.ndarray
    first: np.ndarray
    of: np.ndarray

    @property
    def lists(self) -> Lists:
        """The slots of each word."""
        return Lists(self.cuts, self.parts)

    def chosen(self, words: np.ndarray) -> Slots:
        """The slots of some words alone."""
        listed, lists = chosen_ranges(self.candidates.cuts, words)
        cuts, parts = chosen_ranges(self.cuts, words)
        first, entries = chosen_ranges(self.first, lists)
        moved = np.repeat(cuts[:-1] - self.cuts[:-1][words], np.diff(first[listed]))
        return Slots(
            Lists(listed, self.candidates.labels[lists]),
            cuts,
            self.parts[parts],
            first,
            (self.of[entries] + moved).astype(self.of.dtype),
        )


def slots(lists: Lists, parts: Parts) -> Slots:
    return Slots(lists, *_slots(*lists, *parts, parts.n))


def likely(
    sentences: np.ndarray,
    occurrences: Occurrences,
    scored: MixedRows,
    K: int,
    most: int,
    margin: float,
    gold: np.ndarray | None = None,
) -> Lists:
    """The labels that sparse rows find likely: at most `most` for each word, and none whose score
    is further than `margin` below the best. gold: (words,) labels that are listed in any case, -1
    for none."""
    if gold is None:
        gold = np.full(sentences[-1], -1, np.int32)
    counts, labels = _likely(sentences, *occurrences, scored, K, most, margin, gold)
    return Lists(np.append(0, np.cumsum(counts)), labels)


def distances(
    sentences: np.ndarray,
    occurrences: Occurrences,
    scored: MixedRows,
    K: int,
    gold: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """How far the gold label of each word is below the best, by its score and by its rank."""
    return _distances(sentences, *occurrences, scored, K, gold)


def met(
    sentences: np.ndarray, occurrences: Occurrences, lists: Lists, n_rows: int, K: int
) -> SparseRows:
    """The pairs (row, entry of a list, below K) that meet at a word."""
    offsets, rows, positions, _ = occurrences
    token = positions + np.repeat(sentences[:-1], np.diff(offsets))
    found = [
        np.unique(_pairs_met(rows[a : a + AT_ONCE], token[a : a + AT_ONCE], *lists, K))
        for a in range(0, rows.size, AT_ONCE)
    ]
    cells = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
    first = np.searchsorted(cells, np.arange(n_rows + 1, dtype=np.int64) * K)
    return SparseRows(first, (cells % K).astype(np.int32))


# ---- Kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _slots(cuts, labels, first, parts, n_parts):
    n = 0
    for c in range(labels.size):
        n += first[labels[c] + 1] - first[labels[c]]
    ends, found = np.zeros(cuts.size, np.int64), np.empty(n, np.int32)
    begins, of = np.zeros(labels.size + 1, np.int64), np.empty(n, np.int32)
    count, place = np.zeros(n_parts, np.int32), np.zeros(n_parts, np.int32)
    n = m = 0
    for t in range(cuts.size - 1):
        begin, end = n, n
        for c in range(cuts[t], cuts[t + 1]):
            for p in parts[first[labels[c]] : first[labels[c] + 1]]:
                if count[p] == 0:
                    _insert(found, begin, end, p)
                    end += 1
                count[p] += 1
        for q in range(begin, end):
            p = found[q]
            if count[p] < cuts[t + 1] - cuts[t]:
                found[n], place[p] = p, n
                n += 1
            else:
                place[p] = -1
            count[p] = 0
        ends[t + 1] = n
        for c in range(cuts[t], cuts[t + 1]):
            for p in parts[first[labels[c]] : first[labels[c] + 1]]:
                if place[p] >= 0:
                    of[m] = place[p]
                    m += 1
            begins[c + 1] = m
    return ends, found[:n].copy(), begins, of[:m].copy()


@njit(cache=True, nogil=True)
def to_candidates(first, of, begin, v, u):
    """u[c] += the sum of v over the slots of candidate c; v begins with slot `begin`."""
    for c in range(u.size):
        for q in range(first[c], first[c + 1]):
            u[c] += v[of[q] - begin]


@njit(cache=True, nogil=True)
def to_slots(first, of, begin, d, e):
    """e[slot] += the sum of d over the candidates that have the slot."""
    for c in range(d.size):
        for q in range(first[c], first[c + 1]):
            e[of[q] - begin] += d[c]


# The functions of NumPy for these would take seconds to compile.


@njit(cache=True, nogil=True)
def _least_of_best(row, best):
    """The least of the largest numbers of a row, as many as `best` has room for."""
    best[:] = -np.inf
    last = best.size - 1
    for x in row:
        if x > best[last]:
            at = last
            while at > 0 and best[at - 1] < x:
                best[at] = best[at - 1]
                at -= 1
            best[at] = x
    return best[last]


@njit(cache=True, nogil=True)
def _grown(array, size):
    out = np.empty(size, np.int32)
    for i in range(array.size):
        out[i] = array[i]
    return out


@njit(cache=True, nogil=True)
def _insert(found, begin, end, p):
    """Put p into found[begin:end], which is in order, and has room for one more."""
    while end > begin and found[end - 1] > p:
        found[end] = found[end - 1]
        end -= 1
    found[end] = p


@njit(cache=True, nogil=True)
def _score(i, sentences, offsets, rows, positions, values, scored, u):
    """The scores of all labels of the words of sentence i into the first rows of u; returns how
    many words there are."""
    a, b, T = offsets[i], offsets[i + 1], sentences[i + 1] - sentences[i]
    u[:T] = 0.0
    add_mixed(rows[a:b], positions[a:b], values[a:b], scored, u[:T])
    return T


@njit(cache=True, nogil=True)
def _likely(sentences, offsets, rows, positions, values, scored, K, most, margin, gold):
    counts = np.zeros(gold.size, np.int64)
    out, n = np.empty(4 * gold.size + most, np.int32), 0
    u, best = np.zeros((longest_of(sentences), K)), np.empty(min(most, K))
    for i in range(sentences.size - 1):
        T = _score(i, sentences, offsets, rows, positions, values, scored, u)
        for t in range(T):
            row, word = u[t], sentences[i] + t
            least = _least_of_best(row, best)
            floor = max(best[0] - margin, least)
            if n + K > out.size:
                out = _grown(out, 2 * out.size + K)
            begin, room = n, most
            for k in range(K):
                if (row[k] >= floor and room > 0) or k == gold[word]:
                    room -= row[k] >= floor
                    out[n] = k
                    n += 1
            counts[word] = n - begin
    return counts, out[:n]


@njit(cache=True, nogil=True)
def _distances(sentences, offsets, rows, positions, values, scored, K, gold):
    below, ranks = np.empty(gold.size), np.empty(gold.size, np.int64)
    u = np.zeros((longest_of(sentences), K))
    for i in range(sentences.size - 1):
        T = _score(i, sentences, offsets, rows, positions, values, scored, u)
        for t in range(T):
            row, word = u[t], sentences[i] + t
            below[word] = row.max() - row[gold[word]]
            ranks[word] = (row > row[gold[word]]).sum()
    return below, ranks


@njit(cache=True, nogil=True)
def _pairs_met(rows, token, cuts, labels, K):
    """row * K + label for each occurrence of a row at a word and each candidate of the word."""
    n = 0
    for o in range(rows.size):
        n += cuts[token[o] + 1] - cuts[token[o]]
    out, n = np.empty(n, np.int64), 0
    for o in range(rows.size):
        for c in range(cuts[token[o]], cuts[token[o] + 1]):
            out[n] = np.int64(rows[o]) * K + labels[c]
            n += 1
    return out
