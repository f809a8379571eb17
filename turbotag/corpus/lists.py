"""Python lists as files in memory: words, columns and features with their tags.

A sentence is a list of tokens. A token is a word (str), columns with the word first (tuple), or
features in the meaning that python-crfsuite gives them (dict, list or set).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from turbotag.errors import DataError

Features = Mapping[str, Any] | list[str] | set[str] | frozenset[str]
Token = str | tuple[str, ...] | Features

UNKNOWN = object()  # answers that are to be predicted
_BREAK = re.compile(r"[\t\n\r\0]")  # what no field of a file can hold
# As CRFsuite escapes; a tab or a line break in a name becomes the two characters that mean it.
_ESCAPES = str.maketrans(
    {"\\": r"\\", ":": r"\:", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\0": r"\0"}
)
_KINDS = "a token is a word (str), columns (tuple of str) or features (dict, or list or set of str)"


@dataclass(frozen=True)
class Tagged:
    """Sentences as a file would hold them: of features in CRFsuite's format; of words with `width`
    columns and one more, for the tag."""

    data: bytes
    features: bool
    width: int

    @property
    def format(self) -> str:
        return "crfsuite" if self.features else "columns"


def tagged(sentences: Iterable[Iterable[Token]], tags: Any = UNKNOWN) -> Tagged:
    """Sentences with their tags, or with _ for each."""
    lines: list[str] = []
    known = _Fields()
    features, width = None, 0
    for s, tokens, own in paired(sentences, tags, "tags"):
        with of_sentence(s):
            for token, tag in zip(tokens, own or ["_"] * len(tokens), strict=True):
                is_features = not isinstance(token, str | tuple)
                row = () if is_features else _columns(token)
                if features is None:
                    features, width = is_features, len(row)
                if is_features != features:
                    raise DataError(f"has {_NAMES[is_features]} beside {_NAMES[features]}")
                if len(row) != width:
                    raise DataError(f"has a word of {len(row)} columns, the first word {width}")
                tag = _tag(tag)
                lines.append(known.line(tag, token) if features else "\t".join([*row, tag]))
        lines.append("")
    return Tagged(encoded(lines), bool(features), width)


_NAMES = {False: "words", True: "features"}


def paired(
    sentences: Iterable[Iterable[Any]], answers: Any, name: str
) -> Iterator[tuple[int, list[Any], list[Any] | None]]:
    """(number, tokens, their answers, one each) of all sentences; None for answers if UNKNOWN."""
    listed = _list(sentences, "the sentences are", "sentences, each a list of tokens")
    given = None if answers is UNKNOWN else _list(answers, f"the {name} are", "lists")
    if given is not None and len(given) != len(listed):
        raise DataError(f"{len(listed)} sentences, but {name} of {len(given)}")
    for s, sentence in enumerate(listed):
        tokens = _list(sentence, f"sentence {s} is", "tokens")
        if not tokens:
            raise DataError(f"sentence {s} has no tokens")
        own = None if given is None else _list(given[s], f"the {name} of sentence {s} are", "them")
        if own is not None and len(own) != len(tokens):
            raise DataError(f"sentence {s} has {len(tokens)} tokens, but {len(own)} {name}")
        yield s, tokens, own


def _list(given: Any, what: str, of: str) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise DataError(f"{what} {given!r:.60}, not a list of {of}")
    return list(given)


@contextlib.contextmanager
def of_sentence(s: int) -> Iterator[None]:
    """An error in what is done with a sentence names it."""
    try:
        yield
    except DataError as e:
        raise DataError(f"sentence {s} {e}") from None


# ---- Words ---------------------------------------------------------------------------------------


def _columns(token: str | tuple[str, ...]) -> tuple[str, ...]:
    row = (token,) if isinstance(token, str) else token
    if not row:
        raise DataError(f"has an empty tuple: {_KINDS}")
    for each in row:
        field(each)
    if row[0] == "-DOCSTART-":
        raise DataError("has '-DOCSTART-', which marks documents in files")
    return row


def field(text: Any) -> str:
    """A field of a file, checked."""
    if not isinstance(text, str) or not text or _BREAK.search(text):
        raise DataError(f"has {text!r:.60}: a field is text without tabs and line breaks")
    return text


def _tag(tag: Any) -> str:
    if isinstance(tag, str) and not tag.strip(" "):
        raise DataError(f"has the tag {tag!r}")
    return field(tag)


def encoded(lines: list[str]) -> bytes:
    """Lines as UTF-8."""
    try:
        return "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as e:
        raise DataError(f"{e.object[e.start]!r} is half a character (a lone surrogate)") from None


# ---- Features ------------------------------------------------------------------------------------


class _Fields(dict[tuple[str, Any], str]):
    """What the items of tokens, (name, value), are in a line of a CRFsuite file; made once each."""

    def __missing__(self, item: tuple[str, Any]) -> str:
        self[item] = found = _fields(dict([item]))
        return found

    def line(self, tag: str, token: Any) -> str:
        try:
            fields = "\t".join(filter(None, map(self.__getitem__, _items(token))))
        except TypeError:  # a value that is a dict, list or set cannot be looked up
            fields = _fields(token)
        line = f"{tag}\t{fields}"
        return line + "\t" if line.count("\t") == 9 else line  # ten fields may pass for CoNLL-U


def _fields(token: Any) -> str:
    fields = []
    for name, value in attributes(token):
        name = name.translate(_ESCAPES)
        if value == 1.0 and name:
            fields.append(name)
        elif value:  # a feature of value 0 is none
            fields.append(f"{name}:{value!r}")
    return "\t".join(fields)


def attributes(token: Any) -> Iterator[tuple[str, float]]:
    """(name, value) of the features of a token, as python-crfsuite takes them.

    {"k": "v"} is k:v with value 1, {"k": 2.5} is k with this value, {"k": True} k with 1; a nested
    dict, list or set {"k": ["a", "b"]} is k:a and k:b; ["a", "b"] is a and b with value 1.
    """
    for key, value in _items(token):
        if not isinstance(key, str):
            raise DataError(f"has {key!r:.60} for a feature: its name is a str")
        if isinstance(value, str):
            yield f"{key}:{value}", 1.0
        elif isinstance(value, Mapping | list | set | frozenset):
            for name, inner in attributes(value):
                yield f"{key}:{name}", inner
        else:
            yield key, _number(key, value)


def _items(token: Any) -> Iterable[tuple[Any, Any]]:
    """Names and values; what has only a name is true."""
    if isinstance(token, Mapping):
        return token.items()
    if isinstance(token, set | frozenset):
        token = sorted(token, key=str)  # the same order in every process
    if not isinstance(token, list):
        raise DataError(f"has {token!r:.60}: {_KINDS}")
    return zip(token, repeat(True))


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bytes) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"has feature {name!r:.60} with value {value!r:.60}: "
            "a value is text, a number, true or false, or a dict, list or set of features"
        )
    return number
