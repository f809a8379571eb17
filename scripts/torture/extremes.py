"""Extreme but legal settings, corpora and scores: finite results, or a refusal in one sentence.

Trainings go through the library as a user's would, with RuntimeWarnings as errors. What counts as
survived: the weights, the certificate and every row of the trace are finite, no gap is negative,
probabilities lie in [0, 1], and the saved model predicts the same. Sums over trees and chains are
compared with the enumeration of all structures.
"""

from __future__ import annotations

import functools
import itertools
import math
import resource
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import table
from measure import scratch, turbotag

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))  # tests/ has the oracles

from sums import sums

from turbotag.corpus.reader import read
from turbotag.errors import TurbotagError
from turbotag.models.model import Output
from turbotag.models.parser import Parser
from turbotag.models.prediction import annotate
from turbotag.models.tagger import Tagger
from turbotag.optim.algorithms import ALGORITHMS
from turbotag.optim.trace import Trace
from turbotag.training import train
from turbotag.training.options import options_for

ROUNDING = 1e-9  # of the objective: what a gap may be below 0 (optim/certificate.py)
Words, Tags = list[list[str]], list[list[str]]
Tree = list[tuple[int, str]]
Corpus = tuple[list[Any], list[Any]]  # sentences, and the tags or trees of each

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ALGORITHMS),
    ("sdca", {"dual": "exact"}),
    ("sdca", {"sampling": "gap-importance"}),
    ("mira", {"kbest": 3}),
    ("eg-batch", {"accelerate": "no"}),
    ("egr", {"adaptive": "no"}),
    ("sag", {"skip-line-search": True}),
    ("smo", {"steps": "away", "points": 2}),
    ("bmrm", {"planes": 3}),
    ("sdca", {"l1": 0.1}),
    ("owl-qn", {"l1": 0.1}),
]
MARGINS = ("mira", "egr", "perceptron", "svm-struct", "svm-struct-n", "extragradient")
SUMS = ("lbfgs", "owl-qn", "cg", "sag", "sag-nus", "sdca-accelerated")
TASKS: list[tuple[str, dict[str, Any]]] = [
    ("pos", {}),
    ("pos", {"order": 2}),
    ("ner", {"constraints": "train"}),
    ("chunk", {"scheme": "iobes", "order": 2, "constraints": "train", "template": "pos"}),
    ("parse", {}),
    ("parse", {"decoder": "projective"}),
    ("parse", {"prune": False, "multi_root": True, "labels": False}),
    ("parse", {"parts": ("cs", "gp", "as")}),
    ("parse", {"parts": ("cs", "gp"), "entropy": "bethe"}),
]
REGULARIZERS = (1e-12, 1e12)
LOSSES = (
    *((1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1e-6, 1.0), (1e6, 1e6)),
    *((math.inf, 1.0), (math.inf, 0.0)),
)
BEYOND = {
    "C": (0.0, 1e-13, 1e13, math.inf, math.nan),
    "beta": (0.0, 1e-7, 1e7, math.nan),
    "gamma": (-1.0, 1e7, math.inf, math.nan),
}


class Tally:
    """What became of each attack; failures are told all at once, at the end."""

    def __init__(self) -> None:
        self.finite: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failed: list[str] = []

    def run(self, kind: str, name: str, attack: Callable[[], object], must: str = "") -> None:
        """must: 'finite' or 'refused', where only one will do."""
        try:
            with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise"):
                warnings.simplefilter("error", RuntimeWarning)
                attack()
            outcome = "finite"
        except TurbotagError as e:
            outcome = "refused"
            if "\n" in str(e) or len(str(e)) > 600:
                self.failed.append(f"{kind}, {name}: refused, but not in a sentence: {e}")
                return
        except Exception as e:
            self.failed.append(f"{kind}, {name}: {type(e).__name__}: {e}")
            return
        if must not in ("", outcome):
            self.failed.append(f"{kind}, {name}: {outcome}, expected {must}")
            return
        (self.finite if outcome == "finite" else self.refused)[kind] += 1

    def table(self) -> str:
        kinds = dict.fromkeys([*self.finite, *self.refused])
        counts = [(kind, self.finite[kind], self.refused[kind]) for kind in kinds]
        head = ["what", "tried", "finite", "refused in a sentence"]
        return table(head, ([kind, a + b, a, b] for kind, a, b in counts))


# ---- Trainings -----------------------------------------------------------------------------------


