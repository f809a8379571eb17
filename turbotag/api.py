"""The library: pipelines on strings, taggers and parsers on lists; no files needed.

import turbotag
nlp = turbotag.load("en")
for sentence in nlp("Ada flew to Oslo.").sentences: ...
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, overload

import numpy as np

from turbotag import kernels
from turbotag.corpus import lists
from turbotag.corpus.formats import CONLLU, CRFSUITE, columns_format
from turbotag.corpus.reader import Block, from_bytes
from turbotag.documents.document import Document, Entity, Sentence, Span, Token
from turbotag.documents.pictures import draw
from turbotag.documents.reading import documents
from turbotag.errors import ArgumentError, DataError, UsageError
from turbotag.models import parser as parsers
from turbotag.models import tagger as taggers
from turbotag.models.gold import Layout, score_parser
from turbotag.models.model import Output
from turbotag.models.pipeline import Pipeline, pipeline
from turbotag.models.prediction import annotate, in_order
from turbotag.models.shipped import find
from turbotag.optim.trace import Trace
from turbotag.report import explain as explanations
from turbotag.report.explain import Explanation
from turbotag.training import options, train
from turbotag.training.options import TAG_TASKS, options_for
from turbotag.training.tagger import reads_attributes

BATCH = 1 << 18  # characters that a batch of texts has, about
OPTIONS = {*options.COMMON, *options.TAGGERS, *options.PARSERS}

__all__ = [
    "Document",
    "Entity",
    "Explanation",
    "Parser",
    "Sentence",
    "Span",
    "Tagger",
    "Token",
    "draw",
    "explain",
    "load",
]

Tokens = Sequence[lists.Token]  # of a sentence: words, columns or features
Words = Sequence[Any]  # of a sentence for a parser: see Parser
Tree = Sequence[tuple[int, str]]  # head (0 is the root, 1 the first word) and label of each word

kernels.tell(lambda line: warnings.warn(f"turbotag: {line}", stacklevel=2))


class NLP:
    """A pipeline to be called on texts; safe to share between threads, and picklable."""

    def __init__(self, stages: Pipeline):
        self.pipeline = stages

    @overload
    def __call__(self, text: str, probabilities: bool = False) -> Document: ...
    @overload
    def __call__(self, text: Any, probabilities: bool = False) -> Any: ...
    def __call__(self, text: Any, probabilities: bool = False) -> Any:
        """Sentences, tokens, trees and entities of a text, a `Document`.

        A TokenList or a SentenceList of the conllu package gives another one, annotated: its words
        and sentences stay as they are. probabilities: find them too, which takes longer.
        """
        if _is_conllu(text):
            return self._annotated(text, probabilities)
        if not isinstance(text, str):
            more = "; pipe() takes many" if isinstance(text, Iterable) else ""
            raise ArgumentError(f"a pipeline takes a text (str), not {text!r:.60}{more}")
        return self._documents([text], probabilities)[0]

    def pipe(
        self,
        texts: Iterable[Any],
        probabilities: bool = False,
        batch_size: int = 256,
        threads: int = 1,
        as_tuples: bool = False,
    ) -> Iterator[Any]:
        """The documents of many texts, one after the other: as fast as those texts in one.

        batch_size: how many texts are annotated at once, at most (long ones fewer); threads: how
        many batches at the same time; as_tuples: texts are (text, anything), and so are documents.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise ArgumentError(f"pipe() takes a list of texts, not {texts!r:.60}")
        for name, number in (("batch_size", batch_size), ("threads", threads)):
            if not isinstance(number, int) or number < 1:
                raise ArgumentError(f"{name} is {number!r}: it is a number from 1 on")

        def work(batch: list[tuple[str, Any]]) -> list[Any]:
            found = self._documents([text for text, _ in batch], probabilities)
            if not as_tuples:
                return found
            return list(zip(found, (context for _, context in batch), strict=True))

        batches = _batches(texts if as_tuples else ((text, None) for text in texts), batch_size)
        return (doc for found in in_order(work, batches, threads) for doc in found)

    def _documents(self, texts: list[str], probabilities: bool) -> list[Document]:
        self.pipeline.check_raw()
        pieces = []
        for text in texts:
            pieces.append(self.pipeline.segmenter.to_conllu(text, warn=_warn))
        block = from_bytes(b"".join(pieces), "<text>", CONLLU)
        data = self._annotate(block, probabilities)
        counts = [piece.count(b"\n\n") for piece in pieces]
        return documents(texts, counts, from_bytes(data, "<text>", CONLLU), self.pipeline)

    def _annotate(self, block: Block, probabilities: bool) -> bytes:
        output = Output(marginals=probabilities)
        return annotate(self.pipeline, block, self.pipeline.extractor, output)

    def _annotated(self, given: Any, probabilities: bool) -> Any:
        """given: a TokenList or SentenceList of the conllu package."""
        import conllu

        whole = isinstance(given, conllu.models.SentenceList)
        data = "".join(s.serialize() for s in (given if whole else [given]))
        block = from_bytes(data.encode(), "<conllu>", CONLLU)
        found = conllu.parse(self._annotate(block, probabilities).decode())
        return found if whole else found[0]


