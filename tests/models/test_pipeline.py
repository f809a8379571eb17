"""Pipelines of shipped models: raw text, CoNLL-U, blocks, threads, names; documents."""

import functools
import gzip
import io
import os
import pickle
import re
import types

import conllu
import numpy as np
import pytest

import turbotag
from tests.cli.test_parse import is_tree, rows, words_of
from turbotag.corpus import reader
from turbotag.corpus.formats import CONLLU, Conll, looks_conll
from turbotag.corpus.reader import from_bytes
from turbotag.corpus.text import segment, to_conllu
from turbotag.documents.reading import document
from turbotag.errors import DataError, UsageError
from turbotag.models import pipeline as module
from turbotag.models.bundle import save_bundle
from turbotag.models.gold import Layout
from turbotag.models.model import Output
from turbotag.models.parser import Parser
from turbotag.models.pipeline import Pipeline, load, pipeline
from turbotag.models.prediction import annotate, predict
from turbotag.models.shipped import find, pipelines, shipped
from turbotag.models.tagger import Tagger
from turbotag.storage import store
from turbotag.storage.checkpoints import content

LEMMA, UPOS, XPOS, FEATS, HEAD, LABEL, MISC = 2, 3, 4, 5, 6, 7, 9

# Abbreviations, contractions, quotation marks, an emoji, names, three paragraphs.
TEXT = (
    "Ada Brandt flew to Oslo with Dr. Lind of Nordlys Energy. She didn't like the rain,\n"
    "but they'd paid $4,500 for it!\n\n"
    "“Can't we wait?” asked Leon. 😀 The café isn't open until 10:30 a.m. on Sunday.\n\n\n"
    "Mara Quill lives in Paris; her sister's in London, and nobody cannot but miss her\n"
)

# Comments, a multiword range, empty nodes, other columns, notes, surplus blank lines, no newline.
ODD = (
    "# newdoc id = a\n# text = Leon can't wait\n"
    "1\tLeon\tleon\tX\tXX\tA=B|C=D\t3\told\t1:x\tSpaceAfter=No\n"
    "2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\tstart_char=5\n"
    "2\tca\tcan\tX\tXX\t_\t_\t_\t_\tX=1|Y=2\n3\tn't\tnot\tX\tXX\t_\t_\t_\t_\t_\n"
    "3.1\te\t_\t_\t_\t_\t_\t_\t0:dep\t_\n4\twait\twait\tX\tXX\t_\t_\t_\t_\t_\n\n\n\n"
    "# one word, no newline at the end\n1\tYes\tyes\tX\tXX\t_\t_\t_\t_\t_"
)


@functools.cache
def english():
    """The shipped pipeline, loaded once for all tests."""
    return turbotag.load("en")


@pytest.fixture(scope="session")
def en():
    return english().pipeline


def annotated(stages, path, threads=1, format=None, **output):
    out = io.BytesIO()
    predict(stages, str(path), out, Output(**output), Layout(format), threads)
    return out.getvalue().decode()


