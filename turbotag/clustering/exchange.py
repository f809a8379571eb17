"""Word classes by Brown's objective: the exchange algorithm.

A class-based bigram model gives a text the probability prod_t p(c_t | c_{t-1}) p(w_t | c_t). With
relative frequencies its log-likelihood is, but for what does not depend on the classes,
    F = sum_{c,d} g(N(c,d)) - sum_c g(N(c,.)) - sum_d g(N(.,d)),   g(n) = n log n,
where N(c,d) counts words of class c that words of class d follow: the mutual information of
neighbouring classes, times the length of the text (Brown et al. 1992, "Class-based n-gram models of
natural language"). The exchange algorithm moves one word after the other to the class where F is
largest, until hardly any word moves (Martin, Liermann and Ney 1998, "Algorithms for bigram and
trigram word clustering").

Words are taken in batches. The best class of each word of a batch is sought against the classes
before the batch, by as many threads as there are; then words move one after the other, each only if
F still rises. So F never falls, and the result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from turbotag.lean import njit

BATCH = 64  # words between two rounds of moves
FIXED = 2  # the boundary of sentences and all rare words: words 0 and 1, in classes of their own
TABLE = 1 << 18  # g of smaller numbers is looked up
LEAST_GAIN = 1e-7  # by which F must rise in a move: a smaller gain may be rounding


@dataclass(frozen=True)
class Bigrams:
    """The neighbouring words of a text.

    before, after: (starts, words, counts); the words before word w are words[starts[w]:starts[w+1]]
    of `before`, each with its count, and likewise those after it. A word that stands beside itself
    is not in these lists; twice: (words,) counts how often it does.
    """

    before: tuple[np.ndarray, np.ndarray, np.ndarray]
    after: tuple[np.ndarray, np.ndarray, np.ndarray]
    twice: np.ndarray

    @property
    def n_words(self) -> int:
        return self.twice.size


def bigrams(words: np.ndarray, n_words: int) -> Bigrams:
    """words: (T,) numbers of the words of a text, one after the other."""
    pairs = words[:-1].astype(np.int64) * n_words + words[1:]
    pairs, counts = np.unique(pairs, return_counts=True)
    left, right = np.divmod(pairs, n_words)
    same = left == right
    twice = np.zeros(n_words, np.int64)
    twice[left[same]] = counts[same]
    left, right, counts = left[~same], right[~same], counts[~same]
    return Bigrams(_by(right, left, counts, n_words), _by(left, right, counts, n_words), twice)


def _by(
    key: np.ndarray, other: np.ndarray, counts: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, others, counts): grouped by key."""
    order = np.lexsort((other, key))
    starts = np.searchsorted(key[order], np.arange(n + 1))
    return starts, other[order].astype(np.int32), counts[order].astype(np.int64)


