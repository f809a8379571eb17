"""Features of arcs: templates over a head, a modifier, what lies between them, and the distance.

    h:word m:word dir|dist     two templates: with the direction, and with the signed distance
    h:upos m:upos h:upos[1]    offsets as in features/templates; columns and attributes too
    b:upos h:upos m:upos dir   fires for every different tag between the two
    set:upos h:upos m:upos     the set of tags between, as one value
    count:VERB h:upos m:upos   the number of words with this UPOS tag between (0, 1, 2, 3 or more)
    h:super m:super dist       the word's supertag, where the parser has any (models/parser)
    h:upos m:super2 dir        the second-best supertag, where the best one is in doubt
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

from turbotag.corpus.hashing import hash_strings
from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features.arc_kernels import (
    COUNT,
    EACH,
    PLAIN,
    RELATIONS,
    SET,
    Side,
    Templates,
    arc_keys,
    here,
    relations,
)
from turbotag.features.extract import Extractor
from turbotag.features.resources import Resource, expand, kind_of
from turbotag.features.templates import FLAGS, MAX_OFFSET, Atom, Template
from turbotag.features.words import attribute

SUPER, SECOND = ("super", ""), ("super2", "")  # the sources that are not read from the file
_SIDE = re.compile(r"([hmsglraz]):([A-Za-z_][\w:-]*)(?:\.([A-Za-z]+[0-9]?))?(?:\[(-?\d{1,9})\])?")
_BETWEEN = re.compile(r"(b|set|count):(\w+)")
_KINDS = {"b": EACH, "set": SET, "count": COUNT}
NO, DIR, DIST = range(3)
_ARC = {"dir": DIR, "dist": DIST}


@dataclass(frozen=True)
class ArcTemplate:
    """Atoms of the head and of the modifier, what is taken from between them, and the own part of
    the arc: nothing, direction or distance."""

    head: tuple[tuple[str, Atom], ...]
    mod: tuple[tuple[str, Atom], ...]  # and of words that are found from the modifier
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
    """What sets of arc templates read of the words, as one matrix for all of them.

    It remembers words, so each thread needs one of its own.
    """

    def __init__(self, *sets: list[ArcTemplate], resources: list[Resource] | None = None):
        self.resources = resources or []
        templates = self.expanded([t for s in sets for t in s])
        sources = {a.source for t in templates for _, a in (*t.head, *t.mod)}
        sources |= {(t.between, "") for t in templates if t.kind in (EACH, SET)}
        if any(t.kind == COUNT for t in templates):
            sources.add(("upos", ""))
        read: list[Template] = [(Atom(c, a, 0),) for c, a in sorted(sources - {SUPER, SECOND})]
        self.tokens = Extractor(read, self.resources)
        self.sources = [*self.tokens.sources, *sorted(sources & {SUPER, SECOND})]
        self.at = {s: n for n, s in enumerate(self.sources)}

    def expanded(self, templates: list[ArcTemplate]) -> list[ArcTemplate]:
        """Each template that names a kind of resource, once for each resource of the kind."""
        return expand(templates, _columns, _renamed, self.resources)

    def matrix(self, block: Block) -> np.ndarray:
        """(tokens, sources) uint64 values, 0 for none. Supertags are filled in later."""
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
        )  # kernels work through one kind after the other
        at, kinds = words.at, [t.kind for t in self.templates]
        counted = sorted({t.between for t in self.templates if t.kind == COUNT})
        between = sorted({t.between for t in self.templates if t.kind in (EACH, SET)})
        names = {PLAIN: [""], EACH: between, SET: between, COUNT: counted}
        own = hash_strings([f"{k}{v}" for k in _ARC for v in range(64)]).reshape(-1, 64)
        self.data = Templates(
            _side("h", [t.head for t in self.templates], self.templates, at),
            _side("m", [t.mod for t in self.templates], self.templates, at),
            np.searchsorted(kinds, range(1, 5)),
            np.array([names[t.kind].index(t.between) for t in self.templates], np.int64),
            np.array([t.arc for t in self.templates], np.int64),
            np.concatenate([np.zeros((1, 64), np.uint64), own]),
            np.array([at[c, ""] for c in between], np.int64),
            at.get(("upos", ""), -1),
            hash_strings(counted),
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
        places = relations(tree) if tree is not None else here(matrix.shape[0])
        found: tuple[np.ndarray, np.ndarray] = arc_keys(matrix, places, cuts, heads, self.data)
        return found


def _side(
    side: str,
    atoms: list[tuple[tuple[str, Atom], ...]],
    templates: list[ArcTemplate],
    at: dict[tuple[str, str], int],
) -> Side:
    flat = [x for a in atoms for x in a]
    return Side(
        hash_strings([f"{side} {t}" for t in templates]),
        np.cumsum([0, *(len(a) for a in atoms)]).astype(np.int64),
        np.array([at[x.source] for _, x in flat], np.int64),
        np.array([x.offset for _, x in flat], np.int64),
        np.array([max(RELATIONS.find(r), 0) for r, _ in flat], np.int64),
    )
