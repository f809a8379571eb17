"""Arc templates and keys against plain Python that writes every feature out."""

import re

import numpy as np
import pytest

from tests.tree_oracles import trees
from turbotag.corpus.reader import read
from turbotag.errors import DataError
from turbotag.features import arcs, compact, templates
from turbotag.features.arc_kernels import (
    DISTANCES,
    NOWHERE,
    arc_scores,
    bucket,
    class_scores,
    relations,
)
from turbotag.features.arcs import ArcExtractor, Words
from turbotag.features.weights import RowTable, WeightTable
from turbotag.features.words import attribute
from turbotag.structures.pruning import every, full

COLUMNS = ("word", "lemma", "upos", "xpos", "feats")


def block(tmp_path, sentences, name="x.conllu"):
    """A file of sentences, each a list of rows with the values of COLUMNS."""
    text = "".join(
        "".join(f"{i}\t" + "\t".join(row) + "\t0\tdep\t_\t_\n" for i, row in enumerate(s, 1)) + "\n"
        for s in sentences
    )
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read(str(path))


def random_sentences(seed=0, n=16, longest=9):
    """Few values, so that features repeat; many of them are missing."""
    rng = np.random.default_rng(seed)
    values = {
        "word": ["Ada", "sings", "in", "B-52", "_", "é", "a", "runs"],
        "lemma": ["ada", "sing", "_", "in"],
        "upos": ["NOUN", "VERB", "PUNCT", "_"],
        "xpos": ["NN", "VBZ", ".", "_", "_"],
        "feats": ["Case=Nom", "Tense=Past|Case=Nom", "_"],
    }
    return [
        [[str(rng.choice(values[c])) for c in COLUMNS] for _ in range(length)]
        for length in [1, 2, *rng.integers(3, longest + 1, n - 2).tolist()]
    ]


# ---- The reference: every feature of an arc as a string ------------------------------------------

KINDS = ("b:", "set:", "count:")


def expand(text):
    """One list of words for each template but those of clusters, in the order of the kinds."""
    lines = []
    for line in text.splitlines():
        parts = line.split("#")[0].split() if "cluster" not in line else []
        own = [p for p in parts if set(p.split("|")) <= {"no", "dir", "dist"}]
        rest = [p for p in parts if p not in own]
        lines += [[*rest, w] for p in own or ["no"] for w in p.split("|")] if parts else []
    return sorted(lines, key=lambda t: next((i for i, k in enumerate(KINDS, 1) if _is(t, k)), 0))


def _is(template, kind):
    return any(p.startswith(kind) for p in template)


def place(relation, h, m, tree):
    """Where a word of the tree around an arc stands, None if there is none."""
    if relation in "hm":
        return h if relation == "h" else m
    head = tree[m - 1]
    if relation == "g":
        return tree[head - 1] if head else None
    sisters = [s for s in range(1, len(tree) + 1) if tree[s - 1] == head and s != m]
    children = [c for c in range(1, len(tree) + 1) if tree[c - 1] == m]
    chosen = {
        "l": [s for s in sisters if s < m][-1:],
        "r": [s for s in sisters if s > m][:1],
        "a": children[:1],
        "z": children[-1:],
    }[relation]
    return chosen[0] if chosen else None


def value(sentence, at, column):
    """What a template reads of a word, None where that is nothing."""
    column, _, attr = column.partition(".")
    if attribute(column):
        column, attr = "word", column
    string = sentence[at - 1][COLUMNS.index(column)]
    if string == "_" and column != "word":
        return None
    return (attribute(attr)(string) or None) if attr else string


def distance(h, m):
    return next((f"<={d}" for d in (1, 2, 3, 4, 5, 7, 10, 15, 25) if abs(h - m) <= d), ">25")


