"""Documents as Docs of spaCy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import spacy

from turbotag.documents.document import Document, Sentence, Token

ROOT = "ROOT"  # what spaCy calls the label root
SPACE = "SPACE"


@dataclass(frozen=True)
class Unit:
    """One token of spaCy: a word, several words that share a place in the text (em and o in
    Portuguese no), or white space."""

    text: str
    start: int
    end: int
    sentence: int
    words: list[Token]

    @property
    def word(self) -> Token:
        """The word whose annotation the token gets: of several, the one whose head is outside the
        token."""
        ids = {word.id for word in self.words}
        return next((w for w in self.words if w.head not in ids), self.words[0])


def to_spacy(doc: Document, vocab: spacy.vocab.Vocab) -> spacy.tokens.Doc:
    units = list(_units(doc))
    at = {(u.sentence, word.id): n for n, u in enumerate(units) for word in u.words}
    heads, deps, starts, before = [], [], [], -1
    for n, unit in enumerate(units):
        word = unit.word if unit.words else None
        if word is None:  # white space belongs to the token before it, or to the one behind it
            heads.append(n - 1 if n else min(n + 1, len(units) - 1))
            deps.append("dep")
        else:
            head = at[unit.sentence, word.head] if word.head else n
            heads.append(head)
            deps.append(ROOT if word.head == 0 else word.label or "")
        starts.append(bool(unit.words) and unit.sentence != before)
        before = unit.sentence if unit.words else before
    given = [unit.word if unit.words else None for unit in units]
    has = _given(given)
    annotations: dict[str, Any] = {}
    if has["upos"]:
        annotations["pos"] = [SPACE if w is None else w.upos or "" for w in given]
    if has["xpos"]:
        annotations["tags"] = ["_SP" if w is None else w.xpos or "" for w in given]
    if has["lemma"]:
        annotations["lemmas"] = [_lemma(unit) for unit in units]
    if has["feats"]:
        annotations["morphs"] = ["" if w is None else morph(w.feats) for w in given]
    if has["head"]:
        annotations |= {"heads": heads, "deps": deps}
    else:
        annotations["sent_starts"] = starts
    made = spacy.tokens.Doc(vocab, *_words(doc.text, units), **annotations)
    if has["ner"]:
        made.set_ents(list(_entities(doc, made, at)), default="outside")
    return made


def morph(feats: dict[str, str]) -> str:
    """Morphological features as CoNLL-U and spaCy write them."""
    return "|".join(f"{name}={value}" for name, value in feats.items())


def _given(words: list[Token | None]) -> dict[str, bool]:
    """For each field whether any word has it."""
    return {
        name: any(w is not None and getattr(w, name) not in (None, {}) for w in words)
        for name in ("upos", "xpos", "lemma", "feats", "head", "ner")
    }


def _lemma(unit: Unit) -> str:
    return " ".join(w.lemma or w.text for w in unit.words) if unit.words else unit.text


def _units(doc: Document) -> Iterator[Unit]:
    """The tokens of spaCy: words and, between them, white space that is more than one blank."""
    at = 0
    for sentence in doc.sentences:
        for unit in _of_sentence(sentence, doc.text):
            gap = doc.text[at : unit.start]
            space = gap[1:] if at and gap.startswith(" ") else gap
            if space:
                yield Unit(space, unit.start - len(space), unit.start, sentence.number, [])
            yield unit
            at = unit.end
    gap = doc.text[at:]
    space = gap[1:] if at and gap.startswith(" ") else gap
    if space:
        yield Unit(space, len(doc.text) - len(space), len(doc.text), len(doc.sentences) - 1, [])


def _of_sentence(sentence: Sentence, text: str) -> Iterator[Unit]:
    words: list[Token] = []
    for token in sentence.tokens:
        if words and (token.start, token.end) != (words[0].start, words[0].end):
            yield _unit(words, sentence.number, text)
            words = []
        words.append(token)
    yield _unit(words, sentence.number, text)


def _unit(words: list[Token], sentence: int, text: str) -> Unit:
    start, end = words[0].start, words[0].end
    return Unit(text[start:end], start, end, sentence, words)


def _words(text: str, units: list[Unit]) -> tuple[list[str], list[bool]]:
    """The tokens, and whether a blank stands behind each."""
    blanks = [text[u.end : u.end + 1] == " " for u in units]
    return [u.text for u in units], blanks


def _entities(
    doc: Document, made: spacy.tokens.Doc, at: dict[tuple[int, int], int]
) -> Iterator[spacy.tokens.Span]:
    for e in doc.entities:
        first, last = at[e.sentence, e.start + 1], at[e.sentence, e.end]
        yield spacy.tokens.Span(made, first, last + 1, label=e.type)
