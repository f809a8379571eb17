"""CoNLL-2003, CoNLL-X, CoNLL-2008, the Penn Treebank: read in their own layouts, and converted."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import penn

import corpora
from turbotag.corpus import schemes
from turbotag.corpus.formats import CONLLU, Conll
from turbotag.corpus.reader import Block, from_bytes, open_binary, read
from turbotag.corpus.trees import read_heads
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError

ENTITIES = ("LOC", "MISC", "ORG", "PER")
COLUMNS_2008 = "ID FORM LEMMA GPOS PPOS SPLIT_FORM SPLIT_LEMMA PPOSS HEAD DEPREL"
SECTIONS = {  # of the Wall Street Journal
    "train.conllu": range(2, 22),
    "dev.conllu": range(22, 23),
    "test.conllu": range(23, 24),
}
TAG_SECTIONS = {
    "train.txt": range(19),
    "dev.txt": range(19, 22),
    "test.txt": range(22, 25),
}


@dataclass
class Source:
    """What a user gave: a file, or a folder with many."""

    path: str
    sha256: str
    files: int = 1


@dataclass
class Result:
    """One file to write: its bytes, and what reading it back has to give."""

    file: str
    source: Source
    data: bytes
    words: list[str]
    counts: dict[str, int]
    heads: np.ndarray | None = None
    tags: list[str] | None = None

    def verify(self, path: Path) -> None:
        """Read it with turbotag's own reader and compare."""
        block = read(str(path))
        word = block.format.index("word")
        assert word is not None
        same = (
            block.n_sentences == self.counts["sentences"]
            and block.strings(word) == self.words
            and (self.heads is None or np.array_equal(read_heads(block), self.heads))
            and (self.tags is None or block.strings(len(block.format.columns) - 1) == self.tags)
        )
        if not same:
            raise DataError("is not what was to be written, when read back", str(path))


@dataclass
class Corpus:
    """All that goes into one folder of DATA."""

    name: str
    results: list[Result]
    published: dict[str, dict[str, int]] | None = None  # else that of data/corpora.json
    remarks: list[str] = field(default_factory=list)

    @property
    def expected(self) -> dict[str, dict[str, int]]:
        if self.published is not None:
            return self.published
        return corpora.entry(self.name).get("published", {}).get("files", {})


def sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as f:
            while piece := f.read(1 << 20):
                digest.update(piece)
    except OSError as e:
        raise DataError((e.strerror or str(e)).lower(), path) from e
    return digest.hexdigest()


def text_of(path: str) -> str:
    """A whole file as text; .gz is unpacked."""
    try:
        with open_binary(path) as f:
            data = f.read()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = 1 + e.object.count(b"\n", 0, e.start)
        byte = e.object[e.start]
        raise DataError(f"byte 0x{byte:02x} is not valid UTF-8", path, line) from None
    except (OSError, EOFError, zlib.error) as e:
        raise DataError(f"cannot be read: {e}", path) from e


# CoNLL-2003


def conll2003(paths: list[str]) -> Corpus:
    corpus = Corpus("conll2003", [])
    for path, file in zip(paths, corpora.entry("conll2003")["files"], strict=True):
        corpus.results.append(ner_file(path, file, corpus.remarks))
    return corpus


def ner_file(path: str, file: str, remarks: list[str]) -> Result:
    """Four columns, of which the last two have spans: both become IOB2."""
    source = Source(path, sha256(path))
    block = read(path, "columns")
    n = len(block.format.columns)
    if n != 4:
        line = int(block.lines[0]) if block.n_tokens else None
        raise DataError(f"expected 4 columns (word POS chunk tag), found {n}", path, line)
    edits, tags = Edits(block), Counter[str]()
    written: list[str] = []
    for column in (2, 3):
        strings, ids = block.column(column)
        if column == 3:
            tags = entities(block, strings, ids, remarks)
        elif schemes.parse(strings) is None:
            continue
        names, new = schemes.convert(strings, ids, block.sentences, "iob2")
        edits.replace(column, names, new)
        written = [names[i] for i in new.tolist()]
    counts = {"sentences": block.n_sentences, "tokens": block.n_tokens}
    counts |= {kind: tags[kind] for kind in ENTITIES}
    return Result(file, source, edits.text(), block.strings(0), counts, tags=written)


