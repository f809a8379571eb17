"""Sentences and tokens of raw text: the conventions of EWT, offsets, streaming, hostile input."""

# ruff: noqa: RUF001 (quotation marks and dashes are the subject)
import gzip
import io
import re
import time

import conllu
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turbotag.corpus import text as module
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes, open_binary
from turbotag.corpus.rules import Token
from turbotag.corpus.text import segment, stream, to_conllu
from turbotag.errors import DataError

SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2060\ufeff]+")


def cut(text):
    """One string for each sentence: blanks between tokens, + between the words of a token."""
    return [" ".join("+".join(t.words) for t in sentence) for sentence in segment(text)]


TOKENS = {
    # contractions and possessives, straight and curly, with and without an apostrophe
    "I don't, can't, won't": "I do+n't , ca+n't , wo+n't",
    "She’s here, they’ll see": "She+’s here , they+’ll see",
    "we've I'm you'd who're": "we+'ve I+'m you+'d who+'re",
    "I'd've shouldn't've": "I+'d+'ve should+n't+'ve",
    "cannot gonna Wanna gotta dunno": "can+not gon+na Wan+na got+ta du+n+no",
    "dont im thats let's": "do+nt i+m that+s let+'s",
    "DON'T CANNOT": "DO+N'T CAN+NOT",
    "Mara's the boys' O'Hara's": "Mara+'s the boys+' O'Hara+'s",
    "'tis 'em rock 'n' roll": "'t+is 'em rock 'n' roll",
    # abbreviations and initials
    "Dr. Hale met Mrs. Orrin": "Dr. Hale met Mrs. Orrin",
    "J. R. Halden, J.R.R. Halden": "J. R. Halden , J.R.R. Halden",
    "the U.S. fleet, U.S.-built, U.S.'s": "the U.S. fleet , U.S. - built , U.S.+'s",
    "a Ph.D. thesis, No. 5, p. 7": "a Ph.D. thesis , No. 5 , p. 7",
    "soap, e.g. lye (i.e. salt)": "soap , e.g. lye ( i.e. salt )",
    # addresses and files
    "see http://a.example/b_(c)?d=1&e=2, now": "see http://a.example/b_(c)?d=1&e=2 , now",
    "(www.halden.example)": "( www.halden.example )",
    "on Halden.com, halden.co.uk/x": "on Halden.com , halden.co.uk/x",
    "to <ada.b+c@halden-x.co.uk>;": "to < ada.b+c@halden-x.co.uk > ;",
    "open notes_v2.docx, a.PDF!": "open notes_v2.docx , a.PDF !",
    "by @ada_b #fun #1": "by @ada_b #fun # 1",
    # numbers
    "$1,000.50 3.5% €5 US$9 -5 .25": "$ 1,000.50 3.5 % € 5 US$ 9 - 5 .25",
    "10:30 7pm 35mm 10k 5kg": "10:30 7 pm 35 mm 10 k 5 kg",
    "21st 1990s '90s 80's": "21st 1990s '90s 80's",
    "5'10\" tall": "5 ' 10 \" tall",
    "555-0199 212-555-0199 +1-800-555-0199": "555-0199 212-555-0199 +1-800-555-0199",
    "(212) 555.0199 or 10001-0199": "( 212 ) 555.0199 or 10001-0199",
    "12/31/1999 1999-12-31 9/11 1/2 3-4 2001-2004": (
        "12/31/1999 1999-12-31 9/11 1 / 2 3 - 4 2001 - 2004"
    ),
    "MP3 H2O 2x4 v2.0.1": "MP3 H2O 2x4 v2.0.1",
    # hyphens, slashes, dashes, symbols
    "well-known e-mail anti-war mid-1980s": "well - known e-mail anti-war mid-1980s",
    "a 15-year-old ex-spy": "a 15 - year - old ex-spy",
    "and/or w/o his/her": "and / or w/o his / her",
    "yes -- no — or – so": "yes -- no — or – so",
    "Q&A AT&T C++ C# x=1": "Q&A AT&T C++ C# x = 1",
    "===== ***** >> a->b": "===== ***** >> a -> b",
    # quotes, brackets, ellipses
    "“so” ‘so’ 'so' \"so\" ''so''": "“ so ” ‘ so ’ ' so ' \" so \" '' so ''",
    "[a {b} (c)]": "[ a { b } ( c ) ]",
    "so... well… um..": "so ... well … um ..",
    "what?! no!!!": "what ?! no !!!",
    # emoji and emoticons
    "hi :) ;-) :D <3 ^_^": "hi :) ;-) :D <3 ^_^",
    "😀👍🏽👩‍👩‍👧‍👦🇩🇪❤️1️⃣": "😀 👍🏽 👩‍👩‍👧‍👦 🇩🇪 ❤️ 1️⃣",
    # other scripts, combining marks, white space of all kinds
    "cafe\u0301 Ørsted हिन्दी": "cafe\u0301 Ørsted हिन्दी",
    "a\tb\u00a0c\u200bd\x00e\x1ff\u2028g": "a b c d e f g",
}


