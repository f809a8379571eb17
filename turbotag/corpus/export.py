"""Annotated sentences in other formats: JSON lines, CoNLL-U, columns, or one line for each span."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.formats import CONLLU, Conll
from turbotag.corpus.reader import Block
from turbotag.corpus.writer import extent

KINDS = ("json", "conllu", "columns", "spans")
SUFFIXES = {"json": ".jsonl", "conllu": ".conllu", "columns": ".tsv", "spans": ".tsv"}
SPAN_COLUMNS = (
    *("sentence", "first", "last", "start_char", "end_char"),
    *("type", "probability", "text"),
)
RENAMED = {"word": "text", "deprel": "label", "pos": "upos"}
# Probabilities in MISC, as `predict` writes them, and what they are of.
PROBABILITIES = {
    "UposProb": "upos",
    "XposProb": "xpos",
    "FeatsProb": "feats",
    "LemmaProb": "lemma",
    "TagProb": "ner",
    "HeadProb": "head",
    "LabelProb": "label",
}
_COMMENT = re.compile(r"^# *(sent_id|text) *= *(.*?) *$", re.MULTILINE)
_RANGE = re.compile(r"^([0-9]+)-([0-9]+)\t([^\t\n]*)", re.MULTILINE)


@dataclass
class Spelled:
    """A sentence as strings. words: for each word what is known of it, by name (text, upos, head,
    label, ner, ...); spans: (first, last, type), with words counted from 0."""

    words: list[dict[str, Any]]
    comments: dict[str, str] = field(default_factory=dict)
    ranges: list[dict[str, Any]] = field(default_factory=list)

    @property
    def spans(self) -> Iterator[tuple[int, int, str]]:
        """The spans that span tags form, entities or chunks: (start, end, type)."""
        for name in ("ner", "chunk", "tag"):
            tags = [str(w.get(name, "O")) for w in self.words]
            strings = sorted(set(tags))
            parsed = schemes.parse(strings)
            if parsed is None or not parsed.types:
                continue
            ids = np.array([strings.index(t) for t in tags])
            found = schemes.spans(parsed.prefix[ids], parsed.type[ids], np.array([0, len(tags)]))
            for a, b, k in zip(found.start, found.end, found.type, strict=True):
                yield int(a), int(b), parsed.types[k]
            return

    def text(self, first: int, last: int) -> str:
        """The text of the words first to last, with the white space between them as far as it is
        known."""
        out = str(self.words[first]["text"])
        for left, right in zip(
            self.words[first:last], self.words[first + 1 : last + 1], strict=True
        ):
            joined = left["misc"].get("SpaceAfter") == "No"
            joined |= "end" in left and left["end"] == right.get("start")
            out += ("" if joined else " ") + right["text"]
        return out


def spell(block: Block, tag: str = "tag") -> Iterator[Spelled]:
    """The sentences of a block; tag: what a probability without a name is of."""
    data = block.buf.tobytes()
    columns = [block.strings(n) for n in range(len(block.format.columns))]
    names = [RENAMED.get(name, name) for name in block.format.columns]
    after = 0
    for s in range(block.n_sentences):
        a, b = int(block.sentences[s]), int(block.sentences[s + 1])
        words = [
            _word(dict(zip(names, row, strict=True)), i, tag)
            for i, row in enumerate(zip(*(c[a:b] for c in columns), strict=True), 1)
        ]
        begin, end = extent(block, data, a, b)
        found = Spelled(words)
        if block.format.ids:
            found.comments = dict(_COMMENT.findall(data[after:begin].decode()))
            found.ranges = [
                {"first": int(x), "last": int(y), "text": form}
                for x, y, form in _RANGE.findall(data[begin:end].decode())
            ]
        after = end
        yield found


def _word(row: dict[str, str], number: int, tag: str) -> dict[str, Any]:
    """What is known of a word; `misc` holds the rest of MISC."""
    word: dict[str, Any] = {"id": number, "text": row.pop("text")}
    notes = row.pop("misc", "_")
    misc = dict(note.partition("=")[::2] for note in notes.split("|")) if notes != "_" else {}
    chances = {to: misc.pop(name) for name, to in PROBABILITIES.items() if name in misc}
    if "Prob" in misc or "probability" in row:
        chances[tag] = misc.pop("Prob", row.pop("probability", ""))
    for name in ("phead", "pdeprel", "id", "deps"):
        row.pop(name, None)
    entity = misc.pop("EntityProb", row.pop("entity", "_"))
    word |= {name: value for name, value in row.items() if value != "_"}
    if "head" in word:
        word["head"] = int(word["head"])
    for name, to in (("NER", "ner"), ("CHUNK", "chunk")):
        if name in misc:
            word[to] = misc.pop(name)
    for name, to in (("start_char", "start"), ("end_char", "end")):
        if name in misc:
            word[to] = int(misc.pop(name))
    if chances:
        word["probabilities"] = {to: float(p) for to, p in chances.items()}
    if entity != "_":
        word["entity_probability"] = float(entity)
    return word | {"misc": misc}


def as_json(sentence: Spelled) -> dict[str, Any]:
    """A sentence for JSON: its comments, tokens, multiword ranges and entities."""
    inner = ("entity_probability",)
    words = [
        {k: v for k, v in w.items() if k not in inner and (k != "misc" or v)}
        for w in sentence.words
    ]
    found: dict[str, Any] = {**sentence.comments, "tokens": words}
    if sentence.ranges:
        found["multiwords"] = sentence.ranges
    entities = [as_entity(sentence, *span) for span in sentence.spans]
    if entities:
        found["entities"] = entities
    return found


def as_entity(sentence: Spelled, a: int, b: int, kind: str) -> dict[str, Any]:
    """A span as `Entity` has it: words start..end-1, counted from 0."""
    first, last = sentence.words[a], sentence.words[b]
    found = {"type": kind, "start": a, "end": b + 1, "text": sentence.text(a, b)}
    for name, word in (("start", first), ("end", last)):
        if name in word:
            found[f"{name}_char"] = word[name]
    if "entity_probability" in first:
        found["probability"] = first["entity_probability"]
    return found


class Export:
    """Writes blocks in a format. The first block decides which columns there are."""

    def __init__(self, kind: str, tag: str = "tag"):
        """tag: what probabilities without a name are of."""
        self.kind, self.tag, self.sentences = kind, tag, 0
        self.columns: list[str] = []

    def text(self, block: Block) -> bytes:
        """The next block in the format asked for."""
        if self.kind == "conllu" and block.format.name == "conllu":
            return block.buf.tobytes()
        write = getattr(self, f"_{self.kind}")
        out = []
        if self.kind == "spans" and not self.sentences:
            out.append("\t".join(SPAN_COLUMNS) + "\n")
        spelled = [*spell(block, self.tag)]
        if self.kind == "columns" and not self.columns:
            self.columns = _filled(spelled)
        for sentence in spelled:
            self.sentences += 1
            out.append(write(sentence))
        return "".join(out).encode()

    def _json(self, sentence: Spelled) -> str:
        return json.dumps(as_json(sentence), ensure_ascii=False) + "\n"

    def _spans(self, sentence: Spelled) -> str:
        """Words are counted from 1, as the IDs of CoNLL-U are."""
        found = (as_entity(sentence, *span) for span in sentence.spans)
        rows = (
            span | {"sentence": self.sentences, "first": span["start"] + 1, "last": span["end"]}
            for span in found
        )
        return "".join(
            "\t".join(str(row.get(name, "_")) for name in SPAN_COLUMNS) + "\n" for row in rows
        )

    def _columns(self, sentence: Spelled) -> str:
        rows = ("\t".join(str(w.get(c, "_")) for c in self.columns) for w in sentence.words)
        return "\n".join(rows) + "\n\n"

    def _conllu(self, sentence: Spelled) -> str:
        """A sentence in CoNLL-U: columns that CoNLL-U has in their places, all others in MISC."""
        lines = []
        for word in sentence.words:
            row = ["_"] * len(CONLLU.columns)
            row[Conll.ID], row[Conll.WORD] = str(word["id"]), word["text"] or "_"
            notes = [f"{k}={v}" for k, v in word["misc"].items()]
            for name, value in word.items():
                column = CONLLU.index({"label": "deprel"}.get(name, name))
                if name in ("id", "text", "misc"):
                    continue
                if name == "probabilities":
                    notes += [f"Prob={p:.4f}" for p in value.values()]
                elif name == "entity_probability":
                    notes.append(f"EntityProb={value:.4f}")
                elif column is not None:
                    row[column] = str(value)
                else:
                    notes.append(f"{name.upper()}={value}")
            row[Conll.MISC] = "|".join(notes) or "_"
            lines.append("\t".join(row))
        return "\n".join(lines) + "\n\n"


def _filled(sentences: list[Spelled]) -> list[str]:
    """Names of the fields that any word has, in the order of CoNLL-U."""
    seen = dict.fromkeys(name for s in sentences for w in s.words for name in w)
    order = ["text", *(RENAMED.get(c, c) for c in CONLLU.columns), *seen]
    left_out = ("id", "misc", "start", "end", "probabilities", "entity_probability")
    return [c for c in dict.fromkeys(order) if c in seen and c not in left_out]
