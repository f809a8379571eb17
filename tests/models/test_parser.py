"""A parser trained on the embedded treebank: files, scores, probabilities, decoders, options."""

import hashlib
import io
import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tree_oracles import EnumeratedTrees
from turbotag.corpus.hashing import hash_strings
from turbotag.corpus.reader import read
from turbotag.corpus.trees import check_trees, crossing, projective_sentences, read_heads
from turbotag.errors import DataError, UsageError
from turbotag.features import compact, indexing
from turbotag.features.arcs import SECOND, SUPER
from turbotag.features.indexing import DOUBT, best_two
from turbotag.models.gold import score_parser
from turbotag.models.model import Output
from turbotag.models.parser import Parser
from turbotag.models.pipeline import load
from turbotag.models.prediction import predict
from turbotag.models.scanner import Scanner
from turbotag.models.tagger import Tagger
from turbotag.models.tree_comparison import evaluate_trees
from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.trace import Trace
from turbotag.report.drawing import read_drawings
from turbotag.storage import store
from turbotag.storage.checkpoints import OVER, Checkpoint, Progress
from turbotag.structures import parts, second_order
from turbotag.training import fitting, stages, treebank
from turbotag.training import parser as parser_training
from turbotag.training.jackknife import predicted_tags
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[2] / "data" / "demo"
TRAIN, DEV, TEST = (str(DEMO / f"{s}.conllu") for s in ("train", "dev", "test"))
SHORT = (
    "1\tAda\tAda\tPROPN\t_\t_\t2\tnsubj\t_\t_\n2\tarrives\tarrive\tVERB\t_\t_\t0\troot\t_\t_\n"
    "3\t.\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_\n\n"
    "1\tevery\tevery\tDET\t_\t_\t0\troot\t_\t_\n2\tthe\tthe\tDET\t_\t_\t1\tdet\t_\t_\n"
    "3\tSNARK\t_\t_\t_\t_\t1\tdep\t_\t_\n\n"
    "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_\n2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
    "1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
)


def sentences(path=TRAIN):
    return Path(path).read_text().strip().split("\n\n")


def write(path, texts):
    path.write_text("\n\n".join(texts) + "\n\n")
    return str(path)


def prepared(options, echo=lambda line: None):
    """What the stages of a parser learn from."""
    progress = Progress(None, {}, echo=echo)
    return parser_training.prepare(options, read(options.train), progress)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parser")


@pytest.fixture(scope="module")
def small(folder):
    """Sixty sentences, for trainings whose outcome matters little."""
    return write(folder / "small.conllu", sentences()[:60])


@pytest.fixture(scope="module")
def short(folder):
    path = folder / "short.conllu"
    path.write_text(SHORT)
    return str(path)


def fit(folder, name="m", echo=lambda line: None, **options):
    """(the parser as it was saved, the result of the training of arcs, the parser in memory)."""
    path = str(folder / name)
    settings = {"train": TRAIN, "calibration": False, **options}
    made, result = train_parser(options_for("parse", **settings), path, echo=echo)
    return Parser.load(path), result, made


@pytest.fixture(scope="module")
def trained(folder):
    return fit(folder, "nonprojective", epochs=6, dev=DEV, decoder="nonprojective")


@pytest.fixture(scope="module")
def parser(trained):
    return trained[0]


@pytest.fixture(scope="module")
def eisner(folder):
    return fit(folder, "projective", epochs=6, decoder="projective")[0]


def parsed(parser, path, **output):
    out = io.BytesIO()
    predict(parser, path, out, Output(**output))
    return out.getvalue().decode()


def scored(parser, block):
    """The arc scores of every sentence."""
    matrix = parser.extractor.matrix(block)
    cuts = block.sentences.tolist()
    return [parser.scores(matrix[a:b], parser.extractor) for a, b in zip(cuts, cuts[1:])]  # noqa: B905


# ---- Training, saving, loading -------------------------------------------------------------------


def test_learns_the_embedded_treebank(parser):
    score = evaluate_trees(TEST, parser)
    assert score.main > 0.95
    assert score.measure == "LAS"
    header = parser.header
    assert header["scores"]["dev"]["las"] > 0.95
    assert header["tags"] == "gold"
    assert header["data"]["sha256"] == hashlib.sha256(Path(TRAIN).read_bytes()).hexdigest()
    assert header["certificate"]["gap"] >= 0
    assert header["label_certificate"]["gap"] >= 0
    assert "acl:relcl" in parser.labels  # subtypes are kept
    assert parser.labels == sorted(parser.labels)


