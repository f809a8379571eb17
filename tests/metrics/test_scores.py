import numpy as np
import pytest

from turbotag.metrics import spans, tags


def ids(strings, sequence):
    return np.array([strings.index(s) for s in sequence])


def test_span_score_by_hand():
    gold = ["B-A", "I-A", "O", "B-B", "O"]
    predicted = ["B-A", "I-A", "O", "I-A", "B-B"]
    names = sorted(set(gold) | set(predicted))
    cuts = np.array([0, 3, 5])
    s = spans.score(names, ids(names, gold), names, ids(names, predicted), cuts)
    assert (s.total.gold, s.total.predicted, s.total.correct) == (2, 3, 1)
    assert s.total.f1 == pytest.approx(2 * (1 / 3) * 0.5 / (1 / 3 + 0.5))
    assert (s.tokens, s.right_tokens, s.sentences, s.right_sentences) == (5, 3, 2, 1)
    assert (s.types["A"].gold, s.types["A"].predicted, s.types["B"].correct) == (1, 2, 0)
    strict = spans.score(names, ids(names, gold), names, ids(names, predicted), cuts, strict=True)
    assert strict.total.predicted == 2
    assert "strict" in strict.convention
    assert "conlleval" in s.convention


def compare_strictly(gold, predicted):
    """Counts and convention of two strings of tags, one sentence."""
    gold, predicted = gold.split(), predicted.split()
    names = sorted(set(gold) | set(predicted))
    cuts = np.array([0, len(gold)])
    s = spans.score(names, ids(names, gold), names, ids(names, predicted), cuts, strict=True)
    return (s.total.gold, s.total.predicted, s.total.correct), s.convention


def test_strict_is_strict_in_the_scheme_of_the_gold_tags():
    """A needless B- is an error in IOB1, a missing one in IOB2."""
    counts, convention = compare_strictly("I-A O I-A B-A", "B-A O I-A B-A")
    assert counts == (3, 2, 2)
    assert convention == (
        "strict (only well-formed IOB1 spans count; tags that do not fit: 0 gold, 1 predicted)"
    )
    counts, convention = compare_strictly("B-A O B-A I-A", "I-A O I-A I-A")
    assert counts == (2, 0, 0)
    assert "IOB2" in convention
    assert "0 gold, 2 predicted" in convention
    counts, convention = compare_strictly("B-A O B-A I-A", "S-A O B-A E-A")
    assert counts == (2, 2, 2)
    assert convention == "strict (only well-formed IOB2 or IOBES spans count)"


def test_different_label_lists_and_schemes():
    gold, predicted = ["B-A", "I-A", "O"], ["S-A", "O", "S-B"]
    s = spans.score(gold, np.array([0, 2]), predicted, np.array([0, 2]), np.array([0, 2]))
    assert (s.total.correct, s.total.predicted) == (1, 2)
    assert spans.score(["NN"], np.array([0]), ["NN"], np.array([0]), np.array([0, 1])) is None


def test_tag_score():
    s = tags.score_tags(
        ["N", "V"], np.array([0, 1, 1]), ["V", "X"], np.array([0, 0, 1]), np.array([0, 3])
    )
    assert s.accuracy == pytest.approx(1 / 3)
    assert s.types["V"].as_dict()["precision"] == pytest.approx(0.5)
    assert s.types["X"].gold == 0
