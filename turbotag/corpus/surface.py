"""What the words of CoNLL-U stand for in the text: tokens, multiword ones among them, white space,
paragraphs, and the raw text itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.errors import DataError

PARAGRAPH = "\n\n"
_RANGE = re.compile(rb"^ *([1-9][0-9]*)-([1-9][0-9]*)[ \t]([^\r\n]*)", re.MULTILINE)
_OPENS = re.compile(rb"^# *new(?:par|doc)\b", re.MULTILINE)
_TEXT = re.compile(rb"^# *text *= *([^\r\n]*)", re.MULTILINE)
_BLANKS = re.compile(r"\s*")


@dataclass
class Surface:
    """The tokens of a block.

    Token k is forms[k] and stands for the words words[k]..words[k+1]-1 of the block; it is followed
    by the white space gaps[k]. multiword: (tokens,) bool, a range such as 2-3. Sentence s is the
    tokens sentences[s]..sentences[s+1]-1.
    """

    forms: list[str]
    gaps: list[str]
    words: np.ndarray
    multiword: np.ndarray
    sentences: np.ndarray

    def text(self) -> str:
        """The raw text that the tokens were cut from."""
        pieces = [piece for pair in zip(self.forms, self.gaps, strict=True) for piece in pair]
        return "".join(pieces)


def read_surface(block: Block) -> Surface:
    """The tokens of CoNLL-U, or of CoNLL-X, which has no multiword tokens.

    White space is taken from `# text = ...` if the forms are found in it. Otherwise one blank
    stands behind every token without SpaceAfter=No. A sentence with `# newpar` or `# newdoc` opens
    a paragraph; a blank line stands before it.
    """
    if not block.n_tokens:
        return Surface([], [], np.zeros(1, np.int64), np.zeros(0, np.bool_), block.sentences)
    data = block.buf.tobytes()
    begins = block.starts[block.first]  # of each word's line
    forms, misc = block.strings(Conll.WORD), _misc(block)
    keep = np.ones(block.n_tokens, np.bool_)  # the first word of each token
    multiword = np.zeros(block.n_tokens, np.bool_)
    for match in _RANGE.finditer(data):
        w = int(np.searchsorted(begins, match.start()))
        n = _width(block, match, w)
        rest = match[3].decode().split("\t")
        if len(rest) < Conll.MISC:
            rest = match[3].decode().split()
        forms[w], misc[w] = rest[Conll.WORD - 1].strip(" "), rest[Conll.MISC - 1]
        multiword[w] = True
        if not keep[w : w + n].all() or multiword[w + 1 : w + n].any():
            raise block.error("a multiword token begins inside of another", w)
        keep[w + 1 : w + n] = False
    first = np.flatnonzero(keep)
    sentences = np.searchsorted(first, block.sentences)
    forms, misc = [forms[w] for w in first.tolist()], [misc[w] for w in first.tolist()]
    gaps = ["" if "SpaceAfter=No" in m.split("|") else " " for m in misc]
    _take_texts(forms, gaps, sentences, _by_sentence(_TEXT, data, block, begins))
    for s in _by_sentence(_OPENS, data, block, begins):
        if s:
            gaps[sentences[s] - 1] = PARAGRAPH
    gaps[-1] = "\n"
    return Surface(forms, gaps, np.append(first, block.n_tokens), multiword[first], sentences)


def _misc(block: Block) -> list[str]:
    """The MISC column; CoNLL-X has another column in its place."""
    if block.format.index("misc") is None:
        return ["_"] * block.n_tokens
    return block.strings(Conll.MISC)


def _width(block: Block, match: re.Match[bytes], w: int) -> int:
    """The number of words of a range, whose first is word w of the block."""
    a, b = int(match[1]), int(match[2])
    if w < block.n_tokens:
        s = int(np.searchsorted(block.sentences, w, side="right")) - 1
        start, end = int(block.sentences[s]), int(block.sentences[s + 1])
        if w == start + a - 1 and a <= b <= end - start:
            return b - a + 1
    w = min(w, block.n_tokens - 1)
    at, to = match.start(), int(block.starts[block.first[w]])
    between = block.buf[min(at, to) : max(at, to)].tobytes().count(b"\n")
    line = int(block.lines[w]) + (between if to < at else -between)
    raise DataError(f"range {a}-{b} does not stand before words {a} to {b}", block.path, line)


def _by_sentence(
    pattern: re.Pattern[bytes], data: bytes, block: Block, begins: np.ndarray
) -> dict[int, bytes]:
    """The matches of a pattern in comments, by the number of the sentence that follows: what the
    group of the pattern holds."""
    opens = begins[block.sentences[:-1]]
    found = {}
    for match in pattern.finditer(data):
        s = int(np.searchsorted(opens, match.start()))
        if s < block.n_sentences:
            found[s] = match[match.re.groups]
    return found


def _take_texts(
    forms: list[str], gaps: list[str], sentences: np.ndarray, texts: dict[int, bytes]
) -> None:
    """Take the white space inside of sentences from their texts, where the forms are in them."""
    for s, raw in texts.items():
        text, at, found = raw.decode().strip(), 0, []
        a, b = int(sentences[s]), int(sentences[s + 1])
        for form in forms[a:b]:
            if not text.startswith(form, at):
                break
            at += len(form)
            blanks = _BLANKS.match(text, at)
            assert blanks is not None  # the pattern may match nothing
            found.append(blanks[0])
            at = blanks.end()
        if len(found) == b - a and at == len(text):
            gaps[a : b - 1] = found[:-1]
