"""Fitting a model's calibration: its answers on sentences that it was not trained on, against gold.

Held-out sentences are those of a dev file. Where there is none, a second model is trained on a
third of the training data, with the same options, and asked about the rest: the sharpness hardly
depends on how much there was to learn from (heads of EWT: 0.65, 0.62 and 0.60 for models of 10, 25
and 50 % of the treebank), and training takes a third longer, not twice as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from turbotag.corpus import schemes, trees
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block, Source, read
from turbotag.corpus.writer import sentences_text
from turbotag.errors import DataError, TurbotagError
from turbotag.models.calibration import Confidence, Items, describe, fit
from turbotag.models.gold import Corpus, Echo, Options, read_gold_of
from turbotag.models.parser import Parser
from turbotag.models.tagger import Tagger

Model = Tagger | Parser
RUNS = 30  # of neighbouring sentences: those of one document are mostly on one side
SHARE = 3  # one run in so many is learnt from
LEFT_OUT = "training data that a second model had not seen"
LEAST_SENTENCES = 300  # of which a third teaches enough to say something of the whole
MOST_ASKED = 2000  # sentences: more hardly change what is fitted


def from_second_model(
    options: Options,
    block: Block,
    tagged: Block,
    train: Callable[[Options, str], tuple[Model, Any]],
    echo: Echo,
) -> dict[str, Any] | None:
    """What a second model, trained on a part of the training data, finds on the rest: an entry of a
    header, or None if that is impossible.

    tagged: the training data with the tags that the model will meet.
    """
    learnt, asked = split(block.n_sentences)
    if not learnt.any():
        echo(
            f"not calibrated: {block.n_sentences} sentences are too few to leave some out; "
            "calibrate does it with others"
        )
        return None
    echo(f"== calibration, by a second model of {int(learnt.sum())} of the sentences ==")
    part = replace(
        options,
        train=sentences_text(block, learnt),
        format=block.format.name,
        calibration=False,
        max_seconds=options.max_seconds and options.max_seconds / SHARE,
        max_oracle_calls=options.max_oracle_calls and -(-options.max_oracle_calls // SHARE),
    )
    try:
        second, _ = train(part, os.devnull)
        calibrate_file(second, part, sentences_text(tagged, asked), LEFT_OUT, echo)
    except TurbotagError as e:  # the model itself is trained, and good without
        echo(f"not calibrated: {e}")
        return None
    found: dict[str, Any] = second.header["calibration"]
    return found


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool: which of n sentences a second model learns from, and which it is asked about."""
    learnt = np.arange(n) * RUNS // max(n, 1) % SHARE == 0
    learnt &= n >= LEAST_SENTENCES
    rest = np.flatnonzero(~learnt)
    asked = np.zeros(n, np.bool_)
    asked[rest[:: max(1, -(-rest.size // MOST_ASKED))]] = True
    return learnt, asked


def calibration(items: dict[str, Items], gold: Block, data: str, echo: Echo) -> dict[str, Any]:
    """An entry of a header, with a map for each kind of answer that was given."""
    maps = {name: fit(of) for name, of in items.items() if of.right.size}
    for name, found in maps.items():
        echo(f"calibration, {describe(name, found)}")
    return {"data": f"{data}, {gold.n_sentences} sentences", "maps": maps}


def calibrate_file(model: Model, options: Options, path: Source, name: str, echo: Echo) -> None:
    """Calibrate a model on a gold file; name: what its card says of that file."""
    if isinstance(model, Parser):
        gold = read(path, options.format)
        if not gold.format.ids:
            raise DataError(f"is {gold.format.name}; trees are in CoNLL-U or CoNLL-X", gold.path)
        model.set_calibration(calibrate_parser(model, gold, name, echo))
    else:
        tags = read_gold_of(model, options, path)
        model.set_calibration(calibrate_tagger(model, tags, name, echo))


def calibrate_tagger(tagger: Tagger, gold: Corpus, data: str, echo: Echo) -> dict[str, Any]:
    """Of a tagger, on sentences with gold tags."""
    return calibration(tag_items(tagger, gold), gold.block, data, echo)


def calibrate_parser(parser: Parser, gold: Block, data: str, echo: Echo) -> dict[str, Any]:
    """Of a parser, on sentences with gold trees; their tags should be those that it will meet."""
    return calibration(tree_items(parser, gold), gold, data, echo)


def tag_items(tagger: Tagger, gold: Corpus) -> dict[str, Items]:
    """Tags, and entities if the tags are spans."""
    sentences, (strings, ids) = gold.block.sentences, _in_scheme(tagger, gold)
    scores = tagger.scores(gold.block)
    tags, right_ids = tagger.viterbi(scores, sentences), _known(tagger.labels, strings)[ids]

    def at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        p = tagger.posterior(scores, sentences, Confidence(sharpness))
        return _of(p, tags), _of(p, right_ids)

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

    # One who knows nothing finds no entity: each that is predicted is then wrong.
    chances = np.zeros(right.size), np.where(right, 0.0, 1.0)
    return items | {"entities": Items(right, entities_at, chances)}


def tree_items(parser: Parser, gold: Block) -> dict[str, Items]:
    """Heads, and labels if there are any."""
    scanner, right_heads = parser.extractor, trees.read_heads(gold)
    matrix, cuts = parser.matrix(gold, scanner), gold.sentences.tolist()
    slices = [slice(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    sentences = [parser.scored(matrix[at], scanner) for at in slices]
    heads = np.concatenate([s.decode("viterbi")[0] for s in sentences])

    def at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        predicted, right = np.empty((2, heads.size))
        for s, here in zip(sentences, slices, strict=True):
            mu, words = s.arcs(sharpness), np.arange(1, here.stop - here.start + 1)
            predicted[here], right[here] = mu[heads[here], words], mu[right_heads[here], words]
        return predicted, right

    lengths = np.diff(gold.sentences)
    chance = np.repeat(1.0 / lengths, lengths)
    items = {"heads": Items(heads == right_heads, at, (chance, chance))}
    if not parser.labelled:
        return items
    scores = np.concatenate(
        [parser.label_scores(matrix[here], heads[here], scanner) for here in slices]
    )
    strings, ids = gold.column(Conll.DEPREL)
    labels, right_labels = scores.argmax(axis=1), _known(parser.labels, strings)[ids]

    def labels_at(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
        p = parser.label_probabilities(scores, Confidence(sharpness))
        return _of(p, labels), _of(p, right_labels)

    chance = np.full(labels.size, 1.0 / len(parser.labels))
    return items | {"labels": Items(labels == right_labels, labels_at, (chance, chance))}


def _known(labels: list[str], strings: list[str]) -> np.ndarray:
    """The model's number of each string, -1 for labels that it has not."""
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
