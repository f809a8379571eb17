"""Annotated sentences as JSON lines, CoNLL-U, columns and spans."""

import json

import pytest

from turbotag.corpus.export import Export, spell
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes, read

COMMENTS = "# newdoc\n# sent_id = 7\n# text = Don't go to New York.\n"
ROWS = """
1-2 Don't _ _ _ _ _ _ _ start_char=0|end_char=5
1 Do do AUX VB _ 3 aux _ NER=O
2 n't not PART RB _ 3 advmod _ NER=O
3 go go VERB VB Mood=Imp 0 root _ NER=O|start_char=6|end_char=8|HeadProb=0.9100|TagProb=0.8000
4 to to ADP IN _ 6 case _ NER=O|start_char=9|end_char=11
5 New New PROPN NNP _ 6 compound _ NER=B-LOC|start_char=12|end_char=15|EntityProb=0.7000
6 York York PROPN NNP _ 3 obl _ NER=I-LOC|SpaceAfter=No|start_char=16|end_char=20
7 . . PUNCT . _ 3 punct _ NER=O|start_char=20|end_char=21

1 Yes yes INTJ UH _ 0 root _ NER=O

"""
TREES = COMMENTS + ROWS[1:].replace(" ", "\t")


def block():
    return from_bytes(TREES.encode(), "x", CONLLU)


def test_json():
    first, second = map(json.loads, Export("json").text(block()).decode().splitlines())
    assert first["text"] == "Don't go to New York."
    assert first["sent_id"] == "7"
    assert first["multiwords"] == [{"first": 1, "last": 2, "text": "Don't"}]
    assert first["tokens"][2] == {
        "id": 3,
        "text": "go",
        "lemma": "go",
        "upos": "VERB",
        "xpos": "VB",
        "feats": "Mood=Imp",
        "head": 0,
        "label": "root",
        "ner": "O",
        "start": 6,
        "end": 8,
        "probabilities": {"ner": 0.8, "head": 0.91},
    }
    assert first["tokens"][5]["misc"] == {"SpaceAfter": "No"}
    assert first["entities"] == [
        {
            "type": "LOC",
            "start": 4,
            "end": 6,
            "text": "New York",
            "start_char": 12,
            "end_char": 20,
            "probability": 0.7,
        }
    ]
    assert "entities" not in second
    assert "text" not in second


def test_spans():
    export = Export("spans")
    header, line = export.text(block()).decode().splitlines()
    assert header.split("\t")[:3] == ["sentence", "first", "last"]
    assert line == "1\t5\t6\t12\t20\tLOC\t0.7\tNew York"
    again = export.text(block()).decode().splitlines()  # the next block of a file
    assert again == ["3\t5\t6\t12\t20\tLOC\t0.7\tNew York"]


def test_columns_are_those_of_the_first_block():
    export = Export("columns")
    lines = export.text(block()).decode().split("\n")
    assert lines[4] == "New\tNew\tPROPN\tNNP\t_\t6\tcompound\tB-LOC"
    assert lines[7:10] == ["", "Yes\tyes\tINTJ\tUH\t_\t0\troot\tO", ""]
    bare = from_bytes(b"1\tAh\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "x", CONLLU)
    assert export.text(bare) == b"Ah\t_\t_\t_\t_\t_\t_\t_\n\n"


def test_conllu_stays_as_it_is():
    assert Export("conllu").text(block()) == TREES.encode()


def test_conllu_of_columns():
    """Columns that CoNLL-U has, others in MISC; and it can be read again."""
    columns = read(b"Ada PROPN B-PER\nsings VERB O\n\nOslo PROPN B-LOC\n\n")
    data = Export("conllu").text(columns)
    again = [*spell(from_bytes(data, "x", CONLLU))]
    assert data.startswith(b"1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\tTAG=B-PER\n2\tsings\t_\tVERB\t")
    assert [[w["text"] for w in s.words] for s in again] == [["Ada", "sings"], ["Oslo"]]


@pytest.mark.parametrize("kind", ["json", "spans", "columns"])
def test_blanks_between_words(kind):
    rows = "1 New _ _ _ _ _ _ _ NER=B-LOC|SpaceAfter=No\n2 York _ _ _ _ _ _ _ NER=I-LOC\n\n"
    data = rows.replace(" ", "\t").encode()
    text = Export(kind).text(from_bytes(data, "x", CONLLU)).decode()
    assert ("NewYork" in text) == (kind != "columns")
