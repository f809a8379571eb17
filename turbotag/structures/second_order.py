"""Approximate inference over second-order trees: what training and parsing both call.

Scores and stats are one vector over the parts of a sentence (structures/parts), marginals are
called beliefs. There are no k-best lists and no samples.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import (
    belief_propagation,
    convex_bound,
    projective,
    pruning,
    tree,
    verbs,
)
from turbotag.structures.elementary import expectation, sigmoid
from turbotag.structures.parts import Parts

ENTROPIES = ("convex", "bethe")
MAP_ROUNDS = 500
MOST_ROUNDS = 10_000
EVEN = np.zeros(0)
# the least belief: a word has a head even if the beliefs of all its heads are 0
LEAST_BELIEF = 1e-300
ROOT_ERROR = 1e-13  # error of the sum of the probabilities of the root's modifiers, which is 1


@dataclass(frozen=True)
class Approximation:
    """How log Z and beliefs are found, and when the rounds of messages end.

    It must be the same in training and in parsing. Another number of rounds gives other beliefs
    (half a percent of UAS), and training makes up for what its own rounds lack.
    """

    entropy: str = "convex"
    rounds: int = 8
    damping: float = 0.5
    tolerance: float = 1e-4

    def check(self) -> None:
        """ValueError if it cannot be used."""
        if self.entropy not in ENTROPIES:
            raise ValueError(f"entropy is one of {', '.join(ENTROPIES)}")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise ValueError(f"rounds is {self.rounds}: it must be 1 to {MOST_ROUNDS}")
        if not 0.0 <= self.damping < 1.0:
            raise ValueError(f"damping is {self.damping}: it must lie between 0 and 1")
        if not self.tolerance >= 0.0:
            raise ValueError(f"tolerance is {self.tolerance}: it must not be negative")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Domain(NamedTuple):
    """The trees over the candidate arcs of a sentence, and how sums over them are approximated."""

    parts: Parts
    single_root: bool
    approximation: Approximation


# ---- Sums ----------------------------------------------------------------------------------------


def marginals(scores: np.ndarray, domain: Domain, beta: float, mu: np.ndarray) -> float:
    """log Z of beta*scores, and the beliefs of all parts into mu."""
    if domain.approximation.entropy == "bethe":
        return bethe(scores, domain, beta, mu)[0]
    pi, nu = np.empty((2, scores.size + 2 * domain.parts.heads.size))
    value, _, _ = bound(scores, None, domain, beta, pi, nu)
    mu[:] = convex_bound.together(nu, domain.parts)
    return beta * value


def log_partition(scores: np.ndarray, domain: Domain, beta: float) -> float:
    """log Z of beta*scores."""
    return marginals(scores, domain, beta, np.empty_like(scores))


def entropy(scores: np.ndarray, domain: Domain, beta: float) -> float:
    """H = log Z - beta * expected score."""
    mu = np.empty_like(scores)
    log_z = marginals(scores, domain, beta, mu)
    return log_z - beta * expectation(scores, mu)


def bethe(
    scores: np.ndarray, domain: Domain, beta: float, nu: np.ndarray
) -> tuple[float, int, float]:
    """(Bethe's log Z(beta scores), rounds made, residual); beliefs into nu."""
    p, single_root, a = domain
    limits = a.rounds, a.damping, a.tolerance
    result: tuple[float, int, float] = belief_propagation.bethe(
        scores, p, single_root, beta, True, *limits, nu
    )
    return result


def bound(
    scores: np.ndarray,
    held: np.ndarray | None,
    domain: Domain,
    beta: float,
    pi: np.ndarray,
    nu: np.ndarray,
) -> tuple[float, int, float]:
    """(bound of log Z(beta scores)/beta, rounds made, residual); pi and nu of all roles.

    held: what is added to the even split, which is then not moved (residual 0).
    """
    p, single_root, a = domain
    limits = a.rounds, a.damping, a.tolerance
    moved = EVEN if held is None else held
    found: tuple[float, int, float] = relaxed(
        verbs.loss_of(beta, 0.0), scores, moved, p, single_root, limits, pi, nu
    )
    return found


@verbs.verb
def relaxed(loss, scores, moved, p, single_root, limits, pi, nu):  # type: ignore[no-untyped-def]
    """`bound`, as kernels call it. moved: what is held, empty if nothing is; limits: rounds,
    damping and tolerance of an Approximation."""


@relaxed.implement(verbs.Smooth)
@njit(cache=True, nogil=True)
def _relaxed_sum(loss, scores, moved, p, single_root, limits, pi, nu):
    rounds, damping, tolerance = limits
    value, made, residual = convex_bound.bound(
        scores,
        moved,
        p,
        single_root,
        loss.beta,
        0 if moved.size else rounds,
        damping,
        tolerance,
        pi,
        nu,
    )
    return value / loss.beta, made, 0.0 if moved.size else residual


@relaxed.implement(verbs.Hinge)
@njit(cache=True, nogil=True)
def _relaxed_maximum(loss, scores, moved, p, single_root, limits, pi, nu):
    heads = np.empty(p.cuts.size - 1, np.int32)
    value, score, made = convex_bound.maximum(
        scores, moved, p, single_root, 0 if moved.size else limits[0], False, pi, nu, heads
    )
    return value, made, 0.0 if moved.size or proves(value, score) else 1.0


@njit(cache=True, nogil=True)
def project(beliefs, p, single_root):
    """(E,) probabilities nearest to the beliefs: those of a word's heads sum to 1, and with
    `single_root` those of the root's modifiers do too.

    Loopy beliefs need not be marginals of any distribution. The nearest, by Kullback and Leibler's
    divergence, scale all beliefs of a word by one factor and all root arcs by another, exp(x), as
    iterative proportional fitting would in the end. With the factors of the words solved for, the
    root's condition is one increasing equation, sum_m sigmoid(x + log odds of the root as head of
    m) = 1, which Newton's method solves. Beliefs that satisfy the conditions stay as they are. On
    held-out Slovene the log loss of heads is lower than with the marginals of the factor TREE,
    which are those of a distribution over trees (0.528 and 0.537).
    """
    n = p.cuts.size - 1
    b = np.maximum(beliefs, LEAST_BELIEF)
    words, odds = np.zeros(n), np.empty(n)  # sums over heads that are words; log odds of the root
    for m in range(n):
        root = 0.0
        for e in range(p.cuts[m], p.cuts[m + 1]):
            if p.heads[e] > 0:
                words[m] += b[e]
            else:
                root = b[e]
        if root == 0.0 or words[m] == 0.0:
            odds[m] = np.inf if words[m] == 0.0 else -np.inf
        else:
            odds[m] = math.log(root) - math.log(words[m])
    x = _root_shift(odds) if single_root else 0.0
    mu = np.empty(b.size)
    for m in range(n):
        root = sigmoid(odds[m] + x)
        for e in range(p.cuts[m], p.cuts[m + 1]):
            mu[e] = b[e] / words[m] * (1.0 - root) if p.heads[e] > 0 else root
    return mu


@njit(cache=True, nogil=True)
def _root_shift(odds):
    """x at which sum_m sigmoid(odds[m] + x) = 1, by Newton's method within shrinking bounds."""
    low, high, x = 4.0 * math.log(LEAST_BELIEF), -4.0 * math.log(LEAST_BELIEF), 0.0
    while True:
        error, slope = -1.0, 0.0
        for a in odds:
            share = sigmoid(a + x)
            error += share
            slope += share * (1.0 - share)
        if error > 0.0:
            high = x
        else:
            low = x
        middle = 0.5 * (low + high)
        if abs(error) <= ROOT_ERROR or middle in (low, high):
            return x
        x = x - error / slope if slope > 0.0 else middle
        if not low < x < high:
            x = middle


# ---- One tree ------------------------------------------------------------------------------------


def argmax(scores: np.ndarray, domain: Domain, heads: np.ndarray) -> float:
    """The score of the best tree that was found, which is written into heads (n,)."""
    return best_tree(scores, domain, heads)[0]


def best_tree(scores: np.ndarray, domain: Domain, heads: np.ndarray) -> tuple[float, bool]:
    """(score, whether no tree has a larger one) of the best tree that dual decomposition finds; the
    tree into heads (n,)."""
    p = domain.parts
    pi, nu = np.empty((2, scores.size + 2 * p.heads.size))
    bound, score, _ = convex_bound.maximum(
        scores, EVEN, p, domain.single_root, MAP_ROUNDS, True, pi, nu, heads
    )
    return score, proves(bound, score)


@njit(cache=True, nogil=True)
def proves(bound, score):
    """Whether an upper bound says that no tree has a larger score."""
    return bound - score <= convex_bound.OPTIMAL * max(1.0, abs(score))


def least_risk(
    beliefs: np.ndarray, domain: Domain, heads: np.ndarray, is_projective: bool = False
) -> float:
    """The largest sum of arc beliefs of a tree, or of a projective tree; the tree into heads
    (n,)."""
    p, decoder = domain.parts, projective if is_projective else tree
    scores = pruning.matrix(beliefs[: p.heads.size], p.cuts, p.heads)
    return decoder.argmax(scores, domain.single_root, heads)
