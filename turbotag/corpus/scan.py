"""Byte-level kernels under every reader and writer: lines, fields, interned strings, splicing.

A block of a file stays one array of bytes. Tokens are offsets into it, so a token costs no Python
object; a string is made once for each distinct value of a column (see `intern`).
"""

from __future__ import annotations

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.lean import njit

# What a line is: blank, a token, passed through untouched, or the mark of a document; the first and
# the last end a sentence.
BLANK, TOKEN, PASS, DOCSTART = range(4)

TAB, NEWLINE, RETURN, SPACE, HASH, DASH, DOT = 9, 10, 13, 32, 35, 45, 46
ZERO, NINE, EQUALS, UNDERSCORE = 48, 57, 61, 95
HEAD, DEPREL = int(Conll.HEAD), int(Conll.DEPREL)


@njit(cache=True, nogil=True)
def scan_lines(buf, start, tabs, blanks, comments, ids, docstart, width):
    """Split `buf[start:]` into lines and fields.

    tabs: fields end at single tabs; blanks: at runs of blanks and tabs; both: at single tabs, and
    blanks around a field are not part of it, but at runs if only these give `width` fields.
    ids: the first field of a line is an ID of CoNLL-U, and one with '-' or '.' is that of a
    multiword range or an empty node, passed through.
    comments: a line that opens with '#' is passed through; without ids, where '#' may be a word,
    only before the first token of a sentence, and if it does not look like a token.
    docstart: a -DOCSTART- line is no token and ends a sentence.

    Returns (line_start, line_end, kind, first_field, field_start, field_end); the fields of line l
    are first_field[l]..first_field[l+1]-1, none for lines that are no tokens.
    """
    n = buf.size
    n_lines, n_fields = 0, 0
    for p in range(start, n):
        c = buf[p]
        if c == NEWLINE:
            n_lines += 1
            n_fields += 1
        elif c == TAB or (c == SPACE and blanks):
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

    p, line, first = start, 0, 0
    in_sentence = False
    while p < n:
        begin = p
        while p < n and buf[p] != NEWLINE:
            p += 1
        end = p
        p += 1
        if end > begin and buf[end - 1] == RETURN:
            end -= 1
        line_start[line], line_end[line], first_field[line] = begin, end, first
        hashed = comments and buf[begin] == HASH
        if is_blank(buf, begin, end):
            kind[line] = BLANK
            in_sentence = False
        elif hashed and ids:
            kind[line] = PASS
        else:
            after = first  # the field after those of this line
            if tabs:
                after = split_tabs(buf, begin, end, blanks, field_start, field_end, first)
            if not tabs or (blanks and after - first != width and not hashed):
                has_tab = after - first > 1
                after = split_blanks(buf, begin, end, field_start, field_end, first)
                fits = after - first == width and not (
                    ids and not is_arc(buf, field_start, field_end, first + HEAD)
                )
                if has_tab and not fits:
                    after = split_tabs(buf, begin, end, blanks, field_start, field_end, first)
            a, b = field_start[first], field_end[first]
            comment = (
                hashed
                and not in_sentence
                and (after - first != width or (not tabs and is_remark(buf, begin, end)))
            )
            if comment or (ids and not is_plain(buf, a, b)):
                kind[line] = PASS
            elif docstart and b - a == 10 and buf[a] == DASH and is_docstart(buf, a):
                kind[line] = DOCSTART
                in_sentence = False
            else:
                kind[line] = TOKEN
                in_sentence = True
                first = after
        line += 1
    first_field[line] = first
    return line_start, line_end, kind, first_field, field_start[:first], field_end[:first]


@njit(cache=True, nogil=True)
def is_blank(buf, begin, end):
    for q in range(begin, end):
        if buf[q] != TAB and buf[q] != SPACE:
            return False
    return True


@njit(cache=True, nogil=True)
def split_tabs(buf, begin, end, trim, field_start, field_end, field):
    """Write the fields between single tabs, the first as number `field`. trim: leave out the blanks
    around a field that holds anything else. Returns the number of the field after the last."""
    opened = begin
    for q in range(begin, end + 1):
        if q == end or buf[q] == TAB:
            a, b = opened, q
            if trim and not is_blank(buf, a, b):
                while buf[a] == SPACE:
                    a += 1
                while buf[b - 1] == SPACE:
                    b -= 1
            field_start[field], field_end[field] = a, b
            field += 1
            opened = q + 1
    return field


@njit(cache=True, nogil=True)
def split_blanks(buf, begin, end, field_start, field_end, field):
    """Split a line into the fields between runs of blanks and tabs."""
    opened = -1
    for q in range(begin, end + 1):
        outside = q == end or buf[q] == SPACE or buf[q] == TAB
        if outside and opened >= 0:
            field_start[field], field_end[field] = opened, q
            field += 1
            opened = -1
        elif not outside and opened < 0:
            opened = q
    return field


@njit(cache=True, nogil=True)
def is_arc(buf, field_start, field_end, head):
    """Whether two fields look like HEAD and DEPREL: a number or _, then something that is no
    number. A line that lacks a column but has a word with a blank in it has the right number of
    fields, and these two do not look so."""
    a, b = field_start[head], field_end[head]
    label = head + DEPREL - HEAD
    return (is_number(buf, a, b) or (b - a == 1 and buf[a] == UNDERSCORE)) and not is_number(
        buf, field_start[label], field_end[label]
    )


@njit(cache=True, nogil=True)
def is_remark(buf, begin, end):
    """Whether a line of blank-separated fields that opens with # is a comment and no token: it has
    a tab, or reads `# NAME = VALUE`."""
    for q in range(begin + 1, end):
        if buf[q] == TAB:
            return True
        if buf[q] == EQUALS and buf[q - 1] == SPACE and q + 1 < end and buf[q + 1] == SPACE:
            return True
    return False


@njit(cache=True, nogil=True)
def is_number(buf, a, b):
    for q in range(a, b):
        if buf[q] < ZERO or buf[q] > NINE:
            return False
    return a < b


@njit(cache=True, nogil=True)
def is_plain(buf, a, b):
    """Whether an ID is that of a word: it has neither - nor . in it."""
    for q in range(a, b):
        if buf[q] == DASH or buf[q] == DOT:
            return False
    return True


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


@njit(cache=True, nogil=True)
def longest_of(sentences):
    """How many words the longest sentence has; np.diff would take a second to compile."""
    n = 0
    for i in range(sentences.size - 1):
        n = max(n, sentences[i + 1] - sentences[i])
    return n


@njit(cache=True, nogil=True)
def find(values, low, high, x):
    """The place of x in the rising values[low:high], -1 if it is not there. np.searchsorted takes
    longer to compile."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low if low < end and values[low] == x else -1
