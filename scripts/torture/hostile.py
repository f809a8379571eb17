"""Files that attack whoever loads them as a model or a checkpoint: models.py tries them all."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle  # to make a file that is one: no loader may take it
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attempts import TREES
from model_targets import Parts, model_bytes, packed

from turbotag.storage.tensors import LARGEST_HEADER


@dataclass(frozen=True)
class Attack:
    """A file: `make` writes it, or puts something else in its place."""

    name: str
    make: Callable[[Path], None]
    must_refuse: bool = False


def later(made: Callable[[], bytes]) -> Callable[[Path], None]:
    """Writes what is made only then: all attacks at once would fill the memory."""

    def make(path: Path) -> None:
        path.write_bytes(made())

    return make


def write(data: bytes) -> Callable[[Path], None]:
    return later(lambda: data)


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header's table of a safetensors file, and the rest."""
    n = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + n]), data[8 + n :]


def joined(table: Any, rest: bytes) -> bytes:
    header = table if isinstance(table, bytes) else json.dumps(table).encode()
    return struct.pack("<Q", len(header)) + header + rest


def cut_header(name: str, data: bytes) -> list[Attack]:
    """Truncated at every byte of the header."""
    end = 8 + int.from_bytes(data[:8], "little")
    sizes = range(end + 1)
    return [Attack(f"{name} cut to {n}", later(lambda n=n: data[:n]), True) for n in sizes]


def cut_anywhere(name: str, data: bytes, times: int, rng: np.random.Generator) -> list[Attack]:
    sizes = rng.integers(0, len(data), times).tolist()
    return [Attack(f"{name} cut to {n}", later(lambda n=n: data[:n]), True) for n in sizes]


