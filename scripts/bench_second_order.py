"""Measure the second-order parser: the bound and Bethe's log Z against enumeration, the race.

    python scripts/bench_second_order.py tight surrogate race race_full page

Each part writes docs/second_order/PART.md; `page` joins what is there to docs/second_order.md. Data
and conventions are those of bench_parser.py.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from bench_parser import every_fourth, run, table
from pages import Part, main

from turbotag.corpus.reader import read
from turbotag.structures import belief_propagation, convex_bound, parts, pruning, second_order, tree

EPOCHS = "8"
SCALES = ((0.0, 0.0), (1.0, 0.3), (3.0, 1.0), (10.0, 3.0), (50.0, 50.0))
NO_SPLIT = np.zeros(0)


# ---- Small graphs --------------------------------------------------------------------------------


def all_trees(n: int) -> np.ndarray:
    """(count, n) heads of every single-root tree of n words."""
    every = np.stack(np.meshgrid(*[np.arange(n + 1)] * n, indexing="ij"), -1).reshape(-1, n)
    every = every[(every == 0).sum(axis=1) == 1]
    at = np.tile(np.arange(1, n + 1), (len(every), 1))
    for _ in range(n):
        at = np.where(at > 0, np.take_along_axis(every, np.maximum(at - 1, 0), axis=1), 0)
    return every[(at == 0).all(axis=1)].astype(np.int32)


def tight(data: Path) -> str:
    """Thousands of random graphs: is it a bound after every round, how far off, whose beliefs."""
    rows = []
    for n, graphs in ((4, 400), (5, 400), (6, 100)):
        heads = all_trees(n)
        for arc, pair in SCALES:
            p = parts.parts(*pruning.full(n), False)
            Z = np.empty((len(heads), parts.size(p)))
            for z, h in zip(Z, heads, strict=True):
                parts.indicator(h, p, z)
            below, found = 0, []
            for seed in range(graphs):
                rng = np.random.default_rng(seed)
                theta = rng.normal(size=parts.size(p))
                theta[: p.heads.size] *= arc
                theta[p.heads.size :] *= pair
                found.append(one_graph(theta, p, Z))
                below += found[-1].pop("below")
            mean = {k: np.array([f[k] for f in found]) for k in found[0]}
            rows.append(
                [
                    n,
                    f"{arc:g}, {pair:g}",
                    f"{below} of {graphs * 21}",
                    f"{np.median(mean['excess']):.2f}",
                    f"{np.median(np.abs(mean['bethe'])):.3f}",
                    f"{100 * np.mean(mean['bethe'] < -1e-9):.0f} %",
                    *(f"{np.mean(mean[k]):.3f}" for k in ("error_c", "error_b")),
                    *(
                        f"{100 * np.mean(mean[k]):.1f}" if arc else "-"
                        for k in ("same_c", "same_b", "same_t")
                    ),
                    f"{100 * np.mean(mean['proven']):.0f} %",
                ]
            )
    return table(
        [
            "words",
            "scales of arcs, pairs",
            "bound below log Z",
            "median excess of the bound (nats)",
            "median error of Bethe's log Z",
            "Bethe's below log Z",
            "belief error: convex",
            "bethe",
            "best head as exact, %: convex",
            "bethe",
            "arcs alone",
            "MAP proven",
        ],
        rows,
    )


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


def race(data: Path, full: bool = False) -> str:
    """Labelled second-order parsers on EWT dev: three seeds, time, memory, size, speed, MAP."""
    dev = data / "ewt" / "dev.conllu"
    words = read(str(dev)).n_tokens
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        part, model = Path(scratch) / "quarter.conllu", Path(scratch) / "model"
        out, many = Path(scratch) / "out.conllu", Path(scratch) / "many.conllu"
        every_fourth(data / "ewt" / "train.conllu", part)
        many.write_bytes(dev.read_bytes() * 8)
        runs = [("QUARTER", part, seed, "convex") for seed in (1, 2, 3)]
        runs += [("QUARTER", part, 1, "bethe")]
        if full:
            runs = [("FULL", data / "ewt" / "train.conllu", 1, "convex")]
        for name, train, seed, entropy in runs:
            _, _, _, cpu, peak = run(
                "train", "--task", "parse", "--train", str(train), "-o", str(model),
                "--parts", "cs,gp", "--entropy", entropy, "--seed", str(seed),
                *(["--epochs", EPOCHS] if entropy == "bethe" else []),
            )  # fmt: skip
            scores = []
            for decode in ("viterbi", "map"):
                _, said, wall, _, _ = run(
                    "predict", str(model), str(dev), "-o", str(out), "--decode", decode
                )
                found, _, _, _, _ = run("eval", "--task", "parse", str(dev), str(out), "--json")
                c = json.loads(found)["conventions"]
                scores.append(" / ".join(f"{100 * c['nopunct'][k]:.2f}" for k in ("uas", "las")))
                if decode == "viterbi":
                    scores.append(
                        " / ".join(f"{100 * c['conll18'][k]:.2f}" for k in ("uas", "las"))
                    )
            proven = re.search(r"(\d+) of (\d+) trees", said)
            assert proven
            rates = [
                8 * words / run("predict", str(model), str(many), "-o", os.devnull)[2]
                for _ in range(3)
            ]
            rows.append(
                [
                    name, entropy, seed, *scores, f"{100 * int(proven[1]) / int(proven[2]):.1f} %",
                    f"{cpu:.0f}", f"{peak:,.0f}", f"{model.stat().st_size / 1e6:.1f}",
                    f"{sorted(rates)[1]:,.0f}", f"{words / wall:,.0f}",
                ]
            )  # fmt: skip
            print(rows[-1], flush=True)
    return table(
        [
            "data", "entropy", "seed", "UAS / LAS without PUNCT", "all words", "MAP, without PUNCT",
            "proven best", "train CPU s", "peak MB", "model MB", "words/s, 8 x dev, whole process",
            "words/s, MAP, dev",
        ],
        rows,
    )  # fmt: skip


def surrogate(data: Path) -> str:
    """SDCA on the convex surrogate: the certified gap by epoch."""
    folder, rows = data / "slovene", []
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        _, said, _, _, _ = run(
            "train", "--task", "parse", "--train", str(folder / "train.conllu"), "--no-labels",
            "--dev", str(folder / "test.conllu"), "--keep", "last", "--parts", "cs,gp",
            "--algorithm", "sdca",
            "--loss", "crf", "-C", "0.03", "--stop-gap", "1e-5", "--log", str(log),
            "-o", str(Path(scratch) / "model"),
        )  # fmt: skip
        for line in log.read_text().splitlines():
            r = json.loads(line)
            numbers = [f"{r[k]:.6f}" if r[k] is not None else "" for k in ("primal", "dual")]
            kind = "certified" if r["certified"] else "estimate"
            uas, seconds = f"{100 * r['dev']:.2f}", f"{r['cpu_seconds']:.1f}"
            rows.append([r["epoch"], *numbers, f"{r['gap']:.2e}", kind, uas, seconds])
    proof = next(x for x in said.splitlines() if x.startswith("certificate, of"))
    head = ["epoch", "primal", "dual", "gap", "", "UAS", "CPU s"]
    return f"crf, C 0.03. The log ends with:\n\n    {proof}\n\n" + table(head, rows)


PARTS: dict[str, Part] = {
    "tight": ("The bound and Bethe's log Z on random graphs, against enumeration", tight),
    "race": ("EWT QUARTER, labelled", race),
    "race_full": ("EWT FULL, labelled", lambda d: race(d, True)),
    "surrogate": ("The certified surrogate, on Slovene", surrogate),
}

if __name__ == "__main__":
    main("Second order, measured", "second-order", __doc__, __file__, PARTS, "second_order")
