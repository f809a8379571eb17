"""Small quadratic programmes over the simplex: what methods with cutting planes solve at each step.

    max_x  r'x - 1/2 x'Gx    over  x >= 0,  sum x = 1

by a primal-dual interior point method with Mehrotra's predictor and corrector: some twenty
factorisations of a k x k matrix, however alike the planes are. x is feasible but for the rounding
of its sum, so a dual value computed from x is a lower bound, whether or not x is the best.
"""

from __future__ import annotations

import numpy as np

ITERATIONS = 60
PRECISION = 1e-14  # of the complementarity, in units of the data
BACK = 0.99  # share of the way to the boundary that a step may go


def maximize(r: np.ndarray, G: np.ndarray) -> np.ndarray:
    """argmax_x r'x - 1/2 x'Gx over the simplex; r: (k,), G: (k, k) positive semidefinite."""
    k = r.size
    if k == 1:
        return np.ones(1)
    # as sum x = 1, a constant in r changes nothing but the rounding: it is taken off
    r = r - r.max()
    scale = max(float(np.abs(r).max()), float(np.abs(G).max()), 1e-300)
    r, G = r / scale, G / scale
    x, s = np.full(k, 1.0 / k), np.ones(k)
    y = 0.0  # multiplier of sum x = 1, s those of x >= 0:  Gx - r + y - s = 0,  x s = 0
    for _ in range(ITERATIONS):
        residual = G @ x - r + y - s
        mean = float(x @ s) / k
        if mean <= PRECISION and np.abs(residual).max() <= PRECISION:
            break
        solve = _Newton(G, x, s)
        dx, dy, ds = solve(residual, x.sum() - 1.0, x * s)
        affine = float((x + _length(x, dx) * dx) @ (s + _length(s, ds) * ds)) / k
        centre = mean * (max(affine, 0.0) / mean) ** 3
        dx, dy, ds = solve(residual, x.sum() - 1.0, x * s + dx * ds - centre)
        step = BACK * min(_length(x, dx), _length(s, ds))
        x, y, s = x + step * dx, y + step * dy, s + step * ds
    x = np.maximum(x, 0.0)
    return x / x.sum()


class _Newton:
    """The linear system of one iteration: G dx + dy - ds = -a, sum dx = -b, s dx + x ds = -c."""

    def __init__(self, G: np.ndarray, x: np.ndarray, s: np.ndarray):
        self.x, self.s = x, s
        self.M = G + np.diag(s / x)
        self.ones = np.linalg.solve(self.M, np.ones(x.size))

    def __call__(
        self, a: np.ndarray, b: float, c: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray]:
        free = np.linalg.solve(self.M, -a - c / self.x)
        dy = float((free.sum() + b) / self.ones.sum())
        dx = free - dy * self.ones
        return dx, dy, -(c + self.s * dx) / self.x


def _length(x: np.ndarray, dx: np.ndarray) -> float:
    """The longest step, 1 at most, that keeps x + step dx at or above 0."""
    falling = dx < 0.0
    return min(1.0, float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0
