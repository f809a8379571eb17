"""Scoring a predicted file, or a model, against a gold file, and what lies behind the score."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from turbotag.corpus.formats import Conll, default_names, given_names
from turbotag.corpus.reader import Block, Source, from_bytes, read
from turbotag.corpus.schemes import Spans, parse
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError, UsageError
from turbotag.metrics import spans as span_metrics
from turbotag.metrics.attachment import Attachment, AttachmentScore, Labels
from turbotag.metrics.calibration import Calibration, calibrate
from turbotag.metrics.tags import same_tag
from turbotag.models.gold import (
    Corpus,
    Options,
    Score,
    noted_tags,
    read_gold,
    read_gold_of,
    score_tags,
    target_column,
)
from turbotag.models.parser import Parser
from turbotag.models.parser_training import score_block, words_of
from turbotag.models.pipeline import Model, Pipeline
from turbotag.models.prediction import Output, annotate
from turbotag.models.tagger import Tagger

LENGTHS = {"1-10": 1, "11-20": 11, "21-30": 21, "31-40": 31, "41+": 41}  # of sentences, as words
Confusion = Counter[tuple[str | None, str | None]]


@dataclass
class Details:
    """What a page shows beside a score.

    confusion: how often a gold label met a predicted one, None where there was no item to meet;
    calibration: of each kind of probability that is known; lengths: by the length of sentences.
    """

    confusion: Confusion
    calibration: dict[str, Calibration] = field(default_factory=dict)
    lengths: dict[str, Attachment] = field(default_factory=dict)


# ---- Tags ----------------------------------------------------------------------------------------


@dataclass
class Tagged:
    """Gold and predicted tags of the same words; is_spans: they are span tags.

    token: (tokens,) probability of each predicted tag; entity: of the entity that it belongs to,
    nan outside of entities.
    """

    gold: Corpus
    predicted: Labels
    is_spans: bool
    strict: bool
    token: np.ndarray | None = None
    entity: np.ndarray | None = None

    @cached_property
    def score(self) -> Score:
        return score_tags(self.gold, *self.predicted, self.is_spans, self.strict)

    def details(self) -> Details:
        """Confusions and calibration of spans, or of tags where they are not spans."""
        gold = self.gold.strings, self.gold.ids
        calibration = {}
        if self.token is not None:
            calibration["tags"] = calibrate(self.token, same_tag(*gold, *self.predicted))
        if not self.is_spans:
            everywhere = np.ones(self.gold.ids.size, np.bool_)
            return Details(_confusion(gold, self.predicted, everywhere), calibration)
        compared = span_metrics.compare(
            *gold, *self.predicted, self.gold.block.sentences, self.strict
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
    options: Options, gold_path: Source, predicted_path: Source, strict: bool
) -> Score:
    """Compare the tag columns of two files with the same sentences."""
    return compare_files(options, gold_path, predicted_path, strict).score


def compare_files(
    options: Options, gold_path: Source, predicted_path: Source, strict: bool
) -> Tagged:
    """The tag columns of two files with the same sentences."""
    gold = read_gold(options, gold_path, note=(options.target or "").upper())
    predicted, token, entity = _read_predicted(options, predicted_path, gold)
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
    return Tagged(gold, (predicted.strings, predicted.ids), is_spans, strict, token, entity)


def evaluate_model(options: Options, tagger: Tagger, gold_path: Source, strict: bool) -> Score:
    """Tag a gold file and compare."""
    return compare_model(options, tagger, gold_path, strict).score


def compare_model(
    options: Options, tagger: Tagger, gold_path: Source, strict: bool, probabilities: bool = False
) -> Tagged:
    """The tags of a gold file and those that a tagger gives it."""
    gold = read_gold_of(tagger, options, gold_path)
    unknown = [s for s in gold.strings if s not in tagger.labels and not tagger.header["scheme"]]
    if unknown:
        t = int(np.flatnonzero(gold.ids == gold.strings.index(unknown[0]))[0])
        raise gold.block.error(f"label {unknown[0]!r} is unknown to the model", t)
    sentences = gold.block.sentences
    scores = tagger.scores(gold.block)
    tags = tagger.viterbi(scores, sentences)
    predicted = tagger.output_labels(tags, sentences)
    is_spans = _are_spans(gold, predicted[0], gold.block.path)
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
    """Whether the gold tags are span tags (and not only O); then the predicted must be too."""
    tags = parse(gold.strings)
    if tags is None or not tags.types:
        return False
    if parse(predicted) is None:
        odd = next(s for s in predicted if parse([s]) is None)
        raise DataError(f"{odd!r} is not an IOB tag: is its last column the tags? (--target)", path)
    return True


def _confusion(gold: Labels, predicted: Labels, where: np.ndarray) -> Confusion:
    """How often two labels meet at the tokens `where`."""
    k = len(predicted[0])
    codes = gold[1][where].astype(np.int64) * k + predicted[1][where]
    confusion: Confusion = Counter()
    for code, n in zip(*np.unique(codes, return_counts=True), strict=True):
        confusion[gold[0][code // k], predicted[0][code % k]] += int(n)
    return confusion


# ---- Probabilities in files, as `predict --marginals` writes them --------------------------------


def _probabilities(block: Block, column: int, name: str = "") -> np.ndarray:
    """(tokens,) from a column, or from its NAME= if there is a name; nan where there is none."""
    if column >= len(block.format.columns):
        return np.full(block.n_tokens, np.nan)
    strings, ids = block.column(column)
    pattern = rf"(?:.*\|)?{name}=([01]\.\d+)(?:\|.*)?" if name else r"([01]\.\d+)"
    found = (re.fullmatch(pattern, s) for s in strings)
    return np.array([float(m[1]) if m else np.nan for m in found])[ids]


def _all_known(p: np.ndarray) -> np.ndarray | None:
    return None if np.isnan(p).any() else p


def _read_predicted(
    options: Options, path: Source, gold: Corpus
) -> tuple[Corpus, np.ndarray | None, np.ndarray | None]:
    """The tags of a predicted file, and their probabilities and those of entities if it has them:
    in MISC, as label:probability, or in one or two columns behind those of the gold file."""
    names = gold.block.format.columns
    ordinary = given_names(options.columns) if options.columns else default_names

    def naming(n: int) -> tuple[str, ...]:
        if names and len(names) < n <= len(names) + 2:
            return (*names, "probability", "entity")[:n]
        return ordinary(n)

    note = (options.target or "").upper()
    found = read_gold(replace(options, columns=None), path, naming=naming, note=note)
    block = found.block
    n = len(block.format.columns)
    if block.format.ids:
        return found, *_noted_probabilities(found)
    if block.format.name == "crfsuite":
        return _split_labels(found)
    if "probability" not in block.format.columns[len(names) :]:
        return found, None, None
    token = _probabilities(block, len(names))
    if not np.isnan(token).any():
        return found, token, _probabilities(block, n - 1) if n > len(names) + 1 else None
    block.format = replace(block.format, columns=ordinary(n))  # other columns: the last is the tag
    at = target_column(block.format, options.task, options.target, found.block.path)
    strings, ids = block.column(at)
    return Corpus(block, at, ids, strings), None, None


def _noted_probabilities(found: Corpus) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Probabilities of tags and of entities in MISC of CoNLL-U."""
    block = found.block
    token, entity = (_probabilities(block, Conll.MISC, name) for name in ("Prob", "EntityProb"))
    if np.isnan(token).all():  # a pipeline names the column
        target = block.format.columns[found.target]
        name = "Tag" if found.target == Conll.MISC else target.capitalize()
        token = _probabilities(block, Conll.MISC, f"{name}Prob")
    return _all_known(token), None if np.isnan(entity).all() else entity


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


