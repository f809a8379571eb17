"""The elastic net: size against score beside --drop, and python-crfsuite's c1 on one objective."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Claim, rows_of
from figures import Row, chosen, curve, groups, table
from measure import Setting, joined, scratch, sentences
from plots import draw
from problems import NAMES, TAGGING, limited, tagging

from turbotag.optim.algorithms import algorithm
from turbotag.optim.certificate import certify_primal
from turbotag.optim.run import Limits
from turbotag.optim.run import run as optimise
from turbotag.optim.trace import Trace
from turbotag.training import tagger as training
from turbotag.training.options import options_for

TITLE = "The elastic net"
CORPORA = ("conll2000", "conll2002-nl", "ewt")
PEERS = {"ocr": 200, "conll2000": 100, "conll2002-nl": 100, "ewt": 100}  # sentences
C2 = 0.1  # of both packages: lambda = 2 c2/n, so C = 1/(2 c2)
C1S = (0.0, 0.1, 0.3, 1.0)  # of l1 = c1/n
# by c1: --drop of compact files that are made of the model; None: the whole file
PLANS: dict[float, tuple[float | None, ...]] = {
    0.0: (None, 0.01, 0.03, 0.1), 0.1: (None, 0.01), 0.3: (None,), 1.0: (None,)
}  # fmt: skip
PEER_C1S = (0.1, 1.0)
SAME = 1e-4  # of two objectives, relative
SECONDS = 10.0  # CPU seconds of a run of ours at most
THREE = ("sdca", "owl-qn", "crfsuite")


def run(setting: Setting) -> None:
    rows: list[Row] = []
    for corpus in CORPORA:
        if setting.has(corpus):
            rows += [{"corpus": corpus, **row} for row in sizes(setting, corpus)]
            setting.write("elastic", rows)
    rows = []
    for corpus, first in PEERS.items():
        if setting.has(corpus):
            rows += [{"corpus": corpus, **row} for row in peers(setting, corpus, first)]
            setting.write("elastic-crfsuite", rows)


def sizes(setting: Setting, corpus: str) -> list[Row]:
    """File size and dev score by l1, by --drop of compact files, and of CRFsuite by c1. Where there
    is no dev file, it is every fifth training sentence."""
    task, template, format, files = TAGGING[corpus]
    folder, rows = setting.data / corpus, []
    text = sentences(folder / files["train"])[: setting.pick(100, None)]
    dev: Any = str(folder / files["dev"]) if "dev" in files else None
    if dev is None:
        dev, text = joined(text[::5]), [s for i, s in enumerate(text) if i % 5]
    given = {
        "train": joined(text),
        "template": template,
        "format": format,
        "constraints": "none",  # CRFsuite has none
        "C": 1.0 / (2.0 * C2),
    }
    found = training.problem(options_for(task, **given))
    scorer = found.scorer(dev)
    fit = {"epochs": setting.pick(2, 100), "stop_gap": "0.1%", "calibration": False}

    def row(model: Any, drop: float | None) -> Row:
        n, score = model.keys.size, training.score_model(model, scorer.dev).as_dict()
        with scratch() as at:
            model.save(str(at / "model"))
            size = (at / "model").stat().st_size
        return {
            "drop": drop,
            "dev": 100 * score.get("f1", score["accuracy"]),
            "features": n,
            "weights": int(np.count_nonzero(model.weights[:n])),
            "bytes": size,
        }

    for c1, drops in PLANS.items():
        options = options_for(task, **given, **fit, params={"l1": c1 / len(text)})
        model, result = training.train(options)
        gap = result.certificate.relative
        for drop in drops:
            made = row(model if drop is None else model.compacted(drop), drop)
            rows.append({"package": "turbotag", "c1": c1, **made, "relative_gap": gap})
            print(corpus, rows[-1], flush=True)
    for c1 in PEER_C1S:
        W, size = crfsuite(found.problem, c1, setting.pick(10, 100, 300))
        if W is None:
            continue
        attributes = W[: found.problem.n_attributes]
        proof = certify_primal(found.problem, 2.0 * C2 / len(text), W, c1 / len(text))
        rows.append(
            {
                "package": "crfsuite",
                "c1": c1,
                "drop": None,
                "dev": 100 * scorer.main(W),
                "features": int(attributes.any(axis=1).sum()),
                "weights": int(np.count_nonzero(attributes)),
                "bytes": size,
                "relative_gap": proof.relative,
            }
        )
        print(corpus, rows[-1], flush=True)
    return rows


# ---- The same objective as python-crfsuite's -----------------------------------------------------


def crfsuite(problem: Any, c1: float, iterations: int) -> tuple[np.ndarray | None, int]:
    """Weights of python-crfsuite's OWL-QN on the features of a problem, whose rows are its
    attributes, and the size of its file; nothing if it is not installed."""
    try:
        import pycrfsuite
    except ImportError:
        return None, 0
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in sequences(problem):
        trainer.append(x, y)
    trainer.select("lbfgs")
    every = {"feature.possible_states": True, "feature.possible_transitions": True}
    stop = {"max_iterations": iterations, "epsilon": 1e-7, "delta": 0.0, "period": 10}
    trainer.set_params({"c1": c1, "c2": C2, "num_memories": 10, **stop, **every})
    with scratch() as at:
        trainer.train(str(at / "model"))
        tagger = pycrfsuite.Tagger()
        tagger.open(str(at / "model"))
        info, size = tagger.info(), (at / "model").stat().st_size
    W = np.zeros(problem.shape)
    for (row, label), weight in info.state_features.items():
        W[int(row), int(label)] = weight
    for (a, b), weight in info.transitions.items():
        W[problem.n_attributes + int(a), int(b)] = weight
    return W, size


def sequences(problem: Any) -> Iterator[tuple[list[dict[str, float]], list[str]]]:
    """(attributes of every item with their values, labels) of each sentence; rows and labels are
    named by their numbers."""
    for i, (a, b) in enumerate(zip(problem.sentences[:-1], problem.sentences[1:], strict=True)):
        items: list[dict[str, float]] = [{} for _ in range(b - a)]
        of = slice(problem.offsets[i], problem.offsets[i + 1])
        found = (problem.rows[of], problem.positions[of], problem.values[of])
        for row, t, value in zip(*(x.tolist() for x in found), strict=True):
            items[t][str(row)] = items[t].get(str(row), 0.0) + value
        yield items, [str(k) for k in problem.labels[a:b].tolist()]


def peers(setting: Setting, corpus: str, first: int) -> list[Row]:
    """Optimum and zeros of python-crfsuite's OWL-QN and ours, by both optimizers."""
    problem = tagging(setting, corpus, setting.pick(40, first, 2000), constraints="none").problem
    n, rows = problem.n, []
    for c1 in C1S[1:]:
        W, _ = crfsuite(problem, c1, setting.pick(10, 300, 2000))
        if W is None:
            setting.skip("python-crfsuite is not installed: pip install 'turbotag[bench]'")
            return []
        lam, l1 = 2.0 * C2 / n, c1 / n
        found = {"crfsuite": W}
        for name in ("sdca", "owl-qn"):
            cls = limited(algorithm(name), setting.pick(1.0, SECONDS))
            opt = cls(problem, lam, np.random.default_rng(1), l1=l1)
            limits = Limits(setting.pick(3, 3000), None, relative=1e-6)
            found[name] = optimise(opt, limits, Trace()).weights
        proofs = {name: certify_primal(problem, lam, W, l1) for name, W in found.items()}
        zero = {name: W == 0.0 for name, W in found.items()}
        large = np.abs(found["sdca"]) > 1e-3
        rows.append(
            {
                "c1": c1,
                "sentences": n,
                **{f"{name}_primal": proof.primal for name, proof in proofs.items()},
                **{f"{name}_gap": proof.gap for name, proof in proofs.items()},
                **{f"{name}_zeros": int(z.sum()) for name, z in zero.items()},
                "weights": problem.shape[0] * problem.shape[1],
                "both_zero": int((zero["crfsuite"] & zero["sdca"]).sum()),
                "zero_in_one": int((zero["crfsuite"] ^ zero["sdca"]).sum()),
                "zero_but_large": int((zero["crfsuite"] & large).sum()),
            }
        )
        print(corpus, rows[-1], flush=True)
    return rows


