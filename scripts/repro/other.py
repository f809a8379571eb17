"""Claims that no experiment is about: proven by tests, shown by other figures, or out of reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Claim, first_at, rows_of
from figures import groups
from problems import NAMES

PROVEN = [
    Claim(
        "Martins et al. 2010, abstract",
        "On the hinge loss DCA is 1-best MIRA.",
        True,
        "tests/optim/test_optimizers.py: the weights are equal bit for bit.",
    ),
    Claim(
        "Zhang, Saha and Vishwanathan 2011, section 4.3",
        "EGR can be run with kernels.",
        True,
        "tests/structures/test_kernel_problem.py: the linear kernel gives the plain form, "
        "polynomial and RBF kernels train. Small data only, and not from the command line.",
    ),
]
ABSENT = [
    Claim(
        "Martins et al. 2010; Globerson et al. 2007; Collins et al. 2008; Le Priol et al. 2018",
        "The figures themselves, on English CoNLL-2003, CoNLL-2008 and CoNLL-X Slovene, WSJ "
        "parts of speech and MNIST.",
        None,
        "The corpora need licences and are not here; `scripts/data` converts a user's "
        "own copies, and the experiments take CoNLL-2003 when it is there. Dutch CoNLL-2002, UD "
        "treebanks and the UCI digits stand in for them.",
    )
]


def claims(out: Path) -> list[Claim]:
    return [*PROVEN, *stochastic(out), *sampled(out), *loopy(out), *ABSENT]


def stochastic(out: Path) -> list[Claim]:
    """SAG-NUS and SDCA by their curves (sdca-methods)."""
    first, words, rates, fits = [], [], [], []
    for corpus, rows in groups(rows_of(out, "sdca-methods"), "corpus").items():
        least = max(r["best_dual"] for r in rows)
        by = groups(rows, "optimizer")
        x = [first_at(by[name], "primal", least + 0.1, "passes") for name in ("sag-nus", "lbfgs")]
        first.append(x[0] < x[1])
        words.append(f"{NAMES[corpus]} {x[0]:.3g} against {x[1]:.3g}")
        curve = [r for r in by["sdca-gap"] if r["primal"] - least > 1e-6]
        late = curve[len(curve) // 3 :]
        y = np.log([r["primal"] - least for r in late])
        line = np.polyfit([r["passes"] for r in late], y, 1)
        left = y - np.polyval(line, [r["passes"] for r in late])
        fits.append(1.0 - left.var() / y.var())
        rates.append(f"{NAMES[corpus]} {np.exp(line[0]):.2f} (R^2 {fits[-1]:.3f})")
    if not first:
        return []
    return [
        Claim(
            "Schmidt et al. 2015, abstract",
            "SAG with non-uniform sampling outperforms L-BFGS in the training objective.",
            all(first),
            f"Passes to suboptimality 0.1, SAG-NUS against L-BFGS: {'; '.join(words)}.",
        ),
        Claim(
            "Le Priol et al. 2018, abstract",
            "SDCA converges linearly.",
            bool(min(fits) > 0.95),
            "Factor of the suboptimality with each pass of SDCA with gap sampling, fitted over "
            f"the last two thirds of its curve: {'; '.join(rates)}. It shows if all R^2 are above "
            "0.95.",
        ),
    ]


def sampled(out: Path) -> list[Claim]:
    """SAG-NUS to an optimum (docs/optimizers)."""
    rows = rows_of(out.parent / "optimizers", "table-conll2000")
    calls = {(r["loss"], r["optimizer"]): r["oracle_calls"] for r in rows}
    ratio = {
        loss: calls[loss, "sag"] / calls[loss, "sag-nus"]
        for loss, name in calls
        if name == "sag" and (loss, "sag-nus") in calls
    }
    if not ratio:
        return []
    return [
        Claim(
            "Schmidt et al. 2015, abstract",
            "Non-uniform sampling substantially improves SAG.",
            min(ratio.values()) > 1.5,
            "Oracle calls of SAG over those of SAG-NUS to a certified gap of 1e-6 on "
            f"{rows[0]['sentences']:.0f} sentences of CoNLL-2000 (docs/optimizers.md): "
            + ", ".join(f"{loss} {x:.1f}" for loss, x in ratio.items())
            + ". It shows if all are above 1.5.",
        )
    ]


def loopy(out: Path) -> list[Claim]:
    by = groups(rows_of(out, "dca-parse"), "corpus", "model", "optimizer")
    last = {c: by[c, "bethe", "dca"][-1] for c, model, _ in by if model == "bethe"}
    if not last:
        return []
    cost = {
        c: r["cpu_seconds"] / max(by[c, "first order", "dca"][-1]["cpu_seconds"], 1e-3)
        for c, r in last.items()
    }
    rounds = ", ".join(f"{r['rounds']:.0f}" for r in last.values())
    return [
        Claim(
            "Smith and Eisner 2008, abstract",
            "Belief propagation parses second-order models in the time of first-order ones up to "
            "a small constant.",
            max(cost.values()) < 10.0,
            "CPU seconds of training (8 epochs, with scoring of dev), Bethe over first order: "
            + ", ".join(f"{NAMES[c]} {x:.1f}" for c, x in cost.items())
            + f"; mean rounds in the last epoch: {rounds}. Both on the same pruned arcs. It shows "
            "if all are below 10.",
        )
    ]
