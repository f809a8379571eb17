"""Fitting the calibration of a model: its answers on sentences that it was not trained on, beside
gold.

The held-out sentences are those of a dev file. If there is none, a second model is trained on a
third of the training data, with the same options, and predicts the rest. The sharpness hardly
depends on the amount of training data (heads of EWT: 0.65, 0.62 and 0.60 for models of 10, 25 and
50 % of the treebank), and training takes a third longer, not twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from turbotag.corpus.reader import Block, Source
from turbotag.corpus.writer import sentences_text
from turbotag.errors import TurbotagError
from turbotag.models.calibration import describe, fit
from turbotag.models.gold import Layout
from turbotag.models.model import Model
from turbotag.optim.trace import Echo
from turbotag.training.fit import Fit
from turbotag.training.options import TrainingOptions

Options = TypeVar("Options", bound=TrainingOptions)
RUNS = 30  # neighbouring sentences in a run: those of one document are mostly on one side
SHARE = 3  # one run in so many is learnt from
LEFT_OUT = "training data that a second model had not seen"
# at least so many, of which a third teaches enough to say something of the whole
LEAST_SENTENCES = 300
MOST_ASKED = 2000  # sentences: more hardly change what is fitted


def calibration_of(
    model: Model,
    options: Options,
    blocks: tuple[Block, Block, Block | None],
    train: Callable[[Options], tuple[Model, Any]],
    echo: Echo,
) -> dict[str, Any] | None:
    """An entry of the header of a model that was just trained, found on its dev set or by a second
    model. blocks: the training data, the same with the tags that the model will meet, and the dev
    set."""
    block, tagged, dev = blocks
    if dev is None:
        return from_second_model(options, block, tagged, train, echo)
    layout = replace(options.layout, format=dev.format.name)
    return calibrated(model, dev.buf.tobytes(), layout, Path(dev.path).name, echo)


def from_second_model(
    options: Options,
    block: Block,
    tagged: Block,
    train: Callable[[Options], tuple[Model, Any]],
    echo: Echo,
) -> dict[str, Any] | None:
    """An entry of a header: what a second model, trained on a part of the training data, finds on
    the rest; None if that is impossible.

    tagged: the training data with the tags that the model will meet.
    """
    learnt, asked = split(block.n_sentences)
    if not learnt.any():
        echo(
            f"not calibrated: {block.n_sentences} sentences are too few to leave some out; "
            "turbotag calibrate takes others"
        )
        return None
    echo(f"== calibration, by a second model of {int(learnt.sum())} of the sentences ==")
    part = replace(
        options,
        train=sentences_text(block, learnt),
        layout=replace(options.layout, format=block.format.name),
        calibration=False,
        fit=_shortened(options.fit),
        **weights_of(options, learnt),
    )
    try:
        second, _ = train(part)
        held_out = sentences_text(tagged, asked)
        return calibrated(second, held_out, part.layout, LEFT_OUT, echo)
    except TurbotagError as e:  # the model itself is trained, and can be used without calibration
        echo(f"not calibrated: {e}")
        return None


def weights_of(options: Any, learnt: np.ndarray) -> dict[str, Any]:
    """The weights of some sentences, if weights of all were given."""
    weights = getattr(options, "sentence_weights", ())
    return {"sentence_weights": tuple(np.array(weights)[learnt].tolist())} if weights else {}


def _shortened(fit: Fit) -> Fit:
    """The same fit with limits for a share of the data."""
    calls, seconds = fit.max_oracle_calls, fit.max_seconds
    return replace(
        fit,
        max_seconds=seconds and seconds / SHARE,
        max_oracle_calls=calls and -(-calls // SHARE),
    )


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bool: which of n sentences a second model learns from; it predicts the others."""
    learnt = np.arange(n) * RUNS // max(n, 1) % SHARE == 0
    learnt &= n >= LEAST_SENTENCES
    rest = np.flatnonzero(~learnt)
    asked = np.zeros(n, np.bool_)
    asked[rest[:: max(1, -(-rest.size // MOST_ASKED))]] = True
    return learnt, asked


def calibrated(model: Model, gold: Source, layout: Layout, data: str, echo: Echo) -> dict[str, Any]:
    """An entry of a header from the answers of a model on a gold file: a map for each kind of
    answer. data: what the card of the model says of that file. The tags of a treebank should be
    those that a parser will meet."""
    items, block = model.held_out(gold, layout)
    maps = {name: fit(of) for name, of in items.items() if of.right.size}
    for name, found in maps.items():
        echo(f"calibration, {describe(name, found)}")
    return {"data": f"{data}, {block.n_sentences} sentences", "maps": maps}