def file(tmp_path, content, name="input"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def notes(misc):
    return dict(n.split("=", 1) for n in misc.split("|") if "=" in n)


def is_iob(tags):
    for before, tag in zip(["O", *tags], tags, strict=False):
        if not re.fullmatch(r"O|[BI]-\w+", tag) or (tag[0] == "I" and before[1:] != tag[1:]):
            return False
    return True


def check(found, source):
    """That it is valid CoNLL-U of a text: words, offsets, spaces, full columns, trees, tags."""
    surface = segment(source)
    block = from_bytes(found.encode(), "output", CONLLU)
    sentences = conllu.parse(found)
    assert block.n_sentences == len(sentences) == len(surface)
    for sentence, tokens in zip(sentences, surface, strict=True):
        words = [t for t in sentence if isinstance(t["id"], int)]
        assert [w["form"] for w in words] == [w for t in tokens for w in t.words]
        assert is_tree([w["head"] for w in words])
        assert [w["deprel"] for w in words if w["head"] == 0] == ["root"]
        assert all(w["upos"] and w["xpos"] for w in words)
        assert is_iob([w["misc"]["NER"] for w in words])
        inner = {
            i for t in sentence if isinstance(t["id"], tuple) for i in (t["id"][0], t["id"][2])
        }
        lines = [t for t in sentence if isinstance(t["id"], tuple) or t["id"] not in inner]
        for line, token in zip(lines, tokens, strict=True):
            at = int(line["misc"]["start_char"]), int(line["misc"]["end_char"])
            assert at == (token.start, token.end)
            assert source[slice(*at)] == line["form"]
            spaced = not source[token.end : token.end + 1].strip()
            assert ("SpaceAfter" not in line["misc"]) == spaced
        whole = source[tokens[0].start : tokens[-1].end]
        assert sentence.metadata["text"] == " ".join(whole.split())


# ---- Raw text ------------------------------------------------------------------------------------


def test_raw_text(en, tmp_path):
    found = annotated(en, file(tmp_path, TEXT))
    check(found, TEXT)
    types = {notes(r[MISC])["NER"] for r in words_of(found)}
    assert {"B-PER", "I-PER", "B-LOC", "O"} <= types
    with gzip.open(tmp_path / "input.gz", "wb") as f:
        f.write(TEXT.encode())
    assert annotated(en, tmp_path / "input.gz") == found
    assert annotated(en, file(tmp_path, TEXT), format="raw") == found


def test_line_ends_and_byte_order_marks_change_offsets_only(en, tmp_path):
    windows = TEXT.replace("\n", "\r\n")
    found = annotated(en, file(tmp_path, b"\xef\xbb\xbf" + windows.encode()))
    check(found, windows)  # a carriage return counts, the mark does not
    plain = annotated(en, file(tmp_path, TEXT))
    assert [r[:MISC] for r in rows(found)] == [r[:MISC] for r in rows(plain)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_of_any_size_give_the_same_bytes(en, tmp_path, monkeypatch, size):
    raw, tagged = file(tmp_path, TEXT, "raw"), file(tmp_path, (ODD + "\n\n") * 3, "tagged")
    wanted = [annotated(en, p, marginals=True) for p in (raw, tagged)]
    segmenter = en.segmenter

    class Small:
        def stream(self, opened, block_size=0, **more):
            return segmenter.stream(opened, size, **more)

    monkeypatch.setattr(en, "segmenter", Small())
    small = functools.partial(reader.stream, block_bytes=size)
    monkeypatch.setattr(module, "stream", small)
    assert len(list(en.blocks(str(raw), None))) > 1
    assert [annotated(en, p, marginals=True) for p in (raw, tagged)] == wanted
    assert [annotated(en, p, 3, marginals=True) for p in (raw, tagged)] == wanted


def test_marginals_are_probabilities(en, tmp_path):
    raw = file(tmp_path, TEXT)
    found = annotated(en, raw, marginals=True)
    keys = {"UposProb", "XposProb", "TagProb", "HeadProb", "LabelProb"}
    for row in words_of(found):
        own = notes(row[MISC])
        assert keys | ({"EntityProb"} if own["NER"] != "O" else set()) <= set(own)
        assert ("EntityProb" in own) == (own["NER"] != "O")
        assert all(0.0 <= float(v) <= 1.0 for k, v in own.items() if k.endswith("Prob"))
        if "EntityProb" in own:  # the entity is no more probable than the tag of a word of it
            assert float(own["EntityProb"]) <= float(own["TagProb"]) + 1e-3
    without = re.sub(r"(\|)?\w+Prob=[\d.]+(?(1)|\|)", "", found)
    assert without == annotated(en, raw)


def test_posterior_and_map_decoding(en, tmp_path):
    raw, proofs = file(tmp_path, TEXT), []
    check(annotated(en, raw, decode="posterior"), TEXT)
    assert annotated(en, raw, decode="map", proofs=proofs) == annotated(en, raw)
    proven, trees = np.sum(proofs, axis=0)
    assert proven == trees == len(segment(TEXT))  # at first order the best tree is found


def test_parts_of_speech_alone(tmp_path):
    found = words_of(annotated(pipeline("en-pos"), file(tmp_path, TEXT)))
    assert all(r[UPOS] != "_" and r[XPOS] != "_" for r in found)
    assert all(r[HEAD] == r[LABEL] == "_" and "NER=" not in r[MISC] for r in found)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"Ada sings.\n\nLeon \xff waits.\n", 3, "byte 0xff is not valid UTF-8"),
        (b"Ada sings.\nLeon waits. \xe2\x82", 2, "byte 0xe2 is not valid UTF-8"),
        (ODD.replace("\n4\t", "\n5\t").encode(), 8, "expected ID 4, found '5'"),
        (ODD.replace("\tX=1|Y=2", "").encode(), 5, "expected 10 columns, found 9"),
    ],
)
def test_bad_input(en, tmp_path, content, line, words):
    path = file(tmp_path, content)
    for source in (path, file(tmp_path, gzip.compress(content), "input.gz")):
        with pytest.raises(DataError, match=words) as caught:
            annotated(en, source)
        where = f"{source}, line {line}: " if line else f"{source}: "
        assert str(caught.value).startswith(where)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", b""),
        (b" \n\t\n\xc2\xa0\r\n", b""),
        (b"\xef\xbb\xbf", b""),
        (b"# text = nothing\n# sent_id = 1\n", None),
    ],
)
def test_nothing_in_nothing_out(en, tmp_path, content, expected):
    """A batch has empty files too; comments of CoNLL-U come back."""
    for source in (file(tmp_path, content), file(tmp_path, gzip.compress(content), "input.gz")):
        assert annotated(en, source).encode() == (content if expected is None else expected)


