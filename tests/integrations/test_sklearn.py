"""turbotag.CRF as programs written for sklearn-crfsuite and scikit-learn use it."""

import inspect
import itertools
import math
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import turbotag
from turbotag.corpus.lists import attributes
from turbotag.errors import ArgumentError, DataError, TurbotagError, UsageError

WORDS = [
    ["Ada", "flew", "to", "Oslo"],
    ["Rain", "fell", "in", "Turin"],
    ["Leon", "met", "Ada"],
    ["Oslo", "waited"],
]
LABELS = [
    ["B-PER", "O", "O", "B-LOC"],
    ["O", "O", "O", "B-LOC"],
    ["B-PER", "O", "B-PER"],
    ["B-LOC", "O"],
]


def features(words, i):
    word = words[i]
    found = {"bias": 1.0, "lower": word.lower(), "title": word.istitle(), "end": word[-2:]}
    found["-1:lower"] = words[i - 1].lower() if i else "BOS"
    return found


X = [[features(words, i) for i in range(len(words))] for words in WORDS]
MANY, MANY_LABELS = X * 5, LABELS * 5


@pytest.fixture(scope="module")
def crf():
    return turbotag.CRF(algorithm="lbfgs", c2=0.1, max_iterations=100).fit(X, LABELS)


def test_predicts_as_sklearn_crfsuite_does(crf):
    found = crf.predict(X)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == LABELS
    assert crf.predict_single(X[0]) == LABELS[0]
    marginals = crf.predict_marginals(X)[1]
    assert [max(p, key=p.get) for p in marginals] == LABELS[1]
    assert [sum(p.values()) for p in marginals] == pytest.approx([1.0] * 4)
    assert crf.predict_marginals_single(X[1]) == marginals
    assert crf.score(X, LABELS) == 1.0
    assert crf.score(X[:1], [["O"] * 4]) == 0.5


def test_sentences_of_one_length_and_without_tokens(crf):
    """An array of lists, never a matrix."""
    assert crf.predict([X[0], X[0]]).shape == (2,)
    assert crf.predict([[], X[0], []]).tolist() == [[], LABELS[0], []]
    assert crf.predict([]).tolist() == []
    turbotag.CRF().fit([*X, []], [*LABELS, []])


def test_inspection(crf):
    assert crf.classes_ == ["B-LOC", "B-PER", "O"]
    labels = list(crf.classes_)
    labels.remove("O")
    state, transitions = crf.state_features_, crf.transition_features_
    assert state["lower:oslo", "B-LOC"] > 0 > state["lower:oslo", "O"]
    assert Counter(state).most_common(1)[0][1] == max(state.values())
    assert {label for pair in transitions for label in pair} == set(crf.classes_)
    assert crf.num_attributes_ == len(crf.attributes_)
    assert "title" in crf.attributes_
    assert crf.size_ > 0
    assert crf.certificate_["gap"] == crf.certificate_["primal"] - crf.certificate_["dual"]
    assert [row["epoch"] for row in crf.training_log_] == sorted(
        row["epoch"] for row in crf.training_log_
    )


def test_scores_of_a_sentence_are_sums_of_the_weights(crf):
    """What state_features_ and transition_features_ name is what predicts."""
    state, transitions = crf.state_features_, crf.transition_features_
    words = [dict(lists) for lists in X[2]]
    names = [
        [f"{k}:{v}" if isinstance(v, str) else k for k, v in token.items() if v] for token in words
    ]

    def score(labels):
        own = sum(state.get((n, y), 0.0) for t, y in zip(names, labels, strict=True) for n in t)
        pairs = zip(labels, labels[1:], strict=False)
        return own + sum(transitions.get(pair, 0.0) for pair in pairs)

    every = np.array(np.meshgrid(*[crf.classes_] * 3, indexing="ij")).reshape(3, -1).T.tolist()
    scores = np.array([score(labels) for labels in every])
    assert every[int(scores.argmax())] == crf.predict_single(X[2])
    p = np.exp(scores - scores.max())
    first = sum(q for q, labels in zip(p / p.sum(), every, strict=True) if labels[0] == "B-PER")
    assert crf.predict_marginals_single(X[2])[0]["B-PER"] == pytest.approx(first, abs=1e-6)


