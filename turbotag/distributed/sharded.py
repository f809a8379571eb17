"""SDCA on shards: rounds of CoCoA+ with a measured sigma' and an exact line search.

Ma, Smith, Jaggi, Jordan, Richtarik and Takac (2015), "Adding vs. averaging in distributed
primal-dual optimization", algorithm 1, on the compact dual (optim/sdca). In a round every shard
makes steps of SDCA on its own blocks, against the weights of the round's start plus sigma' times
its own change; the changes d_k of all shards are added. Two choices are ours:

sigma'    is 1 where changes are orthogonal and S where they are alike. The paper takes S, which is
          safe and slow. We follow what is measured, r = |sum_k d_k|^2 / sum_k |d_k|^2, and start at
          the root of S.
t         the share of the merged change that is taken. Along it the dual is at least
          D + t (gain - lambda W'd) - t^2 lambda/2 |d|^2, as entropy is concave and the rest linear:
          the best t in [0, 1] has a closed form, and the dual never falls, whatever sigma' was.

What is computed depends on the number of shards, never on who computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from turbotag.distributed.changes import Piece
from turbotag.distributed.engine import Engine, Threads
from turbotag.distributed.shard import ROUNDS, Duals, Report, Shard
from turbotag.errors import UsageError
from turbotag.optim.base import EXACT, DualOptimizer
from turbotag.optim.certificate import Certificate, check_gap
from turbotag.optim.problem import Problem
from turbotag.optim.sampling import Sampler
from turbotag.optim.sdca import SDCA

FOLLOW = 0.2  # share of the way to the measured r that sigma' goes in a round


class ShardedSDCA(DualOptimizer):
    name = "sdca"
    reference = f"{SDCA.reference}; shards after Ma et al. 2015, algorithm 1"
    default_epochs, default_gap = SDCA.default_epochs, SDCA.default_gap
    structures = EXACT
    params = SDCA.params
    kept = SDCA.kept

    def __init__(
        self,
        problem: Problem,
        lam: float,
        rng: np.random.Generator,
        shards: int,
        threads: int = 1,
        engine: Callable[[list[Shard]], Engine] | None = None,
        **params: Any,
    ):
        super().__init__(problem, lam, rng, **params)
        if self.param["dual"] == "exact":
            raise UsageError("--dual exact works on one shard: leave out --threads and --shards")
        n = problem.n
        self.S = S = min(shards, n)
        self.param["shards"] = S  # for the log and the model's card
        self.duals = Duals(np.empty(problem.data.parts[-1]), np.zeros(n), np.ones(n))
        factor = SDCA.factor(problem, lam, self.param["sampling"])
        scheme = self.param["sampling"], self.param["nonuniform"]
        start = np.zeros(problem.shape)
        own = [np.arange(k, n, S) for k in range(S)]
        parts = [
            Shard(problem.data, mine, n, lam, start, Sampler(*scheme, factor[mine]), self.duals, S)
            for mine in own
        ]
        self.trees = [shard.sampler.tree for shard in parts]
        self.engine: Engine = engine(parts) if engine else Threads(parts, min(threads, S))
        self._all("start")
        self.W = parts[0].V  # equal to V of every other shard, except within a round
        self.sigma = np.array([np.sqrt(S)])
        self.dual: float = 0.0
        self.rises: list[float] = []  # of the dual, in each round of the last epoch

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all shards with the same arguments."""
        return self.engine.call(method, [arguments] * self.S)

    def epoch(self) -> None:
        """n block updates, in rounds."""
        seeds = self.rng.integers(0, 1 << 62, self.S).tolist()
        fresh = self.epochs == 0
        self.engine.call("begin_epoch", [(seed, fresh) for seed in seeds])
        self.rises = [self._round(number) for number in range(ROUNDS)]
        self.epochs += 1
        self.oracle_calls += self.problem.n
        self.updates += self.problem.n

    def _round(self, number: int) -> float:
        """One round of all shards; returns what the dual gains."""
        sigma = float(self.sigma[0])
        done: list[tuple[Report, list[Piece]]] = self._all("round", number, sigma)
        reports, pieces = [report for report, _ in done], [piece for _, piece in done]
        for report in reports:
            self._check(*report.last)
        merged = self.engine.call("merge", [([p[j] for p in pieces],) for j in range(self.S)])
        alone, both = sum(r.square for r in reports), sum(norm for _, norm in merged)
        rise = sum(r.gain for r in reports) / self.problem.n
        rise -= self.lam * sum(r.linear for r in reports)
        bend = self.lam * both
        t = min(max(rise / bend, 0.0), 1.0) if bend > 0.0 else 1.0
        self._all("settle", t, [piece for piece, _ in merged])
        if alone > 0.0:
            new = sigma + FOLLOW * (both / alone - sigma)
            self.sigma[0] = min(max(new, 1.0), float(self.S))
        gained = t * rise - 0.5 * t * t * bend
        self.dual += gained
        return gained

    def _check(self, i: int, gap: float, value: float) -> None:
        if value == -np.inf:
            self.problem.oracle(i, self.W)  # raises an error that tells the reason
        check_gap(gap, value)

    def gap_estimate(self) -> float:
        """Mean of the block gaps, each as last seen."""
        return sum(self._all("gaps")) / self.problem.n if self.epochs else float("inf")

    def certify(self) -> Certificate:
        """A full pass over all shards."""
        found = self._all("full_pass")
        n, half = self.problem.n, 0.5 * self.lam * self.problem.sq_norm(self.W)
        primal = half + sum(float(losses.sum()) for losses, _ in found) / n
        self.dual = -half + sum(float(rewards.sum()) for _, rewards in found) / n
        check_gap(primal - self.dual, primal)
        self.oracle_calls += n
        return Certificate(primal, self.dual, primal - self.dual)

    def finish(self) -> None:
        """Recompute W from the dual variables."""
        W = np.zeros(self.problem.shape)
        for part in self._all("weights_of_duals"):
            W += part
        self._all("set_weights", W)

    def point(self, i: int) -> tuple[np.ndarray, float]:
        a, b = self.problem.data.parts[i : i + 2]
        return self.duals.mu[a:b], float(self.duals.h[i])

    def close(self) -> None:
        self.engine.close()

    @property
    def state_bytes(self) -> int:
        return sum(array.nbytes for array in self.duals)

    def state(self) -> dict[str, np.ndarray]:
        trees = {f"tree{k}": tree for k, tree in enumerate(self.trees)}
        dual = np.array([self.dual])
        return {"W": self.W, "sigma": self.sigma, "dual": dual, **self.duals._asdict(), **trees}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._all("set_weights", self.W)
        self.dual = float(state["dual"][0])
