"""Martins et al. 2010, table 1: F1 and UAS over the loss family, at the best C on dev."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from bench_parser import every_fourth
from common import (
    NAMES,
    SHOWS,
    SHOWS_NOT,
    UNKNOWN,
    Claim,
    Parsing,
    Row,
    Setting,
    Tagging,
    draw,
    groups,
    rows_of,
    table,
)

from turbotag.corpus import schemes
from turbotag.models.parser_training import words_of

TITLE = "The loss family"
SOURCE = "Martins et al. 2010"
BETAS, GAMMAS = (1.0, 3.0, 5.0, math.inf), (0.0, 1.0, 3.0, 5.0)
DRAWS = 10_000
CRF, SVM = (1.0, 0.0), (math.inf, 1.0)


class Entities:
    """F1 of entities. `counts` are twice the correct ones, and gold plus predicted: F1 is a ratio
    of sums, so sums over sentences are all that a randomization test needs."""

    measure = "F1"
    Cs = (0.1, 1.0, 10.0)

    def __init__(self, setting: Setting, corpus: str):
        self.task = Tagging(setting, corpus)

    def score(self, W: np.ndarray, part: str) -> float:
        return 100 * self.task.score(W, part).main

    def counts(self, W: np.ndarray) -> np.ndarray:
        scorer = self.task.held_out["test"]
        tagger, sentences = scorer.tagger, scorer.dev.block.sentences
        tagger.set_weights(W.astype(np.float32))
        tags = tagger.viterbi(tagger.score_rows(scorer.rows), sentences)
        strings, ids = tagger.output_labels(tags, sentences)
        found = np.zeros((sentences.size - 1, 2))
        gold = schemes.parse(scorer.dev.strings)
        assert gold is not None
        mine = schemes.parse(strings, gold.types)
        assert mine is not None
        spans = [
            schemes.spans(p.prefix[i], p.type[i], sentences).keys()
            for p, i in ((gold, scorer.dev.ids), (mine, ids))
        ]
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

    def __init__(self, setting: Setting, corpus: str):
        folder = setting.data / corpus
        with tempfile.TemporaryDirectory() as scratch:
            train = folder / "train.conllu"
            if setting.size != "full":
                train = Path(scratch) / "quarter.conllu"
                every_fourth(folder / "train.conllu", train)
            held_out = {part: folder / f"{part}.conllu" for part in ("dev", "test")}
            self.task = Parsing(setting, train, held_out)

    def score(self, W: np.ndarray, part: str) -> float:
        return 100 * self.task.score(W, part)

    def counts(self, W: np.ndarray) -> np.ndarray:
        bank = self.task.held_out["test"][0]
        words = np.array([u != "PUNCT" for u in words_of(bank.block)[1] or ()])
        right = (self.task.trees(W, "test") == bank.heads) & words
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
            suite = kind(setting, corpus)
            counts = grid(setting, corpus, suite, dev, test)
            tests += significance(setting, corpus, counts, test)
    setting.write("losses-dev", dev)
    setting.write("losses-test", test)
    setting.write("losses-significance", tests)


def grid(
    setting: Setting, corpus: str, suite: Any, dev: list[Row], test: list[Row]
) -> dict[tuple[float, float], np.ndarray]:
    """Train every loss; its rows go to `dev` and `test`, its (seeds, sentences, 2) counts back."""
    problem, epochs = suite.task.problem, setting.pick(1, 6, 10)
    seeds = range(setting.seed + 1, setting.seed + 1 + setting.pick(2, 4, 5))
    every = [(b, g) for b in BETAS for g in GAMMAS]
    found = {}

    def trained(loss: tuple[float, float], C: float, seed: int) -> np.ndarray:
        problem.beta, problem.gamma = loss
        opt = suite.task.optimizer("dca", C, seed)
        for _ in range(epochs):
            opt.epoch()
        return opt.weights()

    for loss in setting.pick([CRF, SVM, (3.0, 1.0)], every, every):
        key = {"corpus": corpus, "measure": suite.measure, "beta": loss[0], "gamma": loss[1]}
        scores = {C: suite.score(trained(loss, C, setting.seed), "dev") for C in suite.Cs}
        dev += [{**key, "C": C, "dev": x} for C, x in scores.items()]
        best = max(scores, key=lambda C: scores[C])
        counts = []
        for seed in seeds:
            W = trained(loss, best, seed)
            counts.append(suite.counts(W))
            of_test = 100 * counts[-1][:, 0].sum() / counts[-1][:, 1].sum()
            of_dev = suite.score(W, "dev")
            test.append({**key, "C": best, "seed": seed, "dev": of_dev, "test": of_test})
        found[loss] = np.stack(counts)
        print(test[-1], flush=True)
    return found


def significance(
    setting: Setting, corpus: str, counts: dict[tuple[float, float], np.ndarray], test: list[Row]
) -> list[Row]:
    """The loss that is best on dev against every other."""
    mean = {
        loss: np.mean([r["dev"] for r in test if loss_of(r) == loss and r["corpus"] == corpus])
        for loss in counts
    }
    chosen = max(mean, key=lambda loss: mean[loss])
    rng = np.random.default_rng(setting.seed)
    rows = []
    for other in counts:
        if other != chosen:
            difference, p = randomization(counts[chosen], counts[other], rng)
            rows.append(
                {
                    "corpus": corpus, "beta": chosen[0], "gamma": chosen[1],
                    "other_beta": other[0], "other_gamma": other[1],
                    "difference": difference, "p": p,
                }
            )  # fmt: skip
    return rows


def loss_of(row: dict[str, Any]) -> tuple[float, float]:
    return row["beta"], row["gamma"]


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


def means(out: Path, corpus: str) -> dict[tuple[float, float], tuple[float, float, float]]:
    """Of each loss: mean dev score, mean test score and its standard deviation over seeds."""
    rows = [r for r in rows_of(out, "losses-test") if r["corpus"] == corpus]
    return {
        key: (
            float(np.mean([r["dev"] for r in mine])),
            float(np.mean([r["test"] for r in mine])),
            float(np.std([r["test"] for r in mine], ddof=1)),
        )
        for key, mine in groups(rows, "beta", "gamma").items()
    }


def corpora(out: Path) -> dict[str, str]:
    """The corpora that were run, and what is measured on each."""
    return {r["corpus"]: r["measure"] for r in rows_of(out, "losses-test")}


def plot(out: Path) -> None:
    panels = []
    for corpus, measure in corpora(out).items():
        found = means(out, corpus)
        lines = {
            f"beta = {b:g}": ([g for bb, g in found if bb == b], [
                found[bb, g][1] for bb, g in found if bb == b
            ])
            for b in dict.fromkeys(b for b, _ in found)
        }  # fmt: skip
        panels.append(
            (f"{NAMES[corpus]}, test", "gamma (weight of the cost)", f"mean {measure}, %", lines)
        )
    draw(out / "losses.png", panels, below_best=1.5)


def section(out: Path) -> str:
    parts = [
        "DCA with averaging; C is the best of three on dev with one seed, then other seeds (the "
        "order of the sentences) train at that C. Cells: mean test score over those seeds, "
        "standard deviation, C. beta = 1, gamma = 0 is the CRF; beta = inf, gamma = 1 the SVM; "
        "at beta = inf, gamma = 0 (the perceptron) the loss of zero weights is zero, and DCA "
        "stays there: its cell is the score of an untrained model."
    ]
    best_C = {(r["corpus"], *loss_of(r)): r["C"] for r in rows_of(out, "losses-test")}
    for corpus, measure in corpora(out).items():
        found = means(out, corpus)
        gammas = list(dict.fromkeys(g for _, g in found))
        rows = [
            [
                f"beta = {b:g}",
                *(
                    f"{found[b, g][1]:.2f} ± {found[b, g][2]:.2f} ({best_C[corpus, b, g]:g})"
                    if (b, g) in found
                    else ""
                    for g in gammas
                ),
            ]
            for b in dict.fromkeys(b for b, _ in found)
        ]
        parts.append(f"**{NAMES[corpus]}**, {measure} on test:")
        parts.append(table(["", *(f"gamma = {g:g}" for g in gammas)], rows))
        tests = [r for r in rows_of(out, "losses-significance") if r["corpus"] == corpus]
        if tests:
            ranked = sorted(tests, key=lambda r: r["p"])
            words = ", ".join(
                f"({r['other_beta']:g}, {r['other_gamma']:g}) {r['difference']:+.2f}, "
                f"p = {r['p']:.3g}"
                for r in ranked
            )
            b, g = tests[0]["beta"], tests[0]["gamma"]
            parts.append(
                f"Best on dev: beta = {b:g}, gamma = {g:g}. Its test score minus that of each "
                f"other (beta, gamma), paired randomization test with {DRAWS:,} draws, not "
                f"corrected for the number of tests: {words}."
            )
    return "\n\n".join(parts)


def claims(out: Path) -> list[Claim]:
    verdicts, words = [], []
    for corpus, measure in corpora(out).items():
        tests = [r for r in rows_of(out, "losses-significance") if r["corpus"] == corpus]
        best = tests[0]["beta"], tests[0]["gamma"]
        ends = {
            name: next(r for r in tests if (r["other_beta"], r["other_gamma"]) == loss)
            for name, loss in (("CRF", CRF), ("SVM", SVM))
            if loss != best
        }
        said = ", ".join(
            f"{r['difference']:+.2f} {measure} over the {name} (p = {r['p']:.2g})"
            for name, r in ends.items()
        )
        words.append(
            f"{NAMES[corpus]}: best on dev beta = {best[0]:g}, gamma = {best[1]:g}, {said}"
        )
        between = best not in (CRF, SVM)
        clear = all(r["difference"] > 0 and r["p"] < 0.05 for r in ends.values())
        verdicts.append(SHOWS if between and clear else UNKNOWN if between else SHOWS_NOT)
    verdict = SHOWS if set(verdicts) == {SHOWS} else SHOWS_NOT if SHOWS_NOT in verdicts else UNKNOWN
    return [
        Claim(
            f"{SOURCE}, table 1",
            "The best loss is neither the CRF's nor the SVM's but another member of the family.",
            verdict,
            "; ".join(words) + ". It shows where both differences are positive and p < 0.05.",
        )
    ]