def test_the_objective_is_that_of_crfsuite():
    """c2 |w|^2 + sum of the losses = (P / lambda) / C."""
    a = turbotag.CRF(c2=0.2, stop_gap=1e-6).fit(X, LABELS)
    b = turbotag.CRF(C=2.5, stop_gap=1e-6).fit(X, LABELS)
    assert a.certificate_ == b.certificate_
    w = np.array([*a.state_features_.values(), *a.transition_features_.values()])
    loss = -sum(np.log(_probability(a, x, y)) for x, y in zip(X, LABELS, strict=True))
    assert a.certificate_["primal"] == pytest.approx((0.2 * w @ w + loss) / len(X), rel=1e-5)


def test_c1_makes_weights_zero():
    """c1 |w|_1 + c2 |w|^2 + sum of the losses."""
    dense = turbotag.CRF(c2=0.05, stop_gap=1e-6).fit(X, LABELS)
    sparse = turbotag.CRF(c1=0.5, c2=0.05, stop_gap=1e-6).fit(X, LABELS)
    assert len(sparse.state_features_) < len(dense.state_features_) / 3
    w = np.array([*sparse.state_features_.values(), *sparse.transition_features_.values()])
    loss = -sum(np.log(_probability(sparse, x, y)) for x, y in zip(X, LABELS, strict=True))
    total = 0.05 * w @ w + 0.5 * np.abs(w).sum() + loss
    assert sparse.certificate_["primal"] == pytest.approx(total / len(X), rel=1e-5)
    assert sparse.predict(X).tolist() == LABELS


def test_c1_alone():
    """c1 |w|_1 + sum of the losses, as with CRFsuite's c2=0."""
    crf = turbotag.CRF(algorithm="lbfgs", c1=0.5, c2=0, stop_gap=1e-6).fit(X, LABELS)
    assert crf.certificate_["gap"] <= 1e-6
    w = np.array([*crf.state_features_.values(), *crf.transition_features_.values()])
    loss = -sum(np.log(_probability(crf, x, y)) for x, y in zip(X, LABELS, strict=True))
    assert crf.certificate_["primal"] == pytest.approx((0.5 * np.abs(w).sum() + loss) / 4, rel=1e-5)
    assert crf.predict(X).tolist() == LABELS


def test_no_regularization_at_all():
    with pytest.warns(UserWarning, match="c1 and c2 are 0: .* 100 steps, with c2 = 1e-09"):
        crf = turbotag.CRF(c2=0.0).fit(X, LABELS)
    assert crf.predict(X).tolist() == LABELS
    with pytest.warns(UserWarning, match="makes 3 steps"):
        short = turbotag.CRF(algorithm="l2sgd", c1=0, c2=0, max_iterations=3).fit(X, LABELS)
    assert short.training_log_[-1]["epoch"] == 3


def test_a_weight_is_a_number_of_copies():
    weights = [1, 3, 0, 2]
    a = turbotag.CRF(c1=0.2, c2=0.1, stop_gap=1e-8).fit(X, LABELS, sample_weight=weights)
    many = [i for i, n in enumerate(weights) for _ in range(n)]
    b = turbotag.CRF(c1=0.2, c2=0.1, stop_gap=1e-8)
    b.fit([X[i] for i in many], [LABELS[i] for i in many])
    assert a.certificate_["primal"] == pytest.approx(b.certificate_["primal"], abs=1e-7)
    for (feature, label), weight in b.state_features_.items():
        assert a.state_features_.get((feature, label), 0.0) == pytest.approx(weight, abs=1e-2)
    with_empty = turbotag.CRF().fit([[], *X], [[], *LABELS], sample_weight=[5, *weights])
    assert (
        with_empty.certificate_ == turbotag.CRF().fit(X, LABELS, sample_weight=weights).certificate_
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "4 sentences, but sample_weight of 2"),
        ([0, 0, 0, 0], "all weights of sample_weight are 0"),
        ([1, -1, 1, 1], "numbers from 0 on"),
        (["a", 1, 1, 1], "numbers from 0 on"),
        ([math.inf, 1, 1, 1], "numbers from 0 on"),
        ([1e9, 1, 1, 1], "the weight of a sentence is"),
    ],
)
def test_weights_that_are_none(weights, message):
    with pytest.raises(TurbotagError, match=message):
        turbotag.CRF().fit(X, LABELS, sample_weight=weights)


