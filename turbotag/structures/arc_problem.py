"""Arc-factored dependency trees as a training problem, non-projective or projective.

The parts of a sentence are its candidate arcs, ordered by modifier. Their features are kept as
numbers local to the sentence: an oracle call fetches the weight of each different feature of the
sentence once (the only cache misses), and all arcs are then summed from that small array. A
direction is spread to the weights in the same way, backwards.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from turbotag.structures import cliques, mixture, projective, projective_cliques, tree
from turbotag.structures.pruning import matrix

DECODERS = ("nonprojective", "projective")


@dataclass
class Arcs:
    """Candidate arcs of n sentences and their features.

    sentences: (n+1,) word offsets. The candidate heads of word t (0 the root, else 1-based in the
    sentence) are heads[cuts[t]:cuts[t+1]]. The features of arc e of sentence i are
    rows[firsts[i]:][local[ends[e-1]:ends[e]]], where ends[-1] means 0.
    """

    sentences: np.ndarray
    cuts: np.ndarray
    heads: np.ndarray
    ends: np.ndarray
    local: np.ndarray
    firsts: np.ndarray
    rows: np.ndarray

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)


class ArcProblem:
    """n sentences with candidate arcs and gold heads, under one loss L(beta, gamma)."""

    structure = "tree"
    certified = "the objective"
    moving = False

    def __init__(
        self,
        arcs: Arcs,
        gold: np.ndarray,
        n_rows: int,
        beta: float = 1.0,
        gamma: float = 0.0,
        decoder: str = "nonprojective",
        single_root: bool = True,
    ):
        """gold: (words,) heads, which must be among the candidates."""
        self.arcs, self.n_rows = arcs, n_rows
        self.n = arcs.sentences.size - 1
        self.beta, self.gamma = float(beta), float(gamma)
        self.projective, self.single_root = decoder == "projective", single_root
        self.structure = "projective" if self.projective else "tree"
        self.lengths = np.diff(arcs.sentences)
        self.gold_arc = _find_gold(arcs.cuts, arcs.heads, gold)
        if (self.gold_arc < 0).any():
            raise ValueError(f"the gold head of word {int(self.gold_arc.argmin())} was pruned")
        # all that a kernel needs to know of sentence i
        begin, end = arcs.cuts[arcs.sentences[:-1]], arcs.cuts[arcs.sentences[1:]]
        self._first, self._size = begin, end - begin
        self._local_size = np.diff(arcs.firsts)
        longest = int(self._size.max())
        self._theta, self._nu, self._z = np.empty(longest), np.empty(longest), np.empty(longest)
        self._w = np.empty(int(self._local_size.max()))
        self._counts: dict[int, np.ndarray] = {}
        self._anchor: list[
            np.ndarray
        ] = []  # scores of the parts of each sentence, if there are any

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, 1

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of these."""
        self._anchor = [self.scores(i, W).copy() for i in range(self.n)]

    def size(self, i: int) -> int:
        return int(self._size[i])

    def work(self) -> np.ndarray:
        """In units of a feature read (8 ns for one step of SDCA): the features, a cube of the
        length for the inference, and what every call costs."""
        ends = np.concatenate([[0], self.arcs.ends])
        features = np.diff(ends[np.append(self._first, ends.size - 1)])
        return features + (0.12 if self.projective else 0.03) * self.lengths**3.0 + 5000.0

    def _cuts(self, i: int) -> np.ndarray:
        """Where the arcs of each word of sentence i begin, from 0."""
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        return self.arcs.cuts[a : b + 1] - self._first[i]

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        theta = self.potentials(i, W, scale)
        value, nu = self.infer(i, theta)
        return value, theta, nu

    def potentials(self, i: int, W: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """theta = s + gamma p."""
        theta = self.scores(i, W, scale)
        if self._anchor:
            theta += self._anchor[i]
        if self.gamma:
            theta[self._gold_arcs(i)] -= self.gamma
        return theta

    def scores(self, i: int, W: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """F'W: the score of every part by these weights alone."""
        theta = self._theta[: self._size[i]]
        arcs, first = self.arcs, self._first[i]
        scores_of(i, first, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, scale, self._w, theta)
        return theta

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        nu = self._nu[: theta.size]
        beta = self.beta if beta is None else beta
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        where = theta, a, b, self.arcs.cuts, self.arcs.heads
        if beta == math.inf:
            best = np.empty(b - a, np.int32)
            kernel = projective_argmax if self.projective else tree_argmax
            value = kernel(*where, self.single_root, best)
            indicator(best, *where[1:], nu)
        else:
            kernel = projective_marginals if self.projective else tree_marginals
            value = kernel(*where, self.single_root, beta, nu)
        if value == -math.inf:
            raise ValueError(f"the candidate arcs of sentence {i} hold no tree")
        return value, nu

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        theta = self.potentials(i, W)
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        scores = _matrix(theta, a, b, self.arcs.cuts, self.arcs.heads)
        trees, _ = (projective if self.projective else tree).kbest(scores, self.single_root, k)
        stats = np.empty((len(trees), theta.size))
        for heads, z in zip(trees, stats, strict=True):
            indicator(heads, a, b, self.arcs.cuts, self.arcs.heads, z)
        return theta, stats

    def gold(self, i: int) -> np.ndarray:
        z = self._z[: self._size[i]]
        z[:] = 0.0
        z[self._gold_arcs(i)] = 1.0
        return z

    def _gold_arcs(self, i: int) -> np.ndarray:
        """Which of the sentence's parts are its gold arcs."""
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        return self.gold_arc[a:b] - self.arcs.cuts[a]

    def cost(self, i: int, stats: np.ndarray) -> float:
        """Expected number of wrong heads."""
        return float(self.lengths[i] - stats[self._gold_arcs(i)].sum())

    def reward(self, i: int, stats: np.ndarray) -> float:
        reward = self.gamma * self.cost(i, stats)
        if self._anchor:
            reward += float(self._anchor[i] @ self._over_parts(i, stats - self.gold(i)))
        return reward

    def _over_parts(self, i: int, d: np.ndarray) -> np.ndarray:
        """A direction as one of the parts that have features."""
        return d

    def cost_vector(self, i: int) -> np.ndarray:
        return -self.gold(i)

    def norm_sq(self, i: int, d: np.ndarray) -> float:
        acc = self._spread(i, self._over_parts(i, d))
        return float(acc @ acc)

    def add(self, i: int, d: np.ndarray, step: float, W: np.ndarray) -> None:
        arcs = self.arcs
        _add(i, self._spread(i, self._over_parts(i, d)), step, arcs.firsts, arcs.rows, W)

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        out = np.empty(d.size)
        _sums(self._first[i], self.arcs.ends, self.arcs.local, self._spread(i, d), 1.0, out)
        return out

    def _spread(self, i: int, d: np.ndarray) -> np.ndarray:
        """F_i d, over the different features of sentence i."""
        acc = self._w[: self._local_size[i]]
        _spread(self._first[i], self.arcs.ends, self.arcs.local, d, acc)
        return acc

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        rows = self.arcs.rows[self.arcs.firsts[i] : self.arcs.firsts[i + 1]]
        W[rows] -= (now - last[rows])[:, None] * D[rows]
        last[rows] = now

    def sq_norm(self, W: np.ndarray) -> float:
        return float(np.vdot(W, W))

    def log_count(self, i: int) -> float:
        return self.infer(i, np.zeros(self.size(i)), 1.0)[0]

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """See structures/mixture; its variables are the heads of words."""
        return mixture.step(self._cuts(i), mu, nu, gap, curvature, self.beta, search)

    def radius_sq(self) -> np.ndarray:
        """A bound of |F_i (z - z_y)|^2: a tree has a feature at most as often as the arc of each
        word that has it most often, and two trees differ by no more."""
        arcs = self.arcs
        return _radius_sq(arcs.sentences, arcs.cuts, arcs.ends, arcs.local, arcs.firsts)

    # ---- The exact dual, of projective trees: distributions as hyperedges of the parse forest ---

    @property
    def has_cliques(self) -> bool:
        return self.projective and math.isfinite(self.beta)

    def clique_size(self, i: int) -> int:
        return projective_cliques.size(int(self.lengths[i]), self.single_root)

    def clique_oracle(
        self, i: int, W: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, np.ndarray]:
        theta = self.potentials(i, W)
        return self._cliques(i, theta, self.beta, nu, log_nu) / self.beta, theta

    def clique_uniform(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        self._cliques(i, np.zeros(self.size(i)), 1.0, nu, log_nu)

    def _cliques(
        self, i: int, theta: np.ndarray, beta: float, nu: np.ndarray, log_nu: np.ndarray
    ) -> float:
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        scores = _matrix(theta, a, b, self.arcs.cuts, self.arcs.heads)
        return projective_cliques.marginals(scores, self.single_root, beta, nu, log_nu)

    def clique_gold(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        heads = self.arcs.heads[self.gold_arc[a:b]]
        if projective_cliques.gold(heads, self.single_root, nu, log_nu) == -math.inf:
            raise ValueError(f"the gold tree of sentence {i} is not projective")

    def clique_stats(self, i: int, mu: np.ndarray) -> np.ndarray:
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        matrix, stats = np.empty((b - a + 1, b - a + 1)), np.empty(self.size(i))
        projective_cliques.stats(mu, int(b - a), self.single_root, matrix)
        _gather(matrix, a, b, self.arcs.cuts, self.arcs.heads, stats)
        return stats

    def _counting(self, i: int) -> np.ndarray:
        """Counting numbers of the entropy, the same for all sentences of a length."""
        n = int(self.lengths[i])
        if n not in self._counts:
            self._counts[n] = projective_cliques.counting(n, self.single_root)
        return self._counts[n]

    def clique_entropy(self, i: int, mu: np.ndarray, log_mu: np.ndarray) -> float:
        return projective_cliques.entropy(mu, log_mu, self._counting(i))

    def clique_kl(
        self, i: int, mu: np.ndarray, log_mu: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, float]:
        return projective_cliques.kl(mu, log_mu, nu, log_nu, self._counting(i))

    def clique_line(
        self, i: int, mu: np.ndarray, nu: np.ndarray, eta: float
    ) -> tuple[float, float]:
        return projective_cliques.line(mu, nu, eta, self._counting(i))

    clique_exp = staticmethod(cliques.exponentials)
    clique_mix = staticmethod(cliques.mix)


def best_trees(arcs: Arcs, W: np.ndarray, decoder: str, single_root: bool) -> np.ndarray:
    """(words,) heads of the best tree of every sentence; all decoders but nonprojective give
    projective trees."""
    kernel = tree_argmax if decoder == "nonprojective" else projective_argmax
    out = np.empty(arcs.sentences[-1], np.int32)
    w = np.empty(int(np.diff(arcs.firsts).max()))
    for i, (a, b) in enumerate(itertools.pairwise(arcs.sentences.tolist())):
        first = int(arcs.cuts[a])
        theta = np.empty(int(arcs.cuts[b]) - first)
        scores_of(i, first, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, theta)
        kernel(theta, a, b, arcs.cuts, arcs.heads, single_root, out[a:b])
    return out


# ---- Kernels ----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _find_gold(cuts, heads, gold):
    """The candidate that is each word's gold head, -1 if there is none."""
    out = np.full(gold.size, -1, np.int64)
    for t in range(gold.size):
        for e in range(cuts[t], cuts[t + 1]):
            if heads[e] == gold[t]:
                out[t] = e
    return out


@njit(cache=True, nogil=True)
def scores_of(i, first, ends, local, firsts, rows, W, scale, w, theta):
    a, n = firsts[i], firsts[i + 1] - firsts[i]
    for r in range(n):
        w[r] = W[rows[a + r], 0]
    _sums(first, ends, local, w, scale, theta)


@njit(cache=True, nogil=True)
def _sums(first, ends, local, w, scale, theta):
    """theta[e] = scale * sum of w over the features of arc first + e."""
    o = ends[first - 1] if first > 0 else 0
    for e in range(theta.size):
        total = 0.0
        end = ends[first + e]
        while o < end:
            total += w[local[o]]
            o += 1
        theta[e] = scale * total


@njit(cache=True, nogil=True)
def _spread(first, ends, local, d, acc):
    """acc[r] = sum of d over the arcs that have feature r."""
    acc[:] = 0.0
    o = ends[first - 1] if first > 0 else 0
    for e in range(d.size):
        end = ends[first + e]
        value = d[e]
        if value == 0.0:
            o = end
        while o < end:
            acc[local[o]] += value
            o += 1


@njit(cache=True, nogil=True)
def _add(i, acc, step, firsts, rows, W):
    a = firsts[i]
    for r in range(acc.size):
        W[rows[a + r], 0] += step * acc[r]


@njit(cache=True, nogil=True)
def indicator(tree_heads, a, b, cuts, heads, z):
    """The candidate arcs that are in a tree."""
    for t in range(a, b):
        for e in range(cuts[t], cuts[t + 1]):
            z[e - cuts[a]] = 1.0 if heads[e] == tree_heads[t - a] else 0.0


@njit(cache=True, nogil=True)
def _matrix(theta, a, b, cuts, heads):
    """Arc scores of the sentence of words a..b-1."""
    return matrix(theta, cuts[a : b + 1], heads[cuts[a] : cuts[b]])


@njit(cache=True, nogil=True)
def _gather(mu, a, b, cuts, heads, nu):
    """The entries of a matrix that are candidate arcs."""
    for t in range(a, b):
        for e in range(cuts[t], cuts[t + 1]):
            nu[e - cuts[a]] = mu[heads[e], t - a + 1]


# One kernel for each decoder and kind of inference: a user compiles only what is used.


@njit(cache=True, nogil=True)
def tree_marginals(theta, a, b, cuts, heads, single_root, beta, nu):
    scores = _matrix(theta, a, b, cuts, heads)
    mu = np.empty_like(scores)
    log_z = tree.marginals(scores, single_root, beta, mu)
    _gather(mu, a, b, cuts, heads, nu)
    return log_z / beta


@njit(cache=True, nogil=True)
def projective_marginals(theta, a, b, cuts, heads, single_root, beta, nu):
    scores = _matrix(theta, a, b, cuts, heads)
    mu = np.empty_like(scores)
    log_z = projective.marginals(scores, single_root, beta, mu)
    _gather(mu, a, b, cuts, heads, nu)
    return log_z / beta


@njit(cache=True, nogil=True)
def tree_argmax(theta, a, b, cuts, heads, single_root, best):
    return tree.argmax(_matrix(theta, a, b, cuts, heads), single_root, best)


@njit(cache=True, nogil=True)
def projective_argmax(theta, a, b, cuts, heads, single_root, best):
    return projective.argmax(_matrix(theta, a, b, cuts, heads), single_root, best)


@njit(cache=True, nogil=True)
def _radius_sq(sentences, cuts, ends, local, firsts):
    """sum_r (sum_t max_e count(r, e))^2, over features r, words t and their candidate arcs e."""
    out = np.zeros(sentences.size - 1)
    for i in range(out.size):
        size = firsts[i + 1] - firsts[i]
        total, most, count = np.zeros(size), np.zeros(size), np.zeros(size)
        for t in range(sentences[i], sentences[i + 1]):
            begin = ends[cuts[t] - 1] if cuts[t] > 0 else 0
            o = begin
            for e in range(cuts[t], cuts[t + 1]):
                first = o
                while o < ends[e]:
                    count[local[o]] += 1.0
                    o += 1
                for p in range(first, o):
                    r = local[p]
                    most[r] = max(most[r], count[r])
                    count[r] = 0.0
            for p in range(begin, o):
                total[local[p]] += most[local[p]]
                most[local[p]] = 0.0
        out[i] = (total * total).sum()
    return out
