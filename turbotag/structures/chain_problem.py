"""Chains as a training problem: the oracle that every optimizer calls, one instance at a time."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from turbotag.structures import chain, chain2, chain_cliques, cliques, mixture, multiclass, sparse

INFERENCE = (multiclass, chain, chain2)  # by order


class ChainProblem:
    """n sentences with sparse features and gold labels, under one loss L(beta, gamma).

    Weights are one matrix W (rows, K): n_attributes attribute rows, then a row for the
    transitions from each label (none at order 0), then at order 2 a row for each pair of previous
    labels. The stats of instance i are a flat vector of `size(i)` numbers: unary, transitions
    summed over positions and, at order 2, label triples summed over positions. Vectors
    returned by `oracle` and `gold` are scratch, valid until the next call.
    """

    structure = "chain"
    certified = "the objective"
    moving = False

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
    ):
        """sentences: (n+1,) token offsets; occurrences: (offsets (n+1,), rows, positions, values)
        sorted by row within a sentence; gold: (tokens,) int32 labels."""
        self.n = sentences.size - 1
        self.K, self.order = n_labels, order
        self.structure = "chain" if order else "multiclass"
        self.beta, self.gamma = float(beta), float(gamma)
        self.n_attributes = n_attributes
        self.sentences, self.labels = sentences, gold
        self.offsets, self.rows, self.positions, self.values = occurrences
        self.mask = mask if mask is not None else chain.free(n_labels)
        # what the verbs of structures/ are told of the label sequences
        self.domain = self.mask if order else (n_labels,)
        self.lengths = np.diff(sentences)
        self.n_shared = sum(n_labels**o for o in range(2, order + 2))
        self._cuts = np.arange(int(self.lengths.max()) + 1) * n_labels
        self._anchor: tuple[np.ndarray, np.ndarray] | None = None  # scores: (tokens, K), shared
        self._theta = np.empty(self.size(int(self.lengths.argmax())))
        self._nu = np.empty_like(self._theta)
        self._gold = np.empty_like(self._theta)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.n_attributes + self.n_shared // self.K, self.K

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of these."""
        words = np.empty((self.labels.size, self.K))
        for i, (a, b) in enumerate(zip(self.sentences[:-1], self.sentences[1:], strict=True)):
            words[a:b] = self.scores(i, W)[: (b - a) * self.K].reshape(b - a, self.K)
        self._anchor = words, W[self.n_attributes :].reshape(-1).copy()

    def _anchored(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The anchor's scores of the parts of instance i: of its words, and those shared."""
        assert self._anchor is not None
        words, shared = self._anchor
        return words[self.sentences[i] : self.sentences[i + 1]].reshape(-1), shared

    def size(self, i: int) -> int:
        """Number of parts of instance i."""
        return int(self.lengths[i]) * self.K + self.n_shared

    def work(self) -> np.ndarray:
        """Relative cost of one oracle call on each instance."""
        per_token = np.diff(self.offsets) / np.maximum(self.lengths, 1)
        return self.lengths * (per_token + 3.0 * self.K**self.order) * self.K

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, theta, nu) at the weights scale*W: the potentials theta = s + gamma p,
        value = log Z(beta theta)/beta, and the marginals; with beta = inf the maximum of theta'z_y
        and its stats."""
        theta = self.potentials(i, W, scale)
        value, nu = self.infer(i, theta)
        return value, theta, nu

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        """(log Z(beta theta)/beta, marginals) of any potentials; beta is the loss's by default."""
        nu = self._nu[: theta.size]
        beta = self.beta if beta is None else beta
        if beta == math.inf:
            return BEST[self.order](theta, *self.domain, nu), nu
        return INFERENCE[self.order].marginals(theta, *self.domain, beta, nu) / beta, nu

    def potentials(self, i: int, W: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """theta = s + gamma p."""
        theta = self._potentials(i, W, self.gamma, scale)
        if self._anchor is not None:
            words, shared = self._anchored(i)
            theta[: words.size] += words
            theta[words.size :] += shared
        return theta

    def scores(self, i: int, W: np.ndarray) -> np.ndarray:
        """F'W: the score of every part by these weights alone."""
        return self._potentials(i, W, 0.0)

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(theta, stats (m, parts)): the m <= k structures of largest theta'z_y, best first."""
        theta = self.potentials(i, W)
        found, _ = INFERENCE[self.order].kbest(theta, *self.domain, k)
        stats = np.empty((len(found), theta.size))
        for labels, z in zip(found, stats, strict=True):
            INFERENCE[self.order].indicator(labels, self.K, z)
        return theta, stats

    def _potentials(self, i: int, W: np.ndarray, gamma: float, scale: float = 1.0) -> np.ndarray:
        theta = self._theta[: self.size(i)]
        _potentials(
            i,
            self.sentences,
            self.labels,
            self.offsets,
            self.rows,
            self.positions,
            self.values,
            W,
            self.n_attributes,
            gamma,
            scale,
            theta,
        )
        return theta

    def gold(self, i: int) -> np.ndarray:
        """z: the stats of the right answer."""
        z = self._gold[: self.size(i)]
        a, b = self.sentences[i], self.sentences[i + 1]
        INFERENCE[self.order].indicator(self.labels[a:b], self.K, z)
        return z

    def cost(self, i: int, stats: np.ndarray) -> float:
        """Expected number of wrong labels, p'mu + q."""
        a, b = self.sentences[i], self.sentences[i + 1]
        return _cost(self.labels[a:b], self.K, stats)

    def reward(self, i: int, stats: np.ndarray) -> float:
        cost = self.gamma * self.cost(i, stats)
        if self._anchor is None:
            return cost
        words, shared = self._anchored(i)
        more = stats - self.gold(i)
        return cost + float(words @ more[: words.size] + shared @ more[words.size :])

    def cost_vector(self, i: int) -> np.ndarray:
        """p: -1 for each gold label (and q = T)."""
        a, T = self.sentences[i], int(self.lengths[i])
        p = np.zeros(self.size(i))
        p[np.arange(T) * self.K + self.labels[a : a + T]] = -1.0
        return p

    def norm_sq(self, i: int, d: np.ndarray) -> float:
        """|F_i d|^2 for a flat direction d."""
        a, b, T = self.offsets[i], self.offsets[i + 1], int(self.lengths[i])
        return _norm_sq(self.rows, self.positions, self.values, a, b, d, T, self.K)

    def add(self, i: int, d: np.ndarray, step: float, W: np.ndarray) -> None:
        """W += step F_i d."""
        a, b, T = self.offsets[i], self.offsets[i + 1], int(self.lengths[i])
        _add(self.rows, self.positions, self.values, a, b, d, step, W, T, self.n_attributes)

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

    def sq_norm(self, W: np.ndarray) -> float:
        """|w|^2."""
        return float(np.vdot(W, W))

    def log_count(self, i: int) -> float:
        """log of the number of structures of instance i."""
        return self.infer(i, np.zeros(self.size(i)), 1.0)[0]

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """(eta, entropy gain): see structures/mixture; its variables are the labels of words."""
        cuts = self._cuts[: self.lengths[i] + 1]
        return mixture.step(cuts, mu, nu, gap, curvature, self.beta, search)

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


@njit(cache=True, nogil=True)
def _potentials(
    i, sentences, labels, offsets, rows, positions, values, W, n_attributes, gamma, scale, theta
):
    """theta = scale s + gamma p, where p = -z on the unary parts (and q = T)."""
    a, T, K = sentences[i], sentences[i + 1] - sentences[i], W.shape[1]
    u = theta[: T * K].reshape(T, K)
    u[:] = 0.0
    sparse.add_scores(rows, positions, values, offsets[i], offsets[i + 1], W, u)
    for j in range((theta.size - T * K) // K):
        to, row = theta[(T + j) * K : (T + j + 1) * K], W[n_attributes + j]
        for k in range(K):
            to[k] = row[k]
    if scale != 1.0:
        for p in range(theta.size):
            theta[p] *= scale
    for t in range(T):
        u[t, labels[a + t]] -= gamma


# The best labels as stats, one kernel for each order: a user compiles only what is used.


@njit(cache=True, nogil=True)
def _best0(theta, K, nu):
    labels = np.empty(theta.size // K, np.int32)
    value = multiclass.argmax(theta, K, labels)
    multiclass.indicator(labels, K, nu)
    return value


@njit(cache=True, nogil=True)
def _best1(theta, allowed, start, end, nu):
    labels = np.empty(chain.length(theta, start.size), np.int32)
    value = chain.argmax(theta, allowed, start, end, labels)
    chain.indicator(labels, start.size, nu)
    return value


@njit(cache=True, nogil=True)
def _best2(theta, allowed, start, end, nu):
    labels = np.empty(chain2.length(theta, start.size), np.int32)
    value = chain2.argmax(theta, allowed, start, end, labels)
    chain2.indicator(labels, start.size, nu)
    return value


BEST = (_best0, _best1, _best2)  # by order


@njit(cache=True, nogil=True)
def _cost(gold, K, stats):
    total = 0.0
    for t in range(gold.size):
        total += 1.0 - stats[t * K + gold[t]]
    return total


@njit(cache=True, nogil=True)
def _norm_sq(rows, positions, values, a, b, d, T, K):
    norm = sparse.norm_sq(rows, positions, values, a, b, d[: T * K].reshape(T, K))
    for p in range(T * K, d.size):
        norm += d[p] * d[p]
    return norm


@njit(cache=True, nogil=True)
def _add(rows, positions, values, a, b, d, step, W, T, n_attributes):
    K = W.shape[1]
    sparse.add_to_weights(rows, positions, values, a, b, d[: T * K].reshape(T, K), step, W)
    to, shared = W[n_attributes:].reshape(-1), d[T * K :]
    for p in range(shared.size):
        to[p] += step * shared[p]


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
