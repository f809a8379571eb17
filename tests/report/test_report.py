"""Plots of training traces: reading, names, which figures there are, the command."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.processes import run
from tests.cli.test_cli import DEV, TRAIN
from turbotag.errors import DataError
from turbotag.report import plots

NO_MATPLOTLIB = """
import sys
sys.modules["matplotlib"] = None
from turbotag.cli.main import main
main(sys.argv[1:])
"""


def line(epoch, **values):
    row = {"epoch": epoch, "oracle_calls": 9 * epoch, "updates": 9 * epoch}
    return json.dumps({**row, "seconds": 0.5 * epoch, "cpu_seconds": 0.4 * epoch, **values})


def objective(primal, dual, certified=False):
    return {"primal": primal, "dual": dual, "gap": primal - dual, "certified": certified}


@pytest.fixture
def trace(tmp_path):
    def write(name, *lines, end="\n"):
        (tmp_path / name).write_text("\n".join(lines) + end)
        return str(tmp_path / name)

    return write


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/ner-sdca.jsonl"], ["ner-sdca"]),
        (["runs/ner-sdca-C1.jsonl", "runs/ner-dca-C1.jsonl"], ["sdca", "dca"]),
        (["a/run.jsonl", "b/run.jsonl"], ["a", "b"]),
        (["sdca.jsonl", "sdca-exact.jsonl"], ["sdca", "sdca-exact"]),
        (["C0.1.jsonl", "C0.5.jsonl"], ["C0.1", "C0.5"]),
        (["x.jsonl", "x"], ["x.jsonl", "x"]),
    ],
)
def test_names_are_what_differs(paths, names):
    assert plots.short_names(paths) == names


def test_reading(trace):
    path = trace("a.jsonl", line(1, dev=0.5), line(2, gap=float("nan"), later=1))
    (found,) = plots.read_runs([path, path])
    assert [r.epoch for r in found.rows] == [1, 2]
    assert found.column("dev")[0] == 0.5
    assert np.isnan(found.column("gap")).all()


def test_a_run_that_is_being_written(trace):
    notes = []
    path = trace("a.jsonl", line(1), line(2), line(3)[:30], end="")
    assert len(plots.read_runs([path], notes.append)[0].rows) == 2
    assert len(notes) == 1
    assert f"{path}, line 3 is not whole" in notes[0]
    assert len(plots.read_runs([trace("b.jsonl", line(1), end="")])[0].rows) == 1
    with pytest.raises(DataError, match="no whole line"):
        plots.read_runs([trace("c.jsonl", line(1)[:9], end="")])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty"),
        ([line(1), "", line(2)], "line 2: damaged"),
        ([line(1), line(2)[:20], line(3)], "line 2: damaged"),
        (["1\tword\tO"], "line 1: damaged, or not of a trace"),
        (['{"epoch": 1}'], "line 1: damaged"),
        ([line(1, primal="low")], "line 1: damaged"),
        ([line(1, certified=2)], "line 1: damaged"),
        (["[1, 2]"], "line 1: damaged"),
        ([line(5), line(1)], "line 2: has fewer oracle calls"),
    ],
)
def test_what_is_not_a_trace(trace, lines, message):
    with pytest.raises(DataError, match=message):
        plots.read_runs([trace("a.jsonl", *lines, end="\n" if lines else "")])
    assert run("report", trace("b.jsonl", "\x00\x01")).returncode == 1


def names(*traces, notes=None):
    said = notes.append if notes is not None else (lambda line: None)
    runs = plots.read_runs(traces)
    return {f.name: f for f in plots.figures(runs, said)}


def test_figures_that_there_are(trace):
    online = trace("dca.jsonl", line(1), line(2, **objective(3.0, 1.0, True)))
    found = names(online)
    assert list(found) == ["objective", "gap", "suboptimality"]
    assert list(names(trace("x.jsonl", line(1), line(2)))) == []
    assert list(names(trace("y.jsonl", line(1, dev=0.5)))) == ["dev"]
    better = trace(
        "sdca.jsonl", line(1, **objective(5.0, -9.0)), line(2, **objective(2.5, 2, True))
    )
    found = names(online, better)
    ours, theirs = (drawn.values for drawn in found["suboptimality"].lines)
    assert ours[1] == 1.0  # against the better dual
    assert theirs.tolist() == [3.0, 0.5]
    assert found["objective"].limits[0] < 0 < found["objective"].limits[1] < 6


def test_different_objectives_are_not_compared(trace):
    notes = []
    a = trace("a.jsonl", line(1, **objective(3.0, 2.0, True)))
    b = trace("b.jsonl", line(1, **objective(1.0, 0.5, True)))
    assert list(names(a, b, notes=notes)) == ["objective", "gap"]
    assert "primal objective of b is below the dual" in notes[0]


def test_command(tmp_path):
    pytest.importorskip("matplotlib")
    common = ("train", "--task", "ner", "--train", TRAIN, "-q", "-o", tmp_path / "m", "--epochs", 3)
    for name, *options in (["sdca", "--dev", DEV], ["lbfgs"], ["dca"]):
        log = tmp_path / f"ner-{name}.jsonl"
        assert run(*common, "--algorithm", name, "--log", log, *options).returncode == 0
    logs = sorted(tmp_path.glob("ner-*.jsonl"))
    done = run("report", *logs, "-o", tmp_path / "one" / "two")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"wrote {tmp_path / 'one' / 'two' / 'index.html'}\n"
    run("report", *logs, cwd=tmp_path)  # into report/
    written = sorted((tmp_path / "report").iterdir())
    kinds = ["dev.png", "gap.png", "index.html", "objective.png", "suboptimality.png"]
    assert [p.name for p in written] == kinds
    for path in written:
        assert path.read_bytes() == (tmp_path / "one" / "two" / path.name).read_bytes()
        assert b"tEXt" not in path.read_bytes()
    page = (tmp_path / "report" / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in re.sub('base64,[^"]*', "", page)
    rows = re.findall(r"<tr><th title=\"(\w+)\">\1</th><td>(\d+)</td><td>([\d,]+)</td>", page)
    assert [r[0] for r in rows] == ["dca", "lbfgs", "sdca"]
    assert rows[0][1:] == ("3", "1,600")


def test_without_matplotlib(trace):
    path = trace("a.jsonl", line(1, dev=0.5))
    done = subprocess.run(
        [sys.executable, "-c", NO_MATPLOTLIB, "report", path], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "turbotag: plots need matplotlib: pip install 'turbotag[plots]'\n"


def test_no_file_and_no_traces(tmp_path):
    done = run("report", tmp_path / "none.jsonl")
    assert done.returncode == 1
    assert "none.jsonl: no such file" in done.stderr
    assert run("report").returncode == 2
