"""Which instance next: a tree of weights that draws in O(log n) and is updated as it goes."""

from __future__ import annotations

import numpy as np
from numba import njit


class Sampler:
    """Draws instances, a share `nonuniform` of them in proportion to changing weights.

    weights p_i: 1 (uniform), 1 + R_i^2/(lambda n) (importance; Le Priol et al. 2018, section 3.3),
    the last seen block gap g_i (gap), their product (gap-importance), g_i per unit of oracle work
    (gap-cost); `max` takes the largest g_i.
    """

    def __init__(self, scheme: str, nonuniform: float, factor: np.ndarray):
        """factor: (n,) what the scheme multiplies a gap by; fixed weights for 'importance'."""
        self.scheme, self.factor = scheme, factor
        self.n = factor.size
        self.nonuniform = 0.0 if scheme == "uniform" else nonuniform
        self.leaves = 1 << max(0, int(self.n - 1).bit_length())
        self.tree = np.zeros(2 * self.leaves)
        self.fill(np.ones(self.n))

    def fill(self, gaps: np.ndarray) -> None:
        """Set all weights from block gaps."""
        weights = self.factor if self.scheme in ("uniform", "importance") else gaps * self.factor
        _build(self.tree, self.leaves, np.maximum(weights, 0.0))

    def update(self, i: int, gap: float) -> None:
        if self.scheme not in ("uniform", "importance"):
            _set(self.tree, self.leaves, i, max(gap, 0.0) * self.factor[i])

    def draw(self, coin: float, uniform: float) -> int:
        """An instance from two uniform numbers in [0, 1)."""
        if coin >= self.nonuniform or self.tree[1] <= 0.0:
            return int(uniform * self.n)
        if self.scheme == "max":
            return int(self.tree[self.leaves : self.leaves + self.n].argmax())
        return _find(self.tree, self.leaves, self.n, uniform)


@njit(cache=True, nogil=True)
def _build(tree, leaves, weights):
    tree[:] = 0.0
    for i in range(weights.size):
        tree[leaves + i] = weights[i]
    for p in range(leaves - 1, 0, -1):
        tree[p] = tree[2 * p] + tree[2 * p + 1]


@njit(cache=True, nogil=True)
def _set(tree, leaves, i, weight):
    p = leaves + i
    tree[p] = weight
    while p > 1:  # sums are recomputed, not adjusted, so no rounding error builds up
        p //= 2
        tree[p] = tree[2 * p] + tree[2 * p + 1]


@njit(cache=True, nogil=True)
def _find(tree, leaves, n, uniform):
    left = uniform * tree[1]
    p = 1
    while p < leaves:
        p *= 2
        if left >= tree[p] and tree[p + 1] > 0.0:
            left -= tree[p]
            p += 1
    return min(p - leaves, n - 1)
