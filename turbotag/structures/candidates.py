"""Inference for a chain of T words, each with a candidate list of its own.

Word t has C_t candidates; `cuts` (T+1,) are the sums of C, from 0. The score of a choice y, where
y_t is a place in the list of word t, is
    sum_t unary[cuts[t] + y_t] + sum_{t>0} pairs_t[y_{t-1}, y_t],
and scores and stats are one flat vector: unary (cuts[T]), then the C_{t-1} x C_t pairs of each
t > 0. A vector without pairs is one of words that do not depend on each other (order 0).

Lists are short, so all sums are of logarithms: a dozen candidates need no scaled recursion.
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures.chain import draw, soft_max
from turbotag.structures.elementary import FAST, exp, expectation


@njit(cache=True, nogil=True)
def size(cuts, order):
    """The number of parts."""
    total = cuts[-1]
    for t in range(1, cuts.size - 1 if order else 0):
        total += (cuts[t] - cuts[t - 1]) * (cuts[t + 1] - cuts[t])
    return total


@njit(cache=True, nogil=True)
def chained(scores, cuts):
    """Whether there are pairs."""
    return scores.size > cuts[-1]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def log_sum(values):
    """log sum exp of a vector; -inf if all are."""
    high = values[0]
    for i in range(values.size):
        high = max(high, values[i])
    if high == -np.inf:
        return high
    total = 0.0
    for i in range(values.size):
        total += exp(values[i] - high)
    return high + math.log(total)


@njit(cache=True, nogil=True)
def messages(scores, cuts, beta):
    """(fwd (cuts[T],), bwd (cuts[T],), log_partition), all logarithms, of a vector with pairs.

    fwd[t, k]   = beta unary[t, k] + log sum_j exp(fwd[t-1, j] + beta pairs_t[j, k])
    bwd[t-1, j] = log sum_k exp(beta pairs_t[j, k] + beta unary[t, k] + bwd[t, k])
    """
    T, n = cuts.size - 1, cuts[-1]
    fwd, bwd = np.empty(n), np.zeros(n)
    for k in range(cuts[1]):
        fwd[k] = beta * scores[k]
    at = n
    for t in range(1, T):
        a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
        row = np.empty(b - a)
        for k in range(c - b):
            for j in range(b - a):
                row[j] = fwd[a + j] + beta * scores[at + j * (c - b) + k]
            fwd[b + k] = beta * scores[b + k] + log_sum(row)
        at += (b - a) * (c - b)
    for t in range(T - 1, 0, -1):
        a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
        at -= (b - a) * (c - b)
        row = np.empty(c - b)
        for j in range(b - a):
            for k in range(c - b):
                row[k] = beta * scores[at + j * (c - b) + k] + (beta * scores[b + k] + bwd[b + k])
            bwd[a + j] = log_sum(row)
    return fwd, bwd, log_sum(fwd[cuts[T - 1] :])


@njit(cache=True, nogil=True)
def marginals(scores, cuts, beta, mu):
    """log Z of beta*scores, and the probabilities of all parts into mu.

    Every word, and every pair of words, has a sum of its own, not log_z: where log_z is 1e16, its
    rounding error is 1.
    """
    T = cuts.size - 1
    if not chained(scores, cuts):
        return _independent(scores, cuts, beta, mu)
    fwd, bwd, log_z = messages(scores, cuts, beta)
    for t in range(T):
        here = mu[cuts[t] : cuts[t + 1]]
        for k in range(here.size):
            here[k] = fwd[cuts[t] + k] + bwd[cuts[t] + k]
        soft_max(here, here)
    at = cuts[T]
    for t in range(1, T):
        a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
        here = mu[at : at + (b - a) * (c - b)]
        for j in range(b - a):
            for k in range(c - b):
                p = j * (c - b) + k
                here[p] = (fwd[a + j] + beta * scores[at + p]) + (beta * scores[b + k] + bwd[b + k])
        soft_max(here, here)
        at += here.size
    return log_z


@njit(cache=True, nogil=True)
def _independent(scores, cuts, beta, mu):
    """`marginals` of order 0."""
    log_z = 0.0
    for t in range(cuts.size - 1):
        here = mu[cuts[t] : cuts[t + 1]]
        for k in range(here.size):
            here[k] = beta * scores[cuts[t] + k]
        log_z += log_sum(here)
        soft_max(here, here)
    return log_z


@njit(cache=True, nogil=True)
def log_partition(scores, cuts, beta):
    """log Z of beta*scores."""
    return marginals(scores, cuts, beta, np.empty_like(scores))


@njit(cache=True, nogil=True)
def entropy(scores, cuts, beta):
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    return marginals(scores, cuts, beta, mu) - beta * expectation(scores, mu)


@njit(cache=True, nogil=True)
def argmax(scores, cuts, best):
    """The best score, and the choices (T,) that have it; ties go to the smaller place.

    top[t, k] = unary[t, k] + max_j top[t-1, j] + pairs_t[j, k]
    """
    T, n = cuts.size - 1, cuts[-1]
    if not chained(scores, cuts):
        value = 0.0
        for t in range(T):
            best[t] = scores[cuts[t] : cuts[t + 1]].argmax()
            value += scores[cuts[t] + best[t]]
        return value
    top, back = scores[:n].copy(), np.zeros(n, np.int64)
    at = n
    for t in range(1, T):
        a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
        for k in range(c - b):
            high, arg = -np.inf, 0
            for j in range(b - a):
                value = top[a + j] + scores[at + j * (c - b) + k]
                if value > high:
                    high, arg = value, j
            top[b + k] += high
            back[b + k] = arg
        at += (b - a) * (c - b)
    k = top[cuts[T - 1] :].argmax()
    value = top[cuts[T - 1] + k]
    for t in range(T - 1, -1, -1):
        best[t] = k
        k = back[cuts[t] + k]
    return value


@njit(cache=True, nogil=True)
def indicator(choices, cuts, stats):
    """The stats of one choice; stats has pairs or not."""
    stats[:] = 0.0
    at, pairs = cuts[-1], chained(stats, cuts)
    for t in range(choices.size):
        stats[cuts[t] + choices[t]] = 1.0
        if t > 0 and pairs:
            a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
            stats[at + choices[t - 1] * (c - b) + choices[t]] = 1.0
            at += (b - a) * (c - b)


@njit(cache=True, nogil=True)
def kbest(scores, cuts, n_best):
    """(choices (m, T), scores (m,)) of the m <= n_best best choices, best first.

    A list of n_best for each candidate, merged over those of the previous word (Huang and Chiang
    2005, algorithm 2); ties keep the smaller place.
    """
    T, n = cuts.size - 1, cuts[-1]
    score = np.full((n, n_best), -np.inf)
    prev, rank = np.zeros((n, n_best), np.int64), np.zeros((n, n_best), np.int64)
    for k in range(cuts[1]):
        score[k, 0] = scores[k]
    pairs, at = chained(scores, cuts), n
    for t in range(1, T):
        a, b, c = cuts[t - 1], cuts[t], cuts[t + 1]
        for k in range(c - b):
            next_of = np.zeros(b - a, np.int64)
            for r in range(n_best):
                high, arg = -np.inf, -1
                for j in range(b - a):
                    if next_of[j] < n_best:
                        value = score[a + j, next_of[j]]
                        if pairs:
                            value += scores[at + j * (c - b) + k]
                        if value > high:
                            high, arg = value, j
                if arg < 0:
                    break
                score[b + k, r] = high + scores[b + k]
                prev[b + k, r], rank[b + k, r] = arg, next_of[arg]
                next_of[arg] += 1
        if pairs:
            at += (b - a) * (c - b)
    choices, values = np.empty((n_best, T), np.int32), np.empty(n_best)
    last, found = cuts[T - 1], 0
    next_of = np.zeros(n - last, np.int64)
    for r in range(n_best):
        high, arg = -np.inf, -1
        for k in range(n - last):
            if next_of[k] < n_best and score[last + k, next_of[k]] > high:
                high, arg = score[last + k, next_of[k]], k
        if arg < 0:
            break
        k, i = arg, next_of[arg]
        next_of[arg] += 1
        values[r] = high
        for t in range(T - 1, -1, -1):
            choices[r, t] = k
            k, i = prev[cuts[t] + k, i], rank[cuts[t] + k, i]
        found += 1
    return choices[:found], values[:found]


@njit(cache=True, nogil=True)
def sample(scores, cuts, beta, rng, drawn):
    """Draw choices with probability proportional to exp(beta * score) into drawn (T,), by a NumPy
    Generator; returns log Z. Forward filtering, backward sampling."""
    T = cuts.size - 1
    if not chained(scores, cuts):
        mu = np.empty_like(scores)
        log_z = _independent(scores, cuts, beta, mu)
        for t in range(T):
            drawn[t] = draw(mu[cuts[t] : cuts[t + 1]], rng)
        return log_z
    fwd, _, log_z = messages(scores, cuts, beta)
    at = scores.size
    for t in range(T - 1, -1, -1):
        row = fwd[cuts[t] : cuts[t + 1]].copy()
        if t < T - 1:
            C = cuts[t + 2] - cuts[t + 1]
            at -= row.size * C
            for k in range(row.size):
                row[k] += beta * scores[at + k * C + drawn[t + 1]]
        soft_max(row, row)
        drawn[t] = draw(row, rng)
    return log_z
