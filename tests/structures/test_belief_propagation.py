"""Loopy belief propagation: exact without loops, and what it promises where there are some."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import SecondOrder, children, gibbs, sentence, sides, structures
from turbotag.structures import belief_propagation, second_order
from turbotag.structures.belief_propagation import bethe

flags = st.booleans()
seeds = st.integers(0, 10_000)
betas = st.sampled_from([0.5, 1.0, 3.0])


def run(theta, s, beta=1.0, single_root=True, tree=True, rounds=300, damping=0.0, tolerance=1e-11):
    nu = np.full(s.size, np.nan)
    limits = rounds, damping, tolerance
    return *bethe(theta, s.p, single_root, beta, tree, *limits, nu), nu


# ---- Exact ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [25.0, 60.0])
def test_first_order_trees_with_large_scores(score):
    """Two words, each with the other as its head: either, with the root, is as probable."""
    s = SecondOrder(np.array([0, 2, 4]), np.array([0, 2, 0, 1], np.int32), False)
    theta = np.zeros(s.size)
    theta[[s.at["arc", 2, 1], s.at["arc", 1, 2]]] = score
    log_z, _, residual, nu = run(theta, s, rounds=30, damping=0.3, tolerance=1e-3)
    assert residual <= 1e-3
    assert log_z == pytest.approx(score + np.log(2), abs=1e-2)
    np.testing.assert_allclose(nu[:4], 0.5, atol=1e-2)


@pytest.mark.parametrize("scale", [700.0, 1e8, 1e13, 1e18, 1e22])
@pytest.mark.parametrize("beta", [1e-6, 1.0, 1e6])
def test_any_scores_give_probabilities(scale, beta):
    for seed in range(8):
        s, rng = sentence(4, seed, seed % 2 == 0, True), np.random.default_rng(seed)
        for theta in (s.draw(rng, scale, scale), scale * rng.choice([-1.0, 1.0], s.size)):
            log_z, _, _, nu = run(theta, s, beta, rounds=30, damping=0.3, tolerance=1e-3)
            assert np.isfinite(log_z)
            assert nu.min() >= 0.0
            assert nu.max() <= 1.0


def factors(s, theta):
    """The sets of arcs that a factor other than TREE joins; one whose scores are all 0 does not."""
    found, score = [], dict(zip(s.names, theta.tolist(), strict=True))
    for h, side in sides(s.n):
        if any(score[name] for name in s.names if name[:3] == ("next", h, side)):
            found.append([("arc", h, m) for m in children(h, side, s.arcs)])
    for kind, *rest in s.names:
        if kind == "grand" and score[(kind, *rest)] and rest[0] != rest[2]:
            found.append([("arc", *rest[:2]), ("arc", *rest[1:])])
        if kind == "both" and score[(kind, *rest)]:
            found.append([("arc", rest[0], m) for m in rest[1:]])
    return found


def is_forest(found):
    """Whether the graph of arcs and factors has no cycle."""
    joined = {}

    def root(x):
        while x in joined:
            x = joined[x]
        return x

    for factor, arcs in enumerate(found):
        for arc in arcs:
            a, b = root(arc), root(factor)
            if a == b:
                return False
            joined[a] = b
    return True


def forest(rng, n, most, all_siblings, kinds):
    """Arcs drawn one by one, each kept if the factors of these kinds still form a forest."""
    every = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
    chosen = []
    for at in rng.permutation(len(every)):
        some = sorted([*chosen, every[at]], key=lambda a: (a[1], a[0]))
        cuts = np.searchsorted([m for _, m in some], np.arange(1, n + 2))
        s = SecondOrder(cuts, np.array([h for h, _ in some], np.int32), all_siblings)
        if is_forest(factors(s, s.kind(*kinds))):
            chosen, found = some, s
        if len(chosen) == most:
            break
    return found


KINDS = [("next",), ("grand",), ("both",), ("next", "grand"), ("grand", "both")]


@pytest.mark.parametrize("kinds", KINDS)
def test_arc_sets_without_loops(kinds):
    """Any set of arcs counts, and factors form a forest: all beliefs are the marginals."""
    sizes = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        s = forest(rng, int(rng.integers(2, 6)), 9, "both" in kinds, kinds)
        scale, beta = rng.choice([0.5, 2.0]), rng.choice([0.5, 1.0, 3.0])
        theta = np.where(s.kind("arc", *kinds), scale * rng.normal(size=s.size), 0.0)
        sizes.append(len([f for f in factors(s, theta) if len(f) > 1]))
        Z = s.sets()
        expected, mean = gibbs(beta * (Z @ theta), Z)
        for damping in (0.0, 0.4):
            log_z, _, residual, nu = run(theta, s, beta, tree=False, damping=damping)
            assert residual <= 1e-11
            assert log_z == pytest.approx(expected, abs=1e-8)
            mine = s.kind("arc", *kinds)  # factors without a score do not hear of loops
            np.testing.assert_allclose(nu[mine], mean[mine], atol=1e-8)
    assert max(sizes) >= 3  # not only factors on their own


def test_loops_are_not_exact_but_near():
    off = []
    for seed in range(20):
        s = sentence(4, seed, False, False)
        theta = s.draw(np.random.default_rng(seed), 1.0, 0.3)
        Z = structures(s, True)[1]
        expected, mean = gibbs(Z @ theta, Z)
        log_z, _, residual, nu = run(theta, s)
        assert residual <= 1e-11
        off.append([abs(log_z - expected), np.abs(nu - mean)[: s.E].max()])
    assert np.min(off) > 1e-9
    assert np.median(off, axis=0)[0] < 0.1
    assert np.median(off, axis=0)[1] < 0.05


# ---- Fixed points --------------------------------------------------------------------------------


def check_consistent(s, nu, atol):
    """Beliefs of factors have the arcs' beliefs as their marginals."""
    belief = dict(zip(s.names, nu.tolist(), strict=True))
    for h, side in sides(s.n):
        mine = children(h, side, s.arcs)
        for m in mine:
            paths = [n for n in s.names if n[:3] == ("next", h, side)]
            into, out = (sum(belief[n] for n in paths if n[at] == m) for at in (4, 3))
            assert into == pytest.approx(belief["arc", h, m], abs=atol)
            assert out == pytest.approx(belief["arc", h, m], abs=atol)
    for m in range(1, s.n + 1):  # TREE: a word has one head
        assert sum(belief[("arc", *a)] for a in s.arcs if a[1] == m) == pytest.approx(1.0, abs=atol)
    for kind, *rest in s.names:
        if kind in ("grand", "both"):
            two = itertools.pairwise(rest) if kind == "grand" else [(rest[0], m) for m in rest[1:]]
            a, b = (belief[("arc", *arc)] for arc in two)
            both = belief[(kind, *rest)]
            if kind == "grand" and rest[0] == rest[2]:
                assert both == 0.0
            else:
                assert max(0.0, a + b - 1.0) - atol <= both <= min(a, b) + atol


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), seeds, flags, flags, flags, betas)
def test_converged_beliefs_agree_and_damping_does_not_move_them(
    n, seed, pruned, all_siblings, single_root, beta
):
    s = sentence(n, seed, pruned, all_siblings)
    theta = s.draw(np.random.default_rng(seed), 1.0, 0.3) / beta
    log_z, made, residual, nu = run(theta, s, beta, single_root)
    assert made <= 300
    if residual > 1e-11:
        return
    check_consistent(s, nu, 1e-8)
    for damping in (0.3, 0.7):
        other, _, residual, again = run(theta, s, beta, single_root, damping=damping)
        assert residual <= 1e-11
        assert other == pytest.approx(log_z, abs=1e-7)
        np.testing.assert_allclose(again, nu, atol=1e-7)


