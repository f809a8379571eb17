"""Features of arcs: templates over a head, a modifier, what lies between them, and the distance.

    h:word m:word dir|dist     two templates: with the direction, and with the signed distance
    h:upos m:upos h:upos[1]    offsets as in features/templates; columns and attributes too
    b:upos h:upos m:upos dir   fires for every different tag between the two
    set:upos h:upos m:upos     the set of tags between, as one value
    count:VERB h:upos m:upos   the number of words with this UPOS tag between (0, 1, 2, 3 or more)
    h:super m:super dist       the word's supertag, where the parser has any (models/parser)
    h:cluster6 m:gaz           resources as in features/templates
    g:upos m:upos h:upos       where the tree is known, as for labels: g the head's head, l and r
                               the modifier's nearest siblings, a and z its first and last child

The key of a feature is a sum of hashes, one of all the head's values, one of the modifier's, one
of each of the rest, so an arc costs two additions a template once its two words are hashed. The
root stands before the first word; an attribute that is empty or `_` keeps a template from firing,
but between the two words it is a value like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from turbotag.corpus.hashing import combine, hash_strings, mix64
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features.extract import BOUNDARY, Extractor
from turbotag.features.resources import Resource, expand, kind_of
from turbotag.features.templates import FLAGS, MAX_OFFSET, Atom, Template
from turbotag.features.words import attribute

ROOT = np.uint64(0x726F6F7400000001)  # the value of every attribute of the root
NOTHING = np.uint64(0x6E6F7468696E6701)  # the value of an empty attribute between
START, END = np.uint64(0x5354415254000001), np.uint64(0x454E440000000001)  # see features/parts
START_PLACE, END_PLACE = -1_000, -10_000
PLAIN, EACH, SET, COUNT = range(4)
SUPER = "super", ""  # the one source that is not read from the file
RELATIONS = "mglraz"
_SIDE = re.compile(r"([hmsglraz]):([A-Za-z_][\w:-]*)(?:\.([A-Za-z]+[0-9]?))?(?:\[(-?\d{1,9})\])?")
_BETWEEN = re.compile(r"(b|set|count):(\w+)")
_KINDS = {"b": EACH, "set": SET, "count": COUNT}
DISTANCES = (1, 2, 3, 4, 5, 7, 10, 15, 25)  # upper ends of the buckets
NO, DIR, DIST = range(3)
_ARC = {"dir": DIR, "dist": DIST}


@dataclass(frozen=True)
class ArcTemplate:
    """Atoms of the head and of the modifier, what is taken from between, and the arc's own part."""

    head: tuple[tuple[str, Atom], ...]
    mod: tuple[tuple[str, Atom], ...]  # and of the words found from it
    kind: int = PLAIN
    between: str = ""  # a column, or for COUNT a tag
    arc: int = NO

    def __str__(self) -> str:
        parts = [f"{relation}:{atom}" for relation, atom in (*self.head, *self.mod)]
        if self.kind != PLAIN:
            parts.append(f"{('', 'b', 'set', 'count')[self.kind]}:{self.between}")
        return " ".join([*parts, ("", "dir", "dist")[self.arc]]).strip() or "no"


def parse(lines: str, path: str) -> list[ArcTemplate]:
    """Templates of a file's text."""
    found: list[ArcTemplate] = []
    seen: dict[ArcTemplate, int] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        head: list[tuple[str, Atom]] = []
        mod: list[tuple[str, Atom]] = []
        kind, between, arcs = PLAIN, "", [NO]
        for word in words:
            side, other = _SIDE.fullmatch(word), _BETWEEN.fullmatch(word)
            if side and (atom := _atom(side)) is not None:
                (head if side[1] == "h" else mod).append((side[1], atom))
            elif other and kind == PLAIN and not kind_of(other[2]):
                kind, between = _KINDS[other[1]], other[2]
            elif arcs == [NO] and set(word.split("|")) <= {"no", *_ARC}:
                arcs = [_ARC.get(w, NO) for w in word.split("|")]
            else:
                raise DataError(
                    f"{word!r} is not part of an arc template: expected such as h:word, "
                    "m:upos[-1], b:upos, set:upos, count:VERB, dir, dist or dir|dist",
                    path,
                    number,
                )
        for arc in arcs:
            template = ArcTemplate(tuple(head), tuple(mod), kind, between, arc)
            if template in seen:
                raise DataError(f"'{template}' is on line {seen[template]} too", path, number)
            seen[template] = number
            found.append(template)
    if not found:
        raise DataError("holds no templates", path)
    return found


