"""The file formats: how each splits a line, what its columns are called, how it is recognised."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

from turbotag.errors import DataError, UsageError


@dataclass(frozen=True)
class Format:
    """How lines are split and what the fields mean.

    columns: names of the fields, or () where each line has any number of attributes (crfsuite).
    """

    name: str
    columns: tuple[str, ...]
    tabs: bool = True  # tabs separate fields
    # runs of blanks separate fields; and of blanks and tabs, where tabs give too few columns
    blanks: bool = False
    comments: bool = False  # a line that opens with '#' may be a comment: see `scan_lines`
    ids: bool = False  # first column is a CoNLL-U ID
    docstart: bool = False

    def index(self, name: str) -> int | None:
        """Position of a column by name, alias or 1-based number; None if there is none."""
        if name.isdecimal() and len(name) < 10:
            return int(name) - 1 if 1 <= int(name) <= len(self.columns) else None
        for candidate in (name, *ALIASES.get(name, ())):
            if candidate in self.columns:
                return self.columns.index(candidate)
        return None


ALIASES = {"pos": ("upos",), "cpos": ("upos",), "form": ("word",)}


class Conll(IntEnum):
    """The columns of CoNLL-U, and the last two of CoNLL-X."""

    ID, WORD, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)
    PHEAD, PDEPREL = 8, 9


CONLLU = Format(
    "conllu",
    tuple(column.name.lower() for column in Conll),
    blanks=True,
    comments=True,
    ids=True,
)
CONLLX = Format(
    "conllx",
    (*CONLLU.columns[: Conll.PHEAD], "phead", "pdeprel"),
    blanks=True,
    comments=True,
    ids=True,
)
CONLLX_8 = replace(CONLLX, columns=CONLLX.columns[: Conll.PHEAD])  # many files have only these
CRFSUITE = Format("crfsuite", ())
CRFSUITE_LABEL = 0  # the field that is no attribute
TAGS = ("upos", "xpos")  # columns of parts of speech in CoNLL-U and CoNLL-X

# Names of the columns of CoNLL-2000, -2002 and -2003 files by their number.
COLUMN_NAMES = {
    1: ("word",),
    2: ("word", "tag"),
    3: ("word", "pos", "tag"),
    4: ("word", "pos", "chunk", "tag"),
}
NAMES = ("conllu", "conllx", "columns", "crfsuite", "text")


_COMMENT = re.compile(r"# *(sent_id|text|newdoc|newpar|global\.columns)\b")
_ARC = re.compile(r"([0-9]+|_)\t(?![0-9]+$).+")  # HEAD and DEPREL
_ATTRIBUTE = re.compile(r".=.|.:-?[0-9.]+$")  # w=the, or a value: weight:0.5

Naming = Callable[[int], tuple[str, ...]]


def default_names(n: int) -> tuple[str, ...]:
    return COLUMN_NAMES.get(n) or ("word", *(f"col{i}" for i in range(2, n)), "tag")


def given_names(names: tuple[str, ...]) -> Naming:
    """Names that a user gave; a file with another number of columns is refused."""

    def naming(n: int) -> tuple[str, ...]:
        if n != len(names):
            raise UsageError(f"--columns names {len(names)} columns, but the file has {n}")
        return names

    return naming


def columns_format(n: int, tabs: bool, names: tuple[str, ...], blanks: bool = False) -> Format:
    """The column format with n columns that are separated by tabs, blanks or both."""
    if n == 1:
        return Format("text", names, tabs, blanks, docstart=True)
    return Format("columns", names, tabs, blanks, comments=True, docstart=True)


SAMPLE = 1 << 18  # bytes that tell a format, and the rest of their last line
_Lines = list[tuple[int, str]]  # lines of a file and their numbers


def _sample(data: bytes, limit: int = 200) -> _Lines:
    """The first lines of a block that hold something."""
    lines: _Lines = []
    end = data.find(b"\n", SAMPLE)  # the last line is a whole one
    sample = data[: end if end >= 0 else len(data)].removeprefix(b"\xef\xbb\xbf")
    for number, raw in enumerate(sample.split(b"\n"), 1):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if line.strip(" \t"):
            lines.append((number, line))
            limit -= not line.startswith("#")  # any number of comments may stand before tokens
        if not limit:
            break
    return lines


def _blank_separated(line: str) -> list[str]:
    """The fields of a line, split as the scanner splits them: only blanks and tabs separate; other
    white space, such as a no-break space, is part of a field."""
    return re.split("[ \t]+", line.strip(" \t"))


def _body(lines: _Lines) -> _Lines:
    """The lines that tell the format best: no marks of documents, and no comments if there are
    other lines."""
    marked = [(n, s) for n, s in lines if _blank_separated(s)[0] != "-DOCSTART-"] or lines
    return (
        [(n, s) for n, s in marked if not s.startswith("#")]
        or [(n, s) for n, s in marked if "\t" in s]
        or marked
    )


def has_token(data: bytes) -> bool:
    """Whether the beginning of a file has a line that tells its format: a line that is not blank,
    not the mark of a document, and cannot be a comment."""
    return any(
        not line.startswith("#") and _blank_separated(line)[0] != "-DOCSTART-"
        for _, line in _sample(data)
    )


def is_blank(data: bytes) -> bool:
    """Whether the beginning of a file has only blank lines, which every format may have."""
    return not _sample(data)


def detect(
    data: bytes,
    path: str,
    name: str | None = None,
    naming: Naming = default_names,
) -> Format:
    """The format of a file from its first block; `name` overrides what it looks like, and `naming`
    gives the names of the columns of a column file from their number.

    Ten fields with an ID first are CoNLL-U, or CoNLL-X by the extension .conllx or .conll; eight
    are CoNLL-X; tabs with a varying number of fields, or fields with '=', are CRFsuite's; one field
    a line is plain tokens; anything else is columns, of which the last is the tag.
    """
    if name is not None and name not in NAMES:
        raise UsageError(f"unknown format {name!r}: it is one of {', '.join(NAMES)}")
    lines = _sample(data)
    body = _body(lines)
    number, first = body[0] if body else (1, "")
    width = _conll_width(first)
    if name == "conllu":
        return CONLLU
    if name == "conllx":
        return CONLLX_8 if width == 8 else CONLLX
    if name == "crfsuite":
        if width or (" " in first and "\t" not in first):
            told = "is not a CRFsuite file: expected label<TAB>attribute<TAB>..."
            raise DataError(told, path, number)
        return CRFSUITE
    if not body:
        raise DataError("holds no tokens", path)
    if name is None and width == 8:
        return CONLLX_8
    if name is None and width == 10:
        stem = path[:-3] if path.endswith(".gz") else path
        old = stem.endswith((".conllx", ".conll")) and not lines[0][1].startswith("#")
        return CONLLX if old else CONLLU
    if name is None and "\t" in first and _looks_crfsuite([line for _, line in body]):
        return CRFSUITE
    n, tabs, blanks = _separation(body)
    if name == "text" and n != 1:
        raise DataError(f"has {n} columns where plain text has one token a line", path, number)
    try:
        fmt = columns_format(n, tabs, naming(n), blanks)
    except DataError as e:
        raise DataError(str(e), path) from None
    return replace(fmt, name="columns") if name == "columns" else fmt


def _separation(body: _Lines) -> tuple[int, bool, bool]:
    """(number of columns, whether tabs separate them, whether blanks do).

    Only the first sentence is looked at, because every piece of a file that is read begins with a
    whole one. If the number of fields between tabs is the same in all lines and that between blanks
    is not, blanks are parts of words. If it is the other way round, blanks separate columns.
    """
    sentence = [line for i, (n, line) in enumerate(body) if n == body[0][0] + i]
    by_tabs = [len(line.split("\t")) for line in sentence]
    by_blanks = [len(_blank_separated(line)) for line in sentence]
    if by_tabs[0] == 1:
        return by_blanks[0], False, True
    if len(set(by_tabs)) > 1 and len(set(by_blanks)) == 1:
        return by_blanks[0], True, True
    return by_tabs[0], True, by_tabs == by_blanks


def _conll_width(line: str) -> int:
    """The number of columns, 10 or 8, of a line of CoNLL-U or CoNLL-X; 0 if the line is neither.

    Ten fields between tabs with an ID first are enough to tell. Other lines must have HEAD and
    DEPREL too.
    """
    by_tabs, by_blanks = line.split("\t"), _blank_separated(line)
    if len(by_tabs) == 10 and _is_id(by_tabs[0].strip(" ")):
        return 10
    for width, fields in ((10, by_blanks), (8, by_tabs), (8, by_blanks)):
        arc = "\t".join(fields[Conll.HEAD : Conll.PHEAD])
        if len(fields) == width and _is_id(fields[0]) and _ARC.fullmatch(arc):
            return width
    return 0


def _is_id(field: str) -> bool:
    return field.replace("-", "", 1).replace(".", "", 1).isdigit()


def looks_conll(data: bytes) -> bool:
    """Whether the beginning of a file is CoNLL-U or CoNLL-X rather than running text."""
    lines = [line for _, line in _sample(data)]
    body = [line for line in lines if not line.startswith("#")]
    return bool(body and _conll_width(body[0])) or bool(lines and _COMMENT.match(lines[0]))


def looks_columns(data: bytes) -> bool:
    """Whether the beginning of a file is tab-separated columns rather than running text: three
    lines that are alike tell."""
    widths = [line.count("\t") for _, line in _sample(data)]
    return len(widths) >= 3 and len(set(widths)) == 1 and widths[0] > 0


def _looks_crfsuite(lines: list[str]) -> bool:
    split = [line.split("\t") for line in lines]
    attributes = [f for fields in split for f in fields[1:]]
    named = sum(1 for f in attributes if _ATTRIBUTE.search(f))
    if len(split[0]) > 2 and named > 0.9 * len(attributes):
        return True
    varied = len({len(fields) for fields in split}) > 3
    return varied and len({len(_blank_separated(line)) for line in lines}) > 1
