"""Candidate arcs as arrays, and the verbs of structures/verbs for them.

The features of the arcs of a sentence are numbered within the sentence. An oracle call fetches the
weight of each different feature of the sentence once, which causes the only cache misses, and then
sums the arcs from that small array. A direction is added to the weights in the same way, backwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import njit
from turbotag.structures import mixture, sparse, verbs
from turbotag.structures.decoders import Decoder, best_tree, sum_trees
from turbotag.structures.pruning import matrix
from turbotag.structures.verbs import Hinge, Loss, Smooth


class Arcs(NamedTuple):
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
        return sum(array.nbytes for array in self)

    def chosen(self, own: np.ndarray) -> Arcs:
        sentences, words = verbs.chosen_ranges(self.sentences, own)
        cuts, arcs = verbs.chosen_ranges(self.cuts, words)
        begun, local = verbs.chosen_ranges(np.concatenate([[0], self.ends]), arcs)
        firsts, rows = verbs.chosen_ranges(self.firsts, own)
        every = self.heads[arcs], begun[1:], self.local[local], firsts, self.rows[rows]
        return Arcs(sentences, cuts, *every)


class Trees(NamedTuple):
    """The arrays of an ArcProblem, for kernels (structures/verbs).

    gold_parts[gold_cuts[i]:gold_cuts[i+1]]: the gold parts of sentence i, numbered within the
    sentence, beginning with one arc for each word; anchor: the scores of all parts by the weights
    that W is a change of, empty if there are none.
    """

    parts: np.ndarray
    arcs: Arcs
    gold_cuts: np.ndarray
    gold_parts: np.ndarray
    decoder: Decoder
    loss: Loss
    anchor: np.ndarray

    def chosen(self, own: np.ndarray) -> Trees:
        parts, at = verbs.chosen_ranges(self.parts, own)
        gold_cuts, gold = verbs.chosen_ranges(self.gold_cuts, own)
        return self._replace(
            parts=parts,
            arcs=self.arcs.chosen(own),
            gold_cuts=gold_cuts,
            gold_parts=self.gold_parts[gold],
            anchor=self.anchor[at] if self.anchor.size else self.anchor,
        )


# ---- Kernels ----------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def scores_of(i, first, ends, local, firsts, rows, W, scale, w, theta):
    a, n = firsts[i], firsts[i + 1] - firsts[i]
    for r in range(n):
        w[r] = W[rows[a + r], 0]
    sums(first, ends, local, w, scale, theta)


@njit(cache=True, nogil=True)
def sums(first, ends, local, w, scale, theta):
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
def indicator(tree_heads, cuts, heads, z):
    """z: 1 for the candidate arcs that are in a tree, else 0."""
    for t in range(tree_heads.size):
        for e in range(cuts[t], cuts[t + 1]):
            z[e - cuts[0]] = 1.0 if heads[e - cuts[0]] == tree_heads[t] else 0.0


@njit(cache=True, nogil=True)
def gather(mu, cuts, heads, nu):
    """nu: the entries of the matrix mu that are candidate arcs."""
    for t in range(cuts.size - 1):
        for e in range(cuts[t] - cuts[0], cuts[t + 1] - cuts[0]):
            nu[e] = mu[heads[e], t + 1]


@verbs.verb
def infer_tree(loss, decoder, theta, cuts, heads, nu):  # type: ignore[no-untyped-def]
    """`infer` over the trees of a sentence. cuts, heads: its candidate heads, as in `Arcs`."""


@infer_tree.implement(Smooth)
@njit(cache=True, nogil=True)
def _sum(loss, decoder, theta, cuts, heads, nu):
    scores = matrix(theta, cuts, heads)
    mu = np.empty_like(scores)
    log_z = sum_trees(decoder, scores, loss.beta, mu)
    gather(mu, cuts, heads, nu)
    return log_z / loss.beta


@infer_tree.implement(Hinge)
@njit(cache=True, nogil=True)
def _best(loss, decoder, theta, cuts, heads, nu):
    best = np.empty(cuts.size - 1, np.int32)
    value = best_tree(decoder, matrix(theta, cuts, heads), best)
    indicator(best, cuts, heads, nu)
    return value


@verbs.oracle.implement(Trees)
@njit(cache=True, nogil=True)
def _oracle(data, i, W, scale, theta, nu):
    potentials(data, i, W, scale, theta)
    cuts = data.arcs.cuts[data.arcs.sentences[i] : data.arcs.sentences[i + 1] + 1]
    heads = data.arcs.heads[cuts[0] : cuts[-1]]
    return infer_tree(data.loss, data.decoder, theta, cuts, heads, nu)


@verbs.potentials.implement(Trees)
@njit(cache=True, nogil=True)
def potentials(data, i, W, scale, theta):
    """theta = scale s + s0 + gamma p, where s0 is the anchor's and p = -z on the arcs."""
    arcs, first = data.arcs, data.parts[i]
    w = np.empty(arcs.firsts[i + 1] - arcs.firsts[i])
    scores_of(i, first, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, scale, w, theta)
    if data.anchor.size:
        for e in range(theta.size):
            theta[e] += data.anchor[first + e]
    for t in range(arcs.sentences[i + 1] - arcs.sentences[i]):
        theta[data.gold_parts[data.gold_cuts[i] + t]] -= data.loss.gamma


