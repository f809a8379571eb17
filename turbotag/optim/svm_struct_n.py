"""SVM-struct with a slack variable for each instance (n-slack cutting planes).

Tsochantaridis, Hofmann, Joachims and Altun (2004); Joachims, Finley and Yu (2009), "Cutting-plane
training of structural SVMs". Each instance has a working set of labelings, at first the gold one:
    repeat for i = 1 .. n:
        y = the answer of the oracle, the most violated constraint of instance i
        if it is violated by more than the slack xi_i of the working set: add it, and
        after every `additions` new ones solve the quadratic programme of all working sets.
The programme is solved in its dual, by pairwise steps between two labelings of an instance (SMO),
to a tenth of the mean block gap that the last pass found. Any feasible point of the programme is a
dual point of the whole problem, so the certificate does not depend on how well it is solved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.labelings import Labelings
from turbotag.optim.problem import Problem

PRECISION = 0.1  # the programme is solved to this share of the mean block gap as last seen
SWEEPS = 1000


class SVMStructN(Labelings):
    name = "svm-struct-n"
    reference = "Tsochantaridis et al. 2004; Joachims, Finley and Yu 2009, n-slack"
    losses = "hinge"
    kept = 1
    params = (
        Param(
            "additions", 100, "new constraints before the quadratic programme is solved", least=1
        ),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.gaps = np.ones(problem.n)

    def epoch(self) -> None:
        """One pass over the instances."""
        added = 0
        for i in range(self.problem.n):
            theta = self.problem.potentials(i, self.W)
            known = self.lists.scores(i, theta)
            value, at = self.answer(i, theta, known)
            self.gaps[i] = value - float(self.alpha[i][: known.size] @ known)
            added += at == known.size
            if added == self.param["additions"]:
                self.solve()
                added = 0
        self.solve()
        self.epochs += 1

    def solve(self) -> None:
        """Pairwise steps between known labelings until the gap among them is small."""
        several = [i for i, alpha in enumerate(self.alpha) if alpha.size > 1]
        for _ in range(SWEEPS):
            gap = 0.0
            for i in several:
                known = self.lists.scores(i, self.problem.potentials(i, self.W))
                gap += float(known.max() - self.alpha[i] @ known)
                used = np.flatnonzero(self.alpha[i] > 0.0)
                best, worst = int(known.argmax()), int(used[known[used].argmin()])
                self.shift(i, worst, best, float(known[best] - known[worst]))
            if gap <= PRECISION * float(self.gaps.sum()):
                break

    def gap_estimate(self) -> float:
        """Mean of the block gaps, each as seen in the last pass."""
        return float(self.gaps.mean()) if self.epochs else float("inf")

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "gaps": self.gaps}
