"""The tokenizer: running text to tokens, words and sentences, by a chain over its characters.

The chain runs over the units of a text (features/characters). A label says of a unit whether it
goes on with the token before it (I), begins a token (T) or begins a sentence (S); TM and SM begin a
token of several words, which scripts learned from the treebank split (corpus/multiword). Paragraphs
and what an author must have meant as a line of its own always begin a sentence (corpus/rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from turbotag.corpus import rules
from turbotag.corpus import text as running
from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.multiword import Splitter
from turbotag.corpus.rules import CHUNK, EMPTY, LONGEST, Token
from turbotag.corpus.text import Span
from turbotag.features import compact
from turbotag.features.characters import SPACE, CharacterExtractor, Units
from turbotag.features.templates import parse
from turbotag.models.stored import Stored
from turbotag.models.tag_kernels import add_matrix, viterbi
from turbotag.models.tagger_file import PACKED, check_weights
from turbotag.storage.checks import PROVENANCE, check_entry, expect
from turbotag.storage.tensors import Entries
from turbotag.structures import chain

LABELS = ("I", "T", "S", "TM", "SM")
INSIDE, TOKEN, SENTENCE, MULTIWORD = range(4)
BETWEEN = "\n\n"  # texts that are cut in one go
BARRED = np.float32(-1e6)  # the score of a label that is ruled out
HEADER = PROVENANCE | {
    "templates": str,
    "by_letter": bool,
    "blanks": bool,
    "scores?": {"*": {"measure": str, "convention": str}},
}


# Tokens of a sentence: start, end, form, words (None if the form is the only one), and notes in
# MISC: whether the next token follows without white space, and probabilities.
_Sentence = list[tuple[int, int, str, tuple[str, ...] | None, str]]
GLUED = "SpaceAfter=No|"


@dataclass
class Cut:
    """What a text was cut into. Token k is text[starts[k]:ends[k]]; further (tokens,) arrays tell
    which tokens begin a sentence, have several words, and are followed by another without white
    space. probabilities: (tokens, 2), if asked for: that a token, and that a sentence, begins where
    this one begins."""

    starts: np.ndarray
    ends: np.ndarray
    first: np.ndarray
    multiword: np.ndarray
    glued: np.ndarray
    probabilities: np.ndarray | None = None

    def notes(self) -> list[str]:
        """What MISC notes of each token."""
        notes = [GLUED if glued else "" for glued in self.glued.tolist()]
        if self.probabilities is None:
            return notes
        rows = zip(notes, self.probabilities.tolist(), self.first.tolist(), strict=True)
        return [
            f"{note}TokenProb={p:.4f}|" + (f"SentenceProb={q:.4f}|" if first else "")
            for note, (p, q), first in rows
        ]


class Tokenizer(Stored):
    """A trained tokenizer. Safe to share between threads, and picklable.

    header: what is not an array; by_letter: each letter is a unit, for languages without blanks;
    blanks: tokens may have white space in them. keys: (rows,) folded; weights: (rows + K, K)
    float32, the transitions from label j last. It is stored as a compact tagger is.
    """

    kind = "tokenizer"

    def __init__(
        self, header: dict[str, Any], keys: np.ndarray, weights: np.ndarray, splitter: Splitter
    ):
        self.header, self.keys, self.weights, self.splitter = header, keys, weights, splitter
        self.labels: list[str] = header["labels"]
        self.table = KeyTable.of(keys)
        self.extractor = CharacterExtractor(
            parse(header["templates"], "templates"), header["by_letter"]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.header, self.keys, self.weights, self.splitter)

    # ---- Scores ----------------------------------------------------------------------------------

    def units(self, text: str, spans: list[Span]) -> tuple[np.ndarray, Units, np.ndarray]:
        """The code points of a text, and the units and the keys of features of its spans. There is
        at least one span; spans are in order, with white space between them."""
        codes, cuts, marks = self.extractor.codes(text), [], np.zeros(0, np.uint8)
        if not self.extractor.by_letter:
            marks = np.zeros(codes.size, np.uint8)
        for start, end, _ in spans:
            cuts += [start, *rules.stops(text, start, end)[:-1]]
            if marks.size:
                marks[start:end] = rules.marks(text, start, end)
        units = self.extractor.units(codes, np.array([*cuts, spans[-1][1]]))
        return codes, units, self.extractor.keys(codes, units, marks)

    def scores(self, units: Units, keys: np.ndarray) -> np.ndarray:
        """(units, K) float32: what the features say of each label, and what is ruled out."""
        rows = self.table.lookup(compact.fold(keys.reshape(-1))).reshape(keys.shape)
        out = np.zeros((units.n, len(self.labels)), np.float32)
        add_matrix(rows, self.weights, out)
        opening = units.segments[:-1]
        for k, label in enumerate(self.labels):
            if label[0] != "S":
                out[opening, k] = BARRED
        if not self.header["blanks"]:
            out[units.spaced, INSIDE] = BARRED
        return out

    @cached_property
    def trans(self) -> np.ndarray:
        """(K, K) float32 transitions."""
        return np.ascontiguousarray(self.weights[self.keys.size :])

    def tag(self, units: Units, scores: np.ndarray) -> np.ndarray:
        """(units,) int32: the best labels."""
        free = np.zeros(len(self.labels), np.float32)
        return viterbi(scores, units.segments, self.trans, free, free)

    def posterior(self, units: Units, scores: np.ndarray) -> np.ndarray:
        """(units, K) probabilities of labels."""
        K, mask = len(self.labels), chain.free(len(self.labels))
        out = np.empty((units.n, K))
        for a, b in zip(units.segments[:-1].tolist(), units.segments[1:].tolist(), strict=True):
            unary = np.maximum(scores[a:b].astype(np.float64), -250.0)  # e^-250 counts as 0
            theta = np.concatenate([unary.reshape(-1), self.trans.reshape(-1).astype(np.float64)])
            mu = np.empty_like(theta)
            chain.marginals(theta, *mask, 1.0, mu)
            out[a:b] = mu[: (b - a) * K].reshape(b - a, K)
        return out

    # ---- Text ------------------------------------------------------------------------------------

    def cut(self, text: str, spans: list[Span], probabilities: bool = False) -> Cut:
        """Cut spans of a text into tokens and sentences."""
        codes, units, keys = self.units(text, spans)
        scores = self.scores(units, keys)
        labels = self.tag(units, scores)
        at = np.flatnonzero(labels != INSIDE)
        kinds = labels[at] - 1  # 1 is added by a sentence, 2 by several words
        last = np.append(at[1:], units.n) - 1
        ends = units.ends[last] if at.size else units.ends
        beyond = np.minimum(ends, codes.size - 1)
        glued = (ends < codes.size) & (self.extractor.alphabet.classes[codes[beyond]] != SPACE)
        found = Cut(units.starts[at], ends, kinds % 2 == 1, kinds >= 2, glued)
        if probabilities:
            p = self.posterior(units, scores)[at]
            begins = np.array([label[0] == "S" for label in self.labels])
            found.probabilities = np.stack([1.0 - p[:, INSIDE], p[:, begins].sum(axis=1)], axis=1)
        return found

    def _sentences(self, text: str, cut: Cut) -> Iterator[tuple[_Sentence, bool]]:
        """The sentences of a text, and whether each was cut for its length."""
        sentence: _Sentence = []
        columns = (c.tolist() for c in (cut.starts, cut.ends, cut.first, cut.multiword))
        for start, end, first, multiword, note in zip(*columns, cut.notes(), strict=True):
            if sentence and (first or len(sentence) == LONGEST):
                yield sentence, not first
                sentence = []
            form = text[start:end]
            if not form.isprintable() or " " in form:
                form = " ".join(CHUNK.findall(form))
            words = self.splitter.split(form) if multiword else None
            sentence.append((start, end, form, words, note))
        if sentence:
            yield sentence, False

    def segment(self, text: str) -> list[list[Token]]:
        """The sentences of a text, each as its tokens."""
        cut = self.cut(text, list(running.paragraphs(text)))
        return [
            [Token(start, end, words or (form,)) for start, end, form, words, _ in sentence]
            for sentence, _ in self._sentences(text, cut)
        ]

    def cutter(
        self, text: str, spans: list[Span], offset: int, probabilities: bool = False
    ) -> Iterator[Iterable[tuple[str, bool]]]:
        """Cuts as the rules do, by this tokenizer: a Cutter of corpus/text."""
        return iter(self._pieces(text, spans, [offset] * len(spans), probabilities))

    def _pieces(
        self, text: str, spans: list[Span], offsets: list[int], probabilities: bool = False
    ) -> list[list[tuple[str, bool]]]:
        """The sentences of each span, which has its own offset, in the form that a Cutter gives
        them."""
        pieces: list[list[tuple[str, bool]]] = [[] for _ in spans]
        if not spans:
            return pieces
        ends, p = [end for _, end, _ in spans], 0
        for sentence, cut in self._sentences(text, self.cut(text, spans, probabilities)):
            while sentence[0][0] >= ends[p]:
                p += 1
            pieces[p].append((_conllu(text, sentence, offsets[p]), cut))
        return pieces

    def to_conllu(
        self,
        text: str,
        offset: int = 0,
        warn: running.Warn | None = None,
        probabilities: bool = False,
    ) -> bytes:
        """A text as CoNLL-U, written as corpus/text.to_conllu writes it. probabilities: TokenProb
        in MISC is the probability that a token begins there, SentenceProb that a sentence does."""
        cutter = partial(self.cutter, probabilities=probabilities)
        return running.to_conllu(text, offset, warn, cutter)

    def all_to_conllu(self, texts: list[str], warn: running.Warn | None = None) -> list[bytes]:
        """Each text as `to_conllu` gives it. All texts are cut in one go, because no unit has a
        neighbour outside its paragraph."""
        own = [list(running.paragraphs(text)) for text in texts]
        spans, offsets, begin = [], [], 0
        for text, paragraphs in zip(texts, own, strict=True):
            spans += [(begin + start, begin + end, ends) for start, end, ends in paragraphs]
            offsets += [-begin] * len(paragraphs)
            begin += len(text) + len(BETWEEN)
        pieces = iter(self._pieces(BETWEEN.join(texts), spans, offsets))
        cutter = lambda text, spans, offset: islice(pieces, len(spans))  # noqa: E731
        return [running.to_conllu(text, 0, warn, cutter) for text in texts]

    def stream(
        self,
        file: BinaryIO,
        block_size: int = running.BLOCK_BYTES,
        warn: running.Warn | None = None,
        probabilities: bool = False,
    ) -> Iterator[bytes]:
        """A file of raw UTF-8 text as CoNLL-U, in constant memory, as corpus/text.stream does."""
        cutter = partial(self.cutter, probabilities=probabilities)
        return running.stream(file, block_size, warn, cutter)

    # ---- Files -----------------------------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that a file has beside the header."""
        n = self.keys.size
        packed = compact.pack(self.keys, self.weights[:n])
        arrays = dict(zip(PACKED, packed, strict=True)) | {"shared": self.weights[n:]}
        return arrays | {"scripts": np.frombuffer(self.splitter.written(), np.uint8)}

    @staticmethod
    def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
        """The arrays to be read; a tokenizer's features have no names in its file."""
        return _arrays(header, entries)

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tokenizer:
        """From what a file has; ValueError if it does not fit together."""
        keys, rows = compact.unpack(*(arrays[name] for name in PACKED))
        weights = np.concatenate([rows, arrays["shared"]])
        check_weights(weights)
        return cls(header, keys, weights, Splitter.read(arrays["scripts"].tobytes()))


