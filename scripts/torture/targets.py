"""What is fuzzed: functions of bytes that may refuse them with turbotag's own error, and nothing
else. `attempt` runs one and says whether the bytes were accepted.

Each target also checks what must hold of bytes that are accepted: a reader writes them back as they
were and reads them alike in pieces of any size, a tokenizer's tokens stand where it says, a
template file means the same when it is printed and read again, a model predicts.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.corpus import formats, schemes, text
from turbotag.corpus.formats import CONLLU, Conll
from turbotag.corpus.reader import Block, from_bytes, read, stream
from turbotag.corpus.trees import check_trees, lift, projective_sentences, read_heads
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError, TurbotagError
from turbotag.features import arcs, templates
from turbotag.features.clusters import Clusters
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer
from turbotag.features.parts import ROLES, PartExtractor
from turbotag.models.model import Output
from turbotag.models.parser import Parser
from turbotag.models.pipeline import load_model
from turbotag.models.prediction import annotate
from turbotag.models.tagger import Tagger
from turbotag.report.heaviest import parser_features, tagger_features
from turbotag.report.model_card import parser_card, tagger_card, transitions
from turbotag.storage import store, tensors
from turbotag.training import train
from turbotag.training.options import options_for
from turbotag.training.tagger import index_features

DEMO = Path(__file__).parents[2] / "data" / "demo"
LONGEST_MESSAGE = 1000
BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff]")  # in no token

TREES = (
    b"# text = Ada sang it\n1-2\tAdasang\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"1\tAda\tada\tPROPN\tNNP\tCase=Nom\t2\tnsubj\t_\t_\n"
    b"2\tsang\tsing\tVERB\tVBD\t_\t0\troot\t_\tA=b|C\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    b"3\tit\tit\tPRON\tPRP\t_\t2\tobj\t_\tSpaceAfter=No\n\n"
    b"1\tRain\train\tNOUN\tNN\t_\t0\troot\t_\t_\n2\t!\t!\tPUNCT\t.\t_\t1\tpunct\t_\t_\n\n"
)
TAGS = b"Ada NNP B-PER\nLind NNP I-PER\nsang VBD O\n\nin IN O\nOslo NNP B-LOC\n. . O\n\n"
ATTRIBUTES = b"B\tw=Ada\tlen:3\nO\tw=sang\tlen:4\n\nB\tw=Oslo\ta\\:b:0.5\nO\tw=.\n\n"


class Unexpected(Exception):
    """Bytes that a target neither accepted nor refused as it should."""


@dataclass(frozen=True)
class Target:
    """run: raises TurbotagError to refuse; seeds: valid inputs; limit: bytes of an input."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    limit: int = 512


def attempt(run: Callable[[bytes], None], data: bytes) -> bool:
    """Whether a target accepts the bytes; any error but a refusal in one line is passed on."""
    try:
        run(data)
    except TurbotagError as e:
        check_message(str(e))
        return False
    return True


def check_message(message: str) -> None:
    if not message or len(message.splitlines()) != 1 or len(message) > LONGEST_MESSAGE:
        raise Unexpected(f"refused, but not in one sentence: {message[:2000]!r}")


def check(holds: object, what: str) -> None:
    if not holds:
        raise Unexpected(what)


# ---- Readers -------------------------------------------------------------------------------------


FOLDER: Path | None = None  # for files that live a moment, where it is not `scratch`
THOROUGH = False  # whether costly checks are made of every input


def often(data: bytes, n: int) -> bool:
    """Whether it is the turn of an input, one in n, to have a costly check."""
    return THOROUGH or len(data) % n == 0


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


@cache
def tagged_block() -> Block:
    return read(TAGS, "columns")


@cache
def tree_block() -> Block:
    return read(TREES, "conllu")


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


# ---- Model files ---------------------------------------------------------------------------------

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]  # header and arrays of a model file


