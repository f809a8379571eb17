"""Documents, sentences, tokens and entities as plain objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas
    import spacy
    from conllu.models import SentenceList


@dataclass(frozen=True)
class Token:
    """A syntactic word.

    id: 1, 2, ... in its sentence; start, end: where it stands in the text (the words of a
    contraction such as don't all have the place of the contraction, or divide it among them);
    feats: morphological features; head: the id of its head, 0 for the root. A field that no model
    gave is None. probabilities: if asked for, of each of upos, xpos, ner, head and label that it is
    right.
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
    lemma: str | None = None
    feats: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Multiword:
    """A token that stands for several words, such as don't; first, last: the ids of the first and
    of the last of these words."""

    text: str
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True)
class Entity:
    """Tokens start..end-1 of a sentence, counted from 0, that are one entity.

    sentence: the number of the sentence in its document, from 0, so doc[e.sentence][e.start:e.end]
    are the tokens of entity e; start_char, end_char: where it stands in the document's text; text:
    what stands there, with one blank for any white space.
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
class Span(Sequence[Token]):
    """Neighbouring tokens of a sentence: a slice of it.

    sentence: the number of the sentence in its document, from 0; start: the number of the first
    token in the sentence, from 0.
    """

    tokens: list[Token]
    sentence: int
    start: int

    @overload
    def __getitem__(self, at: int) -> Token: ...
    @overload
    def __getitem__(self, at: slice) -> list[Token]: ...
    def __getitem__(self, at: int | slice) -> Token | list[Token]:
        return self.tokens[at]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def end(self) -> int:
        """The number of the token behind the last, from 0."""
        return self.start + len(self.tokens)

    @property
    def start_char(self) -> int:
        """Where the span begins in the document's text."""
        return self.tokens[0].start if self.tokens else 0

    @property
    def end_char(self) -> int:
        """Where the span ends in the document's text."""
        return self.tokens[-1].end if self.tokens else 0

    @property
    def text(self) -> str:
        """The words of the span, with one blank where white space stands between them."""
        pieces: list[str] = []
        at = self.start_char
        for token in self.tokens:
            blank = " " if token.start > at else ""
            if token.start >= at or not pieces:  # else it shares the place of the word before it
                pieces.append(blank + token.text)
            at = token.end
        return "".join(pieces)


@dataclass(frozen=True)
class Sentence(Sequence[Token]):
    """A sequence of tokens, with the entities and the multiword tokens among them.

    number: of the sentence in its document, from 0. A slice of a sentence is a `Span`.
    """

    text: str
    tokens: list[Token]
    entities: list[Entity]
    number: int = 0
    multiwords: list[Multiword] = field(default_factory=list)

    @overload
    def __getitem__(self, at: int) -> Token: ...
    @overload
    def __getitem__(self, at: slice) -> Span: ...
    def __getitem__(self, at: int | slice) -> Token | Span:
        if isinstance(at, slice):
            return Span(self.tokens[at], self.number, at.indices(len(self.tokens))[0])
        return self.tokens[at]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def start(self) -> int:
        """Where the sentence begins in the document's text."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Where the sentence ends in the document's text."""
        return self.tokens[-1].end

    def to_dict(self) -> dict[str, Any]:
        """The sentence as a dict, for JSON."""
        return {
            "text": self.text,
            "start": self.start,
            "end": self.end,
            "tokens": [vars(token).copy() for token in self.tokens],
            "multiwords": [asdict(multiword) for multiword in self.multiwords],
            "entities": [asdict(entity) for entity in self.entities],
        }

    def _repr_html_(self) -> str:
        from turbotag.documents.pictures import html

        return html([self])


@dataclass(frozen=True)
class Document(Sequence[Sentence]):
    """A sequence of sentences: a text, what was found in it, and all of that as CoNLL-U.

    A notebook draws a document. pipeline: the models that annotated it, which `turbotag.explain`
    asks; a pickled document is without them.
    """

    text: str
    sentences: list[Sentence]
    conllu: str
    pipeline: Any = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"pipeline": None}

    @property
    def tokens(self) -> list[Token]:
        """The tokens of all sentences."""
        return [t for s in self.sentences for t in s.tokens]

    @property
    def entities(self) -> list[Entity]:
        """The entities of all sentences."""
        return [e for s in self.sentences for e in s.entities]

    @overload
    def __getitem__(self, at: int) -> Sentence: ...
    @overload
    def __getitem__(self, at: slice) -> list[Sentence]: ...
    def __getitem__(self, at: int | slice) -> Sentence | list[Sentence]:
        return self.sentences[at]

    def __len__(self) -> int:
        return len(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """The document as a dict, for JSON: the text, and its sentences with tokens, multiwords and
        entities."""
        return {"text": self.text, "sentences": [s.to_dict() for s in self.sentences]}

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)

    def to_conllu(self) -> SentenceList:
        """The sentences as the conllu package has them, a TokenList each."""
        import conllu

        return conllu.parse(self.conllu)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each word: the number of its sentence (from 0), its fields, and its
        probabilities in columns such as upos_probability."""
        import pandas

        rows = []
        for sentence in self.sentences:
            for token in sentence.tokens:
                row = {"sentence": sentence.number, **vars(token)}
                chances = row.pop("probabilities")
                rows.append(row | {f"{name}_probability": p for name, p in chances.items()})
        return pandas.DataFrame(rows)

    def to_spacy(self, vocab: spacy.vocab.Vocab) -> spacy.tokens.Doc:
        """A Doc of spaCy with the same text: tags, morphology, lemmas, trees and entities. White
        space beyond one blank becomes tokens, as spaCy has it."""
        from turbotag.documents.spacy import to_spacy

        return to_spacy(self, vocab)

    def _repr_html_(self) -> str:
        from turbotag.documents.pictures import html

        return html(self.sentences)
