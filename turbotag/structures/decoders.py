"""Which trees a parser sums over, or gives: all of them, or those without crossing arcs.

A decoder is a NamedTuple, so that kernels tell by its type which module they need, and a user
compiles only what is used (structures/verbs).
"""

from __future__ import annotations

from typing import NamedTuple

from turbotag.lean import njit
from turbotag.structures import projective, tree, verbs


class Nonprojective(NamedTuple):
    """All dependency trees, with crossing arcs or without."""

    single_root: bool


class Projective(NamedTuple):
    """Dependency trees without crossing arcs."""

    single_root: bool


Decoder = Nonprojective | Projective


def decoder_of(is_projective: bool, single_root: bool) -> Decoder:
    return (Projective if is_projective else Nonprojective)(bool(single_root))


@verbs.verb
def sum_trees(decoder, scores, beta, mu):  # type: ignore[no-untyped-def]
    """`marginals` of structures/tree or structures/projective."""


@verbs.verb
def best_tree(decoder, scores, heads):  # type: ignore[no-untyped-def]
    """`argmax` of structures/tree or structures/projective."""


@sum_trees.implement(Nonprojective)
@njit(cache=True, nogil=True)
def _sum_all(decoder, scores, beta, mu):
    return tree.marginals(scores, decoder.single_root, beta, mu)


@sum_trees.implement(Projective)
@njit(cache=True, nogil=True)
def _sum_projective(decoder, scores, beta, mu):
    return projective.marginals(scores, decoder.single_root, beta, mu)


@best_tree.implement(Nonprojective)
@njit(cache=True, nogil=True)
def _best_of_all(decoder, scores, heads):
    return tree.argmax(scores, decoder.single_root, heads)


@best_tree.implement(Projective)
@njit(cache=True, nogil=True)
def _best_projective(decoder, scores, heads):
    return projective.argmax(scores, decoder.single_root, heads)


# ---- Blocks of sentences -------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def marginals_of_each(decoder, scores, sentences, beta, mu):
    """The marginals of each sentence of a block. The scores and the marginals of a sentence,
    (n+1, n+1), stand behind those of the sentence before (structures/pruning.squares)."""
    begin = 0
    for i in range(sentences.size - 1):
        side = sentences[i + 1] - sentences[i] + 1
        end = begin + side * side
        own = scores[begin:end].reshape(side, side)
        sum_trees(decoder, own, beta, mu[begin:end].reshape(side, side))
        begin = end


@njit(cache=True, nogil=True)
def argmax_of_each(decoder, scores, sentences, heads):
    """The best trees of all sentences of a block into heads (words,)."""
    begin = 0
    for i in range(sentences.size - 1):
        a, b = sentences[i], sentences[i + 1]
        side = b - a + 1
        own = scores[begin : begin + side * side].reshape(side, side)
        best_tree(decoder, own, heads[a:b])
        begin += side * side