# ---- The report ----------------------------------------------------------------------------------


def ours(rows: list[Row]) -> list[Row]:
    """By l1 alone."""
    return chosen(rows, package="turbotag", drop=None)


def plot(out: Path) -> None:
    panels = []
    for corpus, rows in groups(rows_of(out, "elastic"), "corpus").items():
        lines = {}
        for name, mine in (
            ("l1, whole file", ours(rows)),
            ("--compact --drop", [r for r in rows if r["drop"] is not None and not r["c1"]]),
            ("CRFsuite's c1", chosen(rows, package="crfsuite")),
        ):
            lines[name] = curve(mine, "weights", "dev")
        panels.append((NAMES[corpus], "weights that are not 0", "dev score", lines))
    draw(out / "elastic.png", panels, logx=True, columns=3)


def section(out: Path) -> str:
    found = []
    for r in rows_of(out, "elastic"):
        drop = "" if r["drop"] is None else f"{r['drop']:g}"
        found.append(
            [NAMES[r["corpus"]], r["package"], f"{r['c1']:g}", drop, f"{r['dev']:.2f}",
             f"{r['features']:,.0f}", f"{r['weights']:,.0f}", f"{r['bytes'] / 1e6:.2f}",
             f"{100 * r['relative_gap']:.2g} %"]
        )  # fmt: skip
    head = ["corpus", "package", "c1", "--compact --drop", "dev score", "features"]
    head += ["weights that are not 0"]
    parts = [
        f"crf loss, lambda = {2 * C2:g}/n, l1 = c1/n: the objective of CRFsuite with c2 = {C2:g} "
        "and c1. sdca to a certified gap of 0.1 %; python-crfsuite has the same features and at "
        "most 100 iterations; the gap of its weights has the marginals at them as the dual point, "
        "which says little where iterations end early. Whole corpora; F1, for EWT accuracy, on the "
        "development part, for chunking on every fifth sentence, which is not trained on. No "
        "constraints on tags, which CRFsuite does not have. Weights: of attributes.",
        table([*head, "MB", "gap"], found),
    ]
    if not found:
        parts = []
    rows = []
    for r in rows_of(out, "elastic-crfsuite"):
        least = max(r[f"{n}_primal"] - r[f"{n}_gap"] for n in THREE)
        cells = [f"{r[f'{n}_primal'] / least - 1:.1e}" for n in THREE]
        zeros = [f"{r[f'{n}_zeros']:,.0f}" for n in THREE]
        rows.append(
            [f"{NAMES[r['corpus']]}, {r['sentences']:.0f}", f"{r['c1']:g}", *cells, *zeros,
             f"{r['weights']:,.0f}", f"{r['zero_in_one']:,.0f} ({r['zero_but_large']:.0f})"]
        )  # fmt: skip
    if rows:
        head = ["corpus, sentences", "c1", *(f"{n}, above the best dual" for n in THREE)]
        head += [*(f"{n}, zeros" for n in THREE), "weights", "zero in sdca or crfsuite alone"]
        parts.append(
            "The same optimum: all states and transitions, python-crfsuite with 300 iterations "
            f"at most, ours to a gap of 1e-6 of the primal or {SECONDS:g} CPU seconds. In brackets "
            "those zeros of CRFsuite whose weight is above 1e-3 in ours.\n\n" + table(head, rows)
        )
    return "\n\n".join(parts)


