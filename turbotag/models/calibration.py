"""Calibration: two numbers that map a model's probabilities to those seen in held-out data.

A model is surer of its answers than new text allows: its weights fit the training data, and the
cost term of a loss pushes right and wrong answers apart. So probabilities are taken at another
temperature, and mixed with those of a uniform guess,

    p'(y) = (1 - doubt) p_a(y) + doubt / answers,    p_a(y) = p(y)^a / sum_y' p(y')^a,

where a is the sharpness and y a whole structure; so n-best lists and marginals agree. The doubt
stands for right answers that the model rules out, such as heads that pruning leaves out. Without
it, those answers alone would decide a. Both numbers are fitted by the likelihood of held-out
answers. No prediction changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.metrics.calibration import calibrate, log_loss

LEAST_SHARPNESS, MOST_SHARPNESS = 1e-3, 1e3
# What is assumed before any data, so that a few items that are all right do not lead to certainty:
# log a is normal around 0 with a deviation of 1, and of PRIOR_ITEMS items one had an answer that
# the model ruled out.
PRIOR_ITEMS = 100
PRECISION = 1e-2  # precision of log a: far finer than a few thousand items can determine
MAP = {"sharpness": float, "doubt": float, "items": int, "log_loss": [float], "ece": [float]}
CALIBRATION = {"data": str, "maps": {"*": MAP}}  # of a model's header


@dataclass(frozen=True)
class Confidence:
    """How sure a model may be: the sharpness of its distribution, the doubt to mix in."""

    sharpness: float = 1.0
    doubt: float = 0.0

    def mix(self, p: Any, chance: Any) -> Any:
        """Probabilities at the sharpness, mixed with those of a uniform guess, `chance`."""
        return (1.0 - self.doubt) * p + self.doubt * chance


PLAIN = Confidence()


def confidence_of(header: dict[str, Any], name: str) -> Confidence:
    """What the header of a model says of one kind of answer; ValueError if that cannot be."""
    maps = header.get("calibration", {}).get("maps", {})
    for other, entry in maps.items():
        if not len(entry["log_loss"]) == len(entry["ece"]) == 2:
            raise ValueError(f"figures of {other}, which are before and after")
    found = maps.get(name)
    if found is None:
        return PLAIN
    sharpness, doubt = float(found["sharpness"]), float(found["doubt"])
    if not LEAST_SHARPNESS <= sharpness <= MOST_SHARPNESS or not 0.0 <= doubt < 1.0:
        raise ValueError(f"sharpness {sharpness}, doubt {doubt} of {name}")
    return Confidence(sharpness, doubt)


@dataclass(frozen=True)
class Items:
    """Held-out answers of one kind: tags, entities, heads or labels.

    right: (items,) whether the prediction is right; at: a function of the sharpness that gives the
    probabilities of the predictions and of the right answers; chance: both for a uniform guess.
    """

    right: np.ndarray
    at: Callable[[float], tuple[np.ndarray, np.ndarray]]
    chance: tuple[np.ndarray, np.ndarray]


def fit(items: Items) -> dict[str, Any]:
    """The map that makes held-out answers most probable, with log loss and expected calibration
    error before and after, as an entry of a header."""
    from scipy.optimize import minimize_scalar  # not needed, and slow to import, for predictions

    def loss(log_sharpness: float) -> float:
        _, right_answers = items.at(math.exp(log_sharpness))
        return 0.5 * log_sharpness**2 + _best_doubt(right_answers, items.chance[1])[1]

    best = minimize_scalar(loss, bracket=(-0.5, 0.0), tol=PRECISION)
    sharpness = float(np.clip(math.exp(best.x), LEAST_SHARPNESS, MOST_SHARPNESS))
    doubt, _ = _best_doubt(items.at(sharpness)[1], items.chance[1])
    before, after = (measure(items, c) for c in (PLAIN, Confidence(sharpness, doubt)))
    return {
        "sharpness": sharpness,
        "doubt": doubt,
        "items": items.right.size,
        "log_loss": [before[0], after[0]],
        "ece": [before[1], after[1]],
    }


def _best_doubt(p: np.ndarray, chance: np.ndarray) -> tuple[float, float]:
    """(doubt, loss): the minimum over d of
        - sum log((1 - d) p + d chance) - log d - (PRIOR_ITEMS - 1) log(1 - d).
    The derivative rises from -inf at 0 to inf at 1."""
    from scipy.optimize import brentq

    def slope(d: float) -> float:
        items = np.sum((p - chance) / ((1.0 - d) * p + d * chance))
        return float(items) - 1.0 / d + (PRIOR_ITEMS - 1) / (1.0 - d)

    p = np.maximum(p, np.finfo(np.float64).tiny)
    d = brentq(slope, 1e-9, 1.0 - 1e-9, xtol=1e-7)
    prior = math.log(d) + (PRIOR_ITEMS - 1) * math.log1p(-d)
    return d, -float(np.log((1.0 - d) * p + d * chance).sum()) - prior


def measure(items: Items, confidence: Confidence) -> tuple[float, float]:
    """(log loss of the right answers, expected calibration error of the predictions)."""
    both = zip(items.at(confidence.sharpness), items.chance, strict=True)
    predicted, right_answers = (confidence.mix(p, chance) for p, chance in both)
    return log_loss(right_answers), calibrate(predicted, items.right).ece


def describe(name: str, found: dict[str, Any]) -> str:
    """A map in a line, for logs and cards."""
    loss, ece = found["log_loss"], found["ece"]
    return (
        f"{name}: sharpness {found['sharpness']:.3f}, doubt {found['doubt']:.4f}; log loss "
        f"{loss[0]:.4f} -> {loss[1]:.4f}, calibration error {100 * ece[0]:.2f} -> "
        f"{100 * ece[1]:.2f} % of {found['items']}"
    )