def test_saved_and_loaded_parsers_give_the_same_trees(trained):
    loaded, _, made = trained
    block = read(TEST)
    a, b = (p.parse(block, probabilities=True) for p in (loaded, made))
    for name in ("heads", "labels", "head_probability", "label_probability"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_same_seed_same_bytes_and_other_seed_other_bytes(folder, small):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(folder, name, train=small, seed=seed, epochs=2)
    a, b, c = ((folder / n).read_bytes() for n in "abc")
    assert a == b
    assert a != c
    assert not list(folder.glob("*.checkpoint"))


def test_checkpoints_lie_beside_a_file_but_not_beside_a_device(folder, small, monkeypatch):
    written = []
    monkeypatch.setattr(store, "save_file", lambda path, *rest: written.append(path))
    options, file = options_for("parse", train=small, epochs=2), str(folder / "new")
    train_parser(options, file)
    stages = {f"{file}.{s}.checkpoint" for s in ("prune", "arc", "label")}
    assert set(written) == {file, *stages}
    written.clear()
    train_parser(options, os.devnull, checkpoint_seconds=0.0)
    assert written == [os.devnull]


def loss_of(algorithm):
    """A loss that an optimizer serves."""
    usual = {"hinge": "svm", "perceptron": "perceptron"}
    return usual.get(ALGORITHMS[algorithm].losses, "crf")


# Arcs alone: that each trains both kinds of trees is tested on their problems (tests/optim).
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_optimizer_trains_a_parser(folder, small, name):
    given = {"algorithm": name, "loss": loss_of(name), "decoder": "nonprojective", "C": 0.1}
    model, result, _ = fit(
        folder, "alg", train=small, labels=False, prune=False, epochs=2, calibration=False, **given
    )
    assert result.certificate.gap >= -1e-9
    slow = name in ("egr", "bmrm", "svm-struct", "svm-struct-n", "extragradient")
    assert evaluate_trees(TEST, model).chosen.uas > (0.2 if slow else 0.6)


def test_certified_training(folder, small):
    for options in ({}, {"decoder": "projective"}, {"params": {"sampling": "gap-cost"}}):
        model, result, _ = fit(
            folder, "sdca", train=small, algorithm="sdca", loss="crf", stop_gap=1e-2, **options
        )
        assert 0 <= result.certificate.gap <= 1e-2
        assert model.header["certificate"]["gap"] == result.certificate.gap
    exact = {"decoder": "projective", "params": {"dual": "exact"}}
    _, other, _ = fit(
        folder, "sdca", train=small, algorithm="sdca", loss="crf", stop_gap=1e-2, **exact
    )
    assert 0 <= other.certificate.gap <= 1e-2


def test_scores_of_parser_and_training_problem_are_the_same(folder, small):
    """The table, the keys and the pruning of prediction against the rows of training."""
    options = options_for("parse", train=small, drop=0.0, epochs=2)
    setup, arcs = prepared(options), stages.ArcScores(Trace())
    stages.Pruning().run(setup)
    problem = arcs.task(setup).problem
    arcs.run(setup)
    header = parser_training.make_header(setup)
    facts = fitting.provenance(options, setup.block, "") | arcs.fitted.header
    header["templates"].pop("label")
    parser = Parser(header | facts, setup.arrays)
    assert parser.pruner.kept[1] > setup.pruner.kept[1]
    parser.pruner = replace(parser.pruner, kept=setup.pruner.kept)  # as many arcs as in training
    exact = arcs.fitted.result.weights
    rounded = compact.dequantize(*compact.quantize(exact[:, 0]))[:, None].astype(np.float64)
    off = []
    for i, (a, b) in enumerate(setup.bank):
        scores = parser.scores(setup.bank.matrix[a:b], setup.scanner)
        theta, near = problem.scores(i, rounded).copy(), problem.scores(i, exact)
        first = problem.arcs.cuts[a]
        for m in range(1, b - a + 1):
            for e in range(*(problem.arcs.cuts[a + m - 1 : a + m + 1] - first)):
                found = scores[problem.arcs.heads[first + e], m]
                # a gold arc that was pruned is there in training only
                if found > -np.inf or problem.arcs.heads[first + e] != setup.bank.heads[a + m - 1]:
                    off.append(abs(found - theta[e]))
                    assert found == pytest.approx(near[e], abs=0.1)
        assert (scores > -np.inf).sum() <= theta.size
    # a feature without a weight may be taken for another: keys are cut to 32 bits
    assert np.mean(np.array(off) > 1e-5) < 1e-3


def test_dropped_weights_hardly_matter_but_the_file_is_smaller(folder, small):
    whole = fit(folder, "whole", train=small, drop=0.0, epochs=3)[0]
    less = fit(folder, "less", train=small, drop=0.02, epochs=3)[0]
    sizes = [p.arrays["arc.lows"].size for p in (whole, less)]
    assert sizes[1] < 0.7 * sizes[0]
    assert (folder / "less").stat().st_size < (folder / "whole").stat().st_size
    a, b = (p.parse(read(TEST)).heads for p in (whole, less))
    assert np.mean(a == b) > 0.95


# ---- Probabilities -------------------------------------------------------------------------------


def models(parser, eisner):
    """Both decoders, single root and not, at several temperatures."""
    for p in (parser, eisner):
        for single_root in (True, False):
            for beta in ("1.0", "0.05", "inf"):
                changed = {"single_root": single_root, "loss": {"beta": beta}}
                yield Parser({**p.header, **changed}, p.arrays)


def test_probabilities_and_nbest_against_enumeration(parser, eisner, short):
    block = read(short)
    differ = 0
    for p in models(parser, eisner):
        viterbi = p.parse(block, probabilities=True)
        posterior = p.parse(block, decode="posterior")
        for i, scores in enumerate(scored(p, block)):
            a, b = block.sentences[i : i + 2]
            exact = EnumeratedTrees(scores, p.single_root, p.beta, p.projective)
            log_z, mu = p.posterior(scores)
            assert log_z == pytest.approx(exact.log_partition)
            np.testing.assert_allclose(mu[:, 1:], exact.marginals[:, 1:], atol=1e-9)
            best = exact.heads[exact.scores.argmax()]
            assert viterbi.heads[a:b].tolist() == best.tolist()
            words = np.arange(1, b - a + 1)
            np.testing.assert_allclose(
                viterbi.head_probability[a:b], exact.marginals[best, words], atol=1e-9
            )
            # the tree with the fewest expected wrong heads
            risk = exact.marginals[exact.heads, words].sum(axis=1)
            risk[exact.p == 0] = -1.0
            found = exact.marginals[posterior.heads[a:b], words].sum()
            assert found == pytest.approx(risk.max())
            assert np.any((exact.heads == posterior.heads[a:b]).all(axis=1) & (exact.p > 0))
            differ += posterior.heads[a:b].tolist() != best.tolist()
            possible = int((exact.scores > -np.inf).sum())
            trees, probabilities = p.nbest(scores, 4)
            assert len(trees) == min(4, possible)
            np.testing.assert_allclose(
                probabilities, np.sort(exact.p)[::-1][: len(trees)], atol=1e-9
            )
            every, probabilities = p.nbest(scores, 1000)
            assert len({tuple(t) for t in every.tolist()}) == possible
            assert probabilities.sum() == pytest.approx(1.0)
            assert (np.diff(probabilities) <= 1e-12).all()
    assert differ > 0


def test_marginals_sum_to_one_over_heads(parser, eisner):
    block = read(TEST)
    for p in (parser, eisner):
        for scores in scored(p, block):
            _, mu = p.posterior(scores)
            np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=1e-9)
            assert mu[0].sum() == pytest.approx(1.0)  # one root
            assert (mu[scores == -np.inf] == 0).all()


def test_label_probabilities(parser):
    block = read(TEST)
    found = parser.parse(block, probabilities=True)
    matrix, (a, b) = parser.extractor.matrix(block), block.sentences[:2]
    scores = parser.label_scores(matrix[a:b], found.heads[a:b], parser.extractor).astype(float)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.label_probability[a:b], p.max(axis=1), rtol=1e-5)
    assert found.labels[a:b].tolist() == p.argmax(axis=1).tolist()


@pytest.mark.parametrize("separator", ["\t", " "])
def test_eight_columns_of_conllx(parser, folder, separator):
    """Parsed, scored and drawn as ten are; probabilities are the ninth column and the tenth."""
    ten = parsed(parser, TEST, marginals=True)
    rows = [line.split("\t")[:8] for line in ten.split("\n") if line[:1] != "#"]
    rows = [row for row in rows if len(row) < 8 or row[0].isdigit()]
    gold, blind = folder / "gold.conll", folder / "blind.conll"
    gold.write_text("\n".join(separator.join(row) for row in rows))
    blind.write_text("\n".join(separator.join([*row[:6], "_", "_"][: len(row)]) for row in rows))
    found = read(parsed(parser, str(blind), marginals=True).encode(), "conllx")
    for column in (1, 6, 7):
        assert found.strings(column) == read(ten.encode()).strings(column)
    likely = [s.split("|") for s in read(ten.encode()).strings(9)]
    assert found.strings(8) == [next(n[9:] for n in s if n.startswith("HeadProb=")) for s in likely]
    assert evaluate_trees(str(gold), parsed(parser, str(blind)).encode()).main == 1.0
    assert evaluate_trees(str(gold), parser).main == 1.0
    drawing = read_drawings(str(gold))[0]
    assert drawing.heads == read_heads(read(str(gold))).tolist()[: len(drawing.words)]


