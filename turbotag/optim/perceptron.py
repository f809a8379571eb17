"""The averaged structured perceptron (Collins 2002, figure 1 and section 2.2)."""

from __future__ import annotations

from turbotag.optim.base import EXACT
from turbotag.optim.dca import DCA


class Perceptron(DCA):
    """w <- w + F(z - y) wherever the best answer y is wrong; weights averaged over all steps."""

    name = "perceptron"
    reference = "Collins 2002; averaging after Freund and Schapire 1999"
    structures = EXACT
    losses = "perceptron"

    def visit(self, i: int) -> None:
        _, _, y = self.problem.oracle(i, self.W)
        self.oracle_calls += 1
        d = self.problem.gold(i) - y
        if d.any():  # a tie with the gold answer, as everywhere at w = 0, is a mistake too
            self.move(i, d, 1.0)
