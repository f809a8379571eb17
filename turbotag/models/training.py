"""Training a tagger from files: read, extract, optimise, certify, save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turbotag import losses
from turbotag.corpus import schemes
from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block, Source
from turbotag.errors import DataError, UsageError
from turbotag.features import templates
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.interrupts import pending
from turbotag.models import store
from turbotag.models.calibrating import calibrate_tagger, from_second_model
from turbotag.models.checkpoints import Progress, fingerprint
from turbotag.models.fitting import check, check_memory, fit, held_out, provenance
from turbotag.models.gold import (
    Corpus,
    Echo,
    Options,
    Score,
    column_name,
    prepare_tags,
    read_gold,
    score_tags,
    sorted_labels,
)
from turbotag.models.tagger import Tagger
from turbotag.optim.run import Dev, Result
from turbotag.optim.trace import Trace
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem


@dataclass
class Features:
    """Training features: the keys of the rows, occurrences sorted for the optimizer, names."""

    keys: np.ndarray
    occurrences: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    origins: np.ndarray


def index_features(block: Block, extractor: Extractor) -> Features:
    """Give every feature of the training data a row."""
    found = extractor.occurrences(block)
    table = KeyTable(1 << 16)
    rows, first = table.insert(found.keys)
    origins = extractor.origins(found.token[first], found.which[first], found.ids, block.sentences)
    ends = np.searchsorted(found.token, block.sentences)
    start_of = np.repeat(block.sentences[:-1], np.diff(ends))
    positions = (found.token - start_of).astype(np.int32)
    values = found.values
    sparse.sort_occurrences(ends, rows, positions, values)
    return Features(table.keys(), (ends, rows, positions, values), origins)


def warm_start(
    path: str, labels: list[str], keys: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Weights of another model for the features and labels that both have, 0 elsewhere."""
    other = Tagger.load(path)
    W = np.zeros(shape)
    shared = [x for x in labels if x in other.labels]
    mine = np.array([labels.index(x) for x in shared], np.int64)
    theirs = np.array([other.labels.index(x) for x in shared], np.int64)
    rows = other.lookup(keys)
    known = np.flatnonzero(rows >= 0)
    W[np.ix_(known, mine)] = other.weights[np.ix_(rows[known], theirs)]
    W[np.ix_(keys.size + mine, mine)] = other.trans[np.ix_(theirs, theirs)]
    if not shared:
        raise DataError("shares no label with the training data", path)
    return W


@dataclass
class Setup:
    """All that training needs of the files: tags, features and the problem they make."""

    corpus: Corpus
    scheme: str | None
    file_scheme: str | None
    template: str
    extractor: Extractor
    features: Features
    problem: ChainProblem

    @property
    def labels(self) -> list[str]:
        return self.corpus.strings

    def tagger(self, header: dict[str, Any], weights: np.ndarray) -> Tagger:
        return Tagger(
            header,
            self.features.keys,
            weights.astype(np.float32),
            self.extractor.gazetteers,
            self.features.origins,
            self.extractor.vocabulary(),
        )


