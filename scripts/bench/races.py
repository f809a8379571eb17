"""Race turbotag against its peers, and measure how it scales and starts: docs/benchmarks.md.

    python scripts/bench races crfsuite udpipe treebanks scaling start page

Each part writes CSV files with every single measurement; `page` makes the plots and the page from
them. What is compared runs in turn within one run; figures are medians with the smallest and the
largest. A peer that is not installed is left out, and the page says so. Needs the `bench` extra.
"""

from __future__ import annotations

from pathlib import Path

import crfsuite
import scaling
import start
import treebanks
import udpipe
from figures import spread, table
from measure import Page, Part
from peers import Comparison
from plots import PALETTE, figure, plain, save

MODULES = {
    "crfsuite": crfsuite,
    "udpipe": udpipe,
    "treebanks": treebanks,
    "scaling": scaling,
    "start": start,
}


def ratios(out: Path) -> str:
    """What is lost stands first."""
    found = [c for module in MODULES.values() for c in module.comparisons(out)]
    found.sort(key=lambda c: c.ratio)
    paragraphs = [
        "The ratio says how many times better turbotag is: above 1 it wins, below 1 it loses. "
        "Sorted by it, so what we lose stands first. The second ratio is that of the wall times of "
        "the same runs."
    ]
    for title, chosen in (
        ("Where turbotag loses", [c for c in found if c.ratio < 1.0]),
        ("Even", [c for c in found if c.ratio == 1.0]),
        ("Where turbotag wins", [c for c in found if c.ratio > 1.0]),
    ):
        paragraphs += [f"## {title}", ratio_table(chosen) if chosen else "Nothing."]
    if found:
        plot(found, out)
        paragraphs.append(f"![ratios]({out.name}/ratios.png)")
    return "\n\n".join(paragraphs)


def ratio_table(found: list[Comparison]) -> str:
    body = []
    for c in found:
        ratio = f"**{c.ratio:.3g}**" if abs(c.ratio - 1) > 0.1 else f"**{c.ratio:.4f}**"
        wall = f"{c.wall_ratio:.3g}" if c.wall_ratio else ""
        body.append([c.what, c.peer, c.unit, spread(c.ours), spread(c.theirs), ratio, wall])
    return table(["what", "peer", "unit", "turbotag", "peer's", "ratio", "wall"], body)


def plot(found: list[Comparison], out: Path) -> None:
    """Every ratio that is not one of scores: those differ by too little to be seen beside times."""
    shown = [c for c in found if c.unit not in ("F1", "UAS", "LAS")]
    picture = figure(10, 0.24 * len(shown) + 1.4)
    axis, at = picture.subplots(), range(len(shown))
    colours = [PALETTE[c.peer] for c in shown]
    made = axis.barh(at, [c.ratio - 1.0 for c in shown], left=1.0, color=colours)
    labels = [f"{c.ratio:.2g}" if c.ratio < 100 else f"{c.ratio:.0f}" for c in shown]
    axis.bar_label(made, labels, fontsize=7, padding=3)
    axis.set_yticks(at, [f"{c.what} [{c.unit}]" for c in shown], fontsize=7.5)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.axvline(1.0, color="black", lw=1)
    axis.margins(x=0.1, y=0.01)
    axis.set_xlabel("how many times better turbotag is (left of the line it loses)")
    for peer in dict.fromkeys(c.peer for c in shown):
        axis.barh(0, 0, color=PALETTE[peer], label=f"against {peer}")
    axis.legend(fontsize=8, loc="upper right")
    axis.grid(alpha=0.3, axis="x")
    plain(axis.xaxis)
    save(picture, out / "ratios.png")


PAGE = Page(
    "Benchmarks",
    "benchmarks",
    "bench",
    "bench/races.py",
    {name: Part(m.TITLE, m.measure, m.section, m.plot) for name, m in MODULES.items()},
    "Figures are medians (smallest .. largest) of runs that took turns with what they are compared "
    "with; CPU seconds are user and system time of all threads. Where the machine was busy, wall "
    "times say little: read CPU times and ratios.",
    ratios,
)
