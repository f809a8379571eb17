"""Attachment scores: each convention by hand, and all of them against a plain loop."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus.test_trees import flat, nonprojective, trees
from turbotag.corpus.reader import Column
from turbotag.metrics.attachment import CONVENTIONS, score_trees
from turbotag.report.attachment import attachment_table

FORMS = ["He", "costs", "$", "5", ".", "!", "No", "?!"]
UPOS = ["PRON", "VERB", "SYM", "NUM", "PUNCT", "PUNCT", "INTJ", "PUNCT"]
CUTS = np.array([0, 5, 6, 8])
GOLD = np.array([2, 0, 2, 3, 2, 0, 0, 1], np.int32)
PREDICTED = np.array([2, 0, 4, 2, 3, 0, 0, 1], np.int32)
GOLD_LABELS = ["nsubj", "root", "obj", "nummod", "punct", "root", "root", "punct"]
PREDICTED_LABELS = ["nsubj:outer", "root", "obj", "obj", "punct", "punct", "root", "punct"]


def numbered(labels):
    strings = list(dict.fromkeys(labels))
    return Column(strings, np.array([strings.index(s) for s in labels], np.int32))


def example(**changed):
    given = {
        "upos": UPOS,
        "gold_labels": numbered(GOLD_LABELS),
        "predicted_labels": numbered(PREDICTED_LABELS),
    }
    return score_trees(GOLD, PREDICTED, CUTS, FORMS, **{**given, **changed})


def counts(c):
    words = (c.tokens, c.right_heads, c.right_arcs, c.right_labels)
    return (*words, c.sentences, c.right_trees, c.right_labelled_trees, c.right_roots)


# tokens, right heads, arcs, labels; sentences, right trees, labelled trees, roots.
BY_HAND = {
    "conll18": (8, 5, 4, 6, 3, 2, 1, 3),  # all; of the sentence '!' the label is wrong
    "nopunct": (5, 3, 3, 4, 2, 1, 1, 2),  # without '.', '!' and '?!'; nsubj:outer is nsubj
    "conllx": (5, 3, 2, 3, 2, 1, 1, 2),  # '$' is no punctuation, and nsubj:outer is not nsubj
}


@pytest.mark.parametrize("name", BY_HAND)
def test_conventions_by_hand(name):
    c = example().conventions[name]
    assert counts(c) == BY_HAND[name]
    tokens, heads, arcs, labels, sentences, right, labelled, roots = BY_HAND[name]
    assert (c.uas, c.las, c.label_accuracy) == (heads / tokens, arcs / tokens, labels / tokens)
    assert (c.exact_match, c.labelled_exact_match) == (right / sentences, labelled / sentences)
    assert c.root_accuracy == roots / sentences
    assert c.convention == CONVENTIONS[name]
    assert name in c.convention


def test_types_and_lengths_by_hand():
    score = example()
    types = {t: (c.gold, c.predicted, c.correct) for t, c in score.types.items()}
    assert types == {"nsubj": (1, 1, 1), "root": (2, 2, 2), "obj": (1, 2, 0), "nummod": (1, 0, 0)}
    whole = score.conventions["conllx"].types
    assert (whole["nsubj"].predicted, whole["nsubj:outer"].gold) == (0, 0)
    lengths = {d: (a.tokens, a.right_heads, a.right_arcs) for d, a in score.chosen.lengths.items()}
    assert lengths == {
        "root": (2, 2, 2),
        "1": (3, 1, 1),
        **dict.fromkeys(["2", "3-6", "7-10", "11+"], (0, 0, 0)),
    }


@pytest.mark.parametrize(
    ("length", "bucket"), [(1, "1"), (2, "2"), (3, "3-6"), (6, "3-6"), (7, "7-10"), (11, "11+")]
)
def test_buckets_of_length(length, bucket):
    heads = np.array([0, *[1] * length], np.int32)
    wrong = heads.copy()
    wrong[length] = 0
    s = score_trees(heads, wrong, np.array([0, length + 1]), ["w"] * (length + 1))
    missed = {d: a.tokens - a.right_heads for d, a in s.chosen.lengths.items()}
    assert {d for d, n in missed.items() if n} == {bucket}


def test_main_is_las_by_nopunct_if_there_is():
    assert (example().measure, example().main) == ("LAS", 3 / 5)
    assert example().convention == CONVENTIONS["nopunct"]
    without = example(upos=None)
    assert set(without.conventions) == {"conll18", "conllx"}
    assert (without.main, without.convention) == (4 / 8, CONVENTIONS["conll18"])
    heads = example(predicted_labels=None)
    assert (heads.measure, heads.main, heads.types) == ("UAS", 3 / 5, {})
    assert heads.as_dict()["las"] is None


@pytest.mark.parametrize("form", ["—", "«", "_", "...", "?!", "、"])
def test_punctuation_characters(form):
    s = score_trees(np.array([0, 1]), np.array([0, 1]), np.array([0, 2]), ["w", form])
    assert s.conventions["conllx"].tokens == 1


@pytest.mark.parametrize("form", ["$", "+", "=", "`", "5.", "'s", ""])
def test_not_punctuation_characters(form):
    s = score_trees(np.array([0, 1]), np.array([0, 1]), np.array([0, 2]), ["w", form])
    assert s.conventions["conllx"].tokens == 2


def test_nonprojective_arcs():
    # 2 -> 5 and 4 -> 8 in gold; the prediction has 2 -> 5 and, wrongly, 2 -> 8.
    gold = np.array([2, 3, 0, 3, 2, 7, 5, 4], np.int32)
    predicted = np.array([2, 3, 0, 3, 2, 7, 5, 2], np.int32)
    forms, upos = ["w"] * 7 + ["."], ["X"] * 7 + ["PUNCT"]
    s = score_trees(gold, predicted, np.array([0, 8]), forms, upos)
    c = s.conventions["conll18"].nonprojective
    assert (c.gold, c.predicted, c.correct) == (2, 2, 1)
    for name in ("conllx", "nopunct"):
        c = s.conventions[name].nonprojective
        assert (c.gold, c.predicted, c.correct) == (1, 1, 1)
    # The same arc, projective in the prediction, is not a non-projective arc found.
    s = score_trees(np.array([3, 0, 0]), np.array([3, 3, 0]), np.array([0, 3]), ["w"] * 3)
    c = s.conventions["conll18"].nonprojective
    assert (c.gold, c.predicted, c.correct) == (1, 0, 0)


def test_nothing_to_count():
    s = score_trees(np.array([0]), np.array([0]), np.array([0, 1]), ["."], ["PUNCT"])
    assert (s.chosen.tokens, s.chosen.sentences, s.main, s.chosen.exact_match) == (0, 0, 0, 0)
    none = np.zeros(0, np.int32)
    s = score_trees(none, none, np.array([0]), [], [], Column([], none), Column([], none))
    assert (s.main, s.types) == (0, {})
    with pytest.raises(ValueError, match="number of tokens"):
        score_trees(GOLD, PREDICTED, CUTS, FORMS[:-1])


@st.composite
def pairs(draw):
    gold = draw(st.lists(trees(most=6), min_size=1, max_size=4))
    n = sum(map(len, gold))

    def column(values):
        return draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))

    predicted = [draw(st.just(heads) | trees(len(heads), len(heads))) for heads in gold]
    labels = ["a", "a:x", "a:y", "b", "c:x"]
    words = column([".", "w", "$", "«»", "a."]), column(["PUNCT", "X"])
    return gold, predicted, *words, column(labels), column(labels)


def plain(name, gold, predicted, forms, upos, gold_labels, predicted_labels):
    """The counts of BY_HAND and of non-projective arcs, word by word."""
    of_words, of_sentences, arcs, t = [0] * 4, [0] * 4, [0] * 3, 0
    for g, p in zip(gold, predicted, strict=True):
        in_sentence = []
        cross_g, cross_p = nonprojective(g), nonprojective(p)
        for i in range(len(g)):
            a, b = gold_labels[t], predicted_labels[t]
            if name != "conllx":
                a, b = a.split(":")[0], b.split(":")[0]
            skipped = {
                "conll18": False,
                "nopunct": upos[t] == "PUNCT",
                "conllx": all(unicodedata.category(c).startswith("P") for c in forms[t]),
            }
            t += 1
            if skipped[name]:
                continue
            head, root = g[i] == p[i], (g[i] == 0) == (p[i] == 0)
            in_sentence.append((head, head and a == b, root))
            of_words = np.add(of_words, [1, head, head and a == b, a == b])
            arcs = np.add(arcs, [cross_g[i], cross_p[i], cross_g[i] and cross_p[i] and head])
        if in_sentence:
            of_sentences = np.add(of_sentences, [1, *map(all, zip(*in_sentence, strict=True))])
    return (*of_words, *of_sentences), tuple(arcs)


@settings(max_examples=150, deadline=None)
@given(pairs())
def test_scores_are_those_of_a_plain_loop(pair):
    gold, predicted, forms, upos, a, b = pair
    heads, cuts = flat(gold)
    s = score_trees(heads, flat(predicted)[0], cuts, forms, upos, numbered(a), numbered(b))
    for name, c in s.conventions.items():
        arcs = c.nonprojective
        expected = plain(name, *pair)
        assert (counts(c), (arcs.gold, arcs.predicted, arcs.correct)) == expected
        assert sum(x.gold for x in c.types.values()) == c.tokens
        assert sum(x.predicted for x in c.types.values()) == c.tokens
        assert sum(x.correct for x in c.types.values()) == c.right_arcs
        assert sum(x.tokens for x in c.lengths.values()) == c.tokens
        assert sum(x.right_arcs for x in c.lengths.values()) == c.right_arcs


@settings(max_examples=50, deadline=None)
@given(pairs())
def test_a_file_against_itself(pair):
    gold, _, forms, upos, labels, _ = pair
    heads, cuts = flat(gold)
    s = score_trees(heads, heads, cuts, forms, upos, numbered(labels), numbered(labels))
    for c in s.conventions.values():
        shares = {c.uas, c.las, c.label_accuracy, c.exact_match, c.labelled_exact_match}
        assert shares | {c.root_accuracy} == {1.0 if c.tokens else 0.0}
        assert c.nonprojective.gold == c.nonprojective.predicted == c.nonprojective.correct
        assert all(x.f1 == 1 for x in c.types.values())


def test_as_dict_is_json_and_states_the_conventions():
    d = json.loads(json.dumps(example().as_dict()))
    assert (d["measure"], d["las"], d["tokens"]) == ("LAS", 3 / 5, 5)
    assert d["conventions"]["conllx"]["convention"] == CONVENTIONS["conllx"]
    assert d["types"]["obj"]["predicted"] == 2
    assert d["lengths"]["1"] == {"tokens": 3, "uas": 1 / 3, "las": 1 / 3}


def test_table():
    lines = attachment_table(example()).splitlines()
    shown = [" ".join(line.split()) for line in lines]
    assert shown[0] == "UAS LAS label acc. exact labelled root tokens"
    assert shown[1] == "nopunct 60.00 60.00 80.00 50.00 50.00 100.00 5"
    assert shown[3] == "conllx 60.00 40.00 60.00 50.00 50.00 100.00 5"
    assert "obj 0.00 0.00 0.00 1 2 0" in shown
    for sentence in CONVENTIONS.values():
        assert f"convention: {sentence}" in lines
    assert attachment_table(example(gold_labels=None)).splitlines()[1].split()[2] == "-"


def test_table_shows_the_frequent_labels():
    names = [f"l{i:02}" for i in range(20)]
    labels = [s for i, s in enumerate(names) for _ in range(i + 1)]
    heads = np.zeros(len(labels), np.int32)
    cuts = np.array([0, heads.size])
    both = {"gold_labels": numbered(labels), "predicted_labels": numbered(labels)}
    s = score_trees(heads, heads, cuts, ["w"] * heads.size, **both)
    short, whole = attachment_table(s), attachment_table(s, all_labels=True)
    assert [x for x in short.split() if x in names] == names[:4:-1]
    assert "(5 rarer labels left out)" in short
    assert [x for x in whole.split() if x in names] == names[::-1]
