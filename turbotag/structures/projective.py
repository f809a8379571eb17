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

from turbotag.lean import njit
from turbotag.structures import lawler
from turbotag.structures.elementary import FAST, exp, expectation, log
from turbotag.structures.tree import indicator, resolved

# One recursion for three semirings (Goodman 1999): probabilities, their logs, the best score.
PLAIN, LOG, BEST = 0, 1, 2

# If every item lies between these, no product of two can underflow or overflow, and probabilities
# are exact. Otherwise logarithms are used.
SMALLEST, LARGEST = 1e-140, 1e140
LOG_SMALLEST = math.log(SMALLEST)


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
def usable(h, e, n, single_root):
    """Whether complete[h, e] occurs in a tree. With a single root, 0 takes its only modifier in the
    step to complete[0, n], so nothing is built on a shorter span of 0."""
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
            if usable(i, j, n, single_root):
                x, y = incomplete[i, i + 1 : j + 1], by_end[j, i + 1 : j + 1]
                complete[i, j] = by_end[j, i] = _sum(x, y, semiring)
            if usable(j, i, n, single_root):
                incomplete[j, i] = _times(both, theta[j, i], semiring)
                x, y = incomplete[j, i:j], by_end[i, i:j]
                complete[j, i] = by_end[i, j] = _sum(x, y, semiring)
    return joint, incomplete, complete


@njit(cache=True, nogil=True)
def outside(theta, single_root, semiring, incomplete, complete):
    """Charts (joint, incomplete, complete) of the weight of everything outside of an item.

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
            if usable(i, j, n, single_root):
                around = _sum(out_by_end[j, :i], by_modifier[i, :i], semiring)
                if j < n:
                    wider = _sum(out_joint[i, j + 1 :], by_end[j + 1, j + 1 :], semiring)
                    around = _plus(around, wider, semiring)
                elif i == 0:
                    around = one
                out_complete[i, j] = out_by_end[j, i] = around
            out_incomplete[i, j] = _sum(out_complete[i, j:], complete[j, j:], semiring)
            both = _times(out_incomplete[i, j], theta[i, j], semiring)
            if usable(j, i, n, single_root):
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
def shifted(scores, beta):
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
def charts(theta, single_root):
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
def marginals(scores, single_root, beta, mu):
    """log Z of beta*scores, and the probability of every arc into mu (n+1, n+1); -inf and zeros if
    there is no tree.

    mu[h, m] = incomplete[h, m] * out_incomplete[h, m] / Z
    """
    n = scores.shape[0] - 1
    mu[:] = 0.0
    theta, shift = shifted(scores, beta)
    semiring, (_, incomplete, complete), (_, out_incomplete, _) = charts(theta, single_root)
    z = complete[0, n]
    log_z = (math.log(z) if z > 0.0 else -np.inf) if semiring == PLAIN else z
    if log_z + shift == -np.inf:
        return -np.inf
    for h in range(n + 1):
        for m in range(1, n + 1):
            if semiring == PLAIN:
                mu[h, m] = incomplete[h, m] * out_incomplete[h, m] / z
            else:
                mu[h, m] = math.exp(min(incomplete[h, m] + out_incomplete[h, m] - z, 0.0))
    if semiring == PLAIN or resolved(mu):
        return log_z + shift
    # at scores so large that rounding errors decide, the best tree gets probability 1
    heads = np.empty(n, np.int32)
    log_z = beta * argmax(scores, single_root, heads)
    indicator(heads, mu)
    return log_z


@njit(cache=True, nogil=True)
def log_partition(scores, single_root, beta):
    """log Z of beta*scores."""
    return marginals(scores, single_root, beta, np.empty_like(scores))


@njit(cache=True, nogil=True)
def entropy(scores, single_root, beta):
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    return marginals(scores, single_root, beta, mu) - beta * expectation(scores, mu)


# ---- One tree: the best, or a random one --------------------------------------------------------


@njit(cache=True, nogil=True)
def _pick(x, y, u):
    """An index k, drawn with probability exp(x[k] + y[k]) by the uniform number u. A negative u
    asks for the largest, and for the first of several."""
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


def kbest(scores: np.ndarray, single_root: bool, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(heads (m, n), scores (m,)) of the m <= k best trees, best first."""
    return lawler.kbest(argmax, scores, single_root, k)


@njit(cache=True, nogil=True)
def sample(scores, single_root, beta, rng, heads):
    """Draw a tree with probability proportional to exp(beta * score) into heads (n,), by a NumPy
    Generator; returns log Z, -inf and heads of 0 if there is no tree."""
    theta, shift = shifted(scores, beta)
    _, incomplete, complete = inside(theta, single_root, LOG)
    log_z = complete[0, heads.size] + shift
    heads[:] = 0
    if log_z > -np.inf:
        _derive(incomplete, complete, rng.random(2 * heads.size), heads)
    return log_z
