"""The trace of a run: a row an epoch, as a table for people and JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from turbotag.optim.certificate import Certificate

Echo = Callable[[str], None]  # takes a line of the log


@dataclass
class Row:
    """One line of a trace.

    certified: primal, dual and gap come from a full pass at one set of weights; otherwise they are
    running estimates (or None). seconds is wall time and cpu_seconds processor time since the start
    of training, certificates and dev scoring included. inference: where it is approximate, how the
    calls since the last row went.
    """

    epoch: int
    oracle_calls: int
    updates: int
    seconds: float
    cpu_seconds: float
    primal: float | None = None
    dual: float | None = None
    gap: float | None = None
    certified: bool = False
    dev: float | None = None
    inference: dict[str, float] | None = None

    @property
    def loose(self) -> bool:
        """Whether the gap says little (Certificate.loose)."""
        if self.primal is None or self.dual is None or self.gap is None:
            return False
        return Certificate(self.primal, self.dual, self.gap).loose


class Trace:
    """Collects rows; writes each as it comes."""

    def __init__(
        self,
        echo: Callable[[str], None] | None = None,
        log: str | None = None,
        warn: Callable[[str], None] | None = None,
    ):
        """log: a file for the JSON lines, opened at the first row; if it cannot be written, `warn`
        is told and training goes on without it."""
        self.rows: list[Row] = []
        self.measure = ""  # name of the score on held-out data, such as F1; empty without such data
        self._echo, self._log, self._warn = echo, log, warn

    def add(self, row: Row) -> None:
        if self._echo:
            if not self.rows:
                self._echo(header(self.measure))
            self._echo(_line(row))
        self.rows.append(row)
        if self._log:
            try:
                with open(self._log, "w" if len(self.rows) == 1 else "a", encoding="utf-8") as f:
                    f.write(json.dumps(asdict(row)) + "\n")
            except OSError as e:
                if self._warn:
                    self._warn(f"warning: {self._log}: cannot be written: {e.strerror}")
                self._log = None


def header(measure: str = "") -> str:
    """The names of the table's columns."""
    columns = f"{'epoch':>6}{'oracles':>11}{'seconds':>9}{'primal':>13}{'dual':>13}{'gap':>11}"
    return f"{columns}{f'dev {measure}':>8}" if measure else columns


def _line(row: Row) -> str:
    def number(x: float | None, width: int, form: str) -> str:
        return f"{'-' if x is None else format(x, form):>{width}}"

    known = row.certified or row.gap is None
    gap, dual = number(row.gap, 10, ".2e") + ("  " if known else "~ "), row.dual
    if row.certified and row.loose:
        gap, dual = f"{'loose':>10}  ", None
    dev = "" if row.dev is None else f"{100 * row.dev:6.2f}"
    return (
        f"{row.epoch:>6}{row.oracle_calls:>11}{row.seconds:>9.1f}{number(row.primal, 13, '.7g')}"
        f"{number(dual, 13, '.7g')}{gap}{dev:>7}".rstrip()
    )
