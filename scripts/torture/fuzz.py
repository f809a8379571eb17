"""Fuzzing: readers, the tokenizer, templates, gazetteers and model files (targets.py).

    python scripts/torture/fuzz.py                      a million executions of each target
    python scripts/torture/fuzz.py --only conllu,text

Two engines: hypothesis, which draws files that are nearly right, and atheris, a coverage-guided
fuzzer (libFuzzer) that keeps what reaches new code, and changes it byte by byte or field by field.
Nothing but turbotag's own error may be raised, and no execution may take more than a second.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import hypothesis
import model_targets

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from attempts import Target, Unexpected, attempt
from drafts import (
    FILES,
    changed,
    encoded,
)
from figures import groups, read, table, write
from targets import TARGETS, agrees

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
TABLE = ROOT / "docs" / "reliability" / "fuzz-million.csv"
SECONDS = 1.0  # of processor time that an execution may take
MEGABYTES = 300  # by which all executions of a target may let memory grow

# ---- Engines -------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """How often a target was run, and how often it accepted; corpus: inputs kept by atheris."""

    target: str
    engine: str
    executions: int
    seconds: float
    accepted: int | None = None
    corpus: int = 0


class Watched:
    """Runs a target and counts; one that takes longer than SECONDS is unexpected."""

    def __init__(self, name: str, artifacts: Path | None = None):
        self.run, self.executions, self.accepted = TARGETS[name].run, 0, 0
        self.artifacts, self.name = artifacts, name
        for seed in TARGETS[name].seeds():  # kernels are compiled now
            attempt(self.run, seed)
        signal.signal(signal.SIGPROF, self._late)

    def _late(self, *_: object) -> None:
        raise Unexpected(f"takes more than {SECONDS} s of processor time")

    def __call__(self, data: bytes) -> None:
        self.executions += 1
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            self.accepted += attempt(self.run, data)
        except BaseException:
            if self.artifacts:
                mark = hashlib.sha256(data).hexdigest()[:12]
                (self.artifacts / f"{folder(self.name)}-{mark}").write_bytes(data)
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def resident() -> float:
    """The most megabytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def draw_files(name: str, examples: int, seed: int) -> Outcome:
    """Hypothesis: so many files of a target."""
    watched = Watched(name)
    for data in kept(name):
        watched(data)
    start, memory = time.perf_counter(), resident()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(encoded(FILES[name]))
    def run(data: bytes) -> None:
        watched(data)
        if name == "conllu":
            agrees(data)

    run()
    grown = resident() - memory
    assert grown < MEGABYTES, f"{name}: memory grew by {grown:.0f} MB"
    seconds = time.perf_counter() - start
    return Outcome(name, "hypothesis", watched.executions, seconds, watched.accepted)


def kept(name: str) -> list[bytes]:
    """The inputs of a target that are kept with the tests."""
    return [p.read_bytes() for p in sorted((CORPUS / folder(name)).glob("*"))]


def folder(name: str) -> str:
    return name.replace(" ", "-")


def guided(name: str, limits: list[str], seed: int, artifacts: Path | None = None) -> Outcome:
    """Atheris in a process of its own, whose report is read."""
    with tempfile.TemporaryDirectory(dir=model_targets.scratch()) as own:
        where = artifacts or Path(own)
        command = [sys.executable, __file__, "--atheris", name, "--seed", str(seed)]
        command += ["--folder", own, "--artifacts", str(where), "--", *limits]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        seconds = time.perf_counter() - start
        runs = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
        kept = len(list((Path(own) / "corpus").glob("*")))
    assert done.returncode == 0, f"{name}: {done.stderr[-4000:]}"
    assert runs, f"{name}: {done.stderr[-4000:]}"
    return Outcome(name, "atheris", int(runs[1]), seconds, None, kept)