def test_label_costs():
    """What costs more is scored higher. With features that cannot tell two labels apart, in shares
    of 0.7 and 0.3, the optimum has 0.7 sigmoid(m + 1) = 0.3 sigmoid(c - m), where m is the
    difference of the scores and c the cost."""
    same = [[{"bias": 1}]] * 10
    labels = [["O"]] * 7 + [["B-ORG"]] * 3
    for name in ("B-ORG", "ORG"):
        crf = turbotag.CRF("cg", C=1e4, label_cost={name: 5}, stop_gap=1e-9).fit(same, labels)
        m = crf.state_features_["bias", "B-ORG"] - crf.state_features_["bias", "O"]
        up, down = 0.7 / (1 + math.exp(-m - 1)), 0.3 / (1 + math.exp(m - 5))
        assert up == pytest.approx(down, abs=1e-3)
        assert 0.0 <= crf.certificate_["gap"] <= 1e-9
        assert crf.tagger_.model.header["loss"]["name"] == "softmax-margin"
        assert crf.tagger_.model.header["label_cost"] == {name: 5}
    for params, message in (
        ({"label_cost": {"B-ORG": 3}, "loss": "crf"}, "take --loss softmax-margin or svm"),
        ({"label_cost": {"B-OR": 3}}, "did you mean 'B-ORG'"),
        ({"label_cost": {"B-ORG": 0}}, "label-cost of B-ORG is 0"),
    ):
        with pytest.raises(UsageError, match=message):
            turbotag.CRF(**params).fit(same, labels)


def test_label_costs_count_where_labels_are_many():
    """Above 100 labels, candidate lists would leave the costs out: the whole chain is trained."""
    words = [[f"w{i}", "x"] for i in range(110)]
    labels = [[f"L{i:03d}", "A" if i % 3 else "B"] for i in range(110)]
    usual, costly = (
        turbotag.Tagger("pos", loss="softmax-margin", epochs=2, label_cost=cost).fit(words, labels)
        for cost in ({"A": 1.0}, {"B": 5.0})
    )
    assert "lists" not in usual.model.header
    assert len(usual.model.labels) == 112
    weights = [t.model.weights[:, t.model.labels.index("B")].sum() for t in (usual, costly)]
    assert weights[1] > weights[0]
    with pytest.raises(UsageError, match="label-cost does not go with --candidates"):
        turbotag.Tagger("pos", label_cost={"B": 5.0}, candidates=10)


def test_cross_validation_with_weights():
    selection = pytest.importorskip("sklearn.model_selection")
    params = {"sample_weight": np.ones(len(MANY))}
    crf = turbotag.CRF(c2=0.01, max_iterations=5)
    assert selection.cross_val_score(crf, MANY, MANY_LABELS, cv=2, params=params).min() > 0.9


def _probability(crf, tokens, labels):
    model = crf.tagger_.model
    block = crf.tagger_._block([tokens])
    scores = model.scores(block, crf.tagger_._extractor())
    paths, p = model.nbest(scores, 10_000)
    ids = [model.labels.index(label) for label in labels]
    return next(q for path, q in zip(paths.tolist(), p, strict=True) if path == ids)


