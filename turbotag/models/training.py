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
from turbotag.features import compact, templates
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.models import store
from turbotag.models.calibrating import calibrate_tagger, from_second_model
from turbotag.models.checkpoints import Progress, fingerprint
from turbotag.models.continued import Continued, continue_tagger, origin
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


def index_features(block: Block, extractor: Extractor, folded: bool = False) -> Features:
    """Give every feature of the training data a row; folded: those that a compact model cannot
    tell apart share one."""
    found = extractor.occurrences(block)
    table = KeyTable(1 << 16)
    keys = np.maximum(compact.fold(found.keys), np.uint64(1)) if folded else found.keys
    rows, first = table.insert(keys)
    origins = extractor.origins(found.token[first], found.which[first], found.ids, block.sentences)
    ends = np.searchsorted(found.token, block.sentences)
    start_of = np.repeat(block.sentences[:-1], np.diff(ends))
    positions = (found.token - start_of).astype(np.int32)
    values = found.values
    sparse.sort_occurrences(ends, rows, positions, values)
    return Features(table.keys(), (ends, rows, positions, values), origins)


@dataclass
class Setup:
    """All that training needs of the files: tags, features and the problem they make.

    names: (origins, vocabulary) of the model's features, none if it is compact; continued: features
    and weights of a model to go on from, with those of the data.
    """

    corpus: Corpus
    scheme: str | None
    file_scheme: str | None
    template: str
    extractor: Extractor
    features: Features
    problem: ChainProblem
    names: tuple[np.ndarray, dict[str, list[str]]] | None
    continued: Continued | None = None

    @property
    def labels(self) -> list[str]:
        return self.corpus.strings

    def continuing(self, old: Tagger, echo: Echo) -> Setup:
        """The same with weights that are changes of another model's."""
        kept = continue_tagger(old, self.labels, self.problem.order, self.features.keys)
        kept.begin(self.problem)
        new = len(self.labels) - len(old.labels)
        echo(f"going on from a model of {old.header['data']['name']}: {kept} and {new} labels")
        names = None
        if old.origins is not None:
            alone = old.origins[old.lookup(kept.keys[kept.n :])]
            origins, vocabulary = self.extractor.adopt(old.extractor, alone, old.vocabulary)
            names = np.concatenate([self.features.origins, origins]), vocabulary
        return replace(self, names=names, continued=kept)

    def whole(self, weights: np.ndarray) -> np.ndarray:
        """The model's weights from those of the problem."""
        return weights if self.continued is None else self.continued.whole(weights)

    def tagger(self, header: dict[str, Any], weights: np.ndarray) -> Tagger:
        """weights: those of `whole`."""
        keys = self.features.keys if self.continued is None else self.continued.keys
        given = header, keys, weights.astype(np.float32), self.extractor.gazetteers
        return Tagger(*given, *(self.names or ()))


def prepare(options: Options, echo: Echo, old: Tagger | None = None) -> Setup:
    """Read the training file, its templates and gazetteers; extract features.

    old: a model to go on from; options are those that `going_on` gives.
    """
    loss = losses.loss(options.loss, options.beta, options.gamma)
    corpus = read_gold(options, options.train)
    block, target = corpus.block, column_name(corpus)
    echo(
        f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
        f"{block.n_tokens} tokens, tags in column {target!r}"
    )
    scheme, file_scheme = prepare_tags(corpus, options, echo)
    labels = sorted_labels(corpus, old.labels if old else ())
    text, extractor = prepare_features(options, block, old)
    if any(block.format.index(c) == corpus.target for c in extractor.columns):
        which = f"template {options.template!r}" if options.template else "a template"
        raise UsageError(f"{which} reads column {target!r}, which is to be predicted")
    folded = bool(old and old.header.get("compact"))
    features = index_features(block, extractor, folded)
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
    names = features.origins, extractor.vocabulary()
    setup = Setup(corpus, scheme, file_scheme, text, extractor, features, problem, names)
    return setup if old is None else setup.continuing(old, echo)


