"""Certificates: P and D recomputed by a full pass at one set of weights. Never estimates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from turbotag.optim.problem import Problem

TOLERANCE = (
    1e-9  # a gap this far below zero, relative to the terms it is the difference of, is a bug
)


LOOSE = 0.1  # a gap above this share of the primal objective says little


class NegativeGapError(ArithmeticError):
    """P < D: impossible in exact arithmetic, so the inference or the bookkeeping is wrong."""


@dataclass(frozen=True)
class Certificate:
    """primal - dual bounds how far `primal` is from the optimum."""

    primal: float
    dual: float
    gap: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    @property
    def relative(self) -> float:
        """The gap as a share of the primal objective, which no loss makes negative."""
        if self.gap <= 0.0:
            return 0.0
        return self.gap / self.primal if self.primal > 0.0 else math.inf

    @property
    def loose(self) -> bool:
        """Whether the bound says little: the marginals at averaged weights are a poor dual point,
        and an online method has no better one."""
        return self.relative > LOOSE

    def __str__(self) -> str:
        if self.loose:
            return f"loose: primal {self.primal:.6g}, and no dual point that comes near it is known"
        return (
            f"primal {self.primal:.9f}, dual {self.dual:.9f}, duality gap {self.gap:.3e} "
            f"({100 * self.relative:.2g} % of the primal)"
        )


def check_gap(gap: float, scale: float) -> None:
    """Let a negative gap fail loudly, and one that is no number."""
    if not math.isfinite(gap):
        raise FloatingPointError(f"duality gap {gap} (objective about {scale:.3e})")
    if not gap >= -TOLERANCE * max(1.0, abs(scale)):
        raise NegativeGapError(f"duality gap {gap:.3e} is negative (objective about {scale:.3e})")


def objective(problem: Problem, lam: float, W: np.ndarray) -> tuple[float, np.ndarray]:
    """P(W) and its gradient, by one full pass."""
    grad = lam * W
    total = 0.0
    for i in range(problem.n):
        value, theta, nu = problem.oracle(i, W)
        z = problem.gold(i)
        total += value - theta @ z
        problem.add(i, nu - z, 1.0 / problem.n, grad)
    return 0.5 * lam * problem.sq_norm(W) + total / problem.n, grad


def certify_primal(problem: Problem, lam: float, W: np.ndarray) -> Certificate:
    """For any weights: the dual point is the marginals at W, so that w(alpha) = W - grad/lambda
    and P - D = |grad P|^2 / (2 lambda)."""
    primal, grad = objective(problem, lam, W)
    gap = problem.sq_norm(grad) / (2.0 * lam)
    return Certificate(primal, primal - gap, gap)


def certify_dual(
    problem: Problem,
    lam: float,
    W: np.ndarray,
    point: Callable[[int], tuple[np.ndarray, float]],
) -> tuple[Certificate, np.ndarray]:
    """For W = w(alpha): P and D at W, and the (n,) block gaps, whose mean P - D is.

    point(i) gives the stats of alpha_i and its entropy over beta (or a lower bound of it).
    """
    losses = np.empty(problem.n)
    rewards = np.empty(problem.n)
    gaps = np.empty(problem.n)
    for i in range(problem.n):
        value, theta, _ = problem.oracle(i, W)
        mu, entropy = point(i)
        losses[i] = value - theta @ problem.gold(i)
        rewards[i] = entropy + problem.reward(i, mu)
        gaps[i] = value - entropy - theta @ mu
    half = 0.5 * lam * problem.sq_norm(W)
    primal, dual = half + float(losses.mean()), -half + float(rewards.mean())
    check_gap(primal - dual, primal)
    return Certificate(primal, dual, primal - dual), gaps
