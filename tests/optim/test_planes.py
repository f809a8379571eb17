"""Cutting planes: the small quadratic programme, planes below the loss, working sets."""

import itertools
import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag.optim import simplex
from turbotag.optim.algorithms import algorithm
from turbotag.optim.bmrm import BMRM
from turbotag.optim.certificate import objective
from turbotag.optim.run import Limits, run
from turbotag.optim.svm_struct import SVMStruct
from turbotag.optim.svm_struct_n import SVMStructN
from turbotag.optim.trace import Trace

LAM = 0.05


def rng(seed=0):
    return np.random.default_rng(seed)


def best_of_faces(r, G):
    """max r'x - x'Gx/2 over the simplex, by solving it on every face."""
    k, best = r.size, -math.inf
    for size in range(1, k + 1):
        for face in map(list, itertools.combinations(range(k), size)):
            M = np.ones((size + 1, size + 1))
            M[:size, :size], M[size, size] = G[np.ix_(face, face)], 0.0
            x = np.linalg.lstsq(M, np.append(r[face], 1.0), rcond=None)[0][:size]
            if (x >= -1e-12).all() and abs(x.sum() - 1.0) < 1e-9:
                best = max(best, r[face] @ x - 0.5 * x @ G[np.ix_(face, face)] @ x)
    return best


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_small_programme_is_solved(seed, scale):
    g = rng(seed)
    A = g.normal(size=(5, 3 if seed % 2 else 7))  # of full rank, or not
    r, G = scale * g.normal(size=5), scale * A @ A.T
    x = simplex.maximize(r, G)
    assert (x >= 0.0).all()
    assert x.sum() == pytest.approx(1.0, abs=1e-15)
    assert r @ x - 0.5 * x @ G @ x == pytest.approx(best_of_faces(r, G), abs=1e-9 * scale)


def test_the_small_programme_with_planes_that_are_alike():
    r, G = np.array([1.0, 1.0, 0.0]), np.ones((3, 3))
    x = simplex.maximize(r, G)
    assert x[2] < 1e-9
    assert simplex.maximize(np.zeros(4), np.zeros((4, 4))).sum() == pytest.approx(1.0)
    assert simplex.maximize(np.array([7.0]), np.array([[3.0]])).tolist() == [1.0]


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (2.0, 1.0), (math.inf, 1.0)])
def test_planes_lie_below_the_mean_loss_and_the_bounds_close_in(make, beta, gamma):
    problem = make(beta=beta, gamma=gamma)
    opt, g = BMRM(problem, LAM, rng(), planes=4), rng(1)
    lower, upper = -math.inf, math.inf
    for _ in range(12):
        opt.epoch()
        assert opt.dual >= lower - 1e-12  # also when planes are merged
        assert opt.primal <= upper
        lower, upper = opt.dual, opt.primal
        assert len(opt.planes) <= 4
        W = g.normal(size=problem.shape)
        loss = objective(problem, LAM, W)[0] - 0.5 * LAM * problem.sq_norm(W)
        for v, r in zip(opt.planes.V, opt.planes.r, strict=True):
            assert r - LAM * np.vdot(v, W) <= loss + 1e-9
    gram = [[LAM * np.vdot(u, v) for u in opt.planes.V] for v in opt.planes.V]
    np.testing.assert_allclose(opt.planes.gram, gram, atol=1e-10)
    certificate = opt.certify()
    assert (certificate.primal, certificate.dual) == pytest.approx((opt.primal, opt.dual))


def test_one_slack_without_a_cache_is_bmrm():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    one, bundle = SVMStruct(problem, LAM, rng(), labelings=0), BMRM(problem, LAM, rng())
    for _ in range(8):
        one.epoch()
        bundle.epoch()
        assert one.dual == pytest.approx(bundle.dual, abs=1e-10)
        assert one.primal == pytest.approx(bundle.primal, abs=1e-10)


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
def test_the_cache_saves_oracle_calls(make):
    calls = {}
    for labelings in (0, 5):
        opt = SVMStruct(make(beta=math.inf, gamma=1.0), LAM, rng(), labelings=labelings)
        run(opt, Limits(500, 1e-6), Trace())
        calls[labelings] = opt.oracle_calls
    assert calls[5] < 0.6 * calls[0]


def test_the_cache_keeps_the_newest_labelings_and_the_gold_one():
    problem = chain_problem(beta=math.inf, gamma=1.0)
    opt = SVMStruct(problem, LAM, rng(), labelings=2)
    for _ in range(12):
        opt.epoch()
    assert max(map(len, opt.lists.points)) == 3
    for i in range(problem.n):
        np.testing.assert_array_equal(opt.lists.stats(i, -1), problem.gold(i))


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
def test_working_sets_hold_the_labelings_of_the_optimum(make):
    """Between the labelings of its working sets n-slack leaves a tenth of the gap at most."""
    problem = make(beta=math.inf, gamma=1.0)
    opt = SVMStructN(problem, LAM, rng())
    for _ in range(4):
        opt.epoch()
        inside = 0.0
        for i in range(problem.n):
            known = opt.lists.scores(i, problem.potentials(i, opt.W))
            inside += float(known.max() - opt.alpha[i] @ known)
        assert inside <= 0.1 * opt.gaps.sum() + 1e-9
        running = opt.dual
        assert opt.certify().dual == pytest.approx(running, abs=1e-10)


@pytest.mark.parametrize("name", ["bmrm", "svm-struct", "svm-struct-n", "smo", "dca-planes"])
def test_a_state_of_another_problem_is_refused(name):
    def trained(problem):
        opt = algorithm(name)(problem, LAM, rng())
        opt.epoch()
        opt.epoch()
        return opt

    opt = trained(chain_problem(beta=math.inf, gamma=1.0))
    state = {k: v.copy() for k, v in opt.state().items()}
    others = [chain_problem(n=11, beta=math.inf), chain_problem(K=2, beta=math.inf)]
    for other in others[name == "bmrm" :]:  # planes know of weights alone
        with pytest.raises(ValueError, match=r"have the shapes|is|lacks"):
            algorithm(name)(other, LAM, rng()).restore(state)
    for array in ("alpha", "x", "parts"):
        if array in state:
            with pytest.raises(ValueError, match=r"mixture|weights|parts"):
                opt.restore(state | {array: -1 - state[array]})
