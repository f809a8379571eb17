"""Stochastic gradient descent with the step eta/(1 + (t-1)/n).

As in the comparisons of Collins et al. (2008) and Martins et al. (2010, section 5): eta
is picked from {10^-3, ..., 10^2} after one epoch of each, by the dev score or, without a dev set,
by the objective. The oracle calls of the whole grid are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.lean import kernel
from turbotag.optim.base import EXACT, KERNEL_CHAIN, LOOPY, SECOND_ORDER, Optimizer, Param
from turbotag.optim.certificate import objective
from turbotag.optim.epochs import scratch, slices, three
from turbotag.optim.problem import Problem
from turbotag.structures.verbs import add, gold, oracle

GRID = tuple(10.0**e for e in range(-3, 3))
SMALLEST_SCALE = 1e-100


class SGD(Optimizer):
    name = "sgd"
    reference = "Martins et al. 2010, section 5; Collins et al. 2008; Bottou 2004"
    structures = (*EXACT, SECOND_ORDER, LOOPY, KERNEL_CHAIN)
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
            if not self._pass(self.rng.permutation(self.problem.n), float(self.eta[0])):
                raise FloatingPointError(f"scores overflow after {int(self.t[0])} steps")
        self.epochs += 1

    def _pass(self, order: np.ndarray, eta: float) -> bool:
        """One epoch; False if it ended early, because scores overflowed."""
        data, n = self.problem.data, self.problem.n
        for part in slices(n):
            scale, done = _steps(
                data, order[part], eta, self.lam, int(self.t[0]), float(self.scale[0]), self.V
            )
            self.scale[0] = scale
            self.t[0] += done
            if done < order[part].size:
                return False
        self.oracle_calls += n
        self.updates += n
        return True

    def _pick(self) -> None:
        """One epoch with each eta from the same start and in the same order; keep the best."""
        start, order = self.V.copy(), self.rng.permutation(self.problem.n)
        best: tuple[float, float, np.ndarray, float] | None = None
        for eta in GRID:
            self.V[:], self.scale[0], self.t[0] = start, 1.0, 0
            with np.errstate(over="ignore", invalid="ignore"):
                score = self._score() if self._pass(order, eta) else -np.inf
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


@kernel
def _steps(data, order, eta, lam, t, scale, V):
    """w <- (1 - step lambda) w + step F(z - nu), step = eta/(1 + t/n), for w = scale V.

    Returns the new scale and the number of steps made: fewer than asked for where scores overflow.
    """
    n, memory, begin = data.parts.size - 1, scratch(data.parts), t
    for i in order:
        theta, nu, z = three(memory, data.parts, i)
        step = eta / (1.0 + t / n)
        if not np.isfinite(oracle(data, i, V, scale, theta, nu)):
            break
        scale *= max(1.0 - step * lam, 0.0)
        if scale < SMALLEST_SCALE:
            V *= scale
            scale = 1.0
        gold(data, i, z)
        add(data, i, z - nu, step / scale, V)
        t += 1
    return scale, t - begin
