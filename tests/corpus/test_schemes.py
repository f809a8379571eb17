"""Span schemes: round trips, detection, conlleval's reading, masks."""

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


def lenient(sentences):
    strings, ids, cuts = flat(sentences)
    tags = schemes.parse(strings)
    found = schemes.spans(tags.prefix[ids], tags.type[ids], cuts, strict=False)
    return {(a, b, tags.types[k]) for a, b, k in found.keys()}  # noqa: SIM118


@settings(max_examples=300, deadline=None)
@given(sentences_of)
def test_lenient_reading_is_conllevals(sentences):
    assert lenient(sentences) == conlleval(sentences)


@settings(max_examples=200, deadline=None)
@given(sentences_of, st.sampled_from(schemes.SCHEMES))
def test_conversion_keeps_spans_and_is_well_formed(sentences, scheme):
    strings, ids, cuts = flat(sentences)
    names, new = schemes.convert(strings, ids, cuts, scheme)
    tags = schemes.parse(names)
    found = schemes.spans(tags.prefix[new], tags.type[new], cuts, strict=False)
    assert {(a, b, tags.types[k]) for a, b, k in found.keys()} == lenient(sentences)  # noqa: SIM118
    detected = schemes.detect(tags, new, cuts)
    if detected.scheme == scheme:
        assert not detected.irregular.size
    if scheme != "iob1":
        exact = schemes.spans(tags.prefix[new], tags.type[new], cuts, strict=True)
        assert exact.keys() == found.keys()
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
    ],
)
def test_detection(tags, scheme, irregular):
    strings, ids, cuts = flat([tags.split()])
    found = schemes.detect(schemes.parse(strings), ids, cuts)
    assert (found.scheme, found.irregular.size) == (scheme, irregular)


def test_strict_reading_drops_what_does_not_open():
    strings, ids, cuts = flat([["I-A", "B-A", "I-B", "O", "B-B", "I-B"]])
    tags = schemes.parse(strings)
    found = schemes.spans(tags.prefix[ids], tags.type[ids], cuts, strict=True)
    assert {(a, b, tags.types[k]) for a, b, k in found.keys()} == {(1, 1, "A"), (4, 5, "B")}  # noqa: SIM118


def test_plain_tags_are_not_spans():
    assert schemes.parse(["NN", "VB"]) is None
    assert schemes.parse(["O", "B-"]) is None


def test_a_mask_leaves_every_sentence_some_tags():
    allowed, start, end = schemes.mask(["B-X", "E-X"], "iobes")
    assert allowed.all()
    assert start.all()
    assert end.all()
    assert not schemes.mask(["B-X", "E-X", "O"], "iobes")[0].all()
