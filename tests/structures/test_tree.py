"""Non-projective trees against enumeration, a textbook Chu-Liu-Edmonds and projective trees."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree_oracles import EnumeratedTrees, draw, is_tree, trees
from turbotag.structures import projective, tree

cases = st.tuples(st.integers(1, 5), st.integers(0, 10_000), st.booleans(), st.booleans())
both = pytest.mark.parametrize("single_root", [False, True])


def marginals(scores, single_root, beta=1.0):
    mu = np.full_like(scores, np.nan)
    return tree.marginals(scores, single_root, beta, mu), mu


def argmax(scores, single_root):
    heads = np.full(len(scores) - 1, -1, np.int32)
    return tree.argmax(scores, single_root, heads), heads


def score(scores, heads):
    return float(scores[heads, np.arange(1, len(heads) + 1)].sum())


def check(scores, single_root, beta=1.0, tolerance=1e-10):
    exact = EnumeratedTrees(scores, single_root, beta)
    log_z, mu = marginals(scores, single_root, beta)
    if exact.log_partition == -math.inf:
        assert log_z == -math.inf
        assert not mu.any()
        return
    assert log_z == pytest.approx(exact.log_partition, rel=1e-12, abs=1e-10)
    np.testing.assert_allclose(mu, exact.marginals, atol=tolerance)
    seen = mu > 0
    entropy = log_z - beta * float(scores[seen] @ mu[seen])
    assert tree.entropy(scores, single_root, beta) == pytest.approx(entropy, abs=1e-9)
    assert entropy == pytest.approx(exact.entropy, abs=tolerance * max(1.0, abs(log_z)))


def check_sums(mu, single_root, tolerance=1e-10):
    assert mu.min() >= 0.0
    assert mu.max() <= 1.0 + tolerance
    assert not mu[:, 0].any()
    assert not np.diag(mu).any()
    np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=tolerance)
    assert mu[0].sum() >= 1.0 - tolerance
    if single_root:
        assert mu[0].sum() == pytest.approx(1.0, abs=tolerance)


# ---- log Z and marginals ------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(cases, st.sampled_from([0.3, 1.0, 3.0]))
def test_log_partition_marginals_and_entropy(case, beta):
    n, seed, banned, single_root = case
    check(draw(n, seed, banned)[0], single_root, beta)


@both
@pytest.mark.parametrize("banned", [False, True])
def test_log_partition_and_marginals_of_six_words(single_root, banned):
    check(draw(6, 1, banned)[0], single_root)


@pytest.mark.parametrize("n", [*range(1, 7), 30, 100])
def test_counts_trees(n):
    """(n+1)^(n-1) trees (Cayley), n^(n-1) with a single root; all words are alike."""
    scores = np.zeros((n + 1, n + 1))
    log_z, mu = marginals(scores, False)
    assert log_z == pytest.approx((n - 1) * math.log(n + 1), rel=1e-13)
    check_sums(mu, False)
    assert np.ptp(mu[0, 1:]) < 1e-12
    log_z, mu = marginals(scores, True)
    assert log_z == pytest.approx((n - 1) * math.log(n), rel=1e-13)
    check_sums(mu, True)
    np.testing.assert_allclose(mu[0, 1:], 1 / n, atol=1e-12)


@both
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_gradient_of_log_partition_is_the_marginals(single_root, scale):
    n, h, beta = 9, 1e-5, 0.7
    scores, _ = draw(n, 3, banned=True, scale=scale)
    _, mu = marginals(scores, single_root, beta)
    for head, modifier in zip(*np.nonzero(scores > -np.inf), strict=True):
        if modifier == 0 or head == modifier:
            continue
        up, down = scores.copy(), scores.copy()
        up[head, modifier] += h
        down[head, modifier] -= h
        rise = marginals(up, single_root, beta)[0] - marginals(down, single_root, beta)[0]
        assert rise / (2 * h) == pytest.approx(beta * mu[head, modifier], abs=1e-7)


@both
def test_a_constant_on_all_arcs_of_a_word_changes_no_marginal(single_root):
    n = 20
    scores, rng = draw(n, 4)
    shift = 300.0 * rng.normal(size=n)
    log_z, mu = marginals(scores, single_root)
    shifted = scores.copy()
    shifted[:, 1:] += shift
    other, nu = marginals(shifted, single_root)
    assert other == pytest.approx(log_z + shift.sum(), rel=1e-12)
    np.testing.assert_allclose(nu, mu, atol=1e-10)


@both
@pytest.mark.parametrize("scale", [1.0, 30.0, 150.0, 700.0])
@pytest.mark.parametrize("banned", [False, True])
def test_marginals_of_a_long_sentence(single_root, scale, banned):
    scores, _ = draw(60, 2, banned, scale)
    log_z, mu = marginals(scores, single_root)
    assert math.isfinite(log_z)
    check_sums(mu, single_root, 1e-8)
    assert not mu[scores == -np.inf].any()
    value, _ = argmax(scores, single_root)
    assert value <= log_z + 1e-9 * abs(log_z)
    assert log_z <= value + 59 * math.log(61)


# ---- Hard cases ---------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("scale", [200.0, 700.0])
@pytest.mark.parametrize("banned", [False, True])
def test_huge_scores(single_root, scale, banned):
    for seed in range(8):
        check(draw(5, seed, banned, scale)[0], single_root, tolerance=1e-9)
        signs = np.random.default_rng(seed).choice([-700.0, 700.0], size=(6, 6))
        check(signs, single_root, tolerance=1e-9)


@both
@pytest.mark.parametrize("scale", [1e6, 1e10, 1e13, 1e16, 1e20, 1e26])
def test_scores_that_rounding_decides(single_root, scale):
    """Whatever the scores, marginals are those of some distribution over trees, near the best."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        even = np.full((5, 5), -1.0)
        even[rng.integers(0, 5), rng.integers(0, 5)] = 1.0
        for scores in (rng.choice([-1.0, 1.0], (5, 5)), rng.uniform(-1, 1, (7, 7)), even):
            for beta in (1.0, 1.1e3):
                log_z, mu = marginals(scale * scores, single_root, beta)
                check_sums(mu, single_root, tolerance=2e-3)
                best = beta * argmax(scale * scores, single_root)[0]
                assert log_z == pytest.approx(best, rel=1e-12, abs=20.0)


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