class Exchange:
    """Words with their classes, and the counts N that go with them.

    classes: (words,) int32; N: (C, C) int64; Nt: the same transposed; rows, columns: its sums.
    """

    def __init__(self, data: Bigrams, n_classes: int, threads: int = 1):
        """Words are numbered by frequency, after the FIXED ones. The most frequent words begin in
        classes of their own; the others are dealt to all classes in turn."""
        ranks = np.arange(data.n_words)
        dealt = np.where(ranks < FIXED, ranks, FIXED + (ranks - FIXED) % n_classes)
        self.data, self.threads = data, threads
        self.put(dealt.astype(np.int32))
        self.g = g_table(int(min(TABLE, self.N.sum() + 1)))

    def put(self, classes: np.ndarray) -> None:
        """Put the words into these classes."""
        self.classes = classes
        self.N = class_counts(self.data, classes, int(classes.max()) + 1)
        self.Nt, self.rows, self.columns = self.N.T.copy(), self.N.sum(axis=1), self.N.sum(axis=0)

    def objective(self) -> float:
        """F of the class counts."""
        return objective(self.N)

    def information(self) -> float:
        """The mutual information of neighbouring classes, in bits a word: F / n + log n."""
        n = max(int(self.N.sum()), 1)
        return (self.objective() / n + float(np.log(n))) / float(np.log(2))

    def run(self, passes: int, told: Callable[[int], object] = lambda words: None) -> int:
        """Pass over all words at most `passes` times, or until fewer than one word in a thousand
        moves. told: is told how many words are done. Returns the number of passes."""
        words = np.arange(FIXED, self.data.n_words)
        batches = np.array_split(words, max(1, -(-words.size // BATCH)))
        with ThreadPoolExecutor(self.threads) as pool:
            for done in range(1, passes + 1):
                moved = 0
                for batch in batches:
                    moved += self._batch(batch, pool)
                    told(batch.size)
                if moved * 1000 < words.size:
                    return done
        return passes

    def _batch(self, batch: np.ndarray, pool: ThreadPoolExecutor) -> int:
        state = self.classes, self.N, self.Nt, self.rows, self.columns, self.g
        parts = np.array_split(batch, self.threads)
        best = pool.map(lambda part: _best_classes(part, self._arrays, *state), parts)
        return int(_move(batch, np.concatenate(list(best)), self._arrays, *state))

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (*self.data.before, *self.data.after, self.data.twice)


def class_counts(data: Bigrams, classes: np.ndarray, C: int) -> np.ndarray:
    """(C, C) int64 N: of all pairs of neighbouring words."""
    N = np.zeros((C, C), np.int64)
    starts, others, counts = data.after
    left = np.repeat(classes, np.diff(starts))
    np.add.at(N, (left, classes[others]), counts)
    np.add.at(N, (classes, classes), data.twice)
    return N


def objective(N: np.ndarray) -> float:
    """F of class counts."""
    return float(_xlogx(N).sum() - _xlogx(N.sum(axis=1)).sum() - _xlogx(N.sum(axis=0)).sum())


def _xlogx(n: np.ndarray) -> np.ndarray:
    out: np.ndarray = n * np.log(np.maximum(n, 1))
    return out


def g_table(size: int) -> np.ndarray:
    return _xlogx(np.arange(size))


@njit(cache=True, nogil=True, inline="always")
def g_of(n, table):
    return table[n] if n < table.size else n * np.log(n)


@njit(cache=True, nogil=True)
def _neighbours(starts, words, counts, w, classes, found):
    """Add how often words of class c stand beside w to found[c]; return the sum."""
    total = 0
    for i in range(starts[w], starts[w + 1]):
        found[classes[words[i]]] += counts[i]
        total += counts[i]
    return total


@njit(cache=True, nogil=True)
def _gains(a, left, right, twice, before, after, N, Nt, rows, columns, g, out):
    """out[k] = F with the word in class k - F without the word, which now is in class a.

    left[c], right[d]: how often words of class c stand before the word, of class d after it; before
    and after: their sums; Nt: N transposed. Without the word, row a of N lacks right[d], column a
    lacks left[c], and N(a,a) lacks the pairs of the word with itself, too. With the word in class
    k, row k has right[d] more, column k left[c] more, and N(k,k) both and those pairs.
    """
    C = left.size
    out[:] = 0.0
    for c in range(C):
        if left[c] > 0:
            for k in range(C):
                n = N[c, k] - (right[k] if c == a else 0) - (left[c] if k == a else 0)
                n -= twice if c == a and k == a else 0
                if k != c:
                    out[k] += g_of(n + left[c], g) - g_of(n, g)
    for d in range(C):
        if right[d] > 0:
            for k in range(C):
                n = Nt[d, k] - (left[k] if d == a else 0) - (right[d] if k == a else 0)
                n -= twice if d == a and k == a else 0
                if k != d:
                    out[k] += g_of(n + right[d], g) - g_of(n, g)
    for k in range(C):
        own = left[k] + right[k] + twice
        n = N[k, k] - (own if k == a else 0)
        out[k] += g_of(n + own, g) - g_of(n, g)
        n = rows[k] - (after + twice if k == a else 0)
        out[k] -= g_of(n + after + twice, g) - g_of(n, g)
        n = columns[k] - (before + twice if k == a else 0)
        out[k] -= g_of(n + before + twice, g) - g_of(n, g)


@njit(cache=True, nogil=True)
def _best_classes(batch, arrays, classes, N, Nt, rows, columns, g):
    """(batch,) for each word, the class with which F would be largest if only this word moved; -1
    if that is its own class."""
    left_starts, left_words, left_counts, right_starts, right_words, right_counts, twice = arrays
    C = N.shape[0]
    out, gains = np.full(batch.size, -1, np.int32), np.empty(C)
    left, right = np.empty(C, np.int64), np.empty(C, np.int64)
    for i in range(batch.size):
        w = batch[i]
        left[:], right[:] = 0, 0
        before = _neighbours(left_starts, left_words, left_counts, w, classes, left)
        after = _neighbours(right_starts, right_words, right_counts, w, classes, right)
        a = classes[w]
        _gains(a, left, right, twice[w], before, after, N, Nt, rows, columns, g, gains)
        k = FIXED + np.argmax(gains[FIXED:])
        if gains[k] > gains[a] + LEAST_GAIN:
            out[i] = k
    return out


@njit(cache=True, nogil=True)
def _move(batch, wanted, arrays, classes, N, Nt, rows, columns, g):
    """Move words to the classes in `wanted`, one after the other, if F rises; return how many words
    moved."""
    left_starts, left_words, left_counts, right_starts, right_words, right_counts, twice = arrays
    C, moved = N.shape[0], 0
    gains = np.empty(C)
    left, right = np.empty(C, np.int64), np.empty(C, np.int64)
    for i in range(batch.size):
        w, k = batch[i], wanted[i]
        if k < 0:
            continue
        left[:], right[:] = 0, 0
        before = _neighbours(left_starts, left_words, left_counts, w, classes, left)
        after = _neighbours(right_starts, right_words, right_counts, w, classes, right)
        a = classes[w]
        _gains(a, left, right, twice[w], before, after, N, Nt, rows, columns, g, gains)
        if gains[k] <= gains[a] + LEAST_GAIN:
            continue
        for sign, to in ((-1, a), (1, k)):
            for c in range(C):
                N[c, to] += sign * left[c]
                Nt[to, c] += sign * left[c]
                N[to, c] += sign * right[c]
                Nt[c, to] += sign * right[c]
            N[to, to] += sign * twice[w]
            Nt[to, to] += sign * twice[w]
            rows[to] += sign * (after + twice[w])
            columns[to] += sign * (before + twice[w])
        classes[w] = k
        moved += 1
    return moved
