"""Head automata: for every word on its own, its head and its children as paths.

The automaton of word h has a head g and, on each side, a path START, m1, m2, .., END of children
from h outwards (structures/parts); the heads and children of different words need not agree. Its
sums are exact for consecutive siblings with a grandparent.
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import tree
from turbotag.structures.elementary import FAST, probability
from turbotag.structures.parts import pair

HIGHEST = 600.0  # paths with larger scores go through logarithms


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
            if weight[g] <= 0.0:  # one of its sides may have underflowed
                mu_g[p.grands[h] + g * children : p.grands[h] + (g + 1) * children] = 0.0
                continue
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
    """`_automata` computed with logarithms, for scores whose exponentials overflow."""
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
                    to[0] += probability(q + s[0])
                    for j in range(R):
                        belief = probability(q + alpha[j] + beta[j])
                        mu_u[p.arcs[p.first[k] + j]] += belief
                        mu_g[at + j] = belief
                        to[1 + j] += probability(q + s[1 + j] + x[j] + beta[j])
                        to[1 + R + j] += probability(q + alpha[j] + s[1 + R + j])
                        for i in range(j):
                            step = s[pair(i, j, R)] + x[j] + beta[j]
                            to[pair(i, j, R)] += probability(q + alpha[i] + step)
            if not second:
                for g in range(weight.size):
                    z_h = tree.log_add(z_h, weight[g])
        for g in range(weight.size):
            mu_v[begin + g] = probability(weight[g] - z_h)
        total += z_h
    for mu in (mu_u, mu_s):
        for i in range(mu.size):
            mu[i] = min(mu[i], 1.0)
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


@njit(cache=True, nogil=True)
def best_paths(u, v, s_all, g_all, p, x_u, x_v, x_s, x_g):
    """sum_h of the largest score of an automaton, and the indicators of its head and paths."""
    n, longest = p.cuts.size - 1, 1
    for k in range(2, 2 * n + 2):
        longest = max(longest, p.first[k + 1] - p.first[k])
    alpha, back = np.empty(longest), np.empty((2, longest + 1), np.int64)
    for x in (x_u, x_v, x_s, x_g):
        x[:] = 0.0
    total = 0.0
    for h in range(1, n + 1):
        begin, children = p.cuts[h - 1], p.first[2 * h + 2] - p.first[2 * h]
        left, best, at_best = p.first[2 * h + 1] - p.first[2 * h], -np.inf, 0
        heads = p.cuts[h] - begin
        for turn in range(heads + 1):  # every head, and the best one again for its paths
            g = at_best if turn == heads else turn
            score = v[begin + g]
            for side in range(2):
                k = 2 * h + side
                R, at = p.first[k + 1] - p.first[k], p.grands[h] + g * children + left * side
                s = s_all[p.siblings[k] : p.siblings[k + 1]]
                top, last = s[0], -1
                for j in range(R):
                    e = p.arcs[p.first[k] + j]
                    alpha[j], back[side, j] = s[1 + j], -1
                    for i in range(j):
                        if alpha[i] + s[pair(i, j, R)] > alpha[j]:
                            alpha[j], back[side, j] = alpha[i] + s[pair(i, j, R)], i
                    if p.mods[e] == p.heads[begin + g]:
                        alpha[j] = -np.inf
                    else:
                        alpha[j] += u[e] + g_all[at + j]
                    if alpha[j] + s[1 + R + j] > top:
                        top, last = alpha[j] + s[1 + R + j], j
                back[side, R] = last
                score += top
            if turn < heads and score > best:
                best, at_best = score, g
        total += best
        x_v[begin + at_best] = 1.0
        for side in range(2):
            k = 2 * h + side
            R, at = p.first[k + 1] - p.first[k], p.grands[h] + at_best * children + left * side
            x, j = x_s[p.siblings[k] : p.siblings[k + 1]], back[side, R]
            x[0 if j < 0 else 1 + R + j] = 1.0
            while j >= 0:
                i = back[side, j]
                x[1 + j if i < 0 else pair(i, j, R)] = 1.0
                x_u[p.arcs[p.first[k] + j]] = x_g[at + j] = 1.0
                j = i
    return total
