"""SVM-struct with one slack variable for all instances (1-slack cutting planes).

Joachims, Finley and Yu (2009), "Cutting-plane training of structural SVMs". A constraint of the
1-slack problem is one labeling for each instance: together they are a plane below the mean hinge
loss, so the working set and its quadratic programme are those of optim/bmrm. The cache is new: the
last few labelings of each instance are kept; the best of them at the present weights make a
constraint without any oracle call; only if that constraint is not violated enough, the oracle is
asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.bmrm import BMRM, PLANES
from turbotag.optim.labelings import SAME, Lists, sparse
from turbotag.optim.problem import Problem

SHARE = 0.25  # the cache must give this share of the last violation that the oracle found


class SVMStruct(BMRM):
    name = "svm-struct"
    reference = "Joachims, Finley and Yu 2009, 1-slack with a cache of labelings"
    losses = "hinge"
    kept = 1
    unbounded = ("bounds", "violation")
    params = (
        PLANES,
        Param("labelings", 5, "answers of an instance that are cached; 0 caches none", least=0),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.lists = Lists(problem)  # the newest first, the gold answer last
        self.violation = np.array([np.inf])  # of the last constraint that the oracle made

    def epoch(self) -> None:
        """Add a constraint, and find the best weights under all constraints."""
        slack = self.dual - 0.5 * self.lam * self.problem.sq_norm(self.W)  # J_t(w) - lambda/2 |w|^2
        found = self.from_cache() if self.param["labelings"] and self.epochs else None
        if found is None or found[1] - slack < SHARE * self.violation[0]:
            found = self.from_oracle()
            self.violation[0] = found[1] - slack
            self.visited(0.5 * self.lam * self.problem.sq_norm(self.W) + found[1])
        v, loss = found
        self.cut(v, loss + self.lam * float(np.vdot(v, self.W)))
        self.epochs += 1

    def from_oracle(self) -> tuple[np.ndarray, float]:
        """The most violated constraint: v = w(nu), and the mean loss. Its labelings are cached."""
        problem, most = self.problem, self.param["labelings"]
        v, total = np.zeros(problem.shape), 0.0
        for i in range(problem.n):
            value, theta, nu = problem.oracle(i, self.W)
            known = self.lists.scores(i, theta)
            if most and value > known.max() + SAME * max(1.0, abs(value)):
                self.lists.remember(i, sparse(nu, 0.0), most)
            z = problem.gold(i)
            total += value - float(theta @ z)
            problem.add(i, z - nu, 1.0 / (self.lam * problem.n), v)
        self.oracle_calls += problem.n
        return v, total / problem.n

    def from_cache(self) -> tuple[np.ndarray, float]:
        """The most violated constraint of cached labelings."""
        problem = self.problem
        v, total = np.zeros(problem.shape), 0.0
        for i in range(problem.n):
            theta = problem.potentials(i, self.W)
            known = self.lists.scores(i, theta)
            best = int(known.argmax())
            z = problem.gold(i)
            total += known[best] - float(theta @ z)
            problem.add(i, z - self.lists.stats(i, best), 1.0 / (self.lam * problem.n), v)
        return v, total / problem.n

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "violation": self.violation, **self.lists.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.lists.restore(state)
        super().restore(state)
