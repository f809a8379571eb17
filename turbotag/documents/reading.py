"""Documents from annotated CoNLL-U, one or many in a block."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.export import PROBABILITIES
from turbotag.corpus.formats import Conll
from turbotag.corpus.notes import Note, notes
from turbotag.corpus.reader import Block, Column
from turbotag.documents.document import Document, Entity, Multiword, Sentence, Token

NOTES = ("start_char", "end_char", "NER", "EntityProb", *PROBABILITIES)
# The pattern begins with a line break, which is found faster than the beginning of a line.
_RANGE = re.compile(rb"\n([0-9]+)-([0-9]+)\t([^\t\n]*)\t[^\n]*\t([^\t\n]*)(?=\n)")
_PLACE = re.compile(r"(?:.*\|)?start_char=([0-9]+)\|end_char=([0-9]+)(?:\|.*)?")
_TEXT = re.compile(r"^# text = (.*)$", re.MULTILINE)

Place = tuple[int, int]  # first character, and the one behind the last
Value = TypeVar("Value")


def document(text: str, block: Block, pipeline: Any = None) -> Document:
    """The document of an annotated block, which has offsets in MISC (corpus/text.to_conllu)."""
    return documents([text], [block.n_sentences], block, pipeline)[0]


def documents(
    texts: list[str], counts: list[int], block: Block, pipeline: Any = None
) -> list[Document]:
    """The documents of a block that has the sentences of all texts, one text after the other, and
    counts[i] sentences of texts[i]."""
    words = _Words(block)
    conllu, cuts = block.buf.tobytes(), block.sentences.tolist()
    found: list[Document] = []
    begin = 0
    for text, last in zip(texts, accumulate(counts), strict=True):
        first = last - counts[len(found)]
        end = int(block.line_ends[cuts[last] - 1]) + 2 if last > first else begin
        own = conllu[begin:end].decode()
        whole = iter(_TEXT.findall(own))
        sentences, at = [], 0
        for number in range(last - first):
            a, b = cuts[first + number], cuts[first + number + 1]
            multiwords = words.place(text, at, a, b)
            at = words.ends[b - 1]
            told = next(whole, None)
            if told is None:
                told = _spaced(text, words.starts[a], at)
            entities = words.entities(text, number, a, b)
            sentences.append(Sentence(told, words.tokens(a, b), entities, number, multiwords))
        found.append(Document(text, sentences, own, pipeline))
        begin = end
    return found


class _Words:
    """The words of a block, as a list for each field. A list is made from its whole column at once:
    numbers and distinct values are read by kernels, which do not hold Python's lock."""

    def __init__(self, block: Block):
        starts, ends, ner, self._entity, *chances = notes(block, *NOTES)
        # where words stand in their texts; -1, until `place` finds it, where no note says it
        self.starts, self.ends = starts.numbers().tolist(), ends.numbers().tolist()
        self.forms = block.strings(Conll.WORD)
        tags = ner.column()
        self._fields: list[list[Any]] = [
            _values(block.column(Conll.UPOS), _given),
            _values(block.column(Conll.XPOS), _given),
            _values(block.column(Conll.HEAD), lambda head: None if head == "_" else int(head)),
            _values(block.column(Conll.DEPREL), _given),
            _values(tags, lambda tag: tag or None),
            _probabilities(chances),
            _values(block.column(Conll.LEMMA), _given),
            [feats.copy() for feats in _values(block.column(Conll.FEATS), _features)],
        ]
        self._multiwords = _multiwords(block)
        self._spans = _spans(tags, block.sentences)

    def tokens(self, a: int, b: int) -> list[Token]:
        """The words a..b-1 of the block, a sentence, after `place`."""
        fields = (own[a:b] for own in (self.forms, self.starts, self.ends, *self._fields))
        return list(map(Token, range(1, b - a + 1), *fields))

    def place(self, text: str, at: int, a: int, b: int) -> list[Multiword]:
        """Find where the words a..b-1, a sentence, stand in the text from the character `at` on;
        return the multiword tokens of the sentence."""
        ranges = self._multiwords.get(a, {})
        if not ranges and -1 not in self.starts[a:b] and -1 not in self.ends[a:b]:
            return []
        made = []
        n = a
        while n < b:
            if n in ranges:
                behind, form, noted = ranges[n]
                start, at = noted or _find(text, at, form)
                made.append(Multiword(form, n - a + 1, behind - a, start, at))
                for place in _shared(self.forms[n : min(behind, b)], form, start, at):
                    self.starts[n], self.ends[n] = place
                    n += 1
                continue
            if self.starts[n] < 0 or self.ends[n] < 0:
                self.starts[n], self.ends[n] = _find(text, at, self.forms[n])
            at = self.ends[n]
            n += 1
        return made

    def entities(self, text: str, sentence: int, a: int, b: int) -> list[Entity]:
        """The entities of the words a..b-1, a sentence, after `place`."""
        made = []
        for first, last, kind in self._spans[bisect_left(self._spans, (a,)) :]:
            if first >= b:
                break
            where = self.starts[first], self.ends[last]
            p = self._entity.text(first)
            probability = None if p is None else float(p)
            name = _spaced(text, *where)
            made.append(Entity(kind, first - a, last - a + 1, name, sentence, *where, probability))
        return made


