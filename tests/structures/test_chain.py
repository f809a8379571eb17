"""Chains of orders 1 and 2: sums in both number ranges, cliques."""

import math

import numpy as np
import pytest

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


@pytest.mark.parametrize("scale", [1e6, 1e12, 1e16, 1e24])
def test_cliques_of_scores_that_rounding_decides(scale):
    T, K = 6, 3
    mu, log_mu = np.empty((2, chain_cliques.size(T, K)))
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mask = random_mask(rng, K) if seed % 2 else chain.free(K)
        for scores in (rng.normal(size=T * K + K * K), rng.choice([-1.0, 1.0], T * K + K * K)):
            chain_cliques.marginals(scale * scores, *mask, 1.0, mu, log_mu)
            assert mu.max() <= 1.0
            assert np.isfinite(log_mu).all()
            np.testing.assert_allclose(mu[: T * K].reshape(T, K).sum(axis=1), 1.0, atol=1e-12)


def test_mixing_keeps_logs_of_probabilities_that_underflow():
    mu, nu = np.zeros(2), np.array([0.0, 1.0])
    log_mu, log_nu = np.array([-900.0, -800.0]), np.array([-1000.0, 0.0])
    mix(mu, log_mu, nu, log_nu, 0.25)
    np.testing.assert_allclose(log_mu, [-900 + math.log(0.75), math.log(0.25)])
