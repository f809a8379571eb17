"""What all trainings share: checks, an optimizer run with checkpoints, and the header's facts."""

from __future__ import annotations

import contextlib
import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import turbotag
from turbotag import blas, losses
from turbotag.corpus import schemes
from turbotag.corpus.reader import Block
from turbotag.errors import DataError, UsageError
from turbotag.features import compact
from turbotag.models import memory
from turbotag.models.checkpoints import Stage, sha256
from turbotag.models.gold import CONSTRAINTS, TASKS, Options
from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate
from turbotag.optim.problem import Problem
from turbotag.optim.run import Dev, Limits, Result, run
from turbotag.optim.trace import Trace

LEAST_C, MOST_C = 1e-12, 1e12  # scripts/torture/extremes.py trains at both
PARSER_GAP = "1%"  # of the primal objective, where an optimizer goes for a gap
KEEP = ("best", "last")  # which epoch's weights a training with a dev file ends with
COPIES = 6  # of the weights and of a sentence's parts: what any training needs at once


def versions() -> dict[str, str]:
    import numba

    return {
        "turbotag": turbotag.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def check(options: Options) -> None:
    """Refuse illegal settings before anything is read."""
    if options.task not in TASKS:
        raise UsageError(f"unknown task {options.task!r}: it is one of {', '.join(TASKS)}")
    loss = losses.loss(options.loss, options.beta, options.gamma)
    algorithm(options.algorithm).check(loss.beta, loss.gamma, options.params)
    if not LEAST_C <= options.C <= MOST_C:
        raise UsageError(f"C is {options.C}: it must lie between {LEAST_C:g} and {MOST_C:g}")
    if options.epochs is not None and options.epochs < 1:
        raise UsageError(f"epochs is {options.epochs}: it must be at least 1")
    stop_gap(options)
    if options.patience is not None and (options.patience < 1 or not options.dev):
        raise UsageError("patience must be at least 1 and needs --dev")
    if options.keep not in KEEP:
        raise UsageError(f"keep is one of {', '.join(KEEP)}")
    if not 0.0 <= options.drop < 1.0:
        raise UsageError(f"drop is {options.drop}: it must lie between 0 and 1")
    if options.seed < 0:
        raise UsageError(f"seed is {options.seed}: it must not be negative")
    for name, limit in (
        ("max-oracle-calls", options.max_oracle_calls),
        ("max-seconds", options.max_seconds),
    ):
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} is {limit}: it must be positive")
    if options.order not in (1, 2):
        raise UsageError(f"order is {options.order}: it is 1 or 2")
    if options.constraints not in CONSTRAINTS:
        raise UsageError(f"constraints is one of {', '.join(CONSTRAINTS)}")
    if options.scheme is not None and options.scheme not in schemes.SCHEMES:
        raise UsageError(f"scheme is one of {', '.join(schemes.SCHEMES)}")


def limits(options: Options) -> Limits:
    """What was asked for, or the algorithm's own defaults."""
    gap, relative = stop_gap(options)
    return Limits(
        options.epochs or algorithm(options.algorithm).default_epochs,
        gap,
        options.patience,
        options.max_oracle_calls,
        options.max_seconds,
        relative,
    )


def stop_gap(options: Options) -> tuple[float | None, float | None]:
    """(the gap to stop at, or the share of the primal objective, as in 1%). The objective of a
    parser is a sum over all words of a sentence, so that no number fits all treebanks."""
    usual = algorithm(options.algorithm).default_gap
    asked = options.stop_gap if options.stop_gap is not None else usual
    if options.task == "parse" and options.stop_gap is None and usual is not None:
        asked = PARSER_GAP
    if asked is None:
        return None, None
    number = str(asked).removesuffix("%")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise UsageError(f"stop-gap is {asked}: it is a positive number, or a percentage, as 1%")
    return (value, None) if number == str(asked) else (None, value / 100.0)


@dataclass
class Fitted:
    """The outcome of one optimizer run, what it adds to a model's header, and what its
    certificate is one of."""

    result: Result
    header: dict[str, Any]
    certified: str


def provenance(options: Options, block: Block, command: str) -> dict[str, Any]:
    """How a model came to be, for its header."""
    loss = losses.loss(options.loss, options.beta, options.gamma)
    return {
        "loss": {"name": loss.name, "beta": str(loss.beta), "gamma": loss.gamma},
        "seed": options.seed,
        "command": command,
        "versions": versions(),
        "data": {
            "name": Path(block.path).name,
            "sha256": sha256(block),
            "sentences": block.n_sentences,
            "tokens": block.n_tokens,
        },
        "licence": options.licence,
    }


