"""Inference for a chain of T positions and K labels.

The score of a label sequence y is
    sum_t unary[t, y_t] + sum_{t>0} trans[y_{t-1}, y_t]
and `allowed`, `start`, `end` (float 0 or 1: (K, K), (K,), (K,)) forbid label pairs and labels at
the two ends. The parts of a chain, and so its scores and stats, are one flat vector:
    unary (T*K), then the transitions summed over positions (K*K).
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures.elementary import FAST, exp, expectation

# Below this spread of potentials no probability of the scaled recursion can underflow: the
# weakest label of a position is at most (spread + log K) under the strongest after one free step,
# and twice that where a mask makes it take two; exp(-600) is still a normal double.
SAFE_SPREAD = 300.0


@njit(cache=True, nogil=True)
def free(K):
    """The mask that forbids nothing: (allowed, start, end)."""
    return np.ones((K, K)), np.ones(K), np.ones(K)


@njit(cache=True, nogil=True)
def length(scores, K):
    """T, from the size T*K + K*K of the scores."""
    return scores.size // K - K


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _vector_matrix(x, M, out):
    """out[k] = sum_j x[j] * M[j, k], four rows at a time: a single short row would end before the
    vectorised loop pays off."""
    K = out.size
    out[:] = 0.0
    whole = K - K % 4
    for j in range(0, whole, 4):
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        row0, row1, row2, row3 = M[j], M[j + 1], M[j + 2], M[j + 3]
        for k in range(K):
            out[k] += x0 * row0[k] + x1 * row1[k] + x2 * row2[k] + x3 * row3[k]
    for j in range(whole, K):
        x0, row0 = x[j], M[j]
        for k in range(K):
            out[k] += x0 * row0[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def messages(scores, allowed, start, end, beta, E, eu, alpha, b, c):
    """Scaled forward and backward messages (Rabiner 1989), every exponent shifted by its maximum.

        E[j, k]      = allowed[j, k] * exp(beta * trans[j, k] - shift)
        eu[t, k]     = exp(beta * unary[t, k] - shift of t)
        alpha[t, k]  = eu[t, k] * sum_j alpha[t-1, j] * E[j, k] / c[t],   sum_k alpha[t, k] = 1
        b[t-1, j]    = sum_k E[j, k] * g[t, k],   g[t, k] = eu[t, k] * b[t, k] / c[t]

    Returns log_partition; eu then holds g. If the potentials are too far apart for this recursion,
    it returns NaN, and the arrays hold nothing of use.
    """
    T, K = eu.shape
    u = scores[: T * K].reshape(T, K)
    trans = scores[T * K : T * K + K * K].reshape(K, K)
    top, low = -np.inf, np.inf
    for j in range(K):
        for k in range(K):
            if allowed[j, k] > 0.0:
                top = max(top, trans[j, k])
                low = min(low, trans[j, k])
    if top == -np.inf:
        top = low = 0.0
    spread = beta * (top - low) if T > 1 else 0.0
    log_z = beta * top * (T - 1)
    widest = 0.0
    for t in range(T):
        at = u[t]
        high, deep = at[0], at[0]
        for k in range(K):
            high = max(high, at[k])
            deep = min(deep, at[k])
        widest = max(widest, beta * (high - deep))
        log_z += beta * high
        to = eu[t]
        for k in range(K):
            to[k] = exp(beta * (at[k] - high))
    if not spread + widest < SAFE_SPREAD:
        return np.nan
    for j in range(K):
        for k in range(K):
            E[j, k] = allowed[j, k] * exp(beta * min(trans[j, k] - top, 0.0))
    for k in range(K):
        eu[0, k] *= start[k]
        eu[T - 1, k] *= end[k]

    for t in range(T):
        to, weight = alpha[t], eu[t]
        if t == 0:
            for k in range(K):
                to[k] = weight[k]
        else:
            _vector_matrix(alpha[t - 1], E, to)
            for k in range(K):
                to[k] *= weight[k]
        total = 0.0
        for k in range(K):
            total += to[k]
        c[t] = total
        log_z += math.log(total) if total > 0.0 else -np.inf
        inverse = 1.0 / total
        for k in range(K):
            to[k] *= inverse

    transposed = np.empty((K, K))
    for j in range(K):
        for k in range(K):
            transposed[k, j] = E[j, k]
    b[T - 1] = 1.0
    for t in range(T - 1, 0, -1):
        inverse = 1.0 / c[t]
        g, message = eu[t], b[t]
        for k in range(K):
            g[k] *= message[k] * inverse
        _vector_matrix(g, transposed, b[t - 1])
    return log_z


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def marginals(scores, allowed, start, end, beta, mu):
    """log Z of beta*scores, and the probabilities of all parts into mu; -inf and zeros if the mask
    leaves no sequence.

    unary[t, k] = alpha[t, k] * b[t, k]
    pairs[j, k] = E[j, k] * sum_t alpha[t-1, j] * g[t, k]
    """
    K = start.size
    T = length(scores, K)
    E, c = np.empty((K, K)), np.empty(T)
    eu, alpha, b = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_z = messages(scores, allowed, start, end, beta, E, eu, alpha, b, c)
    if math.isnan(log_z):
        return marginals_by_logs(scores, allowed, start, end, beta, mu)
    if log_z == -np.inf:  # the mask leaves no sequence
        mu[:] = 0.0
        return log_z
    unary = mu[: T * K].reshape(T, K)
    pairs = mu[T * K : T * K + K * K].reshape(K, K)
    pairs[:] = 0.0
    for t in range(T):
        to, left, right = unary[t], alpha[t], b[t]
        for k in range(K):
            to[k] = left[k] * right[k]
        if t > 0:
            g = eu[t]
            for j in range(K):
                a, row = alpha[t - 1, j], pairs[j]
                for k in range(K):
                    row[k] += a * g[k]
    for j in range(K):
        for k in range(K):
            pairs[j, k] *= E[j, k]
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
def log_sum(values):
    """log sum exp of a vector; -inf if all are."""
    high = -np.inf
    for v in values:
        high = max(high, v)
    if high == -np.inf:
        return high
    total = 0.0
    for v in values:
        total += math.exp(v - high)
    return high + math.log(total)


@njit(cache=True, nogil=True)
def marginals_by_logs(scores, allowed, start, end, beta, mu):
    """`marginals` in the log domain: slower, and right for scores of any size.

    Every position has a sum of its own, not log_z: where log_z is 1e16, its rounding error is 1.
    """
    fwd, bwd, emit, step, log_z = log_messages(scores, allowed, start, end, beta)
    if log_z == -np.inf:  # the mask leaves no sequence
        mu[:] = 0.0
        return log_z
    T, K = fwd.shape
    unary = mu[: T * K].reshape(T, K)
    pairs = mu[T * K : T * K + K * K]
    pairs[:] = 0.0
    here = np.empty(K * K)
    for t in range(T):
        for k in range(K):
            unary[t, k] = fwd[t, k] + bwd[t, k]
        soft_max(unary[t], unary[t])
        if t > 0:
            log_pairs(fwd, bwd, emit, step, t, here)
            soft_max(here, here)
            for p in range(K * K):
                pairs[p] += here[p]
    return log_z


@njit(cache=True, nogil=True)
def soft_max(values, out):
    """exp of a vector over its sum."""
    high, total = values.max(), 0.0
    for i in range(values.size):
        out[i] = math.exp(values[i] - high)
        total += out[i]
    for i in range(values.size):
        out[i] /= total


@njit(cache=True, nogil=True)
def log_pairs(fwd, bwd, emit, step, t, out):
    """Log potentials of the label pairs at t - 1 and t: (K*K,)."""
    K = fwd.shape[1]
    for j in range(K):
        for k in range(K):
            out[j * K + k] = (fwd[t - 1, j] + step[j, k]) + (emit[t, k] + bwd[t, k])


@njit(cache=True, nogil=True)
def log_messages(scores, allowed, start, end, beta):
    """(fwd (T, K), bwd (T, K), emit (T, K), step (K, K), log_partition), all logarithms.

    emit = beta*unary, step = beta*trans, -inf where forbidden.
        fwd[t, k]   = emit[t, k] + log sum_j exp(fwd[t-1, j] + step[j, k])
        bwd[t-1, j] = log sum_k exp(step[j, k] + emit[t, k] + bwd[t, k])
    """
    K = start.size
    T = length(scores, K)
    emit = beta * scores[: T * K].reshape(T, K)
    step = beta * scores[T * K : T * K + K * K].reshape(K, K)
    fwd, bwd, row = np.empty((T, K)), np.empty((T, K)), np.empty(K)
    for j in range(K):
        for k in range(K):
            if allowed[j, k] == 0.0:
                step[j, k] = -np.inf
    for k in range(K):
        fwd[0, k] = emit[0, k] if start[k] > 0.0 else -np.inf
    for t in range(1, T):
        for k in range(K):
            for j in range(K):
                row[j] = fwd[t - 1, j] + step[j, k]
            fwd[t, k] = emit[t, k] + log_sum(row)
    for k in range(K):
        bwd[T - 1, k] = 0.0 if end[k] > 0.0 else -np.inf
        row[k] = fwd[T - 1, k] + bwd[T - 1, k]
    log_z = log_sum(row)
    for t in range(T - 1, 0, -1):
        for j in range(K):
            for k in range(K):
                row[k] = step[j, k] + (emit[t, k] + bwd[t, k])
            bwd[t - 1, j] = log_sum(row)
    return fwd, bwd, emit, step, log_z


@njit(cache=True, nogil=True)
def viterbi(u, trans, start, end, labels):
    """Best label sequence into labels (T,); returns its score.

    trans, start, end hold -inf where forbidden (see `barred`).
        best[t, k] = u[t, k] + max_j best[t-1, j] + trans[j, k];  ties go to the smaller label
    """
    T, K = u.shape
    best = np.empty(K, u.dtype)
    new = np.empty(K, u.dtype)
    arg = np.empty(K, np.int32)
    back = np.empty((T, K), np.int32)
    for k in range(K):
        best[k] = u[0, k] + start[k]
    for t in range(1, T):
        for k in range(K):
            new[k] = best[0] + trans[0, k]
            arg[k] = 0
        for j in range(1, K):
            b = best[j]
            for k in range(K):
                v = b + trans[j, k]
                better = v > new[k]
                new[k] = v if better else new[k]
                arg[k] = np.int32(j) if better else arg[k]
        for k in range(K):
            best[k] = new[k] + u[t, k]
            back[t, k] = arg[k]
    k = 0
    for j in range(K):
        best[j] += end[j]
        if best[j] > best[k]:
            k = j
    score = best[k]
    for t in range(T - 1, -1, -1):
        labels[t] = k
        k = back[t, k] if t > 0 else 0
    return score


@njit(cache=True, nogil=True)
def barred(mask):
    """0 where the mask is 1 and -inf where it is 0."""
    out = np.empty_like(mask)
    for i in range(mask.size):
        out.flat[i] = 0.0 if mask.flat[i] > 0.0 else -np.inf
    return out


@njit(cache=True, nogil=True)
def indicator(labels, K, stats):
    """The stats of one label sequence."""
    T = labels.size
    stats[: T * K + K * K] = 0.0
    for t in range(T):
        stats[t * K + labels[t]] = 1.0
        if t > 0:
            stats[T * K + labels[t - 1] * K + labels[t]] += 1.0


@njit(cache=True, nogil=True)
def _tables(scores, allowed, start, end):
    """(unary, trans, start, end), -inf where the mask forbids."""
    K = start.size
    T = length(scores, K)
    u, trans = scores[: T * K].reshape(T, K), scores[T * K : T * K + K * K].reshape(K, K)
    return u, trans + barred(allowed), barred(start), barred(end)


@njit(cache=True, nogil=True)
def argmax(scores, allowed, start, end, labels):
    """The score of the best sequence, which is written into labels (T,)."""
    u, trans, first, last = _tables(scores, allowed, start, end)
    return viterbi(u, trans, first, last, labels)


@njit(cache=True, nogil=True)
def kbest(scores, allowed, start, end, n_best):
    """(labels (m, T), scores (m,)) of the m <= n_best best sequences, best first.

    A list of n_best candidates for each (position, label), merged over the previous label (Huang
    and Chiang 2005, algorithm 2); ties keep the smaller label.
    """
    u, trans, first, last = _tables(scores, allowed, start, end)
    T, K = u.shape
    score = np.full((T, K, n_best), -np.inf)
    prev = np.zeros((T, K, n_best), np.int32)
    rank = np.zeros((T, K, n_best), np.int32)
    at = np.zeros(K, np.int64)
    for k in range(K):
        score[0, k, 0] = u[0, k] + first[k]
    for t in range(1, T):
        for k in range(K):
            at[:] = 0
            for r in range(n_best):
                best, arg = -np.inf, -1
                for j in range(K):
                    if at[j] < n_best:
                        v = score[t - 1, j, at[j]] + trans[j, k]
                        if v > best:
                            best, arg = v, j
                if arg < 0:
                    break
                score[t, k, r] = best + u[t, k]
                prev[t, k, r], rank[t, k, r] = arg, at[arg]
                at[arg] += 1
    paths = np.empty((n_best, T), np.int32)
    values = np.empty(n_best)
    at[:] = 0
    found = 0
    for r in range(n_best):
        best, arg = -np.inf, -1
        for k in range(K):
            if at[k] < n_best and score[T - 1, k, at[k]] + last[k] > best:
                best, arg = score[T - 1, k, at[k]] + last[k], k
        if arg < 0:
            break
        k, i = arg, at[arg]
        at[arg] += 1
        values[r] = best
        for t in range(T - 1, -1, -1):
            paths[r, t] = k
            k, i = prev[t, k, i], rank[t, k, i]
        found += 1
    return paths[:found], values[:found]


@njit(cache=True, nogil=True)
def sample(scores, allowed, start, end, beta, rng, labels):
    """Draw a sequence with probability proportional to exp(beta * score) into labels (T,), by a
    NumPy Generator; returns log Z. Forward filtering, backward sampling."""
    fwd, bwd, _, step, log_z = log_messages(scores, allowed, start, end, beta)
    if log_z == -np.inf:
        return log_z
    T, K = fwd.shape
    row = np.empty(K)
    for t in range(T - 1, -1, -1):
        for k in range(K):
            row[k] = fwd[t, k] + (bwd[t, k] if t == T - 1 else step[k, labels[t + 1]])
        soft_max(row, row)
        labels[t] = draw(row, rng)
    return log_z


@njit(cache=True, nogil=True)
def draw(probabilities, rng):
    """An index drawn with these probabilities; never one of probability 0."""
    left, drawn = rng.random(), 0
    for k in range(probabilities.size):
        if probabilities[k] > 0.0:
            drawn = k
        left -= probabilities[k]
        if left < 0.0:
            break
    return drawn
