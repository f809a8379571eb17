"""Shards on workers of Ray: the bytes of threads, workers that die or hang, ports, commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.arc_problems import arc_problem
from tests.problems import chain_problem, optimum
from turbotag.distributed import actors
from turbotag.distributed.sharded import ShardedSDCA
from turbotag.errors import UsageError
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace
from turbotag.training.options import options_for

ray = pytest.importorskip("ray")

LAM = 0.05
DATA = Path(__file__).parents[2] / "data" / "demo"


def sharded(problem, engine=None, shards=2):
    return ShardedSDCA(problem, LAM, np.random.default_rng(1), shards, engine=engine)


@pytest.fixture(scope="module")
def cluster():
    yield actors.connect(4, None)
    ray.shutdown()


def listening():
    """The addresses that processes of this machine listen on, by /proc/net."""
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                yield local.split(":")[0]


def test_workers_listen_on_this_machine_alone():
    """Before any other test has started a cluster."""
    before = [*listening()]
    actors.connect(4, None)
    new = [*listening()]
    for address in before:
        new.remove(address)
    assert new
    assert {*new} <= {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.mark.parametrize("make", [chain_problem, arc_problem], ids=["chain", "tree"])
def test_workers_give_the_bytes_of_threads(cluster, make):
    both = [sharded(make(n=20), engine) for engine in (None, actors.Actors)]
    for opt in both:
        opt.epoch()
        opt.epoch()
    one, other = (opt.state() for opt in both)
    both[1].close()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_workers_may_die_and_hang(cluster, monkeypatch):
    monkeypatch.setattr(actors, "SILENT", 0.5)
    problem, said = chain_problem(n=20), []
    expected, _ = optimum(problem, LAM)
    opt = sharded(problem, lambda parts: actors.Actors(parts, warn=said.append))
    opt.epoch()
    first, second = opt.engine.processes()
    os.kill(first, signal.SIGSTOP)
    waking = subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -CONT {first}"])
    opt.epoch()
    waking.wait()
    assert "no answer from worker 0" in said[0]
    opt.state()
    os.kill(second, signal.SIGKILL)
    found = run(opt, Limits(300, 1e-6), Trace()).certificate
    assert found.gap <= 1e-6
    assert found.dual - 1e-9 <= expected <= found.primal + 1e-9
    assert opt.notes() == ["worker 1 was lost: its sentences went back to the last saved state"]


def test_a_cluster_that_is_not_there_is_told(cluster):
    ray.shutdown()
    with pytest.raises(UsageError, match=r"--address 127.0.0.1:1: no Ray cluster"):
        actors.connect(2, "127.0.0.1:1")


def turbotag(*arguments, cwd):
    command = [sys.executable, "-m", "turbotag", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)


def arrays(path):
    return {name: array.tobytes() for name, array in load_file(path).items()}


def test_the_command_line(tmp_path):
    common = "train", "--task", "ner", "--train", DATA / "train.iob2", "--stop-gap", "1e-7"
    alone = turbotag(*common, "--shards", "2", "-o", "a.model", cwd=tmp_path)
    assert alone.wait() == 0, alone.stderr.read()
    given = *common, "--workers", "2", "-o", "b.model", "--checkpoint-seconds", "0"
    killed = turbotag(*given, cwd=tmp_path)
    while not (tmp_path / "b.model.checkpoint").exists():
        assert killed.poll() is None, killed.stderr.read()
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    resumed = turbotag(*given, "--resume", cwd=tmp_path)
    assert resumed.wait() == 0, resumed.stderr.read()
    assert "resuming from b.model.checkpoint" in resumed.stderr.read()
    assert arrays(tmp_path / "a.model") == arrays(tmp_path / "b.model")

    names = "test.iob2", "dev.iob2"
    for name in names:
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    for folder, more in (("one", ()), ("many", ("--workers", "2"))):
        asked = "predict", "b.model", *names, "missing", "--output-dir", folder, *more
        run = turbotag(*asked, cwd=tmp_path)
        assert run.wait() == 1
        said = run.stderr.read()
        assert "turbotag: missing: no such file" in said
        assert said.endswith("1 of 3 files were not written\n")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"workers": 2, "threads": 2}, "leave out --threads"),
        ({"workers": 2, "shards": 3}, "leave out --threads and --shards"),
        ({"workers": 2, "algorithm": "dca"}, "--workers need"),
        ({"address": "127.0.0.1:1"}, "--address needs --workers"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_what_workers_do_not_serve_is_refused(given, match):
    with pytest.raises(UsageError, match=match):
        options_for("pos", train=b"", **given)
