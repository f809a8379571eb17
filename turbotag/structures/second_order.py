"""Second-order trees over candidate arcs: an upper bound of log Z that is convex, and beliefs.

Beside its arcs a tree is scored by its grandparent parts (g -> h -> m) and by its consecutive
siblings: for each word h and each side, its children from h outwards are a path START, m1, m2, ..,
END, and every step of it is a part. log Z over such trees is intractable; two relaxations are not:
    TREE      trees, scored by their arcs (structures/tree);
    AUTOMATA  for every word h on its own: its head g, and its children on both sides, as paths
              through an automaton; the heads and children of different words need not agree.
Every tree is one configuration of each. So by Hoelder's inequality, for c_T + c_A = 1 and every way
to split the score of an arc (h, m) into t for TREE, u for the automaton of h and v for that of m,
    log Z <= c_T log Z_TREE(t / c_T) + c_A sum_h log Z_h((u, v, parts) / c_A).
The right side is convex in scores and split together, and a bound for every split, converged or
not: a loss made of it is never negative. Its derivatives by t, u and v are the relaxations' arc
marginals, so the best split is one at which they agree.

Scores and stats of a sentence are one vector: its arcs, then siblings, then grandparents (`Parts`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from turbotag.structures import tree

TREE_SHARE = 0.5  # c_T: 0.7 has less excess on random graphs, but parses 0.4 % fewer words right
DAMPING = 0.5
CERTAIN = 1e-6  # beyond this the split of an arc is not moved further
HIGHEST = 600.0  # paths with larger scores go through logarithms
FAST = {"reassoc", "contract", "nsz"}


class Parts(NamedTuple):
    """Candidate arcs of a sentence, by modifier, and where its second-order parts stand.

    The arcs out of word h, from h outwards, are arcs[first[2h]:first[2h+1]] to the left and
    arcs[first[2h+1]:first[2h+2]] to the right; the root's are not listed, as TREE sees to it that
    it has one. Sibling parts of side k = 2h or 2h+1 begin at siblings[k]: START-END, and with R
    children START-j, then i-END, then i-j for i < j, row by row. Grandparent parts of word h begin
    at grands[h]: for each of its candidate heads all its child arcs, left then right; those whose
    modifier is that head are in no tree.
    """

    cuts: np.ndarray
    heads: np.ndarray
    mods: np.ndarray
    first: np.ndarray
    arcs: np.ndarray
    siblings: np.ndarray
    grands: np.ndarray


@njit(cache=True, nogil=True)
def parts(cuts, heads):
    """The parts over candidate arcs (structures/pruning)."""
    n = cuts.size - 1
    mods, first = np.empty(heads.size, np.int64), np.zeros(2 * n + 3, np.int64)
    for m in range(1, n + 1):
        for e in range(cuts[m - 1], cuts[m]):
            mods[e] = m
            if heads[e] > 0:
                first[2 * heads[e] + (m > heads[e]) + 1] += 1
    for k in range(1, first.size):
        first[k] += first[k - 1]
    fill, arcs = first.copy(), np.empty(first[-1], np.int64)
    for m in range(1, n + 1):  # to the right of their heads: rising
        for e in range(cuts[m - 1], cuts[m]):
            if 0 < heads[e] < m:
                arcs[fill[2 * heads[e] + 1]] = e
                fill[2 * heads[e] + 1] += 1
    for m in range(n, 0, -1):  # to the left: falling
        for e in range(cuts[m - 1], cuts[m]):
            if heads[e] > m:
                arcs[fill[2 * heads[e]]] = e
                fill[2 * heads[e]] += 1
    siblings, grands = np.zeros(2 * n + 3, np.int64), np.zeros(n + 2, np.int64)
    for k in range(2, 2 * n + 2):
        R = first[k + 1] - first[k]
        siblings[k + 1] = siblings[k] + 1 + 2 * R + R * (R - 1) // 2
    for h in range(1, n + 1):
        children = first[2 * h + 2] - first[2 * h]
        grands[h + 1] = grands[h] + (cuts[h] - cuts[h - 1]) * children
    return Parts(cuts, heads, mods, first, arcs, siblings, grands)


@njit(cache=True, nogil=True, inline="always")
def pair(i, j, R):
    """Where the part i-j, i < j, of a side with R children stands."""
    return 1 + 2 * R + i * R - i * (i + 1) // 2 + (j - i - 1)


@njit(cache=True, nogil=True)
def size(p):
    """Number of parts."""
    return p.heads.size + p.siblings[-1] + p.grands[-1]


@njit(cache=True, nogil=True)
def indicator(tree_heads, p, z):
    """The parts of a tree whose arcs are all candidates."""
    n, E = p.cuts.size - 1, p.heads.size
    siblings, grands = z[E : E + p.siblings[-1]], z[E + p.siblings[-1] :]
    z[:] = 0.0
    for e in range(E):
        if p.heads[e] == tree_heads[p.mods[e] - 1]:
            z[e] = 1.0
    for h in range(1, n + 1):
        for k in range(2 * h, 2 * h + 2):
            R, last = p.first[k + 1] - p.first[k], -1
            for j in range(R):
                if z[p.arcs[p.first[k] + j]] > 0.0:
                    siblings[p.siblings[k] + (1 + j if last < 0 else pair(last, j, R))] = 1.0
                    last = j
            siblings[p.siblings[k] + (0 if last < 0 else 1 + R + last)] = 1.0
        children = p.first[2 * h + 2] - p.first[2 * h]
        for g in range(p.cuts[h] - p.cuts[h - 1]):
            for j in range(children):
                if z[p.cuts[h - 1] + g] > 0.0 and z[p.arcs[p.first[2 * h] + j]] > 0.0:
                    grands[p.grands[h] + g * children + j] = 1.0


# ---- Automata ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _automata(eu, ev, es, eg, p, mu_u, mu_v, mu_s, mu_g):
    """sum_h log Z_h from exponentials of the scores, and all marginals; NaN if out of range.

    For each head g of h and each side, with x[j] = eu eg of child j,
        alpha[j] = x[j] (START-j + sum_{i<j} alpha[i] i-j),   Z = START-END + sum_j alpha[j] j-END,
        beta[i] = i-END + sum_{j>i} i-j x[j] beta[j],
    and Z_h = sum_g ev[g] Z_left Z_right.
    """
    n, longest, most = p.cuts.size - 1, 1, 1
    for h in range(1, n + 1):
        most = max(most, p.cuts[h] - p.cuts[h - 1])
        for k in range(2 * h, 2 * h + 2):
            longest = max(longest, p.first[k + 1] - p.first[k])
    x, alpha = np.empty((2, most, longest)), np.empty((2, most, longest))
    z, weight = np.empty((2, most)), np.empty(most)
    beta, into = np.empty(longest), np.empty(longest)
    mu_u[:] = 0.0
    mu_s[:] = 0.0
    total = 0.0
    for h in range(1, n + 1):
        begin, children = p.cuts[h - 1], p.first[2 * h + 2] - p.first[2 * h]
        left, z_h = p.first[2 * h + 1] - p.first[2 * h], 0.0
        for g in range(p.cuts[h] - begin):
            weight[g] = ev[begin + g]
            for side in range(2):
                k = 2 * h + side
                R, at = p.first[k + 1] - p.first[k], p.grands[h] + g * children + left * side
                s, a, xs = es[p.siblings[k] : p.siblings[k + 1]], alpha[side, g], x[side, g]
                sum_z = s[0]
                for j in range(R):
                    e = p.arcs[p.first[k] + j]
                    xs[j] = 0.0 if p.mods[e] == p.heads[begin + g] else eu[e] * eg[at + j]
                    paths = s[1 + j]
                    for i in range(j):
                        paths += a[i] * s[pair(i, j, R)]
                    a[j] = xs[j] * paths
                    sum_z += a[j] * s[1 + R + j]
                z[side, g] = sum_z
                weight[g] *= sum_z
            z_h += weight[g]
        if not (z_h > 1e-30 and z_h < 1e290):
            return np.nan
        total += math.log(z_h)
        for g in range(p.cuts[h] - begin):
            mu_v[begin + g] = weight[g] / z_h
            for side in range(2):
                k = 2 * h + side
                R, at = p.first[k + 1] - p.first[k], p.grands[h] + g * children + left * side
                s, a, xs = es[p.siblings[k] : p.siblings[k + 1]], alpha[side, g], x[side, g]
                to, q = mu_s[p.siblings[k] : p.siblings[k + 1]], weight[g] / z_h / z[side, g]
                for i in range(R - 1, -1, -1):
                    beta[i] = s[1 + R + i]
                    for j in range(i + 1, R):
                        beta[i] += s[pair(i, j, R)] * into[j]
                    into[i] = xs[i] * beta[i]
                to[0] += q * s[0]
                for j in range(R):
                    belief = q * a[j] * beta[j]
                    mu_u[p.arcs[p.first[k] + j]] += belief
                    mu_g[at + j] = belief
                    to[1 + j] += q * s[1 + j] * into[j]
                    to[1 + R + j] += q * a[j] * s[1 + R + j]
                    for i in range(j):
                        to[pair(i, j, R)] += q * a[i] * s[pair(i, j, R)] * into[j]
    return total


@njit(cache=True, nogil=True)
def _automata_log(u, v, s_all, g_all, p, mu_u, mu_v, mu_s, mu_g):
    """The same on logarithms, for scores that exponentials cannot hold."""
    n, longest = p.cuts.size - 1, 1
    for k in range(2, 2 * n + 2):
        longest = max(longest, p.first[k + 1] - p.first[k])
    x, alpha, beta = np.empty(longest), np.empty(longest), np.empty(longest)
    mu_u[:] = 0.0
    mu_s[:] = 0.0
    total = 0.0
    for h in range(1, n + 1):
        begin, children = p.cuts[h - 1], p.first[2 * h + 2] - p.first[2 * h]
        left = p.first[2 * h + 1] - p.first[2 * h]
        weight, z_h = v[begin : p.cuts[h]].copy(), -np.inf
        for second in range(2):  # weights of the heads first, then the marginals under each
            for g in range(weight.size):
                for side in range(2):
                    k = 2 * h + side
                    R, at = p.first[k + 1] - p.first[k], p.grands[h] + g * children + left * side
                    s = s_all[p.siblings[k] : p.siblings[k + 1]]
                    sum_z = s[0]
                    for j in range(R):
                        e = p.arcs[p.first[k] + j]
                        x[j] = u[e] + g_all[at + j]
                        if p.mods[e] == p.heads[begin + g]:
                            x[j] = -np.inf
                        paths = s[1 + j]
                        for i in range(j):
                            paths = tree.log_add(paths, alpha[i] + s[pair(i, j, R)])
                        alpha[j] = x[j] + paths
                        sum_z = tree.log_add(sum_z, alpha[j] + s[1 + R + j])
                    if not second:
                        weight[g] += sum_z
                        continue
                    for i in range(R - 1, -1, -1):
                        beta[i] = s[1 + R + i]
                        for j in range(i + 1, R):
                            beta[i] = tree.log_add(beta[i], s[pair(i, j, R)] + x[j] + beta[j])
                    to, q = mu_s[p.siblings[k] : p.siblings[k + 1]], weight[g] - z_h - sum_z
                    to[0] += math.exp(q + s[0])
                    for j in range(R):
                        belief = math.exp(q + alpha[j] + beta[j])
                        mu_u[p.arcs[p.first[k] + j]] += belief
                        mu_g[at + j] = belief
                        to[1 + j] += math.exp(q + s[1 + j] + x[j] + beta[j])
                        to[1 + R + j] += math.exp(q + alpha[j] + s[1 + R + j])
                        for i in range(j):
                            step = s[pair(i, j, R)] + x[j] + beta[j]
                            to[pair(i, j, R)] += math.exp(q + alpha[i] + step)
            if not second:
                for g in range(weight.size):
                    z_h = tree.log_add(z_h, weight[g])
        for g in range(weight.size):
            mu_v[begin + g] = math.exp(weight[g] - z_h)
        total += z_h
    return total


@njit(cache=True, nogil=True)
def _highest(values):
    top = 0.0
    for i in range(values.size):
        top = max(top, values[i])
    return top


@njit(cache=True, nogil=True)
def automata(u, v, s, g, p, mu_u, mu_v, mu_s, mu_g):
    """sum_h log Z_h of scores u (arcs as children), v (as heads), s and g, and all marginals.

    Exponentials hold if no path can rise above e^HIGHEST: then what underflows on the way to a sum
    of at least 1e-30 is too small to matter.
    """
    path = 0.0
    for h in range(1, p.cuts.size):
        top = _highest(g[p.grands[h] : p.grands[h + 1]])
        for k in range(2 * h, 2 * h + 2):
            R = p.first[k + 1] - p.first[k]
            total = R * top + (R + 1) * _highest(s[p.siblings[k] : p.siblings[k + 1]])
            for j in range(R):
                total += max(u[p.arcs[p.first[k] + j]], 0.0)
            path = max(path, total)
    if path <= HIGHEST:
        shift, ev = 0.0, np.empty_like(v)
        for m in range(1, p.cuts.size):
            top = v[p.cuts[m - 1] : p.cuts[m]].max()
            shift += top
            for e in range(p.cuts[m - 1], p.cuts[m]):
                ev[e] = math.exp(v[e] - top)
        total = _automata(np.exp(u), ev, np.exp(s), np.exp(g), p, mu_u, mu_v, mu_s, mu_g)
        if total == total:
            return total + shift
    return _automata_log(u, v, s, g, p, mu_u, mu_v, mu_s, mu_g)


# ---- The bound -----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def bound(theta, p, beta, single_root, rounds, nu):
    """An upper bound of log Z(beta theta), and beliefs of all parts into nu.

    Each round moves the split of every arc so that, were it independent of all others, its
    marginals under the relaxations would meet: their log-odds respond to a score by 1/c. The belief
    of an arc is the mean over its relaxations: the derivative of the bound, if a change of its
    score is shared out evenly.
    """
    n, E, S = p.cuts.size - 1, p.heads.size, p.siblings[-1]
    c_t, c_a = TREE_SHARE, 1.0 - TREE_SHARE
    t, u, v = np.empty(E), np.zeros(E), np.empty(E)
    for e in range(E):
        roles = 3.0 if p.heads[e] > 0 else 2.0
        t[e] = v[e] = beta * theta[e] / roles
        if p.heads[e] > 0:
            u[e] = t[e]
    s, g = beta * theta[E : E + S] / c_a, beta * theta[E + S :] / c_a
    mu_t, mu_u, mu_v = np.empty(E), np.empty(E), np.empty(E)
    scores, mu = np.full((n + 1, n + 1), -np.inf), np.empty((n + 1, n + 1))
    value = np.inf
    for r in range(rounds + 1):
        for e in range(E):
            scores[p.heads[e], p.mods[e]] = t[e] / c_t
        log_z = tree.marginals(scores, 1.0, single_root, mu)
        for e in range(E):
            mu_t[e] = mu[p.heads[e], p.mods[e]]
        total = automata(u / c_a, v / c_a, s, g, p, mu_u, mu_v, nu[E : E + S], nu[E + S :])
        value = c_t * log_z + c_a * total
        if r == rounds:
            break
        for e in range(E):
            x, y, z = _logit(mu_t[e]), _logit(mu_u[e]), _logit(mu_v[e])
            child = c_a if p.heads[e] > 0 else 0.0
            mean = (c_t * x + child * y + c_a * z) / (c_t + child + c_a)
            t[e] += DAMPING * c_t * (mean - x)
            u[e] += DAMPING * child * (mean - y)
            v[e] += DAMPING * c_a * (mean - z)
    for e in range(E):
        if p.heads[e] > 0:
            nu[e] = (mu_t[e] + mu_u[e] + mu_v[e]) / 3.0
        else:
            nu[e] = (mu_t[e] + mu_v[e]) / 2.0
    return value


@njit(cache=True, nogil=True)
def _logit(p):
    p = min(max(p, CERTAIN), 1.0 - CERTAIN)
    return math.log(p / (1.0 - p))


@njit(cache=True, nogil=True)
def positions(p):
    """The words of each part: siblings (head, child, next child), where n+1 is START and n+2 END,
    and grandparents (grandparent, head, modifier)."""
    n = p.cuts.size - 1
    siblings, grands = (
        np.empty((p.siblings[-1], 3), np.int64),
        np.empty((p.grands[-1], 3), np.int64),
    )
    for h in range(1, n + 1):
        for k in range(2 * h, 2 * h + 2):
            R, at = p.first[k + 1] - p.first[k], p.siblings[k]
            siblings[at] = (h, n + 1, n + 2)
            for j in range(R):
                m = p.mods[p.arcs[p.first[k] + j]]
                siblings[at + 1 + j] = (h, n + 1, m)
                siblings[at + 1 + R + j] = (h, m, n + 2)
                for i in range(j):
                    siblings[at + pair(i, j, R)] = (h, p.mods[p.arcs[p.first[k] + i]], m)
        children = p.first[2 * h + 2] - p.first[2 * h]
        for g in range(p.cuts[h] - p.cuts[h - 1]):
            for j in range(children):
                m = p.mods[p.arcs[p.first[2 * h] + j]]
                head = np.int64(p.heads[p.cuts[h - 1] + g])
                grands[p.grands[h] + g * children + j] = (head, h, m)
    return siblings, grands
