"""A parser trained on the embedded treebank: files, scores, probabilities, decoders, options."""

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest

from tests.tree_oracles import EnumeratedTrees
from turbotag.corpus.reader import read
from turbotag.corpus.trees import check_trees, crossing, projective_sentences, read_heads
from turbotag.errors import DataError, UsageError
from turbotag.models import store
from turbotag.models.evaluation import evaluate_trees
from turbotag.models.gold import Options, options_for
from turbotag.models.jackknife import predicted_tags
from turbotag.models.parser import Parser
from turbotag.models.parser_training import ParserTraining, score_parser, train_parser
from turbotag.models.prediction import Output, load, predict
from turbotag.models.tagger import Tagger
from turbotag.models.training import train
from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.trace import Trace

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
    made, result = train_parser(
        options_for("parse", **{"train": TRAIN, **options}), path, echo=echo
    )
    return Parser.load(path), result, made


@pytest.fixture(scope="module")
def trained(folder):
    return fit(folder, "nonprojective", epochs=6, dev=DEV)


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
    train_parser(options, file, checkpoint_seconds=0.0)
    stages = {f"{file}.{s}.checkpoint" for s in ("prune", "arc", "label")}
    assert set(written) == {file, *stages}
    written.clear()
    train_parser(options, os.devnull, checkpoint_seconds=0.0)
    assert written == [os.devnull]


