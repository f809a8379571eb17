"""Engines: who calls the shards. The engine of threads is the reference; others must give the same
bytes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

Arguments = Sequence[tuple[Any, ...] | None]


class LostShards(Exception):
    """Raised by a call that was not carried out: the numbers of the shards whose workers are gone,
    none if a worker only waited too long for what another one had."""

    def __init__(self, shards: list[int]):
        super().__init__(f"the workers of shards {shards} are gone")
        self.shards = shards


class Engine(Protocol):
    """Holds S shards, and calls them all at once."""

    S: int

    def call(self, method: str, arguments: Arguments) -> list[Any]:
        """The results of method(*arguments[k]) of shard k, for k = 0..S-1. Where arguments[k] is
        None, shard k is not called, and its result is None. May raise LostShards."""
        ...

    def replace(self, shards: list[int]) -> None:
        """Make lost shards again, with the dual variables that a shard starts with."""
        ...

    def close(self) -> None:
        """Called when no shard is needed any more."""
        ...


class Threads:
    """Shards in this process, called by some threads. Their kernels run without the lock of the
    interpreter. The results do not depend on the number of threads."""

    def __init__(self, shards: Sequence[Any], threads: int):
        self.shards, self.S = shards, len(shards)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def call(self, method: str, arguments: Arguments) -> list[Any]:
        both = list(zip(self.shards, arguments, strict=True))
        if self.pool is None:
            return [None if a is None else getattr(shard, method)(*a) for shard, a in both]
        waiting = [
            None if a is None else self.pool.submit(getattr(shard, method), *a) for shard, a in both
        ]
        return [None if each is None else each.result() for each in waiting]

    def replace(self, shards: list[int]) -> None:
        raise AssertionError("threads of this process cannot be lost")

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)
