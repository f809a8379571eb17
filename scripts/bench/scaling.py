"""How cost grows with sentences, their length, labels and threads: exponents fitted to CPU time."""

from __future__ import annotations

import io
import itertools
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import (
    MARKS,
    PALETTE,
    Comparison,
    Row,
    Setting,
    figure,
    installed,
    plain,
    read,
    rounds,
    save,
    spread,
    table,
    values,
    write,
)
from workers import attributes, read_columns

TITLE = "Scaling"
PEER = "python-crfsuite"
TEMPLATES = "word[-1..1]\nbias\n"  # of synthetic data
EPOCH, TAG, EXTRACT = "turbotag: sdca epoch", "turbotag: tagging", "turbotag: reading and features"
PASS, PEER_TAG = "python-crfsuite: lbfgs iteration", "python-crfsuite: tagging"
ARC_EPOCH, PARSE, PARSE2 = "dca epoch, arcs", "parsing, first order", "parsing, second order"
SEED = 1
BLUES = ["#0b3c6f", "#1f6fb4", "#6aaede"]

Tagged = tuple[list[str], list[str]]  # words and tags of a sentence


def measure(setting: Setting) -> list[str]:
    notes = []
    peer = installed(PEER)
    if not peer:
        notes.append(f"{PEER} is not installed: left out.")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        (at / "templates.txt").write_text(TEMPLATES, encoding="utf-8")
        for _ in range(2):  # the first time loads or compiles the kernels
            for _ in chain_costs(synthetic_options(at, synthetic(50, 10, 5)), 1):
                pass
        for axis, x, n, found in (
            *by_sentences(setting, peer),
            *by_length(setting, at, peer),
            *by_labels(setting, at, peer),
            *parsers(setting, at),
        ):
            for what, seconds in found:
                row = {"axis": axis, "what": what, "x": x, "sentences": n}
                rows.append({**row, "cpu_s": round(seconds, 6)})
            print(axis, x, {w: round(s, 4) for w, s in found}, flush=True)
        write(setting.out / "scaling.csv", rows)
    write(setting.out / "threads.csv", threads(setting))
    if not (setting.data / "ewt").exists():
        notes.append("UD English EWT is not in the data folder: parsers are measured on data/demo.")
    if not (setting.data / "conll2000").exists():
        notes.append("CoNLL-2000 is not in the data folder: no growth with sentences.")
    return notes


Costs = list[tuple[str, float]]
Point = tuple[str, int, int, Costs]  # axis, where on it, sentences, (what, CPU seconds) of each run


