"""Scripts of multiword tokens: what is learned from few of them, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbotag.corpus.multiword import Script, Splitter

ENGLISH = [
    ("don't", ["do", "n't"]),
    ("can't", ["ca", "n't"]),
    ("won't", ["wo", "n't"]),
    ("cannot", ["can", "not"]),
    ("John's", ["John", "'s"]),
    ("it's", ["it", "'s"]),
    ("gonna", ["gon", "na"]),
]
PORTUGUESE = [
    ("no", ["em", "o"]),
    ("No", ["Em", "o"]),
    ("na", ["em", "a"]),
    ("dos", ["de", "os"]),
    ("dá-lo", ["dar", "lo"]),
    ("amá-la", ["amar", "la"]),
]


def test_tokens_that_were_seen_and_others_like_them():
    split = Splitter.learn(ENGLISH).split
    assert all(split(form) == tuple(words) for form, words in ENGLISH)
    assert split("shouldn't") == ("should", "n't")
    assert split("Mara's") == ("Mara", "'s")
    assert split("DON'T") == ("DO", "N'T")
    assert split("Cannot") == ("Can", "not")
    assert split("n't") is None  # nothing would be left
    assert split("hello") is None


def test_words_that_are_not_parts_of_the_token():
    split = Splitter.learn(PORTUGUESE).split
    assert all(split(form) == tuple(words) for form, words in PORTUGUESE)
    assert split("NA") == ("EM", "A")
    assert split("Dos") == ("De", "os")
    assert split("chamá-lo") == ("chamar", "lo")
    assert Splitter.learn([]).split("no") is None


def test_the_most_frequent_of_several_ways():
    examples = [("ab", ["a", "b"]), ("ab", ["x", "y"]), ("ab", ["x", "y"])]
    assert Splitter.learn(examples).split("ab") == ("x", "y")


def test_endings_that_say_the_same_are_kept_once():
    examples = [(f"{name}'s", [name, "'s"]) for name in ("Ada", "Bob", "Kaja")]
    assert Splitter.learn(examples).scripts == {"s": Script((2,))}


lower = st.text("abé'", min_size=1, max_size=5)


@given(lower, st.lists(lower, min_size=1, max_size=4))
def test_a_script_gives_back_the_words_it_was_made_from(form, words):
    assert Script.of(form, words).words(form) == tuple(words)


@given(st.lists(st.tuples(lower, st.lists(lower, min_size=2, max_size=3)), max_size=8), lower)
def test_files(examples, other):
    splitter = Splitter.learn(examples)
    again = Splitter.read(splitter.written())
    assert again.scripts == splitter.scripts
    words = again.split(other)
    assert words is None or all(words)


@pytest.mark.parametrize(
    "script",
    [[[-1], 0, "", []], [[], True, "", []], [[], 0, "a\tb", []], [[], 0, "", ["\n"]], [[], 0, ""]],
)
def test_what_no_splitter_wrote_is_refused(script):
    with pytest.raises((ValueError, TypeError)):
        Splitter.read(json.dumps({"a": script}).encode())