@both
def test_a_cycle_of_best_heads(single_root):
    """1 and 2 are each other's heads but for one tree in e^300; so are 3 and 4."""
    for depth in (20.0, 300.0, 590.0, 2000.0):
        scores = -depth + draw(5, 0)[0]
        for a, b in ((1, 2), (3, 4)):
            scores[a, b] += depth
            scores[b, a] += depth
        check(scores, single_root)
        _, mu = marginals(scores, single_root)
        assert mu[1, 2] + mu[2, 1] == pytest.approx(1.0, abs=1e-6)


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
def test_no_tree(single_root):
    """A word without a head; a cycle as the only choice; no root."""
    headless, cycle, rootless = np.zeros((4, 4)), np.full((4, 4), -np.inf), np.zeros((4, 4))
    headless[:, 2] = -np.inf
    cycle[[2, 1, 0], [1, 2, 3]] = 0.0
    rootless[0] = -np.inf
    rng = np.random.default_rng(0)
    for scores in (headless, cycle, rootless):
        check(scores, single_root)
        assert argmax(scores, single_root)[0] == -math.inf
        assert tree.sample(scores, single_root, 1.0, rng, np.empty(3, np.int32)) == -math.inf
        heads, values = tree.kbest(scores, single_root, 5)
        assert heads.shape == (0, 3)
        assert values.shape == (0,)


def test_many_roots_only():
    scores = np.full((3, 3), -np.inf)
    scores[0] = 0.5
    assert marginals(scores, False)[0] == pytest.approx(1.0)
    assert marginals(scores, True)[0] == -math.inf
    value, heads = argmax(scores, False)
    assert (value, heads.tolist()) == (1.0, [0, 0])
    assert argmax(scores, True)[0] == -math.inf


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


