"""Certificates: the primal objective P and a dual objective D, recomputed by a full pass.

D is never above the optimum P*, so a certificate proves that P - P* <= P - D, the duality gap. Both
are taken at one set of weights and are never estimates.
"""

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
        """The gap as a share of the primal objective, which is never negative."""
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
    """Raise if the gap is negative by more than rounding, or not finite; scale: the size of the
    terms that the gap is the difference of."""
    if not math.isfinite(gap):
        raise FloatingPointError(f"duality gap {gap} (objective about {scale:.3e})")
    if not gap >= -TOLERANCE * max(1.0, abs(scale)):
        raise NegativeGapError(f"duality gap {gap:.3e} is negative (objective about {scale:.3e})")


def proven(primal: float, dual: float) -> Certificate:
    """The certificate of two bounds; raises if their gap is negative."""
    check_gap(primal - dual, primal)
    return Certificate(primal, dual, primal - dual)


def primal_value(problem: Problem, lam: float, W: np.ndarray) -> float:
    """P(W), by one full pass."""
    total = 0.0
    for i in range(problem.n):
        value, theta, _ = problem.oracle(i, W)
        total += value - float(theta @ problem.gold(i))
    return 0.5 * lam * problem.sq_norm(W) + total / problem.n


def objective(problem: Problem, lam: float, W: np.ndarray) -> tuple[float, np.ndarray]:
    """P(W) and its gradient, by one full pass."""
    grad = lam * W
    total = 0.0
    for i in range(problem.n):
        value, theta, nu = problem.oracle(i, W)
        z = problem.gold(i)
        total += value - float(theta @ z)
        problem.add(i, nu - z, 1.0 / problem.n, grad)
    return 0.5 * lam * problem.sq_norm(W) + total / problem.n, grad


def certify_primal(problem: Problem, lam: float, W: np.ndarray, l1: float = 0.0) -> Certificate:
    """For any weights W: (rows, K). The dual point is the marginals at W."""
    value, grad = objective(problem, lam, W)
    primal = value + l1 * float(np.abs(W).sum())
    gap = primal_gap(problem, lam, W, value, grad, l1)
    return Certificate(primal, primal - gap, gap)


def primal_gap(
    problem: Problem, lam: float, W: np.ndarray, value: float, grad: np.ndarray, l1: float = 0.0
) -> float:
    """P - D for the marginals at W, where value and grad are P and its gradient without |w|_1.

    w(alpha) = v = W - grad/lambda, and P - D = |grad P|^2 / (2 lambda) (Le Priol et al. 2018,
    equations 6 to 8). With the elastic net P has l1 |W|_1, D has -lambda/2 |soft(v, l1/lambda)|^2:
    P - D = lambda/2 |W|^2 + l1 |W|_1 - lambda <v, W> + lambda/2 |soft(v)|^2 >= 0, as the terms are
    a convex function of W, its conjugate at lambda v, and their product.

    Where lambda is next to nothing that conjugate is huge until |lambda v| <= l1 everywhere. A dual
    point between gold and the marginals, (1-t) z + t mu with entropy t H(mu) at least, has t v in
    place of v: with t = l1 / max |lambda v| its conjugate is 0, and D = t (mean loss + lambda
    <v, W>). The better of both is taken.
    """
    if l1 == 0.0:
        return problem.sq_norm(grad) / (2.0 * lam)
    v = W - grad / lam
    half, absolute = 0.5 * lam * problem.sq_norm(W), l1 * float(np.abs(W).sum())
    conjugate = 0.5 * lam * problem.sq_norm(soft(v, l1 / lam))
    product = lam * float(np.vdot(v, W))
    gap = half + absolute + conjugate - product
    check_gap(gap, half + absolute + conjugate)
    t = l1 / max(l1, lam * float(np.abs(v).max()))
    nearer = value + absolute - t * (value - half + product)
    check_gap(nearer, value + absolute)
    return min(gap, nearer)


def soft(v: np.ndarray, threshold: float) -> np.ndarray:
    """Each number nearer to 0 by the threshold, and 0 within it."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def certify_dual(
    problem: Problem,
    lam: float,
    W: np.ndarray,
    point: Callable[[int], tuple[np.ndarray, float]],
    l1: float = 0.0,
) -> tuple[Certificate, np.ndarray]:
    """For W = w(alpha): P and D at W, and the (n,) block gaps, whose mean P - D is (Le Priol et
    al. 2018, equations 9 and 10).

    point(i) gives the stats of alpha_i and its entropy over beta (or a lower bound of it). With the
    elastic net W = soft(v(alpha), l1/lambda), for which lambda |W|^2 + l1 |W|_1 = lambda <v, W>:
    the gap is the mean of the block gaps again.
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
    primal += l1 * float(np.abs(W).sum())
    return proven(primal, dual), gaps
