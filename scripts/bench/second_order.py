"""Measure the second-order parser: the bound and Bethe's log Z against enumeration, the race.

    python scripts/bench second_order tight surrogate race race_full page

Data and conventions are those of parser.py.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from typing import Any

import numpy as np
from figures import table
from measure import Page, Part, Setting, evaluate, run, scratch, turbotag
from parser import COSTS, attachment, costs, quarter, train

from corpora import ROOT

sys.path.insert(1, str(ROOT))  # tests/ has the oracles

from tests.tree_oracles import trees
from turbotag.corpus.reader import read
from turbotag.structures import belief_propagation, convex_bound, parts, pruning, second_order, tree

EPOCHS = 8
SCALES = ((0.0, 0.0), (1.0, 0.3), (3.0, 1.0), (10.0, 3.0), (50.0, 50.0))
NO_SPLIT = np.zeros(0)


# ---- Small graphs --------------------------------------------------------------------------------


def tight(setting: Setting) -> str:
    """Thousands of random graphs: is it a bound after every round, how far off, whose beliefs."""
    rows = []
    for n, graphs in setting.pick(((3, 2),), ((4, 400), (5, 400), (6, 100))):
        heads, p = trees(n, True), parts.parts(*pruning.full(n), False)
        Z = np.empty((len(heads), parts.size(p)))
        for z, h in zip(Z, heads, strict=True):
            parts.indicator(h, p, z)
        for arc, pair in SCALES:
            found = []
            for seed in range(graphs):
                theta = np.random.default_rng(seed).normal(size=parts.size(p))
                theta[: p.heads.size] *= arc
                theta[p.heads.size :] *= pair
                found.append(one_graph(theta, p, Z))
            mean = {k: np.array([f[k] for f in found]) for k in found[0]}
            same = [f"{100 * np.mean(mean[k]):.1f}" for k in ("same_c", "same_b", "same_t")]
            rows.append(
                [
                    n,
                    f"{arc:g}, {pair:g}",
                    f"{int(mean['below'].sum())} of {graphs * 21}",
                    f"{np.median(mean['excess']):.2f}",
                    f"{np.median(np.abs(mean['bethe'])):.3f}",
                    f"{100 * np.mean(mean['bethe'] < -1e-9):.0f} %",
                    *(f"{np.mean(mean[k]):.3f}" for k in ("error_c", "error_b")),
                    *(same if arc else ["-"] * 3),
                    f"{100 * np.mean(mean['proven']):.0f} %",
                ]
            )
    return table(
        [
            "words", "scales of arcs, pairs", "bound below log Z",
            "median excess of the bound (nats)", "median error of Bethe's log Z",
            "Bethe's below log Z", "belief error: convex", "bethe",
            "best head as exact, %: convex", "bethe", "arcs alone", "MAP proven",
        ],
        rows,
    )  # fmt: skip


def one_graph(theta: np.ndarray, p: Any, Z: np.ndarray) -> dict[str, float]:
    scores = Z @ theta
    top = scores.max()
    exact = top + math.log(np.exp(scores - top).sum())
    mu = (np.exp(scores - exact) @ Z)[: p.heads.size]
    pi, nu = np.empty((2, theta.size + 2 * p.heads.size))
    below = 0
    for rounds in range(21):
        value, _, _ = convex_bound.bound(theta, NO_SPLIT, p, True, 1.0, rounds, 0.5, 0.0, pi, nu)
        below += value < exact - 1e-9 * max(1.0, abs(exact))
    convex = convex_bound.together(nu, p)[: p.heads.size]
    loopy = np.empty(theta.size)
    log_z, _, _ = belief_propagation.bethe(theta, p, True, 1.0, True, 200, 0.3, 1e-6, loopy)
    alone = np.empty((p.cuts.size, p.cuts.size))
    tree.marginals(pruning.matrix(theta, p.cuts, p.heads), True, 1.0, alone)
    first = alone[p.heads, p.mods]
    domain = second_order.Domain(p, True, second_order.Approximation())
    _, proven = second_order.best_tree(theta, domain, np.empty(p.cuts.size - 1, np.int32))

    def same(beliefs: np.ndarray) -> float:
        cuts = p.cuts.tolist()
        words = list(zip(cuts, cuts[1:], strict=False))
        return float(np.mean([beliefs[a:b].argmax() == mu[a:b].argmax() for a, b in words]))

    return {
        "below": below,
        "excess": value - exact,
        "bethe": log_z - exact,
        "error_c": float(np.abs(convex - mu).mean()),
        "error_b": float(np.abs(loopy[: p.heads.size] - mu).mean()),
        "same_c": same(convex),
        "same_b": same(loopy[: p.heads.size]),
        "same_t": same(first),
        "proven": float(proven),
    }


# ---- The race ------------------------------------------------------------------------------------


def race(setting: Setting, full: bool = False) -> str:
    """Labelled second-order parsers on EWT dev: three seeds, time, memory, size, speed, MAP."""
    dev, rows = setting.data / "ewt" / "dev.conllu", []
    words = read(str(dev)).n_tokens
    with scratch() as folder:
        part, model = quarter(setting, folder), folder / "model"
        out, many = folder / "out.conllu", folder / "many.conllu"
        many.write_bytes(dev.read_bytes() * 8)
        runs = [("QUARTER", part, seed, "convex") for seed in (1, 2, 3)]
        runs += [("QUARTER", part, 1, "bethe")]
        if full:
            whole = part if setting.tiny else setting.data / "ewt" / "train.conllu"
            runs = [("FULL", whole, 1, "convex")]
        for name, source, seed, entropy in runs[: setting.pick(1, None)]:
            options = ["--parts", "cs,gp", "--entropy", entropy, "--seed", seed]
            options += ["--epochs", EPOCHS] if entropy == "bethe" else []
            done = train(source, model, *options)
            scores = []
            for decode in ("viterbi", "map"):
                parsed = run(turbotag("predict", model, dev, "-o", out, "--decode", decode))
                c = evaluate("--task", "parse", dev, out)
                names = ("nopunct", "conll18") if decode == "viterbi" else ("nopunct",)
                scores += [attachment(c["conventions"][n]) for n in names]
            proven = re.search(r"(\d+) of (\d+) trees", parsed.err)
            assert proven
            share = f"{100 * int(proven[1]) / int(proven[2]):.1f} %"
            predict = turbotag("predict", model, many, "-o", os.devnull)
            rates = sorted(8 * words / run(predict).wall for _ in range(3))
            speeds = f"{rates[1]:,.0f}", f"{words / parsed.wall:,.0f}"
            rows.append([name, entropy, seed, *scores, share, *costs(done, model), *speeds])
            print(rows[-1], flush=True)
    head = ["data", "entropy", "seed", "UAS / LAS without PUNCT", "all words"]
    head += ["MAP, without PUNCT", "proven best", *COSTS, "words/s, 8 x dev, whole process"]
    return table([*head, "words/s, MAP, dev"], rows)


def surrogate(setting: Setting) -> str:
    """SDCA on the convex surrogate: the certified gap by epoch."""
    given, rows = setting.data / "slovene", []
    with scratch() as folder:
        log = folder / "log"
        done = train(
            given / "train.conllu", folder / "model", "--no-labels", "--dev",
            given / "test.conllu", "--parts", "cs,gp", "--algorithm", "sdca", "--loss", "crf",
            "-C", "0.03", "--stop-gap", setting.pick("1", "1e-5"), "--keep", "last", "--log", log,
        )  # fmt: skip
        for line in log.read_text(encoding="utf-8").splitlines():
            r = json.loads(line)
            numbers = [f"{r[k]:.6f}" if r[k] is not None else "" for k in ("primal", "dual")]
            kind = "certified" if r["certified"] else "estimate"
            uas, seconds = f"{100 * r['dev']:.2f}", f"{r['cpu_seconds']:.1f}"
            rows.append([r["epoch"], *numbers, f"{r['gap']:.2e}", kind, uas, seconds])
    proof = next(x for x in done.err.splitlines() if x.startswith("certificate, of"))
    head = ["epoch", "primal", "dual", "gap", "", "UAS", "CPU s"]
    return f"crf, C 0.03. The log ends with:\n\n    {proof}\n\n" + table(head, rows)


PAGE = Page(
    "Second order, measured",
    "second_order",
    "second-order",
    "bench/second_order.py",
    {
        "tight": Part("The bound and Bethe's log Z on random graphs, against enumeration", tight),
        "race": Part("EWT QUARTER, labelled", race),
        "race_full": Part("EWT FULL, labelled", lambda s: race(s, True)),
        "surrogate": Part("The certified surrogate, on Slovene", surrogate),
    },
)
