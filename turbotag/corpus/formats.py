"""The file formats: how each splits a line, what its columns are called, how it is recognised."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from turbotag.errors import DataError, UsageError


@dataclass(frozen=True)
class Format:
    """How lines are split and what the fields mean.

    columns: names of the fields, or () where each line has any number of attributes (crfsuite).
    """

    name: str
    columns: tuple[str, ...]
    tabs: bool = True
    comments: int = 0  # 0 none, 1 lines that open with '#', 2 the same if they have no tab
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

CONLLU = Format(
    "conllu",
    ("id", "word", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"),
    comments=1,
    ids=True,
)
CONLLX = Format(
    "conllx",
    ("id", "word", "lemma", "upos", "xpos", "feats", "head", "deprel", "phead", "pdeprel"),
    ids=True,
)
CRFSUITE = Format("crfsuite", ())
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


def columns_format(n: int, tabs: bool, names: tuple[str, ...]) -> Format:
    """The column format with n columns, blank- or tab-separated."""
    if n == 1:
        return Format("text", names, tabs=tabs, docstart=True)
    return Format("columns", names, tabs=tabs, comments=2 if tabs else 0, docstart=True)


def _sample(data: bytes, limit: int = 200) -> list[str]:
    """The first lines of a block that hold something."""
    lines: list[str] = []
    for raw in data[: 1 << 18].removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if line.strip(" \t"):
            lines.append(line)
            limit -= not line.startswith("#")  # any number of comments may stand before tokens
        if not limit:
            break
    return lines


def _fields(line: str, tabs: bool) -> list[str]:
    """As the scanner splits: other white space, such as a no-break space, is part of a field."""
    return line.split("\t") if tabs else re.split("[ \t]+", line.strip(" \t"))


def has_token(data: bytes) -> bool:
    """Whether the beginning of a file has a line that tells its format: one that is neither blank,
    nor perhaps a comment, nor the mark of a document."""
    return any(
        not line.startswith("#") and _fields(line, False)[0] != "-DOCSTART-"
        for line in _sample(data)
    )


def is_blank(data: bytes) -> bool:
    """Whether the beginning of a file has nothing but blank lines, which all formats have."""
    return not _sample(data)


def _is_id(field: str) -> bool:
    return field.replace("-", "", 1).replace(".", "", 1).isdigit()


def detect(
    data: bytes,
    path: str,
    name: str | None = None,
    naming: Naming = default_names,
) -> Format:
    """The format of a file from its first block; `name` overrides what it looks like, and `naming`
    gives the names of the columns of a column file from their number.

    Ten tab-separated fields with an ID first are CoNLL-U, or CoNLL-X by the extension .conllx or
    .conll; tabs with a varying number of fields, or fields with '=', are CRFsuite's; one field a
    line is plain tokens; anything else is columns, of which the last is the tag.
    """
    if name is not None and name not in NAMES:
        raise UsageError(f"unknown format {name!r}: it is one of {', '.join(NAMES)}")
    lines = _sample(data)
    if name == "crfsuite":
        first = lines[0] if lines else ""
        if _conll_line(first) or (" " in first and "\t" not in first):
            raise DataError("is not a CRFsuite file: expected label<TAB>attribute<TAB>...", path, 1)
        return CRFSUITE
    if name in ("conllu", "conllx"):
        return CONLLU if name == "conllu" else CONLLX
    body = [line for line in lines if not line.startswith("#") or line.count("\t") == 9]
    body = body or [line for line in lines if "\t" in line] or lines
    if not body:
        raise DataError("holds no tokens", path)
    tabs = "\t" in body[0]
    if name is None and tabs and _conll_line(body[0]):
        stem = path[:-3] if path.endswith(".gz") else path
        old = stem.endswith((".conllx", ".conll")) and not lines[0].startswith("#")
        return CONLLX if old else CONLLU
    body = [line for line in lines if not (tabs and line.startswith("#") and "\t" not in line)]
    split = [_fields(line, tabs) for line in body or lines]
    split = [f for f in split if f[0] != "-DOCSTART-"] or split
    if name is None and tabs and _looks_crfsuite(split):
        return CRFSUITE
    n = len(split[0])
    if name == "text" and n != 1:
        raise DataError(f"has {n} columns where plain text has one token a line", path, 1)
    try:
        fmt = columns_format(n, tabs, naming(n))
    except DataError as e:
        raise DataError(str(e), path) from None
    return replace(fmt, name="columns") if name == "columns" else fmt


def _conll_line(line: str) -> bool:
    fields = line.split("\t")
    return len(fields) == 10 and _is_id(fields[0])


def looks_conll(data: bytes) -> bool:
    """Whether the beginning of a file is one of CoNLL-U rather than of running text."""
    lines = _sample(data)
    body = [line for line in lines if not line.startswith("#")]
    return bool(body and _conll_line(body[0])) or bool(lines and _COMMENT.match(lines[0]))


def looks_columns(data: bytes) -> bool:
    """Whether it is rather one of tab-separated columns: three lines that are alike tell."""
    widths = [line.count("\t") for line in _sample(data)]
    return len(widths) >= 3 and len(set(widths)) == 1 and widths[0] > 0


def _looks_crfsuite(split: list[list[str]]) -> bool:
    if len({len(fields) for fields in split}) > 3:
        return True
    attributes = [f for fields in split for f in fields[1:]]
    named = sum(1 for f in attributes if _ATTRIBUTE.search(f))
    return len(split[0]) > 2 and named > 0.9 * len(attributes)
