"""Files that are nearly right, drawn by hypothesis, and bytes that are changed here and there."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from hypothesis import strategies as st
from targets import TARGETS, small_models

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