def test_posterior_decoding_gives_trees(parser):
    block = read(TEST)
    flat = Parser({**parser.header, "loss": {"beta": "0.02"}}, parser.arrays)
    best, least = flat.parse(block), flat.parse(block, decode="posterior")
    assert (best.heads != least.heads).any()
    check_trees(block, least.heads, single_root=True)


# ---- Decoders, roots, options --------------------------------------------------------------------


def test_projective_decoder_gives_projective_trees_only(parser, eisner):
    block = read(TEST)
    gold = crossing(read_heads(block), block.sentences)
    assert gold.sum() > 10
    for decode in ("viterbi", "posterior"):
        heads = eisner.parse(block, decode=decode).heads
        assert projective_sentences(heads, block.sentences).all()
    found = evaluate_trees(TEST, parser).conventions["conll18"]
    without = evaluate_trees(TEST, eisner).conventions["conll18"]
    assert found.nonprojective.recall > 0.8
    assert without.nonprojective.recall == without.nonprojective.predicted == 0
    assert found.uas > without.uas > 0.9
    right = [p.parse(block).heads[gold] == read_heads(block)[gold] for p in (parser, eisner)]
    assert right[0].sum() > right[1].sum()


def test_a_parser_of_all_trees_may_give_projective_ones(parser):
    block = read(TEST)
    found = Parser(parser.header | {"decoder": "projective-decoding"}, parser.arrays)
    heads = found.parse(block).heads
    assert projective_sentences(heads, block.sentences).all()
    assert not projective_sentences(parser.parse(block).heads, block.sentences).all()
    short = [s for s in scored(found, block) if s.shape[0] <= 6]
    assert short
    for scores in short:
        exact = EnumeratedTrees(scores, True, 1.0, True)
        assert found.best(scores).tolist() == exact.heads[exact.scores.argmax()].tolist()
        assert found.posterior(scores)[0] == parser.posterior(scores)[0]


@pytest.mark.parametrize(
    ("crossed", "options", "expected"),
    [
        (0.0, {}, "projective"),
        (0.0, {"parts": ("cs",)}, "projective-decoding"),
        (0.0, {"parts": ("cs",), "loss": "svm"}, "nonprojective"),
        (1.0, {}, "nonprojective"),
        (1.0, {"parts": ("cs",)}, "nonprojective"),
        (1.0, {"decoder": "projective"}, "projective"),
    ],
)
def test_the_decoder_is_chosen_by_the_data(folder, crossed, options, expected):
    """Sentences that cross, or those that do not, of the embedded treebank."""
    block = read(TRAIN)
    crosses = ~projective_sentences(read_heads(block), block.sentences)
    chosen = [s for s, c in zip(sentences(), crosses, strict=True) if c == bool(crossed)][:12]
    said = []
    made = fit(
        folder,
        "auto",
        said.append,
        train=write(folder / "chosen.conllu", chosen),
        **{"epochs": 1, "algorithm": "dca", "labels": False, **options},
    )[0]
    assert made.decoder == expected
    told = [line for line in said if line.startswith("decoder:")]
    assert len(told) == ("decoder" not in options)
    why = "among all" if options.get("loss") == "svm" else "of the arcs cross"
    assert all(expected in line and why in line for line in told)


def test_a_parser_is_certified_to_one_percent_by_default(folder):
    """The arcs by the log and the header, the labels by the header."""
    said = []
    made, result, _ = fit(folder, "certified", said.append, dev=DEV)
    assert made.header["kept_epoch"] == made.header["epochs"]
    assert ("kept: the last" in " ".join(said)) == (result.best[0] != result.epoch)
    assert made.header["algorithm"]["name"] == "sdca"
    assert result.certificate.relative <= 0.01
    assert "<= " in result.stopped
    assert "1 % of the primal" in result.stopped
    for name in ("certificate", "label_certificate"):
        c = made.header[name]
        assert 0.0 <= c["gap"] <= 0.01 * c["primal"]


@pytest.mark.parametrize(("gap", "least"), [("20%", 0.2), ("5 %", 0.05)])
def test_a_gap_may_be_a_share_of_the_objective(folder, small, gap, least):
    _, result, _ = fit(folder, "share", train=small, labels=False, stop_gap=gap)
    assert 0.2 * least < result.certificate.relative <= least


@pytest.mark.parametrize("gap", ["0%", "-1%", "x", "%", "nan", "inf%", 0.0, -1.0])
def test_a_gap_that_is_none(folder, small, gap):
    with pytest.raises(UsageError, match="stop-gap is"):
        fit(folder, "gap", train=small, stop_gap=gap)


def joined(pair):
    """Two sentences as one, with two roots."""
    first, second = ([r.split("\t") for r in s.split("\n") if r[0] != "#"] for s in pair)
    for row in second:
        row[0] = str(int(row[0]) + len(first))
        row[6] = str(int(row[6]) + len(first)) if row[6] != "0" else "0"
    return "\n".join("\t".join(r) for r in first + second)


@pytest.mark.parametrize("decoder", ["nonprojective", "projective"])
def test_multiple_roots(folder, parser, decoder):
    texts = [joined(pair) for pair in zip(sentences()[0:160:2], sentences()[1:160:2], strict=True)]
    train, test = (write(folder / f"{n}.conllu", t) for n, t in (("a", texts[20:]), ("b", texts)))
    with pytest.raises(DataError, match=r"line \d+: word \d+ is a second root \(--multi-root"):
        fit(folder, "x", train=train, decoder=decoder)
    assert not (folder / "x").exists()
    model = fit(folder, "roots", train=train, decoder=decoder, multi_root=True, epochs=4)[0]
    block = read(test)

    def roots(p):
        return np.add.reduceat(p.parse(block).heads == 0, block.sentences[:-1])

    assert not model.single_root
    assert np.mean(roots(model) == 2) > 0.7
    assert (roots(model) >= 1).all()
    assert (roots(parser) == 1).all()
    scores = scored(model, block)[0]
    assert model.posterior(scores)[1][0].sum() > 1.5


def test_crossing_sentences_are_lifted_or_skipped(folder):
    said = []

    def training(**options):
        said.clear()
        return prepared(options_for("parse", train=TRAIN, **options), said.append)

    whole = training().bank
    assert not projective_sentences(whole.heads, whole.sentences).all()
    assert "80 sentences and 80 arcs are non-projective" in said[0]
    lifted = training(decoder="projective").bank
    assert "lifted 80 arcs to make 80 sentences projective" in said
    assert projective_sentences(lifted.heads, lifted.sentences).all()
    assert (lifted.heads != whole.heads).sum() == 80
    skipped = training(decoder="projective", crossing="skip").bank
    assert "left out 80 non-projective sentences (--crossing skip)" in said
    chosen = projective_sentences(whole.heads, whole.sentences)
    kept = np.repeat(chosen, np.diff(whole.sentences))
    assert skipped.sentences.size == 321
    for name in ("heads", "matrix", "labels"):
        np.testing.assert_array_equal(getattr(skipped, name), getattr(whole, name)[kept])


