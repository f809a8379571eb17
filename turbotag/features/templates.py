"""The template language: one feature template a line.

    # a comment
    word[0]               the word itself
    word[-2..2]           five templates, one for each offset
    word[-1] word[0]      a conjunction: fires with the pair of values
    suffix3[0]            an attribute of the word (features/words.py lists them)
    pos[0] lower[1]       columns of the file go by name: word, pos, lemma, upos, xpos, col2, ...
    xpos.prefix1[0]       an attribute of another column
    gaz[0]                one template for each gazetteer: position U, B, I or L in a match
    cluster6[0]           one for all word clusters: the first 6 bits of the word's path
    cluster[0]            the whole path; gaz:NAME[0], cluster6:NAME[0] read one resource only
    bias  first  last     no offset: fires everywhere, at the first, at the last position
    attributes            the attributes, with their values, of a CRFsuite file

Outside the sentence every value is a boundary mark. A template does not fire where one of its
attributes is empty (a prefix of four letters of a shorter word, a flag that is off). The text of a
template, not its place in the file, is part of its keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from turbotag.errors import DataError, did_you_mean
from turbotag.features.words import attribute

FLAGS = ("bias", "first", "last")
ATTRIBUTES_LINE = "attributes"
_ATOM = re.compile(r"([A-Za-z_][\w:-]*)(?:\.([a-z]+[0-9]?))?\[(-?\d{1,9})(?:\.\.(-?\d{1,9}))?\]")
MAX_ATOMS, MAX_OFFSET = 4, 9


@dataclass(frozen=True)
class Atom:
    """One value: `attribute` ('' for the string itself) of `column` at t + offset."""

    column: str
    attribute: str
    offset: int

    @property
    def source(self) -> tuple[str, str]:
        return self.column, self.attribute

    def __str__(self) -> str:
        if self.column in FLAGS:
            return self.column
        if self.attribute:
            name = self.attribute if self.column == "word" else f"{self.column}.{self.attribute}"
        else:
            name = self.column
        return f"{name}[{self.offset}]"


Template = tuple[Atom, ...]


def text(template: Template) -> str:
    """The canonical text of a template."""
    return " ".join(map(str, template))


def _atoms(word: str) -> list[Atom] | None:
    """The atoms that one word of a template line stands for, None if it is not one."""
    if word in FLAGS:
        return [Atom(word, "", 0)]
    match = _ATOM.fullmatch(word)
    if not match:
        return None
    column, attr = match[1], match[2] or ""
    if not attr and attribute(column):
        column, attr = "word", column
    if column in FLAGS or (attr and not attribute(attr)):
        return None
    low = int(match[3])
    high = low if match[4] is None else int(match[4])
    if low > high or max(abs(low), abs(high)) > MAX_OFFSET:
        return None
    return [Atom(column, attr, o) for o in range(low, high + 1)]


def parse(lines: str, path: str) -> list[Template]:
    """Templates of a file's text; () stands for the line `attributes`."""
    templates: list[Template] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words == [ATTRIBUTES_LINE]:
            found: list[Template] = [()]
        else:
            parts = [_atoms(w) for w in words]
            for word, part in zip(words, parts, strict=True):
                if part is None:
                    raise DataError(
                        f"{word!r} is not a template: expected such as word[0], word[-2..2], "
                        f"suffix3[0] or pos[-1], offsets up to {MAX_OFFSET}",
                        path,
                        number,
                    )
            whole = [p for p in parts if p is not None]
            if len(whole) > 1 and any(len(p) > 1 for p in whole):
                raise DataError("a range of offsets stands alone on its line", path, number)
            if len(whole) > MAX_ATOMS:
                raise DataError(f"a conjunction has at most {MAX_ATOMS} parts", path, number)
            found = [(a,) for a in whole[0]] if len(whole) == 1 else [tuple(p[0] for p in whole)]
        for template in found:
            name = text(template)
            if name in seen:
                raise DataError(f"{name!r} is on line {seen[name]} too", path, number)
            seen[name] = number
            templates.append(template)
    if not templates:
        raise DataError("holds no templates", path)
    return templates


def shipped() -> list[str]:
    """Names of the template files that come with the package."""
    folder = resources.files("turbotag.features") / "templates"
    return sorted(f.name[:-4] for f in folder.iterdir() if f.name.endswith(".txt"))


def load(name: str) -> str:
    """The text of a shipped template file, by name, or of a user's, by path."""
    if name in shipped():
        return (resources.files("turbotag.features") / "templates" / f"{name}.txt").read_text()
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(
            f"no such template file (shipped ones: {', '.join(shipped())})"
            + did_you_mean(name, shipped()),
            name,
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"cannot be read as a template file: {e}", name) from e
