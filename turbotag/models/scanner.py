"""The templates of all stages of a parser, applied to the words of sentences."""

from __future__ import annotations

import numpy as np

from turbotag.corpus.reader import Block
from turbotag.errors import DataError
from turbotag.features import arcs as arc_features
from turbotag.features.arcs import SECOND, SUPER, ArcExtractor, Words
from turbotag.features.parts import ROLES, PartExtractor
from turbotag.features.resources import Resource
from turbotag.structures import parts


class Scanner:
    """The compiled templates of all stages, and the words that they have seen. Each thread has its
    own."""

    def __init__(self, templates: dict[str, str], resources: list[Resource] | None = None):
        parsed = {s: arc_features.parse(text, "templates") for s, text in templates.items()}
        self.words = Words(*parsed.values(), resources=resources)
        self.stage = {s: ArcExtractor(t, self.words) for s, t in parsed.items() if s not in ROLES}
        self.parts = {
            kind: PartExtractor(parsed[kind], self.words, kind) for kind in ROLES if kind in parsed
        }
        self.all_siblings = "all-siblings" in self.parts

    def matrix(self, block: Block) -> np.ndarray:
        if not block.format.ids:
            raise DataError(
                f"is {block.format.name}, but a parser reads CoNLL-U or CoNLL-X", block.path
            )
        return self.words.matrix(block)

    def supertag_keys(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of the words of a sentence."""
        n = matrix.shape[0]
        return self.stage["super"].keys(matrix, np.arange(n + 1), np.zeros(n, np.int32))

    def put_supertags(self, matrix: np.ndarray, values: np.ndarray, found: np.ndarray) -> None:
        """Write hashes of supertags where the templates look for them. values: of all supertags;
        found: (words, 2) the best supertag and, where there is doubt, the second, else -1."""
        for source, ids in ((SUPER, found[:, 0]), (SECOND, found[:, 1])):
            if source in self.words.at:
                none = np.uint64(0)
                matrix[:, self.words.at[source]] = np.where(ids < 0, none, values[ids])

    def keys(
        self, matrix: np.ndarray, cuts: np.ndarray, heads: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of the parts of a sentence: its arcs and, at second order, the siblings and
        grandparents over them (structures/parts)."""
        keys, ends = self.stage["arc"].keys(matrix, cuts, heads)
        if not self.parts:
            return keys, ends
        more, their_ends = self.part_keys(matrix, parts.parts(cuts, heads, self.all_siblings))
        return np.concatenate([keys, more]), np.concatenate([ends, their_ends + keys.size])

    def part_keys(self, matrix: np.ndarray, p: parts.Parts) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of the siblings and grandparents of a sentence."""
        all_keys, all_ends, size = [], [], 0
        for kind, positions in zip(ROLES, parts.positions(p), strict=True):
            if kind in self.parts:
                keys, ends = self.parts[kind].keys(matrix, positions)
            else:
                keys, ends = np.zeros(0, np.uint64), np.zeros(len(positions), np.int64)
            all_keys.append(keys)
            all_ends.append(ends + size)
            size += keys.size
        return np.concatenate(all_keys), np.concatenate(all_ends)
