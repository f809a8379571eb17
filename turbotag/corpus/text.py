"""Raw text as CoNLL-U: paragraphs and their limits, sentences by a cutter, streams of any length.

A blank line always ends a sentence. A paragraph is cut into sentences by the rules of corpus/rules,
or by another cutter in their place, such as a learned tokenizer; paragraphs, line breaks and limits
are the same for all.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from turbotag.corpus.rules import LONGEST, Token, conllu_lines, cut_sentences, stops
from turbotag.errors import DataError

BLOCK_BYTES = 1 << 16
LIMIT = 1 << 16  # a paragraph of more characters is cut at the end of a sentence

Warn = Callable[[str], object]

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")

# Start and end of a paragraph or of a part of it, and whether it ends there.
Span = tuple[int, int, bool]
# Cuts spans of a text into sentences: for each span the CoNLL-U of each sentence below its sent_id,
# and whether the sentence was cut for its length. The number is the offset of the text.
Cutter = Callable[[str, list[Span], int], Iterator[Iterable[tuple[str, bool]]]]


def paragraphs(text: str) -> Iterator[Span]:
    """Every paragraph, or the parts of one that is longer than the limit."""
    start = 0
    for end, after in [*(m.span() for m in _BLANK_LINE.finditer(text)), (len(text), len(text))]:
        # white space at its end may be the beginning of a blank line, of which a stream has not yet
        # seen the rest; but not of any length
        last = start + len(text[start:end].rstrip())
        while last - start > LIMIT or end - start > 2 * LIMIT:
            cut = _last_start(text, start, start + LIMIT)
            yield start, cut, False
            start = cut
        yield start, end, True
        start = after


def _last_start(text: str, start: int, end: int) -> int:
    """Where the last sentence of a long span starts; if the span is one sentence, where its last
    chunk starts."""
    lines = stops(text, start, end)
    if len(lines) > 1:
        return lines[-2]
    sentences = [sentence for sentence, _ in cut_sentences(text, start, end)]
    if len(sentences) > 1:
        return sentences[-1][0][0]
    chunks = sentences[0] if sentences else []
    if len(chunks) > 1 and chunks[-1][0] + len(chunks[-1][1].text) == end:
        return chunks[-1][0]
    return end


@dataclass
class _Written:
    """What of a text has been written as CoNLL-U.

    sentences: their number, which is the sent_id of the last; cut: the sentences that were cut
    because of their length; heading: the comments that open the next sentence.
    """

    sentences: int = 0
    cut: list[int] = field(default_factory=list)
    heading: str = "# newdoc\n# newpar\n"

    def conllu(self, text: str, spans: list[Span], offset: int, cutter: Cutter) -> bytes:
        """The next spans of the text as CoNLL-U."""
        lines: list[str] = []
        for (_, _, ends), sentences in zip(spans, cutter(text, spans, offset), strict=True):
            for sentence, cut in sentences:
                self.sentences += 1
                if cut:
                    self.cut.append(self.sentences)
                lines += (f"{self.heading}# sent_id = {self.sentences}\n", sentence)
                self.heading = ""
            if ends and not self.heading:
                self.heading = "# newpar\n"
        return "".join(lines).encode("utf-8", "replace")  # a lone surrogate becomes "?"

    def tell(self, warn: Warn | None, name: str) -> None:
        """Say which sentences were cut, if any were."""
        if warn and self.cut:
            times = "once" if len(self.cut) == 1 else f"{len(self.cut)} times"
            warn(
                f"{name}: sentences of more than {LONGEST} words are cut there: {times}, first at "
                f"the end of sentence {self.cut[0]}"
            )


def by_rules(text: str, spans: list[Span], offset: int) -> Iterator[Iterable[tuple[str, bool]]]:
    """The cutter by the rules of corpus/rules."""
    for start, end, _ in spans:
        yield (
            ("".join(conllu_lines(s, offset)), cut) for s, cut in cut_sentences(text, start, end)
        )


def segment(text: str) -> list[list[Token]]:
    """The sentences of a text, each as its tokens."""
    return [
        [Token(at + a, at + b, words) for at, chunk in s for a, b, words, _ in chunk.tokens]
        for start, end, _ in paragraphs(text)
        for s, _ in cut_sentences(text, start, end)
    ]


def to_conllu(
    text: str, offset: int = 0, warn: Warn | None = None, cutter: Cutter = by_rules
) -> bytes:
    """A text as CoNLL-U: sent_id, forms, multiword tokens, SpaceAfter=No, and character offsets in
    MISC.

    Offsets count code points from the start of the text, plus `offset`. `warn` is told of
    sentences that were cut for their length.
    """
    written = _Written()
    conllu = written.conllu(text, list(paragraphs(text)), offset, cutter)
    written.tell(warn, "the text")
    return conllu


def all_to_conllu(texts: list[str], warn: Warn | None = None) -> list[bytes]:
    """Each text as CoNLL-U, by the rules."""
    return [to_conllu(text, 0, warn) for text in texts]


def stream(
    file: BinaryIO,
    block_size: int = BLOCK_BYTES,
    warn: Warn | None = None,
    cutter: Cutter = by_rules,
) -> Iterator[bytes]:
    """A file of raw UTF-8 text as CoNLL-U, some whole paragraphs at a time, in constant memory.

    Offsets and sent_id run through the whole file; a byte order mark is not counted, carriage
    returns are.
    """
    pending, offset, written = "", 0, _Written()
    for block in _decoded(file, block_size):
        pending += block
        *whole, (start, _, _) = paragraphs(pending)  # the last one may go on
        if conllu := written.conllu(pending, whole, offset, cutter):
            yield conllu
        pending, offset = pending[start:], offset + start
    if conllu := written.conllu(pending, list(paragraphs(pending)), offset, cutter):
        yield conllu
    written.tell(warn, _name(file))


def _name(file: BinaryIO) -> str:
    return str(getattr(file, "name", "<text>"))


def _decoded(file: BinaryIO, size: int) -> Iterator[str]:
    name = _name(file)
    read = getattr(file, "read1", file.read)  # the paragraphs of a pipe are answered as they come
    # utf-8-sig swallows the first bytes of a byte order mark
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, first = 1, True
    while True:
        try:
            data = read(size)
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as e:
            line += e.object.count(b"\n", 0, e.start)
            byte = e.object[e.start]
            raise DataError(f"byte 0x{byte:02x} is not valid UTF-8", name, line) from None
        except (OSError, EOFError, zlib.error) as e:
            raise DataError(f"cannot be read: {e}", name) from e
        if first and text:
            text, first = text.removeprefix("\ufeff"), False
        yield text
        if not data:
            return
        line += text.count("\n")
