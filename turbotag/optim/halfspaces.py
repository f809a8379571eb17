"""What k-best MIRA and DCA with several half-spaces share: the projection onto all of them.

Equation 17 of Martins et al. (2010) with finitely many of its half-spaces, in the scale
1/2 |w' - w|^2 + C xi. A half-space is given by the stats y_j of a point of the marginal polytope
(labelings in optim/mira, marginals of earlier visits in optim/dca_planes) and by its violation l_j
at w:
    min_{w', xi}  1/2 |w' - w|^2 + C xi   s.t.  (w' - w)'F(z - y_j) >= l_j - xi,  xi >= 0.
The dual of the projection is a small quadratic programme,
    max_a  sum_j a_j l_j - 1/2 |sum_j a_j F(z - y_j)|^2,   a >= 0,  sum_j a_j <= C,
solved by Hildreth's algorithm: exact maximisation over one coordinate after another, and over pairs
where the cap binds. With one half-space this is the step of DCA (equation 14).
"""

from __future__ import annotations

import numpy as np

from turbotag.optim.base import EXACT, KERNEL_CHAIN
from turbotag.optim.dca import DCA, move

SWEEPS, PRECISION = 1000, 1e-12


class HalfSpaces(DCA):
    """DCA with the half-spaces that a subclass finds; most: the name of the parameter that says how
    many."""

    structures = (*EXACT, KERNEL_CHAIN)
    most = ""

    def half_spaces(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(k, parts) directions z - y_j of some half-spaces of instance i, and the (k,) violations
        of them at the present weights."""
        raise AssertionError("every method with half-spaces has its own")

    def visit(self, order: np.ndarray) -> None:
        if self.param[self.most] == 1:
            super().visit(order)
            return
        for i in order.tolist():
            directions, violations = self.half_spaces(i)
            self._project(i, directions[violations > 0.0], violations[violations > 0.0])
            self.updates += 1
            self.oracle_calls += 1

    def _project(self, i: int, directions: np.ndarray, violations: np.ndarray) -> None:
        if not violations.size:
            return
        gram = np.array([self.problem.gram(i, d) @ directions.T for d in directions])
        a = hildreth(gram, violations, self.C)
        move(self.problem.data, i, a @ directions, 1.0, self.updates, self.W, self.late)


def hildreth(gram: np.ndarray, gains: np.ndarray, cap: float) -> np.ndarray:
    """argmax_a gains'a - 1/2 a'gram a over a >= 0, sum a <= cap, for a handful of variables."""
    k = gains.size
    a = np.zeros(k)
    # a slope below `flat` is rounding, which at a tiny cap would pass for a move
    flat = PRECISION * np.abs(gains).max()
    for _ in range(SWEEPS):
        moved = 0.0
        for j in range(k):
            slope = gains[j] - gram[j] @ a
            room = cap - (a.sum() - a[j])
            step = slope / gram[j, j] if gram[j, j] > 0 and abs(slope) > flat else 0.0
            new = min(max(a[j] + step, 0.0), max(room, 0.0))
            moved = max(moved, abs(new - a[j]))
            a[j] = new
        if k > 1 and a.sum() >= cap * (1.0 - 1e-12):  # the cap binds: trade between coordinates
            for j in range(k):
                for m in range(j):
                    slope = (gains[j] - gram[j] @ a) - (gains[m] - gram[m] @ a)
                    bend = gram[j, j] + gram[m, m] - 2.0 * gram[j, m]
                    if bend <= 0.0 or abs(slope) <= flat:
                        continue
                    shift = min(max(slope / bend, -a[j]), a[m])
                    a[j] += shift
                    a[m] -= shift
                    moved = max(moved, abs(shift))
        if moved <= PRECISION * cap:
            break
    return a
