"""Tagging a stream: blocks in, the same bytes with tags out, on one or more threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO

import numpy as np

from turbotag.corpus.formats import given_names
from turbotag.corpus.reader import Block, display_name, stream
from turbotag.corpus.writer import Edits
from turbotag.errors import DataError
from turbotag.features.extract import Extractor
from turbotag.models.tagger import Tagger


@dataclass(frozen=True)
class Output:
    """What to write: decoding is viterbi or posterior; probabilities; the best n sequences."""

    decode: str = "viterbi"
    marginals: bool = False
    nbest: int = 1


def predict(
    tagger: Tagger,
    path: str,
    out: IO[bytes],
    output: Output = Output(),  # noqa: B008
    format: str | None = None,
    threads: int = 1,
    columns: tuple[str, ...] | None = None,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Tag a file (or '-') into `out`; returns the number of tokens.

    progress is told how many tokens were written after each block.
    """
    naming = given_names(columns) if columns else tagger.naming
    blocks = stream(path, format or tagger.input_format, naming)
    total = 0
    for data, tokens in _in_order(tagger, blocks, output, threads):
        out.write(data)
        out.flush()
        total += tokens
        if progress:
            progress(tokens)
    if not total:
        raise DataError("holds no tokens", display_name(path))
    return total


def _in_order(
    tagger: Tagger, blocks: Iterator[Block], output: Output, threads: int
) -> Iterator[tuple[bytes, int]]:
    """Results in the order of the blocks; at most two blocks a thread are held at once."""
    if threads == 1:
        for block in blocks:
            yield tag_block(tagger, block, tagger.extractor, output), block.n_tokens
        return
    local = threading.local()

    def work(block: Block) -> tuple[bytes, int]:
        if not hasattr(local, "extractor"):
            local.extractor = tagger.new_extractor()
        return tag_block(tagger, block, local.extractor, output), block.n_tokens

    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[tuple[bytes, int]]] = deque()
        try:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def tag_block(tagger: Tagger, block: Block, extractor: Extractor, output: Output) -> bytes:
    """The bytes of a block with its tags."""
    if not block.n_tokens:
        return block.buf.tobytes()
    scores = tagger.scores(block, extractor)
    if output.nbest > 1:
        return _nbest(tagger, block, scores, output.nbest)
    sentences = block.sentences
    posterior = None
    if output.marginals or output.decode == "posterior":
        posterior = tagger.posterior(scores, sentences)
    if output.decode == "posterior":
        assert posterior is not None
        tags = tagger.posterior_decode(posterior, sentences)
    else:
        tags = tagger.viterbi(scores, sentences)
    strings, ids = tagger.output_labels(tags, sentences)
    edits = Edits(block)
    if not output.marginals:
        _put_tags(tagger, edits, strings, ids)
        return edits.text()

    assert posterior is not None
    found = tagger.marginals(scores, sentences, tags, posterior)
    token = [f"{p:.4f}" for p in found.token.tolist()]
    entity = ["_"] * block.n_tokens
    if found.spans is not None:
        for a, b, p in zip(found.spans.start, found.spans.end, found.span, strict=True):
            entity[a : b + 1] = [f"{p:.4f}"] * int(b - a + 1)
    _put_tags(tagger, edits, strings, ids, token, entity if found.spans is not None else None)
    return edits.text()


def _put_tags(
    tagger: Tagger,
    edits: Edits,
    strings: list[str],
    ids: np.ndarray,
    token: list[str] | None = None,
    entity: list[str] | None = None,
) -> None:
    """Tags into their column; probabilities behind it.

    Columns and text get columns at the end (tag if there is none yet, probability of the tag,
    probability of its entity or _). CoNLL-U gets Prob= and EntityProb= in MISC, and the tag there
    too if it has no column for it. CRFsuite files get label:probability, as CRFsuite prints.
    """
    fmt = edits.block.format
    at = tagger.target(fmt)
    each = np.arange(edits.n_tokens)
    if fmt.name == "crfsuite":
        if token is not None:
            strings = [f"{strings[i]}:{p}" for i, p in zip(ids.tolist(), token, strict=True)]
            ids = each
        edits.replace(0, strings, ids)
    elif fmt.ids:
        notes = [""] * edits.n_tokens
        if at is not None:
            edits.replace(at, strings, ids)
        else:
            name = tagger.header["task"].upper()
            notes = [f"{name}={strings[i]}" for i in ids.tolist()]
        if token is not None:
            notes = [f"{n}|Prob={p}".lstrip("|") for n, p in zip(notes, token, strict=True)]
        if entity is not None:
            notes = [
                n if p == "_" else f"{n}|EntityProb={p}".lstrip("|")
                for n, p in zip(notes, entity, strict=True)
            ]
        if at is None or token is not None:
            edits.note(notes, each)
    else:
        if at is None:
            edits.append(strings, ids)
        else:
            edits.replace(at, strings, ids)
        for column in (token, entity):
            if column is not None:
                edits.append(column, each)


def _nbest(tagger: Tagger, block: Block, scores: np.ndarray, n: int) -> bytes:
    """Each sentence n times, best first, each behind a line '# nbest RANK PROBABILITY'."""
    data = block.buf.tobytes()
    newline = b"\r\n" if b"\r\n" in data[:4096] else b"\n"
    out: list[bytes] = []
    read = 0
    for s in range(block.n_sentences):
        a, b = int(block.sentences[s]), int(block.sentences[s + 1])
        begin, end = _extent(block, data, a, b)
        out.append(data[read:begin])
        paths, probabilities = tagger.nbest(scores[a:b], n)
        for rank, (path, p) in enumerate(zip(paths, probabilities, strict=True), 1):
            strings, ids = tagger.output_labels(path, np.array([0, b - a]))
            edits = Edits(block, a, b)
            _put_tags(tagger, edits, strings, ids)
            gap = b"" if rank == len(paths) else newline * 2
            head = b"# nbest %d %.6f" % (rank, p) + newline
            out.append(head + edits.apply(begin, end) + gap)
        read = end
    out.append(data[read:])
    return b"".join(out)


def _extent(block: Block, data: bytes, a: int, b: int) -> tuple[int, int]:
    """The lines of a sentence from its first to its last token; in CoNLL-U with the multiword
    ranges and empty nodes around them, but without the comments above."""
    begin = data.rfind(b"\n", 0, int(block.starts[block.first[a]])) + 1
    end = int(block.line_ends[b - 1])
    while block.format.ids and begin > 0:
        above = data.rfind(b"\n", 0, begin - 1) + 1
        if not data[above:begin].strip() or data[above:begin].startswith(b"#"):
            break
        begin = above
    while block.format.ids:
        start = data.find(b"\n", end) + 1
        stop = data.find(b"\n", start)
        line = data[start : stop if stop >= 0 else len(data)]
        if not start or not line.strip() or line.startswith(b"#"):
            break
        end = start + len(line.rstrip(b"\r"))
    return begin, end
