"""Training a tagger from files: read, extract, optimise, certify, save."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import turbotag
from turbotag import losses
from turbotag.corpus import schemes
from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block
from turbotag.errors import DataError, UsageError
from turbotag.features import templates
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.models import store
from turbotag.models.gold import (
    CONSTRAINTS,
    TASKS,
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
from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import Optimizer
from turbotag.optim.run import Limits, LoadState, Result, run
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


def sha256(block: Block) -> str:
    return hashlib.sha256(block.buf.tobytes()).hexdigest()


def fingerprint(options: Options, block: Block) -> str:
    """What must be equal for a checkpoint to be continued."""
    free = ("licence", "max_oracle_calls", "max_seconds", "epochs")
    settings = {k: v for k, v in asdict(options).items() if k not in free}
    settings["data"] = sha256(block)
    return json.dumps(settings, sort_keys=True, default=str)


def versions() -> dict[str, str]:
    import numba

    return {
        "turbotag": turbotag.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def check(options: Options) -> None:
    """Refuse illegal settings before anything is read."""
    if options.task not in TASKS:
        raise UsageError(f"unknown task {options.task!r}: it is one of {', '.join(TASKS)}")
    loss = losses.loss(options.loss, options.beta, options.gamma)
    algorithm(options.algorithm).check(loss.beta, loss.gamma, options.params)
    if not (options.C > 0 and np.isfinite(options.C)):
        raise UsageError(f"C is {options.C}: it must be positive and finite")
    if options.epochs is not None and options.epochs < 1:
        raise UsageError(f"epochs is {options.epochs}: it must be at least 1")
    if options.stop_gap is not None and not options.stop_gap > 0:
        raise UsageError(f"stop-gap is {options.stop_gap}: it must be positive")
    if options.patience is not None and (options.patience < 1 or not options.dev):
        raise UsageError("patience must be at least 1 and needs --dev")
    if options.seed < 0:
        raise UsageError(f"seed is {options.seed}: it must not be negative")
    if options.params.get("eta", 0.0) < 0:
        raise UsageError(f"eta is {options.params['eta']}: it must not be negative")
    for name, limit in (
        ("max-oracle-calls", options.max_oracle_calls),
        ("max-seconds", options.max_seconds),
    ):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} is {limit}: it must be positive")
    if options.order not in (1, 2):
        raise UsageError(f"order is {options.order}: it is 1 or 2")
    if options.constraints not in CONSTRAINTS:
        raise UsageError(f"constraints is one of {', '.join(CONSTRAINTS)}")
    if options.scheme is not None and options.scheme not in schemes.SCHEMES:
        raise UsageError(f"scheme is one of {', '.join(schemes.SCHEMES)}")


def limits(options: Options) -> Limits:
    """What was asked for, or the algorithm's own defaults."""
    cls = algorithm(options.algorithm)
    return Limits(
        options.epochs or cls.default_epochs,
        options.stop_gap or cls.default_gap,
        options.patience,
        options.max_oracle_calls,
        options.max_seconds,
    )


