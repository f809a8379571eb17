"""Scoring a predicted file, a model or a pipeline against a gold file."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import Block, Source, from_bytes, read
from turbotag.corpus.surface import read_surface
from turbotag.errors import DataError, UsageError
from turbotag.metrics.conll18 import Conll18Score, score_blocks
from turbotag.models.comparison import Comparison, Details, same_tokens
from turbotag.models.gold import ANY, Layout
from turbotag.models.model import Model, Output
from turbotag.models.pipeline import RAW, Pipeline
from turbotag.models.prediction import annotate, predict
from turbotag.models.tag_comparison import compare_files
from turbotag.models.tree_comparison import compare_tree_files


def compare(
    gold: Source,
    predicted: Source | Model | Pipeline,
    layout: Layout = ANY,
    task: str | None = None,
    strict: bool = False,
    probabilities: bool = False,
) -> dict[str, Comparison]:
    """Compare a file, a model or a pipeline with a gold file. The results of a pipeline, which
    predicts several things, have names; otherwise the name is "".

    The task is `tags`, `parse` or `all`: everything, as in the CoNLL 2018 shared task. `all` is
    also used if two files have different words; a model is then given raw text.
    """
    format = layout.format
    if task == "all":
        if layout.columns or layout.target or format not in (None, "conllu"):
            raise UsageError("--task all compares all columns of CoNLL-U: leave out other options")
        if not isinstance(predicted, (str, bytes)):
            return {"": compare_raw(gold, predicted)}
        return {"": Whole(read(gold, format), read(predicted, format))}
    if isinstance(predicted, Pipeline):
        if layout.columns:
            raise UsageError("--columns is for files of columns; a pipeline is scored on CoNLL-U")
        if not predicted.models and task is None:  # a tokenizer
            return {"": compare_raw(gold, predicted)}
        found = compare_pipeline(gold, predicted, format, strict, probabilities)
        names = [n for n in found if task is None or (n == "trees") == (task == "parse")]
        if layout.target:
            names = [n for n in names if n == layout.target.lower()]
        if not names:
            raise UsageError(
                f"of what the pipeline predicts, only {', '.join(found)} can be scored"
            )
        return {n: found[n] for n in names}
    if not isinstance(predicted, str | bytes):
        own = predicted.header["task"]
        if task is not None and (task == "parse") != (own == "parse"):
            raise UsageError(f"--task {task}, but the model is a {predicted.kind}")
        return {"": predicted.compare(gold, layout, strict, probabilities)}
    told = task or layout.target or layout.columns
    if not told and _other_words(gold, predicted, format):
        return {"": Whole(read(gold, format), read(predicted, format))}
    if task == "parse":
        return {"": compare_tree_files(gold, predicted, format)}
    return {"": compare_files(gold, predicted, layout, strict)}


@dataclass
class Whole:
    """Two files of the same text in CoNLL-U; their words and sentences may differ."""

    gold: Block
    predicted: Block

    @cached_property
    def score(self) -> Conll18Score:
        return score_blocks(self.gold, self.predicted)

    def details(self) -> Details:
        return Details(Counter())


def compare_raw(gold_path: Source, model: Model | Pipeline) -> Whole:
    """A gold file in CoNLL-U, and what a model finds in its raw text."""
    gold = read(gold_path, "conllu")
    stages = model if isinstance(model, Pipeline) else Pipeline([model])
    out = io.BytesIO()
    predict(stages, read_surface(gold).text().encode(), out, layout=Layout(RAW))
    return Whole(gold, from_bytes(out.getvalue(), "the prediction", CONLLU))


def _other_words(gold: Source, predicted: Source, format: str | None) -> bool:
    """Whether two files are CoNLL-U and differ in their words or sentences. Standard input can be
    read only once and is assumed to have the same."""
    if format not in (None, "conllu") or "-" in (gold, predicted):
        return False
    blocks = [read(path, format) for path in (gold, predicted)]
    if any(block.format.name != "conllu" for block in blocks):
        return False
    try:
        same_tokens(*blocks)
    except DataError:
        return True
    return False


def compare_pipeline(
    gold_path: Source,
    stages: Pipeline,
    format: str | None = None,
    strict: bool = False,
    probabilities: bool = False,
) -> dict[str, Comparison]:
    """All that a pipeline predicts and a CoNLL-U file has: tags, by the name of their column or of
    their note in MISC, and `trees`. Sentences and words are those of the file."""
    gold = read(gold_path, format)
    if gold.format.name != "conllu":
        raise DataError(f"is {gold.format.name}; a pipeline is scored on CoNLL-U", gold.path)
    data = annotate(stages, gold, stages.extractor, Output(marginals=probabilities))
    predicted = from_bytes(data, gold.path, gold.format)
    found: dict[str, Comparison] = {}
    for model in stages.models:
        said = model.compare_blocks(gold, predicted, strict)
        if said is not None:
            found[said[0]] = said[1]
    if not found:
        raise DataError("has nothing that the pipeline predicts", gold.path)
    return found
