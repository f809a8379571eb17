"""Taggers with many labels and lemmatizers, from files to files."""

import io
import itertools
import pickle

import numpy as np
import pytest

from tests.oracles import Gibbs
from turbotag.corpus.reader import read
from turbotag.errors import DataError, UsageError
from turbotag.models.gold import ANY
from turbotag.models.lemmas import Lemmatizer
from turbotag.models.lists import ListTagger
from turbotag.models.model import Output
from turbotag.models.prediction import predict
from turbotag.models.tagger import Tagger
from turbotag.report.heaviest import tagger_features
from turbotag.report.model_card import model_card, transitions
from turbotag.training.calibrating import calibrated
from turbotag.training.options import options_for
from turbotag.training.tagger import train

STEMS = ("lup", "ros", "silv", "port", "ann", "mens", "camp", "turb", "naut", "puell")
ENDINGS = {
    ("Nom", "Sing"): "a",
    ("Acc", "Sing"): "am",
    ("Gen", "Plur"): "arum",
    ("Nom", "Plur"): "ae",
}


def sentence(rng, n=5):
    """Nouns of one declension, sometimes with a form of a verb that is irregular."""
    lines = []
    for i in range(1, n + 1):
        case, number = list(ENDINGS)[rng.integers(len(ENDINGS))]
        stem = STEMS[rng.integers(len(STEMS))]
        form, feats = stem + ENDINGS[case, number], f"Case={case}|Number={number}"
        row = (form, stem + "a", "NOUN", feats)
        if rng.random() < 0.2:
            row = ("erat", "sum", "VERB", "Mood=Ind")
        if i == 1:
            row = (row[0].capitalize(), *row[1:])
        lines.append("\t".join([str(i), row[0], row[1], row[2], "_", row[3], *"____"]))
    return "\n".join(lines) + "\n\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("lists"), np.random.default_rng(0)
    for name, n in (("train", 60), ("dev", 20)):
        text = "".join(sentence(rng) for _ in range(n))
        (folder / f"{name}.conllu").write_text(text, encoding="utf-8")
    return folder


def fit(files, task, output=None, **options):
    settings = {"train": str(files / "train.conllu"), "dev": str(files / "dev.conllu")} | options
    return train(options_for(task, **settings), output)[0]


@pytest.fixture(scope="module", params=[("morph", 0), ("morph", 1), ("lemma", 0)])
def model(request, files):
    task, order = request.param
    lists = {"candidates": 3} if task == "morph" else {}
    return fit(files, task, order=order, **lists)


def written(model, files, **output):
    out = io.BytesIO()
    predict(model, str(files / "dev.conllu"), out, Output(**output))
    return out.getvalue()


def test_what_can_be_learned_is_learned(model, files):
    assert model.header["scores"]["dev"]["accuracy"] == 1.0
    assert model.compare(str(files / "dev.conllu"), ANY).score.accuracy == 1.0
    assert written(model, files) == (files / "dev.conllu").read_bytes()


@pytest.mark.parametrize("compact", [False, True])
def test_files(model, files, tmp_path, compact):
    path = str(tmp_path / "m")
    given = model.compacted(0.01) if compact else model
    given.save(path)
    again = Tagger.load(path, names=True)
    assert type(again) is type(model)
    assert again.labels == model.labels
    np.testing.assert_array_equal(again.weights, given.weights)
    assert written(again, files, marginals=True) == written(given, files, marginals=True)
    assert written(pickle.loads(pickle.dumps(again)), files) == written(model, files)
    assert "labels" in model_card(again)
    best = tagger_features(again, 0, 3)
    assert len(best) == 3
    assert compact or "=" in best[0][1] or best[0][1] == "bias"
    if model.order:
        assert "->" in transitions(again)


