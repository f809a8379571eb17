"""Second-order trees as training problems: the convex bound, or Bethe's log Z, for log Z."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from turbotag.errors import UsageError
from turbotag.structures import convex_bound, parts, second_order
from turbotag.structures.arc_problem import ArcProblem, Arcs, scores_of
from turbotag.structures.parts import Parts
from turbotag.structures.second_order import Approximation, Domain

NOISE = 1e-9  # a loss nearer to 0 is 0


class SecondOrderProblem(ArcProblem):
    """ArcProblem with sibling and grandparent parts behind the arcs of each sentence.

    `arcs` has the features of all parts: its `ends` run over the arcs and the other parts of the
    first sentence, then those of the second.
    """

    def __init__(
        self,
        arcs: Arcs,
        gold: np.ndarray,
        n_rows: int,
        beta: float,
        gamma: float,
        single_root: bool = True,
        all_siblings: bool = False,
        approximation: Approximation = Approximation(),  # noqa: B008
    ):
        super().__init__(arcs, gold, n_rows, beta, gamma, "nonprojective", single_root)
        self.structure = "second-order" if self.certified else "loopy"
        self.approximation = approximation
        self.parts: list[Parts] = []
        self._gold_parts: list[np.ndarray] = []
        for a, b in itertools.pairwise(arcs.sentences.tolist()):
            p = _parts(arcs, a, b, all_siblings)
            z = np.empty(parts.size(p))
            parts.indicator(gold[a:b], p, z)
            self.parts.append(p)
            self._gold_parts.append(np.flatnonzero(z))
        self._size = np.array([parts.size(p) for p in self.parts])
        self._first = np.concatenate([[0], np.cumsum(self._size)[:-1]])
        longest = int(self._size.max())
        self._theta, self._nu, self._z = np.empty(longest), np.empty(longest), np.empty(longest)
        self._tally = np.zeros(4)

    def _domain(self, i: int) -> Domain:
        return Domain(self.parts[i], self.single_root, self.approximation)

    def _note(self, loss: float, rounds: int, residual: float) -> None:
        self._tally += 1.0, loss < -NOISE, rounds, residual > self.approximation.tolerance

    def tally(self) -> dict[str, Any]:
        """Of the oracle calls since the last time: how many losses were negative, the mean number
        of rounds, and how many calls ended before the beliefs had settled."""
        calls, negative, rounds, unsettled = self._tally.tolist()
        self._tally[:] = 0.0
        return {
            "calls": int(calls),
            "negative_losses": int(negative),
            "rounds": round(rounds / max(1.0, calls), 2),
            "unconverged": int(unsettled),
        }

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        raise UsageError("a second-order parser is trained by dca, sdca or sgd")

    def gold(self, i: int) -> np.ndarray:
        z = self._z[: self._size[i]]
        z[:] = 0.0
        z[self._gold_parts[i]] = 1.0
        return z

    def cost_vector(self, i: int) -> np.ndarray:
        raise UsageError("a second-order parser is trained by dca, sdca or sgd")

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        raise UsageError("a second-order parser has no k-best list")

    def radius_sq(self) -> np.ndarray:
        raise UsageError("a second-order parser has no bound of its features: use --sampling gap")


def _parts(arcs: Arcs, a: int, b: int, all_siblings: bool) -> Parts:
    """The parts of the sentence of words a..b-1."""
    first, end = arcs.cuts[a], arcs.cuts[b]
    return parts.parts(arcs.cuts[a : b + 1] - first, arcs.heads[first:end], all_siblings)


class BetheProblem(SecondOrderProblem):
    """Bethe's log Z is no bound: losses can be negative, and there is no certificate."""

    certified = ""

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        theta = self.potentials(i, W, scale)
        nu = self._nu[: theta.size]
        log_z, rounds, residual = second_order.bethe(theta, self._domain(i), self.beta, nu)
        value = log_z / self.beta
        self._note(value - theta[self._gold_parts[i]].sum(), rounds, residual)
        return value, theta, nu


