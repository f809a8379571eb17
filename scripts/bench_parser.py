"""Measure the parser: accuracy, time, memory and size, certificates, cost by length.

    python scripts/bench_parser.py quarter full supertags decoders features sdca agree \
        gothic length page

Each part writes docs/parser/PART.md; `page` joins what is there to docs/parser.md. QUARTER is
every 4th sentence of UD English EWT's training file from the first one, FULL is all of it; gold
tags, one thread. CPU seconds are user + system time of a whole process, or of the optimizer alone
where a table says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pages import Part, main

from turbotag.corpus.reader import read
from turbotag.models.gold import options_for
from turbotag.models.parser import Parser
from turbotag.models.parser_training import ParserTraining, score_parser
from turbotag.optim.algorithms import algorithm
from turbotag.structures import projective, pruning, tree

TURBOTAG = [sys.executable, "-m", "turbotag"]
SEED = 1


def table(header: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [header, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def run(*arguments: str) -> tuple[str, str, float, float, float]:
    """(stdout, stderr, wall seconds, CPU seconds, peak MB) of a turbotag process."""
    script = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print('USAGE', u.ru_utime + u.ru_stime, u.ru_maxrss, file=sys.stderr); "
        "sys.exit(done.returncode)"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", script, *TURBOTAG, *arguments], capture_output=True, text=True
    )
    wall = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    usage = done.stderr.rsplit("USAGE", 1)[1].split()
    return done.stdout, done.stderr, wall, float(usage[0]), float(usage[1]) / 1e3


def sentences(path: Path) -> list[bytes]:
    return [s for s in path.read_bytes().split(b"\n\n") if s.strip()]


def write(found: list[bytes], to: Path) -> Path:
    to.write_bytes(b"\n\n".join(found) + b"\n\n")
    return to


def every_fourth(path: Path, to: Path) -> None:
    write(sentences(path)[::4], to)


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


def treebanks(data: Path, scratch: Path) -> list[tuple[str, Path, Path]]:
    """(name, training file, dev file) of parts of four treebanks. Slovene has no dev file: a sixth
    of its training sentences are held out."""
    found = []
    for name, step in (("ewt", 4), ("portuguese", 3), ("gothic", 1)):
        train = write(sentences(data / name / "train.conllu")[::step], scratch / f"{name}.conllu")
        found.append((f"{name}, 1/{step}" if step > 1 else name, train, data / name / "dev.conllu"))
    slovene = sentences(data / "slovene" / "train.conllu")
    kept = [s for i, s in enumerate(slovene) if i % 6]
    files = write(kept, scratch / "slovene"), write(slovene[::6], scratch / "slovene-dev")
    return [*found, ("slovene, 5/6", *files)]


def decoders(data: Path) -> str:
    """Projective or not, certified or not: what --decoder auto and the defaults were chosen by."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        model = str(Path(scratch) / "model")
        for name, train, dev in treebanks(data, Path(scratch)):
            for setting in (*CHOICES, *SECOND) if name != "gothic" else CHOICES:
                arguments = ["--task", "parse", "--train", str(train), "-o", model]
                _, _, _, cpu, _ = run("train", *arguments, *setting.split())
                out = json.loads(run("eval", "--model", model, str(dev), "--json")[0])
                c = Parser.load(model).header["certificate"]
                scores = [
                    f"{100 * s['uas']:.2f} / {100 * s['las']:.2f}"
                    for s in (out["conventions"][n] for n in ("conll18", "nopunct"))
                ]
                gap = f"{100 * c['gap'] / c['primal']:.2g} %"
                rows.append([name, f"`{setting}`", *scores, gap, f"{cpu:.0f}"])
                print(rows[-1], flush=True)
    return (
        "Dev, UAS / LAS of all words and without PUNCT, gold tags; the gap is that of the arcs, as "
        "a share of the primal objective.\n\n"
        + table(["trained on", "setting", "all words", "no PUNCT", "gap", "train CPU s"], rows)
    )


