"""The supply chain: what the code may do, what it does on hostile data, and with which versions.

Three checks, each of which is first tried on something that it must find:
    the source        no pickle, eval, exec, network, shell or foreign loader is named in turbotag/;
    the processes     every command, on data full of one odd word, under an audit hook that stops
                      sockets, child processes, unpickling, and code made of that word;
    the dependencies  each has a lower bound, and the tests pass at all of these bounds at once.
"""

from __future__ import annotations

import ast
import csv
import os
import platform
import subprocess
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path

import turbotag

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "release"))

import lowest
from guard import CAUGHT, ODD

ROOT = Path(__file__).parents[2]
PACKAGE = Path(turbotag.__file__).parent

# ---- The source ----------------------------------------------------------------------------------

LOADERS = """pickle _pickle cPickle dill cloudpickle joblib marshal shelve copyreg code codeop runpy
    imp importlib zipimport pkgutil yaml jsonpickle ctypes cffi"""
PROCESSES = "subprocess multiprocessing pty popen2 commands"
NETWORK = """socket socketserver ssl select selectors asyncio urllib urllib2 urllib3 http ftplib
    smtplib imaplib poplib nntplib telnetlib xmlrpc requests httpx aiohttp webbrowser wsgiref"""
MODULES = {*LOADERS.split(), *PROCESSES.split(), *NETWORK.split()}
BUILTINS = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
CALLS = {
    *(f"os.{name}" for name in ("system", "popen", "fork", "forkpty", "startfile", "posix_spawn")),
    *(f"os.exec{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *(f"os.spawn{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    *("np.load", "numpy.load", "np.lib.npyio", "tempfile.mktemp", "sys.setprofile", "sys.settrace"),
}
ALLOWED = {
    ("cli/main.py", "importlib"): "imports a subcommand, by a name from a table in that file",
    ("features/kinds.py", "importlib"): "imports a kind of resource, by a name from a table",
    ("models/tasks.py", "importlib"): "imports a coder, by a name from a table in that file",
    ("features/templates.py", "importlib"): "importlib.resources: reads the package's templates",
    ("__init__.py", "importlib"): "imports the library when it is first used, by a known name",
    ("models/shipped.py", "importlib"): "entry points: finds the packages of other languages",
    ("integrations/server.py", "importlib"): "importlib.resources: reads the page of the server",
    ("integrations/server.py", "asyncio"): "`turbotag serve` answers requests",
    ("integrations/connections.py", "asyncio"): "`turbotag serve` ends those that say nothing",
    ("integrations/server.py", "socket"): "`turbotag serve` listens where it is told to",
    ("distributed/actors.py", "socket"): "--workers: asks whether a cluster is there",
    ("integrations/forms.py", "urllib"): "urllib.parse: reads the fields of a request",
}


def dotted(node: ast.AST) -> str:
    """a.b.c as text, '' if it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{base}.{node.attr}" if (base := dotted(node.value)) else ""
    return ""


def found_in(source: str) -> list[tuple[int, str]]:
    """(line, what) for everything in a source that could run data or talk to others."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]]
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        found += [(node.lineno, name) for name in names if name in MODULES | CALLS]
        if isinstance(node, ast.Name) and node.id in BUILTINS:
            found.append((node.lineno, node.id))
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name in CALLS or name.split(".")[-1] in ("__builtins__", "__globals__"):
                found.append((node.lineno, name))
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            found.append((node.value.lineno, f"{node.arg}="))
    return found


# Never run: a scan that does not find all of this would find nothing.
PLANTED = """
import pickle, os.path as p
from urllib.request import urlopen
from os import system
def f(data, np, os, y):
    eval(data); exec(data); g = compile; __import__(data)
    os.popen(data); np.load(data, allow_pickle=True); y(data, shell=True)
"""


def scan() -> tuple[int, int]:
    """Files and lines read; whatever is found must be allowed, and all that is allowed found."""
    expected = ["pickle", "urllib", "os.system", "eval", "exec", "compile", "__import__"]
    expected += ["os.popen", "np.load", "allow_pickle=", "shell="]
    assert {what for _, what in found_in(PLANTED)} == set(expected), found_in(PLANTED)
    files = sorted(PACKAGE.rglob("*.py"))
    used, wrong, lines = set(), [], 0
    for path in files:
        name, source = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        lines += source.count("\n")
        for line, what in found_in(source):
            if (name, what) in ALLOWED:
                used.add((name, what))
            else:
                wrong.append(f"{name}, line {line}: {what}")
    assert not wrong, "\n".join(wrong)
    assert used == set(ALLOWED), f"allowed, but not there: {set(ALLOWED) - used}"
    assert len(files) > 50
    return len(files), lines


# ---- The processes -------------------------------------------------------------------------------

GUARD = Path(__file__).parent / "guard.py"
PLANTS = {  # what the guard must stop
    "a socket": "import socket; socket.socket()",
    "a name server": "import socket; socket.getaddrinfo('localhost', 80)",
    "a child process": "import subprocess; subprocess.run(['true'])",
    "a shell": "import os; os.system('true')",
    "a fork": "import os; os.fork()",
    "eval": "eval('1')",
    "code from data": f"import ast; ast.literal_eval('\"{ODD}\"')",
    "a pickle": "import pickle; pickle.loads(b'cos\\nsystem\\n.')",
    "a module named by data": f"import {ODD}",
    "a file elsewhere": "open('../elsewhere', 'w')",
}
EVIL = [
    ODD,
    f"{ODD}__import__('os').system('true')",
    f"{ODD}{{{{7*7}}}}",
    f"${{jndi:ldap://{ODD}}}",
    f"../../{ODD}",
    f"<script>{ODD}</script>",
    f"!!python/object:os.system{ODD}",
    f"cos\\nsystem\\n{ODD}",
]


def write_data(folder: Path) -> None:
    """Entities, trees, a text, templates and a gazetteer in which all words are suspicious."""
    rows, trees = [], []
    for s in range(8):
        words = [*EVIL[s:], *EVIL[:s]]
        tags = [f"B-{ODD}" if (s + t) % 3 == 0 else "O" for t in range(len(words))]
        rows += [f"{w}\t{tag}" for w, tag in zip(words, tags, strict=True)] + [""]
        trees += [f"# {ODD} = eval(1)"]
        for t, word in enumerate(words, 1):
            tree = f"{t - 1}\t{'root' if t == 1 else ODD}"
            trees.append(f"{t}\t{word}\t{ODD}\t{ODD}\t_\t{ODD}=1\t{tree}\t_\tSpaceAfter={ODD}")
        trees.append("")
    (folder / "entities.iob2").write_text("\n".join([*rows, ""]), encoding="utf-8")
    (folder / "trees.conllu").write_text("\n".join([*trees, ""]), encoding="utf-8")
    (folder / "text.txt").write_text(" ".join(EVIL) + ".\n", encoding="utf-8")
    (folder / "names.txt").write_text("\n".join(EVIL) + "\n", encoding="utf-8")
    (folder / "own.txt").write_text("word[-1..1]\nsuffix2[0]\ngaz[0]\n", encoding="utf-8")


TRAIN = "train --epochs 2 --quiet --train"
FIRST = [  # what users do; each is one process, and + begins another command in it
    f"{TRAIN} entities.iob2 --task ner --template own.txt --gazetteer {ODD}=names.txt "
    f"--dev entities.iob2 --licence {ODD} --log run.jsonl -o ner.model "
    "+ predict ner.model entities.iob2 --marginals -o tagged.iob2 "
    "+ eval entities.iob2 tagged.iob2 + inspect ner.model",
    f"{TRAIN} trees.conllu --task parse --dev trees.conllu -o parse.model "
    "+ predict parse.model trees.conllu --marginals -o parsed.conllu "
    "+ draw parsed.conllu -o page.html --gold trees.conllu "
    "+ eval --task parse trees.conllu parsed.conllu",
]
THEN = [
    "predict ner.model entities.iob2 --nbest 3 --threads 2 -o best.txt",
    "eval --model ner.model entities.iob2 --json + inspect ner.model --templates",
    "draw parsed.conllu --ascii + draw parsed.conllu -o picture.svg --sentences 1",
    "eval --task parse trees.conllu parsed.conllu --html eval.html",
    "predict en text.txt --marginals --draw text.html -o text.conllu",
    "models + models en-parse + models ner.model + warmup chunk",
    f"{TRAIN} trees.conllu --task parse --parts cs,gp -o second.model",
    f"{TRAIN} trees.conllu --task pos --algorithm lbfgs --compact -o small.model",
    *(["report run.jsonl -o report.html"] if util.find_spec("matplotlib") else []),
]


def guarded(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A child under the guard, in a folder of its own."""
    environment = {**os.environ, "MPLCONFIGDIR": str(folder), "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(
        [sys.executable, "-B", str(GUARD), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment,
    )


def processes(quick: bool) -> tuple[int, int, int]:
    """(plants stopped, commands run, unpicklings of numba's cache) under the guard."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "work"
        folder.mkdir()
        plants = list(PLANTS.items())
        for what, code in plants[::4] if quick else plants:
            done = guarded(folder, "python", code)
            assert done.returncode == CAUGHT, f"{what} was not stopped: {done.stderr}"
            assert done.stderr.startswith("GUARD: "), done.stderr
        write_data(folder)
        count = unpickled = 0
        for line in FIRST if quick else [*FIRST, *THEN]:
            done = guarded(folder, "turbotag", *line.split())
            assert done.returncode == 0, f"{line}: {done.stderr}"
            seen = [x for x in done.stderr.splitlines() if x.startswith("GUARD SAW")]
            assert seen, done.stderr
            unpickled += int(f"{seen[0]} pickle.find_class=0".split("find_class=")[1].split()[0])
            count += 1 + line.count("+")
        assert ODD in (folder / "tagged.iob2").read_text()  # the data did go through
        assert ODD in (folder / "page.html").read_text()
    return len(plants[::4] if quick else plants), count, unpickled


def kernels() -> int:
    """Where numba's cache goes if the package's folder cannot be written: only where nobody else
    can put files. Cases tried."""
    code = (
        "import os; can = os.access; "
        f"os.access = lambda p, how: can(p, how) and p != {str(PACKAGE)!r}; import turbotag; "
        "f = os.environ.get('NUMBA_CACHE_DIR'); print(f, f and oct(os.stat(f).st_mode & 0o7777))"
    )
    cases = [(0o700, True), (0o755, True), (0o777, False), (0o1777, False)]
    with tempfile.TemporaryDirectory() as name:
        for mode, kept in cases:
            home, temporary = Path(name) / f"home{mode:o}", Path(name) / f"temporary{mode:o}"
            home.mkdir()
            temporary.mkdir()
            home.chmod(mode)
            drop = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
            environment = {k: v for k, v in os.environ.items() if k not in drop}
            environment |= {"HOME": str(home), "TMPDIR": str(temporary)}
            environment["PYTHONPATH"] = str(PACKAGE.parent)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=environment
            )
            folder, _, rights = done.stdout.strip().partition(" ")
            assert (folder == "None") == kept, f"{mode:o}: {done.stdout} {done.stderr}"
            if not kept:
                assert Path(folder).parent == temporary
                assert rights == "0o700", rights
                assert not Path(folder).exists()  # it ends with the process
    return len(cases)


# ---- The dependencies ----------------------------------------------------------------------------


def dependencies() -> str:
    """A table: lower bound, the version in which the tests passed at all bounds, this one."""
    every = lowest.bounds(*lowest.extras())  # refuses one without a lower bound
    needed = lowest.bounds("plots")
    assert set(needed) <= set(every)
    assert lowest.OUT.exists(), "make lowest: the tests have not been run with the lowest versions"
    with open(lowest.OUT, newline="", encoding="utf-8") as f:
        (row,) = list(csv.DictReader(f))
    assert int(row["passed"]) > 1000, row
    lines = ["| dependency | lower bound | tested at | newest tested |", "|---|---|---|---|"]
    for name, bound in needed.items():
        tested = row.get(name, "not yet")  # a dependency that is newer than the last run
        same = tested == "not yet" or lowest.same(tested, bound)
        assert same, f"make lowest: {name} {tested}, not {bound}"
        try:
            newest = metadata.version(name)
        except metadata.PackageNotFoundError:
            newest = "-"
        lines.append(f"| {name} | {bound} | {tested} | {newest} |")
    return "\n".join(
        [
            f"`make lowest` on {row['date']}: {row['passed']} tests passed and {row['skipped']} "
            f"were skipped with the oldest versions that `pyproject.toml` allows, all at once, on "
            f"Python {row['python']}; `make test` runs with the newest, these on Python "
            f"{platform.python_version()}:",
            "",
            *lines,
        ]
    )


def measure(quick: bool) -> str:
    files, lines = scan()
    stopped, count, unpickled = processes(quick)
    places = kernels()
    table = dependencies()
    allowed = "; ".join(f"`{name}` {why}" for (name, _), why in ALLOWED.items())
    return "\n".join(
        [
            "| check | tried | survived |",
            "|---|---|---|",
            f"| source files that name no pickle, eval, exec, network or shell | {files} ({lines} "
            f"lines) | {files} |",
            f"| attacks that the guard must stop | {stopped} | {stopped} |",
            f"| commands on suspicious data under the guard | {count} | {count} |",
            f"| folders for compiled kernels | {places} | {places} |",
            "",
            f"The scan allows these imports: {allowed}. The guard (`scripts/torture/guard.py`) "
            "is an audit hook that ends a process at the first socket, child process, unpickling, "
            "file written outside its folder, or code made by turbotag or of the data. What it "
            f"lets pass: modules of Python and the libraries, numba's cache ({unpickled} "
            "unpicklings, all of numba's own files) and matplotlib's call of fc-list.",
            "",
            table,
        ]
    )
