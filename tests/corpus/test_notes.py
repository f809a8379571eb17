"""Notes in MISC as arrays, compared with splitting strings."""

from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.corpus.formats import CONLLU
from turbotag.corpus.notes import notes
from turbotag.corpus.reader import from_bytes

NAMES = ("start_char", "NER", "N", "é")
NAME = st.sampled_from([*NAMES, "NE", "NERV", "", "_"])
VALUE = st.text("01x=é _", max_size=4) | st.sampled_from(["17", "9" * 19, "=", ""])
MISC = st.lists(st.tuples(NAME, VALUE).map("=".join) | NAME, min_size=1, max_size=4).map("|".join)


def block(fields):
    """Sentences of one word with these fields in MISC."""
    rows = [f"1\tx{chr(9).join(['', *'_______', field])}\n\n" for field in fields]
    return from_bytes("".join(rows).encode(), "f", CONLLU)


def split(field):
    return dict(note.split("=", 1) for note in field.split("|") if "=" in note)


@settings(deadline=None)  # the first call compiles
@given(st.lists(MISC.map(str.strip).filter(bool), max_size=5))
def test_as_splitting_strings_gives_them(fields):
    expected = [split(field) for field in fields]
    for name, note in zip(NAMES, notes(block(fields), *NAMES), strict=True):
        wanted = [own.get(name) for own in expected]
        assert [note.text(t) for t in range(len(fields))] == wanted
        strings, ids = note.column()
        assert [strings[i] for i in ids] == [value or "" for value in wanted]
        assert note.given.tolist() == [value is not None for value in wanted]
        whole = [v and v.isdecimal() and v.isascii() and len(v) < 19 for v in wanted]
        numbers = [int(v) if w else -1 for v, w in zip(wanted, whole, strict=True)]
        assert note.numbers().tolist() == numbers
