"""Bisecting k-means: clouds of points, prefixes, and vectors that cannot be told apart."""

import numpy as np
import pytest

from turbotag.clustering.bisecting import LEAST, paths, split


def clouds(seed, sizes=(40, 30, 25, 20), dimensions=6, spread=0.15):
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0][: len(sizes)]
    points = [
        c + spread * rng.normal(size=(n, dimensions)) for c, n in zip(centres, sizes, strict=True)
    ]
    return np.concatenate(points).astype(np.float32), np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("seed", range(5))
def test_clouds_are_leaves(seed):
    X, truth = clouds(seed)
    found = paths(X, 3)
    for a in range(4):
        first = {p[:2] for p, t in zip(found, truth.tolist(), strict=True) if t == a}
        three = {p for p, t in zip(found, truth.tolist(), strict=True) if t == a}
        assert len(first) == 1 or len({p[:1] for p in three}) == 1
    together = {p for p, t in zip(found, truth.tolist(), strict=True) if t == 0}
    apart = {p for p, t in zip(found, truth.tolist(), strict=True) if t != 0}
    assert not together & apart


def test_a_split_is_where_2_means_stays():
    X, _ = clouds(1, (50, 50), spread=0.5)
    right = split(X)
    a, b = X[~right].mean(axis=0), X[right].mean(axis=0)
    nearer = ((X - b) ** 2).sum(axis=1) < ((X - a) ** 2).sum(axis=1)
    assert np.mean(nearer == right) > 0.97


def test_paths_are_a_tree_of_few_levels_and_repeat():
    X, _ = clouds(2, (300, 200), spread=0.6)
    found = paths(X, 5)
    assert found == paths(X.copy(), 5)
    assert {len(p) for p in found} <= {1, 2, 3, 4, 5}
    leaves = set(found)
    assert not any(a != b and b.startswith(a) for a in leaves for b in leaves)
    small = [p for p in leaves if len(p) < 5]
    assert all(found.count(p) < LEAST for p in small)


def test_equal_and_empty_vectors():
    heard = []
    found = paths(np.zeros((20, 3), np.float32), 4, heard.append)
    assert sum(heard) == 20
    assert len(set(found)) > 1
    assert paths(np.ones((1, 2), np.float32), 4) == ["0"]
