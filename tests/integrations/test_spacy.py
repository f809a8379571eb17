"""The component of spaCy, and documents as Docs."""

import importlib.metadata
import pickle
import subprocess
import sys

import pytest

spacy = pytest.importorskip("spacy")

from spacy import displacy  # noqa: E402

import turbotag  # noqa: E402
from turbotag.corpus.formats import CONLLU  # noqa: E402
from turbotag.corpus.reader import from_bytes  # noqa: E402
from turbotag.documents.reading import document  # noqa: E402
from turbotag.errors import TurbotagError  # noqa: E402
from turbotag.integrations import spacy as component  # noqa: E402, F401 (it makes the factory known)

TEXT = " Ada Brandt didn't fly  to Oslo. She sang.\n\n“Why?” 😀 "
TEXTS = [TEXT, "", "Rain fell.", " \n ", "Oslo"] * 2


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("turbotag", config={"model": "en"})
    return nlp


@pytest.fixture(scope="module")
def doc(nlp):
    return nlp(TEXT)


def facts(doc):
    """All that is written."""
    return [
        [
            t.text,
            t.pos_,
            t.tag_,
            str(t.morph),
            t.lemma_,
            t.head.i,
            t.dep_,
            t.is_sent_start,
            t.ent_iob_,
            t.ent_type_,
        ]
        for t in doc
    ]


def test_writes_into_a_doc_of_spacy(doc):
    """On spaCy's own tokens, of which white space is one."""
    assert [t.text for t in doc] == [t.text for t in spacy.blank("en")(TEXT)]
    words = {t.text: t for t in doc}
    assert (words["Ada"].pos_, words["Ada"].tag_) == ("PROPN", "NNP")
    assert words["fly"].dep_ == "ROOT"
    assert (words["Oslo"].head.text, words["Oslo"].dep_) == ("fly", "obl")
    assert words["n't"].head.text == "fly"
    assert [(e.text, e.label_) for e in doc.ents] == [("Ada Brandt", "PER"), ("Oslo", "LOC")]
    sentences = [s.text.strip() for s in doc.sents]
    assert sentences == ["Ada Brandt didn't fly  to Oslo.", "She sang.", "“Why?” 😀"]
    assert {t.pos_ for t in doc if t.is_space} == {"SPACE"}
    for name in ("TAG", "POS", "LEMMA", "MORPH", "DEP", "HEAD", "SENT_START", "ENT_IOB"):
        assert doc.has_annotation(name), name
    assert words["Oslo"].lemma_ == "Oslo"


def test_is_what_the_pipeline_finds(doc):
    """Tokens of spaCy are those of EWT here."""
    ours = turbotag.load("en")(TEXT).tokens
    theirs = [t for t in doc if not t.is_space]
    assert [t.text for t in theirs] == [t.text for t in ours]
    assert [t.pos_ for t in theirs] == [t.upos for t in ours]
    assert [t.tag_ for t in theirs] == [t.xpos for t in ours]
    assert [t.dep_.lower() for t in theirs] == [t.label for t in ours]


def test_many(nlp):
    alone = [facts(nlp(text)) for text in TEXTS]
    assert [facts(doc) for doc in nlp.pipe(TEXTS)] == alone
    assert [facts(doc) for doc in nlp.pipe(TEXTS, batch_size=2)] == alone
    pairs = list(nlp.pipe([(text, n) for n, text in enumerate(TEXTS)], as_tuples=True))
    assert [n for _, n in pairs] == list(range(len(TEXTS)))


def test_folders_and_bytes(nlp, doc, tmp_path):
    """A folder has the models in it: nothing else is needed."""
    nlp.to_disk(tmp_path / "nlp")
    assert sorted(p.name for p in (tmp_path / "nlp" / "turbotag").iterdir())[0] == "0.model"
    assert facts(spacy.load(tmp_path / "nlp")(TEXT)) == facts(doc)
    other = spacy.blank("en")
    other.add_pipe("turbotag", config={"model": "not there"})
    other.from_bytes(nlp.to_bytes())
    assert facts(other(TEXT)) == facts(doc)
    assert facts(pickle.loads(pickle.dumps(nlp))(TEXT)) == facts(doc)


def test_docs_are_serialized(nlp, doc):
    again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert facts(again) == facts(doc)
    stored = spacy.tokens.DocBin(store_user_data=True, docs=[doc])
    (found,) = stored.get_docs(nlp.vocab)
    assert [t.head.i for t in found] == [t.head.i for t in doc]


def test_displacy_draws_it(doc):
    assert "nsubj" in displacy.render(doc, style="dep", jupyter=False)
    assert "Ada Brandt" in displacy.render(doc, style="ent", jupyter=False)


def test_sentences_of_another_component_stay():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer", config={"punct_chars": [","]})
    nlp.add_pipe("turbotag")
    found = nlp("Ada sang, Leon slept. Rain fell.")
    assert [s.text for s in found.sents] == ["Ada sang,", "Leon slept. Rain fell."]


