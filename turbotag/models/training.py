"""Training a tagger from files: read, extract, optimise, certify, save."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import turbotag
from turbotag import losses
from turbotag.corpus import schemes
from turbotag.corpus.formats import Format, default_names, given_names
from turbotag.corpus.hashing import Interner, KeyTable
from turbotag.corpus.reader import Block, read
from turbotag.errors import DataError, UsageError
from turbotag.features import templates
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.metrics import spans as span_metrics
from turbotag.metrics import tags as tag_metrics
from turbotag.models import store
from turbotag.models.tagger import Tagger
from turbotag.optim.algorithms import algorithm
from turbotag.optim.run import Limits, Result, run
from turbotag.optim.trace import Trace
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem

TASKS = ("ner", "pos", "chunk")
SPAN_TASKS = ("ner", "chunk")
CONSTRAINTS = ("none", "decode", "train")
MANY_TAGS = 300  # more distinct tags than this make the column suspicious

Score = tag_metrics.TagScore
Echo = Callable[[str], None]


@dataclass
class Options:
    """What `turbotag train` can be told; see its help for each."""

    task: str
    train: str
    dev: str | None = None
    format: str | None = None
    columns: tuple[str, ...] | None = None
    target: str | None = None
    template: str | None = None
    gazetteers: dict[str, str] = field(default_factory=dict)
    scheme: str | None = None
    strict: bool = False
    constraints: str = "decode"
    order: int = 1
    loss: str = "crf"
    beta: float | None = None
    gamma: float | None = None
    C: float = 1.0
    algorithm: str = "sdca"
    params: dict[str, Any] = field(default_factory=dict)
    epochs: int | None = None
    stop_gap: float | None = None
    patience: int | None = None
    max_oracle_calls: int | None = None
    max_seconds: float | None = None
    init: str | None = None
    seed: int = 1
    licence: str = ""


@dataclass
class Corpus:
    """A block with its gold tags."""

    block: Block
    target: int
    ids: np.ndarray
    strings: list[str]


def target_column(fmt: Format, task: str, asked: str | None, path: str) -> int:
    """The column that holds the tags."""
    if fmt.name == "crfsuite":
        return 0
    if asked is None:
        if fmt.ids and task != "pos":
            raise UsageError(
                f"{path} is {fmt.name}, which has no {task} column: name one with --target"
            )
        asked = (
            "upos" if fmt.ids else "chunk" if task == "chunk" and "chunk" in fmt.columns else "tag"
        )
    at = fmt.index(asked)
    if at is None or (at == 0 and not asked.isdigit()):
        has = ", ".join(fmt.columns)
        raise DataError(f"has no column {asked!r} to learn from; its columns: {has}", path)
    return at


def read_gold(options: Options, path: str, target: str | None = None) -> Corpus:
    """Read a file and its tag column."""
    naming = given_names(options.columns) if options.columns else default_names
    block = read(path, options.format, naming)
    at = target_column(block.format, options.task, target or options.target, path)
    interner = Interner()
    ids = block.ids(at, interner)
    if "" in interner.strings:
        t = int(np.flatnonzero(ids == interner.strings.index(""))[0])
        raise block.error("the tag is empty", t)
    return Corpus(block, at, ids, interner.strings)


def column_name(corpus: Corpus) -> str:
    fmt = corpus.block.format
    return fmt.columns[corpus.target] if fmt.columns else "label"


def prepare_tags(corpus: Corpus, options: Options, echo: Echo) -> tuple[str | None, str | None]:
    """Check the tags; convert them to options.scheme in place.

    Returns (scheme to train in, scheme of the file), or (None, None) for tags that are not spans.
    """
    name, n = column_name(corpus), len(corpus.strings)
    if n > MANY_TAGS or (n > 20 and n > 0.2 * corpus.ids.size):
        echo(
            f"warning: column {name!r} of {corpus.block.path} has {n} different values: "
            "is it the tag column? (--target names another)"
        )
    if options.task not in SPAN_TASKS:
        return None, None
    parsed = schemes.parse(corpus.strings)
    if parsed is None:
        odd = next(s for s in corpus.strings if schemes.parse([s]) is None)
        t = int(np.flatnonzero(corpus.ids == corpus.strings.index(odd))[0])
        raise corpus.block.error(
            f"{odd!r} in column {name!r} is not an IOB tag, as --task {options.task} expects", t
        )
    found = schemes.detect(parsed, corpus.ids, corpus.block.sentences)
    wanted = options.scheme or found.scheme
    if found.irregular.size:
        t = int(found.irregular[0])
        tag = corpus.strings[corpus.ids[t]]
        what = f"{tag} does not fit {found.scheme.upper()}: no entity for it to continue or close"
        if options.strict:
            raise corpus.block.error(what, t)
        echo(
            f"warning: {corpus.block.path}, line {corpus.block.lines[t]}: {what} "
            f"({found.irregular.size} such tags; read as conlleval does)"
        )
    if found.irregular.size or wanted != found.scheme:
        corpus.strings, corpus.ids = schemes.convert(
            corpus.strings, corpus.ids, corpus.block.sentences, wanted
        )
    as_what = "" if wanted == found.scheme else f", trained as {wanted.upper()}"
    echo(f"tags: {found.scheme.upper()}{as_what}, {len(parsed.types)} types")
    return wanted, found.scheme


def sorted_labels(corpus: Corpus) -> list[str]:
    """Labels in alphabetical order, with corpus.ids renumbered to it."""
    labels = sorted(corpus.strings)
    corpus.ids = np.array([labels.index(s) for s in corpus.strings], np.int32)[corpus.ids]
    corpus.strings = labels
    return labels


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


def score_tags(
    gold: Corpus, labels: list[str], predicted: np.ndarray, spans: bool, strict: bool = False
) -> Score:
    """Span F1 where the tags are spans, else accuracy."""
    arguments = (gold.strings, gold.ids, labels, predicted, gold.block.sentences)
    found = span_metrics.score(*arguments, strict=strict) if spans else None
    return found or tag_metrics.score_tags(*arguments)


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
    loss = losses.loss(options.loss, options.beta, options.gamma)
    if options.template and () in templates.parse(
        templates.load(options.template), options.template
    ):
        options = replace(options, format="crfsuite")
    corpus = read_gold(options, options.train)
    block = corpus.block
    echo(
        f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
        f"{block.n_tokens} tokens, tags in column {column_name(corpus)!r}"
    )
    scheme, file_scheme = prepare_tags(corpus, options, echo)
    labels = sorted_labels(corpus)
    target = column_name(corpus)

    crfsuite = block.format.name == "crfsuite"
    template = options.template or ("attributes" if crfsuite else options.task)
    text = templates.load(template)
    gazetteers = [Gazetteer.read(n, p) for n, p in sorted(options.gazetteers.items())]
    extractor = Extractor(templates.parse(text, template), gazetteers)
    if not crfsuite and block.format.columns[corpus.target] in extractor.columns:
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
    lam = 1.0 / (options.C * problem.n)
    optimizer = algorithm(options.algorithm)(
        problem, lam, np.random.default_rng(options.seed), **options.params
    )
    echo(
        f"{optimizer.name}, loss {loss.name}, lambda {lam:.4g}, "
        f"dual state {optimizer.state_bytes / 1e6:.1f} MB"
    )

    if options.init and not resume:
        optimizer.start(warm_start(options.init, labels, features.keys, problem.shape))

    header: dict[str, Any] = {
        "task": options.task,
        "labels": labels,
        "scheme": scheme,
        "file_scheme": file_scheme,
        "constraints": options.constraints,
        "order": options.order,
        "format": block.format.name,
        "columns": list(block.format.columns),
        "target": target,
        "templates": text,
        "gazetteers": [g.name for g in gazetteers],
        "loss": {"name": loss.name, "beta": str(loss.beta), "gamma": loss.gamma},
        "algorithm": {"name": optimizer.name, "C": options.C, "lambda": lam, **optimizer.param},
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

    def tagger(weights: np.ndarray) -> Tagger:
        weights = weights.astype(np.float32)
        return Tagger(
            header, features.keys, weights, gazetteers, features.origins, extractor.vocabulary()
        )

    dev = read_gold(options, options.dev, None if crfsuite else target) if options.dev else None
    scorer = DevScorer(tagger(optimizer.weights()), dev, scheme is not None) if dev else None

    checkpoint = output + ".checkpoint"
    mark = fingerprint(options, block)
    saved = None
    if resume and Path(checkpoint).exists():
        saved = load_checkpoint(checkpoint, mark)
        echo(f"resuming from {checkpoint}")

    def save(arrays: dict[str, np.ndarray], state: str) -> None:
        store.save_file(checkpoint, "checkpoint", {"mark": mark, "state": state}, arrays)

    result = run(
        optimizer,
        limits(options),
        trace or Trace(),
        scorer.f1 if scorer else None,
        save,
        checkpoint_seconds,
        saved,
    )
    header["certificate"] = result.certificate.as_dict()
    header["epochs"] = optimizer.epochs
    model = tagger(result.weights)
    if dev and scorer:
        header["scores"] = {"dev": scorer.score(result.weights).as_dict()}
    model.save(output)
    with contextlib.suppress(FileNotFoundError):
        Path(checkpoint).unlink()
    return model, result


def load_checkpoint(path: str, mark: str) -> tuple[dict[str, np.ndarray], str]:
    header, arrays = store.load_file(path, "checkpoint")
    if header.get("mark") != mark:
        raise DataError(
            "is of a training with other data or options; remove it or repeat them", path
        )
    return arrays, header["state"]


class DevScorer:
    """Scores weights on the dev set; its features are looked up once."""

    def __init__(self, tagger: Tagger, dev: Corpus, spans: bool):
        self.tagger, self.dev, self.spans = tagger, dev, spans
        self.rows = tagger.rows(dev.block, tagger.extractor)

    def score(self, weights: np.ndarray) -> Score:
        self.tagger.set_weights(weights.astype(np.float32))
        sentences = self.dev.block.sentences
        tags = self.tagger.viterbi(self.tagger.score_rows(self.rows), sentences)
        strings, ids = self.tagger.output_labels(tags, sentences)
        return score_tags(self.dev, strings, ids, self.spans)

    def f1(self, weights: np.ndarray) -> float:
        return self.score(weights).main
