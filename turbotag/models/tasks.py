"""The tasks of taggers, each declared once, and the stages of a pipeline.

The command line, the checks of options, training and prediction are made from these tables. They
import no numba, so that `turbotag train --help` need not wait for it. A new column to predict is an
entry here; where its labels are not its values, as lemmas are coded by edit scripts, it has a coder
too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from turbotag.models.gold import Corpus
    from turbotag.models.lists import ListTagger
    from turbotag.storage.tensors import Entries
    from turbotag.structures.candidate_lists import Lists


@dataclass(frozen=True)
class Task:
    """What a tagger is trained for.

    column: of CoNLL-U, that has the tags; spans: tags are those of IOB schemes; open: values have
    no end, so that those of other files are legal; coder: the module of this package whose CODER
    makes labels of values; defaults: of training options; refused: training options that the task
    has no use for, with what to say.
    """

    column: str = ""
    spans: bool = False
    open: bool = False
    coder: str = ""
    defaults: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


# The last epochs differ by noise on dev; only the last has the certified gap. The loss of
# morphology was chosen on dev data (docs/howto/morphology.md).
TASKS = {
    "ner": Task(spans=True),
    "pos": Task("upos"),
    "chunk": Task(spans=True),
    "morph": Task(
        "feats",
        open=True,
        defaults={"loss": "softmax-margin", "gamma": 3.0, "stop_gap": "1%", "keep": "last"},
    ),
    "lemma": Task(
        "lemma",
        open=True,
        coder="lemmas",
        defaults={"stop_gap": "1%", "keep": "last", "order": 0},
        refused={
            "candidates": "--candidates: those of lemmas are the scripts that fit the form",
            "order": "lemmas do not depend on each other: leave out --order, or take 0",
            "init": "--init goes on from models without candidate lists, not from lemmas",
            "label_cost": "--label-cost is for tags, and those of lemmas are edit scripts",
        },
    ),
}
ALL_TASKS = (*TASKS, "parse", "tokenize", "pipeline")
# What fills each column in a pipeline, in this order: the task and its options.
COLUMNS: dict[str, tuple[str, dict[str, Any]]] = {
    "upos": ("pos", {"target": "upos", "template": "pos-rich", "drop": 0.01}),
    "xpos": ("pos", {"target": "xpos", "template": "pos-rich", "drop": 0.02}),
    "feats": ("morph", {}),
    "lemma": ("lemma", {}),
}
STAGES = ("tokenize", *COLUMNS, "parse", "ner")  # of a pipeline, in order


class Coder(Protocol):
    """How the values of a column become labels, and labels values again.

    name: in a model's header; kind: of its models; added: labels that a model has whatever the
    data have.
    """

    name: str
    kind: type[ListTagger]
    added: tuple[str, ...]

    def encoded(self, corpus: Corpus) -> Corpus:
        """Gold values as labels."""

    def learn(self, corpus: Corpus) -> Any:
        """What lists the candidates of new words; the labels are those of the model to be."""

    def candidates(self, listing: Any, corpus: Corpus) -> Lists:
        """The candidates of the words to be learned from, the right ones among them."""

    def alike(self, corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
        """(tokens,) numbers, the same for words that teach the same; and (tokens,) whether a word
        is learned from as often as it occurs, and not once."""

    def expected(self, entries: Entries) -> list[str]:
        """The arrays of a file that `load` needs; ValueError if they are not as they should be."""

    def load(self, arrays: dict[str, np.ndarray], K: int) -> Any:
        """What `learn` gave, from the arrays of a file."""


def coder_of(task: str) -> Coder | None:
    """The coder of a task, None where labels are the values."""
    name = TASKS[task].coder if task in TASKS else ""
    coder: Coder | None = import_module(f"turbotag.models.{name}").CODER if name else None
    return coder


def coder_named(name: str) -> Coder | None:
    """The coder that a model's header names."""
    coders = (coder_of(task) for task in TASKS)
    return next((coder for coder in coders if coder and coder.name == name), None)
