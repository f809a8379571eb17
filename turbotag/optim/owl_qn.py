"""OWL-QN: L-BFGS for the elastic net, whose optimum has weights that are exactly 0.

Andrew and Gao (2007), "Scalable training of L1-regularized log-linear models". The objective is
    P(w) = f(w) + s |w|_1,   f(w) = lambda/2 |w|^2 + mean loss.
|w|_1 is linear in each orthant. An iteration takes the orthant that the steepest descent leads
into, a quasi-Newton step with the curvature of f, and sets to 0 what would leave that orthant:
    g    the pseudo-gradient: the subgradient of P with the smallest norm
    d    -H g by the two loops of L-BFGS, with d_j = 0 where it does not descend (d_j g_j >= 0)
    w'   the projection of w + step d onto the orthant of sign(w_j), or of sign(-g_j) where w_j = 0
The step is halved until P falls by 1e-4 of what g promises. With s = 0 there are no orthants, and
this is L-BFGS.

Gap: at any w the dual point is the marginals at w, with v = w(alpha) = w - grad f(w)/lambda, and
    P(w) - D(alpha) = lambda/2 |w|^2 + s |w|_1 - lambda <v, w> + lambda/2 |soft(v, s/lambda)|^2,
or a point nearer to gold, where lambda is next to nothing (optim/certificate.primal_gap).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import L1, Optimizer, Param
from turbotag.optim.certificate import Certificate, certify_primal, objective, primal_gap
from turbotag.optim.problem import Problem

DECREASE = 1e-4
MAX_HALVINGS = 50


class OWLQN(Optimizer):
    name = "owl-qn"
    reference = "Andrew and Gao 2007"
    losses = "smooth"
    default_epochs = 1000
    default_gap = 1e-3
    unbounded = ("numbers",)
    params = (
        L1,
        Param("pairs", 10, "steps, with their changes of the gradient, that are kept", least=1),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        k = self.param["pairs"]
        self.W = np.zeros(problem.shape)
        self.grad = np.zeros(problem.shape)  # of f
        self.steps, self.changes = (np.zeros((k, *problem.shape)) for _ in range(2))
        self.numbers = np.array([0.0, np.inf])  # pairs that are kept, f
        self.gap: float | None = None

    @classmethod
    def planes_of(cls, given: dict[str, Any]) -> int:
        return 2 * int(given.get("pairs", 10))

    def epoch(self) -> None:
        if not np.isfinite(self.numbers[1]):
            self.numbers[1], self.grad[:] = self._evaluate(self.W)
        f, s = float(self.numbers[1]), self.param["l1"]
        g = self._pseudo_gradient()
        d = -self._curved(g)
        if s:
            d[d * g >= 0.0] = 0.0
        orthant = np.where(self.W != 0.0, np.sign(self.W), -np.sign(g))
        before = f + s * float(np.abs(self.W).sum())
        step = 1.0 if self.numbers[0] else min(1.0, 1.0 / max(float(np.linalg.norm(g)), 1e-300))
        for _ in range(MAX_HALVINGS):
            W = self.W + step * d
            if s:
                W[W * orthant <= 0.0] = 0.0
            value, grad = self._evaluate(W)
            promised = float(np.vdot(g, W - self.W))
            if value + s * float(np.abs(W).sum()) <= before + DECREASE * promised:
                break
            step *= 0.5
        else:
            self.done = "the line search finds no better point"
            self.epochs += 1
            return
        self._remember(W - self.W, grad - self.grad)
        self.W[:], self.grad[:], self.numbers[1] = W, grad, value
        self._measure()
        self.updates += 1
        self.epochs += 1

    def _evaluate(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        self.oracle_calls += self.problem.n
        return objective(self.problem, self.lam, W)

    def _pseudo_gradient(self) -> np.ndarray:
        s = self.param["l1"]
        free = np.sign(self.grad) * np.maximum(np.abs(self.grad) - s, 0.0)
        return np.where(self.W != 0.0, self.grad + s * np.sign(self.W), free)

    def _curved(self, g: np.ndarray) -> np.ndarray:
        """H g by the two loops of L-BFGS; the newest pair comes last."""
        kept = int(self.numbers[0])
        pairs = [(self.steps[p], self.changes[p]) for p in range(kept)]
        out, shares = g.copy(), []
        for x, y in reversed(pairs):
            shares.append(float(np.vdot(x, out)) / float(np.vdot(x, y)))
            out -= shares[-1] * y
        if pairs:
            x, y = pairs[-1]
            out *= float(np.vdot(x, y)) / float(np.vdot(y, y))
        for (x, y), share in zip(pairs, reversed(shares), strict=True):
            out += (share - float(np.vdot(y, out)) / float(np.vdot(x, y))) * x
        return out

    def _remember(self, x: np.ndarray, y: np.ndarray) -> None:
        """Keep a step x and its change y of the gradient; f is lambda-strongly convex, so x'y > 0
        but for rounding."""
        if not float(np.vdot(x, y)) > 0.0:
            return
        kept = int(self.numbers[0])
        if kept == len(self.steps):
            for array in (self.steps, self.changes):
                array[:-1] = array[1:]
            kept -= 1
        self.steps[kept], self.changes[kept] = x, y
        self.numbers[0] = kept + 1

    def _measure(self) -> None:
        s = self.param["l1"]
        self.primal = float(self.numbers[1]) + s * float(np.abs(self.W).sum())
        self.gap = primal_gap(self.problem, self.lam, self.W, float(self.numbers[1]), self.grad, s)

    def gap_estimate(self) -> float | None:
        return self.gap

    def weights(self) -> np.ndarray:
        return self.W

    def certify(self) -> Certificate:
        self.oracle_calls += self.problem.n
        return certify_primal(self.problem, self.lam, self.W, self.param["l1"])

    def state(self) -> dict[str, np.ndarray]:
        pairs = {"steps": self.steps, "changes": self.changes, "numbers": self.numbers}
        return {"W": self.W, "grad": self.grad, **pairs}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        if not 0 <= self.numbers[0] <= len(self.steps):
            raise ValueError(f"there are {self.numbers[0]} pairs")
        if np.isfinite(self.numbers[1]):
            self._measure()