@settings(max_examples=150, deadline=None)
@given(cases, st.sampled_from([1.0, 700.0]))
def test_argmax(case, scale):
    n, seed, banned, single_root = case
    scores, _ = draw(n, seed, banned, scale)
    before = scores.copy()
    exact = EnumeratedTrees(scores, single_root)
    value, heads = argmax(scores, single_root)
    assert value == pytest.approx(exact.scores.max(), rel=1e-12)
    if value > -math.inf:
        np.testing.assert_array_equal(heads, exact.heads[exact.scores.argmax()])
    np.testing.assert_array_equal(scores, before)


@settings(max_examples=150, deadline=None)
@given(cases)
def test_argmax_with_ties(case):
    n, seed, banned, single_root = case
    scores, rng = draw(n, seed, banned)
    scores = np.where(scores == -np.inf, scores, rng.integers(0, 2, scores.shape))
    exact = EnumeratedTrees(scores, single_root)
    value, heads = argmax(scores, single_root)
    assert value == exact.scores.max()
    if value > -math.inf:
        assert is_tree(heads)
        assert score(scores, heads) == value
        assert (heads == 0).sum() == 1 or not single_root


@both
@pytest.mark.parametrize("n", [1, 2, 6, 50])
def test_argmax_where_all_is_equal(single_root, n):
    value, heads = argmax(np.zeros((n + 1, n + 1)), single_root)
    assert value == 0.0
    assert is_tree(heads)
    assert (heads == 0).sum() == 1 or not single_root


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


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 40))
def test_k_best(case, k):
    n, seed, banned, single_root = case
    scores, _ = draw(min(n, 4), seed, banned)
    exact = EnumeratedTrees(scores, single_root)
    heads, values = tree.kbest(scores, single_root, k)
    possible = int((exact.scores > -np.inf).sum())
    assert len(heads) == len(values) == min(k, possible)
    np.testing.assert_allclose(values, np.sort(exact.scores)[::-1][: len(values)], atol=1e-10)
    assert len({tuple(h) for h in heads.tolist()}) == len(heads)
    for h, value in zip(heads, values, strict=True):
        assert is_tree(h)
        assert score(scores, h) == pytest.approx(value)


@both
@pytest.mark.parametrize("is_projective", [False, True])
def test_k_best_gives_every_tree(single_root, is_projective):
    scores = np.round(draw(4, 1)[0])  # with many ties
    heads, values = (projective if is_projective else tree).kbest(scores, single_root, 1000)
    expected = trees(4, single_root, is_projective)
    assert sorted(heads.tolist()) == sorted(expected.tolist())
    assert (np.diff(values) <= 0).all()


# ---- Samples ------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("banned", [False, True])
def test_samples_have_the_right_frequencies(single_root, banned):
    n, draws, beta = 4, 20_000, 0.8
    scores, rng = draw(n, 4, banned)
    exact = EnumeratedTrees(scores, single_root, beta)
    counts = {tuple(heads): 0 for heads in exact.heads.tolist()}
    heads = np.empty(n, np.int32)
    for _ in range(draws):
        assert tree.sample(scores, single_root, beta, rng, heads) > -math.inf
        counts[tuple(heads.tolist())] += 1
    observed = np.array(list(counts.values()))
    assert not observed[exact.p == 0].any()
    assert np.abs(observed / draws - exact.p).max() < 5 * math.sqrt(0.25 / draws)
    expected = draws * exact.p
    often = expected > 5
    chi_sq = float(((observed - expected)[often] ** 2 / expected[often]).sum())
    assert chi_sq < often.sum() + 5 * math.sqrt(2 * often.sum())


@both
def test_same_seed_same_sample(single_root):
    scores, _ = draw(20, 6)
    found = []
    for _ in range(2):
        heads = np.empty(20, np.int32)
        tree.sample(scores, single_root, 1.0, np.random.default_rng(3), heads)
        found.append(heads)
    np.testing.assert_array_equal(*found)


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
