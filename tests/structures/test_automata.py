"""Head automata against the enumeration of heads and sets of children, word by word."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import END, START, SecondOrder, automaton, gibbs, sentence
from turbotag.structures import automata

SCALES = [0.0, 1.0, 5.0, 50.0, 700.0]
KERNELS = [automata.automata, automata._automata_log]


def draw(s, seed, scale, signs=False):
    """Scores u, v, siblings and grandparents as one vector; `signs`: all of one size."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], s.size + s.E) if signs else rng.normal(size=s.size + s.E)
    return scale * x


def split(x, s):
    """The four vectors that the kernels take."""
    E, S = s.E, int(s.p.siblings[-1])
    return x[:E], x[E : 2 * E], x[2 * E : 2 * E + S], x[2 * E + S :]


def enumerated(x, s):
    """(sum_h log Z_h, marginals) by brute force."""
    total, mu = 0.0, np.zeros(x.size)
    for h in range(1, s.n + 1):
        Z = automaton(s, h)
        log_z, mean = gibbs(Z @ x, Z)
        total, mu = total + log_z, mu + mean
    return total, mu


def call(kernel, x, s):
    mu = np.full(x.size, np.nan)
    return kernel(*split(x, s), s.p, *split(mu, s)), mu


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(SCALES[:-1]),
    st.booleans(),
)
def test_sums_and_marginals_are_those_of_all_paths(kernel, n, seed, pruned, scale, signs):
    s = sentence(n, seed, pruned, False)
    x = draw(s, seed, scale, signs)
    expected, mean = enumerated(x, s)
    total, mu = call(kernel, x, s)
    assert total == pytest.approx(expected, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(mu, mean, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=80, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.booleans(), st.booleans())
def test_scores_that_exponentials_cannot_hold(kernel, n, seed, pruned, signs):
    s = sentence(n, seed, pruned, False)
    x = draw(s, seed, SCALES[-1], signs)
    expected, mean = enumerated(x, s)
    total, mu = call(kernel, x, s)
    assert total == pytest.approx(expected, rel=1e-12, abs=1e-9)
    np.testing.assert_allclose(mu, mean, atol=1e-9)


@pytest.mark.parametrize("scale", [1e8, 1e13, 1e18, 1e24])
def test_scores_that_rounding_decides(scale):
    for seed in range(20):
        s = sentence(4, seed, seed % 2 == 0, False)
        for signs in (False, True):
            total, mu = call(automata.automata, draw(s, seed, scale, signs), s)
            assert np.isfinite(total)
            assert mu.min() >= 0.0
            assert mu.max() <= 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000), st.booleans(), st.sampled_from([1.0, 20.0]))
def test_plain_and_logarithmic_automata_agree(n, seed, pruned, scale):
    s = sentence(n, seed, pruned, False)
    x = draw(s, seed, scale)
    mu = np.full(x.size, np.nan)
    plain = [np.exp(part) for part in split(x, s)]
    total = automata._automata(*plain, s.p, *split(mu, s))
    expected, mean = call(automata._automata_log, x, s)
    if total == total:  # it says so where the numbers are out of its range
        assert total == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(mu, mean, atol=1e-9)
    else:
        assert scale > 1.0


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from(SCALES),
    st.booleans(),
)
def test_best_paths(n, seed, pruned, scale, signs):
    s = sentence(n, seed, pruned, False)
    x = draw(s, seed, scale, signs)
    total, z = call(automata.best_paths, x, s)
    expected, left = 0.0, z.copy()
    for h in range(1, s.n + 1):
        Z = automaton(s, h)
        expected += (Z @ x).max()
        mine = Z.any(axis=0)  # parts of other words are none of this one
        (at,) = np.nonzero((Z[:, mine] == z[mine]).all(axis=1))
        assert at.size == 1  # one configuration, and all of it
        assert Z[at[0]] @ x == pytest.approx((Z @ x).max(), rel=1e-12, abs=1e-9)
        left[mine] = 0.0
    assert not left.any()
    assert total == pytest.approx(expected, rel=1e-12, abs=1e-9)


def test_two_words_in_closed_form():
    """Arcs 0-1, 2-1, 0-2, 1-2: a word has one child at most, and none if that is its head."""
    s = SecondOrder(np.array([0, 2, 4]), np.array([0, 2, 0, 1], np.int32), False)
    total, mu = call(automata.automata, np.zeros(s.size + s.E), s)
    assert total == pytest.approx(2 * np.log(3))  # (root, child), (root, none), (other, none)
    u, v, siblings, _ = split(mu, s)
    np.testing.assert_allclose(u, [0, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(v, [2 / 3, 1 / 3, 2 / 3, 1 / 3])
    assert siblings.sum() == pytest.approx(4 + 2 / 3)


def test_a_side_that_underflows_under_one_head_only():
    """Word 1 without a child has a weight of e^-800, and with word 2 as its head no other way."""
    s = SecondOrder(np.array([0, 2, 4]), np.array([0, 2, 0, 1], np.int32), False)
    x = np.zeros(s.size + s.E)
    x[s.E + s.at["next", 1, 1, START, END]] = -800.0
    expected, mean = enumerated(x, s)
    total, mu = call(automata.automata, x, s)
    assert total == pytest.approx(expected)
    np.testing.assert_allclose(mu, mean, atol=1e-9)
