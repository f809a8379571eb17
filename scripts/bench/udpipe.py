"""Parsing against UDPipe 1 (ufal.udpipe): a quarter of UD English EWT, gold tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from figures import Row, groups, read, spread, table, values
from measure import Setting, evaluate, rounds, run, scratch, some, turbotag
from peers import (
    LOADED,
    THREADS,
    UDPIPE,
    US,
    WHOLE,
    Comparison,
    Sides,
    files,
    installed,
    rate,
    speed_table,
    speeds,
    worker,
)
from plots import PALETTE, bars, figure, save

TITLE = "Parsing: ufal.udpipe"
FIRST, SECOND, THEIRS = "first order", "second order", "default options"
OPTIONS = {FIRST: [], SECOND: ["--parts", "cs,gp", "--epochs", "8"]}
CONVENTIONS = ("nopunct", "conll18")
COPIES = 4  # of the dev file, for the rate of parsing


def measure(setting: Setting) -> None:
    if not setting.has("ewt"):
        return
    folder = setting.data / "ewt"
    jobs = {(US, FIRST): setting.repeats, (US, SECOND): setting.long_repeats}
    if installed(setting, UDPIPE):
        jobs[UDPIPE, THEIRS] = setting.long_repeats
    with scratch() as at:
        most = setting.pick(100, None)
        train = some(folder / "train.conllu", 4, at / "quarter.conllu", most)
        dev = some(folder / "dev.conllu", 1, at / "dev.conllu", most)
        few, big = some(dev, 1, at / "few", 50), at / "big.conllu"
        big.write_bytes(dev.read_bytes() * COPIES)
        for options in OPTIONS.values():  # kernels are compiled once after installation
            run(training(few, at / "warm", *options, "--epochs", 1))
            run(turbotag("eval", "--model", at / "warm", few))
            run(turbotag("predict", at / "warm", few, "--threads", 2))
        rows: list[Row] = []
        for repeat, (system, method) in rounds(jobs):
            model = model_of(method, at)
            if system == US:
                done = run(training(train, model, *OPTIONS[method]))
            else:
                done = run(worker("udpipe_train", train, model, setting.pick("iterations=1", "")))
            row = {"system": system, "method": method, "repeat": repeat, **done.usage()}
            row |= {"model_mb": model.stat().st_size / 1e6}
            run(loaded(system, model, dev, at / "parsed"))
            rows.append({**row, **scores(dev, at / "parsed")})
            print(rows[-1], flush=True)
        setting.write("udpipe-train", rows)
        plans = {}
        for system, method in jobs:
            model, out = model_of(method, at), at / "parsed"
            plans[system, method, LOADED] = loaded(system, model, big, out)
            if system == US:
                plans[system, method, WHOLE] = turbotag("predict", model, big, "-o", out)
                plans[system, method, THREADS] = loaded(system, model, big, out, 2)
        words = sum(x.split(b"\t")[0].isdigit() for x in big.read_bytes().splitlines())
        setting.write("udpipe-parse", files(plans, words, setting.repeats))


def model_of(method: str, at: Path) -> Path:
    return at / method.replace(" ", "-")


def training(train: Path, model: Path, *options: object) -> list[str]:
    """Without calibration, which UDPipe has not."""
    given = "--task", "parse", "--no-calibration", "--train", train, "-q", "-o", model
    return turbotag("train", *given, *options)


def loaded(system: str, model: Path, source: Path, target: Path, threads: int = 1) -> list[str]:
    if system == UDPIPE:
        return worker("udpipe_parse", model, source, target)
    return worker("turbotag_predict", model, source, target, threads)


def scores(gold: Path, parsed: Path) -> Row:
    found = evaluate("--task", "parse", gold, parsed)["conventions"]
    return {
        f"{measure}_{name}": round(100 * found[name][measure], 3)
        for name in CONVENTIONS
        for measure in ("uas", "las")
    }


# ---- The page ------------------------------------------------------------------------------------


def comparisons(out: Path) -> Iterator[Comparison]:
    rows, parsed = read(out / "udpipe-train.csv"), read(out / "udpipe-parse.csv")
    if not values(rows, "cpu_s", system=UDPIPE):
        return
    for method in (FIRST, SECOND):
        sides = Sides(rows, UDPIPE, {"method": method}, {"method": THEIRS})
        yield sides.compare(f"train a parser, {method}", "cpu_s", "CPU s")
        yield sides.compare(f"train a parser, peak memory, {method}", "peak_mb", "MB")
        yield sides.compare(f"model file of a parser, {method}", "model_mb", "MB")
        for name in CONVENTIONS:
            for measure in ("UAS", "LAS"):
                what, column = f"{measure} on dev ({name}), {method}", f"{measure.lower()}_{name}"
                yield sides.compare(what, column, measure, True)
        yield from speeds(parsed, "parse", UDPIPE, method)


def plot(out: Path) -> None:
    rows, parsed = read(out / "udpipe-train.csv"), read(out / "udpipe-parse.csv")
    keys = list(groups(rows, "system", "method"))
    picture = figure(11, 3.4)
    axes = picture.subplots(1, 3)
    for axis, title, numbers in (
        (axes[0], "training, CPU seconds",
         [values(rows, "cpu_s", system=s, method=m) for s, m in keys]),
        (axes[1], "parsing, words a CPU second,\nmodel loaded",
         [rate(parsed, "cpu_s", system=s, method=m, mode=LOADED) for s, m in keys]),
        (axes[2], "LAS on dev without PUNCT, %\n(the axis does not begin at 0)",
         [values(rows, "las_nopunct", system=s, method=m) for s, m in keys]),
    ):  # fmt: skip
        labels, colours = [f"{s},\n{m}" for s, m in keys], [PALETTE[s] for s, _ in keys]
        bars(axis, labels, numbers, color=colours)
        axis.set_title(title, fontsize=10)
        axis.tick_params(axis="x", labelsize=8)
        axis.margins(y=0.15)
    found = [y for x in numbers for y in x]
    axes[2].set_ylim(max(0.0, min(found) - 5), max(found) + 2)
    axes[0].set_ylabel("median; bars are smallest to largest", fontsize=8)
    save(picture, out / "udpipe.png")


def section(out: Path) -> str:
    body = []
    for key, mine in groups(read(out / "udpipe-train.csv"), "system", "method").items():
        columns = [spread(values(mine, c)) for c in ("cpu_s", "wall_s", "peak_mb", "model_mb")]
        for name in CONVENTIONS:
            columns.append(f"{mine[0][f'uas_{name}']:.2f} / {mine[0][f'las_{name}']:.2f}")
        body.append([*key, len(mine), *columns])
    head = ["system", "parser", "runs", "train CPU s", "wall s", "peak MB", "model MB"]
    return "\n\n".join(
        [
            "Every fourth sentence of UD English EWT's training part; dev with gold tags and "
            "features, scored by `turbotag eval` in two conventions: without words tagged PUNCT "
            "(nopunct), and all words (conll18). Both sides train a parser alone on the same file: "
            "UDPipe 1 with its default options (a transition-based parser with a small neural "
            "network, 10 iterations), turbotag with its defaults, and with second-order parts "
            "(`--parts cs,gp --epochs 8`). Whole processes, one thread.",
            table([*head, *(f"UAS / LAS, {c}" for c in CONVENTIONS)], body),
            speed_table(read(out / "udpipe-parse.csv")),
        ]
    )
