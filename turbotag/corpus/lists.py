"""Python lists as files in memory: sentences with tags for taggers, with trees for parsers.

A sentence is a list of tokens. A tagger's token is a word (str), columns with the word first
(tuple), or features in the meaning that python-crfsuite gives them (dict, list or set). A parser's
token is a word (str), (word, upos, xpos) or the start of it (tuple), or a dict or an object with
fields of CoNLL-U.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """Sentences as a file would hold them: features in the format of CRFsuite; words with `width`
    columns and one more for the tag."""

    data: bytes
    features: bool
    width: int

    @property
    def format(self) -> str:
        return "crfsuite" if self.features else "columns"


def tagged(sentences: Iterable[Iterable[Token]], tags: Any = UNKNOWN) -> Tagged:
    """Sentences with their tags, or with _ for each."""
    data = (
        bytearray()
    )  # encoded sentence by sentence: strings of all sentences would take several times the memory
    known = _Fields()
    features, width = None, 0
    for s, tokens, own in _paired(sentences, tags, "tags"):
        lines: list[str] = []
        with _of_sentence(s):
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
        data += _encoded(lines)
    return Tagged(bytes(data), bool(features), width)


def weighed(
    sentences: Any, tags: Any, weights: Any
) -> tuple[list[Any], list[Any], tuple[float, ...]]:
    """Sentences that have a weight above 0, their tags and these weights; () if all are 1."""
    if weights is None:
        return sentences, tags, ()
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        numbers = [-1.0]
    if not all(0.0 <= number < math.inf for number in numbers):
        raise DataError("sample_weight is a list of numbers from 0 on, one for each sentence")
    if len(numbers) != len(sentences) or len(numbers) != len(tags):
        raise DataError(f"{len(sentences)} sentences, but sample_weight of {len(numbers)}")
    kept = [i for i, number in enumerate(numbers) if number]
    if not kept:
        raise DataError("all weights of sample_weight are 0")
    own = tuple(numbers[i] for i in kept)
    return [sentences[i] for i in kept], [tags[i] for i in kept], () if set(own) == {1.0} else own


_NAMES = {False: "words", True: "features"}


def _paired(
    sentences: Any, answers: Any, name: str, skip: Callable[[Any], bool] = lambda token: False
) -> Iterator[tuple[int, list[Any], list[Any] | None]]:
    """(number, tokens, answers) of every sentence, with one answer for each token, or None where
    answers is UNKNOWN."""
    every = listed(sentences, "the sentences are", "sentences, each a list of tokens")
    given = None if answers is UNKNOWN else listed(answers, f"the {name} are", "lists")
    if given is not None and len(given) != len(every):
        raise DataError(f"{len(every)} sentences, but {name} of {len(given)}")
    for s, sentence in enumerate(every):
        tokens = [t for t in listed(sentence, f"sentence {s} is", "tokens") if not skip(t)]
        if not tokens:
            raise DataError(f"sentence {s} has no tokens")
        own = None if given is None else listed(given[s], f"the {name} of sentence {s} are", "them")
        if own is not None and len(own) != len(tokens):
            raise DataError(f"sentence {s} has {len(tokens)} tokens, but {len(own)} {name}")
        yield s, tokens, own


def listed(given: Any, what: str, of: str) -> list[Any]:
    """Anything that can be gone through once as a list; DataError for texts, dicts and the rest."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise DataError(f"{what} {given!r:.60}, not a list of {of}")
    return list(given)


@contextlib.contextmanager
def _of_sentence(s: int) -> Iterator[None]:
    """An error that is raised inside names the sentence."""
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
        _field(each)
    if row[0] == "-DOCSTART-":
        raise DataError("has '-DOCSTART-', which marks documents in files")
    return row


def _field(text: Any) -> str:
    """A field of a file, checked."""
    if not isinstance(text, str) or not text or _BREAK.search(text):
        told = "a field is text without tabs and line breaks, and not empty"
        raise DataError(f"has {text!r:.60}: {told}")
    return text


def _tag(tag: Any) -> str:
    if isinstance(tag, str) and not tag.strip(" "):
        raise DataError(f"has the tag {tag!r}")
    return _field(tag)


