"""The library: texts to documents, taggers and parsers on lists, pickles, threads, processes."""

import concurrent.futures
import inspect
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import conllu
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import turbotag
from tests.cli.test_parse import is_tree
from tests.models.test_pipeline import TEXT, annotated, check, english, file
from turbotag.corpus import lists
from turbotag.corpus.reader import read
from turbotag.corpus.text import segment
from turbotag.errors import DataError, UsageError
from turbotag.models.prediction import predict
from turbotag.models.tag_comparison import evaluate_files
from turbotag.models.tree_comparison import evaluate_trees
from turbotag.training import options
from turbotag.training.options import options_for
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train

DEMO = Path(__file__).parents[1] / "data" / "demo"
NAMES = [
    *("CRF", "Document", "Entity", "Explanation", "Parser", "Sentence", "Span", "Tagger", "Token"),
    *("draw", "explain", "load"),
]


@pytest.fixture(scope="session")
def nlp():
    return english()


# ---- The module ----------------------------------------------------------------------------------


def test_tagging_imports_no_linear_algebra():
    """numba would do so to look whether it is there; kernels that need it find it all the same."""
    code = """
import sys, numba, turbotag
import numpy as np
turbotag.load("en-upos")("It rains.")
print("scipy.linalg" in sys.modules)
print(numba.njit(lambda a: np.dot(a, a))(np.ones((2, 2)))[0, 0], "scipy.linalg" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n2.0 True\n", done.stderr


def test_import_is_light():
    code = """
