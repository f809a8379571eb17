"""Load: millions of tokens through pipes in constant memory, and one model in many threads."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from measure import resident, scratch, together, turbotag

from corpora import DEMO

VARIANTS, SENTENCES = 20, 500  # different chunks of a stream, and sentences in each
GROWTH = 50.0  # megabytes of words that a model remembers in a thread, at most
THREADS = 16


# ---- Streams ------------------------------------------------------------------------------------


def sentences() -> list[list[list[str]]]:
    """Words of the embedded corpus, each as form, lemma, two tags and features."""
    parts = (DEMO / "test.conllu").read_text(encoding="utf-8").split("\n\n")
    rows = [[line.split("\t") for line in part.splitlines()] for part in parts]
    return [words for s in rows if (words := [r[1:6] for r in s if r[0].isdigit()])]


def perturbed(words: list[list[str]], rng: random.Random) -> list[list[str]]:
    """A sentence with letters changed, and words left out or doubled."""
    out = []
    for form, *rest in words:
        if rng.random() < 0.1:
            at = rng.randrange(len(form))
            form = form[:at] + rng.choice("aeioutrsXé0") + form[at + 1 :]
        out += [[form, *rest]] * rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 0, 2))
    return out


def as_tokens(words: list[list[str]]) -> str:
    return "\n".join(["n%09d", *(w[0] for w in words), "\n"])


def as_text(words: list[list[str]]) -> str:
    return " ".join(["Number %09d", *(w[0] for w in words)]) + ".\n\n"


def as_conllu(words: list[list[str]]) -> str:
    rows = [["n%09d", "_", "NUM", "CD", "_"], *words]
    return "\n".join(["\t".join([str(i), *w, *"____"]) for i, w in enumerate(rows, 1)] + ["\n"])


FORMS = {"tokens": as_tokens, "text": as_text, "conllu": as_conllu}


def generate(form: str, tokens: int) -> Iterator[bytes]:
    """At least so many tokens; one of every sentence is its number, so that words are ever new."""
    rng = random.Random(1)
    source, chunks = sentences(), []
    for _ in range(VARIANTS):
        some = [perturbed(rng.choice(source), rng) for _ in range(SENTENCES)]
        chunks.append(("".join(map(FORMS[form], some)).encode(), sum(map(len, some)) + SENTENCES))
    number = done = 0
    while done < tokens:
        chunk, size = chunks[number // SENTENCES % VARIANTS]
        yield chunk % tuple(range(number, number + SENTENCES))
        number, done = number + SENTENCES, done + size


# What a command adds to its input; of raw text, the numbers of the sentences are compared.
ADDED = {
    "tokens": (re.compile(rb"\t[^\n]*"), b""),
    "conllu": (re.compile(rb"(?m)^((?:[^\t\n]+\t){6})[^\t\n]+\t[^\t\n]+"), rb"\1_\t_"),
}
TOKEN = {
    "tokens": re.compile(rb"\t"),
    "conllu": re.compile(rb"(?m)^\d+\t"),
    "text": re.compile(rb"(?m)^\d+\t"),
}


def unchanged(form: str, data: bytes) -> bytes:
    """That of an input or of an output which must be equal in both."""
    if form == "text":
        return b" ".join([*re.findall(rb"(?m)^(?:# text = )?Number (\d{9})", data), b""])
    pattern, plain = ADDED[form]
    return pattern.sub(plain, data)


@dataclass
class Streamed:
    """What came out of a stream, and the resident megabytes of the process: after its first
    output, at the end, and at most."""

    tokens: int
    digest: str
    first: float
    last: float
    most: float

    def row(self, what: str) -> str:
        sizes = f"{self.first:.0f} MB | {self.last:.0f} MB | {self.most:.0f} MB"
        return f"| {what} | {self.tokens:,} | {sizes} |"


def stream(form: str, tokens: int, model: str, threads: int = 1, models: int = 1) -> Streamed:
    """Send a stream through `turbotag predict`: all comes back in order, in constant memory, beyond
    what each of `models` remembers."""
    source = subprocess.Popen([sys.executable, __file__, form, str(tokens)], stdout=subprocess.PIPE)
    command = turbotag("predict", model, "-", "--threads", threads)
    process = subprocess.Popen(command, stdin=source.stdout, stdout=subprocess.PIPE)
    assert source.stdout is not None
    assert process.stdout is not None
    source.stdout.close()
    digest, same, expected = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    sizes, sampled, count, rest = list[float](), 0.0, 0, b""
    while data := process.stdout.read1(1 << 20):
        if time.monotonic() - sampled > 0.05:
            sizes.append(resident(process.pid))
            sampled = time.monotonic()
        digest.update(data)
        cut = data.rfind(b"\n") + 1
        lines, rest = rest + data[:cut], data[cut:]
        if cut:
            count += len(TOKEN[form].findall(lines))
            same.update(unchanged(form, lines))
        else:
            rest = lines + rest
    assert (process.wait(), source.wait(), rest) == (0, 0, b"")
    for chunk in generate(form, tokens):
        expected.update(unchanged(form, chunk) if form == "text" else chunk)
    assert same.digest() == expected.digest(), f"{command}: not what went in, or not in its order"
    found = Streamed(count, digest.hexdigest(), sizes[0], sizes[-1], max(sizes))
    grown = found.most - found.first
    assert grown < GROWTH * threads * models, f"{command}: grew by {grown:.0f} MB: {found}"
    return found


# ---- Threads ------------------------------------------------------------------------------------


def share(rounds: int) -> str:
    """One model in many threads, the first that use it; then each call again in this thread."""
    import turbotag

    words = [[w[0] for w in s] for s in sentences()]
    tagged = [[(w[0], w[2], w[3]) for w in s] for s in sentences()]
    tagger, parser, nlp = (
        turbotag.Tagger.load(sys.argv[3]),
        turbotag.Parser.load("en-parse"),
        turbotag.load("en"),
    )
    cases: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
        "Tagger.predict": (lambda s: tagger.predict([s]), words),
        "Tagger.predict_marginals": (lambda s: tagger.predict_marginals([s]), words),
        "Parser.predict": (lambda s: parser.predict([s]), tagged),
        "turbotag.load('en')": (nlp, [" ".join(s) for s in words]),
    }
    rows = []
    for name, (call, items) in cases.items():
        items = items[: 10 * rounds]
        results = at_once(call, items)
        right = [call(item) for item in items]
        wrong = sum(r != x for own in results for r, x in zip(own, right, strict=True))
        assert not wrong, f"{name}: {wrong} answers differ between threads"
        rows.append(f"| `{name}` | {THREADS} | {THREADS * len(items)} | {wrong} |")
    return "\n".join(rows)


def at_once(call: Callable[[Any], Any], items: list[Any]) -> list[list[Any]]:
    """The answers to all items in each of the threads, which start together, each elsewhere."""
    gate = threading.Barrier(THREADS)
    results: list[list[Any]] = [[None] * len(items) for _ in range(THREADS)]

    def work(t: int) -> None:
        gate.wait()
        for i in range(len(items)):
            at = (i + t * 7) % len(items)
            results[t][at] = call(items[at])

    together(work, THREADS)
    return results


# ---- The page -----------------------------------------------------------------------------------


def measure(quick: bool) -> str:
    many, some = (300_000, 20_000) if quick else (10_000_000, 300_000)
    with scratch() as folder:
        model = str(folder / "model")
        given = "--train", DEMO / "train.iob2", "-q", "-o", model
        subprocess.run(turbotag("train", "--task", "ner", *given), check=True)
        one = stream("tokens", many, model)
        two = stream("tokens", many, model, threads=2)
        assert one.digest == two.digest, "two threads do not write what one thread writes"
        raw = stream("text", some, "en-pos", models=2)
        parsed = stream("conllu", some * 2 // 3, "en-parse", threads=2)
        rounds = "1" if quick else "4"
        shared = subprocess.run(
            [sys.executable, __file__, "share", rounds, model],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return f"""Streams through pipes. One word of every sentence is its number, so that words are
ever new. The output was compared with the input, and that of two threads with that of one (sha256
{one.digest[:16]}...). Resident size of the process:

| | tokens | after the first output | at the end | at most |
|---|---|---|---|---|
{one.row("a tagger, one thread")}
{two.row("the same, `--threads 2`")}
{raw.row("`en-pos` on raw text")}
{parsed.row("`en-parse`, `--threads 2`")}

One model in {THREADS} threads of one Python process, which all start with a model that was not used
before; every answer is compared with that of one thread:

| | threads | calls | different answers |
|---|---|---|---|
{shared.stdout.strip()}"""


if __name__ == "__main__":
    if sys.argv[1] == "share":
        print(share(int(sys.argv[2])))
    else:
        for chunk in generate(sys.argv[1], int(sys.argv[2])):
            sys.stdout.buffer.write(chunk)
