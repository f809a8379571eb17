"""Draw the next instance from a tree of weights: a draw and an update take O(log n)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import kernel


class Weights(NamedTuple):
    """The weights of a Sampler, for kernels.

    nonuniform: share of draws by weight; largest: whether those draws take the instance with the
    largest weight; fixed: whether weights never change; factor: (n,), see Sampler;
    tree: (2 leaves,) sums of weights, tree[p] = tree[2p] + tree[2p+1]; instance i has leaves + i.
    """

    n: int
    nonuniform: float
    largest: bool
    fixed: bool
    factor: np.ndarray
    tree: np.ndarray


class Sampler:
    """Draws instances, a share `nonuniform` of them in proportion to changing weights.

    weights p_i: 1 (uniform), 1 + R_i^2/(lambda n) (importance; Le Priol et al. 2018, equation 23),
    the last seen block gap g_i (gap; section 5.3, equation 25), their product (gap-importance;
    equation 57), g_i per unit of oracle work (gap-cost, ours); `max` takes the largest g_i
    (section 5.3, after equation 24).
    """

    def __init__(self, scheme: str, nonuniform: float, factor: np.ndarray):
        """factor: (n,) what the scheme multiplies a block gap by; for 'importance' the weights."""
        n = factor.size
        leaves = 1 << max(0, int(n - 1).bit_length())
        share = 0.0 if scheme == "uniform" else float(nonuniform)
        fixed = scheme in ("uniform", "importance")
        self.weights = Weights(n, share, scheme == "max", fixed, factor, np.zeros(2 * leaves))
        self.fill(np.ones(n))

    @property
    def tree(self) -> np.ndarray:
        return self.weights.tree

    def fill(self, gaps: np.ndarray) -> None:
        """Set all weights from block gaps: (n,)."""
        factor = self.weights.factor
        weights = factor if self.weights.fixed else gaps * factor
        _build(self.tree, np.maximum(weights, 0.0))

    def update(self, i: int, gap: float) -> None:
        update(self.weights, i, gap)

    def draw(self, coin: float, uniform: float) -> int:
        return int(draw(self.weights, coin, uniform))


@kernel
def _build(tree, weights):
    leaves = tree.size // 2
    tree[:] = 0.0
    for i in range(weights.size):
        tree[leaves + i] = weights[i]
    for p in range(leaves - 1, 0, -1):
        tree[p] = tree[2 * p] + tree[2 * p + 1]


@kernel
def update(weights, i, gap):
    """Set the weight of instance i from its block gap."""
    if weights.fixed:
        return
    tree = weights.tree
    p = tree.size // 2 + i
    tree[p] = max(gap, 0.0) * weights.factor[i]
    while p > 1:  # sums are recomputed, not adjusted, so no rounding error builds up
        p //= 2
        tree[p] = tree[2 * p] + tree[2 * p + 1]


@kernel
def draw(weights, coin, uniform):
    """Draw an instance with two uniform numbers in [0, 1): coin decides whether by weight."""
    n, tree = weights.n, weights.tree
    if coin >= weights.nonuniform or tree[1] <= 0.0:
        return int(uniform * n)
    leaves = tree.size // 2
    if weights.largest:
        return int(tree[leaves : leaves + n].argmax())
    left = uniform * tree[1]
    p = 1
    while p < leaves:
        p *= 2
        if left >= tree[p] and tree[p + 1] > 0.0:
            left -= tree[p]
            p += 1
    return min(p - leaves, n - 1)