@njit(cache=True, nogil=True)
def all_scores(data, W):
    """F'W of all parts of all sentences."""
    arcs, out = data.arcs, np.empty(data.parts[-1])
    for i in range(data.parts.size - 1):
        first, end = data.parts[i], data.parts[i + 1]
        w = np.empty(arcs.firsts[i + 1] - arcs.firsts[i])
        to = out[first:end]
        scores_of(i, first, arcs.ends, arcs.local, arcs.firsts, arcs.rows, W, 1.0, w, to)
    return out


@verbs.gold.implement(Trees)
@njit(cache=True, nogil=True)
def gold_stats(data, i, z):
    z[:] = 0.0
    for g in range(data.gold_cuts[i], data.gold_cuts[i + 1]):
        z[data.gold_parts[g]] = 1.0


@verbs.cost.implement(Trees)
@njit(cache=True, nogil=True)
def cost(data, i, mu):
    total = 0.0
    for t in range(data.arcs.sentences[i + 1] - data.arcs.sentences[i]):
        total += 1.0 - mu[data.gold_parts[data.gold_cuts[i] + t]]
    return total


@verbs.reward.implement(Trees)
@njit(cache=True, nogil=True)
def reward(data, i, theta, mu):
    total = data.loss.gamma * cost(data, i, mu)
    if data.anchor.size:
        z, first = np.empty(mu.size), data.parts[i]
        gold_stats(data, i, z)
        for e in range(mu.size):
            total += data.anchor[first + e] * (mu[e] - z[e])
    return total


@njit(cache=True, nogil=True)
def spread(data, i, d):
    """F_i d, over the different features of sentence i."""
    acc = np.empty(data.arcs.firsts[i + 1] - data.arcs.firsts[i])
    _spread(data.parts[i], data.arcs.ends, data.arcs.local, d, acc)
    return acc


@verbs.norm_sq.implement(Trees)
@njit(cache=True, nogil=True)
def norm_sq(data, i, d):
    norm = 0.0
    for v in spread(data, i, d):
        norm += v * v
    return norm


@verbs.add.implement(Trees)
@njit(cache=True, nogil=True)
def add(data, i, d, step, W):
    a, acc = data.arcs.firsts[i], spread(data, i, d)
    for r in range(acc.size):
        W[data.arcs.rows[a + r], 0] += step * acc[r]


@verbs.shrink.implement(Trees)
@njit(cache=True, nogil=True)
def _shrink(data, i, V, threshold, W):
    firsts = data.arcs.firsts
    sparse.shrink(data.arcs.rows, firsts[i], firsts[i + 1], V, threshold, W)


@verbs.rows_of.implement(Trees)
@njit(cache=True, nogil=True)
def _rows_of(data, i):
    return data.arcs.rows[data.arcs.firsts[i] : data.arcs.firsts[i + 1]].astype(np.int64)


@verbs.mixture_step.implement(Trees)
@njit(cache=True, nogil=True)
def _mixture_step(data, i, mu, nu, gap, curvature, search):
    """The variables of the mixture are the heads of words."""
    cuts = data.arcs.cuts[data.arcs.sentences[i] : data.arcs.sentences[i + 1] + 1]
    return mixture.step(cuts - cuts[0], mu, nu, gap, curvature, data.loss.beta, search)
