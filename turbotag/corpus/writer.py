"""Writing predictions back into a file's own bytes: all that is not predicted stays as it was."""

from __future__ import annotations

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.hashing import pack
from turbotag.corpus.reader import Block
from turbotag.corpus.scan import splice


class Edits:
    """Replacements in a block, or in its tokens first..end-1: where, and by which strings."""

    def __init__(self, block: Block, first: int = 0, end: int | None = None):
        self.block = block
        self._tokens = slice(first, block.n_tokens if end is None else end)
        self.n_tokens = self._tokens.stop - first
        self._starts: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []
        self._choice: list[np.ndarray] = []
        self._strings: list[str] = []

    def _put(
        self, starts: np.ndarray, ends: np.ndarray, strings: list[str], ids: np.ndarray
    ) -> None:
        self._starts.append(starts)
        self._ends.append(ends)
        self._choice.append(ids.astype(np.int64) + len(self._strings))
        self._strings += strings

    def replace(self, column: int, strings: list[str], ids: np.ndarray) -> None:
        """Replace a column: strings[ids[t]] for token t."""
        starts, ends = self.block.spans(column, self._tokens)
        self._put(starts, ends, strings, ids)

    def put(self, column: int, strings: list[str], ids: np.ndarray) -> None:
        """Replace a column, or append it where it is the next one."""
        if column < len(self.block.format.columns):
            self.replace(column, strings, ids)
        else:
            self.append(strings, ids)

    def append(self, strings: list[str], ids: np.ndarray) -> None:
        """Add a column at the end of the line."""
        separator = "\t" if self.block.format.tabs or self.block.format.name == "text" else " "
        ends = self.block.line_ends[self._tokens]
        self._put(ends, ends, [separator + s for s in strings], ids)

    def note(self, strings: list[str], ids: np.ndarray) -> None:
        """Put NAME=VALUE|... into the MISC column of CoNLL-U, in place of what has those names; an
        empty string adds nothing. Where lines have eight columns they get all ten."""
        if len(self.block.format.columns) == 8:
            self.append(["_"], np.zeros(self.n_tokens, np.int64))
            self.append([s or "_" for s in strings], ids)
            return
        starts, ends = self.block.spans(Conll.MISC, self._tokens)
        names = {n.split("=")[0] for s in strings for n in s.split("|") if s}
        data = self.block.buf.tobytes()
        if any(f"{name}=".encode() in data for name in names):
            rows = []
            for a, b, i in zip(starts.tolist(), ends.tolist(), ids.tolist(), strict=True):
                old = data[a:b].decode().split("|")
                kept = [n for n in old if n != "_" and n.split("=")[0] not in names]
                rows.append("|".join([*kept, *([strings[i]] if strings[i] else [])]) or "_")
            self._put(starts, ends, rows, np.arange(len(rows)))
            return
        empty = (ends - starts == 1) & (self.block.buf[starts] == ord("_"))
        choices = ["|" + s if s else "" for s in strings] + [s or "_" for s in strings]
        self._put(
            np.where(empty, starts, ends), ends, choices, ids + np.where(empty, len(strings), 0)
        )

    def text(self) -> bytes:
        """The block with all replacements made."""
        return self.apply(0, self.block.buf.size)

    def apply(self, begin: int, end: int) -> bytes:
        """The bytes begin..end-1 with all replacements, which lie in them, made."""
        if not self._starts:
            return self.block.buf[begin:end].tobytes()
        starts, ends = np.concatenate(self._starts) - begin, np.concatenate(self._ends) - begin
        choice = np.concatenate(self._choice)
        if len(self._starts) > 1:
            order = np.argsort(starts, kind="stable")
            starts, ends, choice = starts[order], ends[order], choice[order]
        if (starts[1:] < ends[:-1]).any():
            raise ValueError("two replacements overlap")
        arena, offsets = pack(self._strings)
        return splice(self.block.buf[begin:end], starts, ends, choice, arena, offsets).tobytes()


def sentences_text(block: Block, chosen: np.ndarray) -> bytes:
    """The token lines of some sentences; chosen: (sentences,) bool."""
    data, begins = block.buf.tobytes(), block.starts[block.first]
    sentences = []
    for s in np.flatnonzero(chosen).tolist():
        words = range(block.sentences[s], block.sentences[s + 1])
        sentences.append(b"".join(data[begins[t] : block.line_ends[t]] + b"\n" for t in words))
    return b"\n".join(sentences)
