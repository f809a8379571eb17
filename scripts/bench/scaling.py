"""How cost grows with sentences, their length, labels and threads: exponents fitted to CPU time."""

from __future__ import annotations

import io
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from figures import Row, groups, read, spread, table, values
from measure import Setting, joined, rounds, scratch, sentences, timed
from peers import CRFSUITE, Comparison, installed, rate
from plots import bars, draw, figure, plain, save
from problems import Task, parsing
from workers import attributes, read_columns

from corpora import DEMO
from turbotag.corpus.reader import read as read_block
from turbotag.models.gold import Layout
from turbotag.models.pipeline import load
from turbotag.models.prediction import predict
from turbotag.training import train
from turbotag.training.options import TaggerOptions, options_for
from turbotag.training.tagger import problem

TITLE = "Scaling"
EPOCH, TAG, EXTRACT = "turbotag: sdca epoch", "turbotag: tagging", "turbotag: reading and features"
PASS, PEER_TAG = "python-crfsuite: lbfgs iteration", "python-crfsuite: tagging"
ARC_EPOCH, PARSE, PARSE2 = "dca epoch, arcs", "parsing, first order", "parsing, second order"
SEED = 1

Tagged = tuple[list[str], list[str]]  # words and tags of a sentence
Costs = list[tuple[str, float]]  # (what, CPU seconds) of each run
Point = tuple[str, int, int, Costs]  # axis, where on it, sentences


def measure(setting: Setting) -> None:
    peer, rows = installed(setting, CRFSUITE), list[Row]()
    for corpus in ("ewt", "conll2000"):
        setting.has(corpus)
    with scratch() as at:
        (at / "templates.txt").write_text("word[-1..1]\nbias\n", encoding="utf-8")
        chain_costs(setting, synthetic_options(at, synthetic(50, 10, 5)), at)  # compiled now
        for axis, x, n, found in (
            *by_sentences(setting, at, peer),
            *by_length(setting, at, peer),
            *by_labels(setting, at, peer),
            *parsers(setting, at),
        ):
            for what, seconds in found:
                row = {"axis": axis, "what": what, "x": x, "sentences": n}
                rows.append({**row, "cpu_s": round(seconds, 6)})
            print(axis, x, {w: round(s, 4) for w, s in found}, flush=True)
    setting.write("scaling", rows)
    setting.write("scaling-threads", threads(setting))


# ---- Chains --------------------------------------------------------------------------------------


def chain_costs(setting: Setting, options: TaggerOptions, at: Path) -> Costs:
    """Reading and extracting features, an epoch of sdca after the first, tagging the same data."""
    repeats = range(setting.repeats)
    found = [(EXTRACT, timed(lambda: problem(options))) for _ in repeats]
    opt = Task(setting, problem(options), {}).optimizer("sdca")
    opt.epoch()
    found += [(EPOCH, timed(opt.epoch)) for _ in repeats]
    tagger, _ = train(
        replace(options, fit=replace(options.fit, epochs=1, stop_gap=1e9)), str(at / "tagger")
    )
    block = read_block(options.train, options.layout.format, tagger.naming)
    tagger.tag(block)
    return found + [(TAG, timed(lambda: tagger.tag(block))) for _ in repeats]


def peer_costs(setting: Setting, data: list[tuple[list[list[str]], list[str]]]) -> Costs:
    """An iteration of CRFsuite's lbfgs after the first, tagging the same data."""
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        def message(self, message: str) -> None:
            if "Iteration #" in message:
                ends.append(time.process_time())

    ends: list[float] = []
    trainer = Trainer("lbfgs", {"c2": 0.5, "max_iterations": setting.repeats + 1})
    for names, tags in data:
        trainer.append(names, tags)
    tagger = pycrfsuite.Tagger()
    with tempfile.NamedTemporaryFile() as model:
        trainer.train(model.name)
        tagger.open(model.name)
        found = [(PASS, b - a) for a, b in itertools.pairwise(ends)]
        for _ in range(setting.repeats):
            found.append((PEER_TAG, timed(lambda: [tagger.tag(names) for names, _ in data])))
    return found


