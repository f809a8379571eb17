"""What all scripts share: where corpora are, and what of the package they use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
if not SCRIPTS.is_dir() or not (ROOT / "Makefile").is_file():
    pytest.skip("needs the repository", allow_module_level=True)


def test_corpora_are_a_folder_of_the_repository_that_git_ignores():
    assert "/corpora" in (ROOT / ".gitignore").read_text().split()
    assert "\nDATA   ?= corpora\n" in (ROOT / "Makefile").read_text()
    pages = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    pages += [*ROOT.glob("data/*.*"), *SCRIPTS.rglob("*.py")]
    for path in pages:
        assert "../shared" not in path.read_text(encoding="utf-8"), path


def test_corpora_may_be_a_link(tmp_path):
    folder = tmp_path / "elsewhere" / "ewt"
    folder.mkdir(parents=True)
    (folder / "dev.conllu").write_text("1\tAda\t_\tX\tX\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "corpora").symlink_to(folder.parent)
    script = [sys.executable, str(SCRIPTS / "data"), "check"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "  dev.conllu: 1 sentences, 1 tokens: not the file that was measured" in done.stdout
    assert "ewt: no train.conllu, test.conllu in corpora/ewt: " in done.stdout
    assert "scripts/data conll2003 eng.train eng.testa eng.testb`." in done.stdout


def private(path):
    """Names with an underscore that a file takes from the package: (line, name)."""
    tree, modules = ast.parse(path.read_text(encoding="utf-8")), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "turbotag":
            modules |= {alias.asname or alias.name for alias in node.names}
            yield from ((node.lineno, a.name) for a in node.names if a.name.startswith("_"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            hidden = node.attr.startswith("_") and not node.attr.startswith("__")
            if hidden and node.value.id in modules:
                yield node.lineno, f"{node.value.id}.{node.attr}"


def test_scripts_use_what_the_package_offers():
    """No name with an underscore, and no training taken apart."""
    for path in SCRIPTS.rglob("*.py"):
        assert not list(private(path)), path
        text = path.read_text(encoding="utf-8")
        assert "ParserTraining" not in text, path
        assert "DevScorer(" not in text, path


def test_private_names_are_found(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "from turbotag.corpus import text\nfrom turbotag.x import _y\ntext._SPACE, text.__name__\n"
    )
    assert list(private(path)) == [(2, "_y"), (3, "text._SPACE")]


def test_the_table_of_optimizers_is_made_from_their_declarations():
    """docs/optimizers.md: `python scripts/bench optimizers page` makes it anew."""
    made = (
        "import sys; sys.path.append('..'); import optimizers as o; print(o.declared(None), end='')"
    )
    script, folder = [sys.executable, "-c", made], SCRIPTS / "bench"
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout in (ROOT / "docs" / "optimizers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["bench", "data", "repro", "torture"])
def test_every_folder_of_scripts_tells_what_it_does_from_anywhere(folder, tmp_path):
    for words in ([], *([[page] for page in bench_pages()] if folder == "bench" else [])):
        script = [sys.executable, str(SCRIPTS / folder), *words, "--help"]
        done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("usage: python scripts/" + " ".join([folder, *words]))


def bench_pages():
    """Modules of scripts/bench that make a page."""
    found = sorted(p.stem for p in (SCRIPTS / "bench").glob("*.py") if "\nPAGE = " in p.read_text())
    assert len(found) == 9
    return found


# ---- Sentences of a grammar --------------------------------------------------------------------


def small_treebank():
    """Nouns, adjectives and verbs in all their forms; verbs with an object, one with *for*."""

    def rows(*cells):
        lines = ([str(n), *c[:4], "_", *c[4:], "_", "_"] for n, c in enumerate(cells, 1))
        return "\n".join(map("\t".join, lines)) + "\n\n"

    noun, small = ("gate", "gate", "NOUN", "NN"), ("small", "small", "ADJ", "JJ", "3", "amod")
    others = [
        ("gates", "gate", "NOUN", "NNS"),
        *((w, w, "NOUN", "NN") for w in ("turbine", "mail")),
    ]
    text = rows((*noun, "0", "root"), small, *((*other, "1", "conj") for other in others)) * 5
    for lemma in ("fetch", "rent", "mail"):
        for xpos, end in (("VBD", "ed"), ("VBN", "ed"), ("VBG", "ing")):
            verb = (lemma + end, lemma, "VERB", xpos, "0", "root")
            text += rows(verb, (*noun, "1", "obj")) * 2
    for form, xpos in (("looked", "VBD"), ("looked", "VBN"), ("looking", "VBG")):
        verb = (form, "look", "VERB", xpos, "0", "root")
        text += rows(verb, ("for", "for", "ADP", "IN", "3", "case"), (*noun, "1", "obl")) * 2
    return text


def test_sentences_of_the_grammar_are_trees_without_the_words_left_out(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "release"))
    from formal_english import formal_english

    names = ["Ada", "Maria"], ["Marsh"], ["Ferrybank"]
    given = small_treebank(), names, {"turbine", "Maria"}, 300
    text = formal_english(*given, seed=1)
    assert text == formal_english(*given, seed=1) != formal_english(*given, seed=2)
    crossing = 0
    for sentence in text.strip("\n").split("\n\n"):
        rows = [line.split("\t") for line in sentence.split("\n")]
        heads = [int(row[6]) for row in rows]
        assert [row[0] for row in rows] == [str(n) for n in range(1, len(rows) + 1)]
        assert heads.count(0) == 1
        for at in range(1, len(rows) + 1):
            steps = 0
            while at:
                at, steps = heads[at - 1], steps + 1
                assert steps <= len(rows)
        assert not {"turbine", "Turbine", "Maria"} & {row[1] for row in rows}
        crossing += any(row[7] == "case" and int(row[6]) < int(row[0]) - 1 for row in rows)
    assert crossing  # which we looked for


# ---- Sentences in the third person -------------------------------------------------------------


def test_a_sentence_in_the_third_person(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "release"))
    from third_person import third, third_person

    def text(subject, verb):
        rows = [subject, verb, ("home", "home", "ADV", "RB", "2", "advmod")]
        cells = (
            [str(n), f, m, u, x, "_", h, d, "_", "_"]
            for n, (f, m, u, x, h, d) in enumerate(rows, 1)
        )
        return "# a comment\n" + "\n".join(map("\t".join, cells)) + "\n\n"

    mine = text(
        ("I", "I", "PRON", "PRP", "2", "nsubj"), ("call", "call", "VERB", "VBP", "0", "root")
    )
    other = text(
        ("Ada", "Ada", "PROPN", "NNP", "2", "nsubj"), ("calls", "call", "VERB", "VBZ", "0", "root")
    )
    lists = ["Ada"], ["Marsh"], ["Ferrybank"]
    copies = third_person(mine * 40 + other, *lists).strip("\n").split("\n\n")
    assert len(copies) == 40
    assert third_person(mine * 40 + other, *lists).strip("\n").split("\n\n") == copies
    starts = set()
    for copy in copies:
        rows = [line.split("\t") for line in copy.split("\n")]
        assert [row[0] for row in rows] == [str(n) for n in range(1, len(rows) + 1)]
        assert all(len(row) == 10 and set(row[6:]) == {"_"} for row in rows)
        assert rows[-2][1:6] == ["calls", "call", "VERB", "VBZ", rows[-2][5]]
        assert "Person=3" in rows[-2][5]
        assert rows[0][1][0].isupper()
        starts.add(" ".join(row[1] for row in rows[:-2]))
    assert {"Ada", "Ada Marsh", "Ferrybank"} <= starts
    assert [third(v) for v in ("have", "watch", "carry", "play")] == [
        "has",
        "watches",
        "carries",
        "plays",
    ]
