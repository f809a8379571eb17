"""Tables of weights and of rows against a dictionary; scores of a block against keys and sums."""

import numpy as np
import pytest

from turbotag.features import compact
from turbotag.features.weights import MARKS, TAGS, RowTable, WeightTable

HALF = np.uint64(32)
SCALES = np.array([0.7], np.float32)


def keys_of(marks):
    return np.asarray(marks, np.uint64) << HALF | np.uint64(12345)


def random_marks(rng, n):
    return np.unique(rng.integers(1, 1 << 32, n, dtype=np.uint64))


def random_ends(rng, size, n):
    """n ranges, many of them empty, that end at `size`."""
    cuts = np.sort(rng.integers(0, size + 1, n))
    cuts[::3] = cuts[np.minimum(np.arange(0, n, 3) + 1, n - 1)]
    return np.append(np.sort(cuts), [size, size]).astype(np.int64)


def agree(rng, known, asked):
    """Both tables with the marks known, about the marks asked for."""
    q = rng.integers(-128, 128, known.size).astype(np.int8)
    weights = compact.dequantize(q, SCALES)
    at = {mark: i for i, mark in enumerate(known.tolist())}
    rows = [at.get(mark, -1) for mark in asked.tolist()]
    assert RowTable(keys_of(known)).lookup(keys_of(asked)).tolist() == rows
    table = WeightTable(keys_of(known), q, SCALES)
    assert table.data.lines.ctypes.data % 32 == 0
    for ends in (random_ends(rng, asked.size, 1 + asked.size // 3), np.arange(1, asked.size + 1)):
        each = [float(weights[r]) if r >= 0 else 0.0 for r in rows]
        expected = [sum(each[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        found = table.sums(keys_of(asked), ends)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 10, 11, 1000, 20000])
def test_tables_against_a_dictionary(n):
    rng = np.random.default_rng(n)
    known, unknown = random_marks(rng, n), random_marks(rng, n + 3)
    agree(rng, known, rng.permutation(np.concatenate([known, known[: n // 2], unknown])))


@pytest.mark.parametrize("n", [1, MARKS - 1, MARKS, MARKS + 1, TAGS, TAGS + 1, 200])
@pytest.mark.parametrize("first", [1, 0x10000, 0xFFFF0000, 0xFFFFFF00])
def test_marks_that_share_a_line(first, n):
    """Neighbours fall into one line, which overflows; the last line has no other behind it."""
    rng = np.random.default_rng(n)
    near = np.arange(first, min(first + 2 * n, 1 << 32), dtype=np.uint64)
    known = np.sort(rng.permutation(near)[:n])
    agree(rng, known, rng.permutation(np.concatenate([near, known, [0, 1, 0xFFFFFFFF]])))
    agree(rng, known, near)


def test_a_key_of_0_is_unknown():
    """It is that of a template which does not fire."""
    rng = np.random.default_rng(0)
    for known in ([], [1], [5, 6], [0xFFFFFFFF]):
        agree(rng, np.array(known, np.uint64), np.zeros(3, np.uint64))


def test_nothing_to_sum():
    none = np.zeros(0, np.uint64)
    table = WeightTable(none, np.zeros(0, np.int8), SCALES)
    assert table.sums(none, np.zeros(0, np.int64)).size == 0
    assert table.sums(none, np.zeros(4, np.int64)).tolist() == [0.0] * 4
