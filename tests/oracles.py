"""Brute force: every structure of a small instance, one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np


def sequences(T: int, K: int, mask=None) -> Iterator[tuple[int, ...]]:
    """All label sequences that a mask allows."""
    for y in itertools.product(range(K), repeat=T):
        if mask is not None:
            allowed, start, end = mask
            if not start[y[0]] or not end[y[-1]]:
                continue
            if any(not allowed[a, b] for a, b in itertools.pairwise(y)):
                continue
        yield y


def stats(y: tuple[int, ...], K: int, order: int = 1) -> np.ndarray:
    """Part indicators of a sequence, in the flat layout of structures/multiclass, chain, chain2."""
    T = len(y)
    z = np.zeros(T * K + sum(K**o for o in range(2, order + 2)))
    for t in range(T):
        z[t * K + y[t]] = 1
        if t > 0 and order > 0:
            z[T * K + y[t - 1] * K + y[t]] += 1
        if t > 1 and order == 2:
            z[T * K + K * K + (y[t - 2] * K + y[t - 1]) * K + y[t]] += 1
    return z


class Gibbs:
    """The distribution with potentials beta*scores over structures with the stats z."""

    def __init__(self, scores, z, beta=1.0):
        self.scores, self.z = scores, z
        self.log_partition = top = beta * scores.max(initial=-math.inf)
        if top == -math.inf:
            return
        weights = np.exp(beta * scores - top)
        self.log_partition += math.log(weights.sum())
        self.p = weights / weights.sum()
        self.marginals = np.tensordot(self.p, z, axes=1)
        positive = self.p[self.p > 0]
        self.entropy = float(-(positive * np.log(positive)).sum())


class Enumerated(Gibbs):
    """All label sequences."""

    def __init__(self, theta, T, K, beta=1.0, mask=None, order=1):
        self.ys = list(sequences(T, K, mask))
        z = np.array([stats(y, K, order) for y in self.ys])
        super().__init__(z @ theta, z, beta)


def random_mask(rng: np.random.Generator, K: int):
    """A mask that forbids some things but leaves label 0 usable everywhere."""
    allowed = (rng.random((K, K)) < 0.7).astype(float)
    allowed[0, :] = allowed[:, 0] = 1.0
    start, end = (rng.random(K) < 0.7).astype(float), (rng.random(K) < 0.7).astype(float)
    start[0] = end[0] = 1.0
    return allowed, start, end
