"""What Tagger and Parser share: they are trained on lists, and read from and written to files."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from turbotag.errors import NotTrainedError
from turbotag.models.shipped import find
from turbotag.optim.trace import Trace
from turbotag.training import options


class Trained:
    """Options, a model file, and an extractor for each thread."""

    kind: Any
    model: Any = None
    history: Sequence[
        dict[str, Any]
    ] = ()  # of the last training, a dict for each line of its table

    def _take(self, task: str, given: dict[str, Any]) -> None:
        """given: options of `turbotag train` and parameters of the algorithm, by name."""
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
        self.task, self.options = task, options.named(task, plain)
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()

    def _fitted(self) -> Any:
        if self.model is None:
            name = type(self).__name__
            raise NotTrainedError(f"this {name} is not trained: call fit or load first")
        return self.model

    def _extractor(self) -> Any:
        if getattr(self._local, "model", None) is not self.model:
            self._local.model, self._local.extractor = self.model, self.model.new_extractor()
        return self._local.extractor

    @contextlib.contextmanager
    def _told(
        self, verbose: bool | None, log: str | None
    ) -> Iterator[tuple[Trace, Callable[[str], None]]]:
        """Where a training reports to: (the table of its epochs, a function for its other lines).
        Warnings are always reported."""
        shown = _watched() if verbose is None else verbose

        def say(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        def warn(line: str) -> None:
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), stacklevel=4)

        trace = Trace(say if shown else None, log, warn)
        yield trace, say if shown else warn
        self.history = [asdict(row) for row in trace.rows]

    def save(self, path: str) -> None:
        """Write the model file that `turbotag predict` reads."""
        self._fitted().save(path)

    @classmethod
    def load(cls, name: str) -> Any:
        """The model of a file, or a shipped model by name."""
        self = cls()
        self.model = self.kind.load(find(name))
        self.task = self.model.header["task"]
        return self


def _watched() -> bool:
    """Whether a person sees standard error: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def cut(flat: list[Any], sentences: np.ndarray) -> list[list[Any]]:
    """Cut a list with an item for each word into a list for each sentence."""
    cuts = sentences.tolist()
    return [flat[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
