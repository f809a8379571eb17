"""CoNLL-2000 chunking against python-crfsuite: training to equal objective, F1, tagging, memory."""

from __future__ import annotations

import json
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import (
    MARKS,
    PALETTE,
    Comparison,
    Row,
    Setting,
    Skipped,
    figure,
    installed,
    plain,
    read,
    rounds,
    run,
    save,
    short,
    spread,
    table,
    turbotag,
    values,
    worker,
    write,
)
from workers import read_columns

TITLE = "Chunking: python-crfsuite"
US, PEER = "turbotag", "python-crfsuite"
C, GAP = 1.0, 1e-4
SGD_ITERATIONS = 50
COPIES = 10  # of the test file, for the rate of tagging
ALL = {"feature.possible_states": True, "feature.possible_transitions": True}
L2 = {"c2": 0.5 / C}  # CRFsuite minimises c2 |w|^2 + the sum of the losses


@dataclass(frozen=True, eq=False)
class Method:
    """A way to train; `convex` if it minimises the objective that all such methods share."""

    system: str
    name: str
    options: Any
    convex: bool = False
    long: bool = False


OURS = [
    Method(US, "sdca to a gap of 1e-4", ["-C", C, "--stop-gap", GAP], convex=True),
    Method(US, "sdca, --compact file", ["-C", C, "--stop-gap", GAP, "--compact"], long=True),
    Method(US, "perceptron, 10 epochs", ["--algorithm", "perceptron", "--loss", "perceptron"]),
    Method(US, "mira, 10 epochs", ["--algorithm", "mira", "--loss", "svm"]),
    Method(US, "dca, 10 epochs", ["--algorithm", "dca"]),
]
SDCA, COMPACT, *ONLINE = OURS
SGD = {**L2, "max_iterations": SGD_ITERATIONS}
THEIRS = [
    Method(PEER, "lbfgs", L2, True, True),
    Method(PEER, "lbfgs, all features", {**L2, **ALL}, True, True),
    Method(PEER, f"l2sgd, {SGD_ITERATIONS} iterations", SGD, True, True),
    Method(PEER, f"l2sgd, all features, {SGD_ITERATIONS} iterations", {**SGD, **ALL}, True, True),
    *(Method(PEER, f"{a}, 100 iterations", {}, long=True) for a in ("ap", "pa", "arow")),
    *(Method(PEER, f"{a}, 10 iterations", {"max_iterations": 10}) for a in ("ap", "pa", "arow")),
]
LBFGS = THEIRS[0]


def measure(setting: Setting) -> list[str]:
    folder, out = setting.data / "conll2000", setting.out
    if not folder.exists():
        raise Skipped("CoNLL-2000 is not in the data folder: left out.")
    notes, methods = [], [*OURS, *THEIRS]
    if not installed(PEER):
        notes.append(f"{PEER} is not installed: left out.")
        methods = OURS
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        train, test, big = at / "train.txt", at / "test.txt", at / "big.txt"
        for source, target in ((folder / "train.txt", train), (folder / "test.txt", test)):
            sentences = source.read_bytes().strip().split(b"\n\n")
            kept = sentences[:300] if setting.small else sentences
            target.write_bytes(b"\n\n".join(kept) + b"\n\n")
        big.write_bytes(test.read_bytes() * COPIES)
        warm_up(test, at)
        rows, curves = race(methods, train, test, at, setting)
        write(out / "crfsuite-train.csv", rows)
        write(out / "crfsuite-curves.csv", curves)
        write(out / "crfsuite-tag.csv", tagging(methods, big, at, setting.repeats))
    return notes


def warm_up(test: Path, at: Path) -> None:
    """Compile the kernels, as happens once after installation."""
    few, model = at / "few.txt", at / "warm"
    few.write_bytes(b"\n\n".join(test.read_bytes().split(b"\n\n")[:100]) + b"\n\n")
    for method in OURS:
        run(command(method, few, model, 1))
        run(turbotag("eval", "--model", model, few))
        run(turbotag("predict", model, few, "--threads", 2))


def command(method: Method, train: Path, model: Path, epochs: int | None = None) -> list[str]:
    if method.system == US:
        ours = ["--task", "chunk", "--template", "conll2000", "--train", train, "-q", "-o", model]
        return turbotag("train", *ours, *method.options, *(["--epochs", epochs] if epochs else []))
    algorithm = method.name.split(",")[0]
    return worker("crfsuite_train", train, model, algorithm, json.dumps(method.options))


