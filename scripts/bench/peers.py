"""What the races share: peers in processes of their own, files in turn, ratios."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Row, chosen, groups, spread, table, values
from measure import Setting, rounds, run

US, CRFSUITE, UDPIPE = "turbotag", "python-crfsuite", "ufal.udpipe"
MODULES = {CRFSUITE: "pycrfsuite", UDPIPE: "ufal.udpipe"}
WORKERS = str(Path(__file__).with_name("workers.py"))
WHOLE, LOADED = "file to file", "model loaded"
THREADS = "model loaded, two threads"


def worker(name: str, *arguments: object) -> list[str]:
    """The command that runs a function of workers.py."""
    return [sys.executable, WORKERS, name, *map(str, arguments)]


def installed(setting: Setting, peer: str) -> bool:
    """Whether a peer is there; if not, the page says so."""
    try:
        found = importlib.util.find_spec(MODULES[peer]) is not None
    except ModuleNotFoundError:  # the package that it would be in
        found = False
    if not found:
        setting.skip(f"{peer} is not installed.")
    return found


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


@dataclass(frozen=True)
class Sides:
    """Rows of a CSV file, and which of them are ours and which are the peer's."""

    rows: list[Row]
    peer: str
    ours: Row
    theirs: Row

    def compare(self, what: str, column: str, unit: str, more: bool = False) -> Comparison:
        a, b, *wall = (
            values(self.rows, c, **which)
            for c in (column, "wall_s")
            for which in (self.ours, self.theirs)
        )
        return Comparison(
            what, self.peer, unit, a, b, more, (wall[0], wall[1]) if column == "cpu_s" else None
        )


# ---- From file to file ---------------------------------------------------------------------------

Job = tuple[str, str, str]  # system, method, mode


def files(plans: dict[Job, list[str]], words: int, repeats: int) -> list[Row]:
    """Commands in turn. A worker prints the seconds with its model loaded; of a peer, which has no
    program of its own, the whole process is the way from file to file."""
    rows: list[Row] = []
    for repeat, job in rounds(dict.fromkeys(plans, repeats)):
        system, method, mode = job
        done = run(plans[job])
        for name in (WHOLE, mode) if system != US else (mode,):
            row = {"system": system, "method": method, "mode": name, "repeat": repeat}
            row |= {"words": words, **done.usage()}
            if name != WHOLE:
                inner = done.json()
                row |= {"cpu_s": round(inner["cpu"], 4), "wall_s": round(inner["wall"], 4)}
            rows.append(row)
            print(row, flush=True)
    return rows


def rate(rows: list[Row], clock: str, **wanted: Any) -> list[float]:
    return [r["words"] / r[clock] for r in chosen(rows, **wanted)]


def speeds(rows: list[Row], verb: str, peer: str, method: str) -> Iterator[Comparison]:
    """Rates of one of our methods against the peer's, and memory."""
    for mode in (WHOLE, LOADED, THREADS):
        one = mode != THREADS  # CPU time cannot show what a second thread gains
        ours: Row = {"system": US, "method": method, "mode": mode}
        theirs: Row = {"system": peer, "mode": mode if one else LOADED}
        sides = [
            [rate(rows, clock, **which) for which in (ours, theirs)]
            for clock in (["cpu_s", "wall_s"] if one else ["wall_s"])
        ]
        (a, b), wall = sides[0], (sides[1][0], sides[1][1]) if one else None
        unit, what = "words / CPU s" if one else "words / s", f"{verb}, {mode}, {method}"
        if a and b:
            yield Comparison(what, peer, unit, a, b, True, wall)
    whole = {"method": method, "mode": WHOLE}, {"system": peer, "mode": WHOLE}
    yield Sides(rows, peer, *whole).compare(f"{verb}, peak memory, {method}", "peak_mb", "MB")


def speed_table(rows: list[Row]) -> str:
    body = []
    for key, mine in groups(rows, "system", "method", "mode").items():
        found = [spread(rate(mine, clock)) for clock in ("cpu_s", "wall_s")]
        body.append([*key, len(mine), *found, spread(values(mine, "peak_mb"))])
    head = ["system", "method", "", "runs", "words / CPU s", "words / s (wall)", "peak MB"]
    return table(head, body)
