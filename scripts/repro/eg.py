"""Globerson et al. 2007, figures 3 and 4: EG, CG, L-BFGS by effective iterations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common import Claim, first_at, rows_of, shown
from figures import Row, groups, table
from measure import Setting
from plots import draw
from problems import Methods, Task, primal_of, race, slovene

from turbotag.training.options import options_for
from turbotag.training.tagger import problem

TITLE = "Exponentiated gradient against CG and L-BFGS"
SOURCE = "Globerson et al. 2007"
PUBLISHED = "eg-batch, published"
METHODS: Methods = {
    "eg": ("eg", {}),
    PUBLISHED: ("eg-batch", {"accelerate": "no"}),
    "eg-batch": ("eg-batch", {}),
    "cg": ("cg", {}),
    "lbfgs": ("lbfgs", {}),
}
NAMES = {
    "projective": "Slovene, projective",
    "nonprojective": "Slovene, non-projective",
    "digits": "Digits, multiclass",
}
LEVELS = (1e-1, 1e-2, 1e-3)  # of the objective, relative to the optimum
CLOSE = 0.5  # points of accuracy below that of the optimum that count as there


def digits(setting: Setting) -> Task:
    """8 x 8 images of ten digits (UCI, Alpaydin and Kaynak 1998), as scikit-learn carries them:
    sequences of one letter, with the intensities as features."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    lines = [
        "\t".join([str(y), *(f"p{i}:{v / 16:g}" for i, v in enumerate(x) if v)])
        for x, y in zip(images, labels, strict=True)
    ]
    cut = len(lines) * 4 // 5
    train, test = ("\n\n".join(x).encode() + b"\n" for x in (lines[:cut], lines[cut:]))
    options = options_for("pos", train, template="attributes-bias", format="crfsuite")
    return Task(setting, problem(options), {"test": test})


def problems(setting: Setting) -> dict[str, tuple[Task, float]]:
    """Each problem with its C."""
    found: dict[str, tuple[Task, float]] = {}
    if setting.has("slovene"):
        for decoder in ("projective", "nonprojective"):
            found[decoder] = slovene(setting, decoder), 0.1
    try:
        found["digits"] = digits(setting), 1.0
    except ImportError:
        setting.skip(
            "digits: 1,797 handwritten digits (UCI); scikit-learn carries them: `pip install -e "
            "'.[bench]'`."
        )
    return found


def run(setting: Setting) -> None:
    rows, optima = [], []
    for name, (task, C) in problems(setting).items():
        best = task.optimizer("sdca", C)
        for _ in range(setting.pick(3, 60, 100)):
            best.epoch()
            if best.gap_estimate() < 1e-6:
                break
        proof = best.certify()

        def measure(opt: Any, task: Any = task) -> Row:
            return {"primal": primal_of(opt), "accuracy": task.score(opt.weights(), "test")}

        found = {"primal": proof.primal, "dual": proof.dual, "accuracy": measure(best)["accuracy"]}
        optima.append({"problem": name, "C": C, **found})
        print(optima[-1], flush=True)
        for row in race(task, METHODS, measure, 10_000, C, passes=setting.pick(3, 40, 200)):
            rows.append({"problem": name, **row})
    setting.write("eg", rows)
    setting.write("eg-optimum", optima)


def optimum(out: Path, column: str) -> dict[str, float]:
    """Of each problem: `dual`, a certified lower bound of the least objective, or `accuracy`."""
    return {r["problem"]: r[column] for r in rows_of(out, "eg-optimum")}


def plot(out: Path) -> None:
    least, objectives, accuracies = optimum(out, "dual"), [], []
    for name, rows in groups(rows_of(out, "eg"), "problem").items():
        curves, scores = {}, {}
        for label, mine in groups(rows, "optimizer").items():
            x = [r["passes"] for r in mine]
            curves[label] = x, [max(r["primal"] / least[name] - 1.0, 1e-8) for r in mine]
            scores[label] = x, [r["accuracy"] for r in mine]
        unit, measure = "effective iterations", "accuracy, %" if name == "digits" else "UAS, %"
        objectives.append((NAMES[name], unit, "objective / optimum - 1", curves))
        accuracies.append((NAMES[name], unit, f"test {measure}", scores))
    draw(out / "eg-objective.png", objectives, logy=True)
    draw(out / "eg-accuracy.png", accuracies, below_best=25.0)


def reached(out: Path) -> dict[tuple[str, str], list[float]]:
    """Passes of each method to each level of the objective, then to good accuracy."""
    least, final, found = optimum(out, "dual"), optimum(out, "accuracy"), {}
    for (name, label), mine in groups(rows_of(out, "eg"), "problem", "optimizer").items():
        found[name, label] = [
            *(first_at(mine, "primal", least[name] * (1 + v), "passes") for v in LEVELS),
            first_at(mine, "accuracy", final[name] - CLOSE, "passes", False),
        ]
    return found


def section(out: Path) -> str:
    by = groups(rows_of(out, "eg"), "problem", "optimizer")
    rows = []
    for (name, label), found in reached(out).items():
        last = by[name, label][-1]
        end = f"{last['accuracy']:.2f}", f"{last['cpu_seconds']:.0f}"
        rows.append([NAMES[name], label, *map(shown, found), *end])
    C = ", ".join(f"{NAMES[r['problem']]} {r['C']:g}" for r in rows_of(out, "eg-optimum"))
    head = [f"passes to objective within {LEVELS[0]:.0e}", *(f"{v:.0e}" for v in LEVELS[1:])]
    head += [f"to accuracy within {CLOSE} of the optimum's", "last accuracy", "CPU s"]
    return (
        f"crf loss; C: {C}. An effective iteration is n oracle calls, those of line searches "
        "included. The optimum is certified by SDCA. eg-batch is our accelerated form; "
        '"published" the one of Collins et al. 2008. Accuracy of trees is UAS without PUNCT.\n\n'
        + table(["problem", "", *head], rows)
    )


def claims(out: Path) -> list[Claim]:
    found = reached(out)
    names = list(dict.fromkeys(name for name, _ in found))

    def compare(k: int) -> tuple[bool, str]:
        words, all_first = [], True
        for name in names:
            eg, cg, lbfgs = (found[name, label][k] for label in ("eg", "cg", "lbfgs"))
            all_first &= eg < min(cg, lbfgs)
            words.append(f"{NAMES[name]} {eg:.3g} against {cg:.3g} (CG), {lbfgs:.3g} (L-BFGS)")
        return all_first, "; ".join(words)

    middle, words = compare(1)
    accuracy, accuracy_words = compare(len(LEVELS))
    pairs = {n: (found[n, "eg"][1], found[n, PUBLISHED][1]) for n in names}
    batch = "; ".join(f"{NAMES[n]} {a:.3g} against {b:.3g}" for n, (a, b) in pairs.items())
    return [
        Claim(
            f"{SOURCE}, abstract and figure 3",
            "EG converges much faster than CG and L-BFGS in the objective.",
            middle,
            f"Passes until within {LEVELS[1]:g} of the optimum: {words} (inf: not in this run).",
        ),
        Claim(
            f"{SOURCE}, abstract and figure 4",
            "EG converges much faster than CG and L-BFGS in test accuracy.",
            accuracy,
            f"Passes until within {CLOSE} points of the accuracy at the optimum: {accuracy_words}.",
        ),
        Claim(
            "Collins et al. 2008",
            "Online EG converges faster than batch EG.",
            all(a < b for a, b in pairs.values()),
            f"Passes until within {LEVELS[1]:g} of the optimum, online against published batch: "
            f"{batch}.",
        ),
    ]
