"""Run the command line, or a line of Python, in a process that may do little.

    python scripts/torture/guard.py turbotag predict en text.txt + models en
    python scripts/torture/guard.py python 'import socket; socket.socket()'

An audit hook ends the process with code 97 and a line on stderr at the first socket, child process,
unpickling, file written outside the working folder, or code that turbotag makes or that has ODD, a
word of the data, in it. What is allowed are the ways of Python and of the libraries themselves:
modules from source files, numba's cache of compiled kernels, which has pickles, and matplotlib's
question to fc-list for fonts.
"""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from types import CodeType
from typing import Any

ODD = "Xyzzyx"  # a word that is in all data, and in no source but these
CAUGHT = 97
NEVER = (
    *("socket.", "subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork"),
    *("os.startfile", "pty.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "code."),
)
MADE = ("compile", "exec", "marshal.load", "marshal.loads", "ctypes.dlopen")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
KERNELS = {"__pycache__", "numba", os.path.basename(os.environ.get("NUMBA_CACHE_DIR", "numba"))}
WORK = os.path.realpath(os.getcwd())
PLACES = [os.path.realpath(sysconfig.get_paths()[k]) for k in ("stdlib", "purelib", "platlib")]
LIBRARIES = tuple(place + os.sep for place in PLACES)
PACKAGE = os.path.dirname(os.path.realpath(find_spec("turbotag").origin)) + os.sep  # type: ignore

events: dict[str, int] = {}
busy = False


def callers() -> Iterator[str]:
    """Source files of the frames above the hook, the nearest first."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ or frame.f_code.co_name == "<module>":
            yield name
        frame = frame.f_back  # type: ignore[assignment]


def foreign(name: str) -> bool:
    """Whether a file is Python's or an installed library's, and not turbotag's."""
    path = os.path.realpath(name)
    inside = path.startswith(LIBRARIES) and not path.startswith(PACKAGE)
    return name.startswith("<frozen") or inside or name == __file__


def words(code: CodeType) -> Iterator[str]:
    """Names and constants of compiled code."""
    for x in (*code.co_names, *code.co_consts):
        if isinstance(x, CodeType):
            yield from words(x)
        else:
            yield str(x)


def judge(event: str, args: tuple[Any, ...]) -> str | None:
    """What is wrong with an event."""
    if event.startswith(NEVER):
        fonts = f"matplotlib{os.sep}font_manager.py"
        if event == "subprocess.Popen" and args[0] == "fc-list":
            return None if any(f.endswith(fonts) for f in callers()) else "fc-list"
        return f"{event} {args!r:.200}"
    if event == "import" and ODD in str(args[0]):
        return f"import of {args[0]!r}"
    if event in MADE:
        who = next(callers(), "")
        if not foreign(who):
            return f"{event} by {who}"
        what = args[0]
        if isinstance(what, bytes):
            what = what.decode(errors="replace") if event == "compile" else ""
        text = " ".join(words(what)) if isinstance(what, CodeType) else str(what)
        if ODD in text and who != __file__:
            return f"{event} of data by {who}"
    if event == "pickle.find_class":
        who = next((f for f in callers() if os.path.basename(f) != "pickle.py"), "")
        if f"{os.sep}numba{os.sep}" not in who:
            return f"{event} {args} by {who}"
    if event == "open" and isinstance(args[0], str) and args[2] & WRITING:
        path = os.path.realpath(args[0])
        kernels = KERNELS.intersection(path.split(os.sep))  # folders of numba's cache
        if not (path.startswith(WORK + os.sep) or path == os.devnull or kernels):
            return f"{path} is opened to write"
    return None


def hook(event: str, args: tuple[Any, ...]) -> None:
    global busy
    if busy:  # judging makes events of its own
        return
    busy = True
    events[event] = events.get(event, 0) + 1
    wrong = judge(event, args)
    busy = False
    if wrong:
        os.write(2, f"GUARD: {wrong}\n".encode())
        os._exit(CAUGHT)


def report() -> None:
    seen = [name for name in (*MADE, "pickle.find_class", "open", "import") if name in events]
    os.write(2, ("GUARD SAW " + " ".join(f"{n}={events[n]}" for n in seen) + "\n").encode())


if __name__ == "__main__":
    sys.path.pop(0)  # this folder
    what, *arguments = sys.argv[1:]
    code = compile(arguments[0], "<given>", "exec") if what == "python" else None
    atexit.register(report)
    sys.addaudithook(hook)
    if code is not None:
        exec(code)
    else:
        from turbotag.cli.main import main

        while arguments:
            end = arguments.index("+") if "+" in arguments else len(arguments)
            try:
                main(arguments[:end])
            except SystemExit as e:
                if e.code:
                    raise
            arguments = arguments[end + 1 :]
