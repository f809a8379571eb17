"""Weights of instances, on chains and trees, against enumeration, and against copies."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.problems import chain_problem, optimum
from tests.structures import test_arc_problem, test_chain_problem
from tests.structures.problem_conformance import ExactProblem
from turbotag.distributed.sharded import ShardedSDCA
from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.base import serves
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.weighted import WeightedProblem

COUNTS = np.array([1, 3, 2, 1, 1, 4, 1, 2, 1, 1, 2, 3])
C = 2.0


def weighted(problem, known):
    """The problem with random weights, and what is known of its instances with them."""
    found = WeightedProblem(problem, np.random.default_rng(5).uniform(0.2, 4.0, problem.n))
    factors = found.weights.tolist()
    return found, [
        replace(x, F=w * x.F, costs=w * x.costs, weight=w)
        for x, w in zip(known, factors, strict=True)
    ]


class TestChains(ExactProblem):
    variants = test_chain_problem.TestOrder1.variants
    order = 1

    def make(self, beta, gamma, **variant):
        return weighted(*test_chain_problem.TestOrder1.make(self, beta, gamma, **variant))


class TestTrees(ExactProblem):
    variants = ({"single_root": True},)
    decoder = "nonprojective"

    def make(self, beta, gamma, **variant):
        return weighted(*test_arc_problem.TestTrees.make(self, beta, gamma, **variant))


def copies(problem, counts):
    """The problem with each instance as often as it counts."""
    chosen = np.repeat(np.arange(problem.n), counts)
    sentences, offsets = problem.sentences, problem.offsets

    def taken(values, ends):
        return np.concatenate([values[ends[i] : ends[i + 1]] for i in chosen])

    def ends(cuts):
        return np.concatenate([[0], np.cumsum(np.diff(cuts)[chosen])]).astype(np.int64)

    parts = [taken(values, offsets) for values in (problem.rows, problem.positions, problem.values)]
    return ChainProblem(
        ends(sentences), (ends(offsets), *parts), taken(problem.labels, sentences),
        problem.n_attributes, problem.domain, problem.beta, problem.gamma, costs=problem.costs,
    )  # fmt: skip


# those that go to the optimum of any loss that they serve
CONVERGING = (
    *("sdca", "sdca-accelerated", "smo", "lbfgs", "owl-qn", "cg", "bmrm", "svm-struct"),
    *("svm-struct-n", "eg", "eg-batch", "sag", "sag-nus"),
)
BEST = {math.inf: ("smo", "bmrm", "svm-struct", "svm-struct-n")}  # on the hinge, in finite time


@pytest.mark.parametrize("name", CONVERGING)
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (2.0, 1.0), (math.inf, 1.0)])
def test_a_weight_is_a_number_of_copies(name, beta, gamma):
    """Every optimizer reaches the optimum of the problem with copies, and proves it."""
    if not serves(ALGORITHMS[name].losses, beta, gamma) or name not in BEST.get(beta, CONVERGING):
        pytest.skip(f"{name} does not go to the optimum of this loss")
    settings = {"beta": beta, "gamma": gamma, "costs": np.array([1.0, 3.0, 0.5])}
    many = copies(chain_problem(**settings), COUNTS)
    problem = WeightedProblem(chain_problem(**settings), COUNTS.astype(float))
    lam = 1.0 / (C * many.n)
    assert problem.total == many.n
    if beta < math.inf:
        expected = optimum(many, lam)[0]
    else:
        exact = ALGORITHMS["smo"](many, lam, np.random.default_rng(0))
        expected = run(exact, Limits(2000, 1e-9), Trace()).certificate.primal
    opt = ALGORITHMS[name](problem, lam, np.random.default_rng(0))
    trace = Trace()
    found = run(opt, Limits(3000, 1e-8), trace)
    assert found.certificate.gap <= 1e-8
    assert found.certificate.primal == pytest.approx(expected, abs=1e-7)
    assert all(row.gap is None or row.gap >= -1e-9 for row in trace.rows)


@pytest.mark.parametrize("name", ["dca", "mira", "perceptron", "sgd", "dca-planes"])
def test_online_methods_take_weights(name):
    """An instance of weight omega may move the weights omega times as far: that of weight 1e-6
    hardly does."""
    gamma = 0.0 if name == "perceptron" else 1.0
    problem = chain_problem(beta=math.inf, gamma=gamma)
    weights = np.where(np.arange(problem.n) == 3, 1.0, 1e-6)
    opt = ALGORITHMS[name](WeightedProblem(problem, weights), 0.1, np.random.default_rng(0))
    opt.epoch()
    alone = np.zeros(problem.shape)
    problem.add(3, np.ones(problem.size(3)), 1.0, alone)
    moved = np.abs(opt.weights()) > 1e-3 * np.abs(opt.weights()).max()
    assert moved.any()
    assert not (moved & (alone == 0.0)).any()


def test_anchored_weights():
    """Weights of instances and an anchor, together: gaps are those of any problem."""
    problem = WeightedProblem(chain_problem(gamma=0.5), COUNTS.astype(float))
    problem.anchor(np.random.default_rng(1).normal(size=problem.shape))
    opt = ALGORITHMS["sdca"](problem, 0.05, np.random.default_rng(0))
    found = run(opt, Limits(400, 1e-8), Trace())
    assert -1e-9 <= found.certificate.gap <= 1e-8
    assert found.certificate.primal == pytest.approx(optimum(problem, 0.05)[0], abs=1e-7)


def test_weights_on_shards():
    problem = WeightedProblem(chain_problem(gamma=0.5), COUNTS.astype(float))
    opt = ShardedSDCA(problem, 0.05, np.random.default_rng(0), shards=3)
    found = run(opt, Limits(400, 1e-8), Trace())
    assert -1e-9 <= found.certificate.gap <= 1e-8
    assert found.certificate.primal == pytest.approx(optimum(problem, 0.05)[0], abs=1e-7)
