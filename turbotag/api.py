"""The library: pipelines on strings, taggers and parsers on lists; no files needed.

import turbotag
nlp = turbotag.load("en")
for sentence in nlp("Ada flew to Oslo.").sentences: ...
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from turbotag import kernels
from turbotag.corpus import lists
from turbotag.corpus.formats import CONLLU, CRFSUITE, columns_format
from turbotag.corpus.reader import Block, from_bytes
from turbotag.corpus.text import segment, to_conllu
from turbotag.errors import ArgumentError, DataError, UsageError
from turbotag.models import options
from turbotag.models import parser as parsers
from turbotag.models import tagger as taggers
from turbotag.models.document import Document, Entity, Sentence, Token, document
from turbotag.models.gold import TASKS, Options, options_for
from turbotag.models.parser_training import score_parser, train_parser
from turbotag.models.pipeline import Pipeline, pipeline
from turbotag.models.prediction import Output, annotate
from turbotag.models.shipped import find
from turbotag.models.training import reads_attributes, train

TAG_TASKS = tuple(task for task in TASKS if task != "parse")
OPTIONS = {*options.COMMON, *options.TAGGERS, *options.PARSERS}

__all__ = ["Document", "Entity", "Parser", "Sentence", "Tagger", "Token", "load"]

Tokens = Sequence[lists.Token]  # of a sentence: words, columns or features
Words = Sequence[Any]  # of a sentence for a parser: see Parser
Tree = Sequence[tuple[int, str]]  # head (0 is the root, 1 the first word) and label of each word

kernels.tell(lambda line: warnings.warn(f"turbotag: {line}", stacklevel=2))


class NLP:
    """A pipeline to be called on texts; safe to share between threads, and picklable."""

    def __init__(self, stages: Pipeline):
        self.pipeline = stages

    def __call__(self, text: str, probabilities: bool = True) -> Document:
        """Sentences, tokens, trees and entities of a text."""
        if not isinstance(text, str):
            more = "; pipe() takes many" if isinstance(text, Iterable) else ""
            raise ArgumentError(f"a pipeline takes a text (str), not {text!r:.60}{more}")
        self.pipeline.check_raw()
        surface = segment(text)
        if not surface:
            return Document(text, [], "")
        conllu = to_conllu(text, warn=lambda line: warnings.warn(line, stacklevel=5))
        block = from_bytes(conllu, "<text>", CONLLU)
        data = annotate(
            self.pipeline, block, self.pipeline.extractor, Output(marginals=probabilities)
        )
        return document(text, surface, from_bytes(data, "<text>", CONLLU))

    def pipe(self, texts: Iterable[str], probabilities: bool = True) -> Iterator[Document]:
        """The documents of many texts, one after the other."""
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise ArgumentError(f"pipe() takes a list of texts, not {texts!r:.60}")
        return (self(text, probabilities) for text in texts)


def load(name: str) -> NLP:
    """A shipped pipeline or model by name (`turbotag models` lists them), or a model file."""
    return NLP(pipeline(name))


class _OnLists:
    """What Tagger and Parser share: options, files, and an extractor for each thread."""

    kind: Any
    model: Any = None

    def _take(self, task: str, given: dict[str, Any]) -> None:
        """given: what the constructor was given, as its locals() has it."""
        own = {name: value for name, value in given.items() if name in OPTIONS}
        self.task, self.options = task, options.named(task, own | given["parameters"])
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
        self.task = self.model.header["task"]
        return self


class Tagger(_OnLists):
    """Tags for words: parts of speech, chunks, entities.

        tagger = Tagger("ner", C=0.3).fit(sentences, tags)
        tagger.predict([["Ada", "sings"]])

    The task is ner, pos or chunk, and options are those of `turbotag train`. A sentence is a list
    of tokens, and what a token is says how it is read:

    - a str is a word, and the task's templates (or `template`) make features of it;
    - a tuple is columns, the word first, such as ("Ada", "PROPN");
    - a dict, a list of str or a set of str is features of your own, in python-crfsuite's meaning:
      {"word.lower()": "ada", "bias": 1.0, "is_title": True}, or ["w=ada", "cap"]. Numbers are
      values, which scale the weights; a nested {"next": {"cap": True}} is the feature next:cap.

    All tokens are of one kind, in training and in prediction.
    """

    kind = taggers.Tagger

    def __init__(
        self,
        task: str = "pos",
        *,
        template: str | None = None,
        gazetteers: dict[str, str] | None = None,
        scheme: str | None = None,
        strict: bool | None = None,
        constraints: str | None = None,
        order: int | None = None,
        compact: bool | None = None,
        drop: float | None = None,
        loss: str | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        C: float | None = None,
        algorithm: str | None = None,
        epochs: int | None = None,
        stop_gap: float | str | None = None,
        patience: int | None = None,
        keep: str | None = None,
        max_oracle_calls: int | None = None,
        max_seconds: float | None = None,
        init: str | None = None,
        seed: int | None = None,
        licence: str | None = None,
        calibration: bool | None = None,
        **parameters: Any,
    ):
        """Options are those of `turbotag train`, whose help explains each; None is its default.

        template: a shipped set of templates or a file; gazetteers: files of names by name;
        scheme: what span tags are trained in (iob1, iob2, iobes); strict: refuse irregular ones;
        constraints: none, decode or train; order: of the chain, 1 or 2; compact: small files,
        and drop: what share of the largest weight they leave out; loss, beta, gamma: the loss;
        C: regularization, lambda = 1/(C n); algorithm: the optimizer; epochs, stop_gap, patience,
        max_oracle_calls, max_seconds: when it stops; keep: with dev, the best epoch or the last;
        init: a model to go on from; seed; licence: kept in the model; calibration: False
        leaves probabilities as they are; parameters: of the algorithm, such as sampling of sdca.
        """
        if task not in TAG_TASKS:
            raise UsageError(f"unknown task {task!r}: a Tagger's is one of {', '.join(TAG_TASKS)}")
        self._take(task, locals())

    def fit(
        self,
        sentences: Sequence[Tokens],
        tags: Sequence[Sequence[str]],
        dev: tuple[Sequence[Tokens], Sequence[Sequence[str]]] | None = None,
    ) -> Tagger:
        """Train on sentences and the tags of their tokens.

        dev: sentences and tags that are held out: they choose the best epoch.
        """
        data = lists.tagged(sentences, tags)
        held_out = lists.tagged(*dev) if dev else None
        settings = options_for(
            self.task,
            train=data.data,
            dev=held_out.data if held_out else None,
            **_layout(data),
            **self.options,
        )
        if settings.template:
            _same_kind(f"template {settings.template!r}", reads_attributes(settings.template), data)
        if held_out:
            _same_kind("the training data", data.features, held_out)
        self.model, _ = train(settings, os.devnull)
        return self

    def predict(self, sentences: Sequence[Tokens]) -> list[list[str]]:
        """The best tags of each sentence."""
        if not len(sentences):
            return []
        block = self._block(sentences)
        tags = self._fitted().tag(block, self._extractor())
        strings, ids = self.model.output_labels(tags, block.sentences)
        return _cut([strings[i] for i in ids.tolist()], block.sentences)

    def predict_marginals(self, sentences: Sequence[Tokens]) -> list[list[dict[str, float]]]:
        """The probability of every tag of every word."""
        if not len(sentences):
            return []
        block, model = self._block(sentences), self._fitted()
        posterior = model.posterior(model.scores(block, self._extractor()), block.sentences)
        rows = [dict(zip(model.labels, p, strict=True)) for p in posterior.tolist()]
        return _cut(rows, block.sentences)

    def score(self, sentences: Sequence[Tokens], tags: Sequence[Sequence[str]]) -> float:
        """F1 of spans (conlleval) for ner and chunk, accuracy for other tags; from 0 to 1."""
        from turbotag.models.evaluation import evaluate_model

        model = self._fitted()
        data = lists.tagged(sentences, tags)
        _same_kind("this Tagger", model.input_format is not None, data)
        settings = Options(model.header["task"], data.data, **_layout(data))
        return evaluate_model(settings, model, settings.train, strict=False).main

    def _block(self, sentences: Sequence[Tokens]) -> Block:
        model, data = self._fitted(), lists.tagged(sentences)
        _same_kind("this Tagger", model.input_format is not None, data)
        if data.features:
            return from_bytes(data.data, "<memory>", CRFSUITE)
        names = (*model.naming(data.width), "")  # the last column is the tag's, and empty
        return from_bytes(data.data, "<memory>", columns_format(len(names), True, names))


class Parser(_OnLists):
    """Dependency trees for tagged words.

        parser = Parser(epochs=5).fit(sentences, trees)
        parser.predict([[("Ada", "PROPN"), ("sings", "VERB")]])

    A sentence is a list of tokens; a tree is a list of (head, label), where heads count words from
    1 and 0 is the root. Options are those of `turbotag train --task parse`. A token is

    - a tuple: (word, universal tag) or (word, universal tag, other tag);
    - a dict or an object with fields of CoNLL-U: form (or text, or word), lemma, upos, xpos and
      feats, which is a str or a dict; None or nothing where one is not known. Tokens of the conllu
      package are such dicts, those of `turbotag.load` such objects. Multiword ranges and empty
      nodes are left out, in trees too;
    - a str: a word without tags, for a parser that learned from such words.

    Templates read what is given. A parser that learned from tags refuses sentences without any.
    """

    kind = parsers.Parser

    def __init__(
        self,
        *,
        template: str | None = None,
        decoder: str | None = None,
        multi_root: bool | None = None,
        crossing: str | None = None,
        labels: bool | None = None,
        prune: bool | None = None,
        heads: int | None = None,
        min_count: int | None = None,
        jackknife: int | None = None,
        supertags: int | None = None,
        parts: tuple[str, ...] | None = None,
        entropy: str | None = None,
        rounds: int | None = None,
        damping: float | None = None,
        tolerance: float | None = None,
        drop: float | None = None,
        loss: str | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        C: float | None = None,
        algorithm: str | None = None,
        epochs: int | None = None,
        stop_gap: float | str | None = None,
        patience: int | None = None,
        keep: str | None = None,
        max_oracle_calls: int | None = None,
        max_seconds: float | None = None,
        init: str | None = None,
        seed: int | None = None,
        licence: str | None = None,
        calibration: bool | None = None,
        **parameters: Any,
    ):
        """Options are those of `turbotag train --task parse`; None is its default.

        template: of arcs, a file; decoder: which trees there are; multi_root: several words may
        hang on the root; crossing: what a projective parser does with other trees; labels: False
        for heads alone; prune: False to score all arcs, heads: how many a word keeps otherwise;
        min_count: of features of wrong arcs; jackknife, supertags: folds; parts: of second order
        (cs, gp, as), entropy, rounds, damping, tolerance: their approximation; drop: weights that
        are left out. The others are those of Tagger.
        """
        self._take("parse", locals())

    def fit(
        self,
        sentences: Sequence[Words],
        trees: Sequence[Tree],
        dev: tuple[Sequence[Words], Sequence[Tree]] | None = None,
    ) -> Parser:
        """Train on sentences and their trees.

        dev: sentences and trees that are held out: they choose the best epoch.
        """
        settings = options_for(
            self.task,
            train=lists.conllu(sentences, trees),
            dev=lists.conllu(*dev) if dev else None,
            format="conllu",
            **self.options,
        )
        self.model, _ = train_parser(settings, os.devnull)
        return self

    def predict(self, sentences: Sequence[Words]) -> list[list[tuple[int, str]]]:
        """The tree of each sentence."""
        if not len(sentences):
            return []
        block = self._block(sentences)
        parsed = self.model.parse(block, self._extractor())
        labels = [self.model.labels[i] for i in parsed.labels.tolist()]
        return _cut(list(zip(parsed.heads.tolist(), labels, strict=True)), block.sentences)

    def predict_marginals(self, sentences: Sequence[Words]) -> list[np.ndarray]:
        """(n+1, n+1) for each sentence: the probability that word h is the head of word m.

        Those of a word's heads sum to 1. A parser with second-order parts gives approximate ones.
        """
        if not len(sentences):
            return []
        block, model, scanner = self._block(sentences), self.model, self._extractor()
        matrix, cuts = model.matrix(block, scanner), block.sentences.tolist()
        return [
            model.arc_probabilities(matrix[a:b], scanner)
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]

    def score(self, sentences: Sequence[Words], trees: Sequence[Tree]) -> float:
        """Labelled attachment score over all words, from 0 to 1."""
        block = self._block(sentences, trees)
        found = score_parser(self.model, block).conventions["conll18"]
        return found.uas if found.las is None else found.las

    def _block(self, sentences: Sequence[Words], trees: Any = lists.UNKNOWN) -> Block:
        model = self._fitted()
        block = from_bytes(lists.conllu(sentences, trees), "<memory>", CONLLU)
        model.check_tags(block)
        return block


# ---- Lists ---------------------------------------------------------------------------------------


def _layout(data: lists.Tagged) -> dict[str, Any]:
    """The format of sentences and, of words, the names of their columns."""
    if data.features:
        return {"format": data.format}
    names = ("word", "pos", "chunk", *(f"col{i}" for i in range(4, data.width + 1)))
    return {"format": data.format, "columns": (*names[: data.width], "tag"), "target": "tag"}


def _same_kind(reader: str, features: bool, given: lists.Tagged) -> None:
    """DataError unless sentences are of the kind, words or features, that something reads."""
    kinds = {True: "features (a dict or a list of str for each token)", False: "words"}
    if features != given.features:
        raise DataError(f"{reader} reads {kinds[features]}, but given are {kinds[given.features]}")


def _cut(flat: list[Any], sentences: np.ndarray) -> list[list[Any]]:
    cuts = sentences.tolist()
    return [flat[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
