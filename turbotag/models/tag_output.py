"""What a tagger writes: tags into their column, probabilities behind it, the best n answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from turbotag.corpus.formats import CRFSUITE_LABEL, Conll
from turbotag.corpus.reader import Block
from turbotag.corpus.writer import Edits
from turbotag.features.extract import Extractor
from turbotag.models.model import Answer, Output

if TYPE_CHECKING:
    from turbotag.models.tagger import Tagger


def annotate(
    tagger: Tagger, block: Block, extractor: Extractor, output: Output, edits: Edits
) -> None:
    """Tags of a block, with probabilities if they are asked for."""
    scores, sentences = tagger.scores(block, extractor), block.sentences
    decode = tagger.posterior_decode if output.decode == "posterior" else tagger.viterbi
    tags = decode(scores, sentences)
    strings, ids = tagger.output_labels(tags, block)
    if not output.marginals:
        _put_tags(tagger, edits, strings, ids)
        return
    found = tagger.marginals(scores, sentences, tags)
    token = [f"{p:.4f}" for p in found.token.tolist()]
    entity = ["_"] * block.n_tokens
    if found.spans is not None:
        for a, b, p in zip(found.spans.start, found.spans.end, found.span, strict=True):
            entity[a : b + 1] = [f"{p:.4f}"] * int(b - a + 1)
    entity_too = entity if found.spans is not None else None
    _put_tags(tagger, edits, strings, ids, token, entity_too, output.prefix)


def answers(
    tagger: Tagger, block: Block, extractor: Extractor, n: int
) -> Callable[[int, int], Iterator[Answer]]:
    """A function that gives the n best sequences of tags of the sentence of tokens a..b-1."""
    scores = tagger.scores(block, extractor)

    def best(a: int, b: int) -> Iterator[Answer]:
        paths, probabilities = tagger.nbest(scores[a:b], n)
        for path, p in zip(paths, probabilities.tolist(), strict=True):
            strings, ids = tagger.output_labels(path, block, a)
            yield p, lambda edits, s=strings, i=ids: _put_tags(tagger, edits, s, i)  # type: ignore[misc]

    return best


def _put_tags(
    tagger: Tagger,
    edits: Edits,
    strings: list[str],
    ids: np.ndarray,
    token: list[str] | None = None,
    entity: list[str] | None = None,
    prefix: str = "",
) -> None:
    """Tags into their column; probabilities behind it.

    Columns and text get columns at the end (tag if there is none yet, probability of the tag,
    probability of its entity or _). CoNLL-U gets Prob= and EntityProb= in MISC, and the tag there
    too if it has no column for it. CRFsuite files get label:probability, as CRFsuite prints.
    """
    fmt = edits.block.format
    at = tagger.target(fmt)
    each = np.arange(edits.n_tokens)
    if fmt.name == "crfsuite":
        if token is not None:
            strings = [f"{strings[i]}:{p}" for i, p in zip(ids.tolist(), token, strict=True)]
            ids = each
        edits.replace(CRFSUITE_LABEL, strings, ids)
    elif fmt.ids:
        notes = [""] * edits.n_tokens
        if at == Conll.MISC:  # the tag and what is said of it share a column
            notes = [strings[i] for i in ids.tolist()]
        elif at is not None:
            edits.replace(at, strings, ids)
        else:
            name = tagger.header["task"].upper()
            notes = [f"{name}={strings[i]}" for i in ids.tolist()]
        if token is not None:
            notes = [f"{n}|{prefix}Prob={p}".lstrip("|") for n, p in zip(notes, token, strict=True)]
        if entity is not None:
            notes = [
                n if p == "_" else f"{n}|EntityProb={p}".lstrip("|")
                for n, p in zip(notes, entity, strict=True)
            ]
        if at == Conll.MISC:
            edits.replace(at, notes, each)
        elif at is None or token is not None:
            edits.note(notes, each)
    else:
        if at is None:
            edits.append(strings, ids)
        else:
            edits.replace(at, strings, ids)
        for column in (token, entity):
            if column is not None:
                edits.append(column, each)
