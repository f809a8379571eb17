"""What a training keeps on disk while it runs: a checkpoint for each of its stages."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.corpus.reader import Block, Source
from turbotag.errors import DataError
from turbotag.features.declared import KINDS, OPTIONS
from turbotag.interrupts import pending
from turbotag.optim.run import Saving, State
from turbotag.optim.trace import Echo
from turbotag.storage import members, store
from turbotag.storage.checks import fitting

Arrays = dict[str, np.ndarray]
OVER = "over"  # in place of a state: the stage is over, and the arrays are what it gave
FILES = ("train", "dev", "ner", "ner_dev", "template", "init", *OPTIONS)  # their content counts
NAMES = {"C": "-C", "labels": "labels", "prune": "pruning"}
NAMES |= {kind.option: f"--{kind.flag}" for kind in KINDS}


# ---- Whether a checkpoint is of this training ----------------------------------------------------


def sha256(block: Block) -> str:
    return hashlib.sha256(block.buf.tobytes()).hexdigest()


def content(source: Source | dict[str, str] | None) -> Any:
    """What stands for a source in a checkpoint: the sha256 of a file, or of each of several files;
    a name that is no file stands for itself."""
    if isinstance(source, dict):
        return {name: content(path) for name, path in source.items()}
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    if isinstance(source, str):
        file, stage = members.split(source)
        if Path(file).is_file():
            return hashlib.sha256(Path(file).read_bytes() + stage.encode()).hexdigest()
    return source


def difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The difference between two trainings, in words."""
    found = []
    for key in [*new, *(k for k in old if k not in new)]:
        if old.get(key) == new.get(key):
            continue
        if key in FILES and old.get(key) and new.get(key):
            found.append(f"with other content in {_name(key)}")
        else:
            found.append(f"{_said(key, old.get(key))}, now {_said(key, new.get(key))}")
    return "; ".join(found)


def _name(key: str) -> str:
    return NAMES.get(key, f"--{key.replace('_', '-')}")


def _said(key: str, value: Any) -> str:
    name = _name(key)
    if value is None or value is False or value in ([], {}):
        return f"without {name}"
    if value is True or key in FILES:
        return f"with {name}"
    shown = ",".join(map(str, value)) if isinstance(value, list) else value
    return f"with {name} {shown:g}" if isinstance(shown, float) else f"with {name} {shown}"


# ---- Files ---------------------------------------------------------------------------------------


class Checkpoint:
    """The state of a stage, or the arrays that it gave, in a file beside the model to be."""

    def __init__(self, path: str, mark: dict[str, Any]):
        self.path, self.mark = path, mark

    def save(self, arrays: Arrays, state: str) -> None:
        store.save_file(self.path, "checkpoint", {"mark": self.mark, "state": state}, arrays)

    def load(self) -> State | None:
        """What was saved, None if nothing was."""
        if not Path(self.path).exists():
            return None
        header, arrays = store.load_file(self.path, "checkpoint")
        mark, state = header.get("mark"), header.get("state")
        if not isinstance(mark, dict) or mark.keys() != self.mark.keys():
            raise DataError(
                "is of another training, or of another version; remove it to train from the start",
                self.path,
            )
        if mark != self.mark:
            what = difference(mark, self.mark)
            raise DataError(f"was trained {what}; remove it, or train as before", self.path)
        if not isinstance(state, str):
            raise DataError("is damaged; remove it to train from the start", self.path)
        return arrays, state

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            Path(self.path).unlink()
        store.remove_stale(self.path)


class Progress:
    """The checkpoints of a training. They are removed when its model is written.

    A stage has OUTPUT.STAGE.checkpoint. A training of one stage, whose name is empty, has
    OUTPUT.checkpoint. Without an output nothing is put on disk. mark: the options and the content
    of the files, by which a checkpoint is known to be of the same training; seconds: between two
    saved states of a stage, or inf to save none; resume: whether to go on from checkpoints that
    exist.
    """

    def __init__(
        self,
        output: str | None,
        mark: dict[str, Any],
        seconds: float = 30.0,
        resume: bool = False,
        echo: Echo = lambda line: None,
    ):
        self.output, self.mark, self.seconds, self.echo = output, mark, seconds, echo
        # a device, such as /dev/null, gets no checkpoints beside it
        self.regular = output is not None and (not Path(output).exists() or Path(output).is_file())
        self.resume = resume and self.regular
        self.stages: dict[str, Checkpoint] = {}

    def checkpoint(self, stage: str) -> Checkpoint:
        path = ".".join([self.output or "", *([stage] if stage else []), "checkpoint"])
        return self.stages.setdefault(stage, Checkpoint(path, self.mark))

    @property
    def saves(self) -> bool:
        return self.regular and self.seconds < np.inf

    def stage(self, name: str = "", more: bool = False, brief: bool = False) -> Stage:
        return Stage(self, name, more, brief)

    def once(self, stage: str, work: Callable[[], Arrays], use: Callable[[Arrays], None]) -> None:
        """use(work()); if the stage was done before, use(what `work` gave then)."""
        checkpoint = self.checkpoint(stage)
        found = checkpoint.load() if self.resume else None
        if found and found[1] == OVER:
            self.echo(f"{stage}: done before, in {checkpoint.path}")
            with fitting(checkpoint.path):
                use(found[0])
            return
        arrays = work()
        if self.saves:
            checkpoint.save(arrays, OVER)
        pending.settle()
        use(arrays)

    def folds(
        self,
        stage: str,
        k: int,
        work: Callable[[int], Arrays],
        use: Callable[[int, Arrays], None],
        threads: int = 1,
    ) -> None:
        """Each of k stages `once`: STAGE0, STAGE1, ... They do not depend on each other, so several
        threads can work on them; their results are used in order."""
        if threads == 1:
            for f in range(k):
                self.once(f"{stage}{f}", partial(work, f), partial(use, f))
            return
        with ThreadPoolExecutor(threads) as pool:
            begun = {f: pool.submit(work, f) for f in range(k) if not self._over(f"{stage}{f}")}
            try:
                for f in range(k):
                    again = begun[f].result if f in begun else partial(work, f)
                    self.once(f"{stage}{f}", again, partial(use, f))
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # if one of them has failed

    def _over(self, stage: str) -> bool:
        found = self.checkpoint(stage).load() if self.resume else None
        return found is not None and found[1] == OVER

    def settle(self, note: str) -> None:
        """Called when the model is written: end here if a signal waits for that. note: the line
        that tells so, now or when a signal comes later. Nothing is told of a model without an
        output, which is only a step to another one."""
        if self.saves:
            pending.settle(note)

    def remove(self) -> None:
        if self.regular:
            for checkpoint in self.stages.values():
                checkpoint.remove()


@dataclass(frozen=True)
class Stage:
    """One run of an optimizer, as its training logs and saves it.

    more: whether other stages follow, which do not save what this one gave, so that its last state
    is saved; brief: whether the log leaves out its lines.
    """

    progress: Progress
    name: str = ""
    more: bool = False
    brief: bool = False

    @property
    def checkpoint(self) -> Checkpoint:
        return self.progress.checkpoint(self.name)

    def echo(self, line: str) -> None:
        if not self.brief:
            self.progress.echo(line)

    def saved(self) -> State | None:
        """The state to go on from."""
        state = self.checkpoint.load() if self.progress.resume else None
        if state:
            self.progress.echo(f"resuming from {self.checkpoint.path}")
        return state

    @property
    def saving(self) -> Saving | None:
        if not self.progress.saves:
            return None
        return Saving(self.checkpoint.save, self.progress.seconds, self.more)
