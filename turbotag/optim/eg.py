"""Exponentiated gradient in score space, online (eg); optim/eg_batch has the batch form.

Globerson, Koo, Carreras and Collins (2007), figure 2; Collins et al. (2008). The dual variable of
an instance is the Gibbs distribution alpha_i of potentials s_i over its parts (section 5), so the
multiplicative update alpha <- alpha exp(-eta grad) / Z of section 3 is a linear one of s_i:
    log-linear    s_i <- (1 - eta) s_i + eta beta theta_i(w)     (the dual has the entropy)
    max-margin    s_i <- s_i + eta theta_i(w)                    (beta = inf: no entropy)
The dual (equations 2 and 3; section 4.5 for max-margin) is evaluated exactly after each try; eta is
halved until the dual improves by what the step promised, each try being an oracle call (section 7),
and grows by 5 % after a success (Collins et al. 2008). The start is near the gold answer, as Le
Priol et al. (2018, appendix A.1) advise.

Gap sampling (--sampling gap) is ours; Le Priol et al. (section 7) leave it open, as online EG does
not have the block gaps. Block gaps are g_i = KL(alpha_i, Gibbs(beta theta_i))/beta, so with
f(t) = log Z(s + t (beta theta - s))
    beta g_i = f(1) - f(0) - f'(0) = int_0^1 (1 - t) f''(t) dt.
A step evaluates f and f' at 0 and at eta, and f'(t) is a product of vectors at hand: with the mean
of f'' over the step in place of f'', g_i is about (f'(eta) - f'(0)) / (2 eta beta). The estimate
costs no oracle call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from turbotag.errors import UsageError
from turbotag.optim.base import EXACT, KERNEL_CHAIN, DualOptimizer, Param, blocks
from turbotag.optim.certificate import Certificate
from turbotag.optim.problem import Problem

GROWTH, OVERSTEP, TINY = 1.05, 30.0, 1e-12
ROUNDING = 2e-16
START = 10.0  # score of the gold parts: probability 0.999 a word at 22 labels
ETA = Param(
    "eta",
    0.5,
    "first step; halved until the dual gains what it promises, then grown",
    least=0.0,
    open=True,
)


class ScoreSpace(DualOptimizer):
    """alpha_i is kept as potentials s_i, with its stats mu_i and its entropy H(alpha_i)/beta."""

    default_epochs = 200
    structures = (*EXACT, KERNEL_CHAIN)
    kept = 2
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

    def _refresh(self) -> None:
        """Recompute mu, entropies, W and the dual from the potentials s."""
        for i, s in enumerate(self.s):
            self.log_z[i], self.mu[i][:], self.entropy[i] = self.gibbs(i, s)
        self.oracle_calls += self.problem.n
        self.finish()
        self.dual = self.objective()

    def gibbs(self, i: int, s: np.ndarray) -> tuple[float, np.ndarray, float]:
        """log Z and marginals of exp(s) and, if the loss is smooth, their entropy over beta.

        The entropy is a difference of numbers as large as s, and marginals are off by 1e-16 times
        that: what rounding may have added is taken off, so that the dual stays a lower bound. At a
        large C potentials pass through 1e12, where all of the entropy is rounding.
        """
        log_z, nu = self.problem.infer(i, s, 1.0)
        if not self.smooth:
            return log_z, nu, 0.0
        size = np.abs(s)
        doubt = ROUNDING * (1.0 + float(size.max())) * (abs(log_z) + float(size @ nu))
        return log_z, nu, max(float(log_z - s @ nu) - doubt, 0.0) / self.problem.beta

    def room(self, eta: float) -> float:
        """How much curvature a step may meet, in units of KL(new || old).

        The step maximises <grad D, new> - KL(new || old)/eta; it is sure to gain what this model
        promises if half the curvature along it is at most (1/eta - 1) KL/beta, or KL/eta where the
        dual has no entropy: the condition of lemma 1, D[new old] >= eta B_Q[new old]. Any
        improvement at all would do for ascent, but steps at the edge of stability gain next to
        nothing.
        """
        return (1.0 / eta - 1.0) / self.problem.beta if self.smooth else 1.0 / eta

    def towards(self, s: np.ndarray, theta: np.ndarray, eta: float) -> np.ndarray:
        """The exponentiated gradient step in score space (section 5)."""
        if self.smooth:
            return (1.0 - eta) * s + (eta * self.problem.beta) * theta
        return s + eta * theta

    def objective(self) -> float:
        """D(alpha), for W = w(alpha)."""
        problem = self.problem
        rewards = self.entropy.sum()
        for i, mu in enumerate(self.mu):
            rewards += problem.reward(i, mu)
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


class EG(ScoreSpace):
    name = "eg"
    reference = "Globerson et al. 2007, figure 2; Collins et al. 2008; gap sampling is ours"
    params = (
        ETA,
        Param("sampling", "uniform", "how instances are drawn", ("uniform", "gap")),
        Param("nonuniform", 0.8, "share of draws that are not uniform", least=0.0, most=1.0),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        # By Pinsker's inequality a step with eta <= `safe` always gains what it promises (lemma 2,
        # for one block; section 4.3). Such a step is taken untested, as rounding could spoil the
        # test of a tiny one. `cap`: without the entropy a run of successes would drive eta, and
        # with it alpha, to where nothing moves any more.
        bend = np.maximum(problem.radius_sq() / (lam * problem.n), TINY)
        self.safe = 1.0 / (1.0 + problem.beta * bend) if self.smooth else 1.0 / bend
        self.cap = np.ones(problem.n) if self.smooth else OVERSTEP * self.safe
        self.eta = np.minimum(float(self.param["eta"]), self.cap)
        self.by_gap = self.param["sampling"] == "gap"
        if self.by_gap and not self.smooth:
            raise UsageError(
                "eg --sampling gap needs a finite beta; use --sampling uniform at beta = inf"
            )
        if self.by_gap:
            from turbotag.optim.sampling import (
                Sampler,
            )  # with numba, which --help does not wait for

            self.gaps = np.ones(problem.n)
            self.sampler = Sampler("gap", self.param["nonuniform"], self.gaps.copy())

    def _draws(self) -> Iterator[int]:
        """The instances of an epoch. With gap sampling the first epoch has each instance once, and
        later draws go by the gaps at the time of the draw."""
        n = self.problem.n
        if not self.by_gap:
            yield from self.rng.integers(0, n, n).tolist()
        elif self.epochs == 0:
            yield from self.rng.permutation(n).tolist()
        else:
            for coin, uniform in self.rng.random((n, 2)).tolist():
                yield self.sampler.draw(coin, uniform)

    def _saw(self, i: int, rise: float, eta: float) -> None:
        """Estimate the block gap before a step from rise = f'(eta) - f'(0)."""
        self.gaps[i] = max(rise, 0.0) / (2.0 * eta * self.problem.beta)
        self.sampler.update(i, float(self.gaps[i]))

    def epoch(self) -> None:
        problem, scale = self.problem, self.lam * self.problem.n
        dual = self.dual * problem.n
        for i in self._draws():
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
                    if self.by_gap:
                        self._saw(i, float((self.s[i] - problem.beta * theta) @ d), float(eta))
                    problem.add(i, d, 1.0 / scale, self.W)
                    self.s[i][:], mu[:], self.entropy[i], self.log_z[i] = s, nu, entropy, log_z
                    dual += gain
                    self.eta[i] = min(eta * GROWTH, self.cap[i])
                    self.updates += 1
                    break
                self.eta[i] = max(0.5 * eta, self.safe[i])
        self.dual = dual / problem.n
        self.epochs += 1

    def gap_estimate(self) -> float | None:
        """Mean of the estimated block gaps, where they are kept."""
        return float(self.gaps.mean()) if self.by_gap and self.epochs else None

    def certify(self) -> Certificate:
        certificate = super().certify()
        if self.by_gap:
            self.gaps[:] = self.block_gaps
            self.sampler.fill(self.gaps)
        return certificate

    def state(self) -> dict[str, np.ndarray]:
        more = {"gaps": self.gaps, "tree": self.sampler.tree} if self.by_gap else {}
        return {**super().state(), **more}
