"""DCA: online dual coordinate ascent, the passive-aggressive step for any L(beta, gamma).

Martins, Gimpel, Smith, Xing, Figueiredo and Aguiar (2010), "Aggressive online learning of
structured classifiers", algorithm 2: the step min{C, L / |grad L|^2} needs no learning rate. On the
hinge loss it is 1-best MIRA. The weights are averaged over all steps (Collins 2002).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate, certify_primal
from turbotag.optim.problem import Problem


class DCA(Optimizer):
    name = "dca"
    reference = "Martins et al. 2010, algorithm 2"

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.C = 1.0 / (lam * problem.n)
        self.W = np.zeros(problem.shape)
        self.late = np.zeros(problem.shape)  # sum of t * update_t: the average in one dense pass

    def epoch(self) -> None:
        problem, W = self.problem, self.W
        for i in self.rng.permutation(problem.n).tolist():
            value, theta, nu = problem.oracle(i, W)
            z = problem.gold(i)
            loss = value - theta @ z
            if loss > 0.0:
                d = z - nu
                norm = problem.norm_sq(i, d)
                step = min(self.C, loss / norm) if norm > 0.0 else 0.0
                problem.add(i, d, step, W)
                problem.add(i, d, step * self.updates, self.late)
            self.updates += 1
        self.epochs += 1
        self.oracle_calls += problem.n

    def weights(self) -> np.ndarray:
        """The average of the weights after each step: W - sum_t (t/T) update_t."""
        return self.W - self.late / max(1, self.updates)

    def certify(self) -> Certificate:
        self.oracle_calls += self.problem.n
        return certify_primal(self.problem, self.lam, self.weights())

    def state(self) -> dict[str, np.ndarray]:
        return {"W": self.W, "late": self.late}
