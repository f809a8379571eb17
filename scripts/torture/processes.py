"""Commands in processes of their own, which faults happen to, and the files that they leave."""

from __future__ import annotations

import gc
import os
import random
import re
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from turbotag.__main__ import start
from turbotag.cli import inspect, predict, train  # noqa: F401  (for the forked processes)
from turbotag.cli.main import main
from turbotag.models.pipeline import load_model

DEMO = Path(__file__).parents[2] / "data" / "demo"
KILL, TERM, INT = signal.SIGKILL, signal.SIGTERM, signal.SIGINT
SAID = {TERM: (143, "turbotag: terminated"), INT: (130, "turbotag: interrupted")}
PROMPT = 2.0  # seconds that a command may take to end after a signal
STALE = re.compile(r"\.(m|m\.[a-z.]*checkpoint|out)\.[0-9a-f]{8}\.tmp|\.m\.lock")
GO_ON = "--checkpoint-seconds 0 --resume -q -o m"  # one command for the first run and the second
TAGGER = f"train --task ner --train ../train.iob2 --epochs 12 --stop-gap 1e-14 {GO_ON}"
PARSER = f"train --task parse --train ../train.conllu --epochs 2 {GO_ON}"
PREDICT = {
    "tagger": "predict ../tagger ../test.iob2",
    "threads": "predict ../tagger ../test.iob2 --threads 2",
    "pipeline": "predict en ../text.txt",
    "parser": "predict ../parser ../test.conllu",
}
COLD = "import os, sys, turbotag.__main__ as t; os.write(int(sys.argv.pop(1)), b'.'); t.start()"


# ---- Processes ----------------------------------------------------------------------------------


class Child:
    """A command in a process of its own; `out` and `err` are what was read from it."""

    def __init__(
        self,
        command: str,
        pipe: bool = False,
        stdout: str = os.devnull,
        cold: bool = False,
        prepare: Callable[[], object] = lambda: None,
    ):
        """pipe: its output is read here, and goes to the file `stdout` otherwise; cold: it is a new
        Python; prepare: what the process does before the command."""
        self.out, self.err = b"", b""
        self.code, self.seconds = 0, 0.0
        out, out_end = os.pipe() if pipe else (None, None)
        err, err_end = os.pipe()
        ready, ready_end = os.pipe()
        self.pipes = {"out": out, "err": err}
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._be(command, out_end or os.open(stdout, 0o1101), err_end, ready_end, cold, prepare)
        for end in (out_end, err_end, ready_end):
            if end is not None:
                os.close(end)
        os.read(ready, 1)
        os.close(ready)

    def _be(
        self,
        command: str,
        out: int,
        err: int,
        ready: int,
        cold: bool,
        prepare: Callable[[], object],
    ) -> None:
        """In the new process."""
        try:
            for name in self.pipes:
                self.close(name)  # else a pipe whose reader is gone would still have one
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            sys.argv = ["turbotag", *command.split()]
            signal.signal(INT, signal.SIG_DFL)  # which a background job of a shell ignores
            if cold:
                os.set_inheritable(ready, True)
                os.execv(sys.executable, [sys.executable, "-c", COLD, str(ready), *sys.argv[1:]])
            prepare()
            os.write(ready, b".")
            start()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:
            traceback.print_exc()
        os._exit(1)

    def read(self, seconds: float, most: int | None = None) -> bool:
        """Read what the process writes for so long, or up to `most` bytes of its output; whether
        there can be more."""
        until = time.monotonic() + seconds
        while pipes := {fd: name for name, fd in self.pipes.items() if fd is not None}:
            left = until - time.monotonic()
            if left <= 0 or (most is not None and len(self.out) >= most):
                return True
            for fd in select.select(list(pipes), [], [], left)[0]:
                name = pipes[fd]
                size = most - len(self.out) if most is not None and name == "out" else 1 << 16
                data = os.read(fd, size)
                setattr(self, name, getattr(self, name) + data)
                if not data:
                    self.close(name)
        return False

    def close(self, name: str) -> None:
        fd = self.pipes[name]
        if fd is not None:
            os.close(fd)
            self.pipes[name] = None

    def end(self, number: signal.Signals | None = None) -> Child:
        """Send a signal, if one is given, and wait for the end: `code`, and after how long."""
        begin = time.monotonic()
        if number is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
        if self.read(300.0):
            os.kill(self.pid, KILL)
            self.err += b"it hangs"
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.seconds = time.monotonic() - begin
        for name in self.pipes:
            self.close(name)
        return self

    def wrong_end(self, number: signal.Signals) -> str | None:
        """What is wrong with how it ended, having been sent a signal."""
        said, lines = self.err.decode(), self.err.decode().splitlines()
        if number == KILL:
            return None if self.code == -KILL and not lines else f"{self.code}: {said}"
        code, words = SAID[number]
        silent = self.code == -number and not lines  # before or after the command's own work
        # a training may have something to save first, and says so
        told = 1 <= len(lines) <= 2 and all(line.startswith(words) for line in lines)
        if not silent and not (self.code == code and told):
            return f"exit code {self.code}, {said!r}"
        return f"it took {self.seconds:.1f} s to end" if self.seconds > PROMPT else None

    def not_a_sentence(self, words: str = "") -> str | None:
        """What is wrong, if it did not end with exit code 1 and one sentence."""
        lines = self.err.decode().splitlines()
        if self.code == 1 and len(lines) == 1 and lines[0].startswith("turbotag: "):
            return None if words in lines[0] else f"says {lines[0]!r}, not {words!r}"
        return f"exit code {self.code}: {self.err.decode()!r}"


