"""Features of running text: its units, what they look like, and the keys of templates over them.

A unit is what is never cut: a run of letters or of digits, or any other character alone, with the
marks that combine with it; or, where words run together without blanks, each character. White
space lies between units and is not one. A unit has these values, on which templates are written as
on the columns of a file (features/templates); a kernel makes all of them from code points.

    unit, low    its characters, and these in lower case
    kind         letters by their case, digits by their number, any other character itself
    gap          whether white space stands before it
    chunk        what lies between white space around it, in lower case
    head, rest   that chunk up to the unit, and from the unit on
    before       the chunk before that one; after: the one behind
    ending       the last three letters of it in lower case
    since        how many units ago a sentence may have ended, in rough steps
    rule         what corpus/rules says of it: whether a token, a sentence or a token of several
                 words begins; none where each letter is a unit
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from turbotag.corpus.hashing import combine, hash_strings, mix64
from turbotag.errors import DataError
from turbotag.features.extract import template_keys
from turbotag.features.templates import Template, text
from turbotag.lean import njit

SPACE, LOWER, UPPER, LETTER, DIGIT, MARK, OTHER, STOP = range(8)  # classes of characters
SOURCES = (
    *("unit", "low", "kind", "gap", "chunk", "head", "rest", "before", "after", "ending"),
    *("since", "rule"),
)
UNIT, LOW, KIND, GAP, CHUNK, HEAD, REST, BEFORE, AFTER, ENDING, SINCE, RULE = range(len(SOURCES))
_INVISIBLE = "\u200b\u2060\ufeff"  # count as white space, as do control characters
_STOPS = ".?!\u2026\u3002\uff1f\uff01"


def _class(c: str) -> int:
    category = unicodedata.category(c)
    if c.isspace() or category in ("Cc", "Zs") or c in _INVISIBLE:
        return SPACE
    if category[0] == "M" or c == "\u200d" or 0x1F3FB <= ord(c) <= 0x1F3FF:
        return MARK
    if category[0] == "L":
        return UPPER if c.isupper() else LOWER if c.islower() else LETTER
    if category == "Nd":
        return DIGIT
    return STOP if c in _STOPS else OTHER


def _lower(c: str) -> int:
    return ord(c.lower()[0])  # the lower case of İ has two characters


class Alphabet:
    """The class and the lower case of every code point. Code points are looked up when a text first
    has them."""

    def __init__(self) -> None:
        self.classes = np.full(0x110000, 255, np.uint8)
        self.lower = np.arange(0x110000, dtype=np.uint32)

    def learn(self, codes: np.ndarray) -> None:
        """Look up the properties of code points that are new."""
        new = codes[self.classes[codes] == 255]
        for code in set(new.tolist()):
            self.classes[code] = _class(chr(code))
            self.lower[code] = _lower(chr(code))


@dataclass
class Units:
    """The units of a text: text[starts[u]:ends[u]], and whether white space stands before each.
    segments: (n + 1,) offsets of pieces of text, none empty; units of different pieces are no
    neighbours."""

    starts: np.ndarray
    ends: np.ndarray
    spaced: np.ndarray
    segments: np.ndarray

    @property
    def n(self) -> int:
        return self.starts.size


class CharacterExtractor:
    """Templates over the units of a text; by_letter: each letter is a unit."""

    def __init__(self, templates: list[Template], by_letter: bool):
        self.templates, self.by_letter = templates, by_letter
        self.alphabet = Alphabet()
        atoms = [a for t in templates for a in t]
        self._seeds = hash_strings([text(t) for t in templates])
        self._first = np.cumsum([0, *(len(t) for t in templates)]).astype(np.int64)
        unknown = [a.column for a in atoms if a.column not in SOURCES or a.attribute]
        if unknown:
            raise DataError(
                f"{unknown[0]!r} is no value of characters: these are {', '.join(SOURCES)}",
                "templates",
            )
        self._source = np.array([SOURCES.index(a.column) for a in atoms], np.int64)
        self._offset = np.array([a.offset for a in atoms], np.int64)

    def codes(self, text: str) -> np.ndarray:
        """The code points of a text; afterwards the alphabet knows all of them."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        self.alphabet.learn(codes)
        return codes

    def units(self, codes: np.ndarray, cuts: np.ndarray) -> Units:
        """The units of the text from the first to the last of `cuts`, the (segments + 1,) offsets
        of the segments."""
        starts, ends, spaced = cut(codes, self.alphabet.classes, cuts, self.by_letter)
        return Units(starts, ends, spaced, np.unique(np.searchsorted(starts, cuts)))

    def keys(self, codes: np.ndarray, units: Units, marks: np.ndarray) -> np.ndarray:
        """(units, templates) uint64 feature keys, 0 for none. marks: what the rules say of each
        character, or empty."""
        known = self.alphabet.classes, self.alphabet.lower
        matrix = sources(codes, *known, marks, *vars(units).values())
        return template_keys(
            matrix, units.segments, self._seeds, self._first, self._source, self._offset
        )


