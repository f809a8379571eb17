"""The elastic net: size against score beside --drop, and python-crfsuite's c1 on one objective."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Claim, rows_of
from measure import Row, Setting, chosen, groups, sentences, table
from plots import draw
from problems import NAMES, TAGGING

from turbotag.optim.algorithms import algorithm
from turbotag.optim.certificate import certify_primal
from turbotag.optim.run import Limits
from turbotag.optim.run import run as optimise
from turbotag.optim.trace import Trace
from turbotag.training import tagger as training
from turbotag.training.options import options_for

TITLE = "The elastic net"
CORPORA = ("conll2000", "conll2002-nl", "ewt")
C2 = 0.1  # of both packages: lambda = 2 c2/n, so C = 1/(2 c2)
C1S = (0.0, 0.03, 0.1, 0.3, 1.0)  # of l1 = c1/n
DROPS = (0.01, 0.03, 0.1)
SAME = 1e-4  # of two objectives, relative


def run(setting: Setting) -> None:
    rows: list[Row] = []
    for corpus in CORPORA:
        if setting.has(corpus):
            rows += [{"corpus": corpus, **row} for row in sizes(setting, corpus)]
            setting.write("elastic", rows)
    rows = []
    for corpus in ("ocr", "conll2000"):
        if setting.has(corpus):
            rows += [{"corpus": corpus, **row} for row in peers(setting, corpus)]
            setting.write("elastic-crfsuite", rows)


def sizes(setting: Setting, corpus: str) -> list[Row]:
    """File size and dev score by l1, and by --drop of compact files. Where there is no dev file, it
    is every fifth training sentence."""
    task, template, format, files = TAGGING[corpus]
    folder, rows = setting.data / corpus, []
    text = sentences(folder / files["train"])[: setting.pick(100, 1500, None)]
    dev: Any = str(folder / files["dev"]) if "dev" in files else None
    if dev is None:
        dev = b"\n\n".join(text[::5]) + b"\n\n"
        text = [s for i, s in enumerate(text) if i % 5]
    train = b"\n\n".join(text) + b"\n\n"
    plans: list[tuple[float, float | None]] = [(c1, None) for c1 in C1S]
    plans += [(0.0, drop) for drop in DROPS] + [(0.1, 0.01)]
    for c1, drop in plans:
        given: dict[str, Any] = {"compact": True, "drop": drop} if drop is not None else {}
        options = options_for(
            task,
            train,
            dev,
            template=template,
            format=format,
            C=1.0 / (2.0 * C2),
            epochs=setting.pick(2, 100),
            stop_gap="0.1%",
            keep="last",
            calibration=False,
            params={"l1": c1 / len(text)},
            **given,
        )
        with tempfile.TemporaryDirectory() as at:
            path = os.path.join(at, "model")
            model, result = training.train(options, path)
            size = os.path.getsize(path)
        n, score = model.keys.size, model.header["scores"]["dev"]
        rows.append(
            {
                "c1": c1,
                "drop": drop,
                "dev": 100 * score.get("f1", score["accuracy"]),
                "features": n,
                "weights": int(np.count_nonzero(model.weights[:n])),
                "bytes": size,
                "gap": result.certificate.gap,
                "relative_gap": result.certificate.relative,
            }
        )
        print(corpus, rows[-1], flush=True)
    return rows


# ---- The same objective as python-crfsuite's -----------------------------------------------------


def attributes(corpus: str, text: list[bytes]) -> list[tuple[list[list[str]], list[str]]]:
    """(attributes of every item, labels) of each sequence."""
    found = []
    for s in text:
        rows = [line.split(b"\t" if corpus == "ocr" else b" ") for line in s.split(b"\n")]
        items = [[x.decode() for x in row] for row in rows]
        if corpus == "ocr":
            found.append(([row[1:] for row in items], [row[0] for row in items]))
            continue
        words, tags = [r[0] for r in items], [r[1] for r in items]
        near = [[f"w={w}", f"p={p}"] for w, p in zip(words, tags, strict=True)]
        for t in range(1, len(items)):
            near[t] += [f"w-={words[t - 1]}", f"p-={tags[t - 1]}"]
            near[t - 1] += [f"w+={words[t]}", f"p+={tags[t]}"]
        found.append((near, [r[2] for r in items]))
    return found


def peers(setting: Setting, corpus: str) -> list[Row]:
    """Optimum and zeros of python-crfsuite's OWL-QN and ours, by both optimizers."""
    try:
        import pycrfsuite
    except ImportError:
        setting.skip("python-crfsuite is not installed: pip install 'turbotag[bench]'")
        return []
    text = sentences(setting.data / corpus / TAGGING[corpus][3]["train"])
    data, rows = attributes(corpus, text[: setting.pick(40, 200, 2000)]), []
    n = len(data)
    lines = [
        "\n".join(
            "\t".join([y, *(a.replace(":", "_") for a in x)]) for x, y in zip(*s, strict=True)
        )
        for s in data
    ]
    source = ("\n\n".join(lines) + "\n\n").encode()
    given: Any = {"template": "attributes", "format": "crfsuite", "constraints": "none"}
    setup = training.prepare(options_for("pos", source, **given), lambda line: None)
    problem, iterations = setup.problem, setting.pick(10, 2000)
    for c1 in C1S[1:]:
        with tempfile.TemporaryDirectory() as at:
            path = os.path.join(at, "model")
            trainer = pycrfsuite.Trainer(verbose=False)
            for x, y in data:
                trainer.append([[a.replace(":", "_") for a in item] for item in x], y)
            trainer.select("lbfgs")
            every = {"feature.possible_states": True, "feature.possible_transitions": True}
            stop = {"max_iterations": iterations, "epsilon": 1e-7, "delta": 0.0, "period": 10}
            trainer.set_params({"c1": c1, "c2": C2, "num_memories": 10, **stop, **every})
            trainer.train(path)
            theirs = crfsuite_weights(path, setup)
        lam, l1 = 2.0 * C2 / n, c1 / n
        found: dict[str, np.ndarray] = {"crfsuite": theirs}
        for name in ("sdca", "owl-qn"):
            opt = algorithm(name)(problem, lam, np.random.default_rng(1), l1=l1)
            limits = Limits(setting.pick(3, 3000), None, relative=1e-6, seconds=20.0)
            found[name] = optimise(opt, limits, Trace()).weights
        proofs = {name: certify_primal(problem, lam, W, l1) for name, W in found.items()}
        zero = {name: W == 0.0 for name, W in found.items()}
        large = np.abs(found["sdca"]) > 1e-3
        rows.append(
            {
                "c1": c1,
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


def crfsuite_weights(path: str, setup: Any) -> np.ndarray:
    """A model of python-crfsuite as weights of our problem."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    info, problem = tagger.info(), setup.problem
    label = {name: k for k, name in enumerate(setup.labels)}
    names = {
        setup.extractor.describe(o, setup.names[1]): r
        for r, o in enumerate(setup.names[0].tolist())
    }
    W = np.zeros(problem.shape)
    for (attribute, y), weight in info.state_features.items():
        W[names[attribute], label[y]] = weight
    for (a, b), weight in info.transitions.items():
        W[problem.n_attributes + label[a], label[b]] = weight
    return W


# ---- The report ----------------------------------------------------------------------------------


def plot(out: Path) -> None:
    panels = []
    for (corpus,), rows in groups(rows_of(out, "elastic"), "corpus").items():
        lines = {}
        for name, mine in (
            ("l1, whole file", [r for r in rows if r["drop"] is None]),
            ("--compact --drop", [r for r in rows if r["drop"] is not None and not r["c1"]]),
        ):
            lines[name] = [r["weights"] for r in mine], [r["dev"] for r in mine]
        panels.append((NAMES[corpus], "weights that are not 0", "dev score", lines))
    draw(out / "elastic.png", panels, logx=True, columns=3)


def section(out: Path) -> str:
    found = []
    for r in rows_of(out, "elastic"):
        drop = "" if r["drop"] is None else f"{r['drop']:g}"
        found.append(
            [NAMES[r["corpus"]], f"{r['c1']:g}", drop, f"{r['dev']:.2f}", f"{r['features']:,.0f}",
             f"{r['weights']:,.0f}", f"{r['bytes'] / 1e6:.2f}", f"{100 * r['relative_gap']:.2g} %"]
        )  # fmt: skip
    head = ["corpus", "c1", "--compact --drop", "dev score", "features", "weights that are not 0"]
    parts = [
        f"crf loss, lambda = {2 * C2:g}/n, l1 = c1/n: the objective of CRFsuite with c2 = {C2:g} "
        "and c1. sdca to a certified gap of 0.1 %. The first 1,500 sentences; F1, for EWT "
        "accuracy, on the development part, for chunking on every fifth sentence, which is not "
        "trained on.",
        table([*head, "MB", "gap"], found),
    ]
    if not found:
        parts = []
    rows = []
    for r in rows_of(out, "elastic-crfsuite"):
        least = max(r[f"{n}_primal"] - r[f"{n}_gap"] for n in ("sdca", "owl-qn", "crfsuite"))
        cells = [f"{r[f'{n}_primal'] / least - 1:.1e}" for n in ("sdca", "owl-qn", "crfsuite")]
        zeros = [f"{r[f'{n}_zeros']:,.0f}" for n in ("sdca", "owl-qn", "crfsuite")]
        rows.append(
            [NAMES[r["corpus"]], f"{r['c1']:g}", *cells, *zeros, f"{r['weights']:,.0f}",
             f"{r['zero_in_one']:,.0f} ({r['zero_but_large']:.0f})"]
        )  # fmt: skip
    if rows:
        names = ("sdca", "owl-qn", "crfsuite")
        head = ["corpus", "c1", *(f"{n}, above the best dual" for n in names)]
        head += [*(f"{n}, zeros" for n in names), "weights", "zero in sdca or crfsuite alone"]
        parts.append(
            "python-crfsuite on the same objective (200 sequences, all states and transitions, "
            "2,000 iterations at most); in brackets those zeros of CRFsuite whose weight is above "
            "1e-3 in ours.\n\n" + table(head, rows)
        )
    return "\n\n".join(parts)


def claims(out: Path) -> list[Claim]:
    rows, found = rows_of(out, "elastic-crfsuite"), []
    if rows:
        names = ("sdca", "owl-qn", "crfsuite")
        best = [max(r[f"{n}_primal"] - r[f"{n}_gap"] for n in names) for r in rows]
        cut = [r for r in rows if any(r[f"{n}_gap"] > 1e-3 * r[f"{n}_primal"] for n in names)]
        pairs = [(r, b) for r, b in zip(rows, best, strict=True) if r not in cut]
        worst = max((r[f"{n}_primal"] / b - 1.0 for r, b in pairs for n in names), default=1.0)
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
    for (corpus,), mine in groups(rows_of(out, "elastic"), "corpus").items():
        plain = chosen(mine, c1=0.0, drop=None)[0]
        sparse = [
            r for r in mine if r["c1"] and r["drop"] is None and r["dev"] > plain["dev"] - 0.3
        ]
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
