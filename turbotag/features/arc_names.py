"""Readable names of the features of arcs, such as `h:upos=VERB m:upos[1]=NOUN dist=left 2`, and of
second-order parts.

A model keeps the hashes of features, and a hash does not tell what was hashed. So a feature is
named when it is seen: each template is applied alone to an arc of a sentence, and gives a key and
the values that went into it.
"""

from __future__ import annotations

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.features.arc_kernels import (
    COUNT,
    DISTANCES,
    EACH,
    PLAIN,
    RELATIONS,
    SET,
    bucket,
    relations,
)
from turbotag.features.arcs import DIR, DIST, ArcExtractor, ArcTemplate, Words
from turbotag.features.parts import APART, ROLES, PartExtractor
from turbotag.features.words import attribute

Values = dict[tuple[str, str], list[str]]  # what each source is, word by word
LAST_BIT = 63  # of the values between two words
SIDES = ("left", "right", "root")  # where the head is


def values(words: Words, block: Block, supertags: Values) -> Values:
    """The strings behind `words.matrix(block)`. supertags: those that templates read."""
    ids = words.tokens.ids(block)
    out = dict(supertags)
    for column, name in words.tokens.sources:
        strings = words.tokens.strings(column)
        function = attribute(name) if name else None
        known = [function(s) for s in strings] if function else strings
        out[column, name] = [known[i] for i in ids[column].tolist()]
    return out


class Namer:
    """Names the features of a set of templates on one sentence after the other."""

    def __init__(self, extractor: ArcExtractor, words: Words):
        self.single = [(t, ArcExtractor([t], words)) for t in extractor.templates]
        self.at = words.at

    def features(
        self,
        matrix: np.ndarray,
        values: Values,
        head: int,
        modifier: int,
        tree: np.ndarray | None = None,
    ) -> list[tuple[int, str]]:
        """(key, name) of all features of an arc. matrix, values: of the sentence; tree: all heads,
        for templates that look beyond the arc (see ArcExtractor.keys)."""
        cuts = (np.arange(matrix.shape[0] + 1) >= modifier).astype(np.int64)
        heads = np.array([head], np.int32)
        out: list[tuple[int, str]] = []
        for template, extractor in self.single:
            keys, _ = extractor.keys(matrix, cuts, heads, tree)
            if keys.size:
                names = self._names(template, matrix, values, head, modifier, tree)
                out += zip(keys.tolist(), names, strict=True)
        return out

    def _names(
        self,
        template: ArcTemplate,
        matrix: np.ndarray,
        values: Values,
        head: int,
        modifier: int,
        tree: np.ndarray | None,
    ) -> list[str]:
        """One name, or one for each value between, in the order of the keys."""
        places = {"h": head, "m": modifier}
        if tree is not None:
            places |= dict(zip(RELATIONS, relations(tree)[:, modifier].tolist(), strict=True))
        parts = _atoms(template, values, places, matrix.shape[0])
        between = self._between(template, matrix, values, head, modifier)
        arc = _arc(template.arc, head, modifier)
        return [" ".join([*parts, *([b] if b else []), *([arc] if arc else [])]) for b in between]

    def _between(
        self,
        template: ArcTemplate,
        matrix: np.ndarray,
        values: Values,
        head: int,
        modifier: int,
    ) -> list[str]:
        """What a template takes from between the two words: one text, or with `b:` several."""
        inner = range(min(head, modifier), max(head, modifier) - 1)  # of words counted from 0
        if template.kind == PLAIN:
            return [""]
        if template.kind == COUNT:
            found = sum(values["upos", ""][t] == template.between for t in inner)
            return [f"count:{template.between}={found if found < 3 else '3+'}"]
        column = matrix[:, self.at[template.between, ""]].tolist()
        strings = dict(zip(reversed(column), reversed(values[template.between, ""]), strict=True))
        seen = list(dict.fromkeys(column))  # in the order in which bits are given out
        bit = {value: min(b, LAST_BIT) for b, value in enumerate(seen)}
        # all further values share the last bit
        seen[LAST_BIT:] = seen[-1:] if len(seen) > LAST_BIT else []
        known = [strings[seen[b]] for b in sorted({bit[column[t]] for t in inner})]
        if template.kind == EACH:
            return [f"b:{template.between}={v}" for v in known]
        assert template.kind == SET
        return [f"set:{template.between}={{{' '.join(sorted(known))}}}"]


class PartNamer:
    """Names the features of a kind of second-order parts."""

    def __init__(self, extractor: PartExtractor, words: Words):
        self.kind = extractor.kind
        self.single = [(t, PartExtractor([t], words, self.kind)) for t in extractor.templates]

    def features(
        self, matrix: np.ndarray, values: Values, part: tuple[int, ...]
    ) -> list[tuple[int, str]]:
        """(key, name) of all features of a part; its words as PartExtractor.keys takes them."""
        places = dict(zip(ROLES[self.kind], part, strict=True))
        own = _place(self.kind, part, matrix.shape[0])
        out: list[tuple[int, str]] = []
        for template, extractor in self.single:
            keys, _ = extractor.keys(matrix, np.array([part]))
            if keys.size:
                atoms = _atoms(template, values, places, matrix.shape[0])
                name = " ".join([self.kind, *atoms, own[template.arc]]).rstrip()
                out.append((int(keys[0]), name))
        return out


def _atoms(template: ArcTemplate, values: Values, places: dict[str, int], n: int) -> list[str]:
    """The values that a template reads of the words at `places`: 0 is the root, 1..n are words, n+1
    and n+2 the START and END of siblings."""
    parts = []
    for relation, atom in (*template.head, *template.mod):
        place = places[relation]
        at = place + atom.offset
        if place > n:
            value = "<start>" if place == n + 1 else "<end>"
        elif 0 < at <= n:
            value = values[atom.source][at - 1]
        else:
            value = "<root>" if at == 0 else "<boundary>"
        parts.append(f"{relation}:{str(atom).removesuffix('[0]')}={value}")
    return parts


def _place(kind: str, part: tuple[int, ...], n: int) -> tuple[str, str, str]:
    """What a template with `dir`, with `dist` or with neither says of the order of three words."""
    a, b, c = part
    if kind == "grandparents":
        sides = "root" if a == 0 else "right" if a < b else "left"
        order = f"{sides} {'right' if b < c else 'left'}"
        apart, turned = abs(a - c), " back" if c < a else ""
    else:
        outer = b if c > n else c
        order = "none" if outer > n else "right" if outer > a else "left"
        apart, turned = abs(b - c) if max(b, c) <= n else 0, ""
    bucket = sum(apart > end for end in APART)
    low = APART[bucket - 1] + 1 if bucket else 0
    far = f"{low}+" if bucket == len(APART) else f"{low}-{APART[bucket]}"
    return "", f"dir={order}", f"dist={order} {far}{turned}"


def _arc(kind: int, head: int, modifier: int) -> str:
    side, at = divmod(int(bucket(head, modifier)), 20)
    if kind == DIR:
        return f"dir={SIDES[side]}"
    if kind != DIST:
        return ""
    low = DISTANCES[at - 1] + 1 if at else 1
    if at == len(DISTANCES):
        return f"dist={SIDES[side]} {low}+"
    high = DISTANCES[at]
    return f"dist={SIDES[side]} {low}" + (f"-{high}" if high > low else "")
