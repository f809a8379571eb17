"""Starting: help, import, and one sentence through a process, with and without compiled kernels."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from figures import Row, chosen, groups, read, spread, table, values
from measure import Setting, rounds, run, scratch, some, turbotag
from peers import CRFSUITE, UDPIPE, US, Comparison, Sides, installed, worker
from plots import PALETTE, bars, figure, plain, save

from corpora import DEMO

TITLE = "Starting"
COLD, WARM = "cold", "warm"
SHIPPED = {"tag with en-upos": "en-upos", "parse with en-parse": "en-parse", "pipeline en": "en"}
NER, TREES = "tag with a small NER model", "parse with a small parser"
PEERS = {NER: CRFSUITE, TREES: UDPIPE}
Job = tuple[str, str]  # what, system


def plans(setting: Setting, at: Path) -> dict[Job, list[str]]:
    """All commands; small models are trained on the embedded corpus."""
    words, trees = (some(DEMO / f, 1, at / f, 1) for f in ("test.iob2", "test.conllu"))
    names, bank, out = DEMO / "train.iob2", DEMO / "train.conllu", at / "out"
    ner, parser = at / "ner.model", at / "parse.model"
    run(turbotag("train", "--task", "ner", "--train", names, "-q", "-o", ner))
    run(turbotag("train", "--task", "parse", "--train", bank, "-q", "-o", parser))
    found: dict[Job, list[str]] = {
        ("turbotag --help", US): turbotag("--help"),
        ("import turbotag", US): imports("turbotag"),
        ("import turbotag.api", US): imports("turbotag.api"),
        ("python -c pass", "Python"): imports("sys"),
        (NER, US): turbotag("predict", ner, words, "-o", out),
        (TREES, US): turbotag("predict", parser, trees, "-o", out),
    }
    for what, name in SHIPPED.items():
        found[what, US] = turbotag("predict", name, trees, "-o", out)
    if installed(setting, CRFSUITE):
        run(worker("crfsuite_train", names, at / "crfsuite", "lbfgs", "{}"))
        found[NER, CRFSUITE] = worker("crfsuite_tag", at / "crfsuite", words, out)
        found["import pycrfsuite", CRFSUITE] = imports("pycrfsuite")
    if installed(setting, UDPIPE):
        run(worker("udpipe_train", bank, at / "udpipe", "iterations=1"))
        found[TREES, UDPIPE] = worker("udpipe_parse", at / "udpipe", trees, out)
        found["import ufal.udpipe", UDPIPE] = imports("ufal.udpipe")
    return found


def imports(name: str) -> list[str]:
    return [sys.executable, "-c", f"import {name}"]


def measure(setting: Setting) -> None:
    rows: list[Row] = []

    def add(job: Job, state: str, repeat: int, **env: str) -> None:
        key = {"what": job[0], "system": job[1], "state": state, "repeat": repeat}
        rows.append(key | run(commands[job], env).usage())
        print(rows[-1], flush=True)

    with scratch() as at:
        commands = plans(setting, at)
        for repeat in range(setting.long_repeats):
            for what in (NER, TREES, *SHIPPED):
                with scratch() as empty:
                    add((what, US), COLD, repeat, NUMBA_CACHE_DIR=str(empty))
        for job in commands:
            run(commands[job])
        for repeat, job in rounds(dict.fromkeys(commands, setting.pick(1, 2 * setting.repeats))):
            add(job, WARM, repeat)
    setting.write("start", rows)


# ---- The page ------------------------------------------------------------------------------------


def comparisons(out: Path) -> Iterator[Comparison]:
    rows = read(out / "start.csv")
    for what, peer in PEERS.items():
        for state in (WARM, COLD) if chosen(rows, what=what, system=peer) else ():
            name = f"start and {what}, one sentence, {state}"
            ours = {"what": what, "system": US, "state": state}
            sides = Sides(rows, peer, ours, {"what": what, "system": peer})
            yield sides.compare(name, "cpu_s", "CPU s")
            if state == WARM:
                yield sides.compare(f"{name}, peak memory", "peak_mb", "MB")


def plot(out: Path) -> None:
    walls = {
        key: values(mine, "wall_s")
        for key, mine in groups(read(out / "start.csv"), "what", "system", "state").items()
    }
    keys = sorted(walls, key=lambda key: statistics.median(walls[key]))
    picture = figure(9, 0.3 * len(keys) + 1.2)
    axis = picture.subplots()
    colours = [PALETTE.get(system, "#888888") for _, system, _ in keys]
    labels = [f"{what} ({system}, {state})" for what, system, state in keys]
    bars(axis, labels, [walls[key] for key in keys], across=True, color=colours)
    axis.set_xscale("log")
    axis.margins(x=0.12)
    plain(axis.xaxis)
    axis.set_xlabel("wall seconds of the process (median; lines from smallest to largest)")
    axis.tick_params(axis="y", labelsize=8)
    axis.grid(alpha=0.3, axis="x")
    save(picture, out / "start.png")


def section(out: Path) -> str:
    body = []
    for key, mine in groups(read(out / "start.csv"), "what", "system", "state").items():
        columns = [spread(values(mine, c)) for c in ("wall_s", "cpu_s", "peak_mb")]
        body.append([*key, len(mine), *columns])
    return (
        "Whole processes on one sentence. Cold: no kernel is compiled yet (an empty "
        "`NUMBA_CACHE_DIR`), as once after installation; warm: every later start. The small models "
        "are trained on the embedded corpus on both sides, so that what is compared is starting."
        "\n\n" + table(["what", "system", "", "runs", "wall s", "CPU s", "peak MB"], body)
    )
