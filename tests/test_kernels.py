"""Compiled kernels: where they are kept, what is said when they are compiled, compiling ahead."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numba
import numpy as np
import pytest

from tests.cli.processes import DEMO, one_sentence
from turbotag import compiling, kernels
from turbotag.errors import DataError
from turbotag.lean import njit
from turbotag.structures import verbs
from turbotag.training import warmup

PACKAGE = Path(kernels.PACKAGE)
LIMITED = ["setpriv", "--inh-caps=-dac_override", "--bounding-set=-dac_override"]


def python(folder, code, limited=(), **environment):
    """A new process in a folder that knows of no place for kernels but those it is told."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "XDG_"))}
    return subprocess.run(
        [*limited, sys.executable, "-c", code],
        cwd=folder,
        env=kept | {k: str(v) for k, v in environment.items()},
        capture_output=True,
        text=True,
        timeout=300,
    )


# ---- Where they are kept -------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="folders have other rights there")
@pytest.mark.parametrize(
    ("cache", "mode", "kept"),
    [
        ("home/.cache/numba", 0o700, True),
        ("home/.cache", 0o755, True),
        ("home", 0o1777, False),
        ("home/.cache/numba", 0o777, False),
        ("home", 0o500, False),
    ],
)
def test_kernels_are_kept_only_where_nobody_else_can_write(
    tmp_path, monkeypatch, cache, mode, kept
):
    """numba unpickles what it finds there; here the package's own folder cannot be written."""
    folder = tmp_path / cache
    folder.mkdir(parents=True)
    folder.chmod(mode)
    writable = bool(mode & 0o200)  # root can write everywhere
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(os, "access", lambda path, how: writable and path != kernels.PACKAGE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setattr(kernels, "_temporary", "")
    kernels.place()
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    assert (chosen is None) == kept == kernels.lasting()
    if chosen is not None:
        info = os.stat(chosen)
        assert Path(chosen).parent == tmp_path
        assert (stat.S_IMODE(info.st_mode), info.st_uid) == (0o700, os.geteuid())
        assert chosen == numba.config.CACHE_DIR
        del os.environ["NUMBA_CACHE_DIR"]


@contextlib.contextmanager
def locked(folder):
    """A folder that cannot be written, and the prefix of a command for which that holds: tests may
    run as root, who may write everywhere, and setpriv takes that right away."""
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir())]
    for each in folders:
        each.chmod(0o555)
    try:
        if not os.access(folder, os.W_OK):
            yield []
            return
        probe = [*LIMITED, "test", "-w", str(folder)]
        if not shutil.which("setpriv") or subprocess.run(probe).returncode != 1:
            pytest.skip("root may write everywhere")
        yield LIMITED
    finally:
        for each in folders:
            each.chmod(0o755)


CARD = """
import os, sys, turbotag
from turbotag.cli.main import main
print(turbotag.__file__, os.environ.get("NUMBA_CACHE_DIR"))
main(["models", "en-ner"])
"""  # imports all kernels and compiles one or two of them
WARMUP = "from turbotag.cli.main import main; main(['warmup'])"


def test_an_installation_that_cannot_be_written(tmp_path):
    """Neither the package nor the home is writable: kernels are kept for the process alone, and
    the notice says so and what to do. Kernels that were compiled while the package could be written
    are found."""
    install, temporary = tmp_path / "install", tmp_path / "temporary"
    copy = install / "turbotag"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    temporary.mkdir()
    where = {"PYTHONPATH": install, "TMPDIR": temporary, "HOME": install / "nobody"}
    with locked(install) as limited:
        cold = python(tmp_path, CARD, limited=limited, **where)
        refused = python(tmp_path, WARMUP, limited=limited, **where)
    assert cold.returncode == 0
    assert cold.stdout.startswith(f"{copy}/__init__.py {temporary}/turbotag-")
    assert "licence      CC BY-SA 4.0" in cold.stdout
    (notice,) = cold.stderr.splitlines()
    for words in ("at every run", str(copy), "NUMBA_CACHE_DIR", "`turbotag warmup`"):
        assert words in notice
    one_sentence(refused, 1, "nothing is compiled ahead", "NUMBA_CACHE_DIR")
    assert not list(temporary.iterdir())  # nothing is left
    assert not list(copy.rglob("*.nbi"))

    installing = python(tmp_path, CARD, **where)
    assert (installing.returncode, installing.stderr) == (0, kernels.KEPT + "\n")
    assert list(copy.rglob("*.nbi"))
    with locked(install) as limited:
        warm = python(tmp_path, CARD, limited=limited, **where)
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        other = python(tmp_path, CARD, limited=limited, **where | {"HOME": home})
    assert (warm.returncode, warm.stderr) == (0, "")
    assert (other.returncode, other.stderr) == (0, "")
    assert other.stdout.startswith(f"{copy}/__init__.py None")
    assert not list(temporary.iterdir())


