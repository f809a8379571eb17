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

from turbotag.structures.elementary import exp, log

# Below this spread of potentials no probability of the scaled recursion can underflow: the
# weakest label of a position is at most (spread + log K) under the strongest after one free step,
# and twice that where a mask makes it take two; exp(-600) is still a normal double.
SAFE_SPREAD = 300.0

FAST = {"reassoc", "contract", "nsz"}  # lets LLVM vectorise sums; infinities and NaN stay exact


@njit(cache=True, nogil=True)
def free(K):
    """The mask that forbids nothing: (allowed, start, end)."""
    return np.ones((K, K)), np.ones(K), np.ones(K)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _vector_matrix(x, M, out):
    """out[k] = sum_j x[j] * M[j, k], four rows at a time: a short row is over before the
    vector loop has paid for its start."""
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
def messages(theta, T, K, beta, allowed, start, end, E, eu, alpha, b, c):
    """Scaled forward and backward messages (Rabiner 1989), every exponent shifted by its maximum.

        E[j, k]      = allowed[j, k] * exp(beta * trans[j, k] - shift)
        eu[t, k]     = exp(beta * unary[t, k] - shift of t)
        alpha[t, k]  = eu[t, k] * sum_j alpha[t-1, j] * E[j, k] / c[t],   sum_k alpha[t, k] = 1
        b[t-1, j]    = sum_k E[j, k] * g[t, k],   g[t, k] = eu[t, k] * b[t, k] / c[t]

    Returns log_partition, with eu holding g from then on; NaN, and nothing of use in the arrays,
    where the potentials are too far apart for it.
    """
    u = theta[: T * K].reshape(T, K)
    trans = theta[T * K : T * K + K * K].reshape(K, K)
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
def forward_backward(theta, T, K, beta, allowed, start, end, nu):
    """Returns log_partition of the potentials beta*theta and writes the marginals into nu.

    mu[t, k] = alpha[t, k] * b[t, k]
    xi[j, k] = E[j, k] * sum_t alpha[t-1, j] * g[t, k]
    """
    E, c = np.empty((K, K)), np.empty(T)
    eu, alpha, b = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_z = messages(theta, T, K, beta, allowed, start, end, E, eu, alpha, b, c)
    if math.isnan(log_z):
        return forward_backward_log(theta, T, K, beta, allowed, start, end, nu)
    mu = nu[: T * K].reshape(T, K)
    xi = nu[T * K : T * K + K * K].reshape(K, K)
    xi[:] = 0.0
    for t in range(T):
        to, left, right = mu[t], alpha[t], b[t]
        for k in range(K):
            to[k] = left[k] * right[k]
        if t > 0:
            g = eu[t]
            for j in range(K):
                a, row = alpha[t - 1, j], xi[j]
                for k in range(K):
                    row[k] += a * g[k]
    for j in range(K):
        for k in range(K):
            xi[j, k] *= E[j, k]
    return log_z


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
def forward_backward_log(theta, T, K, beta, allowed, start, end, nu):
    """`forward_backward` in the log domain: slower, and right for potentials of any size.

    Every position has a sum of its own, not log_z: where log_z is 1e16, its rounding error is 1.
    """
    fwd, bwd, emit, step, log_z = log_messages(theta, T, K, beta, allowed, start, end)
    mu = nu[: T * K].reshape(T, K)
    xi = nu[T * K : T * K + K * K].reshape(K, K)
    xi[:] = 0.0
    pairs = np.empty(K * K)
    for t in range(T):
        for k in range(K):
            mu[t, k] = fwd[t, k] + bwd[t, k]
        soft_max(mu[t], mu[t])
        if t > 0:
            _log_pairs(fwd, bwd, emit, step, t, pairs)
            soft_max(pairs, pairs)
            for j in range(K):
                for k in range(K):
                    xi[j, k] += pairs[j * K + k]
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
def _log_pairs(fwd, bwd, emit, step, t, out):
    """Log potentials of the label pairs at t - 1 and t: (K*K,)."""
    K = fwd.shape[1]
    for j in range(K):
        for k in range(K):
            out[j * K + k] = (fwd[t - 1, j] + step[j, k]) + (emit[t, k] + bwd[t, k])