@pytest.mark.parametrize("text", TOKENS)
def test_tokens(text):
    assert " ".join(cut(text)) == TOKENS[text]


SENTENCES = {
    "Ada sings. Leon does too! Who else? Nobody": 4,
    "Dr. Hale and Mr. Orrin left at 5 p.m. for the U.S. They were late.": 2,
    "It moved to the U.S. Senate in Jan. 2003. Then it died.": 2,
    "Halden Inc. Corp. and Co. grew. By then it was Halden Ltd. It failed.": 3,
    "Nuts, bolts, etc. are sold. Also nails, etc. We are open.": 3,
    "No. 5 is here. No. I mean it.": 3,
    "J. R. Halden wrote to M. Orrin. He replied.": 2,
    '"Why?" he asked. "Because," she said, "I can." He left.': 3,
    "“Stop!” she cried. (It was late.) ‘Fine.’ He stopped [at last.] Good.": 5,
    "He yelled “Stop!” and left.": 1,
    "Wait... what was it? Well... Nobody knows.": 3,
    "i like it. do you?": 2,
    "It is over.Next one?yes": 3,
    "1. Boil water. 2. Add salt.": 2,
    "Done. :) Next one. Nice! 😀 More.": 4,
    "It rose 3.5 per cent. 20 firms failed.": 2,
    "See www.halden.example It is new.": 2,
    "Read a.b@halden.example and www.halden.example first.": 1,
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text):
    assert len(segment(text)) == SENTENCES[text], cut(text)


def test_an_abbreviation_keeps_its_stop_unless_a_sentence_ends():
    assert cut("Halden Inc. grew. He left Halden Inc. She left Halden Inc.") == [
        "Halden Inc. grew .",
        "He left Halden Inc .",
        "She left Halden Inc .",
    ]


def test_closing_quotes_belong_to_the_sentence():
    assert cut("\"He said 'no.'\" Then (so.) Yes.") == [
        "\" He said ' no . ' \"",
        "Then ( so . )",
        "Yes .",
    ]


PROSE = """The harbour of Elmstadt was built long ago, when Ada
Halden was the mayor, and was paid for by a tax on
Baltic herring."""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_breaks(end):
    def lines(text):
        return [len(s) for s in segment(text.replace("\n", end))]

    assert len(lines(PROSE)) == 1  # wrapped: the next word did not fit
    assert len(lines("A Title\n" + PROSE)) == 2
    assert len(lines("Buy\n- milk\n- bread\n* 2 eggs")) == 4
    assert len(lines("one\ntwo\nthree")) == 1  # lower case goes on
    assert len(lines("12 Quay Street\nElmstadt")) == 2
    assert len(lines("no stop\n\nhere\n \t\nor here")) == 3


def test_conllu():
    text = "  Don’t  go (now).\nOK"
    assert to_conllu(text, offset=100).decode() == (
        "# newdoc\n"
        "# newpar\n"
        "# sent_id = 1\n"
        "# text = Don’t go (now).\n"
        "1-2\tDon’t\t_\t_\t_\t_\t_\t_\t_\tstart_char=102|end_char=107\n"
        "1\tDo\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "2\tn’t\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "3\tgo\t_\t_\t_\t_\t_\t_\t_\tstart_char=109|end_char=111\n"
        "4\t(\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|start_char=112|end_char=113\n"
        "5\tnow\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|start_char=113|end_char=116\n"
        "6\t)\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|start_char=116|end_char=117\n"
        "7\t.\t_\t_\t_\t_\t_\t_\t_\tstart_char=117|end_char=118\n"
        "\n"
        "# sent_id = 2\n"
        "# text = OK\n"
        "1\tOK\t_\t_\t_\t_\t_\t_\t_\tstart_char=119|end_char=121\n"
        "\n"
    )
    assert segment(text)[0][0] == Token(2, 7, ("Do", "n’t"))
    assert to_conllu("") == to_conllu(" \n\n\t\0 ") == b""