def test_models_that_give_less_leave_the_rest():
    nlp = spacy.blank("en")
    nlp.add_pipe("turbotag", "tags", config={"model": "en-upos"})
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "X", "pattern": "Oslo"}])
    nlp.add_pipe("turbotag", "again", config={"model": "en-xpos"})
    found = nlp("Ada flew to Oslo. Rain fell.")
    assert (found[0].pos_, found[0].tag_, found[0].dep_) == ("PROPN", "NNP", "")
    assert [s.text for s in found.sents] == ["Ada flew to Oslo.", "Rain fell."]
    assert [e.label_ for e in found.ents] == ["X"]


def test_a_parser_reads_the_tags_of_other_components(doc):
    nlp = spacy.blank("en")
    for name in ("en-upos", "en-xpos", "en-parse"):
        nlp.add_pipe("turbotag", name=name, config={"model": name})
    found = nlp(doc.text)
    assert [t.pos_ for t in found] == [t.pos_ for t in doc]
    same = [t.head.i == other.head.i for t, other in zip(found, doc, strict=True)]
    assert sum(same) > 0.8 * len(same)  # the whole pipeline has features and lemmas beside the tags
    alone = nlp.select_pipes(enable=["en-parse"])
    with alone, pytest.raises(TurbotagError, match="the parser reads tags"):
        nlp(doc.text)


def test_odd_tokens(nlp):
    """Tokens that spaCy was given, among them some that no file could hold."""
    words = ["Ada", "a\tb", "New York", "c\nd", "\x00", " ", "-DOCSTART-", "#", "1-2"]
    made = spacy.tokens.Doc(nlp.vocab, words=words)
    found = nlp(made)
    assert [t.text for t in found] == words
    assert all(t.pos_ for t in found)
    assert len(list(found.sents)) >= 1


def test_a_model_that_is_not_there():
    nlp = spacy.blank("en")
    nlp.add_pipe("turbotag", config={"model": "not there"})
    with pytest.raises(TurbotagError, match="not there"):
        nlp("Ada sings.")


def test_the_entry_point():
    """add_pipe finds the component without an import."""
    found = importlib.metadata.entry_points(group="spacy_factories")
    if "turbotag" not in found.names:
        pytest.skip("turbotag was installed before it had the entry point")
    code = (
        "import spacy, sys; nlp = spacy.blank('en'); assert 'numba' not in sys.modules; "
        "nlp.add_pipe('turbotag'); print(nlp.pipe_names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['turbotag']\n", done.stderr


# ---- Documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TEXT, "Ada flew to Oslo.", "", " \n", "Ada\n", "a  b", "\tAda"])
def test_documents_as_docs(nlp, text):
    ours = turbotag.load("en")(text)
    made = ours.to_spacy(nlp.vocab)
    assert made.text == text
    words = [t for t in made if not t.is_space]
    assert [t.text for t in words] == [t.text for t in ours.tokens]
    assert [t.idx for t in words] == [t.start for t in ours.tokens]
    assert [t.pos_ for t in words] == [t.upos for t in ours.tokens]
    assert [e.text for e in made.ents] == [text[e.start_char : e.end_char] for e in ours.entities]
    if ours.sentences:
        assert len(list(made.sents)) == len(ours)


def test_a_document_and_a_doc_say_the_same(nlp, doc):
    made = turbotag.load("en")(TEXT).to_spacy(nlp.vocab)
    assert [(t.text, t.pos_, t.dep_, t.head.text) for t in made if not t.is_space] == [
        (t.text, t.pos_, t.dep_, t.head.text) for t in doc if not t.is_space
    ]


def test_words_that_share_a_token(nlp):
    """Portuguese no, em and o, is one token of spaCy."""
    lines = [
        "1\tVi\tver\tVERB\t_\tPerson=1\t0\troot\t_\t_",
        "2-3\tno\t_\t_\t_\t_\t_\t_\t_\tstart_char=3|end_char=5",
        "2\tem\tem\tADP\t_\t_\t4\tcase\t_\t_",
        "3\to\to\tDET\t_\tGender=Masc\t2\tdet\t_\t_",
        "4\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\tNER=B-LOC",
    ]
    ours = document("Vi no mar", from_bytes(("\n".join(lines) + "\n\n").encode(), "f", CONLLU))
    made = ours.to_spacy(nlp.vocab)
    assert [t.text for t in made] == ["Vi", "no", "mar"]
    assert [t.lemma_ for t in made] == ["ver", "em o", "mar"]
    assert [t.head.text for t in made] == ["Vi", "mar", "Vi"]
    assert [t.pos_ for t in made] == ["VERB", "ADP", "NOUN"]
    assert str(made[0].morph) == "Person=1"
    assert [e.text for e in made.ents] == ["mar"]


def test_documents_without_trees(nlp):
    made = turbotag.load("en-upos")("Ada sang. Rain fell.").to_spacy(nlp.vocab)
    assert [s.text for s in made.sents] == ["Ada sang.", "Rain fell."]
    assert not made.has_annotation("DEP")
