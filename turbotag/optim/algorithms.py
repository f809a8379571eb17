"""The optimizers by name, and what each can be told."""

from __future__ import annotations

from turbotag.errors import UsageError
from turbotag.optim.base import LOSSES, Optimizer
from turbotag.optim.cg import CG
from turbotag.optim.dca import DCA
from turbotag.optim.eg import EG
from turbotag.optim.eg_batch import EGBatch
from turbotag.optim.egr import EGR
from turbotag.optim.lbfgs import LBFGS
from turbotag.optim.mira import MIRA
from turbotag.optim.perceptron import Perceptron
from turbotag.optim.sag import SAG
from turbotag.optim.sag_nus import SAGNUS
from turbotag.optim.sdca import SDCA
from turbotag.optim.sgd import SGD

ALGORITHMS: dict[str, type[Optimizer]] = {
    cls.name: cls
    for cls in (SDCA, DCA, MIRA, Perceptron, SGD, LBFGS, CG, EG, EGBatch, EGR, SAG, SAGNUS)
}


def algorithm(name: str) -> type[Optimizer]:
    if name not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {name!r}: it is one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def describe(name: str) -> str:
    """An algorithm's parameters, defaults, losses, structures and reference, as text."""
    cls = algorithm(name)
    gap = "" if cls.default_gap is None else f", stop gap {cls.default_gap:g}"
    lines = [
        f"{cls.name}: {cls.reference}",
        f"  losses      {LOSSES[cls.losses]}",
        "  structures  chain (orders 1 and 2), multiclass, tree, projective",
        f"  epochs      {cls.default_epochs}{gap}",
    ]
    for p in cls.params:
        choices = f" ({', '.join(p.choices)})" if p.choices else ""
        lines.append(f"  --{p.name:<17} {p.help}{choices} [{p.default}]")
    if not cls.params:
        lines.append("  no parameters of its own")
    return "\n".join(lines)