def scratch() -> Path:
    """A folder for files that live a moment: in memory where there is one."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def bare(path: str, kind: str) -> Parts:
    """What a file holds, as it was in version 1, which has no checksums: damage is then for all the
    other checks to find."""
    header, arrays = store.load_file(path, kind)
    return {**header, "format_version": 1}, arrays


@cache
def small_models() -> dict[str, Parts]:
    """Models of every kind, trained on a few sentences, as what their files hold."""
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        folder = Path(name)
        (folder / "t").write_text("word[0]\npos[-1..1]\ngaz[0]\ncluster2[0]\nbias\n")
        (folder / "g").write_text("Ada Lind\nOslo\n")
        (folder / "a").write_text("h:upos m:upos dir\nh:word m:word\nb:upos h:upos\n")
        common: dict[str, Any] = {"epochs": 2, "template": str(folder / "t")}
        gazetteers = {"g": str(folder / "g")}
        (folder / "c").write_text("ada\t0101\noslo\t011\n")
        words = {"c": str(folder / "c")}
        out = str(folder / "model")
        found = {}
        for name, given in {
            "tagger": {"gazetteers": gazetteers, "clusters": words, "dev": TAGS},
            "order 2": {"order": 2, "scheme": "iobes"},
            "compact": {"compact": True, "gazetteers": gazetteers},
        }.items():
            train(options_for("ner", train=TAGS, **common, **given), out)
            found[name] = bare(out, "tagger")
        card = {"what": "a test", "credits": ["nobody"], "words_per_second": 1.0}
        found["compact"][0]["card"] = card  # as the shipped models have
        train(options_for("pos", train=ATTRIBUTES, epochs=2), out)
        found["attributes"] = bare(out, "tagger")
        common = {"epochs": 2, "min_count": 1, "template": str(folder / "a")}
        for name, given in {
            "parser": {"dev": TREES},
            "projective": {"decoder": "projective", "labels": False},
            "second order": {"parts": ("cs", "gp", "as")},
            "bethe": {"parts": ("cs", "gp"), "entropy": "bethe"},
            "supertags": {"supertags": 2, "heads": 4},
        }.items():
            train(options_for("parse", train=TREES, **common, **given), out)
            found[name] = bare(out, "parser")
    return found


DTYPES = {name: code for code, name in tensors.DTYPES.items()}


def packed(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a safetensors file, whatever the metadata and arrays are."""
    at, table = 0, {"__metadata__": metadata}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    for name, array in ordered:
        place = [at, at + array.nbytes]
        shape = list(array.shape)
        table[name] = {"dtype": DTYPES[array.dtype.name], "shape": shape, "data_offsets": place}
        at = place[1]
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + b"".join(a.tobytes() for _, a in ordered)


def model_bytes(parts: Parts) -> bytes:
    header, arrays = parts
    return packed({"turbotag": json.dumps(header)}, arrays)


def saved(parts: Parts) -> bytes:
    """The bytes of the file as turbotag writes it, with checksums, but without names of features:
    predict does not read them, nor know of damage to them."""
    header, arrays = parts
    arrays = {k: v for k, v in arrays.items() if not k.startswith(("origins", "vocabulary."))}
    with tempfile.TemporaryDirectory(dir=scratch()) as name:
        path = Path(name) / "model"
        store.save_file(str(path), header["kind"], header, arrays)
        return path.read_bytes()


@cache
def model_path() -> str:
    """One name for all files of this process."""
    path = (FOLDER or scratch()) / f"turbotag-torture-{os.getpid()}.model"
    atexit.register(lambda: path.unlink(missing_ok=True))
    return str(path)