@njit(cache=True, nogil=True)
def log_messages(theta, T, K, beta, allowed, start, end):
    """(fwd (T, K), bwd (T, K), emit (T, K), step (K, K), log_partition), all logarithms.

    emit = beta*unary, step = beta*trans, -inf where forbidden.
        fwd[t, k]   = emit[t, k] + log sum_j exp(fwd[t-1, j] + step[j, k])
        bwd[t-1, j] = log sum_k exp(step[j, k] + emit[t, k] + bwd[t, k])
    """
    emit = beta * theta[: T * K].reshape(T, K)
    step = beta * theta[T * K : T * K + K * K].reshape(K, K)
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
    fwd, bwd, _, step, _ = log_messages(theta, T, K, beta, allowed, start, end)
    row = np.empty(K)
    for t in range(T - 1, -1, -1):
        for k in range(K):
            row[k] = fwd[t, k] + (bwd[t, k] if t == T - 1 else step[k, path[t + 1]])
        total = log_sum(row)
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
# A distribution over sequences that factors like the chain is given by its unary marginals
# (T, K) and its label-pair marginals (T-1, K, K), flat in this order; logs are kept beside them,
# with LOG_ZERO for impossible ones. Entropies and divergences are sums over the pairs minus sums
# over the inner unary marginals (the separators), or over the only label where T = 1:
#     H = -sum_pairs m log m + sum_inner m log m

LOG_ZERO = -1e5
TINY = 1e-300


@njit(cache=True, nogil=True)
def clique_size(T, K):
    return T * K + (T - 1) * K * K


@njit(cache=True, nogil=True)
def _signed(T, K):
    """The two ranges of a flat clique vector that sums run over: plus a..b-1, minus c..d-1."""
    if T == 1:
        return 0, K, 0, 0
    return T * K, T * K + (T - 1) * K * K, K, (T - 1) * K


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_marginals(theta, T, K, beta, allowed, start, end, nu, log_nu):
    """Marginals and their logs; returns log_partition.

    log pair[t, j, k] = log alpha[t-1, j] + log E[j, k] + log g[t, k]
    """
    E, c = np.empty((K, K)), np.empty(T)
    eu, alpha, b = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_z = messages(theta, T, K, beta, allowed, start, end, E, eu, alpha, b, c)
    if math.isnan(log_z):
        return _clique_marginals_log(theta, T, K, beta, allowed, start, end, nu, log_nu)
    for t in range(T):
        to, left, right = nu[t * K : (t + 1) * K], alpha[t], b[t]
        for k in range(K):
            to[k] = left[k] * right[k]
    log_e, log_g, log_a = np.empty((K, K)), np.empty(K), np.empty(K)
    for j in range(K):
        for k in range(K):
            log_e[j, k] = log(E[j, k]) if E[j, k] > 0.0 else LOG_ZERO
    for t in range(1, T):
        g, left = eu[t], alpha[t - 1]
        for k in range(K):
            log_g[k] = log(g[k]) if g[k] > 0.0 else LOG_ZERO
            log_a[k] = log(left[k]) if left[k] > 0.0 else LOG_ZERO
        for j in range(K):
            at = T * K + ((t - 1) * K + j) * K
            to, to_log = nu[at : at + K], log_nu[at : at + K]
            a, la, row, log_row = left[j], log_a[j], E[j], log_e[j]
            for k in range(K):
                to[k] = a * row[k] * g[k]
                to_log[k] = la + log_row[k] + log_g[k]
    for i in range(T * K):
        log_nu[i] = log(nu[i]) if nu[i] > TINY else LOG_ZERO
    return log_z


@njit(cache=True, nogil=True)
def _clique_marginals_log(theta, T, K, beta, allowed, start, end, nu, log_nu):
    """The same in the log domain, for potentials of any size."""
    fwd, bwd, emit, step, log_z = log_messages(theta, T, K, beta, allowed, start, end)
    for t in range(T):
        at = log_nu[t * K : (t + 1) * K]
        for k in range(K):
            at[k] = fwd[t, k] + bwd[t, k]
        _log_soft_max(at)
        if t > 0:
            pairs = log_nu[T * K + (t - 1) * K * K : T * K + t * K * K]
            _log_pairs(fwd, bwd, emit, step, t, pairs)
            _log_soft_max(pairs)
    clique_exp(log_nu, nu)
    return log_z