@pytest.mark.parametrize(
    "tokens",
    [
        lambda words: words,
        lambda words: [[f"lower={w.lower()}", f"end={w[-2:]}"] for w in words],
        lambda words: [{f"lower={w.lower()}", "bias"} for w in words],
        lambda words: [(w, "X") for w in words],
    ],
    ids=["words", "lists", "sets", "columns"],
)
def test_tokens_of_all_kinds(tokens):
    given = [tokens(words) for words in WORDS]
    crf = turbotag.CRF(C=10.0).fit(given, LABELS)
    assert crf.predict(given).tolist() == LABELS


def test_words_with_templates_of_the_project():
    crf = turbotag.CRF(template="ner", C=10.0).fit(WORDS, LABELS)
    assert crf.predict(WORDS).tolist() == LABELS


@pytest.mark.parametrize("algorithm", ["l2sgd", "ap", "pa", "sdca", "dca"])
def test_algorithms(algorithm):
    crf = turbotag.CRF(algorithm=algorithm, max_iterations=20).fit(X, LABELS)
    assert crf.predict(X).tolist() == LABELS
    assert len(crf.training_log_) <= 22


def test_held_out_data():
    crf = turbotag.CRF(max_iterations=5).fit(X, LABELS, X_dev=X[:2], y_dev=LABELS[:2])
    assert crf.training_log_[0]["dev"] is not None
    with pytest.raises(UsageError, match="X_dev and y_dev go together"):
        turbotag.CRF().fit(X, LABELS, X_dev=X)


@pytest.mark.parametrize("kind", ["generators", "inner", "objects", "series"])
def test_sentences_in_any_shape(kind):
    """Whatever can be gone through once."""
    if kind == "series":
        pandas = pytest.importorskip("pandas")
    shaped = {
        "generators": lambda given: (each for each in given),
        "inner": lambda given: [(token for token in each) for each in given],
        "objects": lambda given: np.fromiter(given, object),
        "series": lambda given: pandas.Series(given),
    }[kind]
    crf = turbotag.CRF(c2=0.1, max_iterations=20)
    crf.fit(shaped(X), shaped(LABELS), shaped(X), shaped(LABELS), sample_weight=[1, 2, 1, 1])
    assert crf.predict(shaped(X)).tolist() == LABELS
    assert crf.score(shaped(X), shaped(LABELS)) == 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, LABELS), "X is None, not a list of sentences"),
        ((X, None), "y is None"),
        ((X, LABELS[:2]), "X has 4 sentences, y has labels of 2"),
        ((X, [["O"], *LABELS[1:]]), "sentence 0 has 4 tokens, but 1 tags"),
        (([None, *X], [[], *LABELS]), "sentence 0 is None"),
        (([[], []], [[], []]), "X has no sentence with tokens"),
        ((X, LABELS, [], []), "X_dev has no sentence with tokens"),
        ((X, LABELS, X, LABELS[:1]), "X_dev has 4 sentences, y_dev has labels of 1"),
        (([["", "a"]], [["O", "O"]]), "not empty"),
    ],
)
def test_what_cannot_be_learned_from_is_told(given, message):
    with pytest.raises(TurbotagError, match=message):
        turbotag.CRF().fit(*given)


def test_labels_of_another_number_are_told(crf):
    with pytest.raises(UsageError, match="X has 4 sentences, y has labels of 1"):
        crf.score(X, LABELS[:1])
    with pytest.raises(UsageError, match="sentence 0 has 4 tokens, but 1 labels"):
        crf.score(X[:1], [["O"]])


def test_features_and_labels_that_training_did_not_see(crf):
    assert len(crf.predict_single([{}, {"never": "seen"}])) == 2
    bare = [[{} for _ in tokens] for tokens in X]
    assert turbotag.CRF().fit(bare, LABELS).num_attributes_ == 0
    dev = [["B-NEW", "O", "O", "B-LOC"], *LABELS[1:]]
    found = turbotag.CRF(max_iterations=5).fit(X, LABELS, X, dev)
    assert found.classes_ == ["B-LOC", "B-PER", "O"]
    assert found.training_log_[-1]["dev"] < 1.0


