"""Taggers with many labels: a few candidates for each word, and a chain over these.

A coarse model of order 0, whose rows keep the labels seen with a feature, lists the likely labels
of each word; the fine model scores these alone (structures/candidate_problem).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.corpus.scan import find
from turbotag.features import compact
from turbotag.features.extract import Extractor
from turbotag.features.resources import Resource
from turbotag.lean import njit
from turbotag.models.calibration import Confidence
from turbotag.models.cells import Cells, restored, rounded, stored
from turbotag.models.label_parts import label_pairs, shared_parts
from turbotag.models.tagger import Tagger
from turbotag.models.tagger_file import named
from turbotag.models.tasks import coder_named
from turbotag.structures import candidates
from turbotag.structures.candidate_lists import (
    Lists,
    Parts,
    Slots,
    likely,
    slots,
    to_candidates,
    whole,
)
from turbotag.structures.sparse_rows import MixedRows, SparseRows, mixed
from turbotag.structures.transitions import NONE, pair_scores


def parts_of(header: dict[str, Any]) -> Parts:
    """The parts by which labels share weights; none for files that do not name them."""
    labels = header["labels"]
    return shared_parts(labels) if header["lists"].get("shared") else whole(len(labels))


MANY = 24  # cells of a row that is quicker to look into than to go through


def lister(coarse: Cells, K: int) -> MixedRows:
    """What scores all K labels of a word: whole rows take a quarter of the time for each label."""
    return mixed(coarse.rows, coarse.weights, K, max(1, K // 4))


# ---- The tagger ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListRows:
    """The features of words, (offsets (tokens + 1,), rows, values), and the slots of their
    candidates."""

    offsets: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    slots: Slots

    @property
    def occurrences(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The features as occurrences of sentences of one word."""
        return self.offsets, self.rows, np.zeros(self.rows.size, np.int32), self.values


@dataclass(frozen=True)
class Scored:
    """Candidates of words and their unary scores, one for each candidate."""

    lists: Lists
    unary: np.ndarray

    def __getitem__(self, words: slice) -> Scored:
        cuts = self.lists.cuts[words.start : words.stop + 1]
        at = slice(cuts[0], cuts[-1])
        return Scored(Lists(cuts - cuts[0], self.lists.labels[at]), self.unary[at])

    def __len__(self) -> int:
        return self.lists.n_words