def synthetic(n: int, length: int, labels: int) -> list[Tagged]:
    """Words of 2,000 types; the tag is a function of the word, four times in five."""
    rng = np.random.default_rng(SEED)
    words = rng.integers(2000, size=(n, length))
    noise = rng.integers(labels, size=(n, length))
    tags = np.where(rng.random((n, length)) < 0.8, words % labels, noise)
    return [
        ([f"w{x}" for x in a], [f"T{x:03d}" for x in b])
        for a, b in zip(words.tolist(), tags.tolist(), strict=True)
    ]


def synthetic_options(at: Path, data: list[Tagged]) -> TaggerOptions:
    lines = []
    for words, tags in data:
        lines += [f"{w}\t{t}" for w, t in zip(words, tags, strict=True)] + [""]
    text, template = "\n".join([*lines, ""]).encode(), str(at / "templates.txt")
    names = {"columns": ("word", "tag"), "target": "tag"}
    return options_for("pos", text, format="columns", template=template, **names)


def synthetic_attributes(words: list[str]) -> list[list[str]]:
    """What the templates are, as strings."""
    w = ["<b>", *words, "<b>"]
    return [["-1=" + w[t], "0=" + w[t + 1], "1=" + w[t + 2], "b"] for t in range(len(words))]


def synthetic_costs(setting: Setting, at: Path, data: list[Tagged], peer: bool) -> Costs:
    found = chain_costs(setting, synthetic_options(at, data), at)
    if peer:
        found += peer_costs(setting, [(synthetic_attributes(w), tags) for w, tags in data])
    return found


def by_sentences(setting: Setting, at: Path, peer: bool) -> Iterator[Point]:
    path = setting.data / "conll2000" / "train.txt"
    if not path.exists():
        return
    whole, theirs = sentences(path), read_columns(str(path)) if peer else []
    for share in setting.pick((64, 32, 16), (8, 4, 2, 1)):
        n = len(whole) // share
        data = joined(whole[:n])
        found = chain_costs(setting, options_for("chunk", data, template="conll2000"), at)
        if peer:
            found += peer_costs(setting, [(attributes(s), [f[-1] for f in s]) for s in theirs[:n]])
        yield "sentences", n, n, found


def by_length(setting: Setting, at: Path, peer: bool) -> Iterator[Point]:
    for length in (10, 20, 40, 80, 160, 320):
        n = setting.pick(4000, 40000) // length
        yield "length", length, n, synthetic_costs(setting, at, synthetic(n, length, 20), peer)


def by_labels(setting: Setting, at: Path, peer: bool) -> Iterator[Point]:
    n = setting.pick(100, 1000)
    for labels in (5, 10, 20, 50, 100, 200):
        yield "labels", labels, n, synthetic_costs(setting, at, synthetic(n, 20, labels), peer)


# ---- Parsers -------------------------------------------------------------------------------------