def features(template, sentence, h, m, tree=None):
    """The features of an arc by one template, as strings."""
    n, name, parts = len(sentence), " ".join(template), []
    between = range(min(h, m) + 1, max(h, m))
    side = "root" if h == 0 else "right" if h > m else "left"
    several = [""]
    for word in template:
        if word in ("dir", "dist"):
            parts.append(side if word == "dir" else side + distance(h, m))
        elif word.startswith("count:"):
            tags = [sentence[t - 1][COLUMNS.index("upos")] for t in between]
            parts.append(str(min(3, tags.count(word[6:]))))
        elif word.startswith(("b:", "set:")):
            kind, column = word.split(":")
            order = dict.fromkeys(value(sentence, t, column) for t in range(1, n + 1))
            found = {value(sentence, t, column) for t in between}
            several = [str(v) for v in order if v in found]
            several = ["+".join(sorted(several))] if kind == "set" else several
        elif word != "no":
            relation, column, offset = re.fullmatch(r"(.):([\w.]+)(?:\[(.*)\])?", word).groups()
            at = place(relation, h, m, tree) if relation in "hm" or tree is not None else None
            at = -99 if at is None else at + int(offset or 0)
            got = "<boundary>" if not 0 <= at <= n else "<root>"
            if 1 <= at <= n:
                got = value(sentence, at, column)
            if got is None:
                return []
            parts.append(got)
    return [f"{name}: {' '.join([*parts, s])}" for s in several]


def check(text, b, sentences, seed=0, with_trees=False):
    """Keys and strings of all arcs of all sentences are one to one; returns the strings."""
    parsed = arcs.parse(text, "t")
    words = Words(parsed)
    extractor, expanded = ArcExtractor(parsed, words), expand(text)
    matrix = words.matrix(b)
    name, key = {}, {}
    rng = np.random.default_rng(seed)
    for i, sentence in enumerate(sentences):
        a, n = int(b.sentences[i]), len(sentence)
        tree, (cuts, heads) = None, full(n)
        if with_trees:  # the arcs are then those of the tree
            every = trees(min(n, 5), False)
            tree = every[rng.integers(len(every))]
            tree = np.append(tree, np.zeros(n - tree.size)).astype(np.int32)
            cuts, heads = np.arange(n + 1), tree
        keys, ends = extractor.keys(matrix[a : a + n], cuts, heads, tree)
        assert ends.size == heads.size
        begin = 0
        for m in range(1, n + 1):
            for e in range(cuts[m - 1], cuts[m]):
                h, at = int(heads[e]), None if tree is None else tree.tolist()
                expected = [f for t in expanded for f in features(t, sentence, h, m, at)]
                got = keys[begin : ends[e]].tolist()
                assert len(got) == len(expected), (sentence, h, m)
                for k, s in zip(got, expected, strict=True):
                    assert name.setdefault(k, s) == s
                    assert key.setdefault(s, k) == k
                begin = ends[e]
        assert begin == keys.size
    assert len({k >> 32 for k in name}) == len(name)  # the weight table tells them by that half
    return set(key)


PLAIN = """
dist            # a comment
h:word dir
m:word m:upos no|dir|dist
h:upos m:xpos.prefix1
h:upos h:upos[1] m:upos[-1] m:upos dir|dist
h:suffix3 m:lemma
m:capital h:digit
h:feats m:feats
m:word[-9] h:word[9]
"""
BETWEEN = """
h:upos m:upos b:xpos dir
b:upos
b:word m:upos dist
set:upos h:upos m:upos
set:xpos dir|dist
count:VERB h:upos
count:PUNCT dir
"""
RELATIONS = """
h:upos m:upos g:upos
g:word[1] m:upos
l:upos r:upos dir
l:word[-1]
a:upos z:upos h:upos
z:xpos dist
m:word r:lemma b:upos
"""


@pytest.mark.parametrize("text", [PLAIN, BETWEEN, PLAIN + BETWEEN], ids=["plain", "between", "all"])
def test_equal_features_have_equal_keys_and_different_ones_different_keys(tmp_path, text):
    sentences = random_sentences()
    assert len(check(text, block(tmp_path, sentences), sentences)) > 400


def test_relations_of_the_tree(tmp_path):
    sentences = random_sentences(1, 40)
    b = block(tmp_path, sentences)
    found = check(RELATIONS + PLAIN + BETWEEN, b, sentences, with_trees=True)
    for relation in "glraz":
        assert any(f.startswith(f"{relation}:") or f" {relation}:" in f for f in found)
    # without a tree nothing is found there
    assert all("<boundary>" in f for f in check("g:word no\na:word no\nr:word no", b, sentences))


@pytest.mark.parametrize("name", ["parse", "prune", "label"])
def test_shipped_templates(tmp_path, name):
    sentences = random_sentences(2, 6, 6)
    check(templates.load(name), block(tmp_path, sentences), sentences, with_trees=name == "label")


