"""Optimizers: gaps never negative, the same optimum by every way, exact bookkeeping, same bytes."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from tests import problems
from tests.oracles import random_mask
from tests.problems import (
    chain_problem,
    check_delayed_steps,
    check_every_step,
    check_first_epoch,
    optimum,
)
from turbotag.errors import UsageError
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.certificate import NegativeGapError, certify_primal, check_gap
from turbotag.optim.dca import DCA
from turbotag.optim.egr import EGR
from turbotag.optim.halfspaces import hildreth
from turbotag.optim.run import Dev, Limits, Saving, run
from turbotag.optim.sampling import Sampler
from turbotag.optim.sdca import SCHEMES, SDCA
from turbotag.optim.trace import Trace

SMOOTH = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0)]
LAM = 0.05


def rng(seed=0):
    return np.random.default_rng(seed)


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
    problem = chain_problem(order=order, mask=mask)
    free = chain_problem(order=order)
    for each in (problem, free):
        each.labels[:] = 0  # the one label that every mask allows
    expected, _ = optimum(problem, LAM)
    assert expected < optimum(free, LAM)[0] - 1e-3  # the mask forbids wrong answers
    result = run(SDCA(problem, LAM, rng()), Limits(400, 1e-9), Trace())
    assert result.certificate.primal == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("sampling", SCHEMES)
@pytest.mark.parametrize("dual", ["compact", "exact"])
def test_running_dual_and_gaps_at_every_step(sampling, dual):
    problem = chain_problem(beta=2.0, gamma=0.5)
    opt = SDCA(problem, LAM, rng(), dual=dual, sampling=sampling)
    check_every_step(opt)


def test_hinge_loss_is_block_coordinate_frank_wolfe():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    result = run(SDCA(problem, LAM, rng()), Limits(1000, 1e-2), Trace())
    smooth = chain_problem(beta=2000.0, gamma=1.0)  # within log(K^T)/beta of the hinge
    expected, _ = optimum(smooth, LAM)
    assert result.certificate.gap <= 1e-2
    assert result.certificate.primal == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize(("beta", "gamma"), [*SMOOTH, (math.inf, 1.0)])
def test_first_epoch_of_compact_sdca_is_an_epoch_of_dca(beta, gamma):
    check_first_epoch(chain_problem(beta=beta, gamma=gamma), LAM)


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


CONVERGING = {
    "lbfgs": {},
    "cg": {},
    "eg": {},
    "eg-batch": {},
    "sag": {},
    "sag-nus": {},
    "sag-nus skipping": {"skip-line-search": True},
    "sdca": {},
    "sdca-accelerated": {},
    "sdca-accelerated from the start": {"kappa": 5.0},
    "smo": {},
    "smo away": {"steps": "away", "points": 3},
    "bmrm": {"planes": 30},
    "eg by gaps": {"sampling": "gap"},
}


@pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
@pytest.mark.parametrize("name", CONVERGING)
@pytest.mark.parametrize("longest", [1, 5])
def test_every_converging_optimizer_reaches_the_same_optimum(name, beta, gamma, longest):
    """Chains, and multiclass as chains of one."""
    problem = chain_problem(beta=beta, gamma=gamma, longest=longest)
    expected, _ = optimum(problem, LAM)
    opt = algorithm(name.split()[0])(problem, LAM, rng(), **CONVERGING[name])
    trace = Trace()
    result = run(opt, Limits(3000, 1e-9), trace)
    assert result.certificate.gap <= 1e-8
    assert result.certificate.primal == pytest.approx(expected, abs=1e-8)
    assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows)
    assert trace.rows[-1].oracle_calls >= problem.n


# on the hinge these find an optimum, not only a way towards it
FINITE = {
    "bmrm": {},
    "svm-struct": {},
    "svm-struct without a cache": {"labelings": 0},
    "svm-struct-n": {"additions": 3},
    "smo": {},
    "smo away": {"steps": "away"},
    "smo without a cache": {"cache": "no", "sampling": "uniform"},
}


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_hinge_optimizers_agree(gamma):
    problem = chain_problem(beta=math.inf, gamma=gamma, values=False)
    found = {}
    for name, epochs in (("sdca", 3000), ("egr", 3000), ("eg", 1500), ("eg-batch", 3000)):
        opt = algorithm(name)(problem, LAM, rng())
        limits = Limits(epochs, 2e-3) if name != "eg" else Limits(epochs)
        found[name] = run(opt, limits, Trace()).certificate
    for name, params in FINITE.items():
        opt, trace = algorithm(name.split()[0])(problem, LAM, rng(), **params), Trace()
        found[name] = run(opt, Limits(2000, 1e-6), trace).certificate
        assert found[name].gap <= 1e-6, name
        assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows), name
    found["extragradient"] = run(
        algorithm("extragradient")(problem, LAM, rng()), Limits(1500, 1e-3), Trace()
    ).certificate
    best = max(c.dual for c in found.values())
    for name, c in found.items():
        assert c.primal >= best - 1e-9, name
        rel = 1e-3 if name in (*FINITE, "extragradient", "egr") else 1e-2
        assert c.primal == pytest.approx(best, rel=rel), name


def test_excessive_gap_condition_and_rate():
    problem = chain_problem(beta=math.inf, gamma=1.0, values=False)
    opt = EGR(problem, LAM, rng())
    for _ in range(60):
        opt.epoch()
        assert opt.smoothed <= opt.dual + 1e-9
        assert 0 <= opt.gap_estimate() <= opt.bound()
        certificate = opt.certify()
        assert certificate.primal == pytest.approx(opt.primal)
        assert certificate.dual == pytest.approx(opt.dual)


def test_mira_with_one_constraint_is_dca_on_the_hinge():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    mira, dca = algorithm("mira")(problem, LAM, rng()), DCA(problem, LAM, rng())
    for _ in range(3):
        mira.epoch()
        dca.epoch()
    np.testing.assert_array_equal(mira.weights(), dca.weights())


@pytest.mark.parametrize("order", [1, 2])
def test_k_best_mira_satisfies_or_pays_for_its_constraints(order):
    problem = chain_problem(beta=math.inf, gamma=1.0, order=order)
    opt = algorithm("mira")(problem, LAM, rng(), kbest=4)
    for i in range(problem.n):
        W = opt.W.copy()
        _, answers = problem.kbest(i, W, 4)
        opt.visit(np.array([i]))
        step = opt.W - W
        slack = 0.0
        for y in answers:
            slack = max(slack, float(problem.potentials(i, opt.W) @ (y - problem.gold(i))))
        paid = 0.5 * float(np.vdot(step, step)) + opt.C * slack
        worst = max(float(problem.potentials(i, W) @ (y - problem.gold(i))) for y in answers)
        assert paid <= opt.C * max(worst, 0.0) + 1e-9  # no worse than not moving at all


@pytest.mark.parametrize("seed", range(6))
def test_hildreth_solves_the_small_quadratic_programme(seed):
    g = np.random.default_rng(seed)
    A = g.normal(size=(4, 6))
    gram, gains, cap = A @ A.T, g.normal(size=4) + 0.5, float(g.uniform(0.05, 2.0))
    a = hildreth(gram, gains, cap)
    assert (a >= 0).all()
    assert a.sum() <= cap + 1e-12

    def value(x):
        return -(gains @ x) + 0.5 * x @ gram @ x

    constraint = {"type": "ineq", "fun": lambda x: cap - x.sum()}
    best = minimize(
        value, np.full(4, cap / 8), bounds=[(0, None)] * 4, constraints=[constraint], tol=1e-12
    )
    assert value(a) == pytest.approx(best.fun, abs=1e-7)


def test_hildreth_ends_where_a_tiny_cap_meets_constraints_that_are_alike():
    """Slopes that differ by rounding alone would be traded for a thousand sweeps."""
    gram = np.array([[66.0, 49.0, 49.0], [49.0, 76.0, 38.0], [49.0, 38.0, 76.0]])
    gains = np.array([1.9999999869225968, 1.9999999869225389, 1.9999999869225389])
    reads = []

    class Watched(np.ndarray):
        def __getitem__(self, key):
            reads.append(key)
            return super().__getitem__(key)

    a = hildreth(gram.view(Watched), gains, 1e-12)
    assert a.sum() == pytest.approx(1e-12)
    slopes = gains - gram @ a
    assert np.ptp(slopes) < 1e-11
    assert len(reads) < 500


def test_perceptron_adds_gold_and_subtracts_the_answer():
    problem = chain_problem(beta=math.inf, gamma=0.0)
    opt, W = algorithm("perceptron")(problem, LAM, rng()), np.zeros(problem.shape)
    for i in rng().permutation(problem.n):
        _, _, y = problem.oracle(i, W)
        problem.add(i, problem.gold(i) - y, 1.0, W)
    opt.epoch()
    np.testing.assert_allclose(opt.W, W, atol=1e-12)


def test_sgd_picks_a_step_counts_the_grid_and_descends():
    problem = chain_problem()
    opt = algorithm("sgd")(problem, LAM, rng())
    opt.epoch()
    assert opt.oracle_calls == 6 * 2 * problem.n  # six epochs and six evaluations
    first = opt.certify().primal
    for _ in range(30):
        opt.epoch()
    expected, _ = optimum(problem, LAM)
    last = opt.certify().primal
    assert expected <= last < first
    assert last == pytest.approx(expected, rel=0.2)
    by_dev = algorithm("sgd")(problem, LAM, rng())
    by_dev.dev_score = lambda W: -float(np.abs(W).sum())
    by_dev.epoch()
    assert by_dev.eta[0] == 1e-3  # the smallest weights
    assert by_dev.oracle_calls == 6 * problem.n


def test_sgd_follows_its_definition():
    problem = chain_problem()
    opt = algorithm("sgd")(problem, LAM, rng(), eta=0.3)
    W, t = np.zeros(problem.shape), 0
    g = rng()
    for _ in range(2):
        for i in g.permutation(problem.n):
            step = 0.3 / (1 + t / problem.n)
            _, _, nu = problem.oracle(i, W)
            d = problem.gold(i) - nu
            W *= 1 - step * LAM
            problem.add(i, d, step, W)
            t += 1
        opt.epoch()
    np.testing.assert_allclose(opt.weights(), W, atol=1e-12)


def test_delayed_steps_of_sag_equal_dense_ones():
    check_delayed_steps(chain_problem(n_attributes=30), LAM)


def test_the_loss_of_a_problem_cannot_be_changed():
    """Kernels would not see it."""
    problem = chain_problem()
    for name in ("beta", "gamma"):
        with pytest.raises(AttributeError):
            setattr(problem, name, 3.0)


def test_limits_on_oracle_calls_and_seconds():
    problem = chain_problem()
    opt = SDCA(problem, LAM, rng())
    result = run(opt, Limits(100, None, oracle_calls=3 * problem.n), Trace())
    assert opt.epochs == 3
    assert "oracle calls" in result.stopped
    result = run(DCA(problem, LAM, rng()), Limits(10**9, None, seconds=0.2), Trace())
    assert "seconds" in result.stopped


@pytest.mark.parametrize(
    ("name", "beta", "gamma"),
    [
        ("egr", 1.0, 0.0),
        ("lbfgs", math.inf, 1.0),
        ("sag", math.inf, 1.0),
        ("mira", 1.0, 1.0),
        ("perceptron", math.inf, 1.0),
        ("svm-struct", 1.0, 0.0),
        ("svm-struct-n", 1.0, 0.0),
        ("extragradient", 1.0, 0.0),
        ("sdca-accelerated", math.inf, 1.0),
    ],
)
def test_wrong_pairings_are_refused_with_the_right_ones(name, beta, gamma):
    with pytest.raises(UsageError, match=f"{name} serves losses with .*sdca and dca"):
        algorithm(name)(chain_problem(beta=beta, gamma=gamma), LAM, rng())


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
    for gap in (math.nan, math.inf):
        with pytest.raises(FloatingPointError):
            check_gap(gap, 1.0)
    check_gap(-1e-12, 1.0)


VARIANTS = {
    "sdca exact": {"dual": "exact"},
    "mira kbest": {"kbest": 3},
    "sag-nus skipping": {"skip-line-search": True},
    "eg by gaps": {"sampling": "gap"},
    "smo away": {"steps": "away", "points": 2},
    "bmrm with few planes": {"planes": 3},
    "sdca-accelerated from the start": {"kappa": 5.0},
    "sdca with l1": {"l1": 0.05},
    "owl-qn with l1": {"l1": 0.05, "pairs": 2},
}


@pytest.mark.parametrize(
    ("name", "order"),
    [*((name, 1) for name in [*ALGORITHMS, *VARIANTS]), *((name, 0) for name in ALGORITHMS)],
)
def test_resumed_run_is_bit_identical(name, order, monkeypatch):
    monkeypatch.setattr("turbotag.optim.quasi_newton.ROUND", 1)
    cls = algorithm(name.split()[0])
    beta, gamma = (1.0, 0.0) if cls.losses in ("any", "smooth") else (math.inf, 0.0)

    def chain_problem():
        return problems.chain_problem(beta=beta, gamma=gamma, order=order)

    def make(problem):
        return cls(problem, LAM, rng(3), **VARIANTS.get(name, {}))

    for keep in ("last", "best"):  # the best epoch is the second one
        opt = make(chain_problem())
        whole = run(opt, Limits(6), Trace(), by_epoch(opt, keep))
        saved = []
        opt = make(chain_problem())

        def save(arrays, text, saved=saved):
            saved.append(({k: v.copy() for k, v in arrays.items()}, text))

        run(opt, Limits(6), Trace(), by_epoch(opt, keep), saving=Saving(save, 0))
        trace, opt = Trace(), make(chain_problem())
        resumed = run(opt, Limits(6), trace, by_epoch(opt, keep), resume=saved[2])
        assert resumed.weights.tobytes() == whole.weights.tobytes()
        assert resumed.certificate == whole.certificate
        assert [r.epoch for r in trace.rows] == [1, 2, 3, 4, 5, 6, 6 if keep == "last" else 2]


def by_epoch(opt, keep="best", scores=(0.0, 0.1, 0.5, 0.3, 0.2, 0.4, 0.3)):
    """Held-out data with a score for the end of each epoch."""
    return Dev(lambda weights: scores[opt.epochs], keep=keep)


@pytest.mark.parametrize("name", [*ALGORITHMS, "sdca exact"])
def test_the_best_epoch_is_kept_with_its_own_certificate(name):
    """As if the run had ended there; a dual method keeps its dual point, and so a tight gap."""
    cls = algorithm(name.split()[0])
    beta, gamma = (1.0, 0.0) if cls.losses in ("any", "smooth") else (math.inf, 0.0)
    params = {"sdca exact": {"dual": "exact"}, "sgd": {"eta": 0.1}}.get(name, {})

    def trained(epochs, keep):
        opt = cls(chain_problem(beta=beta, gamma=gamma), LAM, rng(3), **params)
        return run(opt, Limits(epochs), Trace(), by_epoch(opt, keep))

    kept, ended = trained(5, "best"), trained(2, "last")
    assert (kept.epoch, ended.epoch, trained(5, "last").epoch) == (2, 2, 5)
    assert kept.weights.tobytes() == ended.weights.tobytes()
    assert kept.certificate == ended.certificate


def test_of_epochs_that_are_equally_good_the_last_is_kept_and_patience_counts_from_the_first():
    opt = SDCA(chain_problem(), LAM, rng())
    scores = (0.0, 0.1, 0.5, 0.5, 0.2, 0.5, 0.5, 0.9)
    result = run(opt, Limits(50, None, 3), Trace(), by_epoch(opt, scores=scores))
    assert (opt.epochs, result.epoch) == (5, 5)
    assert "no better dev score in 3 epochs" in result.stopped


def test_sampler_draws_in_proportion():
    weights = np.array([1.0, 0.0, 3.0, 4.0, 2.0])
    sampler = Sampler("gap", 1.0, np.ones(5))
    sampler.fill(np.zeros(5))
    for i, w in enumerate(weights):
        sampler.update(i, w)
    draws = np.array([sampler.draw(0.0, u) for u in (np.arange(10_000) + 0.5) / 10_000])
    np.testing.assert_allclose(np.bincount(draws, minlength=5) / 10_000, weights / 10, atol=1e-3)
    greedy = Sampler("max", 1.0, np.ones(5))
    greedy.fill(weights)
    assert [greedy.draw(0.0, u) for u in (0.0, 0.5, 0.99)] == [3, 3, 3]
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
