"""What the experiments share: corpora as training problems, followed runs, CSV files, plots."""

from __future__ import annotations

import csv
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from corpora import DATA, missing

from turbotag.corpus.reader import read
from turbotag.metrics.attachment import score_trees
from turbotag.models.gold import Options, Score, column_name, options_for, read_gold
from turbotag.models.parser_training import (
    ParserTraining,
    arc_rows,
    candidates,
    read_treebank,
    words_of,
)
from turbotag.models.training import DevScorer, make_header, prepare
from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import objective
from turbotag.structures.arc_problem import best_trees

Row = dict[str, Any]
SHOWS, SHOWS_NOT, UNKNOWN = "shows", "does not show", "cannot be told here"


@dataclass(frozen=True)
class Claim:
    """What a paper says, whether it shows in our figures, and why we say so."""

    source: str
    text: str
    verdict: str
    why: str


@dataclass
class Setting:
    """Where the corpora are, where files go, and how much is run: tiny is for tests."""

    data: Path
    out: Path
    size: str = "default"
    seed: int = 1
    skipped: list[str] = field(default_factory=list)

    def pick(self, tiny: Any, default: Any, full: Any) -> Any:
        return {"tiny": tiny, "default": default, "full": full}[self.size]

    def has(self, corpus: str) -> bool:
        """Whether a corpus is there; if not, a sentence says what it is."""
        sentence = missing(self.data, corpus, DATA)
        if sentence and sentence not in self.skipped:
            self.skipped.append(sentence)
            print(missing(self.data, corpus), flush=True)
        return not sentence

    def write(self, name: str, rows: list[Row]) -> None:
        """OUT/NAME.csv; every column that depends on the clock is called ..._seconds."""
        if not rows:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        with open(self.out / f"{name}.csv", "w", newline="", encoding="utf-8") as f:
            writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _text(v) for k, v in row.items()} for row in rows)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else str(value)


def rows_of(out: Path, name: str) -> list[Row]:
    """The rows of OUT/NAME.csv, numbers as numbers; none if it is not there."""
    path = out / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as f:
        return [{k: _value(v) for k, v in row.items()} for row in csv.DictReader(f)]


def _value(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def groups(rows: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some columns, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[k] for k in keys), []).append(row)
    return found


def table(header: list[str], rows: list[list[Any]]) -> str:
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


# ---- Corpora as problems -------------------------------------------------------------------------

TAGGING: dict[str, tuple[str, str, str | None, dict[str, str]]] = {
    "conll2000": ("chunk", "conll2000", None, {"train": "train.txt", "test": "test.txt"}),
    "conll2002-nl": (
        "ner", "ner", None, {"train": "train.txt", "dev": "testa.txt", "test": "testb.txt"},
    ),
    "conll2003": (
        "ner", "ner", None, {"train": "train.txt", "dev": "testa.txt", "test": "testb.txt"},
    ),
    "ocr": (
        "pos", "attributes-bias", "crfsuite",
        {"train": "train.crfsuite", "test": "test.crfsuite"},
    ),
    "ewt": (
        "pos", "pos", None,
        {"train": "train.conllu", "dev": "dev.conllu", "test": "test.conllu"},
    ),
}  # fmt: skip
NAMES = {
    "conll2000": "CoNLL-2000 chunking",
    "conll2002-nl": "CoNLL-2002 Dutch NER",
    "conll2003": "CoNLL-2003 English NER",
    "ocr": "OCR",
    "ewt": "UD English EWT",
    "slovene": "UD Slovenian SSJ",
    "gothic": "UD Gothic PROIEL",
}


def first_sentences(path: Path, n: int) -> bytes:
    sentences = re.split(rb"\n[ \t\r]*\n", path.read_bytes().strip())
    return b"\n\n".join(sentences[:n]) + b"\n"


class Tagging:
    """A tagging corpus as a chain problem, scored on its held-out files."""

    def __init__(self, setting: Setting, corpus: str, first: int | None = None):
        task, template, format, files = TAGGING[corpus]
        folder = setting.data / corpus
        source = first_sentences(folder / files["train"], first) if first else None
        options = Options(
            task, source or str(folder / files["train"]), template=template, format=format
        )
        setup = prepare(options, lambda line: None)
        self.problem, self.seed = setup.problem, setting.seed
        target = None if setup.extractor.attributes else column_name(setup.corpus)
        self.held_out = {
            name: DevScorer(
                setup.tagger(make_header(options, setup, ""), np.zeros(self.problem.shape)),
                read_gold(options, str(folder / file), target),
            )
            for name, file in files.items()
            if name != "train"
        }

    def optimizer(self, name: str, C: float = 1.0, seed: int | None = None, **params: Any) -> Any:
        return optimizer(self.problem, name, C, self.seed if seed is None else seed, **params)

    def score(self, weights: np.ndarray, name: str) -> Score:
        return self.held_out[name].score(weights)


