"""Hostile model files: damaged, lying about their contents, or made to break what reads them.

Small models of every kind (targets.py), the shipped ones, and checkpoints are the raw material. A
file is loaded as `turbotag predict` loads it, in a forked process, and must be refused by
turbotag's own error in one line that names the file, within a second of processor time and 200 MB.
Damage that cannot be told, such as another weight, may load, and the model must then predict in
every way.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from attempts import TAGS, TREES, check_message
from figures import table
from hostile import (
    HUGE,
    Attack,
    crowds,
    cut_anywhere,
    cut_header,
    damage,
    entries,
    foreign,
    joined,
    lengths,
    metadata,
    shapes,
    split,
    states,
    values,
)
from measure import turbotag
from model_targets import Parts, bare, model_bytes, saved, scratch, small_models, use

from turbotag.errors import DataError, TurbotagError, UsageError
from turbotag.models.shipped import SHIPPED
from turbotag.optim.trace import Row, Trace
from turbotag.training import train
from turbotag.training.options import options_for

SECONDS, MEGABYTES = 1.0, 200.0
PATIENCE = 60  # seconds after which an attempt counts as a hang
REFUSED, LOADED = "refused", "loaded"


@dataclass
class Tally:
    """What came of a group of attacks."""

    tried: int = 0
    refused: int = 0
    loaded: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    failed: list[str] = field(default_factory=list)


Open = Callable[[Path], None]  # loads a file, and works with what it holds


# ---- Attempts ------------------------------------------------------------------------------------


def attempts(attacks: list[Attack], load: Open, path: Path, tally: Tally) -> None:
    """Try them one after the other in a forked process, and in a new one when that has died."""
    left = list(attacks)
    while left:
        for report in _child(left, load, path):
            attack = left.pop(0)
            tally.tried += 1
            if isinstance(report, str):
                tally.failed.append(f"{attack.name}: {report}")
                continue
            outcome, seconds, grown, message = report
            if outcome == REFUSED:
                tally.refused += 1
                tally.seconds = max(tally.seconds, seconds)
                tally.megabytes = max(tally.megabytes, grown)
                if seconds > SECONDS or grown > MEGABYTES:
                    tally.failed.append(f"{attack.name}: {seconds:.1f} s, {grown:.0f} MB")
            elif outcome == LOADED:
                tally.loaded += 1
                if attack.must_refuse:
                    tally.failed.append(f"{attack.name}: was accepted")
            else:
                tally.failed.append(f"{attack.name}: {message}")


def _child(attacks: list[Attack], load: Open, path: Path) -> Iterator[list[Any] | str]:
    """Reports of a forked process; if it dies in an attempt, that is the last report."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inlet)
        code = 1
        try:
            with os.fdopen(outlet, "w") as out:
                for attack in attacks:
                    out.write(json.dumps(_attempt(attack, load, path)) + "\n")
                    out.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(outlet)
    done = 0
    with os.fdopen(inlet) as reports:
        for line in reports:
            done += 1
            yield json.loads(line)
    _, status = os.waitpid(child, 0)
    if done < len(attacks):
        killed = os.WIFSIGNALED(status)
        how = f"signal {os.WTERMSIG(status)}" if killed else f"exit {os.WEXITSTATUS(status)}"
        yield f"the process died: {how}"


def _attempt(attack: Attack, load: Open, path: Path) -> tuple[str, float, float, str]:
    """(outcome, processor seconds, megabytes, message)."""
    _remove(path)
    attack.make(path)
    signal.alarm(PATIENCE)
    before = _reset_peak()
    start = time.process_time()
    outcome, message = LOADED, ""
    try:
        load(path)
    except TurbotagError as e:
        outcome, message = REFUSED, str(e)
        try:
            check_message(message)
            if str(path) not in message:
                raise ValueError(f"does not name the file: {message}")
        except Exception as wrong:
            outcome, message = "error", str(wrong)
    except Exception as e:
        outcome, message = "error", f"{type(e).__name__}: {e}"[:500]
    seconds = time.process_time() - start
    grown = _peak() - before
    signal.alarm(0)
    return outcome, seconds, grown, message


