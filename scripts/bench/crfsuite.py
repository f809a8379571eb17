"""CoNLL-2000 chunking against python-crfsuite: training to equal objective, F1, tagging, memory."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Row, groups, read, short, spread, table, values
from measure import Setting, evaluate, rounds, run, scratch, some, turbotag
from peers import (
    CRFSUITE,
    LOADED,
    THREADS,
    US,
    WHOLE,
    Comparison,
    Sides,
    files,
    installed,
    speed_table,
    speeds,
    worker,
)
from plots import draw
from workers import read_columns

from turbotag.models.pipeline import load_model

TITLE = "Chunking: python-crfsuite"
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

    def model(self, at: Path) -> Path:
        return at / self.name.replace(" ", "-").replace(",", "")

    def train(self, source: Path, model: Path, *more: object) -> list[str]:
        if self.system == CRFSUITE:
            algorithm, options = self.name.split(",")[0], json.dumps(self.options)
            return worker("crfsuite_train", source, model, algorithm, options)
        given = ["--task", "chunk", "--template", "conll2000", "--train", source, "-q"]
        given.append("--no-calibration")  # CRFsuite has none
        return turbotag("train", *given, *self.options, *more, "-o", model)


OURS = [
    Method(US, "sdca to a gap of 1e-4", ["-C", C, "--stop-gap", GAP], convex=True),
    Method(US, "sdca, --compact file", ["-C", C, "--stop-gap", GAP, "--compact"], long=True),
    Method(US, "perceptron, 10 epochs", ["--algorithm", "perceptron", "--loss", "perceptron"]),
    Method(US, "mira, 10 epochs", ["--algorithm", "mira", "--loss", "svm"]),
    Method(US, "dca, 10 epochs", ["--algorithm", "dca"]),
]
SDCA, COMPACT, *ONLINE = OURS
SGD = {**L2, "max_iterations": SGD_ITERATIONS}
CONVEX = {
    "lbfgs": L2,
    "lbfgs, all features": {**L2, **ALL},
    f"l2sgd, {SGD_ITERATIONS} iterations": SGD,
    f"l2sgd, all features, {SGD_ITERATIONS} iterations": {**SGD, **ALL},
}
RIVALS = ("ap", "pa", "arow")  # of those of ours that learn online
TEN = {"max_iterations": 10}
THEIRS = [
    *(Method(CRFSUITE, name, options, True, True) for name, options in CONVEX.items()),
    *(Method(CRFSUITE, f"{a}, 100 iterations", {}, long=True) for a in RIVALS),
    *(Method(CRFSUITE, f"{a}, 10 iterations", TEN) for a in RIVALS),
]
LBFGS = THEIRS[0]


def measure(setting: Setting) -> None:
    if not setting.has("conll2000"):
        return
    folder = setting.data / "conll2000"
    methods = [*OURS, *(THEIRS if installed(setting, CRFSUITE) else [])]
    with scratch() as at:
        most = setting.pick(300, None)
        train, test = (some(folder / f, 1, at / f, most) for f in ("train.txt", "test.txt"))
        big = at / "big.txt"
        big.write_bytes(test.read_bytes() * COPIES)
        warm_up(some(test, 1, at / "few.txt", 100), at / "warm")
        race(setting, methods, train, test, at)
        plans = {
            (US, SDCA.name, WHOLE): turbotag("predict", SDCA.model(at), big, "-o", at / "a"),
            (US, SDCA.name, LOADED): worker("turbotag_predict", SDCA.model(at), big, at / "a", 1),
            (US, SDCA.name, THREADS): worker("turbotag_predict", SDCA.model(at), big, at / "c", 2),
        }
        if LBFGS in methods:
            theirs = worker("crfsuite_tag", LBFGS.model(at), big, at / "b")
            plans[CRFSUITE, LBFGS.name, LOADED] = theirs
        words = sum(map(len, read_columns(str(big))))
        setting.write("crfsuite-tag", files(plans, words, setting.repeats))
        assert (at / "a").read_bytes() == (at / "c").read_bytes(), "threads change what is tagged"


def warm_up(few: Path, model: Path) -> None:
    """Compile the kernels, as happens once after installation."""
    for method in OURS:
        run(method.train(few, model, "--epochs", 1))
        run(turbotag("eval", "--model", model, few))
        run(turbotag("predict", model, few, "--threads", 2))


def race(setting: Setting, methods: list[Method], train: Path, test: Path, at: Path) -> None:
    rows: list[Row] = []
    curves: list[Row] = []
    n = len(read_columns(str(train)))
    for repeat, method in rounds(
        {m: setting.long_repeats if m.long else setting.repeats for m in methods}
    ):
        model = method.model(at)
        done = run(method.train(train, model))
        key = {"system": method.system, "method": method.name}
        row = {**key, "repeat": repeat, **done.usage()}
        row |= {"model_mb": model.stat().st_size / 1e6, "f1": f1(method, model, test, at)}
        if method.convex:
            row |= objective(method, model, train)
        rows.append(row)
        print(row, flush=True)
        if repeat == 0 and method.convex:
            peer = method.system == CRFSUITE
            found = done.json() if peer else run(worker("turbotag_curve", train, C, GAP)).json()
            for step, (cpu, loss) in enumerate(found["curve"], 1):
                point = {"step": step, "cpu_s": round(cpu, 3)}
                point["primal"] = loss / n if peer else loss  # CRFsuite's losses are sums
                curves.append({**key, **point, "best_dual": found.get("dual")})
    setting.write("crfsuite-train", rows)
    setting.write("crfsuite-curves", curves)


def f1(method: Method, model: Path, test: Path, at: Path) -> float:
    if method.system == US:
        found = evaluate("--model", model, test)
    else:
        run(worker("crfsuite_tag", model, test, at / "tagged"))
        found = evaluate(test, at / "tagged")
    return round(100 * found["f1"], 3)


def objective(method: Method, model: Path, train: Path) -> Row:
    """P by a full pass at the weights, whoever found them."""
    if method.system == CRFSUITE:
        return run(worker("crfsuite_objective", train, model, C)).json()
    certificate = load_model(str(model)).header["certificate"]
    return {k: certificate[k] for k in ("primal", "dual")}


# ---- The page ------------------------------------------------------------------------------------


def descents(out: Path) -> dict[str, list[tuple[float, float]]]:
    """(CPU seconds, P) of each training. The last P is the one evaluated at the weights of the
    model: l2sgd itself reports what it summed up while the weights changed, which is more."""
    rows, found = read(out / "crfsuite-train.csv"), {}
    for method, mine in groups(read(out / "crfsuite-curves.csv"), "method").items():
        found[method] = [(r["cpu_s"], r["primal"]) for r in mine]
        found[method][-1] = found[method][-1][0], values(rows, "primal", method=method)[0]
    return found


def comparisons(out: Path) -> Iterator[Comparison]:
    rows = read(out / "crfsuite-train.csv")
    if not values(rows, "cpu_s", system=CRFSUITE):
        return
    curves = descents(out)
    ours = curves.pop(SDCA.name)
    for method, theirs in curves.items():
        target = max(ours[-1][1], theirs[-1][1])  # the worse of the two ends: both reach it
        a, b = (next(cpu for cpu, p in d if p <= target) for d in (ours, theirs))
        what = f"train to P = {target:.5f}, against {method}"
        yield Comparison(what, CRFSUITE, "CPU s", [a], [b])

    def against(a: Method, b: Method) -> Sides:
        return Sides(rows, CRFSUITE, {"method": a.name}, {"method": b.name})

    sdca, everything = against(SDCA, LBFGS), THEIRS[1]
    yield sdca.compare("train sdca, whole process, against lbfgs", "cpu_s", "CPU s")
    yield sdca.compare("train sdca, peak memory, against lbfgs", "peak_mb", "MB")
    what = f"train sdca, peak memory, against {everything.name}"
    yield against(SDCA, everything).compare(what, "peak_mb", "MB")
    yield sdca.compare("model file, sdca against lbfgs", "model_mb", "MB")
    compact = against(COMPACT, LBFGS)
    yield compact.compare("model file, --compact against lbfgs", "model_mb", "MB")
    yield compact.compare("F1, --compact against lbfgs", "f1", "F1", True)
    for method in THEIRS[:4]:
        what = f"F1, sdca against {method.name}"
        yield against(SDCA, method).compare(what, "f1", "F1", True)
    for mine, name in zip(ONLINE, RIVALS, strict=True):
        for method in THEIRS:
            if method.name.startswith(f"{name},"):
                versus, sides = f"{mine.name} against {method.name}", against(mine, method)
                yield sides.compare(f"train {versus}", "cpu_s", "CPU s")
                yield sides.compare(f"F1, {versus}", "f1", "F1", True)
    yield from speeds(read(out / "crfsuite-tag.csv"), "tag", CRFSUITE, SDCA.name)


def plot(out: Path) -> None:
    rows = read(out / "crfsuite-train.csv")
    best = max(values(read(out / "crfsuite-curves.csv"), "best_dual"))

    def label(method: str) -> str:
        return method if method == SDCA.name else f"{method} (dashed)"

    curves = {
        label(m): ([cpu for cpu, _ in d], [p - best for _, p in d])
        for m, d in descents(out).items()
    }
    points = {
        method: ([statistics.median(values(r, "cpu_s"))], [statistics.median(values(r, "f1"))])
        for method, r in groups(rows, "method").items()
    }
    panels = [
        ("Training: the same objective P(w); peers dashed", "CPU seconds since the process began",
         "objective above the best certified bound", curves),
    ]  # fmt: skip
    draw(out / "crfsuite-objective.png", panels, logx=True, logy=True)
    panels = [("Time and F1", "CPU seconds of training", "F1 on the test file, %", points)]
    draw(out / "crfsuite-f1.png", panels, logx=True)


def section(out: Path) -> str:
    rows, tags = read(out / "crfsuite-train.csv"), read(out / "crfsuite-tag.csv")
    body = []
    for (system, method), mine in groups(rows, "system", "method").items():
        columns = [spread(values(mine, c)) for c in ("cpu_s", "wall_s", "peak_mb", "model_mb")]
        f = f"{statistics.median(values(mine, 'f1')):.2f}"
        primal = values(mine, "primal")
        p = f"{statistics.median(primal):.6f}" if primal else "-"
        body.append([system, method, len(mine), *columns, f, p])
    head = ["system", "method", "runs", "CPU s", "wall s", "peak MB", "model MB", "F1", "P"]
    paragraphs = [
        "CoNLL-2000 chunking, 19 templates with the same boundary marks on both sides, C = 1 (c2 "
        "= 0.5 for CRFsuite): both minimise |w|^2 / (2 n) + mean of the log losses. P is that, "
        "evaluated by turbotag at the weights of either; features that a model does not have weigh "
        "0. By default CRFsuite has only those pairs of attribute and label that occur in the "
        "training data, which cannot reach the optimum over all pairs; *all features* are its "
        "`possible_states` and `possible_transitions`, the space in which turbotag works. l2sgd is "
        f"stopped at {SGD_ITERATIONS} iterations (its default is 1000). F1 is that of `turbotag "
        "eval`. Whole processes, reading and features included; one thread.",
        table(head, body),
    ]
    curves = read(out / "crfsuite-curves.csv")
    last = {r["method"]: r["primal"] for r in curves if r["method"].startswith("lbfgs")}
    if last:
        off = max(abs(p - values(rows, "primal", method=m)[0]) for m, p in last.items())
        paragraphs.append(
            "The last objective that CRFsuite's lbfgs reports, over n, and P evaluated by turbotag "
            f"at the weights in its model file differ by {off:.1e} at most. l2sgd reports what it "
            "summed up while the weights changed: only the last point of its curve is P."
        )
    if tags:
        paragraphs += [
            f"Tagging {short(tags[0]['words'])} words, from reading a file to writing one, with "
            "the start of the process or with the model loaded. python-crfsuite is given "
            "attributes that are made in Python, as in its tutorial; the section on scaling has "
            "its tagging alone.",
            speed_table(tags),
        ]
    return "\n\n".join(paragraphs)
