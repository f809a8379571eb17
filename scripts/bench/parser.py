"""Measure the parser: accuracy, time, memory and size, certificates, cost by length.

    python scripts/bench parser quarter full supertags decoders features sdca agree gothic \
        length page

QUARTER is every 4th sentence of UD English EWT's training file from the first one, FULL is all of
it; gold tags, one thread. CPU seconds are user + system time of a whole process, or of the
optimizer alone where a table says so.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import Row, table
from measure import (
    Page,
    Part,
    Run,
    Setting,
    evaluate,
    held_out,
    run,
    scratch,
    sentences,
    some,
    timed,
    turbotag,
    words_per_second,
)
from problems import certified, follow, slovene

from turbotag.corpus.reader import from_bytes, read
from turbotag.models.pipeline import load_model
from turbotag.structures import projective, tree


def quarter(setting: Setting, folder: Path) -> Path:
    """QUARTER; a hundred sentences of it in a rehearsal."""
    source, first = setting.data / "ewt" / "train.conllu", setting.pick(100, None)
    return some(source, 4, folder / "quarter.conllu", first)


def train(source: Path, model: Path, *options: object) -> Run:
    """Without calibration, which would be a second training."""
    given = "--task", "parse", "--no-calibration", "--train", source, "-o", model
    return run(turbotag("train", *given, *options))


def conventions(model: Path, gold: Path) -> dict[str, Any]:
    return evaluate("--model", model, gold)["conventions"]


def attachment(convention: dict[str, float]) -> str:
    return f"{100 * convention['uas']:.2f} / {100 * convention['las']:.2f}"


def costs(done: Run, model: Path) -> list[str]:
    """CPU seconds and peak memory of training, and the model's size."""
    size = model.stat().st_size / 1e6
    return [f"{done.cpu:.0f}", f"{done.megabytes:,.0f}", f"{size:.1f}"]


COSTS = ["train CPU s", "peak MB", "model MB"]


# ---- Which trees, which optimizer ----------------------------------------------------------------

OLD = "--decoder nonprojective --algorithm dca"  # the defaults of 0.1
CHOICES = (
    OLD,
    "--decoder nonprojective",
    "--decoder projective-decoding",
    "--decoder projective --algorithm dca",
    "--decoder projective",
)
SECOND = (
    f"--parts cs,gp --heads 6 --epochs 8 {OLD}",
    "--parts cs,gp --heads 6 --decoder nonprojective",
    "--parts cs,gp --heads 6 --decoder projective-decoding",
)


