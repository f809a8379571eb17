"""Documents from annotated CoNLL-U, one or many in a block."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.export import PROBABILITIES
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.documents.document import Document, Entity, Multiword, Sentence, Token

_SHOWN = (
    *(Conll.WORD, Conll.LEMMA, Conll.UPOS, Conll.XPOS, Conll.FEATS),
    *(Conll.HEAD, Conll.DEPREL, Conll.MISC),
)
# Begins with a line break, which is searched for faster than the begin of a line.
_RANGE = re.compile(rb"\n([0-9]+)-([0-9]+)\t([^\t\n]*)\t[^\n]*\t([^\t\n]*)(?=\n)")
_TEXT = re.compile(r"^# text = (.*)$", re.MULTILINE)

Notes = dict[str, str]  # of MISC
Place = tuple[int, int]  # first character, and the one behind the last


def document(text: str, block: Block, pipeline: Any = None) -> Document:
    """The document of an annotated block, which has offsets in MISC (corpus/text.to_conllu)."""
    return documents([text], [block.n_sentences], block, pipeline)[0]


def documents(
    texts: list[str], counts: list[int], block: Block, pipeline: Any = None
) -> list[Document]:
    """The documents of a block that has `counts` sentences of each text, one after the other."""
    rows = list(zip(*map(block.strings, _SHOWN), strict=True))
    ranges = _ranges(block)
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
            sentence = _sentence(text, at, rows[a:b], ranges.get(a, []), number, next(whole, None))
            sentences.append(sentence)
            at = sentence.end
        found.append(Document(text, sentences, own, pipeline))
        begin = end
    return found


def _ranges(block: Block) -> dict[int, list[tuple[int, int, str, Notes]]]:
    """Multiword tokens by the number in the block of their sentence's first word: first and last
    word in the sentence, form and notes."""
    begins = block.starts[block.first]  # of each word's line
    found: dict[int, list[tuple[int, int, str, Notes]]] = {}
    for match in _RANGE.finditer(b"\n" + block.buf.tobytes()):
        first = int(np.searchsorted(begins, match.start()))
        a = first - int(match[1]) + 1
        token = int(match[1]), int(match[2]), match[3].decode(), _notes(match[4].decode())
        found.setdefault(a, []).append(token)
    return found


def _sentence(
    text: str,
    at: int,
    rows: list[tuple[str, ...]],
    ranges: list[tuple[int, int, str, Notes]],
    number: int,
    whole: str | None,
) -> Sentence:
    """at: where the sentence before it ended in the text."""
    notes = [_notes(row[-1]) for row in rows]
    multiwords: list[Multiword] = []
    inside: dict[int, Place] = {}
    for first, last, form, own in ranges:
        start, end = _place(text, at, form, own)
        multiwords.append(Multiword(form, first, last, start, end))
        words = [row[0] for row in rows[first - 1 : last]]
        inside |= dict(zip(range(first - 1, last), _shared(words, form, start, end), strict=True))
    tokens = []
    for i, (form, lemma, upos, xpos, feats, head, label, misc) in enumerate(rows):
        start, at = inside.get(i) or _place(text, at, form, notes[i])
        tokens.append(
            Token(
                i + 1,
                form,
                start,
                at,
                _given(upos),
                _given(xpos),
                None if head == "_" else int(head),
                _given(label),
                notes[i].get("NER"),
                _probabilities(misc, notes[i]),
                _given(lemma),
                {} if feats == "_" else _notes(feats),
            )
        )
    if whole is None:
        whole = " ".join(text[tokens[0].start : tokens[-1].end].split())
    return Sentence(whole, tokens, _entities(text, number, tokens, notes), number, multiwords)


def _notes(field: str) -> Notes:
    try:
        return dict([note.split("=", 1) for note in field.split("|")])
    except ValueError:  # a note without a value
        return dict(note.split("=", 1) for note in field.split("|") if "=" in note)


def _probabilities(misc: str, notes: Notes) -> dict[str, float]:
    if "Prob=" not in misc:
        return {}
    return {to: float(notes[name]) for name, to in PROBABILITIES.items() if name in notes}


def _given(field: str) -> str | None:
    return None if field == "_" else field


def _place(text: str, at: int, form: str, notes: Notes) -> Place:
    """Where a token stands in the text: as its notes say, or the first place behind `at`."""
    if "start_char" in notes and "end_char" in notes:
        return int(notes["start_char"]), int(notes["end_char"])
    start = text.find(form, at)
    return (at, at) if start < 0 else (start, start + len(form))


def _shared(words: list[str], form: str, start: int, end: int) -> list[Place]:
    """Where the words of a multiword token stand: side by side if they are what it is written of,
    else all in its place."""
    if "".join(words) != form or len(form) != end - start:
        return [(start, end)] * len(words)
    ends = list(accumulate(map(len, words), initial=start))
    return list(zip(ends, ends[1:], strict=False))


def _entities(text: str, sentence: int, tokens: list[Token], notes: list[Notes]) -> list[Entity]:
    tags = [t.ner or "O" for t in tokens]
    strings = sorted(set(tags))
    parsed = None if strings == ["O"] else schemes.parse(strings)
    if parsed is None:
        return []
    ids = np.array([strings.index(t) for t in tags], np.int32)
    found = schemes.spans(parsed.prefix[ids], parsed.type[ids], np.array([0, len(tags)]))
    out = []
    for a, b, kind in zip(
        found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True
    ):
        p = notes[a].get("EntityProb")
        where = tokens[a].start, tokens[b].end
        name = " ".join(text[slice(*where)].split())
        probability = None if p is None else float(p)
        out.append(Entity(parsed.types[kind], a, b + 1, name, sentence, *where, probability))
    return out