def check_training(corpus: Corpus, task: str, folder: Path, **options: Any) -> None:
    """Train, and demand all that the head of this file promises."""
    sentences, answers = corpus
    trace, path = Trace(), str(folder / "extreme.model")
    text, columns = written(sentences, answers, task)
    settings = options_for(task, train=text, **columns, **options)
    model: Tagger | Parser
    model, result = train(settings, path, trace)
    certificate = result.certificate
    assert np.isfinite(result.weights).all(), "weights are not finite"
    for row in [certificate, *trace.rows]:
        numbers = [x for x in (row.primal, row.dual, row.gap) if x is not None]
        assert np.isfinite(numbers).all(), f"not finite: {row}"
        if row.gap is not None and row.primal is not None:
            assert row.gap >= -ROUNDING * max(1.0, abs(row.primal)), f"negative gap: {row}"
    again = type(model).load(path)
    assert outputs(model, text, columns) == outputs(again, text, columns), "the file says other"


def outputs(model: Tagger | Parser, text: bytes, columns: dict[str, Any]) -> list[bytes]:
    """Answers with and without probabilities, which are looked at on the way."""
    block = read(text, columns["format"], model.naming)
    if isinstance(model, Tagger):
        p = model.posterior(model.scores(block), block.sentences)
        sums = p.sum(axis=1)
    else:
        scanner, cuts = model.extractor, block.sentences.tolist()
        matrix = model.matrix(block, scanner)
        found = [
            model.arc_probabilities(matrix[a:b], scanner)
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]
        p = np.concatenate([x.reshape(-1) for x in found])
        sums = np.concatenate([x[:, 1:].sum(axis=0) for x in found])
    assert ((p >= 0.0) & (p <= 1.0 + 1e-9)).all(), f"probabilities from {p.min()} to {p.max()}"
    if not (isinstance(model, Parser) and model.second_order):  # whose beliefs are approximate
        assert np.abs(sums - 1.0).max() < 1e-6, f"probabilities sum to {sums.min()}, {sums.max()}"
    answers = [annotate(model, block, model.extractor, Output(marginals=m)) for m in (False, True)]
    assert b"nan" not in answers[1]
    assert b"inf" not in answers[1]
    return answers


def written(sentences: list[Any], answers: list[Any], task: str) -> tuple[bytes, dict[str, Any]]:
    """A corpus as the bytes of a file, and what reads it."""
    lines = []
    for words, given in zip(sentences, answers, strict=True):
        for t, (word, answer) in enumerate(zip(words, given, strict=True), 1):
            if task == "parse":
                head, label = answer
                tag = f"T{len(word) % 3}"
                lines.append(f"{t}\t{word}\t_\t{tag}\t_\t_\t{head}\t{label}\t_\t_")
            else:
                lines.append(f"{word}\t{answer}")
        lines.append("")
    text = "\n".join([*lines, ""]).encode()
    if task == "parse":
        return text, {"format": "conllu"}
    return text, {"format": "columns", "columns": ("word", "tag"), "target": "tag"}


def as_spans(tags: Tags) -> Tags:
    """Any tags as those of entities."""
    names = ("B-X", "I-X", "O", "B-Y", "I-Y")
    order = {tag: names[n % 5] for n, tag in enumerate(sorted({t for s in tags for t in s}))}
    return [[order[t] for t in s] for s in tags]


def random_corpora(seed: int = 1) -> dict[str, Corpus]:
    """Six short sentences with random tags, and with random trees."""
    rng = np.random.default_rng(seed)
    vocabulary = ["a", "by", "cat", "Dog", "sings", "7", "-", "co-op"]
    words, tags, heads = [], [], []
    for _ in range(6):
        n = int(rng.integers(1, 7))
        words.append([vocabulary[i] for i in rng.integers(0, len(vocabulary), n)])
        tags.append([f"L{i}" for i in rng.integers(0, 4, n)])
        order, own = rng.permutation(n) + 1, [(0, "root")] * n
        for j in range(1, n):
            own[order[j] - 1] = (int(order[rng.integers(0, j)]), "xy"[j % 2])
        heads.append(own)
    spans = words, as_spans(tags)
    return {"pos": (words, tags), "ner": spans, "chunk": spans, "parse": (words, heads)}


