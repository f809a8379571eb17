"""Measure dual ascent on shards: epochs and bytes, where a cluster pays, and workers that are lost.

    python scripts/bench shards epochs clusters kills files page

Plain numbers of one process: what is computed depends on the number of shards alone, so that epochs
and bytes are those of any cluster.
"""

from __future__ import annotations

import filecmp
import os
import random
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from figures import Row, read, table, values
from measure import Page, Part, Setting, joined, run, scratch, sentences, turbotag
from problems import NAMES, Task, tagging

from turbotag.distributed.engine import Threads
from turbotag.distributed.shard import ROUNDS
from turbotag.distributed.sharded import ShardedSDCA
from turbotag.optim.run import Limits, Result
from turbotag.optim.run import run as train
from turbotag.optim.trace import Trace

CORPORA = {"conll2000": 1.0, "ewt": 1.0}  # and C
GAPS = (1e-2, 1e-3, 1e-4)
SHARDS = (1, 2, 4, 8, 16, 32)
MOST = 300  # epochs
BYTES_A_SECOND = 10e9 / 8  # 10 Gbit/s, both ways at once
LATENCY = 1e-3  # seconds of a call of all workers
WORKERS = (1, 8, 32, 128)
SIZES = (40_000, 10_000_000)  # sentences
KILLS = 10


class Counting(Threads):
    """Counts the bytes that shards would send: what each has changed, and what was merged."""

    def __init__(self, parts: Any):
        super().__init__([part.shard() for part in parts], 1)
        self.changed: list[float] = []  # of one shard in one round
        self.merged: list[float] = []  # of all rows in one round

    def call(self, method: str, arguments: Any) -> list[Any]:
        found = super().call(method, arguments)
        if method == "round":
            self.changed += [float(_bytes(pieces)) for _, pieces in found]
        if method == "merge":
            self.merged.append(float(_bytes([piece for piece, _ in found])))
        return found


def _bytes(pieces: Any) -> int:
    return sum(array.nbytes for piece in pieces for array in piece)


def _optimizer(task: Task, C: float, shards: int, engine: Any) -> ShardedSDCA:
    lam, rng = 1.0 / (C * task.problem.n), np.random.default_rng(task.seed)
    return ShardedSDCA(task.problem, lam, rng, shards, engine=engine)


# ---- Parts ---------------------------------------------------------------------------------------


def epochs(setting: Setting) -> None:
    """Epochs to three certified gaps, and the bytes of a round."""
    found: list[Row] = []
    for corpus, C in CORPORA.items():
        if not setting.has(corpus):
            continue
        task = tagging(setting, corpus, setting.pick(100, None))
        for shards in setting.pick((1, 2), SHARDS):
            opt = _optimizer(task, C, shards, Counting)
            counting: Any = opt.engine
            row: Row = {"corpus": corpus, "sentences": task.problem.n, "shards": shards}
            left, spent = list(GAPS), 0.0
            while left and opt.epochs < MOST:
                start = time.process_time()
                opt.epoch()
                spent += time.process_time() - start
                if opt.gap_estimate() <= left[0]:
                    opt.finish()
                    proof = opt.certify()
                    while left and proof.gap <= left[0]:
                        row[f"epochs to {left.pop(0):g}"] = opt.epochs
            row |= {"epochs": opt.epochs, "cpu_s": round(spent, 2), "primal": proof.primal}
            row |= {"dual": proof.dual, "changed": round(np.mean(counting.changed))}
            found.append(row | {"merged": round(np.mean(counting.merged))})
            print(found[-1], flush=True)
    setting.write("epochs", found)


def epochs_section(out: Path) -> str:
    rows, parts = read(out / "epochs.csv"), []
    header = ["shards", *(f"{gap:g}" for gap in GAPS), "CPU s an epoch", "primal", "dual"]
    header += ["a shard's change in a round, MB", "all changes, merged, MB"]
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        mine, lines = [row for row in rows if row["corpus"] == corpus], []
        for row in mine:
            found = [row.get(f"epochs to {gap:g}") for gap in GAPS]
            reached = [f"above {MOST}" if n is None else int(n) for n in found]
            rate = float(row["cpu_s"]) / float(row["epochs"])
            ends = [f"{float(row[name]):.6f}" for name in ("primal", "dual")]
            sizes = [f"{float(row[name]) / 1e6:.2f}" for name in ("changed", "merged")]
            lines.append([int(row["shards"]), *reached, f"{rate:.2f}", *ends, *sizes])
        n = int(mine[0]["sentences"])
        head = f"**{NAMES[corpus]}**, {n:,} sentences: epochs to a certified gap"
        parts.append(f"{head}\n\n{table(header, lines)}")
    return "\n\n".join(parts)


