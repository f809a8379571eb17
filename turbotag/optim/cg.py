"""Nonlinear conjugate gradient (Polak and Ribiere), SciPy's."""

from __future__ import annotations

from turbotag.optim.quasi_newton import QuasiNewton


class CG(QuasiNewton):
    name = "cg"
    reference = "Polak and Ribiere; SciPy's CG"
    method = "CG"
    options = {"gtol": 0.0}  # noqa: RUF012
