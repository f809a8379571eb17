"""Tokenizers: trained on a small treebank made here, on text of any kind, on files and damage."""

import io
import pickle
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.cli.processes import one_sentence, run
from turbotag.api import NLP
from turbotag.corpus import rules
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes
from turbotag.corpus.surface import read_surface
from turbotag.corpus.text import paragraphs
from turbotag.errors import DataError, UsageError
from turbotag.models.pipeline import Pipeline
from turbotag.models.tokenizer import Tokenizer
from turbotag.optim.trace import Trace
from turbotag.storage import store
from turbotag.training.options import check_given, options_for
from turbotag.training.tokenizer import Treebank, score_tokenizer, train_tokenizer

NAMES = ["Ada", "Kaja", "Mr. Leon", "Oslo"]
VERBS = ["sings", "doesn't", "can't", "sleeps", "cannot"]
WORDS = {"doesn't": ["does", "n't"], "can't": ["ca", "n't"], "cannot": ["can", "not"]}
WORDS |= {"no": ["em", "o"]}


def treebank(n=150, seed=1, blanks=True, paragraphs=True):
    """CoNLL-U of sentences such as `Mr. Leon can't, no Oslo .`, some glued together."""
    rng, lines = random.Random(seed), []
    for s in range(n):
        forms = [*rng.choice(NAMES).split(), rng.choice(VERBS)]
        if rng.random() < 0.5:
            forms += [",", "no", *rng.choice(NAMES).split()]
        forms.append(rng.choice(".!?"))
        lines.append("# newpar" if paragraphs and s % 4 == 0 else "# a comment")
        at = 1
        for k, form in enumerate(forms):
            glued = not blanks or (k + 1 < len(forms) and forms[k + 1] in ",.!?")
            end = "\t_" * 7 + ("\tSpaceAfter=No" if glued else "\t_")
            words = WORDS.get(form, [form])
            if len(words) > 1:
                lines.append(f"{at}-{at + len(words) - 1}\t{form}{end}")
                end = "\t_" * 8
            for word in words:
                lines.append(f"{at}\t{word}{end}")
                at += 1
        lines.append("")
    return ("\n".join(lines) + "\n").encode()


def fit(data, **options):
    return train_tokenizer(options_for("tokenize", data, **options))[0]


def gold(data):
    return Treebank.of(from_bytes(data, "treebank", CONLLU))


@pytest.fixture(scope="module")
def model():
    return fit(treebank())


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    name = str(tmp_path_factory.mktemp("tokenizer") / "tok.model")
    model.save(name)
    return name


# ---- What is learned -----------------------------------------------------------------------------


def test_another_part_of_the_treebank(model):
    found = score_tokenizer(model, gold(treebank(60, seed=2)))
    assert list(found.scores) == ["Tokens", "Sentences", "Words"]
    assert all(c.f1 == 1 for c in found.scores.values())
    assert model.segment("Kaja can't, no Oslo.") == [
        [
            rules.Token(0, 4, ("Kaja",)),
            rules.Token(5, 10, ("ca", "n't")),
            rules.Token(10, 11, (",",)),
            rules.Token(12, 14, ("em", "o")),
            rules.Token(15, 19, ("Oslo",)),
            rules.Token(19, 20, (".",)),
        ]
    ]


def test_it_is_certified():
    model, result = train_tokenizer(options_for("tokenize", treebank(40), stop_gap=1e-4))
    assert -1e-9 < result.certificate.gap <= 1e-4
    assert model.header["certificate"]["gap"] == result.certificate.gap


def test_without_blanks():
    """Each letter is a unit where the training data need it."""
    model = fit(treebank(300, blanks=False, paragraphs=False))
    assert model.header["by_letter"]
    found = score_tokenizer(model, gold(treebank(60, seed=2, blanks=False, paragraphs=False)))
    assert found.scores["Tokens"].f1 > 0.97
    assert found.scores["Sentences"].f1 > 0.95
    assert not fit(treebank(20, blanks=False), by_letter=False).header["by_letter"]


def test_words_with_blanks_in_them():
    line = "{}\t{}" + "\t_" * 8 + "\n"
    data = "".join(line.format(1, "in spite of") + line.format(2, "Ada") + "\n" for _ in range(40))
    model = fit(data.encode())
    assert [t.words for t in model.segment("in spite of Ada")[0]] == [("in spite of",), ("Ada",)]
    assert b"1\tin spite of\t" in model.to_conllu("in\n spite  of Ada")
    assert not fit(treebank(20)).header["blanks"]


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_data(n):
    assert fit(treebank(n)).segment("Ada sings.")


