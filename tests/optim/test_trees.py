"""Optimizers on dependency trees: what the chains promise holds for every structure."""

import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import check_delayed_steps, check_every_step, check_first_epoch, optimum
from turbotag.errors import UsageError
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import serves
from turbotag.optim.egr import EGR
from turbotag.optim.run import Limits, Saving, run
from turbotag.optim.sdca import SCHEMES, SDCA
from turbotag.optim.trace import Trace
from turbotag.structures.arc_problem import DECODERS

SMOOTH = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0)]
LAM = 0.05
decoders = pytest.mark.parametrize("decoder", DECODERS)
roots = pytest.mark.parametrize("single_root", [False, True])


def rng(seed=0):
    return np.random.default_rng(seed)


def reaches(name, problem, expected, weights, epochs=3000):
    opt, trace = algorithm(name)(problem, LAM, rng()), Trace()
    result = run(opt, Limits(epochs, 1e-7), trace)
    assert result.certificate.gap <= 1e-7, name
    assert result.certificate.primal == pytest.approx(expected, abs=1e-6), name
    np.testing.assert_allclose(result.weights, weights, atol=5e-3, err_msg=name)
    assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows), name


@decoders
@pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
def test_every_converging_optimizer_reaches_the_same_optimum(decoder, beta, gamma):
    problem = arc_problem(0, 12, beta, gamma, decoder)
    expected = optimum(problem, LAM)
    for name in ("sdca", "eg", "eg-batch", "sag", "sag-nus", "lbfgs", "cg"):
        reaches(name, problem, *expected)


@roots
@pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
def test_the_exact_dual_of_projective_trees(beta, gamma, single_root):
    problem = arc_problem(3, 12, beta, gamma, "projective", single_root)
    expected, _ = optimum(problem, LAM)
    opt, trace = SDCA(problem, LAM, rng(), dual="exact"), Trace()
    result = run(opt, Limits(500, 1e-8), trace)
    assert result.certificate.gap <= 1e-8
    assert result.certificate.primal == pytest.approx(expected, abs=1e-7)
    assert all(r.gap is None or r.gap >= -1e-9 for r in trace.rows)


def test_the_exact_dual_needs_projective_trees():
    with pytest.raises(UsageError, match="projective"):
        SDCA(arc_problem(0, 4, 1.0, 0.0, "nonprojective"), LAM, rng(), dual="exact")


@roots
@pytest.mark.parametrize("pruned", [False, True])
def test_roots_and_pruning(single_root, pruned):
    for decoder in DECODERS:
        problem = arc_problem(1, 12, 1.0, 1.0, decoder, single_root, pruned)
        expected, _ = optimum(problem, LAM)
        result = run(SDCA(problem, LAM, rng()), Limits(500, 1e-9), Trace())
        assert result.certificate.gap <= 1e-9
        assert result.certificate.primal == pytest.approx(expected, abs=1e-8)


@decoders
@pytest.mark.parametrize("sampling", SCHEMES)
def test_running_dual_and_gaps_at_every_step(sampling, decoder):
    problem = arc_problem(2, 12, 2.0, 0.5, decoder)
    opt = SDCA(problem, LAM, rng(), sampling=sampling)
    check_every_step(opt)


@decoders
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_gap_is_negative(name, decoder):
    kind = ALGORITHMS[name].losses
    for beta, gamma in [*SMOOTH, (math.inf, 1.0), (math.inf, 0.0)]:
        if not serves(kind, beta, gamma):
            continue
        opt = algorithm(name)(arc_problem(3, 12, beta, gamma, decoder), LAM, rng())
        for _ in range(5):
            opt.epoch()
            assert opt.certify().gap >= -1e-9
        opt.close()  # else the thread of a round would wait, with one thread for BLAS


# ---- The hinge ----------------------------------------------------------------------------------


@decoders
def test_hinge_optimizers_agree(decoder):
    problem = arc_problem(5, 12, math.inf, 1.0, decoder)
    found = {}
    for name in ("sdca", "egr", "eg"):
        opt = algorithm(name)(problem, LAM, rng())
        found[name] = run(opt, Limits(4000, 1e-3), Trace()).certificate
    best = max(c.dual for c in found.values())
    for name, c in found.items():
        assert -1e-9 <= c.gap <= 1e-3, name
        assert best - 1e-9 <= c.primal <= best + 1e-3, name


