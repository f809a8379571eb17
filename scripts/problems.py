"""Corpora as training problems, and optimizers followed on them, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, Setting, sentences, timed

from turbotag.models import parser_training, training
from turbotag.models.gold import Options, options_for
from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import DualOptimizer, Optimizer
from turbotag.optim.certificate import Certificate, certify_dual, certify_primal, objective

# task, template, format, files
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


class Task:
    """A problem, and scorers of weights on held-out files (training.DevScorer, or TreeScorer)."""

    def __init__(self, setting: Setting, task: Any, held_out: dict[str, Any]):
        self.problem, self.seed = task.problem, setting.seed
        self.held_out = {name: task.scorer(source) for name, source in held_out.items()}

    def optimizer(self, name: str, C: float = 1.0, seed: int | None = None, **params: Any) -> Any:
        """One with lambda = 1 / (C n)."""
        rng = np.random.default_rng(self.seed if seed is None else seed)
        return algorithm(name)(self.problem, 1.0 / (C * self.problem.n), rng, **params)

    def score(self, weights: np.ndarray, name: str) -> float:
        """F1 of spans, accuracy of other tags, UAS without PUNCT: in percent."""
        return 100 * self.held_out[name].main(weights)


def tagging(setting: Setting, corpus: str, first: int | None = None) -> Task:
    """The problem of one of TAGGING, or of its first sentences."""
    task, template, format, files = TAGGING[corpus]
    paths = {name: str(setting.data / corpus / file) for name, file in files.items()}
    source: Any = paths.pop("train")
    if first:
        source = b"\n\n".join(sentences(Path(source))[:first]) + b"\n"
    options = Options(task, source, template=template, format=format)
    return Task(setting, training.problem(options), paths)


def parsing(setting: Setting, train: Any, held_out: dict[str, Path], **given: Any) -> Task:
    """Arcs of a treebank, without labels; train: a file, or its bytes."""
    source = train if isinstance(train, bytes) else str(train)
    given = {"decoder": "nonprojective", "labels": False, "seed": setting.seed, **given}
    task = parser_training.problem(options_for("parse", train=source, **given))
    return Task(setting, task, {name: str(path) for name, path in held_out.items()})


def slovene(setting: Setting, decoder: str = "nonprojective") -> Task:
    """All arcs, features of gold arcs, crf loss: the problem of Globerson et al. 2007."""
    folder = setting.data / "slovene"
    files = folder / "train.conllu", {"test": folder / "test.conllu"}
    return parsing(setting, *files, prune=False, min_count=0, loss="crf", decoder=decoder)


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
        spent += timed(opt.epoch)
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


def certified(opt: Optimizer) -> Certificate:
    """A certificate by a full pass that leaves the optimizer as it is: SDCA keeps its stale gaps,
    which its own certificates refresh."""
    if isinstance(opt, DualOptimizer):
        return certify_dual(opt.problem, opt.lam, opt.W, opt.point)[0]
    return certify_primal(opt.problem, opt.lam, opt.weights())
