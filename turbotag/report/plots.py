"""Training traces as plots: objectives, duality gap, suboptimality and dev score of several runs.

matplotlib is optional and imported only where something is drawn.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.errors import DataError, UsageError
from turbotag.optim.trace import Row
from turbotag.report.markup import document, html, table
from turbotag.report.tables import percent
from turbotag.storage.store import write_atomically

X = {"epoch": "epochs", "oracle_calls": "oracle calls", "seconds": "wall time (seconds)"}
# Okabe and Ito's colours without yellow, which is too light for lines; shapes and dashes besides.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX*"
DASHES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Run:
    """A trace and its name in a plot."""

    name: str
    rows: list[Row]

    @property
    def steps(self) -> list[Row]:
        """The rows of the trace, without a last row of an earlier epoch, which stands for the epoch
        that was kept as the best on dev."""
        back = len(self.rows) > 1 and self.rows[-1].epoch < self.rows[-2].epoch
        return self.rows[:-1] if back else self.rows

    def column(self, name: str) -> np.ndarray:
        """(steps,) floats, nan for what is missing or not finite."""
        values = [getattr(row, name) for row in self.steps]
        column = np.array([math.nan if v is None else v for v in values], np.float64)
        return np.where(np.isfinite(column), column, math.nan)

    @property
    def certified(self) -> np.ndarray:
        return np.array([row.certified for row in self.steps], np.bool_)


# ---- Reading -------------------------------------------------------------------------------------


def read_runs(paths: Iterable[str], note: Callable[[str], None] = lambda line: None) -> list[Run]:
    """Traces that `turbotag train --log` wrote, each with a short name. note: is told of runs that
    are still being written."""
    chosen = list(dict.fromkeys(Path(p).as_posix() for p in paths))
    return [Run(n, _rows(p, note)) for n, p in zip(short_names(chosen), chosen, strict=True)]


def short_names(paths: list[str]) -> list[str]:
    """What differs between paths, cut at '/', '-', '_' and blanks; for a single path, its last
    part."""
    whole = [p.removesuffix(".jsonl") for p in paths]
    if len(whole) == 1:
        return [Path(whole[0]).name]
    names = [w[_common(whole) :] for w in whole]
    backward = [n[::-1] for n in names]
    names = [b[_common(backward) :][::-1] for b in backward]
    return names if all(names) and len(set(names)) == len(names) else paths


def _common(names: list[str]) -> int:
    """The length of what all names begin with, up to the last such mark in it."""
    same = takewhile(lambda c: len(set(c)) == 1, zip(*names, strict=False))
    start = "".join(c[0] for c in same)
    return max(start.rfind(mark) for mark in "/-_ ") + 1


def _rows(path: str, note: Callable[[str], None]) -> list[Row]:
    *lines, rest = Path(path).read_bytes().split(b"\n")
    rows: list[Row] = []
    for number, line in enumerate([*lines, rest] if rest else lines, 1):
        row = _row(line)
        if row is None and number > len(lines):
            note(f"note: {path}, line {number} is not whole: the run is read up to there")
        elif row is None:
            what = "damaged, or not of a trace that `turbotag train --log` writes"
            raise DataError(what, path, number)
        elif rows and row.oracle_calls < rows[-1].oracle_calls:
            raise DataError("has fewer oracle calls than the line before", path, number)
        else:
            rows.append(row)
    if not rows:
        raise DataError("has no whole line of a trace" if rest else "is empty", path)
    return rows


def _row(line: bytes) -> Row | None:
    """A line of a trace; None if it is not one. Fields of later versions are left out."""
    try:
        values = json.loads(line)
        row = Row(**{f.name: values[f.name] for f in fields(Row) if f.name in values})
    except (ValueError, TypeError):
        return None
    numbers = [row.epoch, row.oracle_calls, row.updates, row.seconds, row.cpu_seconds]
    numbers += [v for v in (row.primal, row.dual, row.gap, row.dev) if v is not None]
    sound = all(type(v) in (int, float) for v in numbers) and type(row.certified) is bool
    return row if sound else None


# ---- Figures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Values of one run, drawn with its colour and marker; dashes None are those of the run."""

    run: int
    values: np.ndarray
    dashes: Any = None


@dataclass(frozen=True)
class Figure:
    """One quantity of all runs; log: on a logarithmic axis; limits: of a linear one."""

    name: str
    title: str
    unit: str
    caption: str
    lines: list[Line]
    log: bool = False
    limits: tuple[float, float] | None = None
    estimates: bool = True  # some values are estimates, some certified


