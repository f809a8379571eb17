"""numba, starting faster, computing the same in every process, and not at all where nothing is
computed. All kernels take `njit` from here.

When the first kernel is loaded, numba imports all of scipy.linalg to see that it is there: a third
of the time that a short command takes. Where a kernel calls BLAS, numba asks again by itself. And
`--help` reads the declarations of the optimizers without waiting for numba: their kernels are
`kernel`s, which import it when they are first called.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any


def skip_blas() -> None:
    """Import the array functions of numba without that check. A version of numba that is built
    otherwise stays as it is."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.np import linalg

        check = linalg.ensure_blas
        linalg.ensure_blas = lambda: None
        try:
            import numba.np.arraymath  # noqa: F401
        finally:
            linalg.ensure_blas = check


def keep_apart() -> None:
    """Let every process put its number into the names of its files of compiled code. If two
    processes compile one function for different types at the same time, both would use the same
    name, and the index of numba could then hold the types of one process and the code of the other.
    A version of numba that is built otherwise stays as it is."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core.caching import IndexDataCacheFile

        name = IndexDataCacheFile._data_name

        def named(self: Any, number: int) -> str:
            stem, ending = os.path.splitext(name(self, number))
            return f"{stem}.{os.getpid()}{ending}"

        IndexDataCacheFile._data_name = named


def keep_callees() -> None:
    """Let the machine code of a kernel use its own copies of the kernels that it calls.

    numba puts a copy of each into the code of the caller, optimized together with it, but under a
    name that all copies have. The linker takes the copy that the process has loaded first. Sums
    would then be added in another order, and last digits differ, by what a process has compiled or
    called before. A version of numba that is built otherwise stays as it is."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core.codegen import CPUCodeLibrary

        finish = CPUCodeLibrary._finalize_final_module

        def finished(self: Any) -> None:
            self._finalized = True  # which is asked for; no code is made yet
            self._get_module_for_linking()  # a copy, for callers, with names that they find
            self._finalized = False
            for function in self._final_module.functions:
                if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                    function.linkage = "internal"
            finish(self)

        CPUCodeLibrary._finalize_final_module = finished


# fastmath flags of the kernels: LLVM may vectorise sums; infinities and NaN stay exact
FAST = {"reassoc", "contract", "nsz"}


@cache
def _njit() -> Any:
    """numba's decorator, once numba does as said above."""
    skip_blas()
    keep_apart()
    keep_callees()
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
