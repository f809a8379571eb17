"""EGR: the excessive gap technique with Bregman projections for max-margin models.

Zhang, Saha and Vishwanathan (2011), "Accelerated training of max-margin Markov networks with
kernels", algorithms 1 and 2; Nesterov (2005). Two sequences w_k and alpha_k keep the excessive gap
condition
    J_mu(w_k) <= D(alpha_k),                                                          (11)
where J_mu is the objective with each maximum smoothed by mu times the entropy (31). As J - J_mu is
at most mu log|Y| (7), the gap J(w_k) - D(alpha_k) falls (12, 17) with mu_k = 6 mu_1 / ((k+1)(k+2)),
mu_1 = R^2/lambda:
    tau_k   = 2 / (k + 3)                                                             (line 4)
    alpha^  = (1 - tau) alpha_k + tau alpha_mu(w_k)                    (alpha-hat)    (line 7)
    w_{k+1} = (1 - tau) w_k + tau w(alpha^)                                           (line 8)
    alpha~  = argmin <-tau/(1-tau) grad D(alpha^), alpha> + mu_k KL(alpha || alpha_mu(w_k)) (line 9)
    alpha_{k+1} = (1 - tau) alpha_k + tau alpha~,     mu_{k+1} = (1 - tau) mu_k      (lines 11, 12)
Lines are those of algorithm 2, other numbers in brackets equations. alpha_mu(w) is the Gibbs
distribution of theta(w)/mu (38): in score space the projection (alpha-tilde, 39 and 40) is
    theta(w_k)/mu_k + tau/((1-tau) mu_k) theta(w(alpha^)) = theta(w_{k+1})/mu_{k+1},
which is alpha_mu of the next iteration. One oracle call an instance and iteration is enough (and
one more for J itself), and since D needs only w(alpha) and the expected cost, no dual variable of
an instance is stored. With structures/kernel_problem, w is a function of kernels (section 4.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, KERNEL_CHAIN, Optimizer, Param
from turbotag.optim.certificate import Certificate, check_gap, primal_value, proven
from turbotag.optim.problem import Problem

ROUNDING = 1e-12
SMALLEST_RADIUS = 1e-30  # keeps mu positive where all answers have the same features


class EGR(Optimizer):
    name = "egr"
    reference = "Zhang, Saha and Vishwanathan 2011, algorithm 2"
    losses = "hinge"
    default_epochs = 1000
    default_gap = 1e-3
    structures = (*EXACT, KERNEL_CHAIN)
    params = (
        Param(
            "adaptive",
            "yes",
            "find the smoothing mu by testing the excessive gap condition; no: its worst case",
            ("yes", "no"),
        ),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.radius_sq = max(float(problem.radius_sq().max()), SMALLEST_RADIUS)
        self.log_count = float(np.mean([problem.log_count(i) for i in range(problem.n)]))
        self.oracle_calls += problem.n
        # lines 1 and 2: w_1 = w(alpha_0), alpha_0 uniform; alpha_1 = alpha_mu(w_1)
        self.W, *_ = self._dual_point(np.zeros(problem.shape), np.inf)
        self.mu = np.array([self.radius_sq / lam])
        if self.param["adaptive"] == "yes":
            self.mu /= problem.n
        while True:
            self.A, cost, hard, soft = self._dual_point(self.W, float(self.mu[0]))
            self.reward = np.array([cost])  # gamma times the mean cost of alpha_k
            if self._measure(hard, soft) or self.mu[0] >= self.radius_sq / lam:
                break
            self.mu *= 2.0
        self.next_A, self.next_cost = self.A.copy(), np.array([cost])

    def _measure(self, hard: float, soft: float) -> bool:
        """J (23), J_mu (31) and D at the present point; whether the excessive gap condition
        (11) holds."""
        half = 0.5 * self.lam * self.problem.sq_norm(self.W)
        self.primal = half + hard
        self.smoothed = half + soft - float(self.mu[0]) * self.log_count
        self.dual = self._dual()
        check_gap(self.primal - self.dual, self.primal)
        return bool(self.smoothed <= self.dual + ROUNDING * abs(self.dual))

    def _dual_point(self, W: np.ndarray, mu: float) -> tuple[np.ndarray, float, float, float]:
        """w(alpha) (36), gamma times the mean cost of alpha, for alpha = alpha_mu(W) (38); and the
        means of the losses and of the smoothed losses (29) at W."""
        problem = self.problem
        A = np.zeros(problem.shape)
        cost = hard = soft = 0.0
        for i in range(problem.n):
            theta = problem.potentials(i, W)
            if mu == np.inf:
                theta[:] = 0.0
            z = problem.gold(i)
            beta = 1.0 if mu == np.inf else 1.0 / mu
            value, nu = problem.infer(i, theta, beta)
            soft += value - theta @ z
            cost += problem.reward(i, nu)
            problem.add(i, z - nu, 1.0 / (self.lam * problem.n), A)
            if mu < np.inf:
                best, _ = problem.infer(i, theta)
                hard += best - theta @ z
        n = problem.n
        self.oracle_calls += n if mu == np.inf else 2 * n
        return A, cost / n, hard / n, soft / n

    def epoch(self) -> None:
        """One iteration k; J and D are computed at every one.

        The proof needs only the condition (11), and mu_1 = R^2/lambda makes it hold in the worst
        case, where the features of all sentences point the same way. So mu starts n times smaller;
        where the condition would fail, the iteration starts again from w_k and alpha_k with mu
        doubled.
        """
        tau = 2.0 / (self.epochs + 4.0)  # line 4, k = epochs + 1
        before = {name: array.copy() for name, array in self.state().items()}
        while True:
            hat = (1.0 - tau) * self.A + tau * self.next_A  # line 7
            self.W[:] = (1.0 - tau) * self.W + tau * hat  # line 8, (41)
            self.mu *= 1.0 - tau  # line 12
            self.next_A[:], self.next_cost[0], hard, soft = self._dual_point(
                self.W, float(self.mu[0])
            )
            self.A[:] = (1.0 - tau) * self.A + tau * self.next_A  # lines 9 and 11
            self.reward[0] = (1.0 - tau) * self.reward[0] + tau * self.next_cost[0]
            if self._measure(hard, soft) or self.mu[0] >= self._worst_mu(self.epochs + 2):
                break
            self.restore(before)
            self.mu[0] = min(2.0 * self.mu[0], self._worst_mu(self.epochs + 1))
            self.next_A[:], self.next_cost[0], *_ = self._dual_point(self.W, float(self.mu[0]))
            before["mu"], before["next_A"] = self.mu.copy(), self.next_A.copy()
            before["next_cost"] = self.next_cost.copy()
        self.updates += 1
        self.epochs += 1

    def _worst_mu(self, k: int) -> float:
        """mu_k of the worst case, 6 R^2 / (lambda (k+1)(k+2)): with it the condition always
        holds."""
        return 6.0 * self.radius_sq / (self.lam * (k + 1) * (k + 2))

    def gap_estimate(self) -> float | None:
        return None if self.primal is None else self.primal - self.dual

    def bound(self) -> float:
        """The bound of the gap at k in theorem 4 (17): 6 log|Y| R^2 / (lambda (k+1)(k+2))."""
        return self.log_count * self._worst_mu(self.epochs + 1)

    def weights(self) -> np.ndarray:
        return self.W

    def certify(self) -> Certificate:
        """J(w_k) by a full pass, and D at alpha_k, whose w(alpha_k) and cost are kept exactly."""
        self.oracle_calls += self.problem.n
        return proven(primal_value(self.problem, self.lam, self.W), self._dual())

    def _dual(self) -> float:
        """D(alpha_k) (26)."""
        return float(self.reward[0]) - 0.5 * self.lam * self.problem.sq_norm(self.A)

    def state(self) -> dict[str, np.ndarray]:
        arrays = {"W": self.W, "A": self.A, "next_A": self.next_A}
        return {**arrays, "mu": self.mu, "reward": self.reward, "next_cost": self.next_cost}