def figures(runs: list[Run], note: Callable[[str], None] = lambda line: None) -> list[Figure]:
    """The figures that these runs have values for."""
    numbered = list(enumerate(runs))
    primal = [Line(i, r.column("primal"), "-") for i, r in numbered]
    dual = [Line(i, r.column("dual"), DASHES[1]) for i, r in numbered]
    gap = [Line(i, _positive(r.column("gap"))) for i, r in numbered]
    dev = [Line(i, 100 * r.column("dev")) for i, r in numbered]
    found = [
        Figure(
            "objective",
            "Primal and dual objective",
            "objective",
            "The optimum lies between any primal and any dual value of the same problem. The axis "
            "leaves out dual values below 0, that of w = 0, and early primal values.",
            primal + dual,
            limits=_objective_limits(primal, dual),
        ),
        Figure(
            "gap",
            "Duality gap",
            "primal − dual",  # noqa: RUF001
            "How far a run can be from the optimum by its own proof.",
            gap,
            log=True,
        ),
    ]
    best = best_dual(runs, note)
    if best is not None:
        found.append(
            Figure(
                "suboptimality",
                "Primal suboptimality",
                "primal − best dual",  # noqa: RUF001
                f"How far a run can be from the optimum by the best dual value of all runs, "
                f"{best:.9g}.",
                [Line(line.run, _positive(line.values - best)) for line in primal],
                log=True,
            )
        )
    found.append(
        Figure(
            "dev",
            "Score on the dev file",
            "dev score (%)",
            "The main score of the task on --dev after each epoch; the axis may leave out the "
            "first third of a run.",
            dev,
            limits=_dev_limits(dev),
            estimates=False,
        )
    )
    return [f for f in found if any(_known(line.values).size for line in f.lines)]


def best_dual(runs: list[Run], note: Callable[[str], None]) -> float | None:
    """The best lower bound of the optimum: of certified rows, or of all where there are none.

    None if there is no bound, or if a certified primal lies below it: then the runs do not have
    the same objective.
    """
    duals = [np.where(r.certified, r.column("dual"), math.nan) for r in runs]
    if not any(_known(d).size for d in duals):
        duals = [r.column("dual") for r in runs]
    if not any(_known(d).size for d in duals):
        return None
    best = float(max(_known(d).max() for d in duals if _known(d).size))
    for run in runs:
        certified = _known(np.where(run.certified, run.column("primal"), math.nan))
        if certified.size and certified.min() < best - 1e-9 * max(1.0, abs(best)):
            note(
                f"note: no plot of suboptimality: the primal objective of {run.name} is below the "
                "dual of another run, so their data, losses or C differ"
            )
            return None
    return best


def _known(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, math.nan)


def _objective_limits(primal: list[Line], dual: list[Line]) -> tuple[float, float] | None:
    """From the worst dual, but not below 0, to three times the best primal or the worst last."""
    tops = [v for line in primal if (v := _known(line.values)).size]
    lows = [v for line in dual if (v := _known(line.values)).size]
    if not tops or not lows:
        return None
    worst_last = max(v[-1] for v in tops)
    high = min(max(v.max() for v in tops), max(3 * min(v.min() for v in tops), worst_last))
    return _widened(max(0.0, min(v.min() for v in lows)), float(high))


