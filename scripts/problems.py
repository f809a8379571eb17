"""Corpora as training problems, and optimizers followed on them, epoch by epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from figures import Row
from measure import Setting, joined, sentences, timed

from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import DualOptimizer, Optimizer
from turbotag.optim.certificate import Certificate, certify_dual, objective
from turbotag.training import parser as parser_training
from turbotag.training import tagger as training
from turbotag.training.options import options_for

Methods = dict[str, tuple[str, dict[str, Any]]]  # by label: optimizer, parameters

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
        self._task, self._files = task, held_out
        self._scorers: dict[str, Any] = {}
        self._compiled: set[Any] = set()

    def optimizer(
        self,
        name: str,
        C: float = 1.0,
        seed: int | None = None,
        wrap: Callable[[type[Optimizer]], type[Optimizer]] | None = None,
        **params: Any,
    ) -> Any:
        """One with lambda = 1 / (C n), whose kernels are compiled before any clock starts; wrap:
        what is made of its class."""
        lam = 1.0 / (C * self.problem.n)
        seed = self.seed if seed is None else seed
        key = name, tuple(sorted(params.items()))
        if key not in self._compiled:
            self._compiled.add(key)
            # acceleration has kernels of its own, begins only where plain steps are slow, and
            # certifies an inner problem after some epochs
            begun = [{"kappa": 1.0}] if name == "sdca-accelerated" else []
            for more in ({}, *begun):
                given = params | more
                other = algorithm(name)(self.problem, lam, np.random.default_rng(seed), **given)
                for _ in range(10 if more else 1):
                    other.epoch()
                other.finish()
                other.certify()
                other.close()
        cls = wrap(algorithm(name)) if wrap else algorithm(name)
        return cls(self.problem, lam, np.random.default_rng(seed), **params)

    def score(self, weights: np.ndarray, name: str) -> float:
        """F1 of spans, accuracy of other tags, UAS without PUNCT: in percent."""
        return 100 * self.scorer(name).main(weights)

    def scorer(self, name: str) -> Any:
        """Of a held-out file, which is read when it is first asked for."""
        if name not in self._scorers:
            self._scorers[name] = self._task.scorer(self._files[name])
        return self._scorers[name]


def tagging(
    setting: Setting,
    corpus: str,
    first: int | None = None,
    edit: Callable[[list[bytes]], list[bytes]] | None = None,
    **given: Any,
) -> Task:
    """The problem of one of TAGGING, or of its first sentences; edit: changes them."""
    task, template, format, files = TAGGING[corpus]
    paths = {name: str(setting.data / corpus / file) for name, file in files.items()}
    source: Any = paths.pop("train")
    if first or edit:
        some = sentences(Path(source))[:first]
        source = b"\n\n".join(edit(some) if edit else some) + b"\n"
    options = options_for(task, source, template=template, format=format, **given)
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


def trees(setting: Setting, decoder: str, first: int | None, loss: str) -> Task:
    """The same of the first sentences, without held-out data."""
    text = sentences(setting.data / "slovene" / "train.conllu")[:first]
    return parsing(setting, joined(text), {}, prune=False, min_count=0, loss=loss, decoder=decoder)


# ---- Runs ----------------------------------------------------------------------------------------


def follow(
    opt: Optimizer,
    measure: Callable[[Any], Row],
    epochs: int,
    passes: float | None = None,
    seconds: float | None = None,
    at: Callable[[int], bool] = lambda epoch: True,
) -> Iterator[Row]:
    """A row an epoch: counters, CPU seconds of the optimizer alone, and what `measure` finds.

    At most so many epochs, oracle calls of so many passes over the data, and CPU seconds; `at` says
    in which epochs to measure.
    """
    n, spent = opt.problem.n, 0.0
    while opt.done is None and opt.epochs < epochs:
        if passes is not None and opt.oracle_calls >= passes * n:
            break
        if seconds is not None and spent >= seconds:
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


def race(
    task: Task,
    methods: Methods,
    measure: Callable[[Any], Row],
    epochs: int,
    C: float = 1.0,
    enough: Callable[[Row], bool] = lambda row: False,
    **limits: Any,
) -> Iterator[Row]:
    """Follow optimizers one after the other, each until a row is enough."""
    for label, (name, params) in methods.items():
        opt, row = task.optimizer(name, C, **params), Row()
        for found in follow(opt, measure, epochs, **limits):
            row = {"optimizer": label, **found}
            yield row
            if enough(row):
                break
        opt.close()
        print(row, flush=True)


def descents(
    task: Task, methods: Methods, close: float, C: float = 1.0, **limits: Any
) -> Iterator[Row]:
    """Race to the optimum: primal values, and the best dual so far of each method, until they are
    so close, relative to the primal."""
    best: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

    def measure(opt: Any) -> Row:
        dual = -math.inf if opt.dual is None else opt.dual
        best[opt] = max(dual, best.get(opt, -math.inf))
        return {"primal": primal_of(opt), "best_dual": best[opt]}

    def enough(row: Row) -> bool:
        return row["primal"] - row["best_dual"] < close * row["primal"]

    yield from race(task, methods, measure, 10_000, C, enough, **limits)


def limited(cls: type[Optimizer], seconds: float) -> type[Optimizer]:
    """An optimizer that is done after so many CPU seconds: what it reaches does not depend on what
    else the machine does, as it would with a limit of the clock."""
    begin = time.process_time()

    def epoch(self: Any) -> None:
        cls.epoch(self)
        if time.process_time() - begin >= seconds:
            self.done = f"{seconds:g} CPU seconds"

    return type(cls.__name__, (cls,), {"epoch": epoch})


def primal_of(opt: Any) -> float:
    if opt.primal is not None:
        return float(opt.primal)
    return objective(opt.problem, opt.lam, opt.weights())[0]


def certified(opt: Optimizer) -> Certificate:
    """A certificate by a full pass that leaves the optimizer as it is: SDCA keeps its stale gaps,
    which its own certificates refresh."""
    if isinstance(opt, DualOptimizer):
        return certify_dual(opt.problem, opt.lam, opt.W, opt.point)[0]
    return opt.certify()
