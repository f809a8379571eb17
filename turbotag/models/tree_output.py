"""What a parser writes: heads and labels into their columns, probabilities, the best n trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Block
from turbotag.corpus.writer import Edits
from turbotag.errors import UsageError
from turbotag.models.model import Answer, Output
from turbotag.models.scored import Parsed

if TYPE_CHECKING:
    from turbotag.models.parser import Parser
    from turbotag.models.scanner import Scanner


def annotate(parser: Parser, block: Block, scanner: Scanner, output: Output, edits: Edits) -> None:
    """Trees of a block, with probabilities if they are asked for."""
    parsed = parser.parse(block, scanner, output.decode, output.marginals)
    if output.proofs is not None:
        output.proofs.append((parsed.proven, block.n_sentences))
    _put_trees(parser, edits, parsed)


def answers(
    parser: Parser, block: Block, scanner: Scanner, n: int
) -> Callable[[int, int], Iterator[Answer]]:
    """A function that gives the n best trees of the sentence of tokens a..b-1."""
    if parser.second_order:
        raise UsageError("--nbest is for first-order parsers: this one has second-order parts")
    matrix = parser.matrix(block, scanner)

    def best(a: int, b: int) -> Iterator[Answer]:
        trees, probabilities = parser.nbest(parser.scores(matrix[a:b], scanner), n)
        for heads, p in zip(trees, probabilities.tolist(), strict=True):
            labels = parser.label_scores(matrix[a:b], heads, scanner).argmax(axis=1)
            parsed = Parsed(heads, labels.astype(np.int32))
            yield p, lambda edits, parsed=parsed: _put_trees(parser, edits, parsed)  # type: ignore[misc]

    return best


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