def settings(tally: Tally, folder: Path, quick: bool) -> None:
    """The cross product of tasks, optimizers, C and losses."""
    corpora, rng = random_corpora(), np.random.default_rng(1)
    for task, more in TASKS:
        every = list(itertools.product(OPTIMIZERS, REGULARIZERS, LOSSES))
        if quick:
            every = [every[i] for i in rng.choice(len(every), 4, replace=False)]
        for (algorithm, params), C, (beta, gamma) in every:
            name = f"{task} {more} {algorithm} {params} C={C} beta={beta} gamma={gamma}"
            options = {**more, "algorithm": algorithm, "params": params, "epochs": 3}
            options |= {"C": C, "beta": beta, "gamma": gamma}
            attack = functools.partial(check_training, corpora[task], task, folder, **options)
            legal = pairing(task, more, algorithm, params, beta, gamma)
            tally.run("settings", name, attack, "finite" if legal else "refused")
    for task in ("pos", "parse"):
        for name, value in ((name, x) for name, values in BEYOND.items() for x in values):
            given = {name: value}
            attack = functools.partial(check_training, corpora[task], task, folder, **given)
            tally.run("settings beyond the bounds", f"{task} {given}", attack, "refused")


def pairing(
    task: str,
    more: dict[str, Any],
    algorithm: str,
    params: dict[str, Any],
    beta: float,
    gamma: float,
) -> bool:
    """Whether the documentation says that these go together."""
    hinge = beta == math.inf
    if algorithm in MARGINS and not hinge:
        return False
    if algorithm in SUMS and hinge:
        return False
    if algorithm == "perceptron" and gamma:
        return False
    if params.get("dual") == "exact":
        first = task != "parse" and more.get("order", 1) == 1
        return not hinge and (first or more.get("decoder") == "projective")
    if "parts" not in more:
        return True
    if more.get("entropy") == "bethe":
        return algorithm in ("dca", "sgd") and not hinge
    refused = params.get("sampling") == "gap-importance" or "l1" in params
    return algorithm in ("dca", "sdca", "sgd") and not refused


# ---- Corpora -------------------------------------------------------------------------------------


def edge_corpora() -> Iterator[tuple[str, str, Corpus, dict[str, Any]]]:
    """(name, task, corpus, options) of what nobody expects in a treebank."""
    tagged: dict[str, Corpus] = {
        "one word": ([["a"]], [["N"]]),
        "one sentence": ([["a", "b", "a"]], [["N", "V", "N"]]),
        "one label": ([["a", "b"], ["c"], ["d", "e"]], [["N", "N"], ["N"], ["N", "N"]]),
        "sentences of one word": ([["a"], ["b"], ["a"]], [["N"], ["V"], ["V"]]),
        "identical words": ([["a"] * 5, ["a"] * 3], [list("NVNVV"), list("VNN")]),
        "contradictions": ([["a"] * 3] * 4, [["N"] * 3, ["V"] * 3, ["X"] * 3, ["Y"] * 3]),
        "a label seen once": ([["a", "b"]] * 5 + [["c"]], [["N", "V"]] * 5 + [["Z"]]),
        "words of 100,000 letters": ([["a" * 100_000, "b" * 99_999]], [["N", "V"]]),
    }
    for name, (words, tags) in tagged.items():
        yield name, "pos", (words, tags), {}
        yield name, "pos", (words, tags), {"order": 2}
        yield name, "ner", (words, as_spans(tags)), {"constraints": "train"}
    row = [f"w{i}" for i in range(10)]
    chained: Tree = [(i, "x") for i in range(10)]
    parsed: dict[str, Corpus] = {
        "one word": ([["a"]], [[(0, "root")]]),
        "sentences of one word": ([["a"], ["b"]], [[(0, "r")], [(0, "q")]]),
        "identical words": ([["a"] * 6] * 2, [[(0, "r"), *[(1, "x")] * 5], [*chained[:6]]]),
        "a chain": ([row], [chained]),
        "a star": ([row], [[(0, "r"), *[(1, "x")] * 9]]),
        "a label seen once": ([row, row], [chained, [*chained[:9], (9, "once")]]),
        "words of 100,000 letters": ([["a" * 100_000, "b"]], [[(0, "r"), (1, "x")]]),
    }
    for name, corpus in parsed.items():
        for more in (
            {},
            {"decoder": "projective"},
            {"prune": False},
            {"parts": ("cs", "gp", "as")},
            {"parts": ("cs", "gp"), "entropy": "bethe"},
        ):
            yield name, "parse", corpus, more
    roots: Corpus = [["a", "b", "c"]] * 2, [[(0, "r")] * 3] * 2
    for more in ({}, {"decoder": "projective"}, {"parts": ("cs",)}):
        yield "all words are roots", "parse", roots, {**more, "multi_root": True}


