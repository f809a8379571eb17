"""Exponentiated gradient, online (eg) and batch (eg-batch), in score space.

Globerson, Koo, Carreras and Collins (2007), algorithms 1 and 2; Collins et al. (2008), figures 1-3.
The dual variable of an instance is the Gibbs distribution alpha_i of potentials s_i over its parts,
so the multiplicative update alpha <- alpha exp(-eta grad) / Z is a linear one of s_i:
    log-linear    s_i <- (1 - eta) s_i + eta beta theta_i(w)     (the dual has the entropy)
    max-margin    s_i <- s_i + eta theta_i(w)                    (beta = inf: it has none)
The dual objective is evaluated exactly after each try; eta is halved until it improves, each try
being an oracle call, and grows by 5 % after a success (Collins et al. 2008, section 6.1). The start
is near the gold answer, as Le Priol et al. (2018, appendix A) advise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from turbotag.optim.base import DualOptimizer, Param, blocks
from turbotag.optim.problem import Problem

GROWTH, MAX_TRIES, OVERSTEP = 1.05, 40, 30.0
START = 5.0  # score of the gold parts: probability 0.87 a word at 22 labels, 0.99 at 2
ETA = Param("eta", 0.5, "first step; halved until the dual improves, then grown by 5 %")


class _ScoreSpace(DualOptimizer):
    """alpha_i as potentials s_i; mu_i and H(alpha_i)/beta kept beside them."""

    default_epochs = 200
    params = (ETA,)
    eta: np.ndarray

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.smooth = math.isfinite(problem.beta)
        self.W = np.zeros(problem.shape)
        self.flat_s, self.s = blocks(problem)
        self.flat_mu, self.mu = blocks(problem)
        self.entropy = np.zeros(problem.n)
        for i, s in enumerate(self.s):
            s[:] = START * problem.gold(i)
        self._refresh()

    def start(self, W: np.ndarray) -> None:
        for i, s in enumerate(self.s):
            theta = self.problem.potentials(i, W)
            s[:] = self.problem.beta * theta if self.smooth else theta
        self._refresh()

    def _refresh(self) -> None:
        """mu, entropies, W and the dual from the potentials s."""
        for i, s in enumerate(self.s):
            self.mu[i][:], self.entropy[i] = self.gibbs(i, s)
        self.oracle_calls += self.problem.n
        self.finish()
        self.dual = self.objective()

    def gibbs(self, i: int, s: np.ndarray) -> tuple[np.ndarray, float]:
        """Marginals of exp(s) and, if the loss is smooth, their entropy over beta."""
        log_z, nu = self.problem.infer(i, s, 1.0)
        return nu, float(log_z - s @ nu) / self.problem.beta if self.smooth else 0.0

    def towards(self, s: np.ndarray, theta: np.ndarray, eta: float) -> np.ndarray:
        """The exponentiated gradient step in score space."""
        if self.smooth:
            return (1.0 - eta) * s + (eta * self.problem.beta) * theta
        return s + eta * theta

    def objective(self) -> float:
        """D(alpha), for W = w(alpha)."""
        problem = self.problem
        rewards = self.entropy.sum()
        for i, mu in enumerate(self.mu):
            rewards += problem.gamma * problem.cost(i, mu)
        return float(rewards / problem.n - 0.5 * self.lam * problem.sq_norm(self.W))

    def point(self, i: int) -> tuple[np.ndarray, float]:
        return self.mu[i], self.entropy[i]

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"W": self.W, "s": self.flat_s, "mu": self.flat_mu, "entropy": self.entropy}
        return {**arrays, "eta": self.eta, "dual": np.array([self.dual])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self.dual = float(state["dual"][0])

    @property
    def state_bytes(self) -> int:
        return self.flat_s.nbytes + self.flat_mu.nbytes


class EG(_ScoreSpace):
    name = "eg"
    reference = "Globerson et al. 2007, algorithm 2; Collins et al. 2008, figure 3"

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        # the log-linear step is a full one at eta = 1; without the entropy a long run of successes
        # would drive eta, and with it alpha, to where nothing moves any more: lambda n / R_i^2 is
        # the step that theory calls safe, and OVERSTEP times that the longest taken
        safe = lam * problem.n / problem.radius_sq()
        self.cap = np.ones(problem.n) if self.smooth else OVERSTEP * safe
        self.eta = np.minimum(float(self.param["eta"]), self.cap)

    def epoch(self) -> None:
        problem, scale = self.problem, self.lam * self.problem.n
        dual = self.dual * problem.n
        for i in self.rng.integers(0, problem.n, problem.n).tolist():
            theta = problem.potentials(i, self.W).copy()
            mu = self.mu[i]
            for _ in range(MAX_TRIES):
                s = self.towards(self.s[i], theta, self.eta[i])
                nu, entropy = self.gibbs(i, s)
                self.oracle_calls += 1
                d = mu - nu
                gain = entropy - self.entropy[i] - theta @ d - 0.5 * problem.norm_sq(i, d) / scale
                if gain >= 0.0:
                    problem.add(i, d, 1.0 / scale, self.W)
                    self.s[i][:], mu[:], self.entropy[i] = s, nu, entropy
                    dual += gain
                    self.eta[i] = min(self.eta[i] * GROWTH, self.cap[i])
                    self.updates += 1
                    break
                self.eta[i] *= 0.5
        self.dual = dual / problem.n
        self.epochs += 1


class EGBatch(_ScoreSpace):
    name = "eg-batch"
    reference = "Globerson et al. 2007, algorithm 1; Collins et al. 2008, figure 2"
    default_epochs = 1000

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.eta = np.array([float(self.param["eta"])])

    def epoch(self) -> None:
        """One update of all instances at once."""
        problem = self.problem
        thetas = [problem.potentials(i, self.W).copy() for i in range(problem.n)]
        old_s, old_mu = self.flat_s.copy(), self.flat_mu.copy()
        old_entropy, old_W, old_dual = self.entropy.copy(), self.W.copy(), self.dual
        starts = np.cumsum([0, *(s.size for s in self.s)])
        for _ in range(MAX_TRIES):
            for i, theta in enumerate(thetas):
                s = old_s[starts[i] : starts[i + 1]]
                self.s[i][:] = self.towards(s, theta, float(self.eta[0]))
            self._refresh()
            if self.dual >= old_dual:
                self.eta[0] = min(self.eta[0] * GROWTH, 1.0 if self.smooth else np.inf)
                self.updates += 1
                break
            self.eta[0] *= 0.5
        else:
            self.flat_s[:], self.flat_mu[:], self.entropy[:] = old_s, old_mu, old_entropy
            self.W[:], self.dual = old_W, old_dual
            self.done = "no step improves the dual"
        self.epochs += 1