def model_of(method: Method, at: Path) -> Path:
    return at / method.name.replace(" ", "-").replace(",", "")


def race(
    methods: list[Method], train: Path, test: Path, at: Path, setting: Setting
) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    curves: list[Row] = []
    n = len(read_columns(str(train)))
    jobs = {m: setting.long_repeats if m.long else setting.repeats for m in methods}
    for repeat, method in rounds(jobs):
        model = model_of(method, at)
        done = run(command(method, train, model))
        row = {"system": method.system, "method": method.name, "repeat": repeat, **done.usage()}
        row |= {"model_mb": model.stat().st_size / 1e6, "f1": f1(method, model, test, at)}
        if method.convex:
            row |= objective(method, model, train)
        if repeat == 0 and method.convex:
            found = done.json() if method.system == PEER else {}
            if method.system == US:
                found = run(worker("turbotag_curve", train, C, GAP)).json()
            curves += [
                {
                    "system": method.system,
                    "method": method.name,
                    "step": step,
                    "cpu_s": round(cpu, 3),
                    # CRFsuite's losses are sums
                    "primal": loss / n if method.system == PEER else loss,
                    "best_dual": found.get("dual", ""),
                }
                for step, (cpu, loss) in enumerate(found["curve"], 1)
            ]
        rows.append(row)
        print(row, flush=True)
    return rows, curves


def f1(method: Method, model: Path, test: Path, at: Path) -> float:
    if method.system == US:
        found = run(turbotag("eval", "--model", model, test, "--json"))
    else:
        run(worker("crfsuite_tag", model, test, at / "tagged"))
        found = run(turbotag("eval", test, at / "tagged", "--json"))
    return round(100 * json.loads(found.out)["f1"], 3)


def objective(method: Method, model: Path, train: Path) -> Row:
    """P by a full pass at the weights, whoever found them."""
    if method.system == PEER:
        return run(worker("crfsuite_objective", train, model, C)).json()
    from turbotag.models.store import load_file

    certificate = load_file(str(model), None)[0]["certificate"]
    return {"primal": certificate["primal"], "dual": certificate["dual"]}


def tagging(methods: list[Method], big: Path, at: Path, repeats: int) -> list[Row]:
    """A large file, with a process from start to end and with the model loaded."""
    mine, theirs, rows = model_of(SDCA, at), model_of(LBFGS, at), []
    tokens = sum(map(len, read_columns(str(big))))
    plans = {
        (US, "file to file"): turbotag("predict", mine, big, "-o", at / "a"),
        (US, "model loaded"): worker("turbotag_predict", mine, big, at / "a", 1),
        (PEER, "model loaded"): worker("crfsuite_tag", theirs, big, at / "b"),
        (US, "model loaded, two threads"): worker("turbotag_predict", mine, big, at / "c", 2),
    }
    if LBFGS not in methods:
        del plans[PEER, "model loaded"]
    for repeat, job in rounds(dict.fromkeys(plans, repeats)):
        system, mode = job
        done = run(plans[job])
        inner = done.json() if mode != "file to file" else None
        for name in ("file to file", mode) if system == PEER else (mode,):
            row = {"system": system, "mode": name, "repeat": repeat, "tokens": tokens}
            row |= done.usage()
            if inner and name != "file to file":
                row |= {"cpu_s": round(inner["cpu"], 4), "wall_s": round(inner["wall"], 4)}
            rows.append(row)
            print(row, flush=True)
    assert (at / "a").read_bytes() == (at / "c").read_bytes(), "threads change what is tagged"
    return rows


# ---- The page ------------------------------------------------------------------------------------


def descent(
    curves: list[dict[str, str]], rows: list[dict[str, str]], method: str
) -> list[tuple[float, float]]:
    """(CPU seconds, P) of a training. The last P is the one evaluated at the weights of the model:
    l2sgd itself reports what it summed up while the weights changed, which is more."""
    mine = [(float(r["cpu_s"]), float(r["primal"])) for r in curves if r["method"] == method]
    final = values(rows, "primal", method=method)[0]
    return [*mine[:-1], (mine[-1][0], final)]


