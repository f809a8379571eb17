"""The answers of a model on sentences that it was not trained on, beside gold: the data that
calibration is fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from turbotag.corpus import schemes, trees
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block, Column
from turbotag.models.calibration import Confidence, Items
from turbotag.models.gold import Corpus
from turbotag.structures.pruning import chosen

if TYPE_CHECKING:
    from turbotag.models.parser import Parser
    from turbotag.models.tagger import Tagger


def tag_items(tagger: Tagger, gold: Corpus) -> dict[str, Items]:
    """The answers of a tagger with their probabilities: tags, and entities if the tags are
    spans."""
    sentences, (strings, ids) = gold.block.sentences, _in_scheme(tagger, gold)
    scores = tagger.scores(gold.block)
    tags = tagger.viterbi(scores, sentences)
    right_ids = tagger.known(Column(strings, ids), gold.block)

    def at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        given = scores, sentences
        return (
            tagger.probability(*given, tags, Confidence(sharpness)),
            tagger.probability(*given, right_ids, Confidence(sharpness)),
        )

    chance = np.full(tags.size, 1.0 / len(tagger.labels))
    items = {"tags": Items(tags == right_ids, at, (chance, chance))}
    found = tagger.spans(tags, sentences)
    if found is None:
        return items
    gold_spans = _named_spans(strings, ids, sentences)
    types = schemes.parse(tagger.labels)
    assert types is not None
    right = np.array(
        [(a, b, types.types[k]) in gold_spans for a, b, k in _triples(found)], np.bool_
    )

    def entities_at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        p = tagger.span_probabilities(scores, sentences, tags, found, Confidence(sharpness))
        return p, np.where(right, p, 1.0 - p)

    # A uniform guess finds no entity: to it, every predicted one is wrong.
    chances = np.zeros(right.size), np.where(right, 0.0, 1.0)
    return items | {"entities": Items(right, entities_at, chances)}


def tree_items(parser: Parser, gold: Block) -> dict[str, Items]:
    """The answers of a parser with their probabilities: heads, and labels if there are any."""
    scanner, right_heads = parser.extractor, trees.read_heads(gold)
    matrix, sentences = parser.matrix(gold, scanner), gold.sentences
    scored = parser.scored(matrix, scanner, None, sentences)
    heads = scored.decode("viterbi")[0]

    def at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        mu = scored.arcs(sharpness)
        return chosen(mu, sentences, heads), chosen(mu, sentences, right_heads)

    lengths = np.diff(sentences)
    chance = np.repeat(1.0 / lengths, lengths)
    items = {"heads": Items(heads == right_heads, at, (chance, chance))}
    if not parser.labelled:
        return items
    scores = parser.label_scores(matrix, heads, scanner, sentences)
    strings, ids = gold.column(Conll.DEPREL)
    labels, right_labels = scores.argmax(axis=1), _known(parser.labels, strings)[ids]

    def labels_at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        p = parser.label_probabilities(scores, Confidence(sharpness))
        return _of(p, labels), _of(p, right_labels)

    chance = np.full(labels.size, 1.0 / len(parser.labels))
    return items | {"labels": Items(labels == right_labels, labels_at, (chance, chance))}


def _known(labels: list[str], strings: list[str]) -> np.ndarray:
    """The number of each string in the model, -1 for labels that the model does not have."""
    number = {label: n for n, label in enumerate(labels)}
    return np.array([number.get(s, -1) for s in strings])


def _of(p: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(n,) p[t, ids[t]], 0 where the label is unknown."""
    found: np.ndarray = np.where(ids >= 0, p[np.arange(ids.size), ids], 0.0)
    return found


def _in_scheme(tagger: Tagger, gold: Corpus) -> tuple[list[str], np.ndarray]:
    """Gold tags in the scheme that the tagger works in."""
    if not tagger.header["scheme"]:
        return gold.strings, gold.ids
    if schemes.parse(gold.strings) is None:
        odd = next(s for s in gold.strings if schemes.parse([s]) is None)
        t = int(np.flatnonzero(gold.ids == gold.strings.index(odd))[0])
        raise gold.block.error(f"{odd!r} is not an IOB tag, as the model's are", t)
    sentences, scheme = gold.block.sentences, tagger.header["scheme"]
    return schemes.convert(gold.strings, gold.ids, sentences, scheme)


def _named_spans(strings: list[str], ids: np.ndarray, sentences: np.ndarray) -> set[Any]:
    """(first token, last token, type) of all spans."""
    parsed = schemes.parse(strings)
    assert parsed is not None
    found = schemes.spans(parsed.prefix[ids], parsed.type[ids], sentences)
    return {(a, b, parsed.types[k]) for a, b, k in _triples(found)}


def _triples(found: schemes.Spans) -> Iterable[tuple[int, int, int]]:
    return zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True)
