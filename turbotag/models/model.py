"""What every model can do: read blocks, write what it predicts, be compared with gold, be saved.

Taggers, parsers and tokenizers are models; a pipeline is a list of them. Code that uses a model
relies on this interface and does not ask for the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from turbotag.corpus.formats import Format
from turbotag.corpus.reader import Block, Source
from turbotag.corpus.writer import Edits
from turbotag.models.calibration import Items
from turbotag.models.gold import Layout
from turbotag.storage.tensors import Entries

if TYPE_CHECKING:
    from turbotag.models.comparison import Comparison


@dataclass(frozen=True)
class Output:
    """What to write. decode: viterbi (the best answer), posterior (the fewest expected errors) or
    map (see Parser.parse); marginals: probabilities too; nbest: how many of the best answers;
    prefix: stands before Prob= in MISC of CoNLL-U; proofs: is told (trees that are proven best,
    trees) of each parsed block; to: another format to write in (corpus/export)."""

    decode: str = "viterbi"
    marginals: bool = False
    nbest: int = 1
    prefix: str = ""
    proofs: list[tuple[int, int]] | None = None
    to: str | None = None


BEST = Output()
Answer = tuple[float, Callable[[Edits], None]]  # a probability, and what writes the answer


class Model(Protocol):
    """kind: of its file; header: all that is not an array; labels: what it decides between;
    extractor: of the thread that loaded the model; gives, needs: the columns of CoNLL-U that it
    fills, and those that it cannot do without."""

    kind: str
    header: dict[str, Any]
    labels: list[str]
    extractor: Any

    @property
    def input_format(self) -> str | None:
        """The only format that the model can read, if there is only one."""

    @property
    def gives(self) -> tuple[str, ...]: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    def naming(self, n: int) -> tuple[str, ...]:
        """Names of the columns of an input with n columns."""

    def target(self, fmt: Format) -> int | None:
        """Where the column of its tags stands in an input, None if it has none or gives no tags."""

    def new_extractor(self) -> Any:
        """An extractor of its own for each thread: it remembers the words it has seen."""

    def annotate(self, block: Block, extractor: Any, output: Output, edits: Edits) -> None:
        """Put what is predicted for a block into `edits`, which are of the same sentences."""

    def answers(
        self, block: Block, extractor: Any, n: int
    ) -> Callable[[int, int], Iterator[Answer]]:
        """A function that gives the n best answers for the sentence of tokens a..b-1."""

    def compare(
        self, gold: Source, layout: Layout, strict: bool = False, probabilities: bool = False
    ) -> Comparison:
        """The answers of the model beside those of a gold file."""

    def compare_blocks(
        self, gold: Block, predicted: Block, strict: bool = False
    ) -> tuple[str, Comparison] | None:
        """The name of what the model predicts, and its predictions in a block of CoNLL-U beside
        gold; None if the gold block does not have it."""

    def held_out(self, gold: Source, layout: Layout) -> tuple[dict[str, Items], Block]:
        """The answers of the model on a gold file by kind, for calibration."""

    def set_calibration(self, found: dict[str, Any]) -> None:
        """From now on, give probabilities as `found`, an entry of the header, says."""

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that a file has beside the header."""

    def save(self, path: str) -> None: ...

    @staticmethod
    def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
        """The arrays to be read of a file; ValueError if its header and shapes are not those of
        such a model. names: whether to read the names of features too."""

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
        """From what a file has; ValueError if it does not fit together."""