def corpora(tally: Tally, folder: Path, quick: bool) -> None:
    """Every corpus with every optimizer that can, long enough to converge, at the extremes of C."""
    rng, every = np.random.default_rng(2), []
    for name, task, corpus, more in edge_corpora():
        for algorithm, params in OPTIMIZERS:
            for C, (beta, gamma) in ((1.0, (1.0, 0.0)), (1e12, (1.0, 0.0)), (1.0, (math.inf, 1.0))):
                loss = (beta, 0.0 if algorithm == "perceptron" else gamma)
                if pairing(task, more, algorithm, params, *loss):
                    every.append((name, task, corpus, more, algorithm, params, C, loss))
    for name, task, corpus, more, algorithm, params, C, (beta, gamma) in (
        [every[i] for i in rng.choice(len(every), 25, replace=False)] if quick else every
    ):
        options = {**more, "algorithm": algorithm, "params": params, "C": C}
        options |= {"beta": beta, "gamma": gamma, "epochs": 8 if task == "parse" else 70}
        attack = functools.partial(check_training, corpus, task, folder, **options)
        tally.run("corpora", f"{name}: {task} {options}", attack, "finite")


def refusals(tally: Tally, folder: Path) -> None:
    """Corpora that must be refused, and values that overflow."""
    words, tags = [["a", "b", "c"]], [["N", "V", "N"]]
    train_text, columns = written(words, tags, "pos")
    for name, dev in (("empty", b""), ("without tokens", b"\n\n"), ("binary", b"\0\1")):
        options = options_for("pos", train=train_text, dev=dev, epochs=2, **columns)
        attack = functools.partial(train, options, str(folder / "refused.model"))
        # b"" is no dev file at all to the library, as None is
        tally.run("refusals", f"dev {name}", attack, "finite" if not dev else "refused")
    two_roots: Corpus = words, [[(0, "r"), (0, "r"), (2, "x")]]
    for more in ({}, {"decoder": "projective"}):
        attack = functools.partial(check_training, two_roots, "parse", folder, **more)
        tally.run("refusals", "a second root", attack, "refused")
    for value, must in (("1e10", ""), ("1e11", "refused"), ("1e39", "refused"), ("nan", "refused")):
        text = f"A\tw:{value}\tb\nB\tv:-{value}\n\nB\tw:{value}\n\n".encode()
        for algorithm, C in itertools.product(ALGORITHMS, (1e-12, 1.0, 1e12)):
            hinge = algorithm in MARGINS
            loss = "perceptron" if algorithm == "perceptron" else "svm" if hinge else "crf"
            options = options_for(
                "pos", train=text, format="crfsuite", algorithm=algorithm, C=C, loss=loss, epochs=4
            )

            def attack(options: Any = options, text: bytes = text) -> None:
                model, _ = train(options, str(folder / "value.model"))
                outputs(model, text, {"format": "crfsuite"})

            tally.run("attributes of size 1e10 and more", f"{value} {algorithm} {C}", attack, must)


# ---- Sizes ---------------------------------------------------------------------------------------

LIMIT = 6 << 30  # bytes of address space that a child may have


def many_labels(folder: Path, labels: int, limited: bool, algorithm: str) -> str:
    """Train on so many labels in a process of its own; what it says if it refuses."""
    lines = [f"w{i}\tL{i}" + ("\n" if i % 20 == 19 else "") for i in range(labels)]
    text, template = folder / "labels.txt", folder / "word.txt"
    text.write_text("\n".join([*lines, "", ""]))
    template.write_text("word[0]\n")
    limits = (resource.RLIMIT_AS, (LIMIT, LIMIT))
    start = time.perf_counter()
    given = ["--train", text, "--columns", "word,tag", "--template", template, "--epochs", 2]
    given += ["--algorithm", algorithm, "-o", folder / "labels.model", "--quiet"]
    done = subprocess.run(
        turbotag("train", "--task", "pos", *given),
        capture_output=True,
        text=True,
        preexec_fn=(lambda: resource.setrlimit(*limits)) if limited else None,
    )
    said = [line for line in done.stderr.splitlines() if not line.startswith("warning")]
    said = [line for line in said if "compiling" not in line]
    if done.returncode == 0:
        model = Tagger.load(str(folder / "labels.model"))
        assert len(model.labels) == labels
        return ""
    assert done.returncode == 1, done.stderr
    assert len(said) == 1, done.stderr
    assert said[0].startswith("turbotag: training needs"), done.stderr
    assert time.perf_counter() - start < 120, "slow to refuse"
    return said[0]