def _encoded(lines: list[str]) -> bytes:
    """Lines as UTF-8."""
    try:
        return "\n".join([*lines, ""]).encode()
    except UnicodeEncodeError as e:
        raise DataError(f"{e.object[e.start]!r} is half a character (a lone surrogate)") from None


# ---- Trees ---------------------------------------------------------------------------------------


def conllu(sentences: Any, trees: Any = UNKNOWN) -> bytes:
    """Sentences with their trees, lists of (head, label), or with _ for them. Multiword ranges and
    empty nodes are left out."""
    lines: list[str] = []
    for s, tokens, tree in _paired(sentences, trees, "heads", _is_no_word):
        with _of_sentence(s):
            arcs = ["_\t_"] * len(tokens) if tree is None else map(_arc, tree)
            for t, (token, arc) in enumerate(zip(tokens, arcs, strict=True), 1):
                lines.append("\t".join([str(t), *_word(token), arc, "_", "_"]))
        lines.append("")
    return _encoded(lines)


FORM = ("form", "text", "word")  # what the word itself may be called
_KNOWN = {
    *("id", *FORM, "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"),
    *("start", "end", "start_char", "end_char", "label", "ner", "probabilities"),  # of documents
}
_WORDS = (
    "a token is a word (str), (word, upos, xpos) or the start of it (tuple), or a dict or an "
    "object with form, lemma, upos, xpos and feats, as far as they are known"
)


def _word(token: Any) -> list[str]:
    """form, lemma, upos, xpos and feats of a token, _ for what it does not have."""
    get = _getter(token)
    form = next((found for name in FORM if (found := get(name))), None)
    if not isinstance(form, str):
        raise DataError(f"has {token!r:.60}: {_WORDS}")
    others = [_text(name, get(name)) for name in ("lemma", "upos", "xpos")]
    return [_field(form), *others, _text("feats", _feats(get("feats")))]


def _getter(token: Any) -> Callable[[str], Any]:
    """A function that gives a field of a token by name, None where there is none."""
    if isinstance(token, str):
        token = (token,)
    if isinstance(token, tuple | list) and not hasattr(token, "_fields"):  # of a named tuple
        if len(token) > 3:
            raise DataError(f"has {token!r:.60}: {_WORDS}")
        return dict(zip(("form", "upos", "xpos"), token, strict=False)).get
    if isinstance(token, Mapping):
        unknown = [name for name in token if name not in _KNOWN]
        if unknown:
            raise DataError(f"has a token with {unknown[0]!r:.60}, no field of CoNLL-U: {_WORDS}")
        return token.get
    return lambda name: getattr(token, name, None)


def _is_no_word(token: Any) -> bool:
    """Whether a token is a multiword range or an empty node of CoNLL-U: its id tells."""
    number = token.get("id") if isinstance(token, Mapping) else getattr(token, "id", None)
    if isinstance(number, str):
        return "-" in number or "." in number
    return isinstance(number, tuple) and len(number) > 1  # of the conllu package


def _text(name: str, value: Any) -> str:
    if value is None or value == "":
        return "_"
    if not isinstance(value, str):
        raise DataError(f"has {value!r:.60} for {name}, which is text")
    return _field(value)


def _feats(feats: Any) -> Any:
    """Features as CoNLL-U writes them, in alphabetical order."""
    if not isinstance(feats, Mapping):
        return feats
    pairs = []
    for name in sorted(feats, key=lambda name: str(name).lower()):
        value = feats[name]
        if isinstance(value, set | frozenset | list | tuple):  # several values
            value = ",".join(map(str, sorted(value, key=str)))
        pairs.append(f"{name}={_text(f'feature {name!r}', value)}")
    return "|".join(pairs)


def _arc(arc: Any) -> str:
    if not isinstance(arc, tuple | list) or len(arc) != 2:
        raise DataError(f"has {arc!r:.60} in its tree, which is a list of (head, label)")
    return f"{arc[0]}\t{_field(arc[1])}"


# ---- Features ------------------------------------------------------------------------------------


class _Fields(dict[tuple[str, Any], str]):
    """The fields of a CRFsuite file that items of tokens, (name, value), become; each is made
    once."""

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
    """Names and values of the features of a token; a feature that has only a name is true."""
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
