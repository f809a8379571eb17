"""Inference for a second-order chain: a chain over pairs of neighbouring labels.

The score of y adds sum_{t>1} triple[y_{t-2}, y_{t-1}, y_t] to that of the first-order chain, and
the flat vector of parts gets the K*K*K triples after the transitions. The recursions run over
pairs (j, k) = (y_{t-1}, y_t) in O(T K^3); k-best lists and samples go through `expand`, which
writes the chain as a first-order one with K*K labels.
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import chain
from turbotag.structures.elementary import FAST, exp, expectation


@njit(cache=True, nogil=True)
def length(scores, K):
    """T, from the size T*K + K*K + K*K*K of the scores."""
    return scores.size // K - K - K * K


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def marginals(scores, allowed, start, end, beta, mu):
    """log Z of beta*scores, and the probabilities of all parts into mu; -inf and zeros if the mask
    leaves no sequence.

    alpha[t, j, k] = eu[t, k] * E[j, k] * sum_i alpha[t-1, i, j] * G[i, j, k] / c[t]
    b[t-1, i, j]   = sum_k G[i, j, k] * E[j, k] * eu[t, k] * b[t, j, k] / c[t]
    """
    K = start.size
    T = length(scores, K)
    first = T * K + K * K
    mu[T * K :] = 0.0
    if T <= 2:
        return chain.marginals(scores[:first], allowed, start, end, beta, mu[:first])
    u = scores[: T * K].reshape(T, K)
    trans = scores[T * K : first].reshape(K, K)
    triple = scores[first:].reshape(K, K, K)
    high2, high3 = trans.max(), triple.max()
    spread = beta * (high2 - trans.min() + high3 - triple.min())
    log_z = beta * (high2 * (T - 1) + high3 * (T - 2))
    eu = np.empty((T, K))
    widest = 0.0
    for t in range(T):
        top = u[t].max()
        widest = max(widest, beta * (top - u[t].min()))
        log_z += beta * top
        for k in range(K):
            eu[t, k] = exp(beta * (u[t, k] - top))
    if not spread + widest < chain.SAFE_SPREAD:
        return marginals_by_logs(scores, allowed, start, end, beta, mu)
    E = np.empty((K, K))
    G = np.empty((K, K, K))
    for j in range(K):
        for k in range(K):
            E[j, k] = allowed[j, k] * exp(beta * (trans[j, k] - high2))
            for i in range(K):
                G[i, j, k] = exp(beta * (triple[i, j, k] - high3))
    eu[0] *= start
    eu[T - 1] *= end

    alpha = np.empty((T, K, K))
    c = np.ones(T)
    for t in range(1, T):
        total = 0.0
        for j in range(K):
            row = alpha[t, j]
            if t == 1:
                row[:] = eu[0, j]
            else:
                row[:] = 0.0
                for i in range(K):
                    a = alpha[t - 1, i, j]
                    for k in range(K):
                        row[k] += a * G[i, j, k]
            for k in range(K):
                row[k] *= eu[t, k] * E[j, k]
                total += row[k]
        c[t] = total
        log_z += math.log(total) if total > 0.0 else -np.inf
        alpha[t] /= total
    if log_z == -np.inf:  # the mask leaves no sequence
        mu[:] = 0.0
        return log_z

    unary = mu[: T * K].reshape(T, K)
    pairs = mu[T * K : first].reshape(K, K)
    triples = mu[first:].reshape(K, K, K)
    b = np.ones((K, K))
    g = np.empty((K, K))
    unary[:] = 0.0
    for t in range(T - 1, 0, -1):
        for j in range(K):
            for k in range(K):
                m = alpha[t, j, k] * b[j, k]
                pairs[j, k] += m
                unary[t, k] += m
                if t == 1:
                    unary[0, j] += m
                g[j, k] = E[j, k] * eu[t, k] * b[j, k] / c[t]
        if t > 1:
            for i in range(K):
                for j in range(K):
                    a = alpha[t - 1, i, j]
                    total = 0.0
                    for k in range(K):
                        total += G[i, j, k] * g[j, k]
                        triples[i, j, k] += a * g[j, k]
                    b[i, j] = total
    for i in range(K):
        for j in range(K):
            for k in range(K):
                triples[i, j, k] *= G[i, j, k]
    return log_z


@njit(cache=True, nogil=True)
def log_partition(scores, allowed, start, end, beta):
    """log Z of beta*scores."""
    return marginals(scores, allowed, start, end, beta, np.empty_like(scores))


@njit(cache=True, nogil=True)
def entropy(scores, allowed, start, end, beta):
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    return marginals(scores, allowed, start, end, beta, mu) - beta * expectation(scores, mu)


@njit(cache=True, nogil=True)
def expand(scores, allowed, start, end):
    """The chain over pairs, T >= 2: (scores, allowed, start, end) with T - 1 positions, K*K labels.

    Label j*K + k at position t stands for (y_t, y_{t+1}) = (j, k).
    """
    K = start.size
    T, S = length(scores, K), K * K
    u = scores[: T * K].reshape(T, K)
    trans = scores[T * K : T * K + S]
    triple = scores[T * K + S :]
    out = np.zeros((T - 1) * S + S * S)
    pair_allowed = np.zeros((S, S))
    pair_start, pair_end = np.empty(S), np.empty(S)
    for s in range(S):
        j, k = s // K, s % K
        for t in range(T - 1):
            out[t * S + s] = u[t + 1, k] + trans[s] + (u[0, j] if t == 0 else 0.0)
        for m in range(K):
            out[(T - 1) * S + s * S + k * K + m] = triple[s * K + m]
            pair_allowed[s, k * K + m] = allowed[j, k] * allowed[k, m]
        pair_start[s] = start[j] * allowed[j, k]
        pair_end[s] = end[k] * allowed[j, k]
    return out, pair_allowed, pair_start, pair_end


@njit(cache=True, nogil=True)
def marginals_by_logs(scores, allowed, start, end, beta, mu):
    """`marginals` for scores of any size, on logarithms; T >= 2.

    emit = beta*u, triple times beta, step = beta*trans, -inf where forbidden.
    fwd[t, j, k]   = emit[t, k] + step[j, k] + log sum_i exp(fwd[t-1, i, j] + triple[i, j, k])
    bwd[t-1, i, j] = log sum_k exp(triple[i, j, k] + step[j, k] + emit[t, k] + bwd[t, j, k])
    """
    K = start.size
    T = length(scores, K)
    first = T * K + K * K
    emit = beta * scores[: T * K].reshape(T, K)
    step = beta * scores[T * K : first].reshape(K, K)
    triple = beta * scores[first:].reshape(K, K, K)
    fwd, bwd, after = np.empty((T, K, K)), np.zeros((K, K)), np.empty((K, K))
    row, pairs, triples = np.empty(K), np.empty(K * K), np.empty(K * K * K)
    for j in range(K):
        for k in range(K):
            if allowed[j, k] == 0.0:
                step[j, k] = -np.inf
            begin = emit[0, j] if start[j] > 0.0 else -np.inf
            fwd[1, j, k] = emit[1, k] + (step[j, k] + begin)
            if end[k] == 0.0:
                bwd[j, k] = -np.inf
    for t in range(2, T):
        for j in range(K):
            for k in range(K):
                for i in range(K):
                    row[i] = fwd[t - 1, i, j] + triple[i, j, k]
                fwd[t, j, k] = emit[t, k] + (step[j, k] + chain.log_sum(row))
    log_z = chain.log_sum((fwd[T - 1] + bwd).reshape(-1))
    mu[:] = 0.0
    if log_z == -np.inf:
        return log_z
    for t in range(T - 1, 0, -1):
        chain.soft_max((fwd[t] + bwd).reshape(-1), pairs)
        for j in range(K):
            for k in range(K):
                m = pairs[j * K + k]
                mu[t * K + k] += m
                mu[T * K + j * K + k] += m
                if t == 1:
                    mu[j] += m
                after[j, k] = step[j, k] + (emit[t, k] + bwd[j, k])
        if t == 1:
            break
        for i in range(K):
            for j in range(K):
                for k in range(K):
                    row[k] = triple[i, j, k] + after[j, k]
                    triples[(i * K + j) * K + k] = fwd[t - 1, i, j] + row[k]
                bwd[i, j] = chain.log_sum(row)
        chain.soft_max(triples, triples)
        for p in range(triples.size):
            mu[first + p] += triples[p]
    return log_z


@njit(cache=True, nogil=True)
def viterbi(u, trans, triple, start, end, labels):
    """Best label sequence into labels (T,); returns its score. -inf in trans, start, end forbids.

    best[t, j, k] = u[t, k] + trans[j, k] + max_i best[t-1, i, j] + triple[i, j, k]
    """
    T, K = u.shape
    if T == 1:
        return chain.viterbi(u, trans, start, end, labels)
    best = np.empty((K, K), u.dtype)
    new = np.empty((K, K), u.dtype)
    back = np.zeros((T, K, K), np.int32)
    for j in range(K):
        for k in range(K):
            best[j, k] = u[0, j] + start[j] + trans[j, k] + u[1, k]
    for t in range(2, T):
        for j in range(K):
            row, arg = new[j], back[t, j]
            for k in range(K):
                row[k] = best[0, j] + triple[0, j, k]
            for i in range(1, K):
                a = best[i, j]
                for k in range(K):
                    v = a + triple[i, j, k]
                    better = v > row[k]
                    row[k] = v if better else row[k]
                    arg[k] = np.int32(i) if better else arg[k]
            for k in range(K):
                row[k] += u[t, k] + trans[j, k]
        best, new = new, best
    j, k = 0, 0
    for a in range(K):
        for b in range(K):
            best[a, b] += end[b]
            if best[a, b] > best[j, k]:
                j, k = a, b
    score = best[j, k]
    labels[T - 1], labels[T - 2] = k, j
    for t in range(T - 1, 1, -1):
        i = back[t, j, k]
        labels[t - 2] = i
        j, k = i, j
    return score


@njit(cache=True, nogil=True)
def indicator(labels, K, stats):
    """The stats of one label sequence."""
    chain.indicator(labels, K, stats)
    triples = stats[labels.size * K + K * K :]
    triples[:] = 0.0
    for t in range(2, labels.size):
        triples[(labels[t - 2] * K + labels[t - 1]) * K + labels[t]] += 1.0


@njit(cache=True, nogil=True)
def argmax(scores, allowed, start, end, labels):
    """The score of the best sequence, which is written into labels (T,)."""
    K = start.size
    T = length(scores, K)
    first = T * K + K * K
    u = scores[: T * K].reshape(T, K)
    trans = scores[T * K : first].reshape(K, K) + chain.barred(allowed)
    triple = scores[first:].reshape(K, K, K)
    return viterbi(u, trans, triple, chain.barred(start), chain.barred(end), labels)


@njit(cache=True, nogil=True)
def kbest(scores, allowed, start, end, n_best):
    """(labels (m, T), scores (m,)) of the m <= n_best best sequences, best first."""
    K = start.size
    T = length(scores, K)
    if T == 1:
        return chain.kbest(scores[: K + K * K], allowed, start, end, n_best)
    pairs, values = chain.kbest(*expand(scores, allowed, start, end), n_best)
    paths = np.empty((values.size, T), np.int32)
    for r in range(values.size):
        _labels(pairs[r], K, paths[r])
    return paths, values


@njit(cache=True, nogil=True)
def _labels(pairs, K, labels):
    """The labels (T,) of a path through label pairs (T-1,)."""
    labels[0] = pairs[0] // K
    for t in range(pairs.size):
        labels[t + 1] = pairs[t] % K


@njit(cache=True, nogil=True)
def sample(scores, allowed, start, end, beta, rng, labels):
    """Draw a sequence with probability proportional to exp(beta * score) into labels (T,), by a
    NumPy Generator; returns log Z."""
    K = start.size
    T = length(scores, K)
    if T == 1:
        return chain.sample(scores[: K + K * K], allowed, start, end, beta, rng, labels)
    pairs = np.empty(T - 1, labels.dtype)
    log_z = chain.sample(*expand(scores, allowed, start, end), beta, rng, pairs)
    _labels(pairs, K, labels)
    return log_z