# ---- Trees ---------------------------------------------------------------------------------------


@dataclass
class Trees:
    """Trees of a gold file and predicted ones: heads (tokens,), labels if there are any, and the
    probabilities that heads and labels are right, if known."""

    gold: Block
    heads: np.ndarray
    labels: Labels | None
    head_probability: np.ndarray | None = None
    label_probability: np.ndarray | None = None

    @cached_property
    def score(self) -> AttachmentScore:
        return score_block(self.gold, self.heads, self.labels)

    def details(self) -> Details:
        """Confusions of labels at right heads, calibration, attachment by length of sentence; of
        the words and labels that the first convention of the score counts."""
        gold, upos = self.gold, words_of(self.gold)[1]
        counted = np.array([tag != "PUNCT" for tag in upos or ["_"] * gold.n_tokens], np.bool_)
        right, arcs = counted & (self.heads == read_heads(gold)), None
        confusion: Confusion = Counter()
        calibration = {}
        if self.head_probability is not None:
            calibration["heads"] = calibrate(self.head_probability[counted], right[counted])
        if self.labels is not None:
            strings, whole = gold.column(Conll.DEPREL)
            names = [[s.split(":")[0] for s in of] for of in (strings, self.labels[0])]
            confusion = _confusion((names[0], whole), (names[1], self.labels[1]), right)
            arcs = right & same_tag(names[0], whole, names[1], self.labels[1])
            if self.head_probability is not None and self.label_probability is not None:
                same = same_tag(strings, whole, *self.labels)[counted]
                p, q = self.head_probability[counted], self.label_probability[counted]
                calibration["labels, with subtypes"] = calibrate(q, same)
                # Head and label are mostly wrong together: the less probable one decides.
                both = calibrate(np.minimum(p, q), right[counted] & same)
                calibration["heads and labels, by the less probable of the two"] = both
        return Details(confusion, calibration, self._lengths(counted, right, arcs))

    def _lengths(
        self, counted: np.ndarray, right: np.ndarray, arcs: np.ndarray | None
    ) -> dict[str, Attachment]:
        words = np.diff(self.gold.sentences)
        bucket = np.searchsorted(list(LENGTHS.values()), np.repeat(words, words), side="right") - 1
        out = {}
        for k, name in enumerate(LENGTHS):
            here = counted & (bucket == k)
            labelled = None if arcs is None else int((here & arcs).sum())
            out[name] = Attachment(int(here.sum()), int((here & right).sum()), labelled)
        return out


