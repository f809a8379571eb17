"""How numba compiles kernels here: the same code in every process, and no code that nobody calls.

Each function is a change of numba. A version of numba that is built otherwise stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any


def skip_blas() -> None:
    """Import the array functions of numba without asking whether SciPy has BLAS, which imports all
    of scipy.linalg: a third of the time that a short command takes. Where a kernel calls BLAS,
    numba asks again by itself."""
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
    """
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core.caching import IndexDataCacheFile

        name = IndexDataCacheFile._data_name

        def named(self: Any, number: int) -> str:
            stem, ending = os.path.splitext(name(self, number))
            return f"{stem}.{os.getpid()}{ending}"

        IndexDataCacheFile._data_name = named


PACKAGES = {"turbotag"}  # whose kernels are compiled so
INNER, OUTER = "inner", "outer"  # kinds of kernels, by who calls them: kernels, or Python


class Inner:
    """Stands where numba has the Python function of a kernel, for one that only kernels call."""


class _State(threading.local):
    """ours: whether a kernel of this package is being compiled, or one that it calls; asked:
    whether it has asked for the next one; inner: whether the present one was asked for so."""

    ours = asked = inner = False


def compile_once() -> None:
    """Make machine code only of kernels that Python calls.

    When a kernel is compiled, numba first compiles each kernel that it calls as if Python called it
    too: a wrapper that takes Python's arguments, optimization, machine code. It then copies the
    optimized code into the caller, and optimizes it there once more, and so on for each layer. Here
    a kernel that is compiled for another one ends as LLVM's intermediate code, not yet optimized;
    it is linked into what calls it, and optimized there. If Python calls it too, it is compiled
    once more. Kernels of both kinds are kept on disk under different keys.

    What is linked is the same whether Python has called the inner kernel or not, and kernels use
    their own copies of what they call: else the linker would take the copy that the process has
    loaded first, sums would be added in another order, and last digits would differ by what a
    process has compiled or called before. Kernels of other packages are compiled as ever.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core import codegen
        from numba.core.caching import Cache
        from numba.core.cpu import CPUContext
        from numba.core.dispatcher import (  # type: ignore[attr-defined]
            Dispatcher,
            _FunctionCompiler,
        )

        state = _State()
        _late_code(state, codegen.CPUCodeLibrary, codegen.JITCodeLibrary)
        _no_wrappers(state, _FunctionCompiler, CPUContext, codegen.JITCPUCodegen)
        _two_kinds(state, Dispatcher, Cache)


def _late_code(state: _State, library: Any, jit: Any) -> None:
    """Optimize a library of code, and make machine code of it, when it is first asked for that."""
    optimize, finish, pointer = (
        library._optimize_final_module,
        library._finalize_final_module,
        jit.get_pointer_to_function,
    )
    write, unserialize = library.serialize_using_object_code, library._unserialize.__func__

    def is_late(self: Any) -> bool:
        """Whether it is of a kernel of which no code has been made, here or elsewhere."""
        return self._object_caching_enabled and not hasattr(self, "_made")

    def optimized(self: Any) -> None:
        if not is_late(self):
            optimize(self)

    def finished(self: Any) -> None:
        if is_late(self):
            self._finalize_dynamic_globals()
            self._finalized = True  # which is asked for
            self._get_module_for_linking()  # a copy, for callers, with names that they find
        else:
            finish(self)

    def made(self: Any, name: str) -> Any:
        self._ensure_finalized()
        if is_late(self):
            self._made = True
            optimize(self)
            for function in self._final_module.functions:
                if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                    function.linkage = "internal"
            self._final_module.verify()
            finish(self)
        return pointer(self, name)

    def written(self: Any) -> Any:
        if not state.ours:
            return write(self)
        if is_late(self):
            return self.name, INNER, self._get_module_for_linking().as_bitcode()
        module = self._final_module
        both = *module.functions, *module.global_variables
        names = [each.name for each in both if not each.is_declaration]
        return self.name, OUTER, (self._get_compiled_object(), names)

    def read(cls: Any, codegen: Any, data: Any) -> Any:
        name, kind, content = data
        if kind not in (INNER, OUTER):
            return unserialize(cls, codegen, data)
        self = codegen.create_library(name)
        self.enable_object_caching()
        if kind == INNER:
            import llvmlite.binding as llvm

            self._finalized = True
            self._final_module = self._shared_module = llvm.parse_bitcode(content)
        else:
            code, names = content
            self._set_compiled_object(code)
            self._made = True
            finish(self)
            codegen._engine._defined_symbols.update(names)
        return self

    library._optimize_final_module = optimized
    library._finalize_final_module = finished
    library.serialize_using_object_code = written
    library._unserialize = classmethod(read)
    jit.get_pointer_to_function = made


def _no_wrappers(state: _State, compiler: Any, context: Any, codegen: Any) -> None:
    """Compile inner kernels without the functions that Python and C would call."""
    from numba.core.environment import lookup_environment

    customize, executable, set_env = (
        compiler._customize_flags,
        context.get_executable,
        codegen.set_env,
    )

    def customized(self: Any, flags: Any) -> Any:
        flags = customize(self, flags)
        if state.inner:
            flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags

    def made(self: Any, library: Any, descriptor: Any, env: Any) -> Any:
        if state.inner:
            library._ensure_finalized()
            return Inner()
        function = executable(self, library, descriptor, env)
        for name in {each.name for each in library._final_module.global_variables}:
            inner = lookup_environment(name)
            if inner is not None:
                library.codegen.set_env(name, inner)
        return function

    def env_set(self: Any, name: str, env: Any) -> None:
        if self._engine.is_symbol_defined(name):  # else it is of an inner kernel
            set_env(self, name, env)

    compiler._customize_flags = customized
    context.get_executable = made
    codegen.set_env = env_set


def _two_kinds(state: _State, dispatcher: Any, cache: Any) -> None:
    """Compile a kernel for Python or for another kernel, by who has asked."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.sigutils import normalize_signature

    template, overload, add, key = (
        dispatcher.get_call_template,
        dispatcher.compile,
        dispatcher.add_overload,
        cache._index_key,
    )

    def asked(self: Any, args: Any, kws: Any) -> Any:
        state.asked = state.ours
        try:
            return template(self, args, kws)
        finally:
            state.asked = False

    def compiled(self: Any, sig: Any) -> Any:
        inner, state.asked = state.asked, False
        with global_compiler_lock:
            args = tuple(normalize_signature(sig)[0])
            found = self.overloads.get(args)
            if found is not None:
                of_inner = isinstance(found.entry_point, Inner)
                if of_inner if inner else not of_inner:
                    return found.entry_point
                if inner and found.library._shared_module is not None:
                    return found.entry_point
                self.__dict__.setdefault("_others", []).append(self.overloads.pop(args))
            ours = state.ours or self.py_func.__module__.partition(".")[0] in PACKAGES
            with _without_collection(), _set(state, ours, inner):
                return overload(self, sig)

    def added(self: Any, found: Any) -> None:
        if isinstance(found.entry_point, Inner):
            self.overloads[tuple(found.signature.args)] = found
        else:
            add(self, found)

    def named(self: Any, sig: Any, codegen: Any) -> Any:
        plain = key(self, sig, codegen)
        return (*plain, INNER if state.inner else OUTER) if state.ours else plain

    dispatcher.get_call_template = asked
    dispatcher.compile = compiled
    dispatcher.add_overload = added
    cache._index_key = named