def test_probabilities_are_those_of_all_choices(model, files):
    block = read(str(files / "dev.conllu"))
    scores, sentences = model.scores(block), block.sentences
    tags = model.viterbi(scores, sentences)
    posterior = model.posterior(scores, sentences)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    token = model.marginals(scores, sentences, tags).token
    np.testing.assert_allclose(token, posterior[np.arange(tags.size), tags])
    np.testing.assert_array_equal(model.posterior_decode(scores, sentences), tags)
    c = model.confidence
    for s in range(3):
        a, b = sentences[s], sentences[s + 1]
        here = scores[a:b]
        lists = np.split(here.lists.labels, here.lists.cuts[1:-1])
        unary = np.split(here.unary, here.lists.cuts[1:-1])
        every = list(itertools.product(*(range(x.size) for x in lists)))
        paths = np.array([[x[k] for x, k in zip(lists, y, strict=True)] for y in every])
        value = np.array([sum(u[k] for u, k in zip(unary, y, strict=True)) for y in every])
        value += model.trans[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        z = np.eye(len(model.labels))[paths]
        exact = Gibbs(value, z, c.sharpness)
        np.testing.assert_allclose(
            posterior[a:b], c.mix(exact.marginals, 1 / len(model.labels)), atol=1e-9
        )
        found, p = model.nbest(here, 2)
        assert found[0].tolist() == paths[exact.scores.argmax()].tolist()
        chance = float(len(model.labels)) ** -(b - a)
        assert p[0] == pytest.approx(c.mix(exact.p.max(), chance))
        other = model.best_with(here, 0, np.arange(len(model.labels)) != tags[a])
        allowed = paths[:, 0] != tags[a]
        if other is None:
            assert not allowed.any()
        else:
            assert other.tolist() == paths[allowed][exact.scores[allowed].argmax()].tolist()


def test_calibration_and_nbest_as_a_user_asks_for_them(model, files):
    path = str(files / "dev.conllu")
    model.set_calibration(calibrated(model, path, ANY, "dev", lambda line: None))
    assert model.header["calibration"]["maps"]["tags"]["items"] == 100
    assert b"# nbest 1 " in written(model, files, nbest=2)
    assert b"Prob=" in written(model, files, marginals=True)


def test_many_labels_have_lists_without_being_asked(files, monkeypatch):
    monkeypatch.setattr("turbotag.training.options.MANY_LABELS", 3)
    assert isinstance(fit(files, "morph", calibration=False), ListTagger)
    assert not isinstance(fit(files, "morph", calibration=False, candidates=0), ListTagger)


def test_lemmas_of_words_that_are_new(files, tmp_path):
    model = fit(files, "lemma")
    assert isinstance(model, Lemmatizer)
    rows = [("Casarum", "NOUN"), ("am", "NOUN"), ("erat", "NOUN"), ("İ", "X"), ("ERAT", "VERB")]
    text = "".join(f"{i}\t{w}\t_\t{u}\t_\t_\t_\t_\t_\t_\n" for i, (w, u) in enumerate(rows, 1))
    (tmp_path / "x.conllu").write_text(text + "\n", encoding="utf-8")
    block = read(str(tmp_path / "x.conllu"))
    strings, ids = model.output_labels(model.tag(block), block)
    found = [strings[i] for i in ids.tolist()]
    assert found[0] == "casa"
    assert all(found)  # never empty
    assert found[3] == "İ"


@pytest.mark.parametrize("task", ["morph", "lemma"])
def test_gold_files_may_have_values_that_are_new(files, tmp_path, task):
    model = fit(files, task, calibration=False)
    text = (files / "dev.conllu").read_text(encoding="utf-8")
    line = "1\tXyz\tabc\tNOUN\t_\tCase=Voc\t_\t_\t_\t_\n\n"
    (tmp_path / "x.conllu").write_text(text + line, encoding="utf-8")
    path = str(tmp_path / "x.conllu")
    assert model.compare(path, ANY).score.accuracy == pytest.approx(100 / 101)
    calibrated(model, path, ANY, "x", lambda line: None)


def test_a_sentence_and_a_label_alone(tmp_path):
    line = "1\tXyz\tabc\tNOUN\t_\tCase=Voc\t_\t_\t_\t_\n\n"
    (tmp_path / "x.conllu").write_text(line, encoding="utf-8")
    for task, more in (("lemma", {}), ("morph", {"candidates": 2})):
        model, _ = train(options_for(task, train=str(tmp_path / "x.conllu"), **more))
        out = io.BytesIO()
        predict(model, str(tmp_path / "x.conllu"), out)
        assert out.getvalue().decode() == line


def test_refused(files, tmp_path):
    (tmp_path / "x.conllu").write_text("1\tXyz\t_\t_\t_\t_\t_\t_\t_\t_\n\n", encoding="utf-8")
    for task in ("morph", "lemma"):
        with pytest.raises(DataError, match="has nothing in column"):
            train(options_for(task, train=str(tmp_path / "x.conllu")))
    for task, options, why in (
        ("lemma", {"order": 1}, "do not depend"),
        ("lemma", {"candidates": 3}, "scripts that fit"),
        ("lemma", {"init": "x.model"}, "--init"),
        ("morph", {"order": 2, "candidates": 3}, "--order 0 or 1"),
        ("ner", {"candidates": 3}, "not spans"),
        ("morph", {"candidates": -1}, "between"),
        ("ner", {"order": 0, "constraints": "train"}, "order 0"),
    ):
        with pytest.raises(UsageError, match=why):
            options_for(task, train="x", **options)
    path = str(tmp_path / "m")
    fit(files, "morph", path, candidates=3, calibration=False)
    with pytest.raises(DataError, match="--init cannot go on from"):
        fit(files, "morph", init=path)


def test_a_misprint_is_not_what_a_frequent_form_means(tmp_path):
    """A script that was seen once, with a form that is otherwise its own lemma."""
    line = "1\tthe\t{}\tDET\t_\t_\t_\t_\t_\t_\n\n"
    text = "".join(line.format("they" if n == 7 else "the") for n in range(30))
    (tmp_path / "x.conllu").write_text(text, encoding="utf-8")
    model, _ = train(options_for("lemma", train=str(tmp_path / "x.conllu")))
    out = io.BytesIO()
    predict(model, str(tmp_path / "x.conllu"), out)
    assert "they" not in out.getvalue().decode()
