"""Training a parser from files: prune, score arcs, label them; optimise, certify and save."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from turbotag import losses
from turbotag.corpus import trees
from turbotag.corpus.formats import Conll
from turbotag.corpus.hashing import KeyTable, hash_strings
from turbotag.corpus.reader import Block, Source, read
from turbotag.errors import DataError, UsageError
from turbotag.features import arcs as arc_features
from turbotag.features import compact, templates
from turbotag.features.arcs import SUPER
from turbotag.metrics.attachment import AttachmentScore, score_trees
from turbotag.models import store
from turbotag.models.calibrating import calibrate_parser, from_second_model
from turbotag.models.checkpoints import Arrays, Progress, fingerprint
from turbotag.models.continued import Continued, OldStage, WholeTable, origin
from turbotag.models.fitting import Fitted, check, fit, held_out, provenance
from turbotag.models.gold import Echo, Options
from turbotag.models.jackknife import draw_folds, predicted_tags
from turbotag.models.parser import (
    CLASSIFIERS,
    DECODERS,
    MOST_HEADS,
    PACKED,
    PART_FILES,
    STAGES,
    Parser,
    Scanner,
)
from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.base import LOOPY, SECOND_ORDER
from turbotag.optim.problem import Problem
from turbotag.optim.run import Dev, Result
from turbotag.optim.trace import Trace
from turbotag.structures import pruning, sparse
from turbotag.structures.arc_problem import ArcProblem, Arcs, best_trees
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.second_order import ENTROPIES, Approximation
from turbotag.structures.second_order_problem import BetheProblem, BoundProblem, believed_trees

CROSSING = ("lift", "skip")
# Shares of crossing arcs up to which --decoder auto gives projective trees, at first and at second
# order, where beliefs are those of all trees (docs/parser.md).
RARE_CROSSING = {1: 0.01, 2: 0.006}
ROUNDS = {  # where nothing else is asked for
    "convex": Approximation("convex", 8, 0.5, 1e-4),
    "bethe": Approximation("bethe", 30, 0.3, 1e-3),
}
PRUNER: dict[str, Any] = {
    "algorithm": "dca",
    "params": {},
    "loss": "crf",
    "beta": None,
    "gamma": None,
    "C": 0.03,
    "epochs": 4,
    "stop_gap": None,
    "patience": None,
    "max_seconds": None,
    "max_oracle_calls": None,
}
READ_SUPERTAGS = {"prune": "super-prune", "arc": "super-arcs", "label": "super-labels"}
SUPERTAGGER = PRUNER | {"C": 0.1, "epochs": 8}
SUPER_GAMMA = 3.0  # of its loss, a softmax margin
LABEL_COUNT = 2  # a feature of the labeler, or of supertags, is seen at least this often
LABEL_C = 3.0  # the labeler wants less regularization than the arcs, by this factor
# The share of options.drop for the rows of each stage.
DROP = {"super": 2.5, "prune": 0.2, "arc": 1.0, "label": 2.5}
CHUNK = 1 << 26  # bytes: malloc keeps what is smaller than half of this


@dataclass
class Treebank:
    """Sentences with their trees: the values that templates read, heads and label ids."""

    block: Block
    matrix: np.ndarray
    sentences: np.ndarray
    heads: np.ndarray
    labels: np.ndarray
    strings: list[str]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        cuts = self.sentences.tolist()
        return zip(cuts, cuts[1:], strict=False)

    def keep(self, chosen: np.ndarray) -> Treebank:
        """Only some of the sentences."""
        lengths = np.diff(self.sentences)
        words = np.repeat(chosen, lengths)
        sentences = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return replace(
            self,
            matrix=self.matrix[words],
            sentences=sentences,
            heads=self.heads[words],
            labels=self.labels[words],
        )


def read_treebank(block: Block, scanner: Scanner, single_root: bool) -> Treebank:
    """Heads and labels of a gold file, checked."""
    matrix = scanner.matrix(block)
    heads = trees.read_heads(block, single_root)
    strings, ids = block.column(Conll.DEPREL)
    return Treebank(block, matrix, block.sentences, heads, ids, strings)


def sort_labels(bank: Treebank, more: Iterable[str] = ()) -> list[str]:
    """Labels in alphabetical order, `more` among them, with bank.labels renumbered to it."""
    labels = sorted({*bank.strings, *more})
    at = {label: n for n, label in enumerate(labels)}
    order = np.array([at[s] for s in bank.strings], np.int32)
    bank.labels, bank.strings = order[bank.labels], labels
    return labels


# ---- Candidate arcs and their features ----------------------------------------------------------


@dataclass
class Candidates:
    """Candidate arcs of all sentences, as in structures/arc_problem, and how many gold ones were
    among them before those that were missing were added."""

    cuts: np.ndarray
    heads: np.ndarray
    gold_found: int

    def of(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the sentence of words a..b-1."""
        first = self.cuts[a]
        return self.cuts[a : b + 1] - first, self.heads[first : self.cuts[b]]


