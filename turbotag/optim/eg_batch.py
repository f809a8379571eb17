"""Batch exponentiated gradient (eg-batch): all instances at once, in score space (see optim/eg).

Globerson et al. (2007), figure 1; Collins et al. (2008); accelerated as in Nesterov (2013) unless
told otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.eg import ETA, GROWTH, ScoreSpace
from turbotag.optim.problem import Problem

MAX_TRIES = 40
ROUNDING = 1e-14  # uncertainty of a divergence, as a share of log Z


class EGBatch(ScoreSpace):
    """All instances at once. With a smooth loss the steps are accelerated, unless told otherwise.

    The published step is limited by the curvature that all instances have together: on problems
    with dense features eta falls to 1/1000 and below, and a factor e takes 1000 passes and more.
    Accelerated (Nesterov 2013, the method with estimate functions, the entropy as prox function
    and as the strongly convex part) it takes the square root of that. There are two dual points: z,
    a Gibbs distribution whose scores are the weighted average of all potentials so far, and x, the
    weighted average of the z, of which stats and a lower bound of the entropy suffice:
        y = (A x + a z)/(A + a)        a from L a^2 = (1 + A)(A + a)
        s_z <- ((1 + A) s_z + a beta theta(w(y))) / (1 + A + a)
        x <- (A x + a z)/(A + a),   A <- A + a
    Then D* - D(x) <= KL(alpha*, z_0)/(n beta A). L is doubled until half the curvature along the
    step of z is at most L KL(new z, old z)/(n beta), and falls by 10 % after each step.
    """

    name = "eg-batch"
    reference = (
        "Globerson et al. 2007, figure 1; Collins et al. 2008; accelerated as in Nesterov 2013"
    )
    default_epochs = 1000
    kept = 4
    params = (ETA, Param("accelerate", "yes", "accelerated steps for smooth losses", ("yes", "no")))

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.eta = np.array([float(self.param["eta"])])
        self.fast = self.smooth and self.param["accelerate"] == "yes"
        if self.fast:
            self.W_z = self.W.copy()
            self.weight = np.array([0.0, 1.0 / float(self.eta[0])])  # A and L

    def epoch(self) -> None:
        """One update of all instances at once."""
        if self.fast:
            self._accelerated()
        else:
            self._published()
        self.epochs += 1

    def _accelerated(self) -> None:
        problem, n = self.problem, self.problem.n
        A, L = self.weight.tolist()
        old_s, old_log_z = self.flat_s.copy(), self.log_z.copy()
        new_mu, new_entropy = np.empty_like(self.flat_mu), np.empty(n)
        cuts = np.cumsum([0, *(s.size for s in self.s)])
        new = [new_mu[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        for _ in range(MAX_TRIES):
            a = 0.5 * ((1.0 + A) + math.sqrt((1.0 + A) ** 2 + 4.0 * L * A * (1.0 + A))) / L
            tau, share = a / (A + a), a / (1.0 + A + a)
            W_y = (1.0 - tau) * self.W + tau * self.W_z
            W_new = np.zeros_like(self.W)
            divergence = ROUNDING * float(np.abs(old_log_z).sum())
            for i, s in enumerate(self.s):
                old = old_s[cuts[i] : cuts[i + 1]]
                s[:] = old + share * (problem.beta * problem.potentials(i, W_y) - old)
                self.log_z[i], new[i][:], new_entropy[i] = self.gibbs(i, s)
                divergence += (s - old) @ new[i] - self.log_z[i] + old_log_z[i]
                problem.add(i, problem.gold(i) - new[i], 1.0 / (self.lam * n), W_new)
            self.oracle_calls += n
            half = 0.5 * self.lam * problem.sq_norm(W_new - self.W_z)
            if half <= L * divergence / (n * problem.beta):
                break
            L *= 2.0
        else:
            self.flat_s[:], self.log_z[:] = old_s, old_log_z
            self.done = "no step, however short, gains what it promises"
            return
        self.W_z[:] = W_new
        self.W += tau * (W_new - self.W)
        self.flat_mu += tau * (new_mu - self.flat_mu)
        self.entropy += tau * (new_entropy - self.entropy)
        self.dual = self.objective()
        self.weight[:] = A + a, 0.9 * L
        self.updates += 1

    def _published(self) -> None:
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
                return
            self.eta[0] *= 0.5
        self.flat_s[:], self.flat_mu[:], self.entropy[:] = old_s, old_mu, old_entropy
        self.W[:], self.dual = old_W, old_dual
        self.done = "no step improves the dual"

    def state(self) -> dict[str, np.ndarray]:
        more = {"W_z": self.W_z, "weight": self.weight} if self.fast else {}
        return {**super().state(), **more}
