"""Non-projective dependency trees: log-partition, marginals, argmax, k-best, samples.

scores: (n+1, n+1), scores[h, m] of the arc from head h to modifier m; words are 1..n and 0 is the
root. Column 0 and the diagonal are ignored; -inf rules an arc out. With `single_root` exactly one
word hangs on the root, else one or more do. `heads` is (n,): the heads of words 1..n.

The matrix-tree theorem without a subtraction. The weight of all trees is the determinant of the
Laplacian (Tutte 1984; Koo et al. 2007; Smith and Smith 2007), which textbook elimination computes
as a difference of large numbers. Eliminating word k combines the arcs h -> k and k -> m into one,
    a'(h, m) = a(h, m) + p(h) a(k, m),   p(h) = a(h, k) / d,   d = sum_h a(h, k),
and Z = d Z'. Kept as off-diagonal numbers, never as diagonal ones, this has no subtraction (the
idea of Grassmann, Taksar and Heyman 1985 for Markov chains), so it neither cancels nor needs
pivoting, however skewed the scores. A single root is the limit of ever smaller root arcs: they do
not count in d, but for the word that is eliminated last. Marginals are the derivatives of log Z,
by going through the same steps backwards; there a subtraction is left, so they are exact to about
1e-14 in absolute terms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import lawler
from turbotag.structures.elementary import FAST, exp, expectation

WIDEST = 600.0  # a larger range of scores goes through logs: e^-600 is still a normal number
# largest error of a sum of probabilities that should be 1: scores of about 1e13 lead to it
UNRESOLVED = 1e-3


class Space(NamedTuple):
    """Memory for the marginals of n words, to be used again and again."""

    matrices: np.ndarray
    vectors: np.ndarray
    name: np.ndarray


@njit(cache=True, nogil=True)
def space(n):
    return Space(np.empty((3, n + 1, n + 1)), np.empty((3, n + 1)), np.empty(n + 1, np.int64))


@njit(cache=True, nogil=True)
def marginals(scores, single_root, beta, mu):
    """log Z of beta*scores, and the probability of every arc into mu (n+1, n+1); -inf and zeros if
    there is no tree."""
    return marginals_in(space(scores.shape[0] - 1), scores, single_root, beta, mu)


@njit(cache=True, nogil=True)
def log_partition(scores, single_root, beta):
    """log Z of beta*scores."""
    return marginals(scores, single_root, beta, np.empty_like(scores))


@njit(cache=True, nogil=True)
def entropy(scores, single_root, beta):
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    return marginals(scores, single_root, beta, mu) - beta * expectation(scores, mu)


@njit(cache=True, nogil=True)
def marginals_in(space, scores, single_root, beta, mu):
    """`marginals` that allocates nothing, except where scores are hundreds apart."""
    n = scores.shape[0] - 1
    top = space.vectors[0]  # scores are taken relative to the best head of each word
    top[:] = 0.0
    widest, best_root = 0.0, -np.inf
    for m in range(1, n + 1):
        best, least = -np.inf, np.inf
        for h in range(1 if single_root else 0, n + 1):
            if h != m and scores[h, m] > -np.inf:
                best, least = max(best, scores[h, m]), min(least, scores[h, m])
        if best > -np.inf:
            top[m] = best
            widest = max(widest, best - least)
        best_root = max(best_root, scores[0, m] - top[m])
    if best_root == -np.inf:
        mu[:] = 0.0
        return -np.inf
    # every tree has exactly one root arc: what all of them have in common is taken out
    if single_root:
        top[0] = best_root
        for m in range(1, n + 1):
            if scores[0, m] > -np.inf:
                widest = max(widest, best_root - (scores[0, m] - top[m]))
    theta, common = space.matrices[0], 0.0
    for m in range(n + 1):
        common += beta * top[m]
    if beta * widest <= WIDEST:
        _relative(scores, beta, top, theta)
        log_z = _linear(space, single_root, mu)
        if log_z == log_z:
            return log_z + common
    _relative(scores, beta, top, theta)
    log_z = _logarithmic(theta, single_root, mu)
    if log_z == -np.inf or resolved(mu):
        return log_z + common
    # at scores so large that rounding errors decide, the best tree gets probability 1
    heads = np.empty(n, np.int32)
    common = beta * argmax(scores, single_root, heads)
    indicator(heads, mu)
    return common


@njit(cache=True, nogil=True)
def indicator(heads, stats):
    """The arcs (n+1, n+1) of one tree."""
    stats[:] = 0.0
    for m in range(heads.size):
        stats[heads[m], m + 1] = 1.0


@njit(cache=True, nogil=True)
def _relative(scores, beta, top, theta):
    """theta[h, m] = beta (scores[h, m] - top[m]), and less top[0] for the root; -inf for no arc.

    The difference is taken before the product, and without `fastmath`, which might change the
    order. So its rounding error is relative to the difference, not to the scores.
    """
    n = scores.shape[0] - 1
    for h in range(n + 1):
        shift = top[0] if h == 0 else 0.0
        for m in range(1, n + 1):
            theta[h, m] = beta * ((scores[h, m] - top[m]) - shift)
        theta[h, 0] = theta[h, h] = -np.inf


@njit(cache=True, nogil=True)
def resolved(mu):
    """Whether the probabilities of the heads of every word sum to 1 up to rounding; they are then
    scaled to do so exactly."""
    for m in range(1, mu.shape[0]):
        total = 0.0
        for h in range(mu.shape[0]):
            total += mu[h, m]
        if not abs(total - 1.0) < UNRESOLVED:
            return False
        for h in range(mu.shape[0]):
            mu[h, m] /= total
    return True


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _linear(space, single_root, mu):
    """`marginals` of the potentials in `space`, which are overwritten by their exponentials.
    Returns NaN if doubles cannot hold the result."""
    weight, a, b = space.matrices[0], space.matrices[1], space.matrices[2]
    n = weight.shape[0] - 1
    d, q = space.vectors[1], space.vectors[2]
    name = space.name  # the word that stands at each place, should any have to swap
    for h in range(n + 1):
        name[h] = h
        row = weight[h]
        copy = a[h]
        for m in range(n + 1):
            row[m] = exp(row[m])
            copy[m] = row[m]
    log_z = 0.0
    for k in range(n, 0, -1):
        low = 1 if single_root and k > 1 else 0
        j, total = k, _heads(a, k, k, low)
        while total <= 0.0 and j > 1:
            j -= 1
            total = _heads(a, j, k, low)
        if total <= 0.0:
            return np.nan
        if j != k:
            _swap(a, name, j, k)
        d[k] = total
        log_z += math.log(total)
        through = a[k]
        for h in range(k):
            p = a[h, k] / total
            a[h, k] = p
            row = a[h]
            for m in range(1, k):
                row[m] += p * through[m]

    # Backwards, b(h, m) = d log Z / d a(h, m) in the graph that still has k:
    #   q(h) = sum_m a(k, m) b(h, m),   b(k, m) = sum_h p(h) b(h, m),
    #   b(h, k) = (1 + q(h) - sum_h p(h) q(h)) / d.
    b[:] = 0.0
    for k in range(1, n + 1):
        low = 1 if single_root and k > 1 else 0
        through, into, mean = a[k], b[k], 0.0
        for h in range(k):
            p, row, total = a[h, k], b[h], 0.0
            for m in range(1, k):
                total += through[m] * row[m]
                into[m] += p * row[m]
            q[h] = total
            mean += p * total
        into[k] = 0.0
        for h in range(k):
            b[h, k] = ((1.0 if h >= low else 0.0) + q[h] - (mean if h >= low else 0.0)) / d[k]
        if not mean < 1e300:
            return np.nan
    mu[:] = 0.0
    for h in range(n + 1):
        for m in range(1, n + 1):
            mu[name[h], name[m]] = max(weight[name[h], name[m]] * b[h, m], 0.0)
    return log_z


@njit(cache=True, nogil=True)
def _heads(a, j, k, low):
    """Weight of the arcs into place j from the places low..k."""
    total = 0.0
    for h in range(low, k + 1):
        if h != j:
            total += a[h, j]
    return total


@njit(cache=True, nogil=True)
def _swap(a, name, j, k):
    """Exchange two words."""
    for m in range(a.shape[0]):
        a[j, m], a[k, m] = a[k, m], a[j, m]
    for h in range(a.shape[0]):
        a[h, j], a[h, k] = a[h, k], a[h, j]
    name[j], name[k] = name[k], name[j]


@njit(cache=True, nogil=True)
def log_add(x, y):
    high, low = max(x, y), min(x, y)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@njit(cache=True, nogil=True)
def _log_heads(a, j, k, low):
    total = -np.inf
    for h in range(low, k + 1):
        if h != j:
            total = log_add(total, a[h, j])
    return total


@njit(cache=True, nogil=True)
def _logarithmic(theta, single_root, mu):
    """The elimination of `marginals` on logarithms, for scores that are hundreds apart.

    Slower by 6 times at 10 words, 70 at 50.
    """
    n = theta.shape[0] - 1
    a = theta.copy()
    name = np.arange(n + 1)
    d = np.empty(n + 1)
    log_z = 0.0
    mu[:] = 0.0
    for k in range(n, 0, -1):
        low = 1 if single_root and k > 1 else 0
        j, total = k, _log_heads(a, k, k, low)
        while total == -np.inf and j > 1:
            j -= 1
            total = _log_heads(a, j, k, low)
        if total == -np.inf:
            return -np.inf
        if j != k:
            _swap(a, name, j, k)
        d[k] = total
        log_z += total
        for h in range(k):
            a[h, k] -= total
            for m in range(1, k):
                if m != h and a[h, k] > -np.inf:
                    a[h, m] = log_add(a[h, m], a[h, k] + a[k, m])
    b = np.full((n + 1, n + 1), -np.inf)
    share = np.empty(n + 1)  # p(h) q(h): arcs from h that go through k
    for k in range(1, n + 1):
        low = 1 if single_root and k > 1 else 0
        mean = 0.0
        for h in range(k):
            share[h] = 0.0
            for m in range(1, k):
                if m != h and a[h, k] > -np.inf:
                    share[h] += math.exp(min(a[h, k] + a[k, m] + b[h, m], 0.0))
                    b[k, m] = log_add(b[k, m], a[h, k] + b[h, m])
            mean += share[h]
        for h in range(k):
            p = math.exp(a[h, k])
            part = share[h] + (p - p * mean if h >= low else 0.0)
            if part > 0.0:
                b[h, k] = math.log(part) - a[h, k] - d[k]
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                x, y = name[h], name[m]
                mu[x, y] = math.exp(min(theta[x, y] + b[h, m], 0.0))
    return log_z


# ---- The best tree ----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def argmax(scores, single_root, heads):
    """The maximum arborescence into `heads`; returns its score, -inf if there is no tree.

    Tarjan (1977) on a matrix, O(n^2): follow best heads from a word; where they close a cycle,
    contract it, and go on from there. A single root is exact: the arcs of the root rank below all
    others, so they are used only where nothing else is left.
    """
    n = scores.shape[0] - 1
    s = scores.copy()
    arc_head, arc_mod = np.empty((n + 1, n + 1), np.int32), np.empty((n + 1, n + 1), np.int32)
    for h in range(n + 1):
        for m in range(n + 1):
            arc_head[h, m], arc_mod[h, m] = h, m
        s[h, h] = -np.inf
    # nodes 1..n are words, n+1.. contracted cycles; place v of the matrix holds node[v]
    node = np.arange(n + 1)
    parent = np.zeros(2 * n + 1, np.int64)
    enter = np.zeros(2 * n + 1, np.int64)  # the chosen arc into a node, as head * (n+1) + modifier
    best = np.zeros(n + 1)
    active, done, on_path = (
        np.ones(n + 1, np.bool_),
        np.zeros(n + 1, np.bool_),
        np.zeros(n + 1, np.bool_),
    )
    path = np.empty(n + 1, np.int64)
    nodes, rooted = n + 1, False
    for start in range(1, n + 1):
        if not active[start] or done[start]:
            continue
        length = 1
        path[0] = start
        on_path[start] = True
        while length:
            v = path[length - 1]
            u = -1
            for h in range(1, n + 1):
                if active[h] and h != v and (u < 0 or s[h, v] > s[u, v]):
                    u = h
            if u < 0 or s[u, v] == -np.inf or (not single_root and s[0, v] >= s[u, v]):
                if s[0, v] == -np.inf or (single_root and rooted):
                    return -np.inf
                u, rooted = 0, True
            enter[node[v]] = arc_head[u, v] * (n + 1) + arc_mod[u, v]
            best[v] = s[u, v]
            if u == 0 or done[u]:
                for p in range(length):
                    done[path[p]], on_path[path[p]] = True, False
                length = 0
            elif not on_path[u]:
                path[length] = u
                on_path[u] = True
                length += 1
            else:  # contract the cycle u .. v, at the place of u
                begin = length - 1
                while path[begin] != u:
                    begin -= 1
                for p in range(begin, length):
                    parent[node[path[p]]] = nodes
                for x in range(n + 1):
                    if not active[x] or (x > 0 and _among(x, path, begin, length)):
                        continue
                    for p in range(begin, length):
                        v = path[p]
                        s[x, v] -= best[v]
                        if v != u and s[x, v] > s[x, u]:
                            s[x, u] = s[x, v]
                            arc_head[x, u], arc_mod[x, u] = arc_head[x, v], arc_mod[x, v]
                        if v != u and s[v, x] > s[u, x]:
                            s[u, x] = s[v, x]
                            arc_head[u, x], arc_mod[u, x] = arc_head[v, x], arc_mod[v, x]
                for p in range(begin + 1, length):
                    active[path[p]], on_path[path[p]] = False, False
                node[u] = nodes
                nodes += 1
                length = begin + 1
    # the arc into a cycle replaces that of the word it enters, in every cycle it comes through
    for c in range(nodes - 1, n, -1):
        v = enter[c] % (n + 1)
        while v != c:
            enter[v] = enter[c]
            v = parent[v]
    value = 0.0
    for m in range(1, n + 1):
        heads[m - 1] = enter[m] // (n + 1)
        value += scores[heads[m - 1], m]
    return value


@njit(cache=True, nogil=True)
def _among(x, path, begin, end):
    for p in range(begin, end):
        if path[p] == x:
            return True
    return False


def kbest(scores: np.ndarray, single_root: bool, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(heads (m, n), scores (m,)) of the m <= k best trees, best first."""
    return lawler.kbest(argmax, scores, single_root, k)


