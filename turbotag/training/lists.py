"""Training data of taggers with many labels: candidate lists, and the problem over these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag import blas
from turbotag.features.extract import Extractor
from turbotag.models.cells import Cells
from turbotag.models.gold import Corpus
from turbotag.models.label_parts import label_pairs
from turbotag.models.lists import ListTagger, lister, parts_of
from turbotag.models.tasks import coder_of
from turbotag.optim.dca import DCA
from turbotag.optim.trace import Echo
from turbotag.structures.candidate_lists import Lists, Occurrences, distances, likely, met, slots
from turbotag.structures.candidate_problem import CandidateProblem
from turbotag.structures.sparse_rows import SparseRowProblem, SparseRows, seen
from turbotag.structures.transitions import NONE
from turbotag.training.features import Features
from turbotag.training.options import TaggerOptions

EPOCHS = 6  # of the coarse model, which need not be good, but must not leave right labels out
# A candidate is at most e^margin times less likely than the best label. Taken is the smallest
# margin that loses at most this share of the gold labels that the largest one finds in the half of
# the data that was not learned from.
MARGINS, LOST = (3.0, 4.0, 5.0, 6.0, 7.0, 8.0), 0.002
FOLDS = 2  # a coarse model lists candidates for the half of the data that it has not seen


@dataclass(frozen=True)
class Listing:
    """What lists the candidates of the model to be: its class, its entry in the header, the cells
    of the fine model, and the coarse model."""

    kind: type[ListTagger]
    header: dict[str, Any]
    cells: SparseRows
    coarse: Any

    def tagger(
        self, header: dict[str, Any], keys: np.ndarray, weights: np.ndarray, *rest: Any
    ) -> ListTagger:
        return self.kind(header, keys, self.cells, weights, self.coarse, *rest)


def prepare_lists(
    options: TaggerOptions, corpus: Corpus, features: Features, extractor: Extractor, echo: Echo
) -> tuple[CandidateProblem, Listing]:
    """The problem over the candidates of all words, the gold labels among them."""
    K, loss = len(corpus.strings), options.fit.loss
    data = Data(corpus.block.sentences, features.occurrences, corpus.ids)
    coarse: Any
    kind, coder = ListTagger, coder_of(options.task)
    header: dict[str, Any]
    if coder:
        kind, header = coder.kind, {"by": coder.name, "most": 0, "margin": 0.0}
        coarse = coder.learn(corpus)
        data, lists = data.distinct(coder.candidates(coarse, corpus), *coder.alike(corpus))
        echo(
            f"{data.gold.size} words to learn from: one of each kind, and all that have several "
            f"{options.task}s"
        )
    else:
        most = options.lists(K)
        plain = _plain(features, extractor)
        lists, coarse, margin = coarse_lists(data, plain, K, most, options.fit.seed)
        header = {"by": "weights", "most": most, "margin": margin, "shared": True}
    echo(f"candidates: {lists.labels.size / data.gold.size:.1f} of {K} labels a word")
    where = data.sentences, data.occurrences
    parts = parts_of({"labels": corpus.strings, "lists": header})
    shared = slots(lists, parts)
    cells = met(*where, shared.lists, features.keys.size, parts.n)
    pairs = label_pairs(corpus.strings) if options.order else NONE
    given = *where, data.gold, shared, cells, pairs
    problem = CandidateProblem(*given, loss.beta, loss.gamma)
    return problem, Listing(kind, header, cells, coarse)


def _plain(features: Features, extractor: Extractor) -> np.ndarray:
    """(rows,) whether a feature has only one attribute: these are the features of the coarse
    model."""
    single = [len(template) == 1 for template in extractor.templates]
    found: np.ndarray = np.array([*single, True])[features.origins[:, 0]]
    return found


@blas.one_thread()
def coarse_lists(
    given: Data, plain: np.ndarray, K: int, most: int, seed: int
) -> tuple[Lists, Cells, float]:
    """(candidates of all words, coarse model, margin). The candidates of each half come from a
    model of the other half, as those of new text will come from a model that has not seen it. The
    coarse model of all data lists those of new text."""
    data, sentences, gold = given.limited(plain), given.sentences, given.gold
    cells = data.fitted(plain.size, K, seed)
    n = sentences.size - 1
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    halves = [
        (data.part(fold == f), data.part(fold != f).fitted(plain.size, K, seed) if n > 1 else cells)
        for f in range(min(FOLDS, n))
    ]
    margin = _margin([held.distances(model, K) for held, model in halves], most)
    counts, found = np.zeros(gold.size, np.int64), []
    for f, (held, model) in enumerate(halves):
        lists = held.listed(model, K, most, margin)
        words = np.flatnonzero(np.repeat(fold == f, np.diff(sentences)))
        counts[words] = np.diff(lists.cuts)
        found.append((words, lists))
    cuts = np.append(0, np.cumsum(counts))
    labels = np.empty(cuts[-1], np.int32)
    for words, lists in found:
        at = np.repeat(cuts[words] - lists.cuts[:-1], counts[words])
        labels[at + np.arange(at.size)] = lists.labels
    return Lists(cuts, labels), cells, margin


def _margin(distances: list[tuple[np.ndarray, np.ndarray]], most: int) -> float:
    """The margin of the lists, from how far gold labels are below the best, and their ranks."""
    below, ranks = (np.concatenate(found) for found in zip(*distances, strict=True))
    kept = [np.mean((below <= margin) & (ranks < most)) for margin in MARGINS]
    return next(m for m, share in zip(MARGINS, kept, strict=True) if share >= kept[-1] - LOST)


@dataclass(frozen=True)
class Data:
    """Sentences with features and gold labels, as of ChainProblem."""

    sentences: np.ndarray
    occurrences: Occurrences
    gold: np.ndarray

    def limited(self, rows_kept: np.ndarray) -> Data:
        """The same data with the features of some rows only."""
        offsets, rows, positions, values = self.occurrences
        kept = rows_kept[rows]
        ends = np.append(0, np.cumsum(kept))[offsets]
        return Data(self.sentences, (ends, rows[kept], positions[kept], values[kept]), self.gold)

    def distinct(self, lists: Lists, forms: np.ndarray, every: np.ndarray) -> tuple[Data, Lists]:
        """Each word as a sentence of its own, and its candidates: one word of each kind (the same
        features, form and gold label), and all words in `every` (words,), whose frequency
        counts."""
        offsets, rows, positions, values = self.occurrences
        token = positions + np.repeat(self.sentences[:-1], np.diff(offsets))
        order = np.lexsort((rows, token))
        ends = np.searchsorted(token[order], np.arange(self.gold.size + 1))
        rows, values = rows[order], values[order]
        # different sets of rows may have the same sum of squares; that loses an example
        marks = np.zeros((3, self.gold.size), np.int64)
        np.add.at(marks[0], token[order], (rows.astype(np.int64) + 1) ** 2)
        marks[1:] = forms, self.gold
        _, words = np.unique(marks, axis=1, return_index=True)
        chosen = every.copy()
        chosen[words] = True
        alone = Data(
            np.arange(self.gold.size + 1),
            (ends, rows, np.zeros(rows.size, np.int32), values),
            self.gold,
        )
        counts = np.diff(lists.cuts)
        kept = lists.labels[np.repeat(chosen, counts)]
        return alone.part(chosen), Lists(np.append(0, np.cumsum(counts[chosen])), kept)

    def part(self, chosen: np.ndarray) -> Data:
        """Some sentences; chosen: (n,) bool."""
        offsets, *arrays = self.occurrences
        of, words = np.diff(offsets), np.diff(self.sentences)
        at = np.repeat(chosen, of)
        ends = np.append(0, np.cumsum(of[chosen]))
        rows, positions, values = (array[at] for array in arrays)
        sentences = np.append(0, np.cumsum(words[chosen]))
        return Data(sentences, (ends, rows, positions, values), self.gold[np.repeat(chosen, words)])

    def fitted(self, n_rows: int, K: int, seed: int) -> Cells:
        """A model of order 0, by a few epochs."""
        cells = seen(self.sentences, self.occurrences, self.gold, n_rows, K)
        problem = SparseRowProblem(self.sentences, self.occurrences, self.gold, cells, K)
        optimizer = DCA(problem, 1.0 / problem.n, np.random.default_rng(seed))
        for _ in range(EPOCHS):
            optimizer.epoch()
        return Cells(cells, optimizer.weights()[:, 0].astype(np.float32))

    def distances(self, model: Cells, K: int) -> tuple[np.ndarray, np.ndarray]:
        """How far below the best label a model has the gold labels."""
        scored = lister(model, K)
        return distances(self.sentences, self.occurrences, scored, K, self.gold)

    def listed(self, model: Cells, K: int, most: int, margin: float) -> Lists:
        """The candidates that a model lists, and gold."""
        scored = lister(model, K)
        return likely(self.sentences, self.occurrences, scored, K, most, margin, self.gold)
