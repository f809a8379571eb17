"""predict in other formats and on several files, entities in MISC, completion of names."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.processes import DEMO, ROOT, TURBOTAG, one_sentence, run

TEXT = "Ada flew to Oslo. She loved it.\n"


def test_formats_of_a_pipeline():
    plain = run("predict", "en", stdin=TEXT).stdout
    assert run("predict", "en", "--to", "conllu", stdin=TEXT).stdout == plain
    sentences = [
        json.loads(x) for x in run("predict", "en", "--to", "json", stdin=TEXT).stdout.splitlines()
    ]
    assert [s["text"] for s in sentences] == ["Ada flew to Oslo.", "She loved it."]
    assert sentences[0]["tokens"][3]["upos"] == "PROPN"
    spans = run("predict", "en", "--to", "spans", "--marginals", stdin=TEXT).stdout.splitlines()
    assert any(line.split("\t")[5] == "LOC" and line.endswith("\tOslo") for line in spans[1:])
    columns = run("predict", "en", "--to", "columns", stdin=TEXT).stdout
    assert columns.split("\n")[3].split("\t")[:4] == ["Oslo", "Oslo", "PROPN", "NNP"]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """Trained on entities that stand in MISC of CoNLL-U."""
    path = tmp_path_factory.mktemp("model") / "ner.model"
    files = "--train", DEMO / "train.conllu", "--dev", DEMO / "dev.conllu"
    done = run("train", "--task", "ner", *files, "-o", path)
    assert done.returncode == 0, done.stderr
    assert "tags in column 'ner'" in done.stderr
    return path


def test_output_may_be_a_format(tmp_path):
    """--output json is --to json, and no file of this name."""
    (tmp_path / "a.txt").write_text("Ada flew to Oslo.")
    named = run("predict", "en", str(tmp_path / "a.txt"), "--output", "json", cwd=tmp_path)
    assert named.stdout == run("predict", "en", str(tmp_path / "a.txt"), "--to", "json").stdout
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    told = run("predict", "en", str(tmp_path)).stderr
    assert "is a directory, which needs --output-dir FOLDER" in told


def test_entities_in_misc(tagger, tmp_path):
    tagged, given = tmp_path / "tagged.conllu", DEMO / "test.conllu"
    assert run("predict", tagger, given, "-o", tagged).returncode == 0
    lines = [x.split("\t") for x in tagged.read_text().splitlines() if x[:1].isdigit()]
    notes = [x.split("\t")[9] for x in given.read_text().splitlines() if x[:1].isdigit()]
    for line, old in zip(lines, notes, strict=True):
        kept = [] if old == "_" else [old]
        assert line[9].split("|")[:-1] == kept  # what else MISC has stays
        assert line[9].split("|")[-1].startswith("NER=")
    one = json.loads(run("eval", "--model", tagger, given, "--json").stdout)
    two = json.loads(run("eval", given, tagged, "--target", "ner", "--json").stdout)
    assert one == two
    assert one["measure"] == "span F1"
    assert one["f1"] > 0.5
    assert run("predict", tagger, stdin="Ada\nsings\n").stdout.split() == [
        "Ada",
        "B-PER",
        "sings",
        "O",
    ]


def test_a_file_without_entities(tmp_path):
    path = tmp_path / "bare.conllu"
    path.write_text("1\tAda\t_\tPROPN\t_\t_\t0\troot\t_\tEntity=(e1)\n\n")
    done = run("train", "--task", "ner", "--train", path, "-o", tmp_path / "m.model")
    one_sentence(done, 2, "no ner column, and no NER= in MISC")


@pytest.mark.parametrize("marginals", [(), ("--marginals",)])
def test_formats_of_a_tagger(tagger, marginals):
    given = "predict", tagger, DEMO / "test.iob2", "--columns", "word,pos,gold", *marginals
    first = json.loads(run(*given, "--to", "json").stdout.splitlines()[0])
    assert first["tokens"][0]["text"] == "The"
    assert {"ner", "gold", "upos"} <= first["tokens"][0].keys()
    assert ("probabilities" in first["tokens"][0]) == bool(marginals)
    conllu = run(*given, "--to", "conllu").stdout.split("\n")[0]
    assert conllu.startswith("1\tThe\t_\tDET\t_\t_\t_\t_\t_\tGOLD=O|NER=O")
    assert run(*given, "--to", "spans").stdout.count("\tPER\t") > 10
    words = run("predict", tagger, *marginals, "--to", "columns", stdin="Ada\nsings\n").stdout
    assert words == "Ada\tB-PER\nsings\tO\n\n"


def test_files_and_folders(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "more").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "c.txt").write_text(TEXT)
    (folder / "a.txt").write_text(TEXT)
    (folder / "more" / "b.txt").write_text("Rain fell.\n")
    other = tmp_path / "c.txt"
    other.write_text("It did.\n")
    done = run("predict", "en-pos", folder, other, "--output-dir", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    assert names == ["a.conllu", "c.conllu", "more/b.conllu"]
    assert (out / "a.conllu").read_text() == run("predict", "en-pos", stdin=TEXT).stdout
    (folder / "b.txt").write_bytes(b"\xff\xfe")
    done = run("predict", "en-pos", folder, "--output-dir", out, "--to", "json")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"turbotag: {folder / 'b.txt'}, line 1: byte 0xff is not valid UTF-8",
        "turbotag: 1 of 3 files were not written",
    ]
    names = sorted(str(p.relative_to(out)) for p in out.rglob("*.jsonl"))
    assert names == ["a.jsonl", "more/b.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt", "b.txt"], "need --output-dir"),
        (["--output-dir", "out"], "--output-dir needs FILEs, not standard input"),
        (["a.txt", "--output-dir", "out", "-o", "x"], "goes with neither --output nor --draw"),
        (["a.txt", "more/a.txt", "--output-dir", "out"], "would both be written to out/a.conllu"),
        (["a.conllu", "--output-dir", "."], "would write a.conllu over itself"),
        (["empty", "--output-dir", "out"], "there are no files in empty"),
        (["a.txt", "b.txt", "--output-dir", "b.txt"], "needs a folder, and b.txt is a file"),
        (["a.txt", "--nbest", 2, "--to", "json"], "--nbest goes with none of"),
        (["a.txt", "--draw", "x.html", "--to", "json"], "--draw does not draw json"),
    ],
)
def test_refused(arguments, message, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("a.txt", "b.txt", "more/a.txt", "a.conllu"):
        (tmp_path / name).write_text(TEXT)
    one_sentence(run("predict", "en-pos", *arguments, cwd=tmp_path), 2, message)
    assert not (tmp_path / "out").exists()


def test_no_other_format_for_attributes(tmp_path):
    train = tmp_path / "a.crf"
    train.write_text("O\tw=a\tx=1\nB-X\tw=b\tx=2\n\n" * 5)
    model = tmp_path / "m.model"
    assert run("train", "--task", "ner", "--train", train, "-o", model).returncode == 0
    one_sentence(run("predict", model, train, "--to", "json"), 2, "a CRFsuite file has no words")


# ---- Completion ----------------------------------------------------------------------------------


def completed(shell, words, at):
    """What a shell is told."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_TURBOTAG_COMPLETE": f"{shell}_complete"}
    done = subprocess.run(
        TURBOTAG, env=os.environ | asked, capture_output=True, text=True, cwd=ROOT
    )
    return done.stdout.split()


