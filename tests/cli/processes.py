"""Commands in processes of their own: new ones, or forked from one that has loaded the kernels."""

import atexit
import functools
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from turbotag import kernels

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "demo"
TURBOTAG = [sys.executable, "-m", "turbotag"]
SERVER = """
import json, os, sys
import turbotag
turbotag.kernels.tell(lambda line: None)  # tests do not depend on what is compiled already
from turbotag.cli import draw, eval, inspect, main, models, predict, report, train
from turbotag.corpus.reader import read
from turbotag.models import evaluation, gold, parser_training, training
from turbotag.report import attachment, draw_html, model_card, tables

for task, function, file in (
    ("ner", training.train, "dev.iob2"), ("parse", parser_training.train_parser, "dev.conllu")
):
    model, _ = function(gold.options_for(task, train=sys.argv[1] + file, epochs=1), os.devnull)
model.parse(read(sys.argv[1] + "dev.conllu"), probabilities=True)
turbotag.load("en")("Ada flew to Oslo. It didn't rain.")
for line in sys.stdin:
    arguments, folder, *files = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(folder)
        for to, name in enumerate(files):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), to)
        sys.argv = ["turbotag", *arguments]
        try:
            main.main()
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)  # to take numba apart takes longer than most commands
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run_new(*arguments, stdin=None, **options):
    """Run a command as a shell does, but without the notice that kernels are compiled."""
    text = not isinstance(stdin, bytes)
    done = subprocess.run(
        [*TURBOTAG, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=text,
        timeout=300,
        **options,
    )
    notice = kernels.KEPT + "\n"
    done.stderr = done.stderr.replace(notice if text else notice.encode(), done.stderr[:0])
    return done


def run(*arguments, stdin="", cwd=None):
    """Run a command in a forked process: start-up, which takes a second, is done once for all."""
    server, folder = _server()
    files = [folder / name for name in ("in", "out", "err")]
    for file in files[1:]:
        file.unlink(missing_ok=True)
    files[0].write_bytes(stdin if isinstance(stdin, bytes) else stdin.encode())
    request = [list(map(str, arguments)), str(cwd or Path.cwd()), *map(str, files)]
    print(json.dumps(request), file=server.stdin, flush=True)
    code = int(server.stdout.readline())
    out, err = (file.read_bytes().decode() for file in files[1:])
    return subprocess.CompletedProcess(arguments, code, out, err)


@functools.cache
def _server():
    folder = tempfile.TemporaryDirectory()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", SERVER, f"{DEMO}/"]
    server = subprocess.Popen(command, **pipes, text=True, cwd=ROOT, preexec_fn=hear_signals)

    def close():
        server.stdin.close()
        server.wait(60)
        folder.cleanup()

    atexit.register(close)
    return server, Path(folder.name)


def hear_signals():
    """In a child: a background job of a shell, as the tests may be, ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def one_sentence(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    said = [x for x in done.stderr.splitlines() if x.startswith(("turbotag:", "Error:"))]
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0], said[0]