@njit(cache=True, nogil=True)
def sample(scores, single_root, beta, rng, heads):
    """Draw a tree with probability proportional to exp(beta * score) into heads (n,), by a NumPy
    Generator; returns log Z, -inf if there is no tree.

    Wilson (1996): a loop-erased random walk from each word to the tree that is there already.
    Scores should not be hundreds apart: the walk would go round in circles for long.
    """
    n = scores.shape[0] - 1
    mu = np.empty((n + 1, n + 1))
    log_z = marginals(scores, single_root, beta, mu)
    if log_z == -np.inf:
        return log_z
    inside = np.zeros(n + 1, np.bool_)
    inside[0] = True
    if single_root:
        inside[0] = False
        root = 1
        left = rng.random() - mu[0, 1]
        while root < n and left > 0.0:
            root += 1
            left -= mu[0, root]
        inside[root] = True
        heads[root - 1] = 0
    weight = np.zeros(n + 1)
    for start in range(1, n + 1):
        m = start
        while not inside[m]:
            top, total = -np.inf, 0.0
            for h in range(1 if single_root else 0, n + 1):
                if h != m:
                    top = max(top, scores[h, m])
            for h in range(n + 1):
                allowed = h != m and (h > 0 or not single_root)
                weight[h] = math.exp(beta * (scores[h, m] - top)) if allowed else 0.0
                total += weight[h]
            left, h = rng.random() * total, 0
            while left >= weight[h] and h < n:
                left -= weight[h]
                h += 1
            heads[m - 1] = h
            m = h
        m = start
        while not inside[m]:
            inside[m] = True
            m = heads[m - 1]
    return log_z
