"""A convex upper bound of log Z over second-order trees, its beliefs, and the same for the maximum.

log Z over trees with the parts of structures/parts is intractable; two relaxations are not:
    TREE      trees, scored by their arcs (structures/tree);
    AUTOMATA  for every word its head and children on their own (structures/automata).
Every tree is one configuration of each. So by Hoelder's inequality, for c_T + c_A = 1 and every way
to split the score of an arc (h, m) into t for TREE, u for the automaton of h and v for that of m,
    log Z <= c_T log Z_TREE(t / c_T) + c_A sum_h log Z_h((u, v, parts) / c_A).
The right side is convex in scores and split together, and a bound for every split, converged or
not: a loss made of it is never negative. Its derivatives by t, u and v are the relaxations' arc
marginals, so the best split is one at which they agree.

A pair of all siblings, y_i y_j with the score q, is in neither relaxation. It is at most linear,
    q y_i y_j <= q (tau y_i + (1 - tau) y_j)  if q >= 0,    <= -q tau (1 - y_i - y_j)  if q < 0,
for tau in [0, 1], so this bound goes into u. `bound` leaves tau where it begins, as a function
that is convex in q must; `maximum` can move it.

Vectors over the parts of the two relaxations are t, u and v of all arcs, then the other parts:
at a fixed split the bound is a log-partition of these, with its own dual. So the potentials `pi`
that `bound` gives, the beliefs `nu` and the value are those of an exact log Z: value - pi'nu is
the entropy, and a certificate made of them holds, for the bound at that split.
"""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit
from turbotag.structures import parts, tree
from turbotag.structures.automata import automata, best_paths
from turbotag.structures.elementary import logit

TREE_SHARE = 0.5  # c_T: 0.7 has less excess on random graphs, but parses 0.4 % fewer words right
CERTAIN = 1e-6  # beyond this the split of an arc is not moved further
OPTIMAL = 1e-9  # a tree this near to its bound, relative to its score, is the best one


@njit(cache=True, nogil=True)
def apart(x, p):
    """(E + others,) -> (3E + others,): scores of arcs shared evenly by their roles."""
    E = p.heads.size
    out = np.empty(x.size + 2 * E)
    for e in range(E):
        child = p.heads[e] > 0
        out[e] = out[2 * E + e] = x[e] / (3.0 if child else 2.0)
        out[E + e] = out[e] if child else 0.0
    out[3 * E :] = x[E:]
    return out


@njit(cache=True, nogil=True)
def together(d, p):
    """(3E + others,) -> (E + others,): the mean over the roles of each arc."""
    E = p.heads.size
    out = np.empty(d.size - 2 * E)
    for e in range(E):
        both = d[e] + d[2 * E + e]
        out[e] = (both + d[E + e]) / 3.0 if p.heads[e] > 0 else both / 2.0
    out[E:] = d[3 * E :]
    return out


@njit(cache=True, nogil=True)
def copies(z, p):
    """(E + others,) -> (3E + others,): the stats of a tree, in which all roles agree."""
    E = p.heads.size
    out = np.empty(z.size + 2 * E)
    out[:E] = out[2 * E : 3 * E] = z[:E]
    for e in range(E):
        out[E + e] = z[e] if p.heads[e] > 0 else 0.0
    out[3 * E :] = z[E:]
    return out


@njit(cache=True, nogil=True)
def _begin(theta, moved, p):
    pi = apart(theta, p)
    for i in range(moved.size):
        pi[i] += moved[i]
    return pi


@njit(cache=True, nogil=True)
def bound(theta, moved, p, single_root, beta, rounds, damping, tolerance, pi, nu):
    """(bound of log Z(beta theta), rounds made, largest disagreement); pi and nu (3E + others,).

    moved: (3E,) what is added to the even split at the beginning, or empty for nothing.

    Each round moves the split of every arc so that its marginals under the relaxations would meet
    if the arc were independent of all others: their log-odds respond to a score by 1/c. Rounds end
    when the marginals agree within the tolerance.
    """
    n, E = p.cuts.size - 1, p.heads.size
    c_t, c_a = TREE_SHARE, 1.0 - TREE_SHARE
    pi[:] = beta * _begin(theta, moved, p)
    t, u, v = pi[:E], pi[E : 2 * E], pi[2 * E : 3 * E]
    mu_t, mu_u, mu_v = nu[:E], nu[E : 2 * E], nu[2 * E : 3 * E]
    _, s, g, q = parts.split(pi[2 * E :], p)
    _, mu_s, mu_g, mu_q = parts.split(nu[2 * E :], p)
    tau = _middle(q)
    scores, mu = np.full((n + 1, n + 1), -np.inf), np.empty((n + 1, n + 1))
    s, g, space = s / c_a, g / c_a, tree.space(n)
    value, made, residual = np.inf, 0, 0.0
    while True:
        for e in range(E):
            scores[p.heads[e], p.mods[e]] = t[e] / c_t
        value = c_t * tree.marginals_in(space, scores, single_root, 1.0, mu)
        lean = u.copy()
        value += _lean(q, tau, p, lean)
        value += c_a * automata(lean / c_a, v / c_a, s, g, p, mu_u, mu_v, mu_s, mu_g)
        residual = 0.0
        for e in range(E):
            mu_t[e] = mu[p.heads[e], p.mods[e]]
            residual = max(residual, abs(mu_t[e] - mu_v[e]))
            if p.heads[e] > 0:
                residual = max(residual, abs(mu_t[e] - mu_u[e]))
        if made == rounds or residual <= tolerance:
            break
        made += 1
        for e in range(E):
            x, y = logit(mu_t[e], CERTAIN), logit(mu_u[e], CERTAIN)
            z = logit(mu_v[e], CERTAIN)
            child = c_a if p.heads[e] > 0 else 0.0
            mean = (c_t * x + child * y + c_a * z) / (c_t + child + c_a)
            t[e] += (1.0 - damping) * c_t * (mean - x)
            u[e] += (1.0 - damping) * child * (mean - y)
            v[e] += (1.0 - damping) * c_a * (mean - z)
    _pairs(q, tau, p, mu_u, mu_q)
    for i in range(pi.size):
        pi[i] /= beta
    return value, made, residual


