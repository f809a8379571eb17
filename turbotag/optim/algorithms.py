"""The optimizers by name."""

from __future__ import annotations

from turbotag.errors import UsageError
from turbotag.optim.base import Optimizer
from turbotag.optim.dca import DCA
from turbotag.optim.sdca import SDCA

ALGORITHMS: dict[str, type[Optimizer]] = {cls.name: cls for cls in (SDCA, DCA)}


def algorithm(name: str) -> type[Optimizer]:
    if name not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {name!r}: it is one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]
