"""Fuzzing: readers, the tokenizer, templates, gazetteers and model files (targets.py).

    python scripts/torture/fuzz.py                      a million executions of each target
    python scripts/torture/fuzz.py --only conllu,text

Two engines: hypothesis, which draws files that are nearly right, and atheris, a coverage-guided
fuzzer (libFuzzer) that keeps what reaches new code, and changes it byte by byte or field by field.
Nothing but turbotag's own error may be raised, and no execution may take more than a second.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import hypothesis
import targets

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from figures import groups, read, table, write
from hypothesis import strategies as st
from targets import TARGETS, Target, Unexpected, agrees, attempt, small_models

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
TABLE = ROOT / "docs" / "reliability" / "fuzz-million.csv"
SECONDS = 1.0  # of processor time that an execution may take
MEGABYTES = 300  # by which all executions of a target may let memory grow

# fmt: off
ODD = [
    "", "_", "0", "-1", "+1", "1-2", "2-1", "1-", "-", ".", "1.1", "0.1", "1.0", "01", "1e3", "²",
    "٣", "9" * 10, "9" * 19, "9" * 20, "9" * 40, "1" * 5000, "nan", "inf", "1_0", "0x1", "1e400",
    "\ufeff", "\u00a0", "\u2028", "\x85", "\x1c", "\x0b", "\r", "\0", "\x7f", "\u200b", "\ud7ff",
    "e\u0301", "İ", "ß", "\ufb01", "\U0001f600", "\U0001f468\u200d\U0001f469", "\u202e", "x" * 3000,
    "a b", "a\tb", "#", "# text = x", "=", "a=b", "a=b|a=c", "|", "\\", "\\:", "a:b:c", ":", ":1",
    "B-X", "I-X", "E-X", "S-X", "U-", "B-", "-X", "O", "-DOCSTART-", "word[0]", "word[-9..9]",
    "h:word", "m:upos[1]", "b:upos", "set:word", "count:VERB", "dir|dist", "gaz[0]", "gaz:g[0]",
    "word[9999999999]", f"word[{'9' * 5000}]", f"h:word[{'9' * 5000}]", "bias", "attributes",
    "'s", "n't", "Dr.", "...", "?!", "http://a.b/c)", "a@b.c", ":-)", "--", "''", "1.2.3", "e.g.",
]
TOKENS = [
    "don't", "can't", "U.S.", "Mr.", "3.14", "1,000", "10:30", "$5", "50%", "(a)", "[b]", "{c}",
    "\u201cd\u201d", "\u2018e\u2019", "it\u2019s", "'re", "www.a.org", "x/y", "2020-01-01",
    "555-123-4567", "A.", "Inc.", "etc.", "...", "\u2026.", "??", "!", ":)", "<3", "->", "==",
    "***", "@me", "#tag", "C++", "'em", "rock'n'roll", "o'clock", "gonna", "1st", "90's", "'90s",
    "v1.2", "a.m.", "(555)", "No.", "5", "pp.", "3", "\u2022",
]
# fmt: on
LINES = ["\n", "\n\n", "\r\n", "\r", "\n \n", "\n\t\n", "\n\n\n", "\x0c", "\x85"]
DICTIONARY = [s.encode() for s in (*ODD, *LINES) if len(s) < 50]


# ---- Changing bytes ------------------------------------------------------------------------------


def changed(data: bytes, limit: int, seed: int, others: list[bytes]) -> bytes:
    """Bytes with some lines, fields or pieces of them moved, doubled, lost or made odd."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(CHANGES)(data, rng, others)
    return data[:limit]