def _values(column: Column, value: Callable[[str], Value]) -> list[Value]:
    """The value of each word's string; `value` is called once for each distinct string."""
    values = [value(string) for string in column.strings]
    return [values[i] for i in column.ids.tolist()]


def _given(field: str) -> str | None:
    return None if field == "_" else field


def _features(feats: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in feats.split("|") if "=" in each)  # type: ignore[misc]


def _probabilities(noted: list[Note]) -> list[dict[str, float]]:
    """The probabilities of each word, by the name of the field; noted: in the order of
    PROBABILITIES."""
    found: list[dict[str, float]] = [{} for _ in range(noted[0].starts.size)]
    for to, note in zip(PROBABILITIES.values(), noted, strict=True):
        if note.given.any():
            chances = _values(note.column(), lambda p: float(p) if p else None)
            for own, p in zip(found, chances, strict=True):
                if p is not None:
                    own[to] = p
    return found


def _spans(tags: Column, sentences: np.ndarray) -> list[tuple[int, int, str]]:
    """(first word, last word, type) of each span; a tag that is no span tag counts as O."""
    strings = [tag if tag and schemes.parse([tag]) else "O" for tag in tags.strings]
    parsed = schemes.parse(strings)
    if parsed is None or not parsed.types:
        return []
    found = schemes.spans(parsed.prefix[tags.ids], parsed.type[tags.ids], sentences)
    columns = (c.tolist() for c in (found.start, found.end, found.type))
    return [(a, b, parsed.types[kind]) for a, b, kind in zip(*columns, strict=True)]


def _multiwords(block: Block) -> dict[int, dict[int, tuple[int, str, Place | None]]]:
    """Multiword tokens: for the first word of a sentence and the first word of the token, the word
    behind the token, its form, and its place if a note says it. Words are counted in the block."""
    begins = block.starts[block.first]  # of each word's line
    found: dict[int, dict[int, tuple[int, str, Place | None]]] = {}
    for match in _RANGE.finditer(b"\n" + block.buf.tobytes()):
        first = int(np.searchsorted(begins, match.start()))
        a = first - int(match[1]) + 1
        place = _PLACE.fullmatch(match[4].decode())
        noted = (int(place[1]), int(place[2])) if place else None
        found.setdefault(a, {})[first] = a + int(match[2]), match[3].decode(), noted
    return found


def _spaced(text: str, start: int, end: int) -> str:
    """A part of a text with one blank for any white space."""
    return " ".join(text[start:end].split())


def _find(text: str, at: int, form: str) -> Place:
    """The first place of a form behind `at`."""
    start = text.find(form, at)
    return (at, at) if start < 0 else (start, start + len(form))


def _shared(words: list[str], form: str, start: int, end: int) -> list[Place]:
    """Where the words of a multiword token stand: side by side if their forms together are the form
    of the token, else all at the place of the token."""
    if "".join(words) != form or len(form) != end - start:
        return [(start, end)] * len(words)
    ends = list(accumulate(map(len, words), initial=start))
    return list(zip(ends, ends[1:], strict=False))
