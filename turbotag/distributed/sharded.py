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

What is computed depends on the number of shards, never on who computes it, as long as no worker is
lost. The blocks of a lost worker go back to where they were last saved, or to the gold answers. Any
dual point is valid, so W is recomputed from all blocks, and the certificate is as good as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from turbotag.distributed.changes import Piece
from turbotag.distributed.engine import Engine, LostShards, Threads
from turbotag.distributed.shard import ROUNDS, Duals, Part, Point, Report
from turbotag.errors import UsageError
from turbotag.optim.base import EXACT, DualOptimizer
from turbotag.optim.certificate import Certificate, check_gap
from turbotag.optim.problem import Problem
from turbotag.optim.sdca import SDCA
from turbotag.structures.verbs import chosen_ranges

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
        engine: Callable[[list[Part]], Engine] | None = None,
        **params: Any,
    ):
        """engine: makes the shards of these parts, by default in this process."""
        super().__init__(problem, lam, rng, **params)
        if self.param["dual"] == "exact":
            raise UsageError("--dual exact works on one shard: leave out --threads and --shards")
        n = problem.n
        self.S = S = min(shards, n)
        self.param["shards"] = S  # for the log and the model's card
        factor = SDCA.factor(problem, lam, self.param["sampling"])
        scheme = self.param["sampling"], self.param["nonuniform"]
        self.own = [np.arange(k, n, S) for k in range(S)]
        parts = [
            Part(problem.data, own, n, lam, problem.shape, scheme, factor[own], S)
            for own in self.own
        ]
        self.engine: Engine = engine(parts) if engine else _in_process(parts, min(threads, S))
        self.saved: list[Point] = []  # of all shards, in the last state that was asked for
        self.sigma = np.sqrt(S)
        self.dual: float = 0.0
        self.rises: list[float] = []  # of the dual, in each round of the last epoch
        self.lost: list[str] = []  # what was done about lost workers, in lines for the log

    @property
    def W(self) -> np.ndarray:  # type: ignore[override]
        """The weights, which all shards have alike, except within a round."""
        return self._surely("weights", [(), *[None] * (self.S - 1)])[0]

    def _all(self, *arguments: Any) -> list[Any]:
        """The same arguments for all shards."""
        return [arguments] * self.S

    def _surely(self, method: str, arguments: list[Any]) -> list[Any]:
        """Call a method that can be called again, until no shard is lost."""
        while True:
            try:
                return self.engine.call(method, arguments)
            except LostShards as lost:
                self._recover(lost.shards)

    def epoch(self) -> None:
        """n block updates, in rounds."""
        self.seeds = self.rng.integers(0, 1 << 62, self.S).tolist()
        self._surely("begin_epoch", self._beginnings())
        self.rises = []
        for number in range(ROUNDS):
            try:
                self.rises.append(self._round(number))
            except LostShards as lost:
                self._recover(lost.shards)
                self._surely("begin_epoch", self._beginnings())
        self.epochs += 1
        self.oracle_calls += self.problem.n
        self.updates += self.problem.n

    def _beginnings(self) -> list[tuple[int, bool]]:
        return [(seed, self.epochs == 0) for seed in self.seeds]

    def _round(self, number: int) -> float:
        """One round of all shards; returns what the dual gains."""
        call, sigma = self.engine.call, float(self.sigma)
        done: list[tuple[Report, list[Piece]]] = call("round", self._all(number, sigma))
        reports, pieces = [report for report, _ in done], [piece for _, piece in done]
        for k, report in enumerate(reports):
            self._check(k, *report.last)
        merged = call("merge", [([p[j] for p in pieces],) for j in range(self.S)])
        alone, both = sum(r.square for r in reports), sum(norm for _, norm in merged)
        rise = sum(r.gain for r in reports) / self.problem.n
        rise -= self.lam * sum(r.linear for r in reports)
        bend = self.lam * both
        t = min(max(rise / bend, 0.0), 1.0) if bend > 0.0 else 1.0
        call("settle", self._all(t, [piece for piece, _ in merged]))
        if alone > 0.0:
            new = sigma + FOLLOW * (both / alone - sigma)
            self.sigma = min(max(new, 1.0), float(self.S))
        gained = t * rise - 0.5 * t * t * bend
        self.dual += gained
        return gained

    def _recover(self, shards: list[int]) -> None:
        """Give the round up, and make lost shards, if there are any, again: from their last saved
        points or from the gold answers."""
        again: list[int] | None = shards
        while again is not None:
            shards = again
            try:
                self.engine.replace(shards)
                self.engine.call("abandon", self._all())
                if self.saved and shards:
                    points = [(p,) if k in shards else None for k, p in enumerate(self.saved)]
                    self.engine.call("restore", points)
                self._sum_up()
                again = None
            except LostShards as lost:
                again = sorted({*shards, *lost.shards})
        if not shards:
            self.lost.append("a round was given up: a worker waited too long for another one")
        where = "the last saved state" if self.saved else "the gold answers"
        for k in shards:
            self.lost.append(f"worker {k} was lost: its sentences went back to {where}")
        self._full_pass()

    def _sum_up(self) -> None:
        """Recompute W from the dual variables of all shards."""
        W = np.zeros(self.problem.shape)
        for part in self.engine.call("weights_of_duals", self._all()):
            W += part
        self.engine.call("set_weights", self._all(W))

    def _check(self, k: int, place: int, gap: float, value: float) -> None:
        if value == -np.inf:
            # raises an error that tells the reason
            self.problem.oracle(int(self.own[k][place]), self.W)
        check_gap(gap, value)

    def gap_estimate(self) -> float:
        """Mean of the block gaps, each as last seen."""
        if not self.epochs:
            return float("inf")
        return float(sum(self._surely("gaps", self._all()))) / self.problem.n

    def certify(self) -> Certificate:
        """A full pass over all shards."""
        primal = self._full_pass()
        check_gap(primal - self.dual, primal)
        self.oracle_calls += self.problem.n
        return Certificate(primal, self.dual, primal - self.dual)

    def _full_pass(self) -> float:
        """The primal objective; sets the dual one."""
        found = self._surely("full_pass", self._all())
        n, half = self.problem.n, 0.5 * self.lam * self.problem.sq_norm(self.W)
        self.dual = -half + sum(float(rewards.sum()) for _, rewards in found) / n
        return half + sum(float(losses.sum()) for losses, _ in found) / n

    def finish(self) -> None:
        """Recompute W from the dual variables."""
        try:
            self._sum_up()
        except LostShards as lost:
            self._recover(lost.shards)

    def point(self, i: int) -> tuple[np.ndarray, float]:
        a, b = self.problem.data.parts[i : i + 2]
        state = self.state()
        return state["mu"][a:b], float(state["h"][i])

    def notes(self) -> list[str]:
        return self.lost

    def close(self) -> None:
        self.engine.close()

    @property
    def state_bytes(self) -> int:
        return 8 * (int(self.problem.data.parts[-1]) + 2 * self.problem.n)

    def state(self) -> dict[str, np.ndarray]:
        """The dual variables of all shards in the order of the problem's instances. Lost shards go
        back to the last of these."""
        self.saved = self._surely("point", self._all())
        parts, n = self.problem.data.parts, self.problem.n
        mu, h, gaps = np.empty(parts[-1]), np.empty(n), np.empty(n)
        for own, point in zip(self.own, self.saved, strict=True):
            mu[chosen_ranges(parts, own)[1]] = point.mu
            h[own], gaps[own] = point.h, point.gaps
        trees = {f"tree{k}": point.tree for k, point in enumerate(self.saved)}
        numbers = {"sigma": np.array([self.sigma]), "dual": np.array([self.dual])}
        return {"W": self.W.copy(), **numbers, "mu": mu, "h": h, "gaps": gaps, **trees}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.checked_state(state)
        self.sigma, self.dual = float(state["sigma"][0]), float(state["dual"][0])
        parts, points = self.problem.data.parts, []
        for k, own in enumerate(self.own):
            mu = state["mu"][chosen_ranges(parts, own)[1]]
            points.append((Point(mu, state["h"][own], state["gaps"][own], state[f"tree{k}"]),))
        self._surely("restore", points)
        self._surely("set_weights", self._all(state["W"]))
        self.saved = [point for (point,) in points]


def _in_process(parts: list[Part], threads: int) -> Engine:
    data = parts[0].data
    n = data.parts.size - 1
    duals = Duals(np.empty(data.parts[-1]), np.zeros(n), np.ones(n))
    return Threads([part.shard(duals) for part in parts], threads)
