"""Pipelines and shipped models on the command line: processes, files, pipes, pages, bad input."""

import gzip
import html
import json
import os
import re
import subprocess

import pytest

from tests.cli.processes import DEMO, TURBOTAG, one_sentence, run, run_new
from tests.cli.test_parse import rows, trees_of, words_of
from tests.models.test_pipeline import ODD, TEXT, check, english, file, notes
from turbotag.corpus.text import segment
from turbotag.models.pipeline import load
from turbotag.models.shipped import pipelines, shipped

MISC = 9


@pytest.fixture(scope="module")
def plain():
    """What is to come out of TEXT."""
    return english()(TEXT, probabilities=False).conllu


# ---- Raw text ------------------------------------------------------------------------------------


def test_from_a_pipe_a_file_and_gz(plain, tmp_path):
    check(plain, TEXT)
    piped = run_new("predict", "en", stdin=TEXT.encode())
    assert (piped.returncode, piped.stdout.decode(), piped.stderr) == (0, plain, b"")
    source, out = file(tmp_path, TEXT, "letter.txt"), tmp_path / "out.conllu"
    done = run("predict", "en", source, "-o", out, "--threads", 2)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_bytes().decode() == plain
    packed = file(tmp_path, gzip.compress(TEXT.encode()), "letter.txt.gz")
    for arguments in ([packed], ["-", "--format", "raw"], [source, "--format", "raw"]):
        done = run("predict", "en", *arguments, stdin=TEXT)
        assert (done.returncode, done.stdout, done.stderr) == (0, plain, "")
    assert sorted(os.listdir(tmp_path)) == ["letter.txt", "letter.txt.gz", "out.conllu"]


def test_a_sentence_that_is_cut_for_its_length(tmp_path):
    source = file(tmp_path, f"Ada sings. {'word ' * 500}", "long.txt")
    done = run("predict", "en-pos", source)
    assert done.returncode == 0
    assert done.stdout.count("# sent_id = ") == 3
    assert done.stderr == (
        f"warning: {source}: sentences of more than 400 words are cut there: once, first at the "
        "end of sentence 2\n"
    )


def test_line_ends_and_marks(plain):
    windows = TEXT.replace("\n", "\r\n")
    done = run("predict", "en", stdin=b"\xef\xbb\xbf" + windows.encode())
    check(done.stdout, windows)
    assert [r[:MISC] for r in rows(done.stdout)] == [r[:MISC] for r in rows(plain)]


def test_paragraphs_come_out_of_a_pipe_as_they_go_in():
    first, second = "Ada sings in Oslo.\n\n", "Leon isn't there.\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([*TURBOTAG, "predict", "en"], **pipes)
    process.stdin.write((first + "L").encode())
    process.stdin.flush()
    early = b""
    while not early.endswith(b"\n\n"):  # before the end of the input is there
        early += os.read(process.stdout.fileno(), 1 << 16)
    process.stdin.write(second[1:].encode())
    late, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    check((early + late).decode(), first + second)


def test_marginals_and_threads(tmp_path):
    done = run("predict", "en", "--marginals", stdin=TEXT)
    mine = re.sub(r"(Token|Sentence)Prob=[^|\n]*\|", "", done.stdout)  # those of beginnings
    assert mine == english()(TEXT, probabilities=True).conllu
    seen = set()
    for row in words_of(done.stdout):
        found = {k: float(v) for k, v in notes(row[MISC]).items() if k.endswith("Prob")}
        assert all(0.0 <= p <= 1.0 for p in found.values())
        seen |= set(found)
    tags = {"UposProb", "XposProb", "FeatsProb", "LemmaProb", "TagProb", "EntityProb"}
    assert seen == tags | {"HeadProb", "LabelProb", "TokenProb", "SentenceProb"}
    many = file(tmp_path, TEXT * 300)  # several blocks
    one, two = (run("predict", "en-pos", many, "--threads", n) for n in (1, 2))
    assert one.stdout == two.stdout
    assert len(words_of(one.stdout)) == 300 * len(words_of(done.stdout))
    assert run("predict", "en", "--marginals", "--threads", 2, stdin=TEXT).stdout == done.stdout