def comparisons(out: Path) -> list[Comparison]:
    rows, curves = read(out / "crfsuite-train.csv"), read(out / "crfsuite-curves.csv")
    found: list[Comparison] = []
    if not values(rows, "cpu_s", system=PEER):
        return found
    descents = {m: descent(curves, rows, m) for m in names(curves)}
    for method, theirs in descents.items():
        if method != SDCA.name:
            ours = descents[SDCA.name]
            target = max(ours[-1][1], theirs[-1][1])  # the worse of the two ends: both reach it
            a, b = (next(cpu for cpu, p in d if p <= target) for d in (ours, theirs))
            what = f"train to P = {target:.5f}, against {method}"
            found.append(Comparison(what, PEER, "CPU s", [a], [b]))

    def pair(what: str, ours: str, theirs: str, column: str, unit: str, more: bool) -> None:
        a, b = (values(rows, column, method=m) for m in (ours, theirs))
        wall = None
        if column == "cpu_s":
            wall = values(rows, "wall_s", method=ours), values(rows, "wall_s", method=theirs)
        found.append(Comparison(what, PEER, unit, a, b, more, wall))

    pair("train sdca, whole process, against lbfgs", SDCA.name, LBFGS.name, "cpu_s", "CPU s", False)
    pair("train sdca, peak memory, against lbfgs", SDCA.name, LBFGS.name, "peak_mb", "MB", False)
    everything = THEIRS[1].name
    what = f"train sdca, peak memory, against {everything}"
    pair(what, SDCA.name, everything, "peak_mb", "MB", False)
    pair("model file, sdca against lbfgs", SDCA.name, LBFGS.name, "model_mb", "MB", False)
    pair("model file, --compact against lbfgs", COMPACT.name, LBFGS.name, "model_mb", "MB", False)
    pair("F1, sdca against lbfgs", SDCA.name, LBFGS.name, "f1", "F1", True)
    pair("F1, --compact against lbfgs", COMPACT.name, LBFGS.name, "f1", "F1", True)
    pair(f"F1, sdca against {everything}", SDCA.name, everything, "f1", "F1", True)
    for method in THEIRS[2:4]:
        pair(f"F1, sdca against {method.name}", SDCA.name, method.name, "f1", "F1", True)
    for ours, theirs in zip(ONLINE, ("ap", "pa", "arow"), strict=True):
        for iterations in (10, 100):
            name = f"{theirs}, {iterations} iterations"
            versus = f"{ours.name} against {name}"
            pair(f"train {versus}", ours.name, name, "cpu_s", "CPU s", False)
            pair(f"F1, {versus}", ours.name, name, "f1", "F1", True)
    return [*found, *rates(out)]


def rates(out: Path) -> list[Comparison]:
    rows, found = read(out / "crfsuite-tag.csv"), []
    if not values(rows, "cpu_s", system=PEER):
        return found

    def rate(system: str, mode: str, clock: str) -> list[float]:
        return [
            float(r["tokens"]) / float(r[clock])
            for r in rows
            if (r["system"], r["mode"]) == (system, mode)
        ]

    for ours, theirs in (
        ("file to file", "file to file"),
        ("model loaded", "model loaded"),
        ("model loaded, two threads", "model loaded"),
    ):
        threads = ours != theirs  # CPU time cannot show what a second thread gains
        clocks = ["wall_s"] if threads else ["cpu_s", "wall_s"]
        a, b = ([rate(s, m, c) for c in clocks] for s, m in ((US, ours), (PEER, theirs)))
        unit = "tokens / s" if threads else "tokens / CPU s"
        wall = None if threads else (a[1], b[1])
        found.append(Comparison(f"tag, {ours}", PEER, unit, a[0], b[0], True, wall))
    memory = (values(rows, "peak_mb", system=s, mode="file to file") for s in (US, PEER))
    found.append(Comparison("tag, file to file, peak memory", PEER, "MB", *memory))
    return found


def names(rows: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in rows))


