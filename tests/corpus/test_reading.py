"""Reading: every format, equality with the conllu package, and errors that name file and line."""

import gzip

import conllu
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.corpus.formats import given_names
from turbotag.corpus.reader import read, stream
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError, UsageError


def write(tmp_path, text, name="data.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


FORMATS = {
    "columns": "Ada NNP B-NP\nsings VBZ B-VP\n\nLeon NNP B-NP\n",
    "crfsuite": "B-NP\tw=Ada\tp=NNP\nB-VP\tw=sings\n\nB-NP\tw=Leon\tp=NNP:2.0\n",
    "conllu": "# a\n1\tAda\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_\n"
    "2\tsings\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    "1\tLeon\t_\tPROPN\t_\t_\t0\troot\t_\t_\n\n",
    "text": "Ada\nsings\n\nLeon\n",
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("change", ["plain", "crlf", "bom", "blanks", "gz", "no end"])
def test_formats_are_recognised(tmp_path, name, change):
    text = FORMATS[name]
    if change == "crlf":
        text = text.replace("\n", "\r\n")
    if change == "blanks":
        text = "\n\n" + text.replace("\n\n", "\n\n \n\t\n") + "\n\n"
    if change == "no end":
        text = text.rstrip("\n")
    data = (b"\xef\xbb\xbf" if change == "bom" else b"") + text.encode()
    if change == "gz":
        data = gzip.compress(data)
    block = read(write(tmp_path, data, "f.gz" if change == "gz" else "f"))
    assert block.format.name == name
    assert block.sentences.tolist() == [0, 2, 3]
    if name != "crfsuite":
        at = block.format.index("word")
        assert block.strings(at) == ["Ada", "sings", "Leon"]


def test_conllx_by_extension(tmp_path):
    text = FORMATS["conllu"].replace("# a\n", "")
    assert read(write(tmp_path, text, "a.conllx")).format.name == "conllx"
    assert read(write(tmp_path, text, "a.conllu")).format.name == "conllu"


ROWS = FORMATS["conllu"].replace("# a\n", "").split("\n")
EIGHT = "\n".join("\t".join(row.split("\t")[:8]) for row in ROWS)


@pytest.mark.parametrize("name", ["f.conllx", "f.conll", "f", "f.conllu"])
def test_eight_columns_are_conllx(tmp_path, name):
    for text in (EIGHT, EIGHT.replace("\t", " "), "# a comment\n" + EIGHT):
        block = read(write(tmp_path, text, name))
        assert block.format.name == "conllx"
        assert block.strings(1) == ["Ada", "sings", "Leon"]
        assert block.strings(7) == ["nsubj", "root", "root"]
        assert block.format.index("phead") is None
    assert read(write(tmp_path, EIGHT), "conllx").strings(6) == ["2", "0", "0"]
    with pytest.raises(DataError, match="line 1: expected 10 columns, found 8"):
        read(write(tmp_path, EIGHT), "conllu")


def test_columns_behind_the_eighth_are_added(tmp_path):
    block, each = read(write(tmp_path, EIGHT)), np.arange(3)
    edits = Edits(block)
    edits.put(8, ["a", "b", "c"], each)
    edits.put(9, ["d", "e", "f"], each)
    ends = iter(["\ta\td", "\tb\te", "\tc\tf"])
    assert edits.text().decode() == "\n".join(r + next(ends) if r else r for r in EIGHT.split("\n"))
    edits = Edits(block)
    edits.note(["A=1", "", "B=2"], each)
    assert read(edits.text()).strings(9) == ["A=1", "_", "B=2"]


def test_comments_are_no_tokens(tmp_path):
    """In CoNLL-U and CoNLL-X anywhere; in columns before a sentence, if they do not have as many
    fields as a token, since '#' is a word too."""
    rows = FORMATS["conllu"].split("\n")
    for name in ("f.conllu", "f.conllx"):
        text = "\n".join([*rows[1:2], "# inside", "#", *rows[2:]])
        assert read(write(tmp_path, text, name)).strings(1) == ["Ada", "sings", "Leon"]
    comments = ["# id 12\tdomain=en", "# sent_id = 3", "# a comment that is longer", "#"]
    tokens = "Ada _ _ O\n# _ _ O\n\n# _ _ O\nLeon _ _ O\n\n"
    for comment in comments:
        for text in (tokens, tokens.replace(" ", "\t")):
            block = read(write(tmp_path, f"{comment}\n{text}{comment}\n{text}"))
            assert block.strings(0) == ["Ada", "#", "#", "Leon"] * 2


@pytest.mark.parametrize("change", [("\t", " "), ("\tNNP\t", " NNP  "), ("\tNNP", " \tNNP")])
def test_columns_that_mix_tabs_and_blanks(tmp_path, change):
    """From the first line on, or in a later one, where the first sentence has no blank."""
    first, later = "Ada\tNNP\tO\nsings\tVBZ\tO\n\n", "Leon\tNNP\tO\n"
    for text in (first.replace(*change) + later, first + later.replace(*change)):
        block = read(write(tmp_path, text))
        assert block.strings(0) == ["Ada", "sings", "Leon"]
        assert block.strings(2) == ["O", "O", "O"]


def test_blanks_in_words_of_tab_separated_columns(tmp_path):
    text = "New York\tNNP\tO\nsings\tVBZ\tO\n\na b c\tVBZ\tO\n"
    assert read(write(tmp_path, text)).strings(0) == ["New York", "sings", "a b c"]
    with pytest.raises(DataError, match=r"line 5: expected 3 tab-separated columns, found 2"):
        read(write(tmp_path, text + "New York\tNNP\n"))


def test_a_missing_column_is_not_made_up_by_a_blank(tmp_path):
    """A word with a blank and no MISC have as many fields between blanks as a whole line."""
    cut = "\n".join(ROWS[:3]) + "\n1\tLeon X\t_\tPROPN\t_\t_\t0\troot\t_\n"
    with pytest.raises(DataError, match=r"line 4: expected 10 columns, found 9"):
        read(write(tmp_path, cut))


def test_docstart_ends_a_sentence(tmp_path):
    block = read(
        write(tmp_path, "-DOCSTART- -X- O\nAda N B\nsings V O\n-DOCSTART- -X- O\nLeon N B\n")
    )
    assert block.sentences.tolist() == [0, 2, 3]


def test_hash_is_a_token_in_columns_but_a_comment_line_is_not(tmp_path):
    block = read(write(tmp_path, "# sent_id = 1\n#\tO\nwin\tO\n\n# text = x\nso\tO\n"))
    assert block.strings(0) == ["#", "win", "so"]


def test_other_white_space_is_part_of_a_field(tmp_path):
    block = read(write(tmp_path, "10\u00a0000 CD O\nAda NNP O\n"))
    assert block.strings(0) == ["10\u00a0000", "Ada"]


def test_comments_without_a_blank_and_docstart_in_plain_text(tmp_path):
    assert read(write(tmp_path, "#id=1\nAda\tNNP\tO\n")).strings(0) == ["Ada"]
    assert read(write(tmp_path, "-DOCSTART-\n\nAda\n")).strings(0) == ["Ada"]


@pytest.mark.parametrize("head", ["\n\n\n\n", "# a comment\n\n", "# a\n\n\n# b\n\n"])
def test_the_format_is_told_from_the_first_token(tmp_path, head):
    path = write(tmp_path, head + "Ada\tNNP\tO\n")
    words = [w for block in stream(path, block_bytes=3) for w in block.strings(0)]
    assert words == ["Ada"]


def test_override_and_column_names(tmp_path):
    path = write(tmp_path, "a b\nc d\n", "ab")
    assert read(path).format.columns == ("word", "tag")
    assert read(path, naming=given_names(("pos", "word"))).format.index("word") == 1
    assert read(write(tmp_path, "A\tx\n"), "crfsuite").format.name == "crfsuite"
    with pytest.raises(DataError, match="not a CRFsuite file"):
        read(path, "crfsuite")
    with pytest.raises(DataError, match="line 3: is not a CRFsuite file"):
        read(write(tmp_path, "\n\na b\n"), "crfsuite")
    with pytest.raises(DataError, match="line 2: has 2 columns where plain text has one"):
        read(write(tmp_path, "# c\na b\n"), "text")
    with pytest.raises(UsageError, match="--columns names 3"):
        read(path, naming=given_names(("a", "b", "c")))


BAD = {
    "too few columns": (b"Ada NNP B-NP\nsings VBZ\n", 2, "expected 3 columns, found 2"),
    "too many columns": (b"Ada NNP O\n\nsings VBZ O O\n", 3, "expected 3 columns, found 4"),
    "bad byte": (b"Ada O\nsi\xffngs O\n", 2, "0xff is not valid UTF-8"),
    "binary": (b"\x7fELF\x00\x01\n", 1, "NUL byte"),
    "gzip without extension": (gzip.compress(b"Ada O\n" * 9, mtime=0), 1, "gzip"),
    "conllu id": (
        b"1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n3\tb\t_\t_\t_\t_\t_\t_\t_\t_\n",
        2,
        "expected ID 2",
    ),
    "conllu range": (b"1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n2-x\tb\t_\t_\t_\t_\t_\t_\t_\t_\n", 2, "ID"),
    "conllu empty": (b"1\ta\t\t_\t_\t_\t_\t_\t_\t_\n", 1, "lemma is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_name_the_line(tmp_path, name):
    data, line, words = BAD[name]
    path = write(tmp_path, data)
    for reader in (read, lambda p: list(stream(p, block_bytes=16))):
        with pytest.raises(DataError) as error:
            reader(path)
        assert words in str(error.value)
        assert path in str(error.value)
        if name != "gzip without extension":
            assert f"line {line}:" in str(error.value)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_files_without_tokens(tmp_path, data):
    with pytest.raises(DataError, match=r"is empty|no tokens"):
        read(write(tmp_path, data))


def test_missing_and_directory(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read(str(tmp_path / "none"))
    with pytest.raises(DataError, match="directory"):
        read(str(tmp_path))


def test_truncated_gzip(tmp_path):
    data = gzip.compress(b"Ada O\n" * 1000)[:30]
    with pytest.raises(DataError, match="cannot be read"):
        read(write(tmp_path, data, "x.gz"))


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_streaming_in_any_block_size_gives_the_same_sentences(tmp_path, size):
    text = "".join(f"w{i} O\n" + ("\n" if i % 3 == 0 else "") for i in range(50))
    path = write(tmp_path, text)
    whole = read(path)
    words, lines, sentences = [], [], 0
    for block in stream(path, block_bytes=size):
        words += block.strings(0)
        lines += block.lines.tolist()
        sentences += block.n_sentences
    assert words == whole.strings(0)
    assert lines == whole.lines.tolist()
    assert sentences == whole.n_sentences


field = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp", "Cs")),
    min_size=1,
    max_size=6,
).filter(lambda s: not s.startswith("#"))


@st.composite
def conllu_files(draw):
    """Valid CoNLL-U with comments, multiword ranges and empty nodes."""
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        for _ in range(draw(st.integers(0, 2))):
            lines.append("# " + draw(field))
        n = draw(st.integers(1, 4))
        for i in range(1, n + 1):
            if i < n and draw(st.booleans()):
                lines.append(f"{i}-{i + 1}\t{draw(field)}" + "\t_" * 8)
            head = draw(st.integers(0, n))
            columns = [str(i), *(draw(field) for _ in range(4)), "_", str(head), "dep", "_", "_"]
            lines.append("\t".join(columns))
            if draw(st.integers(0, 5)) == 0:
                lines.append(f"{i}.1\t{draw(field)}" + "\t_" * 8)
        lines.append("")
    return "\n".join(lines) + "\n"


@settings(max_examples=100, deadline=None)
@given(conllu_files())
def test_equal_to_the_conllu_package(tmp_path_factory, text):
    path = write(tmp_path_factory.mktemp("c"), text, "a.conllu")
    block = read(path, "conllu")
    theirs = [[t for t in s if isinstance(t["id"], int)] for s in conllu.parse(text)]
    assert [len(s) for s in theirs] == (block.sentences[1:] - block.sentences[:-1]).tolist()
    tokens = [t for s in theirs for t in s]

    def value(x):
        return "_" if x is None else str(x)

    for column, name in enumerate(("id", "form", "lemma", "upos", "xpos")):
        assert block.strings(column) == [value(t[name]) for t in tokens]
    assert block.strings(6) == [value(t["head"]) for t in tokens]


@settings(max_examples=100, deadline=None)
@given(conllu_files(), st.data())
def test_any_separators(tmp_path_factory, text, data):
    """Tabs, blanks and both between the fields: the same fields, written back byte for byte."""
    separator = st.sampled_from(["\t", "\t", " ", "  ", "\t ", " \t"])
    lines = []
    for line in text.split("\n"):
        fields = [line] if line.startswith("#") or not line else line.split("\t")
        lines.append("".join(f + data.draw(separator) for f in fields[:-1]) + fields[-1])
    mixed = "\n".join(lines)
    folder = tmp_path_factory.mktemp("c")
    tabs, block = read(write(folder, text, "a")), read(write(folder, mixed, "b.conllu"))
    assert block.format == tabs.format
    assert block.sentences.tolist() == tabs.sentences.tolist()
    for column in range(10):
        assert block.strings(column) == tabs.strings(column)
    edits = Edits(block)
    for column in (3, 6):
        edits.replace(column, block.strings(column), np.arange(block.n_tokens))
    assert edits.text() == mixed.encode()


@settings(max_examples=50, deadline=None)
@given(conllu_files(), st.booleans())
def test_rewriting_a_column_leaves_all_else_byte_for_byte(tmp_path_factory, text, crlf):
    data = text.encode()
    if crlf:
        data = data.replace(b"\n", b"\r\n")
    block = read(write(tmp_path_factory.mktemp("c"), data, "a.conllu"), "conllu")
    edits = Edits(block)
    strings = block.strings(3)
    unique = sorted(set(strings))
    edits.replace(3, unique, np.array([unique.index(s) for s in strings]))
    assert edits.text() == data
    edits = Edits(block)
    edits.replace(3, ["X"], np.zeros(block.n_tokens, int))
    edits.note(["A=1"], np.zeros(block.n_tokens, int))
    changed = edits.text()
    assert len(changed.split(b"\n")) == len(data.split(b"\n"))
    for old, new in zip(data.split(b"\n"), changed.split(b"\n"), strict=True):
        a, b = old.rstrip(b"\r").split(b"\t"), new.rstrip(b"\r").split(b"\t")
        if len(a) == 10 and a[0].isdigit():
            assert b == [*a[:3], b"X", *a[4:9], b"A=1"]
        else:
            assert old == new


@pytest.mark.parametrize("size", [0, 5, 40])
def test_a_file_that_changes_while_it_is_read(tmp_path, size):
    path = tmp_path / "f"
    path.write_text("a\nb\n\n" * 4)
    blocks = stream(str(path), block_bytes=5)
    next(blocks)
    path.write_text("c" * size)
    with pytest.raises(DataError, match="f: cannot be read: it was changed while it was read"):
        list(blocks)
    blocks = stream(str(path := tmp_path / "g"), block_bytes=5)
    path.write_text("a\nb\n\n" * 4)
    first = next(blocks)
    (tmp_path / "h").write_text("c")
    (tmp_path / "h").replace(path)  # the old file can still be read
    assert first.n_tokens + sum(b.n_tokens for b in blocks) == 8