def prepare_features(options: Options, block: Block, old: Tagger | None) -> tuple[str, Extractor]:
    """Templates, as text, and an extractor with them and with the gazetteers. A model to go on from
    keeps its own; those that are asked for are added."""
    attributes = block.format.name == "crfsuite"
    name = options.template or ("attributes" if attributes else options.task)
    text = templates.load(name)
    gazetteers = {n: Gazetteer.read(n, p) for n, p in options.gazetteers.items()}
    if old:
        known = templates.parse(old.header["templates"], "templates")
        asked = templates.parse(text, name) if options.template else []
        added = [templates.text(t) or templates.ATTRIBUTES_LINE for t in asked if t not in known]
        text = "\n".join([old.header["templates"].rstrip("\n"), *added, ""])
        gazetteers = {g.name: g for g in old.gazetteers} | gazetteers
    return text, Extractor(templates.parse(text, name), [g for _, g in sorted(gazetteers.items())])


def going_on(options: Options) -> tuple[Options, Tagger | None]:
    """The model of options.init, and the options that it leaves no choice about."""
    if options.init is None:
        return options, None
    old = Tagger.load(options.init, names=True)
    task, scheme = old.header["task"], old.header["scheme"]
    if task != options.task:
        raise DataError(f"is a model for --task {task}, not {options.task}", options.init)
    if scheme and options.scheme not in (None, scheme):
        raise UsageError(f"--init has tags in {scheme.upper()}: leave out --scheme")
    return replace(
        options,
        format="crfsuite" if old.extractor.attributes else options.format,
        scheme=scheme,
        order=max(options.order, old.order),
        compact=options.compact or bool(old.header.get("compact")),
    ), old


def make_header(options: Options, setup: Setup, command: str) -> dict[str, Any]:
    """The model's header but for what training itself finds out."""
    block = setup.corpus.block
    return {
        **({} if setup.names else {"compact": True}),
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
    asked = checked(options)
    options, old = going_on(asked)
    with store.held(output):
        setup = prepare(options, echo, old)
        problem = setup.problem
        mark = fingerprint(asked, setup.corpus.block)
        progress = Progress(output, mark, checkpoint_seconds, resume, echo)
        scorer = dev = None
        if options.dev:
            scorer = DevScorer(options, setup, options.dev)
            dev = Dev(scorer.main, scorer.measure, options.keep)
            echo(held_out(scorer.dev.block))
        fitted = fit(problem, options, progress.stage(), trace or Trace(), dev)
        header = make_header(options, setup, command) | fitted.header
        if old and options.init:
            header["init"] = origin(options.init, old.header)
        weights = setup.whole(fitted.result.weights)
        if scorer:
            header["scores"] = {"dev": scorer.score(fitted.result.weights).as_dict()}
        model = setup.tagger(header, weights)
        if options.compact:
            model = model.compacted(options.drop)
            if scorer:
                model.header["scores"] = {"dev": score_model(model, scorer.dev).as_dict()}
        model.save(output)
        if options.calibration:
            progress.settle(f"{output} is written, but not calibrated")
            dev_set = scorer.dev if scorer else None
            found = _calibration(model, options, setup.corpus.block, dev_set, echo)
            if found:
                model.set_calibration(found)
                model.save(output)
        progress.remove()
        progress.settle(f"{output} is written")
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
    options, old = going_on(checked(options))
    setup = prepare(options, echo, old)
    return Task(setup.problem, setup.features.keys, partial(DevScorer, options, setup))


class DevScorer:
    """Scores weights on a gold file; its features are looked up once."""

    def __init__(self, options: Options, setup: Setup, source: Source):
        target = None if setup.extractor.attributes else column_name(setup.corpus)
        self.dev = read_gold(options, source, target)
        header = make_header(options, setup, "")
        self.whole = setup.whole
        self.tagger = setup.tagger(header, self.whole(np.zeros(setup.problem.shape)))
        self.rows = self.tagger.rows(self.dev.block, self.tagger.extractor)

    def tags(self, weights: np.ndarray) -> tuple[list[str], np.ndarray]:
        """(strings, the words' ids among them) of the best tags, with weights of the problem."""
        self.tagger.set_weights(self.whole(weights).astype(np.float32))
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