# ---- Supertags and fewer heads -------------------------------------------------------------------


def supertags(data: Path) -> str:
    """What --supertags and --heads are worth, with gold tags."""
    folder, rows = data / "ewt", []
    with tempfile.TemporaryDirectory() as scratch:
        quarter, model = Path(scratch) / "quarter.conllu", str(Path(scratch) / "model")
        every_fourth(folder / "train.conllu", quarter)
        block = read(str(folder / "dev.conllu"))
        for source, train, settings in (
            ("QUARTER", quarter, ("", "--heads 6", "--supertags 5", "--supertags 5 --heads 6")),
            ("QUARTER", quarter, ("--parts cs,gp", "--parts cs,gp --supertags 5 --heads 4")),
            ("all", folder / "train.conllu", ("", "--supertags 5 --heads 6")),
        ):
            for setting in settings:
                arguments = ["--task", "parse", "--train", str(train), "-o", model]
                _, _, _, cpu, peak = run("train", *arguments, *setting.split())
                parser = Parser.load(model)
                parser.parse(block)  # compiled and warm
                rates, scores = [], []
                for _ in range(3):
                    start = time.process_time()
                    parser.parse(block)
                    rates.append(block.n_tokens / (time.process_time() - start))
                for part in ("dev", "test"):
                    out = run("eval", "--model", model, str(folder / f"{part}.conllu"), "--json")
                    c = json.loads(out[0])["conventions"]["nopunct"]
                    scores.append(f"{100 * c['uas']:.2f} / {100 * c['las']:.2f}")
                size = Path(model).stat().st_size / 1e6
                cost = f"{cpu:.0f}", f"{peak:,.0f}", f"{size:.1f}", f"{sorted(rates)[1]:,.0f}"
                rows.append([source, f"`{setting}`" if setting else "plain", *scores, *cost])
    costs = "train CPU s", "peak MB", "model MB", "words a second"
    return (
        "Gold tags, UAS / LAS without PUNCT; words a CPU second of `Parser.parse` on dev.\n\n"
        + table(["trained on", "setting", "dev", "test", *costs], rows)
    )


# ---- The race on EWT -----------------------------------------------------------------------------


def ewt(data: Path, quarter: bool) -> str:
    folder = data / "ewt"
    with tempfile.TemporaryDirectory() as scratch:
        train, model = folder / "train.conllu", Path(scratch) / "model"
        if quarter:
            every_fourth(train, Path(scratch) / "quarter.conllu")
            train = Path(scratch) / "quarter.conllu"
        source = "QUARTER" if quarter else "ewt/train.conllu"
        arguments = ["train", "--task", "parse", "--train", str(train), "-o", str(model)]
        _, log, _, cpu, peak = run(*arguments)
        facts = [line for line in log.splitlines() if " candidate arcs" in line or "rows" in line]
        size = model.stat().st_size / 1e6
        rows = []
        for part in ("dev", "test"):
            out, _, _, _, _ = run(
                "eval", "--model", str(model), str(folder / f"{part}.conllu"), "--json"
            )
            for name, c in json.loads(out)["conventions"].items():
                scores = (c["uas"], c["las"], c["label_accuracy"], c["exact_match"])
                rows.append([part, name, *(f"{100 * x:.2f}" for x in scores)])
        many = Path(scratch) / "many.conllu"
        many.write_bytes((folder / "dev.conllu").read_bytes() * 8)
        words = read(str(folder / "dev.conllu")).n_tokens
        once, eight, alone = [], [], []
        parser = Parser.load(str(model))
        block = read(str(folder / "dev.conllu"))
        for _ in range(3):
            once.append(
                words / run("predict", str(model), str(folder / "dev.conllu"), "-o", os.devnull)[2]
            )
            eight.append(8 * words / run("predict", str(model), str(many), "-o", os.devnull)[2])
            start = time.perf_counter()
            parser.parse(block)
            alone.append(words / (time.perf_counter() - start))
        rates = [f"{sorted(r)[1]:,.0f}" for r in (once, eight, alone)]
    return "\n\n".join(
        [
            f"`turbotag {' '.join(arguments[:4])} {source} -o MODEL`",
            table(
                [
                    "train CPU s",
                    "peak MB",
                    "model MB",
                    "words/s: dev, whole process",
                    "8 x dev, whole process",
                    "parsing alone",
                ],
                [[f"{cpu:.0f}", f"{peak:,.0f}", f"{size:.1f}", *rates]],
            ),
            table(["data", "convention", "UAS", "LAS", "label acc.", "exact match"], rows),
            "```\n" + "\n".join(facts) + "\n```",
        ]
    )


