"""The averaged structured perceptron (Collins 2002)."""

from __future__ import annotations

import numpy as np

from turbotag.lean import kernel
from turbotag.optim.base import EXACT, KERNEL_CHAIN
from turbotag.optim.dca import DCA, move
from turbotag.optim.epochs import scratch, three
from turbotag.structures.verbs import gold, oracle


class Perceptron(DCA):
    """w <- w + F(z - y) wherever the best answer y is wrong; weights averaged over all steps."""

    name = "perceptron"
    reference = "Collins 2002; averaging after Freund and Schapire 1999"
    structures = (*EXACT, KERNEL_CHAIN)
    losses = "perceptron"

    def visit(self, order: np.ndarray) -> None:
        last, value = _visit(self.problem.data, order, self.updates, self.W, self.late)
        self.check_loss(last, value)
        self.updates += order.size
        self.oracle_calls += order.size


@kernel
def _visit(data, order, t, W, late):
    """Steps in this order, after t earlier steps; return (instance, best score) of the last."""
    memory, i, value = scratch(data.parts), 0, 0.0
    for i in order:
        theta, y, z = three(memory, data.parts, i)
        value = oracle(data, i, W, 1.0, theta, y)
        if not np.isfinite(value):
            break
        gold(data, i, z)
        d = z - y
        if np.any(d != 0.0):  # a tie with the gold answer, as everywhere at w = 0, is a mistake too
            move(data, i, d, 1.0, t, W, late)
        t += 1
    return i, value
