"""What the experiments share: claims with their verdicts, and figures read off curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from figures import Row, read

VERDICTS = {False: "does not show", None: "cannot be told here", True: "shows"}


@dataclass(frozen=True)
class Claim:
    """What a paper says, whether it shows in our figures (None: they cannot tell), and why."""

    source: str
    text: str
    shows: bool | None
    why: str


def rows_of(out: Path, name: str) -> list[Row]:
    return read(out / f"{name}.csv")


def first_at(rows: list[Row], column: str, level: float, x: str, below: bool = True) -> float:
    """x of the first row whose column is at or beyond a level; infinite if there is none."""
    for r in rows:
        if r[column] is not None and (r[column] <= level if below else r[column] >= level):
            return float(r[x])
    return math.inf


def reached(rows: list[Row], column: str, level: float, x: str) -> str:
    """x of the first row whose column is at a level, with CPU seconds; '-' if there is none."""
    at, seconds = (first_at(rows, column, level, c) for c in (x, "cpu_seconds"))
    return f"{at:.0f} ({seconds:.1f} s)" if math.isfinite(at) else "-"


def shown(x: float, digits: str = ".1f") -> str:
    """A number for a table, '-' for one that was not reached."""
    return f"{x:{digits}}" if math.isfinite(x) else "-"


def exponent(x: list[float], y: list[float]) -> float:
    """Least-squares slope of log y in log x over the last decade of x."""
    lx, ly = np.log(x), np.log(np.maximum(y, 1e-300))
    late = lx >= lx[-1] - np.log(10.0)
    return float(np.polyfit(lx[late], ly[late], 1)[0])


def spaced(k: int) -> bool:
    """Whether to measure in epoch k: about 25 times a decade."""
    return k <= 10 or int(25 * math.log10(k)) != int(25 * math.log10(k - 1))
