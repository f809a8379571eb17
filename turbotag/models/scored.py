"""A sentence with the scores of its arcs or parts: its best tree, the probabilities of its arcs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turbotag.structures import parts, pruning, second_order

if TYPE_CHECKING:
    from turbotag.models.parser import Parser


@dataclass
class Parsed:
    """Trees of a block: heads (tokens,), ids of labels, and, where asked for, the probability that
    each head, and each label, is right."""

    heads: np.ndarray
    labels: np.ndarray
    head_probability: np.ndarray | None = None
    label_probability: np.ndarray | None = None
    proven: int = 0  # sentences whose tree is proven to have the largest score


@dataclass
class FirstOrder:
    """A sentence with the scores of its arcs, (n+1, n+1)."""

    parser: Parser
    scores: np.ndarray

    def decode(self, how: str) -> tuple[np.ndarray, bool]:
        """(heads, whether the tree is proven to be the one with the largest score)."""
        if how != "posterior":
            return self.parser.best(self.scores), True
        mu = self.arcs(1.0)
        return self.parser.best(np.where(self.scores > -np.inf, mu, -np.inf)), False

    def arcs(self, sharpness: float) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs."""
        return self.parser.posterior(self.scores, sharpness)[1]


@dataclass
class SecondOrder:
    """A sentence with the scores of its parts."""

    parser: Parser
    theta: np.ndarray
    parts: parts.Parts

    @property
    def domain(self) -> second_order.Domain:
        return second_order.Domain(self.parts, self.parser.single_root, self.parser.approximation)

    @cached_property
    def beliefs(self) -> np.ndarray:
        """Beliefs of the candidate arcs: approximate probabilities, which may not even sum to 1."""
        mu = np.empty(self.theta.size)
        second_order.marginals(self.theta, self.domain, self.parser.beta, mu)
        return mu[: self.parts.heads.size]

    def decode(self, how: str) -> tuple[np.ndarray, bool]:
        """(heads, whether the tree is proven to be the one with the largest score): by beliefs the
        tree with the fewest expected errors, or the best score."""
        if how == "map" or self.parser.decodes_map:
            heads = np.empty(self.parts.cuts.size - 1, np.int32)
            return heads, second_order.best_tree(self.theta, self.domain, heads)[1]
        return self.parser.best(self._matrix(self.beliefs)), False

    def arcs(self, sharpness: float) -> np.ndarray:
        """(n+1, n+1) probabilities of arcs: the distribution nearest to powers of the beliefs.

        Beliefs at another temperature would have to be found again, and gain little (Slovene: a log
        loss of 0.516 instead of 0.514 with the convex bound, 0.550 instead of 0.568 with Bethe's).
        """
        mu = second_order.project(self.beliefs**sharpness, self.parts, self.parser.single_root)
        return np.maximum(self._matrix(mu), 0.0)

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        found: np.ndarray = pruning.matrix(values, self.parts.cuts, self.parts.heads)
        return found
