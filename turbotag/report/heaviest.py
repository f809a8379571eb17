"""The heaviest features of a model, with readable names.

The file of a tagger has the names of all features, unless it is compact. Compact taggers and
parsers keep hashes only; the features of a text, which have names, are looked up among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turbotag.corpus.reader import Block, read
from turbotag.errors import UsageError
from turbotag.features import compact
from turbotag.features.arc_names import Namer, Values, values
from turbotag.features.arcs import SECOND, SUPER, ArcExtractor
from turbotag.models.model import Model
from turbotag.models.parser import Parser
from turbotag.models.scanner import Scanner
from turbotag.models.tagger import Tagger

Weighed = list[tuple[float, str]]  # weight and name, the heaviest first
SHOWN = 5  # features of a label, if nothing else is said


def _top(weights: np.ndarray, n: int) -> np.ndarray:
    """Indices of the n largest weights, the largest first."""
    n = min(n, weights.size)
    best = np.argpartition(-weights, n - 1)[:n] if n else np.zeros(0, np.int64)
    return best[np.argsort(-weights[best], kind="stable")]


def features_text(model: Model, label: str | None, top: int | None, data: str | None) -> str:
    """The heaviest features, with a heading for each kind: those of every label of a tagger, those
    of the arcs of a parser, or those of one label. data: only features that occur in this file."""
    kinds: dict[str, Callable[..., dict[str, Weighed]]] = {"tagger": _tags, "parser": _trees}
    found = kinds[model.kind](model, label, top, data) if model.kind in kinds else {}
    return "\n".join(
        "\n".join([f"\n{name}", *(f"{weight:>9.4f}  {feature}" for weight, feature in lines)])
        for name, lines in found.items()
    )


# ---- Taggers -------------------------------------------------------------------------------------


def _tags(
    tagger: Tagger, label: str | None, top: int | None, data: str | None
) -> dict[str, Weighed]:
    n = SHOWN if top is None else top
    block = read(data, tagger.input_format, tagger.naming) if data is not None else None
    wanted = [(k, name) for k, name in enumerate(tagger.labels) if n and label in (None, name)]
    return {name: tagger_features(tagger, k, n, block) for k, name in wanted}


def tagger_features(tagger: Tagger, label: int, n: int, block: Block | None = None) -> Weighed:
    """The n features with the largest weights for a label: of all, or of those in a block."""
    weights = tagger.label_weights(label)
    if block is None:
        return [(float(weights[r]), tagger.feature_name(int(r))) for r in _top(weights, n)]
    extractor = tagger.new_extractor()
    found = extractor.occurrences(block)
    rows, first = np.unique(tagger.lookup(found.keys), return_index=True)
    rows, first = rows[rows >= 0], first[rows >= 0]
    best = _top(weights[rows], n)
    at = first[best]
    origins = extractor.origins(found.token[at], found.which[at], found.ids, block.sentences)
    names = [extractor.describe(o, extractor.vocabulary()) for o in origins.tolist()]
    return list(zip(weights[rows[best]].tolist(), names, strict=True))


# ---- Parsers -------------------------------------------------------------------------------------


def _trees(
    parser: Parser, label: str | None, top: int | None, data: str | None
) -> dict[str, Weighed]:
    if data is not None:
        if label is not None and not parser.labelled:
            raise UsageError("the parser gives no labels")
        n = SHOWN if top is None else top
        return {label or "arcs": parser_features(parser, label, n, read(data))}
    if label is not None or top is not None:
        raise UsageError(
            "a parser's file has no names of features: --data FILE shows those of a CoNLL-U file"
        )
    return {}


@dataclass(frozen=True)
class Arcs:
    """Arcs of a sentence, words `begin`..`end`-1 of a block: the candidate heads of word m are
    heads[cuts[m-1]:cuts[m]]; tree: all heads, if the arcs are those of one."""

    begin: int
    end: int
    cuts: np.ndarray
    heads: np.ndarray
    tree: np.ndarray | None

    def arc(self, number: int) -> tuple[int, int]:
        """(head, modifier)."""
        return int(self.heads[number]), int(np.searchsorted(self.cuts, number, side="right"))


def parser_features(parser: Parser, label: str | None, n: int, block: Block) -> Weighed:
    """The n features of a block with the largest weights. With a label, they are those of the arcs
    in the trees that the parser gives; without one, those of all candidate arcs."""
    scanner = parser.new_extractor()
    matrix = parser.matrix(block, scanner)
    stage = "arc" if label is None else "label"
    extractor = scanner.stage[stage]
    keys, weights = parser.rows(stage)
    if label is not None:
        weights = weights[:, parser.labels.index(label)]
    arcs = _arcs(parser, scanner, matrix, block, label is not None)
    seen = _first_seen(keys, extractor, matrix, arcs)
    known = np.flatnonzero(seen[:, 0] >= 0)
    strings = values(scanner.words, block, supertags(parser, scanner, matrix))
    namer = Namer(extractor, scanner.words)
    out: Weighed = []
    for row in known[_top(weights[known], n)].tolist():
        sentence, number = seen[row].tolist()
        at = arcs[sentence]
        words = slice(at.begin, at.end)
        here: Values = {source: column[words] for source, column in strings.items()}
        head, modifier = at.arc(number)
        named = namer.features(matrix[words], here, head, modifier, at.tree)
        folded = compact.fold(np.array([key for key, _ in named], np.uint64))
        out.append((float(weights[row]), named[int(np.argmax(folded == keys[row]))][1]))
    return out


def _arcs(
    parser: Parser, scanner: Scanner, matrix: np.ndarray, block: Block, of_trees: bool
) -> list[Arcs]:
    """The arcs of the best tree of each sentence, or all its candidate arcs."""
    cuts = block.sentences.tolist()
    spans = list(zip(cuts, cuts[1:], strict=False))
    if of_trees:
        trees = parser.parse(block, scanner).heads
        return [Arcs(a, b, np.arange(b - a + 1), trees[a:b], trees[a:b]) for a, b in spans]
    return [Arcs(a, b, *parser.candidates(matrix[a:b], scanner), None) for a, b in spans]


def _first_seen(
    keys: np.ndarray, extractor: ArcExtractor, matrix: np.ndarray, arcs: list[Arcs]
) -> np.ndarray:
    """(keys, 2): the first sentence and arc that have a feature, -1 if none has it. Keys are folded
    and in order, as a parser keeps them."""
    seen = np.full((keys.size, 2), -1)
    for s, at in enumerate(arcs):
        found, ends = extractor.keys(matrix[at.begin : at.end], at.cuts, at.heads, at.tree)
        folded = compact.fold(found)
        rows = np.searchsorted(keys, folded).clip(max=keys.size - 1)
        new = np.flatnonzero((keys[rows] == folded) & (seen[rows, 0] < 0))
        seen[rows[new], 0] = s
        seen[rows[new], 1] = np.searchsorted(ends, new, side="right")
    return seen


def supertags(parser: Parser, scanner: Scanner, matrix: np.ndarray) -> Values:
    """The supertags that the templates see, word by word."""
    if parser.supertagger is None:
        return {}
    names = dict(zip(parser.supertagger.values.tolist(), parser.header["supertags"], strict=True))
    at = {source: scanner.words.at.get(source) for source in (SUPER, SECOND)}
    return {
        source: [names.get(value, "") for value in matrix[:, column].tolist()]
        for source, column in at.items()
        if column is not None
    }
