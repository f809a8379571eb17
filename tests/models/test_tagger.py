"""A tagger trained on the embedded corpus: files, probabilities, n-best, schemes, orders."""

import io
import math
import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.oracles import Enumerated
from turbotag.corpus.reader import read
from turbotag.errors import DataError, UsageError
from turbotag.features import compact
from turbotag.models.gold import Layout
from turbotag.models.model import Output
from turbotag.models.prediction import predict
from turbotag.models.tag_comparison import evaluate_files, evaluate_model
from turbotag.models.tagger import Tagger
from turbotag.optim.trace import Trace
from turbotag.storage import memory
from turbotag.structures.chain_problem import ChainProblem
from turbotag.training.options import options_for
from turbotag.training.tagger import DevScorer, train

try:
    import resource
except ImportError:  # Windows
    resource = None

DEMO = Path(__file__).parents[2] / "data" / "demo"
TRAIN, DEV, TEST = (str(DEMO / f"{s}.iob2") for s in ("train", "dev", "test"))


def fit(tmp_path, name="m", **options):
    path = str(tmp_path / name)
    settings = {"task": "ner", "train": TRAIN, "stop_gap": 0.05, "calibration": False, **options}
    _, result = train(options_for(**settings), path)
    return Tagger.load(path), result


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    return fit(tmp_path_factory.mktemp("m"))[0]


def tagged(tagger, path, **output):
    out = io.BytesIO()
    predict(tagger, path, out, Output(**output))
    return out.getvalue()


def test_learns_the_embedded_corpus(tagger):
    score = evaluate_model(tagger, TEST, strict=True)
    assert score.total.f1 > 0.9


