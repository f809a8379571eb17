"""k-best MIRA: the smallest change of the weights that satisfies k margin constraints.

Crammer and Singer 2003; McDonald, Crammer and Pereira 2005. It is problem 17 of Martins et al.
(2010) with k of its half-spaces, in the scale 1/2 |w' - w|^2 + C xi. At each instance
    min_{w', xi}  1/2 |w' - w|^2 + C xi   s.t.  w'.F(z - y_j) >= gamma cost(y_j) - xi,   j = 1..k
over the k best answers with cost-augmented scores. Its dual is a small QP,
    max_a  sum_j a_j l_j - 1/2 |sum_j a_j F(z - y_j)|^2,   a >= 0,  sum_j a_j <= C,
with l_j the violation at w, solved by Hildreth's algorithm: exact maximisation over one coordinate
after another, and over pairs where the cap binds. With k = 1 this is DCA on the hinge loss, with
the step of equation 15.
"""

from __future__ import annotations

import numpy as np

from turbotag.optim.base import EXACT, Param
from turbotag.optim.dca import DCA, move

SWEEPS, PRECISION = 1000, 1e-12


class MIRA(DCA):
    name = "mira"
    reference = "McDonald, Crammer and Pereira 2005; Martins et al. 2010, equation 17"
    structures = EXACT
    losses = "hinge"
    params = (Param("kbest", 1, "number of answers that give a constraint each", least=1),)

    def visit(self, order: np.ndarray) -> None:
        if self.param["kbest"] == 1:
            super().visit(order)
            return
        for i in order.tolist():
            self._step(i)
            self.updates += 1
            self.oracle_calls += 1

    def _step(self, i: int) -> None:
        problem = self.problem
        theta, answers = problem.kbest(i, self.W, self.param["kbest"])
        directions = problem.gold(i) - answers
        violations = -(directions @ theta)
        keep = violations > 0.0
        if not keep.any():
            return
        directions, violations = directions[keep], violations[keep]
        gram = np.array([problem.gram(i, d) @ directions.T for d in directions])
        a = hildreth(gram, violations, self.C)
        move(problem.data, i, a @ directions, 1.0, self.updates, self.W, self.late)


def hildreth(gram: np.ndarray, gains: np.ndarray, cap: float) -> np.ndarray:
    """argmax_a gains'a - 1/2 a'gram a over a >= 0, sum a <= cap, for a handful of variables."""
    k = gains.size
    a = np.zeros(k)
    flat = PRECISION * np.abs(gains).max()  # a tiny cap makes much of the rounding of a slope
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
