"""Beliefs made into probabilities: sums of 1, the nearest there are, and no change where none is
needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import gibbs, sentence, structures
from turbotag.structures import pruning, second_order

flags = st.booleans()
seeds = st.integers(0, 10_000)
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
