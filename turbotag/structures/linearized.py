"""A problem with other targets than its gold answers: the convex problems of concave-convex rounds.

The loss L(beta, gamma) - L(beta, 0) is not convex. Its second term is replaced by the tangent at
weights w_t, which lies below it. Up to a constant the loss is then

    (1/beta) log sum_y exp beta( s'(z_y - u) + gamma cost(z_y) ),

where u are the marginals at w_t without the cost (beta = inf: the best answer). This is a loss of
the family again, with u in place of the gold stats; the cost is still counted from the gold answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import verbs


class Linearized(NamedTuple):
    """The arrays of a LinearizedProblem, for kernels (structures/verbs); original: the data of its
    problem, targets: a vector over the parts of all instances."""

    parts: np.ndarray
    original: Any
    targets: np.ndarray
    constants: np.ndarray


class LinearizedProblem:
    """A problem whose gold stats are replaced; everything else is the problem's own.

    problem: an optim/problem.Problem. The objective lacks the constant: it is lambda/2 |w|^2 + the
    mean of value - theta'u, which is never negative.
    """

    certified = "the convex problem of the concave-convex round it ends with"
    has_cliques = False  # the exact dual starts at the gold answers

    def __init__(self, problem: Any):
        self.original, parts = problem, problem.data.parts
        flat, self.constants = np.empty(parts[-1]), np.zeros(problem.n)
        self.targets = np.split(flat, parts[1:-1])
        for i, u in enumerate(self.targets):
            u[:] = problem.gold(i)
        self.data = Linearized(parts, problem.data, flat, self.constants)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)

    def gold(self, i: int) -> np.ndarray:
        return self.targets[i]

    def reward(self, i: int, stats: np.ndarray) -> float:
        return self.original.reward(i, stats) - float(self.constants[i])

    def without_cost(self, i: int, W: np.ndarray) -> tuple[float, np.ndarray]:
        """L(beta, 0) of instance i, and the marginals that are its gradient."""
        problem = self.original
        theta = problem.potentials(i, W) - problem.gamma * problem.cost_vector(i)
        value, nu = problem.infer(i, theta)
        return value - float(theta @ problem.gold(i)), nu

    def objective(self, lam: float, W: np.ndarray) -> float:
        """lambda/2 |w|^2 + mean of L(beta, gamma) - L(beta, 0), by two oracle calls an instance."""
        problem, total = self.original, 0.0
        for i in range(problem.n):
            value, theta, _ = problem.oracle(i, W)
            total += value - float(theta @ problem.gold(i)) - self.without_cost(i, W)[0]
        return 0.5 * lam * problem.sq_norm(W) + total / problem.n

    def linearize(self, W: np.ndarray) -> None:
        """From now on, take the tangents at these weights."""
        for i in range(self.original.n):
            self.target(i, self.without_cost(i, W)[1])

    def target(self, i: int, u: np.ndarray) -> None:
        self.targets[i][:] = u
        self.constants[i] = self.original.reward(i, u)


# ---- Kernels ----------------------------------------------------------------------------------


@verbs.oracle.implement(Linearized)
@njit(cache=True, nogil=True)
def _oracle(data, i, W, scale, theta, nu):
    return verbs.oracle(data.original, i, W, scale, theta, nu)


@verbs.gold.implement(Linearized)
@njit(cache=True, nogil=True)
def _gold(data, i, z):
    z[:] = data.targets[data.parts[i] : data.parts[i + 1]]


@verbs.reward.implement(Linearized)
@njit(cache=True, nogil=True)
def _reward(data, i, theta, mu):
    return verbs.reward(data.original, i, theta, mu) - data.constants[i]


@verbs.norm_sq.implement(Linearized)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    return verbs.norm_sq(data.original, i, d)


@verbs.add.implement(Linearized)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    verbs.add(data.original, i, d, step, W)


@verbs.shrink.implement(Linearized)
@njit(cache=True, nogil=True)
def _shrink(data, i, V, threshold, W):
    verbs.shrink(data.original, i, V, threshold, W)


@verbs.mixture_step.implement(Linearized)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    return verbs.mixture_step(data.original, i, mu, nu, gap, curvature, search)