def warm_start(
    path: str, labels: list[str], keys: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Weights of another model for the features and labels that both have, 0 elsewhere."""
    other = Tagger.load(path)
    W = np.zeros(shape)
    shared = [x for x in labels if x in other.labels]
    mine = np.array([labels.index(x) for x in shared], np.int64)
    theirs = np.array([other.labels.index(x) for x in shared], np.int64)
    rows = other.table.lookup(keys)
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
        f"{features.keys.size} attributes, {len(labels)} labels, "
        f"{len(extractor.templates)} templates"
    )
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


def make_header(
    options: Options, setup: Setup, optimizer: Optimizer, command: str
) -> dict[str, Any]:
    """The model's header but for what training itself finds out."""
    block = setup.corpus.block
    loss = losses.loss(options.loss, options.beta, options.gamma)
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
        "loss": {"name": loss.name, "beta": str(loss.beta), "gamma": loss.gamma},
        "algorithm": {
            "name": optimizer.name,
            "C": options.C,
            "lambda": optimizer.lam,
            **optimizer.param,
        },
        "seed": options.seed,
        "command": command,
        "versions": versions(),
        "data": {
            "name": Path(block.path).name,
            "sha256": sha256(block),
            "sentences": block.n_sentences,
            "tokens": block.n_tokens,
        },
        "licence": options.licence,
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
    check(options)
    store.check_writable(output)
    if options.template and reads_attributes(options.template):
        options = replace(options, format="crfsuite")
    setup = prepare(options, echo)
    problem = setup.problem
    optimizer = algorithm(options.algorithm)(
        problem,
        1.0 / (options.C * problem.n),
        np.random.default_rng(options.seed),
        **options.params,
    )
    echo(
        f"{optimizer.name}, beta {problem.beta:g}, gamma {problem.gamma:g}, "
        f"lambda {optimizer.lam:.4g}, state {optimizer.state_bytes / 1e6:.1f} MB"
    )
    checkpoint = Checkpoint(output, fingerprint(options, setup.corpus.block))
    saved = checkpoint.load() if resume else None
    if saved:
        echo(f"resuming from {checkpoint.path}")
    elif options.init:
        optimizer.start(warm_start(options.init, setup.labels, setup.features.keys, problem.shape))

    header = make_header(options, setup, optimizer, command)
    scorer = None
    if options.dev:
        target = None if setup.extractor.attributes else header["target"]
        dev = read_gold(options, options.dev, target)
        scorer = DevScorer(setup.tagger(header, optimizer.weights()), dev)
    result = run(
        optimizer,
        limits(options),
        trace or Trace(),
        scorer.main if scorer else None,
        checkpoint.save,
        checkpoint_seconds,
        saved,
    )
    header["certificate"] = result.certificate.as_dict()
    header["epochs"] = optimizer.epochs
    if scorer:
        header["scores"] = {"dev": scorer.score(result.weights).as_dict()}
    model = setup.tagger(header, result.weights)
    model.save(output)
    checkpoint.remove()
    return model, result


def reads_attributes(template: str) -> bool:
    """Whether templates take the attributes of a CRFsuite file."""
    return () in templates.parse(templates.load(template), template)


class Checkpoint:
    """The saved state of a training run, beside the model to be."""

    def __init__(self, output: str, mark: str):
        self.path, self.mark = output + ".checkpoint", mark
        self.regular = not Path(output).exists() or Path(output).is_file()

    def save(self, arrays: dict[str, np.ndarray], state: str) -> None:
        if self.regular:  # nothing is put beside /dev/null
            header = {"mark": self.mark, "state": state}
            store.save_file(self.path, "checkpoint", header, arrays)

    def load(self) -> LoadState | None:
        """The state to go on from, None if there is none."""
        if not Path(self.path).exists():
            return None
        header, arrays = store.load_file(self.path, "checkpoint")
        if header.get("mark") != self.mark:
            raise DataError(
                "is of a training with other data or options; remove it or repeat them", self.path
            )
        return arrays, header["state"]

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            Path(self.path).unlink()


class DevScorer:
    """Scores weights on the dev set; its features are looked up once."""

    def __init__(self, tagger: Tagger, dev: Corpus):
        self.tagger, self.dev = tagger, dev
        self.rows = tagger.rows(dev.block, tagger.extractor)

    def score(self, weights: np.ndarray) -> Score:
        self.tagger.set_weights(weights.astype(np.float32))
        sentences = self.dev.block.sentences
        tags = self.tagger.viterbi(self.tagger.score_rows(self.rows), sentences)
        strings, ids = self.tagger.output_labels(tags, sentences)
        return score_tags(self.dev, strings, ids, self.tagger.header["scheme"] is not None)

    def main(self, weights: np.ndarray) -> float:
        return self.score(weights).main
