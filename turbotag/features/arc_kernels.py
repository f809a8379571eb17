"""Kernels of arc features: the keys of arcs (features/arcs), and their weights in the same pass.

For each sentence a template's atoms are hashed once at every word, for the head's side and for the
modifier's; an arc then adds two numbers a template. Scores are made for all sentences of a block in
one call: while the keys of an arc are made, the memory that holds the weights of the arc before it
is on its way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from turbotag.corpus.hashing import combine, mix64
from turbotag.corpus.scan import longest_of
from turbotag.features.extract import BOUNDARY
from turbotag.features.simd import first_bit
from turbotag.features.templates import MAX_OFFSET
from turbotag.features.weights import add_rows, ask, total
from turbotag.lean import njit

ROOT = np.uint64(0x726F6F7400000001)  # the value of every attribute of the root
NOTHING = np.uint64(0x6E6F7468696E6701)  # the value of an empty attribute between
START, END = np.uint64(0x5354415254000001), np.uint64(0x454E440000000001)  # see features/parts
RELATIONS = "mglraz"
DISTANCES = (1, 2, 3, 4, 5, 7, 10, 15, 25)  # upper ends of the buckets of distances
PLAIN, EACH, SET, COUNT = range(4)  # kinds of templates, in this order
MOST_VALUES = 64  # values between two words that are told apart

# The values of a sentence stand in a row: END, START and BOUNDARY, each so often that an offset
# does not leave it, the root, the words, BOUNDARY. These are places beside that of the root, 0.
ZONE = 2 * MAX_OFFSET + 1
NOWHERE, START_PLACE, END_PLACE = (-MAX_OFFSET - 1 - z * ZONE for z in range(3))
LEFT = 3 * ZONE  # values before the root


class Side(NamedTuple):
    """One side of the templates: seeds (templates,), where the atoms of each template begin, and
    the source, offset and relation of each atom."""

    seeds: np.ndarray
    first: np.ndarray
    source: np.ndarray
    offset: np.ndarray
    relation: np.ndarray


class Templates(NamedTuple):
    """Arc templates, sorted by kind: those of kind k end before template ends[k].

    which: the column or the tag between the two words that a template is about; arc: 0, or the row
    of arc_keys that a template adds; between: the sources of these columns; upos: the source of
    tags; counted: the tags that templates count.
    """

    heads: Side
    mods: Side
    ends: np.ndarray
    which: np.ndarray
    arc: np.ndarray
    arc_keys: np.ndarray
    between: np.ndarray
    upos: int
    counted: np.ndarray


@njit(cache=True, nogil=True)
def here(n):
    """The places of words in a sentence without known relations: every word finds only itself."""
    places = np.full((len(RELATIONS), n + 1), NOWHERE, np.int64)
    for t in range(n + 1):
        places[0, t] = t
    return places


@njit(cache=True, nogil=True)
def relations(heads):
    """(relations, n+1): the place of each relation of RELATIONS of each word, or NOWHERE."""
    n = heads.size
    places = here(n)
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


# ---- The two sides -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def new_rows(sources, longest):
    """Memory for `fill_rows`: (sources, places) of a sentence that has at most so many words."""
    rows = np.full((sources, LEFT + 1 + longest + MAX_OFFSET), BOUNDARY)
    for z, value in enumerate((BOUNDARY, START, END)):
        rows[:, LEFT - (z + 1) * ZONE : LEFT - z * ZONE] = value
    rows[:, LEFT] = ROOT
    return rows


@njit(cache=True, nogil=True)
def fill_rows(matrix, rows):
    """The values of a sentence, (n, sources), into their rows."""
    n = matrix.shape[0]
    for s in range(rows.shape[0]):
        for t in range(n):
            rows[s, LEFT + 1 + t] = matrix[t, s]
        rows[s, LEFT + 1 + n : LEFT + 1 + n + MAX_OFFSET] = BOUNDARY


@njit(cache=True, nogil=True)
def hash_side(rows, places, side, out):
    """out[t, j]: the hash of template j's atoms at places[:, t], 0 where one is empty.

    key = combine over the atoms of seeds[j] and the value at places[relation, t] + offset
    """
    keys = np.empty(places.shape[1], np.uint64)
    seeds, first, source, offset, relation = side
    for j in range(seeds.size):
        keys[:] = seeds[j]
        for a in range(first[j], first[j + 1]):
            row, at, shift = rows[source[a]], places[relation[a]], LEFT + offset[a]
            for t in range(keys.size):
                value = row[at[t] + shift]
                key = combine(keys[t], value)
                keys[t] = np.uint64(0) if (value == 0) | (keys[t] == 0) else key
        for t in range(keys.size):
            out[t, j] = keys[t]


# ---- What lies between ---------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _context(matrix, between, upos, counted, bits, names, sums):
    """Fill bits, names and sums. bits (columns, words+1): the value of each word in each column, as
    a number below MOST_VALUES; names: the hashes of these values by number; sums (words+2,
    counted): how often each counted tag stands before a word."""
    n = matrix.shape[0]
    for c in range(between.size):
        used = 0
        for t in range(1, n + 1):
            value = matrix[t - 1, between[c]]
            key = mix64(NOTHING if value == 0 else value)  # mix64(0) is 1, which is no hash
            b = 0
            while b < used and names[c, b] != key:
                b += 1
            if b == used:
                b = min(b, MOST_VALUES - 1)  # all further values share the last number
                names[c, b] = key
                used = b + 1
            bits[c, t] = b
    for c in range(counted.size):
        sums[0, c] = sums[1, c] = 0
        for t in range(1, n + 1):
            sums[t + 1, c] = sums[t, c] + (matrix[t - 1, upos] == counted[c])


@njit(cache=True, nogil=True)
def _masks(bits, m, low, high, masks):
    """masks[c, h]: the set of the values of column c between m and h, for low <= h <= high."""
    for c in range(bits.shape[0]):
        mask = np.uint64(0)
        for h in range(m - 1, low - 1, -1):
            masks[c, h] = mask
            mask |= np.uint64(1) << np.uint64(bits[c, h])
        mask = np.uint64(0)
        for h in range(m + 1, high + 1):
            masks[c, h] = mask
            mask |= np.uint64(1) << np.uint64(bits[c, h])


@njit(cache=True, nogil=True)
def _reach(heads, begin, end, m):
    """The smallest and the largest of m and the heads begin..end-1."""
    low = high = m
    for e in range(begin, end):
        low, high = min(low, heads[e]), max(high, heads[e])
    return low, high


class Scratch(NamedTuple):
    """Memory for the sentences of a block: the rows of `new_rows`, both sides of the templates, the
    context, the masks, the hashes of the values between two words with their sum and number in each
    column, and the three own parts of an arc: nothing, its direction, its distance."""

    rows: np.ndarray
    hp: np.ndarray
    mp: np.ndarray
    bits: np.ndarray
    names: np.ndarray
    sums: np.ndarray
    masks: np.ndarray
    values: np.ndarray
    set_sums: np.ndarray
    found: np.ndarray
    own: np.ndarray


@njit(cache=True, nogil=True)
def _scratch(templates, sources, longest):
    J, C = templates.arc.size, templates.between.size
    return Scratch(
        new_rows(sources, longest),
        np.empty((longest + 1, J), np.uint64),
        np.empty((longest + 1, J), np.uint64),
        np.zeros((C, longest + 1), np.int64),
        np.zeros((C, MOST_VALUES), np.uint64),
        np.zeros((longest + 2, templates.counted.size), np.int64),
        np.zeros((C, longest + 1), np.uint64),
        np.empty((C, MOST_VALUES), np.uint64),
        np.zeros(C, np.uint64),
        np.zeros(C, np.int64),
        np.zeros(3, np.uint64),
    )


@njit(cache=True, nogil=True)
def _begin(matrix, places, templates, scratch):
    """Compute what all arcs of a sentence share."""
    n = matrix.shape[0]
    fill_rows(matrix, scratch.rows)
    hash_side(scratch.rows, places, templates.heads, scratch.hp[: n + 1])
    hash_side(scratch.rows, places, templates.mods, scratch.mp[: n + 1])
    between, upos, counted = templates.between, templates.upos, templates.counted
    _context(matrix, between, upos, counted, scratch.bits, scratch.names, scratch.sums)


@njit(cache=True, nogil=True)
def _most_keys(templates):
    """The largest number of keys that an arc can have."""
    ends = templates.ends
    return ends[COUNT] + (MOST_VALUES - 1) * (ends[EACH] - ends[PLAIN])


@njit(cache=True, nogil=True)
def _values_between(h, masks, names, values, set_sums, found):
    """The hashes of the values between a head and its modifier, whose masks are known."""
    for c in range(found.size):
        left, size, whole = masks[c, h], 0, np.uint64(0)
        while left:
            name = names[c, first_bit(left)]
            values[c, size] = name
            whole += name
            size += 1
            left &= left - np.uint64(1)
        set_sums[c], found[c] = whole, size


@njit(cache=True, nogil=True)
def _arc(h, m, hp, mp, ends, which, arc, arc_keys, own, sums, values, set_sums, found, keys, begin):
    """Write the keys of an arc from keys[begin] on; returns where they end.

    key = head's side + modifier's side + the arc's own part + what lies between
    """
    at, end = bucket(h, m), begin
    own[1], own[2] = arc_keys[1, at // 20], arc_keys[2, at]
    for j in range(ends[PLAIN]):
        keys[end] = hp[h, j] + mp[m, j] + own[arc[j]]
        end += (hp[h, j] != 0) & (mp[m, j] != 0)
    for j in range(ends[PLAIN], ends[EACH]):
        if (hp[h, j] != 0) & (mp[m, j] != 0):
            key, c = hp[h, j] + mp[m, j] + own[arc[j]], which[j]
            for k in range(found[c]):
                keys[end + k] = key + values[c, k]
            end += found[c]
    for j in range(ends[EACH], ends[SET]):
        keys[end] = hp[h, j] + mp[m, j] + own[arc[j]] + set_sums[which[j]]
        end += (hp[h, j] != 0) & (mp[m, j] != 0)
    low, high = min(h, m) + 1, max(h, m)
    for j in range(ends[SET], ends[COUNT]):
        count = min(sums[high, which[j]] - sums[low, which[j]], 3) if high > low else 0
        keys[end] = hp[h, j] + mp[m, j] + own[arc[j]] + arc_keys[2, 60 + count]
        end += (hp[h, j] != 0) & (mp[m, j] != 0)
    return end


# ---- Keys and scores -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def arc_keys(matrix, places, cuts, heads, templates):
    """(keys, ends) of the arcs of a sentence."""
    s = _scratch(templates, matrix.shape[1], matrix.shape[0])
    _begin(matrix, places, templates, s)
    room = _most_keys(templates)
    keys, end = np.empty(room * min(heads.size + 1, 64), np.uint64), 0
    ends = np.empty(heads.size, np.int64)
    for m in range(1, cuts.size):
        _masks(s.bits, m, *_reach(heads, cuts[m - 1], cuts[m], m), s.masks)
        for e in range(cuts[m - 1], cuts[m]):
            h = heads[e]
            _values_between(h, s.masks, s.names, s.values, s.set_sums, s.found)
            if end + room > keys.size:
                keys = np.concatenate((keys, np.empty(keys.size, np.uint64)))
            end = ends[e] = _arc(
                *(h, m, s.hp, s.mp, templates.ends, templates.which, templates.arc),
                *(templates.arc_keys, s.own, s.sums, s.values, s.set_sums, s.found, keys, end),
            )
    return keys[:end], ends


@njit(cache=True, nogil=True)
def arc_scores(matrix, sentences, cuts, heads, templates, table):
    """The sum of the weights of the features of each arc, (arcs,), for all sentences of a block.
    The heads of word t of the block are heads[cuts[t]:cuts[t+1]]."""
    out = np.empty(heads.size)
    longest = longest_of(sentences)
    s = _scratch(templates, matrix.shape[1], longest)
    _, hp, mp, bits, names, sums, masks, values, set_sums, found, own = s
    _, _, kind_ends, which, arc, own_keys, _, _, _ = templates
    lines, marks, extra, weights = table
    everywhere = here(longest)
    room = _most_keys(templates)
    # `keys` has room for two arcs, this one and the one before, whose weights are being fetched
    keys, products = np.empty(2 * room, np.uint64), np.empty(2 * room, np.uint64)
    before, begin_before, end_before = -1, 0, 0
    for i in range(sentences.size - 1):
        a, b = sentences[i], sentences[i + 1]
        _begin(matrix[a:b], everywhere[:, : b - a + 1], templates, s)
        for m in range(1, b - a + 1):
            _masks(bits, m, *_reach(heads, cuts[a + m - 1], cuts[a + m], m), masks)
            for e in range(cuts[a + m - 1], cuts[a + m]):
                h, begin = heads[e], room - begin_before
                _values_between(h, masks, names, values, set_sums, found)
                end = _arc(
                    *(h, m, hp, mp, kind_ends, which, arc, own_keys),
                    *(own, sums, values, set_sums, found, keys, begin),
                )
                ask(keys, begin, end, lines, products)
                if before >= 0:
                    out[before] = total(
                        *(keys, begin_before, end_before, products),
                        *(lines, marks, extra, weights),
                    )
                before, begin_before, end_before = e, begin, end
    if before >= 0:
        out[before] = total(keys, begin_before, end_before, products, lines, marks, extra, weights)
    return out


@njit(cache=True, nogil=True)
def class_scores(matrix, sentences, heads, tree, templates, lines, marks, weights, scales):
    """(words, classes) float32: the sum of the rows of the features of the arc of each word. tree:
    the heads form a tree, so that templates may look beyond the arc."""
    out = np.zeros((heads.size, weights.shape[1]), np.float32)
    longest = longest_of(sentences)
    s = _scratch(templates, matrix.shape[1], longest)
    _, hp, mp, bits, names, sums, masks, values, set_sums, found, own = s
    _, _, kind_ends, which, arc, own_keys, _, _, _ = templates
    room = _most_keys(templates)
    keys, products = np.empty(room, np.uint64), np.empty(room, np.uint64)
    places = here(longest)
    for i in range(sentences.size - 1):
        a, b = sentences[i], sentences[i + 1]
        if tree:
            places = relations(heads[a:b])
        _begin(matrix[a:b], places[:, : b - a + 1], templates, s)
        for m in range(1, b - a + 1):
            t = a + m - 1
            h = heads[t]
            _masks(bits, m, min(h, m), max(h, m), masks)
            _values_between(h, masks, names, values, set_sums, found)
            size = _arc(
                *(h, m, hp, mp, kind_ends, which, arc, own_keys),
                *(own, sums, values, set_sums, found, keys, 0),
            )
            ask(keys, 0, size, lines, products)
            add_rows(keys, 0, size, products, lines, marks, weights, scales, out, t)
    return out