def features(data: Path) -> str:
    """Which features get a weight, and pruning: what each costs and gains on QUARTER."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        quarter, model = Path(scratch) / "quarter.conllu", Path(scratch) / "model"
        every_fourth(data / "ewt" / "train.conllu", quarter)
        block = read(str(data / "ewt" / "dev.conllu"))
        for pruned, count in ((True, 4), (True, 0), (False, 50), (False, 0)):
            arguments = ["train", "--task", "parse", "--train", str(quarter), "-o", str(model)]
            arguments += [
                "--min-count",
                str(count),
                "--no-labels",
                *([] if pruned else ["--no-prune"]),
            ]
            _, log, _, cpu, peak = run(*arguments)
            found = re.search(r"(\d+) rows, ([\d.]+) features a part", log)
            assert found
            uas = score_parser(Parser.load(str(model)), block).conventions["nopunct"].uas
            size = model.stat().st_size / 1e6
            which = f"gold, and {count} times on candidates" if count else "gold arcs only"
            rows.append(
                [
                    "10 heads a word" if pruned else "all",
                    which,
                    f"{int(found[1]):,}",
                    found[2],
                    f"{100 * uas:.2f}",
                    f"{cpu:.0f}",
                    f"{peak:,.0f}",
                    f"{size:.1f}",
                ]
            )
            print(rows[-1], flush=True)
    head = ["arcs", "features of", "rows", "features an arc", "dev UAS", "train CPU s", "peak MB"]
    return "QUARTER, dev without PUNCT, no labels.\n\n" + table([*head, "model MB"], rows)


# ---- Slovene: certificates, agreement ------------------------------------------------------------


def slovene(data: Path, **given: Any) -> tuple[Any, float]:
    """All arcs, features of gold arcs, no labels: the problem of the first trial."""
    folder = data / "slovene"
    options = options_for(
        "parse",
        train=str(folder / "train.conllu"),
        dev=str(folder / "test.conllu"),
        prune=False,
        labels=False,
        min_count=0,
        C=0.1,
        **{"decoder": "nonprojective", **given},
    )
    task = ParserTraining(options, "unused", lambda line: None).arc_problem()
    return task, 1.0 / (options.C * task.problem.n)


def optimizer(task: Any, lam: float, name: str, **params: Any) -> Any:
    return algorithm(name)(task.problem, lam, np.random.default_rng(SEED), **params)


def sdca(data: Path) -> str:
    """Certified gaps by epoch and by the clock, for several samplings."""
    task, lam = slovene(data, loss="crf")
    rows = []
    for sampling in ("gap", "gap-cost", "uniform"):
        opt, spent = optimizer(task, lam, "sdca", sampling=sampling), 0.0
        shown: dict[str, str] = {}
        for epoch in range(1, 61):
            start = time.process_time()
            opt.epoch()
            spent += time.process_time() - start
            if epoch in (5, 10, 15, 20, 25, 30) or opt.gap_estimate() < 2e-4:
                gaps = opt.gaps.copy()
                certificate = opt.certify()
                opt.gaps[:] = gaps
                opt.sampler.fill(gaps)
                for e in (10, 15, 20, 25):
                    if epoch == e:
                        shown[f"epoch {e}"] = f"{certificate.gap:.1e} ({spent:.1f} s)"
                if certificate.gap < 1e-4 and "1e-4" not in shown:
                    shown["1e-4"] = f"epoch {epoch}, {spent:.1f} s"
                    shown["P"] = f"{certificate.primal:.6f}"
                    shown["UAS"] = f"{100 * task.dev_score(opt.weights()):.2f}"
            if "1e-4" in shown and epoch >= 25:
                break
        keys = ["epoch 10", "epoch 15", "epoch 20", "epoch 25", "1e-4", "P", "UAS"]
        rows.append([sampling, *(shown.get(k, "-") for k in keys)])
        print(rows[-1], flush=True)
    head = ["sampling", "gap after 10", "15", "20", "25 epochs", "gap < 1e-4 at", "P", "test UAS"]
    return (
        f"Slovene, crf loss, C = 0.1, all arcs, {task.problem.n_rows:,} features. Certified gaps; "
        "CPU seconds of the optimizer alone.\n\n" + table(head, rows)
    )


def agree(data: Path) -> str:
    """Different optimizers, one optimum."""
    rows = []
    for decoder in ("nonprojective", "projective"):
        task, lam = slovene(data, loss="crf", decoder=decoder)
        plans: list[tuple[str, dict[str, Any], int]] = [
            ("sdca", {"sampling": "gap-cost"}, 60),
            ("eg", {}, 80),
            ("sag-nus", {"skip-line-search": True}, 200),
            ("lbfgs", {}, 300),
        ]
        if decoder == "projective":
            plans.insert(1, ("sdca", {"dual": "exact"}, 60))
        for name, params, most in plans:
            opt = optimizer(task, lam, name, **params)
            start = time.process_time()
            certificate = None
            while opt.epochs < most and opt.done is None and time.process_time() - start < 240:
                opt.epoch()
                if opt.epochs % 5 == 0:
                    certificate = opt.certify()
                    if certificate.gap < 1e-5:
                        break
            spent = time.process_time() - start
            certificate = opt.certify()
            label = " ".join([name, *(str(v) for v in params.values() if v is not True)])
            rows.append(
                [
                    decoder,
                    label,
                    f"{certificate.primal:.6f}",
                    f"{certificate.dual:.6f}",
                    f"{certificate.gap:.1e}",
                    opt.epochs,
                    f"{opt.oracle_calls:,}",
                    f"{spent:.0f}",
                ]
            )
            print(rows[-1], flush=True)
    head = ["decoder", "optimizer", "primal", "dual", "certified gap", "epochs", "oracle calls"]
    return "Slovene, crf loss, C = 0.1.\n\n" + table([*head, "CPU s"], rows)


# ---- Gothic ------------------------------------------------------------------------------------


def gothic(data: Path) -> str:
    """Non-projective against projective on the arcs that cross."""
    folder = data / "gothic"
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        for decoder, crossing in (
            ("nonprojective", "lift"),
            ("projective", "lift"),
            ("projective", "skip"),
        ):
            arguments = ["train", "--task", "parse", "--train", str(folder / "train.conllu")]
            arguments += ["--decoder", decoder, "--crossing", crossing, "-o", str(model)]
            _, _, _, cpu, _ = run(*arguments)
            score = score_parser(Parser.load(str(model)), read(str(folder / "test.conllu")))
            c = score.conventions["conll18"]
            n = c.nonprojective
            name = decoder if decoder == "nonprojective" else f"{decoder}, {crossing}"
            rows.append(
                [
                    name,
                    f"{100 * c.uas:.2f}",
                    f"{100 * (c.las or 0):.2f}",
                    n.gold,
                    n.predicted,
                    n.correct,
                    f"{100 * n.precision:.1f}",
                    f"{100 * n.recall:.1f}",
                    f"{cpu:.0f}",
                ]
            )
            print(rows[-1], flush=True)
    head = ["decoder", "UAS", "LAS", "crossing arcs", "predicted", "right", "precision", "recall"]
    return (
        "Gothic test, all words, gold tags; crossing arcs are those that are non-projective.\n\n"
        + table([*head, "train CPU s"], rows)
    )


# ---- Cost by length ------------------------------------------------------------------------------


def best_of(call: Any, repeats: int) -> float:
    """Seconds of the fastest of five rounds."""
    found = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        found.append((time.perf_counter() - start) / repeats)
    return min(found)


STEPS = [
    "marginals",
    "best tree",
    "projective marginals",
    "pruning: keys",
    "pruning: lookups",
    "pruning in all",
    "arcs: keys",
    "arcs: lookups",
    "labels",
    "sentence in all",
]


def steps(parser: Parser, words: np.ndarray) -> list[float]:
    """Microseconds of each of STEPS on one sentence."""
    n, scanner = words.shape[0], parser.extractor
    scores = 3.0 * np.random.default_rng(SEED).normal(size=(n + 1, n + 1))
    mu, heads = np.empty_like(scores), np.empty(n, np.int32)
    every, kept = pruning.full(n), parser.candidates(words, scanner)
    prune_keys = scanner.stage["prune"].keys(words, *every)
    arc_keys = scanner.stage["arc"].keys(words, *kept)
    best = parser.best(parser.scores(words, scanner))

    def whole() -> None:
        found = parser.best(parser.scores(words, scanner))
        parser.label_scores(words, found, scanner)

    calls = [
        lambda: tree.marginals(scores, True, 1.0, mu),
        lambda: tree.argmax(scores, True, heads),
        lambda: projective.marginals(scores, True, 1.0, mu),
        lambda: scanner.stage["prune"].keys(words, *every),
        lambda: parser.tables["prune"].sums(*prune_keys),
        lambda: parser.candidates(words, scanner),
        lambda: scanner.stage["arc"].keys(words, *kept),
        lambda: parser.tables["arc"].sums(*arc_keys),
        lambda: parser.label_scores(words, best, scanner),
        whole,
    ]
    for call in calls:
        call()
    return [1e6 * best_of(call, max(2, 4000 // n**2)) for call in calls]


def length(data: Path) -> str:
    """Cost of each step for sentences of 5 to 200 words, and fitted exponents."""
    with tempfile.TemporaryDirectory() as scratch:
        quarter, model = Path(scratch) / "quarter.conllu", Path(scratch) / "model"
        every_fourth(data / "ewt" / "train.conllu", quarter)
        run("train", "--task", "parse", "--train", str(quarter), "-o", str(model))
        parser = Parser.load(str(model))
    matrix = parser.extractor.matrix(read(str(data / "ewt" / "dev.conllu")))
    lengths = (5, 10, 20, 40, 80, 140, 200)
    micro = [steps(parser, matrix[3000 : 3000 + n]) for n in lengths]  # running text, cut to length
    late = np.log(np.array(micro)[2:])
    slopes = [np.polyfit(np.log(lengths[2:]), column, 1)[0] for column in late.T]
    rows = [
        [n, *(f"{x:,.0f}" if x >= 10 else f"{x:.1f}" for x in row)]
        for n, row in zip(lengths, micro, strict=True)
    ]
    rows.append(["exponent", *(f"{x:.2f}" for x in slopes)])
    return (
        "Microseconds a sentence (fastest of five rounds), parser of QUARTER; the exponent is "
        "fitted over 20 to 200 words.\n\n" + table(["words", *STEPS], rows)
    )


PARTS: dict[str, Part] = {
    "quarter": ("EWT, a quarter of the training data", lambda d: ewt(d, True)),
    "full": ("EWT, all training data", lambda d: ewt(d, False)),
    "supertags": ("Supertags, and fewer heads", supertags),
    "decoders": ("Which trees, which optimizer", decoders),
    "features": ("Which arcs and features", features),
    "sdca": ("Certified training on Slovene", sdca),
    "agree": ("Different optimizers, one optimum", agree),
    "gothic": ("Gothic: arcs that cross", gothic),
    "length": ("Cost against sentence length", length),
}

if __name__ == "__main__":
    main("The parser, measured", "parser", __doc__, __file__, PARTS, "parser")