def test_decoding(plain):
    sentences = len(segment(TEXT))
    best = run("predict", "en", "--decode", "map", stdin=TEXT)
    assert best.stdout == plain
    proven = f"{sentences} of {sentences} trees are proven to have the largest score\n"
    assert best.stderr == proven
    check(run("predict", "en", "--decode", "posterior", stdin=TEXT).stdout, TEXT)
    tags = run("predict", "en-pos", "--decode", "map", stdin=TEXT)
    assert (tags.returncode, tags.stderr) == (0, "")  # no trees, nothing to prove
    second = run("predict", "sl-parse", "--decode", "map", stdin=ODD)
    proven, trees = map(int, re.match(r"(\d) of (\d) trees are proven", second.stderr).groups())
    assert proven <= trees == len(trees_of(second.stdout)) == 2


def test_bad_input(tmp_path):
    damaged = ODD.replace("\n4\t", "\n5\t")
    for stdin, *words in (
        (b"Ada sings.\n\nLeon \xff waits.\n", "<stdin>, line 3: byte 0xff is not valid UTF-8"),
        (damaged, "<stdin>, line 8: expected ID 4, found '5'"),
    ):
        source = file(tmp_path, stdin, "input.txt")
        packed = file(tmp_path, gzip.compress(source.read_bytes()), "input.txt.gz")
        for done, name in (
            (run("predict", "en-pos", stdin=stdin), "<stdin>"),
            (run("predict", "en-pos", source), str(source)),
            (run("predict", "en-pos", packed, "-o", tmp_path / "out"), str(packed)),
        ):
            one_sentence(done, 1, *(w.replace("<stdin>", name) for w in words))
    assert sorted(os.listdir(tmp_path)) == ["input.txt", "input.txt.gz"]
    one_sentence(run("predict", "en-pos", tmp_path / "none.txt"), 1, "none.txt: no such file")
    one_sentence(run("predict", "en-pos", tmp_path), 1, f"{tmp_path}: is a directory")
    one_sentence(run("predict", "en-pos", file(tmp_path, "a", "a.gz")), 1, "a.gz: cannot be read")


def test_bad_usage():
    for arguments, *words in (
        (["en", "--nbest", 2], "--nbest", "not for a pipeline"),
        (["en", "--columns", "word,tag"], "--columns", "not for a pipeline"),
        (["en", "--format", "columns"], "a pipeline reads raw text or CoNLL-U, not columns"),
        (["en", "--format", "conllx"], "not conllx"),
        (["en", "--draw", "page.svg"], "--draw takes a name that ends in .html, not 'page.svg'"),
        (["en", "--draw", "page.html", "--nbest", 2], "--nbest goes with none of"),
        (["en-upos", "--format", "raw"], "--format raw is for pipelines, such as en"),
        (["en", "--format", "latin"], "'latin' is not one of 'raw', 'conllu'"),
    ):
        done = run("predict", *arguments, stdin=TEXT)
        one_sentence(done, 2, *words)
        assert done.stdout == ""


# ---- Names ---------------------------------------------------------------------------------------


def test_names(tmp_path):
    known = ", ".join(sorted(pipelines()))
    done = run("predict", "english", stdin=TEXT)
    one_sentence(done, 1, f"english: is neither a file nor a shipped model ({known}, or a stage")
    one_sentence(run("predict", "en.model", stdin=TEXT), 1, "en.model: no such file")
    load("en-ner").save(str(tmp_path / "en"))
    done = run("predict", "en", stdin="in\nOslo\n", cwd=tmp_path)
    assert done.stdout == "in\tO\nOslo\tB-LOC\n"  # the file wins
    file(tmp_path, "junk", "en")
    done = run("predict", "en", stdin=TEXT, cwd=tmp_path)
    one_sentence(done, 1, "en: is not a turbotag model")


def test_a_folder_is_no_model(tmp_path):
    (tmp_path / "en").mkdir()
    assert run("predict", "en", stdin=TEXT, cwd=tmp_path).returncode == 0


# ---- CoNLL-U -------------------------------------------------------------------------------------


def test_tags_are_replaced_or_kept(tmp_path):
    source = file(tmp_path, ODD, "odd.conllu")
    new, kept = run("predict", "en", source), run("predict", "en", source, "--keep-tags")
    for done, old in ((new, [2, 3, 4, 5]), (kept, [5])):
        assert (done.returncode, done.stderr) == (0, "")
        for before, after in zip(rows(ODD), rows(done.stdout), strict=True):
            if len(before) != 10 or not before[0].isdigit():
                assert after == before
                continue
            new_ones = {c for c in range(10) if after[c] != before[c]}
            assert new_ones <= {*old, 6, 7, MISC}
            assert after[MISC].startswith("" if before[MISC] == "_" else before[MISC] + "|")
    # what has no tags yet gets them either way, and piped CoNLL-U is known as such
    bare = ODD.replace("\tX\tXX\t", "\t_\t_\t")
    assert "\tX\tXX\t" not in run("predict", "en", "--keep-tags", stdin=bare).stdout
    assert run("predict", "en", "--format", "conllu", stdin=bare).stdout == new.stdout


