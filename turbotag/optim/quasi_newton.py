"""What SciPy's batch methods share (optim/lbfgs, optim/cg): one iteration an epoch.

SciPy's loops cannot be saved in the middle, so they run in rounds of ROUND iterations, each begun
afresh at the last weights. A checkpoint is taken only between rounds, and a resumed run gives the
identical result. That SciPy forgets the curvature after a round costs a few iterations in a
hundred.
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np

from turbotag import blas
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate, objective
from turbotag.optim.problem import Problem

ROUND = 100


class _Stopped(Exception):
    """Raised inside SciPy's thread when the optimizer is given up."""


class QuasiNewton(Optimizer):
    losses = "smooth"
    default_epochs = 1000
    default_gap = 1e-3
    rounds = True
    method = ""
    options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.W = np.zeros(problem.shape)
        self.last: Certificate | None = None
        self.round: _Round | None = None

    def epoch(self) -> None:
        """One iteration: to the next point that SciPy accepts."""
        if not self.W.size:
            self.epochs += 1
            self.done = "there are no weights"
            return
        if self.round is None:
            self.round = _Round(self)
        found = self.round.next()
        self.epochs += 1
        if found is None:  # SciPy's line search fails: at the optimum, or by a bad memory of steps
            if self.round.iterations == 0:
                self.done = "the line search finds no better point"
            self.round = None
            return
        self.W[:] = found.reshape(self.W.shape)
        self.last = self.round.certificate_at(found)
        self.primal = self.last.primal
        self.updates += 1
        if self.round.iterations == ROUND:
            self.round.stop()
            self.round = None

    def evaluate(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        value, grad = objective(self.problem, self.lam, w.reshape(self.W.shape))
        self.oracle_calls += self.problem.n
        return value, grad.reshape(-1)

    def gap_estimate(self) -> float | None:
        return self.last.gap if self.last else None

    def weights(self) -> np.ndarray:
        return self.W

    @property
    def resumable(self) -> bool:
        return self.round is None

    def state(self) -> dict[str, np.ndarray]:
        return {"W": self.W}

    def close(self) -> None:
        if self.round is not None:  # the thread of a round would wait, and hold the data, for ever
            self.round.stop()
            self.round = None


class _Round:
    """SciPy's loop in a thread of its own, which stands still between two iterations."""

    def __init__(self, optimizer: QuasiNewton):
        from scipy.optimize import minimize  # here, as it takes a third of a second to import

        self.lam, self.problem = optimizer.lam, optimizer.problem
        self.points: queue.Queue[Any] = queue.Queue()
        self.go = threading.Semaphore(0)
        self.stopping = False
        self.iterations = 0
        self.evaluated: tuple[np.ndarray, float, float] | None = None
        self.evaluate = optimizer.evaluate
        evaluate, start = optimizer.evaluate, optimizer.W.reshape(-1).copy()
        options = {"maxiter": ROUND, **optimizer.options}

        def function(w: np.ndarray) -> tuple[float, np.ndarray]:
            value, grad = evaluate(w)
            self.evaluated = w.copy(), value, float(grad @ grad)
            if not np.isfinite(self.evaluated[1:]).all():
                raise FloatingPointError("the objective or its gradient overflows")
            return value, grad

        def callback(w: np.ndarray) -> None:
            self.points.put(w.copy())
            self.go.acquire()
            if self.stopping:
                raise _Stopped

        settings = {"method": optimizer.method, "callback": callback, "options": options}

        def work() -> None:
            try:
                self.go.acquire()
                if not self.stopping:
                    # `function` raises if a number is not finite; SciPy has a BLAS of its own
                    with blas.one_thread(), np.errstate(all="ignore"):
                        minimize(function, start, jac=True, **settings)
                self.points.put(None)
            except _Stopped:
                pass
            except BaseException as e:
                self.points.put(e)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def next(self) -> np.ndarray | None:
        """The next accepted point, None if there is none."""
        self.go.release()
        found = self.points.get()
        if isinstance(found, BaseException):
            raise found
        if found is not None:
            self.iterations += 1
        return found

    def certificate_at(self, w: np.ndarray) -> Certificate:
        """P and |grad|^2/(2 lambda) at an accepted point: nearly always the last one evaluated."""
        if self.evaluated is None or not np.array_equal(self.evaluated[0], w):
            value, grad = self.evaluate(w)
            self.evaluated = w, value, float(grad @ grad)
        _, value, square = self.evaluated
        gap = square / (2.0 * self.lam)
        return Certificate(value, value - gap, gap)

    def stop(self) -> None:
        self.stopping = True
        self.go.release()
        self.thread.join(5.0)