def timed(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


# ---- Chains --------------------------------------------------------------------------------------


def chain_costs(options: Any, repeats: int) -> Iterator[tuple[str, float]]:
    """Reading and extracting features, an epoch of sdca after the first, tagging the same data."""
    import numpy as np

    from turbotag.models.training import make_header, prepare
    from turbotag.optim.algorithms import algorithm

    made: list[Any] = []
    for _ in range(repeats):
        yield EXTRACT, timed(lambda: made.append(prepare(options, lambda line: None)))
    setup = made[-1]
    opt = algorithm("sdca")(setup.problem, 1.0 / setup.problem.n, np.random.default_rng(SEED))
    opt.epoch()
    for _ in range(repeats):
        yield EPOCH, timed(opt.epoch)
    tagger = setup.tagger(make_header(options, setup, ""), opt.weights())
    tagger.tag(setup.corpus.block)
    for _ in range(repeats):
        yield TAG, timed(lambda: tagger.tag(setup.corpus.block))


def peer_costs(
    sentences: list[tuple[list[list[str]], list[str]]], repeats: int
) -> Iterator[tuple[str, float]]:
    """An iteration of CRFsuite's lbfgs after the first, tagging the same data."""
    import pycrfsuite

    class Trainer(pycrfsuite.Trainer):
        def message(self, message: str) -> None:
            if "Iteration #" in message:
                ends.append(time.process_time())

    ends: list[float] = []
    trainer = Trainer("lbfgs", {"c2": 0.5, "max_iterations": repeats + 1})
    for names, tags in sentences:
        trainer.append(names, tags)
    tagger = pycrfsuite.Tagger()
    with tempfile.NamedTemporaryFile() as model:
        trainer.train(model.name)
        yield from ((PASS, b - a) for a, b in zip(ends, ends[1:], strict=False))
        tagger.open(model.name)

        def tag() -> None:
            for names, _ in sentences:
                tagger.tag(names)

        for _ in range(repeats):
            yield PEER_TAG, timed(tag)


def synthetic(n: int, length: int, labels: int) -> list[Tagged]:
    """Words of 2,000 types; the tag is a function of the word, four times in five."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    words = rng.integers(2000, size=(n, length))
    noise = rng.integers(labels, size=(n, length))
    tags = np.where(rng.random((n, length)) < 0.8, words % labels, noise)
    return [
        ([f"w{x}" for x in a], [f"T{x:03d}" for x in b])
        for a, b in zip(words.tolist(), tags.tolist(), strict=True)
    ]


def synthetic_options(at: Path, sentences: list[Tagged]) -> Any:
    from turbotag.models.gold import Options

    lines = []
    for words, tags in sentences:
        lines += [f"{w}\t{t}" for w, t in zip(words, tags, strict=True)] + [""]
    return Options(
        "pos",
        "\n".join([*lines, ""]).encode(),
        format="columns",
        columns=("word", "tag"),
        target="tag",
        template=str(at / "templates.txt"),
    )


def synthetic_attributes(words: list[str]) -> list[list[str]]:
    """What TEMPLATES are, as strings."""
    w = ["<b>", *words, "<b>"]
    return [["-1=" + w[t], "0=" + w[t + 1], "1=" + w[t + 2], "b"] for t in range(len(words))]


def synthetic_costs(at: Path, sentences: list[Tagged], repeats: int, peer: bool) -> Costs:
    found = [*chain_costs(synthetic_options(at, sentences), repeats)]
    if peer:
        found += peer_costs([(synthetic_attributes(w), tags) for w, tags in sentences], repeats)
    return found


def by_sentences(setting: Setting, peer: bool) -> Iterator[Point]:
    from turbotag.models.gold import Options

    path = setting.data / "conll2000" / "train.txt"
    if not path.exists():
        return
    whole = path.read_bytes().strip().split(b"\n\n")
    theirs = read_columns(str(path)) if peer else []
    for share in (64, 32, 16) if setting.small else (8, 4, 2, 1):
        n = len(whole) // share
        data = b"\n\n".join(whole[:n]) + b"\n\n"
        options = Options("chunk", data, template="conll2000")
        found = [*chain_costs(options, setting.repeats)]
        if peer:
            taken = [(attributes(s), [f[-1] for f in s]) for s in theirs[:n]]
            found += peer_costs(taken, setting.repeats)
        yield "sentences", n, n, found


def by_length(setting: Setting, at: Path, peer: bool) -> Iterator[Point]:
    words = 4000 if setting.small else 40000
    for length in (10, 20, 40, 80, 160, 320):
        n = words // length
        data = synthetic(n, length, 20)
        yield "length", length, n, synthetic_costs(at, data, setting.repeats, peer)


def by_labels(setting: Setting, at: Path, peer: bool) -> Iterator[Point]:
    n = 100 if setting.small else 1000
    for labels in (5, 10, 20, 50, 100, 200):
        data = synthetic(n, 20, labels)
        yield "labels", labels, n, synthetic_costs(at, data, setting.repeats, peer)


# ---- Parsers -------------------------------------------------------------------------------------


def running_text(setting: Setting) -> list[list[bytes]]:
    """Fields of all words, one after the other."""
    folder = setting.data / "ewt"
    path = folder / "dev.conllu" if folder.exists() else Path("data/demo/train.conllu")
    lines = (line.split(b"\t") for line in path.read_bytes().splitlines())
    return [fields for fields in lines if fields[0].isdigit()]


def treebank(words: list[list[bytes]], length: int) -> bytes:
    """Running text cut to sentences of one length, with trees that are made up: the first word is
    the root, every other hangs on one of the five before it."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    lines = []
    for i, fields in enumerate(words[: len(words) // length * length]):
        t = i % length
        head = 0 if t == 0 else t - int(rng.integers(min(t, 5)))
        tree = [b"%d" % head, b"dep" if head else b"root"]
        lines.append(b"\t".join([b"%d" % (t + 1), *fields[1:6], *tree, b"_", b"_"]))
        if t + 1 == length:
            lines.append(b"")
    return b"\n".join([*lines, b""])


def parsers(setting: Setting, at: Path) -> Iterator[Point]:
    from turbotag.corpus.reader import read as read_block
    from turbotag.models.gold import options_for
    from turbotag.models.parser import Parser
    from turbotag.models.parser_training import train_parser
    from turbotag.models.shipped import find

    words = running_text(setting)
    small = treebank(words[: 2000 if setting.small else 8000], 20)
    first = Parser.load(find("en-parse"))
    second, _ = train_parser(
        options_for("parse", train=small, format="conllu", parts=("cs", "gp"), epochs=2),
        "/dev/null",
    )
    total = 640 if setting.small else 6400
    plans = [("parser: sentences", 20, total // k) for k in (8, 4, 2, 1)]
    plans += [("parser: length", length, total) for length in (10, 20, 40, 80, 160)]
    for axis, length, size in plans:
        data = treebank(words[:size], length)
        block = read_block(data, "conllu")
        found = arc_costs(data, setting.repeats)
        for name, parser in ((PARSE, first), (PARSE2, second)):
            parser.parse(block)
            for _ in range(setting.repeats):
                found.append((name, timed(lambda p=parser, b=block: p.parse(b))))
        n = block.n_sentences
        yield axis, n if axis == "parser: sentences" else length, n, found


def arc_costs(data: bytes, repeats: int) -> Costs:
    """Epochs of dca on the arcs, after pruning."""
    import numpy as np

    from turbotag.models.gold import options_for
    from turbotag.models.parser_training import ParserTraining
    from turbotag.optim.algorithms import algorithm

    options = options_for("parse", train=data, format="conllu", labels=False)
    training = ParserTraining(options, "unused", lambda line: None)
    training.prune()
    problem = training.arc_problem().problem
    lam = 1.0 / (options.C * problem.n)
    opt = algorithm("dca")(problem, lam, np.random.default_rng(SEED))
    opt.epoch()
    return [(ARC_EPOCH, timed(opt.epoch)) for _ in range(repeats)]


# ---- Threads -------------------------------------------------------------------------------------


def threads(setting: Setting) -> list[Row]:
    """The shipped models on one thread and on two, models loaded."""
    from turbotag.models.pipeline import load
    from turbotag.models.prediction import predict

    folder = setting.data / "ewt"
    text = (
        (folder / "train.conllu").read_bytes()
        if folder.exists()
        else Path("data/demo/train.conllu").read_bytes() * 10
    )
    sizes = {"en-xpos": 8 << 20, "en-parse": 4 << 20, "en": 2 << 20}
    rows: list[Row] = []
    pieces = {}
    for name, size in sizes.items():
        pieces[name], warm = (
            text[: text.rindex(b"\n\n", 0, k) + 2]
            for k in (size // 40 if setting.small else size, 1 << 14)
        )
        predict(load(name), warm, io.BytesIO(), format="conllu", threads=2)
    plans = dict.fromkeys(itertools.product(sizes, (1, 2)), setting.repeats)
    for repeat, (name, n) in rounds(plans):
        model = load(name)  # which has seen no words yet
        wall, cpu = time.perf_counter(), time.process_time()
        words = predict(model, pieces[name], io.BytesIO(), format="conllu", threads=n)
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


def points(rows: list[dict[str, str]], axis: str, what: str) -> tuple[list[float], list[float]]:
    """x, and the fastest run at each: seconds, or microseconds a sentence if x is no number of
    sentences."""
    found: dict[float, float] = {}
    for r in rows:
        if (r["axis"], r["what"]) == (axis, what):
            y = float(r["cpu_s"])
            if "sentences" not in axis:
                y *= 1e6 / float(r["sentences"])
            found[float(r["x"])] = min(y, found.get(float(r["x"]), math.inf))
    return list(found), list(found.values())


def exponent(x: list[float], y: list[float]) -> tuple[float, float]:
    """(slope, largest factor between the fit and a point) of log y over log x, least squares."""
    u, v = [math.log(a) for a in x], [math.log(b) for b in y]
    mu, mv = sum(u) / len(u), sum(v) / len(v)
    cross = sum((a - mu) * (b - mv) for a, b in zip(u, v, strict=True))
    slope = cross / sum((a - mu) ** 2 for a in u)
    worst = max(abs(b - mv - slope * (a - mu)) for a, b in zip(u, v, strict=True))
    return slope, math.exp(worst)


def kinds(rows: list[dict[str, str]], axis: str) -> list[str]:
    return list(dict.fromkeys(r["what"] for r in rows if r["axis"] == axis))


def comparisons(out: Path) -> list[Comparison]:
    """Both sides at the ends of every axis: a pass over the data, and tagging."""
    rows, found = read(out / "scaling.csv"), []
    for axis in AXES:
        here = [r for r in rows if r["axis"] == axis and r["what"] in (PASS, PEER_TAG)]
        ends = sorted({int(r["x"]) for r in here})
        for x in {*ends[:1], *ends[-1:]}:
            for ours, theirs, what in (
                (EPOCH, PASS, "one pass: sdca epoch against lbfgs iteration"),
                (TAG, PEER_TAG, "tag in memory (their attributes are ready made)"),
            ):
                a, b = (values(rows, "cpu_s", axis=axis, x=str(x), what=w) for w in (ours, theirs))
                unit = "CPU s"
                name = {"length": f"{x} words a sentence"}.get(axis, f"{x:,} {axis}")
                found.append(Comparison(f"{what}, {name}", PEER, unit, a, b))
    return found


def plot(out: Path) -> None:
    rows = read(out / "scaling.csv")
    if not rows:
        return
    present = [a for a in AXES if kinds(rows, a)]
    plt, picture = figure(12, 3.7 * math.ceil(len(present) / 3))
    axes = picture.subplots(math.ceil(len(present) / 3), 3, squeeze=False).ravel()
    for axis in axes[len(present) :]:
        axis.set_visible(False)
    for axis, name in zip(axes, present, strict=False):
        for i, (mark, what) in enumerate(zip(MARKS, kinds(rows, name), strict=False)):
            x, y = points(rows, name, what)
            slope, _ = exponent(x, y)
            peer = what.startswith(PEER)
            color = PALETTE[PEER] if peer else BLUES[i % 3]
            label = f"{what}: x^{slope:.2f}"
            axis.loglog(x, y, "--" if peer else "-", marker=mark, ms=5, color=color, label=label)
        axis.set_xlabel(AXES[name])
        whole = "sentences" in name
        axis.set_ylabel("CPU seconds, all" if whole else "CPU microseconds a sentence")
        axis.set_title("taggers" if "parser" not in name else "parsers", fontsize=10)
        axis.grid(alpha=0.3)
        low, high = axis.get_ylim()
        axis.set_ylim(low, high * (high / low) ** 0.4)  # room for the legend
        plain(axis.xaxis, axis.yaxis)
        axis.legend(fontsize=7, loc="upper left")
    save(plt, picture, out / "scaling.png")
    plot_threads(out)


def plot_threads(out: Path) -> None:
    rows = read(out / "threads.csv")
    plt, picture = figure(6, 3.4)
    axis = picture.subplots()
    models = list(dict.fromkeys(r["model"] for r in rows))
    for i, n in enumerate(("1", "2")):
        rates = [
            sorted(
                float(r["words"]) / float(r["wall_s"])
                for r in rows
                if (r["model"], r["threads"]) == (m, n)
            )
            for m in models
        ]
        middle = [statistics.median(x) for x in rates]
        low = [m - x[0] for m, x in zip(middle, rates, strict=True)]
        high = [x[-1] - m for m, x in zip(middle, rates, strict=True)]
        at = [j + 0.38 * (i - 0.5) for j in range(len(models))]
        color = ["#9cc3e3", PALETTE["turbotag"]][i]
        label = f"{n} thread" + "s" * i
        bars = axis.bar(at, middle, 0.36, yerr=[low, high], capsize=3, color=color, label=label)
        axis.bar_label(bars, [spread([m]) for m in middle], fontsize=7, padding=3)
    axis.set_yscale("log")
    plain(axis.yaxis)
    axis.margins(y=0.2)
    axis.set_xticks(range(len(models)), models)
    axis.set_ylabel("words a second (wall)")
    axis.set_title("Shipped models, loaded; bars from smallest to largest", fontsize=10)
    axis.legend(fontsize=8)
    save(plt, picture, out / "threads.png")


def section(out: Path) -> list[str]:
    rows, threaded = read(out / "scaling.csv"), read(out / "threads.csv")
    if not rows:
        return []
    lines = [
        "In one process, CPU time, the fastest of the runs at each point; exponents are the slopes "
        "of a least-squares line through the logarithms, over all points. Chains: the templates of "
        "the race above on the first sentences of CoNLL-2000; synthetic words and tags (three "
        "words and a bias a token) where length or labels grow. An epoch of sdca and an iteration "
        "of CRFsuite's lbfgs (its default features) both visit every sentence once. Parsers: "
        "running text of EWT's dev part cut to one length; trees for training are made up. First "
        "order is the shipped `en-parse`, second order (`cs,gp`) is trained here.",
        "",
        f"![scaling]({out.name}/scaling.png)",
        "",
    ]
    body = []
    for axis, title in AXES.items():
        for what in kinds(rows, axis):
            x, y = points(rows, axis, what)
            slope, worst = exponent(x, y)
            unit = "s" if "sentences" in axis else "us a sentence"
            ends = [f"{y[i]:.3g} {unit} at {x[i]:,.0f}" for i in (0, -1)]
            body.append([title, what, f"**{slope:.2f}**", f"{worst:.2f}", *ends])
    head = ["x", "what", "exponent", "worst factor off the line", "first point", "last point"]
    lines += table(head, body)
    lines += [f"![threads]({out.name}/threads.png)", ""]
    body = []
    for model in dict.fromkeys(r["model"] for r in threaded):
        one, two = (
            [r for r in threaded if (r["model"], r["threads"]) == (model, n)] for n in ("1", "2")
        )
        rates = [[float(r["words"]) / float(r["wall_s"]) for r in x] for x in (one, two)]
        cpu = [spread(values(x, "cpu_s")) for x in (one, two)]
        middle = [statistics.median(x) for x in rates]
        gain = math.log2(middle[1] / middle[0])
        body.append([model, *(spread(x) for x in rates), *cpu, f"**{gain:.2f}**"])
    head = ["model", "words / s, 1 thread", "2 threads", "CPU s, 1 thread", "2 threads"]
    lines += table([*head, "exponent of the rate in threads"], body)
    return lines
