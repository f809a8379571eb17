"""Explanations: their weights sum to the difference of two scores, and the other structure is the
best that has another tag or head there."""

import json
import pickle

import conllu
import numpy as np
import pytest

import turbotag
from tests.cli.processes import DEMO, one_sentence, run
from turbotag.corpus.reader import read
from turbotag.errors import ArgumentError, UsageError
from turbotag.models.lemmas import Lemmatizer
from turbotag.models.pipeline import pipeline
from turbotag.report.explain import explain
from turbotag.report.explanation import summary
from turbotag.structures import parts, pruning

SENTENCES = conllu.parse((DEMO / "train.conllu").read_text())[:60]
WORDS = [[token["form"] for token in s] for s in SENTENCES]
UPOS = [[token["upos"] for token in s] for s in SENTENCES]
NER = [[(token["misc"] or {}).get("Entity", "O") for token in s] for s in SENTENCES]
TREES = [[(token["head"], token["deprel"]) for token in s] for s in SENTENCES]


def columns(rows):
    """A block of columns; each row has one sentence's."""
    text = "\n\n".join("\n".join("\t".join(x) for x in zip(*row, strict=True)) for row in rows)
    return read((text + "\n\n").encode())


def total(e):
    return sum(f.weight for f in e.features)


# ---- Taggers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"task": "pos"},
        {"task": "pos", "order": 2},
        {"task": "ner", "scheme": "iobes"},
        {"task": "ner", "constraints": "train"},
        {"task": "ner", "order": 2, "compact": True},
    ],
)
def test_tags(options, tmp_path):
    gold = UPOS if options["task"] == "pos" else NER
    names = tmp_path / "names.txt"
    names.write_text("Sorrel\nDr. Sorrel\nAda\n")
    more = {"gazetteers": {"names": str(names)}} if options["task"] == "ner" else {}
    tagger = turbotag.Tagger(**options, **more, epochs=3).fit(WORDS, gold).model
    block = columns([(WORDS[i], gold[i]) for i in (0, 3)])
    block = read(block.buf.tobytes(), None, tagger.naming)
    for s in range(2):
        a, b = block.sentences[s : s + 2].tolist()
        scores = tagger.scores(block)[a:b]
        best = tagger.viterbi(scores, np.array([0, b - a]))
        paths, _ = tagger._inference.kbest(tagger.theta(scores), *tagger.mask, 400)
        strings = [written(tagger, path, block) for path in paths]
        found = explain(tagger, block, s)
        assert [e.word for e in found] == list(range(1, b - a + 1))
        for t, e in enumerate(found):
            assert e.form == WORDS[(0, 3)[s]][t]
            assert e.chosen == strings[0][t]
            other = next((p for p, x in zip(paths, strings, strict=True) if x[t] != e.chosen), None)
            if other is None:
                continue
            difference = tagger.sequence_score(scores, best) - tagger.sequence_score(scores, other)
            assert e.difference == pytest.approx(difference, abs=1e-4)
            assert total(e) == pytest.approx(e.difference, abs=1e-9)
            assert e.other == written(tagger, other, block)[t]
            assert (t + 1) in [c.word for c in e.changes]
            assert sum(p for _, p in e.alternatives) <= 1 + 1e-6
            weights = [abs(f.weight) for f in e.features]
            assert weights == sorted(weights, reverse=True)


def written(tagger, path, block):
    strings, ids = tagger.output_labels(path, block)
    return [strings[i] for i in ids.tolist()]


def test_features_with_values_and_their_names():
    X = [[{"w": w, "length": len(w) / 10, "next": {"cap": w.istitle()}} for w in s] for s in WORDS]
    tagger = turbotag.Tagger("pos", epochs=3).fit(X, UPOS)
    found = explain(tagger.model, tagger._block(X[:1]), 0, [2])[0]
    assert found.form == "2"  # such files have no words
    assert {"length", f"w:{WORDS[0][1]}"} <= {f.name for f in found.features}
    assert total(found) == pytest.approx(found.difference)
    assert found.chosen == tagger.predict(X[:1])[0][1]


def test_a_pair_of_tags_stands_where_it_is():
    tagger = turbotag.Tagger("pos", epochs=3).fit(WORDS, UPOS).model
    block = read("\n".join(WORDS[0]).encode() + b"\n\n", None, tagger.naming)
    e = explain(tagger, block, 0, [2])[0]
    pairs = [f for f in e.features if f.name.startswith("tag[-1]=")]
    changed = {c.word for c in e.changes}
    assert pairs
    assert all(changed & set(f.words) for f in pairs)


# ---- Parsers -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parsed():
    """Sentences in memory, as `Parser` reads them."""
    tokens = [[(t["form"], t["upos"]) for t in s] for s in SENTENCES]
    parser = turbotag.Parser(epochs=2, supertags=2)
    return parser.fit(tokens, TREES), parser._block(tokens[:4])