def _dev_limits(dev: list[Line]) -> tuple[float, float] | None:
    """What holds the last two thirds of every run and all that is better, and at least a point."""
    known = [v for line in dev if (v := _known(line.values)).size]
    if not known:
        return None
    best = float(max(v.max() for v in known))
    return _widened(min(best - 1, *(float(v[v.size // 3 :].min()) for v in known)), best)


def _widened(low: float, high: float) -> tuple[float, float]:
    margin = 0.05 * (high - low) or max(1e-3, 0.01 * abs(high))
    return low - margin, high + margin


# ---- The report ----------------------------------------------------------------------------------


def write_report(
    paths: Iterable[str], folder: str, note: Callable[[str], None] = lambda line: None
) -> str:
    """Plots of traces as PNG files in a folder, and a page with all of them: its path."""
    runs = read_runs(paths, note)
    drawn = [(f, draw(f, runs)) for f in figures(runs, note)]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for figure, png in drawn:
        write_atomically(str(Path(folder, f"{figure.name}.png")), png)
    index = str(Path(folder, "index.html"))
    write_atomically(index, _page(runs, drawn).encode())
    return index


def _page(runs: list[Run], drawn: list[tuple[Figure, bytes]]) -> str:
    header = ["run", "epochs", "oracle calls", "seconds", "CPU seconds"]
    header += ["primal", "dual", "gap", "best dev score"]
    body = [
        "<h1>Training runs</h1>",
        table(header, ([run.name, *_summary(run)] for run in runs)),
        '<p class="quiet">Objectives are the last of each run; ~ marks estimates, others are '
        "certified by a full pass over the data. A dev score is followed by its epoch.</p>",
    ]
    for figure, png in drawn:
        data = base64.b64encode(png).decode()
        body += [
            f"<h2>{html(figure.title)}</h2>",
            f'<p class="quiet">{html(figure.caption)}</p>',
            f'<figure><img alt="{html(figure.title)}" src="data:image/png;base64,{data}"></figure>',
        ]
    return document("Training runs", body)


def _summary(run: Run) -> list[str]:
    last = run.rows[-1]
    known = [row for row in run.rows if row.gap is not None]
    proof = ["-"] * 3
    if known:
        sign = "" if known[-1].certified else "~"
        values = (known[-1].primal, "#.7g"), (known[-1].dual, "#.7g"), (known[-1].gap, ".2e")
        proof = ["-" if v is None else sign + format(v, form) for v, form in values]
    scored = [(row.dev, row.epoch) for row in run.rows if row.dev is not None]
    score, epoch = max(scored, default=(math.nan, 0))
    best = f"{percent(score)} ({epoch})" if scored else "-"
    seconds = [f"{s:.1f}" for s in (last.seconds, last.cpu_seconds)]
    return [f"{run.steps[-1].epoch:,}", f"{last.oracle_calls:,}", *seconds, *proof, best]


# ---- Drawing -------------------------------------------------------------------------------------


def draw(figure: Figure, runs: list[Run]) -> bytes:
    """A PNG: the quantity against epochs, oracle calls and seconds; the same bytes each time."""
    try:
        from matplotlib import style
        from matplotlib.figure import Figure as Canvas
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from matplotlib.lines import Line2D
        from matplotlib.ticker import EngFormatter, MaxNLocator
    except ImportError:
        raise UsageError("plots need matplotlib: pip install 'turbotag[plots]'") from None

    with style.context(["default", STYLE]):
        layout = ConstrainedLayoutEngine(w_pad=0.08, wspace=0.02)
        canvas = Canvas(figsize=(12, 4.2), layout=layout)
        panels = canvas.subplots(1, len(X), sharey=True)
        for panel, (x, label) in zip(panels, X.items(), strict=True):
            for line in figure.lines:
                _plot(panel, runs[line.run], x, line, figure.estimates)
            panel.set_xlabel(label)
            if _far_apart([run.column(x)[-1] for run in runs]):
                panel.set_xscale("log")
                panel.set_xlabel(f"{label}, log axis")
            else:
                panel.set_xlim(left=0)
                panel.xaxis.set_major_locator(
                    MaxNLocator(7, steps=[1, 2, 5, 10], integer=x != "seconds")
                )
            if x == "oracle_calls":
                panel.xaxis.set_major_formatter(EngFormatter(sep=""))
            elif x == "epoch" or panel.get_xscale() == "log":
                panel.xaxis.set_major_formatter("{x:g}")
        if figure.log:
            panels[0].set_yscale("log")
        elif figure.limits:
            panels[0].set_ylim(*figure.limits)
        panels[0].set_ylabel(figure.unit + (", log axis" if figure.log else ""))
        handles = _legend(Line2D, figure, runs)
        widths = [len(handle.get_label()) + 9 for handle in handles]  # in letters; 165 fit a row
        columns = len(handles) if sum(widths) < 165 else max(1, 165 // max(widths))
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        out = io.BytesIO()
        canvas.savefig(out, format="png", dpi=160, metadata={"Software": None})
        return out.getvalue()


def _look(run: int, dashes: Any = None) -> dict[str, Any]:
    return {
        "color": COLOURS[run % len(COLOURS)],
        "marker": MARKERS[run % len(MARKERS)],
        "linestyle": dashes or DASHES[run % len(DASHES)],
    }


def _plot(panel: Any, run: Run, x: str, line: Line, estimates: bool) -> None:
    """A line with about ten markers: hollow for estimates, filled for what was certified."""
    known = ~np.isnan(line.values)
    across, up, look = run.column(x)[known], line.values[known], _look(line.run, line.dashes)
    panel.plot(across, up, **{**look, "marker": None})
    marked = np.zeros(up.size, np.bool_)
    marked[:: -(-up.size // 10) or 1] = marked[-1:] = True
    filled = run.certified[known] | (not estimates)
    for where, face in ((marked & ~filled, "white"), (marked & filled, look["color"])):
        dots = {**look, "linestyle": "none", "markerfacecolor": face}
        panel.plot(across[where], up[where], **dots, zorder=3)


def _legend(line: Any, figure: Figure, runs: list[Run]) -> list[Any]:
    """Runs; where needed, what solid and dashed lines and hollow and filled markers are."""
    pairs = any(drawn.dashes for drawn in figure.lines)
    hollow = {"markerfacecolor": "white"} if figure.estimates else {}
    shown = sorted({drawn.run for drawn in figure.lines if _known(drawn.values).size})
    handles = [
        line([], [], **_look(i, "-" if pairs else None), **hollow, label=runs[i].name)
        for i in shown
    ]
    grey = {"color": "#666666"}
    if pairs:
        handles.append(line([], [], **grey, linestyle="-", label="primal"))
        handles.append(line([], [], **grey, linestyle=DASHES[1], label="dual"))
    if figure.estimates:
        dot = {**grey, "marker": "o", "linestyle": "none"}
        handles.append(line([], [], **dot, markerfacecolor="white", label="estimate"))
        handles.append(line([], [], **dot, label="certified"))
    return handles


def _far_apart(ends: list[float]) -> bool:
    return min(ends) > 0 and max(ends) > 20 * min(ends)
