"""How a training is run, whatever is trained: the file to write, who is told, and checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from turbotag.optim.trace import Echo, Trace
from turbotag.storage import store
from turbotag.storage.checkpoints import Progress

Options = TypeVar("Options")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Work:
    """output: the file to write, if any; trace: of the optimizer; echo: is told everything else;
    command: kept in the header of the model; resume: whether to go on from a checkpoint, if there
    is one; checkpoint_seconds: between two checkpoints."""

    output: str | None
    trace: Trace
    echo: Echo
    command: str
    resume: bool
    checkpoint_seconds: float

    def progress(self, mark: dict[str, Any]) -> Progress:
        """mark: what must be equal for a checkpoint to be continued."""
        return Progress(self.output, mark, self.checkpoint_seconds, self.resume, self.echo)


class Training(Generic[Options, Made]):
    """Decorates a function of options and Work that trains a model and writes it."""

    def __init__(self, train: Callable[[Options, Work], Made]):
        self._train = train
        functools.update_wrapper(self, train)

    def __call__(
        self,
        options: Options,
        output: str | None = None,
        trace: Trace | None = None,
        echo: Echo = lambda line: None,
        command: str = "",
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
    ) -> Made:
        work = Work(output, trace or Trace(), echo, command, resume, checkpoint_seconds)
        with store.held(output):
            return self._train(options, work)
