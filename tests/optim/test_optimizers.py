"""Optimizers: gaps never negative, the same optimum by every way, exact bookkeeping, same bytes."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.oracles import random_mask
from tests.problems import chain_problem, objective
from turbotag.errors import UsageError
from turbotag.optim.certificate import NegativeGapError, certify_primal, check_gap
from turbotag.optim.dca import DCA
from turbotag.optim.run import Limits, run
from turbotag.optim.sampling import SCHEMES, Sampler
from turbotag.optim.sdca import SDCA
from turbotag.optim.trace import Trace

SMOOTH = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0)]
LAM = 0.05


def rng(seed=0):
    return np.random.default_rng(seed)


def optimum(problem, lam):
    """P* by L-BFGS."""
    start = np.zeros(problem.shape).reshape(-1)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    found = minimize(
        lambda w: objective(problem, lam, w), start, jac=True, method="L-BFGS-B", options=options
    )
    return found.fun, found.x.reshape(problem.shape)


@pytest.mark.parametrize("dual", ["compact", "exact"])
@pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
def test_sdca_reaches_the_optimum_of_lbfgs(dual, beta, gamma):
    problem = chain_problem(beta=beta, gamma=gamma)
    expected, weights = optimum(problem, LAM)
    opt = SDCA(problem, LAM, rng(), dual=dual)
    result = run(opt, Limits(400, 1e-10), Trace())
    assert result.certificate.gap <= 1e-10
    assert result.certificate.primal == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(result.weights, weights, atol=1e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_sdca_of_a_masked_chain(order):
    mask = random_mask(np.random.default_rng(4), 3)
    problem = chain_problem(order=order)
    problem.mask = mask
    rows = problem.labels
    rows[:] = 0  # the one label that every mask allows
    expected, _ = optimum(problem, LAM)
    result = run(SDCA(problem, LAM, rng()), Limits(400, 1e-9), Trace())
    assert result.certificate.primal == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("sampling", SCHEMES)
@pytest.mark.parametrize("dual", ["compact", "exact"])
def test_running_dual_and_gaps_at_every_step(sampling, dual):
    """Each step raises the dual by what it says, no gap is negative, W stays w(alpha)."""
    problem = chain_problem(beta=2.0, gamma=0.5)
    opt = SDCA(problem, LAM, rng(), dual=dual, sampling=sampling)
    for _ in range(4):
        before = opt.dual
        opt.epoch()
        assert opt.dual >= before - 1e-12
        running = opt.dual
        certificate = opt.certify()
        assert certificate.gap >= -1e-9
        assert certificate.dual == pytest.approx(running, abs=1e-10)
        W = opt.W.copy()
        opt.finish()
        np.testing.assert_allclose(opt.W, W, atol=1e-10)
        for i in range(problem.n):
            gap, gain = opt.duals.step(i, opt.W)
            assert gap >= -1e-9
            assert gain >= -1e-12
            opt.dual += gain / problem.n


def test_hinge_loss_is_block_coordinate_frank_wolfe():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    result = run(SDCA(problem, LAM, rng()), Limits(1000, 1e-2), Trace())
    smooth = chain_problem(beta=2000.0, gamma=1.0)  # within log(K^T)/beta of the hinge
    expected, _ = optimum(smooth, LAM)
    assert result.certificate.gap <= 1e-2
    assert result.certificate.primal == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize(("beta", "gamma"), [*SMOOTH, (math.inf, 1.0)])
def test_first_epoch_of_compact_sdca_is_an_epoch_of_dca(beta, gamma):
    problem = chain_problem(beta=beta, gamma=gamma)
    sdca, dca = SDCA(problem, LAM, rng()), DCA(problem, LAM, rng())
    sdca.rng.random((problem.n, 2))  # sdca draws its samples before its permutation
    state = sdca.rng.bit_generator.state
    sdca.rng = rng()
    dca.rng.bit_generator.state = state
    sdca.epoch()
    dca.epoch()
    np.testing.assert_allclose(sdca.W, dca.W, atol=1e-12)


def test_dca_on_the_hinge_is_one_best_mira():
    """Step min{C, loss / |difference|^2} on the cost-augmented best answer."""
    problem = chain_problem(beta=math.inf, gamma=1.0)
    dca = DCA(problem, LAM, rng())
    W, C = np.zeros(problem.shape), 1.0 / (LAM * problem.n)
    seen = []
    for i in rng().permutation(problem.n):
        _, theta, worst = problem.oracle(i, W)
        worst, gold = worst.copy(), problem.gold(i).copy()
        violation = theta @ worst - theta @ gold
        if violation > 0:
            norm = problem.norm_sq(i, gold - worst)
            problem.add(i, gold - worst, min(C, violation / norm), W)
        seen.append(W.copy())
    dca.epoch()
    np.testing.assert_allclose(dca.W, W, atol=1e-12)
    np.testing.assert_allclose(dca.weights(), np.mean(seen, axis=0), atol=1e-12)


def test_primal_certificate_is_a_valid_bound():
    problem = chain_problem()
    expected, best = optimum(problem, LAM)
    at_best = certify_primal(problem, LAM, best)
    assert at_best.gap == pytest.approx(0.0, abs=1e-8)
    for scale in (0.0, 0.5, 2.0):
        c = certify_primal(problem, LAM, scale * best)
        assert c.dual <= expected + 1e-12 <= c.primal + 1e-11
    dca = DCA(problem, LAM, rng())
    dca.epoch()
    assert dca.certify().dual <= expected <= dca.certify().primal


def test_a_negative_gap_fails_loudly():
    with pytest.raises(NegativeGapError):
        check_gap(-1e-6, 1.0)
    with pytest.raises(NegativeGapError):
        check_gap(float("nan"), 1.0)
    check_gap(-1e-12, 1.0)


@pytest.mark.parametrize("make", [lambda p: SDCA(p, LAM, rng(3)), lambda p: DCA(p, LAM, rng(3))])
def test_resumed_run_is_bit_identical(make):
    whole = run(make(chain_problem()), Limits(6), Trace())
    saved = []
    stopping = make(chain_problem())

    def save(arrays, text):
        saved.append(({k: v.copy() for k, v in arrays.items()}, text))

    run(stopping, Limits(6), Trace(), save=save, save_seconds=0)
    trace = Trace()
    resumed = run(make(chain_problem()), Limits(6), trace, resume=saved[2])
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    assert resumed.certificate == whole.certificate
    assert [r.epoch for r in trace.rows] == [1, 2, 3, 4, 5, 6, 6]


def test_early_stopping_returns_the_best_weights_with_their_certificate():
    problem = chain_problem()
    scores = iter([0.1, 0.5, 0.2, 0.2, 0.2, 0.9, 0.9])
    kept = {}

    def score(weights):
        value = next(scores)
        kept[value] = weights.copy()
        return value

    result = run(SDCA(problem, LAM, rng()), Limits(50, None, 2), Trace(), score)
    assert "weights of epoch 2" in result.stopped
    np.testing.assert_array_equal(result.weights, kept[0.5])
    assert result.certificate == certify_primal(problem, LAM, result.weights)


def test_sampler_draws_in_proportion():
    weights = np.array([1.0, 0.0, 3.0, 4.0, 2.0])
    sampler = Sampler("gap", 1.0, np.ones(5))
    sampler.fill(np.zeros(5))
    for i, w in enumerate(weights):
        sampler.update(i, w)
    draws = np.array([sampler.draw(0.0, u) for u in (np.arange(10_000) + 0.5) / 10_000])
    np.testing.assert_allclose(np.bincount(draws, minlength=5) / 10_000, weights / 10, atol=1e-3)
    assert Sampler("max", 1.0, np.ones(5)).scheme == "max"
    half = Sampler("gap", 0.5, np.ones(5))
    assert half.draw(0.7, 0.99) == 4


def test_bad_settings_are_refused_in_words():
    problem = chain_problem()
    for bad in ({"dual": "other"}, {"sampling": "other"}, {"nonuniform": 2.0}, {"eta": 1}):
        with pytest.raises(UsageError):
            SDCA(problem, LAM, rng(), **bad)
    with pytest.raises(UsageError, match="lambda"):
        SDCA(problem, float("nan"), rng())
    with pytest.raises(UsageError, match="exact"):
        SDCA(chain_problem(beta=math.inf), LAM, rng(), dual="exact")
    with pytest.raises(UsageError, match="exact"):
        SDCA(chain_problem(order=2), LAM, rng(), dual="exact")
