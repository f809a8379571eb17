"""Word clusters from files to a file: from text by Brown's objective, or from vectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np

from turbotag.clustering import bisecting, merging
from turbotag.clustering.exchange import FIXED, Exchange, bigrams
from turbotag.corpus import text
from turbotag.corpus.formats import CONLLU, default_names, looks_columns, looks_conll
from turbotag.corpus.hashing import Interner
from turbotag.corpus.reader import Block, display_name, from_bytes, open_binary, stream
from turbotag.errors import DataError, UsageError
from turbotag.models.pipeline import RAW, Peeked
from turbotag.storage import store

CLASSES = 500
MOST_CLASSES = 5000
LEVELS = 12
MOST_LEVELS = 20
MIN_COUNT = 3
PASSES = 30
MORE = 1.5  # classes to begin with, times those asked for: see merging.merged
_DIGIT = re.compile(r"\d")
Echo = Callable[[str], None]
Told = Callable[[int], object]  # is told how many words are done


def blocks(path: str, format: str | None) -> Iterator[Block]:
    """The sentences of a file: of a CoNLL format, or raw text, cut into sentences and words."""
    name = display_name(path)
    with Peeked(open_binary(path), name, path == "-") as file:
        columns = looks_conll(file.head) or looks_columns(file.head)
        if format not in (None, RAW) or (format is None and columns):
            yield from stream(cast(BinaryIO, file), format, default_names)
            return
        for data in text.stream(cast(BinaryIO, file)):
            yield from_bytes(data, name, CONLLU)


class Text:
    """The words of a text as numbers: 0 is the boundary of sentences, 1 a rare word, then come
    words by frequency. All digits are made 0."""

    def __init__(self, files: Iterable[str], format: str | None, lower: bool, min_count: int):
        interner, pieces = Interner(), []
        for path in files:
            for block in blocks(path, format):
                column = block.format.index("word")
                if column is None:
                    raise DataError(f"is {block.format.name}, which has no words", block.path)
                ids = block.ids(column, interner)
                pieces.append(np.insert(ids.astype(np.int64), block.sentences[:-1], -1))
        if not pieces:
            raise DataError("there is no text", ", ".join(map(display_name, files)))
        strings = [_DIGIT.sub("0", s.lower() if lower else s) for s in interner.strings]
        names, number = np.unique(np.array(strings, object), return_inverse=True)
        tokens = np.concatenate([*pieces, [-1]])
        inside = tokens >= 0
        counts = np.bincount(number[tokens[inside]], minlength=names.size)
        order = np.lexsort((np.arange(names.size), -counts))
        kept = order[counts[order] >= min_count]
        rank = np.full(names.size, 1)
        rank[kept] = FIXED + np.arange(kept.size)
        self.words: list[str] = names[kept].tolist()
        self.tokens = np.where(inside, rank[number[np.where(inside, tokens, 0)]], 0)
        self.n_tokens = int(inside.sum())


@dataclass(frozen=True)
class ClusterOptions:
    """How the words of a text are clustered: into how many classes, and in how many passes at most
    (exchange.py). format: of the files, None if their content tells; lower: whether words are taken
    in lower case; min_count: words seen less often are left out; threads: how many threads compute,
    which does not change the result."""

    classes: int = CLASSES
    format: str | None = None
    lower: bool = False
    min_count: int = MIN_COUNT
    passes: int = PASSES
    threads: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= MOST_CLASSES:
            raise UsageError(f"classes is {self.classes}: it must lie between 1 and {MOST_CLASSES}")
        for name in ("min_count", "passes", "threads"):
            value = getattr(self, name)
            if value < 1:
                raise UsageError(f"{name.replace('_', '-')} is {value}: it must be 1 or more")


def cluster_text(
    files: list[str],
    output: str,
    options: ClusterOptions,
    echo: Echo = lambda line: None,
    told: Told = lambda words: None,
) -> float:
    """Write `word<TAB>path` for the words of texts, the most frequent first; returns the mutual
    information of neighbouring classes in bits."""
    classes, passes, min_count = options.classes, options.passes, options.min_count
    store.check_writable(output)
    found = Text(files, options.format, options.lower, min_count)
    n = len(found.words)
    echo(f"{found.n_tokens} words of text, {n} different ones seen {min_count} times or more")
    if not n:
        raise DataError(f"no word occurs {min_count} times: lower --min-count", files[0])
    exchange = Exchange(
        bigrams(found.tokens, n + FIXED), min(int(MORE * classes), n), options.threads
    )
    done = exchange.run(passes, told)
    if classes < n:
        exchange.put(merging.merged(exchange.classes, exchange.N, classes))
        done += exchange.run(passes, told)
    bits = exchange.information()
    echo(f"{min(classes, n)} classes after {done} passes: {bits:.4f} bits of mutual information")
    tree = merging.paths(exchange.N)
    _write(output, found.words, [tree[c - FIXED] for c in exchange.classes[FIXED:].tolist()])
    return bits


def cluster_vectors(
    path: str,
    output: str,
    levels: int = LEVELS,
    *,
    echo: Echo = lambda line: None,
    told: Told = lambda words: None,
) -> None:
    """Write `word<TAB>path` for the words of a file of vectors, in its order."""
    if not 1 <= levels <= MOST_LEVELS:
        raise UsageError(f"levels is {levels}: it must lie between 1 and {MOST_LEVELS}")
    store.check_writable(output)
    words, vectors = read_vectors(path)
    echo(f"{len(words)} words with vectors of {vectors.shape[1]} dimensions")
    found = bisecting.paths(vectors, levels, told)
    echo(f"{len(set(found))} clusters")
    _write(output, words, found)


def read_vectors(path: str) -> tuple[list[str], np.ndarray]:
    """(words, (words, dimensions) float32) of a text file as GloVe and word2vec write it: a word
    and its numbers on each line, with blanks between them; word2vec's first line is left out."""
    name, words, rows = display_name(path), list[str](), list[np.ndarray]()
    seen: set[str] = set()
    with open_binary(path) as file:
        for number, line in enumerate(cast(Iterable[bytes], file), 1):
            word, *numbers = line.rstrip().split(b" ")
            if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
                continue
            try:
                row, known = np.array(numbers, np.float32), word.decode()
            except (ValueError, UnicodeDecodeError):
                raise DataError("expected a word and its numbers", name, number) from None
            if not known or "\t" in known or not row.size or not np.isfinite(row).all():
                raise DataError("expected a word and its numbers", name, number)
            if rows and row.size != rows[0].size:
                told = f"expected {rows[0].size} numbers as on the lines before, found {row.size}"
                raise DataError(told, name, number)
            if known not in seen:
                seen.add(known)
                words.append(known)
                rows.append(row)
    if not rows:
        raise DataError("holds no vectors", name)
    return words, np.stack(rows)


def _write(output: str, words: list[str], paths: list[str]) -> None:
    """Write `word<TAB>path` lines: the whole file, or none of it."""
    lines = [f"{word}\t{path or '0'}\n" for word, path in zip(words, paths, strict=True)]
    store.write_atomically(output, "".join(lines).encode())
