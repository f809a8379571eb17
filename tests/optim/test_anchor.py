"""Weights that are changes of given ones: the objective is regularised towards those."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.arc_problems import arc_problem
from tests.problems import chain_problem, optimum
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.certificate import certify_primal, objective
from turbotag.optim.dca import DCA
from turbotag.optim.mira import MIRA
from turbotag.optim.run import Limits, run
from turbotag.optim.sdca import SDCA
from turbotag.optim.trace import Trace

LAM = 0.05
SMOOTH = [n for n, cls in ALGORITHMS.items() if cls.losses in ("any", "smooth")]
BATCH = [*(n for n in SMOOTH if n not in ("dca", "dca-planes", "sgd")), "sdca exact"]


def rng(seed=0):
    return np.random.default_rng(seed)


def around(problem, W0):
    """min lambda/2 |w - w0|^2 + mean loss over w, by L-BFGS on a problem without an anchor."""

    def flat(w):
        W = w.reshape(problem.shape)
        value, grad = objective(problem, LAM, W)
        value += LAM * (0.5 * np.vdot(W0, W0) - np.vdot(W, W0))
        return value, (grad - LAM * W0).reshape(-1)

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    found = minimize(flat, W0.reshape(-1), jac=True, method="L-BFGS-B", options=options)
    return found.fun, found.x.reshape(problem.shape)


def anchored(problem, W0):
    problem.anchor(W0)
    return problem


@pytest.mark.parametrize("order", [1, 2])
def test_the_optimum_is_that_of_the_objective_around_the_anchor(order):
    W0 = rng(1).normal(size=chain_problem(order=order).shape)
    expected, weights = around(chain_problem(order=order), W0)
    problem = anchored(chain_problem(order=order), W0)
    value, change = optimum(problem, LAM)
    assert value == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(W0 + change, weights, atol=1e-4)
    assert certify_primal(problem, LAM, change).gap == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", BATCH)
def test_every_optimizer_finds_it(name):
    W0 = rng(1).normal(size=chain_problem().shape)
    expected, weights = around(chain_problem(), W0)
    params = {"dual": "exact"} if name == "sdca exact" else {}
    opt = algorithm(name.split()[0])(anchored(chain_problem(), W0), LAM, rng(), **params)
    found = run(opt, Limits(400, 1e-8), Trace())
    assert found.certificate.primal == pytest.approx(expected, abs=1e-6)
    assert found.certificate.dual <= expected + 1e-9
    np.testing.assert_allclose(W0 + found.weights, weights, atol=0.02)


def test_the_hinge_by_two_ways():
    W0 = rng(1).normal(size=chain_problem().shape)
    found = [
        run(
            algorithm(name)(anchored(chain_problem(beta=math.inf, gamma=1.0), W0), LAM, rng()),
            Limits(4000, 1e-3),
            Trace(),
        ).certificate
        for name in ("sdca", "egr")
    ]
    assert all(0.0 <= c.gap <= 1e-3 for c in found)
    assert abs(found[0].primal - found[1].primal) <= 1e-3


@pytest.mark.parametrize("cls", [DCA, MIRA])
def test_online_steps_are_those_of_a_start_at_the_anchor(cls):
    beta = math.inf if cls is MIRA else 1.0
    params = {"kbest": 3} if cls is MIRA else {}
    W0 = rng(1).normal(size=chain_problem().shape)
    plain = cls(chain_problem(beta=beta, gamma=1.0), LAM, rng(3), **params)
    plain.W[:] = W0
    opt = cls(anchored(chain_problem(beta=beta, gamma=1.0), W0), LAM, rng(3), **params)
    for _ in range(3):
        plain.epoch()
        opt.epoch()
    np.testing.assert_allclose(W0 + opt.W, plain.W, atol=1e-12)
    np.testing.assert_allclose(W0 + opt.weights(), plain.weights(), atol=1e-12)


@pytest.mark.parametrize(
    ("decoder", "dual"),
    [("nonprojective", "compact"), ("projective", "compact"), ("projective", "exact")],
)
def test_trees(decoder, dual):
    def make():
        return arc_problem(decoder=decoder, gamma=1.0)

    W0 = rng(1).normal(size=make().shape)
    expected, _ = around(make(), W0)
    found = run(SDCA(anchored(make(), W0), LAM, rng(), dual=dual), Limits(400, 1e-8), Trace())
    assert 0.0 <= found.certificate.gap <= 1e-8
    assert found.certificate.primal == pytest.approx(expected, abs=1e-7)
