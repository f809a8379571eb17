"""Edit scripts between forms and lemmas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turbotag.corpus.scripts import CASES, IRREGULAR, apply, encode

LETTERS = st.text(alphabet="abAB> =-İß'é1", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("form", "lemma", "script"),
    [
        ("walking", "walk", "k > ing>"),
        ("Studies", "study", "l > ies>y"),
        ("gegangen", "gehen", "k > gangen>hen"),
        ("unbound", "bind", "= bind"),
        ("unbinds", "bind", "k un> s>"),
        ("was", "be", "= be"),
        ("are", "be", "= be"),
        ("the", "the", "k > >"),
        ("The", "the", "l > >"),
        ("PARIS", "Paris", "c > >"),
        ("Paris", "Paris", "k > >"),
        ("iPhones", "iPhone", "k > s>"),
        ("nato", "NATO", "u > >"),
        ("10 000", "10 000", "k > >"),
        ("a b", "a c", "k > b>c"),
        ("x>", "x", "= x"),
    ],
)
def test_scripts_of_words(form, lemma, script):
    assert encode(form, lemma) == script
    assert apply(form, script) == lemma


@given(LETTERS, LETTERS)
def test_a_script_gives_back_its_lemma(form, lemma):
    assert apply(form, encode(form, lemma)) == lemma


@given(LETTERS, LETTERS, LETTERS)
def test_what_a_script_makes_of_another_form_is_never_empty(form, lemma, other):
    script = encode(form, lemma)
    found = apply(other, script)
    assert found is None or found
    if found is not None and not script.startswith(IRREGULAR):
        alike = [case + script[1:] for case in CASES]
        assert sum(apply(other, s) == found for s in alike) == 1


def test_a_script_needs_what_it_takes_away_and_something_to_keep():
    assert apply("sing", "k > ing>") == "s"
    assert apply("ing", "k > ing>") is None
    assert apply("walked", "k > ing>") is None
    assert apply("the", "l > >") is None
