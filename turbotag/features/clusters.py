"""Word clusters: a path in a binary tree for each word, and a table of them in few bytes a word.

A file has a word and its path of 0 and 1 on each line, with a tab between them, as Brown's
clustering gives them. Words are looked up as they are written, in lower case, with a capital, and
with all digits made 0.

The table is a Bloomier filter (Chazelle, Kilian, Rubinfeld and Tal 2004) with the three hashes of
an xor filter (Graf and Lemire 2020). A word's three places hold numbers whose exclusive or is its
cluster and eight bits of its hash. So a listed word always has its own cluster, and a word that is
not listed is taken for one with probability 1/256. No word is stored: with 4,096 clusters a word
costs 25 bits, of which 12 are the cluster itself.
"""

from __future__ import annotations

import operator
import re
import zlib
from collections.abc import Callable
from typing import ClassVar
from weakref import WeakValueDictionary

import numpy as np

from turbotag.corpus.hashing import combine, hash_strings
from turbotag.corpus.reader import Source, display_name, open_binary
from turbotag.errors import DataError
from turbotag.features.resources import Arrays, Resource, depth_of
from turbotag.lean import njit

CHECK = 8  # bits of the hash that tell whether a word is listed
ROOM = 1.23  # places for each word; with fewer the table cannot be filled
LONGEST = 63  # bits of a path
SEEDS = 100  # tries; the first seed or one of the next few works
_DIGIT = re.compile(r"\d")
_PATH = re.compile("[01]+")


def _folded(word: str) -> str:
    return _DIGIT.sub("0", word)


def _folded_lower(word: str) -> str:
    return _DIGIT.sub("0", word.lower())


# The forms in which a word is looked up, until one is listed.
UNCASED = (str.lower, _folded_lower)
CASED = (str, str.lower, str.capitalize, _folded, _folded_lower)


_loaded: WeakValueDictionary[int, Clusters] = WeakValueDictionary()  # by the array in memory


