"""Gold files: the tag column, its scheme, trees, and scores against them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from turbotag.corpus import schemes, trees
from turbotag.corpus.formats import Conll, Format, Naming, default_names, given_names
from turbotag.corpus.reader import Block, Column, Source, display_name, read
from turbotag.errors import DataError, UsageError
from turbotag.metrics import spans as span_metrics
from turbotag.metrics import tags as tag_metrics
from turbotag.metrics.attachment import AttachmentScore, score_trees
from turbotag.models.tasks import TASKS
from turbotag.optim.trace import Echo

if TYPE_CHECKING:
    from turbotag.models.parser import Parser
    from turbotag.models.tagger import Tagger

SPAN_TASKS = tuple(name for name, task in TASKS.items() if task.spans)
OPEN_TASKS = tuple(name for name, task in TASKS.items() if task.open)
COLUMNS = {name: task.column for name, task in TASKS.items() if task.column}  # of CoNLL-U
MANY_TAGS = 300  # more distinct tags than this make the column suspicious

Score = tag_metrics.TagScore


@dataclass(frozen=True)
class Layout:
    """How to read a file where its content does not tell: its format, the names of its columns, and
    the column with the tags by name or number. By default the column is the usual one of the
    task."""

    format: str | None = None
    columns: tuple[str, ...] | None = None
    target: str | None = None
    task: str = "pos"


ANY = Layout()  # the content of a file tells


@dataclass
class Corpus:
    """A block with its gold tags; note: their name in MISC of CoNLL-U, if they stand there."""

    block: Block
    target: int
    ids: np.ndarray
    strings: list[str]
    note: str = ""

    @property
    def tags(self) -> Column:
        return Column(self.strings, self.ids)


def target_column(fmt: Format, task: str, asked: str | None, path: str) -> int:
    """The column that holds the tags."""
    if fmt.name == "crfsuite":
        return 0
    if asked is None:
        if fmt.ids and task not in COLUMNS:
            noted = f", and no {task.upper()}= in MISC" if fmt.name == "conllu" else ""
            raise UsageError(
                f"{path} is {fmt.name}, which has no {task} column{noted}: name one with --target"
            )
        asked = (
            COLUMNS[task]
            if fmt.ids
            else "chunk"
            if task == "chunk" and "chunk" in fmt.columns
            else "tag"
        )
    at = fmt.index(asked)
    if at is None or (at == 0 and not asked.isdigit()):
        has = ", ".join(fmt.columns)
        raise DataError(f"has no column {asked!r} with tags; its columns: {has}", path)
    return at


def read_gold(
    path: Source, layout: Layout, naming: Naming = default_names, note: str = ""
) -> Corpus:
    """Read a file and its column of tags. If CoNLL-U has no such column but tags in MISC under the
    name `note`, those are read. naming: gives names to columns that the layout does not name; note:
    by default the column that is asked for, or the task, as in NER=B-PER."""
    if layout.columns:
        naming = given_names(layout.columns)
    block, asked = read(path, layout.format, naming), layout.target
    note = note or (asked or (layout.task if layout.task in SPAN_TASKS else "")).upper()
    if note and block.format.name == "conllu" and block.format.index(asked or note) is None:
        found = noted_tags(block, note)
        if found is not None:
            return found
    at = target_column(block.format, layout.task, asked, display_name(path))
    strings, ids = block.column(at)
    if "" in strings:
        t = int(np.flatnonzero(ids == strings.index(""))[0])
        raise block.error("the tag is empty", t)
    return Corpus(block, at, ids, strings)


def noted_tags(block: Block, note: str) -> Corpus | None:
    """The tags in MISC of CoNLL-U, as NOTE=TAG, O where there is none; None if no word has one.
    `predict` writes tags without a column of their own in this way: NER=B-PER. Entity=B-PER is read
    too, unless Entity= holds something else, such as coreference."""
    values, ids = block.column(Conll.MISC)
    for name in (note, "Entity") if note == "NER" else (note,):
        pattern = re.compile(rf"(?:.*\|)?{re.escape(name)}=([^|]+)(?:\|.*)?")
        found = [pattern.fullmatch(s) for s in values]
        tags = [m[1] if m else "O" for m in found]
        strings = sorted(set(tags))
        if any(found) and (name == note or schemes.parse(strings) is not None):
            index = np.array([strings.index(t) for t in tags], np.int32)
            return Corpus(block, Conll.MISC, index[ids], strings, note)
    return None


def read_gold_of(tagger: Tagger, path: Source, layout: Layout) -> Corpus:
    """Read a file and the column with the tags that a tagger gives."""
    target = None if tagger.header["format"] == "crfsuite" else tagger.header["target"]
    format = layout.format or tagger.input_format
    layout = replace(layout, format=format, target=layout.target or target)
    note = tagger.header["task"].upper()  # the name that `predict` gives to tags without a column
    return read_gold(path, layout, tagger.naming, note)


def column_name(corpus: Corpus) -> str:
    fmt = corpus.block.format
    if corpus.note:
        return corpus.note.lower()
    return fmt.columns[corpus.target] if fmt.columns else "label"


def prepare_tags(
    corpus: Corpus, task: str, wanted: str | None, strict: bool, echo: Echo
) -> tuple[str | None, str | None]:
    """Check the tags of a task, and convert them to the scheme `wanted` in place. strict: refuse
    tags that break the rules of their scheme.

    Returns (scheme to train in, scheme of the file), or (None, None) for tags that are not spans.
    """
    name, n = column_name(corpus), len(corpus.strings)
    if task in OPEN_TASKS:
        if corpus.strings == ["_"]:
            raise DataError(f"has nothing in column {name!r} to learn from", corpus.block.path)
    elif n > MANY_TAGS or (n > 20 and n > 0.2 * corpus.ids.size):
        echo(
            f"warning: column {name!r} of {corpus.block.path} has {n} different values: "
            "is it the tag column? (--target names another)"
        )
    if task not in SPAN_TASKS:
        return None, None
    parsed = schemes.parse(corpus.strings)
    if parsed is None:
        odd = next(s for s in corpus.strings if schemes.parse([s]) is None)
        t = int(np.flatnonzero(corpus.ids == corpus.strings.index(odd))[0])
        raise corpus.block.error(
            f"{odd!r} in column {name!r} is not an IOB tag, as --task {task} expects", t
        )
    found = schemes.detect(parsed, corpus.ids, corpus.block.sentences)
    bilou = found.scheme == "iobes" and any(s[0] in "LU" for s in corpus.strings)
    wanted = wanted or found.scheme
    if found.irregular.size:
        t = int(found.irregular[0])
        unfit = corpus.block.error(f"{corpus.strings[corpus.ids[t]]} does not fit {found.rule}", t)
        if strict:
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
    """Labels in alphabetical order, `more` included; corpus.ids are renumbered accordingly."""
    labels = sorted({*corpus.strings, *more})
    at = {label: n for n, label in enumerate(labels)}
    corpus.ids = np.array([at[s] for s in corpus.strings], np.int32)[corpus.ids]
    corpus.strings = labels
    return labels


def score_tags(gold: Corpus, predicted: Column, spans: bool, strict: bool = False) -> Score:
    """Span F1 where the tags are spans, else accuracy."""
    arguments = gold.tags, predicted, gold.block.sentences
    found = span_metrics.score(*arguments, strict=strict) if spans else None
    return replace(found or tag_metrics.score_tags(*arguments), docstarts=gold.block.docstarts)


def words_of(block: Block) -> tuple[list[str], list[str] | None]:
    """Forms, and the universal tags if PUNCT is among them."""
    tags = block.strings(Conll.UPOS)
    return block.strings(Conll.WORD), tags if any(t == "PUNCT" for t in tags) else None


def score_parser(
    parser: Parser, block: Block, decode: str = "viterbi", tagged: Block | None = None
) -> AttachmentScore:
    """Parse a gold file and compare; tagged: the same sentences, with the tags to be read."""
    parsed = parser.parse(tagged or block, decode=decode)
    labels = Column(parser.labels, parsed.labels) if parser.labelled else None
    return score_block(block, parsed.heads, labels)


def score_block(gold: Block, heads: np.ndarray, labels: Column | None) -> AttachmentScore:
    """Heads and labels against those of a gold block."""
    gold_heads, gold_labels = trees.read_heads(gold), gold.column(Conll.DEPREL)
    forms, upos = words_of(gold)
    return score_trees(gold_heads, heads, gold.sentences, forms, upos, gold_labels, labels)