def _remove(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _reset_peak() -> float:
    """Start to measure the most memory anew, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    try:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]
    except (OSError, TypeError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def load_model(path: Path) -> None:
    use(str(path), fully=True)


# ---- Checkpoints ---------------------------------------------------------------------------------


class Enough(Exception):
    """Ends a training in the middle."""


class Short(Trace):
    def add(self, row: Row) -> None:
        super().add(row)
        if len(self.rows) == 2:
            raise Enough


def trainings() -> dict[str, tuple[dict[str, Any], str]]:
    """Trainings that leave a checkpoint: task and options, and what is added to the name."""
    tags = {"task": "ner", "train": TAGS, "epochs": 4, "template": "ner"}
    trees = {"task": "parse", "train": TREES, "epochs": 4, "min_count": 1, "labels": False}
    second = {**trees, "epochs": 8, "parts": ("cs", "gp"), "algorithm": "sdca", "loss": "crf"}
    algorithms = ("sdca", "dca", "sag-nus", "eg", "sgd")
    return {name: ({**tags, "algorithm": name}, "") for name in algorithms} | {
        "parser": ({**trees, "prune": False}, ".arc"),
        "second order": ({**second, "prune": True}, ".arc"),
    }


def checkpoint(name: str, folder: Path) -> tuple[Parts, Open, str]:
    """The checkpoint of a training that was stopped, and what continues it from another."""
    given, stage = trainings()[name]
    options, output = options_for(**given), str(folder / f"{name}.model")
    with contextlib.suppress(Enough):
        train(options, output, Short(), checkpoint_seconds=0.0)
    path = f"{output}{stage}.checkpoint"

    def resume(path: Path) -> None:
        try:
            train(options, output, resume=True, checkpoint_seconds=1e9)
        except UsageError as e:  # numbers that overflow are told as the options' fault
            raise DataError(str(e), str(path)) from e

    return bare(path, "checkpoint"), resume, path


# ---- All of it -----------------------------------------------------------------------------------


def measure(quick: bool) -> str:
    rng = np.random.default_rng(1)
    small = small_models()
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        folder = Path(name)
        path = folder / "hostile.model"
        for parts in small.values():  # kernels are compiled before the clock runs
            path.write_bytes(model_bytes(parts))
            load_model(path)

        def run(
            group: str, attacks: list[Attack], load: Open = load_model, to: Path = path
        ) -> None:
            if quick:
                attacks = attacks[:: max(1, len(attacks) // 40)]
            attempts(attacks, load, to, tallies.setdefault(group, Tally()))

        data = {name: model_bytes(parts) for name, parts in small.items()}
        shipped = {} if quick else {p.stem: p.read_bytes() for p in SHIPPED.glob("*.model")}
        run("no models at all", foreign())
        for name, made in data.items():
            run("cut at every byte of the header", cut_header(name, made))
            run("header lengths", lengths(name, made))
            run("shapes, places and types of arrays", shapes(name, made))
            if name in ("tagger", "parser"):
                run("metadata", metadata(name, made))
            run("entries of the header", entries(name, small[name]))
            run("values of arrays", values(name, small[name], 2 if quick else 20, rng))
            run("damage under checksums", damage(name, saved(small[name]), 200, rng))
        for name, made in {**data, **shipped}.items():
            run("cut at 1,000 random places", cut_anywhere(name, made, 40 if quick else 1000, rng))
        run("colliding keys", crowds(small))
        for name in ["sdca"] if quick else trainings():
            held, resume, where = checkpoint(name, folder)
            resume_from = Path(where)
            made = model_bytes(held)
            attacks = cut_anywhere(name, made, 40 if quick else 100, rng)
            attacks += [*lengths(name, made), *metadata(name, made), *states(name, held)]
            attacks += damage(name, saved(held), 40 if quick else 200, rng)
            run("checkpoints", attacks, resume, resume_from)
        run_cli(tallies.setdefault("whole commands", Tally()), data, folder, quick)
    failed = [f for tally in tallies.values() for f in tally.failed]
    assert not failed, f"{len(failed)} failures:\n" + "\n".join(failed[:50])
    return report(tallies)


def run_cli(tally: Tally, data: dict[str, bytes], folder: Path, quick: bool) -> None:
    """Some of these files as a user meets them: a line on stderr and exit code 1."""
    path = folder / "bad.model"
    table, rest = split(data["tagger"])
    table["weights"]["shape"] = [HUGE, 4]
    bad = {
        "predict": data["tagger"][:-1],
        "inspect": data["parser"][: len(data["parser"]) // 2],
        "eval": joined(table, rest),
    }
    arguments = {"predict": [path, "-"], "inspect": [path], "eval": ["--model", path, "-"]}
    for command, made in list(bad.items())[: 1 if quick else 3]:
        path.write_bytes(made)
        start = time.perf_counter()
        words = turbotag(command, *arguments[command])
        done = subprocess.run(words, input=TAGS, capture_output=True)
        tally.tried += 1
        tally.seconds = max(tally.seconds, time.perf_counter() - start)
        lines = done.stderr.decode().splitlines()
        if done.returncode == 1 and len(lines) == 1 and str(path) in lines[0] and not done.stdout:
            tally.refused += 1
        else:
            tally.failed.append(f"turbotag {command}: exit {done.returncode}, {lines[-3:]}")


def report(tallies: dict[str, Tally]) -> str:
    head = ["attack", "tried", "refused", "loaded, predicted", "slowest refusal, s"]
    rows = []
    for group, t in tallies.items():
        own = "not measured" if group == "whole commands" else f"{t.megabytes:.0f}"
        counts = (f"{n:,}" for n in (t.tried, t.refused, t.loaded))
        rows.append([group, *counts, f"{t.seconds:.2f}", own])
    total = sum(t.tried for t in tallies.values())
    return table([*head, "most memory, MB"], rows) + f"\n\n{total:,} files, no failure."
