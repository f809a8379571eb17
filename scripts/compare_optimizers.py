"""Compare all optimizers on real problems: docs/optimizers.md with its tables, plots and CSV files.

    python scripts/compare_optimizers.py table hinge curves page

Each part writes CSV files; `page` makes the document from whatever CSV files are there. Seconds are
CPU seconds of the optimizer alone: evaluating the objective for a curve is not counted. Needs the
`bench` extra (matplotlib).
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
from corpora import DATA

import turbotag
from turbotag.features import templates
from turbotag.features.extract import Extractor
from turbotag.models.gold import Options, prepare_tags, read_gold, sorted_labels
from turbotag.models.training import index_features
from turbotag.optim.algorithms import algorithm
from turbotag.optim.certificate import objective
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace
from turbotag.structures.chain_problem import ChainProblem

CORPORA = {
    "conll2000": ("chunk", "conll2000/train.txt", "conll2000"),
    "dutch": ("ner", "conll2002-nl/train.txt", "ner"),
    "ocr": ("pos", "ocr/train.crfsuite", "attributes-bias"),
}
LOSSES = {"crf": (1.0, 0.0), "softmax-margin": (1.0, 1.0), "beta=3,gamma=1": (3.0, 1.0)}
SMOOTH = ["sdca", "sdca exact", "lbfgs", "cg", "eg", "eg-batch", "sag", "sag-nus", "sag-nus skip"]
HINGE = ["sdca", "eg", "eg-batch", "egr"]
CURVES = ["sdca", "sdca exact", "sdca uniform", "lbfgs", "eg", "sag-nus skip"]
EXTRA: dict[str, dict[str, Any]] = {
    "sdca exact": {"dual": "exact"},
    "sdca uniform": {"sampling": "uniform"},
    "sag-nus skip": {"skip-line-search": True},
}
SEED = 1


def load(data: Path, name: str, first: int | None = None) -> dict[str, Any]:
    """What ChainProblem takes, of a whole corpus or of its first sentences."""
    task, path, template = CORPORA[name]
    options = Options(task, str(data / path), format="crfsuite" if name == "ocr" else None)
    corpus = read_gold(options, options.train)
    prepare_tags(corpus, options, lambda line: None)
    if first:
        block = corpus.block
        end = int(block.sentences[first])
        for field in ("lines", "line_ends", "first", "width"):
            setattr(block, field, getattr(block, field)[:end])
        block.sentences, corpus.ids = block.sentences[: first + 1], corpus.ids[:end]
        used = np.unique(corpus.ids)
        corpus.strings = [corpus.strings[i] for i in used]
        corpus.ids = np.searchsorted(used, corpus.ids).astype(np.int32)
    labels = sorted_labels(corpus)
    extractor = Extractor(templates.parse(templates.load(template), template))
    features = index_features(corpus.block, extractor)
    return {
        "sentences": corpus.block.sentences,
        "occurrences": features.occurrences,
        "gold": corpus.ids,
        "n_attributes": features.keys.size,
        "n_labels": len(labels),
    }


def optimizer(name: str, problem: ChainProblem, lam: float | None = None) -> Any:
    cls = algorithm(name.split()[0])
    return cls(problem, lam or 1.0 / problem.n, np.random.default_rng(SEED), **EXTRA.get(name, {}))


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def table(
    data: Path, out: Path, corpora: list[str], gap: float, seconds: float, only: list[str]
) -> None:
    """Every optimizer of a smooth loss to the same optimum, lambda = 1/n.

    Rows of optimizers that are not asked for stay as they are in the CSV file.
    """
    for corpus in corpora:
        parts = load(data, corpus, 500 if corpus == "conll2000" else None)
        path = out / f"table-{corpus}.csv"
        found: dict[tuple[str, str], dict[str, Any]] = {
            (r["loss"], r["optimizer"]): dict(r)
            for r in rows_of(path)
            if r["optimizer"] not in only
        }
        order = [(loss, name) for loss in LOSSES for name in SMOOTH]
        for loss, name in order:
            if name in only:
                beta, gamma = LOSSES[loss]
                opt = optimizer(name, ChainProblem(**parts, beta=beta, gamma=gamma))
                row = {"loss": loss, "optimizer": name, **measured(opt, gap, seconds)}
                print(corpus, row, flush=True)
                found[loss, name] = row
                write(path, [found[key] for key in order if key in found])


def hinge(data: Path, out: Path, corpora: list[str], seconds: float) -> None:
    """The optimizers of the hinge loss to one optimum, lambda = 100/n: certified to 5e-4 of it."""
    for corpus in corpora:
        parts = load(data, corpus, 500 if corpus == "conll2000" else None)
        rows: list[dict[str, Any]] = []
        for name in HINGE:
            problem = ChainProblem(**parts, beta=math.inf, gamma=1.0)
            opt = optimizer(name, problem, 100.0 / problem.n)
            level = 5e-4 * (float(rows[0]["primal"]) if rows else 1.0)
            rows.append({"loss": "svm", "optimizer": name, **measured(opt, level, seconds)})
            print(corpus, rows[-1], flush=True)
            write(out / f"hinge-{corpus}.csv", rows)


def measured(opt: Any, gap: float, seconds: float) -> dict[str, Any]:
    """Run to a certified gap or a time limit."""
    start = time.process_time()
    result = run(opt, Limits(100_000, gap, seconds=seconds), Trace())
    return {
        **result.certificate.as_dict(),
        "epochs": opt.epochs,
        "oracle_calls": opt.oracle_calls,
        "updates": opt.updates,
        "cpu_seconds": time.process_time() - start,
        "stopped": result.stopped,
    }


def curves(data: Path, out: Path, corpora: list[str], seconds: float) -> None:
    """Primal suboptimality by oracle calls, updates and seconds (Le Priol et al., figure 4)."""
    for corpus in corpora:
        parts = load(data, corpus)
        problem = ChainProblem(**parts)
        lam = 1.0 / problem.n
        rows = []
        for name in CURVES:
            if name == "sdca exact" and problem.lengths.sum() * problem.K**2 > 5e7:
                continue  # its clique marginals would need more than 400 MB
            opt = optimizer(name, problem)
            spent, lower = 0.0, -math.inf
            while spent < seconds and opt.done is None:
                start = time.process_time()
                opt.epoch()
                spent += time.process_time() - start
                calls = opt.oracle_calls
                primal = opt.primal
                if primal is None:
                    primal = objective(problem, lam, opt.weights())[0]
                if opt.dual is not None:
                    lower = max(lower, opt.dual)
                rows.append(
                    {
                        "optimizer": name,
                        "epoch": opt.epochs,
                        "oracle_calls": calls,
                        "updates": opt.updates,
                        "cpu_seconds": spent,
                        "primal": primal,
                        "best_dual": lower,
                    }
                )
                if opt.dual is not None and primal - opt.dual < 1e-7:
                    break
            print(corpus, rows[-1], flush=True)
            write(out / f"curves-{corpus}.csv", rows)


def plot(out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for path in sorted(out.glob("curves-*.csv")):
        rows = rows_of(path)
        best = max(float(r["best_dual"]) for r in rows)
        figure, axes = plt.subplots(1, 3, figsize=(14, 4), sharey=True)
        for axis, x in zip(axes, ("oracle_calls", "updates", "cpu_seconds"), strict=True):
            for name in CURVES:
                mine = [r for r in rows if r["optimizer"] == name]
                y = [max(float(r["primal"]) - best, 1e-9) for r in mine]
                axis.loglog([float(r[x]) for r in mine], y, label=name)
            axis.set_xlabel(x.replace("_", " "))
            axis.grid(alpha=0.3)
        axes[0].set_ylabel("primal suboptimality (bound)")
        axes[0].legend(fontsize=8)
        figure.suptitle(path.stem.split("-", 1)[1])
        figure.tight_layout()
        figure.savefig(path.with_suffix(".png"), dpi=80)
        plt.close(figure)


def first_below(rows: list[dict[str, str]], best: float, level: float, x: str) -> str:
    for r in rows:
        if float(r["primal"]) - best <= level:
            return f"{float(r[x]):,.0f}" if x != "cpu_seconds" else f"{float(r[x]):.1f}"
    return "-"


def page(out: Path) -> None:
    """docs/optimizers.md from the CSV files and the remarks beside them."""
    plot(out)
    folder = out.name
    lines = [
        "# The optimizers, compared",
        "",
        "Made by `make optimizers` (`scripts/compare_optimizers.py`); the CSV files are in "
        f"[{folder}/]({folder}/). turbotag {turbotag.__version__}, "
        f"Python {platform.python_version()}, seed {SEED}, lambda = 1/n; seconds are CPU seconds "
        "on shared cores. P - D is certified.",
        "",
    ]
    remarks = out / "remarks.md"
    if remarks.exists():
        lines += [remarks.read_text(encoding="utf-8").strip(), ""]
    for path in [*sorted(out.glob("table-*.csv")), *sorted(out.glob("hinge-*.csv"))]:
        corpus, rows = path.stem.split("-", 1)[1], rows_of(path)
        kind = "The hinge loss" if path.stem.startswith("hinge") else "All optimizers"
        lines += [f"## {kind} on {corpus}", ""]
        if path.stem.startswith("hinge"):
            lines += ["lambda = 100/n.", ""]
        if corpus == "conll2000":
            lines += ["The first 500 sentences of CoNLL-2000.", ""]
        for loss in dict.fromkeys(r["loss"] for r in rows):
            mine = [r for r in rows if r["loss"] == loss]
            best = max(float(r["dual"]) for r in mine)
            lines += [
                f"**{loss}**, best dual {best:.7f}",
                "",
                "| optimizer | primal | above best dual | certified gap | epochs | oracle calls "
                "| CPU s |",
                "|---|---|---|---|---|---|---|",
            ]
            for r in mine:
                lines.append(
                    f"| {r['optimizer']} | {float(r['primal']):.7f} | "
                    f"{float(r['primal']) - best:.1e} | {float(r['gap']):.1e} | {r['epochs']} | "
                    f"{int(r['oracle_calls']):,} | {float(r['cpu_seconds']):.1f} |"
                )
            lines.append("")
    for path in sorted(out.glob("curves-*.csv")):
        corpus, rows = path.stem.split("-", 1)[1], rows_of(path)
        best = max(float(r["best_dual"]) for r in rows)
        lines += [
            f"## Suboptimality on {corpus}, crf loss",
            "",
            f"![{corpus}]({folder}/{path.stem}.png)",
            "",
        ]
        levels = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
        for x, title in (("oracle_calls", "oracle calls"), ("cpu_seconds", "CPU seconds")):
            lines += [
                f"| {title} to primal suboptimality | "
                + " | ".join(f"{v:g}" for v in levels)
                + " |",
                "|---" * (len(levels) + 1) + "|",
            ]
            for name in CURVES:
                mine = [r for r in rows if r["optimizer"] == name]
                if mine:
                    cells = [first_below(mine, best, v, x) for v in levels]
                    lines.append(f"| {name} | " + " | ".join(cells) + " |")
            lines.append("")
    (out.parent / "optimizers.md").write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", choices=["table", "hinge", "curves", "page"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path("docs/optimizers"))
    parser.add_argument("--corpora", nargs="*", default=None)
    parser.add_argument("--only", nargs="*", choices=SMOOTH, help="table: optimizers to run again")
    parser.add_argument("--gap", type=float, default=1e-6)
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of each run")
    args = parser.parse_args()
    for part in args.parts:
        if part == "table":
            corpora = args.corpora or ["conll2000", "ocr"]
            table(args.data, args.out, corpora, args.gap, args.seconds, args.only or SMOOTH)
        elif part == "hinge":
            hinge(args.data, args.out, args.corpora or ["conll2000", "ocr"], args.seconds)
        elif part == "curves":
            curves(args.data, args.out, args.corpora or list(CORPORA), args.seconds)
        else:
            page(args.out)


if __name__ == "__main__":
    main()
