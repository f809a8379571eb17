"""Training that goes on from a model: what it knows stays, new data add to it."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turbotag.corpus.reader import read
from turbotag.errors import DataError, UsageError
from turbotag.features import compact
from turbotag.models.gold import Layout, score_parser
from turbotag.models.parser import Parser
from turbotag.models.tag_comparison import evaluate_model
from turbotag.models.tagger import Tagger
from turbotag.optim.trace import Trace
from turbotag.report.model_card import tagger_card
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[2] / "data" / "demo"
OLD, DEV = str(DEMO / "train.iob2"), str(DEMO / "dev.iob2")
NEW = b"""Zyx PROPN B-SHIP
sank VERB O
. PUNCT O

Ada PROPN B-PER
saw VERB O
the DET O
Zyx PROPN B-SHIP
Wvu PROPN I-SHIP
. PUNCT O
"""
NOTHING = 1e-12  # a C that lets no weight change


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("continued")


@pytest.fixture(scope="module")
def old(folder):
    path = str(folder / "old")
    train(options_for("ner", OLD, algorithm="dca", epochs=3), path)
    return path


def go_on(old, folder, said=None, **more):
    options = options_for("ner", NEW, **({"init": old, "format": "columns"} | more))
    return train(options, str(folder / "next"), echo=(said if said is not None else []).append)


def f1(model, path=DEV):
    return evaluate_model(model, path, strict=False).main


@pytest.mark.parametrize("algorithm", ["sdca", "dca", "lbfgs"])
def test_features_and_labels_of_the_model_are_kept(old, folder, algorithm):
    before, said = Tagger.load(old, names=True), []
    model, result = go_on(old, folder, said, algorithm=algorithm, epochs=20)
    assert model.labels == sorted([*before.labels, "B-SHIP", "I-SHIP"])
    rows = model.lookup(before.keys)
    assert (rows >= 0).all()
    keys = np.unique(before.extractor.occurrences(read(NEW, "columns")).keys)
    shared = int((before.lookup(keys) >= 0).sum())
    added = keys.size - shared
    assert model.keys.size == before.keys.size + added
    assert (
        f"going on from a model of train.iob2: kept {before.keys.size} features, of which the new "
        f"data have {shared}; added {added} and 2 labels"
    ) in said
    at = [model.labels.index(label) for label in before.labels]
    alone = ~np.isin(before.keys, keys)
    np.testing.assert_array_equal(
        model.weights[rows[alone]][:, at], before.weights[: before.keys.size][alone]
    )
    for row in np.flatnonzero(alone)[::500].tolist():
        assert model.feature_name(rows[row]) == before.feature_name(row)
    assert model.feature_name(model.lookup(keys)[0])
    assert f1(model) > f1(before) - 0.05  # which training on the new sentences alone does not have
    assert evaluate_model(model, NEW, Layout("columns")).main == 1
    assert any(
        line.startswith("certificate, of the objective, regularised towards the old model: ")
        for line in said
    )
    assert result.certificate.gap >= 0.0
    again = Tagger.load(str(folder / "next"), names=True)
    assert again.weights.tobytes() == model.weights.tobytes()
    assert "\nwent on from old (trained on train.iob2, 400 sentences)\n" in tagger_card(again)


def test_a_model_that_may_not_change_stays_as_it_is(old, folder):
    before, (model, _) = Tagger.load(old), go_on(old, folder, C=NOTHING, epochs=2)
    rows, at = model.lookup(before.keys), [model.labels.index(x) for x in before.labels]
    n = before.keys.size
    np.testing.assert_allclose(model.weights[rows][:, at], before.weights[:n], atol=1e-6)
    np.testing.assert_allclose(model.trans[np.ix_(at, at)], before.trans, atol=1e-6)
    block = read(DEV)
    tags = [[m.labels[t] for t in m.tag(block).tolist()] for m in (before, model)]
    assert tags[0] == tags[1]


def test_dev_scores_are_those_of_the_whole_model(old, folder):
    """Features that only the old model has count too."""
    trace = Trace()
    options = options_for("ner", NEW, DEV, init=old, format="columns", algorithm="dca", epochs=2)
    model, _ = train(
        replace(options, fit=replace(options.fit, C=NOTHING)), str(folder / "next"), trace
    )
    assert trace.rows[-1].dev == pytest.approx(f1(Tagger.load(old)))
    assert model.header["scores"]["dev"]["f1"] == pytest.approx(f1(model))


def test_a_compact_model_stays_compact(folder, tmp_path):
    path = str(tmp_path / "small")
    before, _ = train(options_for("ner", OLD, algorithm="dca", epochs=3, compact=True), path)
    model, _ = go_on(path, tmp_path, C=NOTHING, epochs=1, drop=0.0)
    assert model.header["compact"]
    rows, at = model.lookup(before.keys), [model.labels.index(x) for x in before.labels]
    assert (rows >= 0).all()
    np.testing.assert_allclose(
        model.weights[rows][:, at], before.weights[: before.keys.size], atol=1e-6
    )
    again = Tagger.load(str(tmp_path / "next"))
    assert f1(again) == pytest.approx(f1(before), abs=0.01)
    assert compact.fold(again.keys).tolist() == again.keys.tolist()


def test_templates_gazetteers_scheme_and_order_are_kept(tmp_path):
    names, own = tmp_path / "names", tmp_path / "own"
    names.write_text("Ada\n")
    own.write_text("word[0]\ngaz[0]\nword[-1] word[0]\n")
    old = str(tmp_path / "old")
    options = options_for(
        "ner", DEV, template=str(own), gazetteers={"g": str(names)}, scheme="iobes", order=2
    )
    before, _ = train(replace(options, fit=replace(options.fit, algorithm="dca", epochs=1)), old)
    more = tmp_path / "more"
    more.write_text("lower[0]\nword[0]\n")
    model, _ = go_on(old, tmp_path, template=str(more), algorithm="dca", epochs=1)
    assert model.header["templates"].splitlines() == [*own.read_text().splitlines(), "lower[0]"]
    assert (model.header["gazetteers"], model.header["scheme"], model.order) == (["g"], "iobes", 2)
    assert "S-SHIP" in model.labels
    kept = {before.feature_name(r) for r in range(before.keys.size)}
    assert kept < {model.feature_name(r) for r in range(model.keys.size)}
    assert "gaz:g[0]=single" in kept or any("gaz" in name for name in kept)
    with pytest.raises(UsageError, match="has tags in IOBES: leave out --scheme"):
        go_on(old, tmp_path, scheme="iob2")
    with pytest.raises(DataError, match="is a model for --task ner, not chunk"):
        train(options_for("chunk", NEW, init=old, format="columns"), str(tmp_path / "next"))


def test_attributes_are_kept(tmp_path):
    """Of CRFsuite files; their names too."""
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    train(options_for("pos", b"A\tw=a\tcap:0.5\nB\tw=b\n", epochs=3), old)
    model, _ = train(options_for("pos", b"C\tw=c\tcap\n", init=old, epochs=3), new)
    model = Tagger.load(new, names=True)
    names = [model.feature_name(row) for row in range(model.keys.size)]
    assert sorted(names) == ["cap", "w=a", "w=b", "w=c"]
    assert model.labels == ["A", "B", "C"]
    block = read(b"A\tw=a\tcap\nB\tw=b\nC\tw=c\n", "crfsuite")
    assert [model.labels[t] for t in model.tag(block).tolist()] == ["A", "B", "C"]


def test_an_interrupted_training_goes_on_from_the_same_model(old, tmp_path):
    class Stops(Trace):
        def add(self, row):
            super().add(row)
            if row.epoch == 2:
                raise KeyboardInterrupt

    options = options_for("ner", NEW, init=old, format="columns", epochs=4)
    whole, _ = train(options, str(tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        train(options, str(tmp_path / "m"), Stops(), checkpoint_seconds=0.0)
    model, _ = train(options, str(tmp_path / "m"), resume=True)
    assert model.weights.tobytes() == whole.weights.tobytes()
    with pytest.raises(KeyboardInterrupt):
        train(options, str(tmp_path / "m"), Stops(), checkpoint_seconds=0.0)
    with pytest.raises(DataError, match="was trained with --init, now without --init"):
        train(replace(options, init=None), str(tmp_path / "m"), resume=True)


# ---- Parsers -------------------------------------------------------------------------------------

TREES = b"""1\tZyx\t_\tPROPN\t_\t_\t2\tnsubj:ship\t_\t_
2\tsank\t_\tVERB\t_\t_\t0\troot\t_\t_
3\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\tIt\t_\tPRON\t_\t_\t2\tnsubj\t_\t_
2\tsank\t_\tVERB\t_\t_\t0\troot\t_\t_

