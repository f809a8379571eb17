"""The library: pipelines on strings, taggers and parsers on lists; no files needed.

import turbotag
nlp = turbotag.load("en")
for sentence in nlp("Ada flew to Oslo.").sentences: ...
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, from_bytes, read
from turbotag.corpus.text import segment, to_conllu
from turbotag.errors import DataError, UsageError
from turbotag.models import parser as parsers
from turbotag.models import tagger as taggers
from turbotag.models.document import Document, Entity, Sentence, Token, document
from turbotag.models.gold import Options, options_for
from turbotag.models.parser_training import score_parser, train_parser
from turbotag.models.pipeline import Pipeline, find, pipeline
from turbotag.models.prediction import Output, annotate
from turbotag.models.training import train

__all__ = ["Document", "Entity", "Parser", "Sentence", "Tagger", "Token", "load"]

Words = Sequence[str | Sequence[str]]  # of a sentence: words, or tuples of columns, the word first
Tree = Sequence[tuple[int, str]]  # head (0 is the root, 1 the first word) and label of each word


class NLP:
    """A pipeline to be called on texts; safe to share between threads, and picklable."""

    def __init__(self, stages: Pipeline):
        self.pipeline = stages

    def __call__(self, text: str, probabilities: bool = True) -> Document:
        """Sentences, tokens, trees and entities of a text."""
        surface = segment(text)
        if not surface:
            return Document(text, [], "")
        block = from_bytes(to_conllu(text), "<text>", CONLLU)
        data = annotate(
            self.pipeline, block, self.pipeline.extractor, Output(marginals=probabilities)
        )
        return document(text, surface, from_bytes(data, "<text>", CONLLU))


def load(name: str) -> NLP:
    """A shipped pipeline or model by name (`turbotag models` lists them), or a model file."""
    return NLP(pipeline(name))


class _OnLists:
    """What Tagger and Parser share: options, files, and an extractor for each thread."""

    kind: Any
    model: Any = None

    def __init__(self, **options: Any):
        self.options = options
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()

    def _fitted(self) -> Any:
        if self.model is None:
            raise UsageError(f"this {type(self).__name__} is not trained: call fit or load first")
        return self.model

    def _extractor(self) -> Any:
        if getattr(self._local, "model", None) is not self.model:
            self._local.model, self._local.extractor = self.model, self.model.new_extractor()
        return self._local.extractor

    def save(self, path: str) -> None:
        """Write the model file that `turbotag predict` reads."""
        self._fitted().save(path)

    @classmethod
    def load(cls, name: str) -> Any:
        """From a model file, or a shipped model by name."""
        self = cls()
        self.model = self.kind.load(find(name))
        return self


class Tagger(_OnLists):
    """Tags for words: parts of speech, chunks, entities.

        tagger = Tagger("ner", C=0.3).fit(sentences, tags)
        tagger.predict([["Ada", "sings"]])

    A sentence is a list of words, or of tuples of columns with the word first; the task is ner, pos
    or chunk, and options are those of `turbotag train`.
    """

    kind = taggers.Tagger

    def __init__(self, task: str = "pos", **options: Any):
        super().__init__(**options)
        self.task = task

    def fit(
        self,
        sentences: Sequence[Words],
        tags: Sequence[Sequence[str]],
        dev: tuple[Sequence[Words], Sequence[Sequence[str]]] | None = None,
    ) -> Tagger:
        options = options_for(
            self.task,
            train=_columns(sentences, tags),
            dev=_columns(*dev) if dev else None,
            format="columns",
            **_columns_of(sentences),
            **_options(self.options),
        )
        self.model, _ = train(options, os.devnull)
        return self

    def predict(self, sentences: Sequence[Words]) -> list[list[str]]:
        """The best tags of each sentence."""
        if not sentences:
            return []
        block = self._block(sentences)
        tags = self._fitted().tag(block, self._extractor())
        strings, ids = self.model.output_labels(tags, block.sentences)
        return _cut([strings[i] for i in ids.tolist()], block.sentences)

    def predict_marginals(self, sentences: Sequence[Words]) -> list[list[dict[str, float]]]:
        """The probability of every tag of every word."""
        if not sentences:
            return []
        block, model = self._block(sentences), self._fitted()
        posterior = model.posterior(model.scores(block, self._extractor()), block.sentences)
        rows = [dict(zip(model.labels, p, strict=True)) for p in posterior.tolist()]
        return _cut(rows, block.sentences)

    def score(self, sentences: Sequence[Words], tags: Sequence[Sequence[str]]) -> float:
        """F1 of spans (conlleval) for ner and chunk, accuracy for other tags; from 0 to 1."""
        from turbotag.models.evaluation import evaluate_model

        model = self._fitted()
        options = Options(
            model.header["task"],
            _columns(sentences, tags),
            format="columns",
            **_columns_of(sentences),
        )
        return evaluate_model(options, model, options.train, strict=False).main

    def _block(self, sentences: Sequence[Words]) -> Block:
        return read(_columns(sentences), "columns", self._fitted().naming)


class Parser(_OnLists):
    """Dependency trees for tagged words.

        parser = Parser(epochs=5).fit(sentences, trees)
        parser.predict([[("Ada", "PROPN"), ("sings", "VERB")]])

    A sentence is a list of (word, universal tag) or (word, universal tag, other tag); a tree a list
    of (head, label), where heads count words from 1 and 0 is the root. Options are those of
    `turbotag train --task parse`.
    """

    kind = parsers.Parser

    def fit(
        self,
        sentences: Sequence[Words],
        trees: Sequence[Tree],
        dev: tuple[Sequence[Words], Sequence[Tree]] | None = None,
    ) -> Parser:
        options = options_for(
            "parse",
            train=_conllu(sentences, trees),
            dev=_conllu(*dev) if dev else None,
            format="conllu",
            **_options(self.options),
        )
        self.model, _ = train_parser(options, os.devnull)
        return self

    def predict(self, sentences: Sequence[Words]) -> list[list[tuple[int, str]]]:
        """The tree of each sentence."""
        if not sentences:
            return []
        block = read(_conllu(sentences), "conllu")
        parsed = self._fitted().parse(block, self._extractor())
        labels = [self.model.labels[i] for i in parsed.labels.tolist()]
        return _cut(list(zip(parsed.heads.tolist(), labels, strict=True)), block.sentences)

    def predict_marginals(self, sentences: Sequence[Words]) -> list[np.ndarray]:
        """(n+1, n+1) for each sentence: the probability that word h is the head of word m.

        Those of a word's heads sum to 1. A parser with second-order parts gives approximate ones.
        """
        if not sentences:
            return []
        block, model, scanner = (
            read(_conllu(sentences), "conllu"),
            self._fitted(),
            self._extractor(),
        )
        matrix, cuts = model.matrix(block, scanner), block.sentences.tolist()
        return [
            model.arc_probabilities(matrix[a:b], scanner)
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]

    def score(self, sentences: Sequence[Words], trees: Sequence[Tree]) -> float:
        """Labelled attachment score over all words, from 0 to 1."""
        block = read(_conllu(sentences, trees), "conllu")
        found = score_parser(self._fitted(), block).conventions["conll18"]
        return found.uas if found.las is None else found.las


# ---- Lists to files in memory --------------------------------------------------------------------


def _columns(sentences: Sequence[Words], tags: Sequence[Sequence[str]] | None = None) -> bytes:
    """Tab-separated columns, the tag last, or _ for it."""
    if tags is not None and len(tags) != len(sentences):
        raise DataError(f"{len(sentences)} sentences, but tags of {len(tags)}")
    lines = []
    for s, words in enumerate(_checked(sentences)):
        own = tags[s] if tags is not None else None
        if own is not None and len(own) != len(words):
            raise DataError(f"sentence {s} has {len(words)} words, but {len(own)} tags")
        for t, word in enumerate(words):
            row = [*_row(word, s), "_" if own is None else _field(own[t], s)]
            if row[0] == "-DOCSTART-":
                raise DataError(f"sentence {s} has '-DOCSTART-', which marks documents in files")
            lines.append("\t".join(row))
        lines.append("")
    return "\n".join([*lines, ""]).encode()


def _columns_of(sentences: Sequence[Words]) -> dict[str, Any]:
    """Names of the columns, for the first word has them all."""
    first = next((w for words in sentences for w in words), "")
    n = 1 if isinstance(first, str) else len(first)
    names = ("word", "pos", "chunk", *(f"col{i}" for i in range(4, n + 1)))
    return {"columns": (*names[:n], "tag"), "target": "tag"}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Options of training; what they do not know are parameters of the algorithm."""
    known = {f.name for f in fields(Options)}
    own = {k: v for k, v in given.items() if k in known}
    params = {k.replace("_", "-"): v for k, v in given.items() if k not in known}
    return own | {"params": own.get("params", {}) | params}


