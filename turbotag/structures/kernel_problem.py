"""Chains with kernels on the words: weights that live in a reproducing kernel Hilbert space.

Zhang, Saha and Vishwanathan (2011), section 4.3. The score of label k at a word x is f_k(x) with
    f_k = sum_r W[r, k] kernel(x_r, .),
one row of W for each training word r; transitions stay linear. So F_i maps the unary parts of
sentence i to the rows of its own words, and |w|^2 = sum_k W[:, k]' G W[:, k] + |transitions|^2 with
the Gram matrix G. Optimizers that move W only through `add` and measure it through `sq_norm` work
unchanged; the others, which take inner products of weights or settle the rows of one instance
alone, do not declare this structure and refuse it. For small data: G has a number for each pair of
words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from turbotag.errors import UsageError
from turbotag.lean import njit
from turbotag.structures import verbs
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import (
    Chain,
    finish,
    label_sequences,
    with_labels_of_chain,
)

KERNELS = ("linear", "polynomial", "rbf")


@dataclass(frozen=True)
class Kernel:
    """x'y, (1 + x'y)^degree or exp(-|x - y|^2 / (2 width^2))."""

    name: str = "linear"
    degree: int = 2
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in KERNELS:
            raise UsageError(f"unknown kernel {self.name!r}: it is one of {', '.join(KERNELS)}")

    def gram(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """kernel(x, y) for all rows."""
        products = X @ Y.T
        if self.name == "linear":
            return products
        if self.name == "polynomial":
            return (1.0 + products) ** self.degree
        square = (X**2).sum(1)[:, None] + (Y**2).sum(1)[None, :] - 2.0 * products
        return np.exp(-np.maximum(square, 0.0) / (2.0 * self.width**2))


LINEAR = Kernel()


@with_labels_of_chain
class KernelChain(NamedTuple):
    """The arrays of a KernelChainProblem. chain: of the linear problem that it is built on."""

    parts: np.ndarray
    chain: Chain
    G: np.ndarray


class KernelChainProblem(ChainProblem):
    """A chain problem over dense word vectors X (tokens, d)."""

    def __init__(
        self,
        sentences: np.ndarray,
        X: np.ndarray,
        gold: np.ndarray,
        n_labels: int,
        beta: float = np.inf,
        gamma: float = 1.0,
        kernel: Kernel = LINEAR,
    ):
        tokens = X.shape[0]
        # a linear problem with one feature for each word: its own row
        rows = np.arange(tokens, dtype=np.int32)
        lengths = np.diff(sentences)
        positions = (rows - np.repeat(sentences[:-1], lengths)).astype(np.int32)
        own = sentences.astype(np.int64), rows, positions, np.ones(tokens, np.float32)
        domain = label_sequences(n_labels)
        super().__init__(sentences, own, gold, tokens, domain, beta, gamma)
        self.X, self.kernel, self.G = X, kernel, kernel.gram(X, X)
        self.data = KernelChain(self.data.parts, self.data, self.G)
        self.structure = "kernel-chain"

    def anchor(self, W: np.ndarray) -> None:
        raise UsageError("a kernel tagger cannot go on from another")

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        a, b = int(self.sentences[i]), int(self.sentences[i + 1])
        out, cut = d.copy(), (b - a) * self.K
        out[:cut] = (self.G[a:b, a:b] @ d[:cut].reshape(b - a, self.K)).reshape(-1)
        return out

    def sq_norm(self, W: np.ndarray) -> float:
        A, rest = W[: self.n_attributes], W[self.n_attributes :]
        return float(np.vdot(A, self.G @ A) + np.vdot(rest, rest))

    def radius_sq(self) -> np.ndarray:
        """(sum_t sqrt(2 kernel(x_t, x_t)))^2 for the words, 2 (T - 1)^2 for the transitions."""
        root = np.sqrt(2.0 * np.diag(self.G))
        words = np.add.reduceat(root, self.sentences[:-1]) ** 2
        return words + 2.0 * (self.lengths - 1.0) ** 2

    def score_words(self, X: np.ndarray, W: np.ndarray) -> np.ndarray:
        """(words, K) unary scores of new words."""
        return self.kernel.gram(X, self.X) @ W[: self.n_attributes]


# ---- Kernels ----------------------------------------------------------------------------------


@verbs.potentials.implement(KernelChain)
@njit(cache=True, nogil=True)
def _potentials(data, i, W, scale, theta):
    """theta = scale s + gamma p, where s = G W on the unary parts."""
    a, T = data.chain.sentences[i], data.chain.sentences[i + 1] - data.chain.sentences[i]
    K, rest = W.shape[1], W[data.chain.n_attributes :].reshape(-1)
    theta[:] = 0.0
    for t in range(T):
        to, similar = theta[t * K : (t + 1) * K], data.G[a + t]
        for r in range(similar.size):
            for k in range(K):
                to[k] += scale * similar[r] * W[r, k]
    for p in range(rest.size):
        theta[T * K + p] = scale * rest[p]
    finish(data.chain, i, theta)


@verbs.norm_sq.implement(KernelChain)
@njit(cache=True, nogil=True)
def _norm_sq(data, i, d):
    """d'Gd on the unary parts, d'd on the others."""
    a, T = data.chain.sentences[i], data.chain.sentences[i + 1] - data.chain.sentences[i]
    K = data.chain.anchor_words.shape[1]
    norm = 0.0
    for t in range(T):
        for r in range(T):
            for k in range(K):
                norm += data.G[a + t, a + r] * d[t * K + k] * d[r * K + k]
    for p in range(T * K, d.size):
        norm += d[p] * d[p]
    return norm


@verbs.add.implement(KernelChain)
@njit(cache=True, nogil=True)
def _add(data, i, d, step, W):
    verbs.add(data.chain, i, d, step, W)
