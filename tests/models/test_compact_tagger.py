"""Compact taggers: what they keep of the full ones, their files, and --compact."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.cli.processes import run
from tests.models.test_tagger import DEV, TEST, TRAIN, fit
from turbotag.cli.main import cli
from turbotag.corpus.reader import read
from turbotag.errors import DataError, UsageError
from turbotag.features import compact
from turbotag.models.model import Output
from turbotag.models.prediction import predict
from turbotag.models.tag_comparison import evaluate_model
from turbotag.models.tagger import Tagger
from turbotag.storage import store
from turbotag.training.options import options_for
from turbotag.training.tagger import train

TREEBANK = str(Path(TRAIN).with_name("train.conllu"))


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A tagger with the names of its features."""
    folder = tmp_path_factory.mktemp("full")
    fit(folder)
    return Tagger.load(str(folder / "m"), names=True)


@pytest.fixture(scope="module")
def small(full):
    return full.compacted(0.01)


@pytest.fixture
def saved(small, tmp_path):
    path = tmp_path / "small.model"
    small.save(str(path))
    return path


def f1(tagger):
    return evaluate_model(tagger, TEST, strict=True).total.f1


def tagged(tagger, **output):
    out = io.BytesIO()
    predict(tagger, TEST, out, Output(**output))
    return out.getvalue()


def test_the_full_tagger_is_left_alone(full):
    before = full.weights.copy(), full.keys.copy(), dict(full.header)
    assert full.compacted(0.01).header == {**full.header, "compact": True}
    np.testing.assert_array_equal(full.weights, before[0])
    np.testing.assert_array_equal(full.keys, before[1])
    assert full.header == before[2]
    assert "compact" not in full.header


def test_weights_are_those_of_the_full_tagger_but_for_rounding(full, small):
    n, K = small.keys.size, len(small.labels)
    assert n < full.keys.size
    rows = small.lookup(full.keys)
    kept = np.flatnonzero(rows >= 0)
    assert np.unique(rows[kept]).size == n
    ours, theirs = small.weights[rows[kept]], full.weights[kept]
    top = np.abs(theirs).max(axis=1, keepdims=True)
    size = np.abs(full.weights[: full.keys.size]).max(axis=1)
    left_out = np.abs(theirs) <= compact.SMALL * 0.01 * size.max()
    near = np.abs(ours - theirs) <= 0.012 * top  # eight bits on a square-root scale
    assert np.where(left_out, ours == 0.0, near).all()
    assert 0.1 < left_out.mean() < 0.9
    assert (size[kept] > 0.01 * size.max()).all()
    lost = np.delete(size, kept)
    assert (lost <= 0.01 * size.max()).all()
    np.testing.assert_array_equal(small.weights[n:], full.weights[full.keys.size :])
    assert small.weights.shape == (n + K, K)


@pytest.mark.parametrize("drop", [0.0, 0.001, 0.01, 0.05])
def test_accuracy_is_close_and_files_shrink(full, tmp_path, drop):
    small, path = full.compacted(drop), tmp_path / "small"
    assert f1(small) == pytest.approx(f1(full), abs=0.02)
    small.save(str(path))
    full.save(str(tmp_path / "full"))
    assert path.stat().st_size < 0.4 * (tmp_path / "full").stat().st_size
    if drop:
        full.compacted(drop / 10).save(str(tmp_path / "less"))
        assert path.stat().st_size < (tmp_path / "less").stat().st_size


@pytest.mark.parametrize("output", [{}, {"marginals": True}, {"nbest": 3}], ids=str)
def test_saved_and_loaded_it_predicts_the_same_bytes(small, saved, output):
    again = Tagger.load(str(saved), names=True)
    assert tagged(again, **output) == tagged(small, **output)
    assert tagged(pickle.loads(pickle.dumps(again)), **output) == tagged(small, **output)


