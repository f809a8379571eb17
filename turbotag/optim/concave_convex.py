"""Concave-convex steps around any optimizer, for losses that are differences of two of the family.

Martins et al. (2010, footnote 1): L(beta, gamma) - L(beta, 0) is the structured ramp loss at
beta = inf (Collobert et al. 2006), and at beta = 1 log E exp cost, an upper bound of the risk. The
procedure (Yuille and Rangarajan 2003): replace the second loss by its tangent at the present
weights, which leaves a convex problem above the objective and equal to it at those weights
(structures/linearized); solve that problem, which is one round; repeat. The objective never rises,
if the convex problem is solved well enough. The first round is the convex loss L(beta, gamma)
itself.

What is certified is the convex problem of a round: no certificate of the objective itself is known,
as it has local minima. A run that ends in the middle of a round keeps its weights only if the
objective is lower with them than at the end of the round before; else it goes back to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.base import EXACT, Optimizer
from turbotag.optim.certificate import Certificate
from turbotag.structures.linearized import LinearizedProblem

NEAR = 0.01  # a round ends at a gap of this share of its primal objective,
LONGEST = 15  # or after so many epochs,
BLIND = 5  # or so many where the optimizer does not know its gap
SETTLED = 1e-3  # the rounds end when the objective falls by no more than this share of it
ENDED = "ended."  # prefix of the names of the state at the end of the last round


class _Rounds(Optimizer):
    """Runs a new optimizer of the class `of` in each round."""

    of: type[Optimizer]

    def __init__(self, problem: Any, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(LinearizedProblem(problem), lam, rng, **params)
        self.convex: Any = self.problem
        self.given = params
        # rounds that have ended, the epoch in which the last of them ended, whether the present
        # round is over, whether the objective has settled
        self.progress = np.zeros(4, np.int64)
        self.reached = np.array([np.inf])  # the objective at the end of the last round
        self.ended: dict[str, np.ndarray] = {}  # the state at the end of the last round
        self.undone = False  # whether the run has gone back to that state
        self.inner = self._fresh()

    def _fresh(self) -> Optimizer:
        """A new optimizer for a round. The dual variables of the last round would be a poor start:
        w(alpha) is made of their distance from the targets, which have moved."""
        inner = self.of(self.convex, self.lam, self.rng, **self.given)
        self.oracle_calls += inner.oracle_calls
        self.param = inner.param
        return inner

    def epoch(self) -> None:
        """An epoch of the present round or, if that is over, the first epoch of the next. The next
        round begins only here, so that a run which ends now has the weights of a finished round."""
        if self.progress[2]:
            self._next_round()
        inner = self.inner
        calls, updates = inner.oracle_calls, inner.updates
        inner.dev_score = self.dev_score
        inner.epoch()
        self.oracle_calls += inner.oracle_calls - calls
        self.updates += inner.updates - updates
        self.epochs += 1
        self.dual, self.primal = inner.dual, inner.primal
        if self.progress[3]:
            self.done = inner.done
        elif self._solved():
            self.progress[2] = 1

    def _solved(self) -> bool:
        inner = self.inner
        gap = inner.gap_estimate()
        if gap is None or inner.done:
            return bool(inner.done or inner.epochs >= BLIND)
        if inner.epochs >= LONGEST:
            return True
        primal = inner.primal if inner.dual is None else inner.dual + gap
        return primal is not None and gap <= NEAR * primal

    def _next_round(self) -> None:
        """Begin a round, with tangents at the present weights, unless the objective has settled."""
        W = self.weights().copy()
        value, before = self._objective(W), float(self.reached[0])
        self.progress[2] = 0
        self.progress[0] += 1
        if value > before:  # the round was not solved well enough
            self._enter(self.ended)
        else:
            self.reached[0], self.progress[1] = value, self.epochs
            self.ended = {name: array.copy() for name, array in self._round().items()}
        if before - value <= SETTLED * abs(value):
            self.progress[3] = 1
            return
        self.convex.linearize(W)
        self.oracle_calls += self.convex.n
        self.close()
        self.inner = self._fresh()

    def _objective(self, W: np.ndarray) -> float:
        self.oracle_calls += 2 * self.convex.n
        return self.convex.objective(self.lam, W) + self.l1 * float(np.abs(W).sum())

    def conclude(self) -> int:
        if self.ended and self._objective(self.weights()) > self.reached[0]:
            self._enter(self.ended)
            self.undone = True
            return int(self.progress[1])
        return self.epochs

    def gap_estimate(self) -> float | None:
        """Infinite until the rounds have settled: no certificate ends the run before."""
        return self.inner.gap_estimate() if self.progress[3] else float("inf")

    def weights(self) -> np.ndarray:
        return self.inner.weights()

    def finish(self) -> None:
        self.inner.finish()

    def certify(self) -> Certificate:
        calls = self.inner.oracle_calls
        certificate = self.inner.certify()
        self.oracle_calls += self.inner.oracle_calls - calls
        self.dual = self.inner.dual
        return certificate

    def close(self) -> None:
        self.inner.close()

    def notes(self) -> list[str]:
        rounds, epoch = self.progress[:2].tolist()
        told = f"after {rounds} concave-convex rounds, settled"
        if self.undone:
            told = (
                f"after {rounds} concave-convex rounds; "
                f"kept: the end of the best round, epoch {epoch}"
            )
        elif not self.progress[3]:
            told = f"in concave-convex round {rounds + 1}, not settled"
        return [f"objective, which is not convex: {self._objective(self.weights()):.9g} {told}"]

    @property
    def resumable(self) -> bool:
        return self.inner.resumable

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes

    def _round(self) -> dict[str, np.ndarray]:
        """The state of the present round."""
        inner = self.inner
        counts = np.array([inner.epochs, inner.oracle_calls, inner.updates])
        targets = np.concatenate(self.convex.targets)
        return {**inner.state(), "round.targets": targets, "round.counts": counts}

    def _enter(self, state: dict[str, np.ndarray]) -> None:
        """Go on in the round of a state."""
        cuts = np.cumsum([0, *(u.size for u in self.convex.targets)])
        targets = state["round.targets"]
        if targets.shape != (cuts[-1],) or not np.isfinite(targets).all():
            raise ValueError(f"targets are {targets.shape}")
        for i, (a, b) in enumerate(zip(cuts[:-1], cuts[1:], strict=True)):
            self.convex.target(i, targets[a:b])
        self.close()
        inner = self.inner = self._fresh()
        inner.restore(state)
        inner.epochs, inner.oracle_calls, inner.updates = state["round.counts"].tolist()
        self.dual, self.primal = inner.dual, inner.primal

    def state(self) -> dict[str, np.ndarray]:
        ended = {ENDED + name: array for name, array in self.ended.items()}
        own = {"rounds.progress": self.progress, "rounds.reached": self.reached}
        return {**self._round(), **own, **ended}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        ended = {k.removeprefix(ENDED): v.copy() for k, v in state.items() if k.startswith(ENDED)}
        if ended:
            self._enter(ended)  # a check only: the run may go back to this state
        self.ended = ended
        self._enter(state)
        super().restore(state)


def concave_convex(cls: type[Optimizer]) -> type[Optimizer]:
    """Make an optimizer of L(beta, gamma) one of L(beta, gamma) - L(beta, 0)."""
    structures = tuple(s for s in cls.structures if s in EXACT)
    names = (*cls.unbounded, "rounds.reached")
    return type(
        cls.__name__,
        (_Rounds,),
        {
            "of": cls,
            "name": cls.name,
            "losses": cls.losses,
            "params": cls.params,
            "rounds": cls.rounds,
            "structures": structures,
            "unbounded": (*names, *(ENDED + name for name in names)),
        },
    )
