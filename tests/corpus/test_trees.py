"""Trees: errors that name file and line, projectivity by brute force, lifting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turbotag.corpus.reader import read
from turbotag.corpus.trees import check_trees, crossing, lift, projective_sentences, read_heads
from turbotag.errors import DataError


def block_of(tmp_path, *sentences, name="trees.conllu"):
    """A file with a comment line before each sentence of heads."""
    lines = []
    for heads in sentences:
        lines.append("# text")
        lines += [f"{i}\tw{i}\t_\tX\t_\t_\t{h}\tdep\t_\t_" for i, h in enumerate(heads, 1)]
        lines.append("")
    if name.endswith(".conllx"):
        lines = [line for line in lines if not line.startswith("#")]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return read(str(path))


@st.composite
def trees(draw, least=1, most=9):
    """Heads of one sentence: each word attached to the root or to a word placed before it."""
    order = draw(st.permutations(range(1, draw(st.integers(least, most)) + 1)))
    heads = [0] * len(order)
    for i, m in enumerate(order):
        heads[m - 1] = draw(st.sampled_from([0, *order[:i]]) if i else st.just(0))
    return heads


def flat(sentences):
    cuts = np.cumsum([0, *(len(s) for s in sentences)]).astype(np.int64)
    return np.array([h for s in sentences for h in s], np.int32), cuts


def below(heads, h, w):
    """Whether w is h or a descendant of h."""
    while w != h and w:
        w = heads[w - 1]
    return w == h


def nonprojective(heads):
    """The definition, word for word."""
    return [
        any(not below(heads, h, w) for w in range(min(h, m) + 1, max(h, m)))
        for m, h in enumerate(heads, 1)
    ]


@pytest.mark.parametrize("name", ["a.conllu", "a.conllx"])
def test_heads_are_read(tmp_path, name):
    heads = read_heads(block_of(tmp_path, [2, 0, 2], [0], [0, 0], name=name))
    assert heads.dtype == np.int32
    assert heads.tolist() == [2, 0, 2, 0, 0, 0]


# Heads of two sentences, the line of the error (comments are lines 1 and 5), words of the message.
BAD = {
    "missing": ([0, 1], ["_", 0], 6, "head is missing"),
    "no number": ([0, 1], [0, "1a"], 7, "head '1a' is not a number"),
    "no ASCII number": ([0, "²"], [0, 1], 3, "head '²' is not a number"),
    "too large": ([0, 3], [0, 1], 3, "head 3 is outside the sentence: expected 0 to 2"),
    "far too large": ([0, "9" * 5000], [0, 1], 3, "outside the sentence: expected 0 to 2"),
    "negative": ([0, 1], [-1, 0], 6, "head -1 is outside the sentence: expected 0 to 2"),
    "own head": ([0, 1], [0, 2], 7, "word 2 is its own head"),
    "no root": ([0, 1], [2, 3, 1], 6, "the sentence that starts here has no root"),
    "cycle": ([0, 1], [0, 3, 4, 2, 1], 7, "the heads of words 2, 3, 4 form a cycle"),
    "cycle that others hang from": ([0, 1], [2, 4, 0, 2], 7, "the heads of words 2, 4 form"),
    "long cycle": ([0, 1], [0, *range(3, 12), 2], 7, "words 2, 3, 4, 5, 6, 7, 8, 9, ... form"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_tree_is_refused(tmp_path, name):
    first, second, line, words = BAD[name]
    block = block_of(tmp_path, first, second)
    with pytest.raises(DataError) as error:
        read_heads(block)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{block.path}, line {line}: ")


def test_a_second_root_is_refused_only_if_asked(tmp_path):
    block = block_of(tmp_path, [0, 1], [2, 0, 0])
    heads = read_heads(block)
    with pytest.raises(DataError, match="line 8: word 3 is a second root"):
        read_heads(block, single_root=True)
    with pytest.raises(DataError, match="line 8: word 3 is a second root"):
        check_trees(block, heads, single_root=True)
    heads[-1] = 2
    check_trees(block, heads, single_root=True)


def test_a_file_without_heads(tmp_path):
    path = tmp_path / "a.iob2"
    path.write_text("Ada B-PER\n")
    with pytest.raises(DataError, match=r"a\.iob2: has no column 'head'"):
        read_heads(read(str(path)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(trees(), st.lists(st.integers(0, 4), min_size=4, max_size=4))))
def test_exactly_the_trees_are_accepted(tmp_path_factory, sentences):
    def is_tree(heads):
        for m in range(1, len(heads) + 1):
            for _ in heads:
                m = heads[m - 1] if m else 0
            if m:
                return False
        return True

    if not sentences:
        return
    block = block_of(tmp_path_factory.mktemp("trees"), *sentences)
    if all(map(is_tree, sentences)):
        assert read_heads(block).tolist() == flat(sentences)[0].tolist()
    else:
        with pytest.raises(DataError, match=r"own head|no root|cycle"):
            read_heads(block)


def test_crossing_by_hand():
    # "A hearing is scheduled on the issue today": the arcs hearing -> on and scheduled -> today.
    hearing = [2, 3, 0, 3, 2, 7, 5, 4]
    assert np.flatnonzero(crossing(*flat([hearing]))).tolist() == [4, 7]
    # 5 -> 2 crosses 1 -> 4, of which it is the one at fault: 2 is below 1, but 4 is not below 5.
    assert np.flatnonzero(crossing(*flat([[0, 5, 2, 1, 1]]))).tolist() == [1]
    # An arc from the root is projective itself; the one that spans its word is not.
    assert crossing(*flat([[3, 0, 0]])).tolist() == [True, False, False]
    assert projective_sentences(*flat([hearing, [0, 1], [3, 0, 0]])).tolist() == [0, 1, 0]


def test_lift_by_hand():
    # 2 -> 5, then 4 -> 8, each to the head of its head; the input stays.
    heads, cuts = flat([[2, 3, 0, 3, 2, 7, 5, 4], [0, 1]])
    lifted, changed = lift(heads, cuts)
    assert lifted.tolist() == [2, 3, 0, 3, 3, 7, 5, 3, 0, 1]
    assert changed == 2
    assert heads.tolist() == [2, 3, 0, 3, 2, 7, 5, 4, 0, 1]
    # 1 -> 4 and 5 -> 2 are as long: the left one is lifted to 2 -> 4 and, now the shortest, again
    # to 5 -> 4, then 5 -> 2; the other order would end in 3 -> 4.
    lifted, changed = lift(*flat([[2, 5, 0, 1, 3]]))
    assert (lifted.tolist(), changed) == ([2, 3, 0, 5, 3], 2)


def slow_lift(heads):
    """Nivre and Nilsson's algorithm on lists."""
    heads = list(heads)
    while any(nonprojective(heads)):
        arcs = [(h, m) for m, h in enumerate(heads, 1) if nonprojective(heads)[m - 1]]
        h, m = min(arcs, key=lambda arc: (abs(arc[0] - arc[1]), min(arc)))
        heads[m - 1] = heads[h - 1]
    return heads


@settings(max_examples=300, deadline=None)
@given(st.lists(trees(), min_size=1, max_size=4))
def test_crossing_and_lift_are_the_definitions(sentences):
    heads, cuts = flat(sentences)
    assert crossing(heads, cuts).tolist() == [x for s in sentences for x in nonprojective(s)]
    lifted, changed = lift(heads, cuts)
    assert lifted.tolist() == [h for s in sentences for h in slow_lift(s)]
    assert changed == (lifted != heads).sum()
    assert projective_sentences(lifted, cuts).all()
    before = projective_sentences(heads, cuts)
    assert before.tolist() == [s == slow_lift(s) for s in sentences]
