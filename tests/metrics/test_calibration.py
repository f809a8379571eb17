import numpy as np
import pytest

from turbotag.metrics.calibration import calibrate


def test_bins_and_error_by_hand():
    """Two bins: 0.2, 0.4 with one right (0.3, 1/2) and 0.6, 0.8, 1 with two (0.8, 2/3)."""
    found = calibrate(
        np.array([0.2, 0.8, 0.4, 1.0, 0.6]), np.array([True, True, False, True, False]), bins=2
    )
    low, high = found.bins
    assert (low.low, low.high, low.count, high.count) == (0.0, 0.5, 2, 3)
    assert (low.probability, low.accuracy) == pytest.approx((0.3, 0.5))
    assert (high.probability, high.accuracy) == pytest.approx((0.8, 2 / 3))
    assert found.ece == pytest.approx((2 * 0.2 + 3 * (0.8 - 2 / 3)) / 5)
    assert (found.count, found.probability) == (5, pytest.approx(0.6))
    assert found.accuracy == pytest.approx(3 / 5)


@pytest.mark.parametrize("bins", [10, 15])
def test_edges_belong_to_the_bin_below(bins):
    edges = np.arange(1, bins + 1) / bins
    found = calibrate(np.append(edges, 0.0), np.ones(bins + 1, bool), bins)
    assert [b.count for b in found.bins] == [2] + [1] * (bins - 1)
    assert sum(b.count for b in calibrate(np.array([-1e-12, 1 + 1e-12]), np.ones(2)).bins) == 2


@pytest.mark.parametrize(("doubt", "expected"), [(1.0, 0.0), (0.5, 0.15)])
def test_calibrated_and_overconfident_draws(doubt, expected):
    """Drawn evenly from 0.4..1 and right with their own probability, p are calibrated but for
    noise; with 1 - p, 0.3 in the mean, halved, they are half of that too sure."""
    rng = np.random.default_rng(5)
    p = rng.uniform(0.4, 1.0, 100_000)
    right = rng.random(p.size) < p
    assert calibrate(1 - doubt * (1 - p), right).ece == pytest.approx(expected, abs=0.01)


def test_nothing_and_certainty():
    nothing = calibrate(np.zeros(0), np.zeros(0, bool))
    assert (nothing.count, nothing.ece, nothing.accuracy) == (0, 0.0, 0.0)
    assert calibrate(np.ones(4), np.ones(4, bool)).ece == 0.0
    assert calibrate(np.ones(4), np.zeros(4, bool)).ece == 1.0