def test_sentences_are_numbered_and_paragraphs_marked():
    """Through a whole file; blank lines before and between are not counted."""
    text = "\n \nOne. Two.\n\n\n\nThree\n\n \0 \n\nFour"
    for data in (to_conllu(text), b"".join(stream(io.BytesIO(text.encode()), 4))):
        comments = [line for line in data.decode().split("\n") if line.startswith("#")]
        assert comments == [
            "# newdoc",
            "# newpar",
            "# sent_id = 1",
            "# text = One.",
            "# sent_id = 2",
            "# text = Two.",
            "# newpar",
            "# sent_id = 3",
            "# text = Three",
            "# newpar",
            "# sent_id = 4",
            "# text = Four",
        ]


def test_a_part_of_a_long_paragraph_is_none(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 100)
    text = "Ada sings and Leon plays the old piano. " * 50
    for data in (to_conllu(text), b"".join(stream(io.BytesIO(text.encode()), 64))):
        assert data.count(b"# newpar") == 1
        assert b"# sent_id = 50\n" in data


def test_a_sentence_that_is_cut_for_its_length_is_told():
    long, said = "word " * 1000, []
    text = f"Hello. {long}.\n\n{'word ' * 399}end."
    to_conllu(text, warn=said.append)
    file = io.BytesIO(text.encode())
    file.name = "a.txt"
    list(stream(file, 500, warn=said.append))
    cut = "sentences of more than 400 words are cut there: 2 times, first at the end of sentence 2"
    assert said == [f"the text: {cut}", f"a.txt: {cut}"]


# Texts of fragments that meet in odd ways, and of any characters.
FRAGMENTS = """Ada sings the U.S. etc. Inc. No. 5 1. 3.5% don't boys' 'so' " ' ( ) . ... ? ! - -- /
:) 😀 👍🏽 http://a.example/b a@b.example x.txt #a @b e-mail \u200d \u0301 \ufe0f \ud800 _ # 1-2"""
fragments = st.sampled_from(FRAGMENTS.split())
gaps = st.sampled_from(["", "", " ", " ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\0", "\u200b"])
texts = st.one_of(
    st.lists(st.tuples(fragments, gaps), max_size=25).map(lambda x: "".join(map("".join, x))),
    st.text(st.characters(exclude_categories=()), max_size=60),
)


@settings(max_examples=200, deadline=None)
@given(texts)
@example("İm Kelvin\u212a")
def test_tokens_spell_the_text_and_offsets_index_it(text):
    sentences = segment(text)
    assert all(sentences)
    tokens = [t for s in sentences for t in s]
    assert "".join(text[t.start : t.end] for t in tokens) == SPACE.sub("", text)
    assert all("".join(t.words) == text[t.start : t.end] and all(t.words) for t in tokens)
    assert all(a.end <= b.start for a, b in zip(tokens, tokens[1:], strict=False))


@settings(max_examples=200, deadline=None)
@given(texts)
def test_conllu_is_read_with_the_same_words(text):
    sentences = segment(text)
    data = to_conllu(text)
    block = from_bytes(data, "text", CONLLU)
    theirs = conllu.parse(data.decode())
    words = [[w.encode("utf-8", "replace").decode() for t in s for w in t.words] for s in sentences]
    assert block.strings(1) == [w for s in words for w in s]
    assert block.n_sentences == len(sentences) == len(theirs)
    assert [[t["form"] for t in s if isinstance(t["id"], int)] for s in theirs] == words
    for sentence, tokens in zip(theirs, sentences, strict=True):
        surface, after = "", 0
        for t in sentence:
            if t["misc"]:
                surface += t["form"] + ("" if "SpaceAfter" in t["misc"] else " ")
                after = int(t["misc"]["end_char"])
        assert surface.strip() == sentence.metadata["text"]
        assert after == tokens[-1].end


