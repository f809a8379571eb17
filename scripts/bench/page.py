"""docs/benchmarks.md from the CSV files: ratios with the losses first, then a section a part."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from measure import PALETTE, PEERS, Comparison, figure, plain, read, save, spread, table


def page(out: Path, parts: list[ModuleType]) -> None:
    done = {r["part"]: r for r in read(out / "parts.csv")}
    found: list[Comparison] = []
    for module in parts:
        module.plot(out)
        found += module.comparisons(out)
    found.sort(key=lambda c: c.ratio)
    lines = ["# Benchmarks", "", *header(done, out)]
    remarks = out / "remarks.md"
    if remarks.exists():
        lines += [remarks.read_text(encoding="utf-8").strip(), ""]
    lines += ratios(found, out)
    for module in parts:
        body = module.section(out)
        if body or module.__name__ in done:
            lines += [f"## {module.TITLE}", ""]
            notes = done.get(module.__name__, {}).get("notes")
            lines += [notes, ""] if notes else []
            lines += body
    (out.parent / f"{out.name}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def header(done: dict[str, dict[str, str]], out: Path) -> list[str]:
    lines = [
        "Made by `make bench` (`scripts/bench`); every single measurement is in the CSV files of "
        f"[{out.name}/]({out.name}/). Figures are medians (smallest .. largest) of runs that took "
        "turns with what they are compared with; CPU seconds are user and system time of all "
        "threads. Where the machine was busy, wall times say little: read CPU times and ratios.",
        "",
    ]
    body: list[list[Any]] = []
    for part, r in done.items():
        versions = [
            f"{name} {r[name]}" for name in ("turbotag", "numpy", "numba", *PEERS) if r[name]
        ]
        minutes = f"{float(r['seconds']) / 60:.0f}"
        load = f"{r['load_before']} / {r['load_after']}"
        small = " (a rehearsal on little data)" if r["small"] else ""
        python = f"Python {r['python']}"
        body.append(
            [part + small, r["date"], minutes, load, r["cores"], ", ".join([python, *versions])]
        )
    head = ["part", "date", "minutes", "load average before / after", "cores", "versions"]
    return lines + table(head, body)


def ratios(found: list[Comparison], out: Path) -> list[str]:
    losses = [c for c in found if c.ratio < 1.0]
    even = [c for c in found if c.ratio == 1.0]
    wins = [c for c in found if c.ratio > 1.0]
    lines = [
        "The ratio says how many times better turbotag is: above 1 it wins, below 1 it loses. "
        "Sorted by it, so what we lose stands first. The second ratio is that of the wall times of "
        "the same runs.",
        "",
    ]
    for title, chosen in (
        ("Where turbotag loses", losses),
        ("Even", even),
        ("Where turbotag wins", wins),
    ):
        lines += [f"## {title}", ""]
        lines += rows_of(chosen) if chosen else ["Nothing.", ""]
    if found:
        plot(found, out)
        lines += [f"![ratios]({out.name}/ratios.png)", ""]
    return lines


def rows_of(found: list[Comparison]) -> list[str]:
    body = [
        [
            c.what,
            c.peer,
            c.unit,
            spread(c.ours),
            spread(c.theirs),
            f"**{c.ratio:.3g}**" if abs(c.ratio - 1) > 0.1 else f"**{c.ratio:.4f}**",
            f"{c.wall_ratio:.3g}" if c.wall_ratio else "",
        ]
        for c in found
    ]
    return table(["what", "peer", "unit", "turbotag", "peer's", "ratio", "wall"], body)


def plot(found: list[Comparison], out: Path) -> None:
    """Every ratio that is not one of scores: those differ by too little to be seen beside times."""
    shown = [c for c in found if c.unit not in ("F1", "UAS", "LAS")]
    plt, picture = figure(10, 0.24 * len(shown) + 1.4)
    axis = picture.subplots()
    at = range(len(shown))
    axis.barh(
        at,
        [c.ratio - 1.0 for c in shown],
        left=1.0,
        color=[PALETTE[c.peer] for c in shown],
        alpha=0.85,
    )
    axis.set_yticks(at, [f"{c.what} [{c.unit}]" for c in shown], fontsize=7.5)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.axvline(1.0, color="black", lw=1)
    for i, c in enumerate(shown):
        right = c.ratio >= 1.0
        place = (4, 0) if right else (-4, 0)
        axis.annotate(
            f"{c.ratio:.2g}" if c.ratio < 100 else f"{c.ratio:.0f}",
            (c.ratio, i),
            place,
            textcoords="offset points",
            va="center",
            ha="left" if right else "right",
            fontsize=7,
        )
    axis.margins(x=0.1, y=0.01)
    axis.set_xlabel("how many times better turbotag is (left of the line it loses)")
    for peer in dict.fromkeys(c.peer for c in shown):
        axis.barh(0, 0, color=PALETTE[peer], label=f"against {peer}")
    axis.legend(fontsize=8, loc="upper right")
    axis.grid(alpha=0.3, axis="x")
    plain(axis.xaxis)
    save(plt, picture, out / "ratios.png")