def _field(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    found = list(re.finditer(rb"[^\t\n ]+|(?<=\t)(?=\t)|(?<=\n)(?=\n)", data))
    if not found:
        return data + rng.choice(DICTIONARY)
    a, b = rng.choice(found).span()
    other = rng.choice(found).group()
    return data[:a] + rng.choice([rng.choice(DICTIONARY), other]) + data[b:]


def _line(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        lines[a], lines[b] = lines[b], lines[a]
    elif what == 1:
        lines.insert(a, lines[b])
    elif what == 2:
        del lines[a]
    else:
        lines[a : a + 1] = [lines[a][: rng.randint(0, len(lines[a]))], lines[b]]
    return b"\n".join(lines)


def _piece(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(DICTIONARY) + data[at + rng.choice([0, 0, 1, 2]) :]


def _byte(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + rng.randrange(2) :]


def _number(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    found = list(re.finditer(rb"-?[0-9]+", data))
    if not found:
        return data
    a, b = rng.choice(found).span()
    return data[:a] + str(rng.choice([0, 1, 2, 3, 5, -1, 10, 2**31, 2**63])).encode() + data[b:]


def _cross(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


CHANGES = [_field, _field, _line, _piece, _byte, _number, _cross]


# ---- Files that are nearly right -----------------------------------------------------------------

odd = st.one_of(st.sampled_from(ODD), st.text(max_size=6))


def rarely(usual: st.SearchStrategy, unusual: st.SearchStrategy) -> st.SearchStrategy:
    return st.integers(0, 15).flatmap(lambda n: unusual if n == 7 else usual)


word = rarely(st.sampled_from(["Ada", "sang", "in", "Oslo", ".", "ß", "naïve"]), odd)
ending = rarely(st.just("\n"), st.sampled_from(LINES))


def joined(fields: list[str], separators: Sequence[str]) -> st.SearchStrategy:
    """A line of fields with one of some separators between any two."""
    first, *rest = fields
    between = st.lists(st.sampled_from(separators), min_size=len(rest), max_size=len(rest))
    return between.map(lambda b: first + "".join(map(str.__add__, b, rest)))


@st.composite
def conll_files(draw: Any) -> str:
    lines, end = [draw(st.sampled_from(["", "", "", "\ufeff"]))], draw(ending)
    width = draw(st.sampled_from([10, 10, 10, 8]))
    between = draw(rarely(st.just(["\t"]), st.just(["\t", " ", " \t ", "  "])))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            lines.append("# " + draw(odd) + end)
        n = draw(st.integers(1, 5))
        for t in range(1, n + 1):
            if draw(st.integers(0, 9)) == 7:
                skipped = draw(rarely(st.sampled_from([f"{t}-{n}", f"{t - 1}.1"]), odd))
                lines.append("\t".join([skipped, draw(word), *"_" * (width - 2)]) + end)
            fields = [str(t), draw(word), "_", "NOUN", "N", "_", "0", "dep", "_", draw(word)]
            fields[6] = str(draw(st.integers(0, t - 1)))
            if draw(st.integers(0, 15)) == 7:
                fields[draw(st.integers(0, 9))] = draw(odd)
            if draw(st.integers(0, 63)) == 7:
                del fields[draw(st.integers(0, 9))]
            lines.append(draw(joined(fields[:width], between)) + end)
        lines.append(draw(ending))
    return "".join(lines)


@st.composite
def column_files(draw: Any, separators: Sequence[str] = (" ", " ", "  ", "\t", " \t")) -> str:
    width, end, lines = draw(st.integers(1, 5)), draw(ending), []
    tags = st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "E-X", "S-Y", "L-X", "U-X", "B", "I"])
    for _ in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            n = draw(rarely(st.just(width), st.integers(0, 6)))
            fields = [draw(word) for _ in range(n - 1)] + [draw(rarely(tags, odd))]
            lines.append(draw(joined(fields, separators)) + end)
        lines.append(draw(ending))
    return "".join(lines)


@st.composite
def attribute_files(draw: Any) -> str:
    lines, end = [], draw(ending)
    name = st.one_of(st.sampled_from(["w=a", "b", "c\\:d", "e\\\\"]), odd)
    number = rarely(st.floats(-9, 9).map(repr), odd)
    attribute = st.one_of(name, st.tuples(name, number).map(":".join))
    for _ in range(draw(st.integers(1, 6))):
        found = draw(st.lists(attribute, max_size=4))
        lines.append("\t".join([draw(word), *found]) + draw(rarely(st.just(end), ending)))
    return "".join(lines)


@st.composite
def texts(draw: Any) -> str:
    parts = st.one_of(word, odd, st.text(max_size=12), st.sampled_from(TOKENS))
    glue = st.sampled_from(
        [" ", " ", " ", "", "\n", "\n\n", "  ", "\t", "\u00a0", "\r\n", ". ", "."]
    )
    return "".join(draw(parts) + draw(glue) for _ in range(draw(st.integers(1, 20))))


@st.composite
def template_files(draw: Any) -> str:
    column = st.sampled_from(
        ["word", "pos", "lower", "suffix3", "shape", "gaz", "tag", "word.lower"]
    )
    offset = rarely(st.integers(-9, 9).map(str), st.sampled_from(["-2..2", "1..0", "", "9" * 20]))
    atom = rarely(st.tuples(column, offset).map(lambda a: f"{a[0]}[{a[1]}]"), odd)
    line = st.one_of(st.lists(atom, min_size=1, max_size=5).map(" ".join), st.just("bias"), odd)
    return "".join(draw(line) + draw(ending) for _ in range(draw(st.integers(1, 6))))


@st.composite
def arc_files(draw: Any, roles: str = "hmglraz") -> str:
    column = st.sampled_from(["word", "upos", "lower", "xpos.prefix1", "feats", "gaz", "first"])
    offset = rarely(st.sampled_from(["", "[1]", "[-1]"]), st.sampled_from(["[99]", "[]", "[x]"]))
    side = st.tuples(st.sampled_from(roles), column, offset).map(lambda a: f"{a[0]}:{a[1]}{a[2]}")
    other = st.sampled_from(
        ["dir", "dist", "dir|dist", "b:upos", "set:upos", "count:NOUN", "no|dir"]
    )
    atom = rarely(st.one_of(side, side, other), odd)
    line = st.lists(atom, min_size=1, max_size=5).map(" ".join)
    return "".join(draw(line) + draw(ending) for _ in range(draw(st.integers(1, 5))))


@st.composite
def name_files(draw: Any) -> str:
    name = st.lists(word, min_size=1, max_size=4).map(" ".join)
    return "".join(draw(name) + draw(ending) for _ in range(draw(st.integers(1, 6))))


@st.composite
def cluster_files(draw: Any) -> str:
    path = st.text("01", min_size=1, max_size=70)
    line = st.tuples(word, path).map("\t".join)
    return "".join(draw(line) + draw(ending) for _ in range(draw(st.integers(1, 6))))


numbers = st.one_of(st.integers(-2, 3), st.integers(), st.floats(), st.just(10**400))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, odd),
    lambda s: st.one_of(st.lists(s, max_size=3), st.dictionaries(odd, s, max_size=3)),
    max_leaves=5,
)


@st.composite
def headers(draw: Any) -> bytes:
    """The header of a small model with one or two entries, or entries of entries, replaced."""
    models = list(small_models().values())
    at = draw(st.integers(0, len(models) - 1))
    header = json.loads(json.dumps(models[at][0]))
    for _ in range(draw(st.integers(1, 2))):
        place = header
        name = draw(st.sampled_from(sorted(place)))
        while isinstance(place[name], dict) and place[name] and draw(st.booleans()):
            place = place[name]
            name = draw(st.sampled_from(sorted(place)))
        if draw(st.integers(0, 5)) == 0:
            del place[name]
        elif isinstance(place[name], list) and draw(st.booleans()):
            place[name] = [*place[name][draw(st.integers(0, 2)) :], *draw(st.lists(anything))]
        elif isinstance(place[name], str) and draw(st.booleans()):
            place[name] += draw(odd)
        else:
            place[name] = draw(anything)
        if not header:
            break
    return bytes([at]) + json.dumps(header).encode()


@st.composite
def altered(draw: Any, name: str) -> bytes:
    """A seed, changed."""
    seeds = TARGETS[name].seeds()
    seed = draw(st.integers(0, 2**32))
    return changed(draw(st.sampled_from(seeds)), TARGETS[name].limit, seed, seeds)


@st.composite
def encoded(draw: Any, files: st.SearchStrategy) -> bytes:
    data = draw(files)
    data = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 7)) == 7:
        data = changed(data, 1 << 20, draw(st.integers(0, 2**32)), [data])
    return data


