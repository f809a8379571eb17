"""Why a parser chose its heads, labels and supertags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.features.arc_names import Namer, PartNamer, Values, values
from turbotag.features.parts import ROLES
from turbotag.models.parser import Parser
from turbotag.models.scanner import Scanner
from turbotag.report.explainer import Explainer, Item, difference
from turbotag.report.explanation import Explanation
from turbotag.report.heaviest import supertags
from turbotag.structures import parts

Part = tuple[str, tuple[int, ...]]  # its kind, '' for arcs, and its words


class _Trees(Explainer):
    """Heads: two trees differ in arcs, and at second order in parts of two arcs."""

    arrow = " → "

    def __init__(
        self, parser: Parser, scanner: Scanner, block: Block, matrix: np.ndarray, named: Values
    ):
        super().__init__("head", [str(h) for h in range(block.n_tokens + 1)], block)
        self.parser, self.scanner, self.matrix, self.named = parser, scanner, matrix, named
        self.candidates = parser.candidates(matrix, scanner)
        self.best = parser.scored(matrix, scanner, self.candidates).decode("viterbi")[0]
        self.probabilities = parser.arc_probabilities(matrix, scanner)
        self.namer = Namer(scanner.stage["arc"], scanner.words)
        self.part_namers = {k: PartNamer(x, scanner.words) for k, x in scanner.parts.items()}

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        mine = int(self.best[t])
        self._same(str(mine), against, t)
        allowed = np.ones(len(self.forms) + 1, bool)
        if against is not None:
            allowed[:] = False
            allowed[int(against)] = True
        allowed[[mine, t + 1]] = False
        other = self.parser.other_tree(self.matrix, self.scanner, self.candidates, t + 1, allowed)
        if other is None:
            return
        ours, theirs = self._parts(self.best), self._parts(other)
        found = difference(self._items(ours - theirs), self._items(theirs - ours))
        chances = {str(h): float(p) for h, p in enumerate(self.probabilities[:, t + 1])}
        yield self._made(t, _numbers(self.best), _numbers(other), found, chances)

    def _parts(self, heads: np.ndarray) -> Counter[Part]:
        """The parts of a tree; a word without children has the siblings START, END twice."""
        n = heads.size
        found: Counter[Part] = Counter(("", (int(h), m)) for m, h in enumerate(heads, 1))
        if not self.part_namers:
            return found
        p = parts.parts(np.arange(n + 1), heads, self.scanner.all_siblings)
        z = np.empty(parts.size(p))
        parts.indicator(heads, p, z)
        _, *seconds = parts.split(z, p)
        for kind, here, at in zip(ROLES, seconds, parts.positions(p), strict=True):
            if kind in self.part_namers:
                found.update((kind, tuple(words)) for words in at[here > 0].tolist())
        return found

    def _items(self, of: Counter[Part]) -> Iterator[Item]:
        for kind, words in sorted(of.elements()):
            if kind:
                named = self.part_namers[kind].features(self.matrix, self.named, words)
            else:
                head, modifier = words
                named = self.namer.features(self.matrix, self.named, head, modifier)
            keys = np.array([key for key, _ in named], np.uint64)
            weights = self.parser.tables["arc"].sums(keys, np.arange(1, keys.size + 1))
            for (key, name), weight in zip(named, weights.tolist(), strict=True):
                yield key, name, words, weight


class _Classes(Explainer):
    """Labels or supertags: each word decides by itself, once the tree is known."""

    arrow = " → "

    def __init__(
        self,
        stage: str,
        parser: Parser,
        scanner: Scanner,
        block: Block,
        matrix: np.ndarray,
        named: Values,
        heads: np.ndarray | None,
    ):
        labels = parser.labels if heads is not None else parser.header["supertags"]
        super().__init__("label" if heads is not None else "supertag", labels, block)
        self.parser, self.matrix, self.named, self.heads = parser, matrix, named, heads
        tagger = parser.supertagger
        chosen = tagger.classifier if tagger and heads is None else parser.labeler
        assert chosen is not None
        self.classes = chosen
        self.namer = Namer(scanner.stage[stage], scanner.words)
        if heads is not None:
            self.scores = parser.label_scores(matrix, heads, scanner)
        elif tagger:
            self.scores = tagger.scores(matrix, scanner)
        self.best = self.scores.argmax(axis=1)
        self.probabilities = parser.label_probabilities(self.scores, parser.label_confidence)

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        mine = self.known[self.best[t]]
        self._same(mine, against, t)
        if len(self.known) == 1:
            return
        scores = self.scores[t].copy()
        scores[self.best[t]] = -np.inf
        other = int(scores.argmax()) if against is None else self.known.index(against)
        head = 0 if self.heads is None else int(self.heads[t])
        named = self.namer.features(self.matrix, self.named, head, t + 1, self.heads)
        rows = self.classes.table.lookup(np.array([key for key, _ in named], np.uint64))
        at = (t + 1,) if self.heads is None else (head, t + 1)
        found = []
        for (_, name), row in zip(named, rows.tolist(), strict=True):
            if row >= 0:
                weights = self.classes.row(row).astype(np.float64)
                found.append((name, at, float(weights[self.best[t]] - weights[other])))
        chances = dict(zip(self.known, self.probabilities[t].tolist(), strict=True))
        strings = [self.known[k] for k in self.best.tolist()]
        others = [*strings[:t], self.known[other], *strings[t + 1 :]]
        yield self._made(t, strings, others, [f for f in found if f[2]], chances)


def explainers(parser: Parser, scanner: Scanner, block: Block) -> list[Explainer]:
    """The explainers of a parser, in the order in which it decides."""
    matrix = parser.matrix(block, scanner)
    named = values(scanner.words, block, supertags(parser, scanner, matrix))
    given = parser, scanner, block, matrix, named
    trees = _Trees(*given)
    out: list[Explainer] = [trees]
    if parser.supertagger:
        out.insert(0, _Classes("super", *given, None))
    if parser.labelled:
        out.append(_Classes("label", *given, trees.best))
    return out


def _numbers(heads: np.ndarray) -> list[str]:
    return [str(h) for h in heads.tolist()]
