"""DCA with several half-spaces of an instance, for any loss.

Martins et al. (2010), equation 17: the exact step of DCA is a projection onto one half-space for
each point z' of the marginal polytope,
    theta in H(z'):   theta'F(z' - z) + gamma cost(z') + H(z')/beta <= xi,
and DCA keeps the one of the marginals at the present weights alone (equation 13). Here the
half-spaces of the last k visits to an instance are kept too, which the text after equation 17
suggests: tangents of its loss at earlier weights. The small quadratic programme is that of k-best
MIRA (optim/mira), whose half-spaces are labelings and whose loss is the hinge. With k = 1 it is
DCA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, Param
from turbotag.optim.dca import DCA, move
from turbotag.optim.labelings import Lists, sparse
from turbotag.optim.mira import hildreth
from turbotag.optim.problem import Problem


class DCAPlanes(DCA):
    name = "dca-planes"
    reference = "Martins et al. 2010, algorithm 1 with several half-spaces of equation 17"
    structures = EXACT
    kept = 4
    params = (Param("halfspaces", 4, "half-spaces of an instance, the newest among them", least=1),)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.lists = Lists(problem)  # the newest first; the gold answer, last, has an empty one

    def visit(self, order: np.ndarray) -> None:
        if self.param["halfspaces"] == 1:
            super().visit(order)
            return
        for i in order.tolist():
            self._step(i)
            self.updates += 1
            self.oracle_calls += 1

    def _step(self, i: int) -> None:
        problem, mine = self.problem, self.lists.points[i]
        value, theta, nu = problem.oracle(i, self.W)
        mine.insert(0, sparse(nu, value - float(theta @ nu)))
        del mine[self.param["halfspaces"] : -1]
        z = problem.gold(i)
        violations = self.lists.scores(i, theta)[:-1] - float(theta @ z)
        keep = np.flatnonzero(violations > 0.0)
        if keep.size == 0:
            return
        directions = z - np.array([self.lists.stats(i, int(p)) for p in keep])
        gram = np.array([problem.gram(i, d) @ directions.T for d in directions])
        a = hildreth(gram, violations[keep], self.C)
        move(problem.data, i, a @ directions, 1.0, self.updates, self.W, self.late)

    @property
    def state_bytes(self) -> int:
        return self.lists.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), **self.lists.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.lists.restore(state)
        super().restore(state)
