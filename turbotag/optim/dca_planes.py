"""DCA with several half-spaces of an instance, for any loss.

Martins et al. (2010), equation 17: the exact step of DCA is a projection onto one half-space for
each point z' of the marginal polytope,
    w'F(z' - z) + gamma cost(z') + H(z')/beta <= xi,
and DCA keeps only the half-space of the marginals at the present weights (equation 13). Here the
half-spaces of the last k visits to an instance are kept, which are tangents of its loss at earlier
weights, as the text after equation 17 suggests. The small quadratic programme is that of k-best
MIRA (optim/halfspaces), whose half-spaces are labelings and whose loss is the hinge. With k = 1 the
method is DCA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.halfspaces import HalfSpaces
from turbotag.optim.labelings import Lists, sparse
from turbotag.optim.problem import Problem


class DCAPlanes(HalfSpaces):
    name = "dca-planes"
    reference = "Martins et al. 2010, algorithm 1 with several half-spaces of equation 17"
    kept = 4
    most = "halfspaces"
    params = (Param("halfspaces", 4, "newest half-spaces that an instance keeps", least=1),)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.lists = Lists(problem)  # the gold answer, which comes last, has an empty half-space

    def half_spaces(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        value, theta, nu = self.problem.oracle(i, self.W)
        self.lists.remember(i, sparse(nu, value - float(theta @ nu)), self.param["halfspaces"])
        z, k = self.problem.gold(i), len(self.lists.points[i]) - 1
        directions = z - np.array([self.lists.stats(i, p) for p in range(k)])
        return directions, self.lists.scores(i, theta)[:k] - float(theta @ z)

    @property
    def state_bytes(self) -> int:
        return self.lists.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), **self.lists.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.lists.restore(state)
        super().restore(state)
