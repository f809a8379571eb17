"""Span schemes: round trips, detection, conlleval's reading, masks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.corpus import schemes

TAGS = ["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"]
sentences_of = st.lists(
    st.lists(st.sampled_from(TAGS), min_size=1, max_size=7), min_size=1, max_size=4
)


def flat(sentences):
    tags = [t for s in sentences for t in s]
    strings = sorted(set(tags))
    ids = np.array([strings.index(t) for t in tags], np.int32)
    return strings, ids, np.cumsum([0, *(len(s) for s in sentences)]).astype(np.int64)


def conlleval(sentences):
    """Chunks by the rules of conlleval.pl, startOfChunk and endOfChunk written out (S added)."""
    found, t = set(), 0
    for sentence in sentences:
        start = None
        previous, previous_type = "O", ""
        for n, tag in enumerate([*sentence, "O"]):
            prefix, _, kind = tag.partition("-")
            pair = previous + prefix
            ends = pair in {"BB", "BO", "IB", "IO", "EE", "EI", "EO", "EB"} or previous == "S"
            ends |= prefix == "S" and previous != "O"
            ends |= previous != "O" and prefix != "O" and previous_type != kind
            begins = pair in {"BB", "IB", "OB", "OI", "EE", "EI", "OE", "EB"} or prefix == "S"
            begins |= previous == "S" and prefix != "O"
            begins |= prefix != "O" and previous_type != kind
            if start is not None and ends:
                found.add((start, t + n - 1, previous_type))
                start = None
            if begins and prefix != "O":
                start = t + n
            previous, previous_type = prefix, kind
        t += len(sentence)
    return found


def read(sentences, among=()):
    """Spans as conlleval reads them, or of them those that are well-formed in some scheme."""
    strings, ids, cuts = flat(sentences)
    tags = schemes.parse(strings)
    found = schemes.spans(tags.prefix[ids], tags.type[ids], cuts)
    if among:
        found = found.without(schemes.detect(tags, ids, cuts, among).irregular)
    return {(a, b, tags.types[k]) for a, b, k in found.keys()}  # noqa: SIM118


@settings(max_examples=300, deadline=None)
@given(sentences_of)
def test_lenient_reading_is_conllevals(sentences):
    assert read(sentences) == conlleval(sentences)


@settings(max_examples=200, deadline=None)
@given(sentences_of, st.sampled_from(schemes.SCHEMES))
def test_conversion_keeps_spans_and_is_well_formed(sentences, scheme):
    strings, ids, cuts = flat(sentences)
    names, new = schemes.convert(strings, ids, cuts, scheme)
    converted = [[names[i] for i in new[a:b]] for a, b in pairwise(cuts)]
    assert read(converted) == read(sentences)
    assert read(converted, (scheme, "iob2")) == read(sentences)
    assert not schemes.detect(schemes.parse(names), new, cuts).irregular.size
    allowed, start, end = schemes.mask(names, scheme)
    for a, b in zip(cuts[:-1], cuts[1:], strict=True):
        assert start[new[a]]
        assert end[new[b - 1]]
        assert all(allowed[new[t - 1], new[t]] for t in range(a + 1, b))


@pytest.mark.parametrize(
    ("tags", "scheme", "irregular"),
    [
        ("B-A I-A O B-B", "iob2", 0),
        ("I-A I-A O I-B", "iob1", 0),
        ("I-A B-A I-A", "iob1", 0),
        ("B-A I-A O I-B B-B", "iob2", 1),
        ("S-A O B-A E-A", "iobes", 0),
        ("S-A O B-A O", "iobes", 1),
        ("U-A O B-A I-A L-A", "iobes", 0),
        ("O I-A B-B", "iob2", 1),
        ("I-A O I-B I-B O B-A O I-A", "iob1", 1),
        ("B-A I-A O B-B O S-A O B-A", "iob2", 1),
    ],
)
def test_detection(tags, scheme, irregular):
    strings, ids, cuts = flat([tags.split()])
    found = schemes.detect(schemes.parse(strings), ids, cuts)
    assert (found.scheme, found.irregular.size) == (scheme, irregular)


def test_the_scheme_is_the_one_that_is_broken_least():
    """IOB1 with two needless B- is not IOB2 in which every other span lacks its B-."""
    regular = [["I-A", "I-A", "O", "I-B"]] * 500
    strings, ids, cuts = flat([*regular, ["O", "B-A", "O"], ["B-B", "I-B"]])
    found = schemes.detect(schemes.parse(strings), ids, cuts)
    assert (found.scheme, found.irregular.tolist()) == ("iob1", [2001, 2003])


@pytest.mark.parametrize(
    ("scheme", "tags", "kept"),
    [
        ("iob2", "I-A B-A I-B O B-B I-B", {(1, 1, "A"), (4, 5, "B")}),
        ("iob1", "B-A I-A O I-B B-B I-A", {(3, 3, "B"), (4, 4, "B"), (5, 5, "A")}),
        ("iobes", "S-A B-A O B-B E-B I-B E-B", {(0, 0, "A"), (3, 4, "B")}),
    ],
)
def test_strict_reading_drops_spans_with_irregular_tags(scheme, tags, kept):
    assert read([tags.split()], (scheme,)) == kept


def test_plain_tags_are_not_spans():
    assert schemes.parse(["NN", "VB"]) is None
    assert schemes.parse(["O", "B-"]) is None


def test_a_mask_leaves_every_sentence_some_tags():
    allowed, start, end = schemes.mask(["B-X", "E-X"], "iobes")
    assert allowed.all()
    assert start.all()
    assert end.all()
    assert not schemes.mask(["B-X", "E-X", "O"], "iobes")[0].all()
