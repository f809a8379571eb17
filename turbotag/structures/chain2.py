"""Inference for a second-order chain: a chain over pairs of neighbouring labels.

The score of y adds sum_{t>1} triple[y_{t-2}, y_{t-1}, y_t] to that of the first-order chain, and
the flat vector of parts gets the K*K*K triples after the transitions. The recursions run over
pairs (j, k) = (y_{t-1}, y_t) in O(T K^3); k-best lists go through `expand`, which writes the chain
as a first-order one with K*K labels.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from turbotag.structures import chain
from turbotag.structures.elementary import exp


@njit(cache=True, nogil=True, fastmath=chain.FAST, error_model="numpy")
def forward_backward(theta, T, K, beta, allowed, start, end, nu):
    """Returns log_partition of beta*theta and writes the marginals into nu.

    alpha[t, j, k] = eu[t, k] * E[j, k] * sum_i alpha[t-1, i, j] * G[i, j, k] / c[t]
    b[t-1, i, j]   = sum_k G[i, j, k] * E[j, k] * eu[t, k] * b[t, j, k] / c[t]
    """
    first = T * K + K * K
    nu[T * K :] = 0.0
    if T <= 2:
        return chain.forward_backward(theta[:first], T, K, beta, allowed, start, end, nu[:first])
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : first].reshape(K, K)
    triple = theta[first:].reshape(K, K, K)
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
        return forward_backward_log(theta, T, K, beta, allowed, start, end, nu)
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

    mu = nu[: T * K].reshape(T, K)
    xi = nu[T * K : first].reshape(K, K)
    zeta = nu[first:].reshape(K, K, K)
    b = np.ones((K, K))
    g = np.empty((K, K))
    mu[:] = 0.0
    for t in range(T - 1, 0, -1):
        for j in range(K):
            for k in range(K):
                m = alpha[t, j, k] * b[j, k]
                xi[j, k] += m
                mu[t, k] += m
                if t == 1:
                    mu[0, j] += m
                g[j, k] = E[j, k] * eu[t, k] * b[j, k] / c[t]
        if t > 1:
            for i in range(K):
                for j in range(K):
                    a = alpha[t - 1, i, j]
                    total = 0.0
                    for k in range(K):
                        total += G[i, j, k] * g[j, k]
                        zeta[i, j, k] += a * g[j, k]
                    b[i, j] = total
    for i in range(K):
        for j in range(K):
            for k in range(K):
                zeta[i, j, k] *= G[i, j, k]
    return log_z


@njit(cache=True, nogil=True)
def expand(theta, T, K, allowed, start, end):
    """The chain over pairs, T >= 2: (theta, allowed, start, end) with T - 1 positions, K*K labels.

    Label j*K + k at position t stands for (y_t, y_{t+1}) = (j, k).
    """
    S = K * K
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : T * K + S]
    triple = theta[T * K + S :]
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
def forward_backward_log(theta, T, K, beta, allowed, start, end, nu):
    """`forward_backward` for potentials of any size, on logarithms; T >= 2.

    emit = beta*u, triple times beta, step = beta*trans, -inf where forbidden.
    fwd[t, j, k]   = emit[t, k] + step[j, k] + log sum_i exp(fwd[t-1, i, j] + triple[i, j, k])
    bwd[t-1, i, j] = log sum_k exp(triple[i, j, k] + step[j, k] + emit[t, k] + bwd[t, j, k])
    """
    first = T * K + K * K
    emit = beta * theta[: T * K].reshape(T, K)
    step = beta * theta[T * K : first].reshape(K, K)
    triple = beta * theta[first:].reshape(K, K, K)
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
    nu[:] = 0.0
    for t in range(T - 1, 0, -1):
        chain.soft_max((fwd[t] + bwd).reshape(-1), pairs)
        for j in range(K):
            for k in range(K):
                m = pairs[j * K + k]
                nu[t * K + k] += m
                nu[T * K + j * K + k] += m
                if t == 1:
                    nu[j] += m
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
            nu[first + p] += triples[p]
    return log_z


@njit(cache=True, nogil=True)
def viterbi(u, trans, triple, start, end, path):
    """Best label sequence into path (T,); returns its score. -inf in trans, start, end forbids.

    best[t, j, k] = u[t, k] + trans[j, k] + max_i best[t-1, i, j] + triple[i, j, k]
    """
    T, K = u.shape
    if T == 1:
        return chain.viterbi(u, trans, start, end, path)
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
    path[T - 1], path[T - 2] = k, j
    for t in range(T - 1, 1, -1):
        i = back[t, j, k]
        path[t - 2] = i
        j, k = i, j
    return score


@njit(cache=True, nogil=True)
def add_triples(path, K, stats):
    """The triples of one label sequence, after its first-order stats."""
    base = path.size * K + K * K
    stats[base:] = 0.0
    for t in range(2, path.size):
        stats[base + (path[t - 2] * K + path[t - 1]) * K + path[t]] += 1.0


@njit(cache=True, nogil=True)
def argmax(theta, T, K, allowed, start, end, nu):
    """The best sequence's score, and its stats into nu."""
    first = T * K + K * K
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : first].reshape(K, K) + chain.barred(allowed)
    triple = theta[first:].reshape(K, K, K)
    path = np.empty(T, np.int32)
    score = viterbi(u, trans, triple, chain.barred(start), chain.barred(end), path)
    chain.indicator(path, K, nu)
    add_triples(path, K, nu)
    return score
