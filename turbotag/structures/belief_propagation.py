"""Loopy belief propagation over second-order trees (Smith and Eisner 2008), and Bethe's log Z.

Variables are the candidate arcs, on or off. Factors are
    TREE      whose messages come from the matrix-tree theorem;
    CHILDREN  for each word and side with consecutive siblings: the score of the path through those
              of its arcs that are on;
    PAIRS     grandparents and all siblings: a score where both arcs are on.
A message m_fe is a log-odds, b_e = theta_e + sum_f m_fe that of the belief, and a factor hears
x_fe = b_e - m_fe from each of its arcs; it answers with the log-odds of its own marginal, less
x_fe. With d_e factors at arc e,
    log Z = sum_f log Z_f(x_f) + sum_e (1 - d_e) log(1 + exp b_e),
which is exact if the factors form a forest, and neither a bound nor always above the gold score
if they do not. Bethe's entropy is log Z - theta'nu, with the beliefs nu of all parts.
"""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import parts, tree
from turbotag.structures.elementary import logit, probability, sigmoid
from turbotag.structures.parts import pair

CERTAIN = 1e-12  # log-odds are those of probabilities no nearer to 0 and 1


@njit(cache=True, nogil=True)
def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True, nogil=True)
def bethe(theta, p, single_root, beta, tree_factor, rounds, damping, tolerance, nu):
    """(Bethe's log Z(beta theta), rounds made, residual), and the beliefs of all parts into nu.

    The residual is the most by which a belief changed in the last round, or differed from what
    TREE or CHILDREN said. Without `tree_factor` any set of arcs counts.
    """
    n, E = p.cuts.size - 1, p.heads.size
    arcs, s, g, q = parts.split(beta * theta, p)
    mu, mu_s, mu_g, mu_q = parts.split(nu, p)
    b, before = arcs.copy(), np.empty(E)
    from_tree, from_children = np.zeros(E), np.zeros(E)
    from_g, from_q = np.zeros((g.size, 2)), np.zeros((q.size, 2))
    scores, posterior = np.full((n + 1, n + 1), -np.inf), np.empty((n + 1, n + 1))
    longest, degree = 1, np.zeros(E)
    for k in range(2, 2 * n + 2):
        longest = max(longest, p.first[k + 1] - p.first[k])
    x, heard, alpha, after = (
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )
    space, new = tree.space(n), 1.0 - damping
    made, residual, log_z = 0, np.inf, 0.0
    while True:
        last = made == rounds or residual <= tolerance  # then messages stay, and log Z is summed
        before[:] = b
        degree[:] = 0.0
        log_z = 0.0
        if not last:
            residual = 0.0

        for k in range(2, 2 * n + 2):  # CHILDREN
            R = p.first[k + 1] - p.first[k]
            mine = p.arcs[p.first[k] : p.first[k + 1]]
            for j in range(R):
                x[j] = b[mine[j]] - from_children[mine[j]]
                degree[mine[j]] += 1.0
            part, to = s[p.siblings[k] : p.siblings[k + 1]], mu_s[p.siblings[k] : p.siblings[k + 1]]
            log_z += _children(x, part, R, alpha, after, heard, last, to)
            for j in range(R):
                if not last:
                    e = mine[j]
                    residual = max(residual, abs(heard[j] - sigmoid(b[e])))
                    change = new * (logit(heard[j], CERTAIN) - x[j] - from_children[e])
                    from_children[e] += change
                    b[e] += change

        for h in range(1, n + 1):  # PAIRS: grandparents
            children = p.first[2 * h + 2] - p.first[2 * h]
            for c in range(p.cuts[h] - p.cuts[h - 1]):
                at, one = p.grands[h] + c * children, p.cuts[h - 1] + c
                for j in range(children):
                    other = p.arcs[p.first[2 * h] + j]
                    if p.mods[other] == p.heads[one]:
                        mu_g[at + j] = 0.0
                        continue
                    degree[one] += 1.0
                    degree[other] += 1.0
                    log_z += _pair(
                        b, one, other, g[at + j], from_g[at + j], new, last, mu_g, at + j
                    )

        for k in range(q.size):  # PAIRS: all siblings
            one, other = p.pairs[k]
            degree[one] += 1.0
            degree[other] += 1.0
            log_z += _pair(b, one, other, q[k], from_q[k], new, last, mu_q, k)

        if tree_factor:
            for e in range(E):
                scores[p.heads[e], p.mods[e]] = b[e] - from_tree[e]
                degree[e] += 1.0
            log_z += tree.marginals_in(space, scores, single_root, 1.0, posterior)
            for e in range(E):
                if not last:
                    own = posterior[p.heads[e], p.mods[e]]
                    residual = max(residual, abs(own - sigmoid(b[e])))
                    change = new * (
                        logit(own, CERTAIN) - scores[p.heads[e], p.mods[e]] - from_tree[e]
                    )
                    from_tree[e] += change
                    b[e] += change

        if last:
            break
        made += 1
        for e in range(E):
            residual = max(residual, abs(sigmoid(b[e]) - sigmoid(before[e])))
    for e in range(E):
        log_z += (1.0 - degree[e]) * _softplus(b[e])
        mu[e] = sigmoid(b[e])
    return log_z, made, residual


@njit(cache=True, nogil=True)
def _pair(b, one, other, score, messages, new, last, mu, at):
    """One pair of arcs: its log Z and, if it is the last time, its belief; else new messages."""
    x, y = b[one] - messages[0], b[other] - messages[1]
    if last:
        top = max(0.0, x, y, x + y + score)  # 1 + e^x + e^y + e^(x+y+score), times e^-top
        both = math.exp(x + y + score - top)
        total = math.exp(-top) + math.exp(x - top) + math.exp(y - top) + both
        mu[at] = both / total
        return top + math.log(total)
    change = new * (_softplus(y + score) - _softplus(y) - messages[0])
    messages[0] += change
    b[one] += change
    change = new * (_softplus(x + score) - _softplus(x) - messages[1])
    messages[1] += change
    b[other] += change
    return 0.0


@njit(cache=True, nogil=True)
def _children(x, s, R, alpha, after, mu, parts_too, nu):
    """log of the sum over sets of R children, and the probability of each:
    alpha[j] = x[j] + log(START-j + sum_{i<j} alpha[i] i-j), after[i] = log(i-END + sum_{j>i} ..)"""
    log_z = s[0]
    for j in range(R):
        paths = s[1 + j]
        for i in range(j):
            paths = tree.log_add(paths, alpha[i] + s[pair(i, j, R)])
        alpha[j] = x[j] + paths
        log_z = tree.log_add(log_z, alpha[j] + s[1 + R + j])
    for i in range(R - 1, -1, -1):
        after[i] = s[1 + R + i]
        for j in range(i + 1, R):
            after[i] = tree.log_add(after[i], s[pair(i, j, R)] + x[j] + after[j])
        mu[i] = probability(alpha[i] + after[i] - log_z)
    if parts_too:
        nu[0] = probability(s[0] - log_z)
        for j in range(R):
            nu[1 + j] = probability(s[1 + j] + x[j] + after[j] - log_z)
            nu[1 + R + j] = probability(alpha[j] + s[1 + R + j] - log_z)
            for i in range(j):
                step = s[pair(i, j, R)] + x[j] + after[j]
                nu[pair(i, j, R)] = probability(alpha[i] + step - log_z)
    return log_z
