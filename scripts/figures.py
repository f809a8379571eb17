"""Figures: rows in CSV files, picked and grouped, and tables of them for a page."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(path: Path, rows: list[Row]) -> None:
    """A CSV file; a column that depends on the clock is called ..._seconds, ..._s or load."""
    columns = dict.fromkeys(name for row in rows for name in row)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in row.items()} for row in rows)


def _text(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value


def read(path: Path) -> list[Row]:
    """The rows of a CSV file, numbers as numbers and nothing as None; none if it is not there."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(f)]


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def chosen(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


def values(rows: Iterable[Row], column: str, **wanted: Any) -> list[float]:
    """A column of the rows that have the wanted entries, where it is filled."""
    return [r[column] for r in chosen(rows, **wanted) if r.get(column) is not None]


def groups(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows by the value of a column, or the values of several, in the order in which they come."""
    of, found = itemgetter(*keys), dict[Any, list[Row]]()
    for row in rows:
        found.setdefault(of(row), []).append(row)
    return found


def curve(rows: Iterable[Row], x: str, y: str) -> tuple[list[float], list[float]]:
    """Two columns, for a plot."""
    pairs = [(r[x], r[y]) for r in rows]
    return [a for a, _ in pairs], [b for _, b in pairs]


def short(x: float) -> str:
    """Four digits, thousands with commas."""
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}"


def spread(numbers: list[float]) -> str:
    """Median (smallest .. largest)."""
    if not numbers:
        return "-"
    middle, *ends = (short(f(numbers)) for f in (statistics.median, min, max))
    return middle if ends[0] == ends[1] else f"{middle} ({ends[0]} .. {ends[1]})"


def table(header: list[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown."""
    cells = [[str(c).replace("|", "\\|") for c in row] for row in [header, *rows]]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])
