"""Projective trees: sums in both number ranges, cliques."""

import math

import numpy as np
import pytest

from tests.structures.conformance import TreeConformance, both
from tests.tree_oracles import draw, is_projective, is_tree, trees
from turbotag.structures import projective, projective_cliques
from turbotag.structures.cliques import LOG_ZERO, mix


class TestProjective(TreeConformance):
    structure, projective = projective, True

    def count(self, n, single_root):
        """Non-crossing trees."""
        return (
            math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)
        )


# ---- The oracle itself --------------------------------------------------------------------------


def test_what_a_projective_tree_is():
    assert is_tree([2, 0, 2])
    assert not is_tree([2, 1, 0])
    assert not is_tree([1])
    assert is_projective([2, 0, 2])
    assert not is_projective([3, 0, 2])
    assert not is_projective([3, 0, 0])  # an arc of the root is crossed


@pytest.mark.parametrize("n", range(1, 6))
def test_the_oracle_counts_trees(n):
    assert len(trees(n, False)) == (n + 1) ** (n - 1)
    assert len(trees(n, True)) == n ** (n - 1)


# ---- Sums ---------------------------------------------------------------------------------------


@both
def test_plain_probabilities_and_logs_agree(single_root):
    theta, _ = projective.shifted(draw(12, 1)[0], 1.0)
    plain = projective.inside(np.exp(theta), single_root, projective.PLAIN)
    logs = projective.inside(theta, single_root, projective.LOG)
    around = projective.outside(np.exp(theta), single_root, projective.PLAIN, *plain[1:])
    log_around = projective.outside(theta, single_root, projective.LOG, *logs[1:])
    for chart, log_chart in zip((*plain, *around), (*logs, *log_around), strict=True):
        np.testing.assert_allclose(chart, np.exp(log_chart), rtol=1e-12)
    assert projective.charts(theta, single_root)[0] == projective.PLAIN
    assert projective.charts(100.0 * theta, single_root)[0] == projective.LOG


# ---- Cliques ------------------------------------------------------------------------------------


def cliques(scores, single_root, beta=1.0):
    size = projective_cliques.size(len(scores) - 1, single_root)
    mu, log_mu = np.full(size, np.nan), np.full(size, np.nan)
    log_z = projective_cliques.marginals(scores, single_root, beta, mu, log_mu)
    return log_z, mu, log_mu


def gold(heads, single_root):
    size = projective_cliques.size(len(heads), single_root)
    mu, log_mu = np.full(size, np.nan), np.full(size, np.nan)
    return projective_cliques.gold(heads, single_root, mu, log_mu), mu, log_mu


@both
@pytest.mark.parametrize("n", range(1, 6))
def test_gold_is_a_derivation(n, single_root):
    """Its stats are the tree, its entropy is 0, and different trees differ."""
    c, stats = projective_cliques.counting(n, single_root), np.empty((n + 1, n + 1))
    seen = set()
    for heads in trees(n, single_root, projective=True):
        log_z, mu, log_mu = gold(heads, single_root)
        assert log_z == 0.0
        assert set(mu) <= {0.0, 1.0}
        np.testing.assert_array_equal(log_mu, np.where(mu > 0, 0.0, LOG_ZERO))
        assert mu[c > 0].sum() == 2 * n
        assert projective_cliques.entropy(mu, log_mu, c) == 0.0
        projective_cliques.stats(mu, n, single_root, stats)
        np.testing.assert_array_equal(
            np.argwhere(stats.T), [(m, h) for m, h in enumerate(heads, 1)]
        )
        seen.add(mu.tobytes())
    assert len(seen) == len(trees(n, single_root, projective=True))


def test_gold_that_is_not_projective_is_refused():
    assert gold(np.array([3, 0, 2], np.int32), True)[0] == -math.inf
    assert gold(np.array([0, 0, 2], np.int32), True)[0] == -math.inf
    assert gold(np.array([0, 0, 2], np.int32), False)[0] == 0.0


@both
@pytest.mark.parametrize("n", [1, 2, 5, 25])
def test_every_clique_occurs(n, single_root):
    """No number is 0 by structure, so mixing with the uniform makes all logs finite."""
    _, mu, log_mu = cliques(np.zeros((n + 1, n + 1)), single_root)
    assert mu.min() > 0.0
    assert mu.max() <= 1.0 + 1e-12
    assert log_mu.min() > LOG_ZERO


@both
@pytest.mark.parametrize("start", ["gibbs", "gold"])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_mixtures(n, single_root, start):
    """The entropy of a mixture is that of the tree distribution its conditionals define, and at
    least the mixture of entropies."""
    scores, rng = draw(n, 2)
    c = projective_cliques.counting(n, single_root)
    _, nu, log_nu = cliques(rng.normal(size=scores.shape), single_root)
    all_heads = trees(n, single_root, projective=True)
    if start == "gold":
        _, mu, log_mu = gold(all_heads[0], single_root)
        uniform = cliques(np.zeros_like(scores), single_root)[1:]
        mix(mu, log_mu, *uniform, 1e-3)
    else:
        _, mu, log_mu = cliques(scores, single_root)
    derivations = np.array([gold(heads, single_root)[1] for heads in all_heads])

    def mixture(eta):
        m, log_m = mu.copy(), log_mu.copy()
        mix(m, log_m, nu, log_nu, eta)
        return m, log_m, projective_cliques.entropy(m, log_m, c)

    ends = projective_cliques.entropy(mu, log_mu, c), projective_cliques.entropy(nu, log_nu, c)
    for eta in (0.1, 0.5, 0.9):
        m, log_m, here = mixture(eta)
        log_q = derivations @ (c * log_m)
        assert np.exp(log_q).sum() == pytest.approx(1.0)
        np.testing.assert_allclose(np.exp(log_q) @ derivations, m, atol=1e-12)
        assert here == pytest.approx(-(np.exp(log_q) @ log_q))
        assert here >= (1 - eta) * ends[0] + eta * ends[1] - 1e-12
