"""Prediction on a stream: blocks in, the same bytes with tags or trees out, on many threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from turbotag.corpus.formats import CRFSUITE_LABEL, Conll, given_names
from turbotag.corpus.reader import Block, Source, from_bytes, stream
from turbotag.corpus.writer import Edits
from turbotag.errors import UsageError
from turbotag.features.extract import Extractor
from turbotag.models.parser import Parsed, Parser, Scanner
from turbotag.models.pipeline import Model, Pipeline, filled
from turbotag.models.tagger import Tagger

Extractors = Extractor | Scanner | list[Extractor | Scanner]


@dataclass(frozen=True)
class Output:
    """What to write: decoding is viterbi (the best answer), posterior (the fewest expected errors)
    or map (see Parser.parse); probabilities; the best n answers. In MISC of CoNLL-U `prefix` stands
    before Prob=. `proofs` is told of each parsed block (trees that are proven best, trees)."""

    decode: str = "viterbi"
    marginals: bool = False
    nbest: int = 1
    prefix: str = ""
    proofs: list[tuple[int, int]] | None = None


BEST = Output()


def predict(
    model: Model | Pipeline,
    path: Source,
    out: IO[bytes],
    output: Output = BEST,
    format: str | None = None,
    threads: int = 1,
    columns: tuple[str, ...] | None = None,
    progress: Callable[[int], object] | None = None,
    warn: Callable[[str], object] | None = None,
) -> int:
    """Tag or parse a file (or '-') into `out`; returns the number of tokens, which may be 0.

    progress is told how many tokens were written after each block; warn, of sentences of running
    text that were cut.
    """
    if isinstance(model, Pipeline):
        if columns or output.nbest > 1:
            raise UsageError("--columns and --nbest are for single models, not for a pipeline")
        blocks = model.blocks(path, format, warn)
    else:
        naming = given_names(columns) if columns else model.naming
        blocks = stream(path, format or model.input_format, naming)
    total = 0
    for data, tokens in _in_order(model, blocks, output, threads):
        out.write(data)
        out.flush()
        total += tokens
        if progress:
            progress(tokens)
    return total


def _in_order(
    model: Model | Pipeline, blocks: Iterator[Block], output: Output, threads: int
) -> Iterator[tuple[bytes, int]]:
    """Results in the order of the blocks; at most two blocks a thread are held at once."""
    if threads == 1:
        for block in blocks:
            yield annotate(model, block, model.extractor, output), block.n_tokens
        return
    local = threading.local()

    def work(block: Block) -> tuple[bytes, int]:
        if not hasattr(local, "extractor"):
            local.extractor = model.new_extractor()
        return annotate(model, block, local.extractor, output), block.n_tokens

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


def annotate(model: Model | Pipeline, block: Block, extractor: Extractors, output: Output) -> bytes:
    """The bytes of a block with what the model predicts."""
    if not block.n_tokens:
        return block.buf.tobytes()
    if isinstance(model, Pipeline):
        assert isinstance(extractor, list)
        for i in model.stages(block):
            stage = model.models[i]
            tags = isinstance(stage, Tagger) and stage.target(block.format) is not None
            prefix = stage.header["target"].capitalize() if tags else "Tag"
            data = annotate(stage, block, extractor[i], replace(output, prefix=prefix))
            if model.keep_tags and isinstance(stage, Tagger):
                data = _restore(block, data, stage)
            block = from_bytes(data, block.path, block.format)
        return block.buf.tobytes()
    if isinstance(model, Parser):
        assert isinstance(extractor, Scanner)
        return parse_block(model, block, extractor, output)
    assert isinstance(extractor, Extractor)
    return tag_block(model, block, extractor, output)


def _restore(block: Block, data: bytes, tagger: Tagger) -> bytes:
    """Tagged data with the tags that the block had already."""
    kept, column = filled(block, tagger), tagger.target(block.format)
    if column is None or not kept.any():
        return data
    tagged = from_bytes(data, block.path, block.format)
    old, new = np.array(block.strings(column)), np.array(tagged.strings(column))
    strings, ids = np.unique(np.where(kept, old, new), return_inverse=True)
    edits = Edits(tagged)
    edits.replace(column, strings.tolist(), ids)
    return edits.text()


def parse_block(parser: Parser, block: Block, scanner: Scanner, output: Output) -> bytes:
    """The bytes of a block with its trees."""
    if output.nbest > 1:
        if parser.second_order:
            raise UsageError("--nbest is for first-order parsers: this one has second-order parts")
        matrix = parser.matrix(block, scanner)

        def best(a: int, b: int) -> Iterator[Answer]:
            trees, probabilities = parser.nbest(parser.scores(matrix[a:b], scanner), output.nbest)
            for heads, p in zip(trees, probabilities.tolist(), strict=True):
                labels = parser.label_scores(matrix[a:b], heads, scanner).argmax(axis=1)
                parsed = Parsed(heads, labels.astype(np.int32))
                yield p, lambda edits, parsed=parsed: _put_trees(parser, edits, parsed)  # type: ignore[misc]

        return _nbest(block, best)
    edits = Edits(block)
    parsed = parser.parse(block, scanner, output.decode, output.marginals)
    if output.proofs is not None:
        output.proofs.append((parsed.proven, block.n_sentences))
    _put_trees(parser, edits, parsed)
    return edits.text()


def _put_trees(parser: Parser, edits: Edits, parsed: Parsed) -> None:
    """Heads and labels into their columns; HeadProb= and LabelProb= into MISC of CoNLL-U.

    CoNLL-X has no such column: there the probability of the head goes into PHEAD, that of the label
    into PDEPREL, which are added to lines of eight columns.
    """
    longest = int(parsed.heads.max())
    edits.replace(Conll.HEAD, [str(h) for h in range(longest + 1)], parsed.heads)
    if parser.labelled:
        edits.replace(Conll.DEPREL, parser.labels, parsed.labels)
    if parsed.head_probability is None or parsed.label_probability is None:
        return
    each = np.arange(edits.n_tokens)
    head = [f"{p:.4f}" for p in parsed.head_probability.tolist()]
    label = [f"{p:.4f}" for p in parsed.label_probability.tolist()]
    if edits.block.format.name == "conllx":
        edits.put(Conll.PHEAD, head, each)
        if parser.labelled or len(edits.block.format.columns) == Conll.PHEAD:
            edits.put(Conll.PDEPREL, label if parser.labelled else ["_"] * edits.n_tokens, each)
        return
    notes = [f"HeadProb={h}" for h in head]
    if parser.labelled:
        notes = [f"{n}|LabelProb={p}" for n, p in zip(notes, label, strict=True)]
    edits.note(notes, each)


def tag_block(tagger: Tagger, block: Block, extractor: Extractor, output: Output) -> bytes:
    """The bytes of a block with its tags."""
    scores = tagger.scores(block, extractor)
    if output.nbest > 1:

        def best(a: int, b: int) -> Iterator[Answer]:
            paths, probabilities = tagger.nbest(scores[a:b], output.nbest)
            for path, p in zip(paths, probabilities.tolist(), strict=True):
                strings, ids = tagger.output_labels(path, np.array([0, b - a]))
                yield p, lambda edits, s=strings, i=ids: _put_tags(tagger, edits, s, i)  # type: ignore[misc]

        return _nbest(block, best)
    sentences = block.sentences
    decode = tagger.posterior_decode if output.decode == "posterior" else tagger.viterbi
    tags = decode(scores, sentences)
    strings, ids = tagger.output_labels(tags, sentences)
    edits = Edits(block)
    if not output.marginals:
        _put_tags(tagger, edits, strings, ids)
        return edits.text()

    found = tagger.marginals(scores, sentences, tags)
    token = [f"{p:.4f}" for p in found.token.tolist()]
    entity = ["_"] * block.n_tokens
    if found.spans is not None:
        for a, b, p in zip(found.spans.start, found.spans.end, found.span, strict=True):
            entity[a : b + 1] = [f"{p:.4f}"] * int(b - a + 1)
    entity_too = entity if found.spans is not None else None
    _put_tags(tagger, edits, strings, ids, token, entity_too, output.prefix)
    return edits.text()


def _put_tags(
    tagger: Tagger,
    edits: Edits,
    strings: list[str],
    ids: np.ndarray,
    token: list[str] | None = None,
    entity: list[str] | None = None,
    prefix: str = "",
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
        edits.replace(CRFSUITE_LABEL, strings, ids)
    elif fmt.ids:
        notes = [""] * edits.n_tokens
        if at == Conll.MISC:  # the tag and what is said of it share a column
            notes = [strings[i] for i in ids.tolist()]
        elif at is not None:
            edits.replace(at, strings, ids)
        else:
            name = tagger.header["task"].upper()
            notes = [f"{name}={strings[i]}" for i in ids.tolist()]
        if token is not None:
            notes = [f"{n}|{prefix}Prob={p}".lstrip("|") for n, p in zip(notes, token, strict=True)]
        if entity is not None:
            notes = [
                n if p == "_" else f"{n}|EntityProb={p}".lstrip("|")
                for n, p in zip(notes, entity, strict=True)
            ]
        if at == Conll.MISC:
            edits.replace(at, notes, each)
        elif at is None or token is not None:
            edits.note(notes, each)
    else:
        if at is None:
            edits.append(strings, ids)
        else:
            edits.replace(at, strings, ids)
        for column in (token, entity):
            if column is not None:
                edits.append(column, each)


Answer = tuple[float, Callable[[Edits], None]]  # a probability, and what writes the answer


def _nbest(block: Block, best: Callable[[int, int], Iterator[Answer]]) -> bytes:
    """Each sentence n times, best first, each behind a line '# nbest RANK PROBABILITY'."""
    data = block.buf.tobytes()
    newline = b"\r\n" if b"\r\n" in data[:4096] else b"\n"
    out: list[bytes] = []
    read = 0
    for s in range(block.n_sentences):
        a, b = int(block.sentences[s]), int(block.sentences[s + 1])
        begin, end = _extent(block, data, a, b)
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
