"""The work of the component of spaCy (integrations/spacy.py).

It writes tags, morphology, lemmas, trees, sentence starts and entities into Docs with spaCy's own
tokens, as far as the model gives them; annotation that the model does not give stays as it is.
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import srsly
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, TAG
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc, Span

from turbotag.corpus import lists
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes
from turbotag.corpus.text import segment
from turbotag.documents.document import Document, Token
from turbotag.documents.reading import documents
from turbotag.documents.spacy import ROOT, SPACE, morph
from turbotag.errors import UsageError
from turbotag.models.model import Output
from turbotag.models.pipeline import Pipeline, load_model, pipeline
from turbotag.models.prediction import annotate

_BREAK = re.compile(r"[\t\n\r\0]")  # characters that no field of CoNLL-U can hold
Words = list[int]  # the tokens of a sentence that are words, by their number in the Doc


class Annotator:
    """Annotates Docs. The models are read when they are first used. They are saved with a pipeline
    of spaCy, so that the folder of the pipeline needs no other file."""

    def __init__(self, model: str = "en", batch_size: int = 256):
        self.model, self.batch_size = model, batch_size
        self._stages: Pipeline | None = None

    @property
    def stages(self) -> Pipeline:
        if self._stages is None:
            self._stages = pipeline(self.model)
        return self._stages

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], batch_size: int | None = None) -> Iterator[Doc]:
        """Annotate Docs in batches. batch_size: that of spaCy, whose default is for other
        components, so that a smaller one than the component's own is not used."""
        for batch in spacy.util.minibatch(stream, max(self.batch_size, batch_size or 0)):
            self._annotate(batch)
            yield from batch

    def _annotate(self, docs: list[Doc]) -> None:
        if not all(map(_is_tagged, docs)):
            self.stages.check_raw()
        cut = [_sentences(doc) for doc in docs]
        words = [
            [[_word(doc[i]) for i in s] for s in found]
            for doc, found in zip(docs, cut, strict=True)
        ]
        data = b"".join(lists.conllu(sentences) for sentences in words if sentences)
        if not data:
            return
        block = from_bytes(data, "<spaCy>", CONLLU)
        data = annotate(self.stages, block, self.stages.extractor, Output())
        texts, counts = [doc.text for doc in docs], [len(found) for found in cut]
        annotated = documents(texts, counts, from_bytes(data, "<spaCy>", CONLLU))
        for doc, sentences, found in zip(docs, cut, annotated, strict=True):
            _write(doc, sentences, found)

    # ---- What spaCy's to_disk, to_bytes and their counterparts call ------------------------------

    def to_disk(self, path: str | Path, *, exclude: Any = ()) -> None:
        """Write the models into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        for n, stage in enumerate(self.stages.models):
            stage.save(str(folder / f"{n}.model"))

    def from_disk(self, path: str | Path, *, exclude: Any = ()) -> Annotator:
        """Read the models of a folder in their order."""
        files = sorted(Path(path).glob("*.model"), key=lambda file: int(file.stem))
        if not files:
            raise UsageError(f"{path} has no models of turbotag")
        self._stages = Pipeline([load_model(str(file)) for file in files])
        return self

    def to_bytes(self, *, exclude: Any = ()) -> bytes:
        """The models as bytes."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = sorted(Path(folder).iterdir(), key=lambda file: int(file.stem))
            return srsly.msgpack_dumps([file.read_bytes() for file in files])

    def from_bytes(self, data: bytes, *, exclude: Any = ()) -> Annotator:
        """The models from bytes."""
        with tempfile.TemporaryDirectory() as folder:
            for n, each in enumerate(srsly.msgpack_loads(data)):
                (Path(folder) / f"{n}.model").write_bytes(each)
            return self.from_disk(folder)


# ---- Docs ----------------------------------------------------------------------------------------


