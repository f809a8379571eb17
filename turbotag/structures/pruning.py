"""Candidate arcs: all of a sentence, or those that a small model finds probable."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from turbotag.structures import projective, tree

# Heads kept for a word, and how improbable they may be beside the best: for arcs, and for
# second-order parts, whose number grows with the square.
WIDE, NARROW = (10, 1e-4), (8, 3e-4)


@njit(cache=True, nogil=True)
def full(n):
    """(cuts, heads): every word, and the root, as a head of every other word."""
    cuts, heads = np.arange(n + 1) * n, np.empty(n * n, np.int32)
    e = 0
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                heads[e] = h
                e += 1
    return cuts, heads


@njit(cache=True, nogil=True)
def matrix(theta, cuts, heads):
    """(n+1, n+1) scores of candidate arcs, -inf elsewhere; cuts may begin anywhere."""
    n = cuts.size - 1
    scores = np.full((n + 1, n + 1), -np.inf)
    for m in range(1, n + 1):
        for e in range(cuts[m - 1] - cuts[0], cuts[m] - cuts[0]):
            scores[heads[e], m] = theta[e]
    return scores


def prune(
    theta: np.ndarray, decoder: str, single_root: bool, limit: int, ratio: float
) -> tuple[np.ndarray, np.ndarray]:
    """(cuts, heads) of the arcs worth keeping, from the scores of all arcs (in `full` order).

    The most probable heads of each word, at most `limit` and none below `ratio` of the best; and
    the arcs of the best tree that the decoder may give, so that there always is one: decoder is
    nonprojective, projective, or projective-decoding (marginals of all trees, but the best one
    projective).
    """
    n = math.isqrt(theta.size)
    scores = matrix(theta, *full(n))
    mu, best = np.empty_like(scores), np.empty(n, np.int32)
    # not in a kernel: each would have to be compiled for the other
    (projective if decoder == "projective" else tree).marginals(scores, single_root, 1.0, mu)
    (tree if decoder == "nonprojective" else projective).argmax(scores, single_root, best)
    return _probable(mu, best, limit, ratio)


@njit(cache=True, nogil=True)
def _probable(mu, best, limit, ratio):
    n = best.size
    cuts, heads = np.zeros(n + 1, np.int64), np.empty(n * min(n, limit + 1), np.int32)
    keep = np.empty(n + 1, np.bool_)
    size = 0
    for m in range(1, n + 1):
        column = mu[:, m].copy()
        column[m] = -1.0
        order = np.argsort(-column)
        keep[:] = False
        for r in range(min(limit, n)):
            keep[order[r]] = column[order[r]] >= ratio * column[order[0]]
        keep[best[m - 1]] = True
        for h in range(n + 1):
            if keep[h]:
                heads[size] = h
                size += 1
        cuts[m] = size
    return cuts, heads[:size]


@njit(cache=True, nogil=True)
def with_gold(cuts, heads, gold):
    """The same candidates with every word's gold head among them, and how many there were."""
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
