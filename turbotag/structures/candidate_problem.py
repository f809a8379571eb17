"""Candidate lists as a training problem: a chain with thousands of labels at the price of a few.

Coarse to fine (Mueller, Schmid and Schuetze 2013, "Efficient higher-order CRFs for morphological
tagging"): a cheap model leaves a few candidates for each word, the gold label among them, and the
chain runs over these. Features of words are sparse rows (structures/sparse_rows). A row has a cell
for each part of a label, or whole label, that the feature meets at a candidate. So a label that is
often mistaken for the right one gets a weight of its own. The score of a candidate is the sum over
its parts: F = A S, where S says which candidates have which slots (candidate_lists.Slots) and A
which cells fire at which slots. Transitions are features of parts of the two labels, such as the
case of both.

Everything is exact over the candidates: log Z, the marginals, and the certificate of a training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.corpus.scan import find
from turbotag.lean import njit
from turbotag.structures import candidates, mixture, sparse, verbs
from turbotag.structures.candidate_lists import (
    Occurrences,
    Slots,
    to_candidates,
    to_slots,
)
from turbotag.structures.compiled_problem import CompiledProblem
from turbotag.structures.sparse_rows import SparseRows
from turbotag.structures.transitions import (
    NONE,
    Transitions,
    add_pairs,
    pair_norm_sq,
    pair_scores,
    settle_pairs,
)
from turbotag.structures.verbs import Hinge, Loss, Smooth


class Candidates(NamedTuple):
    """The arrays of a CandidateProblem, for kernels (structures/verbs).

    cuts, labels: of Lists; choice: (words,) the place of the gold label in its list; offsets,
    cells, places, values: which cells fire at which slots of an instance; anchor: scores of all
    parts by the weights that W is a change of, empty if there are none.
    """

    parts: np.ndarray
    sentences: np.ndarray
    cuts: np.ndarray
    labels: np.ndarray
    choice: np.ndarray
    slots: Slots
    offsets: np.ndarray
    cells: np.ndarray
    places: np.ndarray
    values: np.ndarray
    n_cells: int
    pairs: Transitions
    loss: Loss
    anchor: np.ndarray

    def chosen(self, own: np.ndarray) -> Candidates:
        parts, at = verbs.chosen_ranges(self.parts, own)
        sentences, words = verbs.chosen_ranges(self.sentences, own)
        slots = self.slots.chosen(words)
        offsets, fired = verbs.chosen_ranges(self.offsets, own)
        return self._replace(
            parts=parts,
            sentences=sentences,
            cuts=slots.candidates.cuts,
            labels=slots.candidates.labels,
            choice=self.choice[words],
            slots=slots,
            offsets=offsets,
            cells=self.cells[fired],
            places=self.places[fired],
            values=self.values[fired],
            anchor=self.anchor[at] if self.anchor.size else self.anchor,
        )


class CandidateProblem(CompiledProblem):
    """n sentences with sparse features and candidate lists that have the gold labels.

    Weights are (cells + transitions, 1). The stats of instance i are the parts of
    structures/candidates.
    """

    certified = "the objective over the candidates"

    def __init__(
        self,
        sentences: np.ndarray,
        occurrences: Occurrences,
        gold: np.ndarray,
        slots: Slots,
        cells: SparseRows,
        pairs: Transitions = NONE,
        beta: float = 1.0,
        gamma: float = 0.0,
    ):
        """sentences, occurrences, gold: as of ChainProblem."""
        self.slots, self.cells, self.pairs = slots, cells, pairs
        self.lists = lists = slots.candidates
        self.structure = "chain" if pairs.order else "multiclass"
        self.sentences, self.lengths = sentences, np.diff(sentences)
        self.choice = lists.places(gold)
        if (self.choice < 0).any():
            raise ValueError(f"the gold label of word {int(self.choice.argmin())} is no candidate")
        offsets, rows, positions, values = occurrences
        self.offsets, self.rows, self.positions, self.values = _incidence(
            sentences, offsets, rows, positions, values, *cells, *slots.lists
        )
        sparse.sort_occurrences(self.offsets, self.rows, self.positions, self.values)
        self._first = lists.cuts[sentences]
        self._first_slot = slots.cuts[sentences]
        sizes = [candidates.size(self._cuts(i), pairs.order) for i in range(sentences.size - 1)]
        data = Candidates(
            verbs.begins(np.array(sizes)),
            sentences,
            lists.cuts,
            lists.labels,
            self.choice,
            slots,
            *(self.offsets, self.rows, self.positions, self.values),
            cells.size,
            pairs,
            verbs.loss_of(beta, gamma),
            np.zeros(0),
        )
        super().__init__(data, beta, gamma)
        self._scratch = np.zeros(pairs.size)  # all 0 between calls

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.size + self.pairs.size, 1

    def _cuts(self, i: int) -> np.ndarray:
        """Where the candidates of each word of instance i begin, from 0."""
        return self.lists.cuts[self.sentences[i] : self.sentences[i + 1] + 1] - self._first[i]

    def _labels(self, i: int) -> np.ndarray:
        return self.lists.labels[self._first[i] : self._first[i + 1]]

    def _pairs(self, i: int) -> tuple[np.ndarray, ...]:
        """The arguments of the kernels of transitions for instance i."""
        return self._cuts(i), self._labels(i), *self.pairs

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of W, the anchor."""
        self.data = self.data._replace(anchor=_all_scores(self.data, W))

    def work(self) -> np.ndarray:
        """The cost of an oracle call on each sentence: the features that are read, the pairs with
        their parts, and a constant."""
        unary = np.diff(self._first)
        features = self.pairs.base.size + 10
        both = np.diff(self.data.parts)
        return np.diff(self.offsets) + unary + (both - unary) * features + 500.0

    def _gold_parts(self, i: int) -> np.ndarray:
        """Which unary parts are gold."""
        found: np.ndarray = (
            self._cuts(i)[:-1] + self.choice[self.sentences[i] : self.sentences[i + 1]]
        )
        return found

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        """(log Z(beta theta)/beta, marginals) of any potentials; beta is the loss's by default."""
        nu = self._nu[: theta.size]
        loss = self.loss if beta is None else verbs.loss_of(beta, self.gamma)
        return infer_lists(loss, theta, self._cuts(i), nu), nu

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(theta, stats (m, parts)): the m <= k structures of largest theta'z_y, best first."""
        theta, cuts = self.potentials(i, W), self._cuts(i)
        found, _ = candidates.kbest(theta, cuts, k)
        stats = np.empty((len(found), theta.size))
        for choices, z in zip(found, stats, strict=True):
            candidates.indicator(choices, cuts, z)
        return theta, stats

    def cost_vector(self, i: int) -> np.ndarray:
        """p: -1 for each gold label (and q = T)."""
        p = np.zeros(self.size(i))
        p[self._gold_parts(i)] = -1.0
        return p

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        """F_i' F_i d: how the scores of instance i change by a step of 1 along F_i d."""
        a, b, n = self.offsets[i], self.offsets[i + 1], self._first[i + 1] - self._first[i]
        e, out = self._slot_sums(i, d[:n]), np.zeros_like(d)
        v = np.zeros_like(e)
        sparse.gram(self.rows, self.positions, self.values, a, b, e[:, None], v[:, None])
        to_candidates(*self._slots(i), v, out[:n])
        if self.pairs.order:
            add_pairs(*self._pairs(i), d[n:], 1.0, self._scratch)
            pair_scores(*self._pairs(i), self._scratch, out[n:])
            self._scratch[:] = 0.0
        return out

    def _slots(self, i: int) -> tuple[np.ndarray, np.ndarray, int]:
        """The arguments of the kernels of slots for instance i."""
        first = self.slots.first[self._first[i] : self._first[i + 1] + 1]
        return first, self.slots.of, int(self._first_slot[i])

    def _slot_sums(self, i: int, d: np.ndarray) -> np.ndarray:
        """S d."""
        e = np.zeros(self._first_slot[i + 1] - self._first_slot[i])
        to_slots(*self._slots(i), d, e)
        return e

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        """Bring the weights that instance i reads up to date: W -= (now - last) D."""
        sparse.settle(self.rows, self.offsets[i], self.offsets[i + 1], W, D, now, last)
        if self.pairs.order:
            settle_pairs(*self._pairs(i), self.cells.size, W, D, now, last)

    def log_count(self, i: int) -> float:
        """log of the number of structures of instance i."""
        return float(np.log(np.diff(self._cuts(i))).sum())

    def radius_sq(self) -> np.ndarray:
        """R_i^2: a bound of |F_i (z - z_y)|^2 over all y. Two structures differ in each weight by
        at most the sum of the values that either has there."""
        most = np.zeros(self.n)
        for i in range(self.n):
            a, b = self.offsets[i], self.offsets[i + 1]
            every = np.ones((self._first_slot[i + 1] - self._first_slot[i], 1))
            most[i] = (
                sparse.norm_sq(self.rows, self.positions, np.abs(self.values), a, b, every)
                + 2.0 * (self.pairs.base.size - 1) * (self.lengths[i] - 1.0) ** 2
            )
        return most


