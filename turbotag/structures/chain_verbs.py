"""Label sequences as arrays, and the verbs of structures/verbs for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import chain, chain2, mixture, multiclass, sparse, verbs
from turbotag.structures.verbs import Hinge, Loss, Smooth


class Order0(NamedTuple):
    """Label sequences without transitions."""

    K: int


class Order1(NamedTuple):
    """Label sequences of a chain: its mask, as in structures/chain."""

    allowed: np.ndarray
    start: np.ndarray
    end: np.ndarray


class Order2(NamedTuple):
    """Label sequences of a second-order chain: its mask, as in structures/chain2."""

    allowed: np.ndarray
    start: np.ndarray
    end: np.ndarray


Domain = Order0 | Order1 | Order2
Mask = tuple[np.ndarray, np.ndarray, np.ndarray]  # allowed, start, end, as in structures/chain


def label_sequences(n_labels: int, order: int = 1, mask: Mask | None = None) -> Domain:
    """All sequences of labels of a chain of an order, or those that a mask allows."""
    if order == 0:
        return Order0(n_labels)
    return (Order1, Order2)[order - 1](*(chain.free(n_labels) if mask is None else mask))


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

    def chosen(self, own: np.ndarray) -> Chain:
        sentences, words = verbs.chosen_ranges(self.sentences, own)
        offsets, at = verbs.chosen_ranges(self.offsets, own)
        return self._replace(
            parts=verbs.chosen_ranges(self.parts, own)[0],
            sentences=sentences,
            labels=self.labels[words],
            offsets=offsets,
            rows=self.rows[at],
            positions=self.positions[at],
            values=self.values[at],
            anchor_words=self.anchor_words[words] if self.anchor_words.size else self.anchor_words,
        )


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
    scores_of(data, i, W, theta)
    if scale != 1.0:
        for p in range(theta.size):
            theta[p] *= scale
    finish(data, i, theta)


@njit(cache=True, nogil=True)
def scores_of(data, i, W, theta):
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


# One kernel for each order, for sums and for maxima: a user compiles only what is used.


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
    own = data.rows[data.offsets[i] : data.offsets[i + 1]]
    return sparse.with_shared(own, data.n_attributes, (data.parts[i + 1] - data.parts[i]) // K - T)


@verbs.mixture_step.implement(Chain)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    cuts = data.cuts[: data.sentences[i + 1] - data.sentences[i] + 1]
    return mixture.step(cuts, mu, nu, gap, curvature, data.loss.beta, search)


def with_labels_of_chain(data: type) -> type:
    """Decorates the class of a problem's data that has a Chain in its field `chain`. Inference,
    gold, costs and mixtures are those of the chain; the class has its own potentials and
    features."""
    verbs.oracle.implement(data)(_oracle_of)
    verbs.gold.implement(data)(_gold_of)
    verbs.cost.implement(data)(_cost_of)
    verbs.reward.implement(data)(_reward_of)
    verbs.mixture_step.implement(data)(_mixture_step_of)
    return data


@njit(cache=True, nogil=True)
def _oracle_of(data, i, W, scale, theta, nu):
    verbs.potentials(data, i, W, scale, theta)
    return verbs.infer(data.chain.loss, data.chain.domain, theta, nu)


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
