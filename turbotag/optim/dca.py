"""DCA: online dual coordinate ascent, the passive-aggressive step for any L(beta, gamma).

Martins, Gimpel, Smith, Xing, Figueiredo and Aguiar (2010), "Aggressive online learning of
structured classifiers", algorithm 2: the step min{C, L / |grad L|^2} needs no learning rate. On the
hinge loss it is 1-best MIRA. The weights are averaged over all steps (Collins 2002).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, LOOPY, SECOND_ORDER, Optimizer
from turbotag.optim.problem import Problem


class DCA(Optimizer):
    name = "dca"
    reference = "Martins et al. 2010, algorithm 2"
    structures: tuple[str, ...] = (*EXACT, SECOND_ORDER, LOOPY)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.C = 1.0 / (lam * problem.n)
        self.W = np.zeros(problem.shape)
        self.late = np.zeros(problem.shape)  # sum of t * update_t: the average in one dense pass

    def epoch(self) -> None:
        for i in self.rng.permutation(self.problem.n).tolist():
            self.visit(i)
            self.updates += 1
        self.epochs += 1

    def visit(self, i: int) -> None:
        problem = self.problem
        value, theta, nu = problem.oracle(i, self.W)
        self.oracle_calls += 1
        z = problem.gold(i)
        loss = value - theta @ z
        if loss > 0.0:
            d = z - nu
            norm = problem.norm_sq(i, d)
            if norm > 0.0:
                self.move(i, d, min(self.C, loss / norm))

    def move(self, i: int, d: np.ndarray, step: float) -> None:
        """w <- w + step F d, and the same into the sum that the average is made of."""
        self.problem.add(i, d, step, self.W)
        self.problem.add(i, d, step * self.updates, self.late)

    def weights(self) -> np.ndarray:
        """The average of the weights after each step: W - sum_t (t/T) update_t."""
        return self.W - self.late / max(1, self.updates)

    def state(self) -> dict[str, np.ndarray]:
        return {"W": self.W, "late": self.late}
