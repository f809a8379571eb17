"""Inference for first-order projective dependency trees, by Eisner's algorithm (1996).

A sentence has the words 1..n and the artificial root 0, its leftmost node. `scores` (n+1, n+1)
holds the score of the arc from head h to modifier m at [h, m], -inf where it is not allowed;
column 0 and the diagonal are not read. `heads` (n,) int32 are the heads of the words 1..n. With
`single_root` exactly one word hangs on 0, else any number from 1. beta is positive.

The items of the parse forest are charts (n+1, n+1); i < j, while h may stand on either side:
    joint[i, j]       i, j and the words between, not yet known which of the two is the head
    incomplete[h, m]  the same with the arc from h to m
    complete[h, e]    h and its descendants on the side of e, which is the last of them
Every projective tree has exactly one derivation from them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from turbotag.structures.chain import FAST, LOG_ZERO, TINY, clique_exp
from turbotag.structures.elementary import exp, log
from turbotag.structures.tree import certain, resolved

# One recursion for three semirings (Goodman 1999): probabilities, their logs, the best score.
PLAIN, LOG, BEST = 0, 1, 2

# Probabilities are exact while every item lies between these: no product of two can underflow or
# overflow. Else the logs serve.
SMALLEST, LARGEST = 1e-140, 1e140
LOG_SMALLEST = math.log(SMALLEST)

JOINT, COMPLETE = 0, 1  # kinds of items that a clique vector holds


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _sum(x, y, semiring):
    """sum_k x[k] y[k], or log sum_k exp(x[k] + y[k]), or max_k x[k] + y[k]."""
    if semiring == PLAIN:
        total = 0.0
        for k in range(x.size):
            total += x[k] * y[k]
        return total
    high = -np.inf
    for k in range(x.size):
        high = max(high, x[k] + y[k])
    if semiring == BEST or high == -np.inf:
        return high
    total = 0.0
    for k in range(x.size):
        total += exp(x[k] + y[k] - high)
    return high + log(total)


@njit(cache=True, nogil=True)
def _plus(a, b, semiring):
    """a + b, or log(exp(a) + exp(b))."""
    if semiring == PLAIN:
        return a + b
    high, low = max(a, b), min(a, b)
    if low == -np.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@njit(cache=True, nogil=True)
def _times(a, b, semiring):
    return a * b if semiring == PLAIN else a + b


@njit(cache=True, nogil=True)
def _usable(h, e, n, single_root):
    """Whether complete[h, e] occurs in a tree. A single root: 0 takes its only modifier in the
    step to complete[0, n], so that nothing can be built on a shorter span of 0."""
    return e == n or not single_root if h == 0 else e > 0


@njit(cache=True, nogil=True)
def inside(theta, single_root, semiring):
    """Charts (joint, incomplete, complete) of the potentials theta (n+1, n+1).

    Sums and products are the semiring's; the weight of all trees is complete[0, n].
        joint[i, j]      = sum_{i <= k < j} complete[i, k] * complete[j, k+1]
        incomplete[i, j] = joint[i, j] * theta[i, j],  incomplete[j, i] = joint[i, j] * theta[j, i]
        complete[i, j]   = sum_{i < k <= j} incomplete[i, k] * complete[k, j]
        complete[j, i]   = sum_{i <= k < j} incomplete[j, k] * complete[k, i]
    """
    n = theta.shape[0] - 1
    zero, one = (0.0, 1.0) if semiring == PLAIN else (-np.inf, 0.0)
    joint, incomplete = np.full((n + 1, n + 1), zero), np.full((n + 1, n + 1), zero)
    complete = np.full((n + 1, n + 1), zero)
    by_end = np.full((n + 1, n + 1), zero)  # complete, transposed: sums run along rows
    for h in range(n + 1):
        complete[h, h] = by_end[h, h] = one
    for width in range(1, n + 1):
        for i in range(n + 1 - width):
            j = i + width
            both = _sum(complete[i, i:j], complete[j, i + 1 : j + 1], semiring)
            joint[i, j] = both
            incomplete[i, j] = _times(both, theta[i, j], semiring)
            if _usable(i, j, n, single_root):
                x, y = incomplete[i, i + 1 : j + 1], by_end[j, i + 1 : j + 1]
                complete[i, j] = by_end[j, i] = _sum(x, y, semiring)
            if _usable(j, i, n, single_root):
                incomplete[j, i] = _times(both, theta[j, i], semiring)
                x, y = incomplete[j, i:j], by_end[i, i:j]
                complete[j, i] = by_end[i, j] = _sum(x, y, semiring)
    return joint, incomplete, complete


@njit(cache=True, nogil=True)
def outside(theta, single_root, semiring, incomplete, complete):
    """Charts (joint, incomplete, complete) of the weight of all that surrounds an item.

    Each recurrence of `inside`, read for one of its factors:
        out_complete[i, j]   = sum_{h < i} out_complete[h, j] * incomplete[h, i]
                             + sum_{k > j} out_joint[i, k] * complete[k, j+1]
        out_complete[j, i]   = sum_{h > j} out_complete[h, i] * incomplete[h, j]
                             + sum_{k < i} out_joint[k, j] * complete[k, i-1]
        out_incomplete[i, j] = sum_{e >= j} out_complete[i, e] * complete[j, e]
        out_incomplete[j, i] = sum_{0 < e <= i} out_complete[j, e] * complete[i, e]
        out_joint[i, j]      = out_incomplete[i, j] * theta[i, j]
                             + out_incomplete[j, i] * theta[j, i]
    """
    n = theta.shape[0] - 1
    zero, one = (0.0, 1.0) if semiring == PLAIN else (-np.inf, 0.0)
    by_end, by_modifier = complete.T.copy(), incomplete.T.copy()
    out_joint = np.full((n + 1, n + 1), zero)  # symmetric
    out_incomplete, out_complete = np.full((n + 1, n + 1), zero), np.full((n + 1, n + 1), zero)
    out_by_end = np.full((n + 1, n + 1), zero)
    for width in range(n, 0, -1):
        for i in range(n + 1 - width):
            j = i + width
            if _usable(i, j, n, single_root):
                around = _sum(out_by_end[j, :i], by_modifier[i, :i], semiring)
                if j < n:
                    wider = _sum(out_joint[i, j + 1 :], by_end[j + 1, j + 1 :], semiring)
                    around = _plus(around, wider, semiring)
                elif i == 0:
                    around = one
                out_complete[i, j] = out_by_end[j, i] = around
            out_incomplete[i, j] = _sum(out_complete[i, j:], complete[j, j:], semiring)
            both = _times(out_incomplete[i, j], theta[i, j], semiring)
            if _usable(j, i, n, single_root):
                around = _sum(out_by_end[i, j + 1 :], by_modifier[j, j + 1 :], semiring)
                wider = _sum(out_joint[j, :i], by_end[i - 1, :i], semiring)
                out_complete[j, i] = out_by_end[i, j] = _plus(around, wider, semiring)
                x, y = out_complete[j, 1 : i + 1], complete[i, 1 : i + 1]
                out_incomplete[j, i] = _sum(x, y, semiring)
                other = _times(out_incomplete[j, i], theta[j, i], semiring)
                both = _plus(both, other, semiring)
            out_joint[i, j] = out_joint[j, i] = both
    return out_joint, out_incomplete, out_complete


@njit(cache=True, nogil=True)
def _shifted(scores, beta):
    """(theta, shift): theta[h, m] = beta*(scores[h, m] - max over h), which is at most 0 and
    changes log Z by the shift, as every word has one head; -inf where a word can have none."""
    n = scores.shape[0] - 1
    theta = np.full((n + 1, n + 1), -np.inf)
    shift = 0.0
    for m in range(1, n + 1):
        high = -np.inf
        for h in range(n + 1):
            if h != m:
                high = max(high, scores[h, m])
        shift += beta * high
        if high > -np.inf:
            for h in range(n + 1):
                if h != m:
                    theta[h, m] = beta * (scores[h, m] - high)
    return theta, shift


@njit(cache=True, nogil=True)
def _fits(chart):
    """Whether every number is 0 or safe to multiply (NaN is not)."""
    for v in chart.flat:
        if v != 0.0 and not SMALLEST <= v <= LARGEST:
            return False
    return True


@njit(cache=True, nogil=True)
def _charts(theta, single_root):
    """(semiring, inside charts, outside charts): PLAIN where the numbers fit, else LOG."""
    fits = True
    for v in theta.flat:
        fits &= v == -np.inf or v >= LOG_SMALLEST  # an arc that is allowed must not become 0
    if fits:
        weights = np.exp(theta)
        joint, incomplete, complete = inside(weights, single_root, PLAIN)
        if _fits(joint) and _fits(incomplete) and _fits(complete):
            outer = outside(weights, single_root, PLAIN, incomplete, complete)
            if _fits(outer[0]) and _fits(outer[1]) and _fits(outer[2]):
                return PLAIN, (joint, incomplete, complete), outer
    joint, incomplete, complete = inside(theta, single_root, LOG)
    outer = outside(theta, single_root, LOG, incomplete, complete)
    return LOG, (joint, incomplete, complete), outer


@njit(cache=True, nogil=True)
def inside_outside(scores, single_root, beta, marginals):
    """Returns log_partition of the potentials beta*scores and writes the arc marginals, (n+1, n+1);
    -inf and zeros where there is no tree.

    marginals[h, m] = incomplete[h, m] * out_incomplete[h, m] / Z
    """
    n = scores.shape[0] - 1
    marginals[:] = 0.0
    theta, shift = _shifted(scores, beta)
    semiring, (_, incomplete, complete), (_, out_incomplete, _) = _charts(theta, single_root)
    z = complete[0, n]
    log_z = (math.log(z) if z > 0.0 else -np.inf) if semiring == PLAIN else z
    if log_z + shift == -np.inf:
        return -np.inf
    for h in range(n + 1):
        for m in range(1, n + 1):
            if semiring == PLAIN:
                marginals[h, m] = incomplete[h, m] * out_incomplete[h, m] / z
            else:
                marginals[h, m] = math.exp(min(incomplete[h, m] + out_incomplete[h, m] - z, 0.0))
    if semiring == PLAIN or resolved(marginals):
        return log_z + shift
    heads = np.empty(n, np.int32)  # so large that rounding errors decide: the best tree has it all
    log_z = beta * argmax(scores, single_root, heads)
    certain(heads, marginals)
    return log_z


# ---- One tree: the best, or a random one --------------------------------------------------------


@njit(cache=True, nogil=True)
def _pick(x, y, u):
    """An index k drawn with probability exp(x[k] + y[k]) by the uniform number u; u < 0 asks for
    the largest, and of equals the first."""
    total = _sum(x, y, BEST if u < 0.0 else LOG)
    picked, left = 0, u
    for k in range(x.size):
        v = x[k] + y[k]
        if u < 0.0:
            if v == total:
                return k
        elif v > -np.inf:
            picked = k
            left -= math.exp(v - total)
            if left < 0.0:
                break
    return picked


@njit(cache=True, nogil=True)
def _derive(incomplete, complete, uniforms, heads):
    """Walk the inside charts from complete[0, n] down, two picks for every arc."""
    n = heads.size
    by_end = complete.T.copy()
    todo = [(0, n)]  # complete items
    drawn = 0
    while todo:
        h, e = todo.pop()
        low, high = (h + 1, e + 1) if h < e else (e, h)
        m = low + _pick(incomplete[h, low:high], by_end[e, low:high], uniforms[drawn])
        heads[m - 1] = h
        i, j = min(h, m), max(h, m)
        k = i + _pick(complete[i, i:j], complete[j, i + 1 : j + 1], uniforms[drawn + 1])
        drawn += 2
        for head, end in ((m, e), (i, k), (j, k + 1)):
            if head != end:
                todo.append((head, end))


@njit(cache=True, nogil=True)
def argmax(scores, single_root, heads):
    """Best tree into heads (n,); returns its score, -inf and heads of 0 if there is none."""
    _, incomplete, complete = inside(scores, single_root, BEST)
    value = complete[0, heads.size]
    heads[:] = 0
    if value > -np.inf:
        _derive(incomplete, complete, np.full(2 * heads.size, -1.0), heads)
    return value


@njit(cache=True, nogil=True)
def sample(scores, single_root, beta, uniforms, heads):
    """Draw a tree from the Gibbs distribution, with uniforms (2n,) from [0, 1), into heads (n,);
    returns log_partition, -inf and heads of 0 if there is none."""
    theta, shift = _shifted(scores, beta)
    _, incomplete, complete = inside(theta, single_root, LOG)
    log_z = complete[0, heads.size] + shift
    heads[:] = 0
    if log_z > -np.inf:
        _derive(incomplete, complete, uniforms, heads)
    return log_z


# ---- Cliques: what the exact dual of Le Priol et al. (2018) stores ------------------------------
# A distribution over trees is given by the marginals of the hyperedges of the forest: an item and
# the k of one term of its recurrence. Those of an item sum to its own marginal, and
#     p(hyperedge | item) = m_hyperedge / m_item
# from the top down is a distribution over trees that has these marginals. By the chain rule
#     H = sum_items m_item H(p(. | item)) = -sum_hyperedges m log m + sum_items m log m,
# which is -sum_p c_p m_p log m_p for the counting numbers c = +1 at hyperedges and -1 at items. A
# Gibbs distribution has this form, so its H is log Z - beta*scores'm. H is concave in m: each
# -m_hyperedge log(m_hyperedge / m_item) is, as a relative entropy, and m_item is linear in the
# hyperedges. So the entropy of the mixture (1 - eta) mu + eta nu is at least the mixture of the
# entropies. Items with no choice (incomplete, which is joint and an arc) add nothing and are left
# out, and so are the spans that `_usable` excludes: no number of the vector is 0 for all scores.


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
                if kind == JOINT or _usable(h, e, n, single_root):
                    rows.append((kind, h, e, low, high, at))
                    at += 1 + high - low
    return rows


@njit(cache=True, nogil=True)
def clique_size(n, single_root):
    _, _, _, low, high, at = items(n, single_root)[-1]
    return at + 1 + high - low


@njit(cache=True, nogil=True)
def counting(n, single_root):
    """The counting numbers c (formula above)."""
    c = np.ones(clique_size(n, single_root))
    for row in items(n, single_root):
        c[row[5]] = -1.0
    return c


@njit(cache=True, nogil=True, error_model="numpy")
def _logs(chart):
    for i in range(chart.size):
        v = chart.flat[i]
        chart.flat[i] = log(v) if v > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def clique_marginals(scores, single_root, beta, mu, log_mu):
    """Marginals and their logs; returns log_partition, -inf and zeros if there is no tree."""
    n = scores.shape[0] - 1
    theta, shift = _shifted(scores, beta)
    semiring, inner, outer = _charts(theta, single_root)
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
    clique_exp(log_mu, mu)
    return log_z + shift


@njit(cache=True, nogil=True)
def clique_gold(heads, single_root, mu, log_mu):
    """The derivation of one tree; returns 0, or -inf if it is not a projective tree.

    It is the Gibbs distribution where only the arcs of the tree are allowed.
    """
    n = heads.size
    scores = np.full((n + 1, n + 1), -np.inf)
    for m in range(1, n + 1):
        scores[heads[m - 1], m] = 0.0
    return clique_marginals(scores, single_root, 1.0, mu, log_mu)


@njit(cache=True, nogil=True)
def clique_stats(mu, n, single_root, stats):
    """The arc marginals (n+1, n+1) of a clique distribution.

    stats[h, k] = sum_e of the hyperedges incomplete[h, k] * complete[k, e] of complete[h, e]
    """
    stats[:] = 0.0
    for kind, h, _, low, high, at in items(n, single_root):
        if kind == COMPLETE:
            to, edges = stats[h, low:high], mu[at + 1 : at + 1 + high - low]
            for k in range(to.size):
                to[k] += edges[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_entropy(mu, log_mu, c):
    """Entropy of a clique distribution (formula above)."""
    total = 0.0
    for p in range(mu.size):
        total -= c[p] * mu[p] * log_mu[p]
    return total


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_kl(mu, log_mu, nu, log_nu, c):
    """(KL(mu || nu), KL(nu || mu)), term by term: H and log Z would cancel in the difference."""
    one, two = 0.0, 0.0
    for p in range(mu.size):
        ratio = c[p] * (log_mu[p] - log_nu[p])
        one += mu[p] * ratio
        two -= nu[p] * ratio
    return one, two


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def clique_line(mu, nu, eta, c):
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
