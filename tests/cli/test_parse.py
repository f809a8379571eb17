"""The parser on the command line: real processes, files, pipes, bad trees, interrupts."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.processes import DEMO, TURBOTAG, one_sentence, run, run_new
from turbotag.models.parser import Parser

TRAIN, DEV, TEST = (str(DEMO / f"{s}.conllu") for s in ("train", "dev", "test"))
HEAD, LABEL, MISC = 6, 7, 9


def run_all(*commands):
    return [run(*arguments) for arguments in commands]


def train(*arguments):
    return ["train", "--task", "parse", *arguments]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "parse.model"
    done = run_new(*train("--train", TRAIN, "--dev", DEV, "--epochs", 5, "-o", path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    for words in (
        "400 sentences, 3828 words; 80 sentences and 80 arcs are non-projective",
        "tags are those of the file",
        "% of the gold arcs",
        f"{DEV}: held out, 60 sentences, 568 tokens",
        "loss: softmax-margin (beta 1, gamma 3); C 0.1, lambda 0.025\n",
        "gap dev UAS\n",
        f"wrote {path}",
    ):
        assert words in done.stderr
    stages = done.stderr.split("\n== ")[1:]
    assert [s.split(" ==")[0] for s in stages] == ["pruning model", "arcs", "labels"]
    usual = ("sdca (dual compact, ", "a certified gap of 1 % of the primal or 5", "certified gap ")
    for stage, words in zip(stages, (("dca\n", "4", "4 epochs"), usual, usual), strict=True):
        for line in zip(("algorithm", "until", "stopped"), words, strict=True):
            assert "\n" + ": ".join(line) in stage
        assert "\ncertificate: " in stage
    assert os.listdir(path.parent) == ["parse.model"]
    return path


def rows(text):
    """Fields of every line; a comment or a blank line is one field."""
    return [line.split("\t") for line in text.split("\n")]


def words_of(text):
    return [r for r in rows(text) if len(r) == 10 and r[0].isdigit()]


def sentence(*words):
    """A sentence without a tree from (form, tag) pairs."""
    return (
        "".join(f"{i}\t{w}\t_\t{t}\t_\t_\t_\t_\t_\t_\n" for i, (w, t) in enumerate(words, 1)) + "\n"
    )


def many_words():
    return [("the", "DET"), ("lamp", "NOUN"), ("reads", "VERB"), (",", "PUNCT")] * 50


# Comments, a multiword range, empty nodes, MISC, surplus blank lines, no tags; 1, 2 and 200 words.
ODD = (
    "# newdoc\n# text = don't go\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "0.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\t_\tA=B|C=D\t7\told\t0:root\tSpaceAfter=No\n"
    "2\tn't\tnot\tPART\t_\t_\t_\t_\t_\tX=1|Y=2\n2.1\ty\t_\t_\t_\t_\t_\t_\t0:dep\t_\n"
    "3\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_\n\n\n\n"
    "# one word\n1\tYes\tyes\tINTJ\t_\t_\t_\t_\t_\t_\n\n"
    + sentence(("Go", "VERB"), ("!", "PUNCT"))
    + "# no tags, no lemmas\n"
    + sentence(("The", "_"), ("lämp", "_"), ("left", "_"), (".", "_"))
    + sentence(*many_words())
    + "# the end, without a newline"
)


def is_tree(heads):
    for m in range(1, len(heads) + 1):
        for _ in heads:
            m = heads[m - 1] if m else 0
        if m:
            return False
    return heads.count(0) == 1


def trees_of(text):
    found = []
    for row in words_of(text):
        if row[0] == "1":
            found.append([])
        found[-1].append(int(row[HEAD]))
    return found


def test_help_mentions_parsing():
    assert "dependency parsers" in run("--help").stdout
    shown = run("train", "--help").stdout
    for words in (
        "parse|",
        "--decoder",
        "--crossing",
        "--jackknife",
        "--multi-root",
        "--no-prune",
        "--supertags",
        "--heads",
    ):
        assert words in shown
    for words in ("--parts", "--entropy", "--rounds", "--damping", "--tolerance"):
        assert words in shown


def test_predict_eval_inspect(model, tmp_path):
    out = tmp_path / "out.conllu"
    assert run_new("predict", model, TEST, "-o", out).returncode == 0
    piped = run_new("predict", model, "--threads", 2, stdin=Path(TEST).read_text())
    assert piped.stdout == out.read_text()
    assert piped.stderr == ""
    table, by_file, by_model, card, header, shown = run_all(
        ["eval", "--task", "parse", TEST, out],
        ["eval", "--task", "parse", TEST, out, "--json"],
        ["eval", "--model", model, TEST, "--json"],
        ["inspect", model],
        ["inspect", model, "--json"],
        ["inspect", model, "--templates"],
    )
    for words in ("nopunct", "conll18", "conllx", "UAS", "LAS", "convention: conll18 (all words"):
        assert words in table.stdout
    scores = json.loads(by_file.stdout)
    assert scores == json.loads(by_model.stdout)
    assert scores["las"] > 0.9
    assert set(scores["conventions"]) == {"nopunct", "conll18", "conllx"}
    for words in ("parse, nonprojective, single root", "tags         gold", "certificate", "nsubj"):
        assert words in card.stdout
    assert json.loads(header.stdout)["decoder"] == "nonprojective"
    assert "h:upos m:upos dir|dist" in shown.stdout


def test_everything_but_the_tree_comes_out_byte_for_byte(model, tmp_path):
    source, crlf = tmp_path / "odd.conllu", tmp_path / "crlf.conllu"
    source.write_text(ODD, encoding="utf-8")
    crlf.write_bytes(b"\xef\xbb\xbf" + ODD.replace("\n", "\r\n").encode())
    plain, noted, posterior, windows = run_all(
        ["predict", model, source],
        ["predict", model, source, "--marginals"],
        ["predict", model, source, "--decode", "posterior"],
        ["predict", model, crlf, "-o", tmp_path / "out"],
    )
    assert windows.returncode == 0
    text = plain.stdout
    assert (tmp_path / "out").read_bytes() == b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    labels = Parser.load(str(model)).labels
    for done in (plain, noted, posterior):
        assert done.stderr == ""
        assert [len(t) for t in trees_of(done.stdout)] == [3, 1, 2, 4, 200]
        assert all(map(is_tree, trees_of(done.stdout)))
        for before, after in zip(rows(ODD), rows(done.stdout), strict=True):
            if len(before) == 10 and before[0].isdigit():
                assert after[:HEAD] + after[8:MISC] == before[:HEAD] + before[8:MISC]
                assert after[LABEL] in labels
                note = "" if before[MISC] == "_" else before[MISC] + "|"
                assert after[MISC].startswith(note + "HeadProb=" if done is noted else before[MISC])
            else:
                assert after == before
    for row in words_of(noted.stdout):
        head, label = row[MISC].split("|")[-2:]
        assert head.startswith("HeadProb=")
        assert label.startswith("LabelProb=")
        assert 0.0 <= float(head[9:]) <= 1.0
        assert 0.0 <= float(label[10:]) <= 1.0
    one = words_of(noted.stdout)[3]
    assert one[HEAD] == "0"
    assert "HeadProb=1.0000" in one[MISC]


def test_nbest(model, tmp_path):
    source = tmp_path / "odd.conllu"
    source.write_text(ODD.split("# no tags")[0], encoding="utf-8")
    done, refused = run_all(
        ["predict", model, source, "--nbest", 3],
        ["predict", model, source, "--nbest", 2, "--marginals"],
    )
    parts = done.stdout.split("# nbest ")
    ranks = [(int(p.split()[0]), float(p.split()[1])) for p in parts[1:]]
    assert [r for r, _ in ranks] == [1, 2, 3, 1, 1, 2]  # of one word there is one tree, of two two
    probabilities = [p for _, p in ranks]
    assert probabilities[0] >= probabilities[1] >= probabilities[2]
    assert probabilities[3] == 1.0
    assert sum(probabilities[4:]) == pytest.approx(1.0, abs=2e-6)
    ids = [[r[0] for r in rows(p) if len(r) == 10] for p in parts[1:4]]
    assert ids == [["1-2", "0.1", "1", "2", "2.1", "3"]] * 3
    assert len({tuple(map(tuple, trees_of(p))) for p in parts[1:4]}) == 3
    one_sentence(refused, 2, "--nbest goes with none of --marginals")


def test_conllx_in_and_out(model, tmp_path):
    lines = [x for x in Path(TEST).read_text().split("\n") if not x.startswith("#")]
    fields = [x.split("\t") for x in lines]
    for f in fields:
        if len(f) == 10:
            f[8:] = ["_", "_"]
    source = tmp_path / "x.conllx"
    source.write_text("\n".join("\t".join(f) for f in fields))
    parser = tmp_path / "m"
    out, noted, trained = run_all(
        ["predict", model, source],
        ["predict", model, source, "--marginals"],
        train("--train", source, "--epochs", 2, "-q", "-o", parser),
    )
    assert trained.stderr == ""
    for before, after, more in zip(fields, rows(out.stdout), rows(noted.stdout), strict=True):
        assert len(after) == len(before)
        if len(before) == 10:
            assert after[:HEAD] + after[8:] == [*before[:HEAD], "_", "_"]
            assert more[:8] == after[:8]
            assert all(0.0 <= float(p) <= 1.0 for p in more[8:])  # PHEAD and PDEPREL
    by_file, by_model = run_all(
        ["eval", "--model", model, source, "--json"], ["eval", "--model", parser, source, "--json"]
    )
    assert json.loads(by_file.stdout)["las"] > 0.9
    assert json.loads(by_model.stdout)["las"] > 0.9


def tree_file(path, *sentences):
    path.write_text(
        "".join(
            "# a comment\n"
            + "".join(f"{i}\tw\t_\tX\t_\t_\t{h}\tdep\t_\t_\n" for i, h in enumerate(heads, 1))
            + "\n"
            for heads in sentences
        )
    )
    return path


# Heads of the second sentence, whose first word is in line 6; what is said of them.
BAD = {
    "zeros": ([0, 0, 0], "line 7", "second root", "--multi-root"),
    "cycle": ([0, 3, 2], "line 7", "words 2, 3 form a cycle"),
    "missing": ([0, "_", 1], "line 7", "head is missing"),
    "range": ([0, 4, 1], "line 7", "head 4 is outside the sentence"),
    "word": ([0, "one", 1], "line 7", "'one' is not a number"),
    "itself": ([0, 2, 1], "line 7", "word 2 is its own head"),
    "no root": ([2, 3, 1], "line 6", "no root"),
}


def test_bad_trees(model, tmp_path):
    files = {n: tree_file(tmp_path / f"{n}.conllu", [0, 1], bad[0]) for n, bad in BAD.items()}
    out = tmp_path / "out"
    before = sorted(os.listdir(tmp_path))
    done = run_all(*(train("--train", f, "-o", out) for f in files.values()))
    for (_, line, *words), path, result in zip(BAD.values(), files.values(), done, strict=True):
        one_sentence(result, 1, f"{path}, {line}:", *words)
    cycle, dev, both, scored, predicted = run_all(
        ["eval", "--task", "parse", files["cycle"], files["cycle"]],
        train("--train", DEV, "--dev", files["range"], "-o", out),
        train("--train", files["cycle"], "--jackknife", 2, "-o", out),
        ["eval", "--model", model, files["word"]],
        ["predict", model, files["cycle"]],
    )
    one_sentence(cycle, 1, str(files["cycle"]), "line 7", "cycle")
    one_sentence(dev, 1, str(files["range"]), "line 7", "head 4")
    one_sentence(both, 1, str(files["cycle"]), "line 7", "cycle")
    one_sentence(scored, 1, str(files["word"]), "line 7", "'one'")
    assert sorted(os.listdir(tmp_path)) == before
    assert predicted.returncode == 0  # what is to be parsed needs no tree: it is overwritten


def test_all_heads_zero_with_multiple_roots(tmp_path):
    path = tree_file(tmp_path / "zeros.conllu", *[[0] * n for n in (1, 2, 3, 5, 4)])
    out = tmp_path / "m"
    done, predicted = run_all(
        train("--train", path, "--multi-root", "-q", "-o", out), ["predict", out, path]
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert predicted.stdout == path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["m", "zeros.conllu"]


def test_bad_data_and_models(model, tmp_path):
    columns, out = str(DEMO / "train.iob2"), tmp_path / "out"
    cut = tmp_path / "cut"
    cut.write_bytes(model.read_bytes()[:-50])
    template = tmp_path / "my.txt"
    template.write_text("h:upos m:upos\nh:uops[\n")
    trained, jackknifed, predicted, scored, damaged, templates = run_all(
        train("--train", columns, "-o", out),
        train("--train", columns, "--jackknife", 2, "-o", out),
        ["predict", model, columns, "-o", out],
        ["eval", "--model", model, columns],
        ["predict", cut, TEST, "-o", out],
        train("--train", TRAIN, "--template", template, "-o", out),
    )
    for done in (trained, jackknifed, predicted, scored):
        one_sentence(done, 1, columns, "CoNLL-U or CoNLL-X")
    one_sentence(damaged, 1, str(cut), "damaged or truncated")
    one_sentence(templates, 1, f"{template}, line 2", "'h:uops[' is not part of an arc template")
    assert sorted(os.listdir(tmp_path)) == ["cut", "my.txt"]


def test_bad_usage(model, tmp_path):
    out = tmp_path / "out"
    ner = ["train", "--task", "ner", "--train", str(DEMO / "train.iob2"), "-o", out]
    only_parse = (
        ["--decoder", "projective"],
        ["--multi-root"],
        ["--no-labels"],
        ["--min-count", 0],
        ["--jackknife", 2],
    )
    for done in run_all(*([*ner, *more] for more in only_parse)):
        one_sentence(done, 2, "is for parsers", ": the task ner has no use for it")
    # refused before anything is read: the training file does not even exist
    parse = train("--train", tmp_path / "none", "-o", out)
    hinge_loss = ["--loss", "svm"]
    egr, exact, hinge, tags = run_all(
        [*parse, "--algorithm", "egr", "--loss", "crf"],
        [*parse, "--algorithm", "sdca", "--dual", "exact"],
        [*parse, "--algorithm", "sdca", "--dual", "exact", "--decoder", "projective", *hinge_loss],
        ["eval", "--model", model, "--task", "tags", TEST],
    )
    one_sentence(egr, 2, "egr serves losses with beta = inf")
    one_sentence(exact, 2, "--dual exact", "--decoder projective")
    one_sentence(hinge, 2, "--dual exact", "finite beta")
    one_sentence(tags, 2, "is a parser")
    assert os.listdir(tmp_path) == []


def test_second_order_parts(tmp_path):
    convex, bethe, first, log = (tmp_path / n for n in ("convex", "bethe", "first", "log"))
    limits = "--entropy bethe --rounds 10 --damping 0.2 --tolerance 0.01 --epochs 2"
    sdca = ["--algorithm", "sdca", "--epochs", 7, "--stop-gap", 1e-9, "--log", log]
    one, two, three = run_all(
        train("--train", DEV, "--parts", "cs,gp", *sdca, "-o", convex),
        train("--train", DEV, "--epochs", 2, "-q", "-o", first),
        train("--train", DEV, "--parts", "cs,gp,as", *limits.split(), "--init", first, "-o", bethe),
    )
    for done in (one, two, three):
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "certificate, of the convex surrogate: primal" in one.stderr
    assert "not certified, as Bethe's log Z is an approximation: primal" in three.stderr
    header = Parser.load(str(bethe)).header
    assert list(header["approximation"].values()) == ["bethe", 10, 0.2, 0.01]
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows[-1]["certified"]
    sentences = Path(DEV).read_text().strip().count("\n\n") + 1
    assert rows[0]["inference"]["calls"] == sentences
    assert (rows[0]["inference"]["rounds"], rows[-2]["inference"]["rounds"]) == (8.0, 0.0)

    cards = run_all(["inspect", convex], ["inspect", bethe], ["inspect", first])
    assert "parts        cs,gp, convex, 8 rounds" in cards[0].stdout
    assert "certificate  of the convex surrogate, " in cards[0].stdout
    assert "parts        cs,gp,as, bethe, 10 rounds" in cards[1].stdout
    assert "uncertified  primal" in cards[1].stdout
    assert "surrogate" not in cards[2].stdout
    assert "parts " not in cards[2].stdout

    for model in (convex, bethe):
        likely, best, threads, noted, nbest = run_all(
            ["predict", model, TEST],
            ["predict", model, TEST, "--decode", "map"],
            ["predict", model, TEST, "--decode", "map", "--threads", 2],
            ["predict", model, TEST, "--marginals"],
            ["predict", model, TEST, "--nbest", 2],
        )
        assert likely.stderr == noted.stderr == ""
        assert " of 60 trees are proven to have the largest score" in best.stderr
        assert (threads.stdout, threads.stderr) == (best.stdout, best.stderr)
        for done in (likely, best, noted):
            assert all(map(is_tree, trees_of(done.stdout)))
        probabilities = [float(r[MISC].split("HeadProb=")[1][:6]) for r in words_of(noted.stdout)]
        assert 0.0 <= min(probabilities) <= max(probabilities) <= 1.0
        one_sentence(nbest, 2, "--nbest is for first-order parsers")


def test_bad_second_order_usage(tmp_path):
    """Refused before anything is read: the training file does not even exist."""
    parse = train("--train", tmp_path / "none", "-o", tmp_path / "out")
    parts = [*parse, "--parts", "cs"]
    for name, value in (("entropy", "bethe"), ("rounds", 3), ("damping", 0.1), ("tolerance", 0.1)):
        (done,) = run_all([*parse, f"--{name}", value])
        one_sentence(done, 2, f"--{name} needs --parts")
    for options, words in (
        ("--entropy bethe --loss svm", "--entropy bethe needs a loss with finite beta"),
        ("--entropy bethe --algorithm sdca", "sdca needs the exact log Z"),
        ("--algorithm lbfgs --loss crf", "lbfgs needs the exact log Z"),
        ("--rounds 0", "rounds is 0"),
        ("--damping 1", "damping is 1.0"),
        ("--tolerance -1", "tolerance is -1.0"),
        ("--algorithm sdca --sampling importance", "--sampling gap"),
        ("--decoder projective", "sums over all trees"),
        ("--no-prune", "leave out --no-prune"),
    ):
        (done,) = run_all([*parts, *options.split()])
        one_sentence(done, 2, words)
    unknown, other = run_all([*parse, "--parts", "cs,xx"], [*parts, "--entropy", "tree"])
    one_sentence(unknown, 2, "--parts takes some of cs, gp, as, not 'xx'")
    assert other.returncode == 2
    ner = ["train", "--task", "ner", "--train", str(DEMO / "train.iob2"), "-o", tmp_path / "out"]
    (done,) = run_all([*ner, "--parts", "cs"])
    one_sentence(done, 2, "--parts is for parsers and pipelines: the task ner has no use for it")
    assert os.listdir(tmp_path) == []


def test_options_reach_the_model(tmp_path):
    out = tmp_path / "m"
    options = "--decoder projective --no-labels --no-prune --algorithm sdca --dual exact --loss crf"
    (done,) = run_all(train("--train", DEV, "--epochs", 2, *options.split(), "-o", out))
    assert done.returncode == 0, done.stderr
    assert "lifted" in done.stderr
    assert "pruning model" not in done.stderr
    model = Parser.load(str(out))
    assert model.projective
    assert set(model.header["templates"]) == {"arc"}
    assert model.header["algorithm"]["dual"] == "exact"
    assert "--decoder projective" in model.header["command"]


@pytest.mark.parametrize("name", ["dca", "sdca", "parts"])
def test_killed_training_resumes_to_the_same_weights(tmp_path, name):
    """Killed while the arcs are trained, after the pruning model; every stage has a checkpoint."""
    options = "--loss crf --checkpoint-seconds 0 --algorithm "
    options += {
        "dca": "dca --epochs 40",
        "sdca": "sdca --epochs 25 --stop-gap 1e-14",
        "parts": "sdca --epochs 12 --stop-gap 1e-14 --parts cs,gp",
    }[name]
    command = train("--train", DEV, *options.split(), "-o")
    out, checkpoint = tmp_path / "m", tmp_path / "m.arc.checkpoint"
    killed = subprocess.Popen([*TURBOTAG, *command, str(out), "-q"])
    while not checkpoint.exists() and killed.poll() is None:
        time.sleep(0.002)
    killed.kill()
    killed.wait(60)
    assert not out.exists(), "it was over before it could be killed"
    assert (tmp_path / "m.prune.checkpoint").exists()
    other, resumed, whole = run_all(
        [*command, out, "-C", 2, "--resume"],
        [*command, out, "--resume"],
        [*command, tmp_path / "whole"],
    )
    one_sentence(other, 1, "m.prune.checkpoint", "was trained with -C ", ", now with -C 2;")
    assert (resumed.returncode, whole.returncode) == (0, 0)
    assert f"prune: done before, in {tmp_path / 'm'}.prune.checkpoint" in resumed.stderr
    assert f"resuming from {tmp_path / 'm'}.arc.checkpoint" in resumed.stderr
    assert "resuming" not in whole.stderr
    a, b = (Parser.load(str(tmp_path / f)).arrays for f in ("m", "whole"))
    assert set(a) == set(b)
    for array in a:
        assert a[array].tobytes() == b[array].tobytes()
    assert not list(tmp_path.glob("*.checkpoint"))
