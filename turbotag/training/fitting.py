"""What all trainings share: an optimizer run with checkpoints, and the facts for the header."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import turbotag
from turbotag import blas
from turbotag.corpus.reader import Block
from turbotag.distributed.actors import Actors
from turbotag.distributed.engine import Engine
from turbotag.distributed.shard import Part
from turbotag.distributed.sharded import ShardedSDCA
from turbotag.errors import DataError, UsageError
from turbotag.features import compact
from turbotag.models.model import Model
from turbotag.optim.algorithms import algorithm
from turbotag.optim.base import Optimizer
from turbotag.optim.certificate import Certificate
from turbotag.optim.concave_convex import concave_convex
from turbotag.optim.problem import Problem
from turbotag.optim.run import Dev, Limits, Result, run
from turbotag.optim.trace import Trace
from turbotag.storage import memory
from turbotag.storage.checkpoints import Progress, Stage, sha256
from turbotag.training.fit import Fit
from turbotag.training.options import TrainingOptions

COPIES = 6  # of the weights and of a sentence's parts: what any training needs at once


def versions() -> dict[str, str]:
    import numba

    return {
        "turbotag": turbotag.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


@dataclass
class Fitted:
    """The outcome of one optimizer run, what it adds to the header of a model, and what its
    certificate is proven for."""

    result: Result
    header: dict[str, Any]
    certified: str


def provenance(options: TrainingOptions, block: Block, command: str) -> dict[str, Any]:
    """How a model came to be, for its header."""
    loss = options.fit.loss
    return {
        "loss": {"name": loss.name, "beta": str(loss.beta), "gamma": loss.gamma},
        "seed": options.fit.seed,
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
    how: Fit,
    stage: Stage,
    trace: Trace,
    dev: Dev | None = None,
) -> Fitted:
    """Run the chosen optimizer, from a checkpoint if there is one to resume."""
    chosen = algorithm(how.algorithm)
    if how.loss.difference:
        chosen = concave_convex(chosen)
    exact = how.params.get("dual") == "exact" and getattr(problem, "has_cliques", False)
    size = problem.clique_size if exact else problem.size  # type: ignore[attr-defined]
    sizes = np.array([size(i) for i in range(problem.n)])
    check_memory(problem.shape, sizes, how, dev is not None)
    with _overflow_refused(problem, how.C):
        given = problem, 1.0 / (how.C * problem.total), np.random.default_rng(how.seed)
        optimizer: Optimizer
        if how.dealt and problem.structure in ShardedSDCA.structures:
            engine = _engine(how, stage)
            optimizer = ShardedSDCA(*given, how.dealt, how.threads, engine, **how.params)
        else:
            optimizer = chosen(*given, **how.params)
        stops = how.limits
        for line in describe(optimizer, how, stops):
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
    certified = optimizer.problem.certified
    stage.echo(proof(result.certificate, certified))
    for line in optimizer.notes():
        stage.echo(line)
    settings = {"name": optimizer.name, "C": how.C, "lambda": optimizer.lam, **optimizer.param}
    return Fitted(
        result,
        {
            "algorithm": settings,
            "certificate": certificate,
            "epochs": optimizer.epochs,
            "kept_epoch": result.epoch,
        },
        certified,
    )


def _engine(how: Fit, stage: Stage) -> Callable[[list[Part]], Engine] | None:
    """What makes the shards, None for threads of this process."""
    if how.workers is None:
        return None
    return lambda parts: Actors(parts, how.address, lambda said: stage.echo(f"warning: {said}"))


def finish(
    model: Model,
    options: TrainingOptions,
    progress: Progress,
    calibration: Callable[[], dict[str, Any] | None],
) -> None:
    """Write a trained model if the training has an output, and write it again when it is
    calibrated."""
    if progress.output:
        model.save(progress.output)
    if options.calibration:
        progress.settle(f"{progress.output} is written, but not calibrated")
        found = calibration()
        if found:
            model.set_calibration(found)
            if progress.output:
                model.save(progress.output)
    progress.remove()
    progress.settle(f"{progress.output} is written")


def held_out(block: Block) -> str:
    """A dev file, in a line for the log."""
    return f"{block.path}: held out, {block.n_sentences} sentences, {block.n_tokens} tokens"


def describe(optimizer: Optimizer, how: Fit, stops: Limits) -> list[str]:
    """What a training is about to do, in lines for the log."""
    problem = optimizer.problem
    params = ", ".join(f"{name} {value}" for name, value in optimizer.param.items())
    kind = f"{how.loss.kind}{', not convex' * how.loss.difference}"
    state = f", state {optimizer.state_bytes / 1e6:.1f} MB" if optimizer.state_bytes else ""
    return [
        f"algorithm: {optimizer.name}{f' ({params})' if params else ''}{state}",
        f"loss: {kind} (beta {problem.beta:g}, gamma {problem.gamma:g}); "
        f"C {how.C:g}, lambda {optimizer.lam:.4g}",
        f"until: {stops}",
    ]


def kept(result: Result, epochs: int, measure: str) -> str:
    """Which epoch the weights of a model are from, if the last was not the best on dev."""
    assert result.best is not None
    best, score = result.best
    if result.epoch == best:
        return f"kept: epoch {best} of {epochs}, the best on dev (--keep best)"
    which = "the last epoch" if result.epoch == epochs else f"epoch {result.epoch}"
    return (
        f"kept: {which}, for its certificate; the best on dev was epoch {best}, with "
        f"{measure} {100 * score:.2f} (--keep best)"
    )


def proof(certificate: Certificate, certified: str) -> str:
    """What is known at the end of a training. certified: what the gap is proven for, as in
    Problem."""
    if not certified:
        reason = "as Bethe's log Z is an approximation"
        return f"not certified, {reason}: primal {certificate.primal:.9f}"
    of = "" if certified == "the objective" else f", of {certified}"
    return f"certificate{of}: {certificate}"


def check_memory(
    shape: tuple[int, int], sizes: np.ndarray, how: Fit, dev: bool, anchored: bool = False
) -> None:
    """Refuse a training that does not fit into memory: ten thousand labels have 1e8 transitions.

    shape: of the weights; sizes: (n,) how many numbers are kept for each sentence, if any; dev:
    whether there is a dev set; anchored: whether scores of an old model are still to be computed.
    """
    (rows, K), kept, longest = shape, algorithm(how.algorithm).kept, int(sizes.max())
    twice = dev and how.keep == "best"  # states of the best epoch and of the last
    rounds = how.loss.difference  # whose last one is kept, and the targets of both
    states = (1 + twice) * (1 + rounds)
    vectors = states * (kept + rounds) + anchored  # and the scores by the old model
    copies = COPIES + states * (algorithm(how.algorithm).planes_of(how.params) + rounds)
    need = 8.0 * (vectors * float(sizes.sum()) + copies * rows * K + COPIES * longest)
    free = memory.available()
    if need > free:
        less = ", or an algorithm that keeps less, as dca does" if kept or copies > COPIES else ""
        less += ", or --keep last" if less and twice else ""
        raise DataError(
            f"training needs {need / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are free: "
            f"{rows} rows of {K} weights, {sizes.size} sentences with up to {longest} parts; "
            f"take fewer labels or sentences{less}"
        )


@contextlib.contextmanager
def _overflow_refused(problem: Problem, C: float) -> Iterator[None]:
    """Refuse a training that overflows. Settings have bounds, but values in the data may be of any
    size."""
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        try:
            yield
        except (FloatingPointError, OverflowError) as e:
            raise UsageError(
                f"training overflows with C = {C:g}, beta = {problem.beta:g}, gamma = "
                f"{problem.gamma:g}: choose values, of these or in the data, that are nearer to 1"
            ) from e
