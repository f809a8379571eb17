"""Tags beside gold ones: of two files, or of a tagger and a file."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from turbotag.corpus.formats import Conll, default_names, given_names
from turbotag.corpus.reader import Block, Column, Source
from turbotag.corpus.schemes import Spans, parse
from turbotag.errors import DataError
from turbotag.metrics import spans as span_metrics
from turbotag.metrics.calibration import calibrate
from turbotag.metrics.tags import same_tag
from turbotag.models.comparison import (
    Details,
    all_known,
    confusion_of,
    probabilities_in,
    same_tokens,
)
from turbotag.models.gold import (
    ANY,
    Corpus,
    Layout,
    Score,
    noted_tags,
    read_gold,
    read_gold_of,
    score_tags,
    target_column,
)

if TYPE_CHECKING:
    from turbotag.models.tagger import Tagger


@dataclass
class Tagged:
    """Gold and predicted tags of the same words; is_spans: they are span tags.

    token: (tokens,) probability of each predicted tag; entity: of the entity that it belongs to,
    nan outside of entities.
    """

    gold: Corpus
    predicted: Column
    is_spans: bool
    strict: bool
    token: np.ndarray | None = None
    entity: np.ndarray | None = None

    @cached_property
    def score(self) -> Score:
        return score_tags(self.gold, self.predicted, self.is_spans, self.strict)

    def details(self) -> Details:
        """Confusions and calibration of spans, or of tags where they are not spans."""
        gold = self.gold.tags
        calibration = {}
        if self.token is not None:
            calibration["tags"] = calibrate(self.token, same_tag(gold, self.predicted))
        if not self.is_spans:
            everywhere = np.ones(self.gold.ids.size, np.bool_)
            return Details(confusion_of(gold, self.predicted, everywhere), calibration)
        compared = span_metrics.compare(
            gold, self.predicted, self.gold.block.sentences, self.strict
        )
        assert compared is not None
        in_gold = _by_extent(compared.gold, compared.types)
        in_predicted = _by_extent(compared.predicted, compared.types)
        if self.entity is not None:
            p = self.entity[[start for start, _ in in_predicted]]
            right = np.array([in_gold.get(at) == t for at, t in in_predicted.items()], np.bool_)
            known = ~np.isnan(p)
            calibration = {"spans": calibrate(p[known], right[known])}
        both = in_gold.keys() | in_predicted.keys()
        return Details(Counter((in_gold.get(at), in_predicted.get(at)) for at in both), calibration)


def _by_extent(found: Spans, types: list[str]) -> dict[tuple[int, int], str]:
    """Types of spans by their first and last token."""
    return {(a, b): types[k] for a, b, k in sorted(found.keys())}


def evaluate_files(
    gold_path: Source, predicted_path: Source, layout: Layout = ANY, strict: bool = False
) -> Score:
    """Compare the tag columns of two files with the same sentences."""
    return compare_files(gold_path, predicted_path, layout, strict).score


def compare_files(
    gold_path: Source, predicted_path: Source, layout: Layout = ANY, strict: bool = False
) -> Tagged:
    """The tag columns of two files with the same sentences."""
    gold = read_gold(gold_path, layout)
    predicted, token, entity = _read_predicted(predicted_path, layout, gold)
    same_tokens(gold.block, predicted.block)
    return _compare(gold, predicted, strict, token, entity)


def _compare(
    gold: Corpus,
    predicted: Corpus,
    strict: bool,
    token: np.ndarray | None,
    entity: np.ndarray | None,
) -> Tagged:
    is_spans = _are_spans(gold, predicted.strings, predicted.block.path)
    return Tagged(gold, predicted.tags, is_spans, strict, token, entity)


def evaluate_model(
    tagger: Tagger, gold_path: Source, layout: Layout = ANY, strict: bool = False
) -> Score:
    """Tag a gold file and compare."""
    return compare_model(tagger, gold_path, layout, strict).score


def compare_model(
    tagger: Tagger,
    gold_path: Source,
    layout: Layout = ANY,
    strict: bool = False,
    probabilities: bool = False,
) -> Tagged:
    """The tags of a gold file and those that a tagger gives it."""
    gold = read_gold_of(tagger, gold_path, layout)
    unknown = [s for s in gold.strings if s not in tagger.labels]
    if unknown and not tagger.header["scheme"] and not tagger.open:
        t = int(np.flatnonzero(gold.ids == gold.strings.index(unknown[0]))[0])
        raise gold.block.error(f"label {unknown[0]!r} is unknown to the model", t)
    sentences = gold.block.sentences
    scores = tagger.scores(gold.block)
    tags = tagger.viterbi(scores, sentences)
    predicted = tagger.output_labels(tags, gold.block)
    is_spans = _are_spans(gold, predicted.strings, gold.block.path)
    tagged = Tagged(gold, predicted, is_spans, strict)
    if probabilities:
        found = tagger.marginals(scores, sentences, tags)
        tagged.token = found.token
        if found.spans is not None:
            tagged.entity = np.full(tags.size, np.nan)
            for a, b, p in zip(found.spans.start, found.spans.end, found.span, strict=True):
                tagged.entity[a : b + 1] = p
    return tagged


def _are_spans(gold: Corpus, predicted: list[str], path: str) -> bool:
    """Whether the gold tags are span tags, and not only O. The predicted tags must then be span
    tags too."""
    tags = parse(gold.strings)
    if tags is None or not tags.types:
        return False
    if parse(predicted) is None:
        odd = next(s for s in predicted if parse([s]) is None)
        raise DataError(f"{odd!r} is not an IOB tag: is its last column the tags? (--target)", path)
    return True


# ---- Files, as `predict --marginals` writes them -----------------------------------------------


def _read_predicted(
    path: Source, layout: Layout, gold: Corpus
) -> tuple[Corpus, np.ndarray | None, np.ndarray | None]:
    """The tags of a predicted file, and the probabilities of tags and of entities if the file has
    them: in MISC, as label:probability, or in one or two columns behind those of the gold file."""
    names = gold.block.format.columns
    ordinary = given_names(layout.columns) if layout.columns else default_names

    def naming(n: int) -> tuple[str, ...]:
        if names and len(names) < n <= len(names) + 2:
            return (*names, "probability", "entity")[:n]
        return ordinary(n)

    found = read_gold(path, replace(layout, columns=None), naming)
    block = found.block
    n = len(block.format.columns)
    if block.format.ids:
        return found, *_noted_probabilities(found)
    if block.format.name == "crfsuite":
        return _split_labels(found)
    if "probability" not in block.format.columns[len(names) :]:
        return found, None, None
    token = probabilities_in(block, len(names))
    if not np.isnan(token).any():
        return found, token, probabilities_in(block, n - 1) if n > len(names) + 1 else None
    # these columns are no probabilities: the last one is the tag
    block.format = replace(block.format, columns=ordinary(n))
    at = target_column(block.format, layout.task, layout.target, found.block.path)
    strings, ids = block.column(at)
    return Corpus(block, at, ids, strings), None, None


def _noted_probabilities(found: Corpus) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Probabilities of tags and of entities in MISC of CoNLL-U."""
    block = found.block
    token, entity = (probabilities_in(block, Conll.MISC, name) for name in ("Prob", "EntityProb"))
    if np.isnan(token).all():  # a pipeline names the column
        target = block.format.columns[found.target]
        name = "Tag" if found.target == Conll.MISC else target.capitalize()
        token = probabilities_in(block, Conll.MISC, f"{name}Prob")
    return all_known(token), None if np.isnan(entity).all() else entity


