"""L-BFGS (Liu and Nocedal 1989), SciPy's."""

from __future__ import annotations

from turbotag.optim.quasi_newton import QuasiNewton


class LBFGS(QuasiNewton):
    name = "lbfgs"
    reference = "Liu and Nocedal 1989; SciPy's L-BFGS-B"
    method = "L-BFGS-B"
    options = {"ftol": 0.0, "gtol": 0.0, "maxfun": 10**9}  # noqa: RUF012
