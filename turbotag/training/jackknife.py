"""Predicted tags for the sentences that a parser learns from, by k-fold taggers."""

from __future__ import annotations

from functools import partial

import numpy as np

from turbotag.corpus.formats import TAGS
from turbotag.corpus.hashing import pack, unpack
from turbotag.corpus.reader import Block, from_bytes
from turbotag.corpus.writer import Edits, sentences_text
from turbotag.errors import DataError
from turbotag.models.tagger import Tagger
from turbotag.storage.checkpoints import Arrays, Progress
from turbotag.training.options import ParserOptions, tagger_options
from turbotag.training.tagger import train


def draw_folds(n: int, k: int, seed: int, path: str) -> np.ndarray:
    """(n,) the fold of each sentence of a file, 0..k-1, all of nearly the same size."""
    if n < k:
        raise DataError(f"has {n} sentences, too few for {k} folds", path)
    return np.random.default_rng(seed).permutation(n) % k


def predicted_tags(
    block: Block, options: ParserOptions, progress: Progress, dev: Block | None = None
) -> tuple[Block, Block | None]:
    """The block with its UPOS and XPOS columns predicted fold by fold, each by a tagger that was
    trained on the other folds; and a dev set, tagged by the tagger of the last fold."""
    k = options.jackknife

    def work(column: str, f: int) -> Arrays:
        tagger = _tagger(block, fold != f, column, options)
        held = from_bytes(sentences_text(block, fold == f), block.path, block.format)
        asked = [held, dev] if dev and f == k - 1 else [held]
        text, offsets = pack([tagger.labels[t] for b in asked for t in tagger.tag(b).tolist()])
        return {"text": text, "offsets": offsets}

    def put(tags: np.ndarray, dev_tags: np.ndarray, f: int, arrays: Arrays) -> None:
        words = np.repeat(fold == f, np.diff(block.sentences))
        found = np.array(unpack(arrays["text"], arrays["offsets"]))
        tags[words], rest = found[: words.sum()], found[words.sum() :]
        dev_tags[: rest.size] = rest

    fold = draw_folds(block.n_sentences, k, options.fit.seed, block.path)
    edits, dev_edits = Edits(block), Edits(dev) if dev else None
    for column in TAGS:
        at = block.format.index(column)
        assert at is not None
        gold = np.array(block.strings(at))
        if (gold == "_").all():
            continue
        tags, dev_tags = gold.copy(), np.empty(dev.n_tokens if dev else 0, object)
        progress.folds(
            column, k, partial(work, column), partial(put, tags, dev_tags), options.fit.threads
        )
        _put(edits, column, tags)
        if dev_edits:
            _put(dev_edits, column, dev_tags)
        right = 100 * np.mean(tags == gold)
        progress.echo(f"jackknife: {column} accuracy {right:.2f} over {k} folds")
    return _edited(edits), _edited(dev_edits) if dev_edits else None


def _put(edits: Edits, column: str, tags: np.ndarray) -> None:
    at = edits.block.format.index(column)
    assert at is not None
    strings, ids = np.unique(tags, return_inverse=True)
    edits.replace(at, strings.tolist(), ids)


def _edited(edits: Edits) -> Block:
    return from_bytes(edits.text(), edits.block.path, edits.block.format)


def _tagger(block: Block, chosen: np.ndarray, column: str, asked: ParserOptions) -> Tagger:
    """A tagger trained on some sentences, with the resources of the parser."""
    options = tagger_options(
        "pos",
        sentences_text(block, chosen),
        target=column,
        format=block.format.name,
        algorithm="dca",
        seed=asked.fit.seed,
        **asked.resources,
        calibration=False,
    )
    return train(options)[0]
