"""Scores from raw text: words aligned by characters, then compared column by column.

The counts of the examples were printed by the shared task's own script. Generated files are scored
by an oracle that follows the rules word by word."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.processes import DEMO, one_sentence, run
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes, read
from turbotag.corpus.surface import read_surface
from turbotag.errors import DataError
from turbotag.metrics.conll18 import CONTENT, FUNCTION, READS, Treebank, align, score_blocks
from turbotag.report.tables import conll18_table

UPOS, FEATS, LEMMA, DEPREL = "NOUN", "Number=Sing", "x", "nsubj"


def word(form, head, lemma=LEMMA, upos=UPOS, feats=FEATS, deprel=DEPREL):
    return [form, lemma, upos, "_", feats, str(head), deprel]


def conllu(sentences):
    """CoNLL-U of sentences of tokens, each a form and its words; one word with another form, or any
    number of them but one, is a multiword token."""
    lines = []
    for sentence in sentences:
        n = 0
        for form, words in sentence:
            if len(words) != 1 or words[0][0] != form:
                lines.append(f"{n + 1}-{n + len(words)}\t{form}" + "\t_" * 8)
            for w in words:
                n += 1
                lines.append("\t".join([str(n), *w, "_", "_"]))
        lines.append("")
    return "\n".join(lines) + "\n"


def block(text, path="file"):
    return from_bytes(text.encode(), path, CONLLU)


def flat(*tokens):
    """One sentence from strings such as "a" or, for a multiword token, "abc a b c"."""
    sentence, n = [], 0
    for token in tokens:
        form, *words = token.split()
        sentence.append((form, [word(w, int(n + i > 0)) for i, w in enumerate(words or [form])]))
        n += len(words or [form])
    return conllu([sentence])


# ---- Alignment -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "predicted", "pairs"),
    [
        ("ab c", "ab c", [(0, 0), (1, 1)]),
        ("abc", "a b c", []),
        ("ab c d", "a b c d", [(1, 2), (2, 3)]),
        # words of a multiword token, whose ends are unknown, by their forms
        ("abc=A+b+c", "a b c", [(0, 0), (1, 1), (2, 2)]),
        ("x don't=do+n't y", "x don't y", [(0, 0), (3, 2)]),
        ("x no=em+o y", "x no=em+a y", [(0, 0), (1, 1), (3, 3)]),
        # tokens that overlap
        ("ab=a+b cd=c+d", "a bc=b+c d", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("a bc=b+c d", "a b cd", [(0, 0), (1, 1)]),
        ("ab cd=c+d", "abc=ab+c d", [(0, 0), (1, 1), (2, 2)]),
        # the leftmost of several longest common subsequences
        ("abab=a+b+a+b", "abab=b+a", [(1, 0), (2, 1)]),
    ],
)
def test_alignment(gold, predicted, pairs):
    sides = []
    for text in (gold, predicted):
        tokens = [t.replace("=", " ").replace("+", " ") for t in text.split()]
        sides.append(Treebank(block(flat(*tokens))))
    assert align(*sides) == pairs


def test_blanks_in_forms_do_not_count():
    """Of any kind: a no-break space too."""
    gold, predicted = "1\t10 000\u00a0km", "1\t10\u00a0000km"
    rest = "\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    found = score_blocks(block(gold + rest), block(predicted + rest))
    assert found.scores["Tokens"].correct == 1


def test_another_text_is_refused_with_its_line():
    with pytest.raises(DataError, match=r"predicted, line 2: is not .* 'dc' where that has 'cd'"):
        score_blocks(block(flat("ab", "cd"), "gold"), block(flat("ab", "dc"), "predicted"))
    with pytest.raises(DataError, match=r"line 1: is not .* it has '' where that has 'cd'"):
        score_blocks(block(flat("ab", "cd"), "gold"), block(flat("ab"), "predicted"))


# ---- Scores --------------------------------------------------------------------------------------


def counts(gold, predicted):
    found = score_blocks(block(conllu(gold)), block(conllu(predicted)))
    return {n: (c.correct, c.gold, c.predicted, c.aligned) for n, c in found.scores.items()}


def test_example():
    """Two sentences, of which the second is cut in two; a lemma that the gold file lacks; features
    that are not universal, or in another order; function words that decide MLAS."""
    gold = [
        [
            ("The", [word("The", 2, "the", "DET", "PronType=Art|Foo=Bar", "det")]),
            ("dogs", [word("dogs", 3, "dog", "NOUN", "Number=Plur|Gender=Masc")]),
            ("bark", [word("bark", 0, "bark", "VERB", "_", "root")]),
            (".", [word(".", 3, "_", "PUNCT", "_", "punct")]),
        ],
        [
            ("Of", [word("Of", 2, "of", "ADP", "_", "case")]),
            ("no", [word("em", 4, "em", "ADP", "_", "case"), word("o", 4, "o", "DET", "_", "det")]),
            ("it", [word("it", 0, "it", "PRON", "Case=Acc", "root:x")]),
        ],
    ]
    gold[1][0][1][0][5] = "4"
    predicted = [
        [
            ("The", [word("The", 2, "the", "DET", "Foo=Baz|PronType=Art", "det:x")]),
            ("dogs", [word("dogs", 3, "dogs", "NOUN", "Gender=Masc|Number=Plur")]),
            ("bark", [word("bark", 0, "bark", "NOUN", "_", "root")]),
            (".", [word(".", 2, "full", "PUNCT", "_", "punct")]),
        ],
        [("Of", [word("Of", 0, "of", "ADP", "_", "root")])],
        [
            ("no", [word("em", 3, "em", "ADP", "_", "case"), word("a", 3, "o", "DET", "_", "det")]),
            ("it", [word("it", 0, "it", "PRON", "Case=Acc", "root")]),
        ],
    ]
    assert counts(gold, predicted) == {
        "Tokens": (7, 7, 7, None),
        "Sentences": (1, 2, 3, None),
        "Words": (7, 8, 8, None),
        "UPOS": (6, 8, 8, 7),
        "UFeats": (7, 8, 8, 7),
        "AllTags": (6, 8, 8, 7),
        "Lemmas": (6, 8, 8, 7),
        "UAS": (5, 8, 8, 7),
        "LAS": (5, 8, 8, 7),
        "CLAS": (3, 3, 4, 3),
        "MLAS": (1, 3, 4, 3),
        "BLEX": (2, 3, 4, 3),
    }


def test_columns_that_a_file_does_not_fill():
    bare = conllu([[("a", [word("a", 0, "_", "_", "_", "_")])]]).replace("\t0\t", "\t_\t")
    whole = conllu([[("a", [word("a", 0)])]])
    found = score_blocks(block(whole), block(bare))
    assert list(found.scores) == ["Tokens", "Sentences", "Words"]
    assert found.missing == [name for name in READS if name not in found.scores]
    assert found.measure == "Words"
    assert "AllTags" in score_blocks(block(whole), block(whole)).scores  # without XPOS in either
    table = conll18_table(found)
    assert "not scored, as a file lacks their columns: UPOS, XPOS, UFeats" in table
    assert table.splitlines()[1].split() == ["Tokens", *["100.00"] * 3, "1", "1", "1", "-"]


@st.composite
def treebanks(draw):
    """Two files of the same characters, cut in different ways."""
    text = draw(st.text("ab", min_size=1, max_size=14))

    def side():
        cuts = sorted(draw(st.sets(st.integers(1, len(text)), max_size=8)) | {0, len(text)})
        sentences = [[]]
        for a, b in zip(cuts, cuts[1:], strict=False):
            form, words = text[a:b], [text[a:b]]
            if draw(st.integers(0, 3)) == 0:
                words = draw(
                    st.lists(st.sampled_from(["a", "b", "A", "ab"]), min_size=1, max_size=3)
                )
            sentences[-1].append((form, words))
            if draw(st.integers(0, 4)) == 0:
                sentences.append([])
        return [annotated(s) for s in sentences if s]

    def annotated(tokens):
        n = sum(len(words) for _, words in tokens)
        root, at, sentence = draw(st.integers(1, n)), 0, []
        for form, words in tokens:
            rows = []
            for w in words:
                at += 1
                head = 0 if at == root else draw(st.integers(0, at - 1)) or root
                head = root if at < root else head
                values = [
                    draw(st.sampled_from(pair))
                    for pair in (["x", "_"], ["DET", "NOUN"], ["Case=Nom|Foo=1", "Case=Nom", "_"])
                ]
                label = draw(st.sampled_from(["det", "case:x", "nsubj", "punct"]))
                rows.append(word(w, head, *values, label))
            sentence.append((form, rows))
        return sentence

    return conllu(side()), conllu(side())


class Node:
    """A word of the oracle: its columns, its head and the function words below it."""

    def __init__(self, columns):
        _, self.lemma, self.upos, self.xpos, feats, self.head, label = columns[1:8]
        self.feats = sorted(f for f in feats.split("|") if f.startswith("Case="))
        self.label = label.split(":")[0]
        self.functions = []


def nodes(text):
    found = []
    for sentence in text.strip("\n").split("\n\n"):
        rows = [line.split("\t") for line in sentence.split("\n")]
        new = [Node(row) for row in rows if "-" not in row[0]]
        for node in new:
            node.head = new[int(node.head) - 1] if node.head != "0" else None
        for node in new:
            if node.head is not None and node.label in FUNCTION:
                node.head.functions.append(node)
        found += new
    return found


@given(treebanks())
def test_scores_are_those_of_an_oracle(texts):
    gold, predicted = (block(text) for text in texts)
    found = score_blocks(gold, predicted).scores
    ours, theirs = (nodes(text) for text in texts)
    pairs = [(ours[g], theirs[p]) for g, p in align(Treebank(gold), Treebank(predicted))]
    gold_of = {id(p): g for g, p in pairs}

    def same(a, b):
        """Whether a predicted word, or none, is aligned to a gold one, or none."""
        return b is None if a is None else b is not None and gold_of.get(id(b)) is a

    def tags(n):
        return n.upos, n.feats

    right = {
        "UPOS": lambda g, p: g.upos == p.upos,
        "UFeats": lambda g, p: g.feats == p.feats,
        "Lemmas": lambda g, p: g.lemma in ("_", p.lemma),
        "UAS": lambda g, p: same(g.head, p.head),
        "LAS": lambda g, p: same(g.head, p.head) and g.label == p.label,
    }
    right["CLAS"] = lambda g, p: right["LAS"](g, p) and g.label in CONTENT
    right["BLEX"] = lambda g, p: right["CLAS"](g, p) and right["Lemmas"](g, p)
    right["MLAS"] = lambda g, p: (
        right["CLAS"](g, p)
        and tags(g) == tags(p)
        and len(g.functions) == len(p.functions)
        and all(
            same(a, b) and a.label == b.label and tags(a) == tags(b)
            for a, b in zip(g.functions, p.functions, strict=True)
        )
    )
    for name, test in right.items():
        if name in found:
            assert found[name].correct == sum(test(g, p) for g, p in pairs), name
    assert found["Words"].correct == len(pairs)
    itself = score_blocks(gold, gold).scores
    assert all(c.f1 == 1 for c in itself.values() if c.gold)


# ---- The surface ---------------------------------------------------------------------------------


def test_raw_text():
    text = (
        "# newdoc id = a\n# newpar\n# text = I  don't.\n"
        "1\tI\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        "2\tdo\t_\t_\t_\t_\t_\t_\t_\t_\n3\tn't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        "4\t.\t_\t_\t_\t_\t_\t_\t_\tX=Y|SpaceAfter=No\n\n"
        "# text = not these\n1\tYes\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        "2\t!\t_\t_\t_\t_\t_\t_\t_\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
        "# newpar\n1\tOh\t_\t_\t_\t_\t_\t_\t_\t_\n"
    )
    found = read_surface(block(text))
    assert found.forms == ["I", "don't", ".", "Yes", "!", "Oh"]
    assert found.words.tolist() == [0, 1, 3, 4, 5, 6, 7]
    assert found.multiword.tolist() == [False, True, False, False, False, False]
    assert found.sentences.tolist() == [0, 3, 5, 6]
    assert found.text() == "I  don't.Yes!\n\nOh\n"


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (["1\ta", "2-4\tbc", "2\tb", "3\tc"], 2, "range 2-4 does not stand before words 2 to 4"),
        (["2-3\tbc", "1\ta", "2\tb", "3\tc"], 1, "range 2-3 does not stand"),
        (["1\ta", "2-2\tb"], 2, "range 2-2 does not stand"),
        (["1-2\tab", "1\ta", "2-3\tbc", "2\tb", "3\tc"], 4, "begins inside of another"),
    ],
)
def test_ranges_without_their_words(lines, line, message):
    text = "".join(s + "\t_" * 8 + "\n" for s in lines)
    with pytest.raises(DataError, match=f"file, line {line}: .*{message}"):
        read_surface(block(text))


# ---- The command line ----------------------------------------------------------------------------


def test_command(tmp_path):
    gold = DEMO / "test.conllu"
    by_model = json.loads(run("eval", "--model", "en", gold, "--raw", "--json").stdout)
    raw = tmp_path / "raw.txt"
    raw.write_text(read_surface(read(str(gold))).text())
    out = tmp_path / "out.conllu"
    assert run("predict", "en", raw, "-o", out).returncode == 0
    by_file = json.loads(run("eval", gold, out, "--task", "all", "--json").stdout)
    assert by_model == by_file
    assert by_file["measure"] == "LAS"
    assert 0.5 < by_file["scores"]["LAS"]["f1"] < 1
    page = tmp_path / "page.html"
    table = run("eval", gold, out, "--task", "all", "--html", page).stdout
    assert table.splitlines()[0].split()[:3] == ["precision", "recall", "F1"]
    assert "from tokens to trees" in page.read_text()


def test_other_words_are_compared_without_being_told(tmp_path):
    gold, predicted = tmp_path / "gold.conllu", tmp_path / "predicted.conllu"
    gold.write_text(flat("ab", "c"))
    predicted.write_text(flat("a", "b", "c"))
    done = run("eval", gold, predicted)
    assert "convention: conll18 (words aligned" in done.stdout, done.stderr
    assert done.stdout == run("eval", gold, "-", "--task", "all", stdin=flat("a", "b", "c")).stdout
    one_sentence(run("eval", gold, predicted, "--target", "upos"), 1, "not the same tokens")
    one_sentence(run("eval", gold, predicted, "--raw"), 2, "--raw goes with --model")
    one_sentence(run("eval", gold, predicted, "--task", "all", "--target", "upos"), 2, "leave out")
    columns = DEMO / "test.iob2"
    one_sentence(run("eval", columns, columns, "--task", "all"), 1, "tokens are scored on CoNLL-U")