def sizes(tally: Tally, folder: Path, quick: bool) -> list[str]:
    """Ten thousand labels; sentences of two thousand words. Seconds of each, as notes."""
    notes = []

    def timed(name: str, attack: Callable[[], object]) -> None:
        start = time.perf_counter()
        tally.run("sizes", name, attack, "finite")
        notes.append(f"{name} {time.perf_counter() - start:.0f} s")

    for algorithm in ("dca",) if quick else ("dca", "sdca", "lbfgs"):
        # over candidate lists, or refused in a sentence
        many = 2_000 if quick else 10_000
        attack = functools.partial(many_labels, folder, many, True, algorithm)
        timed(f"{many:,} labels and 6 GB of memory, {algorithm}", attack)
    labels = 200 if quick else 1000
    trained = functools.partial(many_labels, folder, labels, False, "dca")
    timed(f"{labels} labels", lambda: require(trained() == "", "refused"))

    n = 300 if quick else 2000
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in rng.integers(0, 200, n)]
    tags = [f"L{i}" for i in rng.integers(0, 5, n)]
    for more in ({}, {"order": 2}, {"C": 1e12, "beta": 1e6}):
        options = {"epochs": 3, **more}
        attack = functools.partial(check_training, ([words], [tags]), "pos", folder, **options)
        timed(f"a sentence of {n} words, tagged {more}", attack)
    heads: Tree = [(0, "r"), *((int(rng.integers(1, i + 1)), "x") for i in range(1, n))]
    for more, size in (
        ({}, n),
        ({"decoder": "projective"}, n // 2),
        ({"parts": ("cs", "gp")}, n // 2),
    ):
        text, columns = written([words[:30]], [heads[:30]], "parse")
        options = options_for("parse", train=text, epochs=2, labels=False, **columns, **more)
        model, _ = train(options, str(folder / "long.model"))
        attack = functools.partial(parse_one, model, words[:size])
        timed(f"a sentence of {size} words, parsed {more}", attack)
    if not quick:
        options = {"epochs": 1, "labels": False}
        text, columns = written([words], [heads], "parse")
        settings = options_for("parse", train=text, **columns, **options)
        attack = functools.partial(train, settings, str(folder / "long.model"))
        timed(f"a sentence of {n} words, a parser trained on it", attack)
    return notes


def parse_one(model: Parser, words: list[str]) -> None:
    """The tree of a long sentence is one, and its arcs have probabilities."""
    text, columns = written([words], [[(0, "_")] * len(words)], "parse")
    parsed = model.parse(read(text, columns["format"]), probabilities=True)
    for m in range(1, len(words) + 1):
        at, steps = m, 0
        while at and steps <= len(words):
            at, steps = int(parsed.heads[at - 1]), steps + 1
        assert at == 0, f"word {m} does not reach the root"
    assert parsed.head_probability is not None
    assert ((parsed.head_probability >= 0.0) & (parsed.head_probability <= 1.0 + 1e-9)).all()


def require(ok: bool, message: str) -> None:
    assert ok, message


def measure(quick: bool) -> str:
    tally = Tally()
    with scratch() as folder:
        errors = sums(tally, quick)
        refusals(tally, folder)
        settings(tally, folder, quick)
        corpora(tally, folder, quick)
        notes = sizes(tally, folder, quick)
    assert not tally.failed, "\n".join([f"{len(tally.failed)} failed", *tally.failed])
    return "\n".join(
        [
            "Every legal pairing of task, optimizer and loss was trained at C = 1e-12 and 1e12, "
            "beta = 1e-6, 1, 1e6 and inf, gamma up to 1e6; beyond these bounds settings are "
            "refused. *Finite* means that the weights, the certificate and all rows of the trace "
            f"are, that no gap is below -{ROUNDING:g} of the objective, that NumPy gave no "
            "warning, that probabilities lie between 0 and 1, and that the saved model predicts "
            "the same; what is refused are pairings that an optimizer does not serve, and sizes.",
            "",
            tally.table(),
            "",
            "Sums over all trees of up to six words, and all label sequences of short chains, with "
            "scores of -700 to 700 and near-singular graphs, against enumeration:",
            "",
            table(
                ["sum", "error of log Z (relative)", "error of a marginal (absolute)"],
                ([kind, f"{a:.1e}", f"{b:.1e}"] for kind, a, b in errors),
            ),
            "",
            f"Sizes, on a busy machine: {'; '.join(notes)}.",
        ]
    )
