"""The rows of the weights that a shard changes in a round: kept, cut into pieces, and merged.

A shard changes its own copy V of the weights W. The first time that it touches a row in a round,
the row is kept. At the end of the round the changes d = (V - W)/sigma of the touched rows are cut
into S pieces, row r into piece r mod S. Shard j is sent piece j of every shard and adds these
pieces, always in the order of the shards. Every shard is then sent all sums, goes back to W and
adds t times the sums: the copies of all shards are equal to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.lean import kernel
from turbotag.structures.verbs import rows_of


class Kept(NamedTuple):
    """The rows that were touched, and their old values: rows[:length[0]] and old[:length[0]].
    slot[r]: the place of row r among them, -1 if it was not touched."""

    slot: np.ndarray
    rows: np.ndarray
    old: np.ndarray
    length: np.ndarray


class Piece(NamedTuple):
    """Rows of the weights, and a change of each: (m,) and (m, K)."""

    rows: np.ndarray
    changes: np.ndarray


def nothing_kept(shape: tuple[int, int], most: int) -> Kept:
    """A Kept without rows. shape: of the weights; most: how many rows a round can touch."""
    n, K = shape
    most = min(n, most)
    slot = np.full(n, -1, np.int32)
    return Kept(slot, np.empty(most, np.int32), np.empty((most, K)), np.zeros(1, np.int64))


@kernel
def keep(data, i, V, kept):
    """Keep the rows that a step on instance i can change, if they are not kept already."""
    m = kept.length[0]
    for r in rows_of(data, i):
        if kept.slot[r] < 0:
            kept.slot[r] = m
            kept.rows[m] = r
            at, row = kept.old[m], V[r]
            for k in range(row.size):
                at[k] = row[k]
            m += 1
    kept.length[0] = m


def cut(kept: Kept, V: np.ndarray, sigma: float, S: int) -> tuple[list[Piece], float, float]:
    """The change d = (V - W)/sigma as S pieces, W'd and |d|^2."""
    n = int(kept.length[0])
    ends = np.cumsum(np.bincount(kept.rows[:n] % S, minlength=S))
    rows, changes = np.empty(n, np.int32), np.empty((n, V.shape[1]))
    linear, square = _cut(kept, V, sigma, S, ends - np.diff(ends, prepend=0), rows, changes)
    pieces = zip(np.split(rows, ends[:-1]), np.split(changes, ends[:-1]), strict=True)
    return [Piece(*piece) for piece in pieces], linear, square


@kernel
def _cut(kept, V, sigma, S, at, rows, changes):
    """at: (S,) where the next row of each piece goes."""
    linear = square = 0.0
    for m in range(kept.length[0]):
        r = kept.rows[m]
        j = r % S
        to, row, old = changes[at[j]], V[r], kept.old[m]
        rows[at[j]] = r
        at[j] += 1
        for k in range(row.size):
            d = (row[k] - old[k]) / sigma
            to[k] = d
            linear += old[k] * d
            square += d * d
    return linear, square


def merge(pieces: list[Piece], place: np.ndarray) -> tuple[Piece, float]:
    """The sum of one piece of each shard, and its squared norm. place: memory, all -1 before and
    after the call."""
    S, most = len(pieces), min(place.size, sum(p.rows.size for p in pieces))
    rows, sums, m = np.empty(most, np.int32), np.empty((most, pieces[0].changes.shape[1])), 0
    for piece in pieces:
        m = _merge(place, S, *piece, rows, sums, m)
    return Piece(rows[:m], sums[:m]), _square(place, S, rows[:m], sums[:m])


@kernel
def _merge(place, S, rows, changes, sum_rows, sums, m):
    """Add a piece to the first m of sums, and return the new m. place[r // S]: where row r stands
    among the sums, -1 if it has none yet."""
    for c in range(rows.size):
        r = rows[c]
        p = place[r // S]
        row = changes[c]
        if p < 0:
            place[r // S] = m
            sum_rows[m] = r
            to = sums[m]
            for k in range(row.size):
                to[k] = row[k]
            m += 1
        else:
            to = sums[p]
            for k in range(row.size):
                to[k] += row[k]
    return m


@kernel
def _square(place, S, rows, sums):
    """|sums|^2; sets the places of all rows back to -1."""
    total = 0.0
    for m in range(rows.size):
        place[rows[m] // S] = -1
        row = sums[m]
        for k in range(row.size):
            total += row[k] * row[k]
    return total


@kernel
def add_rows(kept, V, t, rows, changes):
    """Set the rows of a piece to W + t times their changes; a row that V has changed is kept, and
    its old value is that of W."""
    for m in range(rows.size):
        r = rows[m]
        row, by = V[r], changes[m]
        if kept.slot[r] < 0:
            for k in range(row.size):
                row[k] += t * by[k]
        else:
            old = kept.old[kept.slot[r]]
            for k in range(row.size):
                row[k] = old[k] + t * by[k]


@kernel
def forget(kept):
    """Empty `kept`."""
    for m in range(kept.length[0]):
        kept.slot[kept.rows[m]] = -1
    kept.length[0] = 0
