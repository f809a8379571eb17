"""Chains over candidate lists, with pairs and without."""

import itertools
import math

import numpy as np

from tests.structures.conformance import Case, Conformance
from turbotag.structures import candidates


class TestCandidates(Conformance):
    structure, order = candidates, 1

    def draw(self, size: int, seed: int, banned: bool, scale: float = 1.0) -> Case:
        """Lists of one to four candidates; nothing is banned but by leaving it out of them."""
        rng = np.random.default_rng([size, seed])
        counts = rng.integers(1, 5 if size < 5 else 4, size)
        cuts = np.concatenate([[0], np.cumsum(counts)])
        scores = scale * rng.normal(size=candidates.size(cuts, self.order))
        every = np.array(list(itertools.product(*map(range, counts))), np.int32)
        z = np.zeros((len(every), scores.size))
        for y, stats in zip(every, z, strict=True):
            at = cuts[-1]
            for t in range(size):
                stats[cuts[t] + y[t]] = 1.0
                if t > 0 and self.order:
                    stats[at + y[t - 1] * counts[t] + y[t]] = 1.0
                    at += counts[t - 1] * counts[t]
        return Case(scores, (cuts,), every, z)

    def impossible(self):
        """Every word has a candidate."""
        return []

    def constant(self, case: Case, stats: np.ndarray) -> np.ndarray:
        (cuts,) = case.domain
        words = np.add.reduceat(stats[: cuts[-1]], cuts[:-1])
        return np.append(words, [stats[cuts[-1] :].sum()] if self.order else [])

    def counted(self):
        for T, C in ((100, 1), (30, 5), (500, 2)):
            cuts = np.arange(T + 1) * C
            scores = np.zeros(candidates.size(cuts, self.order))
            yield Case(scores, (cuts,), np.zeros((0, T)), np.zeros((0, 0))), T * math.log(C)

    def indicator(self, case: Case, structure: np.ndarray, found: np.ndarray) -> None:
        candidates.indicator(structure, *case.domain, found)


class TestIndependent(TestCandidates):
    order = 0