def damage(name: str, data: bytes, times: int, rng: np.random.Generator) -> list[Attack]:
    """A file with checksums that a disk or a network changed: single bits, pages of zeros, and
    zeros from the middle on."""
    attacks = []

    def add(what: str, begin: int, new: bytes) -> None:
        made = data[:begin] + new + data[begin + len(new) :]
        if made != data:
            attacks.append(Attack(f"{name} {what} at {begin}", write(made), True))

    for at in rng.integers(0, len(data), times).tolist():
        add("with a bit", at, bytes([data[at] ^ (1 << int(rng.integers(8)))]))
        page = at // 512 * 512
        add("with zeros", page, bytes(min(512, len(data) - page)))
    add("half of zeros", len(data) // 2, bytes(len(data) - len(data) // 2))
    return attacks


def lengths(name: str, data: bytes) -> list[Attack]:
    """What the length of the header may say."""
    n = int.from_bytes(data[:8], "little")
    found = [0, 1, 2, n - 1, n + 1, n - 8, n + 8, n // 2, 2 * n, len(data), len(data) - 8]
    found += [1 << 20, LARGEST_HEADER, LARGEST_HEADER + 1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1]
    return [
        Attack(f"{name} with a header of {m}", write(struct.pack("<Q", m) + data[8:]), True)
        for m in found
        if m != n
    ]


HUGE = 1 << 62
SHAPES: list[Any] = [[HUGE], [1 << 32, 1 << 32], [1 << 63, 2], [1 << 64], [-1], [1.5], ["1"]]
SHAPES += [[None], [], [[1]], "4", None, 7, {}, [True], [0, HUGE], [10**300], [2] * 70]
SHAPES += [[1] * 100_000]
PLACES: list[Any] = [[0, HUGE], [HUGE, HUGE], [8, 0], [-8, 0], [0], [0, 1, 2], [0.0, 8.0]]
PLACES += [None, "x", [None, None], [True, True], [0, 0], [1 << 64, 1 << 65], [[0], [8]]]
DTYPES: list[Any] = ["U8", "U16", "U32", "U64", "I8", "I16", "I32", "I64", "F16", "F32", "F64"]
DTYPES += ["BOOL", "BF16", "F8_E4M3", "C64", "f32"]
DTYPES += ["", None, 4, ["F32"], "F32\n", "X" * 100_000]


def shapes(name: str, data: bytes) -> list[Attack]:
    """Huge and wrong shapes, places outside the file, other dtypes, arrays too many or twice."""
    table, rest = split(data)
    found: list[tuple[str, Any, bool]] = []
    arrays = [a for a in table if a != "__metadata__"]
    for array in arrays:
        told = table[array]
        for key, values in (("shape", SHAPES), ("data_offsets", PLACES), ("dtype", DTYPES)):
            for value in values:
                if value != told[key]:
                    change = {**table, array: {**told, key: value}}
                    found.append((f"{array}.{key} = {value!r:.40}", change, True))
        size = told["data_offsets"][1] - told["data_offsets"][0]
        whole = int(np.prod(told["shape"]))
        other = [[*told["shape"], 1], told["shape"][::-1], [1, *told["shape"]], [whole]]
        for shape in [s for s in other if s != told["shape"]]:
            found.append((f"{array} as {shape}", {**table, array: {**told, "shape": shape}}, True))
        for dtype, width in (("U8", 1), ("U16", 2), ("U32", 4), ("I32", 4), ("U64", 8), ("F64", 8)):
            if size % width == 0 and dtype != told["dtype"]:
                lie = {**told, "dtype": dtype, "shape": [size // width]}
                found.append((f"{array} as {dtype}", {**table, array: lie}, True))
        found.append((f"{array} is missing", {k: v for k, v in table.items() if k != array}, True))
        found.append((f"{array} has one entry less", {**table, array: {"dtype": "F32"}}, True))
    for a, b in itertools.pairwise(arrays):
        swapped = {**table, a: table[b], b: table[a]}
        same = table[a]["shape"] == table[b]["shape"] and table[a]["dtype"] == table[b]["dtype"]
        if not same:
            found.append((f"{a} and {b} swapped", swapped, True))
        found.append((f"{a} is {b} too", {**table, a: table[b]}, True))
    nothing = {"dtype": "F32", "shape": [0], "data_offsets": [len(rest), len(rest)]}
    many = {f"x{i}": nothing for i in range(40_000)}
    found.append(("40,000 empty arrays", {**table, **many}, False))
    found.append(("a list for an array", {**table, arrays[0]: []}, True))
    attacks = [
        Attack(f"{name}: {what}", later(partial(joined, t, rest)), must) for what, t, must in found
    ]
    attacks += [sparse(name, table, rest, a) for a in arrays]
    return attacks


def sparse(name: str, table: dict[str, Any], rest: bytes, array: str) -> Attack:
    """A file that really is as long as a huge array, of which most is a hole."""
    size = max(1 << 35, 4 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    told = table[array]
    width = (told["data_offsets"][1] - told["data_offsets"][0]) // max(
        1, int(np.prod(told["shape"]))
    )
    shape = [size // width // max(1, int(np.prod(told["shape"][1:]))), *told["shape"][1:]]
    end = len(rest) + int(np.prod(shape)) * width
    moved = {
        k: {**v, "data_offsets": list(v["data_offsets"])} for k, v in table.items() if k[0] != "_"
    }
    at = told["data_offsets"]
    for entry in moved.values():  # the others move up to its place
        if entry["data_offsets"][0] >= at[1]:
            entry["data_offsets"] = [x - (at[1] - at[0]) for x in entry["data_offsets"]]
    short = len(rest) - (at[1] - at[0])
    moved[array] = {**told, "shape": shape, "data_offsets": [short, short + end - len(rest)]}
    head = joined({"__metadata__": table["__metadata__"], **moved}, b"")

    def make(path: Path) -> None:
        with path.open("wb") as f:
            f.write(head + rest[: at[0]] + rest[at[1] :])
            f.truncate(len(head) + short + end - len(rest))

    return Attack(f"{name}: {array} of more bytes than memory, in a file with holes", make, True)


def metadata(name: str, data: bytes) -> list[Attack]:
    """Headers that are no JSON, not turbotag's, endless, or have a key twice."""
    table, rest = split(data)
    text = table["__metadata__"]["turbotag"]
    header = json.loads(text)
    arrays = {k: v for k, v in table.items() if k != "__metadata__"}
    plain = json.dumps(arrays)[1:]

    def outer(value: Any) -> bytes:
        return joined({"__metadata__": value, **arrays}, rest)

    def inner(value: Any) -> bytes:
        return outer({"turbotag": value if isinstance(value, str) else json.dumps(value)})

    first = next(iter(arrays))
    twice = f'{{"{first}": {json.dumps(arrays[first])}, ' + json.dumps(table)[1:]
    found: dict[str, Callable[[], bytes]] = {
        "no metadata": lambda: joined(arrays, rest),
        "metadata null": lambda: outer(None),
        "metadata a list": lambda: outer([]),
        "metadata without turbotag": lambda: outer({"other": text}),
        "metadata a table in a table": lambda: outer({"turbotag": header}),
        "metadata a number": lambda: outer({"turbotag": 1}),
        "metadata twice": lambda: joined(
            f'{{"__metadata__": {{"turbotag": "{{}}"}}, {json.dumps(table)[1:]}'.encode(), rest
        ),
        "an array twice": lambda: joined(twice.encode(), rest),
        "a header key twice": lambda: inner('{"kind": "tagger", ' + text[1:]),
        "not UTF-8": lambda: joined(
            json.dumps(table).encode().replace(b"seed", b"s\xff\xfed"), rest
        ),
        "UTF-16": lambda: joined(json.dumps(table).encode("utf-16"), rest),
        "a byte order mark": lambda: joined(b"\xef\xbb\xbf" + json.dumps(table).encode(), rest),
        "nothing but blanks": lambda: joined(b" " * 64, rest),
        "an endless list": lambda: joined(b"[" * 200_000, rest),
        "an endless table": lambda: joined(b'{"a":' * 200_000, rest),
        "deep metadata": lambda: inner("[" * 100_000),
        "deep metadata that closes": lambda: inner("[" * 5_000 + "]" * 5_000),
        "a deep entry": lambda: inner(text[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        "a long number": lambda: inner(text[:-1] + ', "x": ' + "9" * 100_000 + "}"),
        "lists without end": lambda: joined(b'{"a": [' + b"[]," * 2_600_000 + b"0]}", rest),
        "lists in the metadata": lambda: inner('{"a": [' + "[]," * 2_600_000 + "0]}"),
        "numbers in the metadata": lambda: inner('{"a": [' + "-9," * 2_600_000 + "0]}"),
        "wide characters": lambda: inner('{"a": "' + "\U0001f600" * 600_000 + '"}'),
        "8 MB of shape": lambda: joined({first: {**arrays[first], "shape": [9] * 2_600_000}}, rest),
        "a header of 100 MB": lambda: joined(b"{" + b" " * 100_000_000 + b"}", rest),
        "a lone surrogate": lambda: inner(
            text.replace('"command": "', '"command": "\\ud800', 1)[:-1]
        ),
        "trailing garbage": lambda: joined(json.dumps(table).encode() + b"x", rest),
        "half of the header": lambda: joined(("{" + plain)[: len(plain) // 2].encode(), rest),
        "data behind the arrays": lambda: data + b"\0",
        "data before the arrays": lambda: joined(table, b"\0" + rest),
    }
    if "seed" in header:
        found["an inner key twice"] = lambda: inner(text.replace('"seed":', '"seed":1,"seed":', 1))
    for value in (0, -1, 2, 1 << 40, 10**30, 1.0, "1", True, None, [], "x" * 100_000):
        found[f"format version {value!r:.20}"] = partial(inner, {**header, "format_version": value})
    strange = "" if header["kind"] == "checkpoint" else "checkpoint"
    for value in (strange, "model", "tagger\nparser", None, 1, ["tagger"], "x" * 100_000):
        found[f"kind {value!r:.20}"] = partial(inner, {**header, "kind": value})
    other = "parser" if header["kind"] == "tagger" else "tagger"
    found[f"kind {other}"] = partial(inner, {**header, "kind": other})
    attacks = [Attack(f"{name}: {what}", later(made), True) for what, made in found.items()]
    backwards = dict(reversed(list(header.items())))
    return [*attacks, Attack(f"{name}: keys in another order", write(inner(backwards)))]


ODD: list[Any] = [None, True, False, -1, 0, 1, 2, 10**9, 10**30, 1e308, float("nan"), float("inf")]
ODD += ["", "x", "\n", "²", "word[0]", "O", "word\x00", "\ud800", [], ["a", "a"], [1], [""], ["\n"]]
ODD += [{}, {"x": 1}, [[[[]]]], "x " * 50_000, ["B-A", "I-A"], "iobes", "misc", "id", "crfsuite"]


def entries(name: str, parts: Parts) -> list[Attack]:
    """Every entry of the header removed, and replaced by what it should not be."""
    header, arrays = parts

    def places(at: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        for key in at if isinstance(at, dict) else range(min(1, len(at))):
            yield (*path, key)
            if isinstance(at[key], (dict, list)):
                yield from places(at[key], (*path, key))

    def changed(path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> bytes:
        copy = json.loads(json.dumps(header))
        at = copy
        for key in path[:-1]:
            at = at[key]
        change(at, path[-1])
        return packed({"turbotag": json.dumps(copy)}, arrays)

    def put(value: Any) -> Callable[[Any, Any], None]:
        return lambda at, key: at.__setitem__(key, value)

    attacks = []
    for path in places(header, ()):
        where = ".".join(map(str, path))
        makes = [("removed", lambda at, key: at.__delitem__(key))]
        makes += [(f"{v!r:.30}", put(v)) for v in ODD]
        for what, change in makes:
            make = later(partial(changed, path, change))
            attacks.append(Attack(f"{name}: {where} {what}", make))
    return attacks


def values(name: str, parts: Parts, times: int, rng: np.random.Generator) -> list[Attack]:
    """Arrays of the right shape whose numbers are not: NaN, infinite and huge weights, indices that
    point outside, keys that are 0, twice or out of order, noise, and single bits."""
    header, arrays = parts
    attacks = []

    def add(what: str, array: str, changed: np.ndarray, must: bool = False) -> None:
        if changed.tobytes() == arrays[array].tobytes():
            return
        made = later(partial(model_bytes, (header, {**arrays, array: changed})))
        attacks.append(Attack(f"{name}: {array} {what}", made, must))

    for array, good in arrays.items():
        n = good.size
        if not n:
            continue
        if good.dtype.kind == "f":
            extremes = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e31, 1e29, -1e29, 1e-45, 0.0, -0.0]
        elif good.dtype.kind == "b":
            extremes = [False, True]
        else:
            info = np.iinfo(good.dtype)
            extremes = [info.min, info.max, 0, 1, info.max - 1, info.max // 2]
        for value in extremes:
            bad = good.dtype.kind == "f" and not abs(value) < 1e30
            for what, place in (("first", 0), ("last", n - 1), ("all", slice(None))):
                changed = good.copy()
                changed.reshape(-1)[place] = value
                add(f"{what} {value}", array, changed, bad)
        add("reversed", array, np.ascontiguousarray(good.reshape(-1)[::-1]).reshape(good.shape))
        if n > 1:
            changed = good.copy().reshape(-1)
            changed[1] = changed[0]
            add("twice", array, changed.reshape(good.shape), array in ("keys",))
        for _ in range(times):
            noise = rng.integers(0, 256, good.nbytes, np.uint8)
            add("noise", array, noise.view(good.dtype).reshape(good.shape))
            flipped = np.frombuffer(good.tobytes(), np.uint8).copy()
            flipped[rng.integers(good.nbytes)] ^= 1 << rng.integers(8)
            add("a bit", array, flipped.view(good.dtype).reshape(good.shape))
    return attacks


def crowds(parts: dict[str, Parts]) -> list[Attack]:
    """Keys that are made to fall together in a table, so that it would take hours to fill."""
    n = 300_000
    attacks = []
    header, arrays = parts["tagger"]
    K = len(header["labels"])
    weights = np.ones((n + K, K), np.float32)
    many = np.arange(n, dtype=np.uint64)
    for what, keys in (
        ("one place", (many + 1) << 40),
        ("two a place", (many // 2) | (many << 44)),
    ):
        keys[0] = 1
        data = model_bytes((header, {**arrays, "keys": keys, "weights": weights}))
        attacks.append(Attack(f"tagger: {n} keys for {what}", write(data), True))
    upper = np.unique((np.arange(n) % 60_000 << 16) | (np.arange(n) // 60_000))[1:]
    counts = np.bincount(upper >> 16, minlength=1 << 16).astype(np.uint8)
    lows = (upper & 0xFFFF).astype(np.uint16)
    header, arrays = parts["compact"]
    K = len(header["labels"])
    crowd = {"counts": counts, "lows": lows, "rows": np.ones((lows.size, K), np.int8)}
    crowd["scales"] = np.ones(lows.size, np.float32)
    data = model_bytes((header, {**arrays, **crowd}))
    # The tables of compact models are filled in one pass and searched by halves: such files are
    # only odd.
    attacks.append(Attack("compact: keys for few places", write(data)))
    header, arrays = parts["parser"]
    crowd = {"arc.counts": counts, "arc.lows": lows, "arc.weights": np.ones(lows.size, np.int8)}
    data = model_bytes((header, {**arrays, **crowd}))
    attacks.append(Attack("parser: keys for few places", write(data)))
    return attacks


def foreign() -> list[Attack]:
    """Files that are no models at all."""
    files = {
        "empty": b"",
        "a byte": b"{",
        "zeros": bytes(1 << 16),
        "0xff": b"\xff" * 4096,
        "text": b"This is not a model.\n" * 50,
        "CoNLL-U": TREES,
        "JSON": b'{"labels": []}',
        "gzip": gzip.compress(TREES, mtime=0),
        "a program": b"\x7fELF\x02\x01\x01" + bytes(500),
        "a pickle": pickle.dumps({"weights": [1.0] * 100}),
        "noise": np.random.default_rng(1).bytes(5000),
    }

    def archive(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as f:
            f.writestr("model", TREES)

    attacks = [Attack(what, write(data), True) for what, data in files.items()]
    return [
        *attacks,
        Attack("a zip", archive, True),
        Attack("a directory", lambda path: path.mkdir(), True),
        Attack("nothing", lambda path: None, True),
        Attack("an unreadable device", lambda path: path.symlink_to("/dev/null"), True),
        Attack("an endless device", lambda path: path.symlink_to("/dev/zero"), True),
        Attack("a link to itself", lambda path: path.symlink_to(path), True),
    ]


def states(name: str, parts: Parts) -> list[Attack]:
    """Checkpoints without checksums whose state or arrays are wrong."""
    header, arrays = parts
    state = json.loads(header["state"])
    attacks = []

    def add(what: str, text: str, changed: dict[str, np.ndarray], must: bool = False) -> None:
        data = model_bytes(({**header, "state": text}, changed))
        attacks.append(Attack(f"{name}: {what}", write(data), must))

    for key in state:
        rest = json.dumps({k: state[k] for k in state if k != key})
        add(f"state.{key} removed", rest, arrays, True)
        for value in ODD:
            add(f"state.{key} = {value!r:.30}", json.dumps({**state, key: value}), arrays)
    for key, value in (("state", {"state": -1, "inc": 10**50}), ("has_uint32", "x")):
        random = {**state["random"], key: value}
        add(f"random.{key}", json.dumps({**state, "random": random}), arrays, True)
    for text in ("", "null", "[]", "{", "[" * 100_000, '"x"', "1"):
        add(f"state {text[:9]!r}", text, arrays, True)
    for array, good in arrays.items():
        rest = {k: v for k, v in arrays.items() if k != array}
        add(f"{array} removed", header["state"], rest, array != "splits")
        for what, changed in (
            ("shorter", good.reshape(-1)[:-1]),
            ("empty", good.reshape(-1)[:0]),
            ("one number", good.reshape(-1)[:1]),
            (
                "of another type",
                good.astype(np.float32 if good.dtype == np.float64 else np.float64),
            ),
            ("with a dimension more", good[None]),
        ):
            if changed.shape != good.shape or changed.dtype != good.dtype:
                add(f"{array} {what}", header["state"], {**arrays, array: changed}, True)
        if good.dtype.kind == "f":
            for value in (np.nan, np.inf, -1.0, 1e300):
                add(f"{array} all {value}", header["state"], {**arrays, array: good * 0 + value})
    return attacks
