"""Order 0 with many labels: rows that keep only the labels that a feature was seen with.

If K is large, a row of K weights is nearly empty: in the morphology of EWT, 4 % of the cells belong
to a feature and a label that meet in the training data. Only those cells are weights; all others
stay 0, as in CRFsuite (Okazaki 2007, feature.possible_states = 0). So an epoch costs as much as
there are such cells, whatever K is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import verbs
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import Chain, Order0, finish, with_labels_of_chain
from turbotag.structures.elementary import FAST
from turbotag.structures.verbs import chosen_ranges


class SparseRows(NamedTuple):
    """The cells of row r are first[r]..first[r+1]-1; their labels, rising, are
    labels[first[r]:first[r+1]]."""

    first: np.ndarray
    labels: np.ndarray

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.labels.size


def seen(
    sentences: np.ndarray,
    occurrences: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    gold: np.ndarray,
    n_rows: int,
    K: int,
) -> SparseRows:
    """The pairs of a row and a label that meet in the data; arguments as of ChainProblem."""
    offsets, rows, positions, _ = occurrences
    token = positions + np.repeat(sentences[:-1], np.diff(offsets))
    cells = rows.astype(np.int64)
    cells *= K
    cells += gold[token]
    cells = np.unique(cells)
    first = np.searchsorted(cells, np.arange(n_rows + 1, dtype=np.int64) * K)
    return SparseRows(first, (cells % K).astype(np.int32))


@with_labels_of_chain
class SparseChain(NamedTuple):
    """The arrays of a SparseRowProblem, for kernels (structures/verbs)."""

    parts: np.ndarray
    chain: Chain
    cells: SparseRows

    def chosen(self, own: np.ndarray) -> SparseChain:
        chain = self.chain.chosen(own)
        return SparseChain(chain.parts, chain, self.cells)


class SparseRowProblem(ChainProblem):
    """A problem of order 0 whose weights (cells, 1) are those of sparse rows."""

    def __init__(
        self,
        sentences: np.ndarray,
        occurrences: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        gold: np.ndarray,
        cells: SparseRows,
        n_labels: int,
        beta: float = 1.0,
        gamma: float = 0.0,
    ):
        n_rows = cells.first.size - 1
        super().__init__(sentences, occurrences, gold, n_rows, Order0(n_labels), beta, gamma)
        self.cells = cells
        self.data = SparseChain(self.data.parts, self.data, cells)

    @property
    def shape(self) -> tuple[int, int]:
        return self.cells.size, 1

    def work(self) -> np.ndarray:
        """The cost of an oracle call on each sentence: the cells that are read, and the labels of
        all words."""
        read = np.add.reduceat(np.diff(self.cells.first)[self.rows], self.offsets[:-1])
        return np.where(np.diff(self.offsets) > 0, read, 0) + 3.0 * self.lengths * self.K

    def anchor(self, W: np.ndarray) -> None:
        words = np.zeros((self.labels.size, self.K))
        _all_scores(self.data, W, words)
        chain = self.data.chain._replace(anchor_words=words)
        self.data = self.data._replace(chain=chain)

    def _features(self, i: int) -> tuple[np.ndarray, ...]:
        """(cells, occurrences of instance i), as the kernels take them."""
        at = slice(self.offsets[i], self.offsets[i + 1])
        return *self.cells, self.rows[at], self.positions[at], self.values[at]

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        out = np.zeros_like(d)
        _gram(*self._features(i), d.reshape(-1, self.K), out.reshape(-1, self.K))
        return out

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        first, _, rows, *_ = self._features(i)
        _settle(first, rows, W[:, 0], D[:, 0], now, last)


# ---- Verbs ---------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _features(data, i):
    """(rows, positions, values): the occurrences of instance i."""
    a, b = data.chain.offsets[i], data.chain.offsets[i + 1]
    return data.chain.rows[a:b], data.chain.positions[a:b], data.chain.values[a:b]


@njit(cache=True, nogil=True)
def _by_word(data, x):
    """A vector over the parts as (T, K)."""
    return x.reshape(-1, data.chain.anchor_words.shape[1])


@verbs.potentials.implement(SparseChain)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    rows, positions, values = _features(data, i)
    theta[:] = 0.0
    to, weights = _by_word(data, theta), W.reshape(-1)
    add_scores(data.cells.first, data.cells.labels, rows, positions, values, weights, scale, to)
    finish(data.chain, i, theta)


@njit(cache=True, nogil=True)
def _all_scores(data, W, words):
    """Scores of all labels of all words, added to words (tokens, K)."""
    for i in range(data.parts.size - 1):
        rows, positions, values = _features(data, i)
        to = words[data.chain.sentences[i] : data.chain.sentences[i + 1]]
        add_scores(
            data.cells.first, data.cells.labels, rows, positions, values, W.reshape(-1), 1.0, to
        )


@verbs.norm_sq.implement(SparseChain)
@njit(cache=True, nogil=True)
def _norm_sq_of(data, i, d):
    rows, positions, values = _features(data, i)
    return _norm_sq(data.cells.first, data.cells.labels, rows, positions, values, _by_word(data, d))


@verbs.rows_of.implement(SparseChain)
@njit(cache=True, nogil=True)
def _rows_of(data, i):
    rows, _, _ = _features(data, i)
    first, n = data.cells.first, 0
    for row in rows:
        n += first[row + 1] - first[row]
    cells, n = np.empty(n, np.int64), 0
    for row in rows:
        for c in range(first[row], first[row + 1]):
            cells[n] = c
            n += 1
    return cells


@verbs.add.implement(SparseChain)
@njit(cache=True, nogil=True)
def _add_to(data, i, d, step, W):
    rows, positions, values = _features(data, i)
    _add(
        data.cells.first,
        data.cells.labels,
        rows,
        positions,
        values,
        _by_word(data, d),
        step,
        W.reshape(-1),
    )


# ---- Kernels: rows, positions and values are the occurrences of one instance, sorted by row ------


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_scores(first, labels, rows, positions, values, weights, scale, u):
    """u[position, label] += scale * value * weight, for the cells of all occurrences; u: (T, K)."""
    for o in range(rows.size):
        value, to = scale * values[o], u[positions[o]]
        for c in range(first[rows[o]], first[rows[o] + 1]):
            to[labels[c]] += value * weights[c]


class MixedRows(NamedTuple):
    """Sparse rows and their weights, for scores. The features of most words have many cells, though
    few features do: these rows are kept whole too, row r as whole[place[r]], (.., K); place[r] is
    -1 for the others."""

    first: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    place: np.ndarray
    whole: np.ndarray


def mixed(cells: SparseRows, weights: np.ndarray, K: int, many: int) -> MixedRows:
    """weights: one for each cell; many: cells of a row that is kept whole."""
    first, labels = cells
    counts = np.diff(first)
    rows = np.flatnonzero(counts >= many)
    place, whole = np.full(counts.size, -1, np.int32), np.zeros((rows.size, K), weights.dtype)
    place[rows] = np.arange(rows.size)
    _, own = chosen_ranges(first, rows)
    whole[np.repeat(np.arange(rows.size), counts[rows]), labels[own]] = weights[own]
    return MixedRows(first, labels, weights, place, whole)


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def add_mixed(rows, positions, values, scored, u):
    """u[position, label] += value * weight, for the MixedRows of all occurrences; u: (T, K)."""
    for o in range(rows.size):
        row, value, to = rows[o], values[o], u[positions[o]]
        at = scored.place[row]
        if at >= 0:
            for k in range(to.size):
                to[k] += value * scored.whole[at, k]
        else:
            for c in range(scored.first[row], scored.first[row + 1]):
                to[scored.labels[c]] += value * scored.weights[c]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _gather(first, labels, rows, positions, values, o, d, acc):
    """acc[c - first[row]] = (F d)[c] for the run of occurrences of one row that begins at o;
    returns the run's end."""
    row = rows[o]
    begin, end = first[row], first[row + 1]
    acc[: end - begin] = 0.0
    while o < rows.size and rows[o] == row:
        value, at = np.float64(values[o]), d[positions[o]]
        for c in range(begin, end):
            acc[c - begin] += value * at[labels[c]]
        o += 1
    return o


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _norm_sq(first, labels, rows, positions, values, d):
    """|F d|^2."""
    acc, norm, o = np.empty(d.shape[1]), 0.0, 0
    while o < rows.size:
        row = rows[o]
        o = _gather(first, labels, rows, positions, values, o, d, acc)
        for c in range(first[row + 1] - first[row]):
            norm += acc[c] * acc[c]
    return norm


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _add(first, labels, rows, positions, values, d, step, weights):
    """weights += step F d."""
    for o in range(rows.size):
        value, at = values[o] * step, d[positions[o]]
        for c in range(first[rows[o]], first[rows[o] + 1]):
            weights[c] += value * at[labels[c]]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _gram(first, labels, rows, positions, values, d, out):
    """out += F'F d."""
    acc, o = np.empty(d.shape[1]), 0
    while o < rows.size:
        begin, run = first[rows[o]], o
        o = _gather(first, labels, rows, positions, values, o, d, acc)
        for q in range(run, o):
            value, to = np.float64(values[q]), out[positions[q]]
            for c in range(begin, first[rows[q] + 1]):
                to[labels[c]] += value * acc[c - begin]


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _settle(first, rows, W, D, now, last):
    """W -= (now - last) D, last = now for the cells of some rows."""
    for row in rows:
        for c in range(first[row], first[row + 1]):
            W[c] -= (now - last[c]) * D[c]
            last[c] = now
