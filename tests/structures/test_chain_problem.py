"""The training problem: sparse against dense features, losses against enumeration, gradients."""

import math

import numpy as np
import pytest

from tests.oracles import Enumerated, sequences, stats
from tests.problems import chain_problem, dense, objective
from turbotag.structures import mixture

LOSSES = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0), (0.5, 2.0), (math.inf, 1.0), (math.inf, 0.0)]


@pytest.mark.parametrize("order", [1, 2])
def test_sparse_features_equal_dense_ones(order):
    problem = chain_problem(order=order)
    rng = np.random.default_rng(1)
    for i in range(problem.n):
        F = dense(problem, i)
        W = rng.normal(size=problem.shape)
        d = rng.normal(size=problem.size(i))
        np.testing.assert_allclose(problem.scores(i, W), F.T @ W.reshape(-1), atol=1e-10)
        assert problem.norm_sq(i, d) == pytest.approx(float((F @ d) @ (F @ d)))
        expected = W.reshape(-1) + 0.7 * (F @ d)
        problem.add(i, d, 0.7, W)
        np.testing.assert_allclose(W.reshape(-1), expected, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("beta", "gamma"), LOSSES)
def test_loss_is_its_definition(beta, gamma, order):
    problem = chain_problem(beta=beta, gamma=gamma, n=5, longest=4, order=order)
    W = np.random.default_rng(2).normal(size=problem.shape)
    for i in range(problem.n):
        s = problem.scores(i, W).copy()
        gold = tuple(problem.labels[problem.sentences[i] : problem.sentences[i + 1]].tolist())
        z = stats(gold, problem.K, order)
        np.testing.assert_array_equal(problem.gold(i), z)
        terms = []
        for y in sequences(len(gold), problem.K):
            cost = sum(a != b for a, b in zip(y, gold, strict=True))
            assert problem.cost(i, stats(y, problem.K, order)) == pytest.approx(cost)
            terms.append(s @ (stats(y, problem.K, order) - z) + gamma * cost)
        top = max(terms)
        expected = top
        if beta < math.inf:
            expected += math.log(sum(math.exp(beta * (x - top)) for x in terms)) / beta
        value, theta, nu = problem.oracle(i, W)
        assert value - theta @ z == pytest.approx(expected, abs=1e-10)
        if beta < math.inf:
            exact = Enumerated(theta, len(gold), problem.K, beta, order=order)
            assert value - theta @ nu == pytest.approx(exact.entropy / beta, abs=1e-9)


@pytest.mark.parametrize(("beta", "gamma"), LOSSES[:4])
def test_gradient_by_finite_differences(beta, gamma):
    problem = chain_problem(beta=beta, gamma=gamma, n=4)
    w = np.random.default_rng(3).normal(size=problem.shape).reshape(-1)
    _, grad = objective(problem, 0.1, w)
    for p in range(w.size):
        h = np.zeros_like(w)
        h[p] = 1e-5
        rise = objective(problem, 0.1, w + h)[0] - objective(problem, 0.1, w - h)[0]
        assert rise / 2e-5 == pytest.approx(grad[p], abs=1e-6)


def test_radius_bounds_every_difference():
    problem = chain_problem(longest=4)
    for i in range(problem.n):
        F, z = dense(problem, i), problem.gold(i).copy()
        worst = max(
            float(np.sum((F @ (z - stats(y, problem.K))) ** 2))
            for y in sequences(int(problem.lengths[i]), problem.K)
        )
        assert worst <= problem.radius_sq()[i] + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_mixture_gain_is_a_lower_bound_of_the_entropy_of_the_mixture(seed):
    """h + gain <= H(mixture), by enumeration; and the searched step is a maximum."""
    T, K = 3, 3
    rng = np.random.default_rng(seed)
    p, q = (Enumerated(2 * rng.normal(size=T * K + K * K), T, K) for _ in range(2))
    mu, nu = (e.marginals[: T * K].reshape(T, K).copy() for e in (p, q))
    for eta in (0.0, 0.1, 0.5, 0.9, 1.0):
        m = (1 - eta) * p.p + eta * q.p
        entropy = float(-(m * np.log(m)).sum())
        bound = (1 - eta) * p.entropy + eta * q.entropy
        gains = [mixture.information(mu[t], nu[t], eta) for t in range(T)]
        assert bound + max(gains) <= entropy + 1e-12
        assert min(gains) >= -1e-12

    gap, curvature, beta = 0.4, 1.1, 2.0
    eta, gain = mixture.step(
        np.arange(T + 1) * K, mu.reshape(-1), nu.reshape(-1), gap, curvature, beta, True
    )
    assert 0 < eta < 1

    def dual(x, t):
        return x * gap - 0.5 * x * x * curvature + mixture.information(mu[t], nu[t], x) / beta

    found = eta * gap - 0.5 * eta * eta * curvature + gain
    grid = np.linspace(0, 1, 2001)
    best = [max(dual(x, t) for x in grid) for t in range(T)]
    assert any(found == pytest.approx(b, abs=1e-4) for b in best)
    flat = np.arange(T + 1) * K, mu.reshape(-1), nu.reshape(-1)
    closed, _ = mixture.step(*flat, gap, curvature, beta, False)
    assert closed == pytest.approx(gap / curvature)
    assert mixture.step(*flat, gap, curvature, np.inf, True) == (pytest.approx(closed), 0.0)
