"""A chain of models from raw text to tags, trees and entities."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np

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
from turbotag.errors import DataError, UsageError
from turbotag.models import store
from turbotag.models.parser import Parser
from turbotag.models.shipped import find, is_pipeline, stages
from turbotag.models.tagger import Tagger

Model = Tagger | Parser
RAW = "raw"  # the format of running text
PEEK = 1 << 14
FIRST_LINE = re.compile(rb"^[^#\s][^\n]*\n|^#[^\n]*=[^\n]*\n", re.MULTILINE)


class Pipeline:
    """Models that annotate one after the other, each reading what those before it wrote.

    Safe to share between threads, and picklable.
    """

    def __init__(self, models: list[Model], keep_tags: bool = False):
        """keep_tags: words of CoNLL-U input that have a part of speech keep it."""
        self.models, self.keep_tags = models, keep_tags
        self._local = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipeline, (self.models, self.keep_tags)

    def new_extractor(self) -> list[Any]:
        return [model.new_extractor() for model in self.models]

    @property
    def extractor(self) -> list[Any]:
        """Those of the present thread."""
        if not hasattr(self._local, "extractors"):
            self._local.extractors = self.new_extractor()
        found: list[Any] = self._local.extractors
        return found

    def stages(self, block: Block) -> list[int]:
        """Which models to run; with keep_tags, not a tagger whose column is already full."""
        return [
            i
            for i, model in enumerate(self.models)
            if not (self.keep_tags and isinstance(model, Tagger) and filled(block, model).all())
        ]

    def check_raw(self) -> None:
        """Running text has no tags: UsageError if a parser learned from some, and no model before
        it gives them."""
        given: set[str] = set()
        for model in self.models:
            if isinstance(model, Tagger):
                given.add(model.header["target"])
            elif model.tag_columns and not given & set(model.tag_columns):
                raise UsageError(
                    f"the parser reads tags ({', '.join(model.tag_columns)}), which running text "
                    "has not: take a pipeline that tags it first, such as en, or give the parser "
                    "tagged words"
                )

    def blocks(
        self, path: Source, format: str | None, warn: text.Warn | None = None
    ) -> Iterator[Block]:
        """The input as CoNLL-U: a file of that format as it is, raw text cut into sentences; `warn`
        is told if some were too long."""
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
                yield from stream(cast(BinaryIO, file), "conllu", default_names)
                return
            self.check_raw()
            for data in text.stream(cast(BinaryIO, file), warn=warn):
                yield from_bytes(data, name, CONLLU)


def filled(block: Block, tagger: Tagger) -> np.ndarray:
    """(tokens,) whether a word has a value in the column that a tagger fills."""
    column = tagger.target(block.format)
    return np.zeros(block.n_tokens, bool) if column is None else block.filled(column)


class Peeked:
    """A file whose `head`, up to its first line that is neither blank nor a comment, is known, and
    will be read again."""

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


def load(name: str, keep_tags: bool = False) -> Model | Pipeline:
    """A model file, or what is shipped under a name."""
    return pipeline(name, keep_tags) if is_pipeline(name) else load_model(find(name))


def pipeline(name: str, keep_tags: bool = False) -> Pipeline:
    """A shipped pipeline, or a pipeline of one model."""
    return Pipeline([load_model(find(n)) for n in stages(name)], keep_tags)


def load_model(path: str, names: bool = False) -> Model:
    """From a file; names: with the names of a tagger's features, if it has them."""
    return Parser.load(path) if store.kind(path) == "parser" else Tagger.load(path, names)