def fired(tmp_path, text, sentence, h, m):
    parsed = arcs.parse(text, "t")
    words = Words(parsed)
    matrix = words.matrix(block(tmp_path, [sentence]))
    cuts = np.array([0] * m + [1] * (len(sentence) - m + 1))
    return ArcExtractor(parsed, words).keys(matrix, cuts, np.array([h]))[0].tolist()


def row(word, upos="_", xpos="_"):
    return [word, "_", upos, xpos, "_"]


def test_root_boundary_and_empty_values(tmp_path):
    s = [row("a", "X"), row("bc", "_"), row("d", "Y")]

    def keys(text, h, m):
        return fired(tmp_path, text, s, h, m)

    assert keys("h:word", 0, 1) == keys("h:word", 0, 3)
    assert keys("h:word", 0, 1) != keys("h:word", 1, 2)
    assert keys("h:word[-1]", 0, 1) == keys("h:word[-1]", 0, 2)  # before the root: outside
    assert keys("h:word[-1]", 1, 2) != keys("h:word[-1]", 0, 2)  # before the first word: the root
    assert keys("m:word[1]", 1, 3) == keys("m:word[1]", 0, 3)  # behind the last word: outside
    assert keys("m:upos", 1, 2) == keys("m:upos h:word", 1, 2) == []
    assert keys("m:suffix2", 2, 1) == []  # a word of one letter
    assert len(keys("m:suffix2", 1, 2)) == len(keys("m:suffix2", 0, 3)) + 1 == 1
    assert keys("b:upos", 1, 2) == []  # nothing between
    assert len(keys("set:upos", 1, 2)) == 1
    assert len(keys("b:upos", 1, 3)) == 1  # an empty value between is a value


def test_distance_buckets():
    ends = DISTANCES
    for m in range(1, 60):
        for h in range(60):
            if h != m:
                d, at = abs(h - m), bucket(h, m)
                assert at // 20 == (2 if h == 0 else 1 if h > m else 0)
                low = ends[at % 20 - 1] if at % 20 else 0
                assert low < d <= (ends[at % 20] if at % 20 < len(ends) else 99)


def test_relations_by_hand():
    # 2 heads 1, 3 and 5; 3 heads 4; 2 hangs on the root
    places = relations(np.array([2, 0, 2, 3, 2], np.int32))
    grand, left, right, first, last = places[1:].tolist()
    none = NOWHERE
    assert grand == [none, 0, none, 0, 2, 0]
    assert left == [none, none, none, 1, none, 3]
    assert right == [none, 3, none, 5, none, none]
    assert first == [2, none, 1, 4, none, none]
    assert last == [2, none, 5, 4, none, none]


def test_more_values_between_than_bits(tmp_path):
    """The last of more than 64 different values in a sentence share a bit: 63 are told apart."""
    s = [row(f"w{i}", "X") for i in range(1, 91)]
    few = fired(tmp_path, "b:word dir", s, 1, 62)
    assert len(set(few)) == 60
    many = fired(tmp_path, "b:word dir", s, 1, 90)
    assert set(few) < set(many)
    assert len(set(many)) == len(many) == 63  # all but that of word 1
    assert few == fired(tmp_path, "b:word dir", s[:70], 1, 62)


def test_the_order_in_which_words_are_seen_does_not_matter(tmp_path, monkeypatch):
    sentences = random_sentences(4, 10)
    parsed = arcs.parse(PLAIN + BETWEEN, "t")

    def keys(order):
        words = Words(parsed)
        extractor = ArcExtractor(parsed, words)
        found = {}
        for i in order:
            matrix = words.matrix(block(tmp_path, [sentences[i]]))
            found[i] = extractor.keys(matrix, *full(len(sentences[i])))[0].tolist()
        return found

    first = keys(range(10))
    assert keys(range(9, -1, -1)) == first
    monkeypatch.setattr("turbotag.features.extract.MAX_STRINGS", 3)  # forgotten again and again
    assert keys(range(10)) == first


def test_the_place_of_a_template_is_no_part_of_its_keys(tmp_path):
    s = random_sentences(5)[4]
    both = fired(tmp_path, "m:word h:upos[1] dir\ncount:VERB\nh:word dist", s, 0, 2)
    other = fired(tmp_path, "h:word dist\nh:upos[1] m:word[0] dir\ncount:VERB", s, 0, 2)
    assert sorted(both) == sorted(other)