def candidates(bank: Treebank, parser: Parser, scanner: Scanner, add_gold: bool) -> Candidates:
    """The arcs that `parser` would consider, in training with the gold ones among them."""
    cuts, heads = [np.zeros(1, np.int64)], []
    found = size = 0
    for a, b in bank:
        c, h = parser.candidates(bank.matrix[a:b], scanner)
        with_gold = pruning.with_gold(c, h, bank.heads[a:b])
        found += with_gold[2]
        if add_gold:
            c, h = with_gold[:2]
        cuts.append(c[1:] + size)
        heads.append(h)
        size += h.size
    return Candidates(np.concatenate(cuts), np.concatenate(heads), found)


Keys = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def index(
    bank: Treebank, features: Keys, arcs: Candidates, min_count: int, old: OldStage | None = None
) -> KeyTable:
    """A row for each feature of a gold arc, for each that `old` has and, if min_count is not 0, for
    each that is seen on at least so many candidate arcs (or parts)."""
    table = KeyTable(1 << 16)
    for a, b in bank:
        gold = np.arange(b - a + 1), bank.heads[a:b]
        table.insert(features(bank.matrix[a:b], *gold)[0])
    if old:
        for a, b in bank:
            keys = features(bank.matrix[a:b], *arcs.of(a, b))[0]
            table.insert(keys[old.lookup(keys) >= 0])
    if min_count:
        some = [(a, b) for a, b in bank][:100]
        seen = sum(features(bank.matrix[a:b], *arcs.of(a, b))[0].size for a, b in some)
        total = int(seen / max(1, arcs.cuts[some[-1][1]]) * arcs.heads.size)
        counts = np.zeros(1 << min(max(total, 1 << 16).bit_length(), 28), np.uint8)
        for a, b in bank:
            _count(features(bank.matrix[a:b], *arcs.of(a, b))[0], counts)
        for a, b in bank:
            keys = features(bank.matrix[a:b], *arcs.of(a, b))[0]
            table.insert(_frequent(keys, counts, min(min_count, 255)))
    return table


class _Pieces:
    """Arrays that are joined with little memory beside the result: they are gathered in chunks so
    large that the system has each back as soon as it is copied."""

    def __init__(self) -> None:
        self.chunks: list[np.ndarray] = []
        self.small: list[np.ndarray] = []
        self.waiting = self.size = 0

    def add(self, piece: np.ndarray) -> None:
        self.small.append(piece)
        self.waiting += piece.nbytes
        self.size += piece.size
        if self.waiting > CHUNK:
            self._gather()

    def _gather(self) -> None:
        if self.small:
            self.chunks.append(np.concatenate(self.small))
        self.small, self.waiting = [], 0

    def joined(self) -> np.ndarray:
        self._gather()
        out, end = np.empty(self.size, self.chunks[0].dtype), self.size
        while self.chunks:
            chunk = self.chunks.pop()
            out[end - chunk.size : end] = chunk
            end -= chunk.size
        return out


def arc_rows(
    bank: Treebank, features: Keys, arcs: Candidates, table: KeyTable | WholeTable
) -> Arcs:
    """The features of all candidate arcs that have a row, numbered within their sentences."""
    seen, number = np.full(table.size, -1, np.int32), np.empty(table.size, np.int32)
    rows, local, ends = _Pieces(), _Pieces(), _Pieces()
    firsts = [0]
    for i, (a, b) in enumerate(bank):
        keys, end = features(bank.matrix[a:b], *arcs.of(a, b))
        mine, here = _localise(table.lookup(keys), end, i, seen, number)
        ends.add(end + local.size)
        rows.add(mine)
        local.add(here)
        firsts.append(rows.size)
    return Arcs(
        bank.sentences,
        arcs.cuts,
        arcs.heads,
        ends.joined(),
        local.joined(),
        np.array(firsts),
        rows.joined(),
    )


@njit(cache=True, nogil=True)
def _count(keys, counts):
    """Approximate counts: keys that share a slot are counted together; they stop at 255."""
    mask = np.uint64(counts.size - 1)
    for i in range(keys.size):
        s = keys[i] & mask
        if counts[s] < 255:
            counts[s] += 1


@njit(cache=True, nogil=True)
def _frequent(keys, counts, least):
    mask, n = np.uint64(counts.size - 1), 0
    out = np.empty(keys.size, np.uint64)
    for i in range(keys.size):
        if counts[keys[i] & mask] >= least:
            out[n] = keys[i]
            n += 1
    return out[:n]