def here(command: str) -> None:
    """Run a command in this process."""
    before, sys.argv = sys.argv, ["turbotag", *command.split()]
    try:
        main(command.split())
    except SystemExit as end:
        if end.code:
            raise AssertionError(command) from end
    finally:
        sys.argv = before


# ---- Where, and what is counted -----------------------------------------------------------------


class Count:
    """Faults of one kind: how many were tried, and what went wrong."""

    def __init__(self, name: str):
        self.name, self.tried = name, 0
        self.problems: list[str] = []
        self.notes: dict[str, int] = {}
        self.slowest = 0.0

    def __call__(self, problem: str | None) -> None:
        self.tried += 1
        if problem:
            self.problems.append(f"{self.name}, {self.tried}: {problem}")

    def note(self, what: str, times: int = 1) -> None:
        self.notes[what] = self.notes.get(what, 0) + times

    def row(self) -> list[object]:
        notes = [f"{v} {k}" for k, v in self.notes.items() if v]
        if self.slowest:
            notes.append(f"ended within {1000 * self.slowest:.0f} ms")
        return [self.name, self.tried, self.tried - len(self.problems), "; ".join(notes)]


class Bench:
    """An empty folder to work in, below one with data; what undisturbed runs make of them."""

    def __init__(self, root: Path, quick: bool):
        root.chmod(0o755)
        self.root, self.folder, self.quick = root, root / "work", quick
        self.rng = random.Random(1)
        for name, source, times in (
            ("train.iob2", "dev.iob2", 1),
            ("train.conllu", "dev.conllu", 1),
            ("test.iob2", "test.iob2", 160),
            ("test.conllu", "test.conllu", 2),
            ("text.txt", "letter.txt", 6),
            ("some.iob2", "dev.iob2", 2),
        ):
            (root / name).write_bytes(((DEMO / source).read_bytes() + b"\n") * times)
        self.folder.mkdir()
        os.chdir(self.folder)
        self.old, self.new = {}, {}
        for name, command in (("tagger", TAGGER), ("parser", PARSER)):
            here(command)  # in this process, so that the kernels are loaded for all
            self.new[name] = self.take("m")
            here(f"{command} --seed 2")
            load_model("m")
            self.old[name] = self.take("m")
            (root / name).write_bytes(self.old[name])
        self.answers: dict[str, bytes] = {}
        self.lengths: dict[str, float] = {}
        for name, command in PREDICT.items():
            here(f"{command} -o out")
            self.answers[name] = self.take("out")
        gc.collect()
        gc.freeze()

    def take(self, name: str) -> bytes:
        """The bytes of a file; the folder is empty then."""
        data = (self.folder / name).read_bytes()
        self.clean()
        return data

    def clean(self) -> None:
        for file in self.folder.iterdir():
            file.unlink()

    def put(self, **files: bytes) -> None:
        for name, data in files.items():
            (self.folder / name).write_bytes(data)

    def times(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def length(self, command: str, **how: Any) -> float:
        """How many seconds an undisturbed run takes."""
        child, begin = Child(command, **how), time.monotonic()
        assert child.end().code == 0, child.err.decode()
        return time.monotonic() - begin

    def strike(
        self, number: signal.Signals, command: str, file: str, old: bytes, **how: Any
    ) -> Child:
        """Run a command that would replace a file, and send it a signal at a random moment; if it
        ends before, do so again."""
        key = f"{command} {how}"
        if key not in self.lengths:
            self.lengths[key] = self.length(command, **how)
        while True:
            self.clean()
            self.put(**{file: old})
            child, begin = Child(command, **how), time.monotonic()
            if not child.read(self.rng.uniform(0, self.lengths[key])):
                self.lengths[key] = time.monotonic() - begin
            if child.end(number).code:
                return child

    def stale(self) -> list[str]:
        return [n for n in os.listdir(self.folder) if STALE.fullmatch(n)]

    def wrong(self, name: str, *allowed: bytes) -> str | None:
        """What is wrong with a file that must be one of these."""
        data = (self.folder / name).read_bytes()
        return None if data in allowed else f"{name} is neither the old nor the new: {len(data)}"

    def surplus(self, *expected: str) -> str | None:
        """What is wrong if the folder holds anything else."""
        extra = sorted(set(os.listdir(self.folder)) - set(expected))
        return f"left behind: {extra}" if extra else None
