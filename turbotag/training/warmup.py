"""Compile what a task needs before anybody waits for it, by running the task once with a few
words."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass

from numba.core import event

from turbotag import kernels
from turbotag.errors import DataError
from turbotag.models.evaluation import compare
from turbotag.models.model import Output
from turbotag.models.pipeline import Model, Pipeline, pipeline
from turbotag.models.prediction import predict
from turbotag.models.shipped import pipelines
from turbotag.models.tasks import ALL_TASKS
from turbotag.models.tokenizer import Tokenizer
from turbotag.training import train
from turbotag.training.options import options_for

WAYS = (Output(), Output("posterior", marginals=True), Output(nbest=2))  # ways to predict
TREES = ("nonprojective", "projective")  # the training data decides between them
TEXT = b"Ada Lind flew to Oslo. It didn't rain."


@dataclass(frozen=True)
class Warmed:
    """How many kernels were compiled in how many seconds, and where they are kept."""

    compiled: int
    seconds: float
    folder: str


def warm(task: str | None = None) -> Warmed:
    """Compile the kernels that training, prediction and evaluation need with their usual options,
    for a task or for all of them and the shipped pipelines."""
    if not kernels.lasting():
        raise DataError(f"nothing is compiled ahead: {kernels.NO_FOLDER}")
    begin = time.monotonic()
    with event.install_recorder("numba:compile") as recorder:
        for each in [task] if task else ALL_TASKS:
            _train_and_predict(each)
        for name in pipelines() if task is None else ():
            _predict(pipeline(name), TEXT)
    started = [e for _, e in recorder.buffer if e.is_start]
    return Warmed(len(started), time.monotonic() - begin, kernels.folder())


def _train_and_predict(task: str) -> None:
    data = _example(task)
    for decoder in TREES if task == "parse" else (None,):
        more = {"min_count": 1, "decoder": decoder} if decoder else {}
        model, _ = train(options_for(task, data, data, epochs=2, **more))
        if isinstance(model, Tokenizer):
            model = Pipeline([], tokenizer=model)
        compare(data, model, probabilities=True)
        _predict(model, TEXT if task == "tokenize" else data)


def _predict(model: Model | Pipeline, data: bytes) -> None:
    for way in WAYS:
        if way.nbest == 1 or not isinstance(model, Pipeline):
            predict(model, data, io.BytesIO(), way)


WORDS = ("Ada", "Lind", "flew", "to", "Oslo")
COLUMNS = {
    "pos": ("PROPN", "PROPN", "VERB", "ADP", "PROPN"),
    "ner": ("B-PER", "I-PER", "O", "O", "B-LOC"),
    "chunk": ("B-NP", "I-NP", "B-VP", "B-PP", "B-NP"),
}
ARCS = ((3, "nsubj"), (1, "flat"), (0, "root"), (5, "case"), (3, "obl"))


def _example(task: str) -> bytes:
    """A few sentences with what the task predicts, in the format that it usually comes in."""
    if task not in ("ner", "chunk"):
        rows = [
            f"{i}\t{word}\t{word.lower()}\t{upos}\t_\tCase=Nom\t{head}\t{label}\t_\t_"
            for i, (word, upos, (head, label)) in enumerate(
                zip(WORDS, COLUMNS["pos"], ARCS, strict=True), 1
            )
        ]
    else:
        columns = [WORDS, *([COLUMNS["pos"]] if task == "chunk" else []), COLUMNS[task]]
        rows = [" ".join(row) for row in zip(*columns, strict=True)]
    return ("\n".join(rows) + "\n\n").encode() * 4
