"""Gold files: training options, the tag column, its scheme, and scores against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.formats import Conll, Format, Naming, default_names, given_names
from turbotag.corpus.reader import Block, Source, display_name, read
from turbotag.errors import DataError, UsageError
from turbotag.metrics import spans as span_metrics
from turbotag.metrics import tags as tag_metrics
from turbotag.models.shipped import find

if TYPE_CHECKING:
    from turbotag.models.tagger import Tagger

TASKS = ("ner", "pos", "chunk", "parse")
SPAN_TASKS = ("ner", "chunk")
PASSIVE_AGGRESSIVE = ("dca", "mira")  # for them C is the largest step
CONSTRAINTS = ("none", "decode", "train")
MANY_TAGS = 300  # more distinct tags than this make the column suspicious

Score = tag_metrics.TagScore
Echo = Callable[[str], None]


@dataclass
class Options:
    """What `turbotag train` can be told; see its help for each."""

    task: str
    train: Source
    dev: Source | None = None
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
    stop_gap: float | str | None = None
    patience: int | None = None
    keep: str = "best"
    max_oracle_calls: int | None = None
    max_seconds: float | None = None
    init: str | None = None
    seed: int = 1
    licence: str = ""
    compact: bool = False
    calibration: bool = True
    # parse only
    decoder: str = "auto"
    multi_root: bool = False
    crossing: str = "lift"
    labels: bool = True
    prune: bool = True
    parts: tuple[str, ...] = ()
    entropy: str = "convex"
    rounds: int | None = None
    damping: float | None = None
    tolerance: float | None = None
    min_count: int = 4
    drop: float = 0.01
    jackknife: int = 0
    supertags: int = 0
    heads: int | None = None


def options_for(task: str, **given: Any) -> Options:
    """Options with the defaults of a task where nothing was given (None counts as nothing)."""
    given = {k: v for k, v in given.items() if v is not None}
    if "init" in given:
        given["init"] = find(given["init"])
    if task == "parse":
        if not given.keys() & {"loss", "beta", "gamma"}:
            given |= {"loss": "softmax-margin", "gamma": 3.0}
        given = parser_defaults(given) | given
    return Options(task, **given)


def parser_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Chosen on dev data of four treebanks (docs/parser.md)."""
    second_order = bool(given.get("parts"))
    # sdca certifies, but needs a log Z that is exact or an upper bound
    usual = "dca" if second_order and given.get("entropy") == "bethe" else "sdca"
    name = given.get("algorithm", usual)
    if name in PASSIVE_AGGRESSIVE:
        C = 0.03
    else:
        C = 0.3 if second_order else 0.1
    drop = 0.005 if second_order else 0.01  # parts have smaller weights beside the arcs'
    # The last epochs before a certified gap differ by noise on dev; only the last has the proof.
    keep = "last" if name == "sdca" else "best"
    return {"algorithm": usual, "C": C, "drop": drop, "keep": keep}


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
        raise DataError(f"has no column {asked!r} with tags; its columns: {has}", path)
    return at


def read_gold(
    options: Options,
    path: Source,
    target: str | None = None,
    naming: Naming = default_names,
    note: str = "",
) -> Corpus:
    """Read a file and its tag column; if CoNLL-U has no such column, but tags under the name `note`
    in MISC, those."""
    if options.columns:
        naming = given_names(options.columns)
    block = read(path, options.format, naming)
    asked = target or options.target
    if note and block.format.name == "conllu" and block.format.index(asked or note) is None:
        found = noted_tags(block, note)
        if found is not None:
            return found
    at = target_column(block.format, options.task, asked, display_name(path))
    strings, ids = block.column(at)
    if "" in strings:
        t = int(np.flatnonzero(ids == strings.index(""))[0])
        raise block.error("the tag is empty", t)
    return Corpus(block, at, ids, strings)


def noted_tags(block: Block, note: str) -> Corpus | None:
    """The tags that stand in MISC of CoNLL-U as NOTE=TAG, O where there is none; None if there are
    none at all. So does `predict` write tags that have no column: NER=B-PER."""
    values, ids = block.column(Conll.MISC)
    pattern = re.compile(rf"(?:.*\|)?{re.escape(note)}=([^|]+)(?:\|.*)?")
    found = [pattern.fullmatch(s) for s in values]
    if not any(found):
        return None
    tags = [m[1] if m else "O" for m in found]
    strings = sorted(set(tags))
    index = np.array([strings.index(t) for t in tags], np.int32)
    return Corpus(block, Conll.MISC, index[ids], strings)


def read_gold_of(tagger: Tagger, options: Options, path: Source) -> Corpus:
    """Read a file and the column with the tags that a tagger gives."""
    options = replace(options, format=options.format or tagger.input_format)
    target = None if tagger.header["format"] == "crfsuite" else tagger.header["target"]
    note = tagger.header["task"].upper()  # as it is written where there is no column for it
    return read_gold(options, path, options.target or target, tagger.naming, note)


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
    bilou = found.scheme == "iobes" and any(s[0] in "LU" for s in corpus.strings)
    wanted = options.scheme or found.scheme
    if found.irregular.size:
        t = int(found.irregular[0])
        unfit = corpus.block.error(f"{corpus.strings[corpus.ids[t]]} does not fit {found.rule}", t)
        if options.strict:
            raise unfit
        n = found.irregular.size
        echo(f"warning: {unfit} (the first of {n} such tags; they are read as conlleval does)")
    if found.irregular.size or wanted != found.scheme:
        corpus.strings, corpus.ids = schemes.convert(
            corpus.strings, corpus.ids, corpus.block.sentences, wanted
        )
    as_what = "" if wanted == found.scheme else f", trained as {wanted.upper()}"
    echo(f"tags: {found.scheme.upper()}{as_what}, {len(parsed.types)} types")
    return wanted, "bilou" if bilou else found.scheme


def sorted_labels(corpus: Corpus, more: Iterable[str] = ()) -> list[str]:
    """Labels in alphabetical order, with corpus.ids renumbered to it; `more` are among them."""
    labels = sorted({*corpus.strings, *more})
    at = {label: n for n, label in enumerate(labels)}
    corpus.ids = np.array([at[s] for s in corpus.strings], np.int32)[corpus.ids]
    corpus.strings = labels
    return labels


def score_tags(
    gold: Corpus, labels: list[str], predicted: np.ndarray, spans: bool, strict: bool = False
) -> Score:
    """Span F1 where the tags are spans, else accuracy."""
    arguments = (gold.strings, gold.ids, labels, predicted, gold.block.sentences)
    found = span_metrics.score(*arguments, strict=strict) if spans else None
    return replace(found or tag_metrics.score_tags(*arguments), docstarts=gold.block.docstarts)
