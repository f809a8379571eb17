"""Training a tokenizer from a treebank: its raw text, the units of that, a chain over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.corpus.formats import CONLLU, Conll
from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.multiword import Splitter
from turbotag.corpus.reader import Block, from_bytes, read
from turbotag.corpus.surface import PARAGRAPH, Surface, read_surface
from turbotag.corpus.text import Span
from turbotag.errors import DataError
from turbotag.features import compact, templates
from turbotag.features.characters import Units
from turbotag.metrics.conll18 import Conll18Score, score_blocks, spans_score
from turbotag.models.tokenizer import LABELS, MULTIWORD, Tokenizer
from turbotag.optim.run import Dev, Result
from turbotag.optim.trace import Echo
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import label_sequences
from turbotag.training.fitting import fit, held_out, provenance
from turbotag.training.options import TokenizerOptions
from turbotag.training.work import Training, Work

INSTANCE = 64  # units of an instance; a longer paragraph is cut into several
RUN_TOGETHER = 0.005  # share of tokens that begin inside of a unit, above which letters are units


@dataclass
class Treebank:
    """A treebank as raw text: where its tokens begin, and the spans of its paragraphs."""

    block: Block
    surface: Surface
    text: str
    starts: np.ndarray
    spans: list[Span]

    @classmethod
    def of(cls, block: Block) -> Treebank:
        if block.format.name != "conllu":
            raise DataError(f"is {block.format.name}; tokens are learned from CoNLL-U", block.path)
        surface = read_surface(block)
        sizes = [len(f) + len(g) for f, g in zip(surface.forms, surface.gaps, strict=True)]
        cuts = np.cumsum([0, *sizes])
        opens = [0, *(k + 1 for k, gap in enumerate(surface.gaps) if gap == PARAGRAPH)]
        bounds = [*cuts[opens].tolist(), int(cuts[-1])]
        spans = [(a, b, True) for a, b in zip(bounds, bounds[1:], strict=False)]
        return cls(block, surface, surface.text(), cuts[:-1], spans)

    def labels(self, units: Units) -> np.ndarray:
        """(units,) int32 gold labels. A token that begins inside of a unit is lost."""
        at = np.minimum(np.searchsorted(units.starts, self.starts), units.n - 1)
        seen = units.starts[at] == self.starts
        first = np.zeros(self.starts.size, np.int32)
        first[self.surface.sentences[:-1]] = 1
        out = np.zeros(units.n, np.int32)
        out[at[seen]] = (1 + first + 2 * self.surface.multiword)[seen]
        return out

    def inside(self, units: Units) -> int:
        """How many tokens begin inside of a unit."""
        return self.starts.size - int(np.isin(self.starts, units.starts).sum())

    def multiword(self) -> list[tuple[str, list[str]]]:
        """Multiword tokens and their words."""
        words, cuts = self.block.strings(Conll.WORD), self.surface.words.tolist()
        return [
            (self.surface.forms[k], words[cuts[k] : cuts[k + 1]])
            for k in np.flatnonzero(self.surface.multiword).tolist()
        ]


@Training
def train_tokenizer(options: TokenizerOptions, work: Work) -> tuple[Tokenizer, Result]:
    """Train a tokenizer and write it, if a file is given."""
    gold = Treebank.of(read(options.train, options.layout.format))
    model, units, keys = _start(options, gold, work.command, work.echo)
    progress = work.progress(options.fingerprint(gold.block))
    labels = gold.labels(units)
    model.header["blanks"] = bool((units.spaced & (labels == 0)).any())
    rows, problem = _problem(options, keys, units, labels, len(model.labels))
    work.echo(f"{rows.size} features, {len(model.labels)} labels, {problem.n} pieces of text")
    scorer = dev = None
    if options.dev:
        scorer = _Scorer(model, Treebank.of(read(options.dev, options.layout.format)), rows)
        dev = Dev(scorer.main, "sent", options.fit.keep)
        work.echo(held_out(scorer.gold.block))
    fitted = fit(problem, options.fit, progress.stage(), work.trace, dev)
    model.header |= fitted.header
    model = _compacted(model, rows, fitted.result.weights.astype(np.float32), options.drop)
    if scorer:
        score = score_tokenizer(model, scorer.gold)
        model.header["scores"] = {"dev": score.as_dict()}
        f1 = {name: f"{100 * score.scores[name].f1:.2f}" for name in score.scores}
        work.echo("dev, from raw text: " + ", ".join(f"{n.lower()} {x}" for n, x in f1.items()))
    if work.output:
        model.save(work.output)
    progress.remove()
    progress.settle(f"{work.output} is written")
    return model, fitted.result


def _start(
    options: TokenizerOptions, gold: Treebank, command: str, echo: Echo
) -> tuple[Tokenizer, Units, np.ndarray]:
    """A tokenizer without weights, the units of the training text, and the keys of their
    features."""
    multiword = bool(gold.surface.multiword.any())
    header: dict[str, Any] = {
        "task": options.task,
        "labels": list(LABELS if multiword else LABELS[:MULTIWORD]),
        "blanks": True,
        **provenance(options, gold.block, command),
    }
    echo(
        f"{gold.block.path}: {gold.block.n_sentences} sentences, {gold.starts.size} tokens, of "
        f"which {int(gold.surface.multiword.sum())} have several words, {len(gold.text)} characters"
    )
    by_letter = options.by_letter
    for letters in (False, True) if by_letter is None else (by_letter,):
        name = options.template or ("tokenize-letters" if letters else "tokenize")
        header |= {"templates": templates.load(name), "by_letter": letters}
        shape = len(header["labels"]), len(header["labels"])
        splitter = Splitter.learn(gold.multiword())
        model = Tokenizer(header, np.zeros(0, np.uint64), np.zeros(shape, np.float32), splitter)
        units, keys = model.units(gold.text, gold.spans)[1:]
        inside = gold.inside(units)
        if letters or by_letter is False or inside <= RUN_TOGETHER * gold.starts.size:
            break
        echo(f"{inside} tokens begin inside of words: each letter is a unit (--by-letter)")
    return model, units, keys


def _problem(
    options: TokenizerOptions, keys: np.ndarray, units: Units, labels: np.ndarray, K: int
) -> tuple[np.ndarray, ChainProblem]:
    """The folded keys that get a row of weights, and the training problem."""
    table = KeyTable(1 << 16)
    rows, _ = table.insert(compact.fold(keys.reshape(-1)))
    counts = np.bincount(rows[rows >= 0], minlength=table.size)
    kept = np.flatnonzero(counts >= options.min_count)
    renumber = np.full(table.size + 1, -1, np.int32)  # the last number stands for no row, -1
    renumber[kept] = np.arange(kept.size)
    rows = renumber[rows].reshape(keys.shape)
    unit, _ = np.nonzero(rows >= 0)
    rows = rows[rows >= 0]
    pieces = _instances(units.segments)
    ends = np.searchsorted(unit, pieces)
    positions = (unit - np.repeat(pieces[:-1], np.diff(ends))).astype(np.int32)
    values = np.ones(rows.size, np.float32)
    sparse.sort_occurrences(ends, rows, positions, values)
    occurrences = ends, rows, positions, values
    loss = options.fit.loss
    domain = label_sequences(K)
    problem = ChainProblem(pieces, occurrences, labels, kept.size, domain, loss.beta, loss.gamma)
    return table.keys()[kept], problem


def _instances(segments: np.ndarray) -> np.ndarray:
    """Offsets of instances: paragraphs, of which long ones are cut into pieces of equal size."""
    cuts = []
    for a, b in zip(segments[:-1].tolist(), segments[1:].tolist(), strict=True):
        n = max(1, round((b - a) / INSTANCE))
        cuts += [a + (b - a) * i // n for i in range(n)]
    return np.array([*cuts, int(segments[-1])])


def _compacted(model: Tokenizer, keys: np.ndarray, weights: np.ndarray, drop: float) -> Tokenizer:
    """The tokenizer with these weights as its file will have them: eight bits each, without rows
    whose weights are all below `drop` times the largest."""
    n = keys.size
    rows, large = compact.kept_rows(keys, weights[:n], drop)
    small = compact.dequantize(*compact.quantize(large))
    return Tokenizer(model.header, keys[rows], np.concatenate([small, weights[n:]]), model.splitter)


class _Scorer:
    """F1 of the sentences of a dev text with any weights; its features are looked up once."""

    def __init__(self, model: Tokenizer, gold: Treebank, keys: np.ndarray):
        self.gold, self.header, self.keys = gold, model.header, keys
        self.splitter = model.splitter
        _, self.units, self.found = model.units(gold.text, gold.spans)

    def main(self, weights: np.ndarray) -> float:
        given = self.header, self.keys, weights.astype(np.float32), self.splitter
        model = Tokenizer(*given)
        labels = model.tag(self.units, model.scores(self.units, self.found))
        ours = self.gold.starts[self.gold.surface.sentences[:-1]]
        theirs = self.units.starts[(labels > 0) & (labels % 2 == 0)]
        end = len(self.gold.text)
        return spans_score(np.append(ours, end), np.append(theirs, end)).f1


def score_tokenizer(model: Tokenizer, gold: Treebank) -> Conll18Score:
    """Tokens, sentences and words that a tokenizer finds in the text of a treebank."""
    data = model.to_conllu(gold.text)
    return score_blocks(gold.block, from_bytes(data, "the prediction", CONLLU))
