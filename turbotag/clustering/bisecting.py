"""Word clusters from vectors: bisecting k-means, which gives a binary tree.

The words of a node are split in two by 2-means of their vectors, which are scaled to length 1. The
split begins with the two sides of the direction in which the vectors vary most, so nothing is drawn
at random. A node at the last level, or with few words, is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ROUNDS = 12  # of 2-means, if words still change sides
POWER = 8  # rounds of the power method
LEAST = 8  # words of a node that is split


def paths(
    vectors: np.ndarray, levels: int, told: Callable[[int], object] = lambda words: None
) -> list[str]:
    """The path of each word, of at most `levels` bits. vectors: (words, dimensions) float32; told:
    is told how many words have reached their leaf."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    X = vectors / np.where(norms > 0, norms, 1.0)
    found = [""] * len(X)
    waiting = [(np.arange(len(X)), "")]
    while waiting:
        words, path = waiting.pop()
        if len(path) == levels or (words.size < LEAST and path):
            for w in words.tolist():
                found[w] = path
            told(words.size)
            continue
        right = split(X[words])
        waiting += [(words[right], path + "1"), (words[~right], path + "0")]
    return found


def split(X: np.ndarray) -> np.ndarray:
    """(words,) bool: on which of the two sides of a node each word is. No side is empty if the node
    has two words."""
    centred = X - X.mean(axis=0)
    direction = centred[np.argmax((centred**2).sum(axis=1))]
    for _ in range(POWER):
        direction = centred.T @ (centred @ direction)
        direction /= max(float(np.linalg.norm(direction)), 1e-30)
    right = centred @ direction > 0
    for _ in range(ROUNDS):
        if right.all() or not right.any():
            break
        a, b = X[~right].mean(axis=0), X[right].mean(axis=0)
        nearer = X @ (b - a) > (b @ b - a @ a) / 2  # |x - b| < |x - a|
        if (nearer == right).all():
            break
        right = nearer
    if right.all() or not right.any():  # words that are all alike
        return np.arange(len(X)) >= -(-len(X) // 2)
    return right
