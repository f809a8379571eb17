"""The services of the server, without the web: models by name, annotated texts, explanations."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.corpus.export import as_json, spell
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, from_bytes, read
from turbotag.corpus.rules import LONGEST
from turbotag.errors import DataError, UsageError, did_you_mean
from turbotag.models.gold import Layout
from turbotag.models.model import Output
from turbotag.models.pipeline import RAW, Pipeline, pipeline
from turbotag.models.prediction import annotate, blocks_of, sentence_of, tag_name
from turbotag.report.draw_svg import frame, hues, picture
from turbotag.report.drawing import Drawing, read_drawings
from turbotag.report.explain import explain

# Sentences, and words, that are annotated between two looks at the clock, at most. Words count, as
# the time of a parser grows with the square of a sentence's length, or faster.
STEP = 20
WORDS = 2 * LONGEST

TAGGED = "1\tAda\tAda\tPROPN\tNNP\t_\t_\t_\t_\t_\n2\tsings\tsing\tVERB\tVBZ\t_\t_\t_\t_\t_\n\n"


class TooLong(Exception):
    """A request takes longer than it may."""


@dataclass(frozen=True)
class Deadline:
    """When a request has to be answered, by time.monotonic()."""

    at: float

    def check(self) -> None:
        if time.monotonic() > self.at:
            raise TooLong


class Service:
    """Models by the names under which they are served; the first is the default."""

    def __init__(self, models: dict[str, Pipeline]):
        self.models = models
        self.default = next(iter(models))

    @classmethod
    def load(cls, names: list[str]) -> Service:
        """names: of shipped models and of model files; a file is served under its name without the
        ending."""
        found: dict[str, Pipeline] = {}
        for given in names:
            name = Path(given).stem if Path(given).is_file() else given
            if name in found:
                raise UsageError(f"two models are called {name!r}: rename one of the files")
            found[name] = pipeline(given)
        return cls(found)

    def warm(self) -> None:
        """Load the kernels, so that the first request need not wait."""
        later = Deadline(time.monotonic() + 3600.0)
        for name, found in self.models.items():
            with contextlib.suppress(UsageError):  # a parser refuses a text without tags
                self.annotate(name, "Ada sings.", RAW, True, later)
            sentences = self.annotate(name, TAGGED, "conllu", True, later)["sentences"]
            self.explain(name, sentences[0]["conllu"], 1, None, 1, later)
            [*annotated(found, TAGGED.encode(), "conllu", later, marginals=False)]

    def find(self, name: str | None) -> tuple[str, Pipeline]:
        """A model by its name; the default without one."""
        name = name or self.default
        if name not in self.models:
            served = ", ".join(self.models)
            told = did_you_mean(name, self.models)
            raise DataError(f"no model {name!r:.60} is served here, but {served}{told}")
        return name, self.models[name]

    def cards(self) -> list[dict[str, Any]]:
        """For each model its name, what it gives, and the tasks and licences of its stages."""
        return [
            {
                "name": name,
                "gives": gives(found),
                "stages": [
                    {
                        "task": stage.header["task"],
                        "what": stage.header.get("card", {}).get("what", ""),
                        "licence": stage.header.get("licence") or "",
                    }
                    for stage in found.models
                ],
            }
            for name, found in self.models.items()
        ]

    def annotate(
        self, model: str | None, text: str, format: str, draw: bool, deadline: Deadline
    ) -> dict[str, Any]:
        """The sentences of a text, or of CoNLL-U, with pictures of them if asked for."""
        name, found = self.find(model)
        sentences: list[dict[str, Any]] = []
        pictures: list[Drawing] = []
        for block in annotated(found, text.encode("utf-8", "replace"), format, deadline):
            for s, spelled in enumerate(spell(block)):
                conllu = sentence_of(block, s).buf.tobytes().decode()
                sentences.append(as_json(spelled) | {"conllu": conllu})
            if draw and block.n_sentences:
                pictures += read_drawings(block.buf.tobytes())
        colours = hues(pictures)
        for sentence, drawing in zip(sentences, pictures, strict=draw):
            deadline.check()
            sentence["svg"] = frame(*picture(drawing, colours, linked=True))
        return {"model": name, "sentences": sentences}

    def explain(
        self,
        model: str | None,
        conllu: str,
        word: int,
        against: str | None,
        top: int,
        deadline: Deadline,
    ) -> Any:
        """Explanations of a word of a sentence, with the `top` heaviest features of each."""
        name, found = self.find(model)
        block = read(conllu.encode("utf-8", "replace"), "conllu")
        check_lengths(block)
        deadline.check()
        out = []
        for e in explain(found, block, 0, [word], against):
            rest = e.features[max(top, 0) :]
            shown = replace(e, features=e.features[: max(top, 0)]).as_dict()
            shown["rest"] = {"features": len(rest), "weight": sum(f.weight for f in rest)}
            out.append(shown)
        return {"model": name, "explanations": out}


def gives(found: Pipeline) -> list[str]:
    """What a pipeline finds out about words, as JSON has it."""
    named = {"deprel": "label"}
    return [
        named.get(column, column) if column in CONLLU.columns else tag_name(stage)
        for stage in found.models
        for column in stage.gives
    ]


def annotated(
    found: Pipeline, data: bytes, format: str, deadline: Deadline, marginals: bool = True
) -> Iterator[Block]:
    """The data of a request as annotated blocks of CoNLL-U, some sentences in each."""
    for block in blocks_of(found, data, Layout(format)):
        check_lengths(block)
        for piece in pieces(block):
            deadline.check()
            made = annotate(found, piece, found.extractor, Output(marginals=marginals))
            yield from_bytes(made, piece.path, piece.format)


def check_lengths(block: Block) -> None:
    """Refuse a sentence that is too long: its analysis cannot be ended at the deadline. Sentences
    of running text are never that long."""
    longest = int(np.diff(block.sentences).max(initial=0))
    if longest > LONGEST:
        raise DataError(f"a sentence has {longest:,} words: it may have {LONGEST} at most")


def pieces(block: Block) -> Iterator[Block]:
    """A block of CoNLL-U cut after every STEP sentences, or WORDS words."""
    data, cuts = block.buf.tobytes(), block.sentences.tolist()
    begin = first = 0  # byte and sentence where the next piece begins
    for s in range(1, block.n_sentences):
        if s - first == STEP or cuts[s + 1] - cuts[first] > WORDS:
            end = data.index(b"\n\n", int(block.line_ends[cuts[s] - 1])) + 2
            yield from_bytes(data[begin:end], block.path, block.format)
            begin, first = end, s
    yield from_bytes(data[begin:], block.path, block.format)