def evaluate_trees(
    gold_path: Source, predicted: Source | Parser, format: str | None = None
) -> AttachmentScore:
    """Compare the trees of a gold file with those of another file or of a parser."""
    return compare_trees(gold_path, predicted, format).score


def compare_trees(
    gold_path: Source,
    predicted: Source | Parser,
    format: str | None = None,
    probabilities: bool = False,
) -> Trees:
    """The trees of a gold file and those of another file or of a parser."""
    gold = read(gold_path, format)
    if not gold.format.ids:
        raise DataError(f"is {gold.format.name}; trees are in CoNLL-U or CoNLL-X", gold.path)
    if isinstance(predicted, Parser):
        parsed = predicted.parse(gold, probabilities=probabilities)
        if not predicted.labelled:
            return Trees(gold, parsed.heads, None, parsed.head_probability)
        labels = predicted.labels, parsed.labels
        return Trees(gold, parsed.heads, labels, parsed.head_probability, parsed.label_probability)
    other = read(predicted, format)
    if not other.format.ids:
        raise DataError(f"is {other.format.name}; trees are in CoNLL-U or CoNLL-X", other.path)
    same_tokens(gold, other)
    return _compare_trees(gold, other)


def _compare_trees(gold: Block, other: Block) -> Trees:
    labels = other.column(Conll.DEPREL)
    if other.format.name == "conllx":
        head, label = (_probabilities(other, column) for column in (Conll.PHEAD, Conll.PDEPREL))
    else:
        head, label = (
            _probabilities(other, Conll.MISC, name) for name in ("HeadProb", "LabelProb")
        )
    return Trees(
        gold,
        read_heads(other),
        None if labels.strings == ["_"] else labels,
        _all_known(head),
        _all_known(label),
    )


# ---- Anything ------------------------------------------------------------------------------------


def compare(
    options: Options,
    predicted: Source | Model | Pipeline,
    task: str | None = None,
    strict: bool = False,
    probabilities: bool = False,
) -> dict[str, Tagged | Trees]:
    """What a file, a model or a pipeline says of the gold file options.train: by name if it is a
    pipeline, which says several things, under "" otherwise. The task is `tags` or `parse`."""
    gold, format = options.train, options.format
    if isinstance(predicted, Pipeline):
        if options.columns:
            raise UsageError("--columns is for files of columns; a pipeline is scored on CoNLL-U")
        found = compare_pipeline(gold, predicted, format, strict, probabilities)
        names = [n for n in found if task is None or (n == "trees") == (task == "parse")]
        if options.target:
            names = [n for n in names if n == options.target.lower()]
        if not names:
            raise UsageError(
                f"of what the pipeline predicts, only {', '.join(found)} can be scored"
            )
        return {n: found[n] for n in names}
    if isinstance(predicted, (Tagger, Parser)):
        parser = isinstance(predicted, Parser)
        if task is not None and (task == "parse") != parser:
            raise UsageError(f"--task {task}, but the model is a {'pars' if parser else 'tagg'}er")
    if isinstance(predicted, Tagger):
        return {"": compare_model(options, predicted, gold, strict, probabilities)}
    if isinstance(predicted, Parser) or task == "parse":
        return {"": compare_trees(gold, predicted, format, probabilities)}
    return {"": compare_files(options, gold, predicted, strict)}


# ---- Pipelines -----------------------------------------------------------------------------------


def compare_pipeline(
    gold_path: Source,
    stages: Pipeline,
    format: str | None = None,
    strict: bool = False,
    probabilities: bool = False,
) -> dict[str, Tagged | Trees]:
    """All that a pipeline predicts and a CoNLL-U file has: tags by the name of their column, or of
    their note in MISC, and `trees`. The sentences and words are those of the file."""
    gold = read(gold_path, format)
    if gold.format.name != "conllu":
        raise DataError(f"is {gold.format.name}; a pipeline is scored on CoNLL-U", gold.path)
    data = annotate(stages, gold, stages.extractor, Output(marginals=probabilities))
    predicted = from_bytes(data, gold.path, gold.format)
    found: dict[str, Tagged | Trees] = {}
    for model in stages.models:
        if isinstance(model, Parser):
            if any(head != "_" for head in gold.strings(Conll.HEAD)):
                found["trees"] = _compare_trees(gold, predicted)
            continue
        right, given = (_stage_tags(block, model) for block in (gold, predicted))
        if right is not None and given is not None:
            name = model.header["task" if given.target == Conll.MISC else "target"]
            found[name] = _compare(right, given, strict, *_noted_probabilities(given))
    if not found:
        raise DataError("has nothing that the pipeline predicts", gold.path)
    return found


def _stage_tags(block: Block, tagger: Tagger) -> Corpus | None:
    """The tags of CoNLL-U that a stage predicts, None if the file has none."""
    at = tagger.target(block.format)
    if at is None:
        return noted_tags(block, tagger.header["task"].upper())
    strings, ids = block.column(at)
    return None if strings == ["_"] else Corpus(block, at, ids, strings)


def same_tokens(a: Block, b: Block) -> None:
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
