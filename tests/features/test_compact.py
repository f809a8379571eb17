"""Compact keys and weights: what comes back, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.features import compact


def random_keys(rng, n):
    return np.frombuffer(rng.bytes(8 * n), np.uint64)


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 200_000])
def test_keys_come_back_folded_and_in_order(n):
    rng = np.random.default_rng(n)
    keys = random_keys(rng, n)
    size = rng.random(n)
    rows = compact.distinct(keys, size)
    counts, lows = compact.pack_keys(keys[rows])
    found = compact.unpack_keys(counts, lows)
    np.testing.assert_array_equal(found, compact.fold(keys[rows]))
    assert (np.diff(found.astype(np.float64)) > 0).all()
    assert set(found.tolist()) == set(compact.fold(keys).tolist()) - {0}
    assert counts.nbytes + lows.nbytes == 65536 + 2 * rows.size


def test_of_keys_that_fold_alike_the_largest_stays():
    keys = np.array([7 << 32, (7 << 32) | 5, 3 << 32, 9], np.uint64)  # the last one folds to 0
    rows = compact.distinct(keys, np.array([0.1, 0.2, 0.3, 0.9]))
    assert rows.tolist() == [2, 1]


def test_many_keys_with_one_upper_half_need_wider_counts():
    keys = (np.arange(1, 301, dtype=np.uint64) | np.uint64(5 << 16)) << np.uint64(32)
    counts, lows = compact.pack_keys(keys)
    assert counts.dtype == np.uint16
    np.testing.assert_array_equal(compact.unpack_keys(counts, lows), compact.fold(keys))


def test_damaged_keys_are_refused():
    counts, lows = compact.pack_keys(np.array([3 << 32, 4 << 32, 1 << 60], np.uint64))
    more = counts.copy()
    more[7] += 1
    for bad in (
        (counts[1:], lows),
        (counts.astype(np.int64), lows),
        (counts, lows.astype(np.int32)),
        (more, lows),
        (counts, lows[:-1]),
        (counts, lows[::-1].copy()),
        (counts, np.zeros(3, np.uint16)),
    ):
        with pytest.raises(ValueError, match="keys"):
            compact.unpack_keys(*bad)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 30), st.integers(1, 9), st.booleans())
def test_weights_keep_two_digits(seed, n, K, flat):
    rng = np.random.default_rng(seed)
    shape = (n,) if flat else (n, K)
    weights = rng.normal(size=shape) * rng.choice([0.0, 1e-3, 1.0, 50.0], shape)
    q, scales = compact.quantize(weights)
    back = compact.dequantize(q, scales)
    assert back.shape == shape
    assert back.dtype == np.float32
    top = np.abs(weights).max(initial=0.0) if flat else np.abs(weights).max(axis=1, initial=0.0)
    top = np.broadcast_to(np.asarray(top)[..., None] if not flat else top, shape)
    # a step on the square-root scale, half of it each way
    error = np.sqrt(np.abs(weights) * top) / 127 + top / (4 * 127**2)
    assert (np.abs(back - weights) <= 1.001 * error + 1e-30).all()
    again, same = compact.quantize(back)  # saving what was loaded changes nothing
    np.testing.assert_array_equal(again, q)
    np.testing.assert_allclose(same, scales, rtol=1e-6)


def test_damaged_weights_are_refused():
    q, scales = compact.quantize(np.ones((3, 2)))
    for bad in (
        (q.astype(np.int16), scales),
        (q, scales[:2]),
        (q, scales.astype(np.float64)),
        (q, scales * np.float32("nan")),
        (q, scales * np.float32("inf")),
        (q, -scales),
    ):
        with pytest.raises(ValueError, match=r"weights|scales"):
            compact.dequantize(*bad)
