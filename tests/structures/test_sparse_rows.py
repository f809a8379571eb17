"""Sparse rows for scores: those that are kept whole against the cells themselves."""

import numpy as np
import pytest

from turbotag.structures.sparse_rows import SparseRows, add_mixed, add_scores, mixed


@pytest.mark.parametrize("many", [1, 3, 100])
def test_rows_that_are_kept_whole_give_the_same_scores(many):
    """Empty rows too, and rows of all labels."""
    rng, K, T = np.random.default_rng(many), 6, 4
    labels = [np.flatnonzero(rng.random(K) < share) for share in (0.0, 0.2, 0.5, 0.8, 1.0)]
    first = np.cumsum([0, *map(len, labels)])
    cells = SparseRows(first, np.concatenate(labels).astype(np.int32))
    weights = rng.normal(size=cells.size).astype(np.float32)
    rows, positions = rng.integers(0, 5, 30).astype(np.int32), rng.integers(0, T, 30)
    given = rows, positions.astype(np.int32), rng.normal(size=30).astype(np.float32)
    scored = mixed(cells, weights, K, many)
    assert len(scored.whole) == sum(len(found) >= many for found in labels)
    found, expected = np.zeros((T, K)), np.zeros((T, K))
    add_mixed(*given, scored, found)
    add_scores(*cells, *given, weights, 1.0, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
