"""Reading: a file, a pipe or a .gz as blocks of whole sentences, with errors that name the line."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from turbotag.corpus.formats import (
    CONLLU,
    Conll,
    Format,
    Naming,
    default_names,
    detect,
    has_token,
    is_blank,
)
from turbotag.corpus.hashing import Interner, pack
from turbotag.corpus.scan import BLANK, DOCSTART, PASS, TOKEN, scan_lines
from turbotag.errors import DataError

BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_ID = re.compile(rb"[1-9][0-9]*")
_SKIPPED_ID = re.compile(rb"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


class Column(NamedTuple):
    """The values of one column: the value of token t is strings[ids[t]]."""

    strings: list[str]
    ids: np.ndarray


@dataclass
class Block:
    """Whole sentences of one file: bytes, and where its tokens and their fields lie in them.

    Token t is on line `lines[t]` (from 1) of the file; its fields are
    first[t]..first[t]+width[t]-1 of `starts` and `ends`; sentence s is tokens
    sentences[s]..sentences[s+1]-1. `docstarts` lines are -DOCSTART- marks, which are no tokens.
    `written`: columns whose values are others than those in the bytes, as models have filled them.
    """

    path: str
    format: Format
    buf: np.ndarray
    lines: np.ndarray
    line_ends: np.ndarray
    first: np.ndarray
    width: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    sentences: np.ndarray
    docstarts: int = 0
    written: dict[int, Column] = field(default_factory=dict)

    @property
    def n_tokens(self) -> int:
        return self.lines.size

    @property
    def n_sentences(self) -> int:
        return self.sentences.size - 1

    def spans(self, column: int, tokens: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Byte offsets of one column's fields, for every token or some of them."""
        at = self.first[tokens] + column
        return self.starts[at], self.ends[at]

    def ids(self, column: int, interner: Interner) -> np.ndarray:
        """One column as integers of `interner`."""
        if column in self.written:
            strings, ids = self.written[column]
            arena, offsets = pack(strings)
            found: np.ndarray = interner.ids(arena, offsets[:-1], offsets[1:])[ids]
            return found
        return interner.ids(self.buf, *self.spans(column))

    def column(self, column: int) -> Column:
        """One column as its distinct values and which of them each token has."""
        if column in self.written:
            strings, ids = self.written[column]
            used, ids = np.unique(ids, return_inverse=True)
            return Column([strings[i] for i in used.tolist()], ids.astype(np.int32))
        interner = Interner()
        ids = self.ids(column, interner)
        return Column(interner.strings, ids)

    def strings(self, column: int) -> list[str]:
        """One column as Python strings (one object for each distinct value)."""
        strings, ids = self.column(column)
        return [strings[i] for i in ids.tolist()]

    def filled(self, column: int) -> np.ndarray:
        """(tokens,) whether a word has a value, other than _, in a column of CoNLL-U."""
        if column in self.written:
            strings, ids = self.written[column]
            has: np.ndarray = np.array([s != "_" for s in strings], np.bool_)[ids]
            return has
        starts, ends = self.spans(column)
        return (ends - starts != 1) | (self.buf[starts] != ord("_"))

    def error(self, message: str, token: int) -> DataError:
        return DataError(message, self.path, int(self.lines[token]))


Source = str | bytes  # a path, '-' for standard input, or what a file would hold


class Content(bytes):
    """What a file holds, perhaps with changes, and the name that messages use for it."""

    name: str

    @classmethod
    def of(cls, data: bytes, name: str) -> Content:
        content = cls(data)
        content.name = name
        return content


def display_name(path: Source | BinaryIO) -> str:
    if not isinstance(path, str):
        return str(getattr(path, "name", "<memory>"))
    return "<stdin>" if path == "-" else path


