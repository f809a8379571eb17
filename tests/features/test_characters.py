"""Units of running text and their values, against plain Python on strings."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.errors import DataError
from turbotag.features.characters import SOURCES, CharacterExtractor, sources
from turbotag.features.templates import load, parse

TEXTS = st.text("abAB\u00e9\u0301 \u00a0\t\n.'-!?1\u4e2d\u200b\U0001f600", max_size=40)
UNIT = re.compile(r"(?:[^\W\d_]\u0301*)+|(?:\d\u0301*)+|\S\u0301*")


def extractor(by_letter=False, template="unit[0]"):
    return CharacterExtractor(parse(template, "templates"), by_letter)


def units_of(text, by_letter=False, cuts=None):
    ours = extractor(by_letter)
    codes = ours.codes(text)
    return ours, codes, ours.units(codes, np.array(cuts or [0, len(text)]))


def chunks(text):
    """What stands between white space, with its offset."""
    return [(m.start(), m.group()) for m in re.finditer(r"[^\s\u200b]+", text)]


@settings(deadline=None)  # the first call may have to compile
@given(TEXTS, st.booleans())
def test_units(text, by_letter):
    _, _, found = units_of(text, by_letter)
    pattern = re.compile(r"\S\u0301*") if by_letter else UNIT
    expected = [
        (at + m.start(), at + m.end()) for at, c in chunks(text) for m in pattern.finditer(c)
    ]
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == expected
    assert found.starts[found.spaced].tolist() == [at for at, _ in chunks(text)]


@settings(deadline=None)  # the first call may have to compile
@given(TEXTS)
def test_values(text):
    """A value is the same at two units if and only if what it stands for is."""
    ours, codes, found = units_of(text)
    known = ours.alphabet.classes, ours.alphabet.lower
    matrix = sources(codes, *known, np.zeros(0, np.uint8), *vars(found).values())
    whole = chunks(text)
    for name, at in (("unit", 0), ("low", 1), ("chunk", 4), ("before", 7), ("after", 8)):
        expected = []
        for a, b in zip(found.starts.tolist(), found.ends.tolist(), strict=True):
            c = max(i for i, (start, _) in enumerate(whole) if start <= a)
            around = {"chunk": c, "before": c - 1, "after": c + 1}.get(name, c)
            form = text[a:b] if name in ("unit", "low") else ""
            if name in ("chunk", "before", "after"):
                form = whole[around][1] if 0 <= around < len(whole) else ""
            expected.append(form if name == "unit" else form.lower())
        assert SOURCES[at] == name
        values = matrix[:, at].tolist()
        assert [v == 0 for v in values] == [not form for form in expected]
        assert len(set(zip(values, expected, strict=True))) == len(set(expected))
        assert len(set(values)) == len(set(expected))


def test_kinds():
    words = "hello Hello HELLO H hEllo HeLLo 1 12 123456 1234567 . , \u4e2d"
    ours, codes, found = units_of(words)
    known = ours.alphabet.classes, ours.alphabet.lower
    matrix = sources(codes, *known, np.zeros(0, np.uint8), *vars(found).values())
    kinds = dict(zip(words.split(), matrix[:, SOURCES.index("kind")].tolist(), strict=True))
    assert kinds.pop("1234567") == kinds["123456"]
    assert len(set(kinds.values())) == len(kinds)


@settings(deadline=None)  # the first call may have to compile
@given(TEXTS, TEXTS)
def test_segments_do_not_see_each_other(one, other):
    """Features of a piece of text are the same whatever stands around it."""
    ours = extractor(template=load("tokenize"))
    marks = np.zeros(0, np.uint8)

    def keys(text, cuts):
        codes = ours.codes(text)
        units = ours.units(codes, np.array(cuts))
        return ours.keys(codes, units, marks)

    alone = [keys(text, [0, len(text)]) for text in (one, other)]
    both = keys(one + other, [0, len(one), len(one) + len(other)])
    assert np.array_equal(both, np.concatenate(alone))


def test_unknown_values_are_refused():
    with pytest.raises(DataError, match="'pos' is no value of characters: these are unit, low"):
        extractor(template="pos[0]")