def _atom(match: re.Match[str]) -> Atom | None:
    column, attr, offset = match[2], match[3] or "", int(match[4] or 0)
    if not attr and attribute(column):
        column, attr = "word", column
    if (attr and not attribute(attr)) or abs(offset) > MAX_OFFSET or column in FLAGS:
        return None
    return Atom(column, attr, offset)


def _columns(template: ArcTemplate) -> list[str]:
    return [atom.column for _, atom in (*template.head, *template.mod)]


def _renamed(template: ArcTemplate, names: Mapping[str, str]) -> ArcTemplate:
    def side(atoms: tuple[tuple[str, Atom], ...]) -> tuple[tuple[str, Atom], ...]:
        return tuple((r, replace(a, column=names.get(a.column, a.column))) for r, a in atoms)

    return replace(template, head=side(template.head), mod=side(template.mod))


class Words:
    """What sets of arc templates read of the words: one matrix for all of them.

    Each thread needs one of its own: it remembers words.
    """

    def __init__(self, *sets: list[ArcTemplate], resources: list[Resource] | None = None):
        self.resources = resources or []
        templates = self.expanded([t for s in sets for t in s])
        sources = {a.source for t in templates for _, a in (*t.head, *t.mod)}
        sources |= {(t.between, "") for t in templates if t.kind in (EACH, SET)}
        if any(t.kind == COUNT for t in templates):
            sources.add(("upos", ""))
        read: list[Template] = [(Atom(c, a, 0),) for c, a in sorted(sources - {SUPER})]
        self.tokens = Extractor(read, self.resources)
        self.sources = [*self.tokens.sources, *(sources & {SUPER})]
        self.at = {s: n for n, s in enumerate(self.sources)}

    def expanded(self, templates: list[ArcTemplate]) -> list[ArcTemplate]:
        """Each template that names a kind of resource, once for each resource of the kind."""
        return expand(templates, _columns, _renamed, self.resources)

    def matrix(self, block: Block) -> np.ndarray:
        """(tokens, sources) uint64 values, 0 for none: supertags are yet to be filled in."""
        ids = self.tokens.ids(block)
        out = np.zeros((block.n_tokens, len(self.sources)), np.uint64)
        out[:, : len(self.tokens.sources)] = self.tokens.matrix(block, ids)
        for n, (column, _) in enumerate(self.tokens.sources):
            if column in ("lemma", "upos", "xpos", "feats"):
                none = [i for i, s in enumerate(self.tokens.interners[column].strings) if s == "_"]
                if none:
                    out[np.isin(ids[column], none), n] = 0
        return out


