"""Inference for a chain of T positions and K labels.

The score of a label sequence y is
    sum_t unary[t, y_t] + sum_{t>0} trans[y_{t-1}, y_t]
and `allowed`, `start`, `end` (float 0 or 1: (K, K), (K,), (K,)) forbid label pairs and labels at
the two ends. The parts of a chain, and so its scores and stats, are one flat vector:
    unary (T*K), then the transitions summed over positions (K*K).
The exact dual needs the cliques instead: label pairs at each position, (T-1, K, K), as logs.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Below this spread of potentials no probability of the scaled recursion can underflow: the
# weakest label of a position is at most (spread + log K) under the strongest after one free step,
# and twice that where a mask makes it take two; exp(-600) is still a normal double.
SAFE_SPREAD = 300.0

FAST = {"reassoc", "contract", "nsz"}  # lets LLVM vectorise sums; infinities and NaN stay exact


@njit(cache=True, nogil=True)
def free(K):
    """The mask that forbids nothing: (allowed, start, end)."""
    return np.ones((K, K)), np.ones(K), np.ones(K)


@njit(cache=True, nogil=True, fastmath=FAST)
def forward_backward(theta, T, K, beta, allowed, start, end, nu):
    """Returns log_partition of the potentials beta*theta and writes the marginals into nu.

    Scaled recursion (Rabiner 1989), with every exponent shifted by its maximum:
        alpha[t, k] = eu[t, k] * sum_j alpha[t-1, j] * E[j, k] / c[t]
        b[t-1, j]   = sum_k E[j, k] * eu[t, k] * b[t, k] / c[t]
        mu[t, k]    = alpha[t, k] * b[t, k]
        xi[j, k]    = E[j, k] * sum_t alpha[t-1, j] * eu[t, k] * b[t, k] / c[t]
    Potentials too far apart for it go to the same recursion in logs.
    """
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : T * K + K * K].reshape(K, K)
    E = np.empty((K, K))
    top, low = -np.inf, np.inf
    for j in range(K):
        for k in range(K):
            if allowed[j, k] > 0.0:
                top = max(top, trans[j, k])
                low = min(low, trans[j, k])
    if top == -np.inf:
        top = low = 0.0
    spread = beta * (top - low) if T > 1 else 0.0

    eu = np.empty((T, K))
    log_z = beta * top * (T - 1)
    widest = 0.0
    for t in range(T):
        high, deep = u[t, 0], u[t, 0]
        for k in range(1, K):
            high = max(high, u[t, k])
            deep = min(deep, u[t, k])
        widest = max(widest, beta * (high - deep))
        log_z += beta * high
        for k in range(K):
            eu[t, k] = math.exp(beta * (u[t, k] - high))
    if not spread + widest < SAFE_SPREAD:
        return forward_backward_log(theta, T, K, beta, allowed, start, end, nu)
    for j in range(K):
        for k in range(K):
            E[j, k] = allowed[j, k] * math.exp(beta * min(trans[j, k] - top, 0.0))
    for k in range(K):
        eu[0, k] *= start[k]
        eu[T - 1, k] *= end[k]

    alpha = np.empty((T, K))
    c = np.empty(T)
    for t in range(T):
        if t == 0:
            for k in range(K):
                alpha[0, k] = eu[0, k]
        else:
            for k in range(K):
                alpha[t, k] = 0.0
            for j in range(K):
                a = alpha[t - 1, j]
                for k in range(K):
                    alpha[t, k] += a * E[j, k]
            for k in range(K):
                alpha[t, k] *= eu[t, k]
        total = 0.0
        for k in range(K):
            total += alpha[t, k]
        c[t] = total
        log_z += math.log(total) if total > 0.0 else -np.inf
        for k in range(K):
            alpha[t, k] /= total

    mu = nu[: T * K].reshape(T, K)
    xi = nu[T * K : T * K + K * K].reshape(K, K)
    xi[:] = 0.0
    b = np.ones(K)
    g = np.empty(K)
    for t in range(T - 1, -1, -1):
        for k in range(K):
            mu[t, k] = alpha[t, k] * b[k]
        if t > 0:
            for k in range(K):
                g[k] = eu[t, k] * b[k] / c[t]
            for j in range(K):
                a = alpha[t - 1, j]
                total = 0.0
                for k in range(K):
                    total += E[j, k] * g[k]
                    xi[j, k] += a * g[k]
                b[j] = total
    for j in range(K):
        for k in range(K):
            xi[j, k] *= E[j, k]
    return log_z


@njit(cache=True, nogil=True)
def _log_sum(values):
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
def forward_backward_log(theta, T, K, beta, allowed, start, end, nu):
    """`forward_backward` in the log domain: slower, and right for potentials of any size."""
    fwd, bwd, pot, log_z = log_messages(theta, T, K, beta, allowed, start, end)
    mu = nu[: T * K].reshape(T, K)
    xi = nu[T * K : T * K + K * K].reshape(K, K)
    xi[:] = 0.0
    for t in range(T):
        for k in range(K):
            mu[t, k] = math.exp(fwd[t, k] + bwd[t, k] - log_z)
        if t > 0:
            for j in range(K):
                for k in range(K):
                    xi[j, k] += math.exp(fwd[t - 1, j] + pot[t, j, k] + bwd[t, k] - log_z)
    return log_z


@njit(cache=True, nogil=True)
def log_messages(theta, T, K, beta, allowed, start, end):
    """Forward and backward log messages (T, K), clique log potentials (T, K, K), log_partition.

    pot[t, j, k] = beta*(trans[j, k] + unary[t, k]), -inf where forbidden; pot[0] is not used.
        fwd[t, k]   = log sum_j exp(fwd[t-1, j] + pot[t, j, k])
        bwd[t-1, j] = log sum_k exp(pot[t, j, k] + bwd[t, k])
    """
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : T * K + K * K].reshape(K, K)
    fwd = np.empty((T, K))
    bwd = np.empty((T, K))
    pot = np.empty((T, K, K))
    row = np.empty(K)
    for k in range(K):
        fwd[0, k] = beta * u[0, k] if start[k] > 0.0 else -np.inf
    for t in range(1, T):
        for j in range(K):
            for k in range(K):
                ok = allowed[j, k] > 0.0
                pot[t, j, k] = beta * (trans[j, k] + u[t, k]) if ok else -np.inf
        for k in range(K):
            for j in range(K):
                row[j] = fwd[t - 1, j] + pot[t, j, k]
            fwd[t, k] = _log_sum(row)
    for k in range(K):
        bwd[T - 1, k] = 0.0 if end[k] > 0.0 else -np.inf
        row[k] = fwd[T - 1, k] + bwd[T - 1, k]
    log_z = _log_sum(row)
    for t in range(T - 1, 0, -1):
        for j in range(K):
            for k in range(K):
                row[k] = pot[t, j, k] + bwd[t, k]
            bwd[t - 1, j] = _log_sum(row)
    return fwd, bwd, pot, log_z


@njit(cache=True, nogil=True)
def viterbi(u, trans, start, end, path):
    """Best label sequence into path (T,); returns its score.

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
        path[t] = k
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
def indicator(path, K, stats):
    """The stats of one label sequence."""
    T = path.size
    stats[: T * K + K * K] = 0.0
    for t in range(T):
        stats[t * K + path[t]] = 1.0
        if t > 0:
            stats[T * K + path[t - 1] * K + path[t]] += 1.0