def _conllu(sentences: Sequence[Words], trees: Sequence[Tree] | None = None) -> bytes:
    if trees is not None and len(trees) != len(sentences):
        raise DataError(f"{len(sentences)} sentences, but {len(trees)} trees")
    lines = []
    for s, words in enumerate(_checked(sentences)):
        tree = trees[s] if trees is not None else [("_", "_")] * len(words)
        if len(tree) != len(words):
            raise DataError(f"sentence {s} has {len(words)} words, but a tree of {len(tree)}")
        for t, (word, (head, label)) in enumerate(zip(words, tree, strict=True), 1):
            form, upos, xpos = (*_row(word, s), "_", "_")[:3]
            arc = [str(head), _field(label, s)]
            lines.append("\t".join([str(t), form, "_", upos, xpos, "_", *arc, "_", "_"]))
        lines.append("")
    return "\n".join([*lines, ""]).encode()


def _checked(sentences: Sequence[Words]) -> Iterable[Words]:
    for s, words in enumerate(sentences):
        if isinstance(words, str) or not len(words):
            raise DataError(f"sentence {s} is not a list of words, or has none")
        yield words


def _row(word: str | Sequence[str], s: int) -> list[str]:
    return [_field(f, s) for f in ([word] if isinstance(word, str) else word)]


def _field(field: str, s: int) -> str:
    if not field or any(c in field for c in "\t\n\r\0"):
        raise DataError(f"sentence {s} has {field!r}: a field is text without tabs and line breaks")
    return field


def _cut(flat: list[Any], sentences: np.ndarray) -> list[list[Any]]:
    cuts = sentences.tolist()
    return [flat[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