class ArcExtractor:
    """Arc templates, applied to sentences whose matrix comes from `words`."""

    def __init__(self, templates: list[ArcTemplate], words: Words):
        self.templates = sorted(
            words.expanded(templates), key=lambda t: t.kind
        )  # kernels go kind by kind
        at = words.at
        counted = sorted({t.between for t in self.templates if t.kind == COUNT})
        between = sorted({t.between for t in self.templates if t.kind in (EACH, SET)})
        self._between = np.array([at[c, ""] for c in between], np.int64)
        self._upos = at.get(("upos", ""), -1)
        self._counted = hash_strings(counted)
        self._kind = np.array([t.kind for t in self.templates], np.int64)
        names = {PLAIN: [""], EACH: between, SET: between, COUNT: counted}
        self._which = np.array([names[t.kind].index(t.between) for t in self.templates], np.int64)
        self._arc = np.array([t.arc for t in self.templates], np.int64)
        self._heads = _side("h", [t.head for t in self.templates], self.templates, at)
        self._mods = _side("m", [t.mod for t in self.templates], self.templates, at)
        self._arc_keys = np.zeros((1 + len(_ARC), 64), np.uint64)
        self._arc_keys[1:] = hash_strings([f"{k}{v}" for k in _ARC for v in range(64)]).reshape(
            -1, 64
        )

    def keys(
        self,
        matrix: np.ndarray,
        cuts: np.ndarray,
        heads: np.ndarray,
        tree: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends): features of the arcs of one sentence, and where those of each arc end.

        matrix: the sentence's rows of `matrix`; the candidate heads of word m are
        heads[cuts[m-1]:cuts[m]]; tree: all heads, for templates that look beyond the arc.
        """
        places = relations(tree) if tree is not None else _nowhere(matrix.shape[0])
        bit, names, sums = _context(matrix, self._between, self._upos, self._counted)
        return _keys(
            hash_sides(matrix, places, *self._heads),
            hash_sides(matrix, places, *self._mods),
            bit,
            names,
            sums,
            self._kind,
            self._which,
            self._arc,
            self._arc_keys,
            cuts,
            heads,
        )


def _side(
    side: str,
    atoms: list[tuple[tuple[str, Atom], ...]],
    templates: list[ArcTemplate],
    at: dict[tuple[str, str], int],
) -> tuple[np.ndarray, ...]:
    """Seeds, first atom of each template; source, offset and relation of each atom."""
    flat = [x for a in atoms for x in a]
    return (
        hash_strings([f"{side} {t}" for t in templates]),
        np.cumsum([0, *(len(a) for a in atoms)]).astype(np.int64),
        np.array([at[x.source] for _, x in flat], np.int64),
        np.array([x.offset for _, x in flat], np.int64),
        np.array([max(RELATIONS.find(r), 0) for r, _ in flat], np.int64),
    )


@njit(cache=True, nogil=True)
def _nowhere(n):
    """Every word finds itself and nothing else."""
    places = np.full((len(RELATIONS), n + 1), -99, np.int64)
    for t in range(n + 1):
        places[0, t] = t
    return places


@njit(cache=True, nogil=True)
def relations(heads):
    """(relations, n+1): where each word's relations of RELATIONS stand, far outside if nowhere."""
    n = heads.size
    places = _nowhere(n)
    grand, left, right, first, last = places[1], places[2], places[3], places[4], places[5]
    latest = np.zeros(n + 1, np.int64)
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h > 0:
            grand[m] = heads[h - 1]
        if first[h] < 0:
            first[h] = m
        last[h] = m
        if latest[h] > 0:
            left[m] = latest[h]
            right[latest[h]] = m
        latest[h] = m
    return places


@njit(cache=True, nogil=True)
def bucket(h, m):
    """Distance bucket, 0..9, plus 20 where the head is to the right and 40 where it is the root."""
    d = abs(h - m)
    b = 0
    while b < len(DISTANCES) and d > DISTANCES[b]:
        b += 1
    return b + (20 if h > m else 40 if h == 0 else 0)


@njit(cache=True, nogil=True)
def hash_sides(matrix, places, seeds, first, source, offset, relation):
    """(columns of places, templates): the hash of a template's atoms at each word, 0 where one is
    empty. A place far below 0 is no word: START_PLACE, END_PLACE, or outside the sentence."""
    n, J = matrix.shape[0], seeds.size
    out = np.empty((places.shape[1], J), np.uint64)
    for t in range(places.shape[1]):
        for j in range(J):
            key = seeds[j]
            for a in range(first[j], first[j + 1]):
                p = places[relation[a], t] + offset[a]
                if p < 0 or p > n:
                    value = (
                        BOUNDARY if p > START_PLACE // 2 else START if p > END_PLACE // 2 else END
                    )
                else:
                    value = ROOT if p == 0 else matrix[p - 1, source[a]]
                if value == 0:
                    key = np.uint64(0)
                    break
                key = combine(key, value)
            out[t, j] = key
    return out