@njit(cache=True, nogil=True)
def _localise(rows, ends, stamp, seen, number):
    """(rows of the sentence, their numbers at each arc); `ends` is brought up to date."""
    mine, local = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    n, k, o = 0, 0, 0
    for e in range(ends.size):
        while o < ends[e]:
            r = rows[o]
            if r >= 0:
                if seen[r] != stamp:
                    seen[r], number[r] = stamp, n
                    mine[n] = r
                    n += 1
                local[k] = number[r]
                k += 1
            o += 1
        ends[e] = k
    return mine[:n].copy(), local[:k].copy()


# ---- Training -----------------------------------------------------------------------------------


@dataclass
class ArcTask:
    """The problem of scoring arcs, the table of its features, UAS on dev for weights, what scores
    weights on a treebank, and what training goes on from."""

    problem: ArcProblem
    table: KeyTable
    dev_score: Callable[[np.ndarray], float] | None
    scorer: Callable[[Source], TreeScorer]
    kept: Continued | None


class TreeScorer:
    """Scores weights of arcs on a treebank; the features of its arcs are looked up once. The tags
    of `gold` tell which words count, as those of the treebank may be predicted."""

    def __init__(
        self,
        training: ParserTraining,
        table: KeyTable,
        kept: Continued | None,
        bank: Treebank,
        gold: Block,
    ):
        scanner = training.scanner
        self.training, self.bank, self.words, self.kept = training, bank, words_of(gold), kept
        self.arcs = candidates(bank, training.parser(), scanner, False)
        whole = WholeTable(table, kept) if kept else table
        self.features = arc_rows(bank, scanner.keys, self.arcs, whole)

    def heads(self, weights: np.ndarray) -> np.ndarray:
        """(words,) heads of the best trees, with weights of the training problem."""
        training, weights = self.training, self.kept.whole(weights) if self.kept else weights
        options, scanner, single_root = training.options, training.scanner, training.single_root
        if not scanner.parts:
            return best_trees(self.features, weights, options.decoder, single_root)
        return believed_trees(
            self.features,
            weights,
            training.loss.beta,
            single_root,
            scanner.all_siblings,
            approximation(options),
            options.decoder != "nonprojective",
        )

    def score(self, weights: np.ndarray) -> AttachmentScore:
        bank = self.bank
        return score_trees(bank.heads, self.heads(weights), bank.sentences, *self.words)

    def main(self, weights: np.ndarray) -> float:
        """UAS without PUNCT."""
        return self.score(weights).main


