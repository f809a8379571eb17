"""Losses that are differences: tangents below, an objective that falls, certificates of rounds."""

import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag.errors import UsageError
from turbotag.losses import Loss, loss
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import serves
from turbotag.optim.certificate import objective
from turbotag.optim.concave_convex import SETTLED, concave_convex
from turbotag.optim.run import Limits, Saving, run
from turbotag.optim.trace import Trace
from turbotag.structures.linearized import LinearizedProblem

LAM = 0.05
makers = pytest.mark.parametrize("make", [chain_problem, arc_problem])
losses = pytest.mark.parametrize(("beta", "gamma"), [(1.0, 1.0), (2.0, 0.5), (math.inf, 1.0)])


def rng(seed=0):
    return np.random.default_rng(seed)


@makers
@losses
def test_the_convex_problem_lies_above_the_objective_and_touches_it(make, beta, gamma):
    problem = make(beta=beta, gamma=gamma)
    convex, g = LinearizedProblem(problem), rng(1)
    W0 = g.normal(size=problem.shape)
    convex.linearize(W0)
    # what the objective of the convex problem leaves out: costs of the targets, less entropies
    entropies = [
        convex.without_cost(i, W0)[0]
        - (problem.potentials(i, W0) - gamma * problem.cost_vector(i))
        @ (convex.targets[i] - problem.gold(i))
        for i in range(problem.n)
    ]
    constant = convex.constants.mean() - np.mean(entropies)

    def above(W):
        return objective(convex, LAM, W)[0] + constant - convex.objective(LAM, W)

    assert above(W0) == pytest.approx(0.0, abs=1e-9)
    for scale in (0.01, 0.3, 2.0):
        assert above(W0 + scale * g.normal(size=problem.shape)) >= -1e-9


@makers
def test_at_beta_1_the_loss_is_log_E_exp_cost(make):
    problem = make(beta=1.0, gamma=1.0)
    convex, W = LinearizedProblem(problem), rng(2).normal(size=make().shape)
    for i in range(problem.n):
        value, theta, _ = problem.oracle(i, W)
        found = value - theta @ problem.gold(i) - convex.without_cost(i, W)[0]
        _, nu = convex.without_cost(i, W)
        risk = problem.cost(i, nu)
        assert risk - 1e-9 <= found <= problem.cost(i, np.zeros(nu.size)) + 1e-9


@makers
@losses
def test_the_objective_falls_from_round_to_round(make, beta, gamma):
    problem = make(beta=beta, gamma=gamma)
    opt = concave_convex(algorithm("smo"))(problem, LAM, rng())
    seen = []
    for _ in range(150):
        opt.epoch()
        if not seen or opt.reached[0] != seen[-1]:
            seen.append(float(opt.reached[0]))
        assert opt.certify().gap >= -1e-9
        if opt.progress[3]:
            break
    assert len(seen) > 2
    assert (np.diff(seen) <= 0.0).all()
    assert "not convex" in opt.notes()[0]
    assert opt.problem.certified.startswith("the convex problem")


@pytest.mark.parametrize("lam", [0.1, 0.001])
@makers
@losses
def test_a_round_ends_with_its_own_weights(make, beta, gamma, lam):
    """A run may end with it, and must not have those at the start of another round then."""
    opt = concave_convex(algorithm("sdca"))(make(beta=beta, gamma=gamma), lam, rng())
    zero, ends = opt._objective(opt.weights()), []
    for _ in range(60):
        opt.epoch()
        if opt.progress[2]:
            ends.append(opt._objective(opt.weights()))
    assert len(ends) > 1
    assert max(ends) < zero


def test_no_gap_ends_a_run_before_the_rounds_have_settled():
    for limits in (Limits(100, 10.0), Limits(100, relative=0.5)):
        opt = concave_convex(algorithm("sdca"))(chain_problem(gamma=1.0), LAM, rng())
        assert "certified gap" in run(opt, limits, Trace()).stopped
        assert opt.progress[0] > 1
        assert opt.progress[3]


