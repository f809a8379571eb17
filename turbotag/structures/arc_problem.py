"""Arc-factored dependency trees as a training problem, non-projective or projective.

The parts of a sentence are its candidate arcs, ordered by modifier. structures/arc_verbs has their
arrays and the kernels that score and add them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from turbotag.lean import njit
from turbotag.structures import (
    cliques,
    projective,
    projective_cliques,
    tree,
    verbs,
)
from turbotag.structures.arc_verbs import (
    Arcs,
    Trees,
    all_scores,
    gather,
    indicator,
    infer_tree,
    scores_of,
    spread,
    sums,
)
from turbotag.structures.compiled_problem import CompiledProblem
from turbotag.structures.decoders import decoder_of
from turbotag.structures.elementary import find_each
from turbotag.structures.pruning import matrix

DECODERS = ("nonprojective", "projective")


class ArcProblem(CompiledProblem):
    """n sentences with candidate arcs and gold heads, under one loss L(beta, gamma)."""

    structure = "tree"
    empty = "the candidate arcs of sentence {} hold no tree"

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
        self.projective, self.single_root = decoder == "projective", single_root
        self.structure = "projective" if self.projective else "tree"
        self.lengths = np.diff(arcs.sentences)
        self.gold_arc = find_each(arcs.cuts, arcs.heads, gold)
        if (self.gold_arc < 0).any():
            raise ValueError(f"the gold head of word {int(self.gold_arc.argmin())} was pruned")
        parts = arcs.cuts[arcs.sentences]
        self.trees = Trees(
            parts,
            arcs,
            arcs.sentences,
            self.gold_arc - np.repeat(parts[:-1], self.lengths),
            decoder_of(self.projective, single_root),
            verbs.loss_of(beta, gamma),
            np.zeros(0),
        )
        super().__init__(self.trees, beta, gamma)
        self._counts: dict[int, np.ndarray] = {}

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, 1

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of W, the anchor."""
        self.trees = self.data = self.trees._replace(anchor=all_scores(self.trees, W))

    def work(self) -> np.ndarray:
        """The cost of an oracle call on each sentence, in units of reading one feature (8 ns for a
        step of SDCA): its features, the cube of its length for inference, and a constant."""
        ends = np.concatenate([[0], self.arcs.ends])
        features = np.diff(ends[self.trees.parts])
        return features + (0.12 if self.projective else 0.03) * self.lengths**3.0 + 5000.0

    def scores(self, i: int, W: np.ndarray) -> np.ndarray:
        """F'W: the score of every part by these weights alone."""
        a, b = self.trees.parts[i : i + 2]
        theta, w = np.empty(b - a), np.empty(np.diff(self.arcs.firsts[i : i + 2])[0])
        arcs = self.arcs
        scores_of(i, a, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, theta)
        return theta

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        nu = self._nu[: theta.size]
        loss = self.loss if beta is None else verbs.loss_of(beta, self.gamma)
        value = infer_tree(loss, self.data.decoder, theta, *self._candidates(i), nu)
        if value == -math.inf:
            raise ValueError(self.empty.format(i))
        return value, nu

    def _candidates(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """(cuts, heads) of the words of sentence i."""
        cuts = self.arcs.cuts[self.arcs.sentences[i] : self.arcs.sentences[i + 1] + 1]
        return cuts, self.arcs.heads[cuts[0] : cuts[-1]]

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        theta = self.potentials(i, W)
        cuts, candidates = self._candidates(i)
        scores = matrix(theta, cuts, candidates)
        trees, _ = (projective if self.projective else tree).kbest(scores, self.single_root, k)
        stats = np.empty((len(trees), theta.size))
        for heads, z in zip(trees, stats, strict=True):
            indicator(heads, cuts, candidates, z)
        return theta, stats

    def cost_vector(self, i: int) -> np.ndarray:
        return -self.gold(i)

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        out = np.empty(d.size)
        first, arcs = self.trees.parts[i], self.arcs
        sums(first, arcs.ends, arcs.local, spread(self.trees, i, d), 1.0, out)
        return out

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        rows = self.arcs.rows[self.arcs.firsts[i] : self.arcs.firsts[i + 1]]
        W[rows] -= (now - last[rows])[:, None] * D[rows]
        last[rows] = now

    def log_count(self, i: int) -> float:
        return self.infer(i, np.zeros(self.size(i)), 1.0)[0]

    def radius_sq(self) -> np.ndarray:
        """A bound of |F_i (z - z_y)|^2. A tree has a feature at most as often as the sum, over
        words, of the largest count on a candidate arc of the word; and two trees differ by no
        more."""
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
        scores = matrix(theta, *self._candidates(i))
        return projective_cliques.marginals(scores, self.single_root, beta, nu, log_nu)

    def clique_gold(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None:
        a, b = self.arcs.sentences[i], self.arcs.sentences[i + 1]
        heads = self.arcs.heads[self.gold_arc[a:b]]
        if projective_cliques.gold(heads, self.single_root, nu, log_nu) == -math.inf:
            raise ValueError(f"the gold tree of sentence {i} is not projective")

    def clique_stats(self, i: int, mu: np.ndarray) -> np.ndarray:
        n = int(self.lengths[i])
        by_arc, stats = np.empty((n + 1, n + 1)), np.empty(self.size(i))
        projective_cliques.stats(mu, n, self.single_root, by_arc)
        gather(by_arc, *self._candidates(i), stats)
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
    best = tree.argmax if decoder == "nonprojective" else projective.argmax
    out = np.empty(arcs.sentences[-1], np.int32)
    w = np.empty(int(np.diff(arcs.firsts).max()))
    for i, (a, b) in enumerate(itertools.pairwise(arcs.sentences.tolist())):
        cuts = arcs.cuts[a : b + 1]
        first, end = int(cuts[0]), int(cuts[-1])
        theta = np.empty(end - first)
        scores_of(i, first, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, theta)
        best(matrix(theta, cuts, arcs.heads[first:end]), single_root, out[a:b])
    return out


# ---- Kernels ----------------------------------------------------------------------------------


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