# ---- Kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _lists(data, i):
    """(cuts from 0, labels) of the candidates of instance i."""
    cuts = data.cuts[data.sentences[i] : data.sentences[i + 1] + 1]
    return cuts - cuts[0], data.labels[cuts[0] : cuts[-1]]


@njit(cache=True, nogil=True)
def _slots(data, i):
    """(first, of, begin, zeros): of the candidates of instance i, and a number for each slot."""
    a, b = data.sentences[i], data.sentences[i + 1]
    first = data.slots.first[data.cuts[a] : data.cuts[b] + 1]
    begin = data.slots.cuts[a]
    return first, data.slots.of, begin, np.zeros(data.slots.cuts[b] - begin)


@njit(cache=True, nogil=True)
def _slot_sums(data, i, d):
    """S d, as a matrix of one column."""
    first, of, begin, e = _slots(data, i)
    to_slots(first, of, begin, d, e)
    return e.reshape(e.size, 1)


@verbs.oracle.implement(Candidates)
@njit(cache=True, nogil=True)
def _oracle(data, i, W, scale, theta, nu):
    _potentials(data, i, W, scale, theta)
    return infer_lists(data.loss, theta, _lists(data, i)[0], nu)


@verbs.verb
def infer_lists(loss, theta, cuts, nu):  # type: ignore[no-untyped-def]
    """`infer` over the candidates of a sentence, those of each word beginning at its cut."""


