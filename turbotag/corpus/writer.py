"""Writing predictions back into a file's own bytes: all that is not predicted stays as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.hashing import pack
from turbotag.corpus.reader import Block, Column
from turbotag.corpus.scan import splice

Replacement = tuple[np.ndarray, np.ndarray, Column]  # from, to (bytes), and by what


class Edits:
    """What models write into a block, or into its tokens first..end-1: values of columns, new
    columns at the end of lines, and notes in MISC. If a column is written twice, the later values
    count."""

    def __init__(self, block: Block, first: int = 0, end: int | None = None):
        self.block = block
        self._tokens = slice(first, block.n_tokens if end is None else end)
        self.n_tokens = self._tokens.stop - first
        self._columns: dict[int, Column] = {}
        self._appended: list[Column] = []
        self._notes: list[Column] = []

    def replace(self, column: int, strings: list[str], ids: np.ndarray) -> None:
        """Replace a column: strings[ids[t]] for token t."""
        self._columns[column] = Column(strings, ids)

    def keep(self, column: int, tokens: np.ndarray) -> None:
        """Give some tokens, (tokens,) bool, back the values that a replaced column had before."""
        (new, choice), old = self._columns[column], self.block.column(column)
        ids = np.where(tokens, old.ids + len(new), choice)
        self._columns[column] = Column([*new, *old.strings], ids)

    def put(self, column: int, strings: list[str], ids: np.ndarray) -> None:
        """Replace a column, or append it where it is the next one."""
        if column < len(self.block.format.columns):
            self.replace(column, strings, ids)
        else:
            self.append(strings, ids)

    def append(self, strings: list[str], ids: np.ndarray) -> None:
        """Add a column at the end of the line."""
        self._appended.append(Column([self._separator + s for s in strings], ids))

    @property
    def _separator(self) -> str:
        return "\t" if self.block.format.tabs or self.block.format.name == "text" else " "

    def note(self, strings: list[str], ids: np.ndarray) -> None:
        """Put NAME=VALUE|... into the MISC column of CoNLL-U, in place of older values of these
        names. An empty string adds nothing. Lines with eight columns get all ten."""
        self._notes.append(Column(strings, ids))

    def written(self) -> Block:
        """The block as the next model reads it: with the columns that were replaced."""
        return replace(self.block, written=self.block.written | self._columns)

    def _all_notes(self) -> Column:
        """The notes of each token, joined."""
        if len(self._notes) == 1:
            return self._notes[0]
        each = [[strings[i] for i in ids.tolist()] for strings, ids in self._notes]
        joined = ["|".join(filter(None, row)) for row in zip(*each, strict=True)]
        return Column(joined, np.arange(len(joined)))

    def _misc(self) -> Iterator[Replacement]:
        """Replacements of MISC by what the notes add to it."""
        strings, ids = self._all_notes()
        if len(self.block.format.columns) == 8:
            ends = self.block.line_ends[self._tokens]
            gap = self._separator
            yield ends, ends, Column([f"{gap}_{gap}{s or '_'}" for s in strings], ids)
            return
        starts, ends = self.block.spans(Conll.MISC, self._tokens)
        names = {n.split("=")[0] for s in strings for n in s.split("|") if s}
        data, given = self.block.buf.tobytes(), self._columns.get(Conll.MISC)
        if given or any(f"{name}=".encode() in data for name in names):
            before = (
                [given.strings[i] for i in given.ids.tolist()]
                if given
                else [data[a:b].decode() for a, b in zip(starts, ends, strict=True)]
            )
            rows = []
            for old, i in zip(before, ids.tolist(), strict=True):
                kept = [n for n in old.split("|") if n != "_" and n.split("=")[0] not in names]
                rows.append("|".join([*kept, *([strings[i]] if strings[i] else [])]) or "_")
            yield starts, ends, Column(rows, np.arange(len(rows)))
            return
        empty = (ends - starts == 1) & (self.block.buf[starts] == ord("_"))
        choices = ["|" + s if s else "" for s in strings] + [s or "_" for s in strings]
        choice = ids + np.where(empty, len(strings), 0)
        yield np.where(empty, starts, ends), ends, Column(choices, choice)

    def _replacements(self) -> Iterator[Replacement]:
        for at, column in self._columns.items():
            if at != Conll.MISC or not self._notes:
                yield *self.block.spans(at, self._tokens), column
        if self._notes:
            yield from self._misc()
        ends = self.block.line_ends[self._tokens]
        for column in self._appended:
            yield ends, ends, column

    def text(self) -> bytes:
        """The block with all replacements made."""
        return self.apply(0, self.block.buf.size)

    def apply(self, begin: int, end: int) -> bytes:
        """The bytes begin..end-1 with all replacements made; the replacements lie within these
        bytes."""
        starts, ends, choice, strings = [], [], [], list[str]()
        for first, last, column in self._replacements():
            starts.append(first - begin)
            ends.append(last - begin)
            choice.append(column.ids.astype(np.int64) + len(strings))
            strings += column.strings
        if not starts:
            return self.block.buf[begin:end].tobytes()
        start, stop, which = (np.concatenate(x) for x in (starts, ends, choice))
        if len(starts) > 1:
            order = np.argsort(start, kind="stable")
            start, stop, which = start[order], stop[order], which[order]
        if (start[1:] < stop[:-1]).any():
            raise ValueError("two replacements overlap")
        arena, offsets = pack(strings)
        return splice(self.block.buf[begin:end], start, stop, which, arena, offsets).tobytes()


def sentences_text(block: Block, chosen: np.ndarray) -> bytes:
    """The token lines of some sentences; chosen: (sentences,) bool."""
    data, begins = block.buf.tobytes(), block.starts[block.first]
    sentences = []
    for s in np.flatnonzero(chosen).tolist():
        words = range(block.sentences[s], block.sentences[s + 1])
        sentences.append(b"".join(data[begins[t] : block.line_ends[t]] + b"\n" for t in words))
    return b"\n".join(sentences)


def extent(block: Block, data: bytes, a: int, b: int) -> tuple[int, int]:
    """The lines of a sentence from its first to its last token; in CoNLL-U with the multiword
    ranges and empty nodes around them, but without the comments above."""
    begin = data.rfind(b"\n", 0, int(block.starts[block.first[a]])) + 1
    end = int(block.line_ends[b - 1])
    while block.format.ids and begin > 0:
        above = data.rfind(b"\n", 0, begin - 1) + 1
        if not data[above:begin].strip() or data[above:begin].startswith(b"#"):
            break
        begin = above
    while block.format.ids:
        start = data.find(b"\n", end) + 1
        stop = data.find(b"\n", start)
        line = data[start : stop if stop >= 0 else len(data)]
        if not start or not line.strip() or line.startswith(b"#"):
            break
        end = start + len(line.rstrip(b"\r"))
    return begin, end