def entities(block: Block, strings: list[str], ids: np.ndarray, remarks: list[str]) -> Counter[str]:
    """How many of each type, read as conlleval does; a tag that is none is refused."""
    for i, string in enumerate(strings):
        tag = schemes.parse([string])
        if tag is None or any(kind not in ENTITIES for kind in tag.types):
            expected = ", ".join(f"I-{kind}" for kind in ENTITIES)
            raise block.error(
                f"tag {string!r} is not O, {expected} or B-...", int(np.argmax(ids == i))
            )
    parsed = schemes.parse(strings)
    assert parsed is not None
    tags = schemes.detect(parsed, ids, block.sentences)
    if tags.irregular.size:
        told = f"the first of {tags.irregular.size} tags that do not fit {tags.rule}"
        remarks.append(f"{block.error(told, int(tags.irregular[0]))}: read as conlleval does")
    found = schemes.spans(parsed.prefix[ids], parsed.type[ids], block.sentences)
    return Counter(parsed.types[k] for k in found.type.tolist())


# Treebanks in tables


def conllx(paths: list[str], language: str) -> Corpus:
    results = []
    for path, file in zip(paths, corpora.table()[corpora.FAMILY]["files"], strict=True):
        source = Source(path, sha256(path))
        block = read(path, "conllx")
        edits = Edits(block)
        for column in (8, 9):
            edits.put(column, ["_"], np.zeros(block.n_tokens, np.int64))
        results.append(treebank(file, source, edits.text(), block))
    return Corpus(f"conllx-{language}", results)


def conll2008(paths: list[str]) -> Corpus:
    results = []
    for path, file in zip(paths, corpora.entry("conll2008")["files"], strict=True):
        source = Source(path, sha256(path))
        data = split_words(text_of(path), path)
        block = from_bytes(data, path, CONLLU)  # line by line as the source: errors name its lines
        if not block.n_tokens:
            raise DataError("holds no tokens", path)
        results.append(treebank(file, source, data, block))
    return Corpus("conll2008", results)


def treebank(file: str, source: Source, data: bytes, block: Block) -> Result:
    """A tree for each sentence of the block, or an error that names the line."""
    heads = read_heads(block)
    counts = {"sentences": block.n_sentences, "tokens": block.n_tokens}
    return Result(file, source, data, block.strings(Conll.WORD), counts, heads)


def split_words(text: str, path: str) -> bytes:
    """CoNLL-2008 as CoNLL-U, each line as one line: COLUMNS_2008, then PRED and a column for the
    arguments of each predicate."""
    out: list[str] = []
    sentence: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if not line.strip():
            check_predicates(sentence, path)
            sentence = []
            out.append("")
            continue
        row = line.rstrip("\r").split("\t") if "\t" in line else line.split()
        if len(row) < 10:
            raise DataError(
                f"expected at least 10 columns ({COLUMNS_2008}), found {len(row)}", path, number
            )
        if row[9].isdigit():
            raise DataError(
                f"DEPREL, column 10, is the number {row[9]}: is it CoNLL-2009?", path, number
            )
        sentence.append((number, row))
        identity, form, lemma, tag, head, label = row[0], *row[5:10]
        out.append(
            f"{identity}\t{form}\t{lemma}\t{penn.coarse(tag)}\t{tag}\t_\t{head}\t{label}\t_\t_"
        )
    return "\n".join(out).encode()


def check_predicates(sentence: list[tuple[int, list[str]]], path: str) -> None:
    """As many columns of arguments as there are predicates (none at all where PRED is left out)."""
    predicates = sum(len(row) > 10 and row[10] != "_" for _, row in sentence)
    bare = all(len(row) == 10 for _, row in sentence)
    for number, row in sentence:
        if not bare and len(row) != 11 + predicates:
            raise DataError(
                f"expected {11 + predicates} columns in a sentence with {predicates} predicates, "
                f"found {len(row)}",
                path,
                number,
            )


