"""Concave-convex steps around any optimizer, for losses that are differences of two of the family.

Martins et al. (2010, footnote 1): L(beta, gamma) - L(beta, 0) is the structured ramp loss at
beta = inf (Collobert et al. 2006), and at beta = 1 log E exp cost, an upper bound of the risk. The
procedure (Yuille and Rangarajan 2003): replace the second loss by its tangent at the present
weights, which leaves a convex problem above the objective and equal to it there
(structures/linearized); solve that; and again. The objective never rises, if the convex problem is
solved well enough. The first round is the convex loss L(beta, gamma) itself.

What is certified is the convex problem of the last round: no certificate of the objective itself is
known, as it has local minima.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, Optimizer
from turbotag.structures.linearized import LinearizedProblem

NEAR = 0.01  # a round ends at a gap of this share of its primal objective,
LONGEST = 15  # or after so many epochs,
BLIND = 5  # or so many where the optimizer does not know its gap
SETTLED = 1e-3  # the rounds end when the objective falls by no more than this share of it


class _Rounds(Optimizer):
    """What is added to an optimizer's class, before it."""

    def __init__(self, problem: Any, lam: float, rng: np.random.Generator, **params: Any):
        self.convex = LinearizedProblem(problem)
        self._start: dict[str, Any] = {"lam": lam, "rng": rng, **params}
        super().__init__(self.convex, lam, rng, **params)
        # rounds done, epochs of the present one, whether they have settled, whether the present one
        # is over; the objective so far
        self.progress = np.zeros(4, np.int64)
        self.reached = np.array([np.inf])

    def epoch(self) -> None:
        """An epoch of the present round, or the first one of the next: a run that ends here has the
        weights of a round, not those at the start of another."""
        if self.progress[3]:
            self._next_round()
        super().epoch()
        self.progress[1] += 1
        if not self.progress[2] and self._solved():
            self.progress[3], self.done = 1, None

    def _solved(self) -> bool:
        gap, epochs = super().gap_estimate(), self.progress[1]
        if gap is None or self.done:
            return bool(self.done or epochs >= BLIND)
        if epochs >= LONGEST:
            return True
        primal = self.primal if self.dual is None else self.dual + gap
        return primal is not None and gap <= NEAR * primal

    def _next_round(self) -> None:
        """Tangents at the present weights, unless the objective has settled."""
        W = self.weights().copy()
        value = self._objective(W)
        self.oracle_calls += 2 * self.convex.n
        self.progress[[1, 3]] = 0
        self.progress[0] += 1
        if self.reached[0] - value <= SETTLED * abs(value):
            self.progress[2] = 1
            return
        self.reached[0] = value
        self.convex.linearize(W)
        self.oracle_calls += self.convex.n
        self._again()

    def _objective(self, W: np.ndarray) -> float:
        return self.convex.objective(self.lam, W) + self.l1 * float(np.abs(W).sum())

    def _again(self) -> None:
        """Start afresh on the new problem. The dual variables of the last round would be a poor
        start: w(alpha) is made of their distance from the targets, which have moved."""
        counts = self.epochs, self.oracle_calls, self.updates
        self.close()
        super().__init__(self.convex, **self._start)
        self.epochs, self.oracle_calls, self.updates = counts

    def gap_estimate(self) -> float | None:
        """Infinite until the rounds have settled: no certificate ends the run before."""
        return super().gap_estimate() if self.progress[2] else float("inf")

    def notes(self) -> list[str]:
        value = self._objective(self.weights())
        settled = "settled" if self.progress[2] else "not settled"
        return [
            f"objective, which is not convex: {value:.9g} after {self.progress[0]} concave-convex "
            f"rounds, {settled}"
        ]

    def state(self) -> dict[str, np.ndarray]:
        own = {"progress": self.progress, "reached": self.reached}
        targets = np.concatenate(self.convex.targets)
        return {**super().state(), **own, "targets": targets}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        cuts = np.cumsum([0, *(u.size for u in self.convex.targets)])
        targets = state["targets"]
        if targets.shape != (cuts[-1],) or not np.isfinite(targets).all():
            raise ValueError(f"targets are {targets.shape}")
        for i, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            self.convex.target(i, targets[a:b])
        super().restore(state)


def concave_convex(cls: type[Optimizer]) -> type[Optimizer]:
    """An optimizer of L(beta, gamma) as one of L(beta, gamma) - L(beta, 0)."""
    unbounded = (*cls.unbounded, "reached")
    structures = tuple(s for s in cls.structures if s in EXACT)
    return type(cls.__name__, (_Rounds, cls), {"unbounded": unbounded, "structures": structures})
