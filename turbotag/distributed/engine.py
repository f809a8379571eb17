"""Engines: who calls the shards. The engine of threads is the reference; others must give the same
bytes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class Engine(Protocol):
    """Holds S shards, and calls them all at once."""

    S: int

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The results of method(*arguments[k]) of shard k, for k = 0..S-1."""
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

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        calls = [getattr(shard, method) for shard in self.shards]
        if self.pool is None:
            return [call(*given) for call, given in zip(calls, arguments, strict=True)]
        waiting = [
            self.pool.submit(call, *given) for call, given in zip(calls, arguments, strict=True)
        ]
        return [each.result() for each in waiting]

    def close(self) -> None:
        if self.pool:
            self.pool.shutdown(cancel_futures=True)