@infer_lists.implement(Smooth)
@njit(cache=True, nogil=True)
def _sum_lists(loss, theta, cuts, nu):
    return candidates.marginals(theta, cuts, loss.beta, nu) / loss.beta


@infer_lists.implement(Hinge)
@njit(cache=True, nogil=True)
def _best_lists(loss, theta, cuts, nu):
    best = np.empty(cuts.size - 1, np.int32)
    value = candidates.argmax(theta, cuts, best)
    candidates.indicator(best, cuts, nu)
    return value


@verbs.potentials.implement(Candidates)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    """theta = scale s + s0 + gamma p, where s0 is the anchor's and p = -z on the unary parts."""
    _scores(data, i, W, theta)
    cuts, a = _lists(data, i)[0], data.sentences[i]
    for p in range(theta.size):
        theta[p] *= scale
    if data.anchor.size:
        for p in range(theta.size):
            theta[p] += data.anchor[data.parts[i] + p]
    for t in range(cuts.size - 1):
        theta[cuts[t] + data.choice[a + t]] -= data.loss.gamma


@njit(cache=True, nogil=True)
def _scores(data, i, W, theta):
    """theta = F'W."""
    cuts, labels = _lists(data, i)
    n, a, b = cuts[-1], data.offsets[i], data.offsets[i + 1]
    first, of, begin, v = _slots(data, i)
    sparse.add_scores(data.cells, data.places, data.values, a, b, W, v.reshape(v.size, 1))
    theta[:n] = 0.0
    to_candidates(first, of, begin, v, theta[:n])
    if theta.size > n:
        rest = W[data.n_cells :].reshape(-1)
        pair_scores(cuts, labels, data.pairs.values, data.pairs.base, rest, theta[n:])


