"""Tags as a tagger would give them, for the very sentences that it learns from: k-fold."""

from __future__ import annotations

import math
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from turbotag.corpus.formats import TAGS
from turbotag.corpus.hashing import pack, unpack
from turbotag.corpus.reader import Block, from_bytes
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError
from turbotag.models.checkpoints import Arrays, Progress
from turbotag.models.gold import options_for
from turbotag.models.training import train


def draw_folds(n: int, k: int, seed: int, path: str) -> np.ndarray:
    """(n,) the fold of each sentence of a file, 0..k-1, all of nearly the same size."""
    if n < k:
        raise DataError(f"has {n} sentences, too few for {k} folds", path)
    return np.random.default_rng(seed).permutation(n) % k


def predicted_tags(block: Block, k: int, seed: int, progress: Progress) -> Block:
    """The block with its UPOS and XPOS columns predicted: fold by fold, by a tagger that was
    trained on the others."""

    def put(tags: np.ndarray, f: int, arrays: Arrays) -> None:
        words = np.repeat(fold == f, np.diff(block.sentences))
        tags[words] = np.array(unpack(arrays["text"], arrays["offsets"]))

    fold = draw_folds(block.n_sentences, k, seed, block.path)
    edits = Edits(block)
    for column in TAGS:
        at = block.format.index(column)
        assert at is not None
        gold = np.array(block.strings(at))
        if (gold == "_").all():
            continue
        tags = gold.copy()
        for f in range(k):
            work = partial(_tag, block, fold, f, column, seed)
            progress.once(f"{column}{f}", work, partial(put, tags, f))
        strings, ids = np.unique(tags, return_inverse=True)
        edits.replace(at, strings.tolist(), ids)
        right = 100 * np.mean(tags == gold)
        progress.echo(f"jackknife: {column} accuracy {right:.2f} over {k} folds")
    return from_bytes(edits.text(), block.path, block.format)


def _tag(block: Block, fold: np.ndarray, f: int, column: str, seed: int) -> Arrays:
    """Tags of fold f by a tagger trained on the rest, as bytes and their offsets."""
    with tempfile.TemporaryDirectory() as folder:
        rest = str(Path(folder) / "rest.conllu")
        Path(rest).write_bytes(_text(block, fold != f))
        options = options_for(
            "pos", train=rest, target=column, format=block.format.name, algorithm="dca", seed=seed
        )
        tagger, _ = train(options, str(Path(folder) / "tagger"), checkpoint_seconds=math.inf)
    held = from_bytes(_text(block, fold == f), block.path, block.format)
    text, offsets = pack([tagger.labels[t] for t in tagger.tag(held).tolist()])
    return {"text": text, "offsets": offsets}


def _text(block: Block, chosen: np.ndarray) -> bytes:
    """The token lines of some sentences."""
    data, begins = block.buf.tobytes(), block.starts[block.first]
    sentences = []
    for s in np.flatnonzero(chosen).tolist():
        words = range(block.sentences[s], block.sentences[s + 1])
        sentences.append(b"".join(data[begins[t] : block.line_ends[t]] + b"\n" for t in words))
    return b"\n".join(sentences)