FILES: dict[str, st.SearchStrategy] = {
    "conllu": conll_files(),
    "conllx": conll_files(),
    "columns": column_files(),
    "tabs": column_files(("\t", "\t", "\t\t")),
    "crfsuite": attribute_files(),
    "detection": st.one_of(
        conll_files(), column_files(), column_files(("\t", "\t", "\t\t")), attribute_files()
    ),
    "text": texts(),
    "templates": template_files(),
    "arc templates": arc_files(),
    "part templates": arc_files("hmsg"),
    "gazetteer": name_files(),
    "clusters": cluster_files(),
    "model file": altered("model file"),
    "model header": headers(),
    "model arrays": st.binary(max_size=40),
}


# ---- Engines -------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """How often a target was run, and how often it accepted; corpus: inputs kept by atheris."""

    target: str
    engine: str
    executions: int
    seconds: float
    accepted: int | None = None
    corpus: int = 0


class Watched:
    """Runs a target and counts; one that takes longer than SECONDS is unexpected."""

    def __init__(self, name: str, artifacts: Path | None = None):
        self.run, self.executions, self.accepted = TARGETS[name].run, 0, 0
        self.artifacts, self.name = artifacts, name
        for seed in TARGETS[name].seeds():  # kernels are compiled now
            attempt(self.run, seed)
        signal.signal(signal.SIGPROF, self._late)

    def _late(self, *_: object) -> None:
        raise Unexpected(f"takes more than {SECONDS} s of processor time")

    def __call__(self, data: bytes) -> None:
        self.executions += 1
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            self.accepted += attempt(self.run, data)
        except BaseException:
            if self.artifacts:
                mark = hashlib.sha256(data).hexdigest()[:12]
                (self.artifacts / f"{folder(self.name)}-{mark}").write_bytes(data)
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def resident() -> float:
    """The most megabytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def draw_files(name: str, examples: int, seed: int) -> Outcome:
    """Hypothesis: so many files of a target."""
    watched = Watched(name)
    for data in kept(name):
        watched(data)
    start, memory = time.perf_counter(), resident()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(encoded(FILES[name]))
    def run(data: bytes) -> None:
        watched(data)
        if name == "conllu":
            agrees(data)

    run()
    grown = resident() - memory
    assert grown < MEGABYTES, f"{name}: memory grew by {grown:.0f} MB"
    seconds = time.perf_counter() - start
    return Outcome(name, "hypothesis", watched.executions, seconds, watched.accepted)


def kept(name: str) -> list[bytes]:
    """The inputs of a target that are kept with the tests."""
    return [p.read_bytes() for p in sorted((CORPUS / folder(name)).glob("*"))]


def folder(name: str) -> str:
    return name.replace(" ", "-")


def guided(name: str, limits: list[str], seed: int, artifacts: Path | None = None) -> Outcome:
    """Atheris in a process of its own, whose report is read."""
    with tempfile.TemporaryDirectory(dir=targets.scratch()) as own:
        where = artifacts or Path(own)
        command = [sys.executable, __file__, "--atheris", name, "--seed", str(seed)]
        command += ["--folder", own, "--artifacts", str(where), "--", *limits]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        seconds = time.perf_counter() - start
        runs = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
        kept = len(list((Path(own) / "corpus").glob("*")))
    assert done.returncode == 0, f"{name}: {done.stderr[-4000:]}"
    assert runs, f"{name}: {done.stderr[-4000:]}"
    return Outcome(name, "atheris", int(runs[1]), seconds, None, kept)


def atheris_main(name: str, seed: int, own: Path, artifacts: str, limits: list[str]) -> None:
    """The process that atheris takes over; it leaves no file outside its own folder."""
    import atheris

    targets.FOLDER = own
    target: Target = TARGETS[name]
    instrument(atheris.instrument_func)
    watched = Watched(name, Path(artifacts))
    corpus = own / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [*target.seeds(), *kept(name)]
    for n, data in enumerate(seeds):
        (corpus / f"seed{n}").write_bytes(data)

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        if seed % 2:
            return atheris.Mutate(data, limit)
        return changed(data, limit, seed, seeds)

    options = [f"-max_len={target.limit}", f"-seed={seed}", "-timeout=10", "-rss_limit_mb=2048"]
    options += [f"-artifact_prefix={artifacts}/{folder(name)}-", "-len_control=0", *limits]
    atheris.Setup(
        [sys.argv[0], *options, str(corpus)],
        watched,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def instrument(patch: Callable[[Any], Any]) -> None:
    """Every Python function of turbotag; compiled kernels stay as they are."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("turbotag."):
            continue
        found = list(vars(module).values())
        for owner in [x for x in found if isinstance(x, type) and x.__module__ == name]:
            found += [getattr(m, "fget", getattr(m, "__func__", m)) for m in vars(owner).values()]
        for function in found:
            if (
                isinstance(function, types.FunctionType)
                and function.__module__ == name
                and function.__code__.co_filename == module.__file__
            ):
                patch(function)


