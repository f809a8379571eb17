"""Martins et al. 2010, table 1: F1 and UAS over the loss family, at the best C on dev."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from common import Claim, rows_of
from figures import Row, chosen, groups, table
from measure import Setting, scratch, some
from plots import draw
from problems import NAMES, Task, parsing, tagging

from turbotag.corpus import schemes

TITLE = "The loss family"
SOURCE = "Martins et al. 2010"
BETAS, GAMMAS = (1.0, 3.0, 5.0, math.inf), (0.0, 1.0, 3.0, 5.0)
DRAWS = 10_000
CRF, SVM = (1.0, 0.0), (math.inf, 1.0)
Loss = tuple[float, float]


class Entities:
    """F1 of entities. `counts` are twice the correct ones, and gold plus predicted: F1 is a ratio
    of sums, so sums over sentences are all that a randomization test needs."""

    measure = "F1"
    Cs = (0.1, 1.0, 10.0)

    def __init__(self, setting: Setting, corpus: str, loss: Loss):
        self.task = tagging(setting, corpus, beta=loss[0], gamma=loss[1])

    def counts(self, W: np.ndarray) -> np.ndarray:
        test = self.task.scorer("test")
        gold, (strings, ids) = test.dev, test.tags(W)
        sentences = gold.block.sentences
        tags = schemes.parse(gold.strings)
        assert tags is not None
        mine = schemes.parse(strings, tags.types)
        assert mine is not None
        spans = [
            schemes.spans(p.prefix[i], p.type[i], sentences).keys()
            for p, i in ((tags, gold.ids), (mine, ids))
        ]
        found = np.zeros((sentences.size - 1, 2))
        for which in spans:
            np.add.at(found[:, 1], owner(which, sentences), 1)
        np.add.at(found[:, 0], owner(spans[0] & spans[1], sentences), 2)
        return found


def owner(spans: Any, sentences: np.ndarray) -> np.ndarray:
    """The sentence of each span."""
    starts = np.array(sorted(s[0] for s in spans), np.int64)
    return np.searchsorted(sentences, starts, side="right") - 1


class Heads:
    """UAS without PUNCT; counts are right heads and words."""

    measure = "UAS"
    Cs = (0.01, 0.03, 0.1)

    def __init__(self, setting: Setting, corpus: str, loss: Loss):
        folder = setting.data / corpus
        with scratch() as at:
            train = folder / "train.conllu"
            if setting.size != "full":
                train = some(train, 4, at / "quarter.conllu")
            held_out = {part: folder / f"{part}.conllu" for part in ("dev", "test")}
            self.task = parsing(setting, train, held_out, beta=loss[0], gamma=loss[1])

    def counts(self, W: np.ndarray) -> np.ndarray:
        test = self.task.scorer("test")
        bank = test.bank
        words = np.array([u != "PUNCT" for u in bank.block.strings(3)])
        right = (test.heads(W) == bank.heads) & words
        starts = bank.sentences[:-1]
        return np.stack([np.add.reduceat(x.astype(float), starts) for x in (right, words)], axis=1)


def run(setting: Setting) -> None:
    """The C of each loss by dev score with one seed; then, at that C, several other seeds.

    The seeds vary the order of the sentences. A randomization test (Noreen 1989) swaps the outputs
    of two losses in random sentences, in all seeds at once, and counts how often the difference of
    the test scores is at least as large as the one observed.
    """
    dev: list[Row] = []
    test: list[Row] = []
    tests: list[Row] = []
    for corpus, kind in (("conll2002-nl", Entities), ("conll2003", Entities), ("ewt", Heads)):
        if setting.has(corpus):
            counts = grid(setting, corpus, kind, dev, test)
            tests += significance(setting, corpus, counts, test)
    setting.write("losses-dev", dev)
    setting.write("losses-test", test)
    setting.write("losses-significance", tests)


def grid(
    setting: Setting, corpus: str, kind: Any, dev: list[Row], test: list[Row]
) -> dict[Loss, np.ndarray]:
    """Train every loss; its rows go to `dev` and `test`, its (seeds, sentences, 2) counts back."""
    epochs = setting.pick(1, 6, 10)
    seeds = range(setting.seed + 1, setting.seed + 1 + setting.pick(2, 4, 5))
    every = [(b, g) for b in BETAS for g in GAMMAS]
    found = {}

    def trained(task: Task, C: float, seed: int) -> np.ndarray:
        opt = task.optimizer("dca", C, seed)
        for _ in range(epochs):
            opt.epoch()
        return opt.weights()

    for loss in setting.pick([CRF, SVM, (3.0, 1.0)], every):
        suite = kind(setting, corpus, loss)
        task = suite.task
        key = {"corpus": corpus, "measure": suite.measure, "beta": loss[0], "gamma": loss[1]}
        scores = {C: task.score(trained(task, C, setting.seed), "dev") for C in suite.Cs}
        dev += [{**key, "C": C, "dev": x} for C, x in scores.items()]
        best = max(scores, key=lambda C: scores[C])
        counts = []
        for seed in seeds:
            W = trained(task, best, seed)
            counts.append(suite.counts(W))
            of_test = 100 * counts[-1][:, 0].sum() / counts[-1][:, 1].sum()
            of_dev = task.score(W, "dev")
            test.append({**key, "C": best, "seed": seed, "dev": of_dev, "test": of_test})
        found[loss] = np.stack(counts)
        print(test[-1], flush=True)
    return found


def significance(
    setting: Setting, corpus: str, counts: dict[Loss, np.ndarray], test: list[Row]
) -> list[Row]:
    """The loss that is best on dev against every other."""
    by = groups(chosen(test, corpus=corpus), "beta", "gamma")
    best = max(counts, key=lambda loss: np.mean([r["dev"] for r in by[loss]]))
    rng, rows = np.random.default_rng(setting.seed), []
    for other in counts:
        if other != best:
            difference, p = randomization(counts[best], counts[other], rng)
            row = {"corpus": corpus, "beta": best[0], "gamma": best[1]}
            row |= {"other_beta": other[0], "other_gamma": other[1]}
            rows.append({**row, "difference": difference, "p": p})
    return rows


def randomization(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """(difference of the scores in points, p) of two (seeds, sentences, 2) counts."""

    def score(x: np.ndarray) -> np.ndarray:
        return np.mean(100 * x[..., 0] / x[..., 1], axis=0)  # over seeds

    sum_a, sum_b, d = a.sum(axis=1), b.sum(axis=1), b - a
    observed = float(score(sum_a) - score(sum_b))
    swap = rng.random((DRAWS, a.shape[1])) < 0.5
    moved = np.einsum("ds,ksc->kdc", swap.astype(float), d)
    found = score(sum_a[:, None] + moved) - score(sum_b[:, None] - moved)
    extreme = int((np.abs(found) >= abs(observed) - 1e-12).sum())
    return observed, (extreme + 1) / (DRAWS + 1)


def means(rows: list[Row]) -> dict[Any, tuple[float, float, float]]:
    """Of each loss: mean test score, its standard deviation over seeds, and C."""
    found = {}
    for loss, mine in groups(rows, "beta", "gamma").items():
        test = [r["test"] for r in mine]
        found[loss] = float(np.mean(test)), float(np.std(test, ddof=1)), mine[0]["C"]
    return found


def plot(out: Path) -> None:
    panels = []
    for (corpus, measure), rows in groups(rows_of(out, "losses-test"), "corpus", "measure").items():
        lines: dict[str, Any] = {}
        for (b, g), (mean, _, _) in means(rows).items():
            x, y = lines.setdefault(f"beta = {b:g}", ([], []))
            x.append(g)
            y.append(mean)
        title = f"{NAMES[corpus]}, test"
        panels.append((title, "gamma (weight of the cost)", f"mean {measure}, %", lines))
    draw(out / "losses.png", panels, below_best=1.5)


def section(out: Path) -> str:
    parts = [
        "DCA with averaging; C is the best of three on dev with one seed, then other seeds (the "
        "order of the sentences) train at that C. Cells: mean test score over those seeds, "
        "standard deviation, C. beta = 1, gamma = 0 is the CRF; beta = inf, gamma = 1 the SVM; "
        "at beta = inf, gamma = 0 (the perceptron) the loss of zero weights is zero, and DCA "
        "stays there: its cell is the score of an untrained model."
    ]
    for (corpus, measure), rows in groups(rows_of(out, "losses-test"), "corpus", "measure").items():
        found = means(rows)
        betas, gammas = (list(dict.fromkeys(loss[i] for loss in found)) for i in (0, 1))
        cells = {loss: f"{m:.2f} ± {s:.2f} ({C:g})" for loss, (m, s, C) in found.items()}
        body = [[f"beta = {b:g}", *(cells.get((b, g), "") for g in gammas)] for b in betas]
        parts.append(f"**{NAMES[corpus]}**, {measure} on test:")
        parts.append(table(["", *(f"gamma = {g:g}" for g in gammas)], body))
        tests = chosen(rows_of(out, "losses-significance"), corpus=corpus)
        words = ", ".join(
            f"({r['other_beta']:g}, {r['other_gamma']:g}) {r['difference']:+.2f}, p = {r['p']:.3g}"
            for r in sorted(tests, key=lambda r: r["p"])
        )
        b, g = tests[0]["beta"], tests[0]["gamma"]
        parts.append(
            f"Best on dev: beta = {b:g}, gamma = {g:g}. Its test score minus that of each other "
            f"(beta, gamma), paired randomization test with {DRAWS:,} draws, not corrected for "
            f"the number of tests: {words}."
        )
    return "\n\n".join(parts)


def claims(out: Path) -> list[Claim]:
    verdicts, words = [], []
    measures = {r["corpus"]: r["measure"] for r in rows_of(out, "losses-test")}
    for corpus, tests in groups(rows_of(out, "losses-significance"), "corpus").items():
        best = tests[0]["beta"], tests[0]["gamma"]
        ends = {
            name: next(r for r in tests if (r["other_beta"], r["other_gamma"]) == loss)
            for name, loss in (("CRF", CRF), ("SVM", SVM))
            if loss != best
        }
        said = ", ".join(
            f"{r['difference']:+.2f} {measures[corpus]} over the {name} (p = {r['p']:.2g})"
            for name, r in ends.items()
        )
        words.append(
            f"{NAMES[corpus]}: best on dev beta = {best[0]:g}, gamma = {best[1]:g}, {said}"
        )
        clear = all(r["difference"] > 0 and r["p"] < 0.05 for r in ends.values())
        verdicts.append((clear or None) if len(ends) == 2 else False)
    return [
        Claim(
            f"{SOURCE}, table 1",
            "The best loss is neither the CRF's nor the SVM's but another member of the family.",
            False if False in verdicts else None if None in verdicts else True,
            "; ".join(words) + ". It shows where both differences are positive and p < 0.05.",
        )
    ]
