"""Compiled kernels: where numba keeps them, and what a user is told when they must be compiled.

numba keeps a kernel beside the package, or in the user's cache folder where the package cannot be
written, and reads it there in the next process. What it reads is run, so that these folders are
trusted like the program itself.
"""

from __future__ import annotations

import contextlib
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
    """Give numba, which fails without one, a folder for kernels.

    It finds NUMBA_CACHE_DIR, the package and the user's cache folder by itself. If it can write to
    none of them, or if others can write to the last, as where HOME is /tmp, then kernels go to a
    new folder that lasts as long as the process.
    """
    global _temporary
    given = os.environ.get("NUMBA_CACHE_DIR")
    if (given and os.access(_existing(given), os.W_OK)) or os.access(PACKAGE, os.W_OK):
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

    _temporary = tempfile.mkdtemp(prefix="turbotag-")  # private: a cache is code
    os.environ["NUMBA_CACHE_DIR"] = _temporary
    if "numba" in sys.modules:  # which has read its environment already
        sys.modules["numba"].config.CACHE_DIR = _temporary
    atexit.register(shutil.rmtree, _temporary, True)
    _link_installed(_temporary)


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
    """Let numba find in `cache` the kernels that were compiled beside the package while that could
    be written: numba itself reads no folder that it cannot write to.

    The folder's name is numba's; where another version names it otherwise, kernels are compiled.
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
    """Have a user told, by the first `say` of the process, when a kernel is first compiled in it;
    not a word if all are found."""
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
