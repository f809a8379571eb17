"""Taggers on lists of words, columns or features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from turbotag.api.arguments import TaggerArguments, signature
from turbotag.api.trained import Trained, cut
from turbotag.corpus import lists
from turbotag.corpus.formats import CRFSUITE, columns_format
from turbotag.corpus.reader import Block, from_bytes
from turbotag.errors import DataError, UsageError
from turbotag.models import tagger as taggers
from turbotag.models.gold import Layout
from turbotag.models.tasks import TASKS
from turbotag.training import train
from turbotag.training.options import options_for
from turbotag.training.tagger import reads_attributes

if TYPE_CHECKING:
    from typing_extensions import Unpack

Tokens = Sequence[lists.Token]  # the tokens of a sentence: words, columns or features


class Tagger(Trained):
    """Tags for words: parts of speech, chunks, entities.

        tagger = Tagger("ner", C=0.3).fit(sentences, tags)
        tagger.predict([["Ada", "sings"]])

    The task is ner, pos or chunk, and options are those of `turbotag train`. A sentence is a list
    of tokens, and the type of a token says how it is read:

    - a str is a word, and the task's templates (or `template`) make features of it;
    - a tuple is columns, the word first, such as ("Ada", "PROPN");
    - a dict, a list of str or a set of str is features of your own, in python-crfsuite's meaning:
      {"word.lower()": "ada", "bias": 1.0, "is_title": True}, or ["w=ada", "cap"]. Numbers are
      values, which scale the weights; a nested {"next": {"cap": True}} is the feature next:cap.

    All tokens are of one kind, in training and in prediction.
    """

    kind = taggers.Tagger
    __signature__ = signature(TaggerArguments, task="pos")

    @overload
    def __init__(self, task: str = "pos", **options: Unpack[TaggerArguments]) -> None: ...
    @overload
    def __init__(self, task: str = "pos", **options: Any) -> None: ...
    def __init__(self, task: str = "pos", **options: Any) -> None:
        """Options are those of `turbotag train`, whose help explains each; None is the default.

        template: a shipped set of templates or a file; gazetteers, clusters: files of names and of
        word clusters, by name; label_cost: the cost of a mistake on a word, by the right label or
        its type; the loss is then softmax-margin; scheme: the scheme in which span tags are trained
        (iob1, iob2, iobes); strict: whether to refuse irregular span tags; constraints: none,
        decode or train; order: of the chain, 0, 1 or 2; candidates: how many labels of a word the
        chain runs over, if there are many; compact: whether to write small model files; drop: the
        share of the largest weight below which files leave weights out; loss, beta, gamma: the
        loss; C: regularization, lambda = 1/(C n); algorithm: the optimizer; epochs, stop_gap,
        patience, max_oracle_calls, max_seconds: when it stops; threads: how many threads compute;
        shards: how many groups sdca deals the sentences to; workers, address: how many processes of
        a Ray cluster, each with a shard, and where it is; keep: the best epoch or the last, if
        there is a dev set; init: a model to go on from; seed: of all randomness; licence: a text
        that is kept in the model; calibration: False leaves probabilities as they are; parameters:
        those of the algorithm, such as sampling of sdca.
        """
        if task not in TASKS:
            raise UsageError(f"unknown task {task!r}: a Tagger takes one of {', '.join(TASKS)}")
        self._take(task, options)

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

        sample_weight: how often each sentence counts in the loss, 1 by default; 2 counts it twice,
        0 leaves it out. dev: held-out sentences and tags, which choose the best epoch; verbose:
        whether to show what is read and a line for each epoch on standard error, by default on a
        terminal and in a notebook; log: a file for these lines as JSON, for `turbotag report`. The
        lines are kept in `history`, too.
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
        return cut([strings[i] for i in ids.tolist()], block.sentences)

    def predict_marginals(self, sentences: Sequence[Tokens]) -> list[list[dict[str, float]]]:
        """The probability of every tag, for every word of every sentence."""
        if not len(sentences):
            return []
        block, model = self._block(sentences), self._fitted()
        posterior = model.posterior(model.scores(block, self._extractor()), block.sentences)
        rows = [dict(zip(model.labels, p, strict=True)) for p in posterior.tolist()]
        return cut(rows, block.sentences)

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
        names = (*model.naming(data.width), "")  # the last column is for the tag, and empty
        return from_bytes(data.data, "<memory>", columns_format(len(names), True, names))


def _layout(data: lists.Tagged) -> dict[str, Any]:
    """The format of the sentences and, if they are words, the names of their columns."""
    if data.features:
        return {"format": data.format}
    names = ("word", "pos", "chunk", *(f"col{i}" for i in range(4, data.width + 1)))
    return {"format": data.format, "columns": (*names[: data.width], "tag"), "target": "tag"}


def _same_kind(reader: str, features: bool, given: lists.Tagged) -> None:
    """DataError unless the sentences are of the kind, words or features, that `reader` reads."""
    kinds = {True: "features (a dict or a list of str for each token)", False: "words"}
    if features != given.features:
        raise DataError(f"{reader} reads {kinds[features]}, but given are {kinds[given.features]}")