def test_training_without_crossing_sentences(folder, small):
    options = {"train": small, "decoder": "projective", "crossing": "skip", "epochs": 3}
    model = fit(folder, "skip", **options)[0]
    assert evaluate_trees(TEST, model).chosen.uas > 0.85
    block = read(small)
    crossed = ~projective_sentences(read_heads(block), block.sentences)
    texts = [s for s, c in zip(sentences(small), crossed, strict=True) if c]
    with pytest.raises(DataError, match="no projective sentence to train on"):
        fit(folder, "x", **{**options, "train": write(folder / "crossed.conllu", texts)})


def test_no_labels(folder, small):
    model = fit(folder, "heads", train=small, labels=False, epochs=3)[0]
    assert set(model.header["templates"]) == {"prune", "arc"}
    score = evaluate_trees(TEST, model)
    assert (score.measure, score.chosen.las) == ("UAS", None)
    source = [r.split("\t") for r in Path(TEST).read_text().split("\n")]
    for options in ({}, {"marginals": True}, {"decode": "posterior"}):
        out = [r.split("\t") for r in parsed(model, TEST, **options).split("\n")]
        assert [r[7] for r in out if len(r) > 1] == [r[7] for r in source if len(r) > 1]
        assert not any("LabelProb" in r[-1] for r in out)


def test_no_prune(folder, small, parser):
    model = fit(folder, "all", train=small, prune=False, epochs=3)[0]
    assert set(model.header["templates"]) == {"arc", "label"}
    assert evaluate_trees(TEST, model).chosen.uas > 0.85
    for whole, pruned in zip(*(scored(p, read(TEST)) for p in (model, parser)), strict=True):
        n = len(whole) - 1
        assert (whole > -np.inf).sum() == n * n
        assert (pruned[:, 1:] > -np.inf).sum(axis=0).max() <= 11
        assert (pruned[:, 1:] > -np.inf).any(axis=0).all()


def test_user_templates(folder, small):
    def template(text):
        path = folder / "my.txt"
        path.write_text(text)
        return str(path)

    model = fit(folder, "own", train=small, template=template("h:upos m:upos dir|dist"), epochs=3)[
        0
    ]
    assert model.header["templates"]["arc"] == "h:upos m:upos dir|dist"
    assert evaluate_trees(TEST, model).chosen.uas > 0.6
    with pytest.raises(DataError, match=r"my.txt, line 2: 'h:upos\[' is not part"):
        fit(folder, "x", train=small, template=template("dir\nh:upos["))
    for text, column in (
        ("m:deprel dir", "deprel"),
        ("b:head", "head"),
        ("m:head.prefix1", "head"),
    ):
        with pytest.raises(UsageError, match=f"my.txt' reads column '{column}', which is to be"):
            fit(folder, "x", train=small, template=template(text))
    assert not (folder / "x").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decoder": "eisner"}, "decoder is .*: it must be one of"),
        ({"crossing": "drop"}, "crossing is 'drop': it must be one of"),
        ({"min_count": -1}, "min-count"),
        ({"drop": 1.0}, "drop is 1.0"),
        ({"drop": float("nan")}, "drop is nan"),
        ({"jackknife": 1}, "2 folds or more"),
        ({"supertags": 1}, "2 folds or more"),
        ({"supertags": 2, "labels": False}, "needs labels"),
        ({"heads": 0}, "between 1 and 1000"),
        ({"heads": 5, "prune": False}, "needs the pruning model"),
        ({"C": 0.0}, "C is 0"),
        ({"algorithm": "egr", "loss": "crf"}, "egr serves"),
        ({"algorithm": "sdca", "params": {"dual": "exact"}}, "--dual exact needs"),
        (
            {
                "algorithm": "sdca",
                "params": {"dual": "exact"},
                "decoder": "projective",
                "loss": "svm",
            },
            "--dual exact needs a finite beta",
        ),
    ],
)
def test_bad_options_are_refused_before_anything_is_read(folder, options, words):
    with pytest.raises(UsageError, match=words):
        fit(folder, "x", **{"train": "no such file", **options})


def test_tiny_treebanks(folder, short):
    """One sentence of one word, and sentences whose features are all seen once."""
    one = folder / "one.conllu"
    one.write_text(SHORT.split("\n\n")[3] + "\n\n")
    for path in (str(one), short):
        for options in ({}, {"decoder": "projective"}, {"algorithm": "sdca"}, {"prune": False}):
            model = fit(folder, "tiny", train=path, epochs=2, **options)[0]
            heads = model.parse(read(TEST)).heads
            assert heads.size == read(TEST).n_tokens
    assert parsed(model, str(one)) == one.read_text()


# ---- Jackknife -----------------------------------------------------------------------------------


def test_jackknifed_tags(small):
    block, said = read(small), []
    progress = Progress(None, {}, echo=said.append)

    def tagged(k, seed):
        options = options_for("parse", small, jackknife=k, seed=seed)
        return predicted_tags(block, options, progress)[0]

    other = tagged(3, 1)
    assert len(said) == 1  # there are no XPOS tags
    assert "jackknife: upos accuracy" in said[0]
    gold, tags = np.array(block.strings(3)), np.array(other.strings(3))
    assert 0.6 < np.mean(gold == tags) < 1.0
    for column in (0, 1, 2, 4, 5, 6, 7, 8, 9):
        assert block.strings(column) == other.strings(column)
    assert other.lines.tolist() == block.lines.tolist()  # comments are still there
    assert tagged(3, 1).strings(3) == tags.tolist()
    assert tagged(3, 2).strings(3) != tags.tolist()
    with pytest.raises(DataError, match="has 60 sentences, too few for 61 folds"):
        tagged(61, 1)


def test_the_dev_set_of_jackknifed_training_has_predicted_tags(folder, small):
    """Its features are of tags as raw text will have them; words are counted by the gold ones."""
    options = options_for("parse", train=small, dev=DEV, jackknife=2, epochs=2)
    gold, tagged = read(DEV), prepared(options).dev.block
    right = np.array(gold.strings(3)) == np.array(tagged.strings(3))
    assert 0.6 < right.mean() < 1.0
    assert gold.strings(7) == tagged.strings(7)
    model, _ = train_parser(options, str(folder / "jack-dev"))
    heads = model.parse(tagged).heads
    assert (heads != model.parse(gold).heads).any()
    shown = model.header["scores"]["dev"]["conventions"]
    expected = score_parser(model, gold, tagged=tagged).as_dict()["conventions"]
    assert shown == expected
    assert shown["conll18"]["uas"] == pytest.approx(np.mean(heads == read_heads(gold)))


def without(column, path, to):
    rows = [r.split("\t") for r in Path(path).read_text().split("\n")]
    changed = [[*r[:column], "_", *r[column + 1 :]] if len(r) > 1 else r for r in rows]
    to.write_text("\n".join("\t".join(r) for r in changed))
    return read(str(to))