def test_a_conllu_file_with_a_bad_first_line_is_not_taken_for_text(en, tmp_path):
    with pytest.raises(DataError, match="line 3: expected 10 columns, found 9"):
        annotated(en, file(tmp_path, ODD.replace("\t1:x", "")))
    eight = "1 Leon _ X XX _ 0 root\n"
    with pytest.raises(DataError, match="line 1: expected 10 columns, found 8"):
        annotated(en, file(tmp_path, eight))


def test_blank_separated_conllu_is_annotated_and_stays_so(en, tmp_path):
    blanks = annotated(en, file(tmp_path, ODD.replace("\t", " ")))
    assert blanks == annotated(en, file(tmp_path, ODD)).replace("\t", " ")


def test_files_that_cannot_be_read(en, tmp_path):
    whole = gzip.compress(TEXT.encode())
    for path, words in (
        (tmp_path / "none.txt", "no such file"),
        (tmp_path, "is a directory"),
        (file(tmp_path, TEXT, "plain.gz"), "cannot be read"),
        (file(tmp_path, whole[:-30], "cut.gz"), "cannot be read"),
        (file(tmp_path, whole[:-5] + b"12345", "sum.gz"), "cannot be read"),
    ):
        with pytest.raises(DataError, match=words):
            annotated(en, path)


def test_damaged_gz(en, tmp_path):
    whole = gzip.compress(TEXT.encode())
    with pytest.raises(DataError, match="cannot be read"):
        annotated(en, file(tmp_path, whole[:40] + b"\0" * 9 + whole[49:], "bad.gz"))


def test_refused_options(en, tmp_path):
    path = str(file(tmp_path, TEXT))
    with pytest.raises(UsageError, match="--nbest is for single models"):
        predict(en, path, io.BytesIO(), Output(nbest=2))
    with pytest.raises(UsageError, match="--columns is for single models"):
        predict(en, path, io.BytesIO(), layout=Layout(columns=("word",)))
    with pytest.raises(UsageError, match="a pipeline reads raw text or CoNLL-U, not columns"):
        predict(en, path, io.BytesIO(), layout=Layout("columns"))


# ---- CoNLL-U -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("marginals", [False, True])
def test_what_is_not_predicted_comes_back_byte_for_byte(en, tmp_path, keep, marginals):
    source, windows = file(tmp_path, ODD), ODD.replace("\n", "\r\n")
    stages = Pipeline(en.models, keep)
    found = annotated(stages, source, marginals=marginals)
    crlf = annotated(stages, file(tmp_path, "\ufeff" + windows, "crlf"), marginals=marginals)
    assert crlf == "\ufeff" + found.replace("\n", "\r\n")
    predicted = [FEATS, HEAD, LABEL, MISC]  # of which some words have no features
    predicted += [] if keep else [LEMMA, UPOS, XPOS]
    for before, after in zip(rows(ODD), rows(found), strict=True):
        if len(before) == 10 and before[0].isdigit():
            assert all(after[c] == before[c] for c in range(10) if c not in predicted)
            assert keep or (after[UPOS] != "X" and after[XPOS] != "XX")
            assert after[MISC].startswith("" if before[MISC] == "_" else before[MISC] + "|")
            added = set(notes(after[MISC])) - set(notes(before[MISC]))
            assert ("UposProb" in added) == (marginals and not keep)
            assert ("HeadProb" in added) == marginals
        else:
            assert after == before


