"""Templates, attributes, gazetteers and keys, against plain Python."""

import numpy as np
import pytest

from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import read
from turbotag.errors import DataError
from turbotag.features import templates, words
from turbotag.features.extract import Extractor
from turbotag.features.gazetteer import Gazetteer


def block(tmp_path, text, format=None):
    path = tmp_path / "f"
    path.write_text(text, encoding="utf-8")
    return read(str(path), format)


TEXT = "Ada NNP O\nsings VBZ O\nin IN O\nNew NNP O\nYork NNP O\n\nLeon NNP O\nleft VBD O\n"


def names(block, extractor):
    """Readable features of every token, through the same keys that training uses."""
    found = extractor.occurrences(block)
    table = KeyTable()
    rows, first = table.insert(found.keys)
    origins = extractor.origins(found.token[first], found.which[first], found.ids, block.sentences)
    vocabulary = extractor.vocabulary()
    readable = [extractor.describe(o, vocabulary) for o in origins.tolist()]
    out = [[] for _ in range(block.n_tokens)]
    for t, r in zip(found.token.tolist(), rows.tolist(), strict=True):
        out[t].append(readable[r])
    return out


def test_templates_fire_as_written(tmp_path):
    text = "word[0]\nword[-1] pos[0]\nsuffix3[0]\nfirst\nlast\nbias\ncapital[0]\npos.prefix1[1]\n"
    got = names(block(tmp_path, TEXT), Extractor(templates.parse(text, "t")))
    assert got[0] == [
        "word[0]=Ada",
        "word[-1]=<boundary> pos[0]=NNP",
        "suffix3[0]=Ada",
        "first",
        "bias",
        "capital[0]=1",
        "pos.prefix1[1]=V",
    ]
    assert got[2] == [
        "word[0]=in",
        "word[-1]=sings pos[0]=IN",
        "bias",
        "pos.prefix1[1]=N",
    ]
    assert got[4] == [
        "word[0]=York",
        "word[-1]=New pos[0]=NNP",
        "suffix3[0]=ork",
        "last",
        "bias",
        "capital[0]=1",
        "pos.prefix1[1]=<boundary>",
    ]


def test_equal_names_have_equal_keys_and_different_names_different_keys(tmp_path):
    """On the shipped templates, over the embedded kind of text, keys and names are one to one."""
    b = block(tmp_path, TEXT)
    gaz = [Gazetteer.of("place", ["new york", "Ada"])]
    for name in ("ner", "pos", "chunk", "conll2000"):
        ex = Extractor(templates.parse(templates.load(name), name), gaz)
        found = ex.occurrences(b)
        readable = [n for token in names(b, ex) for n in token]
        assert len(set(readable)) == len(np.unique(found.keys))


def test_conll2000_has_nineteen_templates():
    assert len(templates.parse(templates.load("conll2000"), "")) == 19


def test_gazetteers_match_longest_names_without_regard_to_case(tmp_path):
    gaz = Gazetteer.of("g", ["York", "new york", "Ada", "new york city hall"])
    b = block(tmp_path, TEXT)
    got = names(b, Extractor(templates.parse("gaz[0]\ngaz[0] word[0]", "t"), [gaz]))
    assert got[0] == ["gaz:g[0]=U", "gaz:g[0]=U word[0]=Ada"]
    assert got[1] == []
    assert got[3][0] == "gaz:g[0]=B"
    assert got[4][0] == "gaz:g[0]=L"
    assert got[5] == []


def test_gazetteers_match_names_that_are_cut_into_words(tmp_path):
    gaz = Gazetteer.of("g", ["Coca-Cola", "Macy's", "Rolls-Royce's Club"])
    words = "Coca - Cola and Macy 's Coca-Cola ROLLS - royce 's club"
    text = block(tmp_path, words.replace(" ", " O\n") + " O\n")
    got = names(text, Extractor(templates.parse("gaz[0]", "t"), [gaz]))
    marks = [n[0][-1] if n else "-" for n in got]
    assert marks == list("BIL-BLUBIIIL")


