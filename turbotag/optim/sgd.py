"""Stochastic gradient descent with the step eta/(1 + (t-1)/n).

As in the comparisons of Collins et al. (2008, section 6) and Martins et al. (2010, section 5): eta
is picked from {10^-3, ..., 10^2} after one epoch of each, by the dev score or, without a dev set,
by the objective. The oracle calls of the whole grid are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, LOOPY, SECOND_ORDER, Optimizer, Param
from turbotag.optim.certificate import objective
from turbotag.optim.problem import Problem

GRID = tuple(10.0**e for e in range(-3, 3))
SMALLEST_SCALE = 1e-100


class SGD(Optimizer):
    name = "sgd"
    reference = "Collins et al. 2008, section 6; Bottou 2004"
    structures = (*EXACT, SECOND_ORDER, LOOPY)
    params = (
        Param(
            "eta",
            0.0,
            "first step; 0 picks it from 10^-3 .. 10^2 after one epoch",
            least=0.0,
            shown="picked",
        ),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.V = np.zeros(problem.shape)  # w = scale V: shrinking all of w costs one multiplication
        self.scale = np.ones(1)
        self.eta = np.array([float(self.param["eta"])])
        self.t = np.zeros(1, np.int64)

    def epoch(self) -> None:
        if self.epochs == 0 and self.eta[0] <= 0.0:
            self._pick()
        else:
            self._pass(self.rng.permutation(self.problem.n), float(self.eta[0]))
        self.epochs += 1

    def _pass(self, order: np.ndarray, eta: float) -> None:
        problem, n = self.problem, self.problem.n
        scale, t = float(self.scale[0]), int(self.t[0])
        for i in order.tolist():
            step = eta / (1.0 + t / n)
            _, _, nu = problem.oracle(i, self.V, scale)
            scale *= max(1.0 - step * self.lam, 0.0)
            if scale < SMALLEST_SCALE:
                self.V *= scale
                scale = 1.0
            problem.add(i, problem.gold(i) - nu, step / scale, self.V)
            t += 1
        self.scale[0], self.t[0] = scale, t
        self.oracle_calls += n
        self.updates += n

    def _pick(self) -> None:
        """One epoch with each eta from the same start and in the same order; keep the best."""
        start, order = self.V.copy(), self.rng.permutation(self.problem.n)
        best: tuple[float, float, np.ndarray, float] | None = None
        for eta in GRID:
            self.V[:], self.scale[0], self.t[0] = start, 1.0, 0
            with np.errstate(over="ignore", invalid="ignore"):
                self._pass(order, eta)
                score = self._score()
            if np.isfinite(score) and (best is None or score > best[0]):
                best = score, eta, self.V.copy(), float(self.scale[0])
        assert best is not None
        _, self.eta[0], self.V[:], self.scale[0] = best
        self.param["eta"] = float(self.eta[0])  # for the model's card

    def _score(self) -> float:
        weights = self.weights()
        if not np.isfinite(weights).all():
            return -np.inf
        if self.dev_score is not None:
            return self.dev_score(weights)
        self.oracle_calls += self.problem.n
        return -objective(self.problem, self.lam, weights)[0]

    def weights(self) -> np.ndarray:
        return self.scale[0] * self.V

    def state(self) -> dict[str, np.ndarray]:
        return {"V": self.V, "scale": self.scale, "eta": self.eta, "t": self.t}
