"""Arc-factored trees as a training problem."""

import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem, between_words, dense, gold_heads, structures
from tests.structures.problem_conformance import CliqueProblem, ExactProblem, Instance
from turbotag.structures import mixture
from turbotag.structures.arc_problem import DECODERS

decoders = pytest.mark.parametrize("decoder", DECODERS)


class TestTrees(ExactProblem):
    decoder = "nonprojective"
    variants = (
        {"single_root": True},
        {"single_root": False},
        {"single_root": True, "pruned": True},
        {"single_root": False, "pruned": True},
    )

    def make(self, beta, gamma, **variant):
        problem = arc_problem(3, 6, beta, gamma, self.decoder, **variant)
        known = []
        for i in range(problem.n):
            heads, stats = structures(problem, i)
            costs = (heads != gold_heads(problem, i)).sum(axis=1)
            known.append(Instance(dense(problem, i), stats, costs, int(costs.argmin())))
        return problem, known

    def test_radius_is_that_of_the_heaviest_arcs(self):
        for problem, i, x in self.each():
            words = np.split(x.F, between_words(problem, i), axis=1)
            most = np.sum([f.max(axis=1) for f in words], axis=0)
            assert problem.radius_sq()[i] == most @ most


class TestProjectiveTrees(CliqueProblem):
    decoder, variants = "projective", TestTrees.variants
    make = TestTrees.make


def test_what_the_random_problems_are_like():
    """Features shared by arcs, twice on one, and none at all: all that a kernel could trip over."""
    problem = arc_problem()
    F = [dense(problem, i) for i in range(problem.n)]
    assert max(f.max() for f in F) >= 2.0
    assert min(f.sum(axis=0).min() for f in F) == 0.0
    assert max((f > 0).sum(axis=1).max() for f in F) > 1
    assert set(problem.lengths) >= {1, 5}
    assert max(f.max() for i in range(12) for f in [dense(arc_problem(repeated=False), i)]) == 1.0
    assert arc_problem(pruned=True).arcs.heads.size < problem.arcs.heads.size
    assert problem.arcs.nbytes > 0


def test_work_grows_with_features_and_length():
    problem = arc_problem()
    features = np.array([dense(problem, i).sum() for i in range(problem.n)])
    rest = problem.work() - features
    order = np.argsort(problem.lengths, kind="stable")
    assert (np.diff(rest[order]) >= 0).all()
    assert (rest > 0).all()


def test_gold_that_is_no_candidate_is_refused():
    problem = arc_problem()
    gold = np.concatenate([gold_heads(problem, i) for i in range(problem.n)])
    gold[4] = 9
    with pytest.raises(ValueError, match="gold head of word 4 was pruned"):
        type(problem)(problem.arcs, gold, problem.n_rows)


@decoders
def test_candidates_without_a_tree_are_refused(decoder):
    problem = arc_problem(decoder=decoder)
    theta = np.full(problem.size(0), -np.inf)
    for beta in (1.0, math.inf):
        with pytest.raises(ValueError, match="sentence 0 hold no tree"):
            problem.infer(0, theta, beta)


def test_mixture_search_finds_the_best_step():
    problem = arc_problem(8, 6, 2.0, longest=4)
    rng = np.random.default_rng(9)
    gap, curvature = 0.4, 1.1
    for i in range(problem.n):
        _, stats = structures(problem, i)
        mu, nu = rng.dirichlet(np.full(len(stats), 0.3), 2) @ stats
        words = np.split(np.arange(mu.size), between_words(problem, i))
        grid = np.linspace(0, 1, 1001)
        best = []
        for t in words:
            gains = np.array([mixture.information(mu[t], nu[t], x) for x in grid]) / problem.beta
            best.append(float((grid * gap - 0.5 * grid**2 * curvature + gains).max()))
        eta, gain = problem.mixture_step(i, mu, nu, gap, curvature, True)
        found = eta * gap - 0.5 * eta * eta * curvature + gain
        assert any(found == pytest.approx(b, abs=1e-3) for b in best)
    hinge = arc_problem(8, 6, math.inf, longest=4)
    assert hinge.mixture_step(i, mu, nu, gap, curvature, True) == (
        pytest.approx(gap / curvature),
        0.0,
    )
