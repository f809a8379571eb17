"""Second-order trees as a training problem: the convex bound in place of log Z."""

from __future__ import annotations

import math

import numpy as np

from turbotag.errors import UsageError
from turbotag.structures import mixture, second_order, tree
from turbotag.structures.arc_problem import ArcProblem, Arcs, scores_of
from turbotag.structures.pruning import matrix
from turbotag.structures.second_order import Parts

ROUNDS = 8


class SecondOrderProblem(ArcProblem):
    """ArcProblem with sibling and grandparent parts behind the arcs of each sentence.

    `arcs` has the features of all parts: its `ends` run over the arcs, siblings and grandparents of
    the first sentence, then those of the second. The loss is that of the bound after ROUNDS rounds,
    an upper bound of the loss itself; what a certificate says holds for it only where the rounds
    have converged, so the objective counts as not certified.
    """

    certified = False

    def __init__(
        self,
        arcs: Arcs,
        gold: np.ndarray,
        n_rows: int,
        beta: float,
        gamma: float,
        single_root: bool = True,
        rounds: int = ROUNDS,
    ):
        if not math.isfinite(beta):
            raise UsageError("a second-order parser needs a loss with finite beta")
        super().__init__(arcs, gold, n_rows, beta, gamma, "nonprojective", single_root)
        self.structure, self.rounds = "second-order", rounds
        cuts = arcs.sentences.tolist()
        self.parts: list[Parts] = []
        self._gold_parts: list[np.ndarray] = []
        for a, b in zip(cuts, cuts[1:], strict=False):
            first = arcs.cuts[a]
            p = second_order.parts(arcs.cuts[a : b + 1] - first, arcs.heads[first : arcs.cuts[b]])
            z = np.empty(second_order.size(p))
            second_order.indicator(gold[a:b], p, z)
            self.parts.append(p)
            self._gold_parts.append(np.flatnonzero(z))
        self._size = np.array([second_order.size(p) for p in self.parts])
        self._first = np.concatenate([[0], np.cumsum(self._size)[:-1]])
        longest = int(self._size.max())
        self._theta, self._nu, self._z = np.empty(longest), np.empty(longest), np.empty(longest)

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        nu = self._nu[: theta.size]
        beta = self.beta if beta is None else beta
        value = second_order.bound(theta, self.parts[i], beta, self.single_root, self.rounds, nu)
        return value / beta, nu

    def gold(self, i: int) -> np.ndarray:
        z = self._z[: self._size[i]]
        z[:] = 0.0
        z[self._gold_parts[i]] = 1.0
        return z

    def cost_vector(self, i: int) -> np.ndarray:
        p = np.zeros(self.size(i))
        p[self._gold_arcs(i)] = -1.0
        return p

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        raise UsageError(
            "a second-order parser has no k-best list: use another algorithm than mira"
        )

    def radius_sq(self) -> np.ndarray:
        raise UsageError("a second-order parser has no bound of its features: use dca or sgd")

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        p = self.parts[i]
        return mixture.step(p.cuts, mu, nu, gap, curvature, self.beta, False)


def believed_trees(
    arcs: Arcs, W: np.ndarray, beta: float, single_root: bool, rounds: int
) -> np.ndarray:
    """(words,) heads with the fewest expected errors, for every sentence."""
    out = np.empty(arcs.sentences[-1], np.int32)
    w = np.empty(int(np.diff(arcs.firsts).max()))
    cuts, begin = arcs.sentences.tolist(), 0
    for i, (a, b) in enumerate(zip(cuts, cuts[1:], strict=False)):
        first = arcs.cuts[a]
        p = second_order.parts(arcs.cuts[a : b + 1] - first, arcs.heads[first : arcs.cuts[b]])
        theta = np.empty(second_order.size(p))
        scores_of(i, begin, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, theta)
        begin += theta.size
        nu = np.empty_like(theta)
        second_order.bound(theta, p, beta, single_root, rounds, nu)
        tree.argmax(matrix(nu, p.cuts, p.heads), single_root, out[a:b])
    return out
