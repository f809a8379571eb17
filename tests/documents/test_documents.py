"""Documents: many at once, spans, JSON, tables, pictures, multiword tokens."""

import base64
import html
import json
import pickle
import re
from dataclasses import fields

import pytest

import turbotag
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes
from turbotag.documents.reading import document, documents
from turbotag.errors import ArgumentError
from turbotag.models.tokenizer import Tokenizer

TEXT = "Ada Brandt didn't fly to  Oslo.\n\nShe can't. “Why?”"
TEXTS = [TEXT, "", "Rain fell.", " \n ", "Leon met Ada. They sang.", "x" * 300, "Oslo"] * 3


@pytest.fixture(scope="module")
def nlp():
    return turbotag.load("en")


@pytest.fixture(scope="module")
def doc(nlp):
    return nlp(TEXT, probabilities=True)


# ---- Many ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_size", [1, 2, 256])
def test_many_texts_are_as_each_alone(nlp, batch_size, threads):
    found = list(nlp.pipe(iter(TEXTS), batch_size=batch_size, threads=threads))
    assert found == [nlp(text) for text in TEXTS]
    assert all(each.pipeline is nlp.pipeline for each in found)


def test_texts_with_what_belongs_to_them(nlp):
    pairs = [(text, {"number": n}) for n, text in enumerate(TEXTS)]
    found = list(nlp.pipe(pairs, as_tuples=True, threads=2, batch_size=4))
    assert [context for _, context in found] == [context for _, context in pairs]
    assert [each.text for each, _ in found] == TEXTS


def test_texts_are_taken_as_they_are_needed(nlp):
    """An endless stream is no problem."""

    def endless():
        while True:
            yield "Rain fell."

    stream = nlp.pipe(endless(), batch_size=4, threads=2)
    assert [len(next(stream)) for _ in range(9)] == [1] * 9


def test_texts_are_cut_in_one_go(nlp, monkeypatch):
    """Not one by one: each call of a kernel gives Python's lock away, and may wait for it."""
    calls = []
    cut = Tokenizer.cut
    monkeypatch.setattr(Tokenizer, "cut", lambda *given: calls.append(given) or cut(*given))
    assert len(list(nlp.pipe(TEXTS))) == len(TEXTS)
    assert len(calls) == 1


def test_a_cut_sentence_is_warned_of_where_a_pipeline_is_called(nlp):
    with pytest.warns(UserWarning, match="more than") as told:
        nlp("ada " * 1000)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"threads": 1.5}, "threads is 1.5"),
        ({"texts": ["Ada", 3]}, "takes texts"),
        ({"texts": "Ada"}, "takes a list of texts"),
        ({"texts": ["Ada"], "as_tuples": True}, "takes pairs"),
    ],
)
def test_pipe_refuses(nlp, how, message):
    with pytest.raises(ArgumentError, match=message):
        list(nlp.pipe(**{"texts": ["Ada"], **how}))


# ---- What they hold ------------------------------------------------------------------------------


def test_spans(doc):
    sentence = doc[1]
    span = sentence[0:3]
    assert isinstance(span, turbotag.Span)
    assert (span.start, span.end, span.sentence, len(span)) == (0, 3, 1, 3)
    assert (span.text, TEXT[span.start_char : span.end_char]) == ("She can't", "She can't")
    assert list(span) == sentence.tokens[:3]
    assert doc[0][4:7].text == "fly to Oslo" or doc[0][4:7].text == "to Oslo."
    assert sentence[-2:].start == len(sentence) - 2
    assert sentence[9:].text == ""
    assert (sentence.number, TEXT[sentence.start : sentence.end]) == (1, "She can't.")


def test_multiword_tokens(doc):
    (didnt,) = doc[0].multiwords
    assert (didnt.text, didnt.first, didnt.last) == ("didn't", 3, 4)
    assert TEXT[didnt.start : didnt.end] == "didn't"
    assert [TEXT[t.start : t.end] for t in doc[0][2:4]] == ["did", "n't"]


