"""scripts/data on tiny files of our own in the layouts of the licensed corpora."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCRIPTS = Path(__file__).parents[1] / "scripts"
if not SCRIPTS.is_dir():
    pytest.skip("scripts/ is not here", allow_module_level=True)
sys.path[:0] = [str(SCRIPTS / "data"), str(SCRIPTS)]

import conversions  # noqa: E402
import penn  # noqa: E402
import prepare  # noqa: E402

import corpora  # noqa: E402
from turbotag.corpus.reader import read  # noqa: E402
from turbotag.corpus.trees import crossing, read_heads  # noqa: E402
from turbotag.errors import DataError  # noqa: E402

NER = """-DOCSTART- -X- -X- O

Ada NNP I-NP I-PER
Lind NNP I-NP I-PER
Bo NNP B-NP B-PER
met VBD I-VP O
Oslo NNP I-NP I-LOC
Bank NNP I-NP I-ORG

She PRP I-NP O
sang VBD I-VP O
"""
NER_IOB2 = """-DOCSTART- -X- -X- O

Ada NNP B-NP B-PER
Lind NNP I-NP I-PER
Bo NNP B-NP B-PER
met VBD B-VP O
Oslo NNP B-NP B-LOC
Bank NNP I-NP B-ORG

She PRP B-NP O
sang VBD B-VP O
"""
CONLLX = """1\tAda\tada\tN\tNp\tnum=s|gen=f\t2\tsbj\t2\tsbj
2\tpoje\tpeti\tV\tVm\t_\t0\tpred\t0\tpred
3\t.\t.\tZ\tZ\t_\t0\tpunct\t_\t_

1\tPoje\tpeti\tV\tVm\t_\t0\tpred\t_\t_

"""
CONLL2008 = """1\tAda\tada\tNNP\tNNP\tAda\tada\tNNP\t2\tSBJ\t_\tA0\t_
2\tsold\tsell\tVBD\tVBD\tsold\tsell\tVBD\t0\tROOT\tsell.01\t_\t_
3\tice-boats\tice-boat\tNNS\tNNS\tice\tice\tNN\t5\tNMOD\t_\t_\tA1
4\t_\t_\t_\t_\t-\t-\tHYPH\t5\tHYPH\t_\t_\t_
5\t_\t_\t_\t_\tboats\tboat\tNNS\t2\tOBJ\tboat.01\tA1\t_
6\t.\t.\t.\t.\t.\t.\t.\t2\tP\t_\t_\t_

1\tYes\tyes\tUH\tUH\tYes\tyes\tUH\t0\tROOT\t_
"""
TREE = """
( (S
    (NP-SBJ-1 (DT The) (JJ old) (NN boat) )
    (VP (MD will)
      (VP (VB carry)
        (NP (NNS apples) (CC and) (NNS pears) )
        (NP-TMP (NN today) )
        (SBAR (-NONE- 0)
          (S (NP-SBJ (-NONE- *-1) ) (VP (TO to) (VP (VB sell) (NP (PRP them) )))))))
    (. .) ))
"""
POS = """*x*x* nobody's copyright *x*x*

[ The/DT boat/NN ]
sank/VBD ./. ''/'' It/PRP
hit/VBD
[ 1\\/2/CD rock/NN ]
======================================