def test_kept_tags_are_what_the_parser_sees(en, tmp_path):
    """With all tags there the pipeline is the parser and the entities; with none it tags."""
    feats, parser, ner = (Pipeline(en.models[n : n + 1], True) for n in (2, 4, 5))
    keep = Pipeline(en.models, True)
    full = file(tmp_path, annotated(feats, file(tmp_path, ODD)), "full")
    parsed = file(tmp_path, annotated(parser, full), "parsed")
    assert annotated(keep, tmp_path / "input") == annotated(ner, parsed)
    bare = file(tmp_path, ODD.replace("\tX\tXX\t", "\t_\t_\t"), "bare")
    assert annotated(en, bare) == annotated(en, tmp_path / "input")


@pytest.mark.parametrize(
    ("upos", "xpos", "stages"),
    [("X", "XX", [2, 4, 5]), ("X", "_", [1, 2, 4, 5]), ("_", "_", [0, 1, 2, 4, 5])],
)
def test_stages_that_have_nothing_to_fill_are_not_run(en, upos, xpos, stages):
    block = from_bytes(ODD.replace("\tX\tXX\t", f"\t{upos}\t{xpos}\t").encode(), "f", CONLLU)
    ran = []
    models = [Watched(model, lambda i=i: ran.append(i)) for i, model in enumerate(en.models)]
    for keep_tags, expected in ((True, stages), (False, [0, 1, 2, 3, 4, 5])):
        annotate(Pipeline(models, keep_tags), block, en.extractor, Output())
        assert ran == expected
        ran.clear()


class Watched:
    """A model that tells when it is asked to annotate."""

    def __init__(self, model, tell):
        self.model, self.tell = model, tell

    def __getattr__(self, name):
        return getattr(self.model, name)

    def annotate(self, *given):
        self.tell()
        self.model.annotate(*given)


def test_a_word_named_underscore_is_no_gap(en):
    block = from_bytes(b"1\t_\t_\t__\t_x\t_\t_\t_\t_\t_\n", "f", CONLLU)
    assert block.filled(Conll.UPOS).all()
    assert block.filled(Conll.XPOS).all()


def test_stages_one_after_the_other_by_hand(en, tmp_path):
    """A pipeline is its models in turn, each on what the one before it wrote."""
    for name, source in (("raw", to_conllu(TEXT)), ("odd", ODD.encode())):
        path = file(tmp_path, source, name)
        wanted = annotated(en, path)
        for stage in pipelines()["en"][1:]:
            path = file(tmp_path, annotated(load(stage), path), "next")
        assert path.read_text(encoding="utf-8") == wanted


def test_annotating_twice_changes_nothing(en, tmp_path):
    for marginals in (False, True):
        once = annotated(en, file(tmp_path, TEXT), marginals=marginals)
        assert annotated(en, file(tmp_path, once), marginals=marginals) == once


def test_tags_are_kept_whatever_the_blocks(en, tmp_path, monkeypatch):
    """Of two sentences one has tags; a pipe may bring them together or one after the other."""
    half = ODD + "\n\n" + ODD.replace("\tX\tXX\t", "\t_\t_\t")
    keep, path = Pipeline(en.models, True), file(tmp_path, half)
    wanted = annotated(keep, path)
    monkeypatch.setattr(module, "stream", functools.partial(reader.stream, block_bytes=64))
    assert annotated(keep, path) == wanted


def test_conllu_from_a_pipe_with_a_name(en, tmp_path):
    """As bash passes it: turbotag predict en <(command)."""
    end, begin = os.pipe()
    os.write(begin, ODD.encode())
    os.close(begin)
    try:
        assert annotated(en, f"/dev/fd/{end}") == annotated(en, file(tmp_path, ODD))
    finally:
        os.close(end)


