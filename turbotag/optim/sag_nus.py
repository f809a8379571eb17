"""SAG-NUS: stochastic average gradient with Lipschitz sampling.

Schmidt et al. (2015); everything but the sampling and the step is that of optim/sag.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim.problem import Problem
from turbotag.optim.sag import SAG

PATIENCE = 3


class SAGNUS(SAG):
    """Half of the draws uniform, half in proportion to L_i; alpha between 1/L_max and 1/L_mean.

    The published alpha = (1/L_max + 1/L_mean)/2 has no proof, and on some problems w goes round
    the optimum for ever. So the share of the longer step 1/L_mean is halved whenever the average
    gradient has not become smaller for PATIENCE epochs; where the published alpha works, that never
    happens.
    """

    name = "sag-nus"
    reference = "Schmidt et al. 2015; the safeguard of its step is ours"
    nonuniform = 0.5
    unbounded = ("guard",)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.guard = np.array([0.5, np.inf, 0.0])  # share, smallest gradient, epochs since then

    def epoch(self) -> None:
        super().epoch()
        gradient = self.lam * self.weights() + self.sum / max(1, self.count)
        size = self.problem.sq_norm(gradient)
        share, smallest, since = self.guard.tolist()
        if size < smallest:
            smallest, since = size, 0.0
        elif since + 1.0 < PATIENCE:
            since += 1.0
        else:
            share, smallest, since = 0.5 * share, size, 0.0
        self.guard[:] = share, smallest, since

    def _step_size(self) -> float:
        mean, share = self.total / self.count, self.guard[0]
        return float((1.0 - share) / (self.largest + self.lam) + share / (mean + self.lam))

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "guard": self.guard}