@njit(cache=True, nogil=True)
def argmax(theta, T, K, allowed, start, end, nu):
    """The best sequence's score, and its stats into nu."""
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : T * K + K * K].reshape(K, K) + barred(allowed)
    path = np.empty(T, np.int32)
    score = viterbi(u, trans, barred(start), barred(end), path)
    indicator(path, K, nu)
    return score


@njit(cache=True, nogil=True)
def kbest(u, trans, start, end, n_best):
    """The n_best highest-scoring sequences, best first: (paths (m, T) int32, scores (m,)).

    m < n_best where fewer exist. A list of n_best candidates for each (position, label), merged
    over the previous label (Huang and Chiang 2005, algorithm 2); ties keep the smaller label.
    """
    T, K = u.shape
    score = np.full((T, K, n_best), -np.inf)
    prev = np.zeros((T, K, n_best), np.int32)
    rank = np.zeros((T, K, n_best), np.int32)
    at = np.zeros(K, np.int64)
    for k in range(K):
        score[0, k, 0] = u[0, k] + start[k]
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
    scores = np.empty(n_best)
    at[:] = 0
    found = 0
    for r in range(n_best):
        best, arg = -np.inf, -1
        for k in range(K):
            if at[k] < n_best and score[T - 1, k, at[k]] + end[k] > best:
                best, arg = score[T - 1, k, at[k]] + end[k], k
        if arg < 0:
            break
        k, i = arg, at[arg]
        at[arg] += 1
        scores[r] = best
        for t in range(T - 1, -1, -1):
            paths[r, t] = k
            k, i = prev[t, k, i], rank[t, k, i]
        found += 1
    return paths[:found], scores[:found]


@njit(cache=True, nogil=True)
def sample(theta, T, K, beta, allowed, start, end, uniforms, path):
    """Draw a sequence from the Gibbs distribution by forward filtering, backward sampling."""
    fwd, bwd, pot, _ = log_messages(theta, T, K, beta, allowed, start, end)
    row = np.empty(K)
    for t in range(T - 1, -1, -1):
        for k in range(K):
            row[k] = fwd[t, k] + (bwd[t, k] if t == T - 1 else pot[t + 1, k, path[t + 1]])
        total = _log_sum(row)
        left = uniforms[t]
        path[t] = K - 1
        for k in range(K):
            p = math.exp(row[k] - total)
            if p > 0.0:
                path[t] = k
            left -= p
            if left < 0.0:
                break


