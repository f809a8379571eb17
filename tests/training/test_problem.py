"""The problem of some options: an optimizer run on it by hand gives what training gives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from turbotag.optim.algorithms import algorithm
from turbotag.optim.trace import Trace
from turbotag.training import parser as parser_training
from turbotag.training import tagger as training
from turbotag.training.options import options_for

DEMO = Path(__file__).parents[2] / "data" / "demo"


@pytest.mark.parametrize(
    ("task", "more", "problem", "train"),
    [
        ("ner", {}, training.problem, training.train),
        ("parse", {"labels": False}, parser_training.problem, parser_training.train_parser),
        ("parse", {"labels": False, "parts": ("cs",)}, parser_training.problem,
         parser_training.train_parser),
    ],
)  # fmt: skip
def test_an_optimizer_by_hand(tmp_path, monkeypatch, task, more, problem, train):
    ending = "conllu" if task == "parse" else "iob2"
    sentences = (DEMO / f"train.{ending}").read_bytes().split(b"\n\n")[:40]
    dev = b"\n\n".join(sentences[30:]) + b"\n\n"
    given = {"train": b"\n\n".join(sentences[:30]) + b"\n\n", "algorithm": "dca", "epochs": 2}
    options = options_for(task, keep="last", **given, **more)
    monkeypatch.chdir(tmp_path)
    found = problem(options)
    assert not list(tmp_path.iterdir())
    scorer, scores = found.scorer(dev), []
    lam = 1.0 / (options.fit.C * found.problem.n)
    opt = algorithm("dca")(found.problem, lam, np.random.default_rng(options.fit.seed))
    for _ in range(2):
        opt.epoch()
        scores.append(scorer.main(opt.weights()))
    trace = Trace()
    options = replace(options, dev=dev)
    _, result = train(options, str(tmp_path / "model"), trace)
    np.testing.assert_array_equal(opt.weights(), result.weights)
    assert [r.dev for r in trace.rows[:2]] == scores