# ---- Reports -------------------------------------------------------------------------------------


def million(names: list[str], runs: int, examples: int, seed: int, artifacts: Path) -> None:
    """The long run: rows of the table, each written when its target is done."""
    artifacts.mkdir(parents=True, exist_ok=True)
    for name in names:
        add_row(guided(name, [f"-runs={runs}"], seed, artifacts))
        add_row(draw_files(name, examples, seed))


def add_row(outcome: Outcome) -> None:
    """Put a row in place of an older one of the same target and engine."""
    key = {"target": outcome.target, "engine": outcome.engine}
    old = [r for r in read(TABLE) if not r.items() >= key.items()]
    row = key | {
        "executions": outcome.executions,
        "seconds": round(outcome.seconds),
        "failures": 0,  # one ends the run
        "corpus": outcome.corpus,
        "version": importlib.metadata.version(outcome.engine),
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }
    print(row, flush=True)
    order = list(TARGETS)
    write(TABLE, sorted([*old, row], key=lambda r: (order.index(r["target"]), r["engine"])))


def measure(quick: bool) -> str:
    have = importlib.util.find_spec("atheris") is not None
    outcomes: dict[str, dict[str, Outcome]] = {}
    for name in TARGETS:
        outcomes[name] = {"hypothesis": draw_files(name, 60 if quick else 1000, 1)}
        if have and not quick:
            outcomes[name]["atheris"] = guided(name, ["-max_total_time=12"], 1)
    return report(outcomes, have, quick)