def load(name: str) -> NLP:
    """A shipped pipeline or model by name (`turbotag models` lists them), or a model file."""
    return NLP(pipeline(name))


def explain(
    doc: Document, word: Token | int, against: str | int | None = None, nlp: NLP | None = None
) -> list[Explanation]:
    """Why a word of a document has its tags, its head and its label, one explanation for each.

    word: a token of the document, or its number in `doc.tokens`; against: a tag, a label or the
    number of a head to compare with in place of the next best, which leaves only explanations of
    what can have that value; nlp: what made the document, if it was pickled since.
    """
    model = doc.pipeline if nlp is None else nlp.pipeline
    if model is None:
        raise UsageError("the document does not know its pipeline any more: give it as nlp=")
    tokens = doc.tokens
    if isinstance(word, Token):
        if word not in tokens:
            raise ArgumentError(f"{word.text!r} is no token of this document")
        word = tokens.index(word)
    if (
        isinstance(word, bool)
        or not isinstance(word, int)
        or not -len(tokens) <= word < len(tokens)
    ):
        raise ArgumentError(f"a word is a token or a number below {len(tokens)}, not {word!r:.40}")
    starts = np.cumsum([0, *map(len, doc.sentences)])
    at = word % len(tokens)
    sentence = int(np.searchsorted(starts, at, side="right")) - 1
    block = from_bytes(doc.conllu.encode(), "<text>", CONLLU)
    value = None if against is None else str(against)
    return explanations.explain(model, block, sentence, [at - int(starts[sentence]) + 1], value)


