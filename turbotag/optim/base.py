"""What all optimizers share: declared parameters and losses, counters, certificate, saved state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from turbotag.errors import UsageError
from turbotag.optim.certificate import Certificate, certify_dual, certify_primal
from turbotag.optim.problem import Problem


@dataclass(frozen=True)
class Param:
    """A parameter of an optimizer: drives the command line, the defaults, the checks and the help.

    The type of a parameter is that of its default. least, most: the ends of its range, both
    excluded if `open`; shown: what help shows in place of a default that does not speak for itself.
    """

    name: str
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    open: bool = False
    shown: str = ""

    def check(self, value: Any) -> None:
        """Refuse a value of another type, or outside of the range."""
        if self.choices:
            if value not in self.choices:
                raise UsageError(
                    f"{self.name} is {value!r}: it must be one of {', '.join(self.choices)}"
                )
            return
        kind = type(self.default)
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise UsageError(f"{self.name} is {value!r}: it must be {KINDS[kind]}")
        inside = self.least < value < self.most if self.open else self.least <= value <= self.most
        if not inside:
            raise UsageError(f"{self.name} is {value}: it must {self.range()}")

    def range(self) -> str:
        """The range in words."""
        if math.isinf(self.most):
            return f"be above {self.least:g}" if self.open else f"be at least {self.least:g}"
        return f"lie between {self.least:g} and {self.most:g}"

    @property
    def shown_default(self) -> str:
        return self.shown or ("no" if self.default is False else str(self.default))


KINDS = {bool: "True or False", int: "a whole number", float: "a number"}

# The structures of problems. EXACT: log Z and marginals are exact. SECOND_ORDER: parses with arc
# pairs, log Z is a convex upper bound. LOOPY: the same, log Z by loopy belief propagation.
EXACT = ("multiclass", "chain", "tree", "projective")
SECOND_ORDER, LOOPY = "second-order", "loopy"
# A chain whose weights are coefficients of kernel functions (structures/kernel_problem; from Python
# only). It needs an optimizer that takes norms of weights from the problem, never from the array.
KERNEL_CHAIN = "kernel-chain"

L1 = Param("l1", 0.0, "weight S of S |w|_1 beside lambda/2 |w|^2 in the objective", least=0.0)

LOSSES = {
    "any": "any beta and gamma",
    "smooth": "finite beta (crf, softmax-margin, ...)",
    "hinge": "beta = inf (svm, perceptron)",
    "perceptron": "beta = inf, gamma = 0 (perceptron)",
}


OWNERS: dict[str, list[str]] = {}  # name of a parameter -> the optimizers that declare it


def serves(kind: str, beta: float, gamma: float) -> bool:
    if kind == "any":
        return True
    if kind == "smooth":
        return math.isfinite(beta)
    return math.isinf(beta) and (kind == "hinge" or gamma == 0.0)


class Optimizer:
    """One training run on one problem. Subclasses are one file each and read like their paper.

    epochs, oracle_calls and updates count what the trace shows. The oracle is the inference on one
    instance (Problem.oracle, Problem.infer); the calls of line searches are counted too. An epoch
    is n oracle calls for methods that take instances one at a time, and one iteration for batch
    methods.
    """

    name = ""
    reference = ""
    losses = "any"
    structures: tuple[str, ...] = EXACT
    default_epochs = 10
    default_gap: float | None = None
    rounds = False  # whether a run can be resumed only from the end of a round of several epochs
    kept = 0  # how many vectors over its parts are kept for every instance
    unbounded: tuple[str, ...] = ()  # arrays of the state that need not be finite
    params: tuple[Param, ...] = ()

    dual: Any = None  # the present dual objective, where an optimizer keeps it
    primal: Any = None  # the present primal objective, where an optimizer keeps it
    done: str | None = None  # why no further epoch can help; None while one can
    dev_score: Callable[[np.ndarray], float] | None = None  # set by the training loop

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            for p in cls.params:
                OWNERS.setdefault(p.name, []).append(cls.name)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        if not (lam > 0 and np.isfinite(lam)):
            raise UsageError(f"lambda is {lam}: it must be positive and finite")
        self.check_structure(problem.structure)
        self.problem, self.lam, self.rng = problem, lam, rng
        self.param = self.check(problem.beta, problem.gamma, params)
        self.l1 = float(self.param.get(L1.name, 0.0))
        self.epochs = self.oracle_calls = self.updates = 0

    @classmethod
    def check(cls, beta: float, gamma: float, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse a loss or a parameter that this optimizer does not serve; return all parameters,
        those that are not given with their defaults."""
        if not serves(cls.losses, beta, gamma):
            raise UsageError(
                f"{cls.name} serves losses with {LOSSES[cls.losses]}, "
                f"not beta = {beta:g}, gamma = {gamma:g}; sdca and dca serve every loss"
            )
        known = {p.name: p for p in cls.params}
        for name, value in given.items():
            if name not in known:
                takers = ", ".join(sorted({*OWNERS.get(name, ())}))
                others = f", which {takers} take" if takers else ""
                own = ", ".join(known) or "none"
                raise UsageError(
                    f"{cls.name} has no parameter {name!r}{others}; its parameters: {own}"
                )
            known[name].check(value)
        return {p.name: given.get(p.name, p.default) for p in cls.params}

    @classmethod
    def check_structure(cls, structure: str) -> None:
        """Refuse a structure that this optimizer does not serve."""
        if structure not in cls.structures:
            raise UsageError(
                f"{cls.name} serves the structures {', '.join(cls.structures)}, not {structure}"
            )

    @classmethod
    def planes_of(cls, given: dict[str, Any]) -> int:
        """How many arrays as large as the weights are kept beside those that every method needs."""
        return int(
            next((given.get(p.name, p.default) for p in cls.params if p.name == "planes"), 0)
        )

    def epoch(self) -> None:
        """One pass over the data, or one iteration."""
        raise AssertionError("every optimizer has its own")

    def weights(self) -> np.ndarray:
        """The weights to predict with; not to be changed by the caller."""
        raise AssertionError("every optimizer has its own")

    def certify(self) -> Certificate:
        """P, D and the gap at `weights()`, by one full pass."""
        self.oracle_calls += self.problem.n
        return certify_primal(self.problem, self.lam, self.weights())

    def finish(self) -> None:
        """Called before a certificate that may be the last."""

    def conclude(self) -> int:
        """Called when a run is over and its last weights are to be kept; returns the epoch at whose
        end the optimizer had these weights."""
        return self.epochs

    def close(self) -> None:
        """Called at the end of a run, however it ends."""

    def notes(self) -> list[str]:
        """Lines for the log about a finished run."""
        return []

    def gap_estimate(self) -> float | None:
        """A cheap estimate of the gap, or None if only a full pass can tell."""
        return None

    @property
    def resumable(self) -> bool:
        """Whether a checkpoint taken now can be continued to the identical result."""
        return True

    @property
    def state_bytes(self) -> int:
        """Memory of the dual variables, or of what is kept for each instance."""
        return 0

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that an epoch changes, for a checkpoint. Counters and the random state are
        saved by optim/run."""
        raise AssertionError("every optimizer has its own")

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take over a saved state; ValueError or KeyError if that is the state of another
        problem."""
        for name, array in self.checked_state(state).items():
            array[...] = state[name]

    def checked_state(self, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The present state, once a saved one is known to be of the same problem."""
        own = self.state()
        for name, array in own.items():
            found = state[name]
            if found.shape != array.shape or found.dtype != array.dtype:
                raise ValueError(f"{name} is {found.shape} {found.dtype}, expected {array.shape}")
            finite = found.dtype.kind != "f" or name in self.unbounded or np.isfinite(found).all()
            if not finite:
                raise ValueError(f"{name} is not finite")
        return own


class DualOptimizer(Optimizer):
    """An optimizer that keeps a dual point alpha, a distribution alpha_i over the structures of
    each instance, and its weights W = w(alpha) = 1/(lambda n) sum_i F_i (z_i - mu_i)."""

    W: np.ndarray

    def point(self, i: int) -> tuple[np.ndarray, float]:
        """(parts,) stats mu_i of alpha_i, and its entropy over beta or a lower bound of that."""
        raise AssertionError("every dual optimizer has its own")

    def weights(self) -> np.ndarray:
        return self.W

    def certify(self) -> Certificate:
        self.oracle_calls += self.problem.n
        certificate, self.block_gaps = certify_dual(
            self.problem, self.lam, self.W, self.point, self.l1
        )
        self.dual = certificate.dual
        return certificate

    def finish(self) -> None:
        """Recompute W from the dual variables: the rounding of a million updates has moved W away
        from w(alpha), for which the certificate is proven."""
        problem, step = self.problem, 1.0 / (self.lam * self.problem.n)
        self.W[:] = 0.0
        for i in range(problem.n):
            problem.add(i, problem.gold(i) - self.point(i)[0], step, self.W)


def blocks(problem: Problem) -> tuple[np.ndarray, list[np.ndarray]]:
    """A flat array with a slot for the stats of every instance, and a view of each slot."""
    cuts = np.cumsum([0, *(problem.size(i) for i in range(problem.n))])
    flat = np.zeros(int(cuts[-1]))
    return flat, [flat[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
