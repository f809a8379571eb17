"""Measure, and write pages: what every script that makes a page of docs/ is built on.

A page has parts. Each is measured alone, `python scripts/FOLDER [PAGE] PART...`, and leaves its
figures in docs/NAME: CSV files from which its section is made, or the section itself, and
PART.json, which says when, how and with which versions. `page` joins what is there to docs/NAME.md.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import io
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import Row, write

from corpora import DATA, ROOT, missing

PEERS = ("python-crfsuite", "sklearn-crfsuite", "ufal.udpipe")
PACKAGES = ("turbotag", "numpy", "scipy", "numba", *PEERS)
SIZES = ("tiny", "default", "full")


@dataclass
class Setting:
    """Where the corpora are, where files go, and how much is run: tiny is a rehearsal.

    repeats: of what is fast; long_repeats: of what takes minutes; skipped: sentences on what could
    not be measured.
    """

    data: Path = DATA
    out: Path = Path()
    size: str = "default"
    seed: int = 1
    repeats: int = 3
    long_repeats: int = 1
    skipped: list[str] = field(default_factory=list)

    @property
    def tiny(self) -> bool:
        return self.size == "tiny"

    def pick(self, tiny: Any, default: Any, *full: Any) -> Any:
        """By size; where nothing is given for it, full is as default."""
        return {"tiny": tiny, "default": default, "full": (*full, default)[0]}[self.size]

    def skip(self, sentence: str, shown: str | None = None) -> None:
        if sentence not in self.skipped:
            self.skipped.append(sentence)
            print(shown or sentence, flush=True)

    def has(self, corpus: str) -> bool:
        """Whether a corpus is there; if not, a sentence says what it is and how to get it."""
        sentence = missing(self.data, corpus, DATA)
        if sentence:
            self.skip(sentence, missing(self.data, corpus))
        return not sentence

    def write(self, name: str, rows: list[Row]) -> None:
        """OUT/NAME.csv with the columns of any row, if there are rows."""
        if rows:
            write(self.out / f"{name}.csv", rows)


# ---- Processes -----------------------------------------------------------------------------------

# A process counts the memory of the one that started it as its own peak, up to the moment of its
# exec: so a small one starts it. wait4 gives the child's own usage.
LAUNCH = """
import json, os, sys, time
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
found = {"wall": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime}
json.dump(found | {"megabytes": usage.ru_maxrss / unit}, open(sys.argv[1], "w"))
sys.exit(1 if os.waitstatus_to_exitcode(status) else 0)
"""


@dataclass(frozen=True)
class Run:
    """A finished process: CPU seconds (user + system, all threads), wall seconds, peak resident
    memory, what it printed, and the load average when it ended."""

    cpu: float
    wall: float
    megabytes: float
    out: str
    err: str
    load: float

    def usage(self) -> Row:
        return {
            "cpu_s": round(self.cpu, 4),
            "wall_s": round(self.wall, 4),
            "peak_mb": round(self.megabytes, 1),
            "load": round(self.load, 2),
        }

    def json(self) -> Any:
        """What it printed, or the last line of it."""
        try:
            return json.loads(self.out)
        except ValueError:
            return json.loads(self.out.strip().splitlines()[-1])


def run(command: list[str], env: dict[str, str] | None = None) -> Run:
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as usage:
        done = subprocess.run(
            [sys.executable, "-c", LAUNCH, usage.name, *command],
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            sys.exit(f"failed: {' '.join(command)}\n{done.stderr[-4000:]}")
        return Run(**json.load(usage), out=done.stdout, err=done.stderr, load=os.getloadavg()[0])


def turbotag(*arguments: object) -> list[str]:
    """The command line with these arguments."""
    return [sys.executable, "-m", "turbotag", *map(str, arguments)]


def evaluate(*arguments: object) -> Any:
    """What `turbotag eval --json` says."""
    return run(turbotag("eval", "--json", *arguments)).json()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is there for a while."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def rounds(repeats: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    """(repeat, job), round by round: what is compared runs in turn, not one after the other."""
    for repeat in range(max(repeats.values(), default=0)):
        for job, n in repeats.items():
            if repeat < n:
                yield repeat, job


def words_per_second(model: Any, source: Any, repeats: int = 3, **how: Any) -> float:
    """Words a CPU second of a loaded model, from a file in memory to another; the median. The first
    run, which may compile kernels, does not count."""
    from turbotag.models.prediction import predict

    rates = []
    for _ in range(1 + repeats):
        start = time.process_time()
        words = predict(model, source, io.BytesIO(), **how)
        rates.append(words / (time.process_time() - start))
    return statistics.median(rates[1:])


def resident(process: int) -> float:
    """Megabytes of a process that are in memory; 0 if it is at its end."""
    status = Path(f"/proc/{process}/status").read_text()
    return sum(int(size) for size in re.findall(r"VmRSS:\s*(\d+)", status)) / 1024


def together(work: Callable[[int], None], n: int) -> None:
    """So many threads, each with its number."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def timed(call: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of a call."""
    start = clock()
    call()
    return clock() - start


