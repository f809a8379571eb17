"""Compare all optimizers on real problems, each to the same optimum: docs/optimizers.md.

    python scripts/bench optimizers table hinge page

Seconds are CPU seconds of the optimizer alone. Curves by oracle calls, updates and seconds are in
docs/results.md (`make repro-sdca`).
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import Any

from figures import Row, groups, read, table, write
from measure import Page, Part, Setting
from problems import NAMES, limited, tagging

from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.base import LOSSES as SERVED
from turbotag.optim.base import serves
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace

CORPORA = {"conll2000": 200, "ocr": 300}  # how many sentences of each
LOSSES = {"crf": (1.0, 0.0), "softmax-margin": (1.0, 1.0), "beta=3,gamma=1": (3.0, 1.0)}
EXTRA: dict[str, dict[str, Any]] = {
    "sdca exact": {"dual": "exact"},
    "smo away": {"steps": "away"},
    "eg gap": {"sampling": "gap"},
    "sag-nus skip": {"skip-line-search": True},
}
# what has no limit but its number of epochs: online methods, whose bounds are loose
ONLINE = ("dca", "dca-planes", "mira", "perceptron", "sgd")
GAP, SECONDS = 1e-6, 20.0  # CPU seconds of each run, at most
HINGE_GAP, HINGE_C = 5e-4, 0.01  # the gap is relative to the objective


def methods(loss: str, *without: str) -> list[str]:
    """All optimizers that go for the optimum of a loss, and variants of some."""
    beta, gamma = LOSSES.get(loss, (math.inf, 1.0))
    every = [*ALGORITHMS, *EXTRA]
    every.sort(key=lambda name: [*ALGORITHMS].index(name.split()[0]))
    return [
        name
        for name in every
        if name.split()[0] not in ONLINE
        and name not in without
        and serves(ALGORITHMS[name.split()[0]].losses, beta, gamma)
    ]


def measured(setting: Setting, task: Any, loss: str, name: str, C: float, gap: float) -> Row:
    """Run to a certified gap or a time limit."""
    gap, seconds = setting.pick((1.0, 1.0), (gap, SECONDS))
    task.optimizer(name.split()[0], C, **EXTRA.get(name, {}))  # which compiles what it needs
    start = time.process_time()
    wrap = partial(limited, seconds=seconds)
    opt = task.optimizer(name.split()[0], C, wrap=wrap, **EXTRA.get(name, {}))
    result = run(opt, Limits(100_000, gap), Trace())
    row = {
        "sentences": task.problem.n,
        "loss": loss,
        "optimizer": name,
        **result.certificate.as_dict(),
        "epochs": opt.epochs,
        "oracle_calls": opt.oracle_calls,
        "updates": opt.updates,
        "cpu_seconds": time.process_time() - start,
        "stopped": result.stopped,
    }
    print(row, flush=True)
    return row


def smooth(setting: Setting) -> None:
    """Every optimizer of a smooth loss, lambda = 1/n."""
    for corpus, first in CORPORA.items():
        rows: list[Row] = []
        for loss, (beta, gamma) in LOSSES.items():
            task = tagging(setting, corpus, setting.pick(50, first), beta=beta, gamma=gamma)
            for name in methods(loss):
                rows.append(measured(setting, task, loss, name, 1.0, GAP))
                write(setting.out / f"table-{corpus}.csv", rows)


def hinge(setting: Setting) -> None:
    """The optimizers of the hinge loss, lambda = 100/n."""
    for corpus, first in CORPORA.items():
        task, rows = tagging(setting, corpus, setting.pick(50, first), loss="svm"), list[Row]()
        for name in methods("svm", "sdca exact", "eg gap"):
            gap = HINGE_GAP * (rows[0]["primal"] if rows else 1.0)
            rows.append(measured(setting, task, "svm", name, HINGE_C, gap))
            write(setting.out / f"hinge-{corpus}.csv", rows)


def section(out: Path, part: str) -> str:
    paragraphs = []
    for path in sorted(out.glob(f"{part}-*.csv")):
        corpus = path.stem.split("-", 1)[1]
        for loss, rows in groups(read(path), "loss").items():
            best = max(r["dual"] for r in rows)
            first = f"the first {rows[0]['sentences']:,.0f} sequences"
            paragraphs.append(f"**{NAMES[corpus]}, {first}, {loss}**, best dual {best:.7f}")
            body = [
                [
                    r["optimizer"],
                    f"{r['primal']:.7f}",
                    f"{r['primal'] - best:.1e}",
                    f"{r['gap']:.1e}",
                    f"{r['epochs']:.0f}",
                    f"{r['oracle_calls']:,.0f}",
                    f"{r['cpu_seconds']:.1f}",
                ]
                for r in rows
            ]
            head = ["optimizer", "primal", "above best dual", "certified gap", "epochs"]
            paragraphs.append(table([*head, "oracle calls", "CPU s"], body))
    return "\n\n".join(paragraphs)


def declared(out: Path) -> str:
    """All optimizers, from their declarations."""
    rows = []
    for name, cls in ALGORITHMS.items():
        params = ", ".join(f"`--{p.name}` [{p.shown_default}]" for p in cls.params) or "none"
        gap = "" if cls.default_gap is None else f", or a gap of {cls.default_gap:g}"
        where = ", ".join(cls.structures)
        until = f"{cls.default_epochs} epochs{gap}"
        rows.append([f"`{name}`", SERVED[cls.losses], where, params, until, cls.reference])
    head = ["optimizer", "losses", "structures", "parameters", "until", "reference"]
    return "## What there is\n\n" + table(head, rows)


PAGE = Page(
    "The optimizers, compared",
    "optimizers",
    "optimizers",
    "bench/optimizers.py",
    {
        "table": Part("Smooth losses, lambda = 1/n", smooth, lambda out: section(out, "table")),
        "hinge": Part("The hinge loss, lambda = 100/n", hinge, lambda out: section(out, "hinge")),
    },
    "Seconds are CPU seconds on shared cores. P - D is certified.",
    declared,
)
