"""What all optimizers share: declared parameters, counters, saved state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.errors import UsageError
from turbotag.optim.certificate import Certificate
from turbotag.optim.problem import Problem


@dataclass(frozen=True)
class Param:
    """A parameter of an optimizer: drives the defaults, the checks and the help."""

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()


class Optimizer:
    """One training run on one problem. Subclasses are one file each and read like their paper."""

    name = ""
    reference = ""
    params: tuple[Param, ...] = ()

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        if not (lam > 0 and np.isfinite(lam)):
            raise UsageError(f"lambda is {lam}: it must be positive and finite")
        self.problem, self.lam, self.rng = problem, lam, rng
        self.param = self._checked(params)
        self.epochs = self.oracle_calls = self.updates = 0

    @classmethod
    def _checked(cls, given: dict[str, Any]) -> dict[str, Any]:
        known = {p.name: p for p in cls.params}
        for name, value in given.items():
            if name not in known:
                has = ", ".join(known) or "none"
                raise UsageError(f"{cls.name} has no parameter {name!r}; its parameters: {has}")
            choices = known[name].choices
            if choices and value not in choices:
                raise UsageError(f"{name} is {value!r}: it is one of {', '.join(choices)}")
        return {p.name: given.get(p.name, p.default) for p in cls.params}

    def epoch(self) -> None:
        """One pass: as many oracle calls as there are instances."""
        raise AssertionError("every optimizer has its own")

    def weights(self) -> np.ndarray:
        """The weights to predict with; not to be changed by the caller."""
        raise AssertionError("every optimizer has its own")

    def certify(self) -> Certificate:
        """P, D and the gap at `weights()`, by one full pass."""
        raise AssertionError("every optimizer has its own")

    def finish(self) -> None:
        """Called before a certificate that may be the last."""

    dual: Any = None  # running dual objective, where an optimizer keeps one

    def gap_estimate(self) -> float | None:
        """A cheap estimate of the gap, or None if only a full pass can tell."""
        return None

    @property
    def state_bytes(self) -> int:
        """Memory of the dual variables."""
        return 0

    def state(self) -> dict[str, np.ndarray]:
        """All that an epoch changes, for a checkpoint, but counters and random state."""
        raise AssertionError("every optimizer has its own")

    def restore(self, state: dict[str, np.ndarray]) -> None:
        for name, array in self.state().items():
            array[...] = state[name]