def test_jackknifed_parsers_read_neither_lemma_nor_features(folder, small, parser):
    said = []
    model = fit(folder, "jack", said.append, train=small, jackknife=2, epochs=3)[0]
    assert model.header["tags"] == "2-fold predicted"
    assert any("tags are predicted" in line for line in said)
    assert model.header["data"]["sha256"] == hashlib.sha256(Path(small).read_bytes()).hexdigest()
    assert evaluate_trees(TEST, model).chosen.uas > 0.8
    block = read(TEST)
    bare = without(2, TEST, folder / "bare.conllu")
    for a, b in zip(scored(model, block), scored(model, bare), strict=True):
        np.testing.assert_array_equal(a, b)
    same = [
        np.array_equal(a, b)
        for a, b in zip(scored(parser, block), scored(parser, bare), strict=True)
    ]
    assert not any(same)  # one trained on the file's own tags reads its lemmas


def test_jackknife_of_what_is_no_treebank_fails_before_taggers_are_trained(folder, monkeypatch):
    monkeypatch.setattr("turbotag.training.parser.predicted_tags", None)
    with pytest.raises(DataError, match="is columns, but a parser reads"):
        fit(folder, "x", train=str(DEMO / "train.iob2"), jackknife=2)
    bad = folder / "cycle.conllu"
    bad.write_text("1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n")
    with pytest.raises(DataError, match=r"line 1: .* has no root"):
        fit(folder, "x", train=str(bad), jackknife=2)


# ---- Damaged files -------------------------------------------------------------------------------


# ---- Supertags ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def supertagged(folder):
    return fit(folder, "super", supertags=3, epochs=6, dev=DEV)


def test_supertags_are_label_and_side(short):
    block = read(short)
    bank = treebank.read_treebank(block, Scanner({"arc": "h:word m:word"}), True)
    names, ids = treebank.supertags(bank)
    assert [names[i] for i in ids] == [
        *("nsubj/R", "root/0", "punct/L"),
        *("root/0", "det/L", "dep/L"),
        *("root/0", "punct/L"),
        "root/0",
    ]
    assert names == sorted(set(names))


def test_parsers_with_supertags(supertagged, parser):
    model, _, made = supertagged
    assert parsed(model, TEST) == parsed(made, TEST)
    block = read(TEST)
    scanner = model.new_extractor()
    matrix = model.matrix(block, scanner)
    values = matrix[:, scanner.words.at[SUPER]]
    assert set(values.tolist()) <= set(hash_strings(model.header["supertags"]).tolist())
    bank = treebank.read_treebank(block, scanner, True)
    names, gold = treebank.supertags(bank)
    right = np.mean(values == hash_strings(names)[gold])
    assert right > 0.8
    mine, other = (evaluate_trees(TEST, m).conventions["conll18"] for m in (model, parser))
    assert mine.las > other.las - 0.02
    assert model.header["scores"]["dev"]["conventions"]["conll18"]["uas"] > 0.8


def test_supertag_scores_are_sums_of_weight_rows(supertagged):
    model, block = supertagged[0], read(TEST)
    matrix, scanner = model.matrix(block, model.extractor), model.extractor
    a, b = block.sentences[:2]
    keys, ends = scanner.supertag_keys(matrix[a:b])
    known, weights = model.rows("super")
    at = {k: i for i, k in enumerate(known.tolist())}
    found = model.supertagger.scores(matrix[a:b], scanner)
    for t, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
        rows = [at[k] for k in compact.fold(keys[first:last]).tolist() if k in at]
        assert rows
        np.testing.assert_allclose(found[t], weights[rows].sum(axis=0), rtol=1e-4, atol=1e-4)


def test_supertags_of_training_sentences_are_those_of_a_tagger_that_has_not_seen_them(
    folder, small, monkeypatch
):
    seen = []
    tag_words = stages.tag_words

    def spy(sentences, offsets, rows, positions, chosen, W, out):
        tag_words(sentences, offsets, rows, positions, chosen, W, out)
        seen.append((chosen.copy(), W.copy(), offsets, rows, positions, out.copy()))

    monkeypatch.setattr(stages, "tag_words", spy)
    fit(folder, "folds", train=small, supertags=3, epochs=2)
    assert (np.sum([chosen for chosen, *_ in seen], axis=0) == 1).all()
    cuts = read(small).sentences
    for chosen, W, offsets, rows, positions, out in seen:
        others = np.repeat(~chosen, np.diff(offsets))
        unseen = np.setdiff1d(rows, rows[others])
        assert unseen.size
        assert not W[unseen].any()  # features of this fold alone were never trained
        for s in np.flatnonzero(chosen)[:5]:
            own = slice(offsets[s], offsets[s + 1])
            scores = np.zeros((cuts[s + 1] - cuts[s], W.shape[1]))
            np.add.at(scores, positions[own], W[rows[own]])
            assert (scores.argmax(axis=1) == out[cuts[s] : cuts[s + 1], 0]).all()


def test_the_second_guess_is_one_that_is_near():
    scores = np.array([[1.0, 3.0, 2.5], [0.0, -9.0, -8.0], [2.0, 2.0, 2.0], [-4.0, 0.5, 1.0]])
    found = np.empty((4, 2), np.int32)
    best_two(scores, found)
    assert found.tolist() == [[1, 2], [0, -1], [0, 1], [2, 1]]
    best_two(scores[:, :1].copy(), found)
    assert found.tolist() == [[0, -1]] * 4


def test_templates_see_the_second_guess_where_there_is_doubt(supertagged):
    model, block = supertagged[0], read(TEST)
    scanner = model.new_extractor()
    matrix = model.matrix(block, scanner)
    scores = np.sort(model.supertagger.scores(matrix, scanner, block.sentences), axis=1)
    doubted = scores[:, -1] - scores[:, -2] < DOUBT
    best, second = (matrix[:, scanner.words.at[source]] for source in (SUPER, SECOND))
    assert 0 < doubted.sum() < doubted.size
    assert ((second != 0) == doubted).all()
    assert (second != best).all()


def test_supertags_with_predicted_tags_parts_and_few_sentences(folder, small, short):
    options = {"supertags": 2, "jackknife": 2, "parts": ("cs", "gp"), "epochs": 2}
    model = fit(folder, "much", train=small, **options)[0]
    read_heads(read(parsed(model, TEST).encode()), single_root=True)
    assert "lemma" not in "".join(model.header["templates"].values())
    with pytest.raises(DataError, match="has 4 sentences, too few for 5 folds"):
        fit(folder, "x", train=short, supertags=5)


def test_templates_read_supertags_only_if_there_are_any(folder, small):
    own = folder / "own.txt"
    own.write_text("h:super m:super dist\nm:upos dir\n")
    with pytest.raises(UsageError, match="reads supertags: add --supertags 5"):
        fit(folder, "x", train=small, template=str(own))
    said = []
    options = {"train": small, "template": str(own), "supertags": 2, "epochs": 2}
    model = fit(folder, "own", said.append, **options)[0]
    assert model.header["templates"]["arc"] == own.read_text()
    assert not any("reads no supertags" in line for line in said)
    own.write_text("h:upos m:upos dist\n")
    fit(folder, "own", said.append, **options)
    assert sum("reads no supertags" in line for line in said) == 1


