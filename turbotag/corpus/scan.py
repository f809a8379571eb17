"""Byte-level kernels under every reader and writer: lines, fields, interned strings, splicing.

A block of a file stays one array of bytes. Tokens are offsets into it, so a token costs no Python
object; a string is made once for each distinct value of a column (see `intern`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

# What a line is: blank, a token, passed through untouched, or the mark of a document; the first and
# the last end a sentence.
BLANK, TOKEN, PASS, DOCSTART = range(4)

TAB, NEWLINE, RETURN, SPACE, HASH, DASH, DOT = 9, 10, 13, 32, 35, 45, 46


@njit(cache=True, nogil=True)
def scan_lines(buf, start, tabs, comments, ids, docstart):
    """Split `buf[start:]` into lines and fields.

    tabs: fields end at single tabs (else at runs of blanks and tabs); comments: a line that opens
    with '#' before the first token of a sentence is passed through (2: only if it has no tab);
    ids: an ID field with '-' or '.' is a multiword range or an empty node, passed through;
    docstart: a -DOCSTART- line is no token and ends a sentence.

    Returns (line_start, line_end, kind, first_field, field_start, field_end); the fields of line l
    are first_field[l]..first_field[l+1]-1, none for blank and passed lines.
    """
    n = buf.size
    n_lines, n_fields = 0, 0
    for p in range(start, n):
        c = buf[p]
        if c == NEWLINE:
            n_lines += 1
            n_fields += 1
        elif c == TAB or (c == SPACE and not tabs):
            n_fields += 1
    if n > start and buf[n - 1] != NEWLINE:
        n_lines += 1
        n_fields += 1

    line_start = np.empty(n_lines, np.int64)
    line_end = np.empty(n_lines, np.int64)
    kind = np.empty(n_lines, np.uint8)
    first_field = np.empty(n_lines + 1, np.int64)
    field_start = np.empty(n_fields, np.int64)
    field_end = np.empty(n_fields, np.int64)

    p, line, field = start, 0, 0
    in_sentence = False
    while p < n:
        begin = p
        while p < n and buf[p] != NEWLINE:
            p += 1
        end = p
        p += 1
        if end > begin and buf[end - 1] == RETURN:
            end -= 1
        line_start[line], line_end[line], first_field[line] = begin, end, field

        blank, has_tab = True, False
        for q in range(begin, end):
            if buf[q] == TAB:
                has_tab = True
            elif buf[q] != SPACE:
                blank = False
        if blank:
            kind[line] = BLANK
            in_sentence = False
        elif (
            comments > 0
            and not in_sentence
            and buf[begin] == HASH
            and (comments == 1 or not has_tab)
        ):
            kind[line] = PASS
        else:
            first = field
            q = begin
            if tabs:
                opened = begin
                for q in range(begin, end):
                    if buf[q] == TAB:
                        field_start[field], field_end[field] = opened, q
                        field += 1
                        opened = q + 1
                field_start[field], field_end[field] = opened, end
                field += 1
            else:
                while q < end:
                    while q < end and (buf[q] == SPACE or buf[q] == TAB):
                        q += 1
                    if q == end:
                        break
                    opened = q
                    while q < end and buf[q] != SPACE and buf[q] != TAB:
                        q += 1
                    field_start[field], field_end[field] = opened, q
                    field += 1
            a, b = field_start[first], field_end[first]
            passed = False
            if ids:
                for q in range(a, b):
                    if buf[q] == DASH or buf[q] == DOT:
                        passed = True
            if passed:
                kind[line] = PASS
                field = first
            elif docstart and b - a == 10 and buf[a] == DASH and is_docstart(buf, a):
                kind[line] = DOCSTART
                field = first
                in_sentence = False
            else:
                kind[line] = TOKEN
                in_sentence = True
        line += 1
    first_field[line] = field
    return line_start, line_end, kind, first_field, field_start[:field], field_end[:field]


@njit(cache=True, nogil=True)
def is_docstart(buf, a):
    word = b"-DOCSTART-"
    for q in range(10):
        if buf[a + q] != word[q]:
            return False
    return True


@njit(cache=True, nogil=True)
def splice(buf, starts, ends, choice, arena, arena_offsets):
    """Copy `buf` with each region [starts[r], ends[r]) replaced by string choice[r] of the arena.

    Regions are in order and do not overlap; string c is arena[arena_offsets[c]:arena_offsets[c+1]].
    """
    size = buf.size
    for r in range(starts.size):
        c = choice[r]
        size += arena_offsets[c + 1] - arena_offsets[c] - (ends[r] - starts[r])
    out = np.empty(size, np.uint8)
    read, write = 0, 0
    for r in range(starts.size + 1):
        stop = starts[r] if r < starts.size else buf.size
        for q in range(read, stop):
            out[write] = buf[q]
            write += 1
        if r < starts.size:
            c = choice[r]
            for q in range(arena_offsets[c], arena_offsets[c + 1]):
                out[write] = arena[q]
                write += 1
            read = ends[r]
    return out