def test_a_word_of_a_million_letters():
    words, labels = [["x" * 1_000_000, "y"], ["y", "y"]], [["A", "B"], ["B", "B"]]
    crf = turbotag.CRF(c2=0.1).fit(words, labels)
    assert crf.predict(words).tolist() == labels


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"c1": "x"}, "c1 is 'x': it must be a number"),
        ({"max_iterations": "9"}, "max_iterations is '9'"),
        ({"algorithm": "arow"}, "'arow' is not available"),
        ({"algorithm": "lbfsg"}, "lbfsg"),
        ({"variance": 1.0}, "variance is for CRFsuite"),
        ({"trainer_cls": dict}, "trainer_cls is for CRFsuite"),
        ({"pa_type": 2}, "pa_type is 2: it must be 1"),
        ({"averaging": False}, "averaging is False: it must be True"),
        ({"c1": 0.1, "algorithm": "ap"}, "c1 is 0.1"),
        ({"c1": -0.1}, "l1"),
        ({"c2": -0.1}, "c2 is -0.1: it must be at least 0"),
        ({"c2": 0, "algorithm": "sdca"}, "'sdca' needs a c2 above 0"),
        ({"c2": 1.0, "C": 1.0}, "give one of them"),
        ({"max_iterations": 0}, "epochs is 0"),
    ],
)
def test_refuses_what_has_no_meaning_here(params, message):
    with pytest.raises(UsageError, match=message):
        turbotag.CRF(**params).fit(X, LABELS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"num_memories": 9}, "num_memories is for CRFsuite, and left out: training ends at"),
        ({"epsilon": 1e-5}, "stop_gap and max_iterations say when"),
        ({"linesearch": "Backtracking"}, "linesearch is for CRFsuite"),
        ({"algorithm": "l2sgd", "calibration_eta": 0.1}, "no learning rate"),
    ],
)
def test_how_crfsuite_searches_is_left_out_with_a_warning(params, message):
    with pytest.warns(UserWarning, match=message):
        crf = turbotag.CRF(**params).fit(X, LABELS)
    assert crf.predict(X).tolist() == LABELS


def test_rare_features_get_no_weights():
    crf = turbotag.CRF(min_freq=2).fit(X, LABELS)
    every = turbotag.CRF().fit(X, LABELS)
    assert 0 < crf.num_attributes_ < every.num_attributes_
    counts = Counter(name for s in X for token in s for name, _ in attributes(token))
    assert {*crf.attributes_} == {name for name, n in counts.items() if n >= 2}
    with pytest.raises(UsageError, match="min_freq is for features of your own"):
        turbotag.CRF(min_freq=2).fit(WORDS, LABELS)


def test_numbers_of_numpy():
    """As the distributions of a random search draw them."""
    drawn = {"c1": np.float64(0.1), "c2": np.float64(0.05), "max_iterations": np.int64(9)}
    crf = turbotag.CRF(**drawn).fit(X, LABELS)
    assert turbotag.CRF(c1=0.1, c2=0.05, max_iterations=9).fit(X, LABELS).certificate_ == (
        crf.certificate_
    )
    assert turbotag.Tagger(C=np.float32(0.5), epochs=np.int32(3)).fit(WORDS, LABELS).predict(WORDS)


def test_the_tagger_answers_as_that_of_python_crfsuite(crf):
    tagger = crf.tagger_
    assert tagger.labels() == crf.classes_
    assert tagger.tag(X[0]) == LABELS[0]
    every = [[*path] for path in itertools.product(crf.classes_, repeat=len(X[0]))]
    chances = [tagger.probability(path) for path in every]
    assert sum(chances) == pytest.approx(1.0)
    assert every[int(np.argmax(chances))] == LABELS[0]
    for label in crf.classes_:
        summed = sum(p for path, p in zip(every, chances, strict=True) if path[1] == label)
        assert tagger.marginal(label, 1) == pytest.approx(summed)
    info = tagger.info()
    assert info.transitions == crf.transition_features_
    assert info.state_features == crf.state_features_
    assert [*info.attributes] == crf.attributes_
    assert info.header["num_attrs"] == str(crf.num_attributes_)
    tagger.set(X[2])
    assert tagger.tag() == LABELS[2]
    with pytest.raises(DataError, match="unknown label 'B-X': the labels are B-LOC"):
        tagger.marginal("B-X", 0)
    with pytest.raises(DataError, match="tokens, but 1 labels"):
        tagger.probability(["O"])
    with pytest.raises(UsageError, match="no sentence is set"):
        turbotag.CRF().fit(X, LABELS).tagger_.tag()