@contextlib.contextmanager
def _set(state: _State, ours: bool, inner: bool) -> Iterator[None]:
    before = state.ours, state.inner
    state.ours, state.inner = ours, inner
    try:
        yield
    finally:
        state.ours, state.inner = before


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage: numba makes many objects that live on, and a tenth of the time that
    compiling takes would go to looking through them."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def tell_apart() -> None:
    """Number functions from a number of the process's own. The names of machine code have these
    numbers, and what is read from disk must not have the name of other code."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core.bytecode import FunctionIdentity

        FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(5), "big") << 24)


def compare_flags_fast() -> None:
    """Look up all of a kernel's compiler flags at once. numba compares them whenever it looks for a
    function that it has typed before, and asks for each of them by a call: a fourteenth of the
    time that compiling takes."""
    with contextlib.suppress(ImportError, AttributeError):
        from numba.core.targetconfig import TargetConfig

        @functools.cache
        def defaults(kind: Any) -> dict[str, Any]:
            return {name: option.default for name, option in kind.options.items()}

        def values(self: Any) -> dict[str, Any]:
            kind: Any = type(self)
            return defaults(kind) | self._values

        TargetConfig.values = values


def set_up() -> None:
    skip_blas()
    compare_flags_fast()
    keep_apart()
    tell_apart()
    compile_once()
