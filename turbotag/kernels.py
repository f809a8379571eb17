"""Compiled kernels: where numba keeps them, and what a user is told when they must be compiled.

numba keeps a kernel beside the package, or in the user's cache folder where the package cannot be
written, and reads it there in the next process. What it reads is run, so that these folders are
trusted like the program itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

PACKAGE = os.path.dirname(os.path.abspath(__file__))
NO_FOLDER = (
    f"kernels cannot be kept, as neither {PACKAGE} nor the user's cache folder can be written by "
    "this user, and by nobody else; set NUMBA_CACHE_DIR to a folder that can, or run `turbotag "
    "warmup` when installing"
)
KEPT = "compiling kernels: this can take two minutes, but happens once, as they are kept"
LOST = f"compiling kernels: this can take two minutes and happens at every run; {NO_FOLDER}"

_temporary = ""  # a folder of kernels that ends with the process, if there is no other
_heard = False  # whether somebody wants to be told


def place() -> None:
    """Give numba a folder for kernels, without which it fails.

    numba itself finds NUMBA_CACHE_DIR, the folder of the package and the cache folder of the user.
    If it can write to none of them, or if other users can write to the last one (HOME may be /tmp),
    kernels go to a new folder that lasts as long as the process.
    """
    global _temporary
    given = os.environ.get("NUMBA_CACHE_DIR")
    if os.access(PACKAGE, os.W_OK):
        _drop_stale()
        return
    if given and os.access(_existing(given), os.W_OK):
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Caches")
    own = os.path.join(home, "numba")
    if _private(_existing(home)) and _private(_existing(own)):
        _link_installed(own)
        return
    import atexit
    import shutil
    import tempfile

    _temporary = tempfile.mkdtemp(prefix="turbotag-")  # private, as kernels are code that is run
    os.environ["NUMBA_CACHE_DIR"] = _temporary
    if "numba" in sys.modules:  # numba has read the environment already
        sys.modules["numba"].config.CACHE_DIR = _temporary
    atexit.register(shutil.rmtree, _temporary, True)
    _link_installed(_temporary)


def _drop_stale() -> None:
    """Remove the kernels beside the package if a file with kernels has changed. numba looks only at
    the file that a kernel stands in. It does not see that a kernel in another file, which this one
    calls, has changed, and would run old code after an update."""
    sources, kernels = {}, []
    for place, _, files in os.walk(PACKAGE):
        for name in files:
            path = os.path.join(place, name)
            if name.endswith(".py"):
                found = os.stat(path)
                sources[os.path.relpath(path, PACKAGE)] = [found.st_mtime_ns, found.st_size]
            elif name.endswith((".nbi", ".nbc")):
                kernels.append(path)
    stamp = os.path.join(PACKAGE, "__pycache__", "kernels.json")
    with contextlib.suppress(OSError):  # another process may do the same
        before = _read_stamp(stamp)
        if before == sources:
            return
        changed = [name for name, mark in sources.items() if before.get(name) != mark]
        if not before or any(map(_has_kernels, changed)) or before.keys() - sources.keys():
            for path in kernels:
                os.unlink(path)
        os.makedirs(os.path.dirname(stamp), exist_ok=True)
        with open(f"{stamp}.{os.getpid()}", "w") as f:
            json.dump(sources, f)
        os.replace(f.name, stamp)


def _read_stamp(path: str) -> dict[str, list[int]]:
    try:
        with open(path) as f:
            return dict(json.load(f))
    except (OSError, ValueError):
        return {}


def _has_kernels(name: str) -> bool:
    with open(os.path.join(PACKAGE, name), encoding="utf-8") as f:
        text = f.read()
    return "njit" in text or "kernel" in text


def _existing(path: str) -> str:
    """The folder itself, or the nearest one above it that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _private(folder: str) -> bool:
    """Whether this user can write to a folder, and not everybody."""
    if not os.access(folder, os.W_OK) or os.name != "posix":
        return os.access(folder, os.W_OK)
    found = os.stat(folder)
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o002


def _link_installed(cache: str) -> None:
    """Let numba find in `cache` the kernels that were compiled beside the package while that folder
    could be written. numba reads no folder that it cannot write to.

    The name of the folder is chosen as numba chooses it. If another version of numba chooses
    another name, kernels are compiled anew.
    """
    from hashlib import sha1

    for place, _, files in os.walk(PACKAGE):
        kernels = [name for name in files if name.endswith((".nbi", ".nbc"))]
        source = os.path.dirname(place)
        mark = sha1(source.encode(), usedforsecurity=False).hexdigest()
        to = os.path.join(cache, f"{os.path.basename(source)}_{mark}")
        if kernels and not os.path.exists(to):
            with contextlib.suppress(OSError):  # what cannot be linked is compiled
                os.makedirs(to)
                for name in kernels:
                    os.symlink(os.path.join(place, name), os.path.join(to, name))


def lasting() -> bool:
    """Whether kernels outlive the process."""
    return not _temporary


def folder() -> str:
    """Where kernels are kept."""
    from turbotag.corpus.scan import scan_lines

    path = str(scan_lines.stats.cache_path)
    return PACKAGE if path.startswith(PACKAGE + os.sep) else os.path.dirname(path)


def tell(say: Callable[[str], None]) -> None:
    """When the first kernel of the process is compiled, tell the user by the first `say` that was
    given. Nothing is said if all kernels are found on disk."""
    global _heard
    if _heard:
        return
    _heard = True
    from numba.core import event

    class Notice(event.Listener):
        said = False

        def on_start(self, event: Any) -> None:
            ours = str(event.data["dispatcher"].py_func.__module__).startswith("turbotag.")
            if ours and not self.said:
                self.said = True
                say(KEPT if lasting() else LOST)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Notice())