# ---- Cliques: what the exact dual of Le Priol et al. (2018) stores ------------------------------
# A distribution over sequences that factors like the chain is its log label-pair marginals
# pair[t, j, k], t = 1..T-1, and log unary marginals single[t, k], flat: T*K, then (T-1)*K*K.
# Its entropy is H = -sum_t <pair_t, log pair_t> + sum_{0<t<T-1} <single_t, log single_t>,
# or that of its only label where T = 1.


@njit(cache=True, nogil=True)
def clique_size(T, K):
    return T * K + (T - 1) * K * K


@njit(cache=True, nogil=True)
def clique_log_marginals(theta, T, K, beta, allowed, start, end, out):
    """Log unary and pair marginals into out (clique_size,); returns log_partition."""
    fwd, bwd, pot, log_z = log_messages(theta, T, K, beta, allowed, start, end)
    for t in range(T):
        for k in range(K):
            out[t * K + k] = fwd[t, k] + bwd[t, k] - log_z
        if t > 0:
            base = T * K + (t - 1) * K * K
            for j in range(K):
                for k in range(K):
                    out[base + j * K + k] = fwd[t - 1, j] + pot[t, j, k] + bwd[t, k] - log_z
    return log_z


@njit(cache=True, nogil=True)
def clique_stats(log_mu, T, K, stats):
    """The flat stats of a clique distribution."""
    for i in range(T * K):
        stats[i] = math.exp(log_mu[i])
    for i in range(K * K):
        total = 0.0
        for t in range(T - 1):
            total += math.exp(log_mu[T * K + t * K * K + i])
        stats[T * K + i] = total


@njit(cache=True, nogil=True)
def clique_entropy(log_mu, T, K):
    """Entropy of a clique distribution (formula above)."""
    if T == 1:
        return -_plogp(log_mu[:K])
    return -_plogp(log_mu[T * K :]) + _plogp(log_mu[K : (T - 1) * K])


@njit(cache=True, nogil=True)
def _plogp(logs):
    total = 0.0
    for v in logs:
        if v > -np.inf:
            total += v * math.exp(v)
    return total


@njit(cache=True, nogil=True)
def clique_kl(log_p, log_q, T, K):
    """KL(p || q) of two clique distributions, without the cancellation of H and log Z."""
    if T == 1:
        return _kl(log_p[:K], log_q[:K])
    low, high = K, (T - 1) * K
    return _kl(log_p[T * K :], log_q[T * K :]) - _kl(log_p[low:high], log_q[low:high])


@njit(cache=True, nogil=True)
def _kl(log_p, log_q):
    """sum p (log p - log q) - p + q, which equals KL where both sum to the same."""
    total = 0.0
    for i in range(log_p.size):
        if log_p[i] > -np.inf:
            p = math.exp(log_p[i])
            total += p * (log_p[i] - log_q[i]) - p
        if log_q[i] > -np.inf:
            total += math.exp(log_q[i])
    return total


@njit(cache=True, nogil=True)
def clique_mix(log_mu, log_nu, eta, out):
    """log((1 - eta) mu + eta nu), safe where either is tiny."""
    if eta == 1.0:
        out[:] = log_nu
        return
    keep, take = math.log1p(-eta), math.log(eta) if eta > 0.0 else -np.inf
    for i in range(log_mu.size):
        a, b = log_mu[i] + keep, log_nu[i] + take
        if a < b:
            a, b = b, a
        out[i] = a + math.log1p(math.exp(b - a)) if b > -np.inf else a


@njit(cache=True, nogil=True)
def clique_line(log_mu, log_nu, eta, T, K):
    """First and second derivative in eta of the entropy of (1 - eta) mu + eta nu.

    With d = nu - mu and m the mixture: H' = -sum_pairs d log m + sum_inner d log m, and
    H'' = -sum_pairs d^2 / m + sum_inner d^2 / m.
    """
    if T == 1:
        return _line(log_mu[:K], log_nu[:K], eta)
    low, high = K, (T - 1) * K
    first, second = _line(log_mu[T * K :], log_nu[T * K :], eta)
    inner1, inner2 = _line(log_mu[low:high], log_nu[low:high], eta)
    return first - inner1, second - inner2


@njit(cache=True, nogil=True)
def _line(log_mu, log_nu, eta):
    first, second = 0.0, 0.0
    for i in range(log_mu.size):
        a, b = math.exp(log_mu[i]), math.exp(log_nu[i])
        m = (1.0 - eta) * a + eta * b
        if m > 0.0:
            d = b - a
            first -= d * math.log(m)
            second -= d * d / m
    return first, second