# ---- What is said --------------------------------------------------------------------------------

LOAD = """
import warnings
from numba import njit
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    import turbotag
    turbotag.Tagger
    njit(lambda x: x + 1)(1)  # a kernel of somebody else
    print(len(heard))
    turbotag.Tagger.load("en-upos")
    turbotag.Tagger.load("en-ner")
    print(*[str(w.message) for w in heard], sep="\\n")
"""


def test_python_users_are_told_once_and_not_at_import(tmp_path):
    first, second = (python(tmp_path, LOAD, NUMBA_CACHE_DIR=tmp_path / "cache") for _ in range(2))
    assert first.stdout.splitlines() == ["0", f"turbotag: {kernels.KEPT}"], first.stderr
    assert second.stdout.splitlines() == ["0", ""], second.stderr


# ---- Compiling ahead -----------------------------------------------------------------------------

USUAL = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from turbotag.cli.main import main
from turbotag.training.warmup import warm

def signatures():
    ours = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {(d.py_func.__qualname__, d.py_func.__module__, s) for d in ours for s in d.signatures}

task, train, test, out = sys.argv[1:]
found = warm(task)
before = signatures()
for command in (
    ["train", "--task", task, "--train", train, "--dev", test, "--epochs", "2", "-q", "-o", out],
    ["predict", out, test, "-o", out + "1", "--threads", "2"],
    ["predict", out, test, "-o", out + "1", "--marginals"],
    ["predict", out, test, "-o", out + "1", "--nbest", "3"],
    ["eval", "--model", out, test, "--html", out + "2"],
):
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, command
print("NEW", sorted(map(str, signatures() - before)))
"""


@pytest.mark.parametrize(
    ("task", "ending"), [("ner", "iob2"), ("pos", "conllu"), ("parse", "conllu")]
)
def test_after_warmup_nothing_is_left_to_compile(tmp_path, task, ending):
    """No kernel is used with types that it was not compiled for."""
    files = [DEMO / f"train.{ending}", DEMO / f"dev.{ending}", tmp_path / "m"]
    done = subprocess.run(
        [sys.executable, "-c", USUAL, task, *map(str, files)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "NEW []"


def test_warmup_says_what_it_did(monkeypatch):
    warmup.warm("chunk")
    again = warmup.warm("chunk")
    assert again.compiled == 0
    assert again.seconds > 0
    assert Path(again.folder).is_dir()
    monkeypatch.setattr(kernels, "_temporary", "somewhere")
    with pytest.raises(DataError, match="nothing is compiled ahead: kernels cannot be kept"):
        warmup.warm("chunk")


def test_kernels_of_old_sources_are_removed(tmp_path, monkeypatch):
    """Those that a changed file's kernels were compiled into are elsewhere."""
    monkeypatch.setattr(kernels, "PACKAGE", str(tmp_path))
    inner, plain = tmp_path / "inner.py", tmp_path / "plain.py"
    inner.write_text("from turbotag.lean import njit")
    plain.write_text("x = 1")
    cache = tmp_path / "__pycache__" / "outer.nbi"
    cache.parent.mkdir()

    def kept():
        cache.touch()
        kernels.place()
        return cache.exists()

    assert not kept()  # nothing is known of where it is from
    assert kept()
    plain.write_text("x = 12")
    assert kept()
    inner.write_text("from turbotag.lean import njit  # changed")
    assert not kept()
    assert kept()
    inner.unlink()
    assert not kept()


def test_a_verb_names_what_it_does_not_serve():
    with pytest.raises(TypeError, match="oracle of int"):
        verbs.oracle(1, 2)


def test_two_processes_never_write_one_file_of_code():
    code = "import turbotag.corpus.hashing as h\nprint(h.lookup._cache._cache_file._data_name(1))"
    run = [sys.executable, "-c", code]
    one, two = (subprocess.run(run, capture_output=True, text=True).stdout for _ in range(2))
    assert one.endswith(".nbc\n")
    assert one != two


