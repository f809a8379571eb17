"""Corpora as training problems, and optimizers followed on them, epoch by epoch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, Setting, sentences, timed

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
from turbotag.optim.base import DualOptimizer, Optimizer
from turbotag.optim.certificate import Certificate, certify_dual, certify_primal, objective
from turbotag.structures.arc_problem import best_trees

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
    """A problem, and what weights are worth on held-out files."""

    problem: Any
    seed: int

    def optimizer(self, name: str, C: float = 1.0, seed: int | None = None, **params: Any) -> Any:
        """One with lambda = 1 / (C n)."""
        rng = np.random.default_rng(self.seed if seed is None else seed)
        return algorithm(name)(self.problem, 1.0 / (C * self.problem.n), rng, **params)


class Tagging(Task):
    """A chain problem of a training file, or of its bytes."""

    def __init__(self, setting: Setting, options: Options, held_out: dict[str, Any]):
        setup = prepare(options, lambda line: None)
        self.problem, self.seed = setup.problem, setting.seed
        target = None if setup.extractor.attributes else column_name(setup.corpus)
        self.held_out = {
            name: DevScorer(
                setup.tagger(make_header(options, setup, ""), np.zeros(self.problem.shape)),
                read_gold(options, source, target),
            )
            for name, source in held_out.items()
        }

    def tags(self, weights: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
        """(strings, ids of the words) of the best tags."""
        tagger, scorer = self.held_out[name].tagger, self.held_out[name]
        tagger.set_weights(weights.astype(np.float32))
        sentences = scorer.dev.block.sentences
        return tagger.output_labels(
            tagger.viterbi(tagger.score_rows(scorer.rows), sentences), sentences
        )

    def score(self, weights: np.ndarray, name: str) -> Score:
        return self.held_out[name].score(weights)


def tagging(setting: Setting, corpus: str, first: int | None = None) -> Tagging:
    """The problem of one of TAGGING, or of its first sentences."""
    task, template, format, files = TAGGING[corpus]
    paths = {name: str(setting.data / corpus / file) for name, file in files.items()}
    source: Any = paths.pop("train")
    if first:
        source = b"\n\n".join(sentences(Path(source))[:first]) + b"\n"
    return Tagging(setting, Options(task, source, template=template, format=format), paths)


class Parsing(Task):
    """A treebank as a problem of arcs (no labels), scored on held-out files."""

    def __init__(self, setting: Setting, train: Any, held_out: dict[str, Path], **given: Any):
        """train: a file, or its bytes"""
        self.seed = setting.seed
        given = {"decoder": "nonprojective", "labels": False, "seed": self.seed, **given}
        source = train if isinstance(train, bytes) else str(train)
        options = options_for("parse", train=source, **given)
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

    def trees(self, weights: np.ndarray, name: str) -> np.ndarray:
        return best_trees(self.held_out[name][1], weights, self.decoder, True)

    def score(self, weights: np.ndarray, name: str) -> float:
        """UAS without PUNCT."""
        bank = self.held_out[name][0]
        words = words_of(bank.block)
        return score_trees(bank.heads, self.trees(weights, name), bank.sentences, *words).main


def slovene(setting: Setting, decoder: str = "nonprojective") -> Parsing:
    """All arcs, features of gold arcs, crf loss: the problem of Globerson et al. 2007."""
    folder = setting.data / "slovene"
    files = folder / "train.conllu", {"test": folder / "test.conllu"}
    return Parsing(setting, *files, prune=False, min_count=0, loss="crf", decoder=decoder)


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
