"""Starting: help, import, and one sentence through a process, with and without compiled kernels."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from measure import (
    PALETTE,
    Comparison,
    Row,
    Setting,
    figure,
    installed,
    plain,
    read,
    rounds,
    run,
    save,
    spread,
    table,
    turbotag,
    values,
    worker,
    write,
)

TITLE = "Starting"
US = "turbotag"
DEMO = Path("data/demo")
COLD, WARM = "cold", "warm"
# what is done, and the shipped model or the small one that turbotag does it with
PREDICT = {"tag with en-upos": "en-upos", "parse with en-parse": "en-parse", "pipeline en": "en"}
NER, TREES = "tag with a small NER model", "parse with a small parser"
PEERS = {NER: "python-crfsuite", TREES: "ufal.udpipe"}


def measure(setting: Setting) -> list[str]:
    notes = []
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        words, trees = at / "one.iob2", at / "one.conllu"
        trees.write_bytes(sentences(DEMO / "test.conllu", 1))
        words.write_bytes(sentences(DEMO / "test.iob2", 1))
        train = DEMO / "train.iob2"
        ner, parser = at / "ner.model", at / "parse.model"
        run(turbotag("train", "--task", "ner", "--train", train, "-q", "-o", ner))
        run(
            turbotag(
                "train", "--task", "parse", "--train", DEMO / "train.conllu", "-q", "-o", parser
            )
        )
        plans: dict[tuple[str, str], list[str]] = {
            ("turbotag --help", US): turbotag("--help"),
            ("import turbotag", US): [sys.executable, "-c", "import turbotag"],
            ("import turbotag.api", US): [sys.executable, "-c", "import turbotag.api"],
            ("python -c pass", "Python"): [sys.executable, "-c", "pass"],
            (NER, US): turbotag("predict", ner, words, "-o", at / "out"),
            (TREES, US): turbotag("predict", parser, trees, "-o", at / "out"),
        }
        for what, name in PREDICT.items():
            plans[what, US] = turbotag("predict", name, trees, "-o", at / "out")
        if installed(PEERS[NER]):
            model = at / "crfsuite"
            run(worker("crfsuite_train", train, model, "lbfgs", "{}"))
            plans[NER, PEERS[NER]] = worker("crfsuite_tag", model, words, at / "out")
            plans["import pycrfsuite", PEERS[NER]] = [sys.executable, "-c", "import pycrfsuite"]
        if installed(PEERS[TREES]):
            model = at / "udpipe"
            run(worker("udpipe_train", DEMO / "train.conllu", model, "iterations=1"))
            plans[TREES, PEERS[TREES]] = worker("udpipe_parse", model, trees, at / "out")
            plans["import ufal.udpipe", PEERS[TREES]] = [sys.executable, "-c", "import ufal.udpipe"]
        notes = [f"{p} is not installed: left out." for p in PEERS.values() if not installed(p)]
        cold = [(NER, US), (TREES, US), *((what, US) for what in PREDICT)]
        for repeat in range(setting.long_repeats):
            for job in cold:
                with tempfile.TemporaryDirectory() as empty:
                    done = run(plans[job], {"NUMBA_CACHE_DIR": empty})
                rows.append(row(job, COLD, repeat) | done.usage())
                print(rows[-1], flush=True)
        for job in plans:
            run(plans[job])
        for repeat, job in rounds(
            dict.fromkeys(plans, 1 if setting.small else 2 * setting.repeats)
        ):
            rows.append(row(job, WARM, repeat) | run(plans[job]).usage())
        write(setting.out / "start.csv", rows)
    return notes


def row(job: tuple[str, str], state: str, repeat: int) -> Row:
    return {"what": job[0], "system": job[1], "state": state, "repeat": repeat}


def sentences(path: Path, n: int) -> bytes:
    return b"\n\n".join(path.read_bytes().split(b"\n\n")[:n]) + b"\n\n"


# ---- The page ------------------------------------------------------------------------------------


def comparisons(out: Path) -> list[Comparison]:
    rows, found = read(out / "start.csv"), []
    for what, peer in PEERS.items():
        theirs = [r for r in rows if (r["what"], r["system"]) == (what, peer)]
        for state in (WARM, COLD) if theirs else ():
            ours = [r for r in rows if (r["what"], r["system"], r["state"]) == (what, US, state)]
            name = f"start and {what}, one sentence, {state}"
            wall = values(ours, "wall_s"), values(theirs, "wall_s")
            a, b = values(ours, "cpu_s"), values(theirs, "cpu_s")
            found.append(Comparison(name, peer, "CPU s", a, b, False, wall))
            if state == WARM:
                memory = values(ours, "peak_mb"), values(theirs, "peak_mb")
                found.append(Comparison(f"{name}, peak memory", peer, "MB", *memory))
    return found


def keys(rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys((r["what"], r["system"], r["state"]) for r in rows))


def chosen(rows: list[dict[str, str]], key: tuple[str, str, str]) -> list[dict[str, str]]:
    return [r for r in rows if (r["what"], r["system"], r["state"]) == key]


def plot(out: Path) -> None:
    rows = read(out / "start.csv")
    if not rows:
        return
    found = sorted(keys(rows), key=lambda k: statistics.median(values(chosen(rows, k), "wall_s")))
    labels = [f"{what} ({system}, {state})" for what, system, state in found]
    walls = [values(chosen(rows, k), "wall_s") for k in found]
    middle = [statistics.median(x) for x in walls]
    low = [m - min(x) for m, x in zip(middle, walls, strict=True)]
    high = [max(x) - m for m, x in zip(middle, walls, strict=True)]
    plt, picture = figure(9, 0.3 * len(found) + 1.2)
    axis = picture.subplots()
    colors = [PALETTE.get(system, "#888888") for _, system, _ in found]
    bars = axis.barh(labels, middle, xerr=[low, high], capsize=3, color=colors)
    axis.bar_label(
        bars, [f"{m:.2g}" if m < 10 else f"{m:.0f}" for m in middle], fontsize=8, padding=4
    )
    axis.set_xscale("log")
    axis.margins(x=0.12)
    plain(axis.xaxis)
    axis.set_xlabel("wall seconds of the process (median; lines from smallest to largest)")
    axis.tick_params(axis="y", labelsize=8)
    axis.grid(alpha=0.3, axis="x")
    save(plt, picture, out / "start.png")


def section(out: Path) -> list[str]:
    rows = read(out / "start.csv")
    if not rows:
        return []
    lines = [
        "Whole processes on one sentence. Cold: no kernel is compiled yet (an empty "
        "`NUMBA_CACHE_DIR`), as once after installation; warm: every later start. The small models "
        "are trained on the embedded corpus on both sides, so that what is compared is starting.",
        "",
        f"![start]({out.name}/start.png)",
        "",
    ]
    body = []
    for key in keys(rows):
        mine = chosen(rows, key)
        columns = [spread(values(mine, c)) for c in ("wall_s", "cpu_s", "peak_mb")]
        body.append([*key, len(mine), *columns])
    return lines + table(["what", "system", "", "runs", "wall s", "CPU s", "peak MB"], body)
