"""A chain of models from raw text to tags, trees and entities, and the models that are shipped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import turbotag
from turbotag.corpus import text
from turbotag.corpus.formats import CONLLU, default_names, looks_conll
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
from turbotag.models.tagger import Tagger

Model = Tagger | Parser
SHIPPED = Path(turbotag.__file__).parent / "pretrained"
PIPELINES = {"en": ("en-upos", "en-xpos", "en-parse", "en-ner"), "en-pos": ("en-upos", "en-xpos")}
RAW = "raw"  # the format of running text


class Pipeline:
    """Models that annotate one after the other, each reading what those before it wrote.

    Safe to share between threads, and picklable.
    """

    def __init__(self, models: list[Model], keep_tags: bool = False):
        """keep_tags: leave the part-of-speech columns of CoNLL-U input as they are."""
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
            if not (self.keep_tags and isinstance(model, Tagger) and is_full(block, model))
        ]

    def blocks(self, path: Source, format: str | None) -> Iterator[Block]:
        """The input as CoNLL-U: a file of that format as it is, raw text cut into sentences."""
        if format not in (None, RAW, "conllu"):
            raise UsageError(f"a pipeline reads raw text or CoNLL-U, not {format}")
        file = open_binary(path)
        if format is None:
            format = "conllu" if looks_conll(peek(file)) else RAW
        if format == "conllu":
            if path != "-":
                file.close()
            yield from stream(path, "conllu", default_names)
            return
        name = display_name(path)
        try:
            for data in text.stream(file):
                yield from_bytes(data, name, CONLLU)
        finally:
            if path != "-":
                file.close()


def is_full(block: Block, tagger: Tagger) -> bool:
    """Whether every word of a block has a value in the column that a tagger fills."""
    column = tagger.target(block.format)
    if column is None:
        return False
    starts, ends = block.spans(column)
    return not ((ends - starts == 1) & (block.buf[starts] == ord("_"))).any()


def peek(file: BinaryIO) -> bytes:
    """The first bytes of a file, which stay to be read."""
    peeks = getattr(file, "peek", None)
    try:
        return peeks(1 << 14) if peeks else b""
    except (OSError, EOFError) as e:
        raise DataError(f"cannot be read: {e}", str(getattr(file, "name", "<stdin>"))) from e


def shipped() -> list[str]:
    """Names of the models in the package."""
    return sorted(p.stem for p in SHIPPED.glob("*.model"))


def load(name: str, keep_tags: bool = False) -> Model | Pipeline:
    """A model file, or what is shipped under a name; nothing is ever downloaded."""
    if not Path(name).exists() and name in PIPELINES:
        return pipeline(name, keep_tags)
    return load_model(find(name))


def pipeline(name: str, keep_tags: bool = False) -> Pipeline:
    """A shipped pipeline, or a pipeline of one model."""
    names = PIPELINES[name] if name in PIPELINES and not Path(name).exists() else (name,)
    return Pipeline([load_model(find(n)) for n in names], keep_tags)


def find(name: str) -> str:
    """The file of a model given by path or by the name of a shipped one."""
    if Path(name).exists() or name not in shipped():
        if not Path(name).exists() and "/" not in name and "." not in name:
            known = ", ".join(sorted({*PIPELINES, *shipped()}))
            raise DataError(f"is neither a file nor a shipped model ({known})", name)
        return name
    return str(SHIPPED / f"{name}.model")


def load_model(path: str) -> Model:
    return Parser.load(path) if store.kind(path) == "parser" else Tagger.load(path)
