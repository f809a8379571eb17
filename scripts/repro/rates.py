"""Zhang et al. 2011, table 1, measured: iterations to a relative duality gap on the hinge loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Claim, exponent, first_at, rows_of, shown, spaced
from figures import Row, curve, groups, table
from measure import Setting
from plots import draw
from problems import NAMES, Methods, Task, certified, race, tagging, trees

TITLE = "Rates of the methods for the hinge loss"
SOURCE = "Zhang, Saha and Vishwanathan 2011, table 1"
METHODS: Methods = {
    "bmrm": ("bmrm", {}),
    "svm-struct, 1-slack": ("svm-struct", {}),
    "svm-struct, n-slack": ("svm-struct-n", {}),
    "extragradient": ("extragradient", {}),
    "eg, batch": ("eg-batch", {}),
    "eg, online": ("eg", {}),
    "smo": ("smo", {}),
    "smo, away steps": ("smo", {"steps": "away"}),
    "bcfw": ("sdca", {}),
    "egr, mu of the theory": ("egr", {"adaptive": "no"}),
    "egr, mu found": ("egr", {}),
}
# iterations to a gap of eps: the exponents of 1/eps and of 1/lambda in the bounds of the table, nan
# where it has none; SMO has another bound, with log(1/eps), for problems that ours are not
CLAIMED = {
    "bmrm": (1.0, 1.0),
    "svm-struct, 1-slack": (1.0, 1.0),
    "svm-struct, n-slack": (1.0, 1.0),
    "extragradient": (1.0, math.nan),
    "eg, batch": (1.0, 1.0),
    "smo": (1.0, 1.0),
    "egr, mu of the theory": (0.5, 0.5),
    "egr, mu found": (0.5, 0.5),
}
WITHIN = 0.25  # of a fitted exponent above a claimed one that counts as that
LEVELS = (1e-1, 1e-2, 1e-3)  # of the gap, relative to the best dual
CS = (0.1, 0.01)  # lambda = 10/n and 100/n


def coarse_chunks(text: list[bytes]) -> list[bytes]:
    """B, I and O alone: three labels for 22."""

    def line(row: bytes) -> bytes:
        words, _, tag = row.rpartition(b" ")
        return words + b" " + (tag if tag == b"O" else tag[:2] + b"X")

    return [b"\n".join(map(line, s.split(b"\n"))) for s in text]


def coarse_letters(text: list[bytes]) -> list[bytes]:
    """Five groups of letters: five labels for 26."""

    def line(row: bytes) -> bytes:
        return bytes([ord("a") + (row[0] - ord("a")) // 6]) + row[1:]

    return [b"\n".join(map(line, s.split(b"\n"))) for s in text]


# corpus, size of the label set, and how the problem is made
PROBLEMS: tuple[tuple[str, str, Callable[[Setting], Task]], ...] = (
    ("conll2000", "22 labels", lambda s: tagging(s, "conll2000", s.pick(20, 100, 500), loss="svm")),
    (
        "conll2000", "3 labels",
        lambda s: tagging(s, "conll2000", s.pick(20, 100, 500), coarse_chunks, loss="svm"),
    ),
    ("ocr", "26 labels", lambda s: tagging(s, "ocr", s.pick(20, 200, 1000), loss="svm")),
    (
        "ocr", "5 labels",
        lambda s: tagging(s, "ocr", s.pick(20, 200, 1000), coarse_letters, loss="svm"),
    ),
    ("slovene", "all trees", lambda s: trees(s, "nonprojective", s.pick(20, 60, 300), "svm")),
    ("slovene", "projective trees", lambda s: trees(s, "projective", s.pick(20, 60, 300), "svm")),
)  # fmt: skip


def measure(opt: Any) -> Row:
    proof = certified(opt)
    return {"gap": proof.gap, "dual": proof.dual}


def close(row: Row) -> bool:
    return row["gap"] <= LEVELS[-1] * row["dual"] / 3.0


def run(setting: Setting) -> None:
    rows: list[Row] = []
    for corpus, labels, make in PROBLEMS:
        if not setting.has(corpus):
            continue
        task = make(setting)
        for C in CS:
            epochs, seconds = setting.pick((3, None), (1000, 6.0), (10_000, 120.0))
            for row in race(task, METHODS, measure, epochs, C, close, seconds=seconds, at=spaced):
                rows.append({"corpus": corpus, "labels": labels, "C": C, **row})
            setting.write("rates", rows)


# ---- The report ----------------------------------------------------------------------------------


def problems_of(out: Path) -> dict[tuple[str, str, float], dict[str, list[Row]]]:
    """Rows by problem, then by method; gaps are relative to the best dual of the problem."""
    found = {}
    for key, rows in groups(rows_of(out, "rates"), "corpus", "labels", "C").items():
        best = max(r["dual"] for r in rows)
        for r in rows:
            r["relative"] = r["gap"] / best
        found[key] = groups(rows, "optimizer")
    return found


def plot(out: Path) -> None:
    panels = []
    for (corpus, labels, C), by in problems_of(out).items():
        lines = {
            name: ([r["epoch"] for r in g], [max(r["relative"], 1e-6) for r in g])
            for name, g in by.items()
        }
        title = f"{NAMES[corpus]}, {labels}, lambda = {1 / C:g}/n"
        panels.append((title, "iterations", "relative duality gap", lines))
    draw(out / "rates.png", panels, logx=True, logy=True, columns=2)


def slope(rows: list[Row]) -> float:
    """Exponent p of k ~ (1/gap)^p over the last decade of iterations."""
    if len(rows) < 3:
        return math.nan
    fitted = exponent(*curve(rows, "epoch", "relative"))
    return -1.0 / fitted if fitted < 0 else math.inf


def by_lambda(by: dict[tuple[str, str, float], dict[str, list[Row]]], name: str) -> list[float]:
    """Exponents of 1/lambda: of iterations to a relative gap of 0.01, from C = 0.01 to 0.1."""
    found = []
    for (corpus, labels, C), methods in by.items():
        if CS[0] == C and name in methods and name in by.get((corpus, labels, CS[1]), {}):
            pair = methods[name], by[corpus, labels, CS[1]][name]
            weak, strong = (first_at(rows, "relative", LEVELS[1], "epoch") for rows in pair)
            if math.isfinite(weak) and math.isfinite(strong):
                found.append(math.log10(weak / strong))
    return found


def section(out: Path) -> str:
    rows, by = [], problems_of(out)
    for (corpus, labels, C), methods in by.items():
        for name, g in methods.items():
            cells = []
            for level in LEVELS:
                k, passes = (first_at(g, "relative", level, x) for x in ("epoch", "passes"))
                cpu = first_at(g, "relative", level, "cpu_seconds")
                cells.append(f"{k:.0f} ({passes:.0f}; {cpu:.1f} s)" if math.isfinite(k) else "-")
            where = [f"{NAMES[corpus]}, {labels}", f"{1 / C:g}/n", name]
            p = slope(g)
            rows.append([*where, *cells, f"{g[-1]['relative']:.1e}", shown(p, ".2f")])
    head = ["problem", "lambda", "method", *(f"to {v:g}" for v in LEVELS), "last gap", "exponent"]
    summary = []
    for name in METHODS:
        cells = []
        for claimed, found in zip(CLAIMED.get(name, (math.nan,) * 2), fits(by, name), strict=True):
            told = f"{middle(found):.2f} ({found[0]:.2f} .. {found[-1]:.2f})" if found else "-"
            cells += ["-" if math.isnan(claimed) else f"{claimed:g}", told]
        summary.append([name, *cells])
    return "\n\n".join(
        [
            "svm loss; 100 sentences of chunking, 200 words of OCR, 60 Slovene sentences (FULL=1: "
            "500, 1,000 and 300). An iteration is a pass of a batch method, one constraint of "
            "svm-struct, n visits of bcfw and smo; in brackets the passes of oracle calls and CPU "
            "seconds. Gaps are certified and relative to the best dual of any method. Each run has "
            "6 CPU seconds. An exponent p means k ~ (1/gap)^p, fitted over the last decade of "
            "iterations; that of lambda compares iterations to 0.01 at lambda = 10/n and 100/n.",
            table(
                ["method", "bound in 1/gap", "fitted: median (range)", "bound in 1/lambda",
                 "measured"],
                summary,
            ),
            table(head, rows),
        ]
    )  # fmt: skip


def fits(
    by: dict[tuple[str, str, float], dict[str, list[Row]]], name: str
) -> tuple[list[float], list[float]]:
    """The exponents of 1/gap and of 1/lambda of a method, over the problems, in order."""
    slopes = [slope(methods[name]) for methods in by.values() if name in methods]
    return sorted(x for x in slopes if math.isfinite(x)), sorted(by_lambda(by, name))


def middle(found: list[float]) -> float:
    return found[len(found) // 2]


def claims(out: Path) -> list[Claim]:
    by = problems_of(out)
    if not by:
        return []
    first, words = [], []
    for key, methods in by.items():
        reached = {n: first_at(g, "relative", LEVELS[1], "epoch") for n, g in methods.items()}
        calls = {n: first_at(g, "relative", LEVELS[1], "passes") for n, g in methods.items()}
        where = f"{NAMES[key[0]]}, {key[1]}, lambda = {1 / key[2]:g}/n"
        best, least = min(reached, key=lambda n: reached[n]), min(calls, key=lambda n: calls[n])
        if math.isinf(reached[best]):
            words.append(f"{where}: none in its time")
            continue
        egr = reached.get("egr, mu found", math.inf)
        first.append(egr <= min(v for n, v in reached.items() if not n.startswith("egr")))
        words.append(
            f"{where}: {best} {reached[best]:.0f} iterations, {least} {calls[least]:.0f} passes; "
            f"egr {shown(egr, '.0f')}"
        )
    found = [
        Claim(
            SOURCE,
            "EGR needs fewer iterations than the methods that it is compared with.",
            all(first) if first else None,
            f"To a relative gap of 0.01: {'; '.join(words)}.",
        )
    ]
    for which, of, text in (
        (0, "1/gap", "takes iterations of the order of 1/eps at most"),
        (1, "1/lambda", "takes iterations of the order of 1/lambda at most"),
    ):
        for egr in (False, True):
            good, told = [], []
            for name, bounds in CLAIMED.items():
                mine = fits(by, name)[which]
                if name.startswith("egr") == egr and mine and not math.isnan(bounds[which]):
                    good.append(middle(mine) <= bounds[which] + WITHIN)
                    told.append(f"{name} {middle(mine):.2f}")
            who = "EGR" if egr else "Each of BMRM, SVM-Struct, extragradient, EG and SMO"
            bound = text.replace("order of 1", "order of the root of 1") if egr else text
            found.append(
                Claim(
                    SOURCE,
                    f"{who} {bound}.",
                    all(good) if good else None,
                    f"Median exponents of {of}: {', '.join(told) or 'none'}. It shows if none is "
                    f"more than {WITHIN:g} above the bound; below it a method is faster than that.",
                )
            )
    return found
