"""A chain of models from raw text to tags, trees and entities."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

from turbotag.corpus import text
from turbotag.corpus.formats import CONLLU, default_names, looks_columns, looks_conll
from turbotag.corpus.reader import (
    Block,
    Source,
    display_name,
    from_bytes,
    open_binary,
    stream,
)
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError, UsageError
from turbotag.models.bundle import load_bundle, load_model
from turbotag.models.model import Model, Output
from turbotag.models.parser import Parser
from turbotag.models.shipped import files, find, is_pipeline, pipelines
from turbotag.models.tagger import Tagger
from turbotag.models.tokenizer import Tokenizer
from turbotag.storage import members, store

RAW = "raw"  # the format of running text
PEEK = 1 << 14
FIRST_LINE = re.compile(rb"^[^#\s][^\n]*\n|^#[^\n]*=[^\n]*\n", re.MULTILINE)


class Segmenter(Protocol):
    """Cuts running text into sentences, tokens and words: the rules of corpus/rules, or a
    tokenizer."""

    def to_conllu(self, text: str, offset: int = 0, warn: text.Warn | None = None) -> bytes: ...

    def all_to_conllu(self, texts: list[str], warn: text.Warn | None = None) -> list[bytes]: ...

    def stream(
        self, file: BinaryIO, block_size: int = text.BLOCK_BYTES, warn: text.Warn | None = None
    ) -> Iterator[bytes]: ...


class Pipeline:
    """Models that annotate one after the other, each reading what those before it wrote.

    Safe to share between threads, and picklable.
    """

    def __init__(
        self, models: list[Model], keep_tags: bool = False, tokenizer: Tokenizer | None = None
    ):
        """keep_tags: words of CoNLL-U input that have a part of speech keep it; tokenizer: cuts
        running text, in place of the rules for English."""
        self.models, self.keep_tags, self.tokenizer = models, keep_tags, tokenizer
        self.segmenter: Segmenter = tokenizer or text
        self._local = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipeline, (self.models, self.keep_tags, self.tokenizer)

    def new_extractor(self) -> list[Any]:
        return [model.new_extractor() for model in self.models]

    @property
    def extractor(self) -> list[Any]:
        """The extractors of all models, for the present thread."""
        if not hasattr(self._local, "extractors"):
            self._local.extractors = self.new_extractor()
        found: list[Any] = self._local.extractors
        return found

    def annotate(self, block: Block, extractor: list[Any], output: Output, edits: Edits) -> None:
        """Let the models write into `edits`, each reading what those before it wrote."""
        for model, own in zip(self.models, extractor, strict=True):
            column = model.target(block.format)
            kept = block.filled(column) if self.keep_tags and column is not None else None
            if kept is not None and kept.all():
                continue
            prefix = "Tag" if column is None else block.format.columns[column].capitalize()
            model.annotate(block, own, replace(output, prefix=prefix), edits)
            if kept is not None and column is not None and kept.any():
                edits.keep(column, kept)
            block = edits.written()

    def check_order(self) -> None:
        """UsageError if a model reads what only a later one gives."""
        given: set[str] = set()
        for n, model in enumerate(self.models):
            later = {column for other in self.models[n:] for column in other.gives}
            missing = [c for c in model.needs if c in later - given - set(model.gives)]
            if missing and not given & set(model.needs):
                raise UsageError(
                    f"the {model.kind} {n + 1} reads {missing[0]}, which only a later model gives"
                )
            given.update(model.gives)

    def check_raw(self) -> None:
        """UsageError if a model learned from tags that no model before it gives: running text has
        none."""
        given: set[str] = set()
        for model in self.models:
            if model.needs and not given & set(model.needs):
                raise UsageError(
                    f"the {model.kind} reads tags ({', '.join(model.needs)}), which running text "
                    f"has not: take a pipeline that tags it first, such as en, or give the "
                    f"{model.kind} tagged words"
                )
            given.update(model.gives)

    def blocks(
        self,
        path: Source,
        format: str | None,
        warn: text.Warn | None = None,
        probabilities: bool = False,
    ) -> Iterator[Block]:
        """The input as CoNLL-U: a CoNLL-U file as it is, raw text cut into sentences. warn: is told
        of sentences that were too long; probabilities: whether a tokenizer gives those of its
        cuts."""
        if format not in (None, RAW, "conllu"):
            raise UsageError(f"a pipeline reads raw text or CoNLL-U, not {format}")
        name = display_name(path)
        with Peeked(open_binary(path), name, path == "-") as file:
            if format is None and looks_columns(file.head) and not looks_conll(file.head):
                raise DataError(
                    "has columns, but a pipeline reads running text or CoNLL-U; --format raw takes "
                    "it for text",
                    name,
                )
            if format == "conllu" or (format is None and looks_conll(file.head)):
                if not self.models:
                    raise DataError(
                        "is CoNLL-U, but a tokenizer reads running text; --format raw takes it for "
                        "text",
                        name,
                    )
                yield from stream(cast(BinaryIO, file), "conllu", default_names)
                return
            self.check_raw()
            cut = self.segmenter.stream
            if self.tokenizer and probabilities:
                cut = partial(self.tokenizer.stream, probabilities=True)
            for data in cut(cast(BinaryIO, file), warn=warn):
                yield from_bytes(data, name, CONLLU)


class Peeked:
    """A file whose beginning, `head`, up to its first line that is neither blank nor a comment, has
    been read and will be read again."""

    def __init__(self, file: BinaryIO, name: str, keep_open: bool):
        self.file, self.name, self.keep_open = file, name, keep_open
        self.head = b""
        while len(self.head) < PEEK and not FIRST_LINE.search(self.head):
            data = self._read(PEEK)
            if not data:
                break
            self.head += data
        self.left = self.head

    def _read(self, size: int) -> bytes:
        try:
            return getattr(self.file, "read1", self.file.read)(size)
        except (OSError, EOFError, zlib.error) as e:
            raise DataError(f"cannot be read: {e}", self.name) from e

    def read(self, size: int) -> bytes:
        if not self.left:
            return self._read(size)
        data, self.left = self.left[:size], self.left[size:]
        return data

    def close(self) -> None:
        if not self.keep_open:
            self.file.close()

    def __enter__(self) -> Peeked:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def models_of(name: str, names: bool = False) -> dict[str, Any]:
    """The models of a file, or of a shipped name, by their names. names: whether to read the names
    of features too, where there are any."""
    if not is_pipeline(name):
        path = find(name)
        return load_bundle(path, names)[1] if is_bundle(path) else {name: load_model(path, names)}
    if name in files():  # arrays that stages share are read once
        models = load_bundle(str(files()[name]), names)[1].values()
        return dict(zip(pipelines()[name], models, strict=True))
    return {each: load_model(find(each), names) for each in pipelines()[name]}


def paths_of(name: str) -> dict[str, str]:
    """The paths of the models that `models_of` gives."""
    if is_pipeline(name):
        return {each: find(each) for each in pipelines()[name]}
    path = find(name)
    return {stage: f"{path}/{stage}" for stage in store.stages(path)} or {name: path}


def is_bundle(path: str) -> bool:
    """Whether a file holds a whole pipeline."""
    return store.kind(path) == members.KIND


def load(name: str, keep_tags: bool = False) -> Model | Pipeline:
    """A model file, or what is shipped under a name; a tokenizer is a pipeline without models."""
    if not is_pipeline(name) and store.kind(find(name)) in (Tagger.kind, Parser.kind):
        model: Model = load_model(find(name))
        return model
    return pipeline(name, keep_tags)


def pipeline(name: str, keep_tags: bool = False) -> Pipeline:
    """A pipeline, or one of a single model."""
    return joined(models_of(name), keep_tags)


def joined(models: dict[str, Any], keep_tags: bool = False) -> Pipeline:
    """A pipeline of models, a tokenizer among them or not."""
    tokenizers = [m for m in models.values() if m.kind == Tokenizer.kind]
    rest = [m for m in models.values() if m.kind != Tokenizer.kind]
    return Pipeline(rest, keep_tags, *tokenizers[:1])