def clusters(setting: Setting) -> str:
    """A model of the time, from what `epochs` measured."""
    rows = [row for row in read(setting.out / "epochs.csv") if row["corpus"] == "conll2000"]
    if len(rows) < 3:
        return ""
    n = float(rows[0]["sentences"])
    shards = np.array(values(rows, "shards"))
    step = float(rows[0]["cpu_s"]) / float(rows[0]["epochs"]) / n  # seconds of a sentence
    # bytes of a shard's change, by its sentences in a round; epochs, by shards: powers
    power, scale = np.polyfit(np.log(n / shards / ROUNDS), np.log(values(rows, "changed")), 1)
    slope, base = np.polyfit(np.log(shards), np.log(values(rows, f"epochs to {GAPS[-1]:g}")), 1)
    lines = []
    for size in SIZES:
        alone = size * step * np.exp(base)
        for workers in WORKERS:
            in_round = size / workers / ROUNDS
            changed = np.exp(scale) * in_round**power
            merged = np.exp(scale) * (size / ROUNDS) ** power
            sent = ROUNDS * ((changed + merged) / BYTES_A_SECOND + 3 * LATENCY)
            epoch = size / workers * step + (sent if workers > 1 else 0.0)
            needed = np.exp(base) * workers**slope
            total = needed * epoch
            cells = [f"{size:,}", workers, f"{needed:.0f}", f"{size / workers * step:.2f}"]
            cells += [f"{sent if workers > 1 else 0.0:.2f}", f"{total:,.0f}"]
            lines.append([*cells, f"{alone / total:.1f}"])
    header = ["sentences", "workers", "epochs to 1e-4", "steps of an epoch, s", "sending, s"]
    note = (
        "CoNLL-2000's figures above, as powers of the number of sentences and of shards: "
        f"a sentence takes {1e6 * step:.0f} us, a shard's change grows with the power {power:.2f} "
        f"of its sentences in a round, epochs with the power {slope:.2f} of the shards. 10 Gbit/s, "
        "a millisecond for a call. 128 shards, and ten million sentences, are extrapolated."
    )
    return f"{note}\n\n{table([*header, 's in all', 'times one'], lines)}"


def kills(setting: Setting) -> str:
    """Trainings in which one worker is killed at a random moment."""
    from turbotag.distributed.actors import Actors

    if not setting.has("conll2000"):
        return ""
    task, draw = tagging(setting, "conll2000", setting.pick(60, 600)), random.Random(setting.seed)
    lines = []
    for attempt in range(setting.pick(1, KILLS)):
        opt = _optimizer(task, 1.0, 4, Actors)
        actors: Any = opt.engine
        opt.epoch()
        opt.state()
        victim, moment = draw.randrange(4), draw.uniform(0.0, 4.0)
        killer = threading.Timer(moment, os.kill, (actors.processes()[victim], signal.SIGKILL))
        killer.start()
        found: Result = train(opt, Limits(MOST, 1e-4), Trace())
        killer.join()
        proof = found.certificate
        said = opt.notes()[0] if opt.notes() else "the training was over before"
        ends = f"{proof.primal:.6f}", f"{proof.dual:.6f}", f"{proof.gap:.1e}"
        lines.append([attempt + 1, f"{moment:.2f}", said, opt.epochs, *ends])
        print(lines[-1], flush=True)
    header = ["", "killed after, s", "what the log says", "epochs", "primal", "dual", "gap"]
    return table(header, lines)


def files(setting: Setting) -> str:
    """Many files on four workers, and by one process: the same bytes."""
    if not setting.has("ewt"):
        return ""
    texts = sentences(setting.data / "ewt" / "train.conllu")
    words = sum(len(re.findall(rb"(?m)^\d+\t", text)) for text in texts)
    copies = setting.pick(2, 1 + 10_000_000 // words)
    with scratch() as at:
        (at / "in").mkdir()
        for k in range(copies):
            (at / "in" / f"{k:03}.conllu").write_bytes(joined(texts[k:] + texts[:k]))
        given = "predict", "en-upos", at / "in", "--output-dir"
        one = run(turbotag(*given, at / "one"))
        many = run(turbotag(*given, at / "many", "--workers", 4))
        names = [p.name for p in sorted((at / "one").iterdir())]
        _, other, wrong = filecmp.cmpfiles(at / "one", at / "many", names, shallow=False)
    same = "the same bytes" if not other and not wrong and len(names) == copies else "OTHER BYTES"
    return (
        f"{copies} files of EWT train in turned order, {copies * words:,} words, `en-upos`: one "
        f"process {one.wall:.0f} s, four workers on {os.cpu_count()} cores {many.wall:.0f} s, with "
        f"the start of Ray; {same}."
    )


PAGE = Page(
    "Shards, measured",
    "shards",
    "shards",
    "bench/shards.py",
    {
        "epochs": Part("Epochs and bytes by the number of shards", epochs, epochs_section),
        "clusters": Part("Where a cluster pays", clusters),
        "kills": Part("Workers that are killed", kills),
        "files": Part("Prediction on files", files),
    },
)