def test_same_seed_same_bytes_and_other_seed_other_bytes(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        fit(tmp_path, name, seed=seed, stop_gap=1.0)
    a, b, c = ((tmp_path / n).read_bytes() for n in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize(
    "options",
    [
        {"order": 0},
        {"order": 2},
        {"constraints": "train"},
        {"constraints": "none"},
        {"scheme": "iobes"},
        {"scheme": "iob1"},
        {"algorithm": "dca", "stop_gap": None, "epochs": 4},
        {"loss": "svm", "epochs": 8},
        {"loss": "softmax-margin", "gamma": 3.0},
        {"params": {"dual": "exact"}},
    ],
    ids=str,
)
def test_variants_learn_and_write_valid_tags(tmp_path, options):
    model, result = fit(tmp_path, **options)
    out = tmp_path / "out"
    out.write_bytes(tagged(model, TEST))
    score = evaluate_files(TEST, str(out), strict=True)
    assert score.total.f1 > 0.85
    assert result.certificate.gap >= -1e-9
    if options.get("constraints") != "none":
        lenient = evaluate_files(TEST, str(out), strict=False)
        assert lenient.total == score.total


def test_prediction_passes_everything_else_through(tagger, tmp_path):
    text = open(TEST, encoding="utf-8").read()
    words = tmp_path / "words"
    no_tags = "\n".join("\t".join(line.split("\t")[:2]) for line in text.split("\n"))
    words.write_text(no_tags, encoding="utf-8")
    a, b = tagged(tagger, TEST).decode(), tagged(tagger, str(words)).decode()
    assert a == b
    assert [line.split("\t")[:2] for line in a.split("\n")] == [
        line.split("\t")[:2] for line in text.split("\n")
    ]


def test_threads_and_block_sizes_give_the_same_bytes(tagger, tmp_path, monkeypatch):
    big = tmp_path / "big"
    big.write_bytes(Path(TEST).read_bytes() * 20)
    whole = tagged(tagger, str(big))
    monkeypatch.setattr(
        "turbotag.models.prediction.stream",
        lambda path, fmt, naming: __import__("turbotag.corpus.reader", fromlist=["x"]).stream(
            path, fmt, naming, 3000
        ),
    )
    for threads in (1, 2, 5):
        out = io.BytesIO()
        predict(tagger, str(big), out, threads=threads)
        assert out.getvalue() == whole


@pytest.mark.parametrize("order", [0, 1, 2])
def test_probabilities_against_enumeration(tmp_path, order):
    """Token, entity and n-best probabilities on short sentences, over all label sequences."""
    model, _ = fit(tmp_path, order=order, stop_gap=0.5)
    text = "Ada\tPROPN\tO\nQuill\tPROPN\tO\nsings\tVERB\tO\n\nPort\tPROPN\tO\n"
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")
    block = read(str(path))
    scores = model.scores(block)
    tags = model.viterbi(scores, block.sentences)
    posterior = model.posterior(scores, block.sentences)
    found = model.marginals(scores, block.sentences, tags)
    K = len(model.labels)
    for s in range(2):
        a, b = block.sentences[s], block.sentences[s + 1]
        T = int(b - a)
        exact = Enumerated(model.theta(scores[a:b]), T, K, 1.0, model.mask, max(order, 1))
        assert exact.ys[exact.scores.argmax()] == tuple(tags[a:b].tolist())
        expected = exact.marginals[: T * K].reshape(T, K)
        np.testing.assert_allclose(posterior[a:b], expected, atol=1e-9)
        for start, end, p in zip(found.spans.start, found.spans.end, found.span, strict=True):
            if not a <= start < b:
                continue
            inside = [model.labels[k] for k in tags[start : end + 1]]
            kind = inside[0][2:]
            total = 0.0
            for y, q in zip(exact.ys, exact.p, strict=True):
                names = [model.labels[k] for k in y]
                after = names[end + 1 - a] if end + 1 < b else "O"
                if names[start - a : end + 1 - a] == inside and after != f"I-{kind}":
                    total += q
            assert p == pytest.approx(total, abs=1e-8)
        paths, probabilities = model.nbest(scores[a:b], 5)
        np.testing.assert_allclose(probabilities, np.sort(exact.p)[::-1][:5], atol=1e-9)
        assert tuple(paths[0].tolist()) == exact.ys[exact.p.argmax()]
    assert found.spans.start.size >= 1


def test_posterior_decoding_is_valid_and_marginals_are_written(tagger):
    lines = tagged(tagger, TEST, decode="posterior", marginals=True).decode().splitlines()
    for line in filter(None, lines):
        fields = line.split("\t")
        assert len(fields) == 5
        assert 0.0 <= float(fields[3]) <= 1.0
        assert (fields[4] == "_") == (fields[2] == "O")


def test_nbest_blocks(tagger, tmp_path):
    path = tmp_path / "x"
    path.write_text("Ada\tPROPN\nsings\tVERB\n\nLeon\tPROPN\n", encoding="utf-8")
    blocks = tagged(tagger, str(path), nbest=2).decode().split("# nbest ")
    assert [b.split()[0] for b in blocks[1:]] == ["1", "2", "1", "2"]
    probabilities = [float(b.split()[1]) for b in blocks[1:]]
    assert probabilities[0] >= probabilities[1]


def test_nbest_of_conllu_repeats_whole_sentences(tmp_path):
    path = str(tmp_path / "pos")
    train(options_for("pos", str(DEMO / "train.conllu"), stop_gap=1.0), path)
    rest = "\t_" * 8
    source = tmp_path / "x.conllu"
    source.write_text(
        f"# sent_id = 1\n1-2\tdon't{rest}\n1\tAda{rest}\n2\tsings{rest}\n2.1\tx{rest}\n\n"
        f"# sent_id = 2\n1\tLeon{rest}\n"
    )
    copies = tagged(Tagger.load(path), str(source), nbest=2).decode().split("# nbest ")
    ids = [[x.split("\t")[0] for x in c.split("\n") if "\t" in x] for c in copies[1:]]
    assert ids == [["1-2", "1", "2", "2.1"]] * 2 + [["1"]] * 2
    assert copies[0] == "# sent_id = 1\n"


def test_wider_input_is_refused_until_its_columns_are_named(tmp_path):
    narrow, wide = tmp_path / "narrow", tmp_path / "wide"
    narrow.write_text("Ada\tB-X\nsings\tO\n\n" * 5)
    wide.write_text("Ada\tNNP\tB-NP\tO\nsings\tVBZ\tB-VP\tO\n")
    model, _ = fit(tmp_path, train=str(narrow), stop_gap=1e-3)
    with pytest.raises(DataError, match=r"wide: has 4 columns, but the model knows 2"):
        tagged(model, str(wide))
    out = io.BytesIO()
    predict(model, str(wide), out, layout=Layout(columns=("word", "pos", "chunk", "tag")))
    assert out.getvalue().decode().splitlines()[0] == "Ada\tNNP\tB-NP\tB-X"


def test_evaluating_a_model_reads_the_columns_as_training_did(tmp_path):
    path = tmp_path / "t"
    path.write_text("Ada a X B-A\nsings s Y O\n\n" * 5)
    template = tmp_path / "p.txt"
    template.write_text("pos[0]\n")
    columns = ("word", "lemma", "pos", "tag")
    model, _ = fit(
        tmp_path, train=str(path), columns=columns, template=str(template), stop_gap=1e-3
    )
    assert evaluate_model(model, str(path)).main == 1.0


def test_templates_cannot_read_the_target_under_another_name(tmp_path):
    with pytest.raises(UsageError, match="which is to be predicted"):
        train(
            options_for("pos", str(DEMO / "train.conllu"), template="conll2000"),
            str(tmp_path / "x"),
        )


def test_bilou_comes_out_as_bilou(tmp_path):
    path = tmp_path / "t"
    path.write_text("Ada B-X\nQuill L-X\nmet O\nLeon U-X\n\n" * 8)
    for scheme in (None, "iob2"):
        model, _ = fit(tmp_path, train=str(path), scheme=scheme, stop_gap=1e-3)
        assert tagged(model, str(path)) == path.read_bytes()


def test_conllx_models_fill_the_tag_column_of_conllu(tmp_path):
    source = (DEMO / "train.conllu").read_text()
    lines = [x for x in source.split("\n") if not x.startswith("#")]
    x = tmp_path / "x.conll"
    x.write_text("\n".join(lines))
    model, _ = fit(tmp_path, task="pos", train=str(x), stop_gap=0.5)
    out = tagged(model, str(DEMO / "test.conllu")).decode()
    assert "POS=" not in out


def test_conllu_in_and_out(tmp_path, tagger):
    path = str(tmp_path / "pos")
    conllu = str(DEMO / "train.conllu")
    train(options_for("pos", conllu, stop_gap=0.05), path)
    model = Tagger.load(path)
    assert model.header["target"] == "upos"
    source = (DEMO / "test.conllu").read_bytes()
    blanked = tmp_path / "in.conllu"
    rows = [r.split(b"\t") for r in source.split(b"\n")]
    blanked.write_bytes(
        b"\n".join(b"\t".join([*r[:3], b"_", *r[4:]]) if len(r) == 10 else r[0] for r in rows)
    )
    out = tagged(model, str(blanked))
    same = sum(a == b for a, b in zip(out.split(b"\n"), source.split(b"\n"), strict=True))
    assert same / len(rows) > 0.95
    noted = tagged(model, str(blanked), marginals=True).decode()
    assert "Entity=B-PER|Prob=" in noted
    # a model without a column of its own in CoNLL-U writes into MISC
    chunker = str(tmp_path / "c")
    train(options_for("ner", TRAIN, template="conll2000", stop_gap=0.5), chunker)
    with pytest.raises(DataError, match="need column 'pos'"):
        tagged(Tagger.load(chunker), str(_text_file(tmp_path)))
    entities = tagged(tagger, str(blanked)).decode()
    assert "NER=" in entities


def _text_file(tmp_path):
    path = tmp_path / "plain"
    path.write_text("Ada\nsings\n", encoding="utf-8")
    return path


def test_crfsuite_in_and_out(tmp_path):
    rows = []
    for i in range(60):
        rows.append(f"{'AB'[i % 2]}\tx={i % 2}\tn:{i / 60}\n" + ("\n" if i % 5 == 4 else ""))
    path = tmp_path / "c"
    path.write_text("".join(rows), encoding="utf-8")
    model, _ = fit(tmp_path, task="pos", train=str(path), template="attributes-bias", stop_gap=1e-3)
    assert tagged(model, str(path)) == path.read_bytes()
    assert b"A:0." in tagged(model, str(path), marginals=True)


def test_unknown_label_bad_target_bad_tags(tmp_path, tagger):
    pos = str(tmp_path / "pos")
    train(options_for("pos", TRAIN, target="pos", stop_gap=1.0), pos)
    odd = tmp_path / "odd"
    odd.write_text("Ada\tPROPN\tO\nsings\tNOSUCH\tO\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"odd, line 2: label 'NOSUCH' is unknown"):
        evaluate_model(Tagger.load(pos), str(odd))
    with pytest.raises(DataError, match=r"line 1: 'PROPN' in column 'pos' is not an IOB tag"):
        train(options_for("ner", TRAIN, target="pos"), str(tmp_path / "x"))
    with pytest.raises(DataError, match="no column 'nothing'"):
        train(options_for("ner", TRAIN, target="nothing"), str(tmp_path / "x"))
    with pytest.raises(UsageError, match="no chunk column, and no CHUNK= in MISC"):
        train(options_for("chunk", str(DEMO / "train.conllu")), str(tmp_path / "x"))
    with pytest.raises(UsageError, match="which is to be predicted"):
        train(options_for("pos", TRAIN, target="pos", template="chunk"), str(tmp_path / "x"))
    for bad in (
        {"C": float("nan")},
        {"C": -1.0},
        {"epochs": 0},
        {"stop_gap": 0.0},
        {"patience": 2},
    ):
        with pytest.raises(UsageError):
            train(options_for("ner", TRAIN, **bad), str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_strict_refuses_and_default_repairs_irregular_tags(tmp_path):
    path = tmp_path / "t"
    path.write_text("a O\nb I-X\nc I-X\n\nd B-X\n" * 5, encoding="utf-8")
    with pytest.raises(DataError, match=r"t, line 2: I-X does not fit IOB2"):
        train(options_for("ner", str(path), strict=True), str(tmp_path / "m"))
    said = []
    train(options_for("ner", str(path)), str(tmp_path / "m"), echo=said.append)
    (warning,) = (line for line in said if line.startswith("warning"))
    assert "t, line 2: I-X does not fit IOB2, where spans open with B- (the first of 5 " in warning


def test_iob1_with_needless_b_is_iob1(tmp_path):
    """As the English training file of CoNLL-2003, which has two of them."""
    path = tmp_path / "t"
    path.write_text("a O\nb I-X\nc I-X\n\n" * 9 + "a B-X\n\nb O\nc B-Y\n")
    said = []
    model, _ = train(options_for("ner", str(path), epochs=1), str(tmp_path / "m"), echo=said.append)
    assert model.header["scheme"] == model.header["file_scheme"] == "iob1"
    (warning,) = (line for line in said if line.startswith("warning"))
    assert "t, line 37: B-X does not fit IOB1" in warning
    assert "the first of 2 such tags" in warning
    with pytest.raises(DataError, match=r"t, line 37: B-X does not fit IOB1"):
        train(options_for("ner", str(path), strict=True), str(tmp_path / "m"))


def test_suspicious_tag_column_is_named(tmp_path):
    path = tmp_path / "t"
    path.write_text("".join(f"w{i} id{i}\n" for i in range(60)), encoding="utf-8")
    said = []
    train(options_for("pos", str(path), epochs=1), str(tmp_path / "m"), echo=said.append)
    assert any("'tag'" in line and "60 different values" in line for line in said)


def test_evaluation_refuses_files_that_do_not_match(tmp_path):
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    a.write_text("x O\ny O\n\nz O\n")
    b.write_text("x O\nw O\n\nz O\n")
    c.write_text("x O\ny O\nz O\n")
    with pytest.raises(DataError, match=r"b, line 2: has 'w' where .*a, line 2 has 'y'"):
        evaluate_files(str(a), str(b))
    with pytest.raises(DataError, match="sentence 1 differs"):
        evaluate_files(str(a), str(c))
    a.write_text("x B-A\ny O\n")
    b.write_text("x 0.9\ny 0.8\n")
    with pytest.raises(DataError, match=r"b: '0.9' is not an IOB tag.*--target"):
        evaluate_files(str(a), str(b))
    a.write_text("x I-A\ny O\nz I-A\nv B-A\n")
    assert evaluate_files(str(a), str(a), strict=True).total.correct == 3


def test_damaged_models_are_refused(tmp_path, tagger):
    from turbotag.storage import store

    path = str(tmp_path / "m")
    header = dict(tagger.header)
    for weights in (
        tagger.weights[:-1],
        tagger.weights.astype(np.float64),
        tagger.weights * np.nan,
    ):
        store.save_file(path, "tagger", header, {"keys": tagger.keys, "weights": weights})
        with pytest.raises(DataError, match="is damaged"):
            Tagger.load(path)
    store.save_file(path, "tagger", {}, {"keys": tagger.keys, "weights": tagger.weights})
    with pytest.raises(DataError, match="is damaged"):
        Tagger.load(path)


# ---- Extremes ------------------------------------------------------------------------------------


SENTENCE = b"a\tN\nb\tV\na\tN\n\n"
COLUMNS = {"format": "columns", "columns": ("word", "tag"), "target": "tag"}


@pytest.mark.parametrize("C", [1e-12, 1e12])
@pytest.mark.parametrize("beta", [1e-6, 1e6, float("inf")])
def test_the_ends_of_what_is_legal(tmp_path, C, beta):
    given = {"task": "pos", "train": SENTENCE, "beta": beta, "gamma": 1e6, "epochs": 5, **COLUMNS}
    model, result = train(options_for(C=C, **given), str(tmp_path / "m"))
    assert np.isfinite(result.weights).all()
    assert result.certificate.gap >= -1e-9 * max(1.0, result.certificate.primal)
    assert np.isfinite(model.weights).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 1e-13}, "C is 1e-13: it must lie between 1e-12 and 1e+12"),
        ({"C": 1e13}, "C is 10000000000000.0: it must lie between"),
        ({"beta": 1e-7}, "beta is 1e-07: it is 'inf' or lies between 1e-06 and 1e+06"),
        ({"beta": 1e7}, "beta is 10000000.0: it is 'inf' or lies between"),
        ({"beta": 0.0}, "beta is 0.0: it is 'inf' or lies between"),
        ({"gamma": 1e7}, "gamma is 10000000.0: it must lie between 0 and 1e+06"),
        ({"gamma": float("nan")}, "gamma is nan: it must lie between"),
    ],
)
def test_what_lies_beyond_is_refused(tmp_path, options, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        train(options_for("pos", SENTENCE, **COLUMNS, **options), str(tmp_path / "m"))


def test_the_entropy_of_huge_potentials_is_not_overestimated(tmp_path):
    """Rounding in log Z - s'nu once put the dual of eg-batch above the primal."""
    params = {"accelerate": "no", "eta": 0.9}
    loss = {"beta": 1e-6, "gamma": 1.0, "C": 1e12}
    options = options_for(
        "pos", SENTENCE, algorithm="eg-batch", params=params, epochs=70, **loss, **COLUMNS
    )
    _, result = train(options, str(tmp_path / "m"))
    assert result.certificate.gap >= 0.0


@pytest.mark.parametrize("algorithm", ["sag", "sag-nus"])
def test_sag_with_one_label(tmp_path, algorithm):
    """No gradient: L_i is halved until lambda is all the curvature that is left."""
    options = options_for(
        "pos", b"a\tN\nb\tN\n\na\tN\n", algorithm=algorithm, epochs=120, **COLUMNS
    )
    model, result = train(options, str(tmp_path / "m"))
    assert model.labels == ["N"]
    assert not result.weights.any()
    assert result.certificate.gap == 0.0


@pytest.mark.parametrize("algorithm", ["sdca", "dca", "sgd", "lbfgs", "cg", "eg", "sag"])
def test_attributes_of_the_largest_size(tmp_path, algorithm):
    text = b"A\tw:1e10\tb\nB\tv:-1e10\n\nB\tw:1e10\n"
    options = options_for("pos", text, format="crfsuite", algorithm=algorithm, C=1e12, epochs=5)
    model, _ = train(options, str(tmp_path / "m"))
    assert np.isfinite(model.weights).all()
    assert b"nan" not in tagged(model, text, marginals=True)


@pytest.mark.parametrize("algorithm", ["sdca", "lbfgs"])
def test_overflow_in_training_is_a_refusal(tmp_path, monkeypatch, algorithm):
    """As a warning of NumPy, as a number that is not finite, or in what the file can hold."""
    options = options_for("pos", SENTENCE, algorithm=algorithm, epochs=3, **COLUMNS)
    oracle = ChainProblem.oracle

    def warning(self, *given):
        np.full(2, 1e308) * 10.0
        return oracle(self, *given)

    def infinite(self, *given):
        _, theta, nu = oracle(self, *given)
        return math.inf, theta, nu

    for broken in (warning, infinite):
        with monkeypatch.context() as patch:
            patch.setattr(ChainProblem, "oracle", broken)
            with pytest.raises(UsageError, match=r"^training overflows with C = 1, beta = 1, "):
                train(options, str(tmp_path / "m"))
    monkeypatch.setattr(compact, "LARGEST", 1e-3)
    with pytest.raises(UsageError, match=r"^training overflows with C = 1, beta = 1, "):
        train(options, str(tmp_path / "m"))


def test_a_training_that_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    labels = "".join(f"w{i}\tL{i}\n" for i in range(50)).encode()
    for algorithm, words in (("sdca", "keeps less, as dca does"), ("dca", "labels or sentences")):
        options = options_for("pos", labels, algorithm=algorithm, epochs=1, **COLUMNS)
        monkeypatch.setattr(memory, "available", lambda: 1e5)
        with pytest.raises(DataError, match=r"training needs 0\.\d GB of memory") as e:
            train(options, str(tmp_path / "m"))
        assert str(e.value).endswith(words)
        monkeypatch.setattr(memory, "available", lambda: 1e9)
        train(options, str(tmp_path / "m"))


def test_available_memory():
    assert 1e7 < memory.available() <= math.inf
    if resource is not None:
        old = resource.getrlimit(resource.RLIMIT_AS)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (1 << 38, old[1]))
            assert memory.available() < 1 << 38
        finally:
            resource.setrlimit(resource.RLIMIT_AS, old)


