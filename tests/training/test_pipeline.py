"""Pipelines from one treebank: all columns from raw text, one file, resumed stage by stage."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turbotag.corpus.reader import read
from turbotag.errors import DataError, UsageError
from turbotag.models import combining
from turbotag.models.bundle import load_bundle, save_bundle
from turbotag.models.pipeline import load, models_of
from turbotag.models.prediction import predict
from turbotag.storage import store
from turbotag.training import pipeline as module
from turbotag.training import train
from turbotag.training.options import options_for

DEMO = Path(__file__).parents[2] / "data" / "demo"
DEV, TEST = (str(DEMO / f"{part}.conllu") for part in ("dev", "test"))
SMALL = {"jackknife": 2, "supertags": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pipelines")


@pytest.fixture(scope="module")
def clusters(folder):
    path = folder / "clusters.tsv"
    words = sorted({w.lower() for w in read(DEV).strings(1)})
    rows = [*words, *(f"word{n}" for n in range(3000))]
    path.write_text("".join(f"{w}\t{n % 64:06b}\n" for n, w in enumerate(rows)))
    return str(path)


@pytest.fixture(scope="module")
def whole(folder, clusters):
    said, path = [], str(folder / "whole")
    options = options_for("pipeline", DEV, TEST, clusters={"own": clusters}, **SMALL)
    pipeline, header = train(options, path, echo=said.append)
    return pipeline, header, path, said


def predicted(model, text):
    out = io.BytesIO()
    predict(model, text if isinstance(text, bytes) else text.encode(), out)
    return out.getvalue()


def test_all_columns_from_raw_text(whole):
    pipeline, header, path, said = whole
    assert [line for line in said if line.startswith("====")] == [
        f"==== stage {n} of 5: {name} ===="
        for n, name in enumerate(("tokenize", "upos", "lemma", "parse", "ner"), 1)
    ]
    text = "Ada Castell found the old lamp. It waits."
    data = predicted(pipeline, text)
    assert data == predicted(load(path), text)
    block = read(data)
    for column in (1, 2, 3, 6, 7):
        assert block.filled(column).all()
    assert b"NER=B-PER" in data
    scores = header["scores"]["dev, raw text"]
    assert scores["Words"] > 0.95
    assert scores["LAS"] > 0.5
    assert any(line.startswith("dev, from raw text: Tokens") for line in said)


def test_every_stage_names_the_file_that_it_learned_from(whole):
    pipeline, header, _, said = whole
    for model in pipeline.models:
        assert model.header["data"] == header["data"]
        assert model.header["calibration"]["data"].startswith("test.conllu")
    assert header["data"]["name"] == "dev.conllu"
    assert not [line for line in said if "<memory>" in line]


def test_tagged_input_keeps_its_words(whole):
    pipeline = whole[0]
    block = read(predicted(pipeline, Path(TEST).read_bytes()))
    assert block.strings(1) == read(TEST).strings(1)


def test_arrays_of_several_stages_are_stored_once(whole):
    header, models = load_bundle(whole[2])
    assert {name.split("/")[0] for name in header["shared"]} >= {"parse"}
    for model in (models["upos"], models["parse"]):
        assert [resource.name for resource in model.resources] == ["own"]


def test_resumed_stage_by_stage_to_the_same_bytes(tmp_path, monkeypatch, clusters, whole):
    """With two threads until it is interrupted, and one after that."""
    options = options_for("pipeline", DEV, TEST, clusters={"own": clusters}, **SMALL)
    threads = replace(options, fit=replace(options.fit, threads=2))
    path, said = str(tmp_path / "m"), []

    def stop(*given, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "train_parser", stop)
        with pytest.raises(KeyboardInterrupt):
            train(threads, path)
    stages = ["lemma", "lemma0", "lemma1", "tokenize", "upos", "upos0", "upos1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"m.{s}.checkpoint" for s in stages]
    monkeypatch.setattr(module, "train_tokenizer", stop)
    train(options, path, echo=said.append, resume=True)
    assert sum("done before" in line for line in said) == 7
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert Path(path).read_bytes() == Path(whole[2]).read_bytes()


def test_stages_that_pipelines_share_are_trained_once(tmp_path, clusters, whole):
    """Two that differ in the parser; the bytes are those of a training on its own."""
    given = {"clusters": {"own": clusters}, **SMALL, "kept": str(tmp_path / "kept")}
    first, other, said = str(tmp_path / "first"), str(tmp_path / "other"), []
    train(options_for("pipeline", DEV, TEST, **given, heads=3), first)
    train(options_for("pipeline", DEV, TEST, **given), other, echo=said.append)
    done = [line.split(":")[0] for line in said if "done before" in line]
    assert done == ["tokenize", "upos", "upos0", "upos1", "lemma", "lemma0", "lemma1"]
    assert Path(other).read_bytes() == Path(whole[2]).read_bytes()
    assert Path(first).read_bytes() != Path(other).read_bytes()


def test_columns_that_no_stage_fills_are_not_read(folder):
    """Tags of the file that new text will not have must not be learned from."""
    options = options_for("pipeline", DEV, stages=("upos", "parse"), **SMALL)
    pipeline, _ = train(options)
    parser = pipeline.models[-1]
    assert "lemma" not in "".join(parser.header["templates"].values())
    assert parser.header["tags"] == "2-fold predicted"
    assert pipeline.tokenizer is None


TREE = "1\t{}\t{}\t{}\t_\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        (b"a N\n", {}, "is columns; a pipeline is learned from CoNLL-U"),
        (TREE.format("a", "_", "X"), {"stages": ("lemma",)}, "needs a column LEMMA"),
        (TREE.format("a", "_", "X"), {"stages": ("ner",)}, "needs --ner FILE"),
        (TREE.format("a", "_", "X"), {}, "too few for 2 folds"),
    ],
)
def test_what_cannot_be_learned_is_refused(text, given, words):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises((DataError, UsageError), match=words):
        train(options_for("pipeline", data, **(SMALL | given)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stages": ("tags",)}, "unknown stage 'tags': it is one of tokenize, upos"),
        ({"ner_dev": "x"}, "--ner-dev needs --ner"),
        ({"jackknife": 1}, "2 folds or more"),
        ({"heads": 0}, "heads is 0"),
    ],
)
def test_wrong_options(given, words):
    with pytest.raises(UsageError, match=words):
        options_for("pipeline", DEV, **given)


def test_a_column_learns_from_more_sentences():
    """Which the folds that predict it, and other stages, do not see."""
    row = "\t".join(["1", "Zorbing", "zorb", "X", *["_"] * 6])
    given = {"stages": ("upos", "lemma"), "jackknife": 2}
    said: dict[bool, list[str]] = {False: [], True: []}
    for more in (False, True):
        extra = {"more": {"upos": f"{row}\n\n".encode() * 20}} if more else {}
        options = options_for("pipeline", DEV, **given, **extra)
        pipeline, _ = train(options, echo=said[more].append)
        words = [w for w in predicted(pipeline, "Zorbing").splitlines() if w.startswith(b"1\t")]
        assert (words[0].split(b"\t")[3] == b"X") == more
    folds = [[line for line in said[more] if "right over" in line] for more in (False, True)]
    assert folds[0] == folds[1]
    with pytest.raises(UsageError, match="unknown stage 'tags'"):
        options_for("pipeline", DEV, more={"tags": b""})


def test_the_parser_learns_from_more_sentences(monkeypatch):
    """Their columns are those that the stages before it predict."""
    more = "1\tWe\t_\tX\tY\t_\t2\tzorb\t_\t_\n2\tslept\t_\tX\tY\t_\t0\troot\t_\t_\n\n"
    given = {"stages": ("upos", "parse"), **SMALL, "more": {"parse": more.encode()}}
    learned = []
    whole = module.train_parser

    def seen(options, **work):
        learned.append(read(options.train))
        return whole(options, **work)

    monkeypatch.setattr(module, "train_parser", seen)
    pipeline, _ = train(options_for("pipeline", DEV, **given))
    (block,) = learned
    assert block.n_sentences == read(DEV).n_sentences + 1
    tags, others, heads, labels = (block.strings(at)[-2:] for at in (3, 4, 6, 7))
    assert not {"X", "_"} & set(tags)
    assert (others, heads, labels) == (["_", "_"], ["2", "0"], ["zorb", "root"])
    assert "zorb" in pipeline.models[-1].header["labels"]


def test_one_sentence_without_folds():
    """A label seen once, no lemmas, no features, no multiword tokens, an empty node."""
    text = "# text = Yes\n1\tYes\t_\tINTJ\t_\t_\t0\troot\t_\t_\n1.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    options = options_for("pipeline", text.encode(), jackknife=0, supertags=0)
    data = predicted(train(options)[0], "Yes").decode()
    assert "1\tYes\t_\tINTJ\t_\t_\t0\troot" in data


def test_combine(whole, folder, tmp_path):
    path, own = whole[2], str(tmp_path / "own.model")
    models_of(path)["ner"].save(str(tmp_path / "entities.model"))
    given = (path, str(tmp_path / "entities.model"))
    assert combining.combine(given, own) == ["tokenize", "upos", "lemma", "parse", "entities"]
    text = "Ada Castell found the old lamp."
    assert predicted(load(own), text) == predicted(load(path), text)
    parser, tagger = (str(tmp_path / name) for name in ("parse.model", "upos.model"))
    models_of(path)["parse"].save(parser)
    models_of(path)["upos"].save(tagger)
    with pytest.raises(UsageError, match="reads upos, which only a later model gives"):
        combining.combine((parser, tagger), own)
    models_of(path)["upos"].save(str(tmp_path / "mine.model"))  # others read what it fills
    found = combining.combine((path, str(tmp_path / "mine.model")), own)
    assert found == ["tokenize", "mine", "lemma", "parse", "ner"]
    assert predicted(load(own), text) == predicted(load(path), text)


def test_damaged_files_are_refused(whole, tmp_path):
    header, arrays = store.load_file(whole[2], "pipeline")
    stage = {"name": "x", "kind": "tagger", "header": {"task": "pos"}}
    for wrong in (
        {"stages": [stage]},
        {"stages": [*header["stages"], {**stage, "kind": "cook"}]},
        {"stages": [{**header["stages"][1], "kind": "parser"}]},
        {"shared": {"upos/lows": "nowhere"}, "stages": header["stages"][1:2]},
        {"stages": "x"},
    ):
        path = str(tmp_path / "m")
        few = {n: a for n, a in arrays.items() if n != "upos/lows"}
        store.save_file(path, "pipeline", header | wrong, few)
        with pytest.raises(DataError, match="m: is damaged"):
            load(path)
    save_bundle(str(tmp_path / "empty"), {}, {k: header[k] for k in ("task", "command")})
    with pytest.raises(DataError, match="is damaged"):
        load(str(tmp_path / "empty"))
    assert np.isfinite(list(whole[1]["scores"]["dev, raw text"].values())).all()
