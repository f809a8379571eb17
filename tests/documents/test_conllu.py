"""The conllu package: its sentences are annotated, documents are its sentences, and its reader and
ours read the same."""

import conllu
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turbotag
from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import read
from turbotag.errors import ArgumentError, DataError

FILE = """\
# newdoc id = d1
# sent_id = a
# text = Ada didn't sing.
1\tAda\tAda\t_\t_\tNumber=Sing\t_\t_\t_\tGloss=x|SpaceAfter=No
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\t_\t_\t_\t_\t_\t_\t_
3\tn't\tnot\t_\t_\t_\t_\t_\t_\t_
3.1\tever\tever\t_\t_\t_\t_\t_\t2:advmod\t_
4\tsing\tsing\t_\t_\t_\t_\t_\t_\t_
5\t.\t.\t_\t_\t_\t_\t_\t_\t_

# sent_id = b
1\tRain\t_\t_\t_\t_\t_\t_\t_\t_
2\tfell\t_\t_\t_\t_\t_\t_\t_\t_

"""


@pytest.fixture(scope="module")
def nlp():
    return turbotag.load("en")


def test_annotates_a_sentence(nlp):
    given = conllu.parse(FILE)[0]
    before = given.serialize()
    found = nlp(given)
    assert isinstance(found, conllu.TokenList)
    assert given.serialize() == before  # which stays as it was
    assert [str(t["id"]) for t in found] == [str(t["id"]) for t in given]
    assert found.metadata == given.metadata
    words = [t for t in found if isinstance(t["id"], int)]
    assert [t["upos"] for t in words] == ["PROPN", "AUX", "PART", "VERB", "PUNCT"]
    assert [t["deprel"] for t in words if t["head"] == 0] == ["root"]
    assert found[0]["misc"] == {"Gloss": "x", "SpaceAfter": "No", "NER": found[0]["misc"]["NER"]}
    assert found[0]["feats"] == {"Number": "Sing"}
    assert found.to_tree().token["form"] == "sing"


def test_annotates_sentences(nlp):
    given = conllu.parse(FILE)
    found = nlp(given)
    assert isinstance(found, type(given))
    assert [s.serialize() for s in found] == [nlp(s).serialize() for s in given]


def test_sentences_made_by_hand(nlp):
    """Fields that are not there are filled in, others stay; a sentence may have no words."""
    words = [{"id": 1, "form": "Ada", "mine": 7}, {"id": 2, "form": "sings"}]
    (found,) = nlp([conllu.models.TokenList(words)])
    assert found[0]["upos"] == "PROPN"
    assert None not in [token["head"] for token in found]
    assert (found[0]["mine"], "mine" in found[1]) == (7, False)
    counted = nlp(conllu.models.TokenList([{"form": "Ada"}, {"form": "sings"}]))
    assert [token["id"] for token in counted] == [1, 2]
    empty = conllu.models.TokenList([], conllu.models.Metadata({"sent_id": "e"}))
    assert nlp(empty) == empty
    several = nlp(conllu.models.SentenceList([empty, found, empty]))
    assert [len(sentence) for sentence in several] == [0, 2, 0]
    assert type(several) is conllu.models.SentenceList
    assert nlp(conllu.models.SentenceList()) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_many_sentences(nlp, threads):
    given = conllu.parse(FILE) * 3 + [conllu.TokenList([])]
    found = list(nlp.pipe(given, batch_size=2, threads=threads))
    assert all(isinstance(sentence, conllu.TokenList) for sentence in found)
    assert [s.serialize() for s in found] == [nlp(s).serialize() for s in given]
    pairs = list(nlp.pipe(zip(given, range(7), strict=True), as_tuples=True))
    assert [n for _, n in pairs] == list(range(7))
    assert [s for s, _ in pairs] == found


def test_texts_and_sentences_are_not_mixed(nlp):
    sentence = conllu.parse(FILE)[1]
    with pytest.raises(ArgumentError, match="not both in one call"):
        list(nlp.pipe([sentence, "Rain fell."]))
    with pytest.raises(ArgumentError, match="takes a list of texts"):
        nlp.pipe(sentence)