@njit(cache=True, nogil=True)
def _all_scores(data, W):
    """F'W of all parts of all instances."""
    out = np.empty(data.parts[-1])
    for i in range(data.parts.size - 1):
        _scores(data, i, W, out[data.parts[i] : data.parts[i + 1]])
    return out


@verbs.gold.implement(Candidates)
@njit(cache=True, nogil=True)
def _gold(data, i, z):
    choice = data.choice[data.sentences[i] : data.sentences[i + 1]]
    candidates.indicator(choice, _lists(data, i)[0], z)


@verbs.cost.implement(Candidates)
@njit(cache=True, nogil=True)
def _cost(data, i, mu):
    cuts, a, total = _lists(data, i)[0], data.sentences[i], 0.0
    for t in range(cuts.size - 1):
        total += 1.0 - mu[cuts[t] + data.choice[a + t]]
    return total


@verbs.reward.implement(Candidates)
@njit(cache=True, nogil=True)
def _reward(data, i, theta, mu):
    total = data.loss.gamma * _cost(data, i, mu)
    if data.anchor.size:
        z = np.empty(mu.size)
        _gold(data, i, z)
        for p in range(mu.size):
            total += data.anchor[data.parts[i] + p] * (mu[p] - z[p])
    return total


@verbs.norm_sq.implement(Candidates)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    cuts, labels = _lists(data, i)
    n, a, b = cuts[-1], data.offsets[i], data.offsets[i + 1]
    e = _slot_sums(data, i, d[:n])
    norm = sparse.norm_sq(data.cells, data.places, data.values, a, b, e)
    if d.size > n:
        acc = np.zeros(data.pairs.base[-1])
        norm += pair_norm_sq(cuts, labels, data.pairs.values, data.pairs.base, d[n:], acc)
    return norm


@verbs.add.implement(Candidates)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    cuts, labels = _lists(data, i)
    n, a, b = cuts[-1], data.offsets[i], data.offsets[i + 1]
    e = _slot_sums(data, i, d[:n])
    sparse.add_to_weights(data.cells, data.places, data.values, a, b, e, step, W)
    if d.size > n:
        rest = W[data.n_cells :].reshape(-1)
        add_pairs(cuts, labels, data.pairs.values, data.pairs.base, d[n:], step, rest)


@verbs.rows_of.implement(Candidates)
@njit(cache=True, nogil=True)
def _rows_of(data, i):
    own = data.cells[data.offsets[i] : data.offsets[i + 1]]
    return sparse.with_shared(own, data.n_cells, data.pairs.base[-1])


@verbs.mixture_step.implement(Candidates)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    """The variables of the mixture are the labels of words."""
    cuts = _lists(data, i)[0]
    return mixture.step(cuts, mu, nu, gap, curvature, data.loss.beta, search)


@njit(cache=True, nogil=True)
def _incidence(sentences, offsets, rows, positions, values, first, cell_labels, cuts, labels):
    """Occurrences of cells: (offsets (n+1,), cells, parts, values), where a part is an entry of
    the lists of the instance."""
    ends = np.zeros(offsets.size, np.int64)
    for fill in range(2):
        n = 0
        if fill:
            cells = np.empty(ends[-1], np.int32)
            parts, of = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.float32)
        for i in range(offsets.size - 1):
            begin = cuts[sentences[i]]
            for o in range(offsets[i], offsets[i + 1]):
                row, t = rows[o], sentences[i] + positions[o]
                for c in range(cuts[t], cuts[t + 1]):
                    cell = find(cell_labels, first[row], first[row + 1], labels[c])
                    if cell >= 0:
                        if fill:
                            cells[n], parts[n], of[n] = cell, c - begin, values[o]
                        n += 1
            ends[i + 1] = n
    return ends, cells, parts, of