class Clusters(Resource):
    """A table of word clusters. slots: (3 B,) uint32; paths: of clusters 1, 2, ...; cased: whether
    a listed word has capitals. If none has, words are looked up in lower case only."""

    kind, prefix, has_depths = "cluster", "clusters", True
    layout: ClassVar = {
        "slots": ("uint8", (None,)),
        "paths": ("uint16 uint32 uint64", (None,)),
        "shape": ("int64", (4,)),
    }

    def __init__(self, name: str, slots: np.ndarray, paths: list[str], seed: int, cased: bool):
        self.name, self.slots, self.paths, self.seed, self.cased = name, slots, paths, seed, cased
        self.given: list[np.ndarray] = []  # the arrays of a file that it is from

    def __reduce__(self) -> tuple[object, ...]:
        return Clusters, (self.name, self.slots, self.paths, self.seed, self.cased)

    @classmethod
    def of(cls, name: str, words: list[str], paths: list[str]) -> Clusters:
        """Clusters of words, all different, given the path of each."""
        different = sorted(set(paths))
        at = {path: n for n, path in enumerate(different)}
        values = np.array([at[path] for path in paths], np.uint64)
        bits = np.uint64(_bits(len(different)))
        keys, B = hash_strings(words), _third(len(words))
        for seed in range(SEEDS):
            mixed = _mixed(keys, np.uint64(seed))
            check = mixed >> np.uint64(64 - CHECK)
            slots = np.zeros(3 * B, np.uint32)
            if _fill(_places(mixed, B), ((check << bits) | values).astype(np.uint32), slots):
                cased = any(w != w.lower() for w in words)
                return cls(name, slots, different, seed, cased)
        raise ValueError("words whose hashes are alike")

    @classmethod
    def read(cls, name: str, path: Source) -> Clusters:
        """Read a UTF-8 file of lines `word<TAB>path`. Further columns and empty lines are left out.
        In the files of Brown's own program the path comes first."""
        shown = display_name(path)
        with open_binary(path) as f:
            try:
                text = f.read().decode("utf-8-sig")
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as e:
                raise DataError(f"cannot be read as clusters: {e}", shown) from e
        found: dict[str, str] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            word, tab, rest = line.rstrip("\r").partition("\t")
            bits = rest.split("\t")[0].strip()
            if not word or not tab or not _PATH.fullmatch(bits):
                raise DataError("expected a word, a tab and a path of 0 and 1", shown, number)
            if len(bits) > LONGEST:
                raise DataError(f"a path has at most {LONGEST} bits", shown, number)
            if found.setdefault(word, bits) != bits:
                raise DataError(f"{word!r:.60} has another path above", shown, number)
        if not found:
            raise DataError("holds no words", shown)
        return cls.of(name, list(found), list(found.values()))

    @classmethod
    def load(cls, name: str, arrays: Arrays) -> Clusters:
        packed, *_ = given = [arrays[key] for key in cls.layout]
        known = _loaded.get(id(packed))
        if known and known.name == name and all(map(operator.is_, known.given, given)):
            return known  # all stages of a pipeline read one table
        B, n, seed, cased = arrays["shape"].tolist()
        width = _bits(n) + CHECK
        if not (0 < B < 1 << 31 and 0 < n < 1 << 24 and 0 <= seed < SEEDS and cased in (0, 1)):
            raise ValueError(f"the shape of clusters is {arrays['shape'].tolist()}")
        if packed.size != -(-3 * B * width // 8) or arrays["paths"].size != n:
            raise ValueError(f"{arrays['paths'].size} paths and {packed.size} bytes of clusters")
        paths = [f"{path:b}"[1:] for path in arrays["paths"].tolist()]
        if not all(paths) or len(set(paths)) != n:
            raise ValueError("paths of clusters are empty, or not distinct")
        bits = np.unpackbits(packed, count=3 * B * width, bitorder="little").reshape(3 * B, width)
        slots = np.zeros(3 * B, np.uint32)
        for k in range(width):
            slots |= bits[:, k].astype(np.uint32) << np.uint32(k)
        made = cls(name, slots, paths, seed, bool(cased))
        made.given, _loaded[id(packed)] = given, made
        return made

    def arrays(self) -> Arrays:
        n, longest = len(self.paths), max(map(len, self.paths))
        width = np.arange(_bits(n) + CHECK, dtype=np.uint32)
        bits = ((self.slots[:, None] >> width) & np.uint32(1)).astype(np.uint8)
        kind = np.uint16 if longest < 16 else np.uint32 if longest < 32 else np.uint64
        return {
            "slots": np.packbits(bits, bitorder="little"),
            "paths": np.array([int("1" + path, 2) for path in self.paths], kind),
            "shape": np.array([self.slots.size // 3, n, self.seed, self.cased], np.int64),
        }

    @property
    def types(self) -> Callable[[list[str]], np.ndarray]:
        return self.numbers_of

    def numbers_of(self, words: list[str]) -> np.ndarray:
        """(words,) int32: the cluster of each, from 1 on; 0 if it has none."""
        out, missing = np.zeros(len(words), np.int32), list(range(len(words)))
        for form in CASED if self.cased else UNCASED:
            if missing:
                out[missing] = self._lookup([form(words[i]) for i in missing])
            missing = [i for i in missing if not out[i]]
        return out

    def _lookup(self, words: list[str]) -> np.ndarray:
        mixed = _mixed(hash_strings(words), np.uint64(self.seed))
        a, b, c = _places(mixed, self.slots.size // 3).T
        found = self.slots[a] ^ self.slots[b] ^ self.slots[c]
        bits, n = _bits(len(self.paths)), len(self.paths)
        value = found & np.uint32((1 << bits) - 1)
        listed = (found >> np.uint32(bits) == mixed >> np.uint64(64 - CHECK)) & (value < n)
        return np.where(listed, value + np.uint32(1), np.uint32(0)).astype(np.int32)

    def numbers(self, types: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        return types

    def values(self, column: str) -> list[str]:
        depth = depth_of(column) or None
        return ["", *(path[:depth] for path in self.paths)]


def _bits(n: int) -> int:
    """How many bits a number below n needs."""
    return max(1, (n - 1).bit_length())


def _third(n: int) -> int:
    """The number of places for each of the three hashes of a word."""
    return int(ROOM * n / 3) + 11


@njit(cache=True, nogil=True)
def _mixed(keys, seed):
    out = np.empty_like(keys)
    for i in range(keys.size):
        out[i] = combine(keys[i], seed)
    return out


@njit(cache=True, nogil=True)
def _places(mixed, B):
    """(words, 3): the place of a word in each third of the table."""
    out = np.empty((mixed.size, 3), np.int64)
    for i in range(mixed.size):
        for j in range(3):
            upper = combine(mixed[i], np.uint64(j)) >> np.uint64(32)
            out[i, j] = j * B + np.int64((upper * np.uint64(B)) >> np.uint64(32))
    return out


@njit(cache=True, nogil=True)
def _fill(places, values, slots):
    """Find slots such that slots[a] ^ slots[b] ^ slots[c] = value for all words, if there are such
    slots.

    If a word is the only one at one of its places, it can be given its value last, whatever the
    other slots hold. Such words are taken away one after the other, and filled in backwards.
    """
    n = places.shape[0]
    count, sums = np.zeros(slots.size, np.int64), np.zeros(slots.size, np.int64)
    for i in range(n):
        for j in range(3):
            count[places[i, j]] += 1
            sums[places[i, j]] ^= i
    waiting = np.empty(slots.size + 3 * n, np.int64)
    size = 0
    for p in range(slots.size):
        if count[p] == 1:
            waiting[size] = p
            size += 1
    order, last = np.empty(n, np.int64), np.empty(n, np.int64)
    taken = 0
    while size > 0:
        size -= 1
        p = waiting[size]
        if count[p] != 1:
            continue
        i = sums[p]
        order[taken], last[taken] = i, p
        taken += 1
        for j in range(3):
            q = places[i, j]
            count[q] -= 1
            sums[q] ^= i
            if count[q] == 1:
                waiting[size] = q
                size += 1
    for k in range(taken - 1, -1, -1):
        i, p = order[k], last[k]
        value = values[i]
        for j in range(3):
            if places[i, j] != p:
                value ^= slots[places[i, j]]
        slots[p] = value
    return taken == n