def _split_labels(found: Corpus) -> tuple[Corpus, np.ndarray | None, None]:
    """Labels of a CRFsuite file, which may be label:probability."""
    split = [re.fullmatch(r"(.+):([01]\.\d+)", s) for s in found.strings]
    pairs = [(m[1], float(m[2])) for m in split if m]
    if len(pairs) < len(split):
        return found, None, None
    strings = sorted({label for label, _ in pairs})
    ids = np.array([strings.index(label) for label, _ in pairs], np.int32)[found.ids]
    token = np.array([p for _, p in pairs])[found.ids]
    return replace(found, strings=strings, ids=ids), token, None


# ---- One stage of a pipeline ---------------------------------------------------------------------


def compare_stage(
    tagger: Tagger, gold: Block, predicted: Block, strict: bool
) -> tuple[str, Tagged] | None:
    """What a tagger wrote into CoNLL-U, beside gold: the name of its column, or of its task where
    tags stand in MISC; None if the gold block has none."""
    right, given = (_stage_tags(block, tagger) for block in (gold, predicted))
    if right is None or given is None:
        return None
    name = tagger.header["task" if given.target == Conll.MISC else "target"]
    return name, _compare(right, given, strict, *_noted_probabilities(given))


def _stage_tags(block: Block, tagger: Tagger) -> Corpus | None:
    """The tags of CoNLL-U that a stage predicts, None if the file has none."""
    at = tagger.target(block.format)
    if at is None:
        return noted_tags(block, tagger.header["task"].upper())
    strings, ids = block.column(at)
    return None if strings == ["_"] else Corpus(block, at, ids, strings)