def test_a_pipeline_is_its_models_one_after_the_other(plain):
    cut = run("predict", "en-tokenize", stdin=TEXT).stdout
    for source, wanted in ((cut, plain), (ODD, run("predict", "en", stdin=ODD).stdout)):
        for stage in pipelines()["en"][1:]:
            done = run("predict", stage, stdin=source)
            assert (done.returncode, done.stderr) == (0, "")
            source = done.stdout
        assert source == wanted


def test_scores_of_its_output(tmp_path):
    """What is written is what eval and draw read."""
    out = file(tmp_path, run("predict", "en", "--marginals", stdin=TEXT).stdout, "out.conllu")
    done = run("eval", "--task", "parse", out, out, "--json")
    assert json.loads(done.stdout)["las"] == 1.0
    shown = run("draw", out, "--ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Brandt" in shown.stdout


def test_keep_tags_is_refused_for_a_single_model():
    one_sentence(run("predict", "en-upos", "--keep-tags", stdin=ODD), 2, "--keep-tags")


# ---- Pages ---------------------------------------------------------------------------------------


def test_draw(plain, tmp_path):
    page = tmp_path / "page.html"
    source = file(tmp_path, TEXT, "a & b.txt")
    done = run("predict", "en", source, "--draw", page)
    assert (done.returncode, done.stdout, done.stderr) == (0, plain, "")
    drawn = page.read_text(encoding="utf-8")
    assert drawn.startswith("<!doctype html>")
    assert "a &amp; b.txt" in drawn
    for row in words_of(plain):
        assert html.escape(row[1], quote=False) in drawn or html.escape(row[1]) in drawn
    out = tmp_path / "out.conllu"
    done = run("predict", "en", "--draw", page, "-o", out, "--threads", 2, stdin=TEXT)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_bytes().decode() == plain
    assert "standard input" in page.read_text(encoding="utf-8")
    assert sorted(os.listdir(tmp_path)) == ["a & b.txt", "out.conllu", "page.html"]


def test_a_page_that_cannot_be_drawn_leaves_nothing(tmp_path):
    old = file(tmp_path, "old", "old.html")
    before = sorted(os.listdir(tmp_path))
    bad = b"Ada sings.\n\nLeon \xff waits.\n"
    one_sentence(run("predict", "en", "--draw", old, stdin=bad), 1, "line 3")
    done = run("predict", "en", "--draw", tmp_path / "none" / "page.html", stdin=TEXT)
    one_sentence(done, 1, "page.html: folder", "does not exist")
    assert done.stdout == ""
    one_sentence(run("predict", "en", "--draw", tmp_path / "x", stdin=TEXT), 2, "ends in .html")
    (tmp_path / "folder.html").mkdir()
    done = run("predict", "en", "--draw", tmp_path / "folder.html", stdin=TEXT)
    one_sentence(done, 1, "folder.html: is a directory")
    (tmp_path / "folder.html").rmdir()
    done = run("predict", "en", "--draw", tmp_path / "new.html", "-o", "none/out", stdin=TEXT)
    one_sentence(done, 1, "none/out: folder 'none' does not exist")
    assert sorted(os.listdir(tmp_path)) == before
    assert old.read_text() == "old"


def test_columns_are_not_drawn_and_nothing_is_written(tmp_path):
    done = run("predict", "en-upos", "--draw", tmp_path / "page.html", stdin="in\nOslo\n")
    one_sentence(done, 1, "<stdin>", "cannot be drawn: it is neither CoNLL-U nor CoNLL-X")
    assert done.stdout == ""


# ---- Cards ---------------------------------------------------------------------------------------


def test_models_are_listed():
    done = run("models")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*shipped(), *pipelines()]
    for line in lines[: len(shipped())]:
        assert re.fullmatch(r"\S+ +\w.*, \d+\.\d MB", line)
    for line, stages in zip(lines[len(shipped()) :], pipelines().values(), strict=True):
        assert re.search(rf"pipeline of {', '.join(stages)}, \d+\.\d MB$", line)


