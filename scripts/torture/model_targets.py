"""Model files as targets: small models, their bytes, and what must hold of those that load."""

from __future__ import annotations

import atexit
import json
import os
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attempts import ATTRIBUTES, TAGS, TREES, Unexpected, check, often, tree_block

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes, read
from turbotag.corpus.trees import check_trees
from turbotag.errors import DataError
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

FOLDER: Path | None = None  # for files that live a moment, where it is not `scratch`


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
