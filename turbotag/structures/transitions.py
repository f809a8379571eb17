"""Features of pairs of neighbouring labels, for chains over candidate lists: parts of both labels,
such as the case of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from turbotag.lean import njit


class Transitions(NamedTuple):
    """Features of label pairs: for each part g of a label, the pair of the values of both.

    values: (K, G) the value of each part of each label; base: (G+1,) where the weights of part g
    begin: those of the values x, y are at base[g] + x * n + y, where n^2 = base[g+1] - base[g].
    """

    values: np.ndarray
    base: np.ndarray

    @property
    def size(self) -> int:
        """The number of weights."""
        return int(self.base[-1])

    @property
    def order(self) -> int:
        return int(self.base.size > 1)


NONE = Transitions(np.zeros((0, 0), np.int32), np.zeros(1, np.int64))  # order 0


def transitions(parts: Sequence[Sequence[str]]) -> Transitions:
    """parts: of each label, the same number for all."""
    columns = [sorted(set(column)) for column in zip(*parts, strict=True)]
    at = [{value: n for n, value in enumerate(column)} for column in columns]
    rows = [[where[v] for where, v in zip(at, label, strict=True)] for label in parts]
    base = np.cumsum([0, *(len(c) ** 2 for c in columns)]).astype(np.int64)
    return Transitions(np.array(rows, np.int32).reshape(len(parts), -1), base)


# ---- Kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def pair_scores(cuts, labels, values, base, weights, out):
    """out[j, k] = sum_g weights[base[g] + values[j, g] n_g + values[k, g]], for the pairs of all
    neighbouring words."""
    G = base.size - 1
    at = 0
    for t in range(1, cuts.size - 1):
        for j in range(cuts[t - 1], cuts[t]):
            for k in range(cuts[t], cuts[t + 1]):
                total = 0.0
                for g in range(G):
                    total += weights[_place(values, base, labels[j], labels[k], g)]
                out[at] = total
                at += 1


@njit(cache=True, nogil=True, inline="always")
def _place(values, base, j, k, g):
    n = np.int64(math.sqrt(base[g + 1] - base[g]))
    return base[g] + values[j, g] * n + values[k, g]


@njit(cache=True, nogil=True)
def add_pairs(cuts, labels, values, base, d, step, weights):
    """weights += step F d over the transitions."""
    at = 0
    for t in range(1, cuts.size - 1):
        for j in range(cuts[t - 1], cuts[t]):
            for k in range(cuts[t], cuts[t + 1]):
                change = step * d[at]
                at += 1
                if change != 0.0:
                    for g in range(base.size - 1):
                        weights[_place(values, base, labels[j], labels[k], g)] += change


@njit(cache=True, nogil=True)
def pair_norm_sq(cuts, labels, values, base, d, scratch):
    """|F d|^2 over the transitions; scratch is all 0, before and after."""
    add_pairs(cuts, labels, values, base, d, 1.0, scratch)
    norm = 0.0
    for t in range(1, cuts.size - 1):
        for j in range(cuts[t - 1], cuts[t]):
            for k in range(cuts[t], cuts[t + 1]):
                for g in range(base.size - 1):
                    p = _place(values, base, labels[j], labels[k], g)
                    norm += scratch[p] * scratch[p]
                    scratch[p] = 0.0
    return norm


@njit(cache=True, nogil=True)
def settle_pairs(cuts, labels, values, base, n_cells, W, D, now, last):
    for t in range(1, cuts.size - 1):
        for j in range(cuts[t - 1], cuts[t]):
            for k in range(cuts[t], cuts[t + 1]):
                for g in range(base.size - 1):
                    p = n_cells + _place(values, base, labels[j], labels[k], g)
                    W[p, 0] -= (now - last[p]) * D[p, 0]
                    last[p] = now
