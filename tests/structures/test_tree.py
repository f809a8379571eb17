"""Non-projective trees: hard cases, a textbook Chu-Liu-Edmonds, and projective trees."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.structures.conformance import TreeConformance, both
from tests.tree_oracles import draw, is_tree
from turbotag.structures import projective, tree

cases = st.tuples(st.integers(1, 5), st.integers(0, 10_000), st.booleans(), st.booleans())


class TestTree(TreeConformance):
    structure = tree

    def count(self, n, single_root):
        """Cayley."""
        return n ** (n - 1) if single_root else (n + 1) ** (n - 1)


def check(scores, single_root):
    trees = TestTree()
    trees.check(trees.case(scores, single_root))


def marginals(scores, single_root, beta=1.0):
    mu = np.full_like(scores, np.nan)
    return tree.marginals(scores, single_root, beta, mu), mu


def argmax(scores, single_root):
    heads = np.full(len(scores) - 1, -1, np.int32)
    return tree.argmax(scores, single_root, heads), heads


def score(scores, heads):
    return float(scores[heads, np.arange(1, len(heads) + 1)].sum())


def check_sums(mu, single_root, tolerance=1e-10):
    assert mu.min() >= 0.0
    assert mu.max() <= 1.0 + tolerance
    assert not mu[:, 0].any()
    assert not np.diag(mu).any()
    np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=tolerance)
    assert mu[0].sum() >= 1.0 - tolerance
    if single_root:
        assert mu[0].sum() == pytest.approx(1.0, abs=tolerance)


# ---- Hard cases ---------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(cases, st.sampled_from([1.0, 1.6]))
def test_scores_at_every_distance(case, stretch):
    """Weights of 1 to e^-600 in one graph, where products of two do not fit into a float; and to
    e^-960, where the weights do not either."""
    n, seed, banned, single_root = case
    scores, rng = draw(n, seed, banned)
    depths = stretch * rng.choice([0, -100, -300, -500, -600], scores.shape)
    check(scores + depths, single_root)


@both
def test_an_arc_too_light_for_a_float(single_root):
    """The best tree has one arc of e^-800; with a single root there is one with two of e^-500,
    which would remain if the first were lost."""
    scores = np.full((5, 5), -np.inf)
    scores[[0, 3, 4, 1, 2], [3, 4, 3, 2, 1]] = 0.0
    scores[4, 1] = -800.0
    scores[0, 1] = scores[2, 3] = -500.0
    for order in itertools.permutations(range(1, 5)):
        places = [0, *order]
        check(scores[np.ix_(places, places)], single_root)


def test_cycles_within_cycles_in_any_order():
    """The best tree is e^-800 under the best heads, and another one e^-900: a sum that lost the
    first to underflow would still be positive."""
    for m, m_twin, k, r, r_twin in itertools.permutations(range(1, 6)):
        scores = np.full((6, 6), -np.inf)
        scores[[m_twin, m, m, r_twin, r], [m, m_twin, k, r, r_twin]] = 0.0
        scores[k, m] = scores[r, k] = -400.0
        scores[k, r] = -300.0
        scores[0, r], scores[0, m] = 0.0, -600.0
        check(scores, True)
        check(scores, False)
        assert argmax(scores, True)[0] == -800.0


@both
@pytest.mark.parametrize("scale", [1.0, 250.0])
@pytest.mark.parametrize("word", range(1, 6))
def test_a_word_with_no_head_but_the_root(word, scale, single_root):
    """Wherever it stands, it has to be the last one to be eliminated."""
    scores, _ = draw(5, word, scale=scale)
    scores[1:, word] = -np.inf
    check(scores, single_root)
    log_z, mu = marginals(scores, single_root)
    assert math.isfinite(log_z)
    assert mu[0, word] == pytest.approx(1.0)
    scores[1:, word % 5 + 1] = -np.inf
    check(scores, single_root)
    assert (marginals(scores, single_root)[0] == -math.inf) == single_root


def chain_of_heads(order, seed):
    """Word order[i] has the head order[i-1] alone, order[0] the root: one tree, many swaps."""
    scores = np.full((len(order) + 1,) * 2, -np.inf)
    heads = np.empty(len(order), np.int32)
    rng = np.random.default_rng(seed)
    for h, m in itertools.pairwise([0, *order]):
        scores[h, m], heads[m - 1] = rng.normal(), h
    return scores, heads


@both
def test_the_only_tree(single_root):
    for seed in range(20):
        scores, heads = chain_of_heads(np.random.default_rng(seed).permutation(30) + 1, seed)
        log_z, mu = marginals(scores, single_root)
        assert log_z == pytest.approx(score(scores, heads))
        np.testing.assert_allclose(mu, scores > -np.inf, atol=1e-12)
        value, found = argmax(scores, single_root)
        assert value == pytest.approx(log_z)
        np.testing.assert_array_equal(found, heads)


def tops(scores, single_root):
    """Scores of best heads as `marginals` takes them out."""
    n = len(scores) - 1
    top = np.zeros(n + 1)
    for m in range(1, n + 1):
        heads = [scores[h, m] for h in range(int(single_root), n + 1) if h != m]
        top[m] = max(heads, default=0.0)
        top[m] = top[m] if top[m] > -np.inf else 0.0
    if single_root:
        top[0] = (scores[0, 1:] - top[1:]).max()
    return top


@settings(max_examples=100, deadline=None)
@given(cases, st.sampled_from([0.5, 2.0]), st.integers(0, 1))
def test_exponentials_and_logarithms_agree(case, beta, only_root):
    n, seed, banned, single_root = case
    n *= 4
    scores, rng = draw(n, seed, banned)
    if only_root:
        scores[1:, rng.integers(1, n + 1)] = -np.inf
    top = tops(scores, single_root)
    if top[0] == -np.inf:
        return
    plain, logs = np.full_like(scores, np.nan), np.full_like(scores, np.nan)
    space = tree.space(len(scores) - 1)
    tree._relative(scores, beta, top, space.matrices[0])
    other = tree._logarithmic(space.matrices[0], single_root, logs)
    log_z = tree._linear(space, single_root, plain)
    if other == -np.inf:
        assert math.isnan(log_z)
        return
    assert log_z == pytest.approx(other, rel=1e-12, abs=1e-11)
    np.testing.assert_allclose(plain, logs, atol=1e-11)
    check_sums(logs, single_root)
    expected = log_z + beta * math.fsum(top)
    assert marginals(scores, single_root, beta)[0] == pytest.approx(expected, abs=1e-12)


# ---- The best trees -----------------------------------------------------------------------------


def chu_liu_edmonds(scores):
    """The textbook's recursion: the best head for each word; contract a cycle, recurse, open it."""
    s = scores.copy()
    np.fill_diagonal(s, -np.inf)
    heads = s.argmax(axis=0)
    heads[0] = 0
    for start in range(1, len(s)):
        seen, at = [start], heads[start]
        while at and at not in seen:
            seen.append(at)
            at = heads[at]
        if at:
            cycle = seen[seen.index(at) :]
            break
    else:
        return heads
    rest = [x for x in range(len(s)) if x not in cycle]
    new = np.full((len(rest) + 1,) * 2, -np.inf)
    new[:-1, :-1] = s[np.ix_(rest, rest)]
    entering = s[np.ix_(rest, cycle)] - s[heads[cycle], cycle]
    leaving = s[np.ix_(cycle, rest)]
    new[:-1, -1], new[-1, :-1] = entering.max(axis=1), leaving.max(axis=0)
    inner = chu_liu_edmonds(new)
    for place, head in enumerate(inner[:-1]):
        at = head if head < len(rest) else -1
        heads[rest[place]] = rest[at] if at >= 0 else cycle[leaving[:, place].argmax()]
    heads[cycle[entering[inner[-1]].argmax()]] = rest[inner[-1]]
    return heads


