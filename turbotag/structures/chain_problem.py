"""Chains as a training problem: the oracle that every optimizer calls, one instance at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from turbotag.structures import (
    chain,
    chain2,
    chain_cliques,
    cliques,
    mixture,
    multiclass,
    sparse,
    verbs,
)
from turbotag.structures.compiled_problem import CompiledProblem
from turbotag.structures.verbs import Hinge, Loss, Smooth

INFERENCE = (multiclass, chain, chain2)  # by order


class Order0(NamedTuple):
    """Label sequences without transitions."""

    K: int


class Order1(NamedTuple):
    """Label sequences of a chain: its mask, as in structures/chain."""

    allowed: np.ndarray
    start: np.ndarray
    end: np.ndarray


class Order2(NamedTuple):
    """Those of a second-order chain."""

    allowed: np.ndarray
    start: np.ndarray
    end: np.ndarray


Domain = Order0 | Order1 | Order2


class Chain(NamedTuple):
    """The arrays of a ChainProblem, for kernels (structures/verbs).

    cuts: k*K for k up to the longest sentence; anchor_words (tokens, K) and anchor_shared: scores
    of the weights that W is a change of, both empty if there are none; costs (K,): of a word with
    this gold label and another answer.
    """

    parts: np.ndarray
    sentences: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    rows: np.ndarray
    positions: np.ndarray
    values: np.ndarray
    n_attributes: int
    domain: Domain
    loss: Loss
    cuts: np.ndarray
    anchor_words: np.ndarray
    anchor_shared: np.ndarray
    costs: np.ndarray


class ChainProblem(CompiledProblem):
    """n sentences with sparse features and gold labels, under one loss L(beta, gamma).

    Weights are one matrix W (rows, K): n_attributes attribute rows, then a row for the
    transitions from each label (none at order 0), then at order 2 a row for each pair of previous
    labels. The stats of instance i are a flat vector of `size(i)` numbers: unary, transitions
    summed over positions and, at order 2, label triples summed over positions.
    """

    structure = "chain"

    def __init__(
        self,
        sentences: np.ndarray,
        occurrences: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
        gold: np.ndarray,
        n_attributes: int,
        n_labels: int,
        beta: float = 1.0,
        gamma: float = 0.0,
        mask: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        order: int = 1,
        costs: np.ndarray | None = None,
    ):
        """sentences: (n+1,) token offsets; occurrences: (offsets (n+1,), rows, positions, values)
        sorted by row within a sentence; gold: (tokens,) int32 labels; costs: (K,) what a wrong
        answer costs where a label is right, 1 by default."""
        self.K, self.order = n_labels, order
        self.structure = "chain" if order else "multiclass"
        self.n_attributes = n_attributes
        self.sentences, self.labels = sentences, gold
        self.offsets, self.rows, self.positions, self.values = occurrences
        self.mask = mask if mask is not None else chain.free(n_labels)
        self.domain: Domain = (Order1, Order2)[order - 1](*self.mask) if order else Order0(n_labels)
        self.costs = np.ones(n_labels) if costs is None else costs
        self.lengths = np.diff(sentences)
        self.n_shared = sum(n_labels**o for o in range(2, order + 2))
        data = Chain(
            verbs.begins(self.lengths * n_labels + self.n_shared),
            sentences,
            gold,
            *occurrences,
            n_attributes,
            self.domain,
            verbs.loss_of(beta, gamma),
            np.arange(int(self.lengths.max()) + 1) * n_labels,
            np.zeros((0, n_labels)),
            np.zeros(0),
            self.costs,
        )
        super().__init__(data, beta, gamma)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.n_attributes + self.n_shared // self.K, self.K

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of these."""
        words = np.empty((self.labels.size, self.K))
        for i, (a, b) in enumerate(zip(self.sentences[:-1], self.sentences[1:], strict=True)):
            words[a:b] = self.scores(i, W)[: (b - a) * self.K].reshape(b - a, self.K)
        shared = W[self.n_attributes :].reshape(-1).copy()
        self.data = self.data._replace(anchor_words=words, anchor_shared=shared)

    def work(self) -> np.ndarray:
        """Relative cost of one oracle call on each instance."""
        per_token = np.diff(self.offsets) / np.maximum(self.lengths, 1)
        return self.lengths * (per_token + 3.0 * self.K**self.order) * self.K

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        """(log Z(beta theta)/beta, marginals) of any potentials; beta is the loss's by default."""
        nu = self._nu[: theta.size]
        loss = self.loss if beta is None else verbs.loss_of(beta, self.gamma)
        return verbs.infer(loss, self.domain, theta, nu), nu

    def scores(self, i: int, W: np.ndarray) -> np.ndarray:
        """F'W: the score of every part by these weights alone."""
        theta = self._theta[: self.size(i)]
        _scores(self.data, i, W, theta)
        return theta

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(theta, stats (m, parts)): the m <= k structures of largest theta'z_y, best first."""
        theta = self.potentials(i, W)
        found, _ = INFERENCE[self.order].kbest(theta, *self.domain, k)
        stats = np.empty((len(found), theta.size))
        for labels, z in zip(found, stats, strict=True):
            INFERENCE[self.order].indicator(labels, self.K, z)
        return theta, stats

    def cost_vector(self, i: int) -> np.ndarray:
        """p: -costs[k] for each gold label k (and q is the sum of these costs)."""
        a, T = self.sentences[i], int(self.lengths[i])
        gold, p = self.labels[a : a + T], np.zeros(self.size(i))
        p[np.arange(T) * self.K + gold] = -self.costs[gold]
        return p

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        """F_i' F_i d: how the scores of instance i change by a step of 1 along F_i d."""
        a, b, T = self.offsets[i], self.offsets[i + 1], int(self.lengths[i])
        out = d.copy()
        cut = T * self.K
        out[:cut] = 0.0
        direction, to = d[:cut].reshape(T, self.K), out[:cut].reshape(T, self.K)
        sparse.gram(self.rows, self.positions, self.values, a, b, direction, to)
        return out

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        """Bring the rows of W that instance i reads up to date: W -= (now - last) D."""
        sparse.settle(self.rows, self.offsets[i], self.offsets[i + 1], W, D, now, last)
        shared = np.arange(self.n_attributes, W.shape[0], dtype=np.int32)
        sparse.settle(shared, 0, shared.size, W, D, now, last)

    def log_count(self, i: int) -> float:
        """log of the number of structures of instance i."""
        return self.infer(i, np.zeros(self.size(i)), 1.0)[0]

    def radius_sq(self) -> np.ndarray:
        """R_i^2: a bound of |F_i (z - z_y)|^2 over all y, for importance sampling.

        Two unit vectors per occurrence of a row: at most twice the squared sum of its values.
        """
        return _radius_sq(self.offsets, self.rows, self.values, self.lengths)

    # ---- The exact dual: distributions as cliques (order 1) ------------------------------------

    @property
    def has_cliques(self) -> bool:
        return self.order == 1 and math.isfinite(self.beta)

    def clique_size(self, i: int) -> int:
        return chain_cliques.size(int(self.lengths[i]), self.K)

    def clique_oracle(
        self, i: int, W: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(value, theta), and the clique marginals and their logs into nu and log_nu."""
        theta = self.potentials(i, W)
        log_z = chain_cliques.marginals(theta, *self.mask, self.beta, nu, log_nu)
        return log_z / self.beta, theta

    def clique_uniform(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        """The uniform distribution over the label sequences."""
        chain_cliques.marginals(np.zeros(self.size(i)), *self.mask, 1.0, nu, log_nu)

    def clique_gold(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        """The gold sequence as clique marginals."""
        a, b = self.sentences[i], self.sentences[i + 1]
        chain_cliques.gold(self.labels[a:b], self.K, nu, log_nu)

    def clique_stats(self, i: int, mu: np.ndarray) -> np.ndarray:
        stats = np.empty(self.size(i))
        chain_cliques.stats(mu, int(self.lengths[i]), self.K, stats)
        return stats

    def clique_entropy(self, i: int, mu: np.ndarray, log_mu: np.ndarray) -> float:
        return chain_cliques.entropy(mu, log_mu, int(self.lengths[i]), self.K)

    def clique_kl(
        self, i: int, mu: np.ndarray, log_mu: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, float]:
        return chain_cliques.kl(mu, log_mu, nu, log_nu, int(self.lengths[i]), self.K)

    def clique_line(
        self, i: int, mu: np.ndarray, nu: np.ndarray, eta: float
    ) -> tuple[float, float]:
        return chain_cliques.line(mu, nu, eta, int(self.lengths[i]), self.K)

    clique_exp = staticmethod(cliques.exponentials)
    clique_mix = staticmethod(cliques.mix)


# ---- Kernels ----------------------------------------------------------------------------------


@verbs.oracle.implement(Chain)
@njit(cache=True, nogil=True)
def _oracle(data, i, W, scale, theta, nu):
    _potentials(data, i, W, scale, theta)
    return verbs.infer(data.loss, data.domain, theta, nu)


@verbs.potentials.implement(Chain)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    """theta = scale s + s0 + gamma p: s0 is the anchor's, p = -costs z on the unary parts."""
    _scores(data, i, W, theta)
    if scale != 1.0:
        for p in range(theta.size):
            theta[p] *= scale
    finish(data, i, theta)


@njit(cache=True, nogil=True)
def _scores(data, i, W, theta):
    """theta = F'W."""
    T, K = data.sentences[i + 1] - data.sentences[i], W.shape[1]
    u = theta[: T * K].reshape(T, K)
    u[:] = 0.0
    a, b = data.offsets[i], data.offsets[i + 1]
    sparse.add_scores(data.rows, data.positions, data.values, a, b, W, u)
    for j in range((theta.size - T * K) // K):
        to, row = theta[(T + j) * K : (T + j + 1) * K], W[data.n_attributes + j]
        for k in range(K):
            to[k] = row[k]


@njit(cache=True, nogil=True)
def finish(data, i, theta):
    """theta += s0 + gamma p."""
    a, b, K = data.sentences[i], data.sentences[i + 1], data.anchor_words.shape[1]
    if data.anchor_words.size:
        words, rest = data.anchor_words[a:b], theta[(b - a) * K :]
        for t in range(b - a):
            for k in range(K):
                theta[t * K + k] += words[t, k]
        for p in range(rest.size):
            rest[p] += data.anchor_shared[p]
    for t in range(b - a):
        label = data.labels[a + t]
        theta[t * K + label] -= data.loss.gamma * data.costs[label]


# Sums and maxima by order: a user compiles only what is used.


@verbs.infer.implement(Smooth, Order0)
@njit(cache=True, nogil=True)
def _sum0(loss, domain, theta, nu):
    return multiclass.marginals(theta, domain.K, loss.beta, nu) / loss.beta


@verbs.infer.implement(Smooth, Order1)
@njit(cache=True, nogil=True)
def _sum1(loss, domain, theta, nu):
    allowed, start, end = domain
    return chain.marginals(theta, allowed, start, end, loss.beta, nu) / loss.beta


@verbs.infer.implement(Smooth, Order2)
@njit(cache=True, nogil=True)
def _sum2(loss, domain, theta, nu):
    allowed, start, end = domain
    return chain2.marginals(theta, allowed, start, end, loss.beta, nu) / loss.beta


@verbs.infer.implement(Hinge, Order0)
@njit(cache=True, nogil=True)
def _best0(loss, domain, theta, nu):
    labels = np.empty(theta.size // domain.K, np.int32)
    value = multiclass.argmax(theta, domain.K, labels)
    multiclass.indicator(labels, domain.K, nu)
    return value


@verbs.infer.implement(Hinge, Order1)
@njit(cache=True, nogil=True)
def _best1(loss, domain, theta, nu):
    allowed, start, end = domain
    labels = np.empty(chain.length(theta, start.size), np.int32)
    value = chain.argmax(theta, allowed, start, end, labels)
    chain.indicator(labels, start.size, nu)
    return value


@verbs.infer.implement(Hinge, Order2)
@njit(cache=True, nogil=True)
def _best2(loss, domain, theta, nu):
    allowed, start, end = domain
    labels = np.empty(chain2.length(theta, start.size), np.int32)
    value = chain2.argmax(theta, allowed, start, end, labels)
    chain2.indicator(labels, start.size, nu)
    return value


@verbs.gold.implement(Chain)
@njit(cache=True, nogil=True)
def _gold(data, i, z):
    labels = data.labels[data.sentences[i] : data.sentences[i + 1]]
    verbs.indicator(data.domain, labels, z)


@verbs.indicator.implement(Order0)
@njit(cache=True, nogil=True)
def _indicator0(domain, labels, z):
    multiclass.indicator(labels, domain.K, z)


@verbs.indicator.implement(Order1)
@njit(cache=True, nogil=True)
def _indicator1(domain, labels, z):
    chain.indicator(labels, domain.start.size, z)


@verbs.indicator.implement(Order2)
@njit(cache=True, nogil=True)
def _indicator2(domain, labels, z):
    chain2.indicator(labels, domain.start.size, z)


@verbs.cost.implement(Chain)
@njit(cache=True, nogil=True)
def _cost(data, i, mu):
    K = data.anchor_words.shape[1]
    labels = data.labels[data.sentences[i] : data.sentences[i + 1]]
    total = 0.0
    for t in range(labels.size):
        total += data.costs[labels[t]] * (1.0 - mu[t * K + labels[t]])
    return total


@verbs.reward.implement(Chain)
@njit(cache=True, nogil=True)
def _reward(data, i, theta, mu):
    total = data.loss.gamma * _cost(data, i, mu)
    if data.anchor_words.size:
        a, b, K = data.sentences[i], data.sentences[i + 1], data.anchor_words.shape[1]
        z = np.empty(mu.size)
        _gold(data, i, z)
        words, cut = data.anchor_words[a:b].reshape(-1), (b - a) * K
        for p in range(mu.size):
            total += (words[p] if p < cut else data.anchor_shared[p - cut]) * (mu[p] - z[p])
    return total


@verbs.norm_sq.implement(Chain)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    T, K = data.sentences[i + 1] - data.sentences[i], data.anchor_words.shape[1]
    a, b, cut = data.offsets[i], data.offsets[i + 1], T * K
    direction = d[:cut].reshape(T, K)
    norm = sparse.norm_sq(data.rows, data.positions, data.values, a, b, direction)
    for p in range(cut, d.size):
        norm += d[p] * d[p]
    return norm


@verbs.add.implement(Chain)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    T, K = data.sentences[i + 1] - data.sentences[i], W.shape[1]
    a, b, cut = data.offsets[i], data.offsets[i + 1], T * K
    direction = d[:cut].reshape(T, K)
    sparse.add_to_weights(data.rows, data.positions, data.values, a, b, direction, step, W)
    to, shared = W[data.n_attributes :].reshape(-1), d[cut:]
    for p in range(shared.size):
        to[p] += step * shared[p]


@verbs.shrink.implement(Chain)
@njit(cache=True, nogil=True)
def _shrink(data, i, V, threshold, W):
    sparse.shrink(data.rows, data.offsets[i], data.offsets[i + 1], V, threshold, W)
    shared = np.arange(data.n_attributes, W.shape[0])
    sparse.shrink(shared, 0, shared.size, V, threshold, W)


@verbs.rows_of.implement(Chain)
@njit(cache=True, nogil=True)
def _rows_of(data, i):
    T, K = data.sentences[i + 1] - data.sentences[i], data.anchor_words.shape[1]
    a, b = data.offsets[i], data.offsets[i + 1]
    shared = (data.parts[i + 1] - data.parts[i]) // K - T
    rows = np.empty(b - a + shared, np.int64)
    for o in range(a, b):
        rows[o - a] = data.rows[o]
    for j in range(shared):
        rows[b - a + j] = data.n_attributes + j
    return rows


@verbs.mixture_step.implement(Chain)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    cuts = data.cuts[: data.sentences[i + 1] - data.sentences[i] + 1]
    return mixture.step(cuts, mu, nu, gap, curvature, data.loss.beta, search)


def with_labels_of_chain(data: type) -> type:
    """Decorates the class of a data that has a Chain in its field `chain`: gold, costs and mixtures
    are those of the chain, features are its own."""
    verbs.gold.implement(data)(_gold_of)
    verbs.cost.implement(data)(_cost_of)
    verbs.reward.implement(data)(_reward_of)
    verbs.mixture_step.implement(data)(_mixture_step_of)
    return data


@njit(cache=True, nogil=True)
def _gold_of(data, i, z):
    verbs.gold(data.chain, i, z)


@njit(cache=True, nogil=True)
def _cost_of(data, i, mu):
    return verbs.cost(data.chain, i, mu)


@njit(cache=True, nogil=True)
def _reward_of(data, i, theta, mu):
    return verbs.reward(data.chain, i, theta, mu)


@njit(cache=True, nogil=True)
def _mixture_step_of(data, i, mu, nu, gap, curvature, search):
    return verbs.mixture_step(data.chain, i, mu, nu, gap, curvature, search)


@njit(cache=True, nogil=True)
def _radius_sq(offsets, rows, values, lengths):
    out = np.empty(lengths.size)
    for i in range(lengths.size):
        total, run = 0.0, 0.0
        for o in range(offsets[i], offsets[i + 1]):
            run = (
                run + abs(values[o])
                if o > offsets[i] and rows[o] == rows[o - 1]
                else abs(values[o])
            )
            if o + 1 == offsets[i + 1] or rows[o + 1] != rows[o]:
                total += run * run
        out[i] = 2.0 * (total + (lengths[i] - 1.0) ** 2)
    return out