@pytest.mark.parametrize("name", [*shipped(), *pipelines()])
def test_cards(name):
    done = run("models", name)
    assert (done.returncode, done.stderr) == (0, "")
    stages = pipelines().get(name, (name,))
    cards = re.split(r"\n?== (.+) ==\n", done.stdout)
    if len(stages) > 1:
        assert tuple(cards[1::2]) == stages
        cards = cards[2::2]
    assert len(cards) == len(stages)
    for stage, card in zip(stages, cards, strict=True):
        lines = [line for line in card.splitlines() if line]
        found = {line[:12].strip(): line[13:] for line in lines if line[0] != " "}
        assert re.match(r".+: \d+ sentences, \d+ tokens", found["trained on"])
        assert re.search(r"sha256 [0-9a-f]{64}", card)
        script, made = found["command"].split()
        assert script.endswith("make_models.py")
        assert f"{stage}-".startswith(f"{made}-")
        gap = r"(loose: )?primal \d\S+, (dual -?\d\S+, duality gap \d\S+ \(.* %|and no dual point)"
        assert re.match(
            rf"(of the convex surrogate, )?{gap}.* after \d+ epochs", found["certificate"]
        )
        assert found["seed"].isdigit()
        assert found["licence"] == "CC BY-SA 4.0"
        assert "CC BY-SA 4.0" in found["credits"]
        assert re.match(r"[\d,]+ words a second, file to file, on one core", found["speed"])
        assert re.match(r"\d+\.\d\d MB", found["file"])
        tests = [line for line in lines if line.startswith("test")]
        conventions = {
            "parse": ("conll18 (", "nopunct (", "conllx ("),
            "ner": ("conlleval (", "strict ("),
            "tokenize": (),  # scored on dev
        }
        for convention in conventions.get(stage.rsplit("-", 1)[1], ("all tokens",)):
            assert any(convention in line and re.search(r" \d\d\.\d\d,", line) for line in tests)


def test_cards_of_files_and_of_nothing(tmp_path):
    load("en-ner").save(str(tmp_path / "own.model"))
    own, named = (run("models", m).stdout for m in (tmp_path / "own.model", "en-ner"))
    assert own.splitlines()[:-1] == named.splitlines()[:-1]  # the last is of the size
    known = ", ".join(sorted(pipelines()))
    done = run("models", "xx-parse")
    one_sentence(done, 1, f"xx-parse: is neither a file nor a shipped model ({known}, or a stage")
    one_sentence(run("models", file(tmp_path, "junk", "x.model")), 1, "is not a turbotag model")


# ---- Shipped names for every command -------------------------------------------------------------


def test_a_pipeline_is_scored_by_all_that_the_file_has(tmp_path):
    """Against its own answers, of which a tag and an entity are changed."""
    rows = [line.split("\t") for line in run("predict", "en", stdin=TEXT).stdout.splitlines()]
    words = [row for row in rows if row[0].isdigit()]
    assert words[0][3] != "X"
    words[0][3] = "X"
    named = next(row for row in words if "NER=S-" in row[9] or "NER=B-" in row[9])
    named[9] = re.sub("NER=[^|]*", "NER=B-MISC", named[9])
    gold = file(tmp_path, "\n".join("\t".join(row) for row in rows) + "\n", "gold.conllu")
    n = len(words)
    found = json.loads(run("eval", "--model", "en", gold, "--json").stdout)
    assert list(found) == ["upos", "xpos", "feats", "lemma", "trees", "ner"]
    assert (found["upos"]["right_tokens"], found["upos"]["tokens"]) == (n - 1, n)
    assert found["xpos"]["accuracy"] == 1.0
    assert found["trees"]["conventions"]["conll18"]["las"] == 1.0
    assert 0 < found["ner"]["f1"] < 1
    assert found["ner"]["types"]["MISC"]["gold"] == 1

    shown = run("eval", "--model", "en", gold, "--html", tmp_path / "page.html")
    assert re.findall("^== (.*) ==$", shown.stdout, re.M) == list(found)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.findall("<h1>Evaluation: (.*?)</h1>", page) == list(found)
    assert page.count("reliability diagram") >= len(found)

    trees = json.loads(run("eval", "--model", "en", gold, "--task", "parse", "--json").stdout)
    assert trees == {"trees": found["trees"]}
    alone = json.loads(run("eval", "--model", "en-ner", gold, "--json").stdout)
    assert alone == found["ner"]
    tagged = file(tmp_path, run("predict", "en", gold).stdout, "tagged.conllu")
    files = json.loads(run("eval", gold, tagged, "--target", "NER", "--json").stdout)
    assert files == found["ner"]


