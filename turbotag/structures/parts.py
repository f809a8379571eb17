"""The second-order parts over the candidate arcs of a sentence, and where they stand.

Beside its arcs a tree is scored by
    consecutive siblings  for each word h and each side, its children from h outwards are a path
                          START, m1, m2, .., END, and every step of it is a part;
    grandparents          g -> h -> m;
    all siblings          every two children of h on one side (only where asked for).
Scores and stats of a sentence are one vector, in this order behind its arcs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import njit


class Parts(NamedTuple):
    """Candidate arcs of a sentence, by modifier, and where its second-order parts stand.

    The arcs out of word h, from h outwards, are arcs[first[2h]:first[2h+1]] to the left and
    arcs[first[2h+1]:first[2h+2]] to the right. The arcs of the root are not listed, because the
    factor TREE gives it one. Sibling parts of side k = 2h or 2h+1 begin at siblings[k]: START-END,
    then with R children START-j, then i-END, then i-j for i < j, row by row. Grandparent parts of
    word h begin at grands[h]: for each of its candidate heads all its child arcs, left then right;
    those whose modifier is that head are in no tree. Pair q of all siblings, if these are asked
    for, has the arcs pairs[q, 0], the inner one, and pairs[q, 1].
    """

    cuts: np.ndarray
    heads: np.ndarray
    mods: np.ndarray
    first: np.ndarray
    arcs: np.ndarray
    siblings: np.ndarray
    grands: np.ndarray
    pairs: np.ndarray


@njit(cache=True, nogil=True)
def parts(cuts, heads, all_siblings):
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
    n_pairs = 0
    for k in range(2, 2 * n + 2):
        R = first[k + 1] - first[k]
        siblings[k + 1] = siblings[k] + 1 + 2 * R + R * (R - 1) // 2
        n_pairs += R * (R - 1) // 2
    for h in range(1, n + 1):
        children = first[2 * h + 2] - first[2 * h]
        grands[h + 1] = grands[h] + (cuts[h] - cuts[h - 1]) * children
    pairs, at = np.empty((n_pairs if all_siblings else 0, 2), np.int64), 0
    if all_siblings:
        for k in range(2, 2 * n + 2):
            for i in range(first[k], first[k + 1]):
                for j in range(i + 1, first[k + 1]):
                    pairs[at] = (arcs[i], arcs[j])
                    at += 1
    return Parts(cuts, heads, mods, first, arcs, siblings, grands, pairs)


@njit(cache=True, nogil=True, inline="always")
def pair(i, j, R):
    """Where the part i-j, i < j, of a side with R children stands among its sibling parts."""
    return 1 + 2 * R + i * R - i * (i + 1) // 2 + (j - i - 1)


@njit(cache=True, nogil=True)
def size(p):
    """Number of parts."""
    return p.heads.size + p.siblings[-1] + p.grands[-1] + p.pairs.shape[0]


@njit(cache=True, nogil=True)
def split(x, p):
    """The (arcs, siblings, grandparents, all siblings) of a vector over all parts."""
    E, S, G = p.heads.size, p.siblings[-1], p.grands[-1]
    return x[:E], x[E : E + S], x[E + S : E + S + G], x[E + S + G :]


@njit(cache=True, nogil=True)
def indicator(tree_heads, p, z):
    """The parts of a tree whose arcs are all candidates."""
    n = p.cuts.size - 1
    z[:] = 0.0
    arcs, siblings, grands, alls = split(z, p)
    for e in range(arcs.size):
        if p.heads[e] == tree_heads[p.mods[e] - 1]:
            arcs[e] = 1.0
    for h in range(1, n + 1):
        for k in range(2 * h, 2 * h + 2):
            R, last = p.first[k + 1] - p.first[k], -1
            for j in range(R):
                if arcs[p.arcs[p.first[k] + j]] > 0.0:
                    siblings[p.siblings[k] + (1 + j if last < 0 else pair(last, j, R))] = 1.0
                    last = j
            siblings[p.siblings[k] + (0 if last < 0 else 1 + R + last)] = 1.0
        children = p.first[2 * h + 2] - p.first[2 * h]
        for g in range(p.cuts[h] - p.cuts[h - 1]):
            for j in range(children):
                if arcs[p.cuts[h - 1] + g] > 0.0 and arcs[p.arcs[p.first[2 * h] + j]] > 0.0:
                    grands[p.grands[h] + g * children + j] = 1.0
    for q in range(alls.size):
        alls[q] = arcs[p.pairs[q, 0]] * arcs[p.pairs[q, 1]]


@njit(cache=True, nogil=True)
def positions(p):
    """The words of each part: siblings (head, child, next child), where n+1 is START and n+2 END,
    grandparents (grandparent, head, modifier), and all siblings (head, inner child, outer)."""
    n = p.cuts.size - 1
    siblings = np.empty((p.siblings[-1], 3), np.int64)
    grands = np.empty((p.grands[-1], 3), np.int64)
    alls = np.empty((p.pairs.shape[0], 3), np.int64)
    for q in range(alls.shape[0]):
        inner, outer = p.pairs[q]
        alls[q] = (np.int64(p.heads[inner]), p.mods[inner], p.mods[outer])
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
    return siblings, grands, alls
