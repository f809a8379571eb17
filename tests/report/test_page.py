"""The evaluation page, and what it is made of: confusions, calibration, probabilities in files."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.cli.processes import run
from turbotag.metrics.attachment import Attachment
from turbotag.models.gold import Layout
from turbotag.models.model import Output
from turbotag.models.prediction import predict
from turbotag.models.tag_comparison import compare_files, compare_model
from turbotag.models.tree_comparison import compare_parser, compare_tree_files
from turbotag.report.page import evaluation_page
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[2] / "data" / "demo"
IOB, TREES = str(DEMO / "test.iob2"), str(DEMO / "test.conllu")
EMPTY = {"meta", "br"}  # elements without an end
NONE = "No probabilities are known"


class Checker(HTMLParser):
    """Elements are closed in order; nothing is fetched; collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "link", "b2")
        assert not {"src", "href", "onclick"} & {name for name, _ in attributes}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def text_of(compared):
    page = evaluation_page({"": (compared.score, compared.details())}, "gold", "predicted")
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert "http" not in page
    return checker.text


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Taggers of entities and of parts of speech and a parser, not too good."""
    folder = tmp_path_factory.mktemp("models")
    ner, _ = train(options_for("ner", str(DEMO / "dev.iob2"), epochs=2), str(folder / "ner"))
    pos, _ = train(options_for("pos", str(DEMO / "dev.conllu"), epochs=1), str(folder / "pos"))
    options = options_for("parse", train=str(DEMO / "dev.conllu"), epochs=1)
    parser, _ = train_parser(options, str(folder / "parser"))
    return {"ner": ner, "pos": pos, "parser": parser, "folder": folder}


@pytest.fixture
def files(tmp_path):
    def write(gold, predicted, suffix="txt"):
        paths = [tmp_path / f"{name}.{suffix}" for name in ("gold", "predicted")]
        for path, text in zip(paths, (gold, predicted), strict=True):
            path.write_text(text)
        return [str(p) for p in paths]

    return write


def write_marginals(model, source, path):
    with open(path, "wb") as out:
        predict(model, source, out, Output(marginals=True))
    return str(path)


def tags(gold, predicted):
    return compare_files(gold, predicted)


def same(a, b):
    """Calibrations that differ by no more than the rounding of probabilities in a file."""
    assert a.count == b.count > 0
    assert a.accuracy == pytest.approx(b.accuracy)
    assert a.probability == pytest.approx(b.probability, abs=1e-4)
    assert a.ece == pytest.approx(b.ece, abs=0.01)


def test_labels_are_escaped(files):
    names = ["<b2>", '&amp;"', "</td>'", "x"]
    gold = "".join(f"w\t{name}\n" for name in names)
    predicted = "".join(f"w\t{name}\n" for name in [names[1], names[2], names[1], "x"])
    text = text_of(tags(*files(gold, predicted)))
    assert '<b2> → &amp;"' in text
    assert "3 errors in 4 tokens" in text
    compared = tags(*files(gold, predicted))
    page = evaluation_page({"": (compared.score, compared.details())}, "<b2>", "&")
    assert "<b2>" not in page
    assert "Evaluation of &amp;</title>" in page


def test_spans_by_hand(files):
    """A right, B taken for C, a B missed, an A with one word too many, a spurious C."""
    gold = ["B-A", "I-A", "O", "B-B", "O", "B-B", "O", "B-A", "O", "O"]
    predicted = ["B-A", "I-A", "O", "B-C", "O", "O", "O", "B-A", "I-A", "B-C"]
    lines = ["".join(f"w {t}\n" for t in side) for side in (gold, predicted)]
    compared = tags(*files(*lines))
    confusion = compared.details().confusion
    assert confusion == {
        ("A", "A"): 1,
        ("B", "C"): 1,
        ("B", None): 1,
        ("A", None): 1,
        (None, "A"): 1,
        (None, "C"): 1,
    }
    score = compared.score
    assert sum(n for (g, _), n in confusion.items() if g) == score.total.gold
    assert sum(n for (_, p), n in confusion.items() if p) == score.total.predicted
    text = text_of(compared)
    assert "B → missed" in text
    assert "spurious → C" in text
    assert NONE in text


def test_trees_by_hand(files):
    def sentence(*arcs):
        rows = ((n, f"w{n}", "PUNCT" if n == 4 else "X", *a) for n, a in enumerate(arcs, 1))
        return "".join(
            f"{n}\t{w}\t_\t{u}\t_\t_\t{h}\t{r}\t_\tA=b|HeadProb={p}|LabelProb=0.5000\n"
            for n, w, u, h, r, p in rows
        )

    gold = sentence((2, "det:a", 1.0), (0, "root", 1.0), (2, "obj", 1.0), (2, "punct", 1.0))
    right = ("0.9000", "1.0000", "0.3000", "0.1000")
    heads, labels = (2, 0, 1, 3), ("det", "root", "obj", "dep")
    predicted = sentence(*zip(heads, labels, right, strict=True))
    found = compare_tree_files(*files(gold, predicted, "conllu"))
    details = found.details()
    assert details.confusion == {("det", "det"): 1, ("root", "root"): 1}  # PUNCT does not count
    assert details.lengths["1-10"] == Attachment(3, 2, 2)
    head, label, both = details.calibration.values()
    assert (head.count, head.accuracy) == (3, pytest.approx(2 / 3))
    assert head.ece == pytest.approx((0.1 + 0.0 + 0.3) / 3)
    assert (label.count, label.accuracy) == (3, pytest.approx(2 / 3))  # det:a is not det
    assert (both.count, both.accuracy) == (3, pytest.approx(1 / 3))
    assert both.probability == pytest.approx((0.5 + 0.5 + 0.3) / 3)
    assert "Heads and labels" in text_of(found)
    bare = [s.replace("A=b|HeadProb", "A=b|Odd") for s in (gold, predicted)]
    assert "heads" not in compare_tree_files(*files(*bare, "conllu")).details().calibration


def test_probabilities_of_a_file_are_those_of_the_model(models, tmp_path):
    source = str(DEMO / "test.iob2")
    model = compare_model(models["ner"], source, probabilities=True)
    file = tags(source, write_marginals(models["ner"], source, tmp_path / "a"))
    assert file.score == model.score
    same(model.details().calibration["spans"], file.details().calibration["spans"])
    assert "Spans: ECE" in text_of(file)

    model = compare_model(models["pos"], TREES, probabilities=True)
    file = tags(TREES, write_marginals(models["pos"], TREES, tmp_path / "b"))
    assert file.score == model.score
    same(model.details().calibration["tags"], file.details().calibration["tags"])

    for name in ("c.conllu", "c.conllx"):
        gold = tmp_path / f"gold.{name}"
        lines = Path(TREES).read_text().splitlines(keepends=True)
        lines = [s for s in lines if s[0] != "#"] if name == "c.conllx" else lines
        gold.write_text("".join(lines))
        model = compare_parser(models["parser"], str(gold), probabilities=True)
        parsed = write_marginals(models["parser"], str(gold), tmp_path / name)
        file = compare_tree_files(str(gold), parsed)
        assert file.score == model.score
        assert file.details().lengths == model.details().lengths
        for kind, found in model.details().calibration.items():
            same(found, file.details().calibration[kind])
        assert len(file.details().calibration) == 3


def test_words_of_all_lengths_are_those_of_the_score(models):
    compared = compare_parser(models["parser"], TREES)
    chosen, lengths = compared.score.chosen, compared.details().lengths.values()
    assert sum(a.tokens for a in lengths) == chosen.tokens
    assert sum(a.right_heads for a in lengths) == chosen.right_heads
    assert sum(a.right_arcs for a in lengths) == chosen.right_arcs
    assert sum(compared.details().confusion.values()) == chosen.right_heads
    text = text_of(compared)
    assert "nopunct (words with UPOS PUNCT not counted" in text
    assert NONE in text


def test_columns_behind_those_of_the_gold_file(files):
    gold = "w N\nv V\n"
    certain = tags(*files(gold, "w N 0.8000\nv N 0.6000\n"))
    assert certain.score.accuracy == 0.5
    assert certain.details().calibration["tags"].ece == pytest.approx((0.2 + 0.6) / 2)
    asked = compare_files(*files(gold, "w N 0.8000\nv N 0.6000\n"), Layout(columns=("word", "tag")))
    assert asked.score == certain.score
    assert tags(*files(gold, "w N V\nv V V\n")).score.accuracy == 0.5  # the last is the tag
    assert tags(*files(gold, "w N 0.5000\nv V V\n")).details().calibration == {}


def test_labels_of_crfsuite(files):
    gold = "N\tw=a\tx=b\nV\tw=b\nN\tw=c\tx=d\ty=e\nN\tw=c\tx=d\ty=e\tz=f\n"
    predicted = gold.replace("N\t", "N:0.9000\t").replace("V\t", "N:0.6000\t")
    found = tags(*files(gold, predicted))
    assert found.score.accuracy == 0.75
    assert found.details().calibration["tags"].probability == pytest.approx(0.825)


def test_no_labels_and_no_spans(files, models):
    gold = "1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n"
    bare = compare_tree_files(*files(gold, gold.replace("root", "_"), "conllu"))
    assert bare.details().confusion == {}
    assert "Confusions" not in text_of(bare)
    nothing = tags(*files("w\tx\tB-A\n", "w\tx\tO\t0.9\t_\n"))
    assert nothing.details().confusion == {("A", None): 1}
    assert np.isnan(nothing.entity).all()
    assert "There are none" in text_of(nothing)


def test_command(models, tmp_path):
    folder, page = models["folder"], tmp_path / "page.html"
    plain = run("eval", "--model", folder / "ner", IOB, "--json")
    done = run("eval", "--model", folder / "ner", IOB, "--json", "--html", page)
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert done.stderr == f"wrote {page}\n"
    first = page.read_text()
    assert f"{100 * json.loads(done.stdout)['f1']:.2f}" in first
    assert "conlleval (lenient" in first
    run("eval", "--model", folder / "ner", IOB, "--html", page)
    assert page.read_text() == first
    done = run("eval", "--task", "parse", TREES, TREES, "--html", page)
    assert "nopunct" in done.stdout
    assert NONE in page.read_text()
    refused = run("eval", IOB, IOB, "--html", tmp_path / "none" / "page.html")
    assert refused.returncode == 1
    assert (refused.stdout, "does not exist" in refused.stderr) == ("", True)
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