def test_a_pipeline_is_scored_only_by_what_the_file_has(tmp_path):
    bare = file(tmp_path, "1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\t_\n", "bare.conllu")
    assert list(json.loads(run("eval", "--model", "en", bare, "--json").stdout)) == ["upos"]
    done = run("eval", "--model", "en", bare, "--task", "parse")
    one_sentence(done, 2, "of what the pipeline predicts, only upos can be scored")
    nothing = file(tmp_path, "1\tAda\t_\t_\t_\t_\t_\t_\t_\t_\n", "nothing.conllu")
    one_sentence(run("eval", "--model", "en", nothing), 1, "has nothing that the pipeline predicts")
    columns = file(tmp_path, "Ada PROPN\nsings VERB\n", "columns")
    one_sentence(run("eval", "--model", "en", columns), 1, "a pipeline is scored on CoNLL-U")


def test_shipped_names_for_every_command(tmp_path):
    gold, out = DEMO / "dev.conllu", tmp_path / "m"
    for command in (
        ["predict", "en-parse", gold, "-o", out],
        ["eval", "--model", "en-parse", gold],
        ["models", "en-parse"],
        ["inspect", "en-parse"],
        ["inspect", "en"],
        ["train", "--task", "pos", "--train", gold, "--init", "en-upos", "--epochs", 1, "-o", out],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    assert run("inspect", "en-parse").stdout.startswith(run("models", "en-parse").stdout[:500])
    stages = re.findall("^== (.*) ==$", run("inspect", "en").stdout, re.M)
    assert stages == list(pipelines()["en"])
    train = ["train", "--task", "pos", "--train", gold, "-o", out, "--init"]
    one_sentence(
        run(*train, "en"), 1, "en: is a pipeline: name one of its models, en-tokenize, en-upos"
    )
    one_sentence(run(*train, "en-upso"), 1, "did you mean 'en-upos'?")


def heaviest(*arguments):
    """(weight, name) of the features that inspect shows below their last heading."""
    done = run("inspect", *arguments)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.rsplit("\n\n", 1)[1].splitlines()
    return lines[0], [(float(w), name) for w, name in (x.split(maxsplit=1) for x in lines[1:])]


def test_a_label_of_a_pipeline():
    """Only the models that have it are shown, and of them only this label."""
    done = run("inspect", "en", "--label", "nsubj", "--top", 7, "--data", DEMO / "dev.conllu")
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[:2] == ["== en-parse ==", "nsubj"]
    assert len(lines) == 9
    assert all(float(line.split()[0]) for line in lines[2:])


def test_the_features_of_a_parser(tmp_path):
    """Those of a label are not those of arcs; without a file there are no names to show."""
    data = DEMO / "dev.conllu"
    arcs, shown = heaviest("en-parse", "--data", data)
    assert (arcs, len(shown)) == ("arcs", 5)
    for label in ("nsubj", "punct"):
        name, found = heaviest("en-parse", "--data", data, "--label", label, "--top", 12)
        assert (name, len(found)) == (label, 12)
        assert [w for w, _ in found] == sorted((w for w, _ in found), reverse=True)
        assert len({f for _, f in found}) == 12
        assert {f for _, f in found} != {f for _, f in shown}
    assert any("m:upos=PUNCT" in f or "m:super=punct" in f for _, f in found)
    assert heaviest("en-parse", "--data", data, "--top", 2)[1] == shown[:2]
    for options in (["--label", "nsubj"], ["--top", 3]):
        one_sentence(run("inspect", "en-parse", *options), 2, "no names of features: --data FILE")
    one_sentence(run("inspect", "en-parse", "--label", "subj"), 2, "unknown label 'subj'")
    columns = file(tmp_path, "Ada B-PER\n", "columns")
    one_sentence(
        run("inspect", "en-parse", "--data", columns), 1, "columns", "parser reads CoNLL-U"
    )


def test_the_features_of_a_compact_tagger(tmp_path):
    """Names come from the file: the words in it, and no others."""
    data = file(tmp_path, "Ada\nflew\nto\nOslo\n.\n")
    name, found = heaviest("en-ner", "--data", data, "--label", "S-LOC", "--top", 30)
    assert (name, len(found)) == ("S-LOC", 30)
    names = [f for _, f in found]
    assert "word[1]=to" in names or "lower[1]=to" in names  # as of Ada and Oslo
    words = {m for f in names for m in re.findall(r"(?:word|lower)\[.*?\]=(\S+)", f)}
    assert words <= {"Ada", "ada", "flew", "to", "Oslo", "oslo", ".", "<boundary>"}
    assert not any(re.fullmatch("[0-9a-f]{16}", f) for f in names)