# ---- Kernels -------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def cut(codes, classes, cuts, by_letter):
    """(starts, ends, spaced) of the units."""
    size = cuts[-1] - cuts[0]
    starts, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    spaced = np.empty(size, np.bool_)
    n, before, piece = 0, SPACE, 1
    for p in range(cuts[0], cuts[-1]):
        c = classes[codes[p]]
        while p == cuts[piece]:
            before = SPACE
            piece += 1
        if c == SPACE:
            before = SPACE
            continue
        letter = c >= LOWER and c <= LETTER and not by_letter
        goes_on = before != SPACE and (
            c == MARK
            or (letter and before >= LOWER and before <= LETTER)
            or (c == DIGIT and before == DIGIT and not by_letter)
        )
        if goes_on:
            ends[n - 1] = p + 1
            before = before if c == MARK else c
        else:
            starts[n], ends[n], spaced[n] = p, p + 1, before == SPACE
            n += 1
            before = c
    return starts[:n], ends[:n], spaced[:n]


@njit(cache=True, nogil=True)
def _hash(codes, a, b):
    h = np.uint64(0xCBF29CE484222325)
    for p in range(a, b):
        h = (h ^ np.uint64(codes[p])) * np.uint64(0x100000001B3)
    return mix64(h)


@njit(cache=True, nogil=True)
def _hash_lower(codes, lower, a, b):
    h = np.uint64(0xCBF29CE484222325)
    for p in range(a, b):
        h = (h ^ np.uint64(lower[codes[p]])) * np.uint64(0x100000001B3)
    return mix64(h)


@njit(cache=True, nogil=True)
def _kind(codes, classes, a, b):
    """Letters: a, A, Aa, AA, aA or others; digits: their number up to 5; the character itself."""
    first = classes[codes[a]]
    if first == DIGIT:
        return np.uint64(min(b - a, 5))
    if first < LOWER or first > LETTER:
        return np.uint64(1000) + np.uint64(codes[a])
    upper, lower = 0, 0
    for p in range(a, b):
        upper += classes[codes[p]] == UPPER
        lower += classes[codes[p]] == LOWER
    if first == UPPER:
        return np.uint64(10 if b - a == 1 else 11 if upper == 1 else 12 if lower == 0 else 13)
    return np.uint64(14 if upper == 0 and lower else 15 if lower else 16)


@njit(cache=True, nogil=True)
def sources(codes, classes, lower, marks, starts, ends, spaced, segments):
    """(units, SOURCES) uint64: the value of every source at every unit, 0 for none."""
    n = starts.size
    out = np.zeros((n, len(SOURCES)), np.uint64)
    for s in range(segments.size - 1):
        begin, end = segments[s], segments[s + 1]
        before, since = np.uint64(0), 0
        u = begin
        while u < end:
            last = u + 1  # the unit behind the chunk that begins at u
            while last < end and not spaced[last]:
                last += 1
            a, b = starts[u], ends[last - 1]
            chunk = _hash_lower(codes, lower, a, b)
            h = np.uint64(0xCBF29CE484222325)
            for v in range(u, last):
                row = out[v]
                row[UNIT] = _hash(codes, starts[v], ends[v])
                row[LOW] = _hash_lower(codes, lower, starts[v], ends[v])
                kind = _kind(codes, classes, starts[v], ends[v])
                row[KIND] = mix64(kind)
                row[GAP] = mix64(np.uint64(1 + spaced[v]))
                if marks.size:
                    row[RULE] = mix64(np.uint64(1 + marks[starts[v]]))
                row[CHUNK] = chunk
                row[BEFORE] = before
                h = combine(h, row[LOW])
                row[HEAD] = h
                row[ENDING] = _hash_lower(codes, lower, max(starts[v], ends[v] - 3), ends[v])
                steps = since if since < 4 else 4 if since < 8 else 5 if since < 16 else 6
                row[SINCE] = mix64(np.uint64(1 + (steps if since < 32 else 7)))
                since = 0 if classes[codes[starts[v]]] == STOP else since + 1
            h = np.uint64(0x9E3779B97F4A7C15)
            for v in range(last - 1, u - 1, -1):
                h = combine(h, out[v, LOW])
                out[v, REST] = h
            for v in range(u - 1, begin - 1, -1):  # the chunk before this one
                out[v, AFTER] = chunk
                if spaced[v]:
                    break
            before = chunk
            u = last
    return out
