"""Martins et al. 2010, equation 17: several half-spaces of a sentence, for any loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common import Claim, rows_of
from figures import Row, curve, groups, table
from measure import Setting
from plots import draw
from problems import NAMES, Methods, primal_of, race, tagging

TITLE = "Several half-spaces of a sentence"
SOURCE = "Martins et al. 2010, equation 17"
METHODS: Methods = {
    "dca": ("dca", {}),
    "dca, 2 half-spaces": ("dca-planes", {"halfspaces": 2}),
    "dca, 4 half-spaces": ("dca-planes", {"halfspaces": 4}),
    "dca, 8 half-spaces": ("dca-planes", {"halfspaces": 8}),
    "mira, 5 best": ("mira", {"kbest": 5}),
    "sdca": ("sdca", {}),
    "smo": ("smo", {}),
}
LOSSES = ("crf", "svm")
C = 0.1


def run(setting: Setting) -> None:
    rows: list[Row] = []
    if not setting.has("conll2002-nl"):
        return
    for loss in LOSSES:
        task = tagging(setting, "conll2002-nl", setting.pick(40, 4000, None), loss=loss)

        def measure(opt: Any, task: Any = task) -> Row:
            W = opt.weights()
            return {"primal": primal_of(opt), "f1": task.score(W, "dev")}

        served = {k: m for k, m in METHODS.items() if m[0] != "mira" or loss == "svm"}
        for row in race(task, served, measure, setting.pick(2, 10, 20), C):
            rows.append({"loss": loss, **row})
        setting.write("halfspaces", rows)


def plot(out: Path) -> None:
    panels = []
    for loss, rows in groups(rows_of(out, "halfspaces"), "loss").items():
        for x, label in (("epoch", "epochs"), ("cpu_seconds", "CPU seconds")):
            lines = {name: curve(g, x, "f1") for name, g in groups(rows, "optimizer").items()}
            panels.append((f"{NAMES['conll2002-nl']}, {loss}", label, "dev F1", lines))
    draw(out / "halfspaces.png", panels, columns=2)


def section(out: Path) -> str:
    found = []
    for (loss, name), g in groups(rows_of(out, "halfspaces"), "loss", "optimizer").items():
        best = max(r["f1"] for r in g)
        there = next(r for r in g if r["f1"] >= best - 0.5)
        found.append(
            [loss, name, f"{g[0]['f1']:.2f}", f"{g[-1]['f1']:.2f}", f"{best:.2f}",
             f"{there['epoch']:.0f} ({there['cpu_seconds']:.1f} s)", f"{g[-1]['primal']:.4f}",
             f"{g[-1]['cpu_seconds']:.1f}"]
        )  # fmt: skip
    head = [
        "loss",
        "method",
        "F1 after 1",
        "after the last epoch",
        "best",
        "within 0.5 of it after",
    ]
    return (
        f"{NAMES['conll2002-nl']}, the first 4,000 sentences, F1 on its development part, C = "
        f"{C:g}. The half-spaces are the tangents of the loss of a sentence at its last visits; "
        "with one it is DCA. Averaged weights of online methods.\n\n"
        + table([*head, "primal", "CPU s"], found)
    )


def claims(out: Path) -> list[Claim]:
    better, words = [], []
    for loss, rows in groups(rows_of(out, "halfspaces"), "loss").items():
        by = groups(rows, "optimizer")
        ends = {n: g[-1] for n, g in by.items()}
        several = max((n for n in ends if "half-spaces" in n), key=lambda n: ends[n]["f1"])
        better.append(ends[several]["f1"] > ends["dca"]["f1"] + 0.3)
        told = ", ".join(f"{n} {r['f1']:.2f} ({r['cpu_seconds']:.0f} s)" for n, r in ends.items())
        words.append(f"{loss}: {told}")
    if not words:
        return []
    return [
        Claim(
            f"{SOURCE} and the text after it",
            "Keeping more half-spaces than the newest gives a better model in as many epochs.",
            all(better),
            f"Dev F1 after the last epoch: {'; '.join(words)}. It shows if several are 0.3 better "
            "than one for both losses.",
        )
    ]