PORTUGUESE = """\
# text = Vi-o no mar.
1-2\tVi-o\t_\t_\t_\t_\t_\t_\t_\tstart_char=0|end_char=4
1\tVi\tver\tVERB\t_\tNumber=Sing|Person=1\t0\troot\t_\t_
2\to\to\tPRON\t_\tGender=Masc\t1\tobj\t_\t_
3-4\tno\t_\t_\t_\t_\t_\t_\t_\t_
3\tem\tem\tADP\t_\t_\t5\tcase\t_\t_
4\to\to\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""


def test_lemmas_features_and_words_that_are_not_in_the_text():
    """Words of a multiword token that is not written of them share its place; tokens without
    offsets are searched for."""
    text = "Vi-o no mar."
    found = document(text, from_bytes(PORTUGUESE.encode(), "f", CONLLU))
    assert [t.lemma for t in found.tokens] == ["ver", "o", "em", "o", "mar", "."]
    assert found[0][0].feats == {"Number": "Sing", "Person": "1"}
    assert [text[t.start : t.end] for t in found.tokens] == ["Vi-o", "Vi-o", "no", "no", "mar", "."]
    assert [(m.text, m.first, m.last) for m in found[0].multiwords] == [
        ("Vi-o", 1, 2),
        ("no", 3, 4),
    ]
    assert found[0][1:4].text == "o em"  # what shares a place is told once
    assert found.conllu == PORTUGUESE


def test_documents_of_one_block():
    one = "# text = {0}\n1\t{0}\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    block = from_bytes("".join(one.format(w) for w in "abc").encode(), "f", CONLLU)
    found = documents(["", "a b", "", "c"], [0, 2, 0, 1], block)
    assert [[s.text for s in each] for each in found] == [[], ["a", "b"], [], ["c"]]
    assert [each.conllu for each in found] == [
        "",
        one.format("a") + one.format("b"),
        "",
        one.format("c"),
    ]
    assert [[(t.start, t.end) for t in each.tokens] for each in found] == [
        [], [(0, 1), (2, 3)], [], [(0, 1)],
    ]  # fmt: skip


# ---- Other forms ---------------------------------------------------------------------------------


def test_json(doc):
    found = json.loads(doc.to_json())
    assert found == doc.to_dict() == json.loads(doc.to_json(indent=2))
    assert found["text"] == TEXT
    first = found["sentences"][0]
    assert first["text"] == doc[0].text
    assert list(first["tokens"][0]) == [f.name for f in fields(turbotag.Token)]
    assert [e["text"] for e in first["entities"]] == [e.text for e in doc[0].entities]
    assert first["multiwords"][0]["text"] == "didn't"
    assert "“Why" in doc.to_json()  # no escapes


def test_json_is_a_copy(nlp):
    found = nlp("Ada sings.")
    found.to_dict()["sentences"][0]["tokens"][0]["text"] = "Leon"
    assert found[0][0].text == "Ada"


def test_tables(doc, nlp):
    pytest.importorskip("pandas")
    table = doc.to_pandas()
    assert len(table) == len(doc.tokens)
    assert table.text.tolist() == [t.text for t in doc.tokens]
    assert table.sentence.tolist() == [s.number for s in doc for _ in s]
    assert table.head_probability.tolist() == [t.probabilities["head"] for t in doc.tokens]
    assert "head_probability" not in nlp("Ada sings.").to_pandas().columns
    assert len(nlp("").to_pandas()) == 0


def test_pickles(doc):
    assert pickle.loads(pickle.dumps(doc)) == doc


# ---- Pictures ------------------------------------------------------------------------------------


def pictures(page):
    return [
        base64.b64decode(data).decode()
        for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    ]


def test_a_notebook_draws_documents_and_sentences(doc):
    drawn = pictures(doc._repr_html_())
    assert len(drawn) == len(doc)
    for svg, sentence in zip(drawn, doc, strict=True):
        assert svg.startswith("<svg")
        assert all(re.search(f">{re.escape(html.escape(t.text))}<", svg) for t in sentence)
    assert ">PER<" in drawn[0]
    assert pictures(doc[0]._repr_html_()) == drawn[:1]
    assert 'alt="Ada Brandt didn&#x27;t fly to Oslo."' in doc._repr_html_()


def test_a_notebook_draws_no_thousands(nlp):
    page = nlp("Rain fell. " * 40)._repr_html_()
    assert len(pictures(page)) == 30
    assert "10 more sentences" in page
    assert nlp("")._repr_html_() == ""


def test_draw(doc, tmp_path):
    svg = turbotag.draw(doc)
    assert svg.startswith("<svg")
    assert pictures(svg._repr_html_()) == [svg]
    for kind, begins in ((".svg", "<svg"), (".html", "<!doctype html>"), (".txt", "")):
        path = tmp_path / f"trees{kind}"
        assert turbotag.draw(doc[0], str(path)) == turbotag.draw(doc[0])
        assert path.read_text(encoding="utf-8").startswith(begins)
        assert "Oslo" in path.read_text(encoding="utf-8")


def test_draws_what_there_is():
    """Tags alone, entities alone, words alone."""
    for name in ("en-upos", "en-ner"):
        assert ">Ada<" in turbotag.draw(turbotag.load(name)("Ada flew to Oslo."))
    words = document("Ada", from_bytes(b"1\tAda\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "f", CONLLU))
    assert ">Ada<" in turbotag.draw(words)


def test_draw_refuses(doc, tmp_path, nlp):
    for wrong, message in (("Ada", "takes a Document or a Sentence"), (nlp(""), "no sentences")):
        with pytest.raises(ArgumentError, match=message):
            turbotag.draw(wrong)
    with pytest.raises(ArgumentError, match=r"must end in one of \.svg"):
        turbotag.draw(doc, str(tmp_path / "trees.png"))
