"""SMO on lists of labelings, which is pairwise block-coordinate Frank-Wolfe; away steps too.

Taskar (2004) moves probability between two labelings of an instance, as SMO (Platt 1998) does
between two variables of an SVM. Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien (2016),
"Minding the gaps for block Frank-Wolfe optimization of structured SVMs", do the same in the words
of Frank-Wolfe, draw instances by their block gaps, and keep the answers of the oracle, so that many
steps need no new answer. A visit of an instance:
    1. the known points are scored; if the gap among them is a good part of the block gap as last
       seen, the answer is the best known point, else the oracle is asked;
    2. pairwise: mass goes to the answer from the worst point that has any mass;
       away:     all mass goes a little towards the answer, or away from the worst point, whichever
                 has the larger slope.
Both steps can take all mass from a bad point, which a step of plain Frank-Wolfe (optim/sdca at
beta = inf) never does. At a finite beta the points are the marginals of earlier visits
(optim/labelings).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import Param
from turbotag.optim.certificate import Certificate
from turbotag.optim.labelings import Labelings
from turbotag.optim.problem import Problem

# The oracle is asked if the gap among the known points is below
SHARE = 0.25  # this share of the block gap as last seen, or
LEAST = 0.01  # this share of the mean block gap


class SMO(Labelings):
    name = "smo"
    reference = "Taskar 2004; pairwise and away steps and the cache of Osokin et al. 2016"
    kept = 1
    params = (
        Param(
            "steps",
            "pairwise",
            "mass moves between two labelings, or towards and away from one",
            ("pairwise", "away"),
        ),
        Param("points", 20, "labelings of an instance that are kept", least=2),
        Param("sampling", "gap", "how instances are drawn", ("uniform", "gap")),
        Param("nonuniform", 0.8, "share of draws that are not uniform", least=0.0, most=1.0),
        Param("cache", "yes", "take steps between known labelings while they pay", ("yes", "no")),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        from turbotag.optim.sampling import Sampler  # with numba, which --help does not wait for

        self.gaps = np.ones(problem.n)
        self.mean_gap = np.array([1.0])
        self.sampler = Sampler(self.param["sampling"], self.param["nonuniform"], self.gaps.copy())

    def epoch(self) -> None:
        """n visits; the first epoch visits every instance once."""
        n = self.problem.n
        draws = self.rng.random((n, 2))
        first = self.rng.permutation(n) if self.epochs == 0 else None
        for t in range(n):
            i = int(first[t]) if first is not None else self.sampler.draw(draws[t, 0], draws[t, 1])
            self.visit(i)
        self.mean_gap[0] = self.gaps.mean()
        self.epochs += 1

    def visit(self, i: int) -> None:
        theta = self.problem.potentials(i, self.W)
        known, alpha = self.lists.scores(i, theta), self.alpha[i]
        best = int(known.argmax())
        mean = float(alpha @ known)
        enough = max(SHARE * self.gaps[i], LEAST * self.mean_gap[0])
        if self.param["cache"] == "no" or self.epochs == 0 or known[best] - mean < enough:
            value, best = self.answer(i, theta, known)
            self.gaps[i] = value - mean
            self.sampler.update(i, float(self.gaps[i]))
            top = value
        else:
            top = float(known[best])
        used = np.flatnonzero(alpha > 0.0)
        worst = int(used[known[used].argmin()])
        if self.param["steps"] == "pairwise":
            self.shift(i, worst, best, top - known[worst])
        elif top - mean >= mean - known[worst]:
            self.mix(i, best, 1.0, top - mean, 1.0)
        elif alpha[worst] < 1.0:
            limit = float(alpha[worst] / (1.0 - alpha[worst]))
            self.mix(i, worst, -1.0, mean - known[worst], limit)
        self.forget(i, self.param["points"])

    def gap_estimate(self) -> float:
        """Mean of the block gaps, each as last seen."""
        return float(self.gaps.mean()) if self.epochs else float("inf")

    def certify(self) -> Certificate:
        certificate = super().certify()
        self.gaps[:] = self.block_gaps
        self.mean_gap[0] = self.gaps.mean()
        self.sampler.fill(self.gaps)
        return certificate

    def state(self) -> dict[str, np.ndarray]:
        own = {"gaps": self.gaps, "mean_gap": self.mean_gap, "tree": self.sampler.tree}
        return {**super().state(), **own}
