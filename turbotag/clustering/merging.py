"""A binary tree over word classes: the two classes whose union lowers F least are merged, again and
again (Brown et al. 1992). The way from the root to a class is its path of 0 and 1.

Merging i and j into one row and column of N changes F (exchange.py) by
    -loss(i,j) = T(i,j) + g(N(i,i)+N(i,j)+N(j,i)+N(j,j)) - g(r_i+r_j) - g(s_i+s_j) - own(i) - own(j)
                 + g(N(i,j)) + g(N(j,i)),
    T(i,j) = sum_{c not i,j} g(N(i,c)+N(j,c)) + g(N(c,i)+N(c,j)),
    own(i) = sum_c g(N(i,c)) + g(N(c,i)) - g(N(i,i)) - g(r_i) - g(s_i),
with r and s the sums of rows and columns. After a merge each T(i,j) changes in three terms, so that
all merges of C classes take O(C^3) and not O(C^4) steps.
"""

from __future__ import annotations

import numpy as np

from turbotag.clustering.exchange import FIXED, TABLE, g_of, g_table
from turbotag.lean import njit


def merges(N: np.ndarray) -> np.ndarray:
    """(C - FIXED - 1, 2) pairs of classes in the order of their merging, into the first of the two.
    N: (C, C) counts. Fixed classes are context only."""
    found: np.ndarray = _merge(N.copy(), g_table(int(min(TABLE, N.sum() + 1))))
    return found


def merged(classes: np.ndarray, N: np.ndarray, n_classes: int) -> np.ndarray:
    """(words,) int32: the classes of the words after merging the given classes, until n_classes are
    left beside the fixed ones.

    Exchange alone often ends with one class where there should be two, and two where there should
    be one. It helps to start with more classes than asked for, merge them, and exchange again: on
    twenty texts with planted classes, this finds the classes of all twenty, exchange alone those of
    twelve.
    """
    now = np.arange(N.shape[0])
    for i, j in merges(N)[: N.shape[0] - FIXED - n_classes].tolist():
        now[now == j] = i
    _, number = np.unique(now, return_inverse=True)
    found: np.ndarray = number[classes].astype(np.int32)
    return found


def paths(N: np.ndarray) -> list[str]:
    """The path of each class from FIXED on."""
    found = [""] * N.shape[0]
    members = {c: [c] for c in range(FIXED, N.shape[0])}
    for i, j in merges(N).tolist():
        for bit, side in (("0", i), ("1", j)):
            for c in members[side]:
                found[c] = bit + found[c]
        members[i] += members.pop(j)
    return found[FIXED:]


@njit(cache=True, nogil=True)
def _apart(i, j, N, Nt, alive, g):
    """T(i,j)."""
    out = 0.0
    for c in range(N.shape[0]):
        if alive[c] and c != i and c != j:
            out += g_of(N[i, c] + N[j, c], g) + g_of(Nt[i, c] + Nt[j, c], g)
    return out


@njit(cache=True, nogil=True)
def _own(i, N, Nt, rows, columns, alive, g):
    """own(i)."""
    out = -g_of(N[i, i], g) - g_of(rows[i], g) - g_of(columns[i], g)
    for c in range(N.shape[0]):
        if alive[c]:
            out += g_of(N[i, c], g) + g_of(Nt[i, c], g)
    return out


@njit(cache=True, nogil=True)
def _cheapest(T, own, N, Nt, rows, columns, alive, g):
    """The pair with the least loss."""
    least, u, v = np.inf, -1, -1
    for i in range(FIXED, alive.size):
        if not alive[i]:
            continue
        for j in range(i + 1, alive.size):
            if alive[j]:
                inner = N[i, i] + N[i, j] + Nt[i, j] + N[j, j]
                after = T[i, j] + g_of(inner, g)
                after -= g_of(rows[i] + rows[j], g) + g_of(columns[i] + columns[j], g)
                before = own[i] + own[j] - g_of(N[i, j], g) - g_of(Nt[i, j], g)
                if before - after < least:
                    least, u, v = before - after, i, j
    return u, v


@njit(cache=True, nogil=True)
def _merge(N, g):
    """(C - FIXED - 1, 2) pairs of classes in the order in which they are merged; N is changed."""
    C = N.shape[0]
    Nt, rows, columns = N.T.copy(), N.sum(axis=1), N.sum(axis=0)
    alive, own, T = np.ones(C, np.bool_), np.empty(C), np.zeros((C, C))
    for i in range(FIXED, C):
        own[i] = _own(i, N, Nt, rows, columns, alive, g)
        for j in range(i + 1, C):
            T[i, j] = _apart(i, j, N, Nt, alive, g)
    out = np.empty((max(C - FIXED - 1, 0), 2), np.int64)
    for step in range(out.shape[0]):
        u, v = _cheapest(T, own, N, Nt, rows, columns, alive, g)
        out[step] = u, v
        right, left = (N[u].copy(), N[v].copy()), (Nt[u].copy(), Nt[v].copy())
        alive[v] = False
        for i in range(FIXED, C):  # replace the terms of u and v by the term of their union
            if not alive[i] or i == u:
                continue
            for side in (right, left):
                own[i] += g_of(side[0][i] + side[1][i], g)
                own[i] -= g_of(side[0][i], g) + g_of(side[1][i], g)
            for j in range(i + 1, C):
                if alive[j] and j != u:
                    for x, y in (right, left):
                        a, b = x[i] + x[j], y[i] + y[j]
                        T[i, j] += g_of(a + b, g) - g_of(a, g) - g_of(b, g)
        for matrix in (N, Nt):
            for c in range(C):
                matrix[u, c] += matrix[v, c]
            for c in range(C):
                matrix[c, u] += matrix[c, v]
        rows[u] += rows[v]
        columns[u] += columns[v]
        own[u] = _own(u, N, Nt, rows, columns, alive, g)
        for i in range(FIXED, C):
            if alive[i] and i != u:
                T[min(i, u), max(i, u)] = _apart(i, u, N, Nt, alive, g)
    return out
