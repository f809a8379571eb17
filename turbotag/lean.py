"""numba, starting faster.

When the first kernel is loaded, numba imports all of scipy.linalg to see that it is there: a third
of the time that a short command takes. Where a kernel calls BLAS, numba asks again by itself.
"""

from __future__ import annotations

import contextlib


def skip_blas() -> None:
    """Import numba's array functions without that check; any numba that differs stays as it is."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.np import linalg

        check = linalg.ensure_blas
        linalg.ensure_blas = lambda: None
        try:
            import numba.np.arraymath  # noqa: F401
        finally:
            linalg.ensure_blas = check
