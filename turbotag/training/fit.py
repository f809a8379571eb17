"""How weights are fitted: the optimizer and its parameters, the loss, C, and when it stops."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from turbotag.errors import UsageError
from turbotag.losses import Loss
from turbotag.optim.algorithms import algorithm
from turbotag.optim.run import Limits

KEEP = ("best", "last")  # which epoch's weights a training with a dev file ends with
LEAST_C, MOST_C = 1e-12, 1e12  # scripts/torture/extremes.py trains at both
CRF = Loss()


@dataclass(frozen=True)
class Fit:
    """How weights are fitted: the optimizer and its parameters, the loss, C, when to stop, and with
    a dev file which epoch is kept. shards: the number of shards that sentences are dealt to, by
    default one for each thread; 1 is plain sdca. threads: the number that compute; it does not
    change the result. workers: processes of Ray that each have a shard, in place of threads;
    address: of a Ray cluster, by default one of this machine is started."""

    algorithm: str = "sdca"
    params: dict[str, Any] = field(default_factory=dict)
    loss: Loss = CRF
    C: float = 1.0
    epochs: int | None = None
    stop_gap: float | str | None = None
    patience: int | None = None
    keep: str = "best"
    max_oracle_calls: int | None = None
    max_seconds: float | None = None
    seed: int = 1
    threads: int = 1
    shards: int | None = None
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        algorithm(self.algorithm).check(self.loss.beta, self.loss.gamma, self.params)
        at_least("threads", self.threads, 1)
        at_least("shards", self.shards, 1)
        self._check_workers()
        if self.dealt:
            self._check_shards()
        within("C", self.C, LEAST_C, MOST_C)
        at_least("epochs", self.epochs, 1)
        at_least("patience", self.patience, 1)
        one_of("keep", self.keep, KEEP)
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}: it must not be negative")
        for name in ("max_oracle_calls", "max_seconds"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name.replace('_', '-')} is {limit}: it must be positive")
        self._gap()

    @property
    def dealt(self) -> int:
        """The number of shards; 0 if sentences are not dealt, or dealt to one shard."""
        shards = self.shards or self.workers or self.threads
        return shards if shards > 1 or self.workers else 0

    def _check_workers(self) -> None:
        at_least("workers", self.workers, 1)
        if self.workers is None and self.address is not None:
            raise UsageError("--address needs --workers")
        if self.workers and (self.threads > 1 or self.shards not in (None, self.workers)):
            raise UsageError(
                "--workers has a shard for each worker: leave out --threads and --shards"
            )

    def _check_shards(self) -> None:
        """Refuse what shards do not serve: only one optimizer has a proof for them."""
        asked = "--workers" if self.workers else "--threads and --shards"
        if self.algorithm != "sdca" or self.params.get("dual") == "exact":
            raise UsageError(f"{asked} need --algorithm sdca with --dual compact")
        if self.params.get("l1") or self.loss.difference:
            raise UsageError(f"{asked} go with neither --l1 nor the losses ramp and risk")

    @property
    def limits(self) -> Limits:
        """What was asked for, or the algorithm's own defaults."""
        gap, relative = self._gap()
        return Limits(
            self.epochs or algorithm(self.algorithm).default_epochs,
            gap,
            self.patience,
            self.max_oracle_calls,
            self.max_seconds,
            relative,
        )

    def _gap(self) -> tuple[float | None, float | None]:
        """(the gap to stop at, the share of the primal objective to stop at, as in 1%); one of them
        may be None."""
        usual = algorithm(self.algorithm).default_gap
        asked = usual if self.stop_gap is None else self.stop_gap
        if asked is None:
            return None, None
        number = str(asked).removesuffix("%")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not 0.0 < value < math.inf:
            raise UsageError(
                f"stop-gap is {asked}: it must be a positive number, or a percentage such as 1%"
            )
        return (value, None) if number == str(asked) else (None, value / 100.0)


def one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} is {value!r}: it must be one of {', '.join(known)}")


def within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name} is {value}: it must lie between {least:g} and {most:g}")


def at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{name} is {value}: it must be at least {least}")
