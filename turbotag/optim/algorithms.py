"""The optimizers by name, with their parameters. Importing this module imports no numba."""

from __future__ import annotations

from turbotag.errors import UsageError
from turbotag.optim.base import LOSSES, Optimizer, Param
from turbotag.optim.bmrm import BMRM
from turbotag.optim.cg import CG
from turbotag.optim.dca import DCA
from turbotag.optim.dca_planes import DCAPlanes
from turbotag.optim.eg import EG
from turbotag.optim.eg_batch import EGBatch
from turbotag.optim.egr import EGR
from turbotag.optim.extragradient import Extragradient
from turbotag.optim.lbfgs import LBFGS
from turbotag.optim.mira import MIRA
from turbotag.optim.owl_qn import OWLQN
from turbotag.optim.perceptron import Perceptron
from turbotag.optim.sag import SAG
from turbotag.optim.sag_nus import SAGNUS
from turbotag.optim.sdca import SDCA
from turbotag.optim.sdca_accelerated import AcceleratedSDCA
from turbotag.optim.sgd import SGD
from turbotag.optim.smo import SMO
from turbotag.optim.svm_struct import SVMStruct
from turbotag.optim.svm_struct_n import SVMStructN

_ALL: tuple[type[Optimizer], ...] = (
    *(SDCA, AcceleratedSDCA, SMO),
    *(DCA, DCAPlanes, MIRA, Perceptron, SGD),
    *(LBFGS, OWLQN, CG, BMRM, SVMStruct, SVMStructN),
    *(EG, EGBatch, EGR, Extragradient),
    *(SAG, SAGNUS),
)
ALGORITHMS: dict[str, type[Optimizer]] = {cls.name: cls for cls in _ALL}


def algorithm(name: str) -> type[Optimizer]:
    if name not in ALGORITHMS:
        raise UsageError(f"unknown algorithm {name!r}: it is one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def parameters() -> dict[str, list[tuple[str, Param]]]:
    """The parameters of all optimizers: for the name of a parameter, the optimizers that have it,
    each as (name of the optimizer, declaration of the parameter)."""
    found: dict[str, list[tuple[str, Param]]] = {}
    for name, cls in ALGORITHMS.items():
        for p in cls.params:
            found.setdefault(p.name, []).append((name, p))
    return found


def describe(name: str) -> str:
    """An algorithm's parameters, defaults, losses, structures and reference, as text."""
    cls = algorithm(name)
    gap = "" if cls.default_gap is None else f", stop gap {cls.default_gap:g}"
    lines = [
        f"{cls.name}: {cls.reference}",
        f"  losses      {LOSSES[cls.losses]}",
        f"  structures  {', '.join(cls.structures)}",
        f"  epochs      {cls.default_epochs}{gap}",
    ]
    for p in cls.params:
        choices = f" ({', '.join(p.choices)})" if p.choices else ""
        lines.append(f"  --{p.name:<17} {p.help}{choices} [{p.shown_default}]")
    if not cls.params:
        lines.append("  no parameters of its own")
    return "\n".join(lines)
