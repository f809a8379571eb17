"""Faults: signals at random moments, full disks, read-only folders, closed pipes, changing files.

Commands run in processes of their own, forked from this one, which has loaded the kernels; some
start from nothing. After each fault the files are compared byte for byte with those of a run that
was left alone: the old one or the new one, whole, and nothing beside it.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from figures import table
from processes import INT, KILL, PARSER, PREDICT, TAGGER, TERM, Bench, Child, Count

from turbotag.cli import inspect, predict, train  # noqa: F401  (for the forked processes)
from turbotag.corpus import reader

# ---- Signals ------------------------------------------------------------------------------------


def killed_training(bench: Bench, number: signal.Signals, cold: bool = False) -> Count:
    """A signal at a random moment, then --resume to the bytes of the run that was left alone."""
    count = Count(f"{number.name} while training" + (", from a cold start" if cold else ""))
    for i in range(bench.times(5, 1) if cold else bench.times(100, 3)):
        name, command = ("parser", PARSER) if i % 10 == 2 else ("tagger", TAGGER)
        old, new = bench.old[name], bench.new[name]
        child = bench.strike(number, command, "m", old, cold=cold)
        checkpoints = [p.name for p in bench.folder.glob("m*.checkpoint")]
        stale = bench.stale() if number == KILL else []
        problem = child.wrong_end(number) or bench.wrong("m", old, new)
        problem = problem or bench.surplus("m", *checkpoints, *stale)
        again = Child(command).end()
        if again.code or again.err:
            problem = problem or f"resumed: {again.code} {again.err.decode()!r}"
        count(problem or bench.wrong("m", new) or bench.surplus("m"))
        count.note("went on from a checkpoint", bool(checkpoints))
        if number == KILL:
            count.note("stale files, which the next run removed", len(stale))
        count.slowest = max(count.slowest, child.seconds)
    bench.clean()
    return count


def killed_prediction(bench: Bench, number: signal.Signals, cold: bool = False) -> Count:
    """Into a file: the old one or the new one; into a pipe: the beginning of the right answer."""
    count = Count(f"{number.name} while predicting" + (", from a cold start" if cold else ""))
    for i in range(bench.times(5, 1) if cold else bench.times(100, 4)):
        name = list(PREDICT)[(0, 1, 2, 3, 1, 0, 0, 1, 0, 2)[i % 10]]
        right, piped = bench.answers[name], name == "threads"
        command = PREDICT[name] + ("" if piped else " -o out")
        child = bench.strike(number, command, "out", b"old", pipe=piped, cold=cold)
        stale = bench.stale() if number == KILL else []
        problem = child.wrong_end(number) or bench.wrong("out", b"old", right)
        problem = problem or bench.surplus("out", *stale)
        if not right.startswith(child.out):
            problem = problem or "what came through the pipe is not the beginning of the answer"
        if stale:
            again = Child(command).end().err.decode()
            problem = problem or again or bench.wrong("out", right) or bench.surplus("out")
        count(problem)
        if number == KILL:
            count.note("stale files, which the next run removed", len(stale))
        count.slowest = max(count.slowest, child.seconds)
    bench.clean()
    return count


def damaged_checkpoints(bench: Bench) -> Count:
    """Cut, or with some bytes changed: refused, or so little that the result is the same."""
    count = Count("damaged checkpoint resumed")
    found = b""
    while not found:
        child = Child(TAGGER)
        while not os.path.exists("m.checkpoint") and child.read(0.001):
            pass
        child.end(KILL)
        if os.path.exists("m.checkpoint"):
            found = (bench.folder / "m.checkpoint").read_bytes()
        bench.clean()
    old, new = bench.old["tagger"], bench.new["tagger"]
    for i in range(bench.times(100, 6)):
        data = bytearray(found[: bench.rng.randrange(len(found))] if i % 2 else found)
        if not i % 2:
            header = 8 + int.from_bytes(data[:8], "little")
            for _ in range(bench.rng.choice((1, 4))):
                at = bench.rng.randrange(header if i % 4 else len(data))
                data[at] ^= bench.rng.randrange(1, 256)
        (bench.folder / "m.checkpoint").write_bytes(data)
        bench.put(m=old)
        done = Child(TAGGER).end()
        if done.code == 0:
            count(done.err.decode() or bench.wrong("m", new) or bench.surplus("m"))
            count.note("without effect")
        else:
            problem = done.not_a_sentence("m.checkpoint: ") or bench.wrong("m", old)
            count(problem or bench.surplus("m", "m.checkpoint"))
            count.note("refused")
        bench.clean()
    return count


# ---- Disks and folders --------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[bool]:
    """A small disk of its own on the folder, if this user may mount one."""
    options = ["-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        possible = not subprocess.run(["mount", *options], capture_output=True).returncode
    except OSError:
        possible = False
    if possible:
        os.chdir(folder)
    try:
        yield possible
    finally:
        if possible:
            os.chdir("/")
            subprocess.run(["umount", str(folder)], check=True)
            os.chdir(folder)


def limited_files(bench: Bench) -> Count:
    """No file may grow beyond a random size: writes fail there, as they do on a full disk."""
    count = Count("file that cannot grow beyond a random size")
    for i in range(bench.times(60, 4)):
        trains = i % 2 == 0
        name = ("tagger", "pipeline")[i // 2 % 2]
        old = bench.old["tagger"] if trains else b"old"
        command = TAGGER if trains else f"{PREDICT[name]} -o out"
        full = bench.new["tagger"] if trains else bench.answers[name]
        size = bench.rng.randrange(len(full))
        bench.put(**{"m" if trains else "out": old})
        limits = (size, size)
        done = Child(command, prepare=lambda x=limits: resource.setrlimit(resource.RLIMIT_FSIZE, x))
        done.end()
        kept = "m" if trains else "out"
        problem = done.not_a_sentence("cannot be written") or bench.wrong(kept, old)
        count(problem or bench.surplus(kept, "m.checkpoint"))
        bench.clean()
    return count


def full_disk(bench: Bench) -> Count:
    """A disk with room for the old files, but not for the new ones."""
    count = Count("full disk")
    old = bench.old["tagger"]

    def to_stdout(name: str) -> None:
        for cold in (False,) if bench.quick else (False, True):
            done = Child(PREDICT["tagger"], stdout=name, cold=cold).end()
            problem = done.not_a_sentence("standard output: no space left on device")
            count(problem or bench.surplus("m", "out", name))

    if os.path.exists("/dev/full"):
        to_stdout("/dev/full")
    with mounted(bench.folder, len(old) + 30_000) as possible:
        for _ in range(bench.times(5, 1) if possible else 0):
            bench.put(m=old, out=b"old")
            for command in (TAGGER, f"{PREDICT['tagger']} -o out", f"{PREDICT['parser']} -o out"):
                done = Child(command).end()
                problem = done.not_a_sentence("cannot be written: no space left on the device")
                problem = problem or bench.wrong("m", old) or bench.wrong("out", b"old")
                count(problem or bench.surplus("m", "out"))
            to_stdout("shell")
            bench.clean()
    if not possible:
        count.name += " (only /dev/full, as this user may mount none)"
    return count


def read_only(bench: Bench) -> Count:
    """A folder that cannot be written: refused before anything is read."""
    count = Count("read-only folder")
    old = bench.old["tagger"]
    commands = [TAGGER, PARSER, f"{TAGGER}2"]
    commands += [f"{PREDICT[name]} -o {to}" for name in ("tagger", "parser") for to in ("out", "o")]
    commands.append(f"{PREDICT['parser']} --draw page.html")

    def attack(**how: Any) -> None:
        for command in commands:
            done = Child(command, **how).end()
            problem = done.not_a_sentence("cannot be written: permission denied")
            problem = problem or bench.wrong("m", old) or bench.wrong("out", b"old")
            count(problem or bench.surplus("m", "out"))

    with mounted(bench.folder, 1 << 22) as possible:
        if possible:
            bench.put(m=old, out=b"old")
            subprocess.run(["mount", "-o", "remount,ro", str(bench.folder)], check=True)
            attack()
            count.note("on a read-only disk", len(commands))
    bench.put(m=old, out=b"old")
    for name in ("m", "out"):
        os.chmod(name, 0o666)
    bench.folder.chmod(0o555)
    attack(prepare=drop_privileges)
    bench.folder.chmod(0o755)
    bench.clean()
    return count


def drop_privileges() -> None:
    """Nothing is forbidden to root."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