import sys, time
start = time.perf_counter()
import turbotag
print(time.perf_counter() - start)
print(sorted({"numba", "numpy", "scipy", "turbotag.api"} & set(sys.modules)))
print(dir(turbotag))
turbotag.Token
print("numba" in sys.modules)
turbotag.CRF, turbotag.load("en-upos")("Ada sings.")
print(sorted({"sklearn", "spacy", "conllu", "pandas", "matplotlib"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    seconds, heavy, names, later, extras = done.stdout.splitlines()
    assert float(seconds) < 0.3
    assert heavy == "[]"
    assert names == str(sorted([*NAMES, "__version__"]))
    assert later == "True"
    assert extras == "[]"


def test_names():
    assert sorted(dir(turbotag)) == sorted([*NAMES, "__version__"])
    assert all(callable(getattr(turbotag, name)) for name in NAMES)
    with pytest.raises(AttributeError, match="module 'turbotag' has no attribute 'train'"):
        turbotag.train  # noqa: B018
    scope: dict = {}
    exec("from turbotag import *", scope)
    assert set(NAMES) <= set(scope)


# ---- Texts ---------------------------------------------------------------------------------------

TEXTS = [
    TEXT,
    TEXT.replace("\n", "\r\n"),
    "Ada",
    "I'd've gone, but they shouldn't've. The boys' dog cannot; it's gonna rain.",
    "Ørsted naïvely ate 3 cafe\u0301s 👩‍👩‍👧‍👦🇩🇪 (हिन्दी) — 東京!",
    "\ufeff  \tIndented\u00a0text\u2028with strange\x00white\u200bspace.  ",
    "_ | = # <a href='b'> 1-2 \\t & NER=O|x",
    "# text = not a comment\n1\tAda",
]


def check_document(found, text):
    """Words, offsets, trees, entities and probabilities of a document."""
    assert found.text == text
    surface = english().pipeline.tokenizer.segment(text)
    assert [[t.text for t in s] for s in found] == [
        [w for t in s for w in t.words] for s in surface
    ]
    assert found.tokens == [t for s in found.sentences for t in s.tokens]
    assert found.entities == [e for s in found.sentences for e in s.entities]
    for t in found.tokens:
        assert text[t.start : t.end] == t.text
    for i, s in enumerate(found):
        assert [t.id for t in s] == list(range(1, len(s) + 1))
        assert is_tree([t.head for t in s])
        for t in s:
            assert all((t.upos, t.xpos, t.label, t.ner))
            given = {"upos", "xpos", "feats", "lemma", "head", "label", "ner"}
            assert set(t.probabilities) == given
            assert all(0.0 <= p <= 1.0 for p in t.probabilities.values())
        inside = [False] * len(s)
        for e in s.entities:
            inside[e.start : e.end] = [True] * (e.end - e.start)
            first, last = s.tokens[e.start], s.tokens[e.end - 1]
            assert first.ner == f"B-{e.type}"
            assert e.text == " ".join(text[e.start_char : e.end_char].split())
            assert (e.sentence, e.start_char, e.end_char) == (i, first.start, last.end)
            assert 0.0 < e.probability <= 1.0
        assert inside == [t.ner != "O" for t in s]


@pytest.mark.parametrize("text", TEXTS)
def test_documents(nlp, text):
    check_document(nlp(text, probabilities=True), text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.text("aA.'\u2019 \n\t\r|=_#\u200b\x00😀é1nt", max_size=60))
@example("a'b'c\u200b'")
def test_any_text(text):
    found = english()(text, probabilities=True)
    if segment(text):
        check_document(found, text)
        # its own reader reads it
        assert read(found.conllu.encode(), "conllu").n_tokens == len(found.tokens)
    else:
        assert (found.sentences, found.tokens, found.entities, found.conllu) == ([], [], [], "")


def test_what_is_found(nlp):
    found = nlp("Ada Brandt flew to Oslo. She didn't like it.")
    assert [s.text for s in found] == ["Ada Brandt flew to Oslo.", "She didn't like it."]
    assert [(e.type, e.text, e.start, e.end) for e in found.entities] == [
        ("PER", "Ada Brandt", 0, 2),
        ("LOC", "Oslo", 4, 5),
    ]
    second = found.sentences[1]
    assert [t.upos for t in second] == ["PRON", "AUX", "PART", "VERB", "PRON", "PUNCT"]
    assert [t.xpos for t in second] == ["PRP", "VBD", "RB", "VB", "PRP", "."]
    assert [(t.head, t.label) for t in second] == [
        (4, "nsubj"),
        (4, "aux"),
        (4, "advmod"),
        (0, "root"),
        (4, "obj"),
        (4, "punct"),
    ]


def test_where_entities_stand(nlp):
    text = "It rained.  Ada   Brandt flew to Oslo."
    found = nlp(text)
    assert [(e.text, e.sentence, text[e.start_char : e.end_char]) for e in found.entities] == [
        ("Ada Brandt", 1, "Ada   Brandt"),
        ("Oslo", 1, "Oslo"),
    ]
    ada = found.entities[0]
    assert [t.text for t in found[ada.sentence][ada.start : ada.end]] == ["Ada", "Brandt"]
    assert asdict(ada)["start_char"] == text.index("Ada")


def test_documents_and_sentences_are_sequences(nlp):
    found = nlp("Ada flew to Oslo. She loved it. It rained.")
    first = found[0]
    assert first is found.sentences[0]
    assert found[-1].text == "It rained."
    assert [s.text for s in found[1:]] == ["She loved it.", "It rained."]
    assert (len(found), len(first)) == (3, 5)
    assert (first[0].text, first[-1].text) == ("Ada", ".")
    assert [t.text for t in first[:2]] == ["Ada", "flew"]
    assert list(first) == first.tokens
    assert first[1] in first
    assert [t.text for t in reversed(first)] == [".", "Oslo", "to", "flew", "Ada"]
    assert list(found) == found.sentences
    for sequence in (found, first):
        with pytest.raises(IndexError):
            sequence[99]
        with pytest.raises(TypeError):
            sequence["Ada"]


@pytest.mark.parametrize("wrong", [None, 3, b"Ada", ["Ada sings."], {"a": 1}], ids=str)
def test_a_pipeline_takes_a_text(nlp, wrong):
    """Both kinds of error: a Python programmer's and the package's."""
    for kind in (TypeError, UsageError):
        with pytest.raises(kind, match=r"a pipeline takes a text \(str\), not "):
            nlp(wrong)


def test_many_texts(nlp):
    texts = ["Ada sings.", "", "Leon flew to Oslo."]
    assert list(nlp.pipe(iter(texts))) == [nlp(t) for t in texts]
    assert [d.conllu for d in nlp.pipe(texts, probabilities=True)] == [
        nlp(t, probabilities=True).conllu for t in texts
    ]
    for wrong in ("Ada sings.", None):
        with pytest.raises(TypeError, match="takes a list of texts, not"):
            nlp.pipe(wrong)


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\r\n", "\ufeff\u200b\x00\u00a0"])
def test_nothing(nlp, text):
    found = nlp(text)
    assert found == turbotag.Document(text, [], "")
    assert list(found) == found.tokens == found.entities == []
    assert len(found) == 0


def test_without_probabilities(nlp):
    bare, full = nlp(TEXT), nlp(TEXT, probabilities=True)
    assert all(t.probabilities == {} for t in bare.tokens)
    assert all(e.probability is None for e in bare.entities)
    assert "Prob=" not in bare.conllu
    for a, b in zip(bare.tokens, full.tokens, strict=True):
        assert (a.text, a.upos, a.xpos, a.head, a.label, a.ner) == (
            b.text,
            b.upos,
            b.xpos,
            b.head,
            b.label,
            b.ner,
        )
    check(bare.conllu, TEXT)


def test_conllu_is_that_of_files(nlp, tmp_path):
    for text in TEXTS[:6]:
        path = file(tmp_path, text.lstrip("\ufeff"))
        found = nlp(text.lstrip("\ufeff"))
        assert found.conllu == annotated(nlp.pipeline, path)


def test_the_text_of_a_sentence_is_that_of_its_comment(nlp):
    (sentence,) = found = nlp("Ada\u200bflew to\x00Oslo.")
    assert f"\n# text = {sentence.text}\n" in found.conllu


def test_a_sentence_that_is_cut_for_its_length_is_a_warning():
    nlp = turbotag.load("en-pos")
    with pytest.warns(UserWarning, match="more than 400 words are cut there: once") as told:
        assert [len(s) for s in nlp("word " * 401)] == [400, 1]
    assert told[0].filename == __file__


def test_single_models_and_pipelines(tmp_path):
    (sentence,) = turbotag.load("en-ner")("Mara Quill lives in Paris.")
    assert [(e.type, e.text) for e in sentence.entities] == [
        ("PER", "Mara Quill"),
        ("LOC", "Paris"),
    ]
    assert [t.upos for t in sentence] == [None] * 6
    (sentence,) = turbotag.load("en-pos")("Mara lives in Paris.")
    assert [t.upos for t in sentence] == ["PROPN", "VERB", "ADP", "PROPN", "PUNCT"]
    assert [t.head for t in sentence] == [None] * 5
    assert sentence.entities == []
    with pytest.raises(DataError, match="is neither a file nor a shipped model"):
        turbotag.load("english")
    with pytest.raises(DataError, match="is not a turbotag model"):
        turbotag.load(str(file(tmp_path, "junk")))


def test_pickles_and_processes(nlp):
    wanted = [nlp(t) for t in TEXTS]
    again = pickle.loads(pickle.dumps(nlp))
    assert [again(t) for t in TEXTS] == wanted
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(nlp, TEXTS, chunksize=4) == wanted


def test_threads_share_a_pipeline(nlp):
    texts = [f"{name} met Leon in {place}. It didn't rain." for name in ("Ada", "Mara", "Otto")
             for place in ("Oslo", "Paris", "Rome", "Lima")] + TEXTS  # fmt: skip
    wanted = [nlp(t) for t in texts]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(nlp, texts)) == wanted


# ---- Taggers -------------------------------------------------------------------------------------

SENTENCES = [["Ada", "sings", "."], ["rain", "falls"], ["Leon", "sings"], ["snow", "falls", "."]]
TAGS = [["N", "V", "P"], ["N", "V"], ["N", "V"], ["N", "V", "P"]]
FAST = {"algorithm": "dca", "epochs": 3}


def demo(part):
    """(sentences of (word, tag) tuples, tags) of the embedded corpus."""
    block = read(str(DEMO / f"{part}.iob2"))
    table = list(zip(*map(block.strings, (0, 1, 2)), strict=True))
    cuts = block.sentences.tolist()
    cut = [table[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    return [[(w, p) for w, p, _ in s] for s in cut], [[t for _, _, t in s] for s in cut]


@pytest.fixture(scope="module")
def ner():
    return turbotag.Tagger("ner", **FAST).fit(*demo("train"), dev=demo("dev"))


def test_tagger_on_words():
    tagger = turbotag.Tagger("pos")
    assert tagger.fit(SENTENCES, TAGS) is tagger
    assert tagger.predict(SENTENCES) == TAGS
    assert tagger.predict([["Leon", "falls"]]) == [["N", "V"]]
    assert tagger.score(SENTENCES, TAGS) == 1.0
    assert tagger.score([["Ada", "sings"]], [["N", "N"]]) == 0.5
    tuples = tuple(tuple(s) for s in SENTENCES), tuple(tuple(t) for t in TAGS)
    assert turbotag.Tagger("pos").fit(*tuples).predict(tuples[0]) == TAGS
    one = [[(w,) for w in s] for s in SENTENCES]
    assert turbotag.Tagger("pos").fit(one, TAGS).predict(one) == TAGS
    odd = [["#", "日本", "a|b", "1\u00a02", "é"]]
    assert turbotag.Tagger("pos").fit(odd, [list("abcab")]).predict(odd) == [list("abcab")]


def test_tagger_on_columns(ner, tmp_path):
    """The same model as from a file, dev scores in the header."""
    sentences, tags = demo("test")
    options = options_for("ner", train=str(DEMO / "train.iob2"), **FAST)
    by_file, _ = train(options, str(tmp_path / "by_file"))
    np.testing.assert_array_equal(ner.model.weights, by_file.weights)
    out = tmp_path / "tagged"
    with open(out, "wb") as f:
        predict(by_file, str(DEMO / "test.iob2"), f)
    wanted = evaluate_files(str(DEMO / "test.iob2"), str(out), strict=False)
    assert ner.score(sentences, tags) == wanted.main > 0.9
    block = read(str(out))
    assert [t for s in ner.predict(sentences) for t in s] == block.strings(2)
    assert ner.model.header["scores"]["dev"]["f1"] == ner.score(*demo("dev"))
    assert "scores" not in by_file.header


def test_tagger_marginals(ner):
    sentences, _ = demo("test")
    best = ner.predict(sentences)
    marginals = ner.predict_marginals(sentences)
    assert [len(s) for s in marginals] == [len(s) for s in sentences]
    agree = []
    for row, tag in zip(
        (p for s in marginals for p in s), (t for s in best for t in s), strict=True
    ):
        assert list(row) == ner.model.labels
        assert sum(row.values()) == pytest.approx(1.0, abs=1e-9)
        assert min(row.values()) >= 0.0
        agree.append(max(row, key=row.__getitem__) == tag)
    assert np.mean(agree) > 0.95


def test_tagger_files(ner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences, tags = demo("test")
    wanted = ner.predict(sentences)
    ner.save("own.model")
    again = turbotag.Tagger.load("own.model")
    assert again.predict(sentences) == wanted
    assert again.score(sentences, tags) == ner.score(sentences, tags)
    assert pickle.loads(pickle.dumps(ner)).predict(sentences) == wanted
    done = subprocess.run(
        [sys.executable, "-m", "turbotag", "predict", "own.model", str(DEMO / "test.iob2")],
        capture_output=True,
        text=True,
    )
    found = [line.split("\t")[2] for line in done.stdout.splitlines() if line]
    assert found == [t for s in wanted for t in s]
    assert turbotag.Tagger.load("en-ner").predict([["in", "Oslo"]]) == [["O", "B-LOC"]]
    with pytest.raises(DataError, match="is a parser, expected a tagger"):
        turbotag.Tagger.load("en-parse")
    with pytest.raises(DataError, match="is a pipeline: name one of its models"):
        turbotag.Tagger.load("en")  # a pipeline is not a model
    with pytest.raises(DataError, match=r"own\.model: folder"):
        ner.save("none/own.model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["own.model"]


def test_tagger_options():
    assert (
        turbotag.Tagger("pos", dual="exact").fit(SENTENCES, TAGS).model.header["algorithm"]["dual"]
        == "exact"
    )
    tagger = turbotag.Tagger("pos", algorithm="lbfgs", C=0.25, seed=7, licence="mine", epochs=4)
    header = tagger.fit(SENTENCES, TAGS).model.header
    assert (header["algorithm"]["name"], header["algorithm"]["C"]) == ("lbfgs", 0.25)
    assert (header["seed"], header["licence"]) == (7, "mine")
    assert header["data"]["sentences"] == 4
    compact = turbotag.Tagger("pos", compact=True, order=2).fit(SENTENCES, TAGS)
    assert compact.model.header["compact"]
    assert compact.predict(SENTENCES) == TAGS
    exact = turbotag.Tagger("pos", params={"dual": "exact"}).fit(SENTENCES, TAGS)
    assert exact.model.header["algorithm"]["dual"] == "exact"
    spans = turbotag.Tagger("ner", scheme="iobes").fit([["a", "b"]], [["B-X", "I-X"]])
    assert spans.predict([["a", "b"]]) == [["B-X", "I-X"]]
    assert set(spans.predict_marginals([["a"]])[0][0]) == {"B-X", "E-X"}
    for wrong, words in (
        ({"algorithm": "adam"}, "unknown algorithm 'adam'"),
        ({"C": -1.0}, "C is -1.0"),
        ({"task": "sentiment"}, "unknown task 'sentiment': a Tagger takes one of ner, pos, chunk"),
        ({"task": "parse"}, "unknown task 'parse'"),
        ({"algorithm": "lbfgs", "loss": "svm"}, "lbfgs serves losses"),
    ):
        with pytest.raises(UsageError, match=words):
            turbotag.Tagger(**wrong).fit(SENTENCES, TAGS)


def test_fitting_again_replaces_the_model():
    tagger = turbotag.Tagger("pos").fit(SENTENCES, TAGS)
    tagger.predict(SENTENCES)
    other = [[t.lower() for t in s] for s in TAGS]
    assert tagger.fit(SENTENCES, other).predict(SENTENCES) == other


BAD = {
    "shorter": ([["Ada", "sings"]], [["N"]], "sentence 0 has 2 tokens, but 1 tags"),
    "longer": ([["Ada"], ["a"]], [["N"], ["N", "V"]], "sentence 1 has 1 tokens, but 2 tags"),
    "more": ([["Ada"]], [["N"], ["N"]], "1 sentences, but tags of 2"),
    "empty": ([["Ada"], []], [["N"], []], "sentence 1 has no tokens"),
    "string": (["Ada"], ["NNN"], "sentence 0 is 'Ada', not a list of tokens"),
    "strings": ("Ada", ["N"] * 3, "the sentences are 'Ada', not a list"),
    "tab": ([["Ada\tB"]], [["N"]], r"sentence 0 has 'Ada\\tB': a field is text without tabs"),
    "newline": ([["a"], ["b"]], [["N"], ["V\n"]], r"sentence 1 has 'V\\n'"),
    "return": ([["a\r"]], [["N"]], "a field is text"),
    "zero": ([["a\0"]], [["N"]], "a field is text"),
    "no word": ([["a", ""]], [["N", "V"]], "sentence 0 has ''"),
    "no tag": ([["a"]], [[""]], "sentence 0 has the tag ''"),
    "columns": (
        [["a", ("b", "X")]],
        [["N", "V"]],
        "sentence 0 has a word of 2 columns, the first word 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lists_for_taggers(name):
    sentences, tags, words = BAD[name]
    with pytest.raises(DataError, match=words):
        turbotag.Tagger("pos").fit(sentences, tags)
    with pytest.raises(DataError, match=words):
        turbotag.Tagger("pos").fit(SENTENCES, TAGS, dev=(sentences, tags))
    with pytest.raises(DataError, match=words):
        turbotag.Tagger("pos").fit(SENTENCES, TAGS).score(sentences, tags)


def test_bad_tags():
    with pytest.raises(DataError, match="'N' in column 'tag' is not an IOB tag"):
        turbotag.Tagger("ner").fit(SENTENCES, TAGS)
    with pytest.raises(DataError, match="label 'Q' is unknown to the model"):
        turbotag.Tagger("pos").fit(SENTENCES, TAGS).score([["Ada"]], [["Q"]])


@pytest.mark.parametrize("kind", [turbotag.Tagger, turbotag.Parser])
def test_not_fitted(kind, tmp_path):
    new = kind()
    for call in (new.predict, new.predict_marginals, lambda s: new.score(s, TREES)):
        with pytest.raises(UsageError, match=rf"this {kind.__name__} is not trained: call fit or"):
            call(WORDS)
    with pytest.raises(UsageError, match="is not trained"):
        new.save(str(tmp_path / "m"))
    assert not list(tmp_path.iterdir())
    assert pickle.loads(pickle.dumps(new)).model is None


def test_fewer_tags_than_sentences():
    with pytest.raises(DataError, match="4 sentences, but tags of 3"):
        turbotag.Tagger("pos").fit(SENTENCES, TAGS[:3])


@pytest.mark.parametrize(
    "sentences",
    [[["Ho Chi Minh", "city"]], [["a", " ", "b"]], [["#", "# b"]]],
    ids=str,
)
def test_odd_words_are_words(sentences):
    tags = [["N"] * len(s) for s in sentences]
    tagger = turbotag.Tagger("pos").fit(SENTENCES, TAGS)
    assert [len(s) for s in tagger.predict(sentences)] == [len(s) for s in sentences]
    assert turbotag.Tagger("pos").fit(sentences, tags).predict(sentences) == tags


def test_document_marks_are_refused():
    tagger = turbotag.Tagger("pos").fit(SENTENCES, TAGS)
    with pytest.raises(DataError, match="sentence 1 has '-DOCSTART-'"):
        tagger.predict([["a"], ["-DOCSTART-"]])


@pytest.mark.parametrize("method", ["predict", "predict_marginals"])
@pytest.mark.parametrize("kind", [turbotag.Tagger, turbotag.Parser])
def test_no_sentences_have_no_tags(kind, method):
    of = {turbotag.Tagger: "en-ner", turbotag.Parser: "en-parse"}
    assert getattr(kind.load(of[kind]), method)([]) == []


def test_chunks_after_three_columns():
    sentences, tags = [[("a", "N", "x"), ("b", "V", "y")]], [["B-X", "O"]]
    assert turbotag.Tagger("chunk").fit(sentences, tags).predict(sentences) == tags


WRONG_OPTIONS = [
    (
        turbotag.Tagger,
        {"heads": 5},
        "heads is for parsers and pipelines: the task pos has no use for it",
    ),
    (turbotag.Tagger, {"parts": ("cs",)}, "parts is for parsers"),
    (turbotag.Tagger, {"labels": False}, "labels is for parsers"),
    (turbotag.Parser, {"order": 2}, "order is for taggers: the task parse has no use for it"),
    (turbotag.Parser, {"scheme": "iobes"}, "scheme is for taggers"),
    (turbotag.Parser, {"compact": True}, "compact is for taggers"),
    (turbotag.Tagger, {"epoch": 3}, "there is no option 'epoch'; did you mean 'epochs'?"),
    (
        turbotag.Tagger,
        {"epoch": 3},
        "max_seconds, order, .* parameters of sdca: dual, sampling, nonuni",
    ),
    (turbotag.Tagger, {"smapling": "gap"}, "did you mean 'sampling'?"),
    (turbotag.Tagger, {"epoch": 3, "algorithm": "lbfgs"}, "parameters of lbfgs: none"),
    (turbotag.Tagger, {"colour": "red"}, "there is no option 'colour' (options: C, "),
    (turbotag.Tagger, {"kbest": 3}, "kbest is a parameter of mira, not of sdca"),
    (turbotag.Tagger, {"target": "pos"}, "there is no option 'target'"),
    (turbotag.Tagger, {"drop": 0.1}, "drop needs compact"),
    (turbotag.Parser, {"entropy": "bethe"}, "entropy needs parts"),
    (turbotag.Parser, {"rounds": 3, "parts": ()}, "rounds needs parts"),
    (turbotag.Parser, {"multiroot": True}, "did you mean 'multi_root'?"),
]


@pytest.mark.parametrize(("kind", "given", "words"), WRONG_OPTIONS, ids=str)
def test_wrong_options_are_refused_by_name(kind, given, words):
    for error in (UsageError, TypeError):
        with pytest.raises(error, match=re.sub(r"([?(])", r"\\\1", words)):
            kind(**given)


def test_options_have_a_task():
    """Each option is in the table and in a signature, and of training's own."""
    common = {*options.COMMON, *options.RESOURCES}
    taggers, parsers = set(options.TAGGERS), set(options.PARSERS)
    assert len(common | taggers | parsers) == sum(map(len, (common, taggers, parsers)))
    for kind, own in ((turbotag.Tagger, taggers | {"task"}), (turbotag.Parser, parsers)):
        signature = inspect.signature(kind).parameters
        assert set(signature) == common | own | {"parameters"}
        assert all(p.annotation is not p.empty for p in signature.values())


def test_none_is_the_default():
    plain = turbotag.Tagger("pos").fit(SENTENCES, TAGS).model.header
    given = turbotag.Tagger("pos", C=None, epochs=None, order=None, sampling=None)
    assert given.fit(SENTENCES, TAGS).model.header["algorithm"] == plain["algorithm"]


def test_a_loaded_tagger_knows_its_task():
    again = turbotag.Tagger.load("en-ner").fit([["in", "Oslo"]], [["O", "B-LOC"]])
    assert again.model.header["task"] == "ner"


# ---- Features, as python-crfsuite takes them -----------------------------------------------------


def as_features(sentences):
    """Dicts of features of (word, tag) tuples."""
    out = []
    for s in sentences:
        words = ["<", *(w for w, _ in s), ">"]
        out.append(
            [
                {
                    "bias": 1.0,
                    "word.lower()": word.lower(),
                    "is_title": word.istitle(),
                    "length": len(word) / 10,
                    "ends": [word[-3:], word[-2:]],
                    "near": {"left": words[i], "right": words[i + 2], "cap": words[i].istitle()},
                }
                for i, (word, _) in enumerate(s)
            ]
        )
    return out


@pytest.fixture(scope="module")
def by_features():
    (sentences, tags), (held_out, gold) = demo("train"), demo("dev")
    return turbotag.Tagger("ner", **FAST).fit(
        as_features(sentences), tags, dev=(as_features(held_out), gold)
    )


def test_features_of_ones_own(by_features, tmp_path):
    sentences, tags = demo("test")
    features = as_features(sentences)
    assert by_features.score(features, tags) > 0.9  # words taken for columns had 0.0
    assert by_features.model.header["scores"]["dev"]["f1"] > 0.9
    found = by_features.predict(features)
    assert [len(s) for s in found] == [len(s) for s in sentences]
    for row in by_features.predict_marginals(features)[0]:
        assert sum(row.values()) == pytest.approx(1.0)
    path = str(tmp_path / "m")
    by_features.save(path)
    assert turbotag.Tagger.load(path).predict(features) == found
    assert pickle.loads(pickle.dumps(by_features)).predict(features) == found


NAMED = [  # what python-crfsuite 0.9.12 makes of a token: ItemSequence([token]).items()
    ({"k": "v"}, {"k:v": 1.0}),
    ({"k": 2}, {"k": 2.0}),
    ({"k": True, "l": False}, {"k": 1.0, "l": 0.0}),
    ({"k": np.float32(1.5), "l": np.bool_(True)}, {"k": 1.5, "l": 1.0}),
    (
        {"k": {"a": 1.5, "b": True, "c": "x", "d": {"e": 2}}},
        {"k:a": 1.5, "k:b": 1.0, "k:c:x": 1.0, "k:d:e": 2.0},
    ),
    ({"k": ["a", "b"]}, {"k:a": 1.0, "k:b": 1.0}),
    ({"k": {"b", "a"}}, {"k:a": 1.0, "k:b": 1.0}),
    (["a", "b=:c"], {"a": 1.0, "b=:c": 1.0}),
    ([""], {"": 1.0}),
    ({"": "x", "k": "", "l": {}, "m": []}, {":x": 1.0, "k:": 1.0}),
    ({"k:": "v:\\", "1.5": "2"}, {"k::v:\\": 1.0, "1.5:2": 1.0}),
    ({"c": "\n", "d": "\t"}, {"c:\n": 1.0, "d:\t": 1.0}),
    ([], {}),
    ({}, {}),
]


@pytest.mark.parametrize(("token", "wanted"), NAMED, ids=str)
def test_names_and_values_of_features(token, wanted):
    assert dict(lists.attributes(token)) == wanted


@pytest.mark.parametrize(("token", "wanted"), NAMED, ids=str)
def test_python_crfsuite_means_the_same(token, wanted):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    assert pycrfsuite.ItemSequence([token]).items() == [wanted]


def test_names_of_features_pass_through_the_format():
    """Escapes, values, names of no letters and tokens without features arrive at the model."""
    tokens = [token for token, _ in NAMED]
    tagger = turbotag.Tagger("pos", epochs=1).fit([tokens], [["N"] * len(tokens)])
    wanted = {name for _, named in NAMED for name, value in named.items() if value}
    spelt = {n.replace("\n", r"\n").replace("\t", r"\t") for n in wanted}
    assert set(tagger.model.vocabulary["attribute"]) == spelt


def test_values_scale_weights():
    """Twice the value is twice the score, and 0 is no feature."""
    tagger = turbotag.Tagger("pos", epochs=5).fit([[{"a": 1.0}, {"b": 1.0}]], [["N", "V"]])

    def odds(value):
        (p,) = tagger.predict_marginals([[{"a": value}]])[0]
        return np.log(p["N"] / p["V"])

    assert odds(0.0) == odds(False) == pytest.approx(0.0)
    assert odds(True) == odds(1) > 0.1
    assert odds(2.0) == pytest.approx(2 * odds(1.0))
    assert odds(-0.5) == pytest.approx(-0.5 * odds(1.0))


@pytest.mark.parametrize(
    "tokens", [[["w=ada", "cap"], ["w=sings"]], [{"w=ada", "cap"}, {"w=sings"}]]
)
def test_lists_and_sets_of_features(tokens):
    tagger = turbotag.Tagger("pos").fit([tokens], [["N", "V"]])
    given = [[["w=sings"]], [["cap"]], [{"cap": True, "unknown": "x"}]]
    assert tagger.predict(given) == [["V"], ["N"], ["N"]]
    assert tagger.predict([[[], {}]])  # tokens of no feature get tags too
    assert tagger.score([tokens], [["N", "V"]]) == 1.0


def test_labels_that_are_numbers():
    """A label and nine features are not taken for a line of CoNLL-U."""
    token = {f"f{i}": "x" for i in range(9)}
    assert turbotag.Tagger("pos").fit([[token]], [["1"]]).predict([[token]]) == [["1"]]


def test_templates_of_features():
    sentences, tags = [[["a"], []]], [["N", "V"]]
    biased = turbotag.Tagger("pos", template="attributes-bias").fit(sentences, tags)
    assert biased.predict(sentences) == tags
    with pytest.raises(DataError, match="template 'ner' reads words, but given are features"):
        turbotag.Tagger("ner", template="ner").fit(sentences, tags)
    with pytest.raises(DataError, match=r"template 'attributes' reads features .*given are w"):
        turbotag.Tagger("pos", template="attributes").fit(SENTENCES, TAGS)


def test_words_and_features_are_not_confused(by_features, ner):
    words, tags = demo("test")
    features = as_features(words)
    columns_as_lists = [[list(token) for token in s] for s in words]
    for tagger, sentences, message in (
        (by_features, words, r"this Tagger reads features \(a dict .*\), but given are words"),
        (ner, features, "this Tagger reads words, but given are features"),
        (ner, columns_as_lists, "this Tagger reads words, but given are features"),
    ):
        for method in (tagger.predict, tagger.predict_marginals):
            with pytest.raises(DataError, match=message):
                method(sentences)
        with pytest.raises(DataError, match=message):
            tagger.score(sentences, tags)
    with pytest.raises(DataError, match="the training data reads words, but given are features"):
        turbotag.Tagger("ner").fit(words, tags, dev=(features, tags))


NEITHER = {
    "none": ([None], "sentence 0 has None: a token is a word"),
    "number": ([3], "sentence 0 has 3: a token is"),
    "bytes": ([b"Ada"], "sentence 0 has b'Ada'"),
    "object": ([object()], "sentence 0 has <object"),
    "no columns": ([()], "sentence 0 has an empty tuple"),
    "tuple of numbers": ([("Ada", 3)], "sentence 0 has 3: a field is text"),
    "mixed": ([{"w": "a"}, "b"], "sentence 0 has words beside features"),
    "mixed lists": (["b", ["w=a"]], "sentence 0 has features beside words"),
    "name": ([{1: "a"}], "sentence 0 has 1 for a feature: its name is a str"),
    "names": ([["a", None]], "sentence 0 has None for a feature"),
    "nested": ([["a", {"b": 1}]], "sentence 0 has {'b': 1} for a feature"),
    "value": ([{"w": None}], "feature 'w' with value None: a value is text, a number"),
    "values": ([{"w": ("a", "b")}], r"feature 'w' with value \('a', 'b'\)"),
    "bytes for a value": ([{"w": b"1"}], "feature 'w' with value b'1'"),
    "infinite": ([{"w": float("inf")}], "feature 'w' with value inf"),
    "surrogate": (["\ud800"], r"'\\ud800' is half a character"),
}


@pytest.mark.parametrize("name", NEITHER)
def test_neither_words_nor_features(name, ner):
    tokens, words = NEITHER[name]
    with pytest.raises(DataError, match=words):
        turbotag.Tagger("ner").fit([tokens], [["O"] * len(tokens)])
    with pytest.raises(DataError, match=words):
        ner.predict([tokens])


def test_neither_sentences():
    for wrong in (None, 3, {"a": 1}, b"ab"):
        with pytest.raises(DataError, match=r"the sentences are .*, not a list of sentences"):
            turbotag.Tagger("pos").fit(wrong, TAGS)
        with pytest.raises(DataError, match=r"sentence 0 is .*, not a list of tokens"):
            turbotag.Tagger("pos").fit([wrong], [["N"]])
        with pytest.raises(DataError, match=r"the tags are .*, not a list"):
            turbotag.Tagger("pos").fit(SENTENCES, wrong)
    generated = turbotag.Tagger("pos").fit((iter(s) for s in SENTENCES), iter(TAGS))
    assert generated.predict(SENTENCES) == TAGS


def test_columns_that_the_model_reads_must_be_given():
    tagger = turbotag.Tagger("chunk").fit([[("a", "N"), ("b", "V")]], [["B-X", "O"]])
    with pytest.raises(DataError, match="the templates need column 'pos'; it has word"):
        tagger.predict([["a", "b"]])


# ---- Parsers -------------------------------------------------------------------------------------

WORDS = [
    [("Ada", "PROPN"), ("sings", "VERB"), (".", "PUNCT")],
    [("the", "DET"), ("rain", "NOUN"), ("falls", "VERB")],
    [("Go", "VERB")],
]
TREES = [
    [(2, "nsubj"), (0, "root"), (2, "punct")],
    [(2, "det"), (3, "nsubj"), (0, "root")],
    [(0, "root")],
]


def treebank(part):
    block = read(str(DEMO / f"{part}.conllu"))
    table = list(zip(*map(block.strings, (1, 3, 4, 6, 7)), strict=True))
    cuts = block.sentences.tolist()
    cut = [table[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    sentences = [[(w, u, x) for w, u, x, _, _ in s] for s in cut]
    return sentences, [[(int(h), label) for *_, h, label in s] for s in cut]


@pytest.fixture(scope="module")
def parser():
    return turbotag.Parser(epochs=3).fit(*treebank("dev"), dev=treebank("test"))


def test_parser(parser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences, trees = treebank("test")
    wanted = parser.predict(sentences)
    assert all(is_tree([h for h, _ in t]) for t in wanted)
    right = [a == b for s, t in zip(wanted, trees, strict=True) for a, b in zip(s, t, strict=True)]
    assert np.mean(right) > 0.8
    assert parser.score(sentences, trees) == pytest.approx(np.mean(right))
    assert parser.model.header["scores"]["dev"]["conventions"]["conll18"]["las"] == parser.score(
        sentences, trees
    )
    parser.save("own.model")
    assert turbotag.Parser.load("own.model").predict(sentences) == wanted
    assert pickle.loads(pickle.dumps(parser)).predict(sentences) == wanted
    by_file = evaluate_trees(str(DEMO / "test.conllu"), turbotag.Parser.load("own.model").model)
    assert by_file.conventions["conll18"].uas > 0.8
    with pytest.raises(DataError, match="is a tagger, expected a parser"):
        turbotag.Parser.load("en-ner")


def test_parser_marginals(parser):
    sentences, _ = treebank("test")
    for words, p in zip(sentences, parser.predict_marginals(sentences), strict=True):
        assert p.shape == (len(words) + 1,) * 2
        assert (p >= -1e-12).all()
        np.testing.assert_allclose(p[:, 1:].sum(axis=0), 1.0, atol=1e-8)
        assert p[0].sum() == pytest.approx(1.0)  # one root
        assert np.abs(p[:, 0]).max() == np.abs(np.diag(p)).max() == 0.0


def test_small_parsers():
    parser = turbotag.Parser(C=1.0, epochs=20).fit(WORDS, TREES)
    assert parser.predict(WORDS) == TREES
    assert parser.score(WORDS, TREES) == 1.0
    header = turbotag.Parser(algorithm="sdca", loss="crf", C=0.1, epochs=3).fit(WORDS, TREES)
    header = header.model.header
    assert (header["algorithm"]["name"], header["algorithm"]["C"]) == ("sdca", 0.1)
    assert header["loss"]["name"] == "crf"
    bare = turbotag.Parser(labels=False, C=1.0).fit(WORDS, TREES)
    assert bare.predict(WORDS) == [[(h, "_") for h, _ in t] for t in TREES]
    assert bare.score(WORDS, TREES) == 1.0
    second = turbotag.Parser(parts=("cs", "gp"), C=1.0).fit(WORDS, TREES)
    assert second.predict(WORDS) == TREES
    for p in second.predict_marginals(WORDS):  # these are approximate
        assert ((p >= 0.0) & (p <= 1.0 + 1e-6)).all()
        np.testing.assert_allclose(p[:, 1:].sum(axis=0), 1.0, atol=0.02)


# ---- What a parser's token may be ----------------------------------------------------------------


@dataclass
class Word:
    """As another library might have it."""

    form: str
    lemma: str | None
    upos: str | None
    xpos: str | None
    feats: str | None


class Row(NamedTuple):
    text: str
    upos: str
    lemma: str
    feats: dict


def rich(part):
    """(sentences of words with lemmas and features, trees), as the conllu package has them: the
    embedded corpus has neither, so they are made from the words."""
    text = (DEMO / f"{part}.conllu").read_text(encoding="utf-8")
    sentences = conllu.parse(text)
    for sentence in sentences:
        for token in sentence:
            ends = token["form"][-1:].upper()
            token["lemma"] = token["form"].lower()[:4]
            token["feats"] = {"case": "Nom", "End": ends} if ends.isalpha() else None
    return sentences, [[(t["head"], t["deprel"]) for t in s] for s in sentences]


def as_objects(sentences):
    """Plain objects, with features as CoNLL-U writes them."""
    return [
        [
            Word(t["form"], t["lemma"], t["upos"], t["xpos"], "|".join(map("=".join, feats)))
            for t in s
            for feats in [(t["feats"] or {}).items()]
        ]
        for s in sentences
    ]


@pytest.fixture(scope="module")
def rich_parser():
    return turbotag.Parser(epochs=3).fit(*rich("dev"))


def test_lemmas_and_features_reach_the_parser(rich_parser, tmp_path):
    """Dicts, objects and a file give the same model, to the bit, and the same trees."""
    sentences, trees = rich("dev")
    path = tmp_path / "dev.conllu"
    path.write_text("".join(s.serialize() for s in sentences), encoding="utf-8")
    by_file, _ = train_parser(options_for("parse", train=str(path), epochs=3))
    by_objects = turbotag.Parser(epochs=3).fit(as_objects(sentences), trees)
    for model in (by_file, by_objects.model):
        assert model.arrays.keys() == rich_parser.model.arrays.keys()
        for name, array in model.arrays.items():
            np.testing.assert_array_equal(array, rich_parser.model.arrays[name])
    assert rich_parser.model.header["reads"] == ["feats", "lemma", "upos", "word"]
    test, gold = rich("test")
    found = rich_parser.predict(test)
    assert rich_parser.predict(as_objects(test)) == found
    parsed = by_file.parse(read("".join(s.serialize() for s in test).encode()))
    assert [h for tree in found for h, _ in tree] == parsed.heads.tolist()
    bare = [[(t["form"], t["upos"]) for t in s] for s in test]
    with_all, without = map(rich_parser.predict_marginals, (test, bare))
    assert any((a != b).any() for a, b in zip(with_all, without, strict=True))
    assert rich_parser.score(test, gold) == rich_parser.score(as_objects(test), gold) > 0.8


def test_kinds_of_tokens(rich_parser):
    """All that a token may be says the same."""
    feats, values = {"End": "S", "case": "Nom"}, {"End": {"S"}, "case": ["Nom"]}
    ones = [
        {"form": "sings", "lemma": "sing", "upos": "VERB", "feats": feats},
        {"text": "sings", "lemma": "sing", "upos": "VERB", "feats": values},
        {"id": 1, "word": "sings", "lemma": "sing", "upos": "VERB", "xpos": None, "deps": None,
         "feats": "case=Nom|End=S", "head": 3, "deprel": "x", "misc": {}},
        Word("sings", "sing", "VERB", "", "case=Nom|End=S"),
        Row("sings", "VERB", "sing", feats),
    ]  # fmt: skip
    wanted = "1\tsings\tsing\tVERB\t_\tcase=Nom|End=S\t_\t_\t_\t_"
    for token in ones:
        assert lists.conllu([[token]]).decode().splitlines() == [wanted, ""]
    for token, line in (
        ("a b", "1\ta b\t_\t_\t_\t_"),
        (("a",), "1\ta\t_\t_\t_\t_"),
        (("a", "X"), "1\ta\t_\tX\t_\t_"),
        (["a", "X", "Y"], "1\ta\t_\tX\tY\t_"),
        (("a", None, "Y"), "1\ta\t_\t_\tY\t_"),
        ({"form": "_", "feats": {}}, "1\t_\t_\t_\t_\t_"),
        (turbotag.Token(4, "a", 0, 1, "X", "Y", 2, "l", "O", {}), "1\ta\t_\tX\tY\t_"),
        (asdict(turbotag.Token(4, "a", 0, 1, "X", None)), "1\ta\t_\tX\t_\t_"),
    ):
        assert lists.conllu([[token]]).decode().splitlines()[0] == f"{line}\t_\t_\t_\t_"


def test_ranges_and_empty_nodes_are_no_words(rich_parser):
    text = (
        "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_\n"
        "2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_\n2.1\tx\t_\tX\t_\t_\t_\t_\t0:x\t_\n"
        "3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    )
    (sentence,) = conllu.parse(text)
    words = [t for t in sentence if isinstance(t["id"], int)]
    assert len(sentence) == 5
    assert rich_parser.predict([sentence]) == rich_parser.predict([words])
    spelt = [{**t, "id": "".join(map(str, t["id"]))} for t in sentence if t not in words]
    assert rich_parser.predict([[spelt[0], *words, spelt[1]]]) == rich_parser.predict([words])
    arcs = [(t["head"], t["deprel"]) for t in words]
    assert 0.0 <= rich_parser.score([sentence], [arcs]) <= 1.0


def test_documents_are_parsed_again(nlp):
    found = nlp("Ada flew to Oslo. She didn't like it.")
    parser = turbotag.Parser.load("en-parse")
    assert parser.predict(found) == [[(t.head, t.label) for t in s] for s in found]


WRONG_WORDS = {
    "none": (None, "sentence 0 has None: a token is a word"),
    "number": (3, "sentence 0 has 3: a token is"),
    "nothing": ((), r"sentence 0 has \(\): a token is"),
    "long": (("a", "X", "Y", "Z"), r"sentence 0 has \('a', 'X', 'Y', 'Z'\): a token is"),
    "no form": ({"upos": "X"}, "sentence 0 has {'upos': 'X'}: a token is"),
    "field": ({"form": "a", "pos": "X"}, "has a token with 'pos', no field of CoNLL-U: a token is"),
    "lemma": ({"form": "a", "lemma": 3}, "sentence 0 has 3 for lemma, which is text"),
    "tag": (("a", 3), "sentence 0 has 3 for upos, which is text"),
    "feats": ({"form": "a", "feats": 3}, "sentence 0 has 3 for feats, which is text"),
    "feature": ({"form": "a", "feats": {"A": 3}}, "sentence 0 has 3 for feature 'A', which is"),
    "tab": ({"form": "a", "feats": {"A": "b\t"}}, r"sentence 0 has 'b\\t': a field is text"),
}


@pytest.mark.parametrize("name", WRONG_WORDS)
def test_what_is_no_word(name, parser):
    token, words = WRONG_WORDS[name]
    with pytest.raises(DataError, match=words):
        turbotag.Parser().fit([[token]], [[(0, "root")]])
    for method in (parser.predict, parser.predict_marginals):
        with pytest.raises(DataError, match=words):
            method([[token]])


def test_words_without_tags_are_refused(parser):
    """By a parser that learned from tags."""
    words = r"sentence 1 has no tags, but the parser learned from them \(upos"
    for bare in (["Go", "on"], [("Go",), ("on",)], [{"form": "Go", "lemma": "go"}]):
        sentences = [WORDS[0], bare]
        for model in (parser, turbotag.Parser.load("en-parse")):
            for method in (model.predict, model.predict_marginals):
                with pytest.raises(DataError, match=words):
                    method(sentences)
            with pytest.raises(DataError, match=words):
                model.score(sentences, [TREES[0], [(0, "root"), (1, "x")][: len(bare)]])
    assert parser.predict([[("Go", "VERB"), "on"]])  # one may be without


def test_a_column_of_tags_that_is_missing_is_warned_of():
    parser = turbotag.Parser.load("en-parse")
    with pytest.warns(UserWarning, match="the parser learned from xpos, which no word here has"):
        parser.predict(WORDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parser.predict([[("Go", "VERB", "VB"), ("on", "ADV")]])


def test_a_parser_of_bare_words():
    words = [[w for w, _ in s] for s in WORDS]
    bare = turbotag.Parser(C=1.0, epochs=20).fit(words, TREES)
    assert bare.model.header["reads"] == ["word"]
    assert [[h for h, _ in t] for t in bare.predict(words)] == [[h for h, _ in t] for t in TREES]
    assert bare.score(words, TREES) > 0.5


@pytest.mark.parametrize("name", ["en-parse", "sl-parse"])
def test_running_text_has_no_tags(name, tmp_path):
    alone = turbotag.load(name)
    with pytest.raises(UsageError, match=r"the parser reads tags .*, which running text has"):
        alone("Ada sings.")
    with pytest.raises(UsageError, match="the parser reads tags"):
        list(alone.pipeline.blocks(str(file(tmp_path, "Ada sings.")), "raw"))


BAD_TREES = {
    "shorter": (WORDS, [TREES[0][:2], *TREES[1:]], "sentence 0 has 3 tokens, but 2 heads"),
    "more": (WORDS, TREES * 2, "3 sentences, but heads of 6"),
    "empty": ([[]], [[]], "sentence 0 has no tokens"),
    "string": (["Go"], [[(0, "root")] * 2], "sentence 0 is 'Go', not a list"),
    "tab": ([[("a\tb", "X")]], [[(0, "root")]], r"sentence 0 has 'a\\tb'"),
    "label": ([[("a", "X")]], [[(0, "")]], "sentence 0 has ''"),
    "arc": ([[("a", "X")]], [[0]], r"sentence 0 has 0 in its tree, which is a list of \(head"),
    "head": ([[("a", "X")]], [[(2, "root")]], "head 2 is outside the sentence"),
    "word": ([[("a", "X")]], [[("no", "root")]], "'no' is not a number"),
    "roots": (WORDS[:1], [[(0, "root")] * 3], "second root"),
    "cycle": (WORDS[:1], [[(0, "root"), (3, "a"), (2, "a")]], "form a cycle"),
}


@pytest.mark.parametrize("name", BAD_TREES)
def test_bad_lists_for_parsers(name, parser):
    sentences, trees, words = BAD_TREES[name]
    with pytest.raises(DataError, match=words):
        turbotag.Parser().fit(sentences, trees)
    if name == "roots":  # what is only scored may have several
        return
    with pytest.raises(DataError, match=words):
        turbotag.Parser().fit(WORDS, TREES, dev=(sentences, trees))
    with pytest.raises(DataError, match=words):
        parser.score(sentences, trees)


def test_fewer_trees_than_sentences():
    with pytest.raises(DataError, match="3 sentences, but heads of 2"):
        turbotag.Parser().fit(WORDS, TREES[:2])


def test_training_shows_its_progress_and_takes_a_log(tmp_path, capsys):
    log = tmp_path / "training.jsonl"
    tagger = turbotag.Tagger("pos", epochs=3).fit(
        [["Ada", "sings"]], [["N", "V"]], verbose=True, log=str(log)
    )
    shown = capsys.readouterr().err
    assert "features, 2 labels" in shown
    assert "epoch" in shown
    assert "certificate" in shown
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows == tagger.history
    assert rows[-1]["certified"]
    tree = [(2, "nsubj"), (0, "root")]
    parser = turbotag.Parser(epochs=2).fit([["Ada", "sings"]], [tree], verbose=False)
    assert parser.history
    assert not capsys.readouterr().err


def test_training_warns_of_tags_that_do_not_fit():
    with pytest.warns(UserWarning, match="does not fit"):
        turbotag.Tagger("ner", epochs=1).fit(
            [["a", "b", "c", "d"], ["a", "b"]],
            [["O", "I-X", "O", "B-X"], ["B-X", "I-X"]],
            verbose=False,
        )