def test_saving_what_was_loaded_gives_the_same_bytes(saved, tmp_path):
    Tagger.load(str(saved)).save(str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_a_compact_tagger_can_be_made_smaller(small):
    smaller = small.compacted(0.1)
    assert smaller.keys.size < small.keys.size
    assert small.compacted(0.0).keys.size == small.keys.size
    assert tagged(small.compacted(0.0)) == tagged(small)


@pytest.mark.parametrize(
    "options",
    [
        {"order": 2},
        {"scheme": "iobes"},
        {"loss": "svm", "epochs": 5},
        {"task": "pos", "train": TREEBANK, "epochs": 3},
    ],
    ids=str,
)
def test_variants(tmp_path, options):
    settings = {"task": "ner", "train": TRAIN, "stop_gap": 0.1, "compact": True, **options}
    made, _ = train(options_for(**settings), str(tmp_path / "m"))
    again = Tagger.load(str(tmp_path / "m"))
    block = read(TEST if settings["task"] == "ner" else TREEBANK)
    np.testing.assert_array_equal(again.tag(block), made.tag(block))
    np.testing.assert_array_equal(again.weights, made.weights)
    assert again.header["compact"]


def test_gazetteers_and_attributes(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("Oslo\nQuill\n")
    template = tmp_path / "template.txt"
    template.write_text("word[0]\ngaz[0]\n")
    fit(tmp_path, compact=True, template=str(template), gazetteers={"name": str(names)})
    assert [g.name for g in Tagger.load(str(tmp_path / "m")).resources] == ["name"]
    weighted = tmp_path / "weighted.crfsuite"
    weighted.write_text("N\tw=Ada:2.5\tcap\nV\tw=sings\n\nN\tw=rain\nV\tw=falls\tlow:0.5\n\n" * 5)
    options = options_for("pos", str(weighted), format="crfsuite", compact=True)
    made, _ = train(options, str(tmp_path / "w"))
    block = read(str(weighted), "crfsuite")
    again = Tagger.load(str(tmp_path / "w"))
    np.testing.assert_array_equal(again.scores(block), made.scores(block))
    assert [again.labels[k] for k in again.tag(block)[:4]] == ["N", "V", "N", "V"]


def test_everything_dropped(full, tmp_path):
    """Transitions alone still make a model."""
    none = full.compacted(1.0)
    assert none.keys.size == 0
    none.save(str(tmp_path / "none"))
    assert tagged(Tagger.load(str(tmp_path / "none"))) == tagged(none)


def test_damaged_files_are_refused(saved, tmp_path):
    header, arrays = store.load_file(str(saved), "tagger")
    bad = tmp_path / "bad"

    def refused(words="is damaged: its parts do not fit together", **changes):
        changed = {k: v for k, v in (arrays | changes).items() if v is not None}
        store.save_file(str(bad), "tagger", header, changed)
        with pytest.raises(DataError, match=words):
            Tagger.load(str(bad))

    counts, scales = arrays["counts"].copy(), arrays["scales"].copy()
    counts[0] += 1
    scales[0] = np.nan
    for name in ("counts", "lows", "rows", "scales", "shared"):
        refused(**{name: None})
    refused(counts=counts)
    refused(counts=arrays["counts"][:-1])
    refused(lows=arrays["lows"][::-1])
    refused(lows=arrays["lows"].astype(np.int32))
    refused(rows=arrays["rows"][:-1], scales=arrays["scales"][:-1])
    refused(rows=arrays["rows"][:, :-1])
    refused(rows=arrays["rows"].astype(np.float32))
    refused(scales=scales)
    refused(scales=-arrays["scales"])
    refused(shared=arrays["shared"][:-1])
    refused(shared=np.full_like(arrays["shared"], np.inf))
    refused(shared=arrays["shared"].astype(np.float64))

    whole = saved.read_bytes()
    for cut in (b"", whole[:7], whole[: len(whole) // 2], whole[:-1]):
        bad.write_bytes(cut)
        with pytest.raises(DataError, match=f"{bad}: is not a turbotag model, or is damaged"):
            Tagger.load(str(bad))
    header.pop("compact")  # then it has no keys
    store.save_file(str(bad), "tagger", header, arrays)
    with pytest.raises(DataError, match="is damaged"):
        Tagger.load(str(bad))


def test_on_the_command_line(tmp_path):
    model, smaller = tmp_path / "small.model", tmp_path / "smaller.model"
    command = ["train", "--task", "ner", "--train", TRAIN, "--dev", DEV, "--compact", "-q"]
    command += ["--algorithm", "dca", "--epochs", 3]
    for path, more in ((model, []), (smaller, ["--drop", 0.1, "--init", model])):
        done = run(*command, *more, "-o", path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert smaller.stat().st_size < model.stat().st_size < 200_000
    shown = run("inspect", model, "--label", "B-PER", "--top", 3)
    assert shown.returncode == 0
    assert "certificate" in shown.stdout
    assert "B-PER -> I-PER" in shown.stdout
    *_, a, b, c = shown.stdout.splitlines()
    assert all(len(line.split()[1]) == 16 for line in (a, b, c))  # keys for want of names
    assert Tagger.load(str(smaller)).header["compact"] is True
    assert sorted(os.listdir(tmp_path)) == ["small.model", "smaller.model"]


def test_the_dev_score_is_that_of_the_compact_tagger(tmp_path):
    options = options_for("ner", TRAIN, DEV, algorithm="dca", epochs=3, compact=True, drop=0.3)
    made, _ = train(options, str(tmp_path / "m"))
    own = evaluate_model(made, DEV, strict=False)
    assert made.header["scores"]["dev"]["f1"] == own.main


def test_drop_without_compact_is_refused_by_name():
    command = ["train", "--task", "ner", "--train", TRAIN, "--drop", "0.1", "-o", "none"]
    with pytest.raises(UsageError, match=r"--drop.*--compact"):
        cli.main(command, standalone_mode=False)


@pytest.mark.parametrize("drop", [-1.0, float("nan")])
def test_drop_out_of_range_is_refused(tmp_path, drop):
    with pytest.raises(UsageError, match="drop is"):
        train(options_for("ner", DEV, epochs=1, compact=True, drop=drop), str(tmp_path / "m"))


def test_rows_that_fold_alike_keep_the_heavier(full):
    keys = full.keys.copy()
    keys[1] = keys[0] ^ np.uint64(1)  # the same upper half
    weights = full.weights.copy()
    weights[0], weights[1] = 1.0, 2.0
    twin = Tagger(full.header, keys, weights, []).compacted(0.0)
    row = twin.table.lookup(compact.fold(keys[:2]))
    assert row[0] == row[1] >= 0
    np.testing.assert_allclose(twin.weights[row[0]], 2.0)
