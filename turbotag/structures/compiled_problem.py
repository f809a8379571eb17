"""A training problem made of verbs: what chains and trees share of optim/problem.Problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from turbotag.structures import verbs


class CompiledProblem:
    """n instances, given by a `data` that the verbs of structures/verbs serve.

    Vectors that methods return are scratch, valid until the next call.
    """

    certified = "the objective"
    moving = False
    empty = "the mask leaves sentence {} no sequence of labels"  # of an instance without structures

    def __init__(self, data: Any, beta: float, gamma: float):
        self.data = data
        self.n = data.parts.size - 1
        self.total = float(self.n)
        self.loss = verbs.loss_of(beta, gamma)
        self._theta, self._nu, self._z = np.empty((3, int(np.diff(data.parts).max())))

    @property
    def beta(self) -> float:
        """Inverse temperature of the loss. It is part of `data` and cannot be changed here."""
        return self.loss.beta

    @property
    def gamma(self) -> float:
        """Weight of the cost."""
        return self.loss.gamma

    def size(self, i: int) -> int:
        """Number of parts of instance i."""
        return int(self.data.parts[i + 1] - self.data.parts[i])

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, theta, nu) at the weights scale*W: the potentials theta = s + gamma p,
        value = log Z(beta theta)/beta, and the marginals; with beta = inf the maximum of theta'z_y
        and its stats."""
        size = self.size(i)
        theta, nu = self._theta[:size], self._nu[:size]
        value = verbs.oracle(self.data, i, W, float(scale), theta, nu)
        if value == -math.inf:
            raise ValueError(self.empty.format(i))
        return value, theta, nu

    def potentials(self, i: int, W: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """theta = s + gamma p."""
        theta = self._theta[: self.size(i)]
        verbs.potentials(self.data, i, W, float(scale), theta)
        return theta

    def gold(self, i: int) -> np.ndarray:
        """z: the stats of the right answer."""
        z = self._z[: self.size(i)]
        verbs.gold(self.data, i, z)
        return z

    def cost(self, i: int, stats: np.ndarray) -> float:
        """Expected number of wrong labels or heads, p'mu + q."""
        return float(verbs.cost(self.data, i, stats))

    def reward(self, i: int, stats: np.ndarray) -> float:
        """gamma cost, and what else the potentials of the last oracle call hold
        (structures/verbs.reward)."""
        return float(verbs.reward(self.data, i, self._theta[: self.size(i)], stats))

    def norm_sq(self, i: int, d: np.ndarray) -> float:
        """|F_i d|^2 for a flat direction d."""
        return float(verbs.norm_sq(self.data, i, d))

    def add(self, i: int, d: np.ndarray, step: float, W: np.ndarray) -> None:
        """W += step F_i d."""
        verbs.add(self.data, i, d, float(step), W)

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """(eta, entropy gain): see structures/mixture."""
        return verbs.mixture_step(self.data, i, mu, nu, float(gap), float(curvature), bool(search))

    def sq_norm(self, W: np.ndarray) -> float:
        """|w|^2."""
        return float(np.vdot(W, W))