def test_treebanks_without_multiword_tokens_or_with_empty_nodes():
    lines = re.sub(rb"(?m)^\d+-.*\n", b"", treebank(20))
    assert fit(lines).labels == ["I", "T", "S"]
    more = treebank(20).replace(b"\n\n", b"\n9.1\tx" + b"\t_" * 8 + b"\n\n")
    assert np.array_equal(fit(more).weights, fit(treebank(20)).weights)
    with pytest.raises(DataError, match="is columns; tokens are learned from CoNLL-U"):
        fit(b"Ada B-PER\nsings O\n")


def test_the_same_bytes_after_an_interruption(tmp_path):
    options = options_for("tokenize", treebank(60), stop_gap=1e-6)
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    train_tokenizer(options, whole)
    rows = iter(range(5))

    def interrupt(line):
        if next(rows) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_tokenizer(options, parts, Trace(interrupt), checkpoint_seconds=0)
    assert (tmp_path / "parts.checkpoint").exists()
    said = []
    train_tokenizer(options, parts, echo=said.append, resume=True)
    assert any("resuming from" in line for line in said)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts", "whole"]


# ---- Any text ------------------------------------------------------------------------------------

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text(
    "Ada Leon.,!?'n\n\u00a0\u200b\u0301\U0001f600", max_size=80
)


@settings(deadline=None)
@given(ANY)
def test_no_character_is_lost_and_offsets_are_right(model, text):
    sentences = model.segment(text)
    at = 0
    for token in (t for s in sentences for t in s):
        assert token.start >= at
        assert token.end > token.start
        assert not rules.CHUNK.search(text[at : token.start])  # white space
        at = token.end
    assert not rules.CHUNK.search(text[at:])
    conllu = model.to_conllu(text)
    block = from_bytes(conllu, "text", CONLLU)
    assert block.n_sentences == len(sentences)
    forms = read_surface(block).forms
    bare = ["".join(rules.CHUNK.findall(form)) for form in forms]
    assert "".join(bare) == "".join(rules.CHUNK.findall(text))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["Ada sings.", " ", "\n", "\n\n", "Mr. Leon", "can't"])))
def test_a_stream_gives_what_the_whole_text_gives(model, parts):
    text = "".join(parts)
    for size in (1, 7, 1 << 18):
        got = b"".join(model.stream(io.BytesIO(text.encode()), size))
        assert got == model.to_conllu(text)


@settings(deadline=None)
@given(st.lists(st.text(max_size=9) | st.sampled_from(["Ada", " \n", "Ada sings.\nNo\n\nMr. "])))
def test_texts_cut_in_one_go_are_as_each_alone(model, texts):
    assert model.all_to_conllu(texts) == [model.to_conllu(text) for text in texts]


def test_paragraphs_and_lines_begin_sentences(model):
    text = "Ada\n\nKaja sings\n- Oslo"
    starts = [s[0].start for s in model.segment(text)]
    assert starts == [0, 5, 16]
    assert model.to_conllu(text).count(b"# newpar") == 2


def test_a_million_characters_without_a_blank(model):
    size, longest = 0, 0
    for data in model.stream(io.BytesIO(b"abcdefghij" * 100_000)):
        longest = max(longest, len(data))
        size += sum(len(f) for f in from_bytes(data, "text", CONLLU).strings(1))
    assert size == 1_000_000
    assert longest < 1 << 20


def test_long_sentences_are_cut_with_a_warning(model):
    said = []
    conllu = model.to_conllu("no " * 1000, warn=said.append)
    assert conllu.count(b"# sent_id") >= 3
    assert len(said) == 1
    assert "more than 400 words are cut there" in said[0]


# ---- Probabilities -------------------------------------------------------------------------------


def test_posterior_is_that_of_enumeration(model):
    text = "Ada can't."
    _, units, keys = model.units(text, list(paragraphs(text)))
    scores = model.scores(units, keys)
    found = model.posterior(units, scores)
    K, T = len(model.labels), units.n
    unary = np.maximum(scores.astype(float), -250.0)
    expected, total = np.zeros((T, K)), 0.0
    for labels in oracles.sequences(T, K):
        s = sum(unary[t, y] for t, y in enumerate(labels))
        s += sum(model.trans[a, b] for a, b in zip(labels, labels[1:], strict=False))
        total += np.exp(s)
        for t, y in enumerate(labels):
            expected[t, y] += np.exp(s)
    assert np.allclose(found, expected / total)


