"""Why a model chose a tag, a head or a label: the features that speak for it, and their weights.

The score of a structure, a tag sequence or a tree, is a sum of weights of features. So is the
difference of the scores of the structure that the model chose and of the best one in which a word
has another tag or head: what both have in common cancels, and the rest is the explanation. Words
other than the one asked about may change too, as when a tag or an arc cannot stand alone.

Features are named from the sentence at hand, so that models need not keep names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turbotag.corpus.reader import Block, Source, display_name, from_bytes
from turbotag.errors import UsageError, did_you_mean
from turbotag.models.gold import ANY, Layout
from turbotag.models.model import BEST
from turbotag.models.parser import Parser
from turbotag.models.pipeline import Model, Pipeline
from turbotag.models.prediction import annotate, blocks_of, sentence_of
from turbotag.models.tagger import Tagger
from turbotag.report import explain_trees
from turbotag.report.explain_tags import Tags
from turbotag.report.explainer import Explainer
from turbotag.report.explanation import Explanation


def explain(
    model: Model | Pipeline,
    block: Block,
    sentence: int,
    words: Iterable[int] | None = None,
    against: str | None = None,
) -> list[Explanation]:
    """Explanations of what a model, or each stage of a pipeline, gives to words of a sentence.

    sentence: its number in the block, from 0; words: their numbers in it, from 1, by default all;
    against: a tag, a label or the number of a head to compare with in place of the next best: only
    what can have that value is explained. UsageError if nothing can, or if it is what was chosen.
    """
    one = sentence_of(block, sentence)
    wanted = [*range(1, one.n_tokens + 1)] if words is None else [*words]
    wrong = next((w for w in wanted if not 1 <= w <= one.n_tokens), None)
    if wrong is not None:
        raise UsageError(f"there is no word {wrong}: the sentence has words 1 to {one.n_tokens}")
    explainers = [
        e
        for stage, extractor, seen in _stages(model, one)
        for e in _explainers(stage, extractor, seen)
    ]
    if against is not None:
        known = dict.fromkeys(v for e in explainers for word in wanted for v in e.values(word - 1))
        if against not in known:
            raise UsageError(f"nothing here can be {against!r}{did_you_mean(against, known)}")
    return [
        found
        for word in wanted
        for e in explainers
        if against is None or against in e.values(word - 1)
        for found in e.explain(word - 1, against)
    ]


def find_sentence(
    model: Model | Pipeline,
    path: Source,
    number: int,
    layout: Layout = ANY,
    warn: Callable[[str], object] | None = None,
) -> tuple[Block, int]:
    """The block of a file, as a model reads it, that holds the sentence with this number (from 1),
    and the place of the sentence in it; UsageError if there are fewer sentences."""
    seen = 0
    for block in blocks_of(model, path, layout, warn):
        if number <= seen + block.n_sentences:
            return block, number - seen - 1
        seen += block.n_sentences
    raise UsageError(f"there is no sentence {number}: {display_name(path)} has {seen}")


def _stages(model: Model | Pipeline, block: Block) -> Iterator[tuple[Any, Any, Block]]:
    """Each model with its extractor and the block as it reads it. A block in which all stages have
    written serves for each of them, because no stage reads what a later one writes."""
    if not isinstance(model, Pipeline):
        yield model, model.extractor, block
        return
    extractors = model.extractor
    data = annotate(model, block, extractors, BEST)
    whole = from_bytes(data, block.path, block.format)
    for stage, extractor in zip(model.models, extractors, strict=True):
        yield stage, extractor, whole


def _explainers(model: Any, extractor: Any, block: Block) -> list[Explainer]:
    """The explainers of a model, one for each kind of decision that it makes."""
    if isinstance(model, Tagger):
        return [Tags(model, extractor, block)]
    return explain_trees.explainers(model, extractor, block) if isinstance(model, Parser) else []
