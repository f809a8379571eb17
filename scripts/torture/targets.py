"""What is fuzzed: functions of bytes that may refuse them with turbotag's own error, and nothing
else. `attempt` runs one and says whether the bytes were accepted.

Each target also checks what must hold of bytes that are accepted: a reader writes them back as they
were and reads them alike in pieces of any size, a tokenizer's tokens stand where it says, a
template file means the same when it is printed and read again, a model predicts.
"""

from __future__ import annotations

import io
import json

import numpy as np
from attempts import (
    ATTRIBUTES,
    BLANKS,
    DEMO,
    TAGS,
    TREES,
    Target,
    check,
    often,
    tagged_block,
    tree_block,
)
from model_targets import (
    model_arrays,
    model_bytes,
    model_file,
    model_header,
    small_models,
)

from turbotag.corpus import formats, schemes, text
from turbotag.corpus.formats import CONLLU, Conll
from turbotag.corpus.reader import Block, from_bytes, read, stream
from turbotag.corpus.trees import lift, projective_sentences, read_heads
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError, TurbotagError
from turbotag.features import arcs, templates
from turbotag.features.clusters import Clusters
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.features.parts import ROLES, PartExtractor
from turbotag.training.tagger import index_features

# ---- Readers -------------------------------------------------------------------------------------