class BoundProblem(SecondOrderProblem):
    """The convex bound for log Z.

    Its parts are those of the relaxations, arcs in each of their roles (structures/convex_bound):
    at the split that the rounds end with, the bound is a log-partition of these with its own dual.
    So the certificate of a pass holds, for the objective at the splits of that pass. While splits
    follow the weights, a dual method cannot settle: `hold` keeps them.
    """

    certified = "the convex surrogate"

    @property
    def moving(self) -> bool:  # type: ignore[override]
        return self.splits is None

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        longest = int((self._size + 2 * np.diff(self.arcs.cuts[self.arcs.sentences])).max())
        self._pi, self._nu = np.empty(longest), np.empty(longest)
        self.splits: np.ndarray | None = None
        self._split_cuts = 3 * self.arcs.cuts[self.arcs.sentences]

    def hold(self, W: np.ndarray) -> None:
        """From now on, the splits that the rounds end with at these weights."""
        splits = np.empty(self._split_cuts[-1])
        for i in range(self.n):
            _, pi, _ = self.oracle(i, W)
            theta = self._theta[: self._size[i]]
            moved = pi - convex_bound.apart(theta, self.parts[i])
            splits[self._split_cuts[i] : self._split_cuts[i + 1]] = moved[: 3 * self._n_arcs(i)]
        self.splits = splits

    def restore_splits(self, splits: np.ndarray | None) -> None:
        expected = (self._split_cuts[-1],), np.float64
        if splits is not None and (splits.shape, splits.dtype) != expected:
            raise ValueError(f"splits are {splits.shape} {splits.dtype}")
        self.splits = splits

    def _n_arcs(self, i: int) -> int:
        return self.parts[i].heads.size

    def size(self, i: int) -> int:
        return int(self._size[i]) + 2 * self.parts[i].heads.size

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        theta, size = self.potentials(i, W, scale), self.size(i)
        pi, nu = self._pi[:size], self._nu[:size]
        cuts = self._split_cuts
        held = None if self.splits is None else self.splits[cuts[i] : cuts[i + 1]]
        value, rounds, residual = second_order.bound(
            theta, held, self._domain(i), self.beta, pi, nu
        )
        self._note(value - theta[self._gold_parts[i]].sum(), rounds, residual)
        return value, pi, nu

    def gold(self, i: int) -> np.ndarray:
        return convex_bound.copies(super().gold(i), self.parts[i])

    def cost(self, i: int, stats: np.ndarray) -> float:
        return super().cost(i, convex_bound.together(stats, self.parts[i]))

    def reward(self, i: int, stats: np.ndarray) -> float:
        """The cost, and what the last call's split gives to stats whose roles differ."""
        even = convex_bound.apart(self._theta[: self._size[i]], self.parts[i])
        return super().reward(i, stats) + float((self._pi[: even.size] - even) @ stats)

    def _over_parts(self, i: int, d: np.ndarray) -> np.ndarray:
        return convex_bound.together(d, self.parts[i])

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """The closed form: what a mixture gains is not known here."""
        return (min(max(gap / curvature, 0.0), 1.0) if curvature > 0.0 else 1.0), 0.0


def believed_trees(
    arcs: Arcs,
    W: np.ndarray,
    beta: float,
    single_root: bool,
    all_siblings: bool,
    approximation: Approximation,
    is_projective: bool = False,
) -> np.ndarray:
    """(words,) heads with the fewest expected errors (beta = inf: the largest score), of all trees
    or of projective ones."""
    out = np.empty(arcs.sentences[-1], np.int32)
    w = np.empty(int(np.diff(arcs.firsts).max()))
    begin = 0
    for i, (a, b) in enumerate(itertools.pairwise(arcs.sentences.tolist())):
        p = _parts(arcs, a, b, all_siblings)
        theta = np.empty(parts.size(p))
        scores_of(i, begin, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, theta)
        begin += theta.size
        domain = Domain(p, single_root, approximation)
        if beta == math.inf:
            second_order.argmax(theta, domain, out[a:b])
        else:
            mu = np.empty_like(theta)
            second_order.marginals(theta, domain, beta, mu)
            second_order.least_risk(mu, domain, out[a:b], is_projective)
    return out