def test_supertagged_training_resumes_to_the_same_bytes(tmp_path, small, monkeypatch):
    whole, stopped = str(tmp_path / "whole"), str(tmp_path / "stopped")
    options = options_for("parse", train=small, supertags=2, epochs=2)
    train_parser(options, whole)

    def stop(self, setup):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages.Pruning, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            train_parser(options, stopped, checkpoint_seconds=0)
    said = []
    train_parser(options, stopped, echo=said.append, resume=True)
    assert sum("done before" in line for line in said) == 3  # two folds and the whole
    assert Path(whole).read_bytes() == Path(stopped).read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stopped", "whole"]


def test_stages_that_are_done_are_not_trained_again(tmp_path, small, monkeypatch):
    """Stopped while labels are trained; then asked for more epochs, which the arcs go on with."""
    whole, stopped = str(tmp_path / "whole"), str(tmp_path / "stopped")
    options = options_for("parse", train=small, supertags=2, jackknife=2, epochs=3)
    train_parser(options, whole)

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages.Labels, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            train_parser(replace(options, fit=replace(options.fit, epochs=2)), stopped)
    done = ["arc", "prune", "super", "super0", "super1", "upos0", "upos1"]
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == [*(f"stopped.{s}.checkpoint" for s in done), "whole"]
    monkeypatch.setattr("turbotag.training.jackknife.train", stop)
    monkeypatch.setattr(stages.Pruning, "fit", stop)
    monkeypatch.setattr(stages, "tag_words", stop)
    said, trace = [], Trace()
    train_parser(options, stopped, trace, said.append, resume=True)
    assert sum("done before" in line for line in said) == 6
    assert [row.epoch for row in trace.rows] == [1, 2, 3, 3]
    assert Path(whole).read_bytes() == Path(stopped).read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stopped", "whole"]


def test_a_stage_that_does_not_fit_is_refused(tmp_path, small):
    """With the right checksum: as another program might write it."""
    options = options_for("parse", train=small, supertags=2, epochs=2)
    mark = options.fingerprint(read(small))
    tags = {"tags": np.full(3, 99, np.int32)}
    other = {"words": np.zeros(2)}
    for stage, arrays in (("super0", tags), ("super0", other), ("prune", {"lows": np.arange(3)})):
        output = str(tmp_path / stage)
        path = f"{output}.{stage}.checkpoint"
        Checkpoint(path, mark).save(arrays, OVER)
        with pytest.raises(DataError, match=f"{stage}.checkpoint: is damaged"):
            train_parser(options, output, resume=True)


def test_a_word_keeps_as_many_heads_as_asked_for(folder, small):
    block, counts = read(TEST), []
    for heads in (2, 10):
        model = fit(folder, f"heads{heads}", train=small, heads=heads, epochs=2)[0]
        matrix, (a, b) = model.matrix(block, model.extractor), block.sentences[:2]
        cuts, _ = model.candidates(matrix[a:b], model.extractor)
        assert np.diff(cuts).max() <= heads + 1  # and that of the best tree
        counts.append(cuts[-1])
    assert counts[0] < counts[1]


