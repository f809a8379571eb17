"""Exponentiated gradient, online (eg) and batch (eg-batch), in score space.

Globerson, Koo, Carreras and Collins (2007), algorithms 1 and 2; Collins et al. (2008), figures 1-3.
The dual variable of an instance is the Gibbs distribution alpha_i of potentials s_i over its parts,
so the multiplicative update alpha <- alpha exp(-eta grad) / Z is a linear one of s_i:
    log-linear    s_i <- (1 - eta) s_i + eta beta theta_i(w)     (the dual has the entropy)
    max-margin    s_i <- s_i + eta theta_i(w)                    (beta = inf: it has none)
The dual objective is evaluated exactly after each try; eta is halved until it improves by what the
step promised, each try being an oracle call, and grows by 5 % after a success (Collins et al. 2008,
section 6.1). The start
is near the gold answer, as Le Priol et al. (2018, appendix A) advise. The batch form takes
accelerated steps by default.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from turbotag.optim.base import DualOptimizer, Param, blocks
from turbotag.optim.problem import Problem

GROWTH, MAX_TRIES, OVERSTEP, TINY = 1.05, 40, 30.0, 1e-12
ROUNDING = 1e-14  # of log Z: what a divergence is uncertain by
START = 10.0  # score of the gold parts: probability 0.999 a word at 22 labels
ETA = Param("eta", 0.5, "first step; halved until it keeps its promise, then grown")


class _ScoreSpace(DualOptimizer):
    """alpha_i as potentials s_i; mu_i and H(alpha_i)/beta kept beside them."""

    default_epochs = 200
    params: tuple[Param, ...] = (ETA,)
    eta: np.ndarray

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.smooth = math.isfinite(problem.beta)
        self.W = np.zeros(problem.shape)
        self.flat_s, self.s = blocks(problem)
        self.flat_mu, self.mu = blocks(problem)
        self.entropy, self.log_z = np.zeros(problem.n), np.zeros(problem.n)
        for i, s in enumerate(self.s):
            s[:] = -START * problem.cost_vector(i)
        self._refresh()

    def start(self, W: np.ndarray) -> None:
        for i, s in enumerate(self.s):
            theta = self.problem.potentials(i, W)
            s[:] = self.problem.beta * theta if self.smooth else theta
        self._refresh()

    def _refresh(self) -> None:
        """mu, entropies, W and the dual from the potentials s."""
        for i, s in enumerate(self.s):
            self.log_z[i], self.mu[i][:], self.entropy[i] = self.gibbs(i, s)
        self.oracle_calls += self.problem.n
        self.finish()
        self.dual = self.objective()

    def gibbs(self, i: int, s: np.ndarray) -> tuple[float, np.ndarray, float]:
        """log Z and marginals of exp(s) and, if the loss is smooth, their entropy over beta."""
        log_z, nu = self.problem.infer(i, s, 1.0)
        return log_z, nu, float(log_z - s @ nu) / self.problem.beta if self.smooth else 0.0

    def room(self, eta: float) -> float:
        """How much curvature a step may meet, in units of KL(new || old).

        The step maximises <grad D, new> - KL(new || old)/eta; it is sure to gain what this model
        promises if half the curvature along it is at most (1/eta - 1) KL/beta, or KL/eta where the
        dual has no entropy. Any improvement at all would do for ascent, but steps at the edge of
        stability gain next to nothing.
        """
        return (1.0 / eta - 1.0) / self.problem.beta if self.smooth else 1.0 / eta

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
        return {**arrays, "log_z": self.log_z, "eta": self.eta, "dual": np.array([self.dual])}

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
        # By Pinsker's inequality a step always keeps its promise at eta <= `safe`: there it is
        # taken untested, as rounding could spoil the test of a tiny one. Without the entropy a run
        # of successes would drive eta, and with it alpha, to where nothing moves any more.
        bend = np.maximum(problem.radius_sq() / (lam * problem.n), TINY)
        self.safe = 1.0 / (1.0 + problem.beta * bend) if self.smooth else 1.0 / bend
        self.cap = np.ones(problem.n) if self.smooth else OVERSTEP * self.safe
        self.eta = np.minimum(float(self.param["eta"]), self.cap)

    def epoch(self) -> None:
        problem, scale = self.problem, self.lam * self.problem.n
        dual = self.dual * problem.n
        for i in self.rng.integers(0, problem.n, problem.n).tolist():
            theta = problem.potentials(i, self.W).copy()
            mu = self.mu[i]
            while True:
                s = self.towards(self.s[i], theta, self.eta[i])
                log_z, nu, entropy = self.gibbs(i, s)
                self.oracle_calls += 1
                d = mu - nu
                half = 0.5 * problem.norm_sq(i, d) / scale
                gain = entropy - self.entropy[i] - theta @ d - half
                divergence = (s - self.s[i]) @ nu - log_z + self.log_z[i]
                eta = self.eta[i]
                if eta <= self.safe[i] or half <= self.room(eta) * divergence:
                    problem.add(i, d, 1.0 / scale, self.W)
                    self.s[i][:], mu[:], self.entropy[i], self.log_z[i] = s, nu, entropy, log_z
                    dual += gain
                    self.eta[i] = min(eta * GROWTH, self.cap[i])
                    self.updates += 1
                    break
                self.eta[i] = max(0.5 * eta, self.safe[i])
        self.dual = dual / problem.n
        self.epochs += 1


class EGBatch(_ScoreSpace):
    """All instances at once. With a smooth loss the steps are accelerated, unless told otherwise.

    The published step is limited by the curvature that all instances have together: on problems
    with dense features eta falls to 1/1000 and below, and it takes as many passes for a factor e.
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
        "Globerson et al. 2007, algorithm 1; Collins et al. 2008, figure 2; "
        "accelerated as in Nesterov 2013"
    )
    default_epochs = 1000
    params = (ETA, Param("accelerate", "yes", "accelerated steps for smooth losses", ("yes", "no")))

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.eta = np.array([float(self.param["eta"])])
        self.fast = self.smooth and self.param["accelerate"] == "yes"
        if self.fast:
            self.W_z = self.W.copy()
            self.weight = np.array([0.0, 1.0 / float(self.eta[0])])  # A and L

    def start(self, W: np.ndarray) -> None:
        super().start(W)
        if self.fast:
            self.W_z[:] = self.W

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
            self.done = "no step keeps its promise"
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
