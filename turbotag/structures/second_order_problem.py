"""Second-order trees as training problems: the convex bound, or Bethe's log Z, for log Z."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from turbotag.errors import UsageError
from turbotag.lean import njit
from turbotag.structures import belief_propagation, convex_bound, parts, second_order, verbs
from turbotag.structures.arc_problem import ArcProblem
from turbotag.structures.arc_verbs import (
    Arcs,
    Trees,
    add,
    all_scores,
    cost,
    gold_stats,
    norm_sq,
    potentials,
    reward,
    scores_of,
)
from turbotag.structures.compiled_problem import CompiledProblem
from turbotag.structures.parts import Parts
from turbotag.structures.second_order import Approximation, Domain

NOISE = 1e-9  # a loss that is nearer to 0 counts as 0


class Bethe(NamedTuple):
    """The arrays of a BetheProblem. trees: with the features and gold of all parts; tally: four
    counts of oracle calls: all, those with a negative loss, the rounds of all, and those that ended
    before the beliefs had settled."""

    parts: np.ndarray
    trees: Trees
    all_siblings: bool
    rounds: int
    damping: float
    tolerance: float
    tally: np.ndarray


class Bound(NamedTuple):
    """The arrays of a BoundProblem: those of Bethe, and splits.
    splits[split_cuts[i]:split_cuts[i+1]] is what is added to the even split of sentence i; empty
    while splits follow the weights."""

    parts: np.ndarray
    trees: Trees
    all_siblings: bool
    rounds: int
    damping: float
    tolerance: float
    tally: np.ndarray
    split_cuts: np.ndarray
    splits: np.ndarray


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
        sizes, found = [], []
        for a, b in itertools.pairwise(arcs.sentences.tolist()):
            p = _parts(arcs, a, b, all_siblings)
            z = np.empty(parts.size(p))
            parts.indicator(gold[a:b], p, z)
            sizes.append(z.size)
            found.append(np.flatnonzero(z))
        self.trees = self.trees._replace(
            parts=verbs.begins(np.array(sizes)),
            gold_cuts=verbs.begins(np.array([g.size for g in found])),
            gold_parts=np.concatenate(found),
        )
        self._all_siblings = all_siblings
        self._tally = np.zeros(4)
        self._arrange()

    def _arrange(self) -> None:
        """Make `data` from what the problem holds."""
        raise NotImplementedError

    def _shared(self) -> tuple[Trees, bool, int, float, float, np.ndarray]:
        a = self.approximation
        return self.trees, self._all_siblings, a.rounds, a.damping, a.tolerance, self._tally

    def anchor(self, W: np.ndarray) -> None:
        self.trees = self.trees._replace(anchor=all_scores(self.trees, W))
        self._arrange()

    def tally(self) -> dict[str, Any]:
        """Counts of the oracle calls since `tally` was last called: how many losses were negative,
        the mean number of rounds, and how many calls ended before the beliefs had settled."""
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

    def _arrange(self) -> None:
        data = Bethe(self.trees.parts, *self._shared())
        CompiledProblem.__init__(self, data, self.beta, self.gamma)


class BoundProblem(SecondOrderProblem):
    """The convex bound for log Z.

    Its parts are those of the relaxations, arcs in each of their roles (structures/convex_bound):
    at the split that the rounds end with, the bound is a log-partition of these with its own dual.
    So the certificate of a pass holds, for the objective at the splits of that pass. While splits
    follow the weights, a dual method cannot settle: `hold` keeps them.
    """

    certified = "the convex surrogate"
    splits: np.ndarray | None = None

    @property
    def moving(self) -> bool:  # type: ignore[override]
        return self.splits is None

    def _arrange(self) -> None:
        arcs = self.arcs.cuts[self.arcs.sentences]
        held = np.zeros(0) if self.splits is None else self.splits
        data = Bound(self.trees.parts + 2 * arcs, *self._shared(), 3 * arcs, held)
        CompiledProblem.__init__(self, data, self.beta, self.gamma)

    def hold(self, W: np.ndarray) -> None:
        """From now on, keep the splits that the rounds end with at these weights."""
        splits, cuts = np.empty(self.data.split_cuts[-1]), self.data.split_cuts
        for i in range(self.n):
            _, pi, _ = self.oracle(i, W)
            to = splits[cuts[i] : cuts[i + 1]]
            to[:] = _uneven(_roles(self.data, i), pi)[: to.size]
        self.restore_splits(splits)

    def restore_splits(self, splits: np.ndarray | None) -> None:
        expected = (self.data.split_cuts[-1],), np.float64
        if splits is not None and (splits.shape, splits.dtype) != expected:
            raise ValueError(f"splits are {splits.shape} {splits.dtype}")
        self.splits = splits
        self._arrange()


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


# ---- Kernels ----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sentence(data, i):
    """The Parts of sentence i."""
    arcs = data.trees.arcs
    cuts = arcs.cuts[arcs.sentences[i] : arcs.sentences[i + 1] + 1]
    return parts.parts(cuts - cuts[0], arcs.heads[cuts[0] : cuts[-1]], data.all_siblings)


class Roles(NamedTuple):
    """What structures/convex_bound needs of Parts to tell the roles of arcs."""

    heads: np.ndarray


@njit(cache=True, nogil=True)
def _roles(data, i):
    arcs = data.trees.arcs
    return Roles(arcs.heads[arcs.cuts[arcs.sentences[i]] : arcs.cuts[arcs.sentences[i + 1]]])


@njit(cache=True, nogil=True)
def _uneven(roles, pi):
    """The difference between a split and the even one. However a score is split, the potentials of
    an arc in all its roles sum to it."""
    E = roles.heads.size
    theta = np.empty(pi.size - 2 * E)
    for e in range(E):
        theta[e] = pi[e] + pi[E + e] + pi[2 * E + e]
    theta[E:] = pi[3 * E :]
    return pi - convex_bound.apart(theta, roles)


@njit(cache=True, nogil=True)
def _note(data, i, value, theta, rounds, residual):
    """Count an oracle call."""
    loss, gold = value, data.trees.gold_parts
    for g in range(data.trees.gold_cuts[i], data.trees.gold_cuts[i + 1]):
        loss -= theta[gold[g]]
    data.tally[0] += 1.0
    data.tally[1] += loss < -NOISE
    data.tally[2] += rounds
    data.tally[3] += residual > data.tolerance


@verbs.oracle.implement(Bethe)
@njit(cache=True, nogil=True)
def _bethe(data, i, W, scale, theta, nu):
    potentials(data.trees, i, W, scale, theta)
    root, beta = data.trees.decoder.single_root, data.trees.loss.beta
    log_z, rounds, residual = belief_propagation.bethe(
        theta, _sentence(data, i), root, beta, True, data.rounds, data.damping, data.tolerance, nu
    )
    _note(data, i, log_z / beta, theta, rounds, residual)
    return log_z / beta


@verbs.oracle.implement(Bound)
@njit(cache=True, nogil=True)
def _bound(data, i, W, scale, pi, nu):
    p, theta = _sentence(data, i), np.empty(data.trees.parts[i + 1] - data.trees.parts[i])
    potentials(data.trees, i, W, scale, theta)
    held = data.splits
    if held.size:
        held = held[data.split_cuts[i] : data.split_cuts[i + 1]]
    limits = data.rounds, data.damping, data.tolerance
    root = data.trees.decoder.single_root
    value, made, residual = second_order.relaxed(
        data.trees.loss, theta, held, p, root, limits, pi, nu
    )
    _note(data, i, value, theta, made, residual)
    return value


@verbs.verb
def by_part(data, i, mu):  # type: ignore[no-untyped-def]
    """Stats of sentence i, or a direction, with one number for each part, as `trees` has them."""


@by_part.implement(Bethe)
@njit(cache=True, nogil=True)
def _as_it_is(data, i, mu):
    return mu


@by_part.implement(Bound)
@njit(cache=True, nogil=True)
def _together(data, i, mu):
    return convex_bound.together(mu, _roles(data, i))


@verbs.potentials.implement(Bethe)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    potentials(data.trees, i, W, scale, theta)


@verbs.gold.implement(Bethe)
@njit(cache=True, nogil=True)
def _gold(data, i, z):
    gold_stats(data.trees, i, z)


@verbs.gold.implement(Bound)
@njit(cache=True, nogil=True)
def _gold_roles(data, i, z):
    parts = np.empty(data.trees.parts[i + 1] - data.trees.parts[i])
    gold_stats(data.trees, i, parts)
    z[:] = convex_bound.copies(parts, _roles(data, i))


@verbs.reward.implement(Bethe)
@njit(cache=True, nogil=True)
def _reward(data, i, theta, mu):
    return reward(data.trees, i, theta, mu)


@verbs.reward.implement(Bound)
@njit(cache=True, nogil=True)
def _reward_roles(data, i, pi, mu):
    """The cost, and what the split of the potentials pi gives to stats whose roles differ."""
    roles = _roles(data, i)
    together, uneven = convex_bound.together(mu, roles), _uneven(roles, pi)
    total = reward(data.trees, i, together, together)
    for p in range(mu.size):
        total += uneven[p] * mu[p]
    return total


@verbs.cost.implement(Bethe)
@verbs.cost.implement(Bound)
@njit(cache=True, nogil=True)
def _cost(data, i, mu):
    return cost(data.trees, i, by_part(data, i, mu))


@verbs.norm_sq.implement(Bethe)
@verbs.norm_sq.implement(Bound)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    return norm_sq(data.trees, i, by_part(data, i, d))


@verbs.add.implement(Bethe)
@verbs.add.implement(Bound)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    add(data.trees, i, by_part(data, i, d), step, W)


@verbs.mixture_step.implement(Bound)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    """The closed form: what a mixture gains is not known here."""
    return (min(max(gap / curvature, 0.0), 1.0) if curvature > 0.0 else 1.0), 0.0
