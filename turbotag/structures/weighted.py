"""Instances that count more or less: instance i has the weight omega_i in the mean of the losses.

    P(w) = lambda/2 |w|^2 + 1/n sum_i omega_i L(w; i),   1/n sum_i omega_i = 1.

omega L is a loss of the family again, of features omega F, a cost omega gamma p and beta/omega:
    omega/beta log sum_y exp beta( s'(z_y - z) + gamma cost(z_y) )
        = 1/beta' log sum_y exp beta'( omega s'(z_y - z) + omega gamma cost(z_y) ),
                                                                        beta' = beta/omega.
So a weighted problem is a problem, and what is proven for any problem holds for it: the dual
    D(alpha) = -lambda/2 |w(alpha)|^2 + 1/n sum_i omega_i [ H(alpha_i)/beta + gamma cost(mu_i) ],
    w(alpha) = 1/(lambda n) sum_i omega_i F_i (z_i - mu_i),
block gaps omega_i g_i, the compact dual and its closed line search. A weight of 2 is the sentence
twice. Methods that read beta themselves, beside what the oracle gives them, are not served.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import verbs
from turbotag.structures.compiled_problem import CompiledProblem


class Weighted(NamedTuple):
    """The arrays of a WeightedProblem, for kernels (structures/verbs); original: the data of the
    problem whose instances are weighed; weights: (n,) of mean 1."""

    parts: np.ndarray
    original: Any
    weights: np.ndarray

    def chosen(self, own: np.ndarray) -> Weighted:
        original = self.original.chosen(own)
        return Weighted(original.parts, original, self.weights[own])


class WeightedProblem(CompiledProblem):
    """A problem whose instances have weights; everything else is the problem's own.

    problem: an optim/problem.Problem; weights: (n,) above 0, of any mean. total is their sum, the
    number of instances that they stand for: lambda = 1/(C total).
    """

    has_cliques = False  # the exact dual has one beta for all instances
    weighted = True

    def __init__(self, problem: Any, weights: np.ndarray):
        self.original = problem
        self.weights = np.asarray(weights, float) / float(weights.mean())
        data = Weighted(problem.data.parts, problem.data, self.weights)
        super().__init__(data, problem.beta, problem.gamma)
        self.total = float(weights.sum())
        self.certified, self.moving, self.empty = problem.certified, problem.moving, problem.empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of W, the anchor."""
        self.original.anchor(W)
        self.data = self.data._replace(original=self.original.data)

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        """As ChainProblem.infer; beta: that of the loss before it is weighed."""
        value, nu = self.original.infer(i, theta / self.weights[i], beta)
        return float(self.weights[i]) * value, nu

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(theta, stats (m, parts)): the m <= k structures of largest theta'z_y, best first."""
        theta, stats = self.original.kbest(i, W, k)
        return theta * self.weights[i], stats

    def cost_vector(self, i: int) -> np.ndarray:
        """omega p."""
        p: np.ndarray = self.original.cost_vector(i)
        return p * self.weights[i]

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        """omega^2 F_i' F_i d."""
        found: np.ndarray = self.original.gram(i, d)
        return found * self.weights[i] ** 2

    def sq_norm(self, W: np.ndarray) -> float:
        """|w|^2."""
        return float(self.original.sq_norm(W))

    def radius_sq(self) -> np.ndarray:
        """(n,) bounds of |omega F_i (z - z_y)|^2."""
        bounds: np.ndarray = self.original.radius_sq()
        return bounds * self.weights**2


# ---- Kernels ----------------------------------------------------------------------------------


@verbs.oracle.implement(Weighted)
@njit(cache=True, nogil=True)
def _oracle(data, i, W, scale, theta, nu):
    value, omega = verbs.oracle(data.original, i, W, scale, theta, nu), data.weights[i]
    for p in range(theta.size):
        theta[p] *= omega
    return omega * value


@verbs.potentials.implement(Weighted)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    verbs.potentials(data.original, i, W, scale, theta)
    for p in range(theta.size):
        theta[p] *= data.weights[i]


@verbs.gold.implement(Weighted)
@njit(cache=True, nogil=True)
def _gold(data, i, z):
    verbs.gold(data.original, i, z)


@verbs.cost.implement(Weighted)
@njit(cache=True, nogil=True)
def _cost(data, i, mu):
    return data.weights[i] * verbs.cost(data.original, i, mu)


@verbs.reward.implement(Weighted)
@njit(cache=True, nogil=True)
def _reward(data, i, theta, mu):
    omega = data.weights[i]
    return omega * verbs.reward(data.original, i, theta / omega, mu)


@verbs.norm_sq.implement(Weighted)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    return data.weights[i] ** 2 * verbs.norm_sq(data.original, i, d)


@verbs.add.implement(Weighted)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    verbs.add(data.original, i, d, step * data.weights[i], W)


@verbs.shrink.implement(Weighted)
@njit(cache=True, nogil=True)
def _shrink(data, i, V, threshold, W):
    verbs.shrink(data.original, i, V, threshold, W)


@verbs.rows_of.implement(Weighted)
@njit(cache=True, nogil=True)
def _rows_of(data, i):
    return verbs.rows_of(data.original, i)


@verbs.mixture_step.implement(Weighted)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    omega = data.weights[i]
    eta, gain = verbs.mixture_step(data.original, i, mu, nu, gap / omega, curvature / omega, search)
    return eta, omega * gain