def slow_argmax(scores, single_root):
    """A single root by trying every one."""
    s = scores.copy()
    s[:, 0] = -np.inf
    if not single_root:
        heads = chu_liu_edmonds(s)[1:]
        return score(scores, heads), heads
    found = []
    for root in range(1, len(s)):
        one = s.copy()
        one[0] = -np.inf
        one[0, root] = s[0, root]
        heads = chu_liu_edmonds(one)[1:]
        found.append((score(scores, heads), root, heads))
    value, _, heads = max(found, key=lambda f: f[0])
    return value, heads


@both
@pytest.mark.parametrize("n", [2, 3, 7, 12, 20])
def test_argmax_is_that_of_the_textbook(single_root, n):
    for seed in range(5):
        scores, _ = draw(n, seed)
        value, heads = argmax(scores, single_root)
        expected, slow = slow_argmax(scores, single_root)
        assert value == pytest.approx(expected)
        np.testing.assert_array_equal(heads, slow)


@both
def test_argmax_of_fifty_words(single_root):
    n = 50
    scores, rng = draw(n, 5)
    value, heads = argmax(scores, single_root)
    expected, slow = slow_argmax(scores, single_root)
    assert value == pytest.approx(expected)
    np.testing.assert_array_equal(heads, slow)
    best = -math.inf
    for beta in (0.5, 1.0, 2.0, 3.0):
        for _ in range(500):
            assert tree.sample(scores, single_root, beta, rng, heads) > -math.inf
            best = max(best, score(scores, heads))
    assert is_tree(heads)
    assert best <= value + 1e-9


# ---- Where only projective trees are possible ---------------------------------------------------


def projective_only(n, seed, arcs):
    """Scores of a graph without a tree that is not projective: arcs between neighbours, which
    span no word, and arcs of the root, or those of one projective tree. From a word under the arc
    h -> m of that tree the way up ends in h or m, as tree arcs do not cross it."""
    scores, _ = draw(n, seed)
    allowed = np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) == 1
    allowed[0] = arcs == "neighbours"
    if arcs == "tree":
        heads = np.empty(n, np.int32)
        projective.argmax(scores, True, heads)
        allowed[heads, np.arange(1, n + 1)] = True
    scores[~allowed] = -np.inf
    return scores


@both
@pytest.mark.parametrize("arcs", ["neighbours", "tree"])
@pytest.mark.parametrize("n", [1, 4, 6, 40])
def test_equal_to_projective_trees_where_there_are_no_others(single_root, arcs, n):
    for seed, beta in enumerate((1.0, 0.4, 3.0)):
        scores = projective_only(n, seed, arcs)
        log_z, mu = marginals(scores, single_root, beta)
        nu = np.empty_like(mu)
        other = projective.marginals(scores, single_root, beta, nu)
        assert log_z == pytest.approx(other, rel=1e-12, abs=1e-11)
        np.testing.assert_allclose(mu, nu, atol=1e-10)
        heads = np.empty(n, np.int32)
        value = projective.argmax(scores, single_root, heads)
        found, best = argmax(scores, single_root)
        assert found == pytest.approx(value)
        np.testing.assert_array_equal(best, heads)
        one, two = (s.kbest(scores, single_root, 8)[1] for s in (tree, projective))
        np.testing.assert_allclose(one, two, atol=1e-10)


@both
def test_projective_trees_weigh_less_than_all(single_root):
    scores, _ = draw(12, 7)
    inside = projective.marginals(scores, single_root, 1.0, np.empty_like(scores))
    assert inside < marginals(scores, single_root)[0]