@pytest.mark.parametrize("decoder", ["nonprojective", "projective"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_optimizer_trains_a_parser(folder, small, name, decoder):
    loss = {"mira": "svm", "egr": "svm", "perceptron": "perceptron"}.get(name, "crf")
    model, result, _ = fit(
        folder, "alg", train=small, algorithm=name, loss=loss, decoder=decoder, epochs=2, C=0.1
    )
    assert result.certificate.gap >= -1e-9
    assert evaluate_trees(TEST, model).chosen.uas > (0.2 if name == "egr" else 0.6)


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
    training = ParserTraining(options, str(folder / "x"), lambda line: None)
    training.prune()
    task = training.arc_problem()
    fitted = training.fit("arc", task.problem, options, Trace())
    training.stage("arc", task.table.keys(), fitted.result.weights)
    parser, problem = training.parser(), task.problem
    exact = fitted.result.weights
    rounded = exact.astype(np.float16).astype(np.float64)
    for i, (a, b) in enumerate(training.bank):
        scores = parser.scores(training.bank.matrix[a:b], training.scanner)
        theta, near = problem.scores(i, rounded).copy(), problem.scores(i, exact)
        first = problem.arcs.cuts[a]
        for m in range(1, b - a + 1):
            for e in range(*(problem.arcs.cuts[a + m - 1 : a + m + 1] - first)):
                found = scores[problem.arcs.heads[first + e], m]
                # a gold arc that was pruned is there in training only
                if (
                    found > -np.inf
                    or problem.arcs.heads[first + e] != training.bank.heads[a + m - 1]
                ):
                    assert found == pytest.approx(theta[e], abs=1e-5)
                    assert found == pytest.approx(near[e], abs=5e-3)
        assert (scores > -np.inf).sum() <= theta.size


def test_dropped_weights_hardly_matter_but_the_file_is_smaller(folder, small):
    whole = fit(folder, "whole", train=small, drop=0.0, epochs=3)[0]
    less = fit(folder, "less", train=small, drop=0.02, epochs=3)[0]
    assert (folder / "less").stat().st_size < 0.7 * (folder / "whole").stat().st_size
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
        options = options_for("parse", train=TRAIN, **options)
        return ParserTraining(options, str(folder / "x"), said.append)

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
        ({"decoder": "eisner"}, "decoder is one of"),
        ({"crossing": "drop"}, "crossing is one of"),
        ({"min_count": -1}, "min-count"),
        ({"drop": 1.0}, "drop is 1.0"),
        ({"drop": float("nan")}, "drop is nan"),
        ({"jackknife": 1}, "2 folds or more"),
        ({"init": "m"}, "--init is for taggers"),
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
    other = predicted_tags(block, 3, 1, said.append)
    assert len(said) == 1  # there are no XPOS tags
    assert "jackknife: upos accuracy" in said[0]
    gold, tags = np.array(block.strings(3)), np.array(other.strings(3))
    assert 0.6 < np.mean(gold == tags) < 1.0
    for column in (0, 1, 2, 4, 5, 6, 7, 8, 9):
        assert block.strings(column) == other.strings(column)
    assert other.lines.tolist() == block.lines.tolist()  # comments are still there
    assert predicted_tags(block, 3, 1, said.append).strings(3) == tags.tolist()
    assert predicted_tags(block, 3, 2, said.append).strings(3) != tags.tolist()
    with pytest.raises(DataError, match="has 60 sentences, too few for 61 folds"):
        predicted_tags(block, 61, 1, said.append)


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
    monkeypatch.setattr("turbotag.models.parser_training.predicted_tags", None)
    with pytest.raises(DataError, match="is columns, but a parser reads"):
        fit(folder, "x", train=str(DEMO / "train.iob2"), jackknife=2)
    bad = folder / "cycle.conllu"
    bad.write_text("1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n")
    with pytest.raises(DataError, match=r"line 1: .* has no root"):
        fit(folder, "x", train=str(bad), jackknife=2)


# ---- Damaged files -------------------------------------------------------------------------------


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
    nan = a["arc.weights"].copy()
    nan[3] = np.nan
    twice = a["label.keys"].copy()
    twice[1] = twice[0]
    arrays = {
        "arc.weights": (nan, nan * np.inf, nan[:-1], a["arc.weights"].astype(np.float32)),
        "prune.weights": (a["prune.weights"][:, None], a["prune.weights"][1:]),
        "label.weights": (
            a["label.weights"][:, :-1],
            a["label.weights"].T,
            a["label.weights"] * np.inf,
        ),
        "arc.keys": (a["arc.keys"].astype(np.int64), a["arc.keys"][:-2]),
        "label.keys": (twice,),
    }
    for name, values in arrays.items():
        for v in values:
            yield h, {**a, name: v}
        yield h, {k: v for k, v in a.items() if k != name}
    for name in ("labels", "single_root", "decoder", "templates", "ignore", "loss"):
        yield {k: v for k, v in h.items() if k != name}, a
    yield {**h, "labels": h["labels"][1:]}, a
    yield {**h, "loss": {"beta": "warm"}}, a
    yield {**h, "templates": {"prune": h["templates"]["prune"]}}, a


def test_damaged_models_are_refused(parser, tmp_path):
    path = str(tmp_path / "m")
    for header, arrays in damaged(parser):
        store.save_file(path, "parser", header, arrays)
        with pytest.raises(DataError, match="m: is damaged"):
            Parser.load(path)
    parser.save(path)
    assert Parser.load(path).labels == parser.labels


def test_taggers_and_parsers_are_told_apart(parser, folder, small):
    tagger, saved = str(folder / "tagger"), str(folder / "nonprojective")
    train(Options("pos", small, stop_gap=1.0), tagger)
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


@pytest.mark.parametrize("parts", [("cs",), ("gp",), ("cs", "gp")])
def test_second_order_parsers(folder, parts):
    saved, result, made = fit(folder, "second", parts=parts, epochs=4, dev=DEV)
    assert saved.header["parts"] == list(parts)
    assert saved.header["certified"] is False
    assert result.certificate.primal > 0.0  # a loss made of the bound is never negative
    block = read(TEST)
    found = saved.parse(block, probabilities=True)
    check_trees(block, found.heads, single_root=True)
    np.testing.assert_array_equal(found.heads, made.parse(block).heads)
    assert found.head_probability.min() >= 0.0
    assert found.head_probability.max() <= 1.0 + 1e-9
    assert score_parser(saved, block).conventions["nopunct"].uas > 0.95
    with pytest.raises(UsageError, match="first-order"):
        predict(saved, TEST, io.BytesIO(), Output(nbest=2))


def test_second_order_dev_score_is_that_of_the_parser(folder, small):
    options = options_for("parse", train=small, dev=DEV, parts=("cs", "gp"), drop=0.0, epochs=2)
    path, trace = str(folder / "dev"), Trace()
    made, _ = train_parser(options, path, trace)
    shown = made.header["scores"]["dev"]["conventions"]["nopunct"]["uas"]
    assert trace.rows[-1].dev == pytest.approx(shown, abs=0.005)  # weights are float16 in the model


def test_second_order_losses_are_never_negative(folder, small):
    options = options_for("parse", train=small, parts=("cs", "gp"), loss="crf")
    training = ParserTraining(options, str(folder / "x"), lambda line: None)
    training.prune()
    problem = training.arc_problem().problem
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.1, 1.0):
        W = scale * rng.normal(size=problem.shape)
        for i in range(problem.n):
            value, theta, _ = problem.oracle(i, W)
            assert value - theta @ problem.gold(i) >= -1e-9 * max(1.0, abs(value))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parts": ("as",)}, "cs, gp"),
        ({"parts": ("cs",), "decoder": "projective"}, "non-projective"),
        ({"parts": ("cs",), "prune": False}, "prune"),
        ({"parts": ("cs",), "loss": "svm"}, "finite beta"),
        ({"parts": ("cs",), "algorithm": "sdca", "loss": "crf"}, "dca or sgd"),
    ],
)
def test_wrong_second_order_options(folder, small, options, words):
    with pytest.raises(UsageError, match=words):
        fit(folder, "refused", train=small, **options)