# The Penn Treebank


def wsj(folder: str, dev_section: int) -> list[Corpus]:
    """Trees and tags from .mrg files, or tags alone from .pos files."""
    files = section_files(folder, "mrg")
    parsed = bool(files)
    files = files or section_files(folder, "pos")
    if not files:
        raise DataError("has no files wsj_0001.mrg or wsj_0001.pos and so on, at any depth", folder)
    if absent := [str(s) for s in range(25) if s not in files]:
        raise DataError(f"has no files of section {', '.join(absent)}", folder)
    sentences: dict[int, list[penn.Sentence]] = {}
    digest = hashlib.sha256()
    for section, paths in sorted(files.items()):
        sentences[section] = []
        for path in paths:
            text = text_of(str(path))
            digest.update(f"{sha256(str(path))}  {path.name.lower()}\n".encode())
            read_file = penn.trees if parsed else penn.tagged
            sentences[section] += read_file(text, str(path))
    source = Source(folder, digest.hexdigest(), sum(map(len, files.values())))
    tags = Corpus(
        "wsj-pos",
        [
            wsj_result(file, source, [s for n in sections for s in sentences[n]], False)
            for file, sections in TAG_SECTIONS.items()
        ],
    )
    if not parsed:
        tags.published = {}
        tags.remarks.append(
            "the published counts are of the parsed files (.mrg): these were not compared"
        )
        return [tags]
    parts = {**SECTIONS, "dev.conllu": range(dev_section, dev_section + 1)}
    published = corpora.entry("wsj")["published"]
    expected = dict(published["files"])
    if dev_section == 24:
        expected["dev.conllu"] = published["section 24"]
    trees = Corpus(
        "wsj",
        [
            wsj_result(file, source, [s for n in sections for s in sentences[n]], True)
            for file, sections in parts.items()
        ],
        expected,
        [f"dev.conllu is section {dev_section}"],
    )
    return [trees, tags]


def section_files(folder: str, ending: str) -> dict[int, list[Path]]:
    """Files wsj_SSNN.mrg or .pos at any depth, by section; one that is there twice is refused."""
    if not Path(folder).is_dir():
        raise DataError("is not a folder", folder)
    name = re.compile(rf"wsj_([0-9]{{2}})[0-9]{{2}}\.{ending}", re.IGNORECASE)
    found: dict[str, Path] = {}
    for path in sorted(Path(folder).rglob("*")):
        if name.fullmatch(path.name):
            if path.name.lower() in found:
                raise DataError(f"is there twice, also as {found[path.name.lower()]}", str(path))
            found[path.name.lower()] = path
    sections: dict[int, list[Path]] = {}
    for key in sorted(found):
        sections.setdefault(int(key[4:6]), []).append(found[key])
    return sections


def wsj_result(file: str, source: Source, sentences: list[penn.Sentence], trees: bool) -> Result:
    if not sentences:
        raise DataError(f"has no sentence for {file}", source.path)
    words = [w for s in sentences for w in s.words]
    tags = [t for s in sentences for t in s.tags]
    counts = {"sentences": len(sentences), "tokens": len(words)}
    if not trees:
        data = "\n".join(
            "".join(f"{w}\t{t}\n" for w, t in zip(s.words, s.tags, strict=True)) for s in sentences
        )
        return Result(file, source, data.encode(), words, counts, tags=tags)
    data = "\n".join(
        "".join(
            f"{i}\t{w}\t_\t{penn.coarse(t)}\t{t}\t_\t{h}\t{label}\t_\t_\n"
            for i, (w, t, h, label) in enumerate(
                zip(s.words, s.tags, s.heads, s.labels, strict=True), 1
            )
        )
        for s in sentences
    )
    heads = np.array([h for s in sentences for h in s.heads], np.int32)
    return Result(file, source, data.encode(), words, counts, heads)


# Comparing with what is published, and writing
