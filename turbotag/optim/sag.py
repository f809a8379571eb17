"""SAG: stochastic average gradient with uniform sampling; optim/sag_nus has Lipschitz sampling.

Schmidt, Babanezhad, Ahmed, Defazio, Clifton and Sarkar (2015), "Non-uniform stochastic average
gradient method for training conditional random fields". The gradient of each instance is
remembered, as stats: unary marginals and summed transitions, not weights. The step
    w <- w - alpha (lambda w + (1/m) sum_i g_i)
uses the sum of the last gradient g_i of the m instances seen so far; alpha comes from estimates L_i
of the Lipschitz constants: L_i is doubled until f_i(w - g_i/L_i) <= f_i(w) - |g_i|^2/(2 L_i) holds
(each test an oracle call), and halved over a pass. Dense steps are delayed until a row is read:
w = scale V, and V[r] lacks (now - last[r]) times the sum of gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Optimizer, Param, blocks
from turbotag.optim.problem import Problem

SMALLEST_SCALE = 1e-50
SMALLEST_L = 1e-30  # where a gradient stays 0, as with one label, L_i is halved for ever
NO_GRADIENT = 1e-8  # below this squared norm a line search tells nothing
MAX_SKIP = 1 << 20


class SAG(Optimizer):
    name = "sag"
    reference = "Le Roux, Schmidt and Bach 2012; Schmidt et al. 2015"
    losses = "smooth"
    default_epochs = 200
    kept = 1
    nonuniform = 0.0
    params = (
        Param(
            "skip-line-search",
            False,
            "test the Lipschitz estimate of an instance ever more rarely while it holds",
        ),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        n = problem.n
        self.V = np.zeros(problem.shape)
        self.sum = np.zeros(problem.shape)
        self.last = np.zeros(problem.shape[0])
        self.flat, self.memory = blocks(problem)
        self.lipschitz = np.ones(n)
        self.seen = np.zeros(n, bool)
        self.skip, self.wait = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.clock = np.array([1.0, 0.0])  # scale, now
        from turbotag.optim.sampling import Sampler  # with numba, which --help does not wait for

        self.sampler = Sampler("gap", self.nonuniform, np.ones(n))

    def epoch(self) -> None:
        n = self.problem.n
        draws = self.rng.random((n, 2))
        first = self.rng.permutation(n) if self.epochs == 0 else None
        self.sampler.fill(self.lipschitz)
        self._tally()
        for t in range(n):
            i = int(first[t]) if first is not None else self.sampler.draw(draws[t, 0], draws[t, 1])
            self._step(i)
        self.epochs += 1
        self.updates += n

    def _tally(self) -> None:
        """Number, sum and maximum of the L_i of instances seen. Within an epoch they are kept up to
        date, except that the maximum only grows."""
        known = self.lipschitz[self.seen]
        self.count, self.total = known.size, float(known.sum())
        self.largest = float(known.max(initial=0.0))

    def _step(self, i: int) -> None:
        problem, lam = self.problem, self.lam
        scale, now = self.clock.tolist()
        problem.settle(i, self.V, self.sum, now, self.last)
        value, theta, nu = problem.oracle(i, self.V, scale)
        self.oracle_calls += 1
        z = problem.gold(i).copy()
        g = nu - z
        if not self.seen[i]:
            self.seen[i] = True
            if self.count:
                self.lipschitz[i] = self.total / self.count
            self.count += 1
        else:
            self.total -= self.lipschitz[i]
        self._search(i, value, theta.copy(), z, g)
        self.total += self.lipschitz[i]
        self.largest = max(self.largest, float(self.lipschitz[i]))

        problem.add(i, g - self.memory[i], 1.0, self.sum)
        self.memory[i][:] = g
        alpha = self._step_size()
        scale *= 1.0 - alpha * lam
        if scale < SMALLEST_SCALE:  # scale is 0 where lambda is all the curvature there is
            self._rescale(scale)
            scale, now = 1.0, 0.0
        self.clock[:] = scale, now + alpha / (self.count * scale)

    def _search(
        self, i: int, value: float, theta: np.ndarray, z: np.ndarray, g: np.ndarray
    ) -> None:
        """Raise L_i until the quadratic bound holds at the gradient step; then let it decay."""
        if self.wait[i] > 0:
            self.wait[i] -= 1
            return
        problem = self.problem
        direction = problem.gram(i, g)
        square = float(g @ direction)
        raised = False
        if square > NO_GRADIENT:
            loss = value - theta @ z
            while True:
                L = self.lipschitz[i]
                moved = theta - direction / L
                after, _ = problem.infer(i, moved)
                self.oracle_calls += 1
                if after - moved @ z <= loss - 0.5 * square / L + 1e-12 * abs(loss):
                    break
                self.lipschitz[i] *= 2.0
                raised = True
        if not raised:
            self.lipschitz[i] = max(self.lipschitz[i] * 2.0 ** (-1.0 / problem.n), SMALLEST_L)
        if self.param["skip-line-search"]:
            self.skip[i] = 0 if raised else min(2 * self.skip[i] + 1, MAX_SKIP)
            self.wait[i] = self.skip[i]
        self.sampler.update(i, float(self.lipschitz[i]))

    def _step_size(self) -> float:
        return 1.0 / (self.largest + self.lam)

    def _rescale(self, scale: float) -> None:
        """Make up for the delayed steps of every row, and multiply V by a scale."""
        self._settle_all()
        self.V *= scale
        self.clock[:] = 1.0, 0.0
        self.last[:] = 0.0

    def _settle_all(self) -> None:
        self.V -= (self.clock[1] - self.last)[:, None] * self.sum
        self.last[:] = self.clock[1]

    def weights(self) -> np.ndarray:
        self._settle_all()
        return self.clock[0] * self.V

    @property
    def state_bytes(self) -> int:
        return self.flat.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {
            "V": self.V,
            "sum": self.sum,
            "last": self.last,
            "memory": self.flat,
            "lipschitz": self.lipschitz,
            "seen": self.seen,
            "skip": self.skip,
            "wait": self.wait,
            "clock": self.clock,
        }