def test_template_language():
    (a,) = arcs.parse("m:upos[-1] h:word set:xpos dist  # comment", "t")
    assert str(a) == "h:word[0] m:upos[-1] set:xpos dist"
    assert [str(t) for t in arcs.parse("h:suffix3 no|dir|dist\n\ndir", "t")] == [
        "h:suffix3[0]",
        "h:suffix3[0] dir",
        "h:suffix3[0] dist",
        "dir",
    ]
    for name, count in (("parse", 146), ("prune", 17), ("label", 68)):
        parsed = arcs.parse(templates.load(name), name)
        assert len(parsed) == count
        assert arcs.parse("\n".join(str(t) or "no" for t in parsed), name) == parsed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h:word\nword[0]", "line 2: 'word[0]' is not part of an arc template"),
        ("h:word dir dist", "line 1: 'dist' is not"),
        ("h:word\n\n# x\nx:word", "line 4: 'x:word' is not"),
        ("h:word[10]", "'h:word[10]' is not"),
        ("h:word[1..2]", "'h:word[1..2]' is not"),
        ("m:word.nosuch", "'m:word.nosuch' is not"),
        ("b:upos set:upos", "'set:upos' is not"),
        ("b:upos[1]", "'b:upos[1]' is not"),
        ("dir|left", "'dir|left' is not"),
        ("|", "'|' is not"),
        ("b:gaz h:upos", "'b:gaz' is not"),
        ("b:gaz", "'b:gaz' is not"),
        ("h:word dir\nh:word no|dir", "line 2: 'h:word[0] dir' is on line 1 too"),
        ("h:word dist|dist", "line 1: 'h:word[0] dist' is on line 1 too"),
        ("h:word\nh:word[0]", "line 2: 'h:word[0]' is on line 1 too"),
        ("m:word h:word\nh:word m:word", "line 2: 'h:word[0] m:word[0]' is on line 1 too"),
        ("# nothing", "holds no templates"),
    ],
)
def test_bad_template_files(text, words):
    with pytest.raises(DataError) as error:
        arcs.parse(text, "my.txt")
    assert words in str(error.value)
    assert str(error.value).startswith("my.txt")


def test_missing_column_is_named(tmp_path):
    parsed = arcs.parse("h:upos m:nosuch", "t")
    with pytest.raises(DataError, match="need column 'nosuch'"):
        Words(parsed).matrix(block(tmp_path, [[row("a")]]))


# ---- Scores of blocks ----------------------------------------------------------------------------


def test_scores_of_a_block_are_sums_over_the_keys_of_each_sentence(tmp_path):
    """Arcs by weights, and classes of words by rows, with and without a tree."""
    rng = np.random.default_rng(3)
    sentences = random_sentences(7, 12)
    parsed = arcs.parse(PLAIN + BETWEEN + "m:upos g:upos l:upos\na:word z:word m:word dir\n", "t")
    words = Words(parsed)
    extractor = ArcExtractor(parsed, words)
    data = block(tmp_path, sentences)
    matrix, cuts = words.matrix(data), data.sentences
    spans = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    tree = np.concatenate([np.arange(b - a) for a, b in spans]).astype(np.int32)
    arcs_of = [extractor.keys(matrix[a:b], *full(b - a)) for a, b in spans]
    by_tree = [
        extractor.keys(matrix[a:b], np.arange(b - a + 1), tree[a:b], tree[a:b]) for a, b in spans
    ]
    seen = np.concatenate([keys for keys, _ in (*arcs_of, *by_tree)])
    known = np.unique(compact.fold(rng.choice(seen, seen.size // 2)))

    q = rng.integers(-127, 128, known.size).astype(np.int8)
    table = WeightTable(known, q, np.array([1.3], np.float32))
    expected = np.concatenate([table.sums(*found) for found in arcs_of])
    found = arc_scores(matrix, cuts, *every(cuts), extractor.data, table.data)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

    q = rng.integers(-127, 128, (known.size, 5)).astype(np.int8)
    scales = rng.uniform(0.1, 2.0, known.size).astype(np.float32)
    rows, weights = RowTable(known), compact.dequantize(q, scales)
    expected = []
    for keys, ends in by_tree:
        each = rows.lookup(keys)
        for a, b in zip([0, *ends], ends, strict=False):
            total = np.zeros(5, np.float32)
            for r in each[a:b][each[a:b] >= 0]:
                total += weights[r]  # in this order, so that the bits are the same
            expected.append(total)
    found = class_scores(matrix, cuts, tree, True, extractor.data, *rows.data, q, scales)
    np.testing.assert_array_equal(found, expected)
