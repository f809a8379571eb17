"""The stages of a parser, in the order of their training: supertags, pruning, arcs, labels.

All stages have one interface: `fit` trains the stage and gives the arrays that go into the model
file; `apply` lets later stages read what it has learned. A parser is trained by a list of stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block
from turbotag.features import compact
from turbotag.features.indexing import (
    Keys,
    Lookup,
    Occurrences,
    chosen_occurrences,
    part_rows,
    part_table,
    tag_words,
    word_table,
)
from turbotag.features.kinds import resource_arrays
from turbotag.features.resources import Resource
from turbotag.losses import Loss
from turbotag.models.components import (
    PACKED,
    Pruner,
    Supertagger,
    kept_heads,
    supertagger,
    weight_table,
)
from turbotag.models.parser import Parser
from turbotag.models.scanner import Scanner
from turbotag.optim.problem import Problem
from turbotag.optim.run import Dev
from turbotag.optim.trace import Echo, Trace
from turbotag.storage.checkpoints import Arrays, Progress
from turbotag.structures import sparse
from turbotag.structures.arc_problem import ArcProblem
from turbotag.structures.arc_verbs import Arcs
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import Order0
from turbotag.structures.second_order_problem import BetheProblem, BoundProblem
from turbotag.training.continued import Continued, OldStage
from turbotag.training.fit import MOST_C, Fit
from turbotag.training.fitting import Fitted, fit
from turbotag.training.jackknife import draw_folds
from turbotag.training.options import ParserOptions
from turbotag.training.tree_scorer import TreeScorer
from turbotag.training.treebank import Candidates, Treebank, candidates, supertags

PRUNER = Fit("dca", C=0.03, epochs=4)
SUPERTAGGER = Fit("dca", loss=Loss(1.0, 3.0), C=0.1, epochs=8)
LEAST_COUNT = 2  # a feature of labels or supertags is seen at least this often
LABEL_C = 3.0  # labels want less regularization than the arcs, by this factor


@dataclass
class Setup:
    """What the stages of a parser learn from, and what the trained stages have given.

    options: with the decoder that is used; block: the training file; bank: its trees, with the tags
    that the parser will meet; dev: the same of the dev file, which is gold_dev; old: a parser to go
    on from, and its stages; arrays: of resources, and of the stages that are trained.
    """

    options: ParserOptions
    progress: Progress
    texts: dict[str, str]
    scanner: Scanner
    block: Block
    bank: Treebank
    labels: list[str]
    dev: Treebank | None = None
    gold_dev: Block | None = None
    old: Parser | None = None
    old_stages: dict[str, OldStage] = field(default_factory=dict)
    resources: list[Resource] = field(default_factory=list)
    supertags: list[str] = field(default_factory=list)
    supertagger: Supertagger | None = None
    pruner: Pruner = field(init=False)
    arrays: Arrays = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        self.arrays = resource_arrays(self.resources)
        kept = kept_heads(bool(options.parts), options.heads, training=True)
        self.pruner = Pruner(options.decoder, options.single_root, kept)

    @property
    def echo(self) -> Echo:
        return self.progress.echo

    def lookup(self, stage: str) -> Lookup | None:
        """The features of a stage that a parser to go on from has."""
        return self.old_stages[stage].lookup if stage in self.old_stages else None

    def go_on(
        self, stage: str, problem: Problem, keys: np.ndarray, classes: list[str] | None = None
    ) -> Continued | None:
        """What a stage begins with if there is a parser to go on from."""
        if stage not in self.old_stages:
            return None
        kept = self.old_stages[stage].continued(keys, classes)
        kept.begin(problem)
        self.echo(f"{stage}: {kept}")
        return kept


class Stage:
    """name: of its arrays, templates and checkpoint; drop: its share of --drop; once: whether the
    stage is done when it has given its arrays, so that --resume takes them from its checkpoint."""

    name = ""
    heading = ""
    drop = 1.0
    once = True

    def run(self, setup: Setup) -> None:
        setup.echo(f"== {self.heading} ==")
        if self.once:
            work, use = partial(self.fit, setup), partial(self.apply, setup)
            setup.progress.once(self.name, work, use)
        else:
            self.apply(setup, self.fit(setup))

    def fit(self, setup: Setup) -> Arrays:
        """Train the stage; returns its arrays as the model file has them, packed."""
        raise AssertionError("every stage has its own")

    def apply(self, setup: Setup, packed: Arrays) -> None:
        """Make a trained stage part of the parser."""
        setup.arrays |= {f"{self.name}.{n}": packed[n] for n in PACKED}

    def pack(
        self, setup: Setup, keys: np.ndarray, weights: np.ndarray, kept: Continued | None
    ) -> Arrays:
        """Trained weights, (rows, 1) or (rows, classes), without the rows whose weights are all
        small relative to the largest."""
        if kept:
            keys, weights = kept.keys, kept.whole(weights)
        rows, large = compact.kept_rows(keys, weights, self.drop * setup.options.drop)
        several = isinstance(self, Classes)
        packed = compact.pack(keys[rows], large if several else large[:, 0])
        setup.echo(f"{self.name}: kept {rows.size} of {keys.size} rows")
        return dict(zip(PACKED, packed, strict=True))


# ---- Classes of words ----------------------------------------------------------------------------


class Classes(Stage):
    """A stage that gives each word one of a few classes, independently: labels, supertags."""

    drop = 1.5

    def features(self, setup: Setup, words: Keys) -> tuple[np.ndarray, Occurrences]:
        """(keys that have a row, their occurrences by sentence). words: a function that gives
        (keys, ends) of the words of a sentence."""
        keys, occurrences = word_table(setup.bank.n, words, LEAST_COUNT, setup.lookup(self.name))
        sparse.sort_occurrences(*occurrences)
        return keys, occurrences


class Supertags(Classes):
    """A first guess of the label and the side of the head of each word, for the other stages to
    read. Training sentences get guesses by folds, as new text would."""

    name = "super"
    heading = "supertags"

    def run(self, setup: Setup) -> None:
        """Guess the supertags of each fold by a model of the other folds, then train on all."""
        setup.echo(f"== {self.heading} ==")
        bank, options, k = setup.bank, setup.options, setup.options.supertags
        self.how = replace(SUPERTAGGER, seed=options.fit.seed)
        fold = draw_folds(bank.n, k, self.how.seed, bank.block.path)
        known = setup.old.header.get("supertags", []) if setup.old else []
        setup.supertags, self.gold = supertags(bank, known)
        self.keys, self.occurrences = self.features(
            setup, lambda i: setup.scanner.supertag_keys(bank.words(i)[0])
        )
        setup.echo(f"{self.keys.size} rows, {len(setup.supertags)} supertags")
        self.found = np.empty((self.gold.size, 2), np.int32)
        setup.progress.folds(
            "super",
            k,
            lambda f: self._tag_fold(setup, fold == f, f, k),
            lambda f, arrays: self._put_fold(setup, fold == f, arrays),
            options.fit.threads,
        )
        first, second = 100 * (self.found == self.gold[:, None]).mean(axis=0)
        doubted = 100 * np.mean(self.found[:, 1] >= 0)
        setup.echo(
            f"{first:.2f} % right over {k} folds, {first + second:.2f} % with the second guess, "
            f"which {doubted:.1f} % have"
        )
        setup.progress.once(self.name, partial(self.fit, setup), partial(self.apply, setup))

    def _problem(self, setup: Setup, chosen: np.ndarray) -> ChainProblem:
        lengths = np.diff(setup.bank.sentences)
        return ChainProblem(
            np.concatenate([[0], np.cumsum(lengths[chosen])]),
            chosen_occurrences(self.occurrences, chosen),
            self.gold[np.repeat(chosen, lengths)],
            self.keys.size,
            Order0(len(setup.supertags)),
            self.how.loss.beta,
            self.how.loss.gamma,
        )

    def _tag_fold(self, setup: Setup, held_out: np.ndarray, f: int, k: int) -> Arrays:
        stage = setup.progress.stage(f"super{f}", brief=True)
        fitted = fit(self._problem(setup, ~held_out), self.how, stage, Trace())
        setup.echo(f"fold {f + 1} of {k}: stopped: {fitted.result.stopped}")
        sentences, tags = setup.bank.sentences, np.empty_like(self.found)
        tag_words(sentences, *self.occurrences[:3], held_out, fitted.result.weights, tags)
        return {"tags": tags[np.repeat(held_out, np.diff(sentences))]}

    def _put_fold(self, setup: Setup, held_out: np.ndarray, arrays: Arrays) -> None:
        tags = arrays["tags"]
        if not ((tags >= [0, -1]) & (tags < len(setup.supertags))).all():
            raise ValueError("some of its tags are not supertags")
        self.found[np.repeat(held_out, np.diff(setup.bank.sentences))] = tags

    def fit(self, setup: Setup) -> Arrays:
        everything = self._problem(setup, np.ones(setup.bank.n, np.bool_))
        kept = setup.go_on(self.name, everything, self.keys, setup.supertags)
        stage = setup.progress.stage(self.name)
        fitted = fit(everything, self.how, stage, Trace(setup.echo))
        return self.pack(setup, self.keys, fitted.result.weights, kept)

    def apply(self, setup: Setup, packed: Arrays) -> None:
        """Training sentences get the guesses of models that did not see them."""
        super().apply(setup, packed)
        setup.supertagger = supertagger(setup.arrays, setup.supertags)
        setup.scanner.put_supertags(setup.bank.matrix, setup.supertagger.values, self.found)
        if setup.dev:
            setup.supertagger.fill(setup.dev.matrix, setup.dev.sentences, setup.scanner)


class Labels(Classes):
    """The stage that labels arcs, trained on the gold arcs."""

    name = "label"
    heading = "labels"
    once = False
    fitted: Fitted

    def fit(self, setup: Setup) -> Arrays:
        options, bank, loss = setup.options, setup.bank, setup.options.fit.loss
        extractor = setup.scanner.stage[self.name]

        def words(i: int) -> tuple[np.ndarray, np.ndarray]:
            matrix, heads = bank.words(i)
            return extractor.keys(matrix, np.arange(heads.size + 1), heads, heads)

        keys, occurrences = self.features(setup, words)
        setup.echo(
            f"{len(extractor.templates)} templates, {keys.size} rows, {len(setup.labels)} labels"
        )
        problem = ChainProblem(
            bank.sentences,
            occurrences,
            bank.labels,
            keys.size,
            Order0(len(setup.labels)),
            loss.beta,
            loss.gamma,
        )
        kept = setup.go_on(self.name, problem, keys, setup.labels)
        params = {k: v for k, v in options.fit.params.items() if k != "dual"}
        C = min(LABEL_C * options.fit.C, MOST_C)
        how = replace(options.fit, params=params, C=C, patience=None)
        stage = setup.progress.stage(self.name, more=True)
        self.fitted = fit(problem, how, stage, Trace(setup.echo))
        return self.pack(setup, keys, self.fitted.result.weights, kept)


# ---- Arcs ----------------------------------------------------------------------------------------

Extract = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def indexed(
    setup: Setup, stage: str, extract: Extract, arcs: Candidates, min_count: int
) -> tuple[KeyTable, Arcs]:
    """A table of the features of candidate arcs, and the arcs with the rows of their features."""
    bank = setup.bank

    def gold(i: int) -> tuple[np.ndarray, np.ndarray]:
        matrix, heads = bank.words(i)
        return extract(matrix, np.arange(heads.size + 1), heads)

    def every(i: int) -> tuple[np.ndarray, np.ndarray]:
        return extract(bank.words(i)[0], *arcs.of(bank, i))

    sizes = np.diff(arcs.cuts[bank.sentences])
    table = part_table(sizes, gold, every, min_count, setup.lookup(stage))
    rows = part_rows(bank.n, every, table)
    return table, Arcs(bank.sentences, arcs.cuts, arcs.heads, *rows)


class Pruning(Stage):
    """The stage that prunes: a small model over tags that leaves each word a few heads."""

    name = "prune"
    heading = "pruning model"
    drop = 0.2

    def fit(self, setup: Setup) -> Arrays:
        options, bank = setup.options, setup.bank
        how = replace(PRUNER, seed=options.fit.seed)
        arcs = candidates(bank, setup.pruner, setup.scanner, False)
        table, features = indexed(setup, self.name, setup.scanner.stage[self.name].keys, arcs, 0)
        loss, trees = how.loss, (options.decoder, options.single_root)
        problem = ArcProblem(features, bank.heads, table.size, loss.beta, loss.gamma, *trees)
        kept = setup.go_on(self.name, problem, table.keys())
        fitted = fit(problem, how, setup.progress.stage(self.name), Trace(setup.echo))
        return self.pack(setup, table.keys(), fitted.result.weights, kept)

    def apply(self, setup: Setup, packed: Arrays) -> None:
        super().apply(setup, packed)
        setup.pruner = replace(setup.pruner, table=weight_table(setup.arrays, self.name))


@dataclass
class ArcTask:
    """The problem of scoring arcs, the table of its features, and what training goes on from."""

    problem: ArcProblem
    table: KeyTable
    kept: Continued | None


class ArcScores(Stage):
    """The stage that scores arcs, with second-order parts over them if asked for."""

    name = "arc"
    heading = "arcs"
    once = False
    fitted: Fitted

    def __init__(self, trace: Trace):
        self.trace = trace

    def task(self, setup: Setup) -> ArcTask:
        """The training problem of the stage."""
        options, bank, scanner = setup.options, setup.bank, setup.scanner
        arcs = candidates(bank, setup.pruner, scanner, True)
        setup.echo(arcs.report("training"))
        table, features = indexed(setup, self.name, scanner.keys, arcs, options.min_count)
        templates = len(scanner.stage[self.name].templates)
        templates += sum(len(e.templates) for e in scanner.parts.values())
        setup.echo(
            f"{templates} templates, {table.size} rows, "
            f"{features.local.size / features.ends.size:.1f} features a part, "
            f"{features.ends.size / bank.heads.size:.1f} parts a word, "
            f"{features.nbytes / 1e6:.0f} MB"
        )
        loss = options.fit.loss
        common = features, bank.heads, table.size, loss.beta, loss.gamma
        problem = ArcProblem(*common, options.decoder, options.single_root)
        if scanner.parts:
            kind = BoundProblem if options.entropy == "convex" else BetheProblem
            how = scanner.all_siblings, options.approximation
            problem = kind(*common, options.single_root, *how)
        return ArcTask(problem, table, setup.go_on(self.name, problem, table.keys()))

    def fit(self, setup: Setup) -> Arrays:
        task, dev = self.task(setup), None
        if setup.dev and setup.gold_dev:
            scorer = tree_scorer(setup, task, setup.dev, setup.gold_dev)
            setup.echo(scorer.arcs.report("dev"))
            dev = Dev(scorer.main, "UAS", setup.options.fit.keep)
        stage, problem, kept = setup.progress.stage(self.name, more=True), task.problem, task.kept
        keys = task.table.keys()
        del task  # the table has several times the memory of the keys
        self.fitted = fit(problem, setup.options.fit, stage, self.trace, dev)
        return self.pack(setup, keys, self.fitted.result.weights, kept)


def tree_scorer(setup: Setup, task: ArcTask, bank: Treebank, gold: Block) -> TreeScorer:
    """A scorer of the weights of a task on a treebank; its gold tags tell which words count."""
    arcs = candidates(bank, setup.pruner, setup.scanner, False)
    return TreeScorer(setup.options, setup.scanner, (task.table, task.kept), (bank, arcs), gold)


def stages(options: ParserOptions, trace: Trace) -> list[Stage]:
    """The stages of a training, in their order."""
    before: list[Stage] = [Supertags()] if options.supertags else []
    if options.prune:
        before.append(Pruning())
    return [*before, ArcScores(trace), *([Labels()] if options.labels else [])]
