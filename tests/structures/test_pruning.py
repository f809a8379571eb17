"""Candidate arcs: what pruning keeps, against enumeration; a tree is always left."""

import numpy as np
import pytest

from tests.tree_oracles import EnumeratedTrees
from turbotag.models.parser import DECODERS
from turbotag.structures import projective, tree
from turbotag.structures.pruning import WIDE, chosen, every, full, prune, squares, with_gold

LIMIT, RATIO = WIDE

EVERY = pytest.mark.parametrize("decoder", DECODERS)
ROOTS = pytest.mark.parametrize("single_root", [True, False], ids=["single", "multi"])


def pruned(theta, decoder, single_root, *kept):
    """(cuts, heads) of one sentence from the scores of all its arcs."""
    n = int(theta.size**0.5)
    sentences = np.array([0, n])
    return prune(squares(theta, *full(n), sentences), sentences, decoder, single_root, kept)


def by_word(cuts, heads):
    """The candidate heads of each word as a list."""
    return [heads[a:b].tolist() for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


def matrix(theta, cuts, heads):
    """Scores with -inf where an arc is no candidate; theta are those of all arcs."""
    n = cuts.size - 1
    every = np.full((n + 1, n + 1), -np.inf)
    for (m, hs), row in zip(enumerate(by_word(*full(n)), 1), theta.reshape(n, n), strict=True):
        every[hs, m] = row
    out = np.full_like(every, -np.inf)
    for m, hs in enumerate(by_word(cuts, heads), 1):
        out[hs, m] = every[hs, m]
    return out


@pytest.mark.parametrize("n", range(1, 7))
def test_full(n):
    cuts, heads = full(n)
    assert by_word(cuts, heads) == [[h for h in range(n + 1) if h != m] for m in range(1, n + 1)]
    assert heads.dtype == np.int32


@EVERY
@ROOTS
@pytest.mark.parametrize("n", range(1, 6))
def test_keeps_the_probable_heads_and_the_best_tree(n, single_root, decoder):
    rng = np.random.default_rng(n)
    for limit, ratio, spread in [(2, 1e-4, 1.0), (1, 0.5, 2.0), (n, 0.2, 2.0), (3, 1e-4, 5.0)]:
        for _ in range(8):
            theta = rng.normal(size=n * n) * spread
            scores = matrix(theta, *full(n))
            exact = EnumeratedTrees(scores, single_root, 1.0, decoder == "projective")
            given = EnumeratedTrees(scores, single_root, 1.0, decoder != "nonprojective")
            best = given.heads[given.scores.argmax()]
            expected = []
            for m in range(1, n + 1):
                p = exact.marginals[:, m]
                first = sorted((h for h in range(n + 1) if h != m), key=lambda h: -p[h])[:limit]
                kept = {h for h in first if p[h] >= ratio * p[first[0]]}
                expected.append(sorted(kept | {int(best[m - 1])}))
            assert by_word(*pruned(theta, decoder, single_root, limit, ratio)) == expected


@EVERY
@ROOTS
def test_sentences_of_a_block_are_as_if_alone(single_root, decoder):
    rng = np.random.default_rng(5)
    sentences = np.array([0, 3, 4, 11, 13])
    cuts, heads = every(sentences)
    lengths = np.diff(sentences).tolist()
    thetas = [rng.normal(size=n * n) for n in lengths]
    scores = squares(np.concatenate(thetas), cuts, heads, sentences)
    found = by_word(*prune(scores, sentences, decoder, single_root, (4, 1e-2)))
    alone = [by_word(*pruned(theta, decoder, single_root, 4, 1e-2)) for theta in thetas]
    assert found == [word for sentence in alone for word in sentence]
    trees, begin = np.array([own[0] for own in found], np.int32), 0
    values = chosen(scores, sentences, trees)
    for a, n, theta in zip(sentences.tolist(), lengths, thetas, strict=False):
        own = scores[begin : begin + (n + 1) ** 2].reshape(n + 1, n + 1)
        np.testing.assert_array_equal(own, matrix(theta, *full(n)))
        assert values[a : a + n].tolist() == [own[trees[a + m], m + 1] for m in range(n)]
        begin += (n + 1) ** 2


@EVERY
@ROOTS
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 700.0])
def test_there_always_is_a_tree_and_it_is_the_best(single_root, decoder, scale):
    rng = np.random.default_rng(int(scale))
    argmax = tree.argmax if decoder == "nonprojective" else projective.argmax
    for n in (1, 2, 3, 7, 12, 25):
        for limit, ratio in (WIDE, (1, 1.0), (3, 0.5)):
            theta = rng.uniform(-scale, scale, n * n)
            cuts, heads = pruned(theta, decoder, single_root, limit, ratio)
            best, left = np.empty(n, np.int32), np.empty(n, np.int32)
            value = argmax(matrix(theta, *full(n)), single_root, best)
            assert argmax(matrix(theta, cuts, heads), single_root, left) == pytest.approx(value)
            sizes = np.diff(cuts)
            assert sizes.min() >= 1
            assert sizes.max() <= min(n, limit + 1)
            for m, hs in enumerate(by_word(cuts, heads), 1):
                assert hs == sorted(set(hs) - {m})
                assert best[m - 1] in hs
                assert len(set(hs) - {int(best[m - 1])}) <= limit


def test_one_word():
    for decoder in DECODERS:
        for single_root in (False, True):
            for theta in (-700.0, 0.0, 700.0):
                cuts, heads = pruned(np.array([theta]), decoder, single_root, LIMIT, RATIO)
                assert (cuts.tolist(), heads.tolist()) == ([0, 1], [0])


def test_a_single_root_can_need_an_improbable_arc():
    """Words 1 and 2 both like the root best; one of them must do without it."""
    theta = np.array([9.0, 0.0, 9.0, 0.0])  # 0 -> 1, 2 -> 1, 0 -> 2, 1 -> 2
    assert by_word(*pruned(theta, "nonprojective", False, 1, 1.0)) == [[0], [0]]
    cuts, heads = pruned(theta, "nonprojective", True, 1, 1.0)
    assert tree.argmax(matrix(theta, cuts, heads), True, np.empty(2, np.int32)) == 9.0


def test_with_gold():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 8))
        words = [
            sorted(rng.choice([h for h in range(n + 1) if h != m], rng.integers(0, n + 1), False))
            for m in range(1, n + 1)
        ]
        gold = [int(rng.choice([h for h in range(n + 1) if h != m])) for m in range(1, n + 1)]
        cuts = np.cumsum([0, *map(len, words)]).astype(np.int64)
        heads = np.array([h for w in words for h in w], np.int32)
        new_cuts, new_heads, found = with_gold(cuts, heads, np.array(gold, np.int32))
        expected = [sorted({*w, g}) for w, g in zip(words, gold, strict=True)]
        assert by_word(new_cuts, new_heads) == expected
        assert found == sum(g in w for w, g in zip(words, gold, strict=True))
        again = with_gold(new_cuts, new_heads, np.array(gold, np.int32))
        assert by_word(*again[:2]) == expected
        assert again[2] == n