def test_memory_of_a_container(tmp_path, monkeypatch):
    """What is only cached can be had."""
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    stat = "anon 5\nactive_file 2000\ninactive_file 3000\n"
    for name, text in (("max", "10000\n"), ("current", "9000\n"), ("stat", stat)):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.available() == 6000.0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() > 1e7


@pytest.mark.parametrize("algorithm", ["lbfgs", "cg"])
def test_no_thread_outlives_its_training(tmp_path, algorithm):
    """SciPy's loop stands still between two iterations; it once stood there, with the data, on."""
    before = threading.active_count()
    for _ in range(3):
        options = options_for("pos", SENTENCE, algorithm=algorithm, epochs=2, **COLUMNS)
        train(options, str(tmp_path / "m"))
    assert threading.active_count() == before


def test_the_best_epoch_on_dev_is_kept_unless_told_otherwise(tmp_path, monkeypatch):
    """The model, its card's score and its certificate are those of a run that ended there."""
    dev = str(DEMO / "dev.iob2")
    options = options_for("ner", dev, dev=dev, algorithm="dca")
    ended, _ = train(replace(options, fit=replace(options.fit, epochs=2)), str(tmp_path / "ended"))
    shown = iter([0.1, 0.7, 0.3, 0.2, 0.7] * 2)
    monkeypatch.setattr(DevScorer, "main", lambda self, weights: next(shown))
    said = []
    path = str(tmp_path / "kept")
    kept, result = train(
        replace(options, fit=replace(options.fit, epochs=4)), path, Trace(said.append), said.append
    )
    assert "kept: epoch 2 of 4, the best on dev (--keep best)" in said
    assert "stopped: 4 epochs" in said
    assert (kept.header["epochs"], kept.header["kept_epoch"], result.epoch) == (4, 2, 2)
    assert kept.weights.tobytes() == ended.weights.tobytes()
    assert kept.header["certificate"] == ended.header["certificate"]
    assert kept.header["scores"] == ended.header["scores"]
    last, _ = train(replace(options, fit=replace(options.fit, epochs=4, keep="last")), path)
    assert last.header["kept_epoch"] == 4
    assert last.weights.tobytes() != kept.weights.tobytes()
    with pytest.raises(UsageError, match="keep is 'first': it must be one of best, last"):
        train(replace(options, fit=replace(options.fit, keep="first")), path)
