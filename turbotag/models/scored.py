"""Sentences with the scores of their arcs or parts: the best trees, the probabilities of arcs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turbotag.structures import parts, pruning, second_order

if TYPE_CHECKING:
    from turbotag.models.parser import Parser


@dataclass
class Parsed:
    """Trees of a block: heads (tokens,), the ids of labels and, if asked for, the probabilities
    that each head and each label is right."""

    heads: np.ndarray
    labels: np.ndarray
    head_probability: np.ndarray | None = None
    label_probability: np.ndarray | None = None
    proven: int = 0  # sentences whose tree is proven to have the largest score


@dataclass
class FirstOrder:
    """The sentences of a block with the scores of their arcs, (n+1, n+1), one after the other."""

    parser: Parser
    sentences: np.ndarray
    scores: np.ndarray

    def decode(self, how: str) -> tuple[np.ndarray, int]:
        """(heads, how many trees are proven to have the largest score)."""
        if how != "posterior":
            return self.parser.best_of_each(self.scores, self.sentences), self.sentences.size - 1
        mu = np.where(self.scores > -np.inf, self.arcs(1.0), -np.inf)
        return self.parser.best_of_each(mu, self.sentences), 0

    def arcs(self, sharpness: float) -> np.ndarray:
        """The probabilities of arcs, (n+1, n+1) of each sentence, one after the other."""
        return self.parser.posterior_of_each(self.scores, self.sentences, sharpness)


class ScoredParts(NamedTuple):
    """The parts of a sentence and their scores."""

    theta: np.ndarray
    parts: parts.Parts


@dataclass
class SecondOrder:
    """The sentences of a block with the scores of their parts."""

    parser: Parser
    sentences: np.ndarray
    each: list[ScoredParts]

    def _domain(self, p: parts.Parts) -> second_order.Domain:
        return second_order.Domain(p, self.parser.single_root, self.parser.approximation)

    @cached_property
    def beliefs(self) -> list[np.ndarray]:
        """Beliefs of the candidate arcs: approximate probabilities, which may not even sum to 1."""
        found = []
        for theta, p in self.each:
            mu = np.empty(theta.size)
            second_order.marginals(theta, self._domain(p), self.parser.beta, mu)
            found.append(mu[: p.heads.size])
        return found

    def decode(self, how: str) -> tuple[np.ndarray, int]:
        """(heads, how many trees are proven to have the largest score). By beliefs, the trees are
        those with the fewest expected errors."""
        if how != "map" and not self.parser.decodes_map:
            return self.parser.best_of_each(self._squares(self.beliefs), self.sentences), 0
        heads, proven = np.empty(self.sentences[-1], np.int32), 0
        for (theta, p), a, b in zip(
            self.each, self.sentences[:-1].tolist(), self.sentences[1:].tolist(), strict=True
        ):
            proven += second_order.best_tree(theta, self._domain(p), heads[a:b])[1]
        return heads, proven

    def arcs(self, sharpness: float) -> np.ndarray:
        """The probabilities of arcs, (n+1, n+1) of each sentence, one after the other: the
        distribution nearest to powers of the beliefs.

        Beliefs at another temperature would have to be found again, and gain little (Slovene: a log
        loss of 0.516 instead of 0.514 with the convex bound, 0.550 instead of 0.568 with Bethe's).
        """
        single_root = self.parser.single_root
        mu = [
            second_order.project(beliefs**sharpness, p, single_root)
            for beliefs, (_, p) in zip(self.beliefs, self.each, strict=True)
        ]
        return np.maximum(self._squares(mu), 0.0)

    def _squares(self, values: list[np.ndarray]) -> np.ndarray:
        each = [
            pruning.matrix(own, p.cuts, p.heads).reshape(-1)
            for own, (_, p) in zip(values, self.each, strict=True)
        ]
        return np.concatenate(each)
