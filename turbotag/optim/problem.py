"""What an optimizer sees of a training problem: parts, never labels or arcs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Problem(Protocol):
    """n instances under one loss L(beta, gamma); structures/ has the implementations.

    The weights W may be a change v of given ones w0 (`anchor`): scores are then those of w0 + v,
    and what an optimizer minimises, lambda/2 |v|^2 + mean of the losses, is regularised towards w0.
    Its dual has the scores s0 of w0 as a linear term, s0'(mu - z), which `reward` adds.

    Stats, potentials and directions of instance i are flat vectors of size(i) numbers, one for
    each part. Vectors that `oracle` and `gold` return are scratch, valid until their next call.
    """

    n: int
    total: float  # n, unless instances have weights: their sum, as C = 1/(lambda total) has it
    structure: str
    data: Any  # the arrays, for kernels: structures/verbs says what they can do with them
    certified: str  # what a duality gap is proven for; "" where log Z is approximate

    @property
    def beta(self) -> float:
        """Inverse temperature of the loss, inf for a hinge."""
        ...

    @property
    def gamma(self) -> float:
        """Weight of the cost."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        ...

    @property
    def moving(self) -> bool:
        """Whether potentials are more than scores and cost, and that changes from call to call."""
        ...

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of these."""
        ...

    def size(self, i: int) -> int:
        """Number of parts of instance i."""
        ...

    def oracle(
        self, i: int, W: np.ndarray, scale: float = 1.0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, theta, nu): theta = s + gamma p, value = log Z(beta theta)/beta, marginals nu,
        all at the weights scale*W (w0 + scale*W, if there is an anchor).

        Then the loss is value - theta'z and the entropy of nu over beta is value - theta'nu; at
        beta = inf, value is the maximum, nu its indicator and that entropy 0.
        """
        ...

    def potentials(self, i: int, W: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """theta alone."""
        ...

    def infer(
        self, i: int, theta: np.ndarray, beta: float | None = None
    ) -> tuple[float, np.ndarray]:
        """(log Z(beta theta)/beta, marginals) of any potentials."""
        ...

    def kbest(self, i: int, W: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(theta, (m, parts) stats): the m <= k structures with the largest theta'z_y."""
        ...

    def gold(self, i: int) -> np.ndarray:
        """z_i."""
        ...

    def cost(self, i: int, stats: np.ndarray) -> float:
        """p'mu + q."""
        ...

    def reward(self, i: int, stats: np.ndarray) -> float:
        """gamma cost; with an anchor s0'(stats - z); and, if `moving`, what else the last oracle
        call put into theta'stats."""
        ...

    def cost_vector(self, i: int) -> np.ndarray:
        """p."""
        ...

    def norm_sq(self, i: int, d: np.ndarray) -> float:
        """|F_i d|^2."""
        ...

    def add(self, i: int, d: np.ndarray, step: float, W: np.ndarray) -> None:
        """W += step F_i d."""
        ...

    def gram(self, i: int, d: np.ndarray) -> np.ndarray:
        """F_i'F_i d."""
        ...

    def settle(self, i: int, W: np.ndarray, D: np.ndarray, now: float, last: np.ndarray) -> None:
        """W[r] -= (now - last[r]) D[r], last[r] = now for the rows r that instance i reads."""
        ...

    def sq_norm(self, W: np.ndarray) -> float:
        """|w|^2."""
        ...

    def log_count(self, i: int) -> float:
        """log of the number of structures."""
        ...

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """(eta, gain): a step from mu towards nu and a lower bound of the entropy, over beta, that
        the mixture has beyond the mean of its parts (structures/mixture)."""
        ...

    def radius_sq(self) -> np.ndarray:
        """(n,) bounds of |F_i(z_i - z_y)|^2."""
        ...

    def work(self) -> np.ndarray:
        """(n,) relative cost of an oracle call."""
        ...


class SplitProblem(Problem, Protocol):
    """A problem with `moving` potentials that can be held."""

    splits: np.ndarray | None  # what is held, None while it moves

    def hold(self, W: np.ndarray) -> None:
        """From now on, potentials have what they have at these weights."""
        ...

    def restore_splits(self, splits: np.ndarray | None) -> None:
        """Hold what was held before, or nothing; ValueError if it is of another problem."""
        ...


class CliqueProblem(Problem, Protocol):
    """A problem whose distributions factor, so that the exact dual can store and mix them."""

    @property
    def has_cliques(self) -> bool: ...
    def clique_size(self, i: int) -> int: ...
    def clique_oracle(
        self, i: int, W: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, np.ndarray]: ...
    def clique_uniform(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None: ...
    def clique_gold(self, i: int, nu: np.ndarray, log_nu: np.ndarray) -> None: ...
    def clique_stats(self, i: int, mu: np.ndarray) -> np.ndarray: ...
    def clique_entropy(self, i: int, mu: np.ndarray, log_mu: np.ndarray) -> float: ...
    def clique_kl(
        self, i: int, mu: np.ndarray, log_mu: np.ndarray, nu: np.ndarray, log_nu: np.ndarray
    ) -> tuple[float, float]: ...
    def clique_line(
        self, i: int, mu: np.ndarray, nu: np.ndarray, eta: float
    ) -> tuple[float, float]: ...
    def clique_exp(self, log_mu: np.ndarray, mu: np.ndarray) -> None: ...
    def clique_mix(
        self,
        mu: np.ndarray,
        log_mu: np.ndarray,
        nu: np.ndarray,
        log_nu: np.ndarray,
        eta: float,
    ) -> None: ...
