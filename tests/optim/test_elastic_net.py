"""The elastic net: weights that are exactly 0, the optimum of a method with bounds, its gap."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag.errors import UsageError
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import serves
from turbotag.optim.certificate import certify_primal, objective, soft
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace

LAM = 0.05
ABLE = {name for name, cls in ALGORITHMS.items() if any(p.name == "l1" for p in cls.params)}
makers = pytest.mark.parametrize("make", [chain_problem, arc_problem])


def rng(seed=0):
    return np.random.default_rng(seed)


def bounded(problem, l1):
    """min f(p - q) + l1 sum (p + q) over p, q >= 0, by L-BFGS-B."""
    size = int(np.prod(problem.shape))

    def flat(x):
        value, grad = objective(problem, LAM, (x[:size] - x[size:]).reshape(problem.shape))
        grad = grad.reshape(-1)
        return value + l1 * x.sum(), np.concatenate([grad + l1, l1 - grad])

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 10**6}
    bounds = [(0.0, None)] * (2 * size)
    x = minimize(
        flat, np.zeros(2 * size), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return x.fun, (x.x[:size] - x.x[size:]).reshape(problem.shape)


@makers
@pytest.mark.parametrize("l1", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("name", sorted(ABLE))
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (3.0, 1.0)])
def test_the_optimum_and_its_zeros(make, l1, name, beta, gamma):
    problem = make(beta=beta, gamma=gamma)
    expected, weights = bounded(problem, l1)
    trace = Trace()
    result = run(algorithm(name)(problem, LAM, rng(), l1=l1), Limits(2000, 1e-9), trace)
    assert 0.0 <= result.certificate.gap <= 1e-9
    assert result.certificate.primal == pytest.approx(expected, abs=1e-7)
    assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows)
    np.testing.assert_allclose(result.weights, weights, atol=1e-3)
    sure = np.abs(weights) > 1e-3
    assert (result.weights[sure] != 0.0).all()
    assert (result.weights == 0.0).sum() >= 0.9 * (weights == 0.0).sum()


@makers
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (3.0, 1.0)])
def test_hardly_any_squared_norm_is_certified(make, beta, gamma, monkeypatch):
    """|w|_1 alone makes the minimum one point in all but name, and the gap closes all the same."""
    problem = make(beta=beta, gamma=gamma)
    trace = Trace()
    result = run(algorithm("owl-qn")(problem, 1e-10, rng(), l1=0.05), Limits(2000, 1e-6), trace)
    assert result.certificate.gap <= 1e-6
    rows = [row for row in trace.rows if row.gap is not None]
    assert all(result.certificate.gap - 1e-9 <= row.gap <= row.primal for row in rows)
    monkeypatch.setattr("tests.optim.test_elastic_net.LAM", 1e-10)
    expected, _ = bounded(problem, 0.05)
    assert result.certificate.dual <= expected + 1e-9
    assert result.certificate.primal == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("name", sorted(ABLE))
def test_without_l1_nothing_changes(name):
    problem = chain_problem()
    runs = [algorithm(name)(problem, LAM, rng(), **given) for given in ({}, {"l1": 0.0})]
    for opt in runs:
        opt.epoch()
        opt.epoch()
    assert runs[0].weights().tobytes() == runs[1].weights().tobytes()


def test_without_l1_owl_qn_is_as_fast_as_lbfgs():
    """No orthant holds it up."""
    epochs = {}
    for name in ("owl-qn", "lbfgs"):
        opt = algorithm(name)(chain_problem(beta=3.0, gamma=1.0), 0.02, rng())
        assert run(opt, Limits(200, 1e-8), Trace()).certificate.gap <= 1e-8
        epochs[name] = opt.epochs
    assert epochs["owl-qn"] <= 1.5 * epochs["lbfgs"]


@makers
def test_the_gap_at_any_weights_is_one_of_the_optimum(make):
    problem, l1 = make(gamma=1.0), 0.1
    expected, weights = bounded(problem, l1)
    for W in (np.zeros(problem.shape), weights, rng(1).normal(size=problem.shape)):
        found = certify_primal(problem, LAM, W, l1)
        assert found.dual - 1e-9 <= expected <= found.primal + 1e-9
    assert certify_primal(problem, LAM, weights, l1).gap == pytest.approx(0.0, abs=1e-6)


def test_a_threshold():
    np.testing.assert_array_equal(
        soft(np.array([-3.0, -1.0, 0.5, 2.0]), 1.0), [-2.0, -0.0, 0.0, 1.0]
    )


def test_the_exact_dual_has_none():
    with pytest.raises(UsageError, match="needs --dual compact"):
        algorithm("sdca")(chain_problem(), LAM, rng(), l1=0.1, dual="exact")


def test_others_refuse_it():
    for name in ALGORITHMS.keys() - ABLE:
        beta = 1.0 if serves(ALGORITHMS[name].losses, 1.0, 0.0) else np.inf
        with pytest.raises(UsageError, match="no parameter 'l1', which owl-qn, sdca take"):
            algorithm(name)(chain_problem(beta=beta), LAM, rng(), l1=0.1)
