"""Commands in processes of their own: new ones, or forked from one that has loaded the kernels."""

import atexit
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.server import call
from turbotag import kernels

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
TURBOTAG = [sys.executable, "-m", "turbotag"]
SERVER = Path(__file__).with_name("server.py")


def run_new(*arguments, stdin=None, **options):
    """Run a command as a shell does, but without the notice that kernels are compiled."""
    text = not isinstance(stdin, bytes)
    done = subprocess.run(
        [*TURBOTAG, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=text,
        timeout=300,
        **options,
    )
    notice = kernels.KEPT + "\n"
    done.stderr = done.stderr.replace(notice if text else notice.encode(), done.stderr[:0])
    return done


def run(*arguments, stdin="", cwd=None):
    """Run a command in a forked process: start-up, which takes a second, is done once for all."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(stdin if isinstance(stdin, bytes) else stdin.encode())
        given.seek(0)
        files = [file.fileno() for file in (given, out, err)]
        code = call(_server(), list(map(str, arguments)), str(cwd or Path.cwd()), files)
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, code, *said)


def run_shell(line, cwd):
    """Run a line of bash, in which `turbotag` is a forked process as in `run`."""
    folder = Path(_server()).parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=cwd,
        env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@functools.cache
def _server():
    """The socket of a server, beside which stands a command `turbotag` that is its client."""
    folder = tempfile.TemporaryDirectory()
    place = Path(folder.name, "socket")
    client = shlex.join([sys.executable, "-IS", str(SERVER), str(place)])
    command = Path(folder.name, "turbotag")
    command.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
    command.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(place), str(DEMO)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=hear_signals,
    )
    assert server.stdout.readline() == b"ready\n"

    def close():
        server.stdin.close()
        server.wait(60)
        folder.cleanup()

    atexit.register(close)
    return str(place)


def hear_signals():
    """In a child: a background job of a shell, as the tests may be, ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def one_sentence(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    said = [x for x in done.stderr.splitlines() if x.startswith(("turbotag:", "Error:"))]
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0], said[0]
