"""Dual extragradient with Bregman projections, for max-margin models.

Taskar, Lacoste-Julien and Jordan (2006), "Structured prediction, dual extragradient and Bregman
projections"; Nesterov (2007). Training is a saddle point,
    min_w max_alpha  lambda/2 |w|^2 + mean_i theta_i(w)'(mu_i - z_i),
with the regulariser in place of the ball to which the paper confines w. An iteration makes a trial
step u from v, then steps from v again with the gradients at u; the result is the average of the u:
    w_u   = w_v + eta (w(alpha_v) - w_v)        alpha_u   = alpha_v exp((eta/b) theta(w_v)) / Z
    w_v'  = w_v + eta (w(alpha_u) - w_u)        alpha_v'  = alpha_v exp((eta/b) theta(w_u)) / Z
These are Bregman projections for the divergence lambda/2 |w - w'|^2 + b KL. b is gamma times the
mean number of words over the mean of log|Y|, so that both terms can be about as large. alpha is the
Gibbs distribution of the sum of all eta theta(w_u): it is given by S = sum eta w_u and T = sum eta
alone, so that no dual variable of an instance is stored.

eta is halved until the condition of the proof holds at the step itself,
    eta <g(u) - g(v), u - v'>  <=  divergence(u, v) + divergence(v', u),
and grows by 20 % after a success; the average is weighted by eta. Everything in the condition is a
function of w(alpha), the mean cost and the mean log Z of the three points, which a pass gives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from turbotag.optim.base import Optimizer, Param
from turbotag.optim.certificate import Certificate, primal_value, proven
from turbotag.optim.problem import Problem

GROWTH = 1.2
ROUNDING = 1e-13
SMALLEST_ETA = 1e-12


class Gibbs(NamedTuple):
    """A dual point alpha: w(alpha), and the means over instances of its reward, of log Z - s'z and
    of |log Z| + |s'z|."""

    A: np.ndarray
    reward: float
    log_z: float
    size: float  # the rounding of log_z is relative to this


class Extragradient(Optimizer):
    name = "extragradient"
    reference = "Taskar, Lacoste-Julien and Jordan 2006"
    losses = "hinge"
    default_epochs = 1000
    default_gap = 1e-3
    params = (
        Param("eta", 0.5, "first step; halved until it surely converges", least=0.0, open=True),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        counts = np.mean([problem.log_count(i) for i in range(problem.n)])
        wrong = np.mean([problem.cost(i, np.zeros(problem.size(i))) for i in range(problem.n)])
        self.oracle_calls += problem.n
        self.b = max(problem.gamma, 1e-3) * float(wrong) / max(float(counts), 1e-3)
        self.W = np.zeros(problem.shape)  # w_v
        self.S = np.zeros(problem.shape)
        self.mean_W, self.mean_A = np.zeros(problem.shape), np.zeros(problem.shape)
        self.numbers = np.array([0.0, float(self.param["eta"]), 0.0])  # T, eta, mean reward of u
        self.alpha_v = self._gibbs(self.S, 0.0)

    def _gibbs(self, S: np.ndarray, T: float) -> Gibbs:
        """alpha proportional to exp((1/b) sum eta theta(w)): one pass."""
        problem, n = self.problem, self.problem.n
        A, reward, log_z, size = np.zeros(problem.shape), 0.0, 0.0, 0.0
        mean = S / T if T > 0.0 else S
        for i in range(n):
            theta = problem.potentials(i, mean)
            if T == 0.0:
                theta[:] = 0.0
            beta = T / self.b if T > 0.0 else 1.0
            value, nu = problem.infer(i, theta, beta)
            z = problem.gold(i)
            score = float(theta @ z)
            log_z += beta * (value - score)
            size += beta * (abs(value) + abs(score))
            reward += problem.reward(i, nu)
            problem.add(i, z - nu, 1.0 / (self.lam * n), A)
        self.oracle_calls += n
        return Gibbs(A, reward / n, log_z / n, size / n)

    def _rise(self, W: np.ndarray, alpha: Gibbs) -> float:
        """mean_i theta_i(W)'(mu_i - z_i) of alpha."""
        return alpha.reward - self.lam * float(np.vdot(W, alpha.A))

    def epoch(self) -> None:
        """One iteration: a trial step and a step, two passes."""
        v, (T, eta, _) = self.alpha_v, self.numbers.tolist()
        while True:
            trial = self.W + eta * (v.A - self.W)
            u = self._gibbs(self.S + eta * self.W, T + eta)
            W = self.W + eta * (u.A - trial)
            S = self.S + eta * trial
            new = self._gibbs(S, T + eta)
            if self._safe(eta, trial, W, v, u, new) or eta < SMALLEST_ETA:
                break
            eta *= 0.5
        T += eta
        share = eta / T
        self.mean_W += share * (trial - self.mean_W)
        self.mean_A += share * (u.A - self.mean_A)
        self.numbers[:] = T, GROWTH * eta, self.numbers[2] + share * (u.reward - self.numbers[2])
        self.W[:], self.S[:], self.alpha_v = W, S, new
        self.dual = self._dual()
        self.updates += 1
        self.epochs += 1

    def _safe(
        self, eta: float, trial: np.ndarray, W: np.ndarray, v: Gibbs, u: Gibbs, new: Gibbs
    ) -> bool:
        """The condition at the top of this file, for u = (trial, u), v = (self.W, v) and
        v' = (W, new)."""
        step = trial - self.W
        slope = float(np.vdot(step - (u.A - v.A), trial - W) + np.vdot(step, u.A - new.A))
        # KL(u, v) and KL(v', u): scores differ by (eta/b) theta(w_v) and (eta/b) theta(w_u - w_v)
        first = eta * self._rise(self.W, u) - self.b * (u.log_z - v.log_z)
        second = eta * (self._rise(trial, new) - self._rise(self.W, new))
        second -= self.b * (new.log_z - u.log_z)
        square = float(np.vdot(step, step) + np.vdot(trial - W, trial - W))
        room = first + second + 0.5 * self.lam * square
        return eta * self.lam * slope <= room + ROUNDING * self.b * (u.size + v.size + new.size)

    def _dual(self) -> float:
        """D at the average of the u."""
        return float(self.numbers[2]) - 0.5 * self.lam * self.problem.sq_norm(self.mean_A)

    def weights(self) -> np.ndarray:
        return self.mean_W

    def certify(self) -> Certificate:
        """P at the average of w by a full pass, D at the average of alpha, which is kept."""
        self.oracle_calls += self.problem.n
        return proven(primal_value(self.problem, self.lam, self.mean_W), self._dual())

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"W": self.W, "S": self.S, "mean_W": self.mean_W, "mean_A": self.mean_A}
        numbers = np.array(self.alpha_v[1:])
        return {**arrays, "numbers": self.numbers, "A": self.alpha_v.A, "alpha_v": numbers}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self.alpha_v = Gibbs(self.alpha_v.A, *state["alpha_v"].tolist())
        self.dual = self._dual() if self.numbers[0] > 0.0 else None
