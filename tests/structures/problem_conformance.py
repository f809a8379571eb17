"""What every training problem promises, as test classes that the tests of each problem inherit.

A subclass makes small problems and says what is known of them: features as a dense matrix, all
structures with their parts and costs. `ProblemConformance` holds for approximate problems too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.oracles import Gibbs
from turbotag.optim.certificate import objective

LAM = 0.1
SMOOTH = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0), (0.5, 2.0)]
LOSSES = [*SMOOTH, (math.inf, 1.0), (math.inf, 0.0)]
losses = pytest.mark.parametrize(("beta", "gamma"), LOSSES)


@dataclass
class Instance:
    """F (weights, parts); the stats (structures, parts) and costs (structures,) of all structures,
    gold being number `gold`. weight: of the instance in the objective, which F and costs have as a
    factor; its loss is that of beta/weight then."""

    F: np.ndarray
    stats: np.ndarray
    costs: np.ndarray
    gold: int
    weight: float = 1.0

    @property
    def z(self) -> np.ndarray:
        return self.stats[self.gold]


def entropy(p: np.ndarray) -> float:
    return -float(p @ np.log(np.maximum(p, 1e-300)))


class ProblemConformance:
    """Features, gold, costs, gradients and duals."""

    variants: tuple[dict[str, Any], ...] = ({},)

    def make(self, beta: float, gamma: float, **variant: Any) -> tuple[Any, list[Instance]]:
        """A problem of a few instances, and what is known of each."""
        raise NotImplementedError

    def metric(self, problem: Any) -> np.ndarray:
        """M, where |w|^2 = w'Mw and scores are F'Mw."""
        return np.eye(math.prod(problem.shape))

    def each(self, beta: float = 1.0, gamma: float = 0.0) -> Iterator[tuple[Any, int, Instance]]:
        for variant in self.variants:
            problem, known = self.make(beta, gamma, **variant)
            yield from ((problem, i, x) for i, x in enumerate(known))

    def weights(self, problem: Any, seed: int = 1) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=problem.shape)

    def scores(self, problem: Any, x: Instance, W: np.ndarray) -> np.ndarray:
        return x.F.T @ (self.metric(problem) @ W.reshape(-1))

    def test_sparse_features_are_the_dense_ones(self):
        rng = np.random.default_rng(1)
        for problem, i, x in self.each(gamma=0.7):
            W, d = self.weights(problem, i), rng.normal(size=problem.size(i))
            d *= rng.random(d.size) < 0.7
            M, Fd = self.metric(problem), x.F @ d
            assert problem.norm_sq(i, d) == pytest.approx(Fd @ M @ Fd)
            expected = W.reshape(-1) + 0.4 * Fd
            problem.add(i, d, 0.4, W)
            np.testing.assert_allclose(W.reshape(-1), expected, atol=1e-10)
            assert problem.sq_norm(W) == pytest.approx(expected @ M @ expected)

    def test_potentials_are_scores_and_costs(self):
        """theta'(z_y - z) = s'(z_y - z) + gamma cost(z_y), and weights can be scaled."""
        for problem, i, x in self.each(gamma=0.7):
            W, d = self.weights(problem, i), x.stats - x.z
            for scale in (1.0, 0.3):
                _, theta, _ = problem.oracle(i, W, scale)
                s = scale * self.scores(problem, x, W)
                np.testing.assert_allclose(d @ theta, d @ s + 0.7 * x.costs, atol=1e-9)

    def test_gold_and_costs(self):
        for problem, i, x in self.each():
            np.testing.assert_array_equal(problem.gold(i), x.z)
            assert problem.size(i) == x.z.size
            for z, cost in zip(x.stats, x.costs, strict=True):
                assert problem.cost(i, z) == pytest.approx(cost, abs=1e-12)
            mean = np.full(len(x.stats), 1 / len(x.stats))  # costs are linear
            assert problem.cost(i, mean @ x.stats) == pytest.approx(mean @ x.costs)

    def check_loss(self, found: float, exact: float) -> None:
        assert found == pytest.approx(exact, abs=1e-9)

    @losses
    def test_loss_is_its_definition(self, beta, gamma):
        for problem, i, x in self.each(beta, gamma):
            W = self.weights(problem)
            terms = (x.stats - x.z) @ self.scores(problem, x, W) + gamma * x.costs
            exact, own = terms.max(), beta / x.weight
            if beta < math.inf:
                exact += math.log(np.exp(own * (terms - exact)).sum()) / own
            value, theta, nu = problem.oracle(i, W)
            self.check_loss(value - theta @ x.z, exact)
            assert value - theta @ nu >= -1e-9  # an entropy
            assert beta < math.inf or theta @ nu == pytest.approx(value, abs=1e-9)

    @pytest.mark.parametrize(("beta", "gamma"), SMOOTH)
    def test_gradient_by_finite_differences(self, beta, gamma):
        for variant in self.variants:
            problem, _ = self.make(beta, gamma, **variant)
            W, h = self.weights(problem), 1e-5
            _, grad = objective(problem, LAM, W)
            for seed in range(5):
                D = self.weights(problem, 10 + seed)
                rise = objective(problem, LAM, W + h * D)[0] - objective(problem, LAM, W - h * D)[0]
                inner = (problem.sq_norm(grad + D) - problem.sq_norm(grad - D)) / 4
                assert rise / (2 * h) == pytest.approx(inner, abs=1e-5)

    @losses
    def test_gaps_are_not_negative(self, beta, gamma):
        """Of dual points that are random, or marginals at other weights; and the reward is what the
        potentials have beyond the scores."""
        rng = np.random.default_rng(3)
        for problem, i, x in self.each(beta, gamma):
            other, theta, nu = problem.oracle(i, self.weights(problem, 2))
            q = rng.dirichlet(np.full(len(x.stats), 0.5))
            points = [(nu.copy(), other - theta @ nu), (q @ x.stats, x.weight * entropy(q) / beta)]
            W = self.weights(problem)
            s = self.scores(problem, x, W)
            value, theta, _ = problem.oracle(i, W)
            for mu, h in points:
                assert value - theta @ mu - h >= -1e-9
                expected = (theta - s) @ (mu - x.z)
                assert problem.reward(i, mu) == pytest.approx(expected, abs=1e-9)

    def test_mixtures_gain_no_more_than_their_entropy(self):
        """h + gain <= H(mixture), where h is the mean of the entropies."""
        rng, beta = np.random.default_rng(7), 2.0
        for problem, i, x in self.each(beta, 0.5):
            p, q = rng.dirichlet(np.full(len(x.stats), 0.3), 2)
            for gap, curvature, search in [(0.4, 1.1, True), (0.4, 1.1, False), (2.0, 1.0, True)]:
                eta, gain = problem.mixture_step(
                    i, p @ x.stats, q @ x.stats, gap, curvature, search
                )
                assert 0.0 <= eta <= 1.0
                assert gain >= 0.0
                assert search or eta == pytest.approx(gap / curvature)
                h = (1 - eta) * entropy(p) + eta * entropy(q)
                assert h + beta / x.weight * gain <= entropy((1 - eta) * p + eta * q) + 1e-9

    def test_work(self):
        for problem, i, _ in self.each():
            assert problem.work().shape == (problem.n,)
            assert problem.work()[i] > 0.0


class ExactProblem(ProblemConformance):
    """The oracle is that of all structures."""

    def test_infer_at_any_temperature(self):
        for problem, i, x in self.each():
            theta = 2.0 * np.random.default_rng(i).normal(size=problem.size(i))
            for beta in (0.7, 2.0, math.inf):
                value, nu = problem.infer(i, theta.copy(), beta)
                scores, beta = x.stats @ theta, beta / x.weight
                top = scores.max()
                if beta == math.inf:
                    assert value == pytest.approx(top)
                    np.testing.assert_array_equal(nu, x.stats[scores.argmax()])
                else:
                    weights = np.exp(beta * (scores - top))
                    assert value == pytest.approx(top + math.log(weights.sum()) / beta, abs=1e-10)
                    np.testing.assert_allclose(nu, weights @ x.stats / weights.sum(), atol=1e-10)

    def test_the_oracle_infers_at_the_potentials(self):
        for beta, gamma in ((0.5, 2.0), (math.inf, 1.0)):
            for problem, i, _ in self.each(beta, gamma):
                W = self.weights(problem)
                value, theta, nu = problem.oracle(i, W)
                theta, nu = theta.copy(), nu.copy()
                np.testing.assert_array_equal(problem.potentials(i, W), theta)
                again, mu = problem.infer(i, theta)
                assert again == pytest.approx(value, rel=1e-13)
                np.testing.assert_allclose(mu, nu, atol=1e-13)

    def test_counts_and_cost_vectors(self):
        for problem, i, x in self.each():
            assert problem.log_count(i) == pytest.approx(math.log(len(x.stats)), abs=1e-10)
            p = problem.cost_vector(i)
            np.testing.assert_allclose((x.stats - x.z) @ p, x.costs, atol=1e-12)

    @pytest.mark.parametrize("k", [1, 3, 10_000])
    def test_kbest(self, k):
        for problem, i, x in itertools.islice(self.each(math.inf, 1.0), 40):
            W = self.weights(problem)
            theta, found = problem.kbest(i, W, k)
            np.testing.assert_array_equal(theta, problem.potentials(i, W))
            expected = np.sort(x.stats @ theta)[::-1][:k]
            np.testing.assert_allclose(found @ theta, expected, atol=1e-9)
            rows = {z.tobytes() for z in found}
            assert len(rows) == len(found)
            assert rows <= {z.tobytes() for z in x.stats}

    def test_gram(self):
        for problem, i, x in self.each():
            d = np.random.default_rng(i).normal(size=problem.size(i))
            expected = x.F.T @ self.metric(problem) @ (x.F @ d)
            np.testing.assert_allclose(problem.gram(i, d), expected, atol=1e-9)

    def test_radius_bounds_every_difference(self):
        for problem, i, x in self.each():
            d = (x.stats - x.z) @ x.F.T
            worst = ((d @ self.metric(problem)) * d).sum(axis=1).max()
            assert worst <= problem.radius_sq()[i] + 1e-9

    def test_settle_moves_the_rows_of_one_instance(self):
        rng = np.random.default_rng(2)
        for problem, i, x in self.each():
            W, D = rng.normal(size=(2, *problem.shape))
            last, now = rng.random(problem.shape[0]), 2.0
            reads = x.F.reshape(*problem.shape, -1).any(axis=(1, 2))
            step = np.where(reads, now - last, 0.0)
            expected, then = W - step[:, None] * D, np.where(reads, now, last)
            problem.settle(i, W, D, now, last)
            np.testing.assert_allclose(W, expected, atol=1e-12)
            np.testing.assert_array_equal(last, then)


class CliqueProblem(ExactProblem):
    """Distributions can be stored as cliques."""

    def cliques(self, problem: Any, i: int) -> np.ndarray:
        return np.full((2, problem.clique_size(i)), np.nan)

    @pytest.mark.parametrize("scale", [1.0, 30.0, 400.0])
    def test_cliques_of_the_oracle(self, scale):
        """Value, stats, entropy and both divergences, against enumeration."""
        beta = 0.5
        for problem, i, x in self.each(beta, 1.0):
            assert problem.has_cliques
            W, made = scale * self.weights(problem), []
            for V in (W, W + 0.3 * self.weights(problem, 2)):
                mu, log_mu = self.cliques(problem, i)
                value, theta = problem.clique_oracle(i, V, mu, log_mu)
                exact = Gibbs(x.stats @ theta, x.stats, beta)
                assert beta * value == pytest.approx(exact.log_partition, rel=1e-12, abs=1e-10)
                stats = problem.clique_stats(i, mu)
                np.testing.assert_allclose(stats, exact.marginals, atol=1e-9)
                found = problem.clique_entropy(i, mu, log_mu)
                assert found == pytest.approx(exact.entropy, abs=1e-8)
                again = np.empty_like(mu)
                problem.clique_exp(log_mu, again)
                np.testing.assert_allclose(again, mu, atol=1e-12)
                made.append((mu, log_mu, exact, beta * exact.scores - exact.log_partition))
            (mu, log_mu, p, log_p), (nu, log_nu, q, log_q) = made
            expected = p.p @ (log_p - log_q), q.p @ (log_q - log_p)
            found = problem.clique_kl(i, mu, log_mu, nu, log_nu)
            assert found == pytest.approx(expected, abs=1e-8)

    def test_gold_uniform_and_mixed_cliques(self):
        h = 1e-4
        for problem, i, x in self.each(0.5, 1.0):
            (mu, log_mu), (nu, log_nu) = self.cliques(problem, i), self.cliques(problem, i)
            problem.clique_gold(i, mu, log_mu)
            problem.clique_uniform(i, nu, log_nu)
            np.testing.assert_array_equal(problem.clique_stats(i, mu), x.z)
            assert problem.clique_entropy(i, mu, log_mu) == 0.0
            count = problem.log_count(i)
            assert problem.clique_entropy(i, nu, log_nu) == pytest.approx(count, abs=1e-9)
            problem.clique_mix(mu, log_mu, nu, log_nu, 0.1)
            stats = 0.9 * x.z + 0.1 * x.stats.mean(axis=0)
            np.testing.assert_allclose(problem.clique_stats(i, mu), stats, atol=1e-12)
            assert problem.clique_kl(i, mu, log_mu, mu, log_mu) == (0.0, 0.0)
            assert min(problem.clique_kl(i, mu, log_mu, nu, log_nu)) >= -1e-12

            def mixed(eta, problem=problem, i=i, one=(mu, log_mu), two=(nu, log_nu)):
                m, log_m = one[0].copy(), one[1].copy()
                problem.clique_mix(m, log_m, *two, eta)
                return problem.clique_entropy(i, m, log_m)

            for eta in (0.1, 0.5, 0.9):
                up, here, down = (mixed(eta + x) for x in (h, 0.0, -h))
                first, second = problem.clique_line(i, mu, nu, eta)
                assert first == pytest.approx((up - down) / (2 * h), abs=1e-6)
                assert second == pytest.approx((up - 2 * here + down) / h**2, rel=1e-3, abs=1e-5)
                assert second <= 1e-12
