"""Scoring a predicted file, or a model, against a gold file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turbotag.corpus.hashing import Interner
from turbotag.corpus.reader import Block, read
from turbotag.corpus.schemes import parse
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError
from turbotag.metrics.attachment import AttachmentScore
from turbotag.models.gold import Corpus, Options, Score, read_gold, score_tags
from turbotag.models.parser import Parser
from turbotag.models.parser_training import score_block, score_parser
from turbotag.models.tagger import Tagger


def _spans(gold: Corpus, predicted: list[str], path: str) -> bool:
    """Whether the gold tags are span tags (and not only O); then the predicted must be too."""
    tags = parse(gold.strings)
    if tags is None or not tags.types:
        return False
    if parse(predicted) is None:
        odd = next(s for s in predicted if parse([s]) is None)
        raise DataError(f"{odd!r} is not an IOB tag: is its last column the tags? (--target)", path)
    return True


def evaluate_trees(
    gold_path: str, predicted: str | Parser, format: str | None = None
) -> AttachmentScore:
    """Compare the trees of a gold file with those of another file or of a parser."""
    gold = read(gold_path, format)
    if not gold.format.ids:
        raise DataError(f"is {gold.format.name}; trees are in CoNLL-U or CoNLL-X", gold_path)
    if isinstance(predicted, Parser):
        return score_parser(predicted, gold)
    other = read(predicted, format)
    if not other.format.ids:
        raise DataError(f"is {other.format.name}; trees are in CoNLL-U or CoNLL-X", predicted)
    _same_tokens(gold, other)
    interner = Interner()
    ids = other.ids(7, interner)
    labels = None if interner.strings == ["_"] else (interner.strings, ids)
    return score_block(gold, read_heads(other), labels)


def evaluate_files(options: Options, gold_path: str, predicted_path: str, strict: bool) -> Score:
    """Compare the tag columns of two files with the same sentences."""
    gold = read_gold(options, gold_path)
    predicted = read_gold(options, predicted_path)
    _same_tokens(gold.block, predicted.block)
    spans = _spans(gold, predicted.strings, predicted.block.path)
    return score_tags(gold, predicted.strings, predicted.ids, spans, strict)


def _same_tokens(a: Block, b: Block) -> None:
    shared = min(a.n_sentences, b.n_sentences)
    differ = np.flatnonzero(a.sentences[1 : shared + 1] != b.sentences[1 : shared + 1])
    if a.format.columns and b.format.columns:
        at, to = a.format.index("word") or 0, b.format.index("word") or 0
        n = min(a.n_tokens, b.n_tokens)
        for t, (x, y) in enumerate(zip(a.strings(at)[:n], b.strings(to)[:n], strict=True)):
            if x != y:
                raise b.error(
                    f"has {y!r} where {a.path}, line {a.lines[t]} has {x!r}: not the same tokens", t
                )
    if differ.size or a.n_sentences != b.n_sentences:
        s = int(differ[0]) if differ.size else shared
        t = min(int(b.sentences[min(s, b.n_sentences - 1)]), b.n_tokens - 1)
        raise DataError(
            f"sentence {s + 1} differs in length from that of {a.path} "
            f"({a.n_sentences} and {b.n_sentences} sentences)",
            b.path,
            int(b.lines[t]),
        )


def evaluate_model(options: Options, tagger: Tagger, gold_path: str, strict: bool) -> Score:
    """Tag a gold file and compare."""
    options = replace(options, format=options.format or tagger.input_format)
    target = None if tagger.header["format"] == "crfsuite" else tagger.header["target"]
    gold = read_gold(options, gold_path, options.target or target, tagger.naming)
    unknown = [s for s in gold.strings if s not in tagger.labels and not tagger.header["scheme"]]
    if unknown:
        t = int(np.flatnonzero(gold.ids == gold.strings.index(unknown[0]))[0])
        raise gold.block.error(f"label {unknown[0]!r} is unknown to the model", t)
    tags = tagger.tag(gold.block)
    strings, ids = tagger.output_labels(tags, gold.block.sentences)
    return score_tags(gold, strings, ids, _spans(gold, strings, gold.block.path), strict)