# ---- Pipes, and files that change ---------------------------------------------------------------


def closed_pipes(bench: Bench) -> Count:
    """The reader goes away after some bytes: a quiet end, and what came was right."""
    count = Count("pipe closed after some bytes")
    for i in range(bench.times(120, 4)):
        name = list(PREDICT)[i % 4]
        right = bench.answers[name]
        size = (0, bench.rng.randrange(len(right)), 1, len(right))[(i + i // 4) % 4]
        child = Child(PREDICT[name], pipe=True)
        while len(child.out) < size and child.read(60.0, size):
            pass
        child.close("out")
        child.end()
        problem = (
            f"exit code {child.code}: {child.err.decode()!r}" if child.code or child.err else ""
        )
        if child.out != right[: len(child.out)] or len(child.out) < size:
            problem = problem or "what came through is not the beginning of the answer"
        count(problem or bench.surplus())
    return count


def append(path: Path) -> None:
    data = path.read_bytes()
    with open(path, "ab") as f:
        f.write(data[: len(data) // 3])


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    """One byte of the first letters, and one near the end."""
    with open(path, "r+b") as f:
        f.write(b"Q")
        f.seek(-30, os.SEEK_END)
        f.write(b"Q")


def replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    os.replace(other, path)


def changing_files(bench: Bench) -> Count:
    """Changed in the midst of reading: the old content, the new one, or a sentence; never a mix."""
    count = Count("file changed while it is read")
    cases = {  # the file that changes, the command, its result
        "train.iob2": (TAGGER, "m"),
        "some.iob2": ("predict ../tagger ../some.iob2 -o out", "out"),
        "text.txt": ("predict en-pos ../text.txt -o out", "out"),
        "tagger": ("predict ../tagger ../some.iob2 -o out", "out"),
        "train.conllu": (PARSER, "m"),
        "test.iob2": (f"{PREDICT['tagger']} -o out", "out"),
        "test.conllu": (f"{PREDICT['parser']} -o out", "out"),
        "parser": (f"{PREDICT['parser']} -o out", "out"),
    }
    for name, (command, result) in list(cases.items())[: bench.times(8, 4)]:
        path = bench.root / name
        content = path.read_bytes()
        before = outcome(bench, command, result)
        for change in (append, cut, overwrite, replace):
            change(path)
            after = outcome(bench, command, result)
            for at in range(bench.times(4, 1)):
                path.write_bytes(content)
                times = path.stat().st_mtime_ns - 10**9  # a clock may tick every few milliseconds
                os.utime(path, ns=(times, times))
                child = Child(command, prepare=lambda a=at, c=change, p=path: before_read(a, c, p))
                child.end()
                if child.code == 0:
                    data = bench.take(result)
                    fine = data in (before, after) and not child.err
                    count(
                        None if fine else f"{change.__name__} {name}: a mix, {child.err.decode()!r}"
                    )
                    count.note("old or new content")
                else:
                    problem = child.not_a_sentence(name) or bench.surplus()
                    count(problem and f"{change.__name__} {name}: {problem}")
                    count.note("refused")
                bench.clean()
            path.write_bytes(content)
    return count


def outcome(bench: Bench, command: str, result: str) -> bytes | None:
    """What a command makes of a file that does not change; None if it refuses it."""
    done = Child(command).end()
    data = (bench.folder / result).read_bytes() if done.code == 0 else None
    bench.clean()
    return data


def before_read(at: int, change: Callable[[Path], None], path: Path) -> None:
    """Make a change before the read number `at` of a file that is open."""
    reads = 0

    def hook(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: reader.Steady, *arguments: Any) -> Any:
            nonlocal reads
            if os.path.realpath(str(self.name)) == os.path.realpath(path):
                if reads == at:
                    change(path)
                reads += 1
            return method(self, *arguments)

        return wrapped

    reader.Steady.readinto = hook(reader.Steady.readinto)  # type: ignore[method-assign]
    reader.Steady.readall = hook(reader.Steady.readall)  # type: ignore[method-assign]


# ---- Two at once --------------------------------------------------------------------------------


def two_trainings(bench: Bench) -> Count:
    """Of one model: the second is refused while the first runs; the file is of one of them."""
    count = Count("two trainings of one model")
    commands = TAGGER, f"{TAGGER} --seed 2"
    models = bench.new["tagger"], bench.old["tagger"]
    seconds = bench.length(TAGGER)
    bench.clean()
    for i in range(bench.times(20, 3)):
        kill = i % 4 == 3
        first = Child(commands[0])
        first.read(bench.rng.uniform(0, seconds))
        if kill:
            first.end(KILL)
            for file in bench.folder.glob("m.checkpoint"):  # else the second is refused for it
                file.unlink()
        second = Child(commands[1])
        second.end()
        if not kill:
            first.end()
        problem = None
        if first.code != (-KILL if kill else 0) and not (kill and first.code == 0):
            problem = f"the first ended with {first.code}: {first.err.decode()!r}"
        if second.code == 1 and not kill:
            problem = problem or second.not_a_sentence(f"being trained by process {first.pid}")
            count.note("times the second was refused")
        elif second.code or second.err:
            problem = problem or f"the second ended with {second.code}: {second.err.decode()!r}"
        if not problem:
            problem = bench.wrong("m", models[0] if second.code else models[1])
        count(problem or bench.surplus("m"))
        bench.clean()
    return count


def two_predictions(bench: Bench) -> Count:
    """Into one file: it is of one of them."""
    count = Count("two predictions into one file")
    for _ in range(bench.times(10, 2)):
        both = [Child(f"{PREDICT[name]} -o out") for name in ("tagger", "parser")]
        ends = [child.end() for child in both]
        bad = [f"{c.code}: {c.err.decode()!r}" for c in ends if c.code or c.err]
        problem = bad[0] if bad else None
        problem = problem or bench.wrong("out", bench.answers["tagger"], bench.answers["parser"])
        count(problem or bench.surplus("out"))
        bench.clean()
    return count


# ---- The page -----------------------------------------------------------------------------------


def measure(quick: bool) -> str:
    before, folder = os.getcwd(), tempfile.mkdtemp()  # which the end of no child removes
    try:
        counts = attack(Bench(Path(folder), quick))
    finally:
        os.chdir(before)
        shutil.rmtree(folder)
    found = table(["fault", "tried", "survived", ""], (c.row() for c in counts))
    problems = [p for c in counts for p in c.problems]
    assert not problems, "\n".join([found, "", *problems])
    return found


def attack(bench: Bench) -> list[Count]:
    assert bench.answers["threads"] == bench.answers["tagger"]
    signals = (KILL, TERM, INT)
    return [
        *(killed_training(bench, number) for number in signals),
        *(killed_prediction(bench, number) for number in signals),
        *(killed_training(bench, number, cold=True) for number in signals[: bench.times(3, 1)]),
        *(killed_prediction(bench, number, cold=True) for number in signals[-bench.times(3, 1) :]),
        damaged_checkpoints(bench),
        limited_files(bench),
        full_disk(bench),
        read_only(bench),
        closed_pipes(bench),
        changing_files(bench),
        two_trainings(bench),
        two_predictions(bench),
    ]