[ Mr./NNP Lind/NNP ]
"""


def run(*arguments):
    return prepare.main([str(a) for a in arguments])


def write(folder, files):
    paths = []
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return paths


def refused(capsys, data, *arguments):
    """The one sentence of an error; nothing may be left of the attempt."""
    code = run(*arguments, "-o", data)
    error = capsys.readouterr().err
    assert code == 1, error
    assert error.startswith("scripts/data: ")
    assert error.count("\n") == 1
    assert not data.exists() or not [p for p in data.rglob("*") if p.is_file()]
    return error.removeprefix("scripts/data: ").strip()


@pytest.fixture
def ner_files(tmp_path):
    return write(tmp_path, {f"eng.{part}": NER for part in ("train", "testa", "testb")})


def fake_table(monkeypatch, name, **changes):
    real = corpora.table()
    real[name] = {**real[name], **changes}
    monkeypatch.setattr(corpora, "table", lambda: real)


# The table of corpora


def test_table_is_complete():
    for name, corpus in corpora.table().items():
        assert {"what", "licence", "get", "files"} <= set(corpus), name
        assert corpus["files"], name
        published = corpus.get("published", {})
        languages = published.get("languages", {"": published.get("files", {})})
        for files in languages.values():
            assert set(files) <= set(corpus["files"]), name
        assert not published or published["source"]
        sums = [f["sha256"] for f in corpus["files"].values() if f]
        sums += corpus.get("checksums", {"sha256": {}})["sha256"].values()
        assert all(re.fullmatch("[0-9a-f]{64}", s) for s in sums), name
        known = corpus.get("checksums", {"sha256": {}})["sha256"]
        for file, value in known.items():
            assert corpus["files"][file].get("sha256", value) == value


def test_missing_is_one_sentence_that_names_files_and_command(tmp_path):
    for name in corpora.table():
        sentence = corpora.missing(tmp_path, name)
        assert sentence.startswith(f"{name}: no ")
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert "licence: " in sentence
    assert "--language sl " in corpora.missing(tmp_path, "conllx-sl")
    write(tmp_path, {"conllx-sl/train.conllu": "", "conllx-sl/test.conllu": ""})
    assert corpora.missing(tmp_path, "conllx-sl") is None
    (tmp_path / "conllx-sl" / "test.conllu").unlink()
    assert corpora.missing(tmp_path, "conllx-sl").startswith("conllx-sl: no test.conllu in ")
    for name in ("nothing", "conllx-"):
        with pytest.raises(KeyError, match="no corpus"):
            corpora.missing(tmp_path, name)


# CoNLL-2003


def test_conll2003_becomes_iob2_with_a_manifest(tmp_path, ner_files, capsys):
    data = tmp_path / "data"
    assert run("conll2003", *ner_files, "-o", data, "--any-size") == 0
    out = capsys.readouterr().out
    assert "2 sentences, 8 tokens, 1 LOC, 0 MISC, 1 ORG, 2 PER" in out
    assert "no published checksum known; the layout is right, the counts are others" in out
    assert sorted(p.name for p in (data / "conll2003").iterdir()) == [
        "manifest.json",
        "testa.txt",
        "testb.txt",
        "train.txt",
    ]
    for file in ("train.txt", "testa.txt", "testb.txt"):
        assert (data / "conll2003" / file).read_text() == NER_IOB2
    made = json.loads((data / "conll2003" / "manifest.json").read_text())
    assert made["command"].startswith("scripts/data conll2003 ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made["date"])
    record = made["files"]["train.txt"]
    assert record["source"]["path"] == str(ner_files[0])
    assert record["source"]["sha256"] == prepare.sha256(str(ner_files[0]))
    assert record["sha256"] == prepare.sha256(str(data / "conll2003" / "train.txt"))
    assert record["PER"] == 2
    assert corpora.missing(data, "conll2003") is None


def test_iob2_and_crlf_pass_unchanged(tmp_path, capsys):
    files = write(tmp_path, {f"{i}.txt": NER_IOB2.replace("\n", "\r\n") for i in range(3)})
    assert run("conll2003", *files, "-o", tmp_path / "data", "--any-size") == 0
    assert (tmp_path / "data" / "conll2003" / "testb.txt").read_bytes() == files[2].read_bytes()


def test_tags_of_two_schemes_are_read_as_conlleval_does(tmp_path, ner_files, capsys):
    mixed = NER.replace("Oslo NNP I-NP I-LOC", "Oslo NNP I-NP B-LOC")
    (path,) = write(tmp_path, {"mixed": mixed})
    data = tmp_path / "data"
    assert run("conll2003", path, *ner_files[1:], "-o", data, "--any-size") == 0
    told = f"{path}, line 7: the first of 1 tags that do not fit IOB1"
    assert told in capsys.readouterr().out
    assert told in json.loads((data / "conll2003" / "manifest.json").read_text())["remarks"][0]
    assert (data / "conll2003" / "train.txt").read_text() == NER_IOB2


def test_counts_and_checksums(tmp_path, ner_files, monkeypatch, capsys):
    """Refused with other counts; the right ones and a known checksum are said to be so."""
    data = tmp_path / "data"
    error = refused(capsys, data, "conll2003", *ner_files)
    assert error.startswith(f"{ner_files[0]}: given as train.txt has 2 sentences, not 14,041; ")
    assert "1 LOC, not 7,140" in error
    assert error.endswith("--any-size takes it all the same")

    right = {"sentences": 2, "tokens": 8, "LOC": 1, "MISC": 0, "ORG": 1, "PER": 2}
    published = dict.fromkeys(("train.txt", "testa.txt", "testb.txt"), right)
    known = {"source": "a page", "sha256": {"testa.txt": prepare.sha256(str(ner_files[1]))}}
    paper = {"source": "a paper", "files": published}
    fake_table(monkeypatch, "conll2003", published=paper, checksums=known)
    assert run("conll2003", *ner_files, "-o", data) == 0
    out = capsys.readouterr().out
    assert out.count("no published checksum known; layout and counts agree with a paper") == 2
    assert out.count("the checksum is that of a page") == 1

    published = {"train.txt": {"tokens": 9}, "testa.txt": {"tokens": 8}}
    fake_table(monkeypatch, "conll2003", published={"source": "a paper", "files": published})
    error = refused(capsys, tmp_path / "other", "conll2003", *ner_files)
    assert "8 tokens, not 9 (a paper): it has the counts of testa.txt" in error


def test_existing_files_are_not_replaced(tmp_path, ner_files, capsys):
    data = tmp_path / "data"
    (data / "conll2003").mkdir(parents=True)
    (data / "conll2003" / "testb.txt").write_text("mine\n")
    (data / "conll2003" / "notes.txt").write_text("mine too\n")
    assert run("conll2003", *ner_files, "-o", data, "--any-size") == 1
    error = capsys.readouterr().err
    assert f"{data / 'conll2003' / 'testb.txt'}: is there already: --force replaces it" in error
    assert (data / "conll2003" / "testb.txt").read_text() == "mine\n"
    assert not (data / "conll2003" / "train.txt").exists()
    assert run("conll2003", *ner_files, "-o", data, "--any-size", "--force") == 0
    assert (data / "conll2003" / "testb.txt").read_text() == NER_IOB2
    assert (data / "conll2003" / "notes.txt").read_text() == "mine too\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (re.sub(" [BI]-[NV]P", "", NER), 3, "expected 4 columns (word POS chunk tag), found 3"),
        (NER.replace("She PRP I-NP O", "She PRP O"), 10, "expected 4 columns, found 3"),
        (NER.replace("I-LOC", "I-WORK"), 7, "tag 'I-WORK' is not O, I-LOC, I-MISC, I-ORG, I-PER"),
        (NER.replace("I-LOC", "LOC"), 7, "tag 'LOC' is not O"),
        (NER.encode().replace(b"Oslo", b"Troms\xf8"), 7, "byte 0xf8 is not valid UTF-8"),
        (b"", None, "is empty"),
        (b"\n\n", None, "holds no tokens"),
    ],
)
def test_conll2003_errors_name_file_and_line(tmp_path, ner_files, capsys, text, line, message):
    (bad,) = write(tmp_path, {"bad": text})
    arguments = ("conll2003", ner_files[0], bad, ner_files[2], "--any-size")
    error = refused(capsys, tmp_path / "data", *arguments)
    where = f"{bad}: " if line is None else f"{bad}, line {line}: "
    assert error.startswith(where + message)


def test_missing_sources_and_folders(tmp_path, ner_files, capsys):
    arguments = ("conll2003", ner_files[0], tmp_path / "none", ner_files[2])
    assert "none: no such file" in refused(capsys, tmp_path / "data", *arguments)
    assert "is not a folder" in refused(capsys, tmp_path / "data", "wsj", tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert run("conll2003", *ner_files, "-o", tmp_path / "file", "--any-size") == 1
    assert "cannot be written" in capsys.readouterr().err


def test_a_failed_write_leaves_nothing(tmp_path, ner_files, monkeypatch, capsys):
    done = []

    def failing(path, data):
        if len(done) == 2:
            raise DataError("cannot be written: no space left on the device", path)
        Path(path).write_bytes(data)
        done.append(path)

    monkeypatch.setattr(prepare, "write_atomically", failing)
    error = refused(capsys, tmp_path / "data", "conll2003", *ner_files, "--any-size")
    assert error.endswith("no space left on the device")
    assert len(done) == 2
    assert not (tmp_path / "data" / "conll2003").exists()


def test_what_reads_back_otherwise_is_not_installed(tmp_path, ner_files, monkeypatch, capsys):
    real = conversions.ner_file

    def wrong(path, file, remarks):
        result = real(path, file, remarks)
        result.words[0] = "Adam"
        return result

    monkeypatch.setattr(conversions, "ner_file", wrong)
    error = refused(capsys, tmp_path / "data", "conll2003", *ner_files, "--any-size")
    assert "is not what was to be written" in error


# CoNLL-X and CoNLL-2008


def test_conllx_becomes_conllu(tmp_path, capsys):
    files = write(tmp_path, {"train.conll": CONLLX, "test.conll": CONLLX})
    data = tmp_path / "data"
    assert run("conllx", *files, "--language", "xx", "-o", data) == 0
    assert "no published checksum or counts known; the layout is right" in capsys.readouterr().out
    lines = (data / "conllx-xx" / "train.conllu").read_text().split("\n")
    assert lines[0] == "1\tAda\tada\tN\tNp\tnum=s|gen=f\t2\tsbj\t_\t_"
    assert len(lines) == len(CONLLX.split("\n"))
    block = read(str(data / "conllx-xx" / "test.conllu"))
    assert block.format.name == "conllu"
    assert read_heads(block).tolist() == [2, 0, 0, 0]
    assert corpora.missing(data, "conllx-xx") is None
    error = refused(capsys, tmp_path / "other", "conllx", *files, "--language", "sl")
    assert "given as train.conllu has 2 sentences, not 1,534; 4 tokens, not 28,750" in error


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\t2\tsbj\t2", "\t_\tsbj\t2", 1, "head is missing"),
        ("\t0\tpred\t0", "\t1\tpred\t0", 1, "the heads of words 1, 2 form a cycle"),
        ("3\t.", "4\t.", 3, "expected ID 3, found '4'"),
        ("3\t.\t.", "3\t.", 3, "expected 10 columns, found 9"),
        ("\t0\tpunct", "\t9\tpunct", 3, "head 9 is outside the sentence"),
    ],
)
def test_conllx_errors(tmp_path, capsys, old, new, line, message):
    assert old in CONLLX
    files = write(tmp_path, {"train.conll": CONLLX, "test.conll": CONLLX.replace(old, new, 1)})
    error = refused(capsys, tmp_path / "data", "conllx", *files, "--language", "xx")
    assert error.startswith(f"{files[1]}, line {line}: {message}")


@pytest.mark.parametrize("language", ["", "../up", "Slovene", "s"])
def test_language_is_a_code(tmp_path, capsys, language):
    files = write(tmp_path, {"train.conll": CONLLX, "test.conll": CONLLX})
    assert run("conllx", *files, "--language", language, "-o", tmp_path / "data") == 2
    assert "is not a code such as sl" in capsys.readouterr().err


def test_conll2008_keeps_split_words(tmp_path, capsys):
    blanks = CONLL2008.replace("\t", " ").rstrip("\n")
    bare = "\n".join("\t".join(line.split("\t")[:10]) for line in CONLL2008.split("\n"))
    files = write(tmp_path, {"train.closed": CONLL2008, "dev": blanks, "test": bare})
    data = tmp_path / "data"
    assert run("conll2008", *files, "-o", data, "--any-size") == 0
    texts = [(data / "conll2008" / f"{n}.conllu").read_text() for n in ("train", "dev", "test")]
    assert texts[0].split("\n")[2:5] == [
        "3\tice\tice\tNN\tNN\t_\t5\tNMOD\t_\t_",
        "4\t-\t-\tHY\tHYPH\t_\t5\tHYPH\t_\t_",
        "5\tboats\tboat\tNN\tNNS\t_\t2\tOBJ\t_\t_",
    ]
    assert texts[0].split("\n")[5] == "6\t.\t.\tPUNCT\t.\t_\t2\tP\t_\t_"
    assert texts[0].strip() == texts[1].strip() == texts[2].strip()
    assert "2 sentences, not 39,279" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\tSBJ\t_\tA0\t_", "\tSBJ\t_\tA0", 1, "expected 13 columns in a sentence with 2 pred"),
        ("\tROOT\t_", "\tROOT\tyes.01", 8, "expected 12 columns in a sentence with 1 predicates"),
        ("\t2\tP\t_\t_\t_", "", 6, "expected at least 10 columns (ID FORM LEMMA GPOS"),
        ("\t2\tSBJ\t", "\t2\t2\t", 1, "DEPREL, column 10, is the number 2: is it CoNLL-2009?"),
        ("\t2\tP\t", "\t7\tP\t", 6, "head 7 is outside the sentence: expected 0 to 6"),
        ("6\t.\t", "5\t.\t", 6, "expected ID 6, found '5'"),
        ("ada\tNNP\t2", "ada\tNNP\t_", 1, "head is missing"),
    ],
)
def test_conll2008_errors(tmp_path, capsys, old, new, line, message):
    assert old in CONLL2008
    files = write(tmp_path, {"a": CONLL2008, "b": CONLL2008.replace(old, new), "c": CONLL2008})
    error = refused(capsys, tmp_path / "data", "conll2008", *files, "--any-size")
    assert error.startswith(f"{files[1]}, line {line}: {message}")


# The Penn Treebank


def test_tree_to_dependencies():
    (sentence,) = penn.trees(TREE, "x.mrg")
    rows = zip(sentence.words, sentence.tags, sentence.heads, sentence.labels, strict=True)
    assert list(rows) == [
        ("The", "DT", 3, "NMOD"),
        ("old", "JJ", 3, "NMOD"),
        ("boat", "NN", 4, "SUB"),
        ("will", "MD", 0, "ROOT"),
        ("carry", "VB", 4, "VC"),
        ("apples", "NNS", 5, "OBJ"),
        ("and", "CC", 6, "NMOD"),
        ("pears", "NNS", 6, "NMOD"),
        ("today", "NN", 5, "VMOD"),
        ("to", "TO", 5, "VMOD"),
        ("sell", "VB", 10, "VC"),
        ("them", "PRP", 11, "OBJ"),
        (".", ".", 4, "P"),
    ]


@pytest.mark.parametrize(
    ("category", "children", "head"),
    [
        ("S", "NP VP .", 1),
        ("S", "`` NP VP ''", 2),
        ("S", "S , CC S", 0),  # what stands before the CC, past the comma
        ("VP", "VBD NP PP", 0),
        ("VP", "MD VP", 0),
        ("VP", "VP CC VP", 0),
        ("NP", "DT JJ NN", 2),
        ("NP", "NP PP", 0),
        ("NP", "NP POS", 1),  # the last word is POS
        ("NP", "NN CC NN", 0),
        ("NP", "NNP , NNP CC NNP", 2),
        ("NP", "DT CD", 1),
        ("NP", "DT VBG", 1),  # nothing of the table: the last
        ("NX", "NN NN", 1),
        ("PP", "IN NP", 0),
        ("PP", "ADVP IN NP", 1),
        ("PP", "VBG IN", 1),  # IN is wanted more, though it stands behind
        ("SBAR", "IN S", 0),
        ("SBAR", "WHNP S", 0),
        ("ADVP", "RB RB", 1),
        ("QP", "IN CD", 0),
        ("PRN", "-LRB- NP -RRB-", 1),
        ("FRAG", "NP : NP .", 2),
        ("X", "NP VP", 0),  # not in the table
        ("", "S .", 0),
        ("NP", ", .", 1),  # nothing but punctuation
    ],
)
def test_head_table(category, children, head):
    assert penn.head_child(category, children.split()) == head


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("( (S (NP (NN boat)))", 1, "the bracket of line 1 is not closed"),
        ("( (NN boat))\n)", 2, "a bracket closes that was not opened"),
        ("( (NN boat))\nboat", 2, "expected '(', found 'boat'"),
        ("(S\n(NN boat) sinks)", 2, "word 'sinks' has no bracket and tag of its own"),
        ("(S\n(NN big boat))", 2, "word 'boat' has no bracket and tag of its own"),
        ("(S\n(NN boat (VB sinks)))", 2, "a bracket opens beside a word"),
        ("(S (NN boat)\n(VP))", 2, "expected (TAG word) or (LABEL (...) ...)"),
        ("(S (NN boat)\n())", 2, "expected (TAG word) or (LABEL (...) ...)"),
    ],
)
def test_bracket_errors(text, line, message):
    with pytest.raises(DataError) as caught:
        list(penn.trees(text, "x.mrg"))
    assert str(caught.value) == f"x.mrg, line {line}: {message}"


def test_traces_and_depth():
    assert list(penn.trees("( (S (NP (-NONE- *)) (VP (-NONE- *))))", "x")) == []
    deep = 50_000
    (sentence,) = penn.trees("(S " * deep + "(NN boat)" + ")" * deep, "x")
    assert sentence.words == ["boat"]
    assert sentence.heads == [0]


LABELS = ["S", "NP-SBJ", "VP", "PP-LOC=1", "ADVP|PRT", "SBAR", "PRN", "X", "WHNP-2", "QP", "UCP"]
TAGS = ["NN", "VBD", "CC", ",", ".", "``", "-LRB-", "POS", "-NONE-", "IN", "$"]
LEAVES = st.sampled_from(TAGS).map(lambda tag: f"({tag} w)")
TREES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(LABELS), st.lists(inner, min_size=1, max_size=5)).map(
        lambda node: f"({node[0]} {' '.join(node[1])})"
    ),
    max_leaves=25,
)


@settings(deadline=None)
@given(TREES)
def test_any_tree_gives_one_projective_dependency_tree(tree):
    words = len(re.findall(r" w\)", tree)) - tree.count("(-NONE- ")
    found = list(penn.trees(f"( {tree})", "x"))
    assert len(found) == (words > 0)
    if words:
        heads = np.array(found[0].heads, np.int32)
        assert len(heads) == words
        assert (heads == 0).sum() == 1
        for m in range(words):
            seen, h = set(), m + 1
            while h:
                assert h not in seen
                seen.add(h)
                h = int(heads[h - 1])
        assert not crossing(heads, np.array([0, words])).any()
        assert all(found[0].labels)


def test_tagged_files():
    found = list(penn.tagged(POS, "x.pos"))
    assert [s.words for s in found] == [
        ["The", "boat", "sank", ".", "''"],
        ["It", "hit", "1\\/2", "rock"],
        ["Mr.", "Lind"],
    ]
    assert found[1].tags == ["PRP", "VBD", "CD", "NN"]
    with pytest.raises(DataError, match=r"x.pos, line 2: expected word/TAG, found 'boat'"):
        list(penn.tagged("The/DT\nboat\n", "x.pos"))


def treebank(folder, text=TREE, ending="mrg", sections=range(25)):
    write(folder, {f"{s:02}/wsj_{s:02}01.{ending}": text for s in sections})
    return folder


def test_wsj_sections(tmp_path, capsys):
    treebank(tmp_path / "penn" / "parsed" / "mrg" / "wsj")
    write(tmp_path / "penn", {"parsed/mrg/brown/cf01.mrg": "(not wsj", "tagged/wsj_0001.pos": POS})
    data = tmp_path / "data"
    assert run("wsj", tmp_path / "penn", "-o", data, "--any-size", "--dev-section", 24) == 0
    out = capsys.readouterr().out
    counts = {
        f"{n}/{f}": read(str(data / n / f)).n_sentences
        for n in ("wsj", "wsj-pos")
        for f in corpora.entry(n)["files"]
    }
    assert counts == {
        "wsj/train.conllu": 20,
        "wsj/dev.conllu": 1,
        "wsj/test.conllu": 1,
        "wsj-pos/train.txt": 19,
        "wsj-pos/dev.txt": 3,
        "wsj-pos/test.txt": 3,
    }
    assert "wsj: dev.conllu is section 24" in out
    assert "1 sentences, not 1,346" in out
    lines = (data / "wsj" / "test.conllu").read_text().split("\n")
    assert lines[0] == "1\tThe\t_\tDT\tDT\t_\t3\tNMOD\t_\t_"
    assert lines[12] == "13\t.\t_\tPUNCT\t.\t_\t4\tP\t_\t_"
    assert (data / "wsj-pos" / "dev.txt").read_text().startswith("The\tDT\nold\tJJ\n")
    made = json.loads((data / "wsj" / "manifest.json").read_text())
    assert made["files"]["test.conllu"]["source"]["files"] == 25
    assert run("check", data) == 0
    assert capsys.readouterr().out.count("unchanged since it was made on ") == 6


def test_wsj_from_tagged_files_alone(tmp_path, capsys):
    folder = treebank(tmp_path / "penn", POS, "POS")
    data = tmp_path / "data"
    assert run("wsj", folder, "-o", data) == 0
    out = capsys.readouterr().out
    assert "the published counts are of the parsed files (.mrg): these were not compared" in out
    assert not (data / "wsj").exists()
    assert read(str(data / "wsj-pos" / "train.txt")).n_sentences == 3 * 19


def test_wsj_errors(tmp_path, capsys):
    data = tmp_path / "data"
    (tmp_path / "empty").mkdir()
    assert "has no files wsj_0001.mrg or" in refused(capsys, data, "wsj", tmp_path / "empty")
    part = treebank(tmp_path / "part", sections=[s for s in range(25) if s not in (3, 17)])
    assert refused(capsys, data, "wsj", part) == f"{part}: has no files of section 3, 17"
    folder = treebank(tmp_path / "penn")
    assert "given as train.conllu has 20 sentences, not 39,832" in refused(
        capsys, data, "wsj", folder
    )
    (again,) = write(folder, {"copy/wsj_0301.mrg": TREE})
    assert "is there twice" in refused(capsys, data, "wsj", folder, "--any-size")
    again.unlink()
    (bad,) = write(folder, {"23/wsj_2302.mrg": TREE + "\n( (S (NN boat)"})
    error = refused(capsys, data, "wsj", folder, "--any-size")
    assert error.startswith(f"{bad}, line ")
    bad.unlink()
    write(folder, {"22/wsj_2201.mrg": "( (S (-NONE- *)))"})
    error = refused(capsys, data, "wsj", folder, "--any-size")
    assert error == f"{folder}: has no sentence for dev.conllu"


# What is there


def test_check_of_nothing(tmp_path, capsys):
    assert run("check", tmp_path / "none") == 0
    out, error = capsys.readouterr()
    assert "no such folder" in error
    for name in corpora.table():
        assert f"\n{name}: no " in "\n" + out
    assert "0 corpora are there: none" in out


def test_check_tells_known_other_changed_and_damaged(tmp_path, ner_files, monkeypatch, capsys):
    conllu = "1\tAda\t_\tX\tX\t_\t0\troot\t_\t_\n\n"
    write(
        tmp_path,
        {
            "data/ewt/train.conllu": conllu,
            "data/ewt/dev.conllu": conllu * 2,
            "data/gothic/train.conllu": conllu.replace("\t0\t", "\t1\t"),
            "data/conllx-xx/test.conllu": conllu,
            "data/gazetteers/countries.txt": "Norway\n\nPeru\n",
            "data/ocr/test.crfsuite": "a\tp1\tp2\nb\tp3\tp4\n\nc\tp9\tp10\n\n",
        },
    )
    data = tmp_path / "data"
    known = prepare.sha256(str(data / "ewt" / "train.conllu"))
    files = corpora.table()["ewt"]["files"]
    files["train.conllu"]["sha256"] = known
    fake_table(monkeypatch, "ewt", files=files)
    assert run("conll2003", *ner_files, "-o", data, "--any-size") == 0
    capsys.readouterr()

    assert run("check", data) == 1
    out, error = capsys.readouterr()
    assert "  train.conllu: 1 sentences, 1 tokens: the file that this project's figures" in out
    assert "  dev.conllu: 2 sentences, 2 tokens: not the file that was measured here (2,001" in out
    assert "ewt: no test.conllu in " in out
    assert "gothic/train.conllu, line 1: word 1 is its own head" in out
    assert "  test.conllu: 1 sentences, 1 tokens: not made by this script" in out
    assert "  countries.txt: 2 names: not the file" in out
    assert "  test.crfsuite: 2 sequences, 3 items: not the file" in out
    assert out.count("2 sentences, 8 tokens: unchanged since it was made on ") == 3
    assert "conllx-xx: no train.conllu in " in out
    assert "conllx-LANG" not in out
    assert "1 corpora are there: conll2003" in out
    assert "1 files are damaged or were changed" in error

    with open(data / "conll2003" / "testa.txt", "a") as f:
        f.write("\nAda NNP B-NP B-PER\n")
    assert run("check", data) == 1
    out, error = capsys.readouterr()
    assert "  testa.txt: 3 sentences, 9 tokens: CHANGED since it was made on " in out
    assert "2 files are damaged or were changed" in error
    (data / "conll2003" / "manifest.json").write_text("{}")
    assert run("check", data) == 1
    assert "manifest.json: has no readable record of train.txt" in capsys.readouterr().out


def test_usage(capsys):
    for arguments, code in ((["--help"], 0), (["wsj", "--help"], 0), ([], 2), (["chess"], 2)):
        with pytest.raises(SystemExit) as caught:
            run(*arguments)
        assert caught.value.code == code
    assert "--any-size" in capsys.readouterr().out


def test_as_a_program(tmp_path, ner_files):
    script = [sys.executable, str(SCRIPTS / "data")]
    for arguments, code in (
        (["conll2003", "one", "-o", "x"], 2),
        (["conll2003", *map(str, ner_files), "-o", str(tmp_path / "data"), "--any-size"], 0),
        (["conll2003", *map(str, ner_files), "-o", str(tmp_path / "data"), "--any-size"], 1),
        (["check", str(tmp_path / "data")], 0),
    ):
        done = subprocess.run(script + arguments, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
