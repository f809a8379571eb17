"""What a pipeline found in a text, as plain objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.corpus.text import Token as Surface


@dataclass(frozen=True)
class Token:
    """A syntactic word.

    id: 1, 2, ... in its sentence; start, end: where it stands in the text (contractions such as
    don't are two words); head: the id of its head, 0 for the root; None is what no model gave.
    probabilities: that upos, xpos, ner, head and label are right, each on its own.
    """

    id: int
    text: str
    start: int
    end: int
    upos: str | None = None
    xpos: str | None = None
    head: int | None = None
    label: str | None = None
    ner: str | None = None
    probabilities: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Entity:
    """Tokens start..end-1 of a sentence, counted from 0, that are one entity.

    sentence: the number of the sentence in its document, from 0, so doc[e.sentence][e.start:e.end]
    are its tokens; start_char, end_char: where it stands in the document's text; text: what stands
    there, with one blank for any white space.
    """

    type: str
    start: int
    end: int
    text: str
    sentence: int
    start_char: int
    end_char: int
    probability: float | None = None


@dataclass(frozen=True)
class Sentence(Sequence[Token]):
    """A sequence of tokens, with the entities among them."""

    text: str
    tokens: list[Token]
    entities: list[Entity]

    @overload
    def __getitem__(self, at: int) -> Token: ...
    @overload
    def __getitem__(self, at: slice) -> list[Token]: ...
    def __getitem__(self, at: int | slice) -> Token | list[Token]:
        return self.tokens[at]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Document(Sequence[Sentence]):
    """A sequence of sentences: a text, what was found in it, and all of that as CoNLL-U."""

    text: str
    sentences: list[Sentence]
    conllu: str

    @property
    def tokens(self) -> list[Token]:
        """Those of all sentences."""
        return [t for s in self.sentences for t in s.tokens]

    @property
    def entities(self) -> list[Entity]:
        """Those of all sentences."""
        return [e for s in self.sentences for e in s.entities]

    @overload
    def __getitem__(self, at: int) -> Sentence: ...
    @overload
    def __getitem__(self, at: slice) -> list[Sentence]: ...
    def __getitem__(self, at: int | slice) -> Sentence | list[Sentence]:
        return self.sentences[at]

    def __len__(self) -> int:
        return len(self.sentences)


PROBABILITIES = {
    "UposProb": "upos",
    "XposProb": "xpos",
    "TagProb": "ner",
    "HeadProb": "head",
    "LabelProb": "label",
}


def document(text: str, surface: list[list[Surface]], block: Block) -> Document:
    """The document of an annotated block, whose words are those of `surface`."""
    shown = Conll.WORD, Conll.UPOS, Conll.XPOS, Conll.HEAD, Conll.DEPREL, Conll.MISC
    columns = [block.strings(column) for column in shown]
    sentences: list[Sentence] = []
    cuts = block.sentences.tolist()
    conllu = block.buf.tobytes().decode()
    texts = iter(re.findall(r"^# text = (.*)$", conllu, re.MULTILINE))
    for tokens, a, b in zip(surface, cuts, cuts[1:], strict=False):
        spans = [span for token in tokens for span in _spans(token)]
        rows = zip(*(column[a:b] for column in columns), strict=True)
        notes: list[dict[str, str]] = []
        found = []
        for i, (form, upos, xpos, head, label, misc) in enumerate(rows):
            notes.append(dict(n.split("=", 1) for n in misc.split("|") if "=" in n))
            found.append(
                Token(
                    i + 1,
                    form,
                    *spans[i],
                    _given(upos),
                    _given(xpos),
                    int(head) if head != "_" else None,
                    _given(label),
                    notes[-1].get("NER"),
                    {to: float(notes[-1][k]) for k, to in PROBABILITIES.items() if k in notes[-1]},
                )
            )
        whole = next(texts, " ".join(text[spans[0][0] : spans[-1][1]].split()))
        entities = _entities(text, len(sentences), found, notes)
        sentences.append(Sentence(whole, found, entities))
    return Document(text, sentences, conllu)


def _given(field: str) -> str | None:
    return None if field == "_" else field


def _spans(token: Surface) -> list[tuple[int, int]]:
    """Where the words of a token stand in the text."""
    out, at = [], token.start
    for word in token.words:
        out.append((at, at + len(word)))
        at += len(word)
    return out


def _entities(
    text: str, sentence: int, tokens: list[Token], notes: list[dict[str, str]]
) -> list[Entity]:
    tags = [t.ner or "O" for t in tokens]
    strings = sorted(set(tags))
    parsed = schemes.parse(strings)
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