class Parsing:
    """A treebank as a problem of arcs (no labels), scored on held-out files."""

    def __init__(self, setting: Setting, train: Path, held_out: dict[str, Path], **given: Any):
        self.seed = setting.seed
        given = {"decoder": "nonprojective", "labels": False, "seed": self.seed, **given}
        options = options_for("parse", train=str(train), **given)
        with tempfile.TemporaryDirectory() as scratch:
            training = ParserTraining(options, f"{scratch}/model", lambda line: None)
            if options.prune:
                training.prune()
            task = training.arc_problem()
        self.problem, self.decoder = task.problem, options.decoder
        parser, scanner = training.parser(), training.scanner
        self.held_out = {}
        for name, path in held_out.items():
            bank = read_treebank(read(str(path)), scanner, False)
            arcs = candidates(bank, parser, scanner, False)
            self.held_out[name] = bank, arc_rows(bank, scanner.keys, arcs, task.table)

    def optimizer(self, name: str, C: float, seed: int | None = None, **params: Any) -> Any:
        return optimizer(self.problem, name, C, self.seed if seed is None else seed, **params)

    def trees(self, weights: np.ndarray, name: str) -> np.ndarray:
        return best_trees(self.held_out[name][1], weights, self.decoder, True)

    def score(self, weights: np.ndarray, name: str) -> float:
        """UAS without PUNCT."""
        bank = self.held_out[name][0]
        words = words_of(bank.block)
        return score_trees(bank.heads, self.trees(weights, name), bank.sentences, *words).main


def optimizer(problem: Any, name: str, C: float, seed: int, **params: Any) -> Any:
    lam = 1.0 / (C * problem.n)
    return algorithm(name)(problem, lam, np.random.default_rng(seed), **params)


# ---- Runs ----------------------------------------------------------------------------------------


def follow(
    opt: Optimizer,
    measure: Callable[[Any], Row],
    epochs: int,
    passes: float | None = None,
    at: Callable[[int], bool] = lambda epoch: True,
) -> Iterator[Row]:
    """A row an epoch: counters, CPU seconds of the optimizer alone, and what `measure` finds.

    At most so many epochs, and oracle calls of so many passes over the data; `at` says in which
    epochs to measure.
    """
    n, spent = opt.problem.n, 0.0
    while opt.done is None and opt.epochs < epochs:
        if passes is not None and opt.oracle_calls >= passes * n:
            break
        start = time.process_time()
        opt.epoch()
        spent += time.process_time() - start
        if not at(opt.epochs):
            continue
        calls = opt.oracle_calls
        found = measure(opt)
        opt.oracle_calls = calls  # measuring is not training
        yield {
            "epoch": opt.epochs,
            "passes": calls / n,
            "updates": opt.updates,
            "cpu_seconds": round(spent, 3),
            **found,
        }


def primal_of(opt: Any) -> float:
    if opt.primal is not None:
        return float(opt.primal)
    return objective(opt.problem, opt.lam, opt.weights())[0]


def certified(opt: Any) -> Any:
    """A certificate by a full pass, leaving SDCA's stale gaps and samples as they are."""
    gaps, tree = getattr(opt, "gaps", None), getattr(getattr(opt, "sampler", None), "tree", None)
    kept = [None if x is None else x.copy() for x in (gaps, tree)]
    dual = opt.dual
    found = opt.certify()
    if gaps is not None and tree is not None:
        gaps[:], tree[:] = kept
    opt.dual = dual
    return found


def first_at(rows: list[Row], column: str, level: float, x: str, below: bool) -> float | None:
    """x of the first row whose column is at or beyond a level."""
    for r in rows:
        if r[column] is not None and (r[column] <= level if below else r[column] >= level):
            return float(r[x])
    return None


def exponent(x: list[float], y: list[float]) -> float:
    """Least-squares slope of log y in log x over the last decade of x."""
    lx, ly = np.log(x), np.log(np.maximum(y, 1e-300))
    late = lx >= lx[-1] - np.log(10.0)
    return float(np.polyfit(lx[late], ly[late], 1)[0])


# ---- Plots ---------------------------------------------------------------------------------------


def base(name: str) -> str:
    return name.removesuffix(" (dashed)")


def draw(path: Path, panels: list[tuple[str, str, str, dict[str, Any]]], **options: Any) -> None:
    """A PNG of panels (title, x label, y label, {name: (x, y)}).

    Options: columns, logx, logy, below_best (the axis ends so far below the largest y). The same
    name has the same colour in all panels; 'NAME (dashed)' is dashed, in the colour of NAME.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = options.get("columns", min(3, len(panels)))
    n_rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        n_rows, columns, figsize=(4.8 * columns, 3.8 * n_rows), squeeze=False
    )
    names = list(dict.fromkeys(base(name) for *_, lines in panels for name in lines))
    shared = len({tuple(map(base, lines)) for *_, lines in panels}) == 1
    colours = plt.get_cmap("tab10" if len(names) <= 10 else "tab20")
    for axis, (title, x_label, y_label, lines) in zip(axes.flat, panels, strict=False):
        for name, (x, y) in lines.items():
            dashed = name != base(name)
            axis.plot(
                x, y, "--" if dashed else "-", color=colours(names.index(base(name))), lw=1.4,
                label=None if dashed and base(name) in lines else base(name),
                marker="." if len(x) <= 25 else None,
            )  # fmt: skip
        if "below_best" in options:
            top = max(max(y) for _, y in lines.values())
            axis.set_ylim(top - options["below_best"], top + 0.05 * options["below_best"])
        if options.get("logx"):
            axis.set_xscale("log")
        if options.get("logy"):
            axis.set_yscale("log")
        axis.set(title=title, xlabel=x_label, ylabel=y_label)
        axis.grid(alpha=0.3)
        if not shared:
            axis.legend(fontsize=8)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.tight_layout()
    if shared:  # one legend for all panels, under them
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), ncol=6)
    figure.savefig(path, dpi=80, bbox_inches="tight")
    plt.close(figure)