class _OnLists:
    """What Tagger and Parser share: options, files, and an extractor for each thread."""

    kind: Any
    model: Any = None
    history: Sequence[
        dict[str, Any]
    ] = ()  # of the last training, a dict for each line of its table

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

    @contextlib.contextmanager
    def _told(
        self, verbose: bool | None, log: str | None
    ) -> Iterator[tuple[Trace, Callable[[str], None]]]:
        """What a training tells: (its table, its other lines). Warnings are told in any case."""
        shown = _watched() if verbose is None else verbose

        def say(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        def warn(line: str) -> None:
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), stacklevel=4)

        trace = Trace(say if shown else None, log, warn)
        yield trace, say if shown else warn
        self.history = [asdict(row) for row in trace.rows]

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
        clusters: dict[str, str] | None = None,
        label_cost: dict[str, float] | None = None,
        scheme: str | None = None,
        strict: bool | None = None,
        constraints: str | None = None,
        order: int | None = None,
        candidates: int | None = None,
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
        threads: int | None = None,
        shards: int | None = None,
        init: str | None = None,
        seed: int | None = None,
        licence: str | None = None,
        calibration: bool | None = None,
        **parameters: Any,
    ):
        """Options are those of `turbotag train`, whose help explains each; None is its default.

        template: a shipped set of templates or a file; gazetteers: files of names by name;
        clusters: files of word clusters by name; label_cost: what a mistake costs where a label, or
        one of a type, is right, in a loss with a cost, which is softmax-margin then; scheme: what
        span tags are trained in (iob1, iob2, iobes); strict: refuse irregular ones;
        constraints: none, decode or train; order: of the chain, 0, 1 or 2; candidates: labels of
        a word that the chain runs over, where there are many; compact: small files,
        and drop: what share of the largest weight they leave out; loss, beta, gamma: the loss;
        C: regularization, lambda = 1/(C n); algorithm: the optimizer; epochs, stop_gap, patience,
        max_oracle_calls, max_seconds: when it stops; threads: that compute, shards: that the
        sentences are dealt to (sdca); keep: with dev, the best epoch or the last;
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
        verbose: bool | None = None,
        log: str | None = None,
        sample_weight: Sequence[float] | None = None,
    ) -> Tagger:
        """Train on sentences and the tags of their tokens.

        sample_weight: how often each sentence counts in the loss, 1 by default; 2 is the sentence
        twice, 0 leaves it out. dev: sentences and tags that are held out: they choose the best
        epoch; verbose: show what is read and a line for each epoch on standard error, by default
        on a terminal and in a notebook; log: a file for these lines as JSON, for `turbotag
        report`. They stay in `history`, too.
        """
        sentences, tags, weights = lists.weighed(sentences, tags, sample_weight)
        data = lists.tagged(sentences, tags)
        held_out = lists.tagged(*dev) if dev else None
        settings = options_for(
            self.task,
            train=data.data,
            dev=held_out.data if held_out else None,
            sentence_weights=weights,
            **_layout(data),
            **self.options,
        )
        if settings.template:
            _same_kind(f"template {settings.template!r}", reads_attributes(settings.template), data)
        if held_out:
            _same_kind("the training data", data.features, held_out)
        with self._told(verbose, log) as (trace, echo):
            self.model, _ = train(settings, None, trace, echo)
        return self

    def predict(self, sentences: Sequence[Tokens]) -> list[list[str]]:
        """The best tags of each sentence."""
        if not len(sentences):
            return []
        block = self._block(sentences)
        tags = self._fitted().tag(block, self._extractor())
        strings, ids = self.model.output_labels(tags, block)
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
        from turbotag.models.tag_comparison import evaluate_model

        model = self._fitted()
        data = lists.tagged(sentences, tags)
        _same_kind("this Tagger", model.input_format is not None, data)
        layout = Layout(task=model.header["task"], **_layout(data))
        return evaluate_model(model, data.data, layout).main

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
        gazetteers: dict[str, str] | None = None,
        clusters: dict[str, str] | None = None,
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
        threads: int | None = None,
        shards: int | None = None,
        init: str | None = None,
        seed: int | None = None,
        licence: str | None = None,
        calibration: bool | None = None,
        **parameters: Any,
    ):
        """Options are those of `turbotag train --task parse`; None is its default.

        template: of arcs, a file; gazetteers, clusters: files of names and of word clusters by
        name; decoder: which trees there are; multi_root: several words may
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
        verbose: bool | None = None,
        log: str | None = None,
    ) -> Parser:
        """Train on sentences and their trees.

        dev: sentences and trees that are held out: they choose the best epoch; verbose, log: as in
        `Tagger.fit`.
        """
        settings = options_for(
            self.task,
            train=lists.conllu(sentences, trees),
            dev=lists.conllu(*dev) if dev else None,
            format="conllu",
            **self.options,
        )
        with self._told(verbose, log) as (trace, echo):
            self.model, _ = train(settings, None, trace, echo)
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


def _watched() -> bool:
    """Whether a person sees standard error: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _is_conllu(given: Any) -> bool:
    """Whether it is a sentence or a list of sentences of the conllu package, which is imported only
    where somebody has one."""
    package = sys.modules.get("conllu")
    return package is not None and isinstance(
        given, package.models.TokenList | package.models.SentenceList
    )


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=6)  # of the call of a pipeline


def _batches(texts: Iterable[tuple[str, Any]], batch_size: int) -> Iterator[list[tuple[str, Any]]]:
    """Texts with what belongs to them, some at a time."""
    batch: list[tuple[str, Any]] = []
    size = 0
    for each in texts:
        if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[0], str):
            raise ArgumentError(f"pipe() takes texts (str), with as_tuples pairs, not {each!r:.60}")
        batch.append(each)
        size += len(each[0])
        if len(batch) == batch_size or size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