def test_the_log_of_a_training(crf):
    assert crf.training_log_.last_iteration["num"] == crf.training_log_[-1]["epoch"]
    assert crf.training_log_.iterations[0]["loss"] == crf.training_log_[0]["primal"]


def test_a_file_of_the_model(crf, tmp_path):
    name = str(tmp_path / "crf.model")
    made = turbotag.CRF(model_filename=name).fit(X, LABELS)
    assert made.modelfile.name == name
    assert turbotag.CRF(model_filename=name).predict(X).tolist() == LABELS
    assert turbotag.Tagger.load(name).predict(X) == LABELS
    assert crf.modelfile.name is None
    (tmp_path / "again.model").write_bytes(crf.modelfile.bytes)
    assert turbotag.Tagger.load(str(tmp_path / "again.model")).predict(X) == LABELS
    (tmp_path / "their.crfsuite").write_bytes(b"lCRF\x00\x01" + bytes(40))
    with pytest.raises(DataError, match=r"their\.crfsuite"):
        turbotag.CRF(model_filename=str(tmp_path / "their.crfsuite")).predict(X)


def test_what_is_not_there_before_fit():
    crf = turbotag.CRF()
    assert not hasattr(crf, "classes_")
    assert not hasattr(crf, "state_features_")
    with pytest.raises(ValueError, match="not trained"):
        crf.predict(X)


def test_refuses_bad_data(crf):
    with pytest.raises(UsageError, match="not trained"):
        turbotag.CRF().predict(X)
    with pytest.raises(UsageError, match="X has 4 sentences, y has labels of 1"):
        turbotag.CRF().fit(X, LABELS[:1])
    with pytest.raises(DataError, match="sentence 0 has 4 tokens, but 3 tags"):
        turbotag.CRF().fit(X[:1], LABELS[2:3])
    with pytest.raises(DataError, match="reads features"):
        crf.predict(WORDS)


def test_parameters():
    crf = turbotag.CRF(c2=0.5)
    assert list(crf.get_params()) == list(inspect.signature(turbotag.CRF).parameters)
    assert crf.set_params(c2=0.1, verbose=True) is crf
    assert (crf.c2, crf.verbose) == (0.1, True)
    assert repr(crf) == "CRF(c2=0.1, verbose=True)"
    with pytest.raises(ArgumentError, match="did you mean 'max_iterations'"):
        crf.set_params(max_iteration=3)


def test_verbose_shows_progress(capsys):
    turbotag.CRF(verbose=True, max_iterations=3).fit(X, LABELS)
    shown = capsys.readouterr()
    assert "epoch" in shown.err
    assert "certificate" in shown.err
    assert not shown.out
    turbotag.CRF(max_iterations=3).fit(X, LABELS)
    assert not capsys.readouterr().err


def test_pickles(crf):
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict(X).tolist() == LABELS
    assert again.state_features_ == crf.state_features_


def test_the_model_is_one_of_the_command_line(crf, tmp_path):
    crf.tagger_.save(str(tmp_path / "crf.model"))
    loaded = turbotag.Tagger.load(str(tmp_path / "crf.model"))
    assert loaded.predict(X) == LABELS


# ---- With scikit-learn ---------------------------------------------------------------------------


