"""Chains of orders 1 and 2: sums in both number ranges, cliques."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import Enumerated, random_mask
from tests.structures.conformance import ChainConformance
from turbotag.structures import chain, chain2, chain_cliques
from turbotag.structures.cliques import mix


class TestChain(ChainConformance):
    structure = chain

    def test_logarithms_agree_with_scaled_sums(self):
        for case in self.cases(10.0):
            if self.order == 1 or case.every.shape[1] > 1:
                log_z, mu = self.marginals(case)
                by_logs = np.full_like(mu, np.nan)
                other = self.structure.marginals_by_logs(case.scores, *case.domain, 1.0, by_logs)
                assert other == pytest.approx(log_z, rel=1e-12)
                np.testing.assert_allclose(by_logs, mu, atol=1e-10)


class TestChain2(TestChain):
    structure, order = chain2, 2

    def test_expand_keeps_scores(self):
        case = self.draw(4, 3, True)
        pairs, *mask = chain2.expand(case.scores, *case.domain)
        big = Enumerated(pairs, 3, self.labels(case) ** 2, mask=mask)
        np.testing.assert_allclose(np.sort(case.gibbs().scores), np.sort(big.scores))


# ---- Cliques -------------------------------------------------------------------------------------

cases = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10_000), st.booleans())


def draw(T, K, seed, masked, scale=1.0):
    rng = np.random.default_rng(seed)
    mask = random_mask(rng, K) if masked else chain.free(K)
    return scale * rng.normal(size=T * K + K * K), mask, rng


def cliques(theta, T, K, mask, beta=1.0):
    size = chain_cliques.size(T, K)
    nu, log_nu = np.empty(size), np.empty(size)
    log_z = chain_cliques.marginals(theta, *mask, beta, nu, log_nu)
    return log_z, nu, log_nu


@settings(max_examples=40, deadline=None)
@given(cases, st.sampled_from([1.0, 30.0, 400.0]))
def test_cliques(case, scale):
    """Entropy, stats and both divergences of clique distributions, against enumeration."""
    T, K, seed, masked = case
    theta, mask, rng = draw(T, K, seed, masked, scale)
    exact = Enumerated(theta, T, K, mask=mask)
    log_z, nu, log_nu = cliques(theta, T, K, mask)
    assert log_z == pytest.approx(exact.log_partition, rel=1e-12, abs=1e-10)
    assert chain_cliques.entropy(nu, log_nu, T, K) == pytest.approx(exact.entropy, abs=1e-8)
    flat = np.empty_like(theta)
    chain_cliques.stats(nu, T, K, flat)
    np.testing.assert_allclose(flat, exact.marginals, atol=1e-9)

    other = theta + 0.3 * rng.normal(size=theta.size)
    q = Enumerated(other, T, K, mask=mask)
    _, mu, log_mu = cliques(other, T, K, mask)
    forward, reverse = chain_cliques.kl(mu, log_mu, nu, log_nu, T, K)
    log_p, log_q = exact.scores - exact.log_partition, q.scores - q.log_partition
    assert forward == pytest.approx(float((q.p * (log_q - log_p)).sum()), abs=1e-8)
    assert reverse == pytest.approx(float((exact.p * (log_p - log_q)).sum()), abs=1e-8)


@pytest.mark.parametrize("scale", [1e6, 1e12, 1e16, 1e24])
def test_cliques_of_scores_that_rounding_decides(scale):
    T, K = 6, 3
    for seed in range(10):
        theta, mask, rng = draw(T, K, seed, seed % 2 == 1, scale)
        for scores in (theta, scale * rng.choice([-1.0, 1.0], theta.size)):
            _, mu, log_mu = cliques(scores, T, K, mask)
            assert mu.max() <= 1.0
            assert np.isfinite(log_mu).all()
            np.testing.assert_allclose(mu[: T * K].reshape(T, K).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 4])
def test_line_is_the_derivative_of_the_entropy_of_the_mixture(T):
    K, h = 3, 1e-5
    theta, mask, rng = draw(T, K, 2, False)
    _, mu, log_mu = cliques(theta, T, K, mask)
    _, nu, log_nu = cliques(rng.normal(size=theta.size), T, K, mask)

    def entropy(eta):
        m, log_m = mu.copy(), log_mu.copy()
        mix(m, log_m, nu, log_nu, eta)
        np.testing.assert_allclose(np.exp(log_m), m, atol=1e-14)
        return chain_cliques.entropy(m, log_m, T, K)

    for eta in (0.1, 0.5, 0.9):
        first, second = chain_cliques.line(mu, nu, eta, T, K)
        up, here, down = entropy(eta + h), entropy(eta), entropy(eta - h)
        assert first == pytest.approx((up - down) / (2 * h), abs=1e-7)
        assert second == pytest.approx((up - 2 * here + down) / h**2, abs=1e-3)


def test_mixing_keeps_logs_of_probabilities_that_underflow():
    mu, nu = np.zeros(2), np.array([0.0, 1.0])
    log_mu, log_nu = np.array([-900.0, -800.0]), np.array([-1000.0, 0.0])
    mix(mu, log_mu, nu, log_nu, 0.25)
    np.testing.assert_allclose(log_mu, [-900 + math.log(0.75), math.log(0.25)])