"""
TEST = str(DEMO / "test.conllu")


@pytest.fixture(scope="module")
def parser(folder):
    options = options_for("parse", train=str(DEMO / "dev.conllu"), supertags=2, epochs=4, drop=0.0)
    return train_parser(replace(options, decoder="nonprojective"), str(folder / "parser"))[0]


def test_a_parser_that_may_not_change_stays_as_it_is(parser, folder):
    """All stages; and held-out trees are scored with features that only the old one has."""
    said, trace = [], Trace()
    options = options_for(
        "parse",
        train=TREES,
        dev=TEST,
        format="conllu",
        init=str(folder / "parser"),
        supertags=2,
        decoder="nonprojective",
        C=NOTHING,
        drop=0.0,
        epochs=1,
        algorithm="dca",
    )
    model, _ = train_parser(options, str(folder / "next"), trace, said.append)
    assert model.labels == sorted([*parser.labels, "nsubj:ship"])
    assert set(parser.header["supertags"]) <= set(model.header["supertags"])
    block = read(TEST)
    matrices = [m.matrix(block, m.extractor) for m in (parser, model)]
    for a, b in zip(block.sentences[:5].tolist(), block.sentences[1:6].tolist(), strict=True):
        heads = block_heads(block)[a:b]
        at = [model.labels.index(label) for label in parser.labels]
        one, two = (
            m.label_scores(x[a:b], heads, m.extractor)
            for m, x in zip((parser, model), matrices, strict=True)
        )
        np.testing.assert_allclose(two[:, at], one, atol=1e-4)
    for stage in ("super", "prune", "arc", "label"):
        assert sum(line.startswith(f"{stage}: kept ") and "; added " in line for line in said) == 1
    assert trace.rows[-1].dev == pytest.approx(
        score_parser(model, block).conventions["nopunct"].uas, abs=0.01
    )


def block_heads(block):
    return np.array([int(h) for h in block.strings(6)])


@pytest.mark.parametrize("algorithm", ["dca", "sdca", "sgd"])
def test_second_order_from_first_order(folder, algorithm):
    """Arcs begin with the other parser's weights, parts with none."""
    small = str(DEMO / "dev.conllu")
    first = str(folder / "first")
    if not os.path.exists(first):
        one = options_for("parse", train=small, labels=False, epochs=3, algorithm="dca")
        train_parser(one, first)
    options = options_for(
        "parse", train=small, labels=False, parts=("cs", "gp"), algorithm=algorithm, epochs=1,
        params={"eta": 0.01} if algorithm == "sgd" else {},
    )  # fmt: skip
    plain, began = (
        train_parser(replace(options, init=init), str(folder / "x"))[1] for init in (None, first)
    )
    assert began.certificate.gap >= 0.0
    assert began.certificate.primal < plain.certificate.primal


def test_other_templates_are_told(parser, folder):
    said = []
    options = options_for(
        "parse", train=TREES, format="conllu", init=str(folder / "parser"), epochs=1, labels=False
    )
    train_parser(options, str(folder / "next"), echo=said.append)
    assert any(
        line.startswith("warning: ") and "templates of its stage 'arc' are not among" in line
        for line in said
    )
    assert Parser.load(str(folder / "next")).header["supertags"] == []
