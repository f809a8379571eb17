"""The training loop that all optimizers share: epochs, stopping, certificate, checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from turbotag import blas
from turbotag.errors import DataError
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate, NegativeGapError, certify_primal
from turbotag.optim.trace import Row, Trace

SaveState = Callable[[dict[str, np.ndarray], str], None]
LoadState = tuple[dict[str, np.ndarray], str]


@dataclass
class Limits:
    """When to stop.

    epochs: at most this many; gap: as soon as a full pass certifies it, relative: or this share of
    the primal objective as a gap; patience: after this many
    epochs without a better dev score (the weights of the best epoch are then the result);
    oracle_calls, seconds: after the epoch in which this many are reached.
    """

    epochs: int
    gap: float | None = None
    patience: int | None = None
    oracle_calls: int | None = None
    seconds: float | None = None
    relative: float | None = None

    def gap_at(self, primal: float | None) -> float | None:
        """The gap to stop at where the primal objective is this; None if there is none."""
        if self.relative is None or primal is None:
            return self.gap
        return max(self.gap or 0.0, self.relative * primal)

    def __str__(self) -> str:
        share = None if self.relative is None else 100.0 * self.relative
        asked = [
            (self.gap, "a certified gap of {:g}"),
            (share, "a certified gap of {:g} % of the primal"),
            (self.patience, "{} epochs without a better dev score"),
            (self.oracle_calls, "{} oracle calls"),
            (self.seconds, "{:g} seconds"),
            (self.epochs, "{} epochs"),
        ]
        return " or ".join(words.format(limit) for limit, words in asked if limit is not None)


@dataclass(frozen=True)
class Dev:
    """Held-out data: the score of weights on it, from 0 to 1, and a short name of what that is."""

    score: Callable[[np.ndarray], float]
    measure: str = "score"


@dataclass
class Result:
    """weights: (rows, K); certificate: at those weights; stopped: why, in words."""

    weights: np.ndarray
    certificate: Certificate
    stopped: str


@blas.one_thread()
def run(
    optimizer: Optimizer,
    limits: Limits,
    trace: Trace,
    dev: Dev | None = None,
    save: SaveState | None = None,
    save_seconds: float = 30.0,
    resume: LoadState | None = None,
    origin: str | None = None,
) -> Result:
    """Train until a limit is reached, then certify.

    save(arrays, text) is called after an epoch when `save_seconds` have passed since the last time;
    resume takes what it was given, and the run goes on to the identical result; `origin` is its
    file, which an error names.
    """
    loop = _Loop(optimizer, limits, trace, dev)
    if resume:
        try:
            loop.restore(*resume)
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as e:
            raise DataError(f"is not of this training, or is damaged ({e})", origin) from e
    saved = time.perf_counter()
    try:
        while loop.stopped is None:
            loop.epoch()
            due = time.perf_counter() - saved >= save_seconds
            if save and due and loop.stopped is None and optimizer.resumable:
                save(*loop.state())
                saved = time.perf_counter()
        return loop.finish()
    except NegativeGapError as e:
        if resume:  # numbers that no training can have led to
            raise DataError(f"is not of this training, or is damaged ({e})", origin) from e
        raise
    finally:
        optimizer.close()


class _Loop:
    def __init__(
        self,
        optimizer: Optimizer,
        limits: Limits,
        trace: Trace,
        dev: Dev | None,
    ):
        self.optimizer, self.limits, self.trace = optimizer, limits, trace
        self.dev_score = dev.score if dev else None
        trace.measure = dev.measure if dev else ""
        self.stopped: str | None = None if limits.epochs > 0 else "no epochs were asked for"
        self.best: float | None = None
        self.best_epoch = 0
        self.best_weights: np.ndarray | None = None
        optimizer.dev_score = self.dev_score
        self.certificate: Certificate | None = None  # at the present weights, if there is one
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def epoch(self) -> None:
        opt, limits = self.optimizer, self.limits
        opt.epoch()
        self.certificate = None
        gap = opt.gap_estimate()
        row = self._row()
        row.gap, row.dual, row.primal = gap, opt.dual, opt.primal
        if gap is not None and opt.dual is not None:
            row.primal = opt.dual + gap
        elif gap is not None and opt.primal is not None:
            row.dual = opt.primal - gap
        if self._near(row):
            opt.finish()
            self.certificate = opt.certify()
            self._certified(row, self.certificate)
            least = limits.gap_at(self.certificate.primal)
            if least is not None and self.certificate.gap <= least:
                kind = "certified gap" if row.certified else "gap (not certified)"
                share = f", {100 * limits.relative:g} % of the primal" if limits.relative else ""
                self.stopped = f"{kind} {row.gap:.2e} <= {least:.3g}{share}"
        if self.dev_score:
            row.dev = self.dev_score(opt.weights())
            if self.best is None or row.dev > self.best:
                self.best, self.best_epoch = row.dev, opt.epochs
                if limits.patience is not None:
                    self.best_weights = opt.weights().copy()
            elif limits.patience is not None and opt.epochs - self.best_epoch >= limits.patience:
                self.stopped = f"no better dev score in {limits.patience} epochs"
        if self.stopped is None:
            self.stopped = opt.done or self._limit()
        row.inference = tally() if (tally := getattr(opt.problem, "tally", None)) else None
        self.trace.add(self._timed(row))

    def _near(self, row: Row) -> bool:
        """Whether the gap may be small enough; where nothing is known of it, a full pass tells."""
        if self.limits.gap is None and self.limits.relative is None:
            return False
        least = self.limits.gap_at(row.primal)
        return row.gap is None or (least is not None and row.gap <= least)

    def _limit(self) -> str | None:
        opt, limits = self.optimizer, self.limits
        if opt.epochs >= limits.epochs:
            return f"{limits.epochs} epochs"
        if limits.oracle_calls is not None and opt.oracle_calls >= limits.oracle_calls:
            return f"{opt.oracle_calls} oracle calls"
        if limits.seconds is not None and time.perf_counter() - self.wall >= limits.seconds:
            return f"{limits.seconds:g} seconds"
        return None

    def finish(self) -> Result:
        opt = self.optimizer
        assert self.stopped is not None
        if self.best_weights is not None and self.best_epoch != opt.epochs:
            weights = self.best_weights
            certificate = certify_primal(opt.problem, opt.lam, weights)
            opt.oracle_calls += opt.problem.n
            self.stopped += f"; weights of epoch {self.best_epoch}"
        elif self.certificate is not None:
            return Result(opt.weights(), self.certificate, self.stopped)
        else:
            opt.finish()
            certificate = opt.certify()
            weights = opt.weights()
        row = self._row()
        self._certified(row, certificate)
        if self.dev_score:
            row.dev = self.dev_score(weights)
        self.trace.add(self._timed(row))
        return Result(weights, certificate, self.stopped)

    def _row(self) -> Row:
        opt = self.optimizer
        return Row(opt.epochs, opt.oracle_calls, opt.updates, 0.0, 0.0)

    def _timed(self, row: Row) -> Row:
        row.oracle_calls = self.optimizer.oracle_calls
        row.seconds = time.perf_counter() - self.wall
        row.cpu_seconds = time.process_time() - self.cpu
        return row

    def _certified(self, row: Row, certificate: Certificate) -> None:
        row.primal, row.dual, row.gap = certificate.primal, certificate.dual, certificate.gap
        row.certified = bool(self.optimizer.problem.certified)

    def state(self) -> tuple[dict[str, np.ndarray], str]:
        """All that decides how the run goes on."""
        opt = self.optimizer
        arrays = dict(opt.state())
        if self.best_weights is not None:
            arrays["best_weights"] = self.best_weights
        text = {
            "epochs": opt.epochs,
            "oracle_calls": opt.oracle_calls,
            "updates": opt.updates,
            "random": opt.rng.bit_generator.state,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "seconds": time.perf_counter() - self.wall,
            "cpu_seconds": time.process_time() - self.cpu,
            "rows": [asdict(r) for r in self.trace.rows],
        }
        return arrays, json.dumps(text)

    def restore(self, arrays: dict[str, np.ndarray], text: str) -> None:
        opt, saved = self.optimizer, json.loads(text)
        counts = [saved[k] for k in ("epochs", "oracle_calls", "updates", "best_epoch")]
        best = 0.0 if saved["best"] is None else saved["best"]
        numbers = [saved["seconds"], saved["cpu_seconds"], best]
        if not all(type(n) is int and 0 <= n < 1 << 62 for n in counts):
            raise ValueError(f"it counts {counts}")
        if not all(type(x) in (int, float) for x in numbers):
            raise ValueError(f"its times and best score are {numbers}")
        opt.restore(arrays)
        opt.epochs, opt.oracle_calls = saved["epochs"], saved["oracle_calls"]
        opt.updates = saved["updates"]
        opt.rng.bit_generator.state = saved["random"]
        if opt.rng.bit_generator.state != saved["random"]:  # some NumPy makes it fit
            raise ValueError("its random state is none")
        self.best, self.best_epoch = saved["best"], saved["best_epoch"]
        self.best_weights = arrays.get("best_weights")
        if self.best_weights is not None and self.best_weights.shape != opt.problem.shape:
            raise ValueError(f"best_weights are {self.best_weights.shape}")
        if self.best_weights is not None and not np.isfinite(self.best_weights).all():
            raise ValueError("best_weights are not finite")
        self.wall -= saved["seconds"]
        self.cpu -= saved["cpu_seconds"]
        for row in saved["rows"]:
            self.trace.add(Row(**row))