# ---- What is compiled ----------------------------------------------------------------------------


@njit
def root(x):
    if x < 0.0:
        raise ValueError("no root of a negative number")
    return np.sqrt(x)


@njit
def roots(values):
    total = 0.0
    for i in range(values.size):
        total += root(values[i])
    return total


@njit
def both(values):
    return roots(values) + roots(values[1:]) * roots(values[2:]) - root(values[0])


def library(kernel):
    (found,) = kernel.overloads.values()
    return found.library


def test_kernels_that_only_kernels_call_have_no_machine_code(monkeypatch):
    monkeypatch.setattr(compiling, "PACKAGES", {"tests"})
    assert both(np.array([4.0, 1.0, 9.0])) == 6.0 + 4.0 * 3.0 - 2.0
    with pytest.raises(ValueError, match="no root of a negative number"):
        both(np.array([4.0, 1.0, -9.0]))
    engine = library(both)._codegen._engine
    for kernel in (root, roots):
        made = library(kernel)._final_module.functions
        names = {f.name for f in made if not (f.is_declaration or f.name.startswith("NRT_"))}
        assert names
        assert not any(map(engine.is_symbol_defined, names))
        assert not any("cpython" in name for name in names)
    made = library(both)._final_module.functions
    assert {"external", "internal"} >= {f.linkage.name for f in made if not f.is_declaration}
    assert roots(np.array([4.0, 9.0])) == 5.0  # for Python it is compiled once more
    with pytest.raises(ValueError, match="no root"):
        root(-1.0)

    @njit
    def later(values):
        return roots(values) + 1.0

    assert later(np.array([4.0, 9.0])) == 6.0


OTHERS = """
import numba
@numba.njit(cache=True)
def inner(f, x):
    return f(x) + 1.0
@numba.njit(cache=True)
def half(x):
    return x / 2.0
@numba.njit(cache=True)
def outer(x):
    return inner(half, x)
@numba.njit(parallel=True)
def many(x):
    total = 0.0
    for i in numba.prange(10):
        total += outer(x + i)
    return total
"""


def test_kernels_of_other_packages_are_compiled_as_ever(tmp_path):
    """Whatever numba serves: functions as arguments, its threads, files that it reads itself."""
    (tmp_path / "others.py").write_text(OTHERS)
    ours = "import turbotag, numpy; turbotag.Tagger; from turbotag.structures import tree\n"
    ours += "tree.log_partition(numpy.zeros((3, 3)), True, 1.0)\n"
    code = "import others as o; print(o.outer(4.0), o.half(4.0), o.many(1.0)"
    code += ", sum(o.half.stats.cache_hits.values()))"
    for before, hits in ((ours, 0), (ours, 1), ("", 1)):
        done = python(tmp_path, before + code, NUMBA_CACHE_DIR=tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"3.0 2.0 37.5 {hits}\n"


def test_processes_that_compile_others_or_in_another_order_compute_the_same(tmp_path):
    """The last digits of sums must not differ by what a process has compiled or called before."""
    code = """
import sys, hashlib
import numpy as np
from turbotag.structures import projective, tree
scores = np.random.default_rng(1).normal(size=(30, 30))
for name in sys.argv[1:]:
    structure, verb = name.split(".")
    given, mu = [scores, True, 1.0], np.zeros((30, 30))
    value = getattr(globals()[structure], verb)(*given, *([mu] if verb == "marginals" else []))
    print(name, value.hex(), hashlib.sha256(mu.tobytes()).hexdigest())
"""
    said = []
    names = ["tree.log_partition", "tree.marginals", "projective.marginals"]
    for cache, order in (("a", names), ("a", names), ("b", names[::-1])):
        run = [sys.executable, "-c", code, *order]
        given = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / cache)}
        done = subprocess.run(run, capture_output=True, text=True, env=given)
        assert done.returncode == 0, done.stderr
        said.append(sorted(done.stdout.splitlines()))
    assert said[0] == said[1] == said[2]


def test_no_two_processes_number_functions_alike():
    """numba takes machine code of one name, number and types for the same, wherever it is from."""
    code = "import turbotag.structures.tree as t\n"
    code += "from numba.core.bytecode import FunctionIdentity as F\nprint(next(F._unique_ids))"
    run = [sys.executable, "-c", code]
    one, two = (int(subprocess.run(run, capture_output=True).stdout) for _ in range(2))
    assert abs(one - two) >= 1 << 20
