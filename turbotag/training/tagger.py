"""Training a tagger from files: read, extract, optimise, certify, save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.reader import Block, Column, Source
from turbotag.errors import DataError, UsageError, did_you_mean
from turbotag.features import templates
from turbotag.features.extract import Extractor
from turbotag.features.kinds import kept_resources, read_resources, resource_names
from turbotag.models.gold import (
    Corpus,
    Layout,
    Score,
    column_name,
    prepare_tags,
    read_gold,
    score_tags,
    sorted_labels,
)
from turbotag.models.lists import ListTagger
from turbotag.models.tagger import Tagger
from turbotag.models.tasks import coder_of
from turbotag.optim.run import Dev, Result
from turbotag.optim.trace import Echo
from turbotag.structures.candidate_problem import CandidateProblem
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import label_sequences
from turbotag.structures.weighted import WeightedProblem
from turbotag.training.calibrating import calibration_of
from turbotag.training.continued import Continued, continue_tagger, origin
from turbotag.training.features import Features, index_features
from turbotag.training.fitting import check_memory, finish, fit, held_out, provenance
from turbotag.training.lists import Listing, prepare_lists
from turbotag.training.options import TaggerOptions
from turbotag.training.work import Training, Work


@dataclass
class Setup:
    """What training needs of the files: tags, features, and the problem that they make.

    names: (origins, vocabulary) of the features of the model, None if it is compact; continued:
    features and weights of a model to go on from, with those of the data; listing: what lists
    candidates.
    """

    corpus: Corpus
    scheme: str | None
    file_scheme: str | None
    template: str
    extractor: Extractor
    features: Features
    problem: ChainProblem | CandidateProblem
    names: tuple[np.ndarray, dict[str, list[str]]] | None
    continued: Continued | None = None
    listing: Listing | None = None

    @property
    def labels(self) -> list[str]:
        return self.corpus.strings

    def continuing(self, old: Tagger, echo: Echo) -> Setup:
        """This setup with weights that are changes of those of another model."""
        assert isinstance(self.problem, ChainProblem)
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
        """The weights of the model, from those of the problem."""
        return weights if self.continued is None else self.continued.whole(weights)

    def tagger(self, header: dict[str, Any], weights: np.ndarray) -> Tagger:
        """A tagger with these weights, which come from `whole`."""
        if self.listing:
            given = header, self.features.keys, weights.astype(np.float32)
            return self.listing.tagger(*given, self.extractor.resources, *(self.names or ()))
        keys = self.features.keys if self.continued is None else self.continued.keys
        every = keys, weights.astype(np.float32), self.extractor.resources
        return Tagger(header, *every, *(self.names or ()))


def prepare(options: TaggerOptions, echo: Echo, old: Tagger | None = None) -> Setup:
    """Read the training file, its templates and resources; extract features.

    old: a model to go on from; options are those that `going_on` gives.
    """
    loss = options.fit.loss
    corpus = read_gold(options.train, options.layout)
    block, target = corpus.block, column_name(corpus)
    echo(
        f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
        f"{block.n_tokens} tokens, tags in column {target!r}"
    )
    scheme, file_scheme = prepare_tags(corpus, options.task, options.scheme, options.strict, echo)
    coder = coder_of(options.task)
    corpus = coder.encoded(corpus) if coder else corpus
    labels = sorted_labels(corpus, old.labels if old else coder.added if coder else ())
    text, extractor = prepare_features(options, block, old)
    if any(block.format.index(c) == corpus.target for c in extractor.columns):
        which = f"template {options.template!r}" if options.template else "a template"
        raise UsageError(f"{which} reads column {target!r}, which is to be predicted")
    folded = bool(old and old.header.get("compact"))
    features = index_features(block, extractor, folded)
    echo(
        f"{features.keys.size} features, {len(labels)} labels, {len(extractor.templates)} templates"
    )
    names = features.origins, extractor.vocabulary()
    if coder or options.lists(len(labels)):
        problem, listing = prepare_lists(options, corpus, features, extractor, echo)
        given = corpus, scheme, file_scheme, text, extractor, features
        return Setup(*given, problem, names, listing=listing)
    K, lengths = len(labels), np.diff(block.sentences)
    shared = sum(K**o for o in range(2, options.order + 2))  # numbers of transitions
    shape, sizes = (features.keys.size + shared // K, K), lengths * K + shared
    check_memory(shape, sizes, options.fit, options.dev is not None, old is not None)
    mask = schemes.mask(labels, scheme) if scheme and options.constraints == "train" else None
    chained = ChainProblem(
        block.sentences,
        features.occurrences,
        corpus.ids,
        features.keys.size,
        label_sequences(K, options.order, mask),
        loss.beta,
        loss.gamma,
        label_costs(options.label_cost, labels),
    )
    setup = Setup(corpus, scheme, file_scheme, text, extractor, features, chained, names)
    return setup if old is None else setup.continuing(old, echo)


def label_costs(asked: dict[str, float], labels: list[str]) -> np.ndarray:
    """(K,) the cost of a wrong answer where a label is right. asked: costs of labels, or of types
    of span labels: ORG stands for B-ORG and I-ORG."""
    costs = np.ones(len(labels))
    for name, cost in asked.items():
        at = [k for k, label in enumerate(labels) if name in (label, label.partition("-")[2])]
        if not at:
            raise UsageError(
                f"--label-cost {name}: the tags are {', '.join(labels[:20])}"
                f"{' ...' if len(labels) > 20 else ''}{did_you_mean(name, labels)}"
            )
        costs[at] = cost
    return costs


def weighted(problem: Any, weights: tuple[float, ...]) -> Any:
    """The problem with weights of its sentences, if there are any."""
    if not weights:
        return problem
    if len(weights) != problem.n:
        raise DataError(f"there are {problem.n} sentences, but weights of {len(weights)}")
    return WeightedProblem(problem, np.array(weights))


def prepare_features(
    options: TaggerOptions, block: Block, old: Tagger | None
) -> tuple[str, Extractor]:
    """Templates, as text, and an extractor with them and with the resources. A model to go on from
    keeps its own; those that are asked for are added."""
    attributes = block.format.name == "crfsuite"
    name = options.template or ("attributes" if attributes else options.task)
    text = templates.load(name)
    resources = read_resources(options.resources)
    if old:
        known = templates.parse(old.header["templates"], "templates")
        asked = templates.parse(text, name) if options.template else []
        added = [templates.text(t) or templates.ATTRIBUTES_LINE for t in asked if t not in known]
        text = "\n".join([old.header["templates"].rstrip("\n"), *added, ""])
        resources = kept_resources(old.resources, resources)
    return text, Extractor(templates.parse(text, name), resources)


def going_on(options: TaggerOptions) -> tuple[TaggerOptions, Tagger | None]:
    """The options, completed by what the model of options.init decides, and that model."""
    if options.init is None:
        return options, None
    old = Tagger.load(options.init, names=True)
    if isinstance(old, ListTagger):
        raise DataError(
            "is a model with candidate lists, which --init cannot go on from", options.init
        )
    task, scheme = old.header["task"], old.header["scheme"]
    if task != options.task:
        raise DataError(f"is a model for --task {task}, not {options.task}", options.init)
    if scheme and options.scheme not in (None, scheme):
        raise UsageError(f"--init has tags in {scheme.upper()}: leave out --scheme")
    return replace(
        options,
        layout=attributes_layout(options) if old.extractor.attributes else options.layout,
        scheme=scheme,
        order=max(options.order, old.order),
        compact=options.compact or bool(old.header.get("compact")),
    ), old


def make_header(options: TaggerOptions, setup: Setup, command: str) -> dict[str, Any]:
    """The header of the model, without what training itself finds out."""
    block = setup.corpus.block
    return {
        **({} if setup.names else {"compact": True}),
        **({"lists": setup.listing.header} if setup.listing else {}),
        "task": options.task,
        "labels": setup.labels,
        "scheme": setup.scheme,
        "file_scheme": setup.file_scheme,
        "constraints": options.constraints,
        "order": options.order,
        **({"label_cost": options.label_cost} if options.label_cost else {}),
        "format": block.format.name,
        "columns": list(block.format.columns),
        "target": column_name(setup.corpus),
        "templates": setup.template,
        **resource_names(setup.extractor.resources),
        **provenance(options, block, command),
    }


@Training
def train(options: TaggerOptions, work: Work) -> tuple[Tagger, Result]:
    """Train a tagger and write it, if a file is given.

    A checkpoint stands at output + '.checkpoint' while training runs and is removed at its end.
    """
    asked = checked(options)
    options, old = going_on(asked)
    setup = prepare(options, work.echo, old)
    problem = weighted(setup.problem, options.sentence_weights)
    mark = asked.fingerprint(setup.corpus.block)
    progress = work.progress(mark)
    scorer = dev = None
    if options.dev:
        scorer = DevScorer(options, setup, options.dev)
        dev = Dev(scorer.main, scorer.measure, options.fit.keep)
        work.echo(held_out(scorer.dev.block))
    fitted = fit(problem, options.fit, progress.stage(), work.trace, dev)
    header = make_header(options, setup, work.command) | fitted.header
    if old and options.init:
        header["init"] = origin(options.init, old.header)
    weights = setup.whole(fitted.result.weights)
    if scorer:
        header["scores"] = {"dev": scorer.score(fitted.result.weights).as_dict()}
    model = setup.tagger(header, weights).pruned()
    if options.compact:
        model = model.compacted(options.drop)
        if scorer:
            model.header["scores"] = {"dev": score_model(model, scorer.dev).as_dict()}
    block = setup.corpus.block
    blocks = block, block, scorer.dev.block if scorer else None
    finish(
        model, options, progress, lambda: calibration_of(model, options, blocks, train, work.echo)
    )
    return model, fitted.result


def checked(options: TaggerOptions) -> TaggerOptions:
    """The options, with the format of attributes where the templates read attributes."""
    if options.template and reads_attributes(options.template):
        return replace(options, layout=attributes_layout(options))
    return options


def attributes_layout(options: TaggerOptions) -> Layout:
    return replace(options.layout, format="crfsuite")


def reads_attributes(template: str) -> bool:
    """Whether templates take the attributes of a CRFsuite file."""
    return () in templates.parse(templates.load(template), template)


@dataclass
class Task:
    """The problem of a tagger, for trying optimizers on it: the keys of its features, one for each
    row of weights, and a scorer of weights on a gold file."""

    problem: ChainProblem | CandidateProblem
    keys: np.ndarray
    scorer: Callable[[Source], DevScorer]


def problem(options: TaggerOptions, echo: Echo = lambda line: None) -> Task:
    """The problem that `train` solves with these options; nothing is written."""
    options, old = going_on(checked(options))
    setup = prepare(options, echo, old)
    return Task(setup.problem, setup.features.keys, partial(DevScorer, options, setup))


class DevScorer:
    """Scores weights on a gold file. The features of the file are looked up once."""

    def __init__(self, options: TaggerOptions, setup: Setup, source: Source):
        target = None if setup.extractor.attributes else column_name(setup.corpus)
        layout = options.layout
        self.dev = read_gold(source, replace(layout, target=target or layout.target))
        header = make_header(options, setup, "")
        self.whole = setup.whole
        self.tagger = setup.tagger(header, self.whole(np.zeros(setup.problem.shape)))
        self.rows = self.tagger.rows(self.dev.block, self.tagger.extractor)

    def tags(self, weights: np.ndarray) -> Column:
        """The best tags of the dev file, with weights of the problem."""
        self.tagger.set_weights(self.whole(weights).astype(np.float32))
        sentences = self.dev.block.sentences
        tags = self.tagger.viterbi(self.tagger.score_rows(self.rows), sentences)
        return self.tagger.output_labels(tags, self.dev.block)

    def score(self, weights: np.ndarray) -> Score:
        found = self.tags(weights)
        return score_tags(self.dev, found, self.tagger.header["scheme"] is not None)

    @property
    def measure(self) -> str:
        """A short name of what `main` measures."""
        spans = self.tagger.header["scheme"] and schemes.parse(self.dev.strings)
        return "F1" if spans else "acc"

    def main(self, weights: np.ndarray) -> float:
        return self.score(weights).main


def score_model(tagger: Tagger, gold: Corpus) -> Score:
    """A tagger against the tags of a gold file."""
    found = tagger.output_labels(tagger.tag(gold.block), gold.block)
    return score_tags(gold, found, tagger.header["scheme"] is not None)