# ---- Corpora -------------------------------------------------------------------------------------


def sentences(path: Path) -> list[bytes]:
    return [s for s in re.split(rb"\n[ \t\r]*\n", path.read_bytes()) if s.strip()]


def joined(texts: Iterable[bytes]) -> bytes:
    """Sentences as a file."""
    return b"\n\n".join(texts) + b"\n\n"


def held_out(texts: list[bytes], step: int) -> tuple[bytes, bytes]:
    """Two files: all but every step-th sentence, and these."""
    return joined(s for i, s in enumerate(texts) if i % step), joined(texts[::step])


def some(path: Path, step: int, to: Path, first: int | None = None) -> Path:
    """Write every step-th sentence, or the first of these, to another file."""
    to.write_bytes(joined(sentences(path)[::step][:first]))
    return to


# ---- Pages ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """measure: gives the section, or writes CSV files from which `section` makes it, given their
    folder; plot: makes pictures PART*.png of them."""

    heading: str
    measure: Callable[[Setting], str | None]
    section: Callable[[Path], str] | None = None
    plot: Callable[[Path], None] | None = None


@dataclass(frozen=True)
class Page:
    """name: of its folder and file in docs; target: of make; script: below scripts/, a folder or a
    file of it; lead: what stands before the parts."""

    title: str
    name: str
    target: str
    script: str
    parts: dict[str, Part]
    note: str = ""
    lead: Callable[[Path], str] = lambda out: ""

    @property
    def command(self) -> str:
        """What measures its parts: `python scripts/bench parser` for bench/parser.py."""
        return "python scripts/" + self.script.removesuffix(".py").replace("/", " ")


def about(setting: Setting, command: str, clocks: tuple[float, float, float]) -> Row:
    """When and how a part was measured; clocks: wall, CPU and load at its start."""
    installed = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    found = [p for p in PACKAGES if p in installed]
    return {
        "command": command,
        "size": setting.size,
        "seed": setting.seed,
        "date": datetime.date.today().isoformat(),
        "versions": {p: importlib.metadata.version(p) for p in found}
        | {"Python": platform.python_version()},
        "cores": os.cpu_count(),
        "wall_seconds": round(time.perf_counter() - clocks[0]),
        "cpu_seconds": round(sum(os.times()[:4]) - clocks[1]),
        "load": [round(x, 1) for x in (clocks[2], os.getloadavg()[0])],
        "skipped": setting.skipped,
    }


def measure(page: Page, name: str, setting: Setting) -> None:
    """One part, and beside its files what made them."""
    setting.out.mkdir(parents=True, exist_ok=True)
    setting.skipped = []
    clocks = time.perf_counter(), sum(os.times()[:4]), os.getloadavg()[0]
    text = page.parts[name].measure(setting)
    if text:
        print(text, flush=True)
        (setting.out / f"{name}.md").write_text(text.strip() + "\n", encoding="utf-8")
    made = about(setting, f"{page.command} {name}", clocks)
    path = setting.out / f"{name}.json"
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{name}: {made['wall_seconds']} s", flush=True)


def files_of(out: Path, part: str, ending: str) -> list[Path]:
    """PART.csv, PART-more.csv and so on."""
    found = sorted(out.glob(f"{part}*{ending}"))
    return [p for p in found if p.stem == part or p.stem.startswith(f"{part}-")]


def provenance(out: Path, part: str, files: list[Path]) -> list[str]:
    """Paragraphs on when and how a part was measured, as far as it is known, and what is missing.

    files: that have its figures."""
    path = out / f"{part}.json"
    made = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    words = [f"`{made['command']}`"] if "command" in made else []
    words += [f"size {made['size']}"] if made.get("size", "default") != "default" else []
    words += [f"seed {made['seed']}"] if "seed" in made else []
    words += [made["date"]] if "date" in made else []
    if "wall_seconds" in made:
        load = f" at load {' to '.join(map(str, made['load']))}" if "load" in made else ""
        words.append(f"{made['wall_seconds'] / 60:.0f} min{load}")
    versions = ", ".join(f"{k} {v}" for k, v in made.get("versions", {}).items())
    line = [x for x in (", ".join(words), versions) if x]
    links = ", ".join(f"[{p.name}]({out.name}/{p.name})" for p in files)
    told = ["; ".join(line) + "."] if line else []
    told += [f"Figures: {links}."] if links else []
    return [" ".join(told), *(f"Skipped: {s}" for s in made.get("skipped", []))]


def section(page: Page, name: str, out: Path) -> list[str]:
    """Paragraphs of a part: pictures, when it was measured, figures; none if it was not."""
    part, written = page.parts[name], out / f"{name}.md"
    files = files_of(out, name, ".csv")
    if part.section is None:
        body = written.read_text(encoding="utf-8").strip() if written.exists() else ""
    else:
        body = part.section(out) if files else ""
    if not body:
        return []
    if part.plot:
        part.plot(out)
    pictures = [f"![{part.heading}]({out.name}/{p.name})" for p in files_of(out, name, ".png")]
    return [
        f"## {part.heading}",
        *pictures,
        *provenance(out, name, files),
        body,
        remarks(out, name),
    ]


def remarks(out: Path, name: str = "") -> str:
    """What is written by hand on a page (OUT/remarks.md) or on a part (OUT/PART-remarks.md)."""
    path = out / ("-".join(filter(None, [name, "remarks"])) + ".md")
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def join(page: Page, out: Path) -> None:
    """OUT.md: remarks, what leads, then the parts."""
    paragraphs = [
        f"# {page.title}",
        f"Made by `make {page.target}` (`scripts/{page.script}`). {page.note}".strip(),
        remarks(out),
        page.lead(out),
        *(p for name in page.parts for p in section(page, name, out)),
    ]
    text = "\n\n".join(p.strip("\n") for p in paragraphs if p.strip())
    (out.parent / f"{out.name}.md").write_text(text + "\n", encoding="utf-8")


def main(page: Page, arguments: list[str]) -> None:
    """The command line of a page: parts to measure, `page` to join them."""
    parser = argparse.ArgumentParser(page.command, description=page.title)
    parser.add_argument(
        "parts", nargs="+", choices=[*page.parts, "page"], metavar="PART",
        help=", ".join([*page.parts, "page"]),
    )  # fmt: skip
    parser.add_argument("--data", type=Path, default=DATA, help="the corpora; default: corpora")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / page.name)
    parser.add_argument("--size", choices=SIZES, default="default", help="tiny is a rehearsal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="of what is fast")
    parser.add_argument("--long-repeats", type=int, default=1, help="of what takes minutes")
    given = vars(parser.parse_args(arguments))
    setting = Setting(**{k: v for k, v in given.items() if k != "parts"})
    for name in given["parts"]:
        if name == "page":
            join(page, setting.out)
        else:
            measure(page, name, setting)
