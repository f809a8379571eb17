"""Race turbotag against python-crfsuite on one corpus: training time, F1, tagging rate, memory.

Every measurement is a process of its own; both sides read the same files and use the same 19
templates of the CRFsuite tutorial with the same boundary marks. CPU seconds are user + system time
of the whole process, reading and feature extraction included. Repeats are interleaved; figures are
medians. Needs the `bench` extra.

    python scripts/bench_tagger.py --train train.txt --test test.txt
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def read(path: str) -> list[list[list[str]]]:
    """Sentences of a blank-separated column file."""
    sentences, current = [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            fields = line.split()
            if fields and fields[0] != "-DOCSTART-":
                current.append(fields)
            elif current:
                sentences.append(current)
                current = []
    return [*sentences, current] if current else sentences


def attributes(sentence: list[list[str]]) -> list[list[str]]:
    """The tutorial's 19 attributes as strings, as python-crfsuite takes them, written for speed."""
    w = ["<b>", "<b>", *(f[0] for f in sentence), "<b>", "<b>"]
    p = ["<b>", "<b>", *(f[1] for f in sentence), "<b>", "<b>"]
    return [
        [
            "w-2=" + w[t],
            "w-1=" + w[t + 1],
            "w0=" + w[t + 2],
            "w1=" + w[t + 3],
            "w2=" + w[t + 4],
            "w-1,0=" + w[t + 1] + "|" + w[t + 2],
            "w0,1=" + w[t + 2] + "|" + w[t + 3],
            "p-2=" + p[t],
            "p-1=" + p[t + 1],
            "p0=" + p[t + 2],
            "p1=" + p[t + 3],
            "p2=" + p[t + 4],
            "p-2,-1=" + p[t] + "|" + p[t + 1],
            "p-1,0=" + p[t + 1] + "|" + p[t + 2],
            "p0,1=" + p[t + 2] + "|" + p[t + 3],
            "p1,2=" + p[t + 3] + "|" + p[t + 4],
            "p-2,-1,0=" + p[t] + "|" + p[t + 1] + "|" + p[t + 2],
            "p-1,0,1=" + p[t + 1] + "|" + p[t + 2] + "|" + p[t + 3],
            "p0,1,2=" + p[t + 2] + "|" + p[t + 3] + "|" + p[t + 4],
        ]
        for t in range(len(sentence))
    ]


def crfsuite_train(train: str, model: str, c2: float) -> None:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for sentence in read(train):
        trainer.append(attributes(sentence), [f[-1] for f in sentence])
    trainer.select("lbfgs")
    trainer.set_params({"c2": c2, "c1": 0.0})
    trainer.train(model)


def crfsuite_tag(model: str, source: str, target: str) -> None:
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    start = time.perf_counter()
    with open(target, "w", encoding="utf-8") as f:
        for sentence in read(source):
            tags = tagger.tag(attributes(sentence))
            f.writelines(" ".join([*w[:-1], t]) + "\n" for w, t in zip(sentence, tags, strict=True))
            f.write("\n")
    print(time.perf_counter() - start)


def turbotag_tag(model: str, source: str, target: str, threads: int) -> None:
    from turbotag.models.prediction import predict
    from turbotag.models.tagger import Tagger

    tagger = Tagger.load(model)
    start = time.perf_counter()
    with open(target, "wb") as f:
        predict(tagger, source, f, threads=threads)
    print(time.perf_counter() - start)


class Run:
    """A finished child process: CPU seconds, wall seconds, peak memory, standard output."""

    def __init__(self, command: list[str]):
        start = time.perf_counter()
        # wait4 gives this child's own usage; RUSAGE_CHILDREN would give the maximum over all
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        self.out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"failed: {' '.join(command)}")
        self.wall = time.perf_counter() - start
        self.cpu = usage.ru_utime + usage.ru_stime
        self.megabytes = usage.ru_maxrss / 1024


def child(*arguments: object) -> list[str]:
    return [sys.executable, __file__, "--child", *map(str, arguments)]