def test_gazetteer_files(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("# names\n\nNew York\n", encoding="utf-8")
    assert Gazetteer.read("g", str(path)).prefixes.size == 2
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no names"):
        Gazetteer.read("g", str(path))


def test_crfsuite_attributes_with_values_and_escapes(tmp_path):
    b = block(tmp_path, "A\tx:0.5\ty\\:z\tw\\\\:2\nB\tx\t\tlast=1\nB\ta\tb\tc\td\n", "crfsuite")
    ex = Extractor(templates.parse("attributes\nbias", "t"))
    found = ex.occurrences(b)
    got = names(b, ex)
    assert got[0] == ["x", "y:z", "w\\", "bias"]
    assert got[1] == ["x", "last=1", "bias"]
    assert found.values[:3].tolist() == [0.5, 1.0, 2.0]
    assert found.token.tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]
    assert found.keys[0] == found.keys[4]


@pytest.mark.parametrize("number", ["1e11", "-1e11", "1e39", "inf", "-inf"])
def test_huge_attribute_values_are_refused(tmp_path, number):
    """A sum of them must fit into the float32 scores of a tagger."""
    extractor = Extractor(templates.parse("attributes", "t"))
    extractor.occurrences(block(tmp_path, "A\ta:1e10\tb:-1e10\n", "crfsuite"))
    with pytest.raises(DataError, match=rf"line 1: '{number}' in 'c:{number}' is beyond 1e\+10"):
        extractor.occurrences(block(tmp_path, f"A\tc:{number}\n", "crfsuite"))


def test_bad_attribute_value_names_the_line(tmp_path):
    with pytest.raises(DataError, match=r"line 2: 'x' in 'b:x' is not a number"):
        Extractor(templates.parse("attributes", "t")).occurrences(
            block(tmp_path, "A\ta\nB\tb:x\tc\n", "crfsuite")
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("word[0]\nword", "line 2"),
        ("word[1..", "not a template"),
        ("nosuch.attr[0]", "not a template"),
        ("word[99]", "not a template"),
        ("word[-1..1] pos[0]", "range"),
        ("word[0]\n\nword[0]", "on line 1 too"),
        ("# nothing", "no templates"),
        ("word[0] word[1] word[2] word[3] word[4]", "at most 4"),
    ],
)
def test_bad_template_files(text, words):
    with pytest.raises(DataError) as error:
        templates.parse(text, "my.txt")
    assert words in str(error.value)
    assert "my.txt" in str(error.value)


def test_missing_column_is_named(tmp_path):
    ex = Extractor(templates.parse("lemma[0]", "t"))
    with pytest.raises(DataError, match="need column 'lemma'"):
        ex.occurrences(block(tmp_path, TEXT))


def test_word_attributes():
    assert words.shape("McDonald's-7") == "XxXxxxxx'x-0"
    assert words.short_shape("McDonald's-77") == "XxXx'x-0"
    assert words.attribute("suffix4")("cat") == ""
    assert words.attribute("prefix2")("cat") == "ca"
    assert words.attribute("nothing") is None
    flags = {
        "capital": "Ada",
        "allcaps": "NATO",
        "mixedcase": "iPod",
        "digit": "B52",
        "number": "1,000.5",
    }
    flags |= {"hyphen": "a-b", "punctuation": "...", "abbreviation": "Mr."}
    for name, word in flags.items():
        assert words.attribute(name)(word) == "1", name
        assert words.attribute(name)("cat") == "", name


def test_an_extractor_forgets_but_keys_stay(tmp_path, monkeypatch):
    ex = Extractor(templates.parse("word[0]\nsuffix2[0]", "t"))
    b = block(tmp_path, TEXT)
    first = ex.occurrences(b).keys.tolist()
    monkeypatch.setattr("turbotag.features.extract.MAX_STRINGS", 0)
    assert ex.occurrences(b).keys.tolist() == first