def atheris_main(name: str, seed: int, own: Path, artifacts: str, limits: list[str]) -> None:
    """The process that atheris takes over; it leaves no file outside its own folder."""
    import atheris

    model_targets.FOLDER = own
    target: Target = TARGETS[name]
    instrument(atheris.instrument_func)
    watched = Watched(name, Path(artifacts))
    corpus = own / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [*target.seeds(), *kept(name)]
    for n, data in enumerate(seeds):
        (corpus / f"seed{n}").write_bytes(data)

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        if seed % 2:
            return atheris.Mutate(data, limit)
        return changed(data, limit, seed, seeds)

    options = [f"-max_len={target.limit}", f"-seed={seed}", "-timeout=10", "-rss_limit_mb=2048"]
    options += [f"-artifact_prefix={artifacts}/{folder(name)}-", "-len_control=0", *limits]
    atheris.Setup(
        [sys.argv[0], *options, str(corpus)],
        watched,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def instrument(patch: Callable[[Any], Any]) -> None:
    """Every Python function of turbotag; compiled kernels stay as they are."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("turbotag."):
            continue
        found = list(vars(module).values())
        for owner in [x for x in found if isinstance(x, type) and x.__module__ == name]:
            found += [getattr(m, "fget", getattr(m, "__func__", m)) for m in vars(owner).values()]
        for function in found:
            if (
                isinstance(function, types.FunctionType)
                and function.__module__ == name
                and function.__code__.co_filename == module.__file__
            ):
                patch(function)


# ---- Reports -------------------------------------------------------------------------------------


def million(names: list[str], runs: int, examples: int, seed: int, artifacts: Path) -> None:
    """The long run: rows of the table, each written when its target is done."""
    artifacts.mkdir(parents=True, exist_ok=True)
    for name in names:
        add_row(guided(name, [f"-runs={runs}"], seed, artifacts))
        add_row(draw_files(name, examples, seed))


def add_row(outcome: Outcome) -> None:
    """Put a row in place of an older one of the same target and engine."""
    key = {"target": outcome.target, "engine": outcome.engine}
    old = [r for r in read(TABLE) if not r.items() >= key.items()]
    row = key | {
        "executions": outcome.executions,
        "seconds": round(outcome.seconds),
        "failures": 0,  # one ends the run
        "corpus": outcome.corpus,
        "version": importlib.metadata.version(outcome.engine),
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }
    print(row, flush=True)
    order = list(TARGETS)
    write(TABLE, sorted([*old, row], key=lambda r: (order.index(r["target"]), r["engine"])))


def measure(quick: bool) -> str:
    have = importlib.util.find_spec("atheris") is not None
    outcomes: dict[str, dict[str, Outcome]] = {}
    for name in TARGETS:
        outcomes[name] = {"hypothesis": draw_files(name, 60 if quick else 1000, 1)}
        if have and not quick:
            outcomes[name]["atheris"] = guided(name, ["-max_total_time=12"], 1)
    return report(outcomes, have, quick)


def report(outcomes: dict[str, dict[str, Outcome]], have: bool, quick: bool) -> str:
    long = groups(read(TABLE), "target", "engine")
    rows, total = [], 0
    for name, found in outcomes.items():
        drawn, byte = found["hypothesis"], found.get("atheris")
        total += drawn.executions + (byte.executions if byte else 0)
        cells = [name, f"{drawn.executions:,}", f"{drawn.accepted:,}"]
        cells.append(f"{byte.executions:,}" if byte else "not run")
        for engine in ("hypothesis", "atheris"):
            before = long.get((name, engine))
            cells.append(f"{before[0]['executions']:,.0f}" if before else "none")
        rows.append(cells)
    head = ["target", "hypothesis", "of these accepted", "atheris", "long run: hypothesis"]
    why = "" if have else " Atheris was not run: it is not installed here."
    if have and quick:
        why = " Atheris was not run: this is the quick run."
    told = f"{total:,} executions in this run, no failure.{why}"
    return f"{table([*head, 'atheris'], rows)}\n\n{told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="targets, with commas between them")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--artifacts", type=Path, default=Path("build-fuzz"))
    parser.add_argument("--atheris", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("limits", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.atheris:
        where = str(given.artifacts)
        atheris_main(given.atheris, given.seed, given.folder, where, given.limits)
    else:
        names = given.only.split(",") if given.only else list(TARGETS)
        million(names, given.runs, given.examples, given.seed, given.artifacts)


if __name__ == "__main__":
    main()