def treebank(words: list[list[bytes]], length: int) -> bytes:
    """Running text cut to sentences of one length, with trees that are made up: the first word is
    the root, every other hangs on one of the five before it."""
    rng, lines = np.random.default_rng(SEED), []
    for i, fields in enumerate(words[: len(words) // length * length]):
        t = i % length
        head = 0 if t == 0 else t - int(rng.integers(min(t, 5)))
        tree = [b"%d" % head, b"dep" if head else b"root"]
        lines.append(b"\t".join([b"%d" % (t + 1), *fields[1:6], *tree, b"_", b"_"]))
        if t + 1 == length:
            lines.append(b"")
    return b"\n".join([*lines, b""])


def parsers(setting: Setting, at: Path) -> Iterator[Point]:
    """Epochs of dca on the arcs, after pruning, and parsing."""
    path = setting.data / "ewt" / "dev.conllu"
    lines = (
        x.split(b"\t")
        for x in (path if path.exists() else DEMO / "train.conllu").read_bytes().splitlines()
    )
    words = [fields for fields in lines if fields[0].isdigit()]
    small = treebank(words[: setting.pick(2000, 8000)], 20)
    options = options_for("parse", train=small, format="conllu", parts=("cs", "gp"), epochs=2)
    second, _ = train(options, str(at / "second"))
    total = setting.pick(640, 6400)
    plans = [("parser: sentences", 20, total // k) for k in (8, 4, 2, 1)]
    plans += [("parser: length", length, total) for length in (10, 20, 40, 80, 160)]
    for axis, length, size in plans:
        data = treebank(words[:size], length)
        opt = parsing(setting, data, {}, format="conllu").optimizer("dca", 0.03)
        opt.epoch()
        found = [(ARC_EPOCH, timed(opt.epoch)) for _ in range(setting.repeats)]
        block = read_block(data, "conllu")
        for name, parser in ((PARSE, load("en-parse")), (PARSE2, second)):
            call: Any = lambda p=parser, b=block: p.parse(b)  # noqa: E731
            call()
            found += [(name, timed(call)) for _ in range(setting.repeats)]
        n = block.n_sentences
        yield axis, n if axis == "parser: sentences" else length, n, found


# ---- Threads -------------------------------------------------------------------------------------


def threads(setting: Setting) -> list[Row]:
    """The shipped models on one thread and on two, models loaded."""
    path = setting.data / "ewt" / "train.conllu"
    text = path.read_bytes() if path.exists() else (DEMO / "train.conllu").read_bytes() * 10
    sizes = {"en-xpos": 8 << 20, "en-parse": 4 << 20, "en": 2 << 20}
    pieces, rows = {}, list[Row]()
    for name, size in sizes.items():
        ends = [text.rindex(b"\n\n", 0, k) + 2 for k in (setting.pick(size // 40, size), 1 << 14)]
        pieces[name], warm = (text[:end] for end in ends)
        predict(load(name), warm, io.BytesIO(), layout=Layout("conllu"), threads=2)
    plans = dict.fromkeys(itertools.product(sizes, (1, 2)), setting.repeats)
    for repeat, (name, n) in rounds(plans):
        model = load(name)  # which has seen no words yet
        wall, cpu = time.perf_counter(), time.process_time()
        words = predict(model, pieces[name], io.BytesIO(), layout=Layout("conllu"), threads=n)
        row = {"model": name, "threads": n, "repeat": repeat, "words": words}
        row |= {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
        rows.append(row)
        print(row, flush=True)
    return rows


# ---- The page ------------------------------------------------------------------------------------

AXES = {
    "sentences": "sentences of CoNLL-2000",
    "length": "words in a sentence (synthetic, 20 labels)",
    "labels": "labels (synthetic, 20 words a sentence)",
    "parser: sentences": "sentences of 20 words",
    "parser: length": "words in a sentence (running text)",
}


def points(out: Path) -> dict[tuple[str, str], tuple[list[float], list[float]]]:
    """By (axis, what): x, and the fastest run at each: seconds, or microseconds a sentence if x is
    no number of sentences."""
    found = {}
    for (axis, what), rows in groups(read(out / "scaling.csv"), "axis", "what").items():
        best: dict[float, float] = {}
        for r in rows:
            y = r["cpu_s"] * (1.0 if "sentences" in axis else 1e6 / r["sentences"])
            best[r["x"]] = min(y, best.get(r["x"], math.inf))
        found[axis, what] = list(best), list(best.values())
    return found


def exponent(x: list[float], y: list[float]) -> tuple[float, float]:
    """(slope, largest factor between the fit and a point) of log y over log x, least squares."""
    line = np.polyfit(np.log(x), np.log(y), 1)
    return float(line[0]), float(np.exp(np.abs(np.log(y) - np.polyval(line, np.log(x))).max()))


def comparisons(out: Path) -> Iterator[Comparison]:
    """Both sides at the ends of every axis: a pass over the data, and tagging."""
    rows = read(out / "scaling.csv")
    for axis in AXES:
        ends = sorted({r["x"] for r in rows if r["axis"] == axis and r["what"] == PASS})
        for x in dict.fromkeys([*ends[:1], *ends[-1:]]):
            name = f"{x:.0f} words a sentence" if axis == "length" else f"{x:,.0f} {axis}"
            for ours, theirs, what in (
                (EPOCH, PASS, "one pass: sdca epoch against lbfgs iteration"),
                (TAG, PEER_TAG, "tag in memory (their attributes are ready made)"),
            ):
                a, b = (values(rows, "cpu_s", axis=axis, x=x, what=w) for w in (ours, theirs))
                yield Comparison(f"{what}, {name}", CRFSUITE, "CPU s", a, b)


def plot(out: Path) -> None:
    panels: dict[str, dict[str, Any]] = {}
    for (axis, what), (x, y) in points(out).items():
        peer = " (dashed)" if what.startswith(CRFSUITE) else ""
        panels.setdefault(axis, {})[what + peer] = x, y
    draw(
        out / "scaling.png",
        [
            ("parsers" if "parser" in axis else "taggers", AXES[axis],
             "CPU seconds, all" if "sentences" in axis else "CPU microseconds a sentence", lines)
            for axis, lines in panels.items()
        ],
        logx=True,
        logy=True,
    )  # fmt: skip
    rows = read(out / "scaling-threads.csv")
    picture = figure(6, 3.4)
    axis, models = picture.subplots(), list(dict.fromkeys(r["model"] for r in rows))
    for i, colour in enumerate(("#9cc3e3", "#1f6fb4")):
        numbers = [rate(rows, "wall_s", model=m, threads=i + 1) for m in models]
        at = [j + 0.38 * (i - 0.5) for j in range(len(models))]
        bars(axis, at, numbers, width=0.36, color=colour, label=f"{i + 1} thread" + "s" * i)
    axis.set_yscale("log")
    plain(axis.yaxis)
    axis.margins(y=0.2)
    axis.set_xticks(range(len(models)), models)
    axis.set_ylabel("words a second (wall)")
    axis.set_title("Shipped models, loaded; bars from smallest to largest", fontsize=10)
    axis.legend(fontsize=8)
    save(picture, out / "scaling-threads.png")


def section(out: Path) -> str:
    body = []
    for (axis, what), (x, y) in points(out).items():
        slope, worst = exponent(x, y)
        unit = "s" if "sentences" in axis else "us a sentence"
        ends = [f"{y[i]:.3g} {unit} at {x[i]:,.0f}" for i in (0, -1)]
        body.append([AXES[axis], what, f"**{slope:.2f}**", f"{worst:.2f}", *ends])
    head = ["x", "what", "exponent", "worst factor off the line", "first point", "last point"]
    paragraphs = [
        "In one process, CPU time, the fastest of the runs at each point; exponents are the slopes "
        "of a least-squares line through the logarithms, over all points. Chains: the templates of "
        "the race above on the first sentences of CoNLL-2000; synthetic words and tags (three "
        "words and a bias a token) where length or labels grow. An epoch of sdca and an iteration "
        "of CRFsuite's lbfgs (its default features) both visit every sentence once. Parsers: "
        "running text of EWT's dev part cut to one length; trees for training are made up. First "
        "order is the shipped `en-parse`, second order (`cs,gp`) is trained here.",
        table(head, body),
    ]
    body = []
    for model, rows in groups(read(out / "scaling-threads.csv"), "model").items():
        rates = [rate(rows, "wall_s", threads=n) for n in (1, 2)]
        cpu = [spread(values(rows, "cpu_s", threads=n)) for n in (1, 2)]
        gain = math.log2(statistics.median(rates[1]) / statistics.median(rates[0]))
        body.append([model, *map(spread, rates), *cpu, f"**{gain:.2f}**"])
    head = ["model", "words / s, 1 thread", "2 threads", "CPU s, 1 thread", "2 threads"]
    paragraphs.append(table([*head, "exponent of the rate in threads"], body))
    return "\n\n".join(paragraphs)
