"""The loss family L(beta, gamma): from CRFs to structured SVMs (Martins et al. 2010, section 3).

L(w; i) = (1/beta) log sum_y exp beta( s'(z_y - z) + gamma cost(z_y) )
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


@dataclass(frozen=True)
class Loss:
    """beta in (0, inf]: inverse temperature; gamma >= 0: weight of the Hamming cost."""

    beta: float = 1.0
    gamma: float = 0.0

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise UsageError(f"beta is {self.beta}: it must be above 0 ('inf' is legal)")
        if not (self.gamma >= 0 and math.isfinite(self.gamma)):
            raise UsageError(f"gamma is {self.gamma}: it must be finite and not negative")

    @property
    def smooth(self) -> bool:
        return math.isfinite(self.beta)

    @property
    def name(self) -> str:
        for name, pair in NAMES.items():
            if pair == (self.beta, self.gamma):
                return name
        return f"beta={self.beta:g},gamma={self.gamma:g}"


def loss(name: str = "crf", beta: float | None = None, gamma: float | None = None) -> Loss:
    """A loss by name; beta and gamma, where given, replace the name's own."""
    if name not in NAMES:
        raise UsageError(f"unknown loss {name!r}: it is one of {', '.join(NAMES)}")
    b, g = NAMES[name]
    return Loss(b if beta is None else beta, g if gamma is None else gamma)
