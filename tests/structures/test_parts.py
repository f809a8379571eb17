"""Second-order parts: where they stand and which of them a tree has, from their definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.second_order_oracles import END, START, SecondOrder, sentence, structures
from turbotag.structures import parts, pruning

sentences = st.builds(
    sentence, st.integers(1, 5), st.integers(0, 10_000), st.booleans(), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(sentences)
def test_sizes_and_splits(s):
    p = s.p
    assert parts.size(p) == s.size
    kinds = ("arc", "next", "grand", "both")
    x = np.arange(float(s.size))
    for found, kind in zip(parts.split(x, p), kinds, strict=True):
        np.testing.assert_array_equal(found, x[s.kind(kind)])
        assert found.base is not None  # a view: what is written to it is written to x
    assert p.heads.tolist() == [h for h, _ in s.arcs]
    assert p.mods.tolist() == [m for _, m in s.arcs]
    assert p.siblings[-1] == s.kind("next").sum()
    assert p.grands[-1] == s.kind("grand").sum()
    assert len(p.pairs) == s.kind("both").sum()


@settings(max_examples=60, deadline=None)
@given(sentences)
def test_arcs_out_of_a_word_are_listed_from_it_outwards(s):
    p, seen = s.p, []
    for h in range(1, s.n + 1):
        left = p.mods[p.arcs[p.first[2 * h] : p.first[2 * h + 1]]].tolist()
        right = p.mods[p.arcs[p.first[2 * h + 1] : p.first[2 * h + 2]]].tolist()
        assert left == sorted((m for g, m in s.arcs if g == h > m), reverse=True)
        assert right == sorted(m for g, m in s.arcs if g == h < m)
        seen += p.arcs[p.first[2 * h] : p.first[2 * h + 2]].tolist()
    assert sorted(seen) == [e for e, (h, _) in enumerate(s.arcs) if h > 0]


@settings(max_examples=60, deadline=None)
@given(sentences)
def test_positions_are_the_words_of_the_parts(s):
    word = {START: s.n + 1, END: s.n + 2}
    expected = {"next": [], "grand": [], "both": []}
    for kind, *rest in s.names[s.E :]:
        three = [rest[0], *rest[2:]] if kind == "next" else rest  # the side is not a word
        expected[kind].append([word.get(w, w) for w in three])
    for found, rows in zip(parts.positions(s.p), expected.values(), strict=True):
        assert found.shape == (len(rows), 3)
        assert found.tolist() == rows


@settings(max_examples=30, deadline=None)
@given(sentences, st.booleans())
def test_indicator_is_the_definition(s, single_root):
    z = np.empty(s.size)
    for heads, expected in zip(*structures(s, single_root), strict=True):
        z[:] = np.nan
        parts.indicator(heads, s.p, z)
        np.testing.assert_array_equal(z, expected)


def test_a_known_sentence():
    """0 -> 2, 2 -> 1, 2 -> 3, 2 -> 4 over all arcs of four words."""
    s = SecondOrder(*pruning.full(4), True)
    z = np.empty(s.size)
    parts.indicator(np.array([2, 0, 2, 2], np.int32), s.p, z)
    found = {s.names[i] for i in np.flatnonzero(z)}
    empty = [(1, -1), (1, 1), (3, -1), (3, 1), (4, -1), (4, 1)]
    assert found == {
        *(("arc", h, m) for m, h in enumerate((2, 0, 2, 2), 1)),
        *(("next", *side, START, END) for side in empty),
        ("next", 2, -1, START, 1),
        ("next", 2, -1, 1, END),
        ("next", 2, 1, START, 3),
        ("next", 2, 1, 3, 4),
        ("next", 2, 1, 4, END),
        *(("grand", 0, 2, m) for m in (1, 3, 4)),
        ("both", 2, 3, 4),
    }


@pytest.mark.parametrize("all_siblings", [False, True])
def test_a_sentence_of_one_word(all_siblings):
    s = SecondOrder(*pruning.full(1), all_siblings)
    assert s.names == [("arc", 0, 1), ("next", 1, -1, START, END), ("next", 1, 1, START, END)]
    z = np.empty(s.size)
    parts.indicator(np.zeros(1, np.int32), s.p, z)
    assert z.tolist() == [1.0, 1.0, 1.0]


def test_words_without_candidates_and_without_children():
    """Only 0 -> 1 and 3 -> 1: word 2 and 3 have no head, 1 and 2 no children."""
    s = SecondOrder(np.array([0, 2, 2, 2]), np.array([0, 3], np.int32), True)
    assert parts.size(s.p) == s.size == 2 + 6 + 2  # START-END of six sides, START-1, 1-END
    assert s.stats([(3, 1)]).sum() == 1 + 5 + 2
