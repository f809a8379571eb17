"""Gazetteers: lists of names, one a line, matched leftmost and longest over one or more words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np

from turbotag.corpus.hashing import KeyTable, combine, hash_strings
from turbotag.corpus.reader import Source, display_name, open_binary
from turbotag.errors import DataError
from turbotag.features.resources import Arrays, Resource
from turbotag.lean import njit

# no match; the only word of a name; its first, an inner, its last word
POSITIONS = ["", "U", "B", "I", "L"]
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_GENITIVE = re.compile(r"(?<=\w)(['\u2019]s)\b")
_SEED = np.uint64(0x7475726274616721)


class Gazetteer(Resource):
    """Names as keys of their word prefixes, without regard to case.

    prefixes: (m,) keys of every prefix of every name; whole: (m,) 1 where it is a name.
    """

    kind, prefix, replaceable = "gaz", "gazetteer", True
    layout: ClassVar = {"prefixes": ("uint64", (None,)), "whole": ("uint8", (None,))}

    def __init__(self, name: str, prefixes: np.ndarray, whole: np.ndarray):
        self.name, self.prefixes, self.whole = name, prefixes, whole
        if whole.size != prefixes.size:
            raise ValueError(f"{prefixes.size} prefixes of names, but {whole.size} marks of them")
        self._table = KeyTable.of(prefixes)

    def __reduce__(self) -> tuple[object, ...]:
        return Gazetteer, (self.name, self.prefixes, self.whole)

    @classmethod
    def of(cls, name: str, names: list[str]) -> Gazetteer:
        split = [form.split() for n in names for form in _forms(n.lower())]
        words = [w for n in split for w in n]
        keys, ends = hash_strings(words), np.cumsum([len(n) for n in split])
        flat, last = _prefixes(keys, ends)
        table = KeyTable(2 * max(1, flat.size))
        rows, _ = table.insert(flat)
        whole = np.zeros(table.size, np.uint8)
        whole[rows[last > 0]] = 1
        return cls(name, table.keys(), whole)

    @classmethod
    def read(cls, name: str, path: Source) -> Gazetteer:
        """From a UTF-8 file; blank lines and lines that open with '#' are left out."""
        with open_binary(path) as f:
            try:
                lines = f.read().decode("utf-8-sig").splitlines()
            except (OSError, EOFError, zlib.error, UnicodeDecodeError) as e:
                raise DataError(f"cannot be read as a gazetteer: {e}", display_name(path)) from e
        names = [s for line in lines if (s := line.strip()) and not s.startswith("#")]
        if not names:
            raise DataError("holds no names", display_name(path))
        return cls.of(name, names)

    @classmethod
    def load(cls, name: str, arrays: Arrays) -> Gazetteer:
        return cls(name, arrays["prefixes"], arrays["whole"])

    def arrays(self) -> Arrays:
        return {"prefixes": self.prefixes, "whole": self.whole}

    @property
    def types(self) -> Callable[[list[str]], np.ndarray]:
        return _lower_keys  # the same for all gazetteers, so that words are hashed once

    def numbers(self, types: np.ndarray, sentences: np.ndarray) -> np.ndarray:
        """Codes into POSITIONS, for the keys of the lower-cased words."""
        return _match(types, sentences, self._table.slots, self.whole)

    def values(self, column: str) -> list[str]:
        return POSITIONS


def _forms(name: str) -> Iterable[str]:
    """A name as it is, and as text is cut into words in treebanks: Coca - Cola, McDonald 's."""
    cut = _HYPHEN.sub(" - ", name)
    return dict.fromkeys((name, cut, _GENITIVE.sub(r" \1", name), _GENITIVE.sub(r" \1", cut)))


def _lower_keys(words: list[str]) -> np.ndarray:
    return hash_strings([w.lower() for w in words])


@njit(cache=True, nogil=True)
def _prefixes(keys, ends):
    flat = np.empty(keys.size, np.uint64)
    last = np.zeros(keys.size, np.uint8)
    p = 0
    for i in range(ends.size):
        h = _SEED
        while p < ends[i]:
            h = combine(h, keys[p])
            flat[p] = h
            last[p] = p == ends[i] - 1
            p += 1
    return flat, last


@njit(cache=True, nogil=True)
def _match(lower, sentences, slots, whole):
    codes = np.zeros(lower.size, np.int32)
    mask = slots.shape[0] - 1
    for s in range(sentences.size - 1):
        t = sentences[s]
        while t < sentences[s + 1]:
            h, length = _SEED, 0
            for e in range(t, sentences[s + 1]):
                h = combine(h, lower[e])
                p = np.int64(h) & mask
                while slots[p, 0] != 0 and slots[p, 0] != h:
                    p = (p + 1) & mask
                if slots[p, 0] == 0:
                    break
                if whole[slots[p, 1]]:
                    length = e - t + 1
            if length == 1:
                codes[t] = 1
            elif length > 1:
                codes[t], codes[t + length - 1] = 2, 4
                for e in range(t + 1, t + length - 1):
                    codes[e] = 3
            t += max(1, length)
    return codes