@makers
@losses
def test_a_run_that_ends_within_a_round_is_no_worse_than_the_round_before(make, beta, gamma):
    """Whatever the number of epochs; and its certificate is of the weights that it gives back."""
    problem, undone, reached = make(beta=beta, gamma=gamma), 0, math.inf
    for epochs in range(1, 40):
        opt = concave_convex(algorithm("sdca"))(problem, LAM, rng())
        result = run(opt, Limits(epochs), Trace())
        value = opt._objective(result.weights)
        assert value <= opt.reached[0] + 1e-12
        assert value <= reached + SETTLED
        if opt.undone:
            undone += 1
            assert result.epoch == opt.progress[1] < epochs
            assert value == pytest.approx(opt.reached[0], abs=1e-12)
            assert "kept: the end of the best round, epoch" in opt.notes()[0]
        primal = objective(opt.convex, LAM, result.weights)[0]
        assert result.certificate.primal == pytest.approx(primal, abs=1e-9)
        assert result.certificate.gap >= -1e-9
        reached = min(reached, float(opt.reached[0]))
    assert undone


def test_a_round_that_makes_the_objective_worse_is_undone(monkeypatch):
    """One epoch is too short for a round."""
    monkeypatch.setattr("turbotag.optim.concave_convex.LONGEST", 1)
    worse = 0
    for seed in range(6):
        opt = concave_convex(algorithm("sdca"))(chain_problem(gamma=1.0, seed=seed), LAM, rng())
        ends = []
        while not opt.progress[3]:
            opt.epoch()
            if opt.progress[2]:
                ends.append(opt._objective(opt.weights()))
        worse += ends[-1] > min(ends)
        assert opt.reached[0] == pytest.approx(min(ends))
    assert worse


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_round_is_a_run_of_its_own(name):
    """Steps that shrink with the number of epochs, averages over updates, a first step that is
    picked: all begin anew."""
    beta = 1.0 if serves(ALGORITHMS[name].losses, 1.0, 1.0) else math.inf
    if not serves(ALGORITHMS[name].losses, beta, 1.0):
        return  # the perceptron has no cost
    opt = concave_convex(algorithm(name))(chain_problem(beta=beta, gamma=1.0), LAM, rng(3))
    while not opt.progress[2]:
        opt.epoch()
    convex, state = LinearizedProblem(opt.convex.original), opt.rng.bit_generator.state
    convex.linearize(opt.weights())
    other = algorithm(name)(convex, LAM, rng())
    other.rng.bit_generator.state = state
    for _ in range(3):
        opt.epoch()
        other.epoch()
    np.testing.assert_array_equal(opt.weights(), other.weights())
    opt.close()
    other.close()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_around_every_optimizer_and_resumed(name, monkeypatch):
    monkeypatch.setattr("turbotag.optim.quasi_newton.ROUND", 1)
    monkeypatch.setattr("turbotag.optim.concave_convex.BLIND", 2)
    beta = 1.0 if serves(ALGORITHMS[name].losses, 1.0, 1.0) else math.inf
    if not serves(ALGORITHMS[name].losses, beta, 1.0):
        return  # the perceptron has no cost

    def make():
        problem = chain_problem(beta=beta, gamma=1.0)
        return concave_convex(algorithm(name))(problem, LAM, rng(3))

    whole = run(make(), Limits(9), Trace())
    saved = []

    def save(arrays, text):
        saved.append(({k: v.copy() for k, v in arrays.items()}, text))

    run(make(), Limits(9), Trace(), saving=Saving(save, 0))
    opt = make()
    resumed = run(opt, Limits(9), Trace(), resume=saved[5])
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    assert resumed.certificate == whole.certificate
    plain = chain_problem(beta=beta, gamma=1.0)
    assert opt.convex.objective(LAM, resumed.weights) <= objective(plain, LAM, resumed.weights)[0]


def test_names():
    assert loss("ramp") == Loss(math.inf, 1.0, True)
    assert (loss("risk").name, loss("risk", beta=2.0).kind) == ("risk", "risk")
    assert loss("ramp", gamma=3.0).name == "beta=inf,gamma=3,difference"
    with pytest.raises(UsageError, match="need a cost"):
        loss("ramp", gamma=0.0)
