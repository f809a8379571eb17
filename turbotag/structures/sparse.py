"""F(x), the sparse map between weight rows and the unary parts of an instance.

The features of an instance are occurrences (row, position, value), sorted by row. Scores, norms
and updates all walk that one list: a row that fires at several positions is loaded and stored
once, and rows come in ascending order, which is kind to caches and to the TLB. What bounds these
loops is the cache misses on W, three or four lines a row at K = 22.
"""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit
from turbotag.structures.elementary import FAST


@njit(cache=True, nogil=True)
def sort_occurrences(offsets, rows, positions, values):
    """Sort each instance's occurrences by row, then position, in place (shell sort: a few hundred
    at a time, and a tenth of the compile time of argsort)."""
    for i in range(offsets.size - 1):
        a, b = offsets[i], offsets[i + 1]
        step = 1
        while step < (b - a) // 3:
            step = 3 * step + 1
        while step > 0:
            for o in range(a + step, b):
                row, position, value = rows[o], positions[o], values[o]
                p = o - step
                while p >= a and (rows[p] > row or (rows[p] == row and positions[p] > position)):
                    rows[p + step] = rows[p]
                    positions[p + step] = positions[p]
                    values[p + step] = values[p]
                    p -= step
                rows[p + step], positions[p + step], values[p + step] = row, position, value
            step //= 3


# Inner loops run over row views with an index straight from range(): numba then knows it is not
# negative, drops the wrap-around check and LLVM vectorises. `a[base + k]` is twice as slow. Kernels
# that every command needs assign no array to another, a[:] = b: it takes two seconds to compile.


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_scores(rows, positions, values, a, b, W, u):
    """u[position] += value * W[row] for the occurrences a..b-1; u: (T, K)."""
    K = u.shape[1]
    for o in range(a, b):
        value, to, weights = values[o], u[positions[o]], W[rows[o]]
        for k in range(K):
            to[k] += value * weights[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _gather(rows, positions, values, o, b, d, acc):
    """acc = (F d)[row] for the run of occurrences of one row that begins at o; returns its end."""
    row, K = rows[o], acc.size
    acc[:] = 0.0
    while o < b and rows[o] == row:
        value, at = np.float64(values[o]), d[positions[o]]
        for k in range(K):
            acc[k] += value * at[k]
        o += 1
    return o


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def norm_sq(rows, positions, values, a, b, d):
    """|F d|^2 over the attribute rows, for a direction d (T, K)."""
    T, K = d.shape
    own = np.zeros(T)  # |d_t|^2: all that a row firing once needs
    for t in range(T):
        total, at = 0.0, d[t]
        for k in range(K):
            total += at[k] * at[k]
        own[t] = total
    acc = np.empty(K)
    norm = 0.0
    o = a
    while o < b:
        row = rows[o]
        if o + 1 == b or rows[o + 1] != row:
            value = np.float64(values[o])  # the square of a float32 would be rounded
            norm += value * value * own[positions[o]]
            o += 1
            continue
        o = _gather(rows, positions, values, o, b, d, acc)
        total = 0.0
        for k in range(K):
            total += acc[k] * acc[k]
        norm += total
    return norm


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_to_weights(rows, positions, values, a, b, d, step, W):
    """W += step * F d over the attribute rows; d: (T, K)."""
    K = d.shape[1]
    for o in range(a, b):
        value, at, weights = values[o] * step, d[positions[o]], W[rows[o]]
        for k in range(K):
            weights[k] += value * at[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def gram(rows, positions, values, a, b, d, out):
    """out += F'F d over the attribute rows: what a step along d does to the scores; (T, K)."""
    K = d.shape[1]
    acc = np.empty(K)
    o = a
    while o < b:
        first = o
        o = _gather(rows, positions, values, o, b, d, acc)
        for q in range(first, o):
            value, to = np.float64(values[q]), out[positions[q]]
            for k in range(K):
                to[k] += value * acc[k]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def shrink(rows, a, b, V, threshold, W):
    """W[row] = soft(V[row], threshold) for the rows a..b-1; equal rows stand together."""
    K = W.shape[1]
    for o in range(a, b):
        if o > a and rows[o] == rows[o - 1]:
            continue
        v, w = V[rows[o]], W[rows[o]]
        for k in range(K):
            w[k] = max(v[k] - threshold, 0.0) + min(v[k] + threshold, 0.0)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def settle(rows, a, b, W, D, now, last):
    """W[row] -= (now - last[row]) * D[row] for the rows of an instance: delayed dense updates."""
    K = W.shape[1]
    for o in range(a, b):
        row = rows[o]
        lag = now - last[row]
        if lag != 0.0:
            to, at = W[row], D[row]
            for k in range(K):
                to[k] -= lag * at[k]
            last[row] = now


@njit(cache=True, nogil=True)
def with_shared(rows, first, n):
    """The rows of an instance's features, and behind them n rows that every instance reads: those
    of transitions, first..first+n-1."""
    out = np.empty(rows.size + n, np.int64)
    for o in range(rows.size):
        out[o] = rows[o]
    for j in range(n):
        out[rows.size + j] = first + j
    return out