def piece(data: bytes) -> int:
    """How many bytes of a file are read at a time: some, but not too often."""
    return max(1 + len(data) % 29, len(data) // 16)


def contents(blocks: list[Block]) -> list[tuple[int, tuple[str, ...]]]:
    """Line and fields of every token, and a row for the end of every sentence."""
    rows: list[tuple[int, tuple[str, ...]]] = []
    for block in blocks:
        data, cuts = block.buf.tobytes(), set(block.sentences[1:].tolist())
        for t in range(block.n_tokens):
            at = range(int(block.first[t]), int(block.first[t] + block.width[t]))
            fields = tuple(data[block.starts[i] : block.ends[i]].decode() for i in at)
            rows.append((int(block.lines[t]), fields))
            if t + 1 in cuts:
                rows.append((0, ()))
    return rows


def written_back(block: Block) -> None:
    """Replacing fields by themselves, of the first, the last and another column, is no change."""
    edits = Edits(block)
    width = len(block.format.columns) or int(block.width.min(initial=1))
    for column in sorted({0, block.buf.size % width, width - 1}):
        strings = block.strings(column)
        edits.replace(column, strings, np.arange(len(strings)))
    check(edits.text() == block.buf.tobytes(), "written back, the bytes differ")


def reader(data: bytes, name: str) -> Block:
    """Read as a format; in pieces the same comes out, or an error too if it has a line."""
    if not often(data, 4):
        block = read(data, name)
        written_back(block)
        return block
    refused, block, pieces = None, None, None
    try:
        block = read(data, name)
    except DataError as e:
        refused = e
    try:
        pieces = list(stream(data, name, block_bytes=piece(data)))
    except DataError as e:
        check(refused, f"refused in pieces only: {e}")
    if refused:
        check(refused.line is None or pieces is None, f"not refused in pieces: {refused}")
        raise refused
    check(contents([block]) == contents(pieces), "in pieces it reads otherwise")
    written_back(block)
    return block


def conll(data: bytes, name: str) -> None:
    block = reader(data, name)
    heads = read_heads(block, single_root=len(data) % 2 == 0)
    lifted, _ = lift(heads, block.sentences)
    check(projective_sentences(lifted, block.sentences).all(), "lifted, but not projective")


def columns(data: bytes) -> None:
    block = reader(data, "columns")
    strings, at = block.strings(len(block.format.columns) - 1), {}
    ids = np.array([at.setdefault(s, len(at)) for s in strings], np.int32)
    tags = schemes.parse(list(at))
    if tags is None:
        return
    spans = schemes.spans(tags.prefix[ids], tags.type[ids], block.sentences)
    schemes.detect(tags, ids, block.sentences)
    for scheme in (*schemes.SCHEMES, "bilou"):
        names, new = schemes.convert(list(at), ids, block.sentences, scheme)
        again = schemes.parse(names, tags.types)
        check(again is not None, f"tags in {scheme} are no tags")
        found = schemes.spans(again.prefix[new], again.type[new], block.sentences)
        check(found.keys() == spans.keys(), f"spans in {scheme} are others")


def tabs(data: bytes) -> None:
    columns(data.replace(b" ", b"\t"))


def crfsuite(data: bytes) -> None:
    block = reader(data, "crfsuite")
    found = Extractor(templates.parse("attributes\nbias", "")).occurrences(block)
    check(np.isfinite(found.values).all(), "a value is not finite")


class Named(io.BytesIO):
    def __init__(self, data: bytes, name: str):
        super().__init__(data)
        self.name = name


def detection(data: bytes) -> None:
    """The format told from the content, by several names of the file."""
    formats.looks_conll(data)
    formats.looks_columns(data)
    name = ("f.txt", "f.conllx", "f.conll.gz")[len(data) % 3]
    whole = list(stream(Named(data, name)))
    for block in whole:
        written_back(block)
    if often(data, 4):
        pieces = list(stream(Named(data, name), block_bytes=piece(data)))
        if whole and pieces[0].format == whole[0].format:
            check(contents(pieces) == contents(whole), "in pieces it reads otherwise")


def raw_text(data: bytes) -> None:
    """Tokens stand where their offsets say; a stream in pieces of any size gives the same."""
    size = piece(data) if often(data, 2) else text.BLOCK_BYTES
    whole = b"".join(text.stream(io.BytesIO(data), size))
    string = data.decode("utf-8-sig")
    check(text.to_conllu(string) == whole, "a text and a stream of it differ")
    if not whole:
        return
    block = from_bytes(whole, "<text>", CONLLU)
    surface = text.segment(string)
    words = [w for sentence in surface for token in sentence for w in token.words]
    check(block.strings(Conll.WORD) == words, "words and CoNLL-U differ")
    check(len(surface) == block.n_sentences, "sentences and CoNLL-U differ")
    last = 0
    for sentence in surface:
        for token in sentence:
            check(last <= token.start < token.end, "tokens are out of order")
            check(
                "".join(token.words) == string[token.start : token.end], "a token is not its words"
            )
            check(not BLANKS.sub("", string[last : token.start]), "text is lost")
            last = token.end
    check(not BLANKS.sub("", string[last:]), "text is lost")


# ---- Templates and resources ---------------------------------------------------------------------


def decoded(data: bytes) -> str:
    """The text of a file of templates, refused as `templates.load` refuses it."""
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise DataError(f"cannot be read as a template file: {e}", "templates") from e


def token_templates(data: bytes) -> None:
    found = templates.parse(decoded(data), "templates")
    printed = "\n".join(templates.text(t) or templates.ATTRIBUTES_LINE for t in found)
    check(templates.parse(printed, "templates") == found, "printed, the templates differ")
    extractor = Extractor(found, [Gazetteer.of("g", ["Ada Lind", "Oslo"])])
    block = read(ATTRIBUTES, "crfsuite") if extractor.attributes else tagged_block()
    features = index_features(block, extractor)
    vocabulary = extractor.vocabulary()
    for row in features.origins.tolist():
        extractor.describe(row, vocabulary)


def arc_templates(data: bytes) -> None:
    found = arcs.parse(decoded(data), "templates")
    check(
        set(arcs.parse("\n".join(map(str, found)), "templates")) == set(found),
        "printed, they differ",
    )
    words = arcs.Words(found)
    extractor = arcs.ArcExtractor(found, words)
    matrix = words.matrix(tree_block())[:3]
    tree = np.array([2, 0, 2], np.int32)
    keys, ends = extractor.keys(matrix, np.arange(4), tree, tree)
    check(keys.size == (ends[-1] if ends.size else 0), "features and their ends differ")


def part_templates(data: bytes) -> None:
    found = arcs.parse(decoded(data), "templates")
    words = arcs.Words(found)
    kind = list(ROLES)[len(data) % len(ROLES)]
    extractor = PartExtractor(found, words, kind)
    positions = np.array([[2, 1, 3], [0, 2, 1], [2, 3, 1]])
    keys, ends = extractor.keys(words.matrix(tree_block())[:3], positions)
    check(keys.size == ends[-1], "features and their ends differ")


def gazetteer(data: bytes) -> None:
    found = Gazetteer.read("g", data)
    names = [s for s in data.decode("utf-8-sig").splitlines() if s.strip() and s.strip()[0] != "#"]
    words = names[0].lower().split()
    block = from_bytes(
        "\n".join(["", *words]).encode(), "<words>", formats.columns_format(1, True, ("word",))
    )
    if block.n_tokens == len(words):  # a word may be -DOCSTART-
        extractor = Extractor(templates.parse("gaz[0]", ""), [found])
        check(extractor.ids(block)["gaz:g"][0] > 0, "a name is not found")


def clusters(data: bytes) -> None:
    found = Clusters.read("c", data)
    lines = [line.rstrip("\r") for line in data.decode("utf-8-sig").split("\n") if line.strip()]
    listed = {line.split("\t")[0]: line.split("\t")[1].strip() for line in lines}
    for each in (found, Clusters.load("c", found.arrays())):
        paths = [each.values("cluster")[n] for n in each.numbers_of(list(listed)).tolist()]
        check(paths == list(listed.values()), "a listed word has another path")


# ---- All of them ---------------------------------------------------------------------------------


def demo(name: str, lines: int) -> list[bytes]:
    """The beginning of a file of the embedded corpus, and a sentence of it."""
    data = (DEMO / name).read_bytes()
    return [b"\n".join(data.split(b"\n")[:lines]) + b"\n\n", data.split(b"\n\n")[3] + b"\n\n"]


def template_seeds(*names: str) -> list[bytes]:
    return [templates.load(n).encode() for n in names]


def part_seeds() -> list[bytes]:
    """Of every length: that chooses the kind of part."""
    return [text + b"\n" * n for text in (SIBLINGS, GRANDPARENTS) for n in range(3)]


def header_seeds() -> list[bytes]:
    return [
        bytes([n]) + json.dumps(header).encode()
        for n, (header, _) in enumerate(small_models().values())
    ]


def file_seeds() -> list[bytes]:
    names = ("tagger", "order 2", "attributes")
    return [model_bytes(small_models()[n]) for n in names]


def array_seeds() -> list[bytes]:
    return [bytes([m, a, 0, 0, 1, 2, 3]) for m in (*range(4), *range(228, 232)) for a in range(4)]


ARCS = b"h:word m:word dir|dist\nh:upos m:upos h:upos[1]\nb:upos h:upos m:upos dir\n"
MORE_ARCS = b"set:upos h:upos m:upos\ncount:VERB h:upos m:upos\ng:upos m:upos h:upos # x\n"
SIBLINGS = b"h:upos m:upos s:upos dir|dist\nh:word s:word\n"
GRANDPARENTS = b"g:upos h:word m:upos dist\ng:xpos m:xpos"

TARGETS: dict[str, Target] = {
    "conllu": Target(lambda d: conll(d, "conllu"), lambda: [TREES, *demo("dev.conllu", 6)]),
    "conllx": Target(lambda d: conll(d, "conllx"), lambda: [TREES[TREES.find(b"1\tAda") :]]),
    "columns": Target(columns, lambda: [TAGS, *demo("dev.iob2", 20), b"-DOCSTART-\n\na b\n"]),
    "tabs": Target(tabs, lambda: [TAGS, b"# a comment\n#\tO\nx\tB-A\n"]),
    "crfsuite": Target(crfsuite, lambda: [ATTRIBUTES]),
    "detection": Target(detection, lambda: [TREES, TAGS, ATTRIBUTES, b"Ada\nsang\n\nit\n"]),
    "text": Target(raw_text, lambda: [(DEMO / "letter.txt").read_bytes()[:250]], 256),
    "templates": Target(token_templates, lambda: template_seeds("ner", "attributes-bias"), 256),
    "arc templates": Target(arc_templates, lambda: [ARCS, MORE_ARCS], 256),
    "part templates": Target(part_templates, part_seeds, 256),
    "gazetteer": Target(gazetteer, lambda: [b"Ada Lind\nOslo\n# a comment\n\nNew York City\n"]),
    "clusters": Target(clusters, lambda: [b"ada\t0101\nOslo\t011\t17\n\nin\t0\n"]),
    "model file": Target(model_file, file_seeds, 8192),
    "model header": Target(model_header, header_seeds, 2048),
    "model arrays": Target(model_arrays, array_seeds, 64),
}


def agrees(data: bytes) -> None:
    """The conllu package, where it takes the bytes too, finds the same words in them; it takes two
    blanks in a word for the end of it."""
    import conllu

    if b"  " in data:
        return
    try:
        block = read(data, "conllu")
        found = conllu.parse(data.decode("utf-8-sig"))
    except (TurbotagError, conllu.exceptions.ParseException, ValueError):
        return
    theirs = [[str(t["form"]).strip(" ") for t in s if isinstance(t["id"], int)] for s in found]
    words, cuts = block.strings(Conll.WORD), block.sentences.tolist()
    ours = [words[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    check(ours == [s for s in theirs if s], f"{ours} here, {theirs} by the conllu package")
