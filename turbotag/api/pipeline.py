"""Pipelines on strings: `turbotag.load` gives an NLP, which makes documents of texts."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, overload

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, from_bytes
from turbotag.documents.document import Document
from turbotag.documents.reading import documents
from turbotag.errors import ArgumentError, DataError
from turbotag.models.model import Output
from turbotag.models.pipeline import Pipeline, pipeline
from turbotag.models.prediction import annotate, in_order

BATCH = 1 << 18  # characters that a batch of texts has, about
TAKEN = "pipe() takes texts (str) or TokenLists of conllu"
LETTERS = 6  # of a word and the blank behind it, about


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

        A TokenList of the conllu package, or a list of TokenLists, gives the same, annotated: words
        and sentences stay as they are, and so do fields that CoNLL-U does not have.
        probabilities: whether to find probabilities too, which takes longer.
        """
        if _is_conllu(text):
            return self._annotated(text, probabilities)
        if not isinstance(text, str):
            more = "; pipe() takes many texts" if isinstance(text, Iterable) else ""
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
        """The documents of many texts, in their order; as fast as one text that has them all.

        TokenLists of the conllu package in place of texts give annotated TokenLists, as
        `nlp(tokens)` does. batch_size: how many texts are annotated at once, at most (fewer of long
        texts); threads: how many batches are annotated at the same time; as_tuples: whether texts
        come as pairs (text, anything) and documents as pairs (document, anything).
        """
        if isinstance(texts, str) or _is_sentence(texts) or not isinstance(texts, Iterable):
            raise ArgumentError(f"pipe() takes a list of texts, not {texts!r:.60}")
        for name, number in (("batch_size", batch_size), ("threads", threads)):
            if not isinstance(number, int) or number < 1:
                raise ArgumentError(f"{name} is {number!r}: it must be a whole number above 0")

        def work(batch: list[tuple[Any, Any]]) -> list[Any]:
            given = [text for text, _ in batch]
            annotate = self._documents if isinstance(given[0], str) else self._annotated
            found = annotate(given, probabilities)
            if not as_tuples:
                return found
            return list(zip(found, (context for _, context in batch), strict=True))

        batches = _batches(texts if as_tuples else ((text, None) for text in texts), batch_size)
        return (doc for found in in_order(work, batches, threads) for doc in found)

    def _documents(self, texts: list[str], probabilities: bool) -> list[Document]:
        self.pipeline.check_raw()
        told: list[str] = []
        pieces = self.pipeline.segmenter.all_to_conllu(texts, told.append)
        for line in told:
            warnings.warn(line, stacklevel=3)  # at the line that calls the pipeline
        block = from_bytes(b"".join(pieces), "<text>", CONLLU)
        data = self._annotate(block, probabilities)
        counts = [piece.count(b"\n\n") for piece in pieces]
        return documents(texts, counts, from_bytes(data, "<text>", CONLLU), self.pipeline)

    def _annotate(self, block: Block, probabilities: bool) -> bytes:
        output = Output(marginals=probabilities)
        return annotate(self.pipeline, block, self.pipeline.extractor, output)

    def _annotated(self, given: Any, probabilities: bool) -> Any:
        """given: a TokenList of the conllu package, or a list of them."""
        import conllu

        single = isinstance(given, conllu.models.TokenList)
        sentences = [given] if single else list(given)
        data = "".join(_filled(s).serialize() for s in sentences if len(s))
        made = b""
        if data:
            made = self._annotate(from_bytes(data.encode(), "<conllu>", CONLLU), probabilities)
        found = iter(conllu.parse(made.decode()))
        out = [_with_others(s, next(found)) if len(s) else s.copy() for s in sentences]
        return out[0] if single else conllu.models.SentenceList(out)


def _filled(sentence: Any) -> Any:
    """A TokenList with all fields of CoNLL-U; words without an id get their number."""
    import conllu

    columns = ["form" if column == "word" else column for column in CONLLU.columns[1:]]
    if not all(token.get("form") for token in sentence):
        raise DataError(f"a token of {sentence!r:.60} has no form")
    tokens = [
        conllu.models.Token({"id": token.get("id", n)} | {c: token.get(c) for c in columns})
        for n, token in enumerate(sentence, 1)
    ]
    return conllu.models.TokenList(tokens, sentence.metadata)


def _with_others(given: Any, found: Any) -> Any:
    """The annotated sentence `found`, with the fields of `given` that CoNLL-U does not have."""
    for token, own in zip(found, given, strict=True):
        token.update({name: value for name, value in own.items() if name not in token})
    return found


def load(name: str) -> NLP:
    """A shipped pipeline or model by name (`turbotag models` lists them), or a model file."""
    return NLP(pipeline(name))


def _is_sentence(given: Any) -> bool:
    """Whether it is a TokenList of the conllu package."""
    package = sys.modules.get("conllu")
    return package is not None and isinstance(given, package.models.TokenList)


def _is_conllu(given: Any) -> bool:
    """Whether it is a sentence or a list of sentences of the conllu package, which is imported only
    where somebody has one."""
    package = sys.modules.get("conllu")
    if package is None or not isinstance(given, list):
        return False
    if isinstance(given, package.models.TokenList | package.models.SentenceList):
        return True
    return bool(given) and all(map(_is_sentence, given))


def _batches(texts: Iterable[Any], batch_size: int) -> Iterator[list[tuple[Any, Any]]]:
    """Batches of pairs (text or TokenList, what the caller gave with it)."""
    batch: list[tuple[Any, Any]] = []
    size, kinds = 0, set()
    for each in texts:
        if not isinstance(each, tuple) or len(each) != 2:
            raise ArgumentError(
                f"with as_tuples, pipe() takes pairs (text, anything), not {each!r:.60}"
            )
        given = each[0]
        if not isinstance(given, str) and not _is_sentence(given):
            raise ArgumentError(f"{TAKEN}, not {given!r:.60}")
        kinds.add(isinstance(given, str))
        if len(kinds) > 1:
            raise ArgumentError(f"{TAKEN}, not both in one call")
        batch.append(each)
        size += len(given) if isinstance(given, str) else LETTERS * len(given)
        if len(batch) == batch_size or size > BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