def claims(out: Path) -> list[Claim]:
    rows, found = rows_of(out, "elastic-crfsuite"), []
    if rows:
        best = [max(r[f"{n}_primal"] - r[f"{n}_gap"] for n in THREE) for r in rows]
        cut = [r for r in rows if any(r[f"{n}_gap"] > 1e-3 * r[f"{n}_primal"] for n in THREE)]
        pairs = [(r, b) for r, b in zip(rows, best, strict=True) if r not in cut]
        worst = max((r[f"{n}_primal"] / b - 1.0 for r, b in pairs for n in THREE), default=1.0)
        large = sum(r["zero_but_large"] for r, _ in pairs)
        apart = max((r["zero_in_one"] / r["weights"] for r, _ in pairs), default=1.0)
        found.append(
            Claim(
                "ours",
                "With --l1 the optimum and its zeros are those of python-crfsuite's c1.",
                worst <= SAME and large == 0 and apart < 0.01,
                f"The three optimizers end at most {worst:.1e} (relative) above the best dual; of "
                f"the weights at most {100 * apart:.2g} % are zero in one package alone, "
                f"{large:.0f} of them above 1e-3 in ours. Left out: {len(cut)} of {len(rows)} "
                "values of c1, at which a run was cut by its time limit.",
            )
        )
    words, good = [], []
    for corpus, mine in groups(rows_of(out, "elastic"), "corpus").items():
        plain = chosen(ours(mine), c1=0.0)[0]
        sparse = [r for r in ours(mine) if r["c1"] and r["dev"] > plain["dev"] - 0.3]
        small = min(sparse, key=lambda r: r["weights"], default=plain)
        good.append(small["weights"] < 0.2 * plain["weights"])
        words.append(
            f"{NAMES[corpus]}: c1 = {small['c1']:g} {small['weights']:,.0f} weights against "
            f"{plain['weights']:,.0f}, {small['dev']:.2f} against {plain['dev']:.2f}"
        )
    if words:
        found.append(
            Claim(
                "ours",
                "The elastic net leaves a fifth of the weights at no loss in accuracy.",
                all(good),
                f"Fewest weights within 0.3 of the score without l1: {'; '.join(words)}.",
            )
        )
    return found