@blas.one_thread()
def fit(
    problem: Problem,
    options: Options,
    stage: Stage,
    trace: Trace,
    dev: Dev | None = None,
) -> Fitted:
    """Run the optimizer that `options` ask for, from a checkpoint if there is one to resume."""
    chosen = algorithm(options.algorithm)
    exact = options.params.get("dual") == "exact" and getattr(problem, "has_cliques", False)
    size = problem.clique_size if exact else problem.size  # type: ignore[attr-defined]
    check_memory(problem.shape, np.array([size(i) for i in range(problem.n)]), options)
    with _overflow_refused(problem, options):
        optimizer = chosen(
            problem,
            1.0 / (options.C * problem.n),
            np.random.default_rng(options.seed),
            **options.params,
        )
        stops = limits(options)
        for line in describe(optimizer, options.C, stops):
            stage.echo(line)
        saved = stage.saved()
        result = run(optimizer, stops, trace, dev, stage.saving, saved, stage.checkpoint.path)
        certificate = result.certificate.as_dict()
        if not np.isfinite([*certificate.values()]).all():
            raise FloatingPointError(f"certificate {certificate}")
        W = result.weights
        if not -compact.LARGEST < W.min(initial=0.0) <= W.max(initial=0.0) < compact.LARGEST:
            raise FloatingPointError("weights are too large for a model file")
    stage.echo(f"stopped: {result.stopped}")
    if dev and result.best and optimizer.epochs != result.best[0]:
        stage.echo(kept(result, optimizer.epochs, dev.measure))
    stage.echo(proof(result.certificate, problem.certified))
    settings = {"name": optimizer.name, "C": options.C, "lambda": optimizer.lam, **optimizer.param}
    return Fitted(
        result,
        {
            "algorithm": settings,
            "certificate": certificate,
            "epochs": optimizer.epochs,
            "kept_epoch": result.epoch,
        },
        problem.certified,
    )


def held_out(block: Block) -> str:
    """A dev file, in a line for the log."""
    return f"{block.path}: held out, {block.n_sentences} sentences, {block.n_tokens} tokens"


def describe(optimizer: Optimizer, C: float, stops: Limits) -> list[str]:
    """What a training is about to do, in lines for the log."""
    problem = optimizer.problem
    params = ", ".join(f"{name} {value}" for name, value in optimizer.param.items())
    kind = losses.Loss(problem.beta, problem.gamma).kind
    state = f", state {optimizer.state_bytes / 1e6:.1f} MB" if optimizer.state_bytes else ""
    return [
        f"algorithm: {optimizer.name}{f' ({params})' if params else ''}{state}",
        f"loss: {kind} (beta {problem.beta:g}, gamma {problem.gamma:g}); "
        f"C {C:g}, lambda {optimizer.lam:.4g}",
        f"until: {stops}",
    ]


def kept(result: Result, epochs: int, measure: str) -> str:
    """Which epoch's weights a model has, where the last was not the best on dev."""
    assert result.best is not None
    best, score = result.best
    if result.epoch == best:
        return f"kept: epoch {best} of {epochs}, the best on dev (--keep best)"
    return (
        f"kept: the last epoch, for its certificate; the best on dev was epoch {best}, with "
        f"{measure} {100 * score:.2f} (--keep best)"
    )


def proof(certificate: Certificate, certified: str) -> str:
    """What is known of a training's end. certified: what the gap is proven for, as in Problem."""
    if not certified:
        reason = "as Bethe's log Z is an approximation"
        return f"not certified, {reason}: primal {certificate.primal:.9f}"
    of = "" if certified == "the objective" else f", of {certified}"
    return f"certificate{of}: {certificate}"


def check_memory(shape: tuple[int, int], sizes: np.ndarray, options: Options) -> None:
    """Refuse a training that does not fit: ten thousand labels have 1e8 transitions.

    shape: of the weights; sizes: (n,) numbers that are kept of each sentence, where any are.
    """
    (rows, K), kept, longest = shape, algorithm(options.algorithm).kept, int(sizes.max())
    twice = options.dev is not None and options.keep == "best"  # the best epoch's state, the last's
    vectors = (1 + twice) * kept + bool(options.init)  # and the scores of the old model
    need = 8.0 * (vectors * float(sizes.sum()) + COPIES * (rows * K + longest))
    free = memory.available()
    if need > free:
        less = ", or an algorithm that keeps less, as dca does" if kept else ""
        less += ", or --keep last" if kept and twice else ""
        raise DataError(
            f"training needs {need / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are free: "
            f"{rows} rows of {K} weights, {sizes.size} sentences with up to {longest} parts; "
            f"take fewer labels or sentences{less}"
        )


@contextlib.contextmanager
def _overflow_refused(problem: Problem, options: Options) -> Iterator[None]:
    """Settings are within bounds, but values in the data may be of any size."""
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        try:
            yield
        except (FloatingPointError, OverflowError) as e:
            raise UsageError(
                f"training overflows with C = {options.C:g}, beta = {problem.beta:g}, gamma = "
                f"{problem.gamma:g}: choose values, of these or in the data, that are nearer to 1"
            ) from e