def score(parser, matrix, scanner, heads, every):
    """The score of a tree from the scores of all parts over the arcs of some trees."""
    arcs = sorted({(m, int(h)) for tree in every for m, h in enumerate(tree, 1)})
    mods = np.array([m for m, _ in arcs])
    cuts = np.searchsorted(mods, np.arange(1, heads.size + 2))
    candidates = cuts, np.array([h for _, h in arcs], np.int32)
    theta = parser.tables["arc"].sums(*scanner.keys(matrix, *candidates))
    if not parser.second_order:
        scores = pruning.matrix(theta, *candidates)
        return scores[heads, np.arange(1, heads.size + 1)].sum()
    p = parts.parts(*candidates, scanner.all_siblings)
    z = np.empty(theta.size)
    parts.indicator(heads, p, z)
    return theta @ z


@pytest.mark.parametrize("decoder", ["nonprojective", "projective"])
def test_heads_against_the_list_of_best_trees(decoder):
    tokens = [[(t["form"], t["upos"]) for t in s] for s in SENTENCES]
    own = turbotag.Parser(epochs=2, decoder=decoder, heads=20).fit(tokens, TREES)
    parser, block = own.model, own._block(tokens[:3])
    scanner = parser.extractor
    for s in range(3):
        a, b = block.sentences[s : s + 2].tolist()
        matrix = parser.matrix(block, scanner)[a:b]
        scores = parser.scores(matrix, scanner)
        trees, values = parser._decoder.kbest(scores, parser.single_root, 300)
        for e in explain(parser, block, s):
            if e.of != "head":
                continue
            assert int(e.chosen) == trees[0][e.word - 1]
            at = next((k for k, x in enumerate(trees) if x[e.word - 1] != int(e.chosen)), None)
            assert total(e) == pytest.approx(e.difference)
            if at is not None:
                assert e.difference == pytest.approx(values[0] - values[at], abs=1e-6)
                assert int(e.other) == trees[at][e.word - 1]


@pytest.mark.parametrize("kinds", [(), ("cs", "gp"), ("cs", "gp", "as")])
def test_trees_sum(kinds):
    tokens = [[(t["form"], t["upos"]) for t in s] for s in SENTENCES]
    own = turbotag.Parser(epochs=2, parts=kinds or None).fit(tokens, TREES)
    parser, block = own.model, own._block(tokens[:3])
    scanner = parser.extractor
    seen = set()
    for s in range(3):
        a, b = block.sentences[s : s + 2].tolist()
        matrix = parser.matrix(block, scanner)[a:b]
        best = parser.parse(block, scanner).heads[a:b]
        for e in explain(parser, block, s):
            if e.of == "head":
                other = best.copy()
                for c in e.changes:
                    assert int(c.chosen) == best[c.word - 1]
                    other[c.word - 1] = int(c.other)
                both = best, other
                difference = score(parser, matrix, scanner, best, both) - score(
                    parser, matrix, scanner, other, both
                )
                assert total(e) == pytest.approx(difference, abs=1e-5)
                assert e.other != e.chosen
                seen |= {f.name.split()[0] for f in e.features}
    named = {"cs": "siblings", "gp": "grandparents", "as": "all-siblings"}
    assert {named[k] for k in kinds} <= seen


def test_labels_and_supertags(parsed):
    own, block = parsed
    parser, scanner = own.model, own.model.extractor
    for s in range(2):
        a, b = block.sentences[s : s + 2].tolist()
        matrix = parser.matrix(block, scanner)[a:b]
        heads = parser.parse(block, scanner).heads[a:b]
        labels = parser.label_scores(matrix, heads, scanner)
        supertags = parser.supertagger.scores(matrix, scanner)
        found = explain(parser, block, s)
        assert {e.of for e in found} == {"head", "label", "supertag"}
        for e in found:
            if e.of != "head":
                scores = (labels if e.of == "label" else supertags)[e.word - 1]
                two = np.sort(scores)[::-1][:2]
                assert e.difference == pytest.approx(two[0] - two[1], abs=1e-4)
                assert total(e) == pytest.approx(e.difference)


