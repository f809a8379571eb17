"""Martins et al. 2010, figure 4: UAS against epochs, DCA and SGD, first and second order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from common import Claim, first_at, rows_of
from figures import Row, curve, groups, table
from measure import Setting, scratch, some, turbotag
from measure import run as process
from plots import draw
from problems import NAMES

from turbotag.models.pipeline import load_model

TITLE = "Trees by epochs: DCA and SGD, first and second order"
SOURCE = "Martins et al. 2010"
KINDS = {
    "first order": [],
    "bethe": ["--parts", "cs,gp", "--entropy", "bethe"],
    "convex": ["--parts", "cs,gp", "--entropy", "convex"],
}
CLOSE = 0.3  # points of UAS from the best that count as there
ONE_STEP = {"first order": 0.1, "bethe": 0.01, "convex": 0.01}  # what the quarter picks


def run(setting: Setting) -> None:
    rows = []
    for corpus, held_out in (("slovene", "test"), ("gothic", "dev"), ("ewt", "dev")):
        if not setting.has(corpus) or (setting.tiny and corpus != "slovene"):
            continue
        folder = setting.data / corpus
        train, dev = folder / "train.conllu", folder / f"{held_out}.conllu"
        with scratch() as at:
            if corpus == "ewt" and setting.size != "full":
                train = some(train, 4, at / "quarter.conllu")
            for kind, options in KINDS.items():
                for name in ("dca", "sgd"):
                    more: list[object] = [*options, "--algorithm", name]
                    if name == "sgd" and corpus == "ewt" and setting.size == "full":
                        more += ["--eta", ONE_STEP[kind]]  # a grid would take half an hour
                    key = {"corpus": corpus, "model": kind, "optimizer": name}
                    rows += [key | r for r in followed(setting, train, dev, more, at)]
                    print(rows[-1], flush=True)
    setting.write("dca-parse", rows)


def followed(
    setting: Setting, train: Path, dev: Path, options: list[object], at: Path
) -> list[Row]:
    """A row an epoch of a training."""
    model, log = at / "model", at / "log"
    process(
        turbotag(
            "train", "--task", "parse", "--train", train, "--dev", dev, "--no-labels", "--decoder",
            "nonprojective", "--epochs", setting.pick(1, 8, 10), "--seed", setting.seed, *options,
            "--keep", "last", "--log", log, "-o", model,
        )
    )  # fmt: skip
    eta = load_model(str(model)).header["algorithm"].get("eta")
    rows: dict[int, Row] = {}  # the certificate at the end repeats the last epoch
    for line in log.read_text(encoding="utf-8").splitlines():
        r: dict[str, Any] = json.loads(line)
        if r["dev"] is not None and r["epoch"] not in rows:
            tally = r["inference"] or {}
            found = {k: tally.get(k) for k in ("negative_losses", "calls", "rounds", "unconverged")}
            seconds = round(r["cpu_seconds"], 2)
            row = {"eta": eta, "epoch": r["epoch"], "uas": 100 * r["dev"], **found}
            rows[r["epoch"]] = {**row, "cpu_seconds": seconds}
    return list(rows.values())


def plot(out: Path) -> None:
    panels = []
    for corpus, rows in groups(rows_of(out, "dca-parse"), "corpus").items():
        lines = {
            kind + (" (dashed)" if name == "sgd" else ""): curve(mine, "epoch", "uas")
            for (kind, name), mine in groups(rows, "model", "optimizer").items()
        }
        title = f"{NAMES[corpus]}: DCA, SGD dashed"
        panels.append((title, "epochs", "UAS without PUNCT, %", lines))
    draw(out / "dca-parse.png", panels)


def negative(rows: list[Row]) -> list[float]:
    """Share of sentences with a negative loss, by epoch, in percent."""
    return [100 * r["negative_losses"] / r["calls"] for r in rows if r["calls"]]


def section(out: Path) -> str:
    uas, losses = [], []
    by = groups(rows_of(out, "dca-parse"), "corpus", "model", "optimizer")
    for (corpus, kind, name), rows in by.items():
        last, label = rows[-1], [NAMES[corpus], f"{kind}, {name}"]
        scores = [f"{r['uas']:.2f}" for r in rows]
        eta = f"{last['eta']:g}" if last["eta"] else ""
        uas.append([*label, *scores, eta, f"{last['cpu_seconds']:.0f}"])
        if last["calls"]:
            share = f"{100 * last['unconverged'] / last['calls']:.0f}"
            shares = [f"{x:.1f}" for x in negative(rows)]
            losses.append([*label, *shares, f"{last['rounds']:.1f}", share])
    epochs = [str(e + 1) for e in range(len(uas[0]) - 4)]
    return "\n\n".join(
        [
            "`turbotag train --task parse --no-labels [--parts cs,gp --entropy E] --algorithm A`: "
            "softmax-margin with gamma 3, C 0.03, pruned arcs, gold tags, EWT a quarter of the "
            "training data unless FULL=1. UAS on dev (Slovene: test) after each epoch; CPU "
            "seconds with scoring:",
            table(["corpus", "", *epochs, "eta", "CPU s"], uas),
            "Sentences with a negative loss, %, by epoch; in the last one the mean number of "
            "rounds and the share of sentences (%) whose rounds ended at the limit:",
            table(["corpus", "", *epochs, "rounds", "at the limit"], losses),
        ]
    )


def claims(out: Path) -> list[Claim]:
    by = groups(rows_of(out, "dca-parse"), "corpus", "model", "optimizer")
    corpora = list(dict.fromkeys(c for c, _, _ in by))

    def race(kind: str) -> tuple[int, str, list[float]]:
        """On how many corpora DCA is there as soon as SGD; in words; differences at the end."""
        wins, words, ends = 0, [], []
        for corpus in corpora:
            pair = by[corpus, kind, "dca"], by[corpus, kind, "sgd"]
            best = max(r["uas"] for rows in pair for r in rows)
            a, b = (first_at(rows, "uas", best - CLOSE, "epoch", False) for rows in pair)
            wins += a <= b
            ends.append(pair[0][-1]["uas"] - pair[1][-1]["uas"])
            words.append(f"{NAMES[corpus]} {a:g} against {b:g} epochs, at the end {ends[-1]:+.2f}")
        return wins, "; ".join(words), ends

    def gain(kind: str, over: str) -> dict[str, float]:
        """UAS of DCA at the end over that with other inference."""
        return {c: by[c, kind, "dca"][-1]["uas"] - by[c, over, "dca"][-1]["uas"] for c in corpora}

    def told(numbers: dict[str, float], digits: str = "+.2f", unit: str = "") -> str:
        return ", ".join(f"{NAMES[c]} {x:{digits}}{unit}" for c, x in numbers.items())

    wins, words, _ = race("first order")
    bethe_wins, bethe_words, bethe_ends = race("bethe")
    last = {c: negative(by[c, "bethe", "dca"])[-1] for c in corpora}
    never = all(max(negative(by[c, "convex", a])) == 0.0 for c in corpora for a in ("dca", "sgd"))
    lost, gains = gain("convex", "bethe"), gain("bethe", "first order")
    return [
        Claim(
            f"{SOURCE}, abstract and figure 4",
            "Arc-factored: DCA converges to accurate models at least as fast as SGD.",
            wins == len(corpora),
            f"Until within {CLOSE} of the best UAS, DCA against SGD: {words}.",
        ),
        Claim(
            f"{SOURCE}, figure 4",
            "Second order with loopy inference: SGD does better than DCA.",
            max(bethe_ends) < 0.0,
            f"Bethe, DCA against SGD: {bethe_words}. DCA is there as soon on {bethe_wins} of "
            f"{len(corpora)} corpora.",
        ),
        Claim(
            f"{SOURCE}, footnote 9",
            "With Bethe's entropy about 15 % of sentences have a negative loss and lose their "
            "update.",
            all(10.0 <= x <= 20.0 for x in last.values()),
            f"In the last epoch of DCA: {told(last, '.1f', ' %')}. Why there are fewer is not "
            "known; larger factors (an automaton for each head, not one factor for each pair) do "
            "not explain it, see docs/second_order.md.",
        ),
        Claim(
            "Smith and Eisner 2008; Martins et al. 2010",
            "Second-order parts with loopy belief propagation parse better than arcs alone.",
            min(gains.values()) > 0.0,
            f"Bethe over first order by DCA, UAS: {told(gains)}.",
        ),
        Claim(
            "ours (docs/method.md)",
            "With the convex bound no loss is negative, and nothing is lost in accuracy.",
            never and min(lost.values()) > -CLOSE,
            ("No negative loss in any epoch. " if never else "There are negative losses. ")
            + f"Convex minus Bethe by DCA, UAS: {told(lost)}. It shows if none is below -{CLOSE}.",
        ),
    ]