def test_names_are_completed():
    assert "plain,en-parse" in completed("bash", "turbotag predict en", 2)
    assert "plain,en" in completed("bash", "turbotag eval gold.conllu --model e", 4)
    assert completed("bash", "turbotag pre", 1) == ["plain,predict"]
    assert "plain,--marginals" in completed("bash", "turbotag predict en --mar", 3)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_completion(shell):
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_TURBOTAG_COMPLETE" in done.stdout
    if shell == "bash":
        checked = subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


@pytest.fixture
def script(request, tmp_path):
    """The script of completion for a shell, which must be installed, in a file."""
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param}")
    path = tmp_path / "completion"
    path.write_text(run("completion", request.param).stdout)
    return path


# the command itself, as the shells call it
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes(script):
    asked = f"""source {script}; compopt() {{ :; }}  # which bash has while it completes
        COMP_WORDS=(turbotag predict en-pa); COMP_CWORD=2
        _turbotag_completion turbotag; echo "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "-c", asked], env=os.environ | {"PATH": PATH}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["en-parse"], done.stderr


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes(script, tmp_path):
    asked = f'source {script}; complete -C "turbotag predict en-pa"; complete -C "turbotag insp"'
    done = subprocess.run(
        ["fish", "-c", asked],
        env=os.environ | {"PATH": PATH, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["en-parse", "inspect"]


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_completes(script, tmp_path):
    """On a terminal: a tab behind en-pa puts in the rest of the name."""
    mine, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        env=os.environ | {"PATH": PATH, "HOME": str(tmp_path), "TERM": "dumb", "PS1": "ready> "},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    try:
        setup = f"autoload -U compinit; compinit -u -D; source {script}; echo a''b\n"
        os.write(mine, setup.encode())
        assert "ab" in seen(mine, "ab\r")
        os.write(mine, b"echo turbotag predict en-pars; turbotag predict en-pa\t")
        assert "predict en-parse" in seen(mine, "predict en-parse")
    finally:
        shell.kill()
        shell.wait()
        os.close(mine)
        os.close(theirs)


def seen(terminal, wanted):
    """What a terminal shows until it has `wanted`, or for a minute."""
    shown, until = "", time.monotonic() + 60
    while wanted not in shown and time.monotonic() < until:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