def use(path: str, fully: bool = False) -> None:
    """Load a model and let it predict, fully in every way; its probabilities must be some."""
    model = load_model(path)
    if isinstance(model, Parser):
        use_parser(model, fully)
        if fully:
            parser_card(model)
            for label in (None, *(model.labels[:1] if model.labelled else [])):
                parser_features(model, label, 9, read(TREES, "conllu"))
    else:
        use_tagger(model, fully)
        if fully:
            named = Tagger.load(path, names=True)
            tagger_card(named)
            transitions(named)
            for k in range(len(named.labels)):
                tagger_features(named, k, named.keys.size)


def use_tagger(model: Tagger, fully: bool) -> None:
    block = read(ATTRIBUTES if model.input_format else TAGS, model.input_format or "columns")
    scores = model.scores(block)
    posterior = model.posterior(scores, block.sentences)
    check(np.isfinite(posterior).all(), "a probability is not finite")
    check(np.allclose(posterior.sum(axis=1), 1.0, atol=1e-6), "probabilities do not sum to 1")
    outputs = [Output(marginals=True), Output(decode="posterior"), Output(nbest=3)]
    for output in outputs if fully else outputs[:1]:
        found = annotate(model, block, model.extractor, output)
        check(b"nan" not in found and b"inf" not in found, "a number is not finite")
    tags = model.tag(block)
    check((tags >= 0).all() and (tags < len(model.labels)).all(), "a tag is out of range")


def use_parser(model: Parser, fully: bool) -> None:
    block = tree_block()
    for decode in ("viterbi", "posterior", "map") if fully else ("viterbi",):
        found = model.parse(block, None, decode, probabilities=True)
        for p in (found.head_probability, found.label_probability):
            check(p is not None and np.isfinite(p).all(), "a probability is not finite")
            check((p > -1e-6).all() and (p < 1 + 1e-6).all(), "a probability is out of range")
        check((found.labels >= 0).all() and (found.labels < len(model.labels)).all(), "labels")
        check_trees(block, found.heads, model.single_root)
        if fully:
            output = Output(decode=decode, marginals=True)
            from_bytes(annotate(model, block, model.extractor, output), "<trees>", CONLLU)
    if fully and not model.second_order:
        annotate(model, block, model.extractor, Output(nbest=3))


def load_bytes(data: bytes, given: bytes) -> None:
    """Load a file that was made of an input, and let some predict."""
    path = model_path()
    with open(path, "wb") as f:
        f.write(data)
    try:
        if often(given, 8):
            use(path)
        else:
            load_model(path)
    except DataError as e:
        if path not in str(e) and "<" not in str(e):
            raise Unexpected(f"does not name the file: {e}") from e
        raise


def model_file(data: bytes) -> None:
    """The bytes are the file."""
    load_bytes(data, data)


def model_header(data: bytes) -> None:
    """The bytes are the JSON of the header, before which a byte chooses the model."""
    models = list(small_models().values())
    _, arrays = models[(data[0] if data else 0) % len(models)]
    load_bytes(packed({"turbotag": data[1:].decode("utf-8", "replace")}, arrays), data)


def model_arrays(data: bytes) -> None:
    """Two bytes choose a model and an array, two where in it the rest is written; 255 and 255
    change its dtype instead."""
    models = list(small_models().values())
    first = data[:4].ljust(4, b"\0")
    header, arrays = models[first[0] % (4 if first[0] < 224 else len(models))]  # parsers are slow
    name = sorted(arrays)[first[1] % len(arrays)]
    if first[2:] == b"\xff\xff":
        dtype = list(DTYPES)[data[4] % len(DTYPES) if len(data) > 4 else 0]
        changed = np.frombuffer(data[5 : 5 + (len(data) - 5) // 8 * 8], dtype)
    else:
        raw = bytearray(arrays[name].tobytes())
        at = int.from_bytes(first[2:], "little") % (len(raw) + 1)
        new = data[4 : 4 + len(raw) - at]
        raw[at : at + len(new)] = new
        changed = np.frombuffer(raw, arrays[name].dtype).reshape(arrays[name].shape)
    load_bytes(model_bytes((header, {**arrays, name: changed})), data)


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