@njit(cache=True, nogil=True)
def _log_soft_max(values):
    """A vector less the log of the sum of its exp, at least LOG_ZERO; in place."""
    high, total = values.max(), 0.0
    for i in range(values.size):
        values[i] -= high
        total += math.exp(values[i])
    total = math.log(total)
    for i in range(values.size):
        values[i] = max(values[i] - total, LOG_ZERO)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_exp(log_mu, mu):
    """mu = exp(log_mu)."""
    for i in range(log_mu.size):
        mu[i] = exp(log_mu[i])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_stats(mu, T, K, stats):
    """The flat stats of a clique distribution: pairs summed over positions."""
    stats[: T * K] = mu[: T * K]
    summed = stats[T * K :]
    summed[:] = 0.0
    for t in range(T - 1):
        pairs = mu[T * K + t * K * K : T * K + (t + 1) * K * K]
        for i in range(K * K):
            summed[i] += pairs[i]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _dot(x, y):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True)
def clique_entropy(mu, log_mu, T, K):
    """Entropy of a clique distribution (formula above)."""
    a, b, c, d = _signed(T, K)
    return -_dot(mu[a:b], log_mu[a:b]) + _dot(mu[c:d], log_mu[c:d])


@njit(cache=True, nogil=True)
def clique_kl(mu, log_mu, nu, log_nu, T, K):
    """(KL(mu || nu), KL(nu || mu)), term by term: H and log Z would cancel in the difference."""
    a, b, c, d = _signed(T, K)
    one, two = _kl(mu[a:b], log_mu[a:b], nu[a:b], log_nu[a:b])
    inner1, inner2 = _kl(mu[c:d], log_mu[c:d], nu[c:d], log_nu[c:d])
    return one - inner1, two - inner2


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _kl(p, log_p, q, log_q):
    one, two = 0.0, 0.0
    for i in range(p.size):
        ratio = log_p[i] - log_q[i]
        one += p[i] * ratio
        two -= q[i] * ratio
    return one, two


@njit(cache=True, nogil=True)
def clique_line(mu, nu, eta, T, K):
    """First and second derivative in eta of the entropy of m = (1 - eta) mu + eta nu.

    With d = nu - mu: H' = -sum_pairs d log m + sum_inner d log m, and likewise H'' with d^2 / m.
    """
    a, b, c, d = _signed(T, K)
    first, second = _line(mu[a:b], nu[a:b], eta)
    inner1, inner2 = _line(mu[c:d], nu[c:d], eta)
    return first - inner1, second - inner2


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _line(mu, nu, eta):
    first, second = 0.0, 0.0
    for i in range(mu.size):
        m = max((1.0 - eta) * mu[i] + eta * nu[i], TINY)
        d = nu[i] - mu[i]
        first -= d * log(m)
        second -= d * d / m
    return first, second


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_mix(mu, log_mu, nu, log_nu, eta):
    """mu and log_mu become those of (1 - eta) mu + eta nu; logs stay right where mu underflows."""
    if eta == 1.0:
        mu[:] = nu
        log_mu[:] = log_nu
        return
    if eta == 0.0:
        return
    keep, take = math.log1p(-eta), math.log(eta)
    small = False
    for i in range(mu.size):
        m = (1.0 - eta) * mu[i] + eta * nu[i]
        small |= m < TINY
        mu[i] = m
    if small:
        for i in range(mu.size):
            if mu[i] < TINY:
                high, low = log_mu[i] + keep, log_nu[i] + take
                if high < low:
                    high, low = low, high
                log_mu[i] = max(high + math.log1p(math.exp(low - high)), LOG_ZERO)
            else:
                log_mu[i] = math.log(mu[i])
    else:
        for i in range(mu.size):
            log_mu[i] = log(mu[i])
