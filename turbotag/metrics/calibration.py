"""Calibration: whether what was predicted with probability p is right in a share p of cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BINS = 10
LEAST = 1e-6  # a probability below counts as this one, so that one miss does not decide a mean


@dataclass
class Bin:
    """Predictions with probabilities above `low` and up to `high`; the first bin holds 0 too.

    probability: their mean; accuracy: the share that is right; both 0 in an empty bin.
    """

    low: float
    high: float
    count: int
    probability: float
    accuracy: float


@dataclass
class Calibration:
    """Reliability in bins of equal width."""

    bins: list[Bin]

    @property
    def count(self) -> int:
        return sum(b.count for b in self.bins)

    @property
    def probability(self) -> float:
        """The mean probability of all answers."""
        return sum(b.count * b.probability for b in self.bins) / max(1, self.count)

    @property
    def accuracy(self) -> float:
        return sum(b.count * b.accuracy for b in self.bins) / max(1, self.count)

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean over predictions of |accuracy - probability| of
        their bins (Naeini, Cooper and Hauskrecht 2015)."""
        errors = (b.count * abs(b.accuracy - b.probability) for b in self.bins)
        return sum(errors) / max(1, self.count)


def calibrate(probability: np.ndarray, right: np.ndarray, bins: int = BINS) -> Calibration:
    """probability: (n,) of predictions, cut to 0..1; right: (n,) bool."""
    p = np.clip(probability, 0.0, 1.0)
    edges = np.arange(bins + 1) / bins
    at = np.maximum(np.searchsorted(edges, p, side="left") - 1, 0)
    count = np.bincount(at, minlength=bins)
    some = np.maximum(count, 1)
    mean = np.bincount(at, p, bins) / some
    share = np.bincount(at, right.astype(np.float64), bins) / some
    columns = (edges[:-1], edges[1:], count, mean, share)
    return Calibration([Bin(*b) for b in zip(*(c.tolist() for c in columns), strict=True)])


def log_loss(probability: np.ndarray) -> float:
    """Mean of -log p over the probabilities of right answers; 0 if there are none."""
    return float(-np.log(np.maximum(probability, LEAST)).sum()) / max(1, probability.size)