@settings(max_examples=200, deadline=None)
@given(texts, st.integers(1, 40), st.sampled_from([30, 1 << 16]))
def test_streaming_in_any_block_size_gives_the_same_bytes(text, size, limit):
    data = SPACE.sub(lambda m: m[0][:3], text).encode("utf-8", "replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMIT", limit)
        whole = to_conllu(data.decode())
        assert b"".join(stream(io.BytesIO(data), size)) == whole
        assert b"".join(stream(io.BytesIO(b"\xef\xbb\xbf" + data), size)) == whole


def test_a_paragraph_that_is_just_not_too_long(monkeypatch):
    """White space behind it may be half a blank line: a stream must not count it."""
    monkeypatch.setattr(module, "LIMIT", 30)
    for text in ('AdaAdaAdaAda U.S." e-mailsings\n\n', 'AdaAdaAdaAda U.S." e-mailsings \n \nb'):
        whole = to_conllu(text)
        for size in (1, 2, 3, 31):
            assert b"".join(stream(io.BytesIO(text.encode()), size)) == whole
    for text in ("a" + " " * 500 + "b", "a" + "\n" * 500 + "b", " " * 500):  # and in bounded memory
        assert len(b"".join(stream(io.BytesIO(text.encode()), 7))) < 300


def test_a_stream_yields_paragraphs_as_they_come():
    blocks = list(stream(io.BytesIO(b"One.\n\nTwo goes\non.\n\nThree."), block_size=8))
    assert [b.count(b"# text") for b in blocks] == [1, 1, 1]
    assert b"# text = Two goes on." in blocks[1]


def test_a_long_paragraph_is_cut_between_sentences(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 100)
    text = "Ada sings and Leon plays the old piano. " * 50
    assert cut(text) == ["Ada sings and Leon plays the old piano ."] * 50
    one = "word " * 200  # no sentence ends: cut between words
    assert [t.words for s in segment(one) for t in s] == [("word",)] * 200
    assert [len(text) for text in cut("x" * 250)] == [100, 100, 50]
    lines = "Ada sings\n" * 50
    assert cut(lines) == ["Ada sings"] * 50


BAD = {
    "byte": (b"one\ntwo \xff", 2, "byte 0xff is not valid UTF-8"),
    "surrogate": (b"one\n\n\n\xed\xa0\x80", 4, "0xed"),
    "truncated": ("one\nzwölf".encode()[:-3], 2, "0xc3"),
    "latin-1": ("\ufeffé\r\nb\n".encode() + "é".encode("latin-1"), 3, "0xe9"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("size", [1, 5, 4096])
def test_bad_utf8_names_the_line(tmp_path, name, size):
    data, line, words = BAD[name]
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(DataError) as error:
        list(stream(file, size))
    assert words in str(error.value)
    assert f"{path}, line {line}:" in str(error.value)


def test_gzip(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"Ada sings. " * 1000))
    with open_binary(str(path)) as file:
        assert b"".join(stream(file)) == to_conllu("Ada sings. " * 1000)
    path.write_bytes(path.read_bytes()[:30])
    with open_binary(str(path)) as file, pytest.raises(DataError, match="cannot be read"):
        list(stream(file))


HOSTILE = """a . a. ab.B - a- @ a@ 1 1. 1, 1- / http:// http://( ( ' s' a* : 😀 👨\u200d 🇩 \u200d
\u0301 _ !a n't 's # a.doc a.co A& e- %. <3 ^_ -_ -> [ aB1.- \ud800"""
BLANK = ["\n", "\n ", " ", "\t", "\0", "\r\n", "\u200b", "A. ", "Ab\n"]


@pytest.mark.parametrize("unit", [*HOSTILE.split(), *BLANK])
def test_hostile_input_takes_linear_time(unit):
    """Less than a second; where it once was quadratic, it took nine."""
    text = unit * (40_000 // len(unit))
    start = time.process_time()
    sentences = segment(text)
    assert time.process_time() - start < 4
    assert sum(t.end - t.start for s in sentences for t in s) == len(SPACE.sub("", text))