class Pieces(io.RawIOBase):
    """A pipe that brings one piece after the other."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.pieces.pop(0).encode() if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def from_stdin(monkeypatch, stages, *pieces):
    stdin = types.SimpleNamespace(buffer=io.BufferedReader(Pieces(*pieces)))
    monkeypatch.setattr("sys.stdin", stdin)
    return annotated(stages, "-")


def test_a_pipe_that_brings_little_at_a_time(en, tmp_path, monkeypatch):
    lines = ODD.splitlines(keepends=True)
    wanted = annotated(en, file(tmp_path, ODD))
    assert from_stdin(monkeypatch, en, *lines) == wanted
    assert from_stdin(monkeypatch, en, "\ufeff" + lines[0], *lines[1:]) == "\ufeff" + wanted
    assert from_stdin(monkeypatch, en, *TEXT) == annotated(en, file(tmp_path, TEXT))


@pytest.mark.parametrize("cut", [1, 4, ODD.index("\n1\t") + 5])
def test_a_pipe_that_brings_half_of_the_first_line(en, monkeypatch, cut):
    assert from_stdin(monkeypatch, en, ODD[:cut], ODD[cut:]).startswith("# newdoc id = a\n")


def test_the_format_of_bytes_is_told_from_the_content(en):
    out = io.BytesIO()
    predict(en, ODD.encode(), out)
    assert out.getvalue().startswith(b"# newdoc id = a\n")


# ---- Names, pickles, threads ---------------------------------------------------------------------


def test_shipped_models():
    assert {"en-ner", "en-parse", "en-upos", "en-xpos", "sl-parse"} <= set(shipped())
    for name in shipped():
        model, size = load(name), store.size(find(name))
        if name.endswith("-tokenize"):
            model = model.tokenizer
        else:
            assert isinstance(model, Parser if name.endswith("parse") else Tagger)
        assert size < (18e6 if name == "en-accurate-parse" else 9e6)
        assert model.header["licence"] == "CC BY-SA 4.0"
        assert model.header["card"]["credits"]
        assert not re.search(r"/(work|home|root|tmp)\b", str(model.header))  # no paths of a machine
    assert all(set(stages) <= set(shipped()) for stages in pipelines().values())


def test_a_file_wins_over_a_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("en", "en-upos"):
        assert find("en-upos").endswith("pretrained/en.model/upos")
        load("en-ner").save(str(tmp_path / name))
        assert load(name).header["task"] == "ner"
        assert [m.header["task"] for m in pipeline(name).models] == ["ner"]
        (tmp_path / name).unlink()


def test_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("en-pos", "en-upos"):
        (tmp_path / name).mkdir()
        load(name)


def test_a_stage_has_a_path(tmp_path):
    """Whatever reads a model file reads a stage of a pipeline too, by its path."""
    tagger, model = load("en-lemma"), str(tmp_path / "one.model")
    tagger.save(model)
    path = str(tmp_path / "all.model")
    header = {"task": "pipeline", "command": "", "versions": {}, "licence": ""}
    save_bundle(path, {"a": tagger, "b": tagger}, header)
    assert (store.stages(path), store.stages(model)) == (["a", "b"], [])
    assert (store.kind(f"{path}/b"), store.kind(path)) == ("tagger", "pipeline")
    found = Tagger.load(f"{path}/b")
    assert found.header == tagger.header
    assert np.array_equal(found.weights, tagger.weights)
    assert store.size(f"{path}/a") == store.size(f"{path}/b")
    assert store.size(path) < 2 * store.size(model)  # what both have is stored once
    assert content(f"{path}/a") != content(f"{path}/b")
    with pytest.raises(DataError, match="no stage 'c': its stages are a, b"):
        Tagger.load(f"{path}/c")
    with pytest.raises(DataError, match="is a tagger, which has no stages"):
        Tagger.load(f"{model}/a")
    with pytest.raises(DataError, match="is a tagger, expected a parser"):
        Parser.load(f"{path}/a")


def test_unknown_names():
    for name in ("english", "EN", "en_parse"):
        with pytest.raises(DataError, match="is neither a file nor a shipped model") as caught:
            load(name)
        assert str(caught.value).startswith(f"{name}: ")
        assert all(known in str(caught.value) for known in pipelines())
    for name in ("none.model", "none/en", "en.model"):
        with pytest.raises(DataError, match=f"{name}: no such file"):
            load(name)


def test_pickle(en, tmp_path):
    again = pickle.loads(pickle.dumps(Pipeline(en.models, True)))
    assert again.keep_tags
    path = file(tmp_path, TEXT)
    assert annotated(again, path) == annotated(en, path)


# ---- Documents -----------------------------------------------------------------------------------


def test_a_document_without_models():
    source = "Ada can't\n\twait. “Go!”"
    found = document(source, from_bytes(to_conllu(source), "f", CONLLU))
    assert found.text == source
    assert [t.text for t in found.tokens] == ["Ada", "ca", "n't", "wait", ".", "“", "Go", "!", "”"]
    assert [source[t.start : t.end] for t in found.tokens] == [t.text for t in found.tokens]
    assert [t.id for t in found.tokens] == [1, 2, 3, 4, 5, 1, 2, 3, 4]
    assert [s.text for s in found] == ["Ada can't wait.", "“Go!”"]
    assert (len(found), [len(s) for s in found]) == (2, [5, 4])
    for t in found.tokens:
        assert t.upos is t.xpos is t.head is t.label is t.ner is None
        assert t.probabilities == {}
    assert found.entities == []
    assert found.conllu.encode() == to_conllu(source)


def test_entities_and_probabilities_of_a_document():
    source = "Ada Brandt Nordlys Energy left Oslo"
    tags = ["B-PER", "I-PER", "B-ORG", "I-ORG", "O", "I-LOC"]
    lines = [
        f"{i}\t{w}\t_\tX\tY\t_\t{i - 1}\tl\t_\t"
        f"A=b=c|NER={t}|TagProb=0.{i}|EntityProb=0.5|HeadProb=1.0"
        for i, (w, t) in enumerate(zip(source.split(), tags, strict=True), 1)
    ]
    block = from_bytes(("\n".join(lines) + "\n\n").encode(), "f", CONLLU)
    (sentence,) = document(source, block)
    assert [(e.type, e.start, e.end, e.text, e.probability) for e in sentence.entities] == [
        ("PER", 0, 2, "Ada Brandt", 0.5),
        ("ORG", 2, 4, "Nordlys Energy", 0.5),
        ("LOC", 5, 6, "Oslo", 0.5),  # as conlleval reads it
    ]
    assert [t.probabilities for t in sentence] == [
        {"ner": i / 10, "head": 1.0} for i in range(1, 7)
    ]
    assert [t.head for t in sentence] == [0, 1, 2, 3, 4, 5]


# ---- Sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "is_conll"),
    [
        ("", False),
        ("\n \n", False),
        ("Ada sings.\n", False),
        (ODD, True),
        ("\ufeff" + ODD, True),
        (ODD.replace("\n", "\r\n"), True),
        ("\n\n" + ODD, True),
        ("1-2\tcan't" + "\t_" * 8 + "\n1\tca", True),
        ("0.1\te" + "\t_" * 8, True),
        ("# sent_id = 1\n# text = cut in the mid", True),
        ("# text = " + "long " * 9000, True),
        ("# A heading\n\nAda sings.\n", False),
        ("#tag\n#other\n", False),
        ("# text = 1\nAda sings.\n", True),  # and the reader says what is wrong with it
        ("1\tAda\tNNP\n", False),
        ("a\t" * 9 + "b\n", False),  # ten columns, but no ID
        ("1. Ada sings.\n", False),
        (ODD.replace("\t", " "), True),
        ("1 Ada _ N N _ 0 root\n", True),
        ("1 Ada sang of all that she had seen there\n", False),
    ],
)
def test_looks_conll(data, is_conll):
    assert looks_conll(data.encode()) == is_conll


def test_bytes_as_a_source():
    data = ODD.encode()
    block = reader.read(data, "conllu")
    assert block.path == reader.display_name(data) == "<memory>"
    assert (block.n_tokens, block.n_sentences) == (5, 2)
    pieces = list(reader.stream(data, block_bytes=50))
    assert b"".join(p.buf.tobytes() for p in pieces) == data
    np.testing.assert_array_equal(np.concatenate([p.lines for p in pieces]), block.lines)
    assert reader.open_binary(data).read() == data
    assert reader.read(b"Ada\tX\n").format.name == "columns"
    for bad, words in ((b"", "<memory>: is empty"), (b"\n\n", "<memory>: holds no tokens")):
        with pytest.raises(DataError, match=words):
            reader.read(bad)
    with pytest.raises(DataError, match="<memory>, line 2: byte 0xff is not valid UTF-8"):
        reader.read(b"Ada\n\xff\n")
