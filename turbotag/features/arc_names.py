"""Readable names of the features of arcs, such as `h:upos=VERB m:upos[1]=NOUN dist=left 2`.

A model keeps hashes of them, and a hash does not tell what was hashed. So a feature is named where
it is seen: on an arc of a sentence, each template in turn gives a key and the values in it.
"""

from __future__ import annotations

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.features.arcs import (
    COUNT,
    DIR,
    DIST,
    DISTANCES,
    EACH,
    PLAIN,
    RELATIONS,
    SET,
    SUPER,
    ArcExtractor,
    ArcTemplate,
    Words,
    bucket,
    relations,
)
from turbotag.features.words import attribute

Values = dict[tuple[str, str], list[str]]  # what each source is, word by word
SIDES = ("left", "right", "root")  # where the head is


def values(words: Words, block: Block, supertags: list[str]) -> Values:
    """The strings behind `words.matrix(block)`; supertags: those of all words, if there are any."""
    ids = words.tokens.ids(block)
    out: Values = {SUPER: supertags}
    for column, name in words.tokens.sources:
        strings = words.tokens.interners[column].strings
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
        """(key, name) of all features of the arc. matrix and values are those of the sentence; tree
        has all heads, for templates that look beyond the arc (see ArcExtractor.keys)."""
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
        parts = []
        for relation, atom in (*template.head, *template.mod):
            at = places[relation] + atom.offset
            inside = 0 < at <= matrix.shape[0]
            value = values[atom.source][at - 1] if inside else "<root>" if at == 0 else "<boundary>"
            parts.append(f"{relation}:{str(atom).removesuffix('[0]')}={value}")
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
        here = {column[t] for t in inner}
        strings = values[template.between, ""]
        first = {v: strings[t] for t, v in reversed(list(enumerate(column))) if v in here}
        known = [first[v] for v in dict.fromkeys(column) if v in here]  # as bits are given out
        if template.kind == EACH:
            return [f"b:{template.between}={v}" for v in known]
        assert template.kind == SET
        return [f"set:{template.between}={{{' '.join(sorted(known))}}}"]


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
