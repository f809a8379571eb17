"""Calibration: the map, its fit, what it is applied to, and what it leaves alone."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.oracles import Enumerated
from tests.tree_oracles import EnumeratedTrees
from turbotag.corpus.reader import read
from turbotag.errors import DataError
from turbotag.metrics.calibration import log_loss
from turbotag.models.calibration import MOST_SHARPNESS, Items, fit
from turbotag.models.model import Output
from turbotag.models.parser import Parser
from turbotag.models.prediction import predict
from turbotag.models.tag_comparison import compare_model
from turbotag.models.tagger import Tagger
from turbotag.models.tree_comparison import compare_parser
from turbotag.training.calibrating import RUNS, SHARE, split
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[2] / "data" / "demo"
NER = {s: str(DEMO / f"{s}.iob2") for s in ("train", "dev", "test")}
TREES = {s: str(DEMO / f"{s}.conllu") for s in ("train", "dev", "test")}


# ---- The fit -------------------------------------------------------------------------------------


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def drawn(sharpness, doubt, n=20_000, K=6):
    """Answers drawn from the distribution of scores at a sharpness, or at random."""
    rng = np.random.default_rng(3)
    z, words = rng.normal(0.0, 4.0, (n, K)), np.arange(n)
    p = (1 - doubt) * softmax(sharpness * z) + doubt / K
    gold = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    best, chance = z.argmax(axis=1), np.full(n, 1 / K)

    def at(a):
        q = softmax(a * z)
        return q[words, best], q[words, gold]

    return Items(best == gold, at, (chance, chance))


@pytest.mark.parametrize(("sharpness", "doubt"), [(0.4, 0.05), (1.0, 0.001), (2.5, 0.2)])
def test_the_map_that_made_the_data_is_found(sharpness, doubt):
    items = drawn(sharpness, doubt)
    found = fit(items)
    assert found["sharpness"] == pytest.approx(sharpness, rel=0.06)
    assert found["doubt"] == pytest.approx(doubt, abs=0.01)
    assert found["items"] == 20_000
    assert found["ece"][1] < 0.01
    assert found["ece"][1] <= found["ece"][0] + 1e-3
    assert found["log_loss"][0] == pytest.approx(log_loss(items.at(1.0)[1]))
    assert found["log_loss"][1] <= found["log_loss"][0]


def test_few_items_that_are_all_right_do_not_lead_to_certainty():
    few = Items(
        np.ones(5, bool), lambda a: (np.full(5, 0.8 ** (1 / a)),) * 2, (np.full(5, 0.5),) * 2
    )
    found = fit(few)
    assert 1.0 < found["sharpness"] < 5.0
    assert 0.0 < found["doubt"] < 0.1


def test_right_answers_of_no_probability_are_doubt_not_flatness():
    """A tenth of the answers is ruled out at every sharpness: the others decide it."""
    p = np.repeat([0.0, 0.9], [100, 900])
    p_at = lambda a: (np.full(1000, 0.9), np.where(p, 0.9**a / (0.9**a + 0.1**a), 0.0))  # noqa: E731
    found = fit(Items(p > 0, p_at, (np.full(1000, 0.01),) * 2))
    assert found["doubt"] == pytest.approx(0.1, abs=0.02)
    assert found["sharpness"] > 1.0


def test_runs_of_neighbours_are_left_out():
    learnt, asked = split(3000)
    assert learnt.sum() == 1000
    assert not (learnt & asked).any()
    assert asked.sum() == 2000
    assert np.flatnonzero(np.diff(learnt.astype(int))).size == RUNS - RUNS // SHARE - 1
    assert split(60_000)[1].sum() <= 2000
    assert not split(299)[0].any()


# ---- What it is applied to -----------------------------------------------------------------------


def maps(**given):
    """An entry of a header."""
    rest = {"items": 1, "log_loss": [1.0, 1.0], "ece": [0.0, 0.0]}
    found = {k: {"sharpness": a, "doubt": d, **rest} for k, (a, d) in given.items()}
    return {"data": "test", "maps": found}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def ner(folder):
    options = options_for("ner", NER["train"], stop_gap=0.5, calibration=False)
    return train(options, str(folder / "ner"))[0]


@pytest.fixture(scope="module")
def parsers(folder):
    """One of each kind, hardly trained."""
    kinds = {
        "tree": {"decoder": "nonprojective"},
        "projective": {"decoder": "projective"},
        "second": {"parts": ("cs", "gp")},
        "svm": {"parts": ("cs",), "loss": "svm", "algorithm": "dca"},
    }
    trained = {}
    for name, more in kinds.items():
        options = options_for("parse", train=TREES["dev"], epochs=1, calibration=False, **more)
        trained[name] = train_parser(options, str(folder / name))[0]
    return trained


def calibrated(model, **given):
    changed = (
        type(model)({**model.header}, model.arrays)
        if isinstance(model, Parser)
        else (Tagger({**model.header}, *model.__reduce__()[1][1:]))
    )
    changed.set_calibration(maps(**given))
    return changed


def output(model, path, **asked):
    out = io.BytesIO()
    predict(model, path, out, Output(**asked))
    return out.getvalue()


def test_probabilities_of_a_calibrated_tagger(ner, tmp_path):
    model = calibrated(ner, tags=(0.5, 0.1), entities=(0.7, 0.2))
    path = tmp_path / "x"
    path.write_text("Ada\tPROPN\tO\nQuill\tPROPN\tO\nsings\tVERB\tO\n", encoding="utf-8")
    block = read(str(path))
    scores, K = model.scores(block), len(model.labels)
    tags = model.viterbi(scores, block.sentences)
    exact, sharp = (Enumerated(model.theta(scores), 3, K, a, model.mask, 1) for a in (0.5, 0.7))
    found = model.marginals(scores, block.sentences, tags)
    expected = 0.9 * exact.marginals[: 3 * K].reshape(3, K) + 0.1 / K
    np.testing.assert_allclose(model.posterior(scores, block.sentences), expected, atol=1e-9)
    np.testing.assert_allclose(found.token, expected[np.arange(3), tags], atol=1e-9)
    _, probabilities = model.nbest(scores, 4)
    best = np.sort(exact.p)[::-1][:4]
    np.testing.assert_allclose(probabilities, 0.9 * best + 0.1 * K**-3.0, atol=1e-9)
    assert found.span.size == 1
    whole = tuple(tags.tolist())[:2]
    same = [p for y, p in zip(sharp.ys, sharp.p, strict=True) if tuple(y)[:2] == whole]
    assert model.labels[tags[2]] == "O"
    assert found.span[0] == pytest.approx(0.8 * sum(same), abs=0.05)  # but for longer entities


@pytest.mark.parametrize("name", ["tree", "projective"])
def test_probabilities_of_a_calibrated_parser(parsers, name):
    plain = parsers[name]
    model = calibrated(plain, heads=(0.5, 0.1), labels=(0.7, 0.2))
    block = read(TREES["test"])
    matrix, scanner = model.matrix(block, model.extractor), model.extractor
    short = np.flatnonzero(np.diff(block.sentences) <= 6)[:5]
    assert short.size
    found, usual = (m.parse(block, probabilities=True) for m in (model, plain))
    for s in short.tolist():
        a, b = block.sentences[s : s + 2]
        scores, n = model.scores(matrix[a:b], scanner), int(b - a)
        exact = EnumeratedTrees(scores, True, 0.5, model.projective)
        expected = 0.9 * exact.marginals[:, 1:] + 0.1 / n
        expected[np.arange(1, n + 1), np.arange(n)] = 0.0
        mu = model.arc_probabilities(matrix[a:b], scanner)
        np.testing.assert_allclose(mu[:, 1:], expected, atol=1e-9)
        np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=1e-9)
        assert mu[0].sum() == pytest.approx(1.0)
        heads = found.heads[a:b]
        np.testing.assert_allclose(
            found.head_probability[a:b], expected[heads, np.arange(n)], atol=1e-9
        )
        _, probabilities = model.nbest(scores, 3)
        best = np.sort(exact.p)[::-1][: probabilities.size]
        np.testing.assert_allclose(probabilities, 0.9 * best + 0.1 / (exact.p > 0).sum(), atol=1e-9)
    scores = np.zeros((1, len(model.labels)))
    scores[0, 0] = 3.0
    p = model.label_probabilities(scores, model.label_confidence)
    assert p.sum() == pytest.approx(1.0)
    e = np.exp(0.7 * 3.0)
    assert p[0, 0] == pytest.approx(0.8 * e / (e + scores.size - 1) + 0.2 / scores.size)
    assert (found.label_probability < usual.label_probability).mean() > 0.9


@pytest.mark.parametrize("name", ["tree", "projective", "second", "svm"])
@pytest.mark.parametrize("decode", ["viterbi", "posterior", "map"])
def test_trees_stay_as_they_are(parsers, name, decode):
    model = calibrated(parsers[name], heads=(0.2, 0.3), labels=(3.0, 0.1))
    path = TREES["test"]
    assert output(model, path, decode=decode) == output(parsers[name], path, decode=decode)
    assert output(model, path, marginals=True) != output(parsers[name], path, marginals=True)
    block = read(path)
    matrix, (a, b) = model.matrix(block, model.extractor), block.sentences[:2]
    mu = model.arc_probabilities(matrix[a:b], model.extractor)
    np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=1e-9)
    assert mu[0].sum() == pytest.approx(1.0, abs=1e-9)
    assert np.diag(mu).max() == 0.0


@pytest.mark.parametrize("decode", ["viterbi", "posterior"])
def test_tags_stay_as_they_are(ner, decode):
    model = calibrated(ner, tags=(0.2, 0.3), entities=(5.0, 0.0))
    assert output(model, NER["test"], decode=decode) == output(ner, NER["test"], decode=decode)
    assert output(model, NER["test"], marginals=True) != output(ner, NER["test"], marginals=True)
    lists = [output(m, NER["test"], nbest=2) for m in (model, ner)]
    without = [[s for s in text.split(b"\n") if s[:1] != b"#"] for text in lists]
    assert without[0] == without[1]


@pytest.mark.parametrize(
    "entry",
    [
        maps(tags=(0.0, 0.0)),
        maps(tags=(2 * MOST_SHARPNESS, 0.0)),
        maps(tags=(1.0, 1.0)),
        maps(tags=(1.0, -0.1)),
        {"data": "x", "maps": {"tags": {"sharpness": 1.0}}},
        {"data": "x", "maps": 3},
        "often",
    ],
    ids=str,
)
def test_impossible_maps_are_refused(ner, tmp_path, entry):
    Tagger({**ner.header, "calibration": maps(tags=(0.5, 0.1))}, *ner.__reduce__()[1][1:]).save(
        str(tmp_path / "good")
    )
    assert Tagger.load(str(tmp_path / "good")).confidence.doubt == 0.1
    header = {**ner.header}
    broken = Tagger(header, *ner.__reduce__()[1][1:])
    header["calibration"] = entry
    broken.save(str(tmp_path / "bad"))
    with pytest.raises(DataError, match="is damaged"):
        Tagger.load(str(tmp_path / "bad"))


# ---- Training ------------------------------------------------------------------------------------


def noisy_tags(path, seed):
    """A file whose tags are wrong in a fifth of the words: models that learn them by heart are too
    sure of themselves."""
    rng = np.random.default_rng(seed)
    rows = [r.split("\t") for r in Path(path).read_text().split("\n")]
    tags = sorted({r[3] for r in rows if len(r) > 1})
    for r in rows:
        if len(r) > 1 and rng.random() < 0.2:
            r[3] = tags[rng.integers(len(tags))]
    return "\n".join("\t".join(r) for r in rows).encode()


def noisy_trees(path, seed):
    """Some of the words without children hang on any word that has some, with any label."""
    rng = np.random.default_rng(seed)
    out = []
    for text in Path(path).read_text().strip().split("\n\n"):
        rows = [r.split("\t") for r in text.split("\n")]
        words = [r for r in rows if len(r) > 1]
        inner = {r[6] for r in words}
        for r in words:
            if r[0] not in inner and r[6] != "0" and rng.random() < 0.3:
                r[6] = str(rng.choice(sorted(inner - {"0"})))
                r[7] = ("obj", "nsubj", "advmod")[rng.integers(3)]
        out.append("\n".join("\t".join(r) for r in rows))
    return ("\n\n".join(out) + "\n\n").encode()


def tag_error(model, gold):
    found = compare_model(model, gold, probabilities=True)
    return found.details().calibration["tags"].ece


def tree_errors(model, gold):
    return [
        c.ece
        for c in compare_parser(model, gold, probabilities=True).details().calibration.values()
    ]


@pytest.mark.parametrize("with_dev", [True, False])
def test_trained_taggers_are_calibrated(tmp_path, with_dev):
    """On the dev set, or on what a second model has not seen."""
    files = {s: noisy_tags(TREES[s], i) for i, s in enumerate(("train", "dev", "test"))}
    said = []
    options = options_for(
        "pos", train=files["train"], target="upos", loss="softmax-margin", gamma=3.0, C=3.0,
        stop_gap=0.05, dev=files["dev"] if with_dev else None,
    )  # fmt: skip
    model, _ = train(options, str(tmp_path / "m"), echo=said.append)
    plain = Tagger(
        {k: v for k, v in model.header.items() if k != "calibration"}, *model.__reduce__()[1][1:]
    )
    before, after = (tag_error(m, files["test"]) for m in (plain, Tagger.load(str(tmp_path / "m"))))
    assert before > 0.15
    assert after < 0.06
    assert ("second model" in "".join(said)) != with_dev
    assert any(s.startswith("calibration, tags: sharpness") for s in said)
    json.dumps(model.header["calibration"])


@pytest.mark.parametrize("with_dev", [True, False])
def test_trained_parsers_are_calibrated(tmp_path, with_dev):
    files = {s: noisy_trees(TREES[s], i) for i, s in enumerate(("train", "dev", "test"))}
    options = options_for(
        "parse", train=files["train"], C=10.0, epochs=6, dev=files["dev"] if with_dev else None
    )
    model, _ = train_parser(options, str(tmp_path / "m"))
    plain = {k: v for k, v in model.header.items() if k != "calibration"}
    before = tree_errors(Parser(plain, model.arrays), files["test"])
    after = tree_errors(Parser.load(str(tmp_path / "m")), files["test"])
    assert len(before) == len(after) == 3
    assert min(before) > 0.1
    assert all(a < 0.6 * b for a, b in zip(after, before, strict=True))
    assert {*model.header["calibration"]["maps"]} == {"heads", "labels"}


def test_no_calibration_where_none_is_asked_for_or_possible(tmp_path):
    said = []
    options = options_for("ner", NER["train"], stop_gap=0.5, calibration=False)
    assert "calibration" not in train(options, str(tmp_path / "m"), echo=said.append)[0].header
    assert not any("calibrat" in s for s in said)
    few = options_for("ner", NER["dev"], stop_gap=0.5)
    assert "calibration" not in train(few, str(tmp_path / "m"), echo=said.append)[0].header
    assert any("not calibrated: 60 sentences are too few" in s for s in said)