@njit(cache=True, nogil=True)
def maximum(theta, moved, p, single_root, rounds, lean_too, pi, nu, heads):
    """(bound, score, rounds made): an upper bound of the score of the best tree, and the score of
    the best tree that was found; `lean_too` moves tau.

    Dual decomposition (Koo et al. 2010): the bound above at beta = inf, where Hoelder's inequality
    says that the maximum of a sum is at most the sum of the maxima. The split moves against the
    subgradient by Polyak's step towards the best tree so far. If the two numbers meet, the tree is
    proven optimal. pi and nu are those of the lowest bound.
    """
    n, E = p.cuts.size - 1, p.heads.size
    now, x = _begin(theta, moved, p), np.empty(nu.size)
    t, u, v = now[:E], now[E : 2 * E], now[2 * E : 3 * E]
    _, s, g, q = parts.split(now[2 * E :], p)
    x_t, x_u, x_v = x[:E], x[E : 2 * E], x[2 * E : 3 * E]
    _, x_s, x_g, x_q = parts.split(x[2 * E :], p)
    tau = _middle(q)
    scores, z, found = np.full((n + 1, n + 1), -np.inf), np.empty(theta.size), heads.copy()
    lowest, best, made = np.inf, -np.inf, 0
    for r in range(rounds + 1):
        for e in range(E):
            scores[p.heads[e], p.mods[e]] = t[e]
        value = tree.argmax(scores, single_root, found)
        lean = u.copy()
        value += _lean(q, tau, p, lean)
        value += best_paths(lean, v, s, g, p, x_u, x_v, x_s, x_g)
        parts.indicator(found, p, z)
        x_t[:] = z[:E]
        score = 0.0
        for i in range(z.size):
            score += z[i] * theta[i]
        if score > best:
            best = score
            heads[:] = found
        if value < lowest:
            lowest = value
            _pairs(q, tau, p, x_u, x_q)
            pi[:], nu[:] = now, x
        if r == rounds or lowest - best <= OPTIMAL * max(1.0, abs(best)):
            break
        norm = 0.0
        for e in range(E):
            roles = 3.0 if p.heads[e] > 0 else 2.0
            mean = (x_t[e] + x_u[e] + x_v[e]) / roles
            norm += (x_t[e] - mean) ** 2 + (x_v[e] - mean) ** 2
            if p.heads[e] > 0:
                norm += (x_u[e] - mean) ** 2
        if norm == 0.0 and not (q.size and lean_too):
            break
        made += 1
        step = (value - best) / max(norm, 1.0)
        for e in range(E):
            mean = (x_t[e] + x_u[e] + x_v[e]) / (3.0 if p.heads[e] > 0 else 2.0)
            t[e] -= step * (x_t[e] - mean)
            v[e] -= step * (x_v[e] - mean)
            if p.heads[e] > 0:
                u[e] -= step * (x_u[e] - mean)
        if lean_too:
            _move(q, p, x_u, step, tau)
    return lowest, best, made


# ---- All siblings --------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _middle(q):
    """tau to begin with: one half for a reward, 0 for a penalty."""
    tau = np.zeros(q.size)
    for i in range(q.size):
        if q[i] >= 0.0:
            tau[i] = 0.5
    return tau


@njit(cache=True, nogil=True)
def _lean(q, tau, p, u):
    """Add the linear upper bounds of all sibling pairs to u; return the sum of their constants."""
    total = 0.0
    for k in range(q.size):
        u[p.pairs[k, 0]] += q[k] * tau[k]
        u[p.pairs[k, 1]] += q[k] * ((1.0 - tau[k]) if q[k] >= 0.0 else tau[k])
        total -= min(q[k], 0.0) * tau[k]
    return total


@njit(cache=True, nogil=True)
def _pairs(q, tau, p, mu, nu):
    """Derivatives by q, from the arcs' marginals mu."""
    for k in range(q.size):
        a, b = mu[p.pairs[k, 0]], mu[p.pairs[k, 1]]
        nu[k] = tau[k] * a + (1.0 - tau[k]) * b if q[k] >= 0.0 else tau[k] * (a + b - 1.0)


@njit(cache=True, nogil=True)
def _move(q, p, mu, step, tau):
    """A step of q tau down the bound."""
    for k in range(q.size):
        a, b = mu[p.pairs[k, 0]], mu[p.pairs[k, 1]]
        slope = a - b if q[k] >= 0.0 else 1.0 - a - b
        if q[k] != 0.0:
            tau[k] = min(max(tau[k] - step * slope / abs(q[k]), 0.0), 1.0)
