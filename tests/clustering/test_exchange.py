"""Classes of words: the objective by brute force, planted classes, threads, the tree."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.clustering import merging
from turbotag.clustering.exchange import FIXED, Exchange, bigrams, class_counts, objective


def brute_objective(words, classes):
    """F from its definition, over the text itself."""
    pairs = [(classes[a], classes[b]) for a, b in itertools.pairwise(words)]
    n, left, right = {}, {}, {}
    for c, d in pairs:
        n[c, d] = n.get((c, d), 0) + 1
        left[c] = left.get(c, 0) + 1
        right[d] = right.get(d, 0) + 1

    def sums(counts):
        return sum(v * math.log(v) for v in counts.values())

    return sums(n) - sums(left) - sums(right)


def log_likelihood(words, classes):
    """Of a class-based bigram model with relative frequencies, words after the first."""
    after = words[1:]
    of_class, of_word, pairs, left = {}, {}, {}, {}
    for w in after:
        of_word[w] = of_word.get(w, 0) + 1
        of_class[classes[w]] = of_class.get(classes[w], 0) + 1
    for a, b in itertools.pairwise(words):
        pairs[classes[a], classes[b]] = pairs.get((classes[a], classes[b]), 0) + 1
        left[classes[a]] = left.get(classes[a], 0) + 1
    return sum(
        math.log(pairs[classes[a], classes[b]] / left[classes[a]])
        + math.log(of_word[b] / of_class[classes[b]])
        for a, b in itertools.pairwise(words)
    )


texts = st.lists(st.integers(0, 8), min_size=2, max_size=60)


@given(texts, st.integers(1, 4), st.data())
@settings(deadline=None)
def test_objective_is_the_log_likelihood_but_for_a_constant(words, C, data):
    n = max(9, FIXED + 1)
    pairs = bigrams(np.array(words), n)
    found = []
    for _ in range(2):
        classes = np.array(data.draw(st.lists(st.integers(0, C), min_size=n, max_size=n)), np.int32)
        value = objective(class_counts(pairs, classes, C + 1))
        assert value == pytest.approx(brute_objective(words, classes.tolist()), abs=1e-9)
        found.append(value - log_likelihood(words, classes.tolist()))
    assert found[0] == pytest.approx(found[1], abs=1e-9)


@given(texts, st.integers(1, 4), st.integers(1, 3))
@settings(deadline=None)
def test_it_never_falls_ends_where_no_word_gains_and_counts_stay_right(words, C, threads):
    n = 9
    exchange = Exchange(bigrams(np.array(words), n), C, threads)
    values = [exchange.objective()]
    for _ in range(30):
        before = exchange.classes.copy()
        exchange.run(1, lambda words: values.append(exchange.objective()))
        if (exchange.classes == before).all():
            break
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(values))
    assert values[-1] == pytest.approx(brute_objective(words, exchange.classes.tolist()), abs=1e-9)
    np.testing.assert_equal(exchange.N, class_counts(exchange.data, exchange.classes, C + FIXED))
    assert (exchange.Nt == exchange.N.T).all()
    assert exchange.classes[:FIXED].tolist() == [0, 1]
    for w in range(FIXED, n):  # a local optimum: no single word gains by moving
        for k in range(FIXED, C + FIXED):
            other = exchange.classes.copy()
            other[w] = k
            assert brute_objective(words, other.tolist()) <= values[-1] + 1e-6


GRAMMAR = ("DNV", "DNVDN", "DANV", "NVPDN", "DNPDNV", "V", "NVA", "DANPN")


def planted(seed, size=15, sentences=1500):
    """Sentences of a grammar of five classes with words drawn at random: (words, truth)."""
    rng = np.random.default_rng(seed)
    words, kinds = [0], sorted(set("".join(GRAMMAR)))
    for s in rng.integers(len(GRAMMAR), size=sentences):
        classes = [kinds.index(c) for c in GRAMMAR[s]]
        words += [FIXED + c * size + int(rng.integers(size)) for c in classes] + [0]
    truth = np.arange(len(kinds) * size) // size
    frequency = np.bincount(words, minlength=FIXED + truth.size)
    order = np.argsort(-frequency[FIXED:], kind="stable")
    rank = np.arange(FIXED + truth.size)
    rank[FIXED + order] = FIXED + np.arange(truth.size)
    return rank[words], truth[order]


@pytest.mark.parametrize("seed", range(4))
def test_planted_classes_are_found(seed):
    words, truth = planted(seed)
    exchange = Exchange(bigrams(words, FIXED + truth.size), 8)
    exchange.run(20)
    before = exchange.objective()
    exchange.put(merging.merged(exchange.classes, exchange.N, 5))
    assert exchange.objective() <= before + 1e-6
    exchange.run(20)
    assert len(set(zip(exchange.classes[FIXED:].tolist(), truth.tolist(), strict=True))) == 5


def test_threads_do_not_change_a_word():
    words, truth = planted(5, size=80)
    n, results = FIXED + truth.size, []
    for threads in (1, 2, 3):
        exchange = Exchange(bigrams(words, n), 7, threads)
        exchange.run(4)
        results.append(exchange.classes.tolist())
    assert results[0] == results[1] == results[2]


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_merges_lose_the_least_at_each_step(C, seed):
    rng = np.random.default_rng(seed)
    N = rng.integers(0, 9, (C + FIXED, C + FIXED)) * (rng.random((C + FIXED, C + FIXED)) < 0.6)
    N = N.astype(np.int64)
    groups = {c: [c] for c in range(C + FIXED)}

    def merged(groups):
        names = list(groups)
        return objective(
            np.array([[N[np.ix_(groups[a], groups[b])].sum() for b in names] for a in names])
        )

    g = merging.g_table(int(N.sum()) + 1)
    for u, v in merging._merge(N.copy(), g).tolist():
        best = -np.inf
        for i, j in itertools.combinations([c for c in groups if c >= FIXED], 2):
            tried = {c: m for c, m in groups.items() if c != j} | {i: groups[i] + groups[j]}
            best = max(best, merged(tried))
        groups[u] = groups[u] + groups.pop(v)
        assert merged(groups) == pytest.approx(best, abs=1e-7)
    paths = merging.paths(N)
    assert len(paths) == C
    assert len(set(paths)) == C
    assert not any(a != b and b.startswith(a) for a in paths for b in paths if a)