class Steady(io.FileIO):
    """A file that must not change while it is read: all that it gives was in it when it was
    opened."""

    def __init__(self, path: str):
        super().__init__(path)
        self._opened = self._now()

    def _now(self) -> tuple[int, int] | None:
        now = os.fstat(self.fileno())
        return (now.st_size, now.st_mtime_ns) if stat.S_ISREG(now.st_mode) else None

    def _check(self) -> None:
        if self._now() != self._opened:
            raise OSError("it was changed while it was read")

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override]
        size = super().readinto(buffer)
        if not size:
            self._check()
        return size

    def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
        data = super().read(size)
        if not data or size is None or size < 0:
            self._check()
        return data

    def readall(self) -> bytes:
        data = super().readall()
        self._check()
        return data


def open_binary(path: Source | BinaryIO) -> BinaryIO:
    """Open a source, unpacking .gz; failures become one sentence. An open file stays as it is."""
    if isinstance(path, bytes):
        return io.BytesIO(path)
    if not isinstance(path, str):
        return path
    if path == "-":
        return sys.stdin.buffer
    try:
        if Path(path).is_dir():
            raise DataError("is a directory, not a file", path)
        if path.endswith(".gz"):  # which has a checksum
            return gzip.open(path, "rb")  # type: ignore[return-value]
        return io.BufferedReader(Steady(path))
    except OSError as e:
        raise DataError((e.strerror or str(e)).lower(), path) from e


def _chunks(path: Source | BinaryIO, size: int) -> Iterator[bytes]:
    """The file in pieces that end after a blank line, except for the last piece."""
    name = display_name(path)
    stream = open_binary(path)
    # the sentences of a pipe are answered as they come
    read = getattr(stream, "read1", stream.read)
    pending = bytearray()
    try:
        while True:
            try:
                data = read(size)
            except (OSError, EOFError, zlib.error) as e:
                raise DataError(f"cannot be read: {e}", name) from e
            if not data:
                break
            new = max(0, len(pending) - 2)  # only what is new can hold the end of a blank line
            pending += data
            cut = max(pending.rfind(b"\n\n", new) + 2, pending.rfind(b"\n\r\n", new) + 3)
            if cut > 3:
                yield bytes(pending[:cut])
                del pending[:cut]
        if pending:
            yield bytes(pending)
    finally:
        if stream is not sys.stdin.buffer:
            stream.close()


