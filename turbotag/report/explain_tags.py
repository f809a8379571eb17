"""Why a tagger chose its tags."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.features.extract import Extractor
from turbotag.models.lemmas import Lemmatizer
from turbotag.models.prediction import tag_name
from turbotag.models.tagger import Tagger
from turbotag.report.explainer import Explainer, Item, difference
from turbotag.report.explanation import Explanation

MERGED = str.maketrans("SE", "BI")  # prefixes of IOBES that IOB2 writes as others


class Tags(Explainer):
    """Tags: two sequences differ in features of words and in pairs (and triples) of tags."""

    def __init__(self, tagger: Tagger, extractor: Extractor, block: Block):
        super().__init__(tag_name(tagger), _labels(tagger), block)
        self.tagger, self.extractor, self.block = tagger, extractor, block
        self.scores = tagger.scores(block, extractor)
        self.best = tagger.viterbi(self.scores, block.sentences)
        self.posterior = tagger.posterior(self.scores, block.sentences)
        self.found = extractor.occurrences(block)

    def values(self, t: int) -> list[str]:
        """Each label as it is written at word t: scripts as the lemmas that they make of it."""
        if not isinstance(self.tagger, Lemmatizer):
            return self.known
        return self.tagger.lemmas((self.forms[t], script) for script in self.known)

    def explain(self, t: int, against: str | None) -> Iterator[Explanation]:
        values = self.values(t)
        written, mine = np.array(values), values[self.best[t]]
        self._same(mine, against, t)
        allowed = written != mine if against is None else written == against
        other = self.tagger.best_with(self.scores, t, allowed)
        if other is None:
            return
        # Of labels that are written alike the most probable counts, as in `predict --marginals`.
        chances: dict[str, float] = {}
        for value, chance in zip(values, self.posterior[t].tolist(), strict=True):
            chances[value] = max(chance, chances.get(value, 0.0))
        chances[mine] = float(self.posterior[t, self.best[t]])
        found = [*self._words(other), *difference(self._tags(self.best), self._tags(other))]
        yield self._made(t, self._strings(self.best), self._strings(other), found, chances)

    def _strings(self, path: np.ndarray) -> list[str]:
        strings, ids = self.tagger.output_labels(path, self.block)
        return [strings[i] for i in ids.tolist()]

    def _words(self, other: np.ndarray) -> Iterator[tuple[str, tuple, float]]:
        """Features of the words whose tags differ."""
        found, rows = self.found, self.tagger.lookup(self.found.keys)
        at = np.flatnonzero((rows >= 0) & (self.best != other)[found.token])
        token = found.token[at]
        gain = self.tagger.row_weights(rows[at], self.best[token]).astype(np.float64)
        gain -= self.tagger.row_weights(rows[at], other[token])
        gain *= found.values[at]
        at, token, gain = at[gain != 0], token[gain != 0], gain[gain != 0]
        origins = self.extractor.origins(
            token, found.which[at], found.ids, self.block.sentences
        ).tolist()
        vocabulary = self.extractor.vocabulary()
        for origin, t, weight in zip(origins, token.tolist(), gain.tolist(), strict=True):
            yield self.extractor.describe(origin, vocabulary), (t + 1,), weight

    def _tags(self, path: np.ndarray) -> Iterator[Item]:
        """Pairs of neighbouring tags, and triples at order 2, in the tagger's own labels."""
        tagger = self.tagger
        for order in range(1, tagger.order + 1):
            weights = tagger.trans if order == 1 else tagger.triple
            for t in range(order, path.size):
                at = path[t - order : t + 1].tolist()
                name = " ".join(f"tag[{n - order}]={tagger.labels[k]}" for n, k in enumerate(at))
                words = tuple(range(t - order + 1, t + 2))
                yield (words, name), name, words, float(weights[tuple(at)])


def _labels(tagger: Tagger) -> list[str]:
    """The labels as they are written: IOB2 files have fewer tags than IOBES models have labels."""
    labels = tagger.labels
    if (tagger.header["scheme"], tagger.header["file_scheme"]) == ("iobes", "iob2"):
        return [x[:1].translate(MERGED) + x[1:] if x[1:2] == "-" else x for x in labels]
    return labels