def test_truncated_models_are_refused(parser, tmp_path, folder):
    data, path = (folder / "nonprojective").read_bytes(), tmp_path / "m"
    for size in (0, 7, 8, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        for read_model in (Parser.load, load):
            with pytest.raises(DataError, match="m: is not a turbotag model, or is damaged"):
                read_model(str(path))


def damaged(parser):
    """Headers and arrays, each with one thing wrong."""
    h, a = parser.header, parser.arrays
    q, lows, counts = a["arc.weights"], a["label.lows"], a["label.counts"]
    more = counts.copy()
    more[9] += 1
    (last,) = np.flatnonzero(counts)[-1:]
    twice = lows.copy()  # two keys with the same upper half, out of order
    at = int(np.argmax(np.cumsum(counts) >= 1))
    both = counts.copy()
    both[last] -= 1
    both[at] += 1
    twice[1] = twice[0]
    arrays = {
        "arc.weights": (q[:-1], q.astype(np.float32), q[:, None]),
        "arc.scales": (np.array([np.nan], np.float32), np.array([np.inf], np.float32), q[:1]),
        "prune.weights": (a["prune.weights"][:, None], a["prune.weights"][1:]),
        "label.weights": (a["label.weights"][:, :-1], a["label.weights"].T),
        "label.scales": (a["label.scales"][1:], -a["label.scales"]),
        "arc.lows": (a["arc.lows"].astype(np.int64), a["arc.lows"][:-2]),
        "label.counts": (counts[1:], more, counts.astype(np.int32)),
    }
    yield h, {**a, "label.lows": twice, "label.counts": both}
    for name, values in arrays.items():
        for v in values:
            yield h, {**a, name: v}
        yield h, {k: v for k, v in a.items() if k != name}
    for name in ("labels", "single_root", "decoder", "templates", "approximation", "loss"):
        yield {k: v for k, v in h.items() if k != name}, a
    yield {**h, "labels": h["labels"][1:]}, a
    yield {**h, "loss": {"beta": "warm"}}, a
    yield {**h, "templates": {"prune": h["templates"]["prune"]}}, a
    for heads in (0, -3, 10**9, "six", 2.5):
        yield {**h, "heads": heads}, a
    yield {**h, "supertags": ["a/L"]}, a


def damaged_supertags(parser):
    h, a = parser.header, parser.arrays
    names, q = h["supertags"], a["super.weights"]
    for wrong in ([], names[1:], [*names[1:], names[1]], [*names[1:], "a\tb"], [*names, "x/L"]):
        yield {**h, "supertags": wrong}, a
    yield {k: v for k, v in h.items() if k != "supertags"}, a
    for wrong in (q[:, 1:], q[1:], q[:, 0], q.astype(np.int16)):
        yield h, {**a, "super.weights": wrong}


def test_damaged_models_are_refused(parser, supertagged, tmp_path):
    path = str(tmp_path / "m")
    for header, arrays in [*damaged(parser), *damaged_supertags(supertagged[0])]:
        store.save_file(path, "parser", header, arrays)
        with pytest.raises(DataError, match="m: is damaged"):
            Parser.load(path)
    parser.save(path)
    assert Parser.load(path).labels == parser.labels


def test_taggers_and_parsers_are_told_apart(parser, folder, small):
    tagger, saved = str(folder / "tagger"), str(folder / "nonprojective")
    train(options_for("pos", small, stop_gap=1.0), tagger)
    with pytest.raises(DataError, match="tagger: is a tagger, expected a parser"):
        Parser.load(tagger)
    with pytest.raises(DataError, match="is a parser, expected a tagger"):
        Tagger.load(saved)
    assert isinstance(load(tagger), Tagger)
    assert isinstance(load(saved), Parser)


def test_column_files_are_refused(parser, tmp_path):
    for name, text in (("columns", "Ada PROPN O\n"), ("text", "Ada\n"), ("crf", "A\tx=1\ty=2\n")):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(DataError, match=f"{name}: .*a parser reads CoNLL-U or CoNLL-X"):
            parsed(parser, str(path))
        with pytest.raises(DataError, match=f"{name}: .*CoNLL-U or CoNLL-X"):
            evaluate_trees(str(path), parser)
        with pytest.raises(DataError, match=f"{name}: .*CoNLL-U or CoNLL-X"):
            evaluate_trees(TEST, str(path))


# ---- Second order -------------------------------------------------------------------------------

CS, GP, ALL = ("cs",), ("gp",), ("cs", "gp", "as")
PAIRS = ("cs", "gp")


@pytest.mark.parametrize("entropy", ["convex", "bethe"])
@pytest.mark.parametrize("parts", [CS, GP, PAIRS, ALL])
def test_second_order_parsers(folder, small, parts, entropy):
    saved, result, made = fit(folder, "second", train=small, parts=parts, entropy=entropy, epochs=4)
    header = saved.header
    assert header["parts"] == list(parts)
    assert header["certified"] == ("the convex surrogate" if entropy == "convex" else "")
    assert header["approximation"]["entropy"] == entropy
    assert saved.extractor.all_siblings == ("as" in parts)
    assert result.certificate.primal > 0.0
    block = read(TEST)
    found = saved.parse(block, probabilities=True)
    check_trees(block, found.heads, single_root=True)
    np.testing.assert_array_equal(found.heads, made.parse(block).heads)
    assert found.proven == 0
    matrix, scanner, cuts = saved.extractor.matrix(block), saved.extractor, block.sentences
    for a, b in itertools.pairwise(cuts.tolist()):
        mu = saved.arc_probabilities(matrix[a:b], scanner)
        assert mu.min() >= 0.0
        np.testing.assert_allclose(mu[:, 1:].sum(axis=0), 1.0, atol=1e-9)
        assert mu[0].sum() == pytest.approx(1.0, abs=1e-9)  # one root
        expected = mu[found.heads[a:b], np.arange(1, b - a + 1)]
        np.testing.assert_array_equal(found.head_probability[a:b], expected)
    assert score_parser(saved, block).conventions["nopunct"].uas > 0.92
    with pytest.raises(UsageError, match="first-order"):
        predict(saved, TEST, io.BytesIO(), Output(nbest=2))


def test_second_order_learns_the_embedded_treebank(folder):
    model = fit(folder, "second", parts=PAIRS, epochs=2)[0]
    assert evaluate_trees(TEST, model).conventions["nopunct"].uas > 0.97


def part_scores(model, block):
    """(parts, scores) of every sentence."""
    matrix, scanner, cuts = model.extractor.matrix(block), model.extractor, block.sentences.tolist()
    for a, b in zip(cuts, cuts[1:]):  # noqa: B905
        arcs = model.candidates(matrix[a:b], scanner)
        theta = model.tables["arc"].sums(*scanner.keys(matrix[a:b], *arcs))
        yield slice(a, b), parts.parts(*arcs, scanner.all_siblings), theta


@pytest.mark.parametrize("options", [{}, {"entropy": "bethe"}, {"loss": "svm"}])
def test_map_decoding_finds_larger_scores(folder, small, options):
    """The best score by dual decomposition is no lower than that of the tree of least risk."""
    model = fit(folder, "map", train=small, parts=ALL, epochs=2, **options)[0]
    block = read(TEST)
    best, least = model.parse(block, decode="map"), model.parse(block, decode="posterior")
    check_trees(block, best.heads, single_root=True)
    assert 0.5 * block.n_sentences < best.proven <= block.n_sentences
    proven = 0
    for at, p, theta in part_scores(model, block):
        domain, tree = (
            second_order.Domain(p, True, model.approximation),
            np.empty_like(best.heads[at]),
        )
        _, is_best = second_order.best_tree(theta, domain, tree)
        np.testing.assert_array_equal(best.heads[at], tree)
        proven += is_best
        z, y = np.empty((2, theta.size))
        parts.indicator(tree, p, z)
        parts.indicator(least.heads[at], p, y)
        assert not is_best or theta @ z >= theta @ y - 1e-4
    assert best.proven == proven
    assert model.decodes_map == (options.get("loss") == "svm")
    usual = model.parse(block)  # the tree of least risk, but of an SVM that of the largest score
    np.testing.assert_array_equal(usual.heads, (best if model.decodes_map else least).heads)
    assert parsed(model, TEST, decode="map") != Path(TEST).read_text()


def test_first_order_trees_are_always_proven(parser):
    block = read(TEST)
    assert parser.parse(block).proven == parser.parse(block, decode="map").proven == 60
    np.testing.assert_array_equal(
        parser.parse(block).heads, parser.parse(block, decode="map").heads
    )
    assert parser.parse(block, decode="posterior").proven == 0
    assert parser.header["certified"] == "the objective"


def test_second_order_dev_score_is_that_of_the_parser(folder, small):
    for more in ({}, {"entropy": "bethe"}, {"loss": "svm"}):
        options = options_for("parse", train=small, dev=DEV, parts=ALL, drop=0.0, epochs=2, **more)
        path, trace = str(folder / "dev"), Trace()
        made, _ = train_parser(options, path, trace)
        shown = made.header["scores"]["dev"]["conventions"]["nopunct"]["uas"]
        assert trace.rows[-1].dev == pytest.approx(shown, abs=0.01)  # weights are rounded
        assert trace.rows[0].inference["calls"] == 60


def test_second_order_losses_are_never_negative(folder, small):
    options = options_for("parse", train=small, parts=ALL, loss="crf")
    problem = parser_training.problem(options).problem
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0):
        W = scale * rng.normal(size=problem.shape)
        for i in range(problem.n):
            value, theta, _ = problem.oracle(i, W)
            assert value - theta @ problem.gold(i) >= -1e-9 * max(1.0, abs(value))


@pytest.mark.parametrize("loss", ["crf", "softmax-margin", "svm"])
def test_second_order_training_is_certified_by_sdca(folder, small, loss):
    """Splits move for a few epochs and are held from then on, so that the gap can close."""
    trace, path = Trace(), str(folder / "sdca")
    options = {"algorithm": "sdca", "loss": loss, "C": 0.03, "stop_gap": 1e-2}
    options["epochs"] = 20 if loss == "svm" else 15
    model, result = train_parser(
        options_for("parse", train=small, parts=PAIRS, **options), path, trace
    )
    assert 0.0 <= result.certificate.gap <= (0.1 if loss == "svm" else 1e-2)
    assert model.header["certified"] == "the convex surrogate"
    assert trace.rows[-1].certified
    assert all(r.gap >= -1e-9 for r in trace.rows)
    assert score_parser(Parser.load(path), read(TEST)).conventions["nopunct"].uas > 0.92


def test_all_siblings_are_certified_by_sdca(folder, small):
    options = {"algorithm": "sdca", "loss": "crf", "C": 0.01, "epochs": 9, "labels": False}
    assert fit(folder, "sdca", train=small, parts=ALL, **options)[1].certificate.gap >= 0.0