def _check_text(data: bytes, path: str, first_line: int) -> None:
    """Refuse NUL bytes and invalid UTF-8."""
    nul = data.find(b"\0")
    if nul >= 0:
        kind = "a gzip file without the extension .gz" if data[:2] == b"\x1f\x8b" else "binary"
        raise DataError(
            f"has a NUL byte: it looks {kind}, expected UTF-8 text",
            path,
            first_line + data.count(b"\n", 0, nul),
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise DataError(
            f"byte 0x{data[e.start]:02x} is not valid UTF-8",
            path,
            first_line + data.count(b"\n", 0, e.start),
        ) from None


def _parse(data: bytes, path: str, fmt: Format, first_line: int) -> Block:
    buf = np.frombuffer(data, np.uint8)
    start = 3 if first_line == 1 and data.startswith(_BOM) else 0
    begins, ends, kind, first_field, field_start, field_end = scan_lines(
        buf, start, fmt.tabs, fmt.blanks, fmt.comments, fmt.ids, fmt.docstart, len(fmt.columns)
    )
    token_lines = np.flatnonzero(kind == TOKEN)
    group = np.cumsum((kind == BLANK) | (kind == DOCSTART))[token_lines]
    breaks = np.flatnonzero(np.diff(group, prepend=-1))
    block = Block(
        path,
        fmt,
        buf,
        token_lines + first_line,
        ends[token_lines],
        first_field[token_lines],
        np.diff(first_field)[token_lines],
        field_start,
        field_end,
        np.append(breaks, token_lines.size).astype(np.int64),
        int((kind == DOCSTART).sum()),
    )
    _check_fields(block)
    if fmt.ids:
        _check_ids(block)
        for line in np.flatnonzero(kind == PASS).tolist():
            raw = data[begins[line] : ends[line]]
            if not raw.startswith(b"#"):
                _check_skipped(raw, fmt, path, first_line + line)
    return block


def _check_fields(block: Block) -> None:
    """Every token has the expected number of fields; in CoNLL-U and -X none is empty.

    Tab-separated columns may have an empty word: corpora of tweets hold such lines.
    """
    expected = len(block.format.columns)
    if expected:
        wrong = np.flatnonzero(block.width != expected)
        if wrong.size:
            got = block.width[wrong[0]]
            kind = "" if block.format.blanks else "tab-separated "
            raise block.error(f"expected {expected} {kind}columns, found {got}", int(wrong[0]))
    empty = np.flatnonzero(block.starts == block.ends)
    if block.format.ids and empty.size:
        token = int(np.searchsorted(block.first, empty[0], side="right")) - 1
        column = block.format.columns[int(empty[0] - block.first[token])]
        raise block.error(f"column {column} is empty", token)


def _check_ids(block: Block) -> None:
    """CoNLL-U and CoNLL-X: the words of a sentence are numbered 1, 2, 3, ..."""
    if not block.n_tokens:
        return
    strings, ids = block.column(Conll.ID)
    numbers = np.array(
        [int(s) if _ID.fullmatch(s.encode()) and len(s) < 10 else -1 for s in strings], np.int64
    )[ids]
    lengths = np.diff(block.sentences)
    expected = np.arange(block.n_tokens) - np.repeat(block.sentences[:-1], lengths) + 1
    wrong = np.flatnonzero(numbers != expected)
    if wrong.size:
        t = int(wrong[0])
        raise block.error(f"expected ID {expected[t]}, found {strings[ids[t]]!r}", t)


def _check_skipped(raw: bytes, fmt: Format, path: str, line: int) -> None:
    """Refuse an ID that belongs neither to a multiword range nor to an empty node."""
    fields = raw.split(b"\t")
    if len(fields) != len(fmt.columns):
        fields = re.split(rb"[ \t]+", raw.strip(b" \t"))
    if not _SKIPPED_ID.fullmatch(fields[0].strip(b" ")):
        raise DataError(f"{fields[0].decode()!r} is not a CoNLL-U ID", path, line)
    if len(fields) != len(fmt.columns):
        raise DataError(f"expected {len(fmt.columns)} columns, found {len(fields)}", path, line)


def stream(
    path: Source | BinaryIO,
    format: str | None = None,
    naming: Naming = default_names,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """The file as blocks of whole sentences, in constant memory; an empty file has none."""
    name, line, fmt, held = display_name(path), 1, None, b""
    for piece in _chunks(path, block_bytes):
        data = held + piece
        if fmt is None:
            if b"\0" not in data and not has_token(data):
                held = data  # nothing to tell the format from yet
                continue
            _check_text(data, name, line)
            fmt = detect(data, name, format, naming)
        else:
            _check_text(data, name, line)
        held = b""
        yield _parse(data, name, fmt, line)
        line += data.count(b"\n")
    if held:
        _check_text(held, name, line)
        fmt = CONLLU if is_blank(held) else detect(held, name, format, naming)
        yield _parse(held, name, fmt, line)


def from_bytes(data: bytes, path: str, fmt: Format) -> Block:
    """A block from text in memory that is known to be whole sentences in a format."""
    return _parse(data, path, fmt, 1)


def read(path: Source, format: str | None = None, naming: Naming = default_names) -> Block:
    """The whole file as one block."""
    name = display_name(path)
    data = b"".join(_chunks(path, 1 << 24))
    if not data:
        raise DataError("is empty", name)
    _check_text(data, name, 1)
    block = _parse(data, name, detect(data, name, format, naming), 1)
    if not block.n_tokens:
        raise DataError("holds no tokens", name)
    return block
