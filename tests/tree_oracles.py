"""Brute force: every dependency tree of a short sentence, one by one."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from tests.oracles import Gibbs


def is_tree(heads) -> bool:
    """Whether every word reaches the root 0; heads are those of the words 1..n."""
    for m in range(1, len(heads) + 1):
        at = m
        for _ in heads:
            at = heads[at - 1] if at else 0
        if at:
            return False
    return True


def is_projective(heads) -> bool:
    """Whether all words between a head and its modifier descend from the head."""

    def descends(w: int, h: int) -> bool:
        while w not in (0, h):
            w = heads[w - 1]
        return w == h

    arcs = [(h, m) for m, h in enumerate(heads, 1)]
    return all(descends(w, h) for h, m in arcs for w in range(min(h, m) + 1, max(h, m)))


@functools.cache
def trees(n: int, single_root: bool, projective: bool = False) -> np.ndarray:
    """All trees of n words: (count, n) heads."""
    found = [
        heads
        for heads in itertools.product(range(n + 1), repeat=n)
        if is_tree(heads)
        and (heads.count(0) == 1 or not single_root)
        and (not projective or is_projective(heads))
    ]
    return np.array(found, np.int32)


class EnumeratedTrees(Gibbs):
    """All trees."""

    def __init__(self, scores, single_root, beta=1.0, projective=False):
        n = len(scores) - 1
        self.heads = trees(n, single_root, projective)
        z = np.zeros((len(self.heads), n + 1, n + 1))
        for arcs, heads in zip(z, self.heads, strict=True):
            arcs[heads, np.arange(1, n + 1)] = 1
        super().__init__(scores[self.heads, np.arange(1, n + 1)].sum(axis=1), z, beta)


def draw(n, seed, banned=False, scale=1.0):
    """Scores with NaN where nothing may look, and a third of the arcs banned."""
    rng = np.random.default_rng(seed)
    scores = scale * rng.normal(size=(n + 1, n + 1))
    if banned:
        scores[rng.random(scores.shape) < 0.3] = -np.inf
    scores[:, 0] = np.nan
    np.fill_diagonal(scores, np.nan)
    return scores, rng