class ListTagger(Tagger):
    """A tagger with too many labels for a matrix of weights.

    cells: the sparse rows that the weights belong to; weights: (cells + pairs,) float32; coarse:
    what lists candidates. All of these are in the file, with eight-bit weights if it is compact.
    """

    def __init__(
        self,
        header: dict[str, Any],
        keys: np.ndarray,
        cells: SparseRows,
        weights: np.ndarray,
        coarse: Any,
        resources: list[Resource],
        origins: np.ndarray | None = None,
        vocabulary: dict[str, list[str]] | None = None,
    ):
        self.cells, self.coarse, self.parts = cells, coarse, parts_of(header)
        self.pairs = label_pairs(header["labels"]) if header["order"] else NONE
        super().__init__(header, keys, weights, resources, origins, vocabulary)

    def __reduce__(self) -> tuple[Any, ...]:
        given = self.header, self.keys, self.cells, self.weights, self.coarse, self.resources
        return type(self), (*given, self.origins, self.vocabulary)

    def set_weights(self, weights: np.ndarray) -> None:
        """Replace all weights but those of the coarse model: (cells + pairs,) or (.., 1)."""
        self.weights = weights.reshape(-1)
        if self.weights.size != self.cells.size + self.pairs.size:
            raise ValueError(f"{self.weights.size} weights for {self.cells.size} cells and pairs")
        self._pair_weights = self.weights[self.cells.size :].astype(np.float64)
        self.__dict__.pop("trans", None)
        self.__dict__.pop("_scorer", None)

    @cached_property
    def _scorer(self) -> MixedRows:
        return mixed(self.cells, self.weights[: self.cells.size], self.parts.n, MANY)

    @cached_property
    def _lister(self) -> MixedRows:
        """The coarse model."""
        return lister(self.coarse, len(self.labels))

    @cached_property
    def trans(self) -> np.ndarray:  # type: ignore[override]
        """(K, K) the scores of all label pairs."""
        K = len(self.labels)
        out = np.zeros((K, K))
        if self.order:
            every = np.tile(np.arange(K, dtype=np.int32), 2)
            pair_scores(np.array([0, K, 2 * K]), every, *self._transitions, out.reshape(-1))
        return out

    @property
    def _transitions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return *self.pairs, self._pair_weights

    # ---- Scores ----------------------------------------------------------------------------------

    def rows(self, block: Block, extractor: Extractor) -> ListRows:  # type: ignore[override]
        """The weight rows of a block's features, and its candidates."""
        found = extractor.occurrences(block)
        rows = self.lookup(found.keys)
        known = rows >= 0
        offsets = np.searchsorted(found.token[known], np.arange(block.n_tokens + 1))
        given = offsets, rows[known], found.values[known]
        return ListRows(*given, slots(self.candidates(block, *given), self.parts))

    def candidates(
        self, block: Block, offsets: np.ndarray, rows: np.ndarray, values: np.ndarray
    ) -> Lists:
        """The candidates of each word of a block with these features."""
        limits, single = self.header["lists"], np.arange(offsets.size)
        where = single, (offsets, rows, np.zeros(rows.size, np.int32), values)
        return likely(*where, self._lister, len(self.labels), limits["most"], limits["margin"])

    def score_rows(self, rows: ListRows) -> Scored:  # type: ignore[override]
        features, found = (rows.offsets, rows.rows, rows.values), rows.slots
        v, unary = np.zeros(found.parts.size), np.zeros(found.candidates.labels.size)
        _add_cells(*features, self._scorer, *found.lists, v)
        to_candidates(found.first, found.of, 0, v, unary)
        return Scored(found.candidates, unary)

    def row_weights(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return _row_weights(*self.cells, self.weights, *self.parts, rows, labels)

    def label_weights(self, label: int) -> np.ndarray:
        rows = np.arange(self.keys.size)
        return self.row_weights(rows, np.full(rows.size, label))

    # ---- Decoding --------------------------------------------------------------------------------

    def _potentials(self, scores: Scored) -> np.ndarray:
        """The flat potentials of one sentence."""
        cuts, n = scores.lists.cuts, scores.unary.size
        theta = np.empty(candidates.size(cuts, self.order))
        theta[:n] = scores.unary
        if self.order:
            pair_scores(cuts, scores.lists.labels, *self._transitions, theta[n:])
        return theta

    def viterbi(self, scores: Scored, sentences: np.ndarray) -> np.ndarray:  # type: ignore[override]
        lists = scores.lists
        best = np.empty(len(scores), np.int32)
        _decode(lists.cuts, lists.labels, scores.unary, sentences, *self._transitions, best)
        found: np.ndarray = lists.labels[lists.cuts[:-1] + best]
        return found

    def best_with(  # type: ignore[override]
        self, scores: Scored, t: int, labels: np.ndarray
    ) -> np.ndarray | None:
        cuts = scores.lists.cuts
        kept = labels[scores.lists.labels]
        kept[: cuts[t]] = kept[cuts[t + 1] :] = True
        if not kept[cuts[t] : cuts[t + 1]].any():
            return None
        ends = np.append(0, np.cumsum(kept))[cuts]
        limited = Scored(Lists(ends, scores.lists.labels[kept]), scores.unary[kept])
        return self.viterbi(limited, np.array([0, len(scores)]))

    def _likelihoods(self, scores: Scored, sentences: np.ndarray, sharpness: float) -> np.ndarray:
        """The probability of each candidate."""
        lists, mu = scores.lists, np.empty(scores.unary.size)
        where = lists.cuts, lists.labels, scores.unary, sentences
        _marginals(*where, *self._transitions, sharpness, mu)
        return mu

    def posterior(  # type: ignore[override]
        self, scores: Scored, sentences: np.ndarray, confidence: Confidence | None = None
    ) -> np.ndarray:
        """(tokens, K) marginal probabilities, by default calibrated."""
        c, K = confidence or self.confidence, len(self.labels)
        out = np.zeros((len(scores), K))
        word = np.repeat(np.arange(len(scores)), np.diff(scores.lists.cuts))
        out[word, scores.lists.labels] = self._likelihoods(scores, sentences, c.sharpness)
        mixed: np.ndarray = c.mix(out, 1.0 / K)
        return mixed

    def probability(  # type: ignore[override]
        self,
        scores: Scored,
        sentences: np.ndarray,
        tags: np.ndarray,
        confidence: Confidence | None = None,
    ) -> np.ndarray:
        c = confidence or self.confidence
        mu = self._likelihoods(scores, sentences, c.sharpness)
        place = scores.lists.places(tags)
        p = np.where(place >= 0, mu[scores.lists.cuts[:-1] + np.maximum(place, 0)], 0.0)
        mixed: np.ndarray = c.mix(p, 1.0 / len(self.labels))
        return mixed

    def posterior_decode(  # type: ignore[override]
        self, scores: Scored, sentences: np.ndarray
    ) -> np.ndarray:
        best = np.empty(len(scores), np.int32)
        lists, mu = scores.lists, self._likelihoods(scores, sentences, 1.0)
        candidates.argmax(mu, lists.cuts, best)
        found: np.ndarray = lists.labels[lists.cuts[:-1] + best]
        return found

    def nbest(self, scores: Scored, n: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        lists, theta, c = scores.lists, self._potentials(scores), self.confidence
        found, best = candidates.kbest(theta, lists.cuts, n)
        log_z = candidates.log_partition(theta, lists.cuts, c.sharpness)
        chance = float(len(self.labels)) ** -len(scores)
        return lists.labels[lists.cuts[:-1] + found], c.mix(
            np.exp(c.sharpness * best - log_z), chance
        )

    @property
    def open(self) -> bool:
        return True

    # ---- Files -----------------------------------------------------------------------------------

    def _parts(self) -> list[Cells]:
        """The fine model, and the coarse one if there is one."""
        fine = Cells(self.cells, self.weights[: self.cells.size])
        return [fine, *([self.coarse] if isinstance(self.coarse, Cells) else [])]

    def pruned(self) -> ListTagger:
        parts = self._parts()
        if all(part.weights.all() for part in parts):
            return self
        rows = np.flatnonzero(np.any([part.largest() > 0.0 for part in parts], axis=0))
        kept = [part.of_rows(rows, 0.0) for part in parts]
        weights = np.concatenate([kept[0].weights, self.weights[self.cells.size :]])
        coarse = kept[1] if len(kept) > 1 else self.coarse
        names = () if self.origins is None else (self.origins[rows], self.vocabulary)
        given = self.header, self.keys[rows], kept[0].rows, weights, coarse, self.resources
        return type(self)(*given, *names)

    def compacted(self, drop: float) -> ListTagger:
        """This tagger without weights below `drop` times the largest one, with eight-bit weights
        and no names of features."""
        parts = self._parts()
        least = [drop * float(np.abs(part.weights).max(initial=0.0)) for part in parts]
        both = list(zip(parts, least, strict=True))
        rows = np.flatnonzero(np.any([part.largest() > floor for part, floor in both], axis=0))
        rows = rows[compact.distinct(self.keys[rows], parts[0].largest()[rows])]
        small = [rounded(part.of_rows(rows, floor)) for part, floor in both]
        pairs = compact.dequantize(*compact.quantize(self.weights[self.cells.size :]))
        weights = np.concatenate([small[0].weights, pairs])
        coarse = small[1] if len(small) > 1 else self.coarse
        header, keys = self.header | {"compact": True}, compact.fold(self.keys[rows])
        return type(self)(header, keys, small[0].rows, weights, coarse, self.resources)

    def weight_arrays(self) -> dict[str, np.ndarray]:
        small, m = bool(self.header.get("compact")), self.cells.size
        keys = {"keys": self.keys}
        if small:
            keys = dict(zip(("counts", "lows"), compact.pack_keys(self.keys), strict=True))
        pairs = stored("pairs", self.weights[m:], small) if self.order else {}
        fine = Cells(self.cells, self.weights[:m])
        return keys | fine.arrays("fine", small) | self.coarse_arrays(small) | pairs

    def coarse_arrays(self, small: bool) -> dict[str, np.ndarray]:
        """What lists candidates, as it is stored."""
        found: dict[str, np.ndarray] = self.coarse.arrays("coarse", small)
        return found

    @staticmethod
    def from_arrays(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> ListTagger:
        if header.get("compact"):
            keys = compact.unpack_keys(arrays["counts"], arrays["lows"])
        else:
            keys = arrays["keys"]
        K = len(header["labels"])
        fine = Cells.of("fine", arrays, keys.size, parts_of(header).n)
        pairs = [restored("pairs", arrays)] if header["order"] else []
        weights = np.concatenate([fine.weights, *pairs])
        rest = named(header, arrays)
        given = header, keys, fine.rows, weights
        coder = coder_named(header["lists"]["by"])
        if coder:
            model = coder.kind(*given, coder.load(arrays, K), *rest)
        else:
            model = ListTagger(*given, Cells.of("coarse", arrays, keys.size, K), *rest)
        model.check_origins()
        return model


# ---- Kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _add_cells(offsets, rows, values, scored, cuts, parts, v):
    """v[slot] += value * weight, for the features of each word."""
    # the slot of each part of the word, from 1; 0 if the word does not have the part
    slot = np.zeros(scored.whole.shape[1], np.int64)
    for t in range(offsets.size - 1):
        begin, end = cuts[t], cuts[t + 1]
        if begin == end:
            continue
        for q in range(begin, end):
            slot[parts[q]] = q - begin + 1
        for o in range(offsets[t], offsets[t + 1]):
            row = rows[o]
            at = scored.place[row]
            if at >= 0:
                for q in range(begin, end):
                    v[q] += values[o] * scored.whole[at, parts[q]]
            else:
                for c in range(scored.first[row], scored.first[row + 1]):
                    found = slot[scored.labels[c]]
                    if found:
                        v[begin + found - 1] += values[o] * scored.weights[c]
        for q in range(begin, end):
            slot[parts[q]] = 0


@njit(cache=True, nogil=True)
def _row_weights(first, cell_parts, weights, first_part, parts, rows, labels):
    """(rows,) the sum of the weights of the parts of labels[i] in rows[i]."""
    out = np.zeros(rows.size, np.float32)
    for i in range(rows.size):
        for p in parts[first_part[labels[i]] : first_part[labels[i] + 1]]:
            cell = find(cell_parts, first[rows[i]], first[rows[i] + 1], p)
            if cell >= 0:
                out[i] += weights[cell]
    return out


@njit(cache=True, nogil=True)
def _sentence(cuts, labels, unary, a, b, values, base, weights):
    """(cuts from 0, potentials) of the words a..b-1."""
    begin, end = cuts[a], cuts[b]
    own = np.empty(b - a + 1, cuts.dtype)
    for t in range(own.size):  # loops, as a[:] = b takes a second to compile
        own[t] = cuts[a + t] - begin
    order = 1 if base.size > 1 else 0
    theta = np.empty(candidates.size(own, order))
    for c in range(end - begin):
        theta[c] = unary[begin + c]
    if order:
        pair_scores(own, labels[begin:end], values, base, weights, theta[end - begin :])
    return own, theta


@njit(cache=True, nogil=True)
def _decode(cuts, labels, unary, sentences, values, base, weights, best):
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        own, theta = _sentence(cuts, labels, unary, a, b, values, base, weights)
        candidates.argmax(theta, own, best[a:b])


@njit(cache=True, nogil=True)
def _marginals(cuts, labels, unary, sentences, values, base, weights, beta, mu):
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        own, theta = _sentence(cuts, labels, unary, a, b, values, base, weights)
        nu = np.empty_like(theta)
        candidates.marginals(theta, own, beta, nu)
        mu[cuts[a] : cuts[b]] = nu[: own[-1]]
