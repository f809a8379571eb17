"""Cliques of a chain: label pairs at each position.

A distribution over sequences that factors like the chain is given by its unary marginals (T, K)
and its label-pair marginals (T-1, K, K), flat in this order. Entropies and divergences are sums
over the pairs minus sums over the inner unary marginals (the separators), or over the only label
where T = 1:
    H = -sum_pairs m log m + sum_inner m log m
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures.chain import length, log_messages, log_pairs, messages
from turbotag.structures.cliques import LOG_ZERO, TINY, exponentials
from turbotag.structures.elementary import FAST, log


@njit(cache=True, nogil=True)
def size(T, K):
    return T * K + (T - 1) * K * K


@njit(cache=True, nogil=True)
def _signed(T, K):
    """The two ranges of a flat clique vector that sums run over: plus a..b-1, minus c..d-1."""
    if T == 1:
        return 0, K, 0, 0
    return T * K, T * K + (T - 1) * K * K, K, (T - 1) * K


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def marginals(scores, allowed, start, end, beta, mu, log_mu):
    """log Z of beta*scores, and the marginals and their logs into mu and log_mu.

    log pair[t, j, k] = log alpha[t-1, j] + log E[j, k] + log g[t, k]
    """
    K = start.size
    T = length(scores, K)
    E, c = np.empty((K, K)), np.empty(T)
    eu, alpha, b = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    log_z = messages(scores, allowed, start, end, beta, E, eu, alpha, b, c)
    if math.isnan(log_z):
        return _marginals_by_logs(scores, allowed, start, end, beta, mu, log_mu)
    for t in range(T):
        to, left, right = mu[t * K : (t + 1) * K], alpha[t], b[t]
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
            to, to_log = mu[at : at + K], log_mu[at : at + K]
            a, la, row, log_row = left[j], log_a[j], E[j], log_e[j]
            for k in range(K):
                to[k] = a * row[k] * g[k]
                to_log[k] = la + log_row[k] + log_g[k]
    for i in range(T * K):
        log_mu[i] = log(mu[i]) if mu[i] > TINY else LOG_ZERO
    return log_z


@njit(cache=True, nogil=True)
def _marginals_by_logs(scores, allowed, start, end, beta, mu, log_mu):
    """`marginals` computed with logarithms, for scores of any size."""
    fwd, bwd, emit, step, log_z = log_messages(scores, allowed, start, end, beta)
    T, K = fwd.shape
    for t in range(T):
        at = log_mu[t * K : (t + 1) * K]
        for k in range(K):
            at[k] = fwd[t, k] + bwd[t, k]
        _log_soft_max(at)
        if t > 0:
            pairs = log_mu[T * K + (t - 1) * K * K : T * K + t * K * K]
            log_pairs(fwd, bwd, emit, step, t, pairs)
            _log_soft_max(pairs)
    exponentials(log_mu, mu)
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


@njit(cache=True, nogil=True)
def gold(labels, K, mu, log_mu):
    """The clique marginals of one label sequence, and their logarithms."""
    T = labels.size
    mu[:] = 0.0
    for t in range(T):
        mu[t * K + labels[t]] = 1.0
        if t > 0:
            mu[T * K + ((t - 1) * K + labels[t - 1]) * K + labels[t]] = 1.0
    for i in range(mu.size):
        log_mu[i] = 0.0 if mu[i] > 0.0 else LOG_ZERO


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def stats(mu, T, K, out):
    """The flat stats of a clique distribution: pairs summed over positions."""
    out[: T * K] = mu[: T * K]
    summed = out[T * K :]
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
def entropy(mu, log_mu, T, K):
    """Entropy of a clique distribution (formula above)."""
    a, b, c, d = _signed(T, K)
    return -_dot(mu[a:b], log_mu[a:b]) + _dot(mu[c:d], log_mu[c:d])


@njit(cache=True, nogil=True)
def kl(mu, log_mu, nu, log_nu, T, K):
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
def line(mu, nu, eta, T, K):
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
