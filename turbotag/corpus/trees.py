"""Dependency trees of CoNLL-U and CoNLL-X: reading and checking heads, projectivity, lifting.

Heads are one int32 array for all sentences: the head of each word, numbered from 1 within its
sentence, 0 for the root, which stands left of the first word.
"""

from __future__ import annotations

import re

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.lean import njit

_NUMBER = re.compile(r"-?[0-9]+")
_FAR = 2**31 - 1  # stands for a head of more than nine digits, which is outside every sentence
_NO_NUMBER = -_FAR
_SHOWN = 8  # words of a cycle that a message lists
_TREE, _NO_ROOT, _CYCLE, _ROOTS = range(4)


def read_heads(block: Block, single_root: bool = False) -> np.ndarray:
    """Heads (tokens,) int32 of a block; what is not a tree is refused, see `check_trees`."""
    column = block.format.index("head")
    if column is None:
        raise DataError("has no column 'head': trees are read from CoNLL-U or CoNLL-X", block.path)
    strings, ids = block.column(column)
    heads = np.array([_number(s) for s in strings], np.int32)[ids]
    wrong = np.flatnonzero(heads == _NO_NUMBER)
    if wrong.size:
        t = int(wrong[0])
        text = strings[ids[t]]
        raise block.error("head is missing" if text == "_" else f"head {text!r} is not a number", t)
    check_trees(block, heads, single_root)
    return heads


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        return _NO_NUMBER
    return int(text) if len(text) < 10 else _FAR


def check_trees(block: Block, heads: np.ndarray, single_root: bool = False) -> None:
    """Refuse heads outside the sentence, words that head themselves, sentences without a root,
    cycles and, with `single_root`, a second root."""
    lengths = np.diff(block.sentences)
    n = np.repeat(lengths, lengths)
    words = np.arange(heads.size) - np.repeat(block.sentences[:-1], lengths) + 1
    wrong = np.flatnonzero((heads < 0) | (heads > n) | (heads == words))
    if wrong.size:
        t = int(wrong[0])
        if heads[t] == words[t]:
            raise block.error(f"word {words[t]} is its own head", t)
        found = "" if abs(int(heads[t])) == _FAR else f" {heads[t]}"
        raise block.error(f"head{found} is outside the sentence: expected 0 to {n[t]}", t)
    kind, t = _first_fault(heads, block.sentences, single_root)
    if kind == _NO_ROOT:
        raise block.error("the sentence that starts here has no root: no head is 0", t)
    if kind == _ROOTS:
        raise block.error(f"word {words[t]} is a second root (--multi-root allows it)", t)
    if kind == _CYCLE:
        cycle = _cycle(heads, int(t), int(t - words[t]))
        listed = ", ".join(str(words[c]) for c in cycle[:_SHOWN])
        more = ", ..." if len(cycle) > _SHOWN else ""
        raise block.error(f"the heads of words {listed}{more} form a cycle", cycle[0])


def _cycle(heads: np.ndarray, t: int, root: int) -> list[int]:
    """Tokens of the cycle through t, in order; `root` is the token before the sentence."""
    cycle = [t]
    while (h := root + int(heads[cycle[-1]])) != t:
        cycle.append(h)
    return sorted(cycle)


@njit(cache=True, nogil=True)
def _first_fault(heads, sentences, single_root):
    """What is wrong with the first sentence that is not a tree, and at which token."""
    start = np.full(heads.size, -1, np.int64)  # of the walk to the root that first met each token
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        roots = 0
        for t in range(a, b):
            if heads[t] == 0:
                roots += 1
                if single_root and roots == 2:
                    return _ROOTS, t
        if roots == 0 and a < b:
            return _NO_ROOT, a
        for t in range(a, b):
            v = t
            while v >= a and start[v] < 0:
                start[v] = t
                v = a - 1 + heads[v]
            if v >= a and start[v] == t:
                return _CYCLE, v
    return _TREE, -1


@njit(cache=True, nogil=True)
def _preorder(heads):
    """(first, last), each (n + 1,): w is h or below h iff first[h] <= first[w] < last[h]."""
    n = heads.size
    child = np.zeros(n + 1, np.int64)
    sibling = np.zeros(n + 1, np.int64)
    for m in range(n, 0, -1):
        sibling[m] = child[heads[m - 1]]
        child[heads[m - 1]] = m
    first = np.zeros(n + 1, np.int64)
    last = np.zeros(n + 1, np.int64)
    v, clock = 0, 0
    while True:
        first[v] = clock
        clock += 1
        if child[v]:
            v = child[v]
            continue
        while v and not sibling[v]:
            last[v] = clock
            v = int(heads[v - 1])
        last[v] = clock
        if v == 0:
            return first, last
        v = sibling[v]


@njit(cache=True, nogil=True)
def _nonprojective(h, m, first, last):
    """Whether some word strictly between h and m is not below h."""
    for w in range(min(h, m) + 1, max(h, m)):
        if not first[h] <= first[w] < last[h]:
            return True
    return False


@njit(cache=True, nogil=True)
def crossing(heads, sentences):
    """(tokens,) bool: the arc into each token is non-projective.

    An arc h -> m is projective iff every word strictly between h and m descends from h; so arcs
    from the root are projective, though others may cross them. O(n^2) a sentence; `heads` must be
    trees.
    """
    out = np.zeros(heads.size, np.bool_)
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        first, last = _preorder(heads[a:b])
        for t in range(a, b):
            out[t] = _nonprojective(heads[t], t - a + 1, first, last)
    return out


@njit(cache=True, nogil=True)
def lift(heads, sentences):
    """Projective heads, and the number of arcs that changed.

    Nivre and Nilsson (2005): while there is a non-projective arc, the shortest one gets the head of
    its head; of several, the one whose left end is leftmost. `heads` must be trees.
    """
    lifted = heads.copy()
    for s in range(sentences.size - 1):
        a, b = sentences[s], sentences[s + 1]
        tree = lifted[a:b]
        m = 1
        while m:
            m = _shortest(tree)
            if m:
                tree[m - 1] = tree[tree[m - 1] - 1]
    return lifted, np.sum(lifted != heads)


@njit(cache=True, nogil=True)
def _shortest(heads):
    """Modifier of the shortest non-projective arc, leftmost on ties; 0 if there is none."""
    first, last = _preorder(heads)
    best, shortest = 0, (heads.size, 0)  # no non-projective arc is so long
    for m in range(1, heads.size + 1):
        h = int(heads[m - 1])
        arc = abs(h - m), min(h, m)
        if arc < shortest and _nonprojective(h, m, first, last):
            best, shortest = m, arc
    return best


def projective_sentences(heads: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """(sentences,) bool: the tree has no non-projective arc."""
    arcs = np.append(0, np.cumsum(crossing(heads, sentences)))
    return np.diff(arcs[sentences]) == 0
