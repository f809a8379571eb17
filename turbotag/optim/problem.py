"""What an optimizer sees of a training problem: parts, never labels or arcs.

The names of all files in optim/: A *part* is what gets a score: a label of a word or a pair of
neighbouring labels in a chain, an arc or a pair of arcs in a parse. The *stats* of a structure say
which parts it has, as zeros and ones; the stats mu of a distribution over structures are their
expectations, also called marginals. z are the stats of the gold structure. F maps stats to
features: scores are s = F'w, and *potentials* theta = s + gamma p, where cost(mu) = p'mu + q. The
*oracle* is the inference on one instance: log Z and marginals of its potentials.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Problem(Protocol):
    """n instances under one loss L(beta, gamma); structures/ has the implementations.

    After `anchor(w0)` the weights W are a change v of w0: scores are those of w0 + v, and the
    objective, lambda/2 |v|^2 + mean of the losses, is regularised towards w0. The dual of that has
    the scores s0 of w0 in a linear term, s0'(mu - z), which `reward` adds.

    Stats, potentials and directions of instance i are flat vectors of size(i) numbers, one for
    each part. Vectors that `oracle` and `gold` return are scratch, valid until their next call.
    """

    n: int
    total: float  # sum of the weights of instances, n without any: C = 1/(lambda total)
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
        """Whether potentials have a term beside scores and cost that changes from call to call."""
        ...

    def anchor(self, W: np.ndarray) -> None:
        """From now on, weights are changes of this W: (rows, K)."""
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
        """theta as in `oracle`, without inference."""
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
        """z_i: (parts,) stats of the gold structure."""
        ...

    def cost(self, i: int, stats: np.ndarray) -> float:
        """The cost p'stats + q of a structure, or its expectation."""
        ...

    def reward(self, i: int, stats: np.ndarray) -> float:
        """What the dual has for these stats beside the entropy: gamma cost; with an anchor
        s0'(stats - z); and, if `moving`, the share in theta'stats of the moving term, as the last
        oracle call had it."""
        ...

    def cost_vector(self, i: int) -> np.ndarray:
        """(parts,) p: the cost of each part."""
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
        """|W|^2."""
        ...

    def log_count(self, i: int) -> float:
        """log of the number of structures of instance i."""
        ...

    def mixture_step(
        self, i: int, mu: np.ndarray, nu: np.ndarray, gap: float, curvature: float, search: bool
    ) -> tuple[float, float]:
        """(eta, gain): the size of a step from mu towards nu, and a lower bound of what the mixture
        (1-eta) mu + eta nu has in entropy, over beta, beyond the mean of the entropies of mu and nu
        (structures/mixture)."""
        ...

    def radius_sq(self) -> np.ndarray:
        """(n,) bounds of |F_i(z_i - z_y)|^2."""
        ...

    def work(self) -> np.ndarray:
        """(n,) relative cost of an oracle call."""
        ...


class SplitProblem(Problem, Protocol):
    """A problem with `moving` potentials, whose moving term can be held: splits of arc scores
    (structures/second_order_problem)."""

    splits: np.ndarray | None  # the term as it is held, None while it moves

    def hold(self, W: np.ndarray) -> None:
        """From now on, the moving term stays what it is at these weights."""
        ...

    def restore_splits(self, splits: np.ndarray | None) -> None:
        """Hold the term of a saved state, nothing if that is None; ValueError if it is of another
        problem."""
        ...


class CliqueProblem(Problem, Protocol):
    """A problem whose distributions factor into cliques, so that the exact dual can store and mix
    them. mu, nu: (clique_size(i),) clique marginals; log_mu, log_nu: their logarithms."""

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
