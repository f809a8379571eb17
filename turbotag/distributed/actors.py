"""The engine of many machines: the shards are actors of Ray (Moritz et al. 2018).

A worker process has one shard, its data and its dual variables. The driver sends each its part
once, and from then on a few numbers a round: changes of the weights go from worker to worker. The
Pieces that a method returns stay with the worker that made them; the driver gets references, and
passes them on to the workers that merge them.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from turbotag.distributed.changes import Piece
from turbotag.distributed.engine import Arguments, LostShards
from turbotag.distributed.shard import Part, Shard
from turbotag.errors import UsageError

ANSWER = 5.0  # seconds in which a cluster must answer
SILENT = 60.0  # seconds without an answer after which the driver tells so
RESTARTS = 3  # of a worker that does not keep anything

Warn = Callable[[str], object]


def connect(workers: int, address: str | None) -> Any:
    """Ray, connected to a cluster, or to one of this machine alone, whose ports are bound to
    127.0.0.1."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning about GPUs
    try:
        import ray
    except ImportError as e:
        raise UsageError("--workers needs Ray: pip install 'turbotag[ray]'") from e

    if not ray.is_initialized():
        place: dict[str, Any] = {"address": address}
        if address is None:
            place = {"address": "local", "num_cpus": workers, "include_dashboard": False}
            _stay_local()
        else:
            _check_address(address)
        ray.init(**place, logging_level=logging.ERROR, log_to_driver=False)
    return ray


def _check_address(address: str) -> None:
    """Refuse an address where nothing answers: Ray would try again for many minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, ValueError, OverflowError) as e:
        raise UsageError(f"--address {address}: no Ray cluster can be reached there ({e})") from e


def _stay_local() -> None:
    """Let Ray bind its ports to 127.0.0.1, as it does by itself where it does not support clusters;
    it would bind them to all addresses. The variable is for its processes, which read it when they
    start; this one may have read it already."""
    from ray._private import ray_constants

    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False


class Worker:
    """Runs in a process of its own: a shard, or what else `make` makes."""

    def __init__(self, make: Callable[[], Any]):
        self.made = make()

    def call(self, method: str, *arguments: Any) -> Any:
        import ray

        def fetched(x: Any) -> Any:
            if isinstance(x, ray.ObjectRef):
                return writable(ray.get(x, timeout=SILENT))  # else it may wait for a dead worker
            return [fetched(each) for each in x] if isinstance(x, list) else x

        def kept(x: Any) -> Any:
            if isinstance(x, Piece):
                return ray.put(x)
            if type(x) in (list, tuple):
                return type(x)(map(kept, x))
            return x

        return kept(getattr(self.made, method)(*map(fetched, arguments)))

    def process(self) -> int:
        return os.getpid()


def writable(x: Any) -> Any:
    """A copy of an array, or of the arrays of a tuple. Those in Ray's memory can only be read, and
    kernels are compiled for others."""
    if isinstance(x, np.ndarray):
        return x.copy()
    return type(x)(*map(writable, x)) if isinstance(x, tuple) else x


def make_shard(part: Part) -> Shard:
    own, factor = part.own.copy(), part.factor.copy()
    return replace(part, data=writable(part.data), own=own, factor=factor).shard()


class Actors:
    """Shards in processes of a Ray cluster. warn: is told of workers that do not answer."""

    def __init__(self, parts: Sequence[Part], address: str | None = None, warn: Warn | None = None):
        self.ray, self.S = connect(len(parts), address), len(parts)
        self.warn = warn or (lambda line: None)
        self.makers = [self.ray.put(partial(make_shard, part.alone())) for part in parts]
        self.actor = self.ray.remote(num_cpus=1, max_restarts=0)(Worker)
        self.workers = [self.actor.remote(make) for make in self.makers]

    def call(self, method: str, arguments: Arguments) -> list[Any]:
        refs = {
            k: worker.call.remote(method, *given)
            for k, (worker, given) in enumerate(zip(self.workers, arguments, strict=True))
            if given is not None
        }
        answer = self._answers(refs)
        return [answer.get(k) for k in range(self.S)]

    def _answers(self, refs: dict[int, Any]) -> dict[int, Any]:
        """What the calls return. Raises LostShards, once all are done, if workers are gone."""
        ray, waiting, lost = self.ray, list(refs.values()), False
        while waiting:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=SILENT)
            if waiting:
                late = ", ".join(str(k) for k, ref in refs.items() if ref in waiting)
                self.warn(f"no answer from worker {late} for {SILENT:.0f} seconds")
        found = {}
        for k, ref in refs.items():
            try:
                found[k] = ray.get(ref)
            except ray.exceptions.RayTaskError as e:
                if not isinstance(e.cause, ray.exceptions.RayError):
                    raise e.as_instanceof_cause() from None
                lost = True  # it waited for a piece of a worker that is gone, or too long
            except ray.exceptions.RayError:
                lost = True
        if lost:
            raise LostShards(self._gone())
        return found

    def _gone(self) -> list[int]:
        """The numbers of workers that have died."""
        gone = []
        for k, worker in enumerate(self.workers):
            try:
                self.ray.get(worker.process.remote())
            except self.ray.exceptions.RayError:
                gone.append(k)
        return gone

    def replace(self, shards: list[int]) -> None:
        for k in shards:
            self.ray.kill(self.workers[k])
            self.workers[k] = self.actor.remote(self.makers[k])

    def processes(self) -> list[int]:
        """The numbers of the workers' processes."""
        return list(self.ray.get([worker.process.remote() for worker in self.workers]))

    def close(self) -> None:
        for worker in self.workers:
            self.ray.kill(worker)


def spread(
    make: Callable[[], Any],
    method: str,
    arguments: Sequence[tuple[Any, ...]],
    workers: int,
    address: str | None = None,
) -> Iterator[Any]:
    """method(*arguments[k]) of what `make` makes, for all k, in this order. Each of some workers
    calls `make` once. A call whose worker dies is made again, on a new worker."""
    ray = connect(workers, address)
    from ray.util import ActorPool

    remote = ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS)(Worker)
    pool = [remote.remote(make) for _ in range(min(workers, len(arguments)))]
    try:
        ordered: Any = ActorPool(pool).map
        yield from ordered(lambda worker, given: worker.call.remote(method, *given), arguments)
    finally:
        for worker in pool:
            ray.kill(worker)
