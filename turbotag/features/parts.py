"""Features of second-order parts: three words, hashed one by one, and their order and distance.

Templates are written like those of arcs (features/arcs). The words of siblings are h:, m: and s:,
which are the head, a child and the next child outwards. m is START before the first child, and s is
END after the last; all siblings have neither. The words of grandparents are g:, h: and m:. `dir` is
the order of the three words. `dist` adds the distance of the two words that no arc joins.
"""

from __future__ import annotations

import numpy as np

from turbotag.corpus.hashing import hash_strings
from turbotag.errors import DataError
from turbotag.features.arc_kernels import (
    END_PLACE,
    PLAIN,
    START_PLACE,
    Side,
    fill_rows,
    hash_side,
    new_rows,
)
from turbotag.features.arcs import ArcTemplate, Words
from turbotag.lean import njit

ROLES = {"siblings": "hms", "grandparents": "ghm", "all-siblings": "hms"}  # in order of parts
APART = (1, 2, 4, 7)  # upper ends of the buckets of `dist`


class PartExtractor:
    """Templates over the three words of a kind of part, in the order of its ROLES."""

    def __init__(self, templates: list[ArcTemplate], words: Words, kind: str):
        templates = words.expanded(templates)
        self.templates, self.kind, roles = templates, kind, ROLES[kind]
        atoms = [[*t.head, *t.mod] for t in templates]
        for template, mine in zip(templates, atoms, strict=True):
            if template.kind != PLAIN or any(role not in roles for role, _ in mine):
                raise DataError(
                    f"'{template}' is not a template over {', '.join(roles)}", "templates"
                )
        self._arc = np.array([t.arc for t in templates], np.int64)
        self._sides = [self._side(role, atoms, words) for role in roles]
        self._codes = hash_strings([f"{kind} {n}" for n in range(128)])

    def _side(self, role: str, atoms: list, words: Words) -> Side:
        mine = [[a for r, a in found if r == role] for found in atoms]
        flat = [a for found in mine for a in found]
        return Side(
            hash_strings([f"{self.kind} {role} {t}" for t in self.templates]),
            np.cumsum([0, *(len(m) for m in mine)]).astype(np.int64),
            np.array([words.at[a.source] for a in flat], np.int64),
            np.array([a.offset for a in flat], np.int64),
            np.zeros(len(flat), np.int64),
        )

    def keys(self, matrix: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(keys, ends) of all parts; positions: (parts, 3), n+1 is START and n+2 END."""
        siblings = self.kind != "grandparents"
        found: tuple[np.ndarray, np.ndarray] = _keys(
            matrix, *self._sides, positions, self._arc, self._codes, siblings
        )
        return found


@njit(cache=True, nogil=True)
def _hashed(rows, places, side):
    out = np.empty((places.shape[1], side.seeds.size), np.uint64)
    hash_side(rows, places, side, out)
    return out


@njit(cache=True, nogil=True)
def _keys(matrix, first, second, third, positions, arc, codes, siblings):
    rows = new_rows(matrix.shape[1], matrix.shape[0])
    fill_rows(matrix, rows)
    places = np.arange(matrix.shape[0] + 3).reshape(1, -1)
    places[0, -2], places[0, -1] = START_PLACE, END_PLACE
    x, y, z = (
        _hashed(rows, places, first),
        _hashed(rows, places, second),
        _hashed(rows, places, third),
    )
    n, J = x.shape[0] - 3, arc.size
    keys, ends = np.empty(positions.shape[0] * J, np.uint64), np.empty(positions.shape[0], np.int64)
    size = 0
    for p in range(positions.shape[0]):
        a, b, c = positions[p, 0], positions[p, 1], positions[p, 2]
        if siblings:
            outer = b if c > n else c
            order = 0 if outer > n else 1 if outer > a else 2
            apart = abs(b - c) if b <= n and c <= n else 0
        else:
            order = 3 * (0 if a == 0 else 1 if a < b else 2) + (1 if b < c else 2)
            apart = abs(a - c)
        bucket = 0
        while bucket < len(APART) and apart > APART[bucket]:
            bucket += 1
        if not siblings and c < a:
            bucket += 8
        own = (np.uint64(0), codes[order], codes[order] + codes[32 + bucket])
        for j in range(J):
            if x[a, j] != 0 and y[b, j] != 0 and z[c, j] != 0:
                keys[size] = x[a, j] + y[b, j] + z[c, j] + own[arc[j]]
                size += 1
        ends[p] = size
    return keys[:size], ends