def report(outcomes: dict[str, dict[str, Outcome]], have: bool, quick: bool) -> str:
    long = groups(read(TABLE), "target", "engine")
    rows, total = [], 0
    for name, found in outcomes.items():
        drawn, byte = found["hypothesis"], found.get("atheris")
        total += drawn.executions + (byte.executions if byte else 0)
        cells = [name, f"{drawn.executions:,}", f"{drawn.accepted:,}"]
        cells.append(f"{byte.executions:,}" if byte else "not run")
        for engine in ("hypothesis", "atheris"):
            before = long.get((name, engine))
            cells.append(f"{before[0]['executions']:,.0f}" if before else "none")
        rows.append(cells)
    head = ["target", "hypothesis", "of these accepted", "atheris", "long run: hypothesis"]
    why = "" if have else " Atheris was not run: it is not installed here."
    if have and quick:
        why = " Atheris was not run: this is the quick run."
    told = f"{total:,} executions in this run, no failure.{why}"
    return f"{table([*head, 'atheris'], rows)}\n\n{told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="targets, with commas between them")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--artifacts", type=Path, default=Path("build-fuzz"))
    parser.add_argument("--atheris", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("limits", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.atheris:
        where = str(given.artifacts)
        atheris_main(given.atheris, given.seed, given.folder, where, given.limits)
    else:
        names = given.only.split(",") if given.only else list(TARGETS)
        million(names, given.runs, given.examples, given.seed, given.artifacts)


if __name__ == "__main__":
    main()