def turbotag(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "turbotag", *map(str, arguments)]


def f1(gold: str, predicted: str) -> float:
    return json.loads(Run(turbotag("eval", gold, predicted, "--json")).out)["f1"]


def show(
    name: str, ours: list[float], theirs: list[float], unit: str, more_is_better: bool
) -> None:
    a, b = statistics.median(ours), statistics.median(theirs)
    ratio = a / b if more_is_better else b / a
    spread = f"{min(ours):.4g}..{max(ours):.4g} / {min(theirs):.4g}..{max(theirs):.4g}"
    print(f"{name:<34}{a:>12.4g}{b:>12.4g} {unit:<10}{ratio:>7.1f} x   {spread}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--c2", type=float, default=0.5, help="CRFsuite's; turbotag's C is 0.5/c2")
    parser.add_argument("--stop-gap", default="1e-4")
    parser.add_argument("--repeats", type=int, default=3, help="of tagging; training runs once")
    parser.add_argument("--train-repeats", type=int, default=1)
    parser.add_argument("--copies", type=int, default=10, help="of the test file, for tagging")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        mine, theirs = at / "turbotag.model", at / "crfsuite.model"
        train = turbotag(
            "train", "--task", "chunk", "--template", "conll2000", "--train", args.train, "-C",
            0.5 / args.c2, "--stop-gap", args.stop_gap, "-q", "-o", mine,
        )  # fmt: skip
        Run([*train, "--epochs", "1"])  # compiles the kernels, once after installation
        print(f"{'':<34}{'turbotag':>12}{'crfsuite':>12}")
        a, b = [], []
        for _ in range(args.train_repeats):
            a.append(Run(train))
            b.append(Run(child("crfsuite_train", args.train, theirs, args.c2)))
        show("training, whole process", [r.cpu for r in a], [r.cpu for r in b], "CPU s", False)
        show(
            "training, peak memory", [r.megabytes for r in a], [r.megabytes for r in b], "MB", False
        )

        big = at / "big.txt"
        big.write_bytes(b"\n".join([Path(args.test).read_bytes().rstrip() + b"\n"] * args.copies))
        tokens = sum(len(s) for s in read(str(big)))
        rates: dict[str, list[float]] = {
            "one": [],
            "two": [],
            "peer": [],
            "cli": [],
            "cli peer": [],
        }
        for _ in range(args.repeats):
            for name, command in (
                ("one", child("turbotag_tag", mine, big, at / "a", 1)),
                ("peer", child("crfsuite_tag", theirs, big, at / "b")),
                ("two", child("turbotag_tag", mine, big, at / "c", 2)),
            ):
                run = Run(command)
                rates[name].append(tokens / float(run.out))
                if name != "two":
                    rates["cli" if name == "one" else "cli peer"].append(tokens / run.wall)
        show("tagging, model loaded", rates["one"], rates["peer"], "tokens/s", True)
        show("tagging, two threads", rates["two"], rates["peer"], "tokens/s", True)
        show("tagging, whole process", rates["cli"], rates["cli peer"], "tokens/s", True)
        mine_f1, theirs_f1 = f1(str(big), str(at / "a")), f1(str(big), str(at / "b"))
        show("F1", [100 * mine_f1], [100 * theirs_f1], "", True)
        same = (at / "a").read_bytes() == (at / "c").read_bytes()
        print(f"{tokens} tokens tagged; two threads give {'the same' if same else 'OTHER'} bytes")
        load = os.getloadavg()
        print(f"load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} on {os.cpu_count()} cores")


CHILDREN = {f.__name__: f for f in (crfsuite_train, crfsuite_tag, turbotag_tag)}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        name, *rest = sys.argv[2:]
        values: list = list(rest)
        if name == "crfsuite_train":
            values[-1] = float(values[-1])
        if name == "turbotag_tag":
            values[-1] = int(values[-1])
        CHILDREN[name](*values)
    else:
        main()