@decoders
def test_excessive_gap_condition_and_rate(decoder):
    opt = EGR(arc_problem(5, 12, math.inf, 1.0, decoder), LAM, rng())
    for _ in range(30):
        opt.epoch()
        assert opt.smoothed <= opt.dual + 1e-9
        assert 0 <= opt.gap_estimate() <= opt.bound()


@decoders
@roots
def test_dca_on_the_hinge_is_one_best_mira(decoder, single_root):
    """Step min{C, loss / |difference|^2} on the cost-augmented best tree."""
    problem = arc_problem(6, 12, math.inf, 1.0, decoder, single_root)
    dca, mira = (algorithm(name)(problem, LAM, rng()) for name in ("dca", "mira"))
    W, C = np.zeros(problem.shape), 1.0 / (LAM * problem.n)
    seen = []
    for i in rng().permutation(problem.n):
        theta, (worst,) = problem.kbest(i, W, 1)
        gold = problem.gold(i)
        violation = theta @ worst - theta @ gold
        norm = problem.norm_sq(i, gold - worst)
        if violation > 0 and norm > 0:
            problem.add(i, gold - worst, min(C, violation / norm), W)
        seen.append(W.copy())
    dca.epoch()
    np.testing.assert_allclose(dca.W, W, atol=1e-12)
    np.testing.assert_allclose(dca.weights(), np.mean(seen, axis=0), atol=1e-12)
    mira.epoch()
    dca.epoch()
    mira.epoch()
    np.testing.assert_array_equal(mira.weights(), dca.weights())


@decoders
def test_k_best_mira_satisfies_or_pays_for_its_constraints(decoder):
    problem = arc_problem(7, 12, math.inf, 1.0, decoder)
    opt = algorithm("mira")(problem, LAM, rng(), kbest=4)
    moved = 0
    for i in range(problem.n):
        W = opt.W.copy()
        theta, answers = problem.kbest(i, W, 4)
        z = problem.gold(i).copy()
        worst = float(((answers - z) @ theta).max())
        opt.visit(np.array([i]))
        step = opt.W - W
        slack = max(float(((answers - z) @ problem.potentials(i, opt.W)).max()), 0.0)
        paid = 0.5 * float(np.vdot(step, step)) + opt.C * slack
        assert paid <= opt.C * max(worst, 0.0) + 1e-9  # no worse than not moving at all
        moved += bool(step.any())
    assert moved > problem.n / 2
    opt.epoch()
    assert opt.certify().gap >= 0.0


# ---- Bookkeeping --------------------------------------------------------------------------------


@decoders
@pytest.mark.parametrize(("beta", "gamma"), [*SMOOTH, (math.inf, 1.0)])
def test_first_epoch_of_compact_sdca_is_an_epoch_of_dca(beta, gamma, decoder):
    check_first_epoch(arc_problem(8, 12, beta, gamma, decoder), LAM)


def test_delayed_steps_of_sag_equal_dense_ones():
    check_delayed_steps(arc_problem(9, n_rows=60), LAM)


@decoders
@pytest.mark.parametrize("name", [*ALGORITHMS, "mira kbest"])
def test_same_seed_same_bytes(name, decoder):
    """Twice the same run, and once more from a checkpoint."""
    cls = ALGORITHMS[name.split()[0]]
    beta, gamma = (1.0, 0.0) if cls.losses in ("any", "smooth") else (math.inf, 0.0)
    extra = {"kbest": 3} if name == "mira kbest" else {}

    def make():
        return cls(arc_problem(10, 12, beta, gamma, decoder), LAM, rng(3), **extra)

    saved = []

    def save(arrays, text):
        saved.append(({k: v.copy() for k, v in arrays.items()}, text))

    one = run(make(), Limits(4), Trace(), saving=Saving(save, 0))
    two = run(make(), Limits(4), Trace())
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.certificate == two.certificate
    if saved:
        three = run(make(), Limits(4), Trace(), resume=saved[0])
        assert three.weights.tobytes() == two.weights.tobytes()
        assert three.certificate == two.certificate