def _conllu(text: str, sentence: _Sentence, offset: int) -> str:
    """The lines of a sentence, from `# text` to the blank line at its end."""
    lines = [f"# text = {' '.join(CHUNK.findall(text, sentence[0][0], sentence[-1][1]))}\n"]
    n = 1
    for start, end, form, words, note in sentence:
        where = f"{EMPTY}{note}start_char={offset + start}|end_char={offset + end}\n"
        if words is None:
            lines.append(f"{n}\t{form}{where}")
            n += 1
            continue
        lines.append(f"{n}-{n + len(words) - 1}\t{form}{where}")
        for word in words:
            lines.append(f"{n}\t{word}{EMPTY}_\n")
            n += 1
    return "".join((*lines, "\n"))


def _arrays(header: dict[str, Any], entries: Entries) -> list[str]:
    """The arrays of a file whose header and shapes are a tokenizer's; else ValueError."""
    check_entry(header, HEADER, "header")
    K = len(header["labels"])
    if header["labels"] not in (list(LABELS), list(LABELS[:MULTIWORD])):
        raise ValueError(f"labels are {header['labels']!r:.40}")
    n = expect(entries, "lows", "uint16", (None,))
    expect(entries, "counts", "uint8 uint16", (compact.HIGHS,))
    expect(entries, "rows", "int8", (n, K))
    expect(entries, "scales", "float32", (n,))
    expect(entries, "shared", "float32", (K, K))
    expect(entries, "scripts", "uint8", (None,))
    return [*PACKED, "shared", "scripts"]
