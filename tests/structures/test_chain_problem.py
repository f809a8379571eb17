"""Chains as a training problem, and what a mixture of distributions gains."""

import numpy as np
import pytest

from tests.oracles import Enumerated, sequences, stats
from tests.problems import chain_problem, dense
from tests.structures.problem_conformance import CliqueProblem, ExactProblem, Instance
from turbotag.structures import mixture

COSTS = np.array([0.5, 3.0, 1.0, 2.0])  # of labels
SMALL = {"n": 5, "longest": 4, "K": 4}


def seen(problem):
    """The mask that allows the label pairs and ends of gold, and all of label 0."""
    allowed, start, end = np.zeros((problem.K, problem.K)), np.zeros(problem.K), np.zeros(problem.K)
    allowed[0, :] = allowed[:, 0] = start[0] = end[0] = 1.0
    for a, b in zip(problem.sentences, problem.sentences[1:], strict=False):
        gold = problem.labels[a:b]
        start[gold[0]] = end[gold[-1]] = 1.0
        allowed[gold[:-1], gold[1:]] = 1.0
    return allowed, start, end


def instance(problem, i):
    gold = problem.labels[problem.sentences[i] : problem.sentences[i + 1]]
    mask = problem.domain if problem.order else None
    every = list(sequences(gold.size, problem.K, mask))
    z = np.array([stats(y, problem.K, problem.order) for y in every])
    costs = (np.array(every) != gold) @ problem.costs[gold]
    return Instance(dense(problem, i), z, costs, every.index(tuple(gold.tolist())))


class TestOrder1(CliqueProblem):
    order = 1
    variants = ({"masked": False}, {"masked": True}, {"costs": COSTS})

    def make(self, beta, gamma, masked=False, costs=None):
        settings = SMALL | {"beta": beta, "gamma": gamma, "order": self.order, "costs": costs}
        problem = chain_problem(**settings)
        if masked:
            problem = chain_problem(mask=seen(problem), **settings)
        return problem, [instance(problem, i) for i in range(problem.n)]


class TestOrder2(ExactProblem):
    order, variants = 2, TestOrder1.variants
    make = TestOrder1.make


class TestOrder0(ExactProblem):
    order = 0
    make = TestOrder1.make


def test_a_mask_of_gold_forbids_something():
    problem = chain_problem(**SMALL)
    assert min(m.min() for m in seen(problem)) == 0.0


# ---- Mixtures ------------------------------------------------------------------------------------


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
