"""Parsing as a training problem: sparse against dense features, losses against enumeration."""

import math

import numpy as np
import pytest

from tests.arc_problems import arc_problem, dense, gold_heads, structures
from tests.problems import objective
from turbotag.structures import mixture
from turbotag.structures.arc_problem import DECODERS

LOSSES = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0), (0.5, 2.0), (math.inf, 1.0), (math.inf, 0.0)]
decoders = pytest.mark.parametrize("decoder", DECODERS)
roots = pytest.mark.parametrize("single_root", [False, True])
pruning = pytest.mark.parametrize("pruned", [False, True])


def random_weights(problem, seed=1):
    return np.random.default_rng(seed).normal(size=problem.shape)


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


# ---- Features -----------------------------------------------------------------------------------


@pruning
def test_sparse_features_equal_dense_ones(pruned):
    problem = arc_problem(gamma=0.7, pruned=pruned)
    rng = np.random.default_rng(1)
    for i in range(problem.n):
        F, z = dense(problem, i), problem.gold(i).copy()
        W = rng.normal(size=problem.shape)
        d = rng.normal(size=problem.size(i)) * (rng.random(problem.size(i)) < 0.7)
        np.testing.assert_allclose(problem.scores(i, W), F.T @ W[:, 0], atol=1e-12)
        np.testing.assert_allclose(problem.scores(i, W, 0.3), 0.3 * F.T @ W[:, 0], atol=1e-12)
        np.testing.assert_allclose(problem.potentials(i, W), F.T @ W[:, 0] - 0.7 * z, atol=1e-12)
        scaled = 0.3 * F.T @ W[:, 0] - 0.7 * z
        np.testing.assert_allclose(problem.potentials(i, W, 0.3), scaled, atol=1e-12)
        np.testing.assert_allclose(problem.oracle(i, W, 0.3)[1], scaled, atol=1e-12)
        assert problem.norm_sq(i, d) == pytest.approx(float((F @ d) @ (F @ d)))
        np.testing.assert_allclose(problem.gram(i, d), F.T @ (F @ d), atol=1e-10)
        expected = W[:, 0] + 0.7 * (F @ d)
        problem.add(i, d, 0.7, W)
        np.testing.assert_allclose(W[:, 0], expected, atol=1e-10)
    assert problem.sq_norm(W) == pytest.approx(float((W**2).sum()))


def test_settle_moves_the_rows_of_one_sentence():
    problem = arc_problem()
    rng = np.random.default_rng(2)
    W, D = rng.normal(size=problem.shape), rng.normal(size=problem.shape)
    last = rng.random(problem.n_rows)
    for i in range(problem.n):
        reads = dense(problem, i).any(axis=1)
        W_before, last_before, now = W.copy(), last.copy(), 2.0 + i
        problem.settle(i, W, D, now, last)
        step = np.where(reads, now - last_before, 0.0)
        np.testing.assert_allclose(W, W_before - step[:, None] * D, atol=1e-12)
        np.testing.assert_array_equal(last, np.where(reads, now, last_before))


def test_work_grows_with_features_and_length():
    problem = arc_problem()
    features = np.array([dense(problem, i).sum() for i in range(problem.n)])
    rest = problem.work() - features
    order = np.argsort(problem.lengths, kind="stable")
    assert (np.diff(rest[order]) >= 0).all()
    assert (rest > 0).all()


@decoders
@roots
@pruning
def test_radius_bounds_every_difference(decoder, single_root, pruned):
    for seed in range(3):
        problem = arc_problem(seed, decoder=decoder, single_root=single_root, pruned=pruned)
        radius_sq = problem.radius_sq()
        for i in range(problem.n):
            F, z = dense(problem, i), problem.gold(i).copy()
            _, stats = structures(problem, i)
            worst = float((((stats - z) @ F.T) ** 2).sum(axis=1).max())
            assert worst <= radius_sq[i] + 1e-9
            words = np.split(F, problem._cuts(i)[1:-1], axis=1)
            most = np.sum([f.max(axis=1) for f in words], axis=0)
            assert radius_sq[i] == most @ most


# ---- Gold, cost, counts -------------------------------------------------------------------------


@decoders
@roots
@pruning
def test_gold_cost_and_counts(decoder, single_root, pruned):
    problem = arc_problem(decoder=decoder, single_root=single_root, pruned=pruned)
    for i in range(problem.n):
        heads, stats = structures(problem, i)
        right = gold_heads(problem, i)
        z, p = problem.gold(i).copy(), problem.cost_vector(i)
        (at,) = np.nonzero((heads == right).all(axis=1))
        np.testing.assert_array_equal(z, stats[at[0]])
        assert problem.size(i) == z.size
        for y, s in zip(heads, stats, strict=True):
            cost = int((y != right).sum())
            assert problem.cost(i, s) == cost
            assert p @ s + problem.lengths[i] == cost
        assert problem.log_count(i) == pytest.approx(math.log(len(heads)), abs=1e-10)


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


# ---- Loss ---------------------------------------------------------------------------------------


