"""Candidate arcs: all of a sentence, or those that a small model finds probable."""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit
from turbotag.structures.decoders import argmax_of_each, decoder_of, marginals_of_each

# How many heads are kept for a word, and how improbable they may be relative to the best: for arcs,
# and for second-order parts, whose number grows with the square of it. Arcs learn from more wrong
# heads than they need to choose from.
WIDE, NARROW = (10, 1e-3), (8, 1e-2)
CHOOSE = 1e-2  # in prediction


@njit(cache=True, nogil=True)
def every(sentences):
    """(cuts, heads): all candidate arcs of a block, every word and the root as a head of every
    other word of its sentence. The candidate heads of word t are heads[cuts[t]:cuts[t+1]]."""
    size = 0
    for i in range(sentences.size - 1):
        size += (sentences[i + 1] - sentences[i]) ** 2
    cuts, heads = np.zeros(sentences[-1] - sentences[0] + 1, np.int64), np.empty(size, np.int32)
    t = e = 0
    for i in range(sentences.size - 1):
        n = sentences[i + 1] - sentences[i]
        for m in range(1, n + 1):
            for h in range(n + 1):
                if h != m:
                    heads[e] = h
                    e += 1
            t += 1
            cuts[t] = e
    return cuts, heads


@njit(cache=True, nogil=True)
def full(n):
    """`every` for one sentence of n words."""
    return every(np.array([0, n]))


@njit(cache=True, nogil=True)
def squares(theta, cuts, heads, sentences):
    """The scores of candidate arcs as matrices (n+1, n+1), -inf elsewhere; those of one sentence
    stand behind those of the sentence before."""
    size = 0
    for i in range(sentences.size - 1):
        size += (sentences[i + 1] - sentences[i] + 1) ** 2
    scores = np.full(size, -np.inf)
    begin = 0
    for i in range(sentences.size - 1):
        side = sentences[i + 1] - sentences[i] + 1
        for m in range(1, side):
            t = sentences[i] + m - 1
            for e in range(cuts[t], cuts[t + 1]):
                scores[begin + heads[e] * side + m] = theta[e]
        begin += side**2
    return scores


@njit(cache=True, nogil=True)
def chosen(values, sentences, heads):
    """(words,) the entries of `squares` for the arcs of trees."""
    out, begin = np.empty(heads.size), 0
    for i in range(sentences.size - 1):
        a, side = sentences[i], sentences[i + 1] - sentences[i] + 1
        for m in range(1, side):
            out[a + m - 1] = values[begin + heads[a + m - 1] * side + m]
        begin += side * side
    return out


@njit(cache=True, nogil=True)
def matrix(theta, cuts, heads):
    """(n+1, n+1) scores of candidate arcs, -inf elsewhere; cuts may begin anywhere."""
    n = cuts.size - 1
    return squares(theta, cuts - cuts[0], heads, np.array([0, n])).reshape(n + 1, n + 1)


def prune(
    scores: np.ndarray,
    sentences: np.ndarray,
    decoder: str,
    single_root: bool,
    kept: tuple[int, float],
) -> tuple[np.ndarray, np.ndarray]:
    """(cuts, heads) of the arcs worth keeping, from the `squares` of the scores of all arcs.

    Kept are the most probable heads of each word, at most kept[0], and none below kept[1] of the
    best; and the arcs of the best tree that the decoder may give, so that there always is one.
    decoder: nonprojective, projective, or projective-decoding (marginals over all trees, but the
    best tree is projective).
    """
    mu, best = np.empty_like(scores), np.empty(sentences[-1], np.int32)
    summed = decoder_of(decoder == "projective", single_root)
    given = decoder_of(decoder != "nonprojective", single_root)
    marginals_of_each(summed, scores, sentences, 1.0, mu)
    argmax_of_each(given, scores, sentences, best)
    found: tuple[np.ndarray, np.ndarray] = _probable(mu, best, sentences, *kept)
    return found


@njit(cache=True, nogil=True)
def _next(column, keep, m):
    """The most probable head of word m that is not kept yet, the first of equals."""
    best, found = -1.0, 0
    for h in range(column.size):
        if h != m and not keep[h] and column[h] > best:
            best, found = column[h], h
    return found


@njit(cache=True, nogil=True)
def _probable(mu, best, sentences, limit, ratio):
    room, longest = 0, 0
    for i in range(sentences.size - 1):
        n = sentences[i + 1] - sentences[i]
        room, longest = room + n * min(n, limit + 1), max(longest, n)
    cuts, heads = np.zeros(best.size + 1, np.int64), np.empty(room, np.int32)
    keep = np.empty(longest + 1, np.bool_)
    begin = size = t = 0
    for i in range(sentences.size - 1):
        n = sentences[i + 1] - sentences[i]
        for m in range(1, n + 1):
            column = mu[begin + m : begin + (n + 1) ** 2 : n + 1]
            keep[: n + 1] = False
            most = -1.0
            for _ in range(min(limit, n)):
                h = _next(column, keep, m)
                most = max(most, column[h])
                if column[h] < ratio * most:
                    break
                keep[h] = True
            keep[best[t]] = True
            for h in range(n + 1):
                if keep[h]:
                    heads[size] = h
                    size += 1
            t += 1
            cuts[t] = size
        begin += (n + 1) ** 2
    return cuts, heads[:size]


@njit(cache=True, nogil=True)
def with_gold(cuts, heads, gold):
    """(cuts, heads, found): the candidates with the gold head of every word added; found: how many
    gold heads were candidates already."""
    out_cuts, out = np.zeros_like(cuts), np.empty(heads.size + gold.size, np.int32)
    size, found = 0, 0
    for m in range(gold.size):
        placed = False
        for e in range(cuts[m], cuts[m + 1]):
            if heads[e] == gold[m]:
                found += 1
                placed = True
            elif heads[e] > gold[m] and not placed:
                out[size] = gold[m]
                size += 1
                placed = True
            out[size] = heads[e]
            size += 1
        if not placed:
            out[size] = gold[m]
            size += 1
        out_cuts[m + 1] = size
    return out_cuts, out[:size], found
