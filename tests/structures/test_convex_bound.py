"""The convex bound of second-order trees, and of their maximum, against enumeration."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import automaton, gibbs, sentence, structures
from turbotag.structures import convex_bound, second_order
from turbotag.structures.second_order import EVEN, Approximation, Domain

SCALES = [(0.0, 0.0), (1.0, 0.3), (3.0, 1.0), (50.0, 50.0)]
betas = st.sampled_from([0.5, 1.0, 3.0])


@dataclass
class Case:
    """A sentence with random scores, those of arcs and of other parts of these sizes."""

    n: int
    seed: int
    pruned: bool = False
    all_siblings: bool = False
    single_root: bool = True
    scales: tuple[float, float] = (1.0, 0.3)

    def __post_init__(self):
        self.s = sentence(self.n, self.seed, self.pruned, self.all_siblings)
        self.rng = np.random.default_rng(self.seed)
        self.theta = self.s.draw(self.rng, *self.scales)
        self.domain = Domain(self.s.p, self.single_root, Approximation())

    @cached_property
    def heads(self):
        return structures(self.s, self.single_root)[0]

    @cached_property
    def Z(self):
        return structures(self.s, self.single_root)[1]

    @property
    def best(self):
        return float((self.Z @ self.theta).max())

    def near(self, size):
        """Other scores."""
        return self.theta + size * self.rng.normal(size=self.theta.size)

    def bound(self, *arguments, theta=None, **named):
        return Bound(self, self.theta if theta is None else theta, *arguments, **named)

    def maximum(self, rounds, moved=EVEN, lean_too=False):
        pi, nu = np.full((2, self.s.size + 2 * self.s.E), np.nan)
        heads = np.zeros(self.n, np.int32)
        out = pi, nu, heads
        bound, score, made = convex_bound.maximum(
            self.theta, moved, self.s.p, self.single_root, rounds, lean_too, *out
        )
        assert made <= rounds
        return bound, score, *out

    def at(self, heads):
        """Which of all trees it is: there must be one."""
        (found,) = np.flatnonzero((self.heads == heads).all(axis=1))
        return found


class Bound:
    """The value, the potentials, the beliefs, and the entropy between them."""

    def __init__(self, case, theta, beta, rounds, damping=0.5, tolerance=0.0, moved=EVEN):
        s = case.s
        self.pi, self.nu = np.full((2, s.size + 2 * s.E), np.nan)
        settings = s.p, case.single_root, beta, rounds, damping, tolerance
        self.value, self.made, self.residual = convex_bound.bound(
            theta, moved, *settings, self.pi, self.nu
        )
        self.entropy = self.value - beta * (self.pi @ self.nu)
        self.moved = (self.pi - convex_bound.apart(theta, s.p))[: 3 * s.E]


def cases(**changed):
    given = {
        "n": st.integers(1, 5),
        "seed": st.integers(0, 10_000),
        "pruned": st.booleans(),
        "all_siblings": st.booleans(),
        "single_root": st.booleans(),
        "scales": st.sampled_from(SCALES),
    }
    return st.builds(Case, **{**given, **changed})


def slack(*values):
    return 1e-9 * max(1.0, *map(abs, values))


# ---- The bound -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(cases(), betas, st.sampled_from([0.0, 0.5, 0.9]))
def test_it_is_a_bound_after_every_round(case, beta, damping):
    s, Z = case.s, case.Z
    exact, _ = gibbs(beta * (Z @ case.theta), Z)
    copied = np.array([convex_bound.copies(z, s.p) for z in Z])
    for rounds in range(21):
        b = case.bound(beta, rounds, damping)
        assert b.value >= exact - slack(exact)
        assert b.entropy >= -slack(b.value)
        assert b.made == rounds or b.residual == 0.0
        pairs = len(s.p.pairs)  # their beliefs are derivatives of a line, and can be negative
        assert b.nu[: b.nu.size - pairs].min() >= -1e-9
        assert b.nu.max() <= 1.0 + 1e-9
        # every tree has the score that it had
        np.testing.assert_allclose(copied @ b.pi, Z @ case.theta, atol=slack(exact))


def test_six_words():
    for seed in range(3):
        case = Case(6, seed, pruned=True, all_siblings=seed == 1, scales=(3.0, 1.0))
        exact, _ = gibbs(case.Z @ case.theta, case.Z)
        assert min(case.bound(1.0, rounds).value for rounds in range(21)) >= exact
        bound, score, *_, heads = case.maximum(50)
        assert bound >= case.best - slack(bound)
        assert score == pytest.approx((case.Z @ case.theta)[case.at(heads)])


@settings(max_examples=30, deadline=None)
@given(cases(n=st.integers(1, 4), all_siblings=st.just(False)), betas, st.integers(0, 9))
def test_it_is_what_the_relaxations_say(case, beta, rounds):
    """The value and the beliefs, from all trees and all configurations of the automata."""
    s, b, c = case.s, case.bound(beta, rounds), convex_bound.TREE_SHARE
    arcs = case.Z[:, : s.E]
    log_z, mu_t = gibbs(beta / c * (arcs @ b.pi[: s.E]), arcs)
    value, mu = c * log_z, np.zeros(b.nu.size - s.E)
    for h in range(1, case.n + 1):
        A = automaton(s, h)
        log_z, mean = gibbs(beta / (1 - c) * (A @ b.pi[s.E :]), A)
        value, mu = value + (1 - c) * log_z, mu + mean
    assert b.value == pytest.approx(value, rel=1e-10, abs=1e-9)
    np.testing.assert_allclose(b.nu, np.concatenate([mu_t, mu]), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(cases(scales=st.just((1.0, 0.5))), betas, st.sampled_from([0, 6]))
def test_beliefs_are_the_derivative_at_a_fixed_split(case, beta, rounds):
    moved = case.bound(beta, rounds).moved
    nu = convex_bound.together(case.bound(beta, 0, moved=moved).nu, case.s.p)
    kinks = case.s.kind("both") & (np.abs(case.theta) < 2e-5)  # the bound of a pair is one at 0
    for i in np.flatnonzero(~kinks):
        step = np.zeros(nu.size)
        step[i] = 1e-5
        both = case.theta + step, case.theta - step
        up, down = (case.bound(beta, 0, moved=moved, theta=x).value for x in both)
        assert beta * nu[i] == pytest.approx((up - down) / 2e-5, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(cases(), betas, st.sampled_from([0, 1, 8]))
def test_fenchel_young_at_a_fixed_split(case, beta, rounds):
    """Beliefs at other scores, and trees, are dual points: they never say more than the value."""
    moved = case.bound(beta, rounds).moved
    b = case.bound(beta, 0, moved=moved)
    for size in (0.1, 1.0, 30.0):
        other = case.bound(beta, 0, moved=moved, theta=case.near(size))
        assert b.value >= beta * b.pi @ other.nu + other.entropy - slack(b.value, other.value)
    for z in case.Z[:50]:
        assert b.value >= beta * b.pi @ convex_bound.copies(z, case.s.p) - slack(b.value)


def check_fenchel_young(case, size, beta, rounds):
    """The same with each of the two at its own split, as SDCA has them before it holds splits."""
    b, other = case.bound(beta, rounds), case.bound(beta, rounds, theta=case.near(size))
    assert b.value >= beta * b.pi @ other.nu + other.entropy - slack(b.value, other.value)


@settings(max_examples=100, deadline=None)
@given(cases(all_siblings=st.just(False)), betas, st.sampled_from([1, 8]))
def test_fenchel_young_while_splits_move(case, beta, rounds):
    for size in (0.1, 1.0, 30.0):
        check_fenchel_young(case, size, beta, rounds)


def test_fenchel_young_while_splits_of_all_siblings_move():
    for seed in range(300):
        check_fenchel_young(Case(3, seed, all_siblings=True, scales=(1.0, 1.0)), 0.1, 1.0, 8)


@settings(max_examples=50, deadline=None)
@given(cases(scales=st.just((1.0, 1.0))))
def test_roles_of_arcs(case):
    p, x = case.s.p, case.theta
    even = convex_bound.apart(x, p)
    for z in case.Z[:100]:
        copied = convex_bound.copies(z, p)
        np.testing.assert_allclose(convex_bound.together(copied, p), z, atol=1e-15)
        assert even @ copied == pytest.approx(x @ z, abs=1e-12)
    d = case.rng.normal(size=even.size)
    assert even @ d == pytest.approx(x @ convex_bound.together(d, p), abs=1e-10)  # adjoint


def test_rounds_tighten_it():
    """The excess over log Z in nats, at 5 words: rounds help, and marginals come to agree."""
    excess, disagreement = [], []
    for seed in range(20):
        case = Case(5, seed)
        exact, _ = gibbs(case.Z @ case.theta, case.Z)
        found = [case.bound(1.0, r) for r in (0, 3, 10, 200)]
        excess.append([b.value - exact for b in found])
        disagreement.append([b.residual for b in found])
    first, third, tenth, last = np.median(excess, axis=0)
    assert last <= tenth <= third < first
    assert tenth < 6.0
    assert np.max(disagreement, axis=0)[3] < 1e-3 < np.min(disagreement, axis=0)[0]


def test_rounds_end_at_the_tolerance():
    case = Case(5, 1)
    whole, some, none = (case.bound(1.0, 100, tolerance=t) for t in (0.0, 1e-2, 2.0))
    assert (none.made, whole.made) == (0, 100)
    assert 0 < some.made < 100
    assert some.residual <= 1e-2 < none.residual
    np.testing.assert_array_equal(case.bound(1.0, some.made).pi, some.pi)


@pytest.mark.parametrize("scale", [50.0, 700.0])
def test_large_scores_give_finite_numbers(scale):
    for seed in range(20):
        case = Case(5, seed, seed % 2 == 0, seed % 3 == 0, scales=(scale, scale))
        b = case.bound(3.0, 8)
        assert np.isfinite(b.pi).all()
        assert np.isfinite(b.nu).all()
        assert b.value >= 3.0 * case.best - slack(b.value)


# ---- The maximum ---------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([0, 1, 8, 100]))
def test_maximum_is_a_bound_and_a_tree(case, rounds):
    bound, score, pi, nu, heads = case.maximum(rounds, lean_too=rounds > 1)
    small, scores = slack(bound), case.Z @ case.theta
    assert bound >= case.best - small
    assert score == pytest.approx(scores[case.at(heads)], abs=small)
    assert pi @ nu == pytest.approx(bound, abs=small)
    copied = [convex_bound.copies(z, case.s.p) for z in case.Z]
    np.testing.assert_allclose(copied @ pi, scores, atol=small)
    if second_order.proves(bound, score):
        assert score == pytest.approx(case.best, rel=2e-9, abs=2e-9)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_best_tree(case):
    heads = np.empty(case.n, np.int32)
    value, proven = second_order.best_tree(case.theta, case.domain, heads)
    score = (case.Z @ case.theta)[case.at(heads)]
    assert value == pytest.approx(score)
    assert not proven or score == pytest.approx(case.best, rel=2e-9, abs=2e-9)


def is_proven(case):
    return second_order.best_tree(case.theta, case.domain, np.empty(case.n, np.int32))[1]


@pytest.mark.parametrize("all_siblings", [False, True])
def test_most_trees_of_three_words_are_proven(all_siblings):
    every = [Case(3, seed, all_siblings=all_siblings) for seed in range(60)]
    assert np.mean([is_proven(c) for c in every]) > 0.75


def test_without_pairs_every_best_tree_is_proven():
    every = [Case(5, seed, scales=(1.0, 0.0)) for seed in range(60)]
    assert all(is_proven(c) for c in every)


@settings(max_examples=60, deadline=None)
@given(cases())
def test_the_maximum_is_the_limit_of_the_bound(case):
    """At one split: bound(beta)/beta falls to the maximum as beta grows."""
    moved = case.bound(1.0, 5).moved
    top = case.maximum(0, moved)[0]
    warm, cool, cold = (case.bound(b, 0, moved=moved).value / b for b in (1.0, 10.0, 1e4))
    assert warm >= cool - slack(top)
    assert cool >= cold - slack(top)
    assert top - slack(top) <= cold <= top + 0.02


# ---- By name -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from([0.5, 3.0, np.inf]))
def test_approximation_calls_what_it_names(case, beta):
    theta, p = case.theta, case.s.p
    domain = case.domain._replace(approximation=Approximation("convex", 4, 0.3, 1e-3))
    pi, nu = np.empty((2, theta.size + 2 * case.s.E))
    value, made, residual = second_order.bound(theta, None, domain, beta, pi, nu)
    if beta == np.inf:
        bound, score, *vectors, _ = case.maximum(4)
        assert (value, residual) == (bound, 0.0 if second_order.proves(bound, score) else 1.0)
    else:
        b = case.bound(beta, 4, 0.3, 1e-3)
        assert (value, made, residual) == (b.value / beta, b.made, b.residual)
        vectors = [b.pi, b.nu]
        mu = np.empty_like(theta)
        assert second_order.marginals(theta, domain, beta, mu) == pytest.approx(b.value, rel=1e-15)
        np.testing.assert_array_equal(mu, convex_bound.together(b.nu, p))
    np.testing.assert_array_equal([pi, nu], vectors)
    held = (pi - convex_bound.apart(theta, p))[: 3 * case.s.E]
    again, made, _ = second_order.bound(theta, held, domain, beta, pi, nu)
    assert made == 0
    if beta < np.inf or not case.all_siblings:
        assert again == pytest.approx(value, rel=1e-9, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(cases(pruned=st.just(True)))
def test_least_risk_has_the_largest_sum_of_beliefs(case):
    beliefs = case.rng.random(case.s.E)
    heads, sums = np.empty(case.n, np.int32), case.Z[:, : case.s.E] @ beliefs
    assert second_order.least_risk(beliefs, case.domain, heads) == pytest.approx(sums.max())
    assert sums[case.at(heads)] == pytest.approx(sums.max())
