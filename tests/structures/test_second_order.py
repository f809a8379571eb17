"""Second-order trees: approximate verbs, and beliefs made into probabilities."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import gibbs, sentence, structures
from tests.structures.conformance import BETAS, Best, Case, Exact, Probabilities
from turbotag.structures import parts, pruning, second_order
from turbotag.structures.second_order import Approximation, Domain

flags = st.booleans()
seeds = st.integers(0, 10_000)


class SecondOrder(Probabilities, Best):
    """Scores of arcs alone, so that the best tree is found; a single root at even seeds."""

    structure = second_order
    approximation: Approximation

    def draw(self, size, seed, banned, scale=1.0):
        s, single_root = sentence(size, seed, banned, seed < 2), seed % 2 == 0
        scores = s.draw(np.random.default_rng([size, seed]), scale, 0.0)
        domain = Domain(s.p, single_root, self.approximation)
        return Case(scores, (domain,), *structures(s, single_root))

    def arcs(self, case):
        return np.arange(case.scores.size) < case.domain[0].parts.heads.size

    def probabilities(self, case, mu):
        return mu[self.arcs(case)]

    def indicator(self, case, structure, found):
        parts.indicator(structure, case.domain[0].parts, found)


class TestConvex(SecondOrder):
    approximation = Approximation()

    def test_log_partition_is_a_bound(self):
        for beta, case in zip(itertools.cycle(BETAS), self.cases(), strict=False):
            assert self.marginals(case, beta)[0] >= case.gibbs(beta).log_partition


class TestBethe(SecondOrder, Exact):
    """Without scores of other parts the factors form a forest, and all arcs are exact."""

    approximation, tolerance = Approximation("bethe", 300, 0.0, 1e-11), 1e-7

    def exact_parts(self, case):
        return self.arcs(case)

    def constant(self, case, stats):
        """The heads of each word, and the root's modifiers if there is one."""
        p, single_root, _ = case.domain[0]
        found = np.bincount(p.mods, stats[self.arcs(case)])[1:]
        roots = [stats[self.arcs(case)][p.heads == 0].sum()] if single_root else []
        return np.append(found, roots)

    def counted(self):
        return []


# ---- Projection ----------------------------------------------------------------------------------

VALUES = [0.0, 1e-320, 1e-30, 1e-3, 0.2, 0.9, 1.0]


def matrix(mu, s):
    return np.maximum(pruning.matrix(mu, s.p.cuts, s.p.heads), 0.0)


def fitted(beliefs, s, single_root, rounds=20_000):
    """Iterative proportional fitting, the textbook's way to the nearest probabilities."""
    mu = matrix(beliefs, s)
    for _ in range(rounds):
        if single_root:
            mu[0] /= mu[0].sum()
        mu[:, 1:] /= mu[:, 1:].sum(axis=0)
    return mu


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 7), seeds, flags, flags, flags)
def test_any_beliefs_become_distributions(n, seed, pruned, single_root, extreme):
    s, rng = sentence(n, seed, pruned, False), np.random.default_rng(seed)
    beliefs = rng.choice(VALUES, s.E) if extreme else rng.random(s.E)
    mu = matrix(second_order.project(beliefs, s.p, single_root), s)
    assert mu.min() >= 0.0
    np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=1e-9)
    if single_root:
        assert mu[0].sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("single_root", [True, False])
def test_they_are_the_nearest_ones(single_root):
    for seed in range(10):
        s = sentence(5, seed, False, False)
        beliefs = np.random.default_rng(seed).uniform(0.01, 1.0, s.E)
        mu = matrix(second_order.project(beliefs, s.p, single_root), s)
        np.testing.assert_allclose(mu, fitted(beliefs, s, single_root), atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), seeds, flags, flags, st.sampled_from([0.3, 3.0, 30.0]))
def test_exact_marginals_stay_as_they_are(n, seed, pruned, single_root, scale):
    s = sentence(n, seed, pruned, False)
    theta = s.draw(np.random.default_rng(seed), scale, scale)
    _, Z = structures(s, single_root)
    exact = gibbs(Z @ theta, Z)[1][: s.E]
    np.testing.assert_allclose(second_order.project(exact, s.p, single_root), exact, atol=1e-9)
