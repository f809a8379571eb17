import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import conlleval
from turbotag.corpus.reader import Column
from turbotag.metrics import spans, tags
from turbotag.models.gold import Layout
from turbotag.models.tag_comparison import evaluate_files
from turbotag.report.tables import percent, score_table


def column(strings, sequence):
    return Column(strings, np.array([strings.index(s) for s in sequence]))


def test_span_score_by_hand():
    gold = ["B-A", "I-A", "O", "B-B", "O"]
    predicted = ["B-A", "I-A", "O", "I-A", "B-B"]
    names = sorted(set(gold) | set(predicted))
    cuts = np.array([0, 3, 5])
    s = spans.score(column(names, gold), column(names, predicted), cuts)
    assert (s.total.gold, s.total.predicted, s.total.correct) == (2, 3, 1)
    assert s.total.f1 == pytest.approx(2 * (1 / 3) * 0.5 / (1 / 3 + 0.5))
    assert (s.tokens, s.right_tokens, s.sentences, s.right_sentences) == (5, 3, 2, 1)
    assert (s.types["A"].gold, s.types["A"].predicted, s.types["B"].correct) == (1, 2, 0)
    strict = spans.score(column(names, gold), column(names, predicted), cuts, strict=True)
    assert strict.total.predicted == 2
    assert "strict" in strict.convention
    assert "conlleval" in s.convention


def compare_strictly(gold, predicted):
    """Counts and convention of two strings of tags, one sentence."""
    gold, predicted = gold.split(), predicted.split()
    names = sorted(set(gold) | set(predicted))
    cuts = np.array([0, len(gold)])
    s = spans.score(column(names, gold), column(names, predicted), cuts, strict=True)
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
    gold = column(["B-A", "I-A", "O"], ["B-A", "O"])
    predicted = column(["S-A", "O", "S-B"], ["S-A", "S-B"])
    s = spans.score(gold, predicted, np.array([0, 2]))
    assert (s.total.correct, s.total.predicted) == (1, 2)
    nouns = column(["NN"], ["NN"])
    assert spans.score(nouns, nouns, np.array([0, 1])) is None


def test_tag_score():
    gold, predicted = column(["N", "V"], "NVV"), column(["V", "X"], "VVX")
    s = tags.score_tags(gold, predicted, np.array([0, 3]))
    assert s.accuracy == pytest.approx(1 / 3)
    assert s.types["V"].as_dict()["precision"] == pytest.approx(0.5)
    assert s.types["X"].gold == 0


tagged = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B-x-y", "I-x-y"])
line = st.one_of(
    st.tuples(st.just("w"), tagged, tagged),
    st.sampled_from([(), ("-DOCSTART-", "O", "O")]),
)


def rows(table):
    """The numbers of a score table: precision, recall and F1 by type."""
    found = re.findall(r"^(\S+) +(\S+) +(\S+) +(\S+) +\d+ +\d+ +\d+$", table, re.M)
    return {name: tuple(scores) for name, *scores in found}


@settings(max_examples=150, deadline=None)
@given(st.lists(line, min_size=1, max_size=40).filter(lambda ls: any(x[:1] == ("w",) for x in ls)))
def test_tables_are_those_of_conlleval(lines):
    """Every percentage to the last digit, types and total; with the -DOCSTART- lines, which
    conlleval counts, the accuracy too."""
    gold, predicted = ("\n".join(" ".join((*x[:1], *x[n : n + 1])) for x in lines) for n in (1, 2))
    oracle = conlleval.report([" ".join(x) for x in lines])
    score = evaluate_files(gold.encode(), predicted.encode(), Layout("columns"))
    table = score_table(score)
    if isinstance(score, spans.SpanScore):
        names = (oracle.gold + oracle.guessed).keys()
        expected = {name: oracle.scores(name) for name in names}
        assert rows(table) == {**expected, "all": oracle.scores()}
    marks = sum(x[:1] == ("-DOCSTART-",) for x in lines)
    assert score.docstarts == marks
    before = f"{marks} -DOCSTART- lines not counted; conlleval.pl counts them: " if marks else ""
    assert f"{before}{oracle.tokens} tokens, accuracy {oracle.accuracy}" in table


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 400))
def test_percentages_round_as_conllevals(gold, predicted, correct):
    """Counts near which a third decimal of 5 is frequent, without files around them."""
    counts = tags.Counts(gold, predicted, min(gold, predicted, correct))
    report = conlleval.Report()
    report.gold["A"], report.guessed["A"], report.correct["A"] = gold, predicted, counts.correct
    assert tuple(f"{p:.2f}" for p in counts.percentages) == report.scores("A")
    assert percent(counts.recall) == report.scores()[1]


def test_a_third_decimal_of_5():
    """100 * (23 / 160) is 14.374999999999998, and 2 * 1 / 64 is 3.125, which conlleval prints as
    3.13 by way of its percentages."""
    assert percent(23 / 160) == "14.38"
    assert f"{tags.Counts(160, 1000, 23).percentages[1]:.2f}" == "14.38"
    assert f"{tags.Counts(1, 63, 1).percentages[2]:.2f}" == "3.13"


def test_attributes_are_counted_by_name():
    gold, predicted = ["_", "Case=Nom|Number=Sing", "Case=Acc"], ["Case=Nom", "_", "Case=Acc|X=y"]
    columns = Column(gold, np.array([0, 1, 1, 2])), Column(predicted, np.array([1, 0, 2, 2]))
    found = tags.score_tags(*columns, np.array([0, 2, 4]))
    assert (found.right_tokens, found.tokens) == (1, 4)  # whole values
    counts = {name: (c.gold, c.predicted, c.correct) for name, c in found.types.items()}
    assert counts == {"Case": (3, 3, 2), "Number": (2, 0, 0), "X": (0, 2, 0)}
    assert "attributes" in found.convention


def test_more_values_than_a_table_can_show():
    many = [str(n) for n in range(400)]
    values = Column(many, np.arange(400))
    found = tags.score_tags(values, values, np.array([0, 400]))
    assert found.accuracy == 1.0
    assert found.types == {}
