"""SDCA: stochastic dual coordinate ascent with duality-gap sampling.

Le Priol, Piché and Lacoste-Julien (2018), "Adaptive stochastic dual coordinate ascent for
conditional random fields", algorithm 1, in two forms that share sampling, trace and certificate:

exact    the published algorithm: the dual variable of an instance is its clique log-marginals, the
         line search is safeguarded Newton on the exact entropy.
compact  ours: an instance keeps its stats mu and one number h, a lower bound of its entropy (over
         beta). Entropy is concave, so h <- (1-eta) h + eta H(nu)/beta stays one along
         mu <- (1-eta) mu + eta nu, and so does that plus the information gain of one variable
         (structures/mixture); the dual with h is still a lower bound of P*. Without the gain the
         line search is eta = clip(gap / (lambda n |v|^2), 0, 1). With beta = inf all entropies are
         0 and this is block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from turbotag.errors import UsageError
from turbotag.optim.base import EXACT, SECOND_ORDER, DualOptimizer, Param, blocks
from turbotag.optim.certificate import Certificate, check_gap
from turbotag.optim.problem import CliqueProblem, Problem, SplitProblem

SCHEMES = ("uniform", "importance", "gap", "gap-importance", "gap-cost", "max")
MAX_NEWTON = 50
SETTLED = 5  # epochs after which a problem with moving potentials must hold them
START_EPS = (
    1e-3  # exact mode starts at (1-eps) gold + eps uniform: logs must be finite (appendix A)
)


class SDCA(DualOptimizer):
    name = "sdca"
    reference = "Le Priol, Piché and Lacoste-Julien 2018, algorithm 1; the compact dual is ours"
    default_epochs = 200
    default_gap = 1e-3
    structures = (*EXACT, SECOND_ORDER)
    kept = 1
    unbounded = ("dual", "log_mu")
    params = (
        Param(
            "dual",
            "compact",
            "state of an instance: stats and a number, or cliques",
            ("compact", "exact"),
        ),
        Param("sampling", "gap", "how instances are drawn", SCHEMES),
        Param("nonuniform", 0.8, "share of draws that are not uniform", least=0.0, most=1.0),
        Param(
            "precision",
            1e-3,
            "exact dual: of the line search, relative to the slope at its start",
            least=0.0,
            most=1.0,
            open=True,
        ),
    )

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        exact = self.param["dual"] == "exact"
        if exact and not getattr(problem, "has_cliques", False):
            raise UsageError(
                "--dual exact needs a finite beta and a first-order chain or projective trees; "
                "use --dual compact"
            )
        self.W = np.zeros(problem.shape)
        self.dual: float | None = 0.0
        self.gaps = np.ones(problem.n)
        self.duals: CompactDual | ExactDual = (
            ExactDual(cast(CliqueProblem, problem), lam, self.W, self.param["precision"])
            if exact
            else CompactDual(problem, lam)
        )
        if exact:
            self.dual = self.duals.objective(self.W)
        from turbotag.optim.sampling import Sampler  # with numba, which --help does not wait for

        self.sampler = Sampler(self.param["sampling"], self.param["nonuniform"], self._factor())

    def _factor(self) -> np.ndarray:
        problem, scheme = self.problem, self.param["sampling"]
        if scheme in ("importance", "gap-importance"):
            return 1.0 + problem.radius_sq() / (self.lam * problem.n)
        return 1.0 / problem.work() if scheme == "gap-cost" else np.ones(problem.n)

    def epoch(self) -> None:
        """n block updates; the first epoch visits every instance once, since no gap is known."""
        if self.problem.moving and self.epochs == SETTLED:
            cast(SplitProblem, self.problem).hold(self.W)
            self.oracle_calls += self.problem.n
            self.certify()
        n, step, gaps = self.problem.n, self.duals.step, self.gaps
        draws = self.rng.random((n, 2))
        fresh = self.epochs == 0
        first = self.rng.permutation(n) if fresh else None
        dual = self.dual or 0.0
        for t in range(n):
            i = int(first[t]) if first is not None else self.sampler.draw(draws[t, 0], draws[t, 1])
            gap, gain = step(i, self.W)
            dual += gain / n
            gaps[i] = gap
            self.sampler.update(i, gap)
        self.dual = None if self.problem.moving else dual  # then only a full pass can tell
        self.epochs += 1
        self.oracle_calls += n
        self.updates += n

    def point(self, i: int) -> tuple[np.ndarray, float]:
        return self.duals.point(i)

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


class CompactDual:
    """mu_i and h_i, starting at the gold stats and 0. The first step of a block has the closed
    form, so the first epoch is one of DCA (Martins et al. 2010), exactly."""

    def __init__(self, problem: Problem, lam: float):
        self.problem, self.scale = problem, lam * problem.n
        self.flat, self.mu = blocks(problem)
        for i, mu in enumerate(self.mu):
            mu[:] = problem.gold(i)
        self.h = np.zeros(problem.n)

    def step(self, i: int, W: np.ndarray) -> tuple[float, float]:
        """One block update; returns the block gap before it and n times the gain of the dual."""
        problem, mu, h = self.problem, self.mu[i], self.h[i]
        value, theta, nu = problem.oracle(i, W)
        gap = value - h - theta @ mu
        check_gap(gap, value)
        entropy = value - theta @ nu

        d = mu - nu
        curvature = problem.norm_sq(i, d) / self.scale  # lambda n |v|^2
        eta, bonus = problem.mixture_step(i, mu, nu, gap, curvature, h > 0.0)
        problem.add(i, d, eta / self.scale, W)
        d *= eta
        mu -= d
        self.h[i] = h + eta * (entropy - h) + bonus
        return gap, eta * gap - 0.5 * eta * eta * curvature + bonus

    def point(self, i: int) -> tuple[np.ndarray, float]:
        return self.mu[i], self.h[i]

    def objective(self, W: np.ndarray) -> float:
        return 0.0

    @property
    def nbytes(self) -> int:
        return self.flat.nbytes + self.h.nbytes

    def state(self) -> dict[str, np.ndarray]:
        return {"mu": self.flat, "h": self.h}


class ExactDual:
    """Clique log-marginals of each instance, starting near the gold ones.

    precision: the line search ends where the slope is this small beside the first one (Le Priol et
    al., appendix C).
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

    def step(self, i: int, W: np.ndarray) -> tuple[float, float]:
        problem, log_mu, beta = self.problem, self.log_mu[i], self.problem.beta
        mu, nu, log_nu = self.scratch[:, : log_mu.size]
        problem.clique_exp(log_mu, mu)
        value, theta = problem.clique_oracle(i, W, nu, log_nu)
        forward, reverse = problem.clique_kl(i, mu, log_mu, nu, log_nu)
        gap = forward / beta
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
        """Maximise n D(eta) on [0, 1]: Newton, halving the bracket where it steps outside.

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
