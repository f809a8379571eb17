"""Kernels, and numba only where something is computed: all of them take `njit` from here.

`--help` reads the declarations of the optimizers without waiting for numba: their kernels are
`kernel`s, which import it when they are first called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

# fastmath flags of the kernels: LLVM may vectorise sums; infinities and NaN stay exact
FAST = {"reassoc", "contract", "nsz"}


@cache
def _njit() -> Any:
    """numba's decorator, once numba compiles as is said in compiling.py."""
    from turbotag.compiling import set_up

    set_up()
    from numba import njit

    return njit


def __getattr__(name: str) -> Any:
    """`njit`, which all kernels are compiled by: numba is imported when it is asked for."""
    if name == "njit":
        return _njit()
    raise AttributeError(name)


class kernel:
    """@njit(cache=True, nogil=True) that imports numba at the first call; kernels can call it."""

    def __init__(self, function: Callable[..., Any], **options: Any):
        self.function, self.options = function, options
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self._compiled: Any = None

    @property
    def compiled(self) -> Any:
        if self._compiled is None:
            self._compiled = _njit()(cache=True, nogil=True, **self.options)(self.function)
        return self._compiled

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a global that a kernel uses."""
        from numba.core import types

        return types.Dispatcher(self.compiled)


def fast_kernel(function: Callable[..., Any]) -> kernel:
    """A kernel whose sums are vectorised."""
    return kernel(function, fastmath=FAST, error_model="numpy")