def test_moderate_scores_converge_and_rounds_end_at_the_tolerance():
    for seed in range(20):
        s = sentence(5, seed, False, True)
        theta = s.draw(np.random.default_rng(seed), 1.0, 0.3)
        _, made, residual, nu = run(theta, s, tolerance=1e-3, damping=0.3)
        _, _, end, last = run(theta, s, damping=0.3)
        assert end <= 1e-11
        assert 1 < made < 50
        assert residual <= 1e-3
        np.testing.assert_allclose(nu[: s.E], last[: s.E], atol=2e-2)
        _, same, before, _ = run(theta, s, rounds=made - 1, tolerance=1e-3, damping=0.3)
        assert same == made - 1
        assert before > 1e-3


# ---- Numbers -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 5), seeds, flags, flags, flags, flags, st.sampled_from([1.0, 5.0, 50.0]), betas
)
def test_beliefs_are_probabilities(n, seed, pruned, all_siblings, single_root, tree, scale, beta):
    s = sentence(n, seed, pruned, all_siblings)
    theta = s.draw(np.random.default_rng(seed), scale, scale)
    for rounds in (1, 5, 30):
        log_z, made, residual, nu = run(theta, s, beta, single_root, tree, rounds, 0.3)
        assert made <= rounds
        assert 0.0 <= residual <= 1.0 + 1e-9
        assert np.isfinite(log_z)
        assert nu.min() >= 0.0
        assert nu.max() <= 1.0 + 1e-9


def test_scores_as_large_as_they_come():
    for seed in range(20):
        s = sentence(5, seed, seed % 2 == 0, True)
        theta = np.random.default_rng(seed).choice([-700.0, 700.0], s.size)
        log_z, _, _, nu = run(theta, s, rounds=30)
        assert np.isfinite(log_z)
        assert np.isfinite(nu).all()


def test_a_pair_is_its_four_states():
    for x, y, score in itertools.product((-800.0, -3.0, 0.0, 2.0, 700.0), repeat=3):
        b, messages, mu = np.array([x, y]), np.zeros(2), np.empty(1)
        expected, mean = gibbs(np.array([0.0, x, y, x + y + score]), np.eye(4))
        log_z = belief_propagation._pair(b, 0, 1, score, messages, 1.0, True, mu, 0)
        assert log_z == pytest.approx(expected)
        assert mu[0] == pytest.approx(mean[3])


def test_two_arcs_that_must_be_but_not_together():
    s = SecondOrder(np.array([0, 1, 2]), np.array([0, 1], np.int32), False)
    theta = np.zeros(s.size)
    theta[:2], theta[s.at["grand", 0, 1, 2]] = 3000.0, -3000.0
    assert np.isfinite(run(theta, s, rounds=30, damping=0.3, tolerance=1e-3)[0])


def test_approximation_calls_it():
    s = sentence(4, 1, True, False)
    theta, nu = s.draw(np.random.default_rng(0), 1.0, 0.3), np.empty(s.size)
    domain = second_order.Domain(s.p, True, second_order.Approximation("bethe", 7, 0.2, 1e-2))
    expected = run(theta, s, 2.0, True, True, 7, 0.2, 1e-2)
    assert second_order.bethe(theta, domain, 2.0, nu) == expected[:3]
    np.testing.assert_array_equal(nu, expected[3])
    mu = np.empty_like(nu)
    assert second_order.marginals(theta, domain, 2.0, mu) == expected[0]
    np.testing.assert_array_equal(mu, nu)