def _sentences(doc: Doc) -> list[Words]:
    """The sentences of a Doc, as they are if it has any, else cut by the rules for running text.
    White space is no word."""
    if doc.has_annotation("SENT_START"):
        found = [[t.i for t in sentence if not t.is_space] for sentence in doc.sents]
    else:
        starts = [sentence[0].start for sentence in segment(doc.text)]
        found = [[] for _ in range(len(starts) + 1)]  # found[0]: tokens before the first sentence
        for token in doc:
            if not token.is_space:
                found[bisect_right(starts, token.idx)].append(token.i)
    return [words for words in found if words]


def _is_tagged(doc: Doc) -> bool:
    """Whether components before this one have set tags, which a parser reads."""
    return doc.has_annotation("TAG") or doc.has_annotation("POS")


def _word(token: Any) -> dict[str, str]:
    """A token with what other components have found, as CoNLL-U has it."""
    form = _BREAK.sub("\ufffd", token.text)
    found = {"upos": token.pos_, "xpos": token.tag_, "lemma": token.lemma_.strip()}
    given = {name: value for name, value in found.items() if value and not _BREAK.search(value)}
    return {"form": form, **given, "feats": str(token.morph)}


def _write(doc: Doc, sentences: list[Words], found: Document) -> None:
    """Write what was found into a Doc."""
    words: dict[int, Token] = {}
    for at, sentence in zip(sentences, found, strict=True):
        words |= zip(at, sentence, strict=True)
    if not words:
        return
    columns = _columns(doc, words)
    if DEP in columns:
        columns[HEAD] = _heads(len(doc), sentences, found)
    elif not doc.has_annotation("SENT_START"):
        starts = {at[0] for at in sentences}
        for i in range(len(doc)):
            doc[i].is_sent_start = i in starts
    if columns:
        table = np.array([np.array(column, np.uint64) for column in columns.values()])
        doc.from_array(list(columns), table.T.copy())  # type: ignore[arg-type]
    if any(w.ner for w in words.values()):
        doc.set_ents(list(_entities(doc, sentences, found)), default="outside")


def _columns(doc: Doc, words: dict[int, Token]) -> dict[int, list[int]]:
    """The attributes that any word has, in spaCy's numbers; white space has a tag of its own."""
    strings, morphology = doc.vocab.strings, doc.vocab.morphology
    every = words.values()
    kinds: dict[int, tuple[bool, Callable[[Token], int], int]] = {
        POS: (any(w.upos for w in every), lambda w: IDS.get(w.upos or "", 0), IDS[SPACE]),
        TAG: (any(w.xpos for w in every), lambda w: strings.add(w.xpos or ""), strings.add("_SP")),
        MORPH: (any(w.feats for w in every), lambda w: morphology.add(morph(w.feats)), 0),
        LEMMA: (any(w.lemma for w in every), lambda w: strings.add(w.lemma or w.text), 0),
        DEP: (
            any(w.head is not None for w in every),
            lambda w: strings.add(_label(w)),
            strings.add("dep"),
        ),
    }
    return {
        kind: [value(words[i]) if i in words else space for i in range(len(doc))]
        for kind, (given, value, space) in kinds.items()
        if given
    }


def _label(word: Token) -> str:
    return ROOT if word.head == 0 else word.label or ""


def _heads(n: int, sentences: list[Words], found: Document) -> list[int]:
    """The distance from each of n tokens to its head; spaCy has negative ones modulo 2^64. The head
    of white space is the token before it or, at the start of a Doc, the first word."""
    first = sentences[0][0]
    away = [first - i if i < first else -1 for i in range(n)]
    for at, sentence in zip(sentences, found, strict=True):
        for i, token in zip(at, sentence, strict=True):
            away[i] = at[token.head - 1] - i if token.head else 0
    return [distance % (1 << 64) for distance in away]


def _entities(doc: Doc, sentences: list[Words], found: Document) -> Iterator[Span]:
    for e in found.entities:
        at = sentences[e.sentence]
        yield Span(doc, at[e.start], at[e.end - 1] + 1, e.type)