class ParserTraining:
    """One run: its files, and the parser as it grows stage by stage."""

    def __init__(
        self,
        options: Options,
        output: str,
        echo: Echo,
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
    ):
        self.options = options = replace(options)  # its decoder may be chosen by the data
        self.echo = echo
        self.loss = loss = losses.loss(options.loss, options.beta, options.gamma)
        self.single_root = not options.multi_root
        texts = {"arc": templates.load(options.template or "parse")}
        if options.prune:
            texts["prune"] = templates.load("prune")
        if options.labels:
            texts["label"] = templates.load("label")
        texts |= {PART_FILES[p]: templates.load(PART_FILES[p]) for p in options.parts}
        if options.supertags:
            texts["super"] = templates.load("super")
            for stage, more in READ_SUPERTAGS.items():
                if stage in texts and not (stage == "arc" and options.template):
                    texts[stage] += templates.load(more)
        for t in arc_features.parse(texts["arc"], options.template or "parse"):
            if any(relation not in "hm" for relation, _ in (*t.head, *t.mod)):
                raise DataError(
                    f"'{t}' looks beyond the arc, which only labels can", options.template
                )
        self.old = Parser.load(options.init) if options.init else None
        self.block = block = read(options.train, options.format)
        mark = fingerprint(options, block)
        self.progress = Progress(output, mark, checkpoint_seconds, resume, echo)
        if options.jackknife:
            texts = {name: for_raw_text(text) for name, text in texts.items()}
        self.scanner = Scanner(texts)
        self._check_columns()
        dev = read(options.dev, options.format) if options.dev else None
        self.gold_dev = dev
        if options.jackknife:
            read_treebank(block, self.scanner, self.single_root)  # what is wrong is found first
            block, dev = predicted_tags(block, options.jackknife, options.seed, self.progress, dev)
        self.bank = self._read(block)
        labelled = self.old is not None and self.old.labelled
        self.labels = sort_labels(self.bank, self.old.labels if self.old and labelled else ())
        self.header: dict[str, Any] = {
            "task": "parse",
            "labels": self.labels if options.labels else ["_"],
            "decoder": options.decoder,
            "single_root": self.single_root,
            "templates": {},
            "parts": list(options.parts),
            "approximation": approximation(options).as_dict(),
            "supertags": [],
            "tags": f"{options.jackknife}-fold predicted" if options.jackknife else "gold",
            "reads": [c for c in self.scanner.words.tokens.columns if _has(block, c)],
            "loss": {"beta": str(loss.beta)},
        }
        if options.heads:
            self.header["heads"] = options.heads
        self.texts = texts
        self.arrays: Arrays = {}
        self.old_stages = self._old_stages()
        self.dev = read_treebank(dev, self.scanner, False) if dev else None
        if dev:
            echo(held_out(dev))

    def _check_columns(self) -> None:
        """Templates must not read the tree that is to be predicted."""
        hidden = {"head", "deprel"} if self.options.labels else {"head"}
        seen = hidden & set(self.scanner.words.tokens.columns)
        if seen:
            raise UsageError(
                f"template {self.options.template!r} reads column {min(seen)!r}, "
                "which is to be predicted"
            )
        if SUPER in self.scanner.words.at and not self.options.supertags:
            raise UsageError(f"template {self.options.template!r} reads supertags: --supertags 5")

    def _read(self, block: Block) -> Treebank:
        options, echo = self.options, self.echo
        bank = read_treebank(block, self.scanner, self.single_root)
        crossed = ~trees.projective_sentences(bank.heads, bank.sentences)
        arcs = int(trees.crossing(bank.heads, bank.sentences).sum())
        echo(
            f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
            f"{block.n_tokens} words; {int(crossed.sum())} sentences and {arcs} arcs are "
            f"non-projective; tags are {'predicted' if options.jackknife else 'those of the file'}"
        )
        if options.decoder == "auto":
            options.decoder, why = choose_decoder(
                arcs / bank.heads.size, bool(options.parts), self.loss.smooth
            )
            echo(f"decoder: {options.decoder}, {why} (--decoder auto)")
        if options.decoder != "projective" or not crossed.any():
            return bank
        if options.crossing == "skip":
            echo(f"left out {int(crossed.sum())} non-projective sentences (--crossing skip)")
            if crossed.all():
                raise DataError("has no projective sentence to train on", block.path)
            return bank.keep(~crossed)
        bank.heads, changed = trees.lift(bank.heads, bank.sentences)
        echo(f"lifted {changed} arcs to make {int(crossed.sum())} sentences projective")
        return bank

    def _old_stages(self) -> dict[str, OldStage]:
        """Those of a parser to go on from that this one will have too."""
        if self.old is None:
            return {}
        texts = self.old.header["templates"]
        self.echo(f"going on from a parser of {self.old.header['data']['name']}")
        for stage in [s for s in texts if s in self.texts]:
            lost = set(arc_features.parse(texts[stage], stage))
            lost -= set(arc_features.parse(self.texts[stage], stage))
            if lost:
                self.echo(
                    f"warning: {len(lost)} templates of its stage {stage!r} are not among those of "
                    f"this training, such as '{min(map(str, lost))}': their weights are of no use"
                )
        return {s: OldStage(self.old, s) for s in STAGES if s in texts and s in self.texts}

    def _go_on(
        self, stage: str, problem: Problem, keys: np.ndarray, classes: list[str] | None = None
    ) -> Continued | None:
        """What a stage begins with, if there is a parser to go on from."""
        if stage not in self.old_stages:
            return None
        kept = self.old_stages[stage].continued(keys, classes)
        kept.begin(problem)
        self.echo(f"{stage}: {kept}")
        return kept

    def parser(self) -> Parser:
        return Parser(self.header, self.arrays)

    def pack(
        self, name: str, keys: np.ndarray, weights: np.ndarray, kept: Continued | None = None
    ) -> Arrays:
        """A trained stage, without the rows whose weights are all small beside the largest."""
        if kept:
            keys, weights = kept.keys, kept.whole(weights)
        size = np.abs(weights).max(axis=1)
        keep = size > DROP[name] * self.options.drop * size.max(initial=0.0)
        rows = np.flatnonzero(keep)
        rows = rows[compact.distinct(keys[rows], size[rows])]
        several = name in CLASSIFIERS  # weights of a row
        packed = compact.pack(keys[rows], weights[rows] if several else weights[rows, 0])
        self.echo(f"{name}: kept {rows.size} of {keys.size} rows")
        return dict(zip(PACKED, packed, strict=True))

    def add(self, name: str, packed: Arrays) -> None:
        """Make a trained stage part of the parser."""
        added = [name, *(self.scanner.parts if name == "arc" else ())]
        self.header["templates"] |= {n: self.texts[n] for n in added}
        self.arrays |= {f"{name}.{n}": packed[n] for n in PACKED}
        self.parser()  # what does not fit together is found here

    # The stages

    def supertag(self) -> None:
        """A first guess of each word's label and side, for the other stages to read: of training
        sentences as in text that is new, by folds."""
        self.echo("== supertags ==")
        options, bank = self.options, self.bank
        n, k = bank.sentences.size - 1, options.supertags
        fold = draw_folds(n, k, options.seed, bank.block.path)
        names, gold = supertags(bank, self.old.header.get("supertags", []) if self.old else [])

        def extract(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
            return self.scanner.supertag_keys(bank.matrix[a:b])

        keys, occurrences = word_features(bank, extract, self.old_stages.get("super"))
        self.echo(f"{keys.size} rows, {len(names)} supertags")
        found, lengths = np.empty_like(gold), np.diff(bank.sentences)
        trained = replace(options, **SUPERTAGGER)

        def problem(chosen: np.ndarray) -> ChainProblem:
            return ChainProblem(
                np.concatenate([[0], np.cumsum(lengths[chosen])]),
                chosen_occurrences(occurrences, chosen),
                gold[np.repeat(chosen, lengths)],
                keys.size,
                len(names),
                1.0,
                SUPER_GAMMA,
                order=0,
            )

        def tag_fold(f: int) -> Arrays:
            stage = self.progress.stage(f"super{f}", brief=True)
            fitted = fit(problem(fold != f), trained, stage, Trace())
            self.echo(f"fold {f + 1} of {k}: stopped: {fitted.result.stopped}")
            tags = np.empty_like(gold)
            tag_words(bank.sentences, *occurrences[:3], fold == f, fitted.result.weights, tags)
            return {"tags": tags[np.repeat(fold == f, lengths)]}

        def put_fold(f: int, arrays: Arrays) -> None:
            tags = arrays["tags"]
            if not ((tags >= 0) & (tags < len(names))).all():
                raise ValueError("they are no supertags")
            found[np.repeat(fold == f, lengths)] = tags

        def tagger() -> Arrays:
            everything = problem(fold >= 0)
            kept = self._go_on("super", everything, keys, names)
            stage = self.progress.stage("super")
            fitted = fit(everything, trained, stage, Trace(self.echo))
            return self.pack("super", keys, fitted.result.weights, kept)

        for f in range(k):
            self.progress.once(f"super{f}", partial(tag_fold, f), partial(put_fold, f))
        self.echo(f"{100 * np.mean(found == gold):.2f} % right over {k} folds")
        self.header["supertags"] = names
        self.progress.once("super", tagger, partial(self.add, "super"))
        self.scanner.put_supertags(bank.matrix, hash_strings(names)[found])
        if self.dev:
            self.dev.matrix = self.parser().matrix(self.dev.block, self.scanner)

    def prune(self) -> None:
        """A small model of tags that leaves a handful of heads a word."""
        self.echo("== pruning model ==")
        self.progress.once("prune", self._pruner, partial(self.add, "prune"))

    def _pruner(self) -> Arrays:
        options = replace(self.options, **PRUNER)
        arcs = candidates(self.bank, self.parser(), self.scanner, False)
        extractor = self.scanner.stage["prune"]
        table = index(self.bank, extractor.keys, arcs, 0, self.old_stages.get("prune"))
        features = arc_rows(self.bank, extractor.keys, arcs, table)
        problem = ArcProblem(
            features,
            self.bank.heads,
            table.size,
            1.0,
            0.0,
            self.options.decoder,
            self.single_root,
        )
        kept = self._go_on("prune", problem, table.keys())
        fitted = fit(problem, options, self.progress.stage("prune"), Trace(self.echo))
        return self.pack("prune", table.keys(), fitted.result.weights, kept)

    def arc_problem(self) -> ArcTask:
        """The arcs themselves, as a training problem."""
        options, bank = self.options, self.bank
        self.echo("== arcs ==")
        parser, extract = self.parser(), self.scanner.keys
        arcs = candidates(bank, parser, self.scanner, True)
        self._report("training", bank, arcs)
        table = index(bank, extract, arcs, options.min_count, self.old_stages.get("arc"))
        features = arc_rows(bank, extract, arcs, table)
        n_templates = len(self.scanner.stage["arc"].templates)
        n_templates += sum(len(e.templates) for e in self.scanner.parts.values())
        self.echo(
            f"{n_templates} templates, {table.size} rows, "
            f"{features.local.size / features.ends.size:.1f} features a part, "
            f"{features.ends.size / bank.heads.size:.1f} parts a word, "
            f"{features.nbytes / 1e6:.0f} MB"
        )
        common = features, bank.heads, table.size, self.loss.beta, self.loss.gamma
        problem = ArcProblem(*common, options.decoder, self.single_root)
        if self.scanner.parts:
            kind = BoundProblem if options.entropy == "convex" else BetheProblem
            how = self.scanner.all_siblings, approximation(options)
            problem = kind(*common, self.single_root, *how)
        kept = self._go_on("arc", problem, table.keys())

        def scorer(source: Source) -> TreeScorer:
            block = read(source, options.format)
            held_out = read_treebank(block, self.scanner, False)
            if options.supertags:
                held_out.matrix = parser.matrix(block, self.scanner)
            return TreeScorer(self, table, kept, held_out, block)

        if not self.dev:
            return ArcTask(problem, table, None, scorer, kept)
        assert self.gold_dev is not None
        dev = TreeScorer(self, table, kept, self.dev, self.gold_dev)
        self._report("dev", self.dev, dev.arcs)
        return ArcTask(problem, table, dev.main, scorer, kept)

    def up_to_arcs(self) -> None:
        """Train the stages that the arcs stand on."""
        if self.options.supertags:
            self.supertag()
        if self.options.prune:
            self.prune()

    def score(self, trace: Trace) -> Fitted:
        task = self.arc_problem()
        dev = Dev(task.dev_score, "UAS", self.options.keep) if task.dev_score else None
        stage = self.progress.stage("arc", more=True)
        fitted = fit(task.problem, self.options, stage, trace, dev)
        weights = fitted.result.weights
        self.add("arc", self.pack("arc", task.table.keys(), weights, task.kept))
        return fitted

    def _report(self, name: str, bank: Treebank, arcs: Candidates) -> None:
        words = bank.heads.size
        self.echo(
            f"{name}: {arcs.heads.size} candidate arcs, {arcs.heads.size / words:.1f} a word, "
            f"with {100 * arcs.gold_found / words:.2f} % of the gold arcs"
        )

    def label(self) -> Fitted:
        """The labels of the gold arcs."""
        self.echo("== labels ==")
        options, bank = self.options, self.bank
        extractor = self.scanner.stage["label"]

        def extract(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
            heads = bank.heads[a:b]
            return extractor.keys(bank.matrix[a:b], np.arange(b - a + 1), heads, heads)

        keys, occurrences = word_features(bank, extract, self.old_stages.get("label"))
        self.echo(
            f"{len(extractor.templates)} templates, {keys.size} rows, {len(self.labels)} labels"
        )
        problem = ChainProblem(
            bank.sentences,
            occurrences,
            bank.labels,
            keys.size,
            len(self.labels),
            self.loss.beta,
            self.loss.gamma,
            order=0,
        )
        kept = self._go_on("label", problem, keys, self.labels)
        params = {k: v for k, v in options.params.items() if k != "dual"}
        fitted = fit(
            problem,
            replace(options, params=params, C=LABEL_C * options.C),
            self.progress.stage("label", more=True),
            Trace(self.echo),
        )
        self.add("label", self.pack("label", keys, fitted.result.weights, kept))
        return fitted


Occurrences = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def word_features(
    bank: Treebank,
    extract: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    old: OldStage | None = None,
) -> tuple[np.ndarray, Occurrences]:
    """(keys of the features seen at least LABEL_COUNT times or known to `old`, their occurrences by
    sentence as in structures/chain_problem); extract(a, b): (keys, ends) of the words a..b-1 of a
    sentence."""
    flat, at, ends = _Pieces(), _Pieces(), [0]
    for a, b in bank:
        found, end = extract(a, b)
        flat.add(found)
        at.add(np.repeat(np.arange(b - a), np.diff(end, prepend=0)).astype(np.int32))
        ends.append(ends[-1] + found.size)
    table = KeyTable(1 << 16)
    rows, _ = table.insert(flat.joined())
    often = np.bincount(rows, minlength=table.size) >= LABEL_COUNT
    if old:
        often |= old.lookup(table.keys()) >= 0
    renumber = np.where(often, np.cumsum(often) - 1, -1).astype(np.int32)
    rows = renumber[rows]
    known = rows >= 0
    offsets = np.concatenate([[0], np.cumsum(known)])[ends]
    positions = at.joined()[known]
    occurrences = offsets, rows[known], positions, np.ones(positions.size, np.float32)
    sparse.sort_occurrences(*occurrences)
    return table.keys()[often], occurrences


def chosen_occurrences(occurrences: Occurrences, chosen: np.ndarray) -> Occurrences:
    """Those of some sentences."""
    offsets, *rest = occurrences
    sizes = np.diff(offsets)
    kept = np.repeat(chosen, sizes)
    rows, positions, values = (x[kept] for x in rest)
    return np.concatenate([[0], np.cumsum(sizes[chosen])]), rows, positions, values


@njit(cache=True, nogil=True)
def tag_words(sentences, offsets, rows, positions, chosen, W, out):
    """The best class of every word of the chosen sentences, by the sum of its features' rows."""
    K = W.shape[1]
    for s in range(chosen.size):
        if not chosen[s]:
            continue
        a = sentences[s]
        scores = np.zeros((sentences[s + 1] - a, K))
        for o in range(offsets[s], offsets[s + 1]):
            to, row = scores[positions[o]], W[rows[o]]
            for k in range(K):
                to[k] += row[k]
        for t in range(scores.shape[0]):
            out[a + t] = np.argmax(scores[t])


def supertags(bank: Treebank, more: Sequence[str] = ()) -> tuple[list[str], np.ndarray]:
    """(names, (words,) ids): the label without its subtype, and where the head is; `more` are among
    the names."""
    own = np.arange(bank.heads.size) - np.repeat(bank.sentences[:-1], np.diff(bank.sentences)) + 1
    sides = np.where(bank.heads == 0, "0", np.where(bank.heads < own, "L", "R"))
    labels = np.array([label.split(":")[0] for label in bank.strings])[bank.labels]
    found = np.char.add(np.char.add(labels, "/"), sides)
    names, ids = np.unique(np.concatenate([found, np.array(more, str)]), return_inverse=True)
    return names.tolist(), ids[: found.size].astype(np.int32)


def for_raw_text(text: str) -> str:
    """Templates that read forms where others read lemmas and morphology, which raw text has not."""
    lines = text.replace("lemma", "lower").replace("feats", "shortshape").splitlines()
    return "\n".join(dict.fromkeys(" ".join(line.split()) for line in lines)) + "\n"


def choose_decoder(share: float, second_order: bool, smooth: bool) -> tuple[str, str]:
    """(decoder, the reason in words) by the share of crossing arcs in the training data."""
    if second_order and not smooth:
        return "nonprojective", "as the tree with the largest score is sought among all"
    rare = RARE_CROSSING[1 + second_order]
    what = f"{100 * share:.2f} % of the arcs cross"
    if share > rare:
        return "nonprojective", f"as {what}, more than {100 * rare:g} %"
    chosen = "projective-decoding" if second_order else "projective"
    return chosen, f"as only {what}, not more than {100 * rare:g} %"


def approximation(options: Options) -> Approximation:
    """How second-order parts are summed over."""
    asked = {"rounds": options.rounds, "damping": options.damping, "tolerance": options.tolerance}
    given: dict[str, Any] = {k: v for k, v in asked.items() if v is not None}
    return replace(ROUNDS[options.entropy], **given)


def check_parse(options: Options) -> None:
    check(options)
    if options.decoder not in ("auto", *DECODERS):
        raise UsageError(f"decoder is one of auto, {', '.join(DECODERS)}")
    if options.crossing not in CROSSING:
        raise UsageError(f"crossing is one of {', '.join(CROSSING)}")
    unknown = [p for p in options.parts if p not in PART_FILES]
    if unknown:
        raise UsageError(f"parts are {', '.join(PART_FILES)}, not {unknown[0]!r}")
    if options.entropy not in ENTROPIES:
        raise UsageError(f"entropy is one of {', '.join(ENTROPIES)}")
    if options.parts:
        structure = SECOND_ORDER if options.entropy == "convex" else LOOPY
        able = [name for name, cls in ALGORITHMS.items() if structure in cls.structures]
        if options.algorithm not in able:
            raise UsageError(
                f"--parts with --entropy {options.entropy} is trained by {', '.join(able)}; "
                f"{options.algorithm} needs the exact log Z"
            )
    smooth = losses.loss(options.loss, options.beta, options.gamma).smooth
    if options.parts and options.entropy == "bethe" and not smooth:
        raise UsageError("--entropy bethe needs a loss with finite beta")
    if options.parts and options.params.get("sampling") in ("importance", "gap-importance"):
        raise UsageError("--parts has no bound of its features: use --sampling gap")
    try:
        approximation(options).check()
    except ValueError as e:
        raise UsageError(str(e)) from e
    if options.parts and options.decoder == "projective":
        raise UsageError(
            "--parts sums over all trees: take --decoder projective-decoding or nonprojective"
        )
    if options.parts and options.decoder == "projective-decoding" and not smooth:
        raise UsageError("--decoder projective-decoding with --parts needs a finite beta")
    if options.parts and not options.prune:
        raise UsageError("--parts needs pruned arcs: leave out --no-prune")
    if options.min_count < 0:
        raise UsageError(f"min-count is {options.min_count}: it must not be negative")
    if not 0.0 <= options.drop <= 0.1:
        raise UsageError(f"drop is {options.drop}: it must lie between 0 and 0.1")
    if options.jackknife == 1 or options.jackknife < 0:
        raise UsageError(f"jackknife is {options.jackknife}: it takes 2 folds or more")
    if options.heads is not None and not 1 <= options.heads <= MOST_HEADS:
        raise UsageError(f"heads is {options.heads}: it must lie between 1 and {MOST_HEADS}")
    if options.heads is not None and not options.prune:
        raise UsageError("--heads needs the pruning model: leave out --no-prune")
    if options.supertags == 1 or options.supertags < 0:
        raise UsageError(f"supertags is {options.supertags}: it takes 2 folds or more")
    if options.supertags and not options.labels:
        raise UsageError("--supertags needs labels")
    if options.params.get("dual") == "exact" and options.decoder != "projective":
        raise UsageError("--dual exact needs --decoder projective; use --dual compact")
    beta = losses.loss(options.loss, options.beta, options.gamma).beta
    if options.params.get("dual") == "exact" and not np.isfinite(beta):
        raise UsageError("--dual exact needs a finite beta; use --dual compact")


def train_parser(
    options: Options,
    output: str,
    trace: Trace | None = None,
    echo: Echo = lambda line: None,
    command: str = "",
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
) -> tuple[Parser, Result]:
    """Train a parser and write it to `output`; the trace and result are those of the arcs.

    Each stage has a checkpoint, output + '.STAGE.checkpoint', until the model is written.
    """
    check_parse(options)
    with store.held(output):
        training = ParserTraining(options, output, echo, resume, checkpoint_seconds)
        training.up_to_arcs()
        fitted = training.score(trace or Trace())
        labelled = training.label() if options.labels else None
        header = training.header
        header |= provenance(options, training.block, command) | fitted.header
        header["certified"] = fitted.certified
        if training.old and options.init:
            header["init"] = origin(options.init, training.old.header)
        if labelled:
            header["label_certificate"] = labelled.header["certificate"]
        parser = training.parser()
        if training.dev and training.gold_dev:
            score = score_parser(parser, training.gold_dev, tagged=training.dev.block)
            header["scores"] = {"dev": score.as_dict()}
        parser.save(output)
        if options.calibration:
            training.progress.settle(f"{output} is written, but not calibrated")
            found = _calibration(parser, training)
            if found:
                parser.set_calibration(found)
                parser.save(output)
        training.progress.remove()
        return parser, fitted.result


def problem(options: Options, echo: Echo = lambda line: None) -> ArcTask:
    """The problem of scoring arcs that `train_parser` solves with these options, for trying
    optimizers on it: the stages before it are trained, nothing is written."""
    check_parse(options)
    training = ParserTraining(options, os.devnull, echo)
    training.up_to_arcs()
    return training.arc_problem()


def _calibration(parser: Parser, training: ParserTraining) -> dict[str, Any] | None:
    """Fitted on the dev set, or on training data that another model has not seen."""
    options, echo = training.options, training.echo
    if training.dev:
        dev = training.dev.block
        return calibrate_parser(parser, dev, Path(dev.path).name, echo)
    return from_second_model(options, training.block, training.bank.block, train_parser, echo)


# ---- Scores ------------------------------------------------------------------------------------


def _has(block: Block, name: str) -> bool:
    """Whether a column has a value for any word."""
    column = block.format.index(name)
    return column is not None and bool(block.filled(column).any())


def words_of(block: Block) -> tuple[list[str], list[str] | None]:
    """Forms, and the universal tags if PUNCT is among them."""
    tags = block.strings(Conll.UPOS)
    return block.strings(Conll.WORD), tags if any(t == "PUNCT" for t in tags) else None


def score_parser(
    parser: Parser, block: Block, decode: str = "viterbi", tagged: Block | None = None
) -> AttachmentScore:
    """Parse a gold file and compare; tagged: the same sentences, with the tags to be read."""
    parsed = parser.parse(tagged or block, decode=decode)
    labels = (parser.labels, parsed.labels) if parser.labelled else None
    return score_block(block, parsed.heads, labels)


def score_block(
    gold: Block, heads: np.ndarray, labels: tuple[list[str], np.ndarray] | None
) -> AttachmentScore:
    """Heads and labels against those of a gold block."""
    gold_heads, gold_labels = trees.read_heads(gold), gold.column(Conll.DEPREL)
    forms, upos = words_of(gold)
    return score_trees(gold_heads, heads, gold.sentences, forms, upos, gold_labels, labels)