@decoders
@roots
@pytest.mark.parametrize(("beta", "gamma"), LOSSES)
def test_loss_is_its_definition(beta, gamma, decoder, single_root):
    problem = arc_problem(3, 8, beta, gamma, decoder, single_root, pruned=True)
    W = random_weights(problem)
    for i in range(problem.n):
        s, z = problem.scores(i, W).copy(), problem.gold(i).copy()
        _, stats = structures(problem, i)
        cost = np.array([problem.cost(i, y) for y in stats])
        terms = (stats - z) @ s + gamma * cost
        expected, p = terms.max(), (terms == terms.max()).astype(float)
        if beta < math.inf:
            weights = np.exp(beta * (terms - terms.max()))
            expected += math.log(weights.sum()) / beta
            p = weights / weights.sum()
        value, theta, nu = problem.oracle(i, W)
        assert value - theta @ z == pytest.approx(expected, abs=1e-10)
        if beta < math.inf:
            np.testing.assert_allclose(nu, p @ stats, atol=1e-10)
            entropy = -float(p @ np.log(p))
            assert value - theta @ nu == pytest.approx(entropy / beta, abs=1e-9)
        else:
            assert theta @ nu == pytest.approx(value, abs=1e-10)
            assert (stats == nu).all(axis=1).any()
        other, again = problem.infer(i, theta.copy(), 0.7)
        weights = np.exp(0.7 * stats @ theta)
        assert other == pytest.approx(math.log(weights.sum()) / 0.7, abs=1e-10)
        np.testing.assert_allclose(again, weights @ stats / weights.sum(), atol=1e-10)


@decoders
@roots
@pytest.mark.parametrize(("beta", "gamma"), LOSSES[:4])
def test_gradient_by_finite_differences(beta, gamma, decoder, single_root):
    problem = arc_problem(4, 5, beta, gamma, decoder, single_root)
    w = random_weights(problem).reshape(-1)
    _, grad = objective(problem, 0.1, w)
    for p in range(w.size):
        h = np.zeros_like(w)
        h[p] = 1e-5
        rise = objective(problem, 0.1, w + h)[0] - objective(problem, 0.1, w - h)[0]
        assert rise / 2e-5 == pytest.approx(grad[p], abs=1e-6)


@decoders
@roots
@pytest.mark.parametrize("k", [1, 3, 1000])
def test_k_best(decoder, single_root, k):
    problem = arc_problem(5, 8, math.inf, 1.0, decoder, single_root, pruned=True)
    W = random_weights(problem)
    for i in range(problem.n):
        _, stats = structures(problem, i)
        theta, found = problem.kbest(i, W, k)
        np.testing.assert_allclose(theta, problem.potentials(i, W))
        assert len(found) == min(k, len(stats))
        assert len({y.tobytes() for y in found}) == len(found)
        assert {y.tobytes() for y in found} <= {y.tobytes() for y in stats}
        expected = np.sort(stats @ theta)[::-1][: len(found)]
        np.testing.assert_allclose(found @ theta, expected, atol=1e-10)


# ---- Mixtures -----------------------------------------------------------------------------------


@decoders
@roots
def test_mixture_gain_is_a_lower_bound_of_the_entropy_of_the_mixture(decoder, single_root):
    """h + gain <= H(mixture), by enumeration, where h is the mean of the entropies."""
    beta = 2.0
    problem = arc_problem(6, 8, beta, 0.5, decoder, single_root, pruned=True)
    rng = np.random.default_rng(7)
    gained = 0
    for i in range(problem.n):
        _, stats = structures(problem, i)
        p, q = rng.dirichlet(np.full(len(stats), 0.3), 2)
        entropies = [-float(x @ np.log(np.maximum(x, 1e-300))) for x in (p, q)]
        mu, nu = p @ stats, q @ stats
        for gap, curvature, search in [(0.4, 1.1, True), (0.4, 1.1, False), (2.0, 1.0, True)]:
            eta, gain = problem.mixture_step(i, mu, nu, gap, curvature, search)
            assert 0.0 <= eta <= 1.0
            assert gain >= 0.0
            m = (1 - eta) * p + eta * q
            entropy = -float(m @ np.log(np.maximum(m, 1e-300)))
            h = (1 - eta) * entropies[0] + eta * entropies[1]
            assert h + beta * gain <= entropy + 1e-9
            gained += gain > 1e-3
            if not search:
                assert eta == pytest.approx(gap / curvature)
            words = np.split(np.arange(mu.size), problem._cuts(i)[1:-1])
            best = max(mixture.information(mu[t], nu[t], eta) for t in words)
            assert beta * gain <= best + 1e-12
    assert gained > 5


def test_mixture_search_finds_the_best_step():
    problem = arc_problem(8, 6, 2.0, longest=4)
    rng = np.random.default_rng(9)
    gap, curvature = 0.4, 1.1
    for i in range(problem.n):
        _, stats = structures(problem, i)
        mu, nu = rng.dirichlet(np.full(len(stats), 0.3), 2) @ stats
        words = np.split(np.arange(mu.size), problem._cuts(i)[1:-1])
        grid = np.linspace(0, 1, 1001)
        best = []
        for t in words:
            gains = np.array([mixture.information(mu[t], nu[t], x) for x in grid]) / problem.beta
            best.append(float((grid * gap - 0.5 * grid**2 * curvature + gains).max()))
        eta, gain = problem.mixture_step(i, mu, nu, gap, curvature, True)
        found = eta * gap - 0.5 * eta * eta * curvature + gain
        assert any(found == pytest.approx(b, abs=1e-3) for b in best)
    problem.beta = math.inf
    assert problem.mixture_step(i, mu, nu, gap, curvature, True) == (
        pytest.approx(gap / curvature),
        0.0,
    )
