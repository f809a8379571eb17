"""Parsing against UDPipe 1 (ufal.udpipe): a quarter of UD English EWT, gold tags."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from measure import (
    PALETTE,
    Comparison,
    Row,
    Setting,
    Skipped,
    figure,
    installed,
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

TITLE = "Parsing: ufal.udpipe"
US, PEER = "turbotag", "ufal.udpipe"
FIRST, SECOND, THEIRS = "first order", "second order", "default options"
OPTIONS = {FIRST: [], SECOND: ["--parts", "cs,gp", "--epochs", "8"]}
SCORES = {
    "nopunct": ("uas_nopunct", "las_nopunct"),
    "conll18": ("uas_conll18", "las_conll18"),
}
COPIES = 4  # of the dev file, for the rate of parsing


def measure(setting: Setting) -> list[str]:
    folder, out = setting.data / "ewt", setting.out
    if not folder.exists():
        raise Skipped("UD English EWT is not in the data folder: left out.")
    notes = []
    jobs = {(US, FIRST): setting.repeats, (PEER, THEIRS): setting.long_repeats}
    jobs[US, SECOND] = setting.long_repeats
    if not installed(PEER):
        notes.append(f"{PEER} is not installed: left out.")
        del jobs[PEER, THEIRS]
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        train, dev, big = at / "quarter.conllu", at / "dev.conllu", at / "big.conllu"
        cut(folder / "train.conllu", train, 200 if setting.small else 4)
        cut(folder / "dev.conllu", dev, 20 if setting.small else 1)
        big.write_bytes(dev.read_bytes() * COPIES)
        cut(folder / "dev.conllu", at / "few", 40)
        for options in OPTIONS.values():  # kernels are compiled once after installation
            run(training(at / "few", at / "warm", *options, "--epochs", 1))
            run(turbotag("eval", "--model", at / "warm", at / "few"))
            run(turbotag("predict", at / "warm", at / "few", "--threads", 2))
        rows: list[Row] = []
        for repeat, (system, method) in rounds(jobs):
            model = at / method.replace(" ", "-")
            if system == US:
                done = run(training(train, model, *OPTIONS[method]))
            else:
                iterations = "iterations=1" if setting.small else ""
                done = run(worker("udpipe_train", train, model, iterations))
            row = {"system": system, "method": method, "repeat": repeat, **done.usage()}
            row |= {"model_mb": model.stat().st_size / 1e6}
            run(loaded(system, model, dev, at / "parsed"))
            row |= scores(dev, at / "parsed")
            rows.append(row)
            print(row, flush=True)
        write(out / "udpipe-train.csv", rows)
        write(out / "udpipe-parse.csv", parsing(list(jobs), big, at, setting.repeats))
    return notes


def cut(path: Path, to: Path, step: int) -> None:
    """Every step-th sentence."""
    sentences = [s for s in path.read_bytes().split(b"\n\n") if s.strip()]
    to.write_bytes(b"\n\n".join(sentences[::step]) + b"\n\n")


def training(train: Path, model: Path, *options: object) -> list[str]:
    return turbotag("train", "--task", "parse", "--train", train, "-q", "-o", model, *options)


def loaded(system: str, model: Path, source: Path, target: Path, threads: int = 1) -> list[str]:
    if system == PEER:
        return worker("udpipe_parse", model, source, target)
    return worker("turbotag_predict", model, source, target, threads)


def scores(gold: Path, parsed: Path) -> Row:
    found = json.loads(run(turbotag("eval", "--task", "parse", gold, parsed, "--json")).out)
    row: Row = {}
    for name, (uas, las) in SCORES.items():
        mine = found["conventions"][name]
        row |= {uas: round(100 * mine["uas"], 3), las: round(100 * mine["las"], 3)}
    return row


def parsing(jobs: list[tuple[str, str]], big: Path, at: Path, repeats: int) -> list[Row]:
    lines = big.read_bytes().splitlines()
    words = sum(x.split(b"\t")[0].isdigit() for x in lines if x)
    rows: list[Row] = []
    plans = []
    for system, method in jobs:
        if system == US:
            plans.append((system, method, "file to file"))
        plans.append((system, method, "model loaded"))
    plans.append((US, FIRST, "model loaded, two threads"))
    for repeat, (system, method, mode) in rounds(dict.fromkeys(plans, repeats)):
        model = at / method.replace(" ", "-")
        if mode == "file to file":
            done, inner = run(turbotag("predict", model, big, "-o", at / "parsed")), None
        else:
            threads = 2 if "two" in mode else 1
            done = run(loaded(system, model, big, at / "parsed", threads))
            inner = done.json()
        # UDPipe's Python process is its program: its whole is file to file
        for name in ("file to file", mode) if system == PEER else (mode,):
            row = {"system": system, "method": method, "mode": name, "repeat": repeat}
            row |= {"words": words, **done.usage()}
            if inner and name != "file to file":
                row |= {"cpu_s": round(inner["cpu"], 4), "wall_s": round(inner["wall"], 4)}
            rows.append(row)
            print(row, flush=True)
    return rows


# ---- The page ------------------------------------------------------------------------------------


def rate(rows: list[dict[str, str]], clock: str, **wanted: str) -> list[float]:
    return [
        float(r["words"]) / float(r[clock])
        for r in rows
        if all(r[k] == v for k, v in wanted.items())
    ]


def comparisons(out: Path) -> list[Comparison]:
    rows, speeds = read(out / "udpipe-train.csv"), read(out / "udpipe-parse.csv")
    found: list[Comparison] = []
    if not speeds or not values(rows, "cpu_s", system=PEER):
        return found
    for method in (FIRST, SECOND):

        def pair(what: str, column: str, unit: str, more: bool, mine: str = method) -> None:
            a, b = values(rows, column, method=mine), values(rows, column, method=THEIRS)
            wall = None
            if column == "cpu_s":
                wall = values(rows, "wall_s", method=mine), values(rows, "wall_s", method=THEIRS)
            found.append(Comparison(f"{what}, {mine}", PEER, unit, a, b, more, wall))

        pair("train a parser", "cpu_s", "CPU s", False)
        pair("train a parser, peak memory", "peak_mb", "MB", False)
        pair("model file of a parser", "model_mb", "MB", False)
        for convention, (uas, las) in SCORES.items():
            pair(f"UAS on dev ({convention})", uas, "UAS", True)
            pair(f"LAS on dev ({convention})", las, "LAS", True)
        for mode in ("file to file", "model loaded", "model loaded, two threads"):
            one = "two" not in mode
            other = mode if one else "model loaded"
            clocks = ["cpu_s", "wall_s"] if one else ["wall_s"]
            a = [rate(speeds, c, method=method, mode=mode) for c in clocks]
            b = [rate(speeds, c, system=PEER, mode=other) for c in clocks]
            if a[0]:
                unit, wall = ("words / CPU s", (a[1], b[1])) if one else ("words / s", None)
                what = f"parse, {mode}, {method}"
                found.append(Comparison(what, PEER, unit, a[0], b[0], True, wall))
        memory = (
            values(speeds, "peak_mb", system=s, method=m, mode="file to file")
            for s, m in ((US, method), (PEER, THEIRS))
        )
        found.append(Comparison(f"parse, peak memory, {method}", PEER, "MB", *memory))
    return found


def plot(out: Path) -> None:
    rows, speeds = read(out / "udpipe-train.csv"), read(out / "udpipe-parse.csv")
    if not rows or not speeds:
        return
    plt, picture = figure(11, 3.4)
    axes = picture.subplots(1, 3)
    keys = list(dict.fromkeys((r["system"], r["method"]) for r in rows))
    labels = [f"{system},\n{method}" for system, method in keys]
    colors = [PALETTE[system] for system, _ in keys]
    quantities = [
        ("training, CPU seconds", [values(rows, "cpu_s", system=s, method=m) for s, m in keys]),
        (
            "parsing, words a CPU second,\nmodel loaded",
            [rate(speeds, "cpu_s", system=s, method=m, mode="model loaded") for s, m in keys],
        ),
        (
            "LAS on dev without PUNCT, %\n(the axis does not begin at 0)",
            [values(rows, "las_nopunct", system=s, method=m) for s, m in keys],
        ),
    ]
    for axis, (title, numbers) in zip(axes, quantities, strict=True):
        middle = [statistics.median(x) for x in numbers]
        low = [m - min(x) for m, x in zip(middle, numbers, strict=True)]
        high = [max(x) - m for m, x in zip(middle, numbers, strict=True)]
        bars = axis.bar(labels, middle, color=colors, yerr=[low, high], capsize=4)
        axis.bar_label(bars, [spread([m]) for m in middle], fontsize=8, padding=3)
        axis.set_title(title, fontsize=10)
        axis.tick_params(axis="x", labelsize=8)
        axis.margins(y=0.15)
    found = [y for x in quantities[2][1] for y in x]
    axes[2].set_ylim(max(0.0, min(found) - 5), max(found) + 2)
    axes[0].set_ylabel("median; bars are smallest to largest", fontsize=8)
    save(plt, picture, out / "udpipe.png")


def section(out: Path) -> list[str]:
    rows, speeds = read(out / "udpipe-train.csv"), read(out / "udpipe-parse.csv")
    if not rows or not speeds:
        return []
    lines = [
        "Every fourth sentence of UD English EWT's training part; dev with gold tags and features, "
        "scored by `turbotag eval` in two conventions: without words tagged PUNCT (nopunct), and "
        "all words (conll18). Both sides train a parser alone on the same file: UDPipe 1 with its "
        "default options (a transition-based parser with a small neural network, 10 iterations), "
        "turbotag with its defaults, and with second-order parts (`--parts cs,gp --epochs 8`). "
        "Whole processes, one thread.",
        "",
        f"![parsing]({out.name}/udpipe.png)",
        "",
    ]
    body = []
    for key in dict.fromkeys((r["system"], r["method"]) for r in rows):
        mine = [r for r in rows if (r["system"], r["method"]) == key]
        columns = [spread(values(mine, c)) for c in ("cpu_s", "wall_s", "peak_mb", "model_mb")]
        for uas, las in SCORES.values():
            columns.append(" / ".join(f"{values(mine, c)[0]:.2f}" for c in (uas, las)))
        body.append([*key, len(mine), *columns])
    head = ["system", "parser", "runs", "train CPU s", "wall s", "peak MB", "model MB"]
    lines += table([*head, *(f"UAS / LAS, {c}" for c in SCORES)], body)
    body = []
    for key in dict.fromkeys((r["system"], r["method"], r["mode"]) for r in speeds):
        mine = [r for r in speeds if (r["system"], r["method"], r["mode"]) == key]
        columns = [spread(rate(mine, c)) for c in ("cpu_s", "wall_s")]
        body.append([*key, len(mine), *columns, spread(values(mine, "peak_mb"))])
    head = ["system", "parser", "", "runs", "words / CPU s", "words / s (wall)", "peak MB"]
    return lines + table(head, body)
