"""The command line as a user runs it: real processes, files, pipes, bad input, interrupts."""

import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.processes import DEMO, TURBOTAG, hear_signals, one_sentence, run, run_new
from turbotag.cli.train import ALGORITHMS
from turbotag.models.tagger import Tagger

TRAIN, DEV, TEST = (str(DEMO / f"{s}.iob2") for s in ("train", "dev", "test"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "ner.model"
    done = run_new(
        "train", "--task", "ner", "--train", TRAIN, "--dev", DEV, "--stop-gap", 0.01, "-o", path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "certificate: primal" in done.stderr
    for words in (
        "400 sentences, 3828 tokens",
        "IOB2, 3 types",
        "features, 7 labels, ",
        f"{DEV}: held out, 60 sentences, 568 tokens",
        "algorithm: sdca (dual compact, sampling gap, nonuniform 0.8, precision 0.001, l1 0.0)",
        "loss: crf (beta 1, gamma 0); C 1, lambda 0.0025",
        "until: a certified gap of 0.01 or 200 epochs",
        "gap  dev F1\n",
        "stopped: certified gap ",
        "calibration, tags: sharpness",
    ):
        assert words in done.stderr
    return path


def test_help_imports_no_numba():
    code = """
import sys
from turbotag.cli.main import main
try:
    main(["--help"])
except SystemExit:
    pass
assert "numba" not in sys.modules and "numpy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("train", "predict", "eval", "calibrate", "inspect"):
        assert command in done.stdout
        assert run_new(command, "--help").returncode == 0


def test_predict_eval_inspect(model, tmp_path):
    out = tmp_path / "out"
    assert run_new("predict", model, TEST, "-o", out).returncode == 0
    piped = run_new("predict", model, "-", stdin=Path(TEST).read_text())
    assert piped.stdout == out.read_text()
    assert piped.stderr == ""
    table = run("eval", TEST, out)
    assert "convention: conlleval" in table.stdout
    by_model = json.loads(run("eval", "--model", model, TEST, "--json").stdout)
    by_file = json.loads(run("eval", TEST, out, "--json").stdout)
    assert by_model == by_file
    assert by_file["f1"] > 0.9
    shown = run("inspect", model, "--label", "B-PER", "--top", 3).stdout
    assert "certificate" in shown
    assert "B-PER -> I-PER" in shown
    assert json.loads(run("inspect", model, "--json").stdout)["task"] == "ner"
    assert "shortshape[0]" in run("inspect", model, "--templates").stdout


def test_calibrate(model, tmp_path):
    """Another calibration changes probabilities, and nothing else."""
    other = tmp_path / "other.model"
    done = run("calibrate", model, TEST, "-o", other)
    assert done.returncode == 0, done.stderr
    assert "calibration, entities: sharpness" in done.stderr
    assert "on test.iob2, 60 sentences" in run("inspect", other).stdout
    assert "on dev.iob2, 60 sentences" in run("inspect", model).stdout
    headers = [json.loads(run("inspect", m, "--json").stdout) for m in (model, other)]
    before, after = (h.pop("calibration") for h in headers)
    assert before != after
    assert headers[0] == headers[1]
    for more, same in (("", True), ("--marginals", False)):
        made = [run("predict", m, TEST, *more.split()).stdout for m in (model, other)]
        assert (made[0] == made[1]) == same
    shown = [run("inspect", m, "--label", "B-PER").stdout for m in (model, other)]
    assert shown[0].splitlines()[-5:] == shown[1].splitlines()[-5:]  # features still have names
    bare = tmp_path / "bare.conllu"
    bare.write_text("1\tAda\t_\tPROPN\t_\t_\t0\troot\t_\t_\n\n")
    one_sentence(run("calibrate", model, bare, "-o", other), 1, "no column")
    one_sentence(run("calibrate", "en-parse", TEST, "-o", other), 1, "CoNLL-U or CoNLL-X")
    one_sentence(run("calibrate", model, TEST, "-o", tmp_path / "no" / "x"), 1, "no")


def test_plain_tokens_from_a_pipe(model):
    done = run("predict", model, stdin="Dr.\nQuill\nsings\n.\n")
    assert done.stdout.splitlines() == ["Dr.\tB-PER", "Quill\tI-PER", "sings\tO", ".\tO"]


def test_trace_is_json_lines_and_last_row_is_certified(tmp_path):
    log = tmp_path / "log"
    done = run(
        "train",
        "--task",
        "ner",
        "--train",
        TRAIN,
        "--epochs",
        3,
        "--log",
        log,
        "-q",
        "-o",
        tmp_path / "m",
    )
    assert done.stderr == ""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [r["epoch"] for r in rows] == [1, 2, 3, 3]
    assert rows[-1]["certified"]
    assert rows[-1]["gap"] == pytest.approx(rows[-1]["primal"] - rows[-1]["dual"])
    assert rows[-1]["gap"] >= 0


def test_a_log_that_cannot_be_written_costs_no_training(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")  # only Linux has it
    train = ["train", "--task", "ner", "--train", DEV, "--epochs", 1, "-q", "-o", tmp_path / "m"]
    done = run(*train, "--log", "/dev/full")
    assert done.returncode == 0
    assert "warning: /dev/full: cannot be written" in done.stderr
    assert (tmp_path / "m").exists()
    log = tmp_path / "log"
    assert run("train", "--task", "ner", "--train", "none", "--log", log, "-o", log).returncode == 1
    assert not log.exists()


def bad_files(tmp_path):
    def file(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return {
        "columns": (file("columns", b"a O\nb\n"), "line 2", "expected 2 columns"),
        "byte": (file("byte", b"a O\nb\xff O\n"), "line 2", "UTF-8"),
        "binary": (file("binary", bytes(range(256))), "line 1", "NUL"),
        "directory": (tmp_path, "directory"),
        "missing": (tmp_path / "none", "no such file"),
    }


@pytest.mark.parametrize("name", ["columns", "byte", "binary", "directory", "missing"])
def test_bad_data(name, model, tmp_path):
    path, *words = bad_files(tmp_path)[name]
    out = tmp_path / "out"
    before = sorted(os.listdir(tmp_path))
    one_sentence(run("train", "--task", "ner", "--train", path, "-o", out), 1, str(path), *words)
    one_sentence(run("predict", model, path, "-o", out), 1, str(path), *words)
    one_sentence(run("eval", path, path), 1, str(path), *words)
    assert sorted(os.listdir(tmp_path)) == before


def test_empty_data(tmp_path):
    """Nothing can be learned from it, nor scored by it."""
    path = tmp_path / "empty"
    path.write_bytes(b"")
    train = ["train", "--task", "ner", "--train", path, "-o", tmp_path / "m"]
    for arguments in (train, ["eval", path, path], ["eval", "--model", "en-upos", path]):
        one_sentence(run(*arguments), 1, f"{path}: is empty")


def test_strict_tags(tmp_path):
    path = tmp_path / "t"
    path.write_text("a O\nb I-X\n\nc B-X\n")
    out = tmp_path / "m"
    done = run("train", "--task", "ner", "--strict", "--train", path, "-o", out)
    one_sentence(done, 1, f"{path}, line 2", "I-X")
    assert not out.exists()


def test_bad_models(model, tmp_path):
    cut = tmp_path / "cut"
    cut.write_bytes(model.read_bytes()[:-100])
    one_sentence(run("predict", cut, TEST), 1, str(cut), "damaged or truncated")
    half, zeroed = model.stat().st_size // 2, tmp_path / "zeroed"
    zeroed.write_bytes(model.read_bytes()[:half] + bytes(model.stat().st_size - half))
    one_sentence(run("predict", zeroed, TEST), 1, str(zeroed), "is damaged")
    newer = tmp_path / "newer"
    newer.write_bytes(
        model.read_bytes().replace(b'\\"format_version\\": 2', b'\\"format_version\\": 9')
    )
    one_sentence(run("predict", newer, TEST), 1, "format version 9")
    one_sentence(run("predict", TEST, TEST), 1, TEST, "not a turbotag model")
    one_sentence(run("predict", tmp_path, TEST), 1, "directory")
    one_sentence(run("inspect", tmp_path / "none"), 1, "no such file")


def test_bad_usage(model, tmp_path):
    train = ["train", "--task", "ner", "--train", TRAIN, "-o", tmp_path / "x"]
    one_sentence(run_new(*train, "-C", "nan"), 2, "C is nan")
    one_sentence(run(*train, "-C", "-1"), 2, "C is -1")
    one_sentence(run(*train, "--beta", "0"), 2, "beta")
    one_sentence(run(*train, "--algorithm", "dca", "--dual", "exact"), 2, "no parameter 'dual'")
    one_sentence(run(*train, "--loss", "svm", "--dual", "exact"), 2, "finite beta")
    one_sentence(run(*train, "--gazetteer", "x"), 2, "NAME=FILE")
    one_sentence(run(*train, "--clusters", "x"), 2, "NAME=FILE")
    one_sentence(run(*train, "--keep", "best"), 2, "--keep needs --dev")
    one_sentence(run(*train, "--template", tmp_path / "none"), 1, "no such template file")
    one_sentence(run("eval", TEST), 2, "PREDICTED or --model")
    one_sentence(run("inspect", model, "--label", "NO"), 2, "unknown label")
    assert os.listdir(tmp_path) == []


def test_full_disk(model, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")  # only Linux has it
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TURBOTAG, "predict", str(model), TEST], stdout=full, stderr=subprocess.PIPE, text=True
        )
    one_sentence(done, 1, "no space left")
    one_sentence(run("predict", model, TEST, "-o", "/dev/full"), 1, "no space left")
    done = run("train", "--task", "ner", "--train", TRAIN, "--epochs", 1, "-o", "/dev/full")
    one_sentence(done, 1, "no space left")


def test_nothing_in_nothing_out(model, tmp_path):
    """Empty files are no error in the middle of a batch; blank lines come back."""
    out, page = tmp_path / "out", tmp_path / "page.html"
    for name, options in ((model, []), (model, ["--nbest", 2]), ("en", []), ("en-parse", [])):
        for stdin in ("", "\n\r\n \n"):
            done = run("predict", name, *options, stdin=stdin)
            assert (done.returncode, done.stdout, done.stderr) == (0, stdin * (name != "en"), "")
    done = run("predict", "en", "-o", out, "--draw", page)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_bytes() == b""
    assert page.read_text(encoding="utf-8").endswith("</html>\n")


def test_packed_output(model, tmp_path):
    plain, packed, again = (tmp_path / n for n in ("out.iob2", "out.iob2.gz", "again.gz"))
    for out in (plain, packed, again):
        assert run("predict", model, TEST, "-o", out).returncode == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == again.read_bytes()
    assert run("eval", plain, packed).returncode == 0
    one_sentence(run("predict", model, tmp_path / "none", "-o", again), 1, "no such file")
    assert packed.read_bytes() == again.read_bytes()
    full = tmp_path / "full.gz"
    full.symlink_to("/dev/full")
    one_sentence(run("predict", model, TEST, "-o", full), 1, "no space left")


def test_the_command_in_a_model_can_be_run_again(tmp_path):
    folder = tmp_path / "with a blank"
    folder.mkdir()
    train, out = folder / "it's.iob2", folder / "m"
    train.write_bytes(Path(DEV).read_bytes())
    given = [
        "train",
        "--task",
        "ner",
        "--train",
        train,
        "--epochs",
        1,
        "--licence",
        "$5",
        "-o",
        out,
    ]
    assert run(*given).returncode == 0
    command = Tagger.load(str(out)).header["command"]
    assert shlex.split(command) == ["turbotag", *map(str, given)]
    assert f"command      {command}\n" in run("inspect", out).stdout


def test_suggestions(model, tmp_path):
    train = ["train", "--task", "ner", "--train", DEV, "-o", tmp_path / "m"]
    for arguments, code, words in (
        (["trian"], 2, "no such command 'trian'; did you mean 'train'?"),
        (["models", "enn"], 1, "did you mean 'en'?"),
        (["predict", "en-pasre", TEST], 1, "did you mean 'en-parse'?"),
        ([*train, "--template", "conll200"], 1, "did you mean 'conll2000'?"),
    ):
        one_sentence(run(*arguments), code, words)
    for arguments in (["frobnicate"], ["models", "xyz"]):
        assert "did you mean" not in run(*arguments).stderr


def test_closed_pipe_ends_quietly(model, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(Path(TEST).read_bytes() * 300)
    command = shlex.join([*TURBOTAG, "predict", str(model), str(big)]) + " | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1


def test_training_goes_on_when_nobody_reads_stderr(tmp_path):
    out = tmp_path / "m"
    arguments = [*TURBOTAG, "train", "--task", "ner", "--train", DEV, "-o", str(out)]
    command = shlex.join(arguments) + " 2>&1 | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0
    assert Tagger.load(str(out)).labels


def start_training(out, *more):
    limits = ["--stop-gap", "1e-14", "--epochs", "50", "--checkpoint-seconds", "0"]
    options = ["--task", "ner", "--train", TRAIN, *limits, *more, "-o", str(out)]
    command = [*TURBOTAG, "train", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals)


def wait_for(path, process):
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError("no checkpoint")


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_killed_training_resumes_to_the_same_bytes(tmp_path, kill):
    whole = start_training(tmp_path / "whole")
    assert whole.wait(300) == 0
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    process = start_training(out)
    wait_for(checkpoint, process)
    process.send_signal(kill)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert "Traceback" not in stderr
    assert not out.exists()
    if kill != signal.SIGKILL:
        word = "interrupted" if kill == signal.SIGINT else "terminated"
        assert process.returncode == 128 + kill
        assert f"turbotag: {word}; --resume goes on from {checkpoint}\n" in stderr
        assert sorted(os.listdir(tmp_path)) == ["m.checkpoint", "whole"]
    other = run("train", "--task", "ner", "--train", TRAIN, "-C", 2, "--resume", "-o", out)
    one_sentence(other, 1, f"{checkpoint}: was trained with -C 1, now with -C 2;")
    resumed = start_training(out, "--resume")
    assert "resuming" in resumed.communicate(timeout=300)[1]
    ours, theirs = out.read_bytes(), (tmp_path / "whole").read_bytes()
    # the header keeps the command, which differs; everything after it is equal
    assert ours[-(len(ours) // 2) :] == theirs[-(len(ours) // 2) :]
    assert not checkpoint.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_not_on_disk_is_saved_when_a_signal_comes(tmp_path, number):
    """Long before the first checkpoint is due; and --resume takes other limits as they are."""
    data = ["--task", "ner", "--train", TRAIN, "--dev", DEV]
    options = ["train", *data, "--stop-gap", "1e-14", "--epochs"]
    out, checkpoint = tmp_path / "m", tmp_path / "m.checkpoint"
    process = subprocess.Popen(
        [*TURBOTAG, *options, "1000000", "-o", str(out)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    )
    lines = [""]
    while not lines[-1].startswith("     2 "):
        assert process.poll() is None
        lines.append(process.stderr.readline())
    process.send_signal(number)
    lines += process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 128 + number
    waits, ends = (line for line in lines if line.startswith("turbotag: "))
    word = "interrupted" if number == signal.SIGINT else "terminated"
    again = "Ctrl-C again" if number == signal.SIGINT else "another signal"
    epoch = re.search(rf"{word}: finishes epoch (\d+) to save it; {again} ends at once$", waits)[1]
    saved = max(int(line.split()[0]) for line in lines if re.match(r" +\d+ ", line))
    assert saved - 1 <= int(epoch) <= saved
    assert ends == f"turbotag: {word}; --resume goes on from {checkpoint}"
    assert os.listdir(tmp_path) == ["m.checkpoint"]
    more = [saved + 2, "--stop-gap", 1e-13, "-o"]
    for name, how in (("m", ["--resume"]), ("whole", [])):
        done = run(*options, *more, tmp_path / name, *how)
        assert done.returncode == 0, done.stderr
        assert ("resuming from" in done.stderr) == bool(how)
    ours, theirs = (Tagger.load(str(tmp_path / n)).weights.tobytes() for n in ("m", "whole"))
    assert ours == theirs
    assert sorted(os.listdir(tmp_path)) == ["m", "whole"]


def test_a_signal_before_the_first_epoch_has_ended(tmp_path):
    process = start_training(tmp_path / "m")
    wait_for(tmp_path / ".m.lock", process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].splitlines()[-1] == (
        "turbotag: interrupted; there was nothing to save yet"
    )
    assert process.returncode == 130
    assert os.listdir(tmp_path) == []


def test_ctrl_c_does_not_wait_for_threads(tmp_path):
    out = tmp_path / "out"
    text = tmp_path / "text"
    text.write_bytes((DEMO / "letter.txt").read_bytes() * 400)  # a block, for many seconds
    command = [*TURBOTAG, "predict", "en", str(text), "--threads", "2", "-o", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals)
    while not list(tmp_path.glob(".out.*.tmp")):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    assert process.communicate(timeout=60)[1] == "turbotag: interrupted\n"
    assert time.monotonic() - begin < 5
    assert process.returncode == 130
    assert os.listdir(tmp_path) == ["text"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_optimizer_resumes_after_sigkill(tmp_path, name):
    """Killed in the middle of an epoch, wherever that is, and continued to the same weights."""
    served = ALGORITHMS[name].losses
    loss = {"hinge": "svm", "perceptron": "perceptron"}.get(served, "crf")
    options = f"--task ner --algorithm {name} --loss {loss} -q --no-calibration"
    options += " --checkpoint-seconds 0"
    if name in ("sdca", "lbfgs", "cg", "egr"):
        options += " --stop-gap 1e-14"
    if name in ("lbfgs", "cg"):  # these can be saved only every hundred iterations
        options += " --epochs 220 -C 10000"
    else:
        options += " --epochs 60"
    command = ["train", "--train", DEV, *options.split(), "-o"]
    whole, out, checkpoint = (tmp_path / n for n in ("whole", "m", "m.checkpoint"))
    assert run(*command, whole).returncode == 0
    for _ in range(10):  # it may be over before it can be killed
        out.unlink(missing_ok=True)
        process = subprocess.Popen([*TURBOTAG, *command, str(out)])
        while not checkpoint.exists() and process.poll() is None:
            time.sleep(0.002)
        process.kill()
        process.wait(60)
        if not out.exists():
            break
    assert checkpoint.exists()
    assert run(*command, out, "--resume").returncode == 0
    ours, theirs = (Tagger.load(str(p)).weights.tobytes() for p in (out, whole))
    assert ours == theirs
    assert not checkpoint.exists()


def test_help_params_lists_every_algorithm():
    shown = run("train", "--help-params").stdout
    for name in ALGORITHMS:
        assert f"{name}: " in shown
    one = run("train", "--algorithm", "mira", "--help-params").stdout
    assert "--kbest" in one
    assert "beta = inf" in one
    assert "McDonald" in one
    one_sentence(run("train", "--algorithm", "no", "--help-params"), 2, "unknown algorithm")


def parameter_values():
    """(algorithm, parameter, a value that is not the default, one that is refused)."""
    for name, cls in ALGORITHMS.items():
        for p in cls.params:
            if p.choices:
                yield name, p, next(c for c in p.choices if c != p.default), "other"
            elif isinstance(p.default, bool):
                yield name, p, not p.default, None
            else:
                other = 0.25 if p.default < 1 else max(2, p.least)
                yield name, p, type(p.default)(other), p.least - 1


def test_every_declared_parameter_is_an_option(tmp_path):
    """It reaches the optimizer, and what is outside of its range is refused before training."""
    losses = {"hinge": "svm", "perceptron": "perceptron"}
    for name, p, value, wrong in parameter_values():
        train = ["train", "--task", "ner", "--train", DEMO / "dev.iob2", "--epochs", 1, "-q"]
        train += ["--no-calibration", "--algorithm", name, "-o", tmp_path / "model"]
        train += ["--loss", losses.get(ALGORITHMS[name].losses, "crf")]
        given = [f"--{p.name}"] if value is True else [f"--{p.name}", value]
        done = run(*train, *given)
        assert done.returncode == 0, (name, p.name, done.stderr)
        assert Tagger.load(str(tmp_path / "model")).header["algorithm"][p.name] == value
        if wrong is not None:
            refused = run(*train, f"--{p.name}", wrong)
            assert refused.returncode == 2
            assert p.name in refused.stderr


def test_wrong_pairings(tmp_path):
    train = ["train", "--task", "ner", "--train", TRAIN, "-o", tmp_path / "x"]
    one_sentence(run(*train, "--algorithm", "egr"), 2, "egr serves losses with beta = inf")
    one_sentence(run(*train, "--algorithm", "lbfgs", "--loss", "svm"), 2, "lbfgs serves")
    one_sentence(run(*train, "--kbest", 3), 2, "sdca has no parameter 'kbest'")
    assert os.listdir(tmp_path) == []


def test_warm_start_from_a_model(model, tmp_path):
    log = tmp_path / "log"
    train = ["train", "--task", "ner", "--train", TRAIN, "--epochs", 1, "--log", log, "-q"]
    assert run(*train, "-o", tmp_path / "cold").returncode == 0
    cold = json.loads(log.read_text().splitlines()[-1])["gap"]
    assert run(*train, "--init", model, "-o", tmp_path / "warm").returncode == 0
    warm = json.loads(log.read_text().splitlines()[-1])["gap"]
    assert warm < cold


def test_no_parameter_of_an_optimizer_has_the_name_of_another_option():
    from turbotag.cli.train import command

    flags = [flag for p in command.params for flag in p.opts]
    assert len(flags) == len(set(flags))


def test_label_costs(tmp_path):
    """In the loss, in the model's header, and resumable; a wrong one is refused in a sentence."""
    data, model = tmp_path / "a.iob2", tmp_path / "a.model"
    data.write_text("x O\n\nx O\n\nx B-ORG\n\n")
    base = ["train", "--task", "ner", "--train", str(data), "-o", str(model), "--no-calibration"]
    done = run(*base, "--label-cost", "ORG=4", "-C", "100")
    assert done.returncode == 0, done.stderr
    assert "loss: softmax-margin" in done.stderr
    costly = Tagger.load(str(model))
    assert costly.header["label_cost"] == {"ORG": 4.0}
    assert run(*base, "--loss", "softmax-margin", "-C", "100").returncode == 0
    usual = Tagger.load(str(model)).weights[:-2].sum(axis=0)  # of B-ORG and O, without transitions
    more = costly.weights[:-2].sum(axis=0)
    assert more[0] - more[1] > usual[0] - usual[1]
    for cost, message in (
        ("ORG", "LABEL=COST"),
        ("PER=2", "the tags are B-ORG, O"),
        ("ORG=-1", "lie between"),
    ):
        done = run(*base, "--label-cost", cost)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
        assert message in done.stderr
    done = run("train", "--task", "parse", "--train", str(data), "-o", "x", "--label-cost", "A=2")
    assert "--label-cost is for taggers" in done.stderr
