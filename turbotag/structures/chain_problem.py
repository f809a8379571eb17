"""Chains as a training problem: the oracle that every optimizer calls, one instance at a time."""

from __future__ import annotations

import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import (
    chain,
    chain2,
    chain_cliques,
    cliques,
    multiclass,
    sparse,
    verbs,
)
from turbotag.structures.chain_verbs import Chain, Domain, Order0, Order1, Order2, scores_of
from turbotag.structures.compiled_problem import CompiledProblem

INFERENCE = (multiclass, chain, chain2)  # by order
ORDERS = (Order0, Order1, Order2)


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
        domain: Domain,
        beta: float = 1.0,
        gamma: float = 0.0,
        costs: np.ndarray | None = None,
    ):
        """sentences: (n+1,) token offsets; occurrences: (offsets (n+1,), rows, positions, values)
        sorted by row within a sentence; gold: (tokens,) int32 labels; domain: the legal sequences
        of labels; costs: (K,) what a wrong answer costs where a label is right, 1 by default."""
        self.domain, self.order = domain, ORDERS.index(type(domain))
        self.K = n_labels = domain.K if isinstance(domain, Order0) else domain.start.size
        self.structure = "chain" if self.order else "multiclass"
        self.n_attributes = n_attributes
        self.sentences, self.labels = sentences, gold
        self.offsets, self.rows, self.positions, self.values = occurrences
        self.costs = np.ones(n_labels) if costs is None else costs
        self.lengths = np.diff(sentences)
        self.n_shared = sum(n_labels**o for o in range(2, self.order + 2))
        data = Chain(
            verbs.begins(self.lengths * n_labels + self.n_shared),
            sentences,
            gold,
            *occurrences,
            n_attributes,
            domain,
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
        """From now on, weights are changes of W, the anchor."""
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
        scores_of(self.data, i, W, theta)
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

        Each occurrence of a row adds at most two unit vectors, so the bound is twice the squared
        sum of its values.
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
        log_z = chain_cliques.marginals(theta, *self.domain, self.beta, nu, log_nu)
        return log_z / self.beta, theta

    def clique_uniform(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        """The uniform distribution over the label sequences."""
        chain_cliques.marginals(np.zeros(self.size(i)), *self.domain, 1.0, nu, log_nu)

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
