"""DCA: online dual coordinate ascent, the passive-aggressive step for any L(beta, gamma).

Martins, Gimpel, Smith, Xing, Figueiredo and Aguiar (2010), "Learning structured classifiers with
dual coordinate ascent", CMU-ML-10-109, algorithms 1 and 2: the step min{C, L / |grad L|^2} needs no
learning rate. On the hinge loss it is 1-best MIRA (equation 15). The weights are averaged over all
steps (the last line of algorithm 1).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from turbotag.lean import kernel
from turbotag.optim.base import EXACT, KERNEL_CHAIN, LOOPY, SECOND_ORDER, Optimizer
from turbotag.optim.epochs import dot, scratch, slices, three
from turbotag.optim.problem import Problem
from turbotag.structures.verbs import add, gold, norm_sq, oracle


class DCA(Optimizer):
    name = "dca"
    reference = "Martins et al. 2010, algorithms 1 and 2"
    structures: tuple[str, ...] = (*EXACT, SECOND_ORDER, LOOPY, KERNEL_CHAIN)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.C = 1.0 / (lam * problem.n)  # the paper's 1/(lambda m)
        self.W = np.zeros(problem.shape)
        self.late = np.zeros(problem.shape)  # sum of t * update_t, from which `weights` averages

    def epoch(self) -> None:
        order = self.rng.permutation(self.problem.n)
        for part in slices(order.size):
            self.visit(order[part])
        self.epochs += 1

    def visit(self, order: np.ndarray) -> None:
        """Steps on some instances, one after another."""
        last, loss = _visit(self.problem.data, order, self.C, self.updates, self.W, self.late)
        self.check_loss(last, loss)
        self.updates += order.size
        self.oracle_calls += order.size

    def check_loss(self, i: int, loss: float) -> None:
        """Raise if the loss of the instance at which a kernel ended is not finite."""
        if not math.isfinite(loss):
            self.problem.oracle(i, self.W)  # may raise an error that tells the reason
            raise FloatingPointError(f"the loss of instance {i} is {loss}")

    def weights(self) -> np.ndarray:
        """The average of the weights after each step: W - sum_t (t/T) update_t."""
        return self.W - self.late / max(1, self.updates)

    def state(self) -> dict[str, np.ndarray]:
        return {"W": self.W, "late": self.late}


@kernel
def _visit(data, order, C, t, W, late):
    """Algorithm 2 on these instances, after t earlier steps: the projection onto the half-space of
    equation 13. Returns the last instance and its loss."""
    memory, i, loss = scratch(data.parts), 0, 0.0
    for i in order:
        theta, nu, z = three(memory, data.parts, i)
        value = oracle(data, i, W, 1.0, theta, nu)
        gold(data, i, z)
        loss = value - dot(theta, z)  # equation 8
        if not math.isfinite(loss):
            break
        if loss > 0.0:
            d = z - nu  # -grad L = F(z - nu), equation 9
            norm = norm_sq(data, i, d)
            if norm > 0.0:
                move(data, i, d, min(C, loss / norm), t, W, late)  # equation 14
        t += 1
    return i, loss


@kernel
def move(data, i, d, step, t, W, late):
    """w <- w + step F d, as step t; and add that to `late`, for the average."""
    add(data, i, d, step, W)
    add(data, i, d, step * t, late)