def test_with_probabilities(nlp):
    found = nlp(conllu.parse(FILE)[1], probabilities=True)
    assert 0.0 <= float(found[0]["misc"]["UposProb"]) <= 1.0


def test_what_is_no_sentence(nlp):
    odd = conllu.parse("1\tAda\n", fields=["id", "lemma"])[0]
    with pytest.raises(DataError, match="has no form"):
        nlp(odd)
    with pytest.raises(DataError, match="line 2"):
        nlp(conllu.models.TokenList([{"id": 1, "form": "Ada"}, {"id": 7, "form": "sings"}]))


def test_documents_are_sentences_of_conllu(nlp):
    doc = nlp("Ada didn't fly. She sang.")
    found = doc.to_conllu()
    assert [s.metadata["text"] for s in found] == [s.text for s in doc]
    for ours, theirs in zip(doc, found, strict=True):
        words = [t for t in theirs if isinstance(t["id"], int)]
        assert [t["form"] for t in words] == [t.text for t in ours]
        assert [(t["head"], t["deprel"]) for t in words] == [(t.head, t.label) for t in ours]
    assert "".join(s.serialize() for s in found) == doc.conllu
    assert nlp("").to_conllu() == []


def test_parsers_learn_from_sentences_of_conllu(nlp):
    annotated = nlp(conllu.parse(FILE))
    words = [[t for t in s if isinstance(t["id"], int)] for s in annotated]
    trees = [[(t["head"], t["deprel"]) for t in s] for s in words]
    parser = turbotag.Parser(epochs=3).fit(words, trees)
    assert [len(tree) for tree in parser.predict(words)] == [5, 2]


# ---- Our reader and theirs -----------------------------------------------------------------------

FIELD = st.text(st.characters(categories=["L", "N", "P"], exclude_characters="_|=\t"), min_size=1)
NAMES = {
    Conll.WORD: "form", Conll.LEMMA: "lemma", Conll.UPOS: "upos", Conll.XPOS: "xpos",
    Conll.DEPREL: "deprel",
}  # fmt: skip


@st.composite
def sentences(draw):
    """Lines of a sentence with ranges and empty nodes."""
    n = draw(st.integers(1, 5))
    lines = [f"# text = {draw(FIELD)}"] if draw(st.booleans()) else []
    for t in range(1, n + 1):
        if t < n and draw(st.booleans()):
            lines.append("\t".join([f"{t}-{t + 1}", draw(FIELD), *["_"] * 8]))
        fields = [draw(FIELD) for _ in range(4)]
        feats = draw(st.sampled_from(["_", "Number=Sing", "Case=Nom|Number=Plur"]))
        lines.append("\t".join([str(t), *fields, feats, str(t - 1), draw(FIELD), "_", "_"]))
        if draw(st.integers(0, 4)) == 0:
            lines.append("\t".join([f"{t}.1", draw(FIELD), *["_"] * 8]))
    return "\n".join(lines)


@settings(max_examples=50, deadline=None)
@given(st.lists(sentences(), min_size=1, max_size=4))
def test_both_read_the_same(lines):
    data = "\n\n".join(lines) + "\n\n"
    block = read(data.encode(), "conllu")
    theirs = [[t for t in s if isinstance(t["id"], int)] for s in conllu.parse(data)]
    assert [len(s) for s in theirs] == (block.sentences[1:] - block.sentences[:-1]).tolist()
    words = [t for s in theirs for t in s]
    for column, name in NAMES.items():
        assert block.strings(column) == [t[name] for t in words]
    assert block.strings(Conll.HEAD) == [str(t["head"]) for t in words]
    feats = [t["feats"] for t in words]
    as_text = ["_" if f is None else "|".join(f"{k}={v}" for k, v in f.items()) for f in feats]
    assert block.strings(Conll.FEATS) == as_text