def test_probabilities_are_noted(model, path):
    text = "Ada sings. Kaja can't."
    conllu = model.to_conllu(text, probabilities=True).decode()
    plain = re.sub(r"(Token|Sentence)Prob=[01]\.\d{4}\|", "", conllu)
    assert plain == model.to_conllu(text).decode()
    assert conllu.count("TokenProb") == conllu.count("start_char") == 6
    assert conllu.count("SentenceProb") == 2
    assert run("predict", path, "-", "--marginals", stdin=text).stdout == conllu


# ---- Files and pipelines -------------------------------------------------------------------------


def test_files(model, path, tmp_path):
    for same in (Tokenizer.load(path), pickle.loads(pickle.dumps(model))):
        assert same.to_conllu("Ada can't. Oslo!") == model.to_conllu("Ada can't. Oslo!")
    again = str(tmp_path / "again")
    Tokenizer.load(path).save(again)
    assert open(again, "rb").read() == open(path, "rb").read()


@pytest.mark.parametrize(
    "damage",
    [
        {"labels": ["I", "T"]},
        {"templates": "pos[0]"},
        {"by_letter": "no"},
        {"labels": ["I", "T", "S"]},
    ],
)
def test_damaged_headers(path, tmp_path, damage):
    header, arrays = store.load_file(path, "tokenizer")
    wrong = str(tmp_path / "wrong")
    store.save_file(wrong, "tokenizer", header | damage, arrays)
    with pytest.raises(DataError, match="damaged"):
        Tokenizer.load(wrong)
    arrays["scripts"] = np.frombuffer(b'{"a": [[-1], 0, "", []]}', np.uint8)
    store.save_file(wrong, "tokenizer", header, arrays)
    with pytest.raises(DataError, match="damaged"):
        Tokenizer.load(wrong)


def test_a_pipeline_begins_with_it(model):
    """Words that are no parts of their token stand where the token stands."""
    nlp = NLP(Pipeline([], tokenizer=model))
    doc = pickle.loads(pickle.dumps(nlp))("Ada can't, no Oslo. Kaja sings.")
    assert [len(s) for s in doc] == [8, 3]
    assert [(t.text, t.start, t.end) for t in doc[0]][1:6] == [
        ("ca", 4, 6),
        ("n't", 6, 9),
        (",", 9, 10),
        ("em", 11, 13),
        ("o", 11, 13),
    ]


# ---- The command line ----------------------------------------------------------------------------


def test_commands(tmp_path):
    train, dev = tmp_path / "train.conllu", tmp_path / "dev.conllu"
    train.write_bytes(treebank(80))
    dev.write_bytes(treebank(30, seed=2))
    tok, text = tmp_path / "tok.model", tmp_path / "text.txt"
    done = run("train", "--task", "tokenize", "--train", train, "--dev", dev, "-o", tok)
    assert done.returncode == 0, done.stderr
    assert "dev, from raw text: tokens " in done.stderr
    text.write_text("Mr. Leon can't, no Oslo. Ada sings!")
    out = run("predict", tok, text)
    assert out.stdout == Tokenizer.load(str(tok)).to_conllu(text.read_text()).decode()
    assert out.stdout == run("predict", tok, "-", stdin=text.read_text()).stdout
    assert out.stdout == run("predict", tok, text, "--threads", 2).stdout
    assert "Sentences" in run("eval", "--model", tok, dev).stdout
    assert (
        run("eval", "--raw", "--model", tok, dev).stdout == run("eval", "--model", tok, dev).stdout
    )
    card = run("inspect", tok).stdout
    assert "task         tokenize, 5 labels" in card
    assert "dev          F1 of tokens" in card
    assert "rule[0] chunk[0]" in run("inspect", tok, "--templates").stdout
    one_sentence(run("predict", tok, dev), 1, "a tokenizer reads running text")
    one_sentence(run("explain", tok, text), 2, "is a tokenizer")
    one_sentence(run("calibrate", tok, dev, "-o", tmp_path / "c"), 2, "is a tokenizer")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jackknife", 2], "--jackknife is for parsers"),
        (["--order", 2], "--order is for taggers"),
        (["--target", "upos"], "--target is for taggers"),
        (["--init", "x"], "--init is for taggers and parsers"),
        (["--min-count", 0], "min-count is 0: it must be at least 1"),
        (["--template", "pos"], "is no value of characters"),
    ],
)
def test_options_of_others(tmp_path, options, message):
    train = tmp_path / "train.conllu"
    train.write_bytes(treebank(5))
    done = run("train", "--task", "tokenize", "--train", train, "-o", tmp_path / "m", *options)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert not (tmp_path / "m").exists()


def test_its_own_options_are_not_for_others():
    with pytest.raises(UsageError, match="by_letter is for tokenizers: the task pos has no use"):
        check_given("pos", {"by_letter": True})
