"""The training loop that all optimizers share: epochs, stopping, certificate, checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from turbotag import blas
from turbotag.errors import DataError
from turbotag.interrupts import pending
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate, NegativeGapError
from turbotag.optim.trace import Row, Trace

State = tuple[dict[str, np.ndarray], str]  # of a run: arrays, and the rest as JSON


@dataclass
class Limits:
    """When to stop.

    epochs: after this many; gap: as soon as a full pass certifies this gap; relative: the same for
    a gap of this share of the primal objective; patience: after this many epochs without a better
    dev score; oracle_calls, seconds: after the epoch in which this many are reached.
    """

    epochs: int
    gap: float | None = None
    patience: int | None = None
    oracle_calls: int | None = None
    seconds: float | None = None
    relative: float | None = None

    def gap_at(self, primal: float | None) -> float | None:
        """The gap to stop at, for this primal objective; None if no gap is asked for."""
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
    """Held-out data. score: from the weights to their score on it, from 0 to 1; measure: a short
    name of the score; keep: "best" for the weights of the epoch with the best score, "last" for
    those of the last epoch."""

    score: Callable[[np.ndarray], float]
    measure: str = "score"
    keep: str = "best"


@dataclass
class Result:
    """weights: (rows, K); certificate: at those weights; stopped: why the run ended, in words;
    epoch: the one at whose end the weights were these; best: the epoch with the best dev score, and
    that score."""

    weights: np.ndarray
    certificate: Certificate
    stopped: str
    epoch: int
    best: tuple[int, float] | None = None


@dataclass(frozen=True)
class Saving:
    """How the states of a run are saved: write(arrays, text) puts a state on disk.

    `write` is called after an epoch if `seconds` have passed since the last call, or if a signal
    waits until a state is saved (turbotag/interrupts). With `last` it is called after the last
    epoch too; without `last` the caller writes the result itself, and then settles that signal.
    """

    write: Callable[[dict[str, np.ndarray], str], None]
    seconds: float = 30.0
    last: bool = False


@dataclass
class _Best:
    """The best score so far on held-out data; epoch, first: the last and the first epoch with that
    score; updates, state: of the optimizer at the end of `epoch`, state empty if the weights of the
    last epoch are to be kept."""

    score: float
    epoch: int
    first: int
    updates: int
    state: dict[str, np.ndarray]


@blas.one_thread()
def run(
    optimizer: Optimizer,
    limits: Limits,
    trace: Trace,
    dev: Dev | None = None,
    saving: Saving | None = None,
    resume: State | None = None,
    origin: str | None = None,
) -> Result:
    """Train until a limit is reached, then certify.

    resume: a state that was saved, from which the run goes on to the identical result; `origin` is
    its file, which an error names.
    """
    loop = _Loop(optimizer, limits, trace, dev)
    if resume:
        try:
            loop.restore(*resume)
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as e:
            raise DataError(f"is not a state of this training, or is damaged ({e})", origin) from e
    saver = _Saver(loop, saving) if saving else None
    try:
        while loop.stopped is None:
            loop.epoch()
            if saver:
                saver.look()
        return loop.finish()
    except BaseException as e:
        pending.work = ""
        if isinstance(e, NegativeGapError) and resume:  # no training leads to such a state
            raise DataError(f"is not a state of this training, or is damaged ({e})", origin) from e
        raise
    finally:
        optimizer.close()


class _Saver:
    """Puts the states of a loop on disk."""

    def __init__(self, loop: _Loop, saving: Saving):
        self.loop, self.saving = loop, saving
        self.written = time.perf_counter()
        self.unsaved = False  # whether the last state that a run can go on from is not yet on disk

    def look(self) -> None:
        """After an epoch: save if it is time to, or if a signal waits for it."""
        loop, over = self.loop, self.loop.stopped is not None
        fresh = loop.optimizer.resumable or over
        late = fresh and time.perf_counter() - self.written >= self.saving.seconds
        self.unsaved |= fresh
        if self.unsaved and ((self.saving.last if over else late) or pending.number):
            self.saving.write(*loop.point())
            self.written, self.unsaved = time.perf_counter(), False
            pending.settle()
        work = "the last pass" if over else f"epoch {loop.optimizer.epochs + 1}"
        pending.work = work if self.unsaved else ""


class _Loop:
    def __init__(
        self,
        optimizer: Optimizer,
        limits: Limits,
        trace: Trace,
        dev: Dev | None,
    ):
        self.optimizer, self.limits, self.trace = optimizer, limits, trace
        self.dev = dev
        trace.measure = dev.measure if dev else ""
        self.stopped: str | None = None if limits.epochs > 0 else "no epochs were asked for"
        self.best: _Best | None = None
        self.round: State | None = None  # the state at the start of the optimizer's present round
        optimizer.dev_score = dev.score if dev else None
        self.certificate: Certificate | None = None  # at the present weights, if there is one
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def epoch(self) -> None:
        opt = self.optimizer
        if opt.rounds and opt.resumable and opt.epochs:
            arrays, text = self.state()
            self.round = {name: array.copy() for name, array in arrays.items()}, text
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
        if self.dev:
            row.dev = self.dev.score(opt.weights())
            self.best = self._better(row.dev, self.dev.keep == "best")
        self.stopped = self._reason()
        row.inference = tally() if (tally := getattr(opt.problem, "tally", None)) else None
        self.trace.add(self._timed(row))

    def _near(self, row: Row) -> bool:
        """Whether the gap may be small enough to stop; True where only a full pass can tell."""
        if self.limits.gap is None and self.limits.relative is None:
            return False
        least = self.limits.gap_at(row.primal)
        # an infinite gap makes the primal, and a share of it, infinite too
        return row.gap is None or (least is not None and row.gap <= least < math.inf)

    def _better(self, score: float, keep: bool) -> _Best:
        """The best epoch now: of equally good ones the last, as the gap falls with the epochs."""
        opt, best = self.optimizer, self.best
        if best and score < best.score:
            return best
        first = best.first if best and score == best.score else opt.epochs
        state = {name: array.copy() for name, array in opt.state().items()} if keep else {}
        return _Best(score, opt.epochs, first, opt.updates, state)

    def _reason(self) -> str | None:
        """Why the run is over, if it is."""
        opt, limits, best = self.optimizer, self.limits, self.best
        proof = self.certificate
        least = limits.gap_at(proof.primal) if proof else None
        if proof and least is not None and proof.gap <= least:
            kind = "certified gap" if opt.problem.certified else "gap (not certified)"
            share = f", {100 * limits.relative:g} % of the primal" if limits.relative else ""
            return f"{kind} {proof.gap:.2e} <= {least:.3g}{share}"
        if opt.done:
            return opt.done
        if best and limits.patience is not None and opt.epochs - best.first >= limits.patience:
            return f"no better dev score in {limits.patience} epochs"
        if opt.epochs >= limits.epochs:
            return f"{opt.epochs} epochs"
        if limits.oracle_calls is not None and opt.oracle_calls >= limits.oracle_calls:
            return f"{opt.oracle_calls} oracle calls"
        if limits.seconds is not None and time.perf_counter() - self.wall >= limits.seconds:
            return f"{limits.seconds:g} seconds"
        return None

    def finish(self) -> Result:
        opt, row = self.optimizer, self._row()
        assert self.stopped is not None
        best = (self.best.epoch, self.best.score) if self.best else None
        if self.best and self.best.state and self.best.epoch != opt.epochs:
            opt.restore(self.best.state)  # with its dual point, if any: the gap is of that epoch
            opt.updates, row.epoch = self.best.updates, self.best.epoch
        elif self.certificate is not None:
            return Result(opt.weights(), self.certificate, self.stopped, opt.epochs, best)
        else:
            row.epoch = opt.conclude()
        opt.finish()
        certificate, weights = opt.certify(), opt.weights()
        self._certified(row, certificate)
        if self.dev:
            row.dev = self.dev.score(weights)
        self.trace.add(self._timed(row))
        return Result(weights, certificate, self.stopped, row.epoch, best)

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

    def point(self) -> State:
        """The last state that the run can go on from."""
        if self.optimizer.resumable or self.stopped is not None:
            return self.state()
        assert self.round is not None
        return self.round

    def state(self) -> State:
        """All that decides how the run goes on."""
        opt = self.optimizer
        best = self.best or _Best(0.0, 0, 0, 0, {})
        arrays = opt.state() | {f"best.{name}": array for name, array in best.state.items()}
        text = {
            "epochs": opt.epochs,
            "oracle_calls": opt.oracle_calls,
            "updates": opt.updates,
            "random": opt.rng.bit_generator.state,
            "done": opt.done,
            "certificate": self.certificate and self.certificate.as_dict(),
            "best": [best.score, best.epoch, best.first, best.updates],
            "seconds": time.perf_counter() - self.wall,
            "cpu_seconds": time.process_time() - self.cpu,
            "rows": [asdict(r) for r in self.trace.rows],
        }
        return arrays, json.dumps(text)

    def restore(self, arrays: dict[str, np.ndarray], text: str) -> None:
        opt, saved = self.optimizer, json.loads(text)
        score, *best = saved["best"]
        counts = [saved[k] for k in ("epochs", "oracle_calls", "updates")] + best
        proof = saved["certificate"] and Certificate(**saved["certificate"])
        numbers = [saved["seconds"], saved["cpu_seconds"], score]
        numbers += [*proof.as_dict().values()] if proof else []
        if not all(type(n) is int and 0 <= n < 1 << 62 for n in counts):
            raise ValueError(f"its counters are {counts}")
        if not all(type(x) in (int, float) for x in numbers) or not np.isfinite(numbers).all():
            raise ValueError(f"its times and scores are {numbers}")
        if not isinstance(saved["done"], (str, type(None))):
            raise ValueError(f"its reason to stop is {saved['done']}")
        epoch, first, updates = best
        state = {k.removeprefix("best."): v for k, v in arrays.items() if k.startswith("best.")}
        if epoch:
            self.best = _Best(score, epoch, first, updates, state)
        if state:
            opt.restore(state)  # a check only: `finish` may need this state
        opt.restore(arrays)
        opt.epochs, opt.oracle_calls = saved["epochs"], saved["oracle_calls"]
        opt.updates = saved["updates"]
        opt.rng.bit_generator.state = saved["random"]
        if opt.rng.bit_generator.state != saved["random"]:  # some versions of NumPy repair it
            raise ValueError("its random state is not valid")
        opt.done, self.certificate = saved["done"], proof
        self.wall -= saved["seconds"]
        self.cpu -= saved["cpu_seconds"]
        for row in saved["rows"]:
            self.trace.add(Row(**row))
        self.stopped = self._reason()
