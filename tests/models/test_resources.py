"""Models that read clusters and gazetteers: trained, stored, loaded, gone on from, looked into."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turbotag.corpus.reader import read
from turbotag.errors import UsageError
from turbotag.models.parser import Parser
from turbotag.models.tagger import Tagger
from turbotag.report.heaviest import features_text
from turbotag.report.model_card import model_card
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[2] / "data" / "demo"
TRAIN, DEV = str(DEMO / "dev.conllu"), str(DEMO / "test.conllu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Clusters by the last letter of a word, which hardly helps, and a gazetteer."""
    folder = tmp_path_factory.mktemp("resources")
    words = sorted({w.lower() for w in read(TRAIN).strings(1)})
    lines = [f"{w}\t{ord(w[-1]) % 32:05b}\n" for w in words]
    (folder / "clusters.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "names.txt").write_text("Ada\nOslo\n")
    return folder


def given(files):
    return {
        "clusters": {"en": str(files / "clusters.tsv")},
        "gazetteers": {"name": str(files / "names.txt")},
        "calibration": False,
    }


@pytest.fixture(scope="module")
def tagger(files):
    path = str(files / "pos.model")
    options = options_for("pos", train=TRAIN, algorithm="dca", epochs=2, **given(files))
    return options, path, train(options, path)[0]


@pytest.fixture(scope="module")
def parser(files):
    path = str(files / "parse.model")
    more = {"supertags": 2, "jackknife": 2, "algorithm": "dca", "epochs": 1}
    options = options_for("parse", train=TRAIN, **more, **given(files))
    return options, path, train_parser(options, path)[0]


def test_a_tagger_keeps_its_clusters(tagger):
    _, path, model = tagger
    again, block = Tagger.load(path, names=True), read(DEV)
    assert again.header["clusters"] == ["en"]
    assert again.tag(block).tolist() == model.tag(block).tolist()
    names = [again.feature_name(row) for row in range(again.keys.size)]
    assert {name.split("=")[0] for name in names} > {"cluster4:en[0]", "cluster:en[-2]"}
    assert "clusters     en" in model_card(again)
    assert "cluster" in features_text(again, None, 50, DEV)
    small = again.compacted(0.0)
    assert np.mean(small.tag(block) == again.tag(block)) > 0.99


def test_a_parser_keeps_its_clusters(parser):
    _, path, model = parser
    again, block = Parser.load(path), read(DEV)
    assert [r.name for r in again.resources] == ["name", "en"]
    assert (again.parse(block).heads == model.parse(block).heads).all()
    assert "clusters     en" in model_card(again)
    assert "m:cluster" in features_text(again, None, 3000, DEV)
    assert "m:cluster" in features_text(again, again.labels[0], 3000, DEV)


def test_training_goes_on_with_the_same_clusters(tagger, parser, files, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text("the\t01\n")
    for (options, path, old), run in ((tagger, train), (parser, train_parser)):
        asked = replace(options, init=path, resources={})
        model, _ = run(asked, str(tmp_path / "next"))
        assert model.header["clusters"] == ["en"]
        assert model.header["gazetteers"] == ["name"]
        assert model.resources[1].same(old.resources[1])
        with pytest.raises(UsageError, match="--init has other clusters 'en'"):
            run(replace(asked, resources={"clusters": {"en": str(other)}}), str(tmp_path / "next"))
        run(replace(asked, resources={"clusters": {"more": str(other)}}), str(tmp_path / "next"))
