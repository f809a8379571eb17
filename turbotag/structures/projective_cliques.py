"""Cliques of projective trees: the hyperedges of Eisner's parse forest (structures/projective).

A distribution over trees is given by the marginals of the hyperedges of the forest: an item and
the k of one term of its recurrence. Those of an item sum to its own marginal, and
    p(hyperedge | item) = m_hyperedge / m_item
from the top down is a distribution over trees that has these marginals. By the chain rule
    H = sum_items m_item H(p(. | item)) = -sum_hyperedges m log m + sum_items m log m,
which is -sum_p c_p m_p log m_p for the counting numbers c = +1 at hyperedges and -1 at items. A
Gibbs distribution has this form, so its H is log Z - beta*scores'm. H is concave in m: each
-m_hyperedge log(m_hyperedge / m_item) is, as a relative entropy, and m_item is linear in the
hyperedges. So the entropy of the mixture (1 - eta) mu + eta nu is at least the mixture of the
entropies. Items with no choice (incomplete, which is joint and an arc) add nothing and are left
out, and so are the spans that `usable` excludes: no number of the vector is 0 for all scores.
"""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit
from turbotag.structures.cliques import LOG_ZERO, TINY, exponentials
from turbotag.structures.elementary import FAST, log
from turbotag.structures.projective import PLAIN, charts, shifted, usable

JOINT, COMPLETE = 0, 1  # kinds of items that a clique vector holds


@njit(cache=True, nogil=True)
def items(n, single_root):
    """The order of a clique vector: a row (kind, h, e, low, high, at) for each item joint[h, e] or
    complete[h, e]. Its marginal is at `at`, those of its hyperedges, low <= k < high, follow."""
    rows, at = [], 0
    for i in range(n):
        for j in range(i + 1, n + 1):
            last = 1 if i == 0 and single_root else j  # 0 has no complete[0, k] but k = 0
            for kind, h, e, low, high in (
                (JOINT, i, j, i, last),
                (COMPLETE, i, j, i + 1, j + 1),
                (COMPLETE, j, i, i, j),
            ):
                if kind == JOINT or usable(h, e, n, single_root):
                    rows.append((kind, h, e, low, high, at))
                    at += 1 + high - low
    return rows


@njit(cache=True, nogil=True)
def size(n, single_root):
    _, _, _, low, high, at = items(n, single_root)[-1]
    return at + 1 + high - low


@njit(cache=True, nogil=True)
def counting(n, single_root):
    """The counting numbers c (formula above)."""
    c = np.ones(size(n, single_root))
    for row in items(n, single_root):
        c[row[5]] = -1.0
    return c


@njit(cache=True, nogil=True, error_model="numpy")
def _logs(chart):
    for i in range(chart.size):
        v = chart.flat[i]
        chart.flat[i] = log(v) if v > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def marginals(scores, single_root, beta, mu, log_mu):
    """log Z of beta*scores, and the marginals and their logs into mu and log_mu; -inf and zeros if
    there is no tree."""
    n = scores.shape[0] - 1
    theta, shift = shifted(scores, beta)
    semiring, inner, outer = charts(theta, single_root)
    joint, incomplete, complete = inner
    out_joint, _, out_complete = outer
    if semiring == PLAIN:
        for chart in (joint, incomplete, complete, out_joint, out_complete):
            _logs(chart)
    log_z = complete[0, n]
    if log_z + shift == -np.inf:
        mu[:] = 0.0
        log_mu[:] = LOG_ZERO
        return -np.inf
    by_end = complete.T.copy()
    for kind, h, e, low, high, at in items(n, single_root):
        if kind == JOINT:
            item, around = joint[h, e], out_joint[h, e] - log_z
            x, y = complete[h, low:high], complete[e, low + 1 : high + 1]
        else:
            item, around = complete[h, e], out_complete[h, e] - log_z
            x, y = incomplete[h, low:high], by_end[e, low:high]
        log_mu[at] = min(max(item + around, LOG_ZERO), 0.0)
        to = log_mu[at + 1 : at + 1 + high - low]
        for k in range(to.size):
            to[k] = min(max(x[k] + y[k] + around, LOG_ZERO), 0.0)
    exponentials(log_mu, mu)
    return log_z + shift


@njit(cache=True, nogil=True)
def gold(heads, single_root, mu, log_mu):
    """The derivation of one tree; returns 0, or -inf if it is not a projective tree.

    It is the Gibbs distribution where only the arcs of the tree are allowed.
    """
    n = heads.size
    scores = np.full((n + 1, n + 1), -np.inf)
    for m in range(1, n + 1):
        scores[heads[m - 1], m] = 0.0
    return marginals(scores, single_root, 1.0, mu, log_mu)


@njit(cache=True, nogil=True)
def stats(mu, n, single_root, out):
    """The arc marginals (n+1, n+1) of a clique distribution.

    out[h, k] = sum_e of the hyperedges incomplete[h, k] * complete[k, e] of complete[h, e]
    """
    out[:] = 0.0
    for kind, h, _, low, high, at in items(n, single_root):
        if kind == COMPLETE:
            to, edges = out[h, low:high], mu[at + 1 : at + 1 + high - low]
            for k in range(to.size):
                to[k] += edges[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def entropy(mu, log_mu, c):
    """Entropy of a clique distribution (formula above)."""
    total = 0.0
    for p in range(mu.size):
        total -= c[p] * mu[p] * log_mu[p]
    return total


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def kl(mu, log_mu, nu, log_nu, c):
    """(KL(mu || nu), KL(nu || mu)), term by term: H and log Z would cancel in the difference."""
    one, two = 0.0, 0.0
    for p in range(mu.size):
        ratio = c[p] * (log_mu[p] - log_nu[p])
        one += mu[p] * ratio
        two -= nu[p] * ratio
    return one, two


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def line(mu, nu, eta, c):
    """First and second derivative in eta of the entropy of m = (1 - eta) mu + eta nu.

    With d = nu - mu: H' = -sum_p c_p d_p log m_p and H'' = -sum_p c_p d_p^2 / m_p.
    """
    first, second = 0.0, 0.0
    for p in range(mu.size):
        m = max((1.0 - eta) * mu[p] + eta * nu[p], TINY)
        d = nu[p] - mu[p]
        first -= c[p] * d * log(m)
        second -= c[p] * d * d / m
    return first, second