def plot(out: Path) -> None:
    curves, rows = read(out / "crfsuite-curves.csv"), read(out / "crfsuite-train.csv")
    if not rows:
        return
    best = max(values(curves, "best_dual"))
    plt, picture = figure(11, 4.4)
    left, right = picture.subplots(1, 2)
    for mark, method in zip(MARKS, names(curves), strict=False):
        mine = descent(curves, rows, method)
        x, gap = [cpu for cpu, _ in mine], [p - best for _, p in mine]
        color = PALETTE[US if method == SDCA.name else PEER]
        style = "--" if "all features" in method else ":" if "l2sgd" in method else "-"
        every = max(1, len(mine) // 8)
        left.loglog(x, gap, style, marker=mark, markevery=every, color=color, label=method, ms=5)
    plain(left.xaxis)
    left.set_xlabel("CPU seconds since the process began")
    left.set_ylabel("objective above the best certified bound")
    left.set_title("Training: the same objective P(w)", fontsize=10)
    left.grid(alpha=0.3)
    low, high = left.get_ylim()
    left.set_ylim(low / (high / low) ** 0.25, high)  # room for the legend
    left.legend(fontsize=7, loc="lower left", ncols=2)
    for i, method in enumerate(names(rows)):
        mine = [r for r in rows if r["method"] == method]
        cpu, f = statistics.median(values(mine, "cpu_s")), statistics.median(values(mine, "f1"))
        color = PALETTE[mine[0]["system"]]
        mark = MARKS[i % len(MARKS)]
        hollow = "all features" in method or "100 iter" in method or "compact" in method
        right.scatter(
            cpu, f, color="white" if hollow else color, edgecolors=color, marker=mark, label=method,
            s=50,
        )  # fmt: skip
    right.set_xscale("log")
    plain(right.xaxis)
    right.set_xlabel("CPU seconds of training, whole process")
    right.set_ylabel("F1 on the test file, %")
    right.set_title("Time and F1 (blue turbotag, orange python-crfsuite)", fontsize=10)
    right.grid(alpha=0.3)
    right.legend(fontsize=6.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(plt, picture, out / "crfsuite.png")


def section(out: Path) -> list[str]:
    rows, curves = read(out / "crfsuite-train.csv"), read(out / "crfsuite-curves.csv")
    if not rows:
        return []
    tags = read(out / "crfsuite-tag.csv")
    lines = [
        "CoNLL-2000 chunking, 19 templates with the same boundary marks on both sides, C = 1 (c2 "
        "= 0.5 for CRFsuite): both minimise |w|^2 / (2 n) + mean of the log losses. P is that, "
        "evaluated by turbotag at the weights of either; features that a model does not have weigh "
        "0. By default CRFsuite has only those pairs of attribute and label that occur in the "
        "training data, which cannot reach the optimum over all pairs; *all features* are its "
        "`possible_states` and `possible_transitions`, the space in which turbotag works. l2sgd is "
        f"stopped at {SGD_ITERATIONS} iterations (its default is 1000). F1 is that of `turbotag "
        "eval`. Whole processes, reading and features included; one thread.",
        "",
        f"![training]({out.name}/crfsuite.png)",
        "",
    ]
    body = []
    for method in names(rows):
        mine = [r for r in rows if r["method"] == method]
        primal = values(mine, "primal")
        columns = [spread(values(mine, c)) for c in ("cpu_s", "wall_s", "peak_mb", "model_mb")]
        f = f"{statistics.median(values(mine, 'f1')):.2f}"
        p = f"{statistics.median(primal):.6f}" if primal else "-"
        body.append([mine[0]["system"], method, len(mine), *columns, f, p])
    head = ["system", "method", "runs", "CPU s", "wall s", "peak MB", "model MB", "F1", "P"]
    lines += table(head, body)
    last = {r["method"]: float(r["primal"]) for r in curves if "lbfgs" in r["method"]}
    if last:
        off = max(abs(p - values(rows, "primal", method=m)[0]) for m, p in last.items())
        lines += [
            "The last objective that CRFsuite's lbfgs reports, over n, and P evaluated by turbotag "
            f"at the weights in its model file differ by {off:.1e} at most. l2sgd reports what it "
            "summed up while the weights changed: only the last point of its curve is P.",
            "",
        ]
    if not tags:
        return lines
    body = []
    for key in dict.fromkeys((r["system"], r["mode"]) for r in tags):
        mine = [r for r in tags if (r["system"], r["mode"]) == key]
        rate = [[float(r["tokens"]) / float(r[c]) for r in mine] for c in ("cpu_s", "wall_s")]
        memory = spread(values(mine, "peak_mb"))
        body.append([*key, len(mine), *(spread(x) for x in rate), memory])
    lines += [
        f"Tagging {short(float(tags[0]['tokens']))} tokens, from reading a file to writing one, "
        "with the start of the process or with the model loaded. python-crfsuite is given "
        "attributes that are made in Python, as in its tutorial; the section on scaling has its "
        "tagging alone.",
        "",
    ]
    head = ["system", "", "runs", "tokens / CPU s", "tokens / s (wall)", "peak MB"]
    return lines + table(head, body)