@pytest.mark.parametrize("entropy", ["convex", "bethe"])
def test_second_order_training_by_sgd(folder, small, entropy):
    options = {"algorithm": "sgd", "epochs": 2, "labels": False, "entropy": entropy}
    model = fit(folder, "sgd", train=small, parts=PAIRS, **options)[0]
    assert score_parser(model, read(TEST)).conventions["nopunct"].uas > 0.9


def test_options_of_the_approximation_reach_the_model(folder, small):
    given = {"rounds": 3, "damping": 0.2, "tolerance": 0.0}
    model = fit(folder, "rounds", train=small, parts=CS, epochs=1, **given)[0]
    assert model.header["approximation"] == {"entropy": "convex", **given}
    assert model.approximation == second_order.Approximation("convex", *given.values())
    usual = fit(folder, "usual", train=small, parts=CS, epochs=1, entropy="bethe")[0]
    assert usual.approximation == second_order.Approximation("bethe", 30, 0.3, 1e-3)
    block = read(TEST)
    more = Parser({**model.header, "approximation": {"entropy": "bethe"}}, model.arrays)
    some, other = (p.parse(block, probabilities=True).head_probability for p in (model, more))
    assert np.abs(some - other).max() > 1e-3  # beliefs are those of the approximation in the file


def test_init_is_refused_if_it_is_no_parser(folder, small):
    tagger = str(folder / "tagger")
    train(options_for("pos", small, stop_gap=1.0), tagger)
    with pytest.raises(DataError, match="is a tagger, expected a parser"):
        fit(folder, "x", train=small, init=tagger, epochs=1)
    with pytest.raises(DataError, match="none"):
        fit(folder, "x", train=small, init=str(folder / "none"), epochs=1)
    assert not (folder / "x").exists()


class Stops(Trace):
    """Ends the training at an epoch, as Ctrl-C does."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def add(self, row):
        super().add(row)
        if len(self.rows) > self.epoch:
            raise KeyboardInterrupt


def test_second_order_training_resumes_to_the_same_bytes(tmp_path):
    """SDCA, stopped while splits move, when they are to be held, and after that."""
    few = write(tmp_path / "few.conllu", sentences()[:20])
    options = options_for(
        "parse", train=few, parts=PAIRS, algorithm="sdca", labels=False, epochs=9, stop_gap=1e-12
    )
    whole, stopped = str(tmp_path / "whole"), str(tmp_path / "stopped")
    train_parser(options, whole)
    for epoch in (2, 5, 7):
        with pytest.raises(KeyboardInterrupt):
            train_parser(options, stopped, Stops(epoch), checkpoint_seconds=0.0)
        assert (tmp_path / "stopped.arc.checkpoint").exists()
        said = []
        train_parser(options, stopped, echo=said.append, resume=True)
        assert f"resuming from {stopped}.arc.checkpoint" in said
        assert Path(stopped).read_bytes() == Path(whole).read_bytes()


def test_second_order_with_several_roots(folder):
    texts = [joined(pair) for pair in zip(sentences()[0:80:2], sentences()[1:80:2], strict=True)]
    path = write(folder / "pairs.conllu", texts)
    model = fit(folder, "roots", train=path, parts=PAIRS, multi_root=True, epochs=3)[0]
    block = read(path)
    for decode in ("viterbi", "map"):
        heads = model.parse(block, decode=decode).heads
        check_trees(block, heads, single_root=False)
        assert np.mean(np.add.reduceat(heads == 0, block.sentences[:-1]) == 2) > 0.7


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("decoder", ["nonprojective", "projective"])
def test_one_sentence_of_one_word(tmp_path, algorithm, decoder):
    """There is one tree and one label: a stage has no features, or none that could differ."""
    text = b"1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_\n\n"
    options = options_for(
        "parse",
        train=text,
        decoder=decoder,
        algorithm=algorithm,
        loss=loss_of(algorithm),
        epochs=3,
    )
    parser, result = train_parser(options, str(tmp_path / "m"))
    assert result.certificate.gap == pytest.approx(0.0, abs=1e-9)
    parsed = parser.parse(read(text), probabilities=True)
    assert parsed.heads.tolist() == [0]
    assert parsed.head_probability.tolist() == [1.0]


@pytest.mark.parametrize("entropy", ["convex", "bethe"])
def test_tiny_treebanks_with_parts(folder, short, entropy):
    one = folder / "one.conllu"
    one.write_text(SHORT.split("\n\n")[3] + "\n\n")
    for path in (str(one), short):
        model = fit(folder, "tiny", train=path, parts=ALL, entropy=entropy, epochs=2)[0]
        for decode in ("viterbi", "map"):
            check_trees(read(TEST), model.parse(read(TEST), decode=decode).heads, single_root=True)


BETHE = {"parts": CS, "entropy": "bethe"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parts": ("xx",)}, "--parts takes some of cs, gp, as, not 'xx'"),
        ({"parts": CS, "decoder": "projective"}, "sums over all trees"),
        ({"parts": CS, "prune": False}, "prune"),
        (
            {"parts": CS, "algorithm": "lbfgs", "loss": "crf"},
            "sdca, dca, sgd; lbfgs needs the exact",
        ),
        ({"parts": CS, "algorithm": "mira", "loss": "svm"}, "mira needs the exact log Z"),
        ({"parts": CS, "entropy": "tree"}, "entropy is 'tree': it must be one of convex, bethe"),
        ({**BETHE, "loss": "svm"}, "--entropy bethe needs a loss with finite beta"),
        ({**BETHE, "algorithm": "sdca"}, "bethe is trained by dca, sgd; sdca needs"),
        ({"parts": CS, "rounds": 0}, "rounds is 0: it must be 1 to 10000"),
        ({"parts": CS, "damping": 1.0}, "damping is 1.0: it must lie between 0 and 1"),
        ({"parts": CS, "damping": -0.1}, "damping is -0.1"),
        ({"parts": CS, "damping": float("nan")}, "damping is nan"),
        ({"parts": CS, "tolerance": -1.0}, "tolerance is -1.0: it must not be negative"),
        ({"parts": CS, "tolerance": float("nan")}, "tolerance is nan"),
        *(
            (
                {"parts": CS, "algorithm": "sdca", "params": {"sampling": sampling}},
                "use --sampling gap",
            )
            for sampling in ("importance", "gap-importance")
        ),
        ({"parts": CS, "algorithm": "sdca", "params": {"dual": "exact"}}, "--dual compact"),
    ],
)
def test_wrong_second_order_options(folder, options, words):
    with pytest.raises(UsageError, match=words):
        fit(folder, "refused", **{"train": "no such file", **options})


@pytest.mark.parametrize("chunk", [0, 7, 40, 1 << 26])
def test_features_are_joined_alike_in_chunks_of_any_size(monkeypatch, tmp_path, chunk):
    """Also where the last sentence fills a chunk, or each does."""
    options = options_for("parse", train=DEV, epochs=1)
    train_parser(options, str(tmp_path / "whole"))
    monkeypatch.setattr(indexing, "CHUNK", chunk)
    train_parser(options, str(tmp_path / "pieces"))
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()
