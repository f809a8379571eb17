"""What every model can do: read blocks, write what it predicts, be compared with gold, be saved.

A tagger, a parser and whatever comes next are models; a pipeline is a list of them. Who uses a
model asks for no more than this, and not for its class.
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
    """What to write: decoding is viterbi (the best answer), posterior (the fewest expected errors)
    or map (see Parser.parse); probabilities; the best n answers. In MISC of CoNLL-U `prefix` stands
    before Prob=. `proofs` is told of each parsed block (trees that are proven best, trees). `to`
    is another format to write in (corpus/export)."""

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
    extractor: that of the thread which loaded it; gives, needs: columns of CoNLL-U that it fills,
    and that it cannot do without."""

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
        """What gives the n best answers for the sentence of tokens a..b-1."""

    def compare(
        self, gold: Source, layout: Layout, strict: bool = False, probabilities: bool = False
    ) -> Comparison:
        """The answers of the model beside those of a gold file."""

    def compare_blocks(
        self, gold: Block, predicted: Block, strict: bool = False
    ) -> tuple[str, Comparison] | None:
        """The name of what the model predicts, and that in a block of CoNLL-U which it has
        annotated beside gold; None if the gold block has it not."""

    def held_out(self, gold: Source, layout: Layout) -> tuple[dict[str, Items], Block]:
        """The answers of the model on a gold file by kind, for calibration."""

    def set_calibration(self, found: dict[str, Any]) -> None:
        """Take probabilities as `found`, an entry of the header, says."""

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that a file has beside the header."""

    def save(self, path: str) -> None: ...

    @staticmethod
    def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
        """The arrays to be read of a file whose header and shapes are those of such a model, else
        ValueError; names: with the names of features."""

    @classmethod
    def restored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
        """From what a file has; ValueError if it does not fit together."""
