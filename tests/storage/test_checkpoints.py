"""Checkpoints: whether one is of this training, and what is different if it is not."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from turbotag.corpus.reader import read
from turbotag.errors import DataError
from turbotag.storage.checkpoints import Checkpoint, Progress, difference
from turbotag.training.options import options_for


@pytest.fixture
def files(tmp_path):
    for name in ("train", "dev", "list"):
        (tmp_path / name).write_text(f"{name} O\n")
    return tmp_path


def options(files, **more):
    dev, gazetteers = str(files / "dev"), {"g": str(files / "list")}
    given = {"train": str(files / "train"), "dev": dev, "gazetteers": gazetteers} | more
    return options_for("ner", **given)


def marked(chosen):
    return chosen.fingerprint(read(chosen.train))


def test_limits_licence_and_names_of_files_are_free(files):
    one = marked(options(files))
    limits = {"epochs": 3, "stop_gap": 0.1, "patience": 2, "max_seconds": 9.0}
    assert one == marked(options(files, max_oracle_calls=5, licence="MIT", **limits))
    assert one == marked(options(files, params={"sampling": "gap"}))  # the default
    (files / "moved").write_bytes((files / "train").read_bytes())
    assert one == marked(replace(options(files), train=str(files / "moved")))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"C": 0.5}, "with -C 1, now with -C 0.5"),
        ({"gamma": 2.0}, "with --gamma 0, now with --gamma 2"),
        ({"loss": "svm"}, "with --beta 1, now with --beta inf; with --gamma 0, now with --gamma 1"),
        ({"params": {"sampling": "max"}}, "with --sampling gap, now with --sampling max"),
        ({"strict": True}, "without --strict, now with --strict"),
        ({"scheme": "iobes"}, "without --scheme, now with --scheme iobes"),
        ({"dev": None}, "with --dev, now without --dev"),
        ({"gazetteers": {}}, "with --gazetteer, now without --gazetteer"),
        ({"columns": ("word", "tag")}, "without --columns, now with --columns word,tag"),
        ({"keep": "last"}, "with --keep best, now with --keep last"),
    ],
)
def test_what_matters_is_named(files, changed, words):
    assert difference(marked(options(files)), marked(options(files, **changed))) == words


def test_options_of_parsers_have_names_too(tmp_path):
    path = tmp_path / "train"
    path.write_text("1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n")
    one, bare, second = (
        marked(options_for("parse", train=str(path), **more))
        for more in ({}, {"labels": False, "prune": False}, {"parts": ("cs", "gp"), "drop": 0.01})
    )
    said = difference(one, bare)
    for words in ("with labels, now without labels", "with pruning, now without pruning"):
        assert words in said
    assert "without --parts, now with --parts cs,gp" in difference(one, second)


def test_contents_of_files_count(files):
    one = marked(options(files))
    for name, said in (("dev", "--dev"), ("list", "--gazetteer"), ("train", "--train")):
        before = (files / name).read_bytes()
        (files / name).write_text("other O\n")
        assert difference(one, marked(options(files))) == f"with other content in {said}"
        (files / name).write_bytes(before)


def test_another_training_is_refused(tmp_path):
    path = str(tmp_path / "m.checkpoint")
    Checkpoint(path, {"C": 1.0, "seed": 1}).save({"W": np.ones(2)}, "{}")
    arrays, state = Checkpoint(path, {"C": 1.0, "seed": 1}).load()
    assert (arrays["W"].tolist(), state) == ([1.0, 1.0], "{}")
    with pytest.raises(DataError, match=r"was trained with -C 1, now with -C 2; remove it, or"):
        Checkpoint(path, {"C": 2.0, "seed": 1}).load()
    with pytest.raises(DataError, match="of another version"):
        Checkpoint(path, {"C": 1.0}).load()


@pytest.mark.parametrize("threads", [1, 3])
def test_folds_are_used_in_their_order_and_not_worked_on_again(tmp_path, threads):
    output, begun, used = str(tmp_path / "m"), [], []

    def work(f, fails=()):
        begun.append(f)
        time.sleep(0.05 if f == 0 else 0.0)  # others end before the first
        if f in fails:
            raise ValueError("a fold fails")
        return {"f": np.array([f])}

    def folds(resume, **how):
        progress = Progress(output, {}, resume=resume)
        use = lambda f, arrays: used.append((f, int(arrays["f"][0])))  # noqa: E731
        progress.folds("fold", 5, partial(work, **how), use, threads)
        return progress

    with pytest.raises(ValueError, match="a fold fails"):
        folds(False, fails=(2,))
    assert used == [(0, 0), (1, 1)]
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"m.fold{f}.checkpoint" for f in (0, 1)]
    begun.clear()
    used.clear()
    folds(True).remove()
    assert used == [(f, f) for f in range(5)]
    assert sorted(begun) == [2, 3, 4]
    assert not [*tmp_path.iterdir()]