@njit(cache=True, nogil=True)
def _context(matrix, between, upos, counted):
    """(value of each word in each column as a bit 0..63, hash of each bit's value, (n+2, counted)
    sums of tags)."""
    n = matrix.shape[0]
    bits = np.zeros((between.size, n + 1), np.int64)
    names = np.zeros((between.size, 64), np.uint64)
    sums = np.zeros((n + 2, counted.size), np.int64)
    for c in range(between.size):
        used = 0
        for t in range(1, n + 1):
            value = matrix[t - 1, between[c]]
            key = mix64(NOTHING if value == 0 else value)  # mix64(0) is 1, which is no hash
            b = 0
            while b < used and names[c, b] != key:
                b += 1
            if b == used:
                b = min(b, 63)  # more than 64 values in a sentence: the last ones share a bit
                names[c, b] = key
                used = b + 1
            bits[c, t] = b
    for c in range(counted.size):
        for t in range(1, n + 1):
            sums[t + 1, c] = sums[t, c] + (matrix[t - 1, upos] == counted[c])
    return bits, names, sums


@njit(cache=True, nogil=True)
def _keys(hp, mp, bits, names, sums, kind, which, arc, arc_keys, cuts, heads):
    n, J = mp.shape[0] - 1, kind.size
    single, each = 0, np.zeros(max(bits.shape[0], 1), np.int64)
    for j in range(J):
        if kind[j] == EACH:
            each[which[j]] += 1
        else:
            single += 1
    keys = np.empty(single * heads.size + _repeats(bits, each, cuts, heads), np.uint64)
    ends = np.empty(heads.size, np.int64)
    mask = np.zeros(each.size, np.uint64)
    size = 0
    for m in range(1, n + 1):
        for e in range(cuts[m - 1], cuts[m]):
            h = heads[e]
            low, high = min(h, m) + 1, max(h, m)
            for c in range(bits.shape[0]):
                mask[c] = _mask(bits[c], low, high)
            at = bucket(h, m)
            own = (np.uint64(0), arc_keys[1, at // 20], arc_keys[2, at])
            for j in range(J):
                if hp[h, j] == 0 or mp[m, j] == 0:
                    continue
                key = hp[h, j] + mp[m, j] + own[arc[j]]
                w = which[j]
                if kind[j] == PLAIN:
                    keys[size] = key
                    size += 1
                elif kind[j] == EACH:
                    left, b = mask[w], 0
                    while left:
                        if left & np.uint64(1):
                            keys[size] = key + names[w, b]
                            size += 1
                        left >>= np.uint64(1)
                        b += 1
                elif kind[j] == SET:
                    left, b = mask[w], 0
                    while left:
                        if left & np.uint64(1):
                            key += names[w, b]
                        left >>= np.uint64(1)
                        b += 1
                    keys[size] = key
                    size += 1
                else:
                    count = min(sums[high, w] - sums[low, w], 3) if high > low else 0
                    keys[size] = key + arc_keys[2, 60 + count]
                    size += 1
            ends[e] = size
    return keys[:size], ends


@njit(cache=True, nogil=True)
def _mask(bit, low, high):
    """The set of the values of words low..high-1."""
    mask = np.uint64(0)
    for t in range(low, high):
        mask |= np.uint64(1) << np.uint64(bit[t])
    return mask


@njit(cache=True, nogil=True)
def _repeats(bits, each, cuts, heads):
    """How often templates with b: fire: the different values between, over all arcs."""
    total = 0
    for c in range(bits.shape[0]):
        if each[c] > 0:
            for m in range(1, cuts.size):
                for e in range(cuts[m - 1], cuts[m]):
                    mask = _mask(bits[c], min(heads[e], m) + 1, max(heads[e], m))
                    while mask:
                        mask &= mask - np.uint64(1)
                        total += each[c]
    return total
