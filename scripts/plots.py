"""Plots of the pages: panels of lines, and bars with their spread."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

PALETTE = {"turbotag": "#1f6fb4", "python-crfsuite": "#d1662b", "ufal.udpipe": "#5b8c3e"}
Panel = tuple[str, str, str, dict[str, Any]]  # title, x label, y label, {name: (x, y)}


def figure(*size: float) -> Any:
    """A new figure of so many inches."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained")


def save(picture: Any, path: Path, dpi: int = 100) -> None:
    from matplotlib import pyplot

    picture.savefig(path, dpi=dpi, metadata={"Software": None}, bbox_inches="tight")
    pyplot.close(picture)


def plain(*axes: Any) -> None:
    """Marks of logarithmic axes as plain numbers: at 1, 2 and 5 of every decade, where there is
    room for them."""
    from matplotlib import ticker

    for axis in axes:
        low, high = axis.get_view_interval()
        room = high / low < (1e3 if high < 2e4 else 20.0)
        subs = (1.0, 2.0, 5.0) if room else (1.0,)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=30))
        axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:,.10g}"))
        axis.set_minor_formatter(ticker.NullFormatter())


def bars(axis: Any, at: Any, numbers: list[list[float]], across: bool = False, **how: Any) -> None:
    """A bar a list: its median, with a line from the smallest to the largest."""
    middle = [statistics.median(x) for x in numbers]
    low = [m - min(x) for m, x in zip(middle, numbers, strict=True)]
    high = [max(x) - m for m, x in zip(middle, numbers, strict=True)]
    ends = {"xerr" if across else "yerr": [low, high]}
    made = (axis.barh if across else axis.bar)(at, middle, capsize=3, **ends, **how)
    labels = [f"{m:,.0f}" if m >= 1000 else f"{m:.3g}" for m in middle]
    axis.bar_label(made, labels, fontsize=8, padding=4)


def base(name: str) -> str:
    return name.removesuffix(" (dashed)")


def draw(path: Path, panels: list[Panel], **options: Any) -> None:
    """A PNG of panels of lines.

    Options: columns, logx, logy, below_best (the axis ends so far below the largest y). The same
    name has the same colour in all panels; 'NAME (dashed)' is dashed, in the colour of NAME.
    """
    if not panels:
        return
    columns = options.get("columns", min(3, len(panels)))
    n_rows = -(-len(panels) // columns)
    picture = figure(4.8 * columns, 3.8 * n_rows)
    axes = picture.subplots(n_rows, columns, squeeze=False)
    names = list(dict.fromkeys(base(name) for *_, lines in panels for name in lines))
    shared = len({tuple(map(base, lines)) for *_, lines in panels}) == 1
    colours = _colours("tab10" if len(names) <= 10 else "tab20")
    for axis, (title, x_label, y_label, lines) in zip(axes.flat, panels, strict=False):
        for name, (x, y) in lines.items():
            dashed = name != base(name)
            axis.plot(
                x, y, "--" if dashed else "-", color=colours(names.index(base(name))), lw=1.4,
                label=None if dashed and base(name) in lines else base(name),
                marker="o" if len(x) == 1 else "." if len(x) <= 25 else None,
            )  # fmt: skip
        if "below_best" in options:
            top = max(max(y) for _, y in lines.values())
            axis.set_ylim(top - options["below_best"], top + 0.05 * options["below_best"])
        for log, one in (("logx", axis.xaxis), ("logy", axis.yaxis)):
            if options.get(log):
                (axis.set_xscale if log == "logx" else axis.set_yscale)("log")
                low, high = one.get_view_interval()
                if high / low < 1e3:
                    plain(one)
        axis.set(title=title, xlabel=x_label, ylabel=y_label)
        axis.grid(alpha=0.3)
        if not shared:
            axis.legend(fontsize=8)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    if shared:  # one legend for all panels, under them
        handles, labels = axes[0, 0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncol=2 * columns, fontsize=8)
    save(picture, path, 80)


def _colours(name: str) -> Any:
    from matplotlib import pyplot

    return pyplot.get_cmap(name)