def test_a_head_that_was_pruned(parsed):
    """Any head can be asked for: the pruner's choice is put aside."""
    own, block = parsed
    parser, n = own.model, int(block.sentences[1])
    chosen = [e.chosen for e in explain(parser, block, 0) if e.of == "head"]
    for word in (1, n // 2):
        for head in range(0, n + 1, 2):
            if head != word and str(head) != chosen[word - 1]:
                (e,) = explain(parser, block, 0, [word], str(head))
                assert e.other == str(head)
                assert total(e) == pytest.approx(e.difference)


def test_one_word_has_no_other_head(parsed):
    own, _ = parsed
    found = explain(own.model, own._block([[("Yes", "INTJ")]]), 0)
    assert {e.of for e in found} == {"label", "supertag"}


# ---- Documents -----------------------------------------------------------------------------------


def test_documents():
    nlp = turbotag.load("en")
    doc = nlp("It rained. Ada flew to Oslo with a friend.", probabilities=True)
    token = doc[1][3]
    found = turbotag.explain(doc, token)
    assert found == turbotag.explain(doc, doc.tokens.index(token))
    by = {e.of: e for e in found}
    assert {e.form for e in found} == {"Oslo"}
    for name in ("upos", "xpos", "head", "label", "ner"):
        assert by[name].chosen == str(getattr(token, name))
    assert by["upos"].alternatives[0][1] == pytest.approx(token.probabilities["upos"], abs=1e-3)
    assert "gaz:places[0]=U" in str(by["ner"])
    lines = by["head"].text(3).splitlines()
    assert float(lines[1].split()[0]) == pytest.approx(
        sum(float(x.split()[0]) for x in lines[2:] if x[:9].strip()), abs=2e-3
    )
    (against,) = turbotag.explain(doc, token, 3 if token.head != 3 else 2)
    assert (against.of, against.other) == ("head", "3" if token.head != 3 else "2")
    (other,) = turbotag.explain(doc, token, "I-LOC")
    assert (other.of, other.other) == ("ner", "I-LOC")
    copy = pickle.loads(pickle.dumps(doc))
    assert copy == doc
    with pytest.raises(UsageError, match="the document has no pipeline"):
        turbotag.explain(copy, 0)
    assert turbotag.explain(copy, token, nlp=nlp) == found
    with pytest.raises(ArgumentError, match="a number below 11"):
        turbotag.explain(doc, 11)
    with pytest.raises(ArgumentError, match="'no' is no token"):
        turbotag.explain(doc, turbotag.Token(1, "no", 0, 2))
    with pytest.raises(UsageError, match="nothing here can be 'VERBB'; did you mean 'VERB'"):
        turbotag.explain(doc, token, "VERBB")
    with pytest.raises(UsageError, match="PROPN is what the model gives to word 4 Oslo"):
        turbotag.explain(doc, token, "PROPN")


def test_a_table_of_a_sentence():
    doc = turbotag.load("en-upos")("Ada sings.")
    found = [e for i in range(3) for e in turbotag.explain(doc, i)]
    header, *lines = summary(found).splitlines()
    assert header.split()[:4] == ["word", "of", "chosen", "other"]
    assert [line.split()[:3] for line in lines] == [
        ["1", "Ada", "upos"],
        ["2", "sings", "upos"],
        ["3", ".", "upos"],
    ]


# ---- The command ---------------------------------------------------------------------------------


def test_command():
    text = "It glimmered. Ada flew to Oslo.\n"  # a verb that no table has a lemma for
    done = run("explain", "en", "--sentence", 2, "--word", 4, "--top", 3, stdin=text)
    assert done.returncode == 0, done.stderr
    assert "ner of 4 Oslo: B-LOC" in done.stdout
    assert "head of 4 Oslo: 2 flew" in done.stdout
    listed = run("explain", "en", "--sentence", 2, stdin=text).stdout.splitlines()
    found = json.loads(run("explain", "en", "--sentence", 2, "--json", stdin=text).stdout)
    assert len(listed) == 1 + len(found)
    assert {e["word"] for e in found} == {1, 2, 3, 4, 5}
    found = json.loads(run("explain", "en", "--word", 2, "--json", stdin=text).stdout)
    assert {e["of"] for e in found} == {
        *("upos", "xpos", "feats", "lemma", "supertag", "head", "label", "ner")
    }
    for e in found:
        assert sum(f["weight"] for f in e["features"]) == pytest.approx(e["difference"])
    trees = run("explain", "en-parse", DEMO / "dev.conllu", "--sentence", 2, "--word", 3)
    assert "head of 3 .: " in trees.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--sentence", 9], 2, "there is no sentence 9: <stdin> has 1"),
        (["--word", 9], 2, "there is no word 9: the sentence has words 1 to 3"),
        (["--word", 1, "--against", "nsubjj"], 2, "did you mean 'nsubj'"),
        (["--columns", "word"], 2, "--columns is for single models"),
        (["--format", "columns"], 2, "a pipeline reads raw text or CoNLL-U"),
    ],
)
def test_errors(arguments, code, message):
    one_sentence(run("explain", "en", *arguments, stdin="Ada sings."), code, message)


def test_no_other_choice(tmp_path):
    train, model = tmp_path / "one.iob2", tmp_path / "one.model"
    train.write_text("a X\nb X\n\n" * 3)
    assert run("train", "--task", "pos", "--train", train, "-o", model).returncode == 0
    for more in ([], ["--word", 1]):
        done = run("explain", model, *more, stdin="a\nb\n")
        told = "there is no other choice to compare with\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, "", told)


def test_lemmas_are_made_of_the_words_that_are_asked_for(monkeypatch):
    """Not of all words of a long sentence by all scripts."""
    asked = []
    lemmas = Lemmatizer.lemmas

    def counted(self, pairs):
        pairs = list(pairs)
        asked.append({form for form, _ in pairs if len(pairs) > 100})
        return lemmas(self, pairs)

    monkeypatch.setattr(Lemmatizer, "lemmas", counted)
    rows = (
        f"{n}\t{word}" + "\t_" * 8 for n, word in enumerate(["Ada", "blorped", "wide", "seas"], 1)
    )
    block = read(("\n".join(rows) + "\n\n").encode(), "conllu")
    assert "lemma" in {e.of for e in explain(pipeline("en"), block, 0, [2])}
    assert {form for forms in asked for form in forms} == {"blorped"}