def prepare(options: Options, echo: Echo) -> Setup:
    """Read the training file, its templates and gazetteers; extract features."""
    loss = losses.loss(options.loss, options.beta, options.gamma)
    corpus = read_gold(options, options.train)
    block, target = corpus.block, column_name(corpus)
    echo(
        f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
        f"{block.n_tokens} tokens, tags in column {target!r}"
    )
    scheme, file_scheme = prepare_tags(corpus, options, echo)
    labels = sorted_labels(corpus)

    attributes = block.format.name == "crfsuite"
    template = options.template or ("attributes" if attributes else options.task)
    text = templates.load(template)
    gazetteers = [Gazetteer.read(n, p) for n, p in sorted(options.gazetteers.items())]
    extractor = Extractor(templates.parse(text, template), gazetteers)
    if any(block.format.index(c) == corpus.target for c in extractor.columns):
        raise UsageError(f"template {template!r} reads column {target!r}, which is to be predicted")
    features = index_features(block, extractor)
    echo(
        f"{features.keys.size} features, {len(labels)} labels, {len(extractor.templates)} templates"
    )
    K, lengths = len(labels), np.diff(block.sentences)
    shared = sum(K**o for o in range(2, options.order + 2))  # numbers of transitions
    check_memory((features.keys.size + shared // K, K), lengths * K + shared, options)
    mask = schemes.mask(labels, scheme) if scheme and options.constraints == "train" else None
    problem = ChainProblem(
        block.sentences,
        features.occurrences,
        corpus.ids,
        features.keys.size,
        len(labels),
        loss.beta,
        loss.gamma,
        mask,
        options.order,
    )
    return Setup(corpus, scheme, file_scheme, text, extractor, features, problem)


def make_header(options: Options, setup: Setup, command: str) -> dict[str, Any]:
    """The model's header but for what training itself finds out."""
    block = setup.corpus.block
    return {
        "task": options.task,
        "labels": setup.labels,
        "scheme": setup.scheme,
        "file_scheme": setup.file_scheme,
        "constraints": options.constraints,
        "order": options.order,
        "format": block.format.name,
        "columns": list(block.format.columns),
        "target": column_name(setup.corpus),
        "templates": setup.template,
        "gazetteers": [g.name for g in setup.extractor.gazetteers],
        **provenance(options, block, command),
    }


def train(
    options: Options,
    output: str,
    trace: Trace | None = None,
    echo: Echo = lambda line: None,
    command: str = "",
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
) -> tuple[Tagger, Result]:
    """Train a tagger and write it to `output`.

    A checkpoint stands at output + '.checkpoint' while training runs and is removed at its end.
    """
    options = checked(options)
    with store.held(output):
        setup = prepare(options, echo)
        problem = setup.problem
        mark = fingerprint(options, setup.corpus.block)
        progress = Progress(output, mark, checkpoint_seconds, resume, echo)
        scorer = None
        if options.dev:
            scorer = DevScorer(options, setup, options.dev)
            echo(held_out(scorer.dev.block))
        start = None
        if options.init:
            start = warm_start(options.init, setup.labels, setup.features.keys, problem.shape)
        fitted = fit(
            problem,
            options,
            progress.stage(),
            trace or Trace(),
            Dev(scorer.main, scorer.measure, options.keep) if scorer else None,
            start,
        )
        header = make_header(options, setup, command) | fitted.header
        weights = fitted.result.weights
        if scorer:
            header["scores"] = {"dev": scorer.score(weights).as_dict()}
        model = setup.tagger(header, weights)
        if options.compact:
            model = model.compacted(options.drop)
            if scorer:
                model.header["scores"] = {"dev": score_model(model, scorer.dev).as_dict()}
        model.save(output)
        if options.calibration:
            pending.settle(f"{output} is written, but not calibrated")
            dev_set = scorer.dev if scorer else None
            found = _calibration(model, options, setup.corpus.block, dev_set, echo)
            if found:
                model.set_calibration(found)
                model.save(output)
        progress.remove()
        pending.settle(f"{output} is written")
        return model, fitted.result


def checked(options: Options) -> Options:
    """Options that are legal; where templates take attributes, they say that the file has some."""
    check(options)
    if options.template and reads_attributes(options.template):
        return replace(options, format="crfsuite")
    return options


def _calibration(
    model: Tagger, options: Options, block: Block, dev: Corpus | None, echo: Echo
) -> dict[str, Any] | None:
    """Fitted on the dev set, or on training data that another model has not seen."""
    if dev:
        return calibrate_tagger(model, dev, Path(dev.block.path).name, echo)
    return from_second_model(options, block, block, train, echo)


def reads_attributes(template: str) -> bool:
    """Whether templates take the attributes of a CRFsuite file."""
    return () in templates.parse(templates.load(template), template)


@dataclass
class Task:
    """The problem of a tagger, for trying optimizers on it: the keys of its features, a row of
    weights each, and what scores weights on a gold file."""

    problem: ChainProblem
    keys: np.ndarray
    scorer: Callable[[Source], DevScorer]


def problem(options: Options, echo: Echo = lambda line: None) -> Task:
    """The problem that `train` solves with these options; nothing is written."""
    options = checked(options)
    setup = prepare(options, echo)
    return Task(setup.problem, setup.features.keys, partial(DevScorer, options, setup))


class DevScorer:
    """Scores weights on a gold file; its features are looked up once."""

    def __init__(self, options: Options, setup: Setup, source: Source):
        target = None if setup.extractor.attributes else column_name(setup.corpus)
        self.dev = read_gold(options, source, target)
        header = make_header(options, setup, "")
        self.tagger = setup.tagger(header, np.zeros(setup.problem.shape))
        self.rows = self.tagger.rows(self.dev.block, self.tagger.extractor)

    def tags(self, weights: np.ndarray) -> tuple[list[str], np.ndarray]:
        """(strings, the words' ids among them) of the best tags."""
        self.tagger.set_weights(weights.astype(np.float32))
        sentences = self.dev.block.sentences
        tags = self.tagger.viterbi(self.tagger.score_rows(self.rows), sentences)
        return self.tagger.output_labels(tags, sentences)

    def score(self, weights: np.ndarray) -> Score:
        found = self.tags(weights)
        return score_tags(self.dev, *found, self.tagger.header["scheme"] is not None)

    @property
    def measure(self) -> str:
        """What `main` is, in short."""
        spans = self.tagger.header["scheme"] and schemes.parse(self.dev.strings)
        return "F1" if spans else "acc"

    def main(self, weights: np.ndarray) -> float:
        return self.score(weights).main


def score_model(tagger: Tagger, gold: Corpus) -> Score:
    """A tagger against the tags of a gold file."""
    sentences = gold.block.sentences
    strings, ids = tagger.output_labels(tagger.tag(gold.block), sentences)
    return score_tags(gold, strings, ids, tagger.header["scheme"] is not None)
