"""Kernels of taggers: sums of weight rows, and the best labels of all sentences of a block."""

from __future__ import annotations

import numpy as np

from turbotag.lean import njit
from turbotag.structures import chain, chain2


@njit(cache=True, nogil=True)
def add_matrix(rows, weights, out):
    K = out.shape[1]
    for t in range(rows.shape[0]):
        to = out[t]
        for j in range(rows.shape[1]):
            if rows[t, j] >= 0:
                row = weights[rows[t, j]]
                for k in range(K):
                    to[k] += row[k]


@njit(cache=True, nogil=True)
def add_listed(token, rows, values, weights, out):
    K = out.shape[1]
    for o in range(rows.size):
        to, row, value = out[token[o]], weights[rows[o]], values[o]
        for k in range(K):
            to[k] += value * row[k]


@njit(cache=True, nogil=True)
def viterbi(scores, sentences, trans, start, end):
    tags = np.empty(scores.shape[0], np.int32)
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        chain.viterbi(scores[a:b], trans, start, end, tags[a:b])
    return tags


@njit(cache=True, nogil=True)
def viterbi2(scores, sentences, trans, triple, start, end):
    tags = np.empty(scores.shape[0], np.int32)
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        chain2.viterbi(scores[a:b], trans, triple, start, end, tags[a:b])
    return tags
