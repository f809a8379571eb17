"""Verbs: what a kernel can do with the data of any problem, resolved by the type of the data.

An optimizer's epoch is one compiled loop over instances, the same for every structure. It gets the
arrays of a problem as one NamedTuple, whose class tells the structure, and calls the verbs below.
When numba compiles the loop, it puts in the kernel that was given for that class (`implement`). So
the loop is compiled only for structures that are trained, runs without the lock of the interpreter,
and is kept on disk. Python can call a verb too: optim/problem.Problem is made of them.

The data of every problem has a field `parts` (n+1,): the parts of instance i are
parts[i]:parts[i+1] of a vector over the parts of all instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class verb:
    """A function, for kernels and for Python, with an implementation for each type of data."""

    def __init__(self, function: Callable[..., Any]):
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__name__ = self.__qualname__ = function.__name__
        self.served: dict[tuple[type, ...], Any] = {}  # the kernels that implement it, by classes
        self._depth = 0  # of how many arguments the classes are

    def __call__(self, *arguments: Any) -> Any:
        """For Python, which calls the kernel itself: one more around it would have to be compiled
        for every structure."""
        classes = tuple(map(type, arguments[: self._depth]))
        if classes not in self.served:
            raise TypeError(f"{self.__name__} of {', '.join(c.__name__ for c in classes)}")
        return self.served[classes](*arguments)

    def __reduce__(self) -> str:
        """For numba's cache, which tells verbs apart by their names."""
        return self.__name__

    def implement(self, *classes: type) -> Callable[[Any], Any]:
        """Decorates the kernel that implements this verb where the first argument is of the first
        class, the second of the second class, and so on."""
        from numba.extending import overload

        def register(kernel: Any) -> Any:
            def choose(*types):  # type: ignore[no-untyped-def]
                found = [getattr(t, "instance_class", None) for t in types[: len(classes)]]
                return kernel.py_func if found == [*classes] else None

            overload(self, strict=False, jit_options=kernel.targetoptions)(choose)
            self.served[classes], self._depth = kernel, len(classes)
            return kernel

        return register


@verb
def oracle(data, i, W, scale, theta, nu):  # type: ignore[no-untyped-def]
    """log Z(beta theta)/beta at the weights scale*W; the potentials into theta, the marginals into
    nu. With beta = inf it is the maximum, and nu its indicator."""


@verb
def potentials(data, i, W, scale, theta):  # type: ignore[no-untyped-def]
    """The potentials s + gamma p alone into theta."""


@verb
def infer(loss, domain, theta, nu):  # type: ignore[no-untyped-def]
    """log Z(beta theta)/beta over the structures of a domain, the marginals into nu."""


@verb
def indicator(domain, structure, z):  # type: ignore[no-untyped-def]
    """The stats of one structure of a domain into z."""


@verb
def gold(data, i, z):  # type: ignore[no-untyped-def]
    """The stats of the right answer into z."""


@verb
def cost(data, i, mu):  # type: ignore[no-untyped-def]
    """The expected cost of the stats mu: p'mu + q."""


@verb
def reward(data, i, theta, mu):  # type: ignore[no-untyped-def]
    """gamma cost(mu), and what the potentials theta hold beside the cost and the scores of W:
    s0'(mu - z) of an anchor; of a split, what it gives to mu."""


@verb
def norm_sq(data, i, d):  # type: ignore[no-untyped-def]
    """|F_i d|^2: the squared length of a direction d of the parts, in the space of weights."""


@verb
def add(data, i, d, step, W):  # type: ignore[no-untyped-def]
    """W += step F_i d."""


@verb
def shrink(data, i, V, threshold, W):  # type: ignore[no-untyped-def]
    """W = soft(V, threshold) in the rows that instance i reads."""


@verb
def rows_of(data, i):  # type: ignore[no-untyped-def]
    """The rows of W that `add` changes; a row may be listed several times."""


@verb
def mixture_step(data, i, mu, nu, gap, curvature, search):  # type: ignore[no-untyped-def]
    """(eta, gain): a step from mu towards nu, and what the mixture gains (structures/mixture)."""


# ---- Parts of data -------------------------------------------------------------------------------


class Smooth(NamedTuple):
    """A loss with a sum over structures: beta < inf."""

    beta: float
    gamma: float


class Hinge(NamedTuple):
    """A loss with a maximum over structures: beta = inf."""

    beta: float
    gamma: float


Loss = Smooth | Hinge


def loss_of(beta: float, gamma: float) -> Loss:
    return (Hinge if beta == math.inf else Smooth)(float(beta), float(gamma))


def begins(sizes: np.ndarray) -> np.ndarray:
    """`parts`, from the number of parts (n,) of each instance."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def chosen_ranges(cuts: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranges cuts[i]:cuts[i+1] for i in `own`, put one after another: their new cuts, and the
    old number of each entry. Every class of data has a method `chosen(own)` made of this: the data
    of some instances alone, for a worker that has no others."""
    sizes = np.diff(cuts)[own]
    new = begins(sizes).astype(cuts.dtype)
    return new, np.repeat(cuts[:-1][own] - new[:-1], sizes) + np.arange(new[-1])
