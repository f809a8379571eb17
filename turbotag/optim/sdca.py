"""SDCA: stochastic dual coordinate ascent with duality-gap sampling.

Le Priol, Piché and Lacoste-Julien (2018), "Adaptive stochastic dual coordinate ascent for
conditional random fields", algorithm 2. A block is the dual variables of one instance, its block
gap the instance's share of the duality gap, which is the mean of all. There are two forms of the
dual variables, which share sampling, trace and certificate:

exact    the published algorithm: the dual variable of an instance is its clique log-marginals
         (section 3.2), the line search (equation 20) is safeguarded Newton on the exact entropy.
compact  ours: an instance keeps its stats mu and one number h, a lower bound of its entropy (over
         beta). Entropy is concave, so h <- (1-eta) h + eta H(nu)/beta stays a lower bound along
         mu <- (1-eta) mu + eta nu, and so does this h plus the information gain of one variable
         (structures/mixture); the dual with h is still a lower bound of P*. Without the gain the
         line search is eta = clip(gap / (lambda n |v|^2), 0, 1). With beta = inf all entropies are
         0 and this is block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013).

With --l1 S the regulariser is the elastic net lambda/2 |w|^2 + S |w|_1 (prox-SDCA, Shalev-Shwartz
and Zhang 2016): V = 1/(lambda n) sum_i F_i (z_i - mu_i) is kept beside W = soft(V, S/lambda), and
the dual has -lambda/2 |soft(V)|^2. Its curvature along a step is at most that of |V|^2, so the step
above gains what it says or more.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from turbotag.errors import UsageError
from turbotag.lean import kernel
from turbotag.optim.base import EXACT, KERNEL_CHAIN, L1, SECOND_ORDER, DualOptimizer, Param
from turbotag.optim.certificate import TOLERANCE, Certificate, check_gap, soft
from turbotag.optim.epochs import dot, scratch, slices, three
from turbotag.optim.problem import CliqueProblem, Problem, SplitProblem
from turbotag.optim.sampling import Sampler, Weights, draw, update
from turbotag.structures.verbs import add, gold, mixture_step, norm_sq, oracle, shrink

SCHEMES = ("uniform", "importance", "gap", "gap-importance", "gap-cost", "max")
MAX_NEWTON = 50
NOBODY = np.zeros(0, np.int64)
SETTLED = 5  # epochs after which a problem with moving potentials must hold them
START_EPS = (
    1e-3  # exact mode starts at (1-eps) gold + eps uniform: logs must be finite (equation 21)
)


class SDCA(DualOptimizer):
    name = "sdca"
    reference = "Le Priol, Piché and Lacoste-Julien 2018, algorithm 2; the compact dual is ours"
    default_epochs = 200
    default_gap = 1e-3
    structures = (*EXACT, SECOND_ORDER, KERNEL_CHAIN)
    kept = 1
    unbounded = ("dual", "log_mu")
    params = (
        Param(
            "dual",
            "compact",
            "what an instance keeps: its stats and one number, or its clique marginals",
            ("compact", "exact"),
        ),
        Param("sampling", "gap", "how instances are drawn", SCHEMES),
        Param("nonuniform", 0.8, "share of draws that are not uniform", least=0.0, most=1.0),
        Param(
            "precision",
            1e-3,
            "exact dual: the line search ends at this share of the slope at its start",
            least=0.0,
            most=1.0,
            open=True,
        ),
        L1,
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        exact = self.param["dual"] == "exact"
        if exact and not getattr(problem, "has_cliques", False):
            raise UsageError(
                "--dual exact needs a finite beta and a first-order chain or projective trees; "
                "use --dual compact"
            )
        if self.l1 and (type(problem.data),) not in shrink.served:
            raise UsageError("--l1 serves taggers without --candidates and parsers without --parts")
        self.W = np.zeros(problem.shape)
        self.V = np.zeros(problem.shape) if self.l1 else self.W
        self.dual: float | None = 0.0
        self.gaps = np.ones(problem.n)
        self.duals: CompactDual | ExactDual = (
            ExactDual(cast(CliqueProblem, problem), lam, self.W, self.param["precision"])
            if exact
            else CompactDual(problem, lam)
        )
        if exact:
            self.dual = self.duals.objective(self.W)
        scheme = self.param["sampling"]
        factor = self.factor(problem, lam, scheme)
        self.sampler = Sampler(scheme, self.param["nonuniform"], factor)

    @classmethod
    def check(cls, beta: float, gamma: float, given: dict[str, Any]) -> dict[str, Any]:
        params = super().check(beta, gamma, given)
        if params["dual"] == "exact" and params["l1"]:
            raise UsageError("--l1 needs --dual compact")
        return params

    @staticmethod
    def factor(problem: Problem, lam: float, scheme: str) -> np.ndarray:
        """(n,) what a sampling scheme multiplies block gaps by."""
        if scheme in ("importance", "gap-importance"):
            return 1.0 + problem.radius_sq() / (lam * problem.n)
        return 1.0 / problem.work() if scheme == "gap-cost" else np.ones(problem.n)

    def epoch(self) -> None:
        """n block updates; the first epoch visits every instance once, since no gap is known."""
        if self.problem.moving and self.epochs == SETTLED:
            cast(SplitProblem, self.problem).hold(self.W)
            self.oracle_calls += self.problem.n
            self.certify()
        n, weights = self.problem.n, self.sampler.weights
        draws = self.rng.random((n, 2))
        first = self.rng.permutation(n) if self.epochs == 0 else NOBODY
        dual = self.dual or 0.0
        shrunk = (self.V, self.l1 / self.lam) if self.l1 else None
        for part in slices(n):
            visits = Visits(first[part], draws[part], weights, self.gaps)
            dual = self.duals.steps(visits, self.W, dual, shrunk)
        # while potentials move, the objective moves too, and only a full pass can tell the dual
        self.dual = None if self.problem.moving else dual
        self.epochs += 1
        self.oracle_calls += n
        self.updates += n

    def point(self, i: int) -> tuple[np.ndarray, float]:
        return self.duals.point(i)

    def finish(self) -> None:
        super().finish()
        if self.l1:
            self.V[:] = self.W
            self.W[:] = soft(self.V, self.l1 / self.lam)

    def gap_estimate(self) -> float:
        """Mean of the block gaps, each as last seen."""
        return float(self.gaps.mean()) if self.epochs else float("inf")

    def certify(self) -> Certificate:
        certificate = super().certify()
        self.gaps[:] = self.block_gaps  # a full pass refreshes every stale gap for nothing
        self.sampler.fill(self.gaps)
        return certificate

    @property
    def state_bytes(self) -> int:
        return self.duals.nbytes

    def state(self) -> dict[str, np.ndarray]:
        splits = getattr(self.problem, "splits", None)
        return {
            **({} if splits is None else {"splits": splits}),
            **({"V": self.V} if self.l1 else {}),
            "W": self.W,
            "gaps": self.gaps,
            "dual": np.array([np.nan if self.dual is None else self.dual]),
            "tree": self.sampler.tree,
            **self.duals.state(),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        if hasattr(self.problem, "splits"):
            cast(SplitProblem, self.problem).restore_splits(state.get("splits"))
        super().restore(state)
        self.dual = None if self.problem.moving else float(state["dual"][0])


class Visits(NamedTuple):
    """Which blocks are updated: those in `first` or, where it is empty, one for each row of
    `draws`, drawn from the weights. gaps: (n,) block gaps as last seen."""

    first: np.ndarray
    draws: np.ndarray
    weights: Weights
    gaps: np.ndarray


# With --l1 the weights before the threshold, and the threshold; None without.
Shrunk = tuple[np.ndarray, float] | None


class CompactDual:
    """mu_i and h_i, starting at the gold stats and 0. The first step of a block has the closed
    form, so the first epoch is one of DCA (Martins et al. 2010), exactly."""

    def __init__(self, problem: Problem, lam: float):
        self.problem, self.scale = problem, lam * problem.n
        self.mu, self.h = np.empty(problem.data.parts[-1]), np.zeros(problem.n)
        _gold(problem.data, self.mu)

    def steps(self, visits: Visits, W: np.ndarray, dual: float, shrunk: Shrunk = None) -> float:
        """A block update for each visit; returns the dual after them."""
        first, draws, weights, gaps = visits
        steps = first, draws, weights, self.mu, self.h, gaps
        V, threshold = shrunk or (W, None)
        i, gap, value, dual = _steps(self.problem.data, self.scale, *steps, V, W, threshold, dual)
        if value == -np.inf:
            self.problem.oracle(i, W)  # raises an error that tells the reason
        check_gap(gap, value)
        return dual

    def point(self, i: int) -> tuple[np.ndarray, float]:
        a, b = self.problem.data.parts[i : i + 2]
        return self.mu[a:b], self.h[i]

    def objective(self, W: np.ndarray) -> float:
        return 0.0

    @property
    def nbytes(self) -> int:
        return self.mu.nbytes + self.h.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {"mu": self.mu, "h": self.h}


@kernel
def _gold(data, mu):
    for i in range(data.parts.size - 1):
        gold(data, i, mu[data.parts[i] : data.parts[i + 1]])


@kernel
def _steps(data, scale, first, draws, weights, mu, h, gaps, V, W, threshold, dual):
    """Update blocks, up to the first one whose gap is invalid (`is_gap`); return (instance, block
    gap, value) of the last update, and the dual after it. threshold: None where W is V."""
    memory, i, gap, value = scratch(data.parts), 0, 0.0, 0.0
    for t in range(draws.shape[0]):
        i = first[t] if first.size else draw(weights, draws[t, 0], draws[t, 1])
        gap, value, gain = block_update(data, i, scale, memory, mu, h, W, V, threshold)
        if not is_gap(gap, value):
            break
        dual += gain / h.size
        gaps[i] = gap
        update(weights, i, gap)
    return i, gap, value, dual


@kernel
def is_gap(gap, value):
    """Whether check_gap lets this gap pass."""
    return -TOLERANCE * max(1.0, abs(value)) <= gap and gap < np.inf


@kernel
def block_update(data, i, scale, memory, mu, h, W, V, threshold):
    """One step on block i; return the block gap before it, the oracle's value, and n times the gain
    of the dual. scale: lambda n; V: the weights before the threshold, W itself without one."""
    at = mu[data.parts[i] : data.parts[i + 1]]
    theta, nu, d = three(memory, data.parts, i)

    value = oracle(data, i, W, 1.0, theta, nu)
    gap = value - h[i] - dot(theta, at)  # equation 9, with h in place of the entropy
    if not is_gap(gap, value):
        return gap, value, 0.0
    entropy = value - dot(theta, nu)

    for p in range(d.size):
        d[p] = at[p] - nu[p]  # -delta_i of algorithm 2
    curvature = norm_sq(data, i, d) / scale  # lambda n |v_i|^2
    eta, bonus = mixture_step(data, i, at, nu, gap, curvature, h[i] > 0.0)

    add(data, i, d, eta / scale, V)
    if threshold is not None:
        shrink(data, i, V, threshold, W)
    for p in range(d.size):
        at[p] -= eta * d[p]
    h[i] += eta * (entropy - h[i]) + bonus
    return gap, value, eta * gap - 0.5 * eta * eta * curvature + bonus


class ExactDual:
    """Clique log-marginals of each instance, starting near the gold ones.

    precision: the line search ends where the slope is this small beside the first one (the paper's
    sub-precision, section 6.2, is the size of the last step).
    """

    def __init__(self, problem: CliqueProblem, lam: float, W: np.ndarray, precision: float):
        self.problem, self.lam, self.scale = problem, lam, lam * problem.n
        self.precision = precision
        sizes = [problem.clique_size(i) for i in range(problem.n)]
        self.flat = np.empty(sum(sizes))
        self.scratch = np.empty((3, max(sizes)))  # mu, nu, log nu of the instance at hand
        cuts = np.cumsum([0, *sizes])
        self.log_mu = [self.flat[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
        for i, log_mu in enumerate(self.log_mu):
            mu, nu, log_nu = self.scratch[:, : log_mu.size]
            problem.clique_gold(i, mu, log_mu)
            problem.clique_uniform(i, nu, log_nu)
            problem.clique_mix(mu, log_mu, nu, log_nu, START_EPS)
            problem.add(i, problem.gold(i) - problem.clique_stats(i, mu), 1.0 / self.scale, W)

    def steps(self, visits: Visits, W: np.ndarray, dual: float, shrunk: Shrunk = None) -> float:
        """As CompactDual.steps; `shrunk` is always None here."""
        first, draws, weights, gaps = visits
        for t, (coin, uniform) in enumerate(draws.tolist()):
            i = int(first[t]) if first.size else draw(weights, coin, uniform)
            gaps[i], gain = self.step(i, W)
            dual += gain / self.problem.n
            update(weights, i, gaps[i])
        return dual

    def step(self, i: int, W: np.ndarray) -> tuple[float, float]:
        """One block update; returns the block gap before it and n times the gain of the dual."""
        problem, log_mu, beta = self.problem, self.log_mu[i], self.problem.beta
        mu, nu, log_nu = self.scratch[:, : log_mu.size]
        problem.clique_exp(log_mu, mu)
        value, theta = problem.clique_oracle(i, W, nu, log_nu)
        forward, reverse = problem.clique_kl(i, mu, log_mu, nu, log_nu)
        gap = forward / beta  # equations 11 and 19
        check_gap(gap, value)

        d = problem.clique_stats(i, mu) - problem.clique_stats(i, nu)
        curvature = problem.norm_sq(i, d) / self.scale
        before = problem.clique_entropy(i, mu, log_mu) / beta
        slope = float(theta @ d)
        eta = self._line_search(i, mu, nu, gap + reverse / beta, slope, curvature)
        problem.add(i, d, eta / self.scale, W)
        problem.clique_mix(mu, log_mu, nu, log_nu, eta)
        after = problem.clique_entropy(i, mu, log_mu) / beta
        return gap, after - before - eta * slope - 0.5 * eta * eta * curvature

    def _line_search(
        self, i: int, mu: np.ndarray, nu: np.ndarray, rise: float, slope: float, curvature: float
    ) -> float:
        """Equation 20, maximise n D(eta) on [0, 1]: Newton, halving the bracket where it steps
        outside (appendix A.3).

        The derivative is rise = (KL(mu||nu) + KL(nu||mu))/beta at 0 and -curvature at 1, so there
        is always a zero between; the search starts where the line through both crosses.
        """
        if not rise > 0.0:
            return 0.0
        beta, target = self.problem.beta, self.precision * rise
        low, high, eta = 0.0, 1.0, rise / (rise + curvature)
        for _ in range(MAX_NEWTON):
            first, second = self.problem.clique_line(i, mu, nu, eta)
            value = first / beta - slope - eta * curvature
            if abs(value) <= target:
                break
            if value > 0.0:
                low = eta
            else:
                high = eta
            eta -= value / (second / beta - curvature)
            if not low < eta < high:
                eta = 0.5 * (low + high)
        return eta

    def point(self, i: int) -> tuple[np.ndarray, float]:
        log_mu = self.log_mu[i]
        mu = self.scratch[0, : log_mu.size]
        self.problem.clique_exp(log_mu, mu)
        entropy = self.problem.clique_entropy(i, mu, log_mu) / self.problem.beta
        return self.problem.clique_stats(i, mu), entropy

    def objective(self, W: np.ndarray) -> float:
        """D(alpha) from scratch, for W = w(alpha)."""
        problem, total = self.problem, 0.0
        for i in range(problem.n):
            mu, entropy = self.point(i)
            total += entropy + problem.reward(i, mu)
        return total / problem.n - 0.5 * self.lam * problem.sq_norm(W)

    @property
    def nbytes(self) -> int:
        return self.flat.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {"log_mu": self.flat}
