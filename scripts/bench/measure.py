"""What the parts share: child processes and their usage, repeats in turn, CSV files, ratios."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH = str(Path(__file__).with_name("launch.py"))
WORKERS = str(Path(__file__).with_name("workers.py"))
PEERS = {"python-crfsuite": "pycrfsuite", "ufal.udpipe": "ufal.udpipe"}
PALETTE = {"turbotag": "#1f6fb4", "python-crfsuite": "#d1662b", "ufal.udpipe": "#5b8c3e"}
MARKS = ["o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p", "d", "8", "H"]

Row = dict[str, Any]


class Skipped(Exception):
    """A part cannot be measured, for lack of data; what was measured before stays as it is."""


@dataclass(frozen=True)
class Setting:
    """data: folder with the corpora; out: where CSV files and plots go; repeats: of what is fast;
    long_repeats: of what takes minutes; small: a rehearsal on little data, for debugging."""

    data: Path
    out: Path
    repeats: int = 3
    long_repeats: int = 1
    small: bool = False


# ---- Child processes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A finished child process: CPU seconds (user + system, all threads), wall seconds, peak
    resident memory, what it printed, and the load average when it ended."""

    cpu: float
    wall: float
    megabytes: float
    out: str
    load: float

    def usage(self) -> Row:
        return {
            "cpu_s": round(self.cpu, 4),
            "wall_s": round(self.wall, 4),
            "peak_mb": round(self.megabytes, 1),
            "load": round(self.load, 2),
        }

    def json(self) -> Any:
        """The last line that it printed."""
        return json.loads(self.out.strip().splitlines()[-1])


def run(command: list[str], env: dict[str, str] | None = None) -> Run:
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as usage:
        done = subprocess.run(
            [sys.executable, LAUNCH, usage.name, *command],
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
        )
        if done.returncode:
            sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stderr[-4000:]}")
        return Run(**json.load(usage), out=done.stdout, load=os.getloadavg()[0])


def turbotag(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "turbotag", *map(str, arguments)]


def worker(name: str, *arguments: object) -> list[str]:
    return [sys.executable, WORKERS, name, *map(str, arguments)]


def installed(peer: str) -> bool:
    try:
        return importlib.util.find_spec(PEERS[peer]) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False


def rounds(repeats: dict[Any, int]) -> Iterator[tuple[int, Any]]:
    """(repeat, job), round by round: what is compared runs in turn, not one after the other."""
    for repeat in range(max(repeats.values(), default=0)):
        for job, n in repeats.items():
            if repeat < n:
                yield repeat, job


# ---- Files ---------------------------------------------------------------------------------------


def write(path: Path, rows: list[Row]) -> None:
    """All rows, with the columns of any of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def values(rows: list[dict[str, str]], column: str, **wanted: str) -> list[float]:
    """A column of the rows that have the wanted entries, where it is filled."""
    return [
        float(r[column])
        for r in rows
        if r.get(column) and all(r[k] == v for k, v in wanted.items())
    ]


def record(setting: Setting, part: str, seconds: float, before: float, notes: list[str]) -> None:
    """parts.csv: when and on what a part was measured, and what was left out."""
    path = setting.out / "parts.csv"
    packages = ["turbotag", "numpy", "numba", *PEERS]
    mine: Row = {
        "part": part,
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds),
        "load_before": round(before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "small": "yes" if setting.small else "",
        "notes": " ".join(notes),
    }
    write(path, [*(r for r in read(path) if r["part"] != part), mine])


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


# ---- Numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Measurements of the same thing on both sides. The ratio says how many times better turbotag
    is: above 1 it wins, below 1 it loses. Where the numbers are CPU times, `wall` has the wall
    times of the same runs."""

    what: str
    peer: str
    unit: str
    ours: list[float]
    theirs: list[float]
    more_is_better: bool = False
    wall: tuple[list[float], list[float]] | None = None

    @property
    def ratio(self) -> float:
        return self._ratio(self.ours, self.theirs)

    @property
    def wall_ratio(self) -> float | None:
        return self._ratio(*self.wall) if self.wall else None

    def _ratio(self, ours: list[float], theirs: list[float]) -> float:
        a, b = statistics.median(ours), statistics.median(theirs)
        return a / b if self.more_is_better else b / a


def short(x: float) -> str:
    """Four digits, thousands with commas."""
    if abs(x) >= 1000:
        return f"{x:,.0f}"
    return f"{x:.4g}"


def spread(numbers: list[float]) -> str:
    """Median (smallest .. largest)."""
    if not numbers:
        return "-"
    middle = short(statistics.median(numbers))
    ends = short(min(numbers)), short(max(numbers))
    return middle if ends[0] == ends[1] else f"{middle} ({ends[0]} .. {ends[1]})"


def table(header: list[str], rows: list[list[Any]]) -> list[str]:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [header, *rows]]
    return [lines[0], "|" + "---|" * len(header), *lines[1:], ""]


def figure(*size: float) -> tuple[Any, Any]:
    """pyplot and a new figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot, pyplot.figure(figsize=size, layout="constrained")


def plain(*axes: Any) -> None:
    """Marks at 1, 2 and 5 of every decade of logarithmic axes, as plain numbers."""
    from matplotlib import ticker

    for axis in axes:
        low, high = axis.get_view_interval()
        subs = (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=30))
        axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:,.10g}"))
        axis.set_minor_formatter(ticker.NullFormatter())


def save(pyplot: Any, picture: Any, path: Path) -> None:
    picture.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(picture)