def treebanks(setting: Setting, folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """(name, training file, dev file) of parts of four treebanks. Slovene has no dev file: a sixth
    of its training sentences are held out."""
    for name, step in (("ewt", 4), ("portuguese", 3), ("gothic", 1)):
        given = setting.data / name
        first = setting.pick(100, None)
        part = some(given / "train.conllu", step, folder / f"{name}.conllu", first)
        yield f"{name}, 1/{step}" if step > 1 else name, part, given / "dev.conllu"
    source = setting.data / "slovene" / "train.conllu"
    paths = folder / "slovene", folder / "slovene-dev"
    for path, text in zip(paths, held_out(sentences(source), 6), strict=True):
        path.write_bytes(text)
    yield "slovene, 5/6", *paths


def decoders(setting: Setting) -> str:
    """Projective or not, certified or not: what --decoder auto and the defaults were chosen by."""
    rows = []
    with scratch() as folder:
        model = folder / "model"
        for name, part, dev in treebanks(setting, folder):
            for options in (*CHOICES, *SECOND) if name != "gothic" else CHOICES:
                done = train(part, model, *options.split())
                found = conventions(model, dev)
                certificate = load_model(str(model)).header["certificate"]
                gap = f"{100 * certificate['gap'] / certificate['primal']:.2g} %"
                scores = [attachment(found[c]) for c in ("conll18", "nopunct")]
                rows.append([name, f"`{options}`", *scores, gap, f"{done.cpu:.0f}"])
                print(rows[-1], flush=True)
    return (
        "Dev, UAS / LAS of all words and without PUNCT, gold tags; the gap is that of the arcs, as "
        "a share of the primal objective.\n\n"
        + table(["trained on", "setting", "all words", "no PUNCT", "gap", "train CPU s"], rows)
    )


def supertags(setting: Setting) -> str:
    """What --supertags and --heads are worth, with gold tags."""
    ewt, rows = setting.data / "ewt", []
    with scratch() as folder:
        part, model = quarter(setting, folder), folder / "model"
        plans = [("QUARTER", part, o) for o in ("", "--heads 6", "--supertags 5")]
        plans += [("QUARTER", part, "--supertags 5 --heads 6"), ("QUARTER", part, "--parts cs,gp")]
        plans += [("QUARTER", part, "--parts cs,gp --supertags 5 --heads 4")]
        whole = part if setting.tiny else ewt / "train.conllu"
        plans += [("all", whole, o) for o in ("", "--supertags 5 --heads 6")]
        for name, source, options in plans:
            done = train(source, model, *options.split())
            scores = [
                attachment(conventions(model, ewt / f"{p}.conllu")["nopunct"])
                for p in ("dev", "test")
            ]
            rate = words_per_second(load_model(str(model)), str(ewt / "dev.conllu"))
            setting_of = f"`{options}`" if options else "plain"
            rows.append([name, setting_of, *scores, *costs(done, model), f"{rate:,.0f}"])
            print(rows[-1], flush=True)
    return (
        "Gold tags, UAS / LAS without PUNCT; words a CPU second on dev, with the model loaded.\n\n"
        + table(["trained on", "setting", "dev", "test", *COSTS, "words a second"], rows)
    )


# ---- The race on EWT -----------------------------------------------------------------------------


def ewt(setting: Setting, all_of_it: bool) -> str:
    given, rows = setting.data / "ewt", []
    with scratch() as folder:
        model, dev = folder / "model", given / "dev.conllu"
        whole = all_of_it and not setting.tiny
        done = train(given / "train.conllu" if whole else quarter(setting, folder), model)
        facts = [x for x in done.err.splitlines() if " candidate arcs" in x or "rows" in x]
        for part in ("dev", "test"):
            for name, c in conventions(model, given / f"{part}.conllu").items():
                scores = (c["uas"], c["las"], c["label_accuracy"], c["exact_match"])
                rows.append([part, name, *(f"{100 * x:.2f}" for x in scores)])
        many = folder / "many.conllu"
        many.write_bytes(dev.read_bytes() * 8)
        words, rates = read(str(dev)).n_tokens, []
        for source, copies in ((dev, 1), (many, 8)):
            predict = turbotag("predict", model, source, "-o", os.devnull)
            walls = sorted(run(predict).wall for _ in range(3))
            rates.append(f"{copies * words / walls[1]:,.0f}")
        rates.append(f"{words_per_second(load_model(str(model)), str(dev)):,.0f}")
        made = costs(done, model)
    heads = [*COSTS, "words/s: dev, whole process", "8 x dev, whole process", "model loaded"]
    source = "ewt/train.conllu" if all_of_it else "QUARTER"
    return "\n\n".join(
        [
            f"`turbotag train --task parse --train {source} -o MODEL`",
            table(heads, [[*made, *rates]]),
            table(["data", "convention", "UAS", "LAS", "label acc.", "exact match"], rows),
            "```\n" + "\n".join(facts) + "\n```",
        ]
    )


def features(setting: Setting) -> str:
    """Which features get a weight, and pruning: what each costs and gains on QUARTER."""
    rows = []
    with scratch() as folder:
        source, model = quarter(setting, folder), folder / "model"
        for pruned, count in ((True, 4), (True, 0), (False, 50), (False, 0)):
            options = ["--min-count", count, "--no-labels", *([] if pruned else ["--no-prune"])]
            done = train(source, model, *options)
            found = re.search(r"(\d+) rows, ([\d.]+) features a part", done.err)
            assert found
            uas = conventions(model, setting.data / "ewt" / "dev.conllu")["nopunct"]["uas"]
            which = f"gold, and {count} times on candidates" if count else "gold arcs only"
            arcs = "10 heads a word" if pruned else "all"
            numbers = f"{int(found[1]):,}", found[2], f"{100 * uas:.2f}"
            rows.append([arcs, which, *numbers, *costs(done, model)])
            print(rows[-1], flush=True)
    head = ["arcs", "features of", "rows", "features an arc", "dev UAS"]
    return "QUARTER, dev without PUNCT, no labels.\n\n" + table([*head, *COSTS], rows)


# ---- Slovene: certificates, agreement ------------------------------------------------------------


C = 0.1  # on Slovene


def sdca(setting: Setting) -> str:
    """Certified gaps by epoch and by the clock, for several samplings."""
    task, rows, shown = slovene(setting), [], (10, 15, 20, 25)

    def proof(opt: Any) -> Row:
        close = opt.epochs in shown or opt.gap_estimate() < 2e-4
        return {"gap": certified(opt).gap if close else None}

    for sampling in ("gap", "gap-cost", "uniform"):
        opt, gaps, end = task.optimizer("sdca", C, sampling=sampling), {}, ["-"] * 3
        for row in follow(opt, proof, setting.pick(2, 60)):
            gaps[row["epoch"]] = f"{row['gap'] or 0:.1e} ({row['cpu_seconds']:.1f} s)"
            if row["gap"] is not None and row["gap"] < 1e-4 and end[0] == "-":
                uas, primal = task.score(opt.weights(), "test"), certified(opt).primal
                end = [f"epoch {row['epoch']}, {row['cpu_seconds']:.1f} s", f"{primal:.6f}"]
                end.append(f"{uas:.2f}")
            if end[0] != "-" and row["epoch"] >= shown[-1]:
                break
        rows.append([sampling, *(gaps.get(e, "-") for e in shown), *end])
        print(rows[-1], flush=True)
    head = ["sampling", "gap after 10", "15", "20", "25 epochs", "gap < 1e-4 at", "P", "test UAS"]
    return (
        f"Slovene, crf loss, C = {C}, all arcs, {task.problem.n_rows:,} features. Certified gaps; "
        "CPU seconds of the optimizer alone.\n\n" + table(head, rows)
    )


PLANS: list[tuple[str, dict[str, Any], int]] = [
    ("sdca", {"sampling": "gap-cost"}, 60),
    ("sdca", {"dual": "exact"}, 60),  # where there are cliques
    ("eg", {}, 80),
    ("sag-nus", {"skip-line-search": True}, 200),
    ("lbfgs", {}, 300),
]


def agree(setting: Setting) -> str:
    """Different optimizers, one optimum."""
    rows = []
    for decoder in ("nonprojective", "projective"):
        task = slovene(setting, decoder)
        for name, params, most in PLANS:
            if "dual" in params and decoder == "nonprojective":
                continue
            opt, start = task.optimizer(name, C, **params), time.process_time()
            while opt.epochs < setting.pick(1, most) and opt.done is None:
                opt.epoch()
                late = time.process_time() - start > 240
                if late or (opt.epochs % 5 == 0 and opt.certify().gap < 1e-5):
                    break
            spent, proof = time.process_time() - start, opt.certify()
            label = " ".join([name, *(str(v) for v in params.values() if v is not True)])
            numbers = f"{proof.primal:.6f}", f"{proof.dual:.6f}", f"{proof.gap:.1e}"
            calls = f"{opt.oracle_calls:,}"
            rows.append([decoder, label, *numbers, opt.epochs, calls, f"{spent:.0f}"])
            print(rows[-1], flush=True)
    head = ["decoder", "optimizer", "primal", "dual", "certified gap", "epochs", "oracle calls"]
    return f"Slovene, crf loss, C = {C}.\n\n" + table([*head, "CPU s"], rows)


# ---- Gothic, and cost by length ------------------------------------------------------------------


def gothic(setting: Setting) -> str:
    """Non-projective against projective on the arcs that cross."""
    given, rows = setting.data / "gothic", []
    with scratch() as folder:
        model = folder / "model"
        source = some(given / "train.conllu", 1, folder / "train.conllu", setting.pick(100, None))
        for decoder in ("nonprojective", "projective, lift", "projective, skip"):
            chosen = ["--decoder", decoder.split(",")[0], "--crossing", decoder.split()[-1]]
            done = train(source, model, *(chosen if "," in decoder else chosen[:2]))
            c = conventions(model, given / "test.conllu")["conll18"]
            n = c["nonprojective"]
            scores = [f"{100 * c[k]:.2f}" for k in ("uas", "las")]
            counts = [n[k] for k in ("gold", "predicted", "correct")]
            shares = [f"{100 * n[k]:.1f}" for k in ("precision", "recall")]
            rows.append([decoder, *scores, *counts, *shares, f"{done.cpu:.0f}"])
            print(rows[-1], flush=True)
    head = ["decoder", "UAS", "LAS", "crossing arcs", "predicted", "right", "precision", "recall"]
    return (
        "Gothic test, all words, gold tags; crossing arcs are those that are non-projective.\n\n"
        + table([*head, "train CPU s"], rows)
    )


def length(setting: Setting) -> str:
    """Cost of inference and of a whole sentence for 5 to 200 words, and fitted exponents."""
    dev = setting.data / "ewt" / "dev.conllu"
    with scratch() as folder:
        train(quarter(setting, folder), folder / "model")
        parser: Any = load_model(str(folder / "model"))
    fields = [x.split(b"\t") for x in dev.read_bytes().splitlines() if x.split(b"\t")[0].isdigit()]
    lengths, micro = (5, 10, 20, 40, 80, 140, 200), []
    for n in lengths:  # running text, cut to length
        text = [b"\t".join([b"%d" % i, *f[1:]]) for i, f in enumerate(fields[3000 : 3000 + n], 1)]
        block = from_bytes(b"\n".join([*text, b"", b""]), "text", read(str(dev)).format)
        scores = 3.0 * np.random.default_rng(setting.seed).normal(size=(n + 1, n + 1))
        mu, heads = np.empty_like(scores), np.empty(n, np.int32)
        calls = [
            lambda s=scores, m=mu: tree.marginals(s, True, 1.0, m),
            lambda s=scores, h=heads: tree.argmax(s, True, h),
            lambda s=scores, m=mu: projective.marginals(s, True, 1.0, m),
            lambda b=block: parser.parse(b),
        ]
        micro.append([1e6 * fastest(call, max(2, 4000 // n**2)) for call in calls])
    late = np.log(np.array(micro)[2:])
    slopes = [np.polyfit(np.log(lengths[2:]), column, 1)[0] for column in late.T]
    rows = [
        [n, *(f"{x:,.0f}" if x >= 10 else f"{x:.1f}" for x in row)]
        for n, row in zip(lengths, micro, strict=True)
    ]
    rows.append(["exponent", *(f"{x:.2f}" for x in slopes)])
    head = ["words", "marginals", "best tree", "projective marginals", "sentence in all"]
    return (
        "Microseconds a sentence (fastest of five rounds), parser of QUARTER; the exponent is "
        "fitted over 20 to 200 words.\n\n" + table(head, rows)
    )


def fastest(call: Any, repeats: int) -> float:
    """Seconds of a call, in the fastest of five rounds after one that does not count."""
    call()
    return min(timed(lambda: [call() for _ in range(repeats)]) for _ in range(5)) / repeats


PAGE = Page(
    "The parser, measured",
    "parser",
    "parser",
    "bench/parser.py",
    {
        "quarter": Part("EWT, a quarter of the training data", lambda s: ewt(s, False)),
        "full": Part("EWT, all training data", lambda s: ewt(s, True)),
        "supertags": Part("Supertags, and fewer heads", supertags),
        "decoders": Part("Which trees, which optimizer", decoders),
        "features": Part("Which arcs and features", features),
        "sdca": Part("Certified training on Slovene", sdca),
        "agree": Part("Different optimizers, one optimum", agree),
        "gothic": Part("Gothic: arcs that cross", gothic),
        "length": Part("Cost against sentence length", length),
    },
)
