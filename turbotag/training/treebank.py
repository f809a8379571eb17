"""Treebanks as a parser learns from them: the values that templates read, heads, labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from turbotag.corpus import trees
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.models.components import Pruner
from turbotag.models.scanner import Scanner
from turbotag.optim.trace import Echo
from turbotag.structures import pruning
from turbotag.training.options import ParserOptions

# --decoder auto gives projective trees up to these shares of crossing arcs, at first order and at
# second order, where beliefs are of all trees (docs/parser.md).
RARE_CROSSING = {1: 0.01, 2: 0.006}


@dataclass
class Treebank:
    """Sentences with their trees: the values that templates read, heads and label ids."""

    block: Block
    matrix: np.ndarray
    sentences: np.ndarray
    heads: np.ndarray
    labels: np.ndarray
    strings: list[str]

    @property
    def n(self) -> int:
        """The number of sentences."""
        return self.sentences.size - 1

    def words(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """What the templates read of the words of sentence i, and the heads of the sentence."""
        a, b = self.sentences[i], self.sentences[i + 1]
        return self.matrix[a:b], self.heads[a:b]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        cuts = self.sentences.tolist()
        return zip(cuts, cuts[1:], strict=False)

    def keep(self, chosen: np.ndarray) -> Treebank:
        """The treebank with some of its sentences only."""
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


def training_treebank(
    block: Block, scanner: Scanner, options: ParserOptions, echo: Echo
) -> tuple[Treebank, str]:
    """A treebank that the decoder can learn from, and the decoder, which may be chosen by the
    data."""
    bank = read_treebank(block, scanner, options.single_root)
    crossed = ~trees.projective_sentences(bank.heads, bank.sentences)
    arcs, n = int(trees.crossing(bank.heads, bank.sentences).sum()), int(crossed.sum())
    echo(
        f"{block.path}: {block.format.name}, {block.n_sentences} sentences, "
        f"{block.n_tokens} words; {n} sentences and {arcs} arcs are "
        f"non-projective; tags are {'predicted' if options.jackknife else 'those of the file'}"
    )
    decoder = options.decoder
    if decoder == "auto":
        share = arcs / bank.heads.size
        decoder, why = choose_decoder(share, bool(options.parts), options.fit.loss.smooth)
        echo(f"decoder: {decoder}, {why} (--decoder auto)")
    if decoder != "projective" or not n:
        return bank, decoder
    if options.crossing == "skip":
        echo(f"left out {n} non-projective sentences (--crossing skip)")
        if crossed.all():
            raise DataError("has no projective sentence to train on", block.path)
        return bank.keep(~crossed), decoder
    bank.heads, changed = trees.lift(bank.heads, bank.sentences)
    echo(f"lifted {changed} arcs to make {n} sentences projective")
    return bank, decoder


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


def sort_labels(bank: Treebank, more: Iterable[str] = ()) -> list[str]:
    """Labels in alphabetical order, `more` included; bank.labels are renumbered accordingly."""
    labels = sorted({*bank.strings, *more})
    at = {label: n for n, label in enumerate(labels)}
    order = np.array([at[s] for s in bank.strings], np.int32)
    bank.labels, bank.strings = order[bank.labels], labels
    return labels


def supertags(bank: Treebank, more: Sequence[str] = ()) -> tuple[list[str], np.ndarray]:
    """(names, (words,) ids). A supertag is the label without its subtype, and the side of the head;
    `more` are among the names."""
    own = np.arange(bank.heads.size) - np.repeat(bank.sentences[:-1], np.diff(bank.sentences)) + 1
    sides = np.where(bank.heads == 0, "0", np.where(bank.heads < own, "L", "R"))
    labels = np.array([label.split(":")[0] for label in bank.strings])[bank.labels]
    found = np.char.add(np.char.add(labels, "/"), sides)
    names, ids = np.unique(np.concatenate([found, np.array(more, str)]), return_inverse=True)
    return names.tolist(), ids[: found.size].astype(np.int32)


# ---- Candidate arcs ------------------------------------------------------------------------------


@dataclass
class Candidates:
    """Candidate arcs of all sentences, as in structures/arc_verbs, and how many gold arcs were
    among them before the missing ones were added."""

    cuts: np.ndarray
    heads: np.ndarray
    gold_found: int

    def of(self, bank: Treebank, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The candidate arcs of sentence i of the treebank: (cuts, heads)."""
        a, b = bank.sentences[i], bank.sentences[i + 1]
        first = self.cuts[a]
        return self.cuts[a : b + 1] - first, self.heads[first : self.cuts[b]]

    def report(self, name: str) -> str:
        """A line for the log."""
        words = self.cuts.size - 1
        return (
            f"{name}: {self.heads.size} candidate arcs, {self.heads.size / words:.1f} a word, "
            f"with {100 * self.gold_found / words:.2f} % of the gold arcs"
        )


def candidates(bank: Treebank, pruner: Pruner, scanner: Scanner, add_gold: bool) -> Candidates:
    """The arcs that a pruner leaves; in training, the gold arcs are added."""
    cuts, heads = [np.zeros(1, np.int64)], []
    found = size = 0
    for i in range(bank.n):
        matrix, gold = bank.words(i)
        c, h = pruner.candidates(matrix, scanner)
        with_gold = pruning.with_gold(c, h, gold)
        found += with_gold[2]
        if add_gold:
            c, h = with_gold[:2]
        cuts.append(c[1:] + size)
        heads.append(h)
        size += h.size
    return Candidates(np.concatenate(cuts), np.concatenate(heads), found)
