"""The loss family L(beta, gamma): from CRFs to structured SVMs (Martins et al. 2010, equation 3).

L(w; i) = (1/beta) log sum_y exp beta( s'(z_y - z) + gamma cost(z_y) )

Two losses outside the family are differences of two of its members, L(beta, gamma) - L(beta, 0)
(footnote 1): the structured ramp loss, and log E exp cost, a bound of the risk. They are not
convex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from turbotag.errors import UsageError

NAMES = {
    "crf": (1.0, 0.0),
    "softmax-margin": (1.0, 1.0),
    "svm": (math.inf, 1.0),
    "perceptron": (math.inf, 0.0),
}
DIFFERENCES = {"ramp": (math.inf, 1.0), "risk": (1.0, 1.0)}


# Beyond these a double cannot hold both 1/beta and what it is added to; scripts/torture/extremes.py
# trains at their ends.
LEAST_BETA, MOST_BETA, MOST_GAMMA = 1e-6, 1e6, 1e6


@dataclass(frozen=True)
class Loss:
    """beta in [1e-6, 1e6] or inf: inverse temperature; gamma >= 0: weight of the Hamming cost;
    difference: whether L(beta, 0) is taken off."""

    beta: float = 1.0
    gamma: float = 0.0
    difference: bool = False

    def __post_init__(self) -> None:
        if not (LEAST_BETA <= self.beta <= MOST_BETA or self.beta == math.inf):
            raise UsageError(
                f"beta is {self.beta}: it is 'inf' or lies between {LEAST_BETA:g} and {MOST_BETA:g}"
            )
        if not 0.0 <= self.gamma <= MOST_GAMMA:
            raise UsageError(f"gamma is {self.gamma}: it must lie between 0 and {MOST_GAMMA:g}")
        if self.difference and self.gamma == 0.0:
            raise UsageError("gamma is 0: the losses ramp and risk need a cost")

    @property
    def smooth(self) -> bool:
        return math.isfinite(self.beta)

    @property
    def name(self) -> str:
        for name, pair in (DIFFERENCES if self.difference else NAMES).items():
            if pair == (self.beta, self.gamma):
                return name
        return f"beta={self.beta:g},gamma={self.gamma:g}{',difference' * self.difference}"

    @property
    def kind(self) -> str:
        """The name of the loss with the same terms, whatever their weights."""
        if self.difference:
            return "risk" if self.smooth else "ramp"
        for name, (beta, gamma) in NAMES.items():
            if math.isfinite(beta) == self.smooth and (gamma > 0.0) == (self.gamma > 0.0):
                return name
        raise AssertionError("the names cover all four cases")


def loss(name: str = "crf", beta: float | None = None, gamma: float | None = None) -> Loss:
    """A loss by name; beta and gamma, where given, replace the name's own."""
    known = {**NAMES, **DIFFERENCES}
    if name not in known:
        raise UsageError(f"unknown loss {name!r}: it is one of {', '.join(known)}")
    b, g = known[name]
    return Loss(b if beta is None else beta, g if gamma is None else gamma, name in DIFFERENCES)
