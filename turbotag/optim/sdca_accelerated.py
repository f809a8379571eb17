"""Accelerated SDCA: proximal points with momentum, each found by SDCA to a certified gap.

Lin, Mairal and Harchaoui (2015), "A universal catalyst for first-order optimization";
Shalev-Shwartz and Zhang (2016) accelerate prox-SDCA in the same way. With q = lambda/(lambda +
kappa) the outer iteration is
    x_k = argmin_w P(w) + kappa/2 |w - y_{k-1}|^2,      found inexactly,
    y_k = x_k + (1 - sqrt q)/(1 + sqrt q) (x_k - x_{k-1}).
The inner problem is P with lambda + kappa in place of lambda, around c = kappa y/(lambda + kappa):
its weights are w = c + v, v = 1/((lambda + kappa) n) sum_i F_i (z_i - mu_i), and a step of SDCA on
it is the step of optim/sdca with another scale, as the scores are those of w. Its dual variables
stay when y moves, and the mean of its block gaps is its duality gap. It is solved until a full pass
certifies a gap of at most delta kappa/2 |w - y|^2 with delta = sqrt q / (2 - sqrt q).

kappa: SDCA needs about 1 + X epochs to make the gap smaller by a factor e, where X lambda is the
curvature that all instances have together; with acceleration it is the square root of that, at
best. So the run begins with plain SDCA (kappa = 0), whose rate tells X; if SDCA becomes slow,
kappa = (X - 1) lambda makes the inner problem one of X = 1. A stall of a few epochs can make the
estimate of X far too large, and a few epochs cannot show a very large X. So kappa is halved after
an inner problem that takes FEW epochs or less; it is doubled, and the outer iteration starts again
at the present weights, if an inner problem is not solved in MANY. The dual variables are a dual
point of the original problem too, with w(alpha) = v (lambda + kappa)/lambda: the certificate is of
that problem.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from turbotag.lean import kernel
from turbotag.optim.base import EXACT, Optimizer, Param
from turbotag.optim.certificate import Certificate, check_gap, primal_value, proven
from turbotag.optim.epochs import dot, scratch, slices, three
from turbotag.optim.problem import Problem
from turbotag.optim.sampling import Sampler
from turbotag.optim.sdca import NOBODY, CompactDual, Visits, is_gap
from turbotag.structures.verbs import add, gold, oracle

WATCHED = 6  # epochs of plain SDCA whose rate tells how slow it is
SLOW = 4.0  # the least X for which acceleration is begun
SLOWEST = 0.98  # the factor an epoch that is taken for any factor nearer to 1, or above 1
FEW, MANY = 4, 20  # epochs of an inner problem whose kappa is too large, or too small
TINY = 1e-300


class Squares(NamedTuple):
    """|w|^2, |w - y|^2, |w(alpha)|^2 and |w - w(alpha)|^2, w(alpha) of the original problem."""

    w: float
    w_less_y: float
    w_alpha: float
    w_less_w_alpha: float


class AcceleratedSDCA(Optimizer):
    name = "sdca-accelerated"
    reference = "Lin, Mairal and Harchaoui 2015 around sdca; Shalev-Shwartz and Zhang 2016"
    losses = "smooth"
    structures = EXACT
    default_epochs = 1000
    default_gap = 1e-3
    kept = 1
    params = (
        Param(
            "kappa",
            0.0,
            "weight of the proximal term in units of lambda; 0 finds it from the rate of sdca",
            least=0.0,
            shown="found",
        ),
        Param("nonuniform", 0.8, "share of draws by gap", least=0.0, most=1.0),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        n = problem.n
        self.W, self.c = np.zeros(problem.shape), np.zeros(problem.shape)  # w = c + v
        self.x, self.y = np.zeros(problem.shape), np.zeros(problem.shape)
        self.duals = CompactDual(problem, lam)
        self.gaps = np.ones(n)
        self.sampler = Sampler("gap", self.param["nonuniform"], np.ones(n))
        self.seen = np.zeros(WATCHED)  # estimated gaps of the last epochs, the newest last
        self.kappa = np.zeros(1)
        self.since = np.zeros(1, np.int64)  # epochs on the present inner problem
        self.dual: float = 0.0
        self.rewards = np.zeros(1)  # mean over instances of entropy + reward of the dual variables
        self.squares = Squares(0.0, 0.0, 0.0, 0.0)
        if self.param["kappa"] > 0.0:
            self._begin(lam * self.param["kappa"])

    def epoch(self) -> None:
        """n steps of SDCA on the inner problem; then the next proximal point, if it is found."""
        n = self.problem.n
        draws = self.rng.random((n, 2))
        first = self.rng.permutation(n) if self.epochs == 0 else NOBODY
        gains, before = 0.0, self.squares.w
        for part in slices(n):
            steps = first[part], draws[part], self.sampler.weights
            gains = self.duals.steps(Visits(*steps, self.gaps), self.W, gains)
        self.oracle_calls += n
        self.updates += n
        if self.kappa[0] > 0.0:
            # gains are of the inner dual, which is rewards - (lambda + kappa)/2 |w|^2 + constant
            self._measure()
            self.rewards += gains + self.duals.scale / n * 0.5 * (self.squares.w - before)
            self.dual = float(self.rewards[0]) - 0.5 * self.lam * self.squares.w_alpha
            self.since += 1
            wanted = self._wanted()
            if self.gaps.mean() <= wanted and self._inner_gap() <= wanted:
                self._next()
            elif self.since[0] >= MANY and not self.param["kappa"]:
                self._from_here(2.0 * float(self.kappa[0]))
        else:
            self.dual += gains
            self.seen[:] = [*self.seen[1:], self.gaps.mean()]
            if self.epochs >= WATCHED + 1:  # the first two epochs are fast on every problem
                self._decide()
        self.epochs += 1

    def _decide(self) -> None:
        """Begin to accelerate if plain SDCA is slow; an epoch makes its gap rho times as large."""
        early, late = self.seen[0], self.seen[-1]
        rho = min((late / max(early, late, TINY)) ** (1.0 / (WATCHED - 1)), SLOWEST)
        X = rho / (1.0 - rho)
        if X >= SLOW:
            self._begin((X - 1.0) * self.lam)

    def _begin(self, kappa: float) -> None:
        """Add a proximal term from now on."""
        self.rewards[0] = self.dual + 0.5 * self.lam * self.problem.sq_norm(self.W)
        self._from_here(kappa)

    def _from_here(self, kappa: float) -> None:
        """Start the outer iteration again at the present weights, with another kappa."""
        self.since[0] = 0
        self.x[:], self.y[:] = self.W, self.W
        self._scale(kappa)
        self._around()

    def _scale(self, kappa: float) -> None:
        self.kappa[0] = kappa
        self.duals.scale = (self.lam + kappa) * self.problem.n

    def _around(self) -> None:
        """Put the inner problem around y, at the same dual variables: W = c + v."""
        kappa = float(self.kappa[0])
        self.c[:] = kappa / (self.lam + kappa) * self.y
        self.W[:] = self.c
        _gather(self.problem.data, self.duals.mu, 1.0 / self.duals.scale, self.W)
        self._measure()

    def _measure(self) -> None:
        ratio = (self.lam + float(self.kappa[0])) / self.lam
        self.squares = Squares(*_squares(self.W, self.c, self.y, ratio))

    def _wanted(self) -> float:
        """The gap to which the present inner problem is to be solved."""
        kappa = float(self.kappa[0])
        root = math.sqrt(self.lam / (self.lam + kappa))
        return root / (2.0 - root) * 0.5 * kappa * self.squares.w_less_y

    def _inner_gap(self) -> float:
        """The gap of the inner problem by a full pass, which refreshes the stale block gaps."""
        point = self.duals.mu, self.duals.h
        check_gap(*_block_gaps(self.problem.data, self.W, *point, self.gaps))
        self.oracle_calls += self.problem.n
        self.sampler.fill(self.gaps)
        return float(self.gaps.mean())

    def _next(self) -> None:
        """x_k is found: compute y_k, and put the inner problem around it."""
        if self.since[0] <= FEW and not self.param["kappa"]:
            self._scale(max(0.5 * float(self.kappa[0]), self.lam))
        self.since[0] = 0
        root = math.sqrt(self.lam / (self.lam + float(self.kappa[0])))
        self.y[:] = self.W + (1.0 - root) / (1.0 + root) * (self.W - self.x)
        self.x[:] = self.W
        self._around()

    def gap_estimate(self) -> float | None:
        """P(w) - D(alpha) = mean block gap at w + lambda/2 |w - w(alpha)|^2, whatever w and alpha:
        with the block gaps as last seen."""
        if not self.epochs:
            return None
        if self.kappa[0] == 0.0:
            return float(self.gaps.mean())
        return float(self.gaps.mean()) + 0.5 * self.lam * self.squares.w_less_w_alpha

    def weights(self) -> np.ndarray:
        return self.W

    def finish(self) -> None:
        """Recompute W without the rounding of a million updates."""
        self._around()

    def certify(self) -> Certificate:
        """P(W) by a full pass, and D at the dual variables, both of the original problem."""
        primal = primal_value(self.problem, self.lam, self.W)
        self.oracle_calls += self.problem.n
        rewards = sum(self.problem.reward(i, self.duals.point(i)[0]) for i in range(self.problem.n))
        self.rewards[0] = (float(self.duals.h.sum()) + rewards) / self.problem.n
        w_alpha = (self.W - self.c) * ((self.lam + float(self.kappa[0])) / self.lam)
        self.dual = float(self.rewards[0]) - 0.5 * self.lam * self.problem.sq_norm(w_alpha)
        return proven(primal, self.dual)

    @property
    def state_bytes(self) -> int:
        return self.duals.nbytes

    def state(self) -> dict[str, np.ndarray]:
        weights = {"W": self.W, "c": self.c, "x": self.x, "y": self.y, "kappa": self.kappa}
        weights |= {"rewards": self.rewards, "dual": np.array([self.dual])}
        sampling = {"gaps": self.gaps, "tree": self.sampler.tree, "seen": self.seen}
        return {**weights, **sampling, "since": self.since, **self.duals.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        if not self.kappa[0] >= 0.0:
            raise ValueError(f"kappa is {self.kappa[0]}")
        self._scale(float(self.kappa[0]))
        self._measure()
        self.dual = float(state["dual"][0])


@kernel
def _squares(W, c, y, ratio):
    """The fields of Squares, in one pass over the weights; w(alpha) = ratio (W - c)."""
    a = b = d = e = 0.0
    for r in range(W.shape[0]):
        for k in range(W.shape[1]):
            w, alpha = W[r, k], ratio * (W[r, k] - c[r, k])
            a += w * w
            b += (w - y[r, k]) ** 2
            d += alpha * alpha
            e += (w - alpha) ** 2
    return a, b, d, e


@kernel
def _gather(data, mu, step, W):
    """W += step sum_i F_i (z_i - mu_i)."""
    memory = scratch(data.parts)
    for i in range(data.parts.size - 1):
        d, z, _ = three(memory, data.parts, i)
        gold(data, i, z)
        d[:] = z - mu[data.parts[i] : data.parts[i + 1]]
        add(data, i, d, step, W)


@kernel
def _block_gaps(data, W, mu, h, gaps):
    """Write the block gaps at W into `gaps`; return (gap, value) of the first invalid one, or of
    the last."""
    memory, gap, value = scratch(data.parts), 0.0, 0.0
    for i in range(h.size):
        theta, nu, _ = three(memory, data.parts, i)
        value = oracle(data, i, W, 1.0, theta, nu)
        gap = value - h[i] - dot(theta, mu[data.parts[i] : data.parts[i + 1]])
        if not is_gap(gap, value):
            break
        gaps[i] = gap
    return gap, value
