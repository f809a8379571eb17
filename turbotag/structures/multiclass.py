"""Labels that do not depend on each other: a chain without transitions (order 0).

The labels of all arcs of a sentence are one instance: Z is the product over its T words. Scores and
stats are a flat vector of T*K numbers.
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import chain
from turbotag.structures.elementary import FAST, exp, expectation


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def marginals(scores, K, beta, mu):
    """log Z of beta*scores, and softmax(beta scores[t]) into mu."""
    T = scores.size // K
    u, out = scores.reshape(T, K), mu.reshape(T, K)
    log_z = 0.0
    for t in range(T):
        row, to = u[t], out[t]
        top, total = row.max(), 0.0
        for k in range(K):
            to[k] = exp(beta * (row[k] - top))
            total += to[k]
        for k in range(K):
            to[k] /= total
        log_z += beta * top + math.log(total)
    return log_z


@njit(cache=True, nogil=True)
def log_partition(scores, K, beta):
    """log Z of beta*scores."""
    return marginals(scores, K, beta, np.empty_like(scores))


@njit(cache=True, nogil=True)
def entropy(scores, K, beta):
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    return marginals(scores, K, beta, mu) - beta * expectation(scores, mu)


@njit(cache=True, nogil=True)
def argmax(scores, K, labels):
    """The sum of the scores of the best labels, which are written into labels (T,)."""
    T = scores.size // K
    u, value = scores.reshape(T, K), 0.0
    for t in range(T):
        labels[t] = u[t].argmax()
        value += u[t, labels[t]]
    return value


@njit(cache=True, nogil=True)
def indicator(labels, K, stats):
    """The stats of one label for each word."""
    stats[:] = 0.0
    for t in range(labels.size):
        stats[t * K + labels[t]] = 1.0


@njit(cache=True, nogil=True)
def kbest(scores, K, n_best):
    """(labels (m, T), scores (m,)) of the m <= n_best best sequences, best first."""
    chained = np.zeros(scores.size + K * K)  # transitions of score 0
    chained[: scores.size] = scores
    return chain.kbest(chained, *chain.free(K), n_best)


@njit(cache=True, nogil=True)
def sample(scores, K, beta, rng, labels):
    """Draw a label for each word with probability proportional to exp(beta * score) into labels
    (T,), by a NumPy Generator; returns log Z."""
    mu = np.empty_like(scores)
    log_z = marginals(scores, K, beta, mu)
    for t in range(labels.size):
        labels[t] = chain.draw(mu[t * K : (t + 1) * K], rng)
    return log_z
