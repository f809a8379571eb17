"""Scoring weights of arcs on a treebank, after each epoch of their training."""

from __future__ import annotations

import numpy as np

from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block
from turbotag.features.indexing import part_rows
from turbotag.metrics.attachment import AttachmentScore, score_trees
from turbotag.models.gold import words_of
from turbotag.models.scanner import Scanner
from turbotag.structures.arc_problem import best_trees
from turbotag.structures.arc_verbs import Arcs
from turbotag.structures.second_order_problem import believed_trees
from turbotag.training.continued import Continued, WholeTable
from turbotag.training.options import ParserOptions
from turbotag.training.treebank import Candidates, Treebank


class TreeScorer:
    """Scores weights of arcs on a treebank; the features of its arcs are looked up once."""

    def __init__(
        self,
        options: ParserOptions,
        scanner: Scanner,
        rows: tuple[KeyTable, Continued | None],
        data: tuple[Treebank, Candidates],
        gold: Block,
    ):
        """rows: the table of features, and what training goes on from; data: the treebank and its
        candidate arcs; gold: its tags tell which words count, because those of the treebank may be
        predicted."""
        table, self.kept = rows
        self.bank, self.arcs = data
        self.options, self.scanner, self.words = options, scanner, words_of(gold)
        bank, arcs = data

        def every(i: int) -> tuple[np.ndarray, np.ndarray]:
            return scanner.keys(bank.words(i)[0], *arcs.of(bank, i))

        found = part_rows(bank.n, every, WholeTable(table, self.kept) if self.kept else table)
        self.features = Arcs(bank.sentences, arcs.cuts, arcs.heads, *found)

    def heads(self, weights: np.ndarray) -> np.ndarray:
        """(words,) heads of the best trees, with weights of the training problem."""
        weights = self.kept.whole(weights) if self.kept else weights
        options, scanner = self.options, self.scanner
        if not scanner.parts:
            return best_trees(self.features, weights, options.decoder, options.single_root)
        return believed_trees(
            self.features,
            weights,
            options.fit.loss.beta,
            options.single_root,
            scanner.all_siblings,
            options.approximation,
            options.decoder != "nonprojective",
        )

    def score(self, weights: np.ndarray) -> AttachmentScore:
        bank = self.bank
        return score_trees(bank.heads, self.heads(weights), bank.sentences, *self.words)

    def main(self, weights: np.ndarray) -> float:
        """UAS without PUNCT."""
        return self.score(weights).main
