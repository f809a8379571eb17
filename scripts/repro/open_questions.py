"""Le Priol et al. 2018, section 7, leaves two questions: OEG sampled by gaps, and acceleration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from common import Claim, first_at, reached, rows_of, shown, spaced
from figures import Row, groups, table
from measure import Setting
from plots import draw
from problems import NAMES, Methods, descents, tagging, trees

TITLE = "Two open questions: gap sampling for OEG, and acceleration"
SOURCE = "Le Priol et al. 2018, section 7"
SAMPLED: Methods = {
    "sdca": ("sdca", {"sampling": "uniform"}),
    "sdca-gap": ("sdca", {}),
    "oeg": ("eg", {}),
    "oeg-gap": ("eg", {"sampling": "gap"}),
    "sag-nus": ("sag-nus", {"skip-line-search": True}),
    "sdca-accelerated": ("sdca-accelerated", {}),
}
ACCELERATED: Methods = {
    "sdca-gap": ("sdca", {}),
    "sdca-accelerated": ("sdca-accelerated", {}),
}
CORPORA = {"ocr": None, "conll2000": 1000, "conll2002-nl": 1000, "ewt": 1000}  # sentences
CS = (1.0, 10.0, 100.0, 1000.0)
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)  # of the suboptimality, relative to the optimum
LEVEL = 1e-4
CLOSE = 0.3 * LEVELS[-1]  # of primal and dual, where a run ends
SECONDS = 15.0, 300.0  # CPU seconds of a run; with FULL=1


def run(setting: Setting) -> None:
    sampling(setting)
    acceleration(setting)


def sampling(setting: Setting) -> None:
    rows: list[Row] = []
    for corpus, first in CORPORA.items():
        if setting.has(corpus):
            task = tagging(setting, corpus, setting.pick(40, first, None))
            passes = setting.pick(3, 80 if corpus == "ocr" else 40, 100)
            limits = {"passes": passes, "seconds": setting.pick(None, *SECONDS), "at": spaced}
            for row in descents(task, SAMPLED, CLOSE, **limits):
                rows.append({"corpus": corpus, **row})
            setting.write("open-questions-sampling", rows)


def acceleration(setting: Setting) -> None:
    rows: list[Row] = []
    for corpus in ("ocr", "conll2000", "slovene"):
        if not setting.has(corpus):
            continue
        if corpus == "slovene":
            task = trees(setting, "nonprojective", setting.pick(20, 60, None), "crf")
        else:
            few = None if corpus == "ocr" else 300
            task = tagging(setting, corpus, setting.pick(40, few, None))
        for C in CS:
            limits = {"passes": setting.pick(3, 100, 1000), "seconds": setting.pick(None, *SECONDS)}
            for row in descents(task, ACCELERATED, CLOSE, C, at=spaced, **limits):
                rows.append({"corpus": corpus, "C": C, **row})
            setting.write("open-questions-acceleration", rows)


# ---- The report ----------------------------------------------------------------------------------


def races(out: Path, name: str, *keys: str) -> dict[Any, tuple[float, dict[str, list[Row]]]]:
    """By problem: the best dual of any method, and the rows of each, with their suboptimality."""
    found = {}
    for key, rows in groups(rows_of(out, f"open-questions-{name}"), *keys).items():
        best = max(r["best_dual"] for r in rows)
        for r in rows:
            r["above"] = max(r["primal"] - best, 0.0) / best
        found[key] = best, groups(rows, "optimizer")
    return found


def plot(out: Path) -> None:
    axes = (("passes", "oracle calls / n"), ("updates", "updates"), ("cpu_seconds", "CPU seconds"))
    for name, keys in (("sampling", ("corpus",)), ("acceleration", ("corpus", "C"))):
        panels = []
        for key, (_, by) in races(out, name, *keys).items():
            title = NAMES[key] if name == "sampling" else f"{NAMES[key[0]]}, C = {key[1]:g}"
            for x, label in axes:
                lines = {}
                for method, g in by.items():
                    seen = [r for r in g if r[x] > 0]
                    lines[method] = [r[x] for r in seen], [max(r["above"], 1e-7) for r in seen]
                panels.append((title, label, "relative suboptimality", lines))
        draw(out / f"open-questions-{name}.png", panels, logx=True, logy=True, columns=3)


def levels(by: dict[str, list[Row]], where: list[str]) -> list[list[str]]:
    rows = []
    for name, g in by.items():
        cells = [reached(g, "above", level, "passes") for level in LEVELS]
        rows.append([*where, name, *cells, f"{g[-1]['above']:.1e}"])
    return rows


def section(out: Path) -> str:
    head = [*(f"to {v:g}" for v in LEVELS), "at the end"]
    parts = [
        "crf loss. Passes of oracle calls, with CPU seconds in brackets, to a suboptimality "
        "relative to the best dual of any method (an upper bound of it). Primal values are "
        "computed outside the clock, kernels are compiled before it starts. A run has 15 CPU "
        "seconds at most. Sampling: all of OCR and 1,000 sentences of the others; "
        "acceleration: all of OCR and, where the table has them, 300 sentences of chunking and 60 "
        "trees.",
        "**Gap sampling**, lambda = 1/n. oeg-gap knows its block gaps from what a step computes "
        "anyway (turbotag/optim/eg.py), without any oracle call more.",
    ]
    rows = []
    for corpus, (_, by) in races(out, "sampling", "corpus").items():
        rows += levels(by, [NAMES[corpus]])
    parts.append(table(["corpus", "method", *head], rows))
    rows = []
    for (corpus, C), (_, by) in races(out, "acceleration", "corpus", "C").items():
        rows += levels(by, [NAMES[corpus], f"{C:g}"])
    parts += ["**Acceleration**, lambda = 1/(C n).", table(["corpus", "C", "method", *head], rows)]
    return "\n\n".join(parts)


def claims(out: Path) -> list[Claim]:
    found = []
    better, level, words, clock, first = [], [], [], [], []
    for corpus, (_, by) in races(out, "sampling", "corpus").items():
        at = {n: first_at(g, "above", LEVEL, "passes") for n, g in by.items()}
        seconds = {n: first_at(g, "above", LEVEL, "cpu_seconds") for n, g in by.items()}
        ends = {n: g[-1]["above"] for n, g in by.items()}
        unreached = math.isinf(at["oeg"]) and math.isinf(at["oeg-gap"])
        better.append(ends["oeg-gap"] < ends["oeg"] if unreached else at["oeg-gap"] < at["oeg"])
        level.append(at["oeg-gap"] <= 1.25 * at["sdca-gap"] and not unreached)
        words.append(
            f"{NAMES[corpus]}: " + ", ".join(f"{n} {shown(x, '.0f')}" for n, x in at.items())
        )
        best = min(seconds, key=lambda n: seconds[n])
        first.append(best.startswith("sdca"))
        clock.append(f"{NAMES[corpus]}: {best} {shown(seconds[best])} s")
    if words:
        told = (
            f"Passes to a relative suboptimality of {LEVEL:g}: {'; '.join(words)} (-: not in this "
            "run; there the last suboptimality counts, and it shows if within a quarter)."
        )
        found.append(Claim(SOURCE, "Gap sampling helps OEG as it helps SDCA.", all(better), told))
        found.append(
            Claim(SOURCE, "OEG with gap sampling catches up with SDCA-gap.", all(level), told)
        )
        found.append(
            Claim(
                "ours",
                "SDCA is also the first by the clock (epochs in one kernel, and accelerated).",
                all(first),
                f"CPU seconds to a relative suboptimality of {LEVEL:g}, the first method: "
                f"{'; '.join(clock)}.",
            )
        )
    wins, words = [], []
    for (corpus, C), (_, by) in races(out, "acceleration", "corpus", "C").items():
        plain, fast = by["sdca-gap"], by["sdca-accelerated"]
        reached = max(plain[-1]["above"], fast[-1]["above"])  # by both
        took = {
            x: [first_at(g, "above", reached, x) for g in (fast, plain)]
            for x in ("passes", "cpu_seconds")
        }
        if C >= 10.0:
            wins.append(all(a < b for a, b in took.values()))
        (a, b), (s, t) = took["passes"], took["cpu_seconds"]
        words.append(
            f"{NAMES[corpus]}, C = {C:g}, to {reached:.1e}: {a:.0f} against {b:.0f} passes, "
            f"{s:.1f} against {t:.1f} s"
        )
    if words:
        found.append(
            Claim(
                SOURCE,
                "Acceleration pays for SDCA where lambda is small (C = 10 and more).",
                all(wins) if wins else None,
                "Passes and CPU seconds to the relative suboptimality that both reach, "
                f"accelerated against plain: {'; '.join(words)}. It shows if both are fewer at "
                "every such C.",
            )
        )
    return found
