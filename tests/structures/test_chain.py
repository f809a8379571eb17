"""Chain kernels against enumeration, orders 1 and 2, with and without masks."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import Enumerated, random_mask, sequences, stats
from turbotag.structures import chain, chain2, chain_cliques
from turbotag.structures.cliques import mix

cases = st.tuples(
    st.integers(1, 5), st.integers(1, 4), st.integers(0, 10_000), st.booleans(), st.integers(1, 2)
)


def draw(T, K, seed, masked, order, scale=1.0):
    rng = np.random.default_rng(seed)
    theta = scale * rng.normal(size=T * K + K * K + (K**3 if order == 2 else 0))
    mask = random_mask(rng, K) if masked else chain.free(K)
    return theta, mask, rng


def inference(order):
    return chain if order == 1 else chain2


@settings(max_examples=60, deadline=None)
@given(cases, st.sampled_from([0.3, 1.0, 3.0]))
def test_log_partition_and_marginals(case, beta):
    T, K, seed, masked, order = case
    theta, mask, _ = draw(T, K, seed, masked, order)
    exact = Enumerated(theta, T, K, beta, mask, order)
    for kernel in (inference(order).marginals, inference(order).marginals_by_logs):
        if kernel is chain2.marginals_by_logs and T < 2:
            continue
        nu = np.full_like(theta, np.nan)
        log_z = kernel(theta, *mask, beta, nu)
        assert log_z == pytest.approx(exact.log_partition, abs=1e-10)
        np.testing.assert_allclose(nu, exact.marginals, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_argmax(case):
    T, K, seed, masked, order = case
    theta, mask, _ = draw(T, K, seed, masked, order)
    exact = Enumerated(theta, T, K, mask=mask, order=order)
    labels = np.empty(T, np.int32)
    assert inference(order).argmax(theta, *mask, labels) == pytest.approx(exact.scores.max())
    assert tuple(labels) == exact.ys[exact.scores.argmax()]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [200.0, 700.0])
def test_huge_potentials(order, masked, scale):
    """Where the scaled recursion would underflow the result is still exact and finite."""
    T, K = 4, 3
    for seed in range(10):
        theta, mask, _ = draw(T, K, seed, masked, order, scale)
        exact = Enumerated(theta, T, K, 1.0, mask, order)
        nu = np.empty_like(theta)
        log_z = inference(order).marginals(theta, *mask, 1.0, nu)
        assert log_z == pytest.approx(exact.log_partition, rel=1e-12)
        np.testing.assert_allclose(nu, exact.marginals, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [1e6, 1e12, 1e16, 1e24])
def test_potentials_that_rounding_decides(order, masked, scale):
    """Whatever the potentials, every position has probabilities that sum to 1."""
    T, K = 6, 3
    for seed in range(10):
        theta, mask, rng = draw(T, K, seed, masked, order, scale)
        for potentials in (theta, scale * rng.choice([-1.0, 1.0], theta.size)):
            nu, best = np.empty_like(theta), np.empty(T, np.int32)
            log_z = inference(order).marginals(potentials, *mask, 1.0, nu)
            assert nu.min() >= 0.0
            np.testing.assert_allclose(nu[: T * K].reshape(T, K).sum(axis=1), 1.0, atol=1e-12)
            assert nu[T * K : T * K + K * K].sum() == pytest.approx(T - 1)
            top = inference(order).argmax(potentials, *mask, best)
            assert log_z == pytest.approx(top, rel=1e-12, abs=10.0)
            if order == 1:
                log_z, mu, log_mu = cliques(potentials, T, K, mask)
                assert mu.max() <= 1.0
                assert np.isfinite(log_mu).all()
                np.testing.assert_allclose(mu[: T * K].reshape(T, K).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("T", "K"), [(1, 1), (1, 5), (4, 3), (6, 2)])
def test_counts_sequences(T, K):
    nu = np.empty(T * K + K * K)
    log_z = chain.marginals(np.zeros_like(nu), *chain.free(K), 1.0, nu)
    assert math.exp(log_z) == pytest.approx(K**T)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_of_log_partition_is_the_marginals(order):
    T, K, h = 4, 3, 1e-6
    theta, mask, _ = draw(T, K, 5, False, order)
    log_z, nu = inference(order).log_partition, np.empty_like(theta)
    inference(order).marginals(theta, *mask, 1.0, nu)
    for p in range(theta.size):
        up, down = theta.copy(), theta.copy()
        up[p] += h
        down[p] -= h
        rise = log_z(up, *mask, 1.0) - log_z(down, *mask, 1.0)
        assert rise / (2 * h) == pytest.approx(nu[p], abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(cases, st.integers(1, 7))
def test_kbest(case, n):
    T, K, seed, masked, _ = case
    theta, mask, _ = draw(T, K, seed, masked, 1)
    exact = Enumerated(theta, T, K, mask=mask)
    paths, scores = chain.kbest(theta, *mask, n)
    assert len(scores) == min(n, len(exact.ys))
    np.testing.assert_allclose(scores, np.sort(exact.scores)[::-1][:n], atol=1e-10)
    assert len({tuple(p) for p in paths}) == len(paths)
    np.testing.assert_allclose([stats(tuple(p), K) @ theta for p in paths], scores, atol=1e-10)


def test_expand_keeps_scores():
    T, K = 4, 3
    theta, mask, _ = draw(T, K, 3, True, 2)
    pairs, allowed, start, end = chain2.expand(theta, *mask)
    small = Enumerated(theta, T, K, mask=mask, order=2)
    big = Enumerated(pairs, T - 1, K * K, mask=(allowed, start, end))
    np.testing.assert_allclose(np.sort(small.scores), np.sort(big.scores))


@pytest.mark.parametrize("masked", [False, True])
def test_samples_have_the_right_frequencies(masked):
    T, K, n = 3, 3, 20_000
    theta, mask, rng = draw(T, K, 1, masked, 1)
    exact = Enumerated(theta, T, K, mask=mask)
    counts = dict.fromkeys(exact.ys, 0)
    path = np.empty(T, np.int32)
    for _ in range(n):
        chain.sample(theta, *mask, 1.0, rng, path)
        counts[tuple(path.tolist())] += 1
    observed = np.array([counts[y] for y in exact.ys]) / n
    assert np.abs(observed - exact.p).max() < 5 * math.sqrt(0.25 / n)


def cliques(theta, T, K, mask, beta=1.0):
    size = chain_cliques.size(T, K)
    nu, log_nu = np.empty(size), np.empty(size)
    log_z = chain_cliques.marginals(theta, *mask, beta, nu, log_nu)
    return log_z, nu, log_nu


@settings(max_examples=40, deadline=None)
@given(cases, st.sampled_from([1.0, 30.0, 400.0]))
def test_cliques(case, scale):
    """Entropy, stats and both divergences of clique distributions, against enumeration."""
    T, K, seed, masked, _ = case
    theta, mask, rng = draw(T, K, seed, masked, 1, scale)
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


@pytest.mark.parametrize("T", [1, 2, 4])
def test_clique_line_is_the_derivative_of_the_entropy_of_the_mixture(T):
    K, h = 3, 1e-5
    theta, mask, rng = draw(T, K, 2, False, 1)
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


def test_oracle_counts_masked_sequences():
    rng = np.random.default_rng(0)
    mask = random_mask(rng, 3)
    nu = np.empty(4 * 3 + 9)
    log_z = chain.marginals(np.zeros_like(nu), *mask, 1.0, nu)
    assert math.exp(log_z) == pytest.approx(len(list(sequences(4, 3, mask))))