def test_no_scikit_learn_is_imported_or_needed():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "joblib", "pandas"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import turbotag
crf = turbotag.CRF(max_iterations=2).fit([[{"a": 1}, {"b": 1}]], [["A", "B"]])
assert crf.predict([[{"a": 1}]]).tolist() == [["A"]]
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_scikit_learn_takes_it_for_an_estimator():
    base = pytest.importorskip("sklearn.base")
    crf = turbotag.CRF(c2=0.3, max_iterations=7)
    again = base.clone(crf)
    assert again is not crf
    assert again.get_params() == crf.get_params()
    assert not base.is_classifier(crf)


def test_cross_validation():
    selection = pytest.importorskip("sklearn.model_selection")
    crf = turbotag.CRF(c2=0.01, max_iterations=20)
    scores = selection.cross_val_score(crf, MANY, MANY_LABELS, cv=2)
    assert scores.min() > 0.9
    found = selection.cross_val_predict(crf, MANY, MANY_LABELS, cv=2)
    assert [len(labels) for labels in found] == [len(labels) for labels in MANY_LABELS]


def test_grid_search_on_two_processes():
    selection = pytest.importorskip("sklearn.model_selection")
    metrics = pytest.importorskip("sklearn.metrics")

    def flat(y):
        return [label for labels in y for label in labels]

    scorer = metrics.make_scorer(
        lambda y, found: metrics.f1_score(flat(y), flat(found), average="weighted")
    )
    search = selection.RandomizedSearchCV(
        turbotag.CRF(max_iterations=5), {"c2": [1000.0, 0.01]}, n_iter=2, cv=2, scoring=scorer
    )
    search.fit(MANY, MANY_LABELS)
    assert search.best_params_ == {"c2": 0.01}
    grid = selection.GridSearchCV(
        turbotag.CRF(max_iterations=5), {"c2": [1000.0, 0.01]}, cv=2, n_jobs=2
    ).fit(MANY, MANY_LABELS)
    assert grid.best_params_ == {"c2": 0.01}
    assert grid.predict(X).tolist() == LABELS
    assert grid.best_estimator_.classes_ == ["B-LOC", "B-PER", "O"]


def test_pipeline_and_joblib(tmp_path):
    joblib = pytest.importorskip("joblib")
    pipeline = pytest.importorskip("sklearn.pipeline")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    make = preprocessing.FunctionTransformer(all_features)
    both = pipeline.make_pipeline(make, turbotag.CRF(c2=0.1)).set_params(crf__c2=0.01)
    assert both.fit(WORDS, LABELS).predict(WORDS).tolist() == LABELS
    joblib.dump(both, tmp_path / "both.joblib")
    assert joblib.load(tmp_path / "both.joblib").predict(WORDS).tolist() == LABELS


def all_features(sentences):
    return [[features(words, i) for i in range(len(words))] for words in sentences]


@pytest.mark.parametrize(
    "check",
    [
        "check_get_params_invariance",
        "check_set_params",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_do_not_raise_errors_in_init_or_set_param",
    ],
)
def test_checks_of_scikit_learn(check):
    """Those that need no numbers for X."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    if not hasattr(checks, check):
        pytest.skip(f"this scikit-learn has no {check}")
    getattr(checks, check)("CRF", turbotag.CRF())


def test_metrics_of_sklearn_crfsuite(crf):
    metrics = pytest.importorskip("sklearn_crfsuite.metrics")
    assert metrics.flat_f1_score(LABELS, crf.predict(X), average="weighted") == 1.0
    assert metrics.flat_accuracy_score(LABELS, crf.predict(X)) == crf.score(X, LABELS)


def test_has_all_that_sklearn_crfsuite_has():
    """Its parameters in its order, its methods and attributes."""
    theirs = pytest.importorskip("sklearn_crfsuite").CRF
    ours = list(inspect.signature(turbotag.CRF).parameters)
    wanted = list(inspect.signature(theirs).parameters)
    assert ours[: len(wanted)] == wanted
    public = {n for n in dir(theirs) if not n.startswith("_")} - {"get_metadata_routing"}
    requests = {n for n in public if n.endswith("_request")}  # of scikit-learn's metadata routing
    assert public - requests <= {*dir(turbotag.CRF().fit(X, LABELS))}
