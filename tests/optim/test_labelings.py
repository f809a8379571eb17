"""Lists of answers: every step gains what it says, mixtures stay mixtures, half-spaces hold."""

import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag.errors import UsageError
from turbotag.optim.algorithms import algorithm
from turbotag.optim.dca import DCA
from turbotag.optim.run import Limits, run
from turbotag.optim.smo import SMO
from turbotag.optim.trace import Trace

LAM = 0.05
LOSSES = [(1.0, 0.0), (3.0, 1.0), (math.inf, 1.0)]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
@pytest.mark.parametrize(("beta", "gamma"), LOSSES)
@pytest.mark.parametrize("steps", ["pairwise", "away"])
@pytest.mark.parametrize("points", [2, 20])
def test_running_dual_and_weights(make, beta, gamma, steps, points):
    problem = make(beta=beta, gamma=gamma)
    opt = SMO(problem, LAM, rng(), steps=steps, points=points)
    for _ in range(6):
        before = opt.dual
        opt.epoch()
        assert opt.dual >= before - 1e-12
        running, W = opt.dual, opt.W.copy()
        assert opt.certify().dual == pytest.approx(running, abs=1e-10)
        opt.finish()
        np.testing.assert_allclose(opt.W, W, atol=1e-10)
        for i, alpha in enumerate(opt.alpha):
            assert (alpha >= 0.0).all()
            assert alpha.sum() == pytest.approx(1.0)
            assert len(opt.lists.points[i]) == alpha.size <= points


def test_cached_steps_call_no_oracle():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    opt = SMO(problem, LAM, rng())
    for _ in range(40):
        opt.epoch()
    assert opt.oracle_calls < 0.7 * 40 * problem.n


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
def test_pairwise_steps_end_where_frank_wolfe_does_not(make):
    problem = make(beta=math.inf, gamma=1.0)
    gaps = {}
    for name in ("smo", "sdca"):
        opt = algorithm(name)(problem, LAM, rng())
        gaps[name] = run(opt, Limits(1000, 1e-5), Trace()).certificate.gap
    assert 0.0 <= gaps["smo"] <= 1e-5 < 0.1 * gaps["sdca"]


# ---- DCA with several half-spaces ---------------------------------------------------------------


def test_one_half_space_is_dca():
    for make in (chain_problem, arc_problem):
        for beta, gamma in LOSSES:
            problem = make(beta=beta, gamma=gamma)
            one = algorithm("dca-planes")(problem, LAM, rng(), halfspaces=1)
            dca = DCA(problem, LAM, rng())
            for _ in range(3):
                one.epoch()
                dca.epoch()
            np.testing.assert_array_equal(one.weights(), dca.weights())


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
@pytest.mark.parametrize(("beta", "gamma"), LOSSES)
def test_a_step_minimises_what_equation_17_asks_for(make, beta, gamma):
    """No worse than DCA's step, by the objective with the half-spaces that are kept."""
    problem = make(beta=beta, gamma=gamma)
    opt = algorithm("dca-planes")(problem, LAM, rng(), halfspaces=3)
    opt.epoch()
    opt.epoch()
    for i in range(problem.n):
        W = opt.W.copy()
        value, theta, nu = problem.oracle(i, W)
        loss, d = value - theta @ problem.gold(i), problem.gold(i) - nu
        plain = W.copy()
        if loss > 0.0 and problem.norm_sq(i, d) > 0.0:
            problem.add(i, d, min(opt.C, loss / problem.norm_sq(i, d)), plain)
        opt.visit(np.array([i]))
        assert len(opt.lists.points[i]) <= 4  # three, and the gold answer

        def paid(V, i=i, W=W):
            theta = problem.potentials(i, V)
            known = opt.lists.scores(i, theta) - theta @ problem.gold(i)
            return 0.5 * problem.sq_norm(V - W) + opt.C * max(known.max(), 0.0)

        assert paid(opt.W) <= paid(plain) + 1e-9


# ---- Gap sampling of exponentiated gradient -----------------------------------------------------


def test_estimated_gaps_of_eg_are_near_the_true_ones():
    problem = chain_problem(n=40)
    opt = algorithm("eg")(problem, LAM, rng(), sampling="gap")
    for _ in range(12):
        opt.epoch()
    estimate, calls = opt.gap_estimate(), opt.oracle_calls
    opt.oracle_calls = calls
    true = opt.certify().gap
    assert 0.3 < estimate / true < 3.0
    np.testing.assert_array_equal(opt.gaps, opt.block_gaps)


def test_gap_sampling_of_eg_needs_a_smooth_loss():
    with pytest.raises(UsageError, match="finite beta"):
        algorithm("eg")(chain_problem(beta=math.inf, gamma=1.0), LAM, rng(), sampling="gap")
