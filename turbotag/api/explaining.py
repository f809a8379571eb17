"""Explanations of the annotation of a document."""

from __future__ import annotations

import numpy as np

from turbotag.api.pipeline import NLP
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes
from turbotag.documents.document import Document, Token
from turbotag.errors import ArgumentError, UsageError
from turbotag.report import explain as explanations
from turbotag.report.explanation import Explanation


def explain(
    doc: Document, word: Token | int, against: str | int | None = None, nlp: NLP | None = None
) -> list[Explanation]:
    """Why a word of a document has its tags, its head and its label, one explanation for each.

    word: a token of the document, or its number in `doc.tokens`; against: a tag, a label or the
    number of a head to compare with, instead of the next best one; then only what can have that
    value is explained; nlp: the pipeline that made the document, if the document was pickled since.
    """
    model = doc.pipeline if nlp is None else nlp.pipeline
    if model is None:
        raise UsageError("the document has no pipeline (pickling drops it): give one as nlp=")
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
