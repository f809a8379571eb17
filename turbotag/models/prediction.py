"""Prediction on a stream: blocks in, the same bytes with what is predicted out, on many threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, TypeVar

from turbotag.corpus.export import Export
from turbotag.corpus.formats import Format, columns_format, given_names
from turbotag.corpus.reader import Block, Source, from_bytes, stream
from turbotag.corpus.writer import Edits, extent
from turbotag.errors import UsageError
from turbotag.models.gold import ANY, Layout
from turbotag.models.model import BEST, Answer, Model, Output
from turbotag.models.pipeline import Pipeline

Item = TypeVar("Item")
Done = TypeVar("Done")


def predict(
    model: Model | Pipeline,
    path: Source,
    out: IO[bytes],
    output: Output = BEST,
    layout: Layout = ANY,
    threads: int = 1,
    progress: Callable[[int], object] | None = None,
    warn: Callable[[str], object] | None = None,
) -> int:
    """Tag or parse a file (or '-') into `out`; returns the number of tokens, which may be 0.

    progress: is told after each block how many tokens were written; warn: is told of sentences of
    running text that were cut.
    """
    if isinstance(model, Pipeline) and output.nbest > 1:
        raise UsageError("--nbest is for single models, not for a pipeline")
    if output.to and output.nbest > 1:
        raise UsageError("--nbest writes sentences as they are given: leave out --to")
    blocks = blocks_of(model, path, layout, warn, output.marginals)
    total = 0
    export = Export(output.to, tag_name(model)) if output.to else None
    for data, block in _in_order(model, blocks, output, threads):
        if export:
            data = export.text(from_bytes(data, block.path, written(model, block.format, output)))
        out.write(data)
        out.flush()
        total += block.n_tokens
        if progress:
            progress(block.n_tokens)
    return total


def blocks_of(
    model: Model | Pipeline,
    path: Source,
    layout: Layout = ANY,
    warn: Callable[[str], object] | None = None,
    probabilities: bool = False,
) -> Iterator[Block]:
    """A file (or '-') as a model reads it. probabilities: whether a tokenizer gives those of its
    cuts."""
    if not isinstance(model, Pipeline):
        naming = given_names(layout.columns) if layout.columns else model.naming
        return stream(path, layout.format or model.input_format, naming)
    if layout.columns:
        raise UsageError("--columns is for single models, not for a pipeline")
    return model.blocks(path, layout.format, warn, probabilities)


def sentence_of(block: Block, s: int) -> Block:
    """Sentence s of a block as a block of its own, without its comments."""
    data = block.buf.tobytes()
    begin, end = extent(block, data, int(block.sentences[s]), int(block.sentences[s + 1]))
    return from_bytes(data[begin:end] + b"\n\n", block.path, block.format)


def _in_order(
    model: Model | Pipeline, blocks: Iterator[Block], output: Output, threads: int
) -> Iterator[tuple[bytes, Block]]:
    """Annotated blocks, in the order of the blocks that were read."""
    local = threading.local()

    def work(block: Block) -> tuple[bytes, Block]:
        if not hasattr(local, "extractor"):
            local.extractor = model.extractor if threads == 1 else model.new_extractor()
        return annotate(model, block, local.extractor, output), block

    return in_order(work, blocks, threads)


def in_order(work: Callable[[Item], Done], items: Iterable[Item], threads: int) -> Iterator[Done]:
    """work(item) for all items on some threads, in the order of the items. At most two items for
    each thread are held at once."""
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Done]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def annotate(model: Model | Pipeline, block: Block, extractor: Any, output: Output) -> bytes:
    """The bytes of a block with what the model predicts."""
    if not block.n_tokens:
        return block.buf.tobytes()
    if output.nbest > 1 and not isinstance(model, Pipeline):
        return _nbest(block, model.answers(block, extractor, output.nbest))
    edits = Edits(block)
    model.annotate(block, extractor, output, edits)
    return edits.text()


def written(model: Model | Pipeline, fmt: Format, output: Output) -> Format:
    """The format of what `annotate` gives for a block in a format."""
    if fmt.ids or isinstance(model, Pipeline):
        return fmt
    if not fmt.columns:
        raise UsageError("a CRFsuite file has no words: it is written as it is, without --to")
    target, tag = model.header["target"], tag_name(model)
    names = [tag if name == target else name for name in fmt.columns]
    if model.target(fmt) is None:
        names.append(tag)
    if output.marginals:
        names += ["probability", *(["entity"] if model.header["scheme"] else [])]
    tabs = fmt.tabs or fmt.name == "text"
    return columns_format(len(names), tabs, tuple(names), fmt.blanks)


def tag_name(model: Model | Pipeline) -> str:
    """The name of the tags of a tagger: its column, or the task if the column is just `tag`."""
    header = {} if isinstance(model, Pipeline) else model.header
    target: str = header.get("target", "tag")
    return header.get("task", target) if target == "tag" else target


def _nbest(block: Block, best: Callable[[int, int], Iterator[Answer]]) -> bytes:
    """Each sentence n times, best first, each behind a line '# nbest RANK PROBABILITY'."""
    data = block.buf.tobytes()
    newline = b"\r\n" if b"\r\n" in data[:4096] else b"\n"
    out: list[bytes] = []
    read = 0
    for s in range(block.n_sentences):
        a, b = int(block.sentences[s]), int(block.sentences[s + 1])
        begin, end = extent(block, data, a, b)
        out.append(data[read:begin])
        answers = list(best(a, b))
        for rank, (p, put) in enumerate(answers, 1):
            edits = Edits(block, a, b)
            put(edits)
            gap = b"" if rank == len(answers) else newline * 2
            head = b"# nbest %d %.6f" % (rank, p) + newline
            out.append(head + edits.apply(begin, end) + gap)
        read = end
    out.append(data[read:])
    return b"".join(out)
