"""What is drawn: sentences with trees and entities, perhaps beside gold ones, read from files."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block, Source, read
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError
from turbotag.metrics.attachment import Attachment
from turbotag.report.tables import percent

Entity = tuple[int, int, str]  # first and last word, numbered from 0, and the type

_PROBABILITY = re.compile(r"0?\.[0-9]+|[01]\.[0-9]*")  # a PHEAD without a point is a head
_NOT_XML = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass
class Drawing:
    """A sentence; what a file does not have is None.

    heads: of each word, 1 is the first word and 0 the root; probabilities: of the heads;
    gold_...: what the rest is compared with; number: of the sentence in its file.
    """

    words: list[str]
    tags: list[str] | None = None
    heads: list[int] | None = None
    labels: list[str] | None = None
    probabilities: list[float] | None = None
    entities: list[Entity] = field(default_factory=list)
    gold_heads: list[int] | None = None
    gold_labels: list[str] | None = None
    gold_entities: list[Entity] | None = None
    number: int = 1

    @property
    def right_heads(self) -> list[bool]:
        """Whether each word has its gold head; True where there is nothing to compare."""
        return _same(self.heads, self.gold_heads, len(self.words))

    @property
    def right_labels(self) -> list[bool]:
        return _same(self.labels, self.gold_labels, len(self.words))

    @property
    def missed(self) -> list[Entity]:
        """Gold entities that were not found."""
        return [e for e in self.gold_entities or [] if e not in self.entities]

    @property
    def spurious(self) -> list[Entity]:
        """Entities that are not gold."""
        gold = self.gold_entities
        return [] if gold is None else [e for e in self.entities if e not in gold]

    @property
    def errors(self) -> int:
        """Words whose head or label is wrong, and missed and spurious entities."""
        arcs = zip(self.right_heads, self.right_labels, strict=True)
        wrong = sum(not (head and label) for head, label in arcs)
        return wrong + len(self.missed) + len(self.spurious)


def _same(a: list | None, b: list | None, n: int) -> list[bool]:
    return [True] * n if a is None or b is None else [x == y for x, y in zip(a, b, strict=True)]


def summary(drawings: list[Drawing]) -> str:
    """The scores of some sentences: all words count, labels are compared whole."""
    parts = []
    trees = [d for d in drawings if d.gold_heads is not None]
    if trees:
        right = [list(zip(d.right_heads, d.right_labels, strict=True)) for d in trees]
        words = [word for sentence in right for word in sentence]
        labelled = all(d.labels is not None and d.gold_labels is not None for d in trees)
        las = sum(map(all, words)) if labelled else None
        score = Attachment(len(words), sum(head for head, _ in words), las)
        parts.append(f"UAS {percent(score.uas, 1)}")
        if score.las is not None:
            parts.append(f"LAS {percent(score.las, 1)}")
    tagged = [d for d in drawings if d.gold_entities is not None]
    if tagged:
        missed = sum(len(d.missed) for d in tagged)
        spurious = sum(len(d.spurious) for d in tagged)
        found = sum(len(d.entities) for d in tagged) - spurious
        parts.append(f"entities: {found} right, {missed} missed, {spurious} spurious")
    return " · ".join(parts)


def clean(text: str) -> str:
    """A text without the control characters that XML forbids and that a terminal would obey."""
    return _NOT_XML.sub("\ufffd", text)


def columns(text: str) -> int:
    """The number of columns that a text takes in a terminal: two for East Asian wide characters and
    emoji, none for characters that combine with another."""
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def read_drawings(
    path: Source, gold: str | None = None, format: str | None = None
) -> list[Drawing]:
    """The sentences of a CoNLL-U or CoNLL-X file, beside those of a gold file if given.

    Entities are IOB tags under the key NER (or Entity) of MISC; probabilities of heads are under
    HeadProb there, or in the column PHEAD of CoNLL-X.
    """
    block = _read(path, format)
    drawings, tagged = _drawings(block)
    if gold is None:
        return drawings
    from turbotag.models.comparison import same_tokens

    other = _read(gold, format)
    same_tokens(other, block)
    answers, gold_tagged = _drawings(other)
    trees = drawings[0].heads is not None and answers[0].heads is not None
    entities = tagged and gold_tagged
    if not trees and not entities:
        raise DataError(f"has neither trees nor entities in common with {block.path}", other.path)
    for d, answer in zip(drawings, answers, strict=True):
        if trees:
            d.gold_heads, d.gold_labels = answer.heads, answer.labels
        if entities:
            d.gold_entities = answer.entities
    return drawings


def _read(path: Source, format: str | None) -> Block:
    block = read(path, format)
    if not block.format.ids:
        raise DataError(f"is {block.format.name}; drawn are CoNLL-U and CoNLL-X", block.path)
    return block


def _drawings(block: Block) -> tuple[list[Drawing], bool]:
    """The sentences of a block to draw, and whether they have entity tags."""
    shown = Conll.WORD, Conll.UPOS, Conll.XPOS, Conll.DEPREL
    words, upos, xpos, labels = map(block.strings, shown)
    tags = upos if _filled(upos) else xpos
    tree = read_heads(block).tolist() if _filled(block.strings(Conll.HEAD)) else None
    notes: list[dict[str, str]] = []
    chances = [""] * block.n_tokens
    if block.format.name == "conllu":
        notes = [_notes(s) for s in block.strings(Conll.MISC)]
        chances = [n.get("HeadProb", "") for n in notes]
    elif block.format.index("phead") is not None:
        chances = block.strings(Conll.PHEAD)
    entities = _entities(block, notes)
    has_tags, has_labels = _filled(tags), tree is not None and _filled(labels)
    drawings = []
    for s in range(block.n_sentences):
        a, b = block.sentences[s : s + 2].tolist()
        probable = tree is not None and all(map(_PROBABILITY.fullmatch, chances[a:b]))
        drawings.append(
            Drawing(
                words[a:b],
                tags[a:b] if has_tags else None,
                tree[a:b] if tree is not None else None,
                labels[a:b] if has_labels else None,
                [float(p) for p in chances[a:b]] if probable else None,
                entities[s] if entities is not None else [],
                number=s + 1,
            )
        )
    return drawings, entities is not None


def _filled(column: list[str]) -> bool:
    return any(s != "_" for s in column)


def _notes(misc: str) -> dict[str, str]:
    return dict(note.split("=", 1) for note in misc.split("|") if "=" in note)


def _entities(block: Block, notes: list[dict[str, str]]) -> list[list[Entity]] | None:
    """The entities of each sentence; None if there are no tags. Entity= may also hold something
    that is no IOB tag, such as coreference; NER= may not."""
    for key in ("NER", "Entity"):
        tags = [n.get(key, "O") for n in notes]
        names = list(dict.fromkeys(tags))
        parsed = schemes.parse(names)
        if parsed is None and key == "NER":
            odd = next(t for t, s in enumerate(tags) if schemes.parse([s]) is None)
            raise block.error(f"NER={tags[odd]} is not an IOB tag", odd)
        if parsed is None or not any(key in n for n in notes):
            continue
        ids = np.array([names.index(s) for s in tags])
        found = schemes.spans(parsed.prefix[ids], parsed.type[ids], block.sentences)
        out: list[list[Entity]] = [[] for _ in range(block.n_sentences)]
        for a, b, k in zip(
            found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True
        ):
            s = int(np.searchsorted(block.sentences, a, side="right")) - 1
            first = int(block.sentences[s])
            out[s].append((a - first, b - first, parsed.types[k]))
        return out
    return None
