"""A shard: some sentences of a problem, their dual variables, and steps of SDCA on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from turbotag.distributed import changes
from turbotag.distributed.changes import Piece, keep
from turbotag.lean import kernel
from turbotag.optim.epochs import dot, scratch
from turbotag.optim.sampling import Sampler, draw, update
from turbotag.optim.sdca import block_update, is_gap
from turbotag.structures.verbs import add, chosen_ranges, gold, oracle, reward, rows_of

ROUNDS = 16  # rounds in an epoch


class Duals(NamedTuple):
    """mu and h of the compact dual (optim/sdca), and the block gaps, of the instances of a
    problem's data."""

    mu: np.ndarray
    h: np.ndarray
    gaps: np.ndarray


class Blocks(NamedTuple):
    """The blocks of a round as they were before it: their numbers, their stats one after another,
    and h."""

    own: np.ndarray
    mu: np.ndarray
    h: np.ndarray


@dataclass
class Report:
    """What a round did: (place among the shard's instances, block gap, value) of the last step;
    gain: n times the gain of the dual without its quadratic term; linear, square: W'd and |d|^2 of
    the change d of the weights."""

    last: tuple[int, float, float]
    gain: float
    linear: float
    square: float


class Point(NamedTuple):
    """The dual variables of a shard: as Duals, of its own instances one after another; tree: of its
    sampler."""

    mu: np.ndarray
    h: np.ndarray
    gaps: np.ndarray
    tree: np.ndarray


@dataclass(frozen=True)
class Part:
    """What a shard is made of: the data of a problem and the numbers `own` of the shard's instances
    in it; n: the number of instances of all S shards; shape: of the weights; scheme, factor: of
    the sampler."""

    data: Any
    own: np.ndarray
    n: int
    lam: float
    shape: tuple[int, int]
    scheme: tuple[str, float]
    factor: np.ndarray
    S: int

    def alone(self) -> Part:
        """With the data of its own instances only, to be sent to another process."""
        return replace(self, data=self.data.chosen(self.own), own=np.arange(self.own.size))

    def shard(self, duals: Duals | None = None) -> Shard:
        """duals: the arrays that the shard writes to, which shards of one process may share."""
        parts = self.data.parts
        n = parts.size - 1
        return Shard(self, duals or Duals(np.empty(parts[-1]), np.zeros(n), np.ones(n)))


class Shard:
    """The worker of some instances, whose dual variables start at the gold answers."""

    def __init__(self, part: Part, duals: Duals):
        self.data, self.own, self.n, self.lam = part.data, part.own, part.n, part.lam
        self.S, self.duals = part.S, duals
        self.V, self.sampler = np.zeros(part.shape), Sampler(*part.scheme, part.factor)
        self.steps = -(-self.own.size // ROUNDS)  # in a round
        sizes = np.sort(np.diff(self.data.parts)[self.own])[::-1]
        room = int(sizes[: self.steps].sum())
        self.before = Blocks(np.empty(self.steps, np.int64), np.empty(room), np.empty(self.steps))
        # -1 but for blocks of the round: where a block stands in `before`, at the end its instance
        self.mine = np.full(self.own.size, -1, np.int64)
        counts = np.sort([_row_count(self.data, int(i)) for i in self.own])[::-1]
        self.kept = changes.nothing_kept(part.shape, int(counts[: self.steps].sum()))
        self.place = np.full(-(-part.shape[0] // self.S), -1, np.int64)
        self.touched = 0  # blocks of a round that is not settled yet
        _start(self.data, self.own, *duals)
        self.sampler.fill(duals.gaps[self.own])

    def point(self) -> Point:
        """The present dual variables, in arrays of their own."""
        _, at = chosen_ranges(self.data.parts, self.own)
        mu, h, gaps = self.duals
        return Point(mu[at], h[self.own], gaps[self.own], self.sampler.tree.copy())

    def restore(self, point: Point) -> None:
        """Take over dual variables."""
        _, at = chosen_ranges(self.data.parts, self.own)
        mu, h, gaps = self.duals
        mu[at], h[self.own], gaps[self.own] = point.mu, point.h, point.gaps
        self.sampler.tree[:] = point.tree

    def abandon(self) -> None:
        """Give up a round that is not settled: blocks are as before it. The weights are not."""
        _retreat(self.data, 0.0, self.touched, self.duals, self.before, self.mine)
        changes.forget(self.kept)
        self.touched = 0

    def begin_epoch(self, seed: int, fresh: bool) -> None:
        """Draw the random numbers of the epoch. fresh: whether every instance is visited once."""
        rng, m = np.random.default_rng(seed), self.own.size
        self.draws = rng.random((m, 2))
        self.first = rng.permutation(m) if fresh else np.zeros(0, np.int64)

    def round(self, number: int, sigma: float) -> tuple[Report, list[Piece]]:
        """Make the steps of one of ROUNDS rounds of the epoch, against the weights plus sigma times
        the shard's own change. Returns a report, and the change in pieces, one for each shard."""
        at = slice(number * self.steps, (number + 1) * self.steps)
        local, gap, value, self.touched, gain = _round(
            self.data,
            self.own,
            self.lam * self.n / sigma,
            self.first[at],
            self.draws[at],
            self.sampler.weights,
            self.duals,
            self.V,
            self.kept,
            self.before,
            self.mine,
        )
        pieces, linear, square = changes.cut(self.kept, self.V, sigma, self.S)
        return Report((local, gap, value), gain, linear, square), pieces

    def merge(self, pieces: list[Piece]) -> tuple[Piece, float]:
        return changes.merge(pieces, self.place)

    def settle(self, t: float, merged: list[Piece]) -> None:
        """Take the share t of the round's change of blocks and weights. merged: the sums of the
        changes of all shards."""
        _retreat(self.data, t, self.touched, self.duals, self.before, self.mine)
        for piece in merged:
            changes.add_rows(self.kept, self.V, t, *piece)
        changes.forget(self.kept)
        self.touched = 0

    def full_pass(self) -> tuple[np.ndarray, np.ndarray]:
        """(losses, rewards) of this shard at the present weights; block gaps are refreshed."""
        losses, rewards = np.empty(self.own.size), np.empty(self.own.size)
        _full_pass(self.data, self.own, self.V, self.duals, losses, rewards)
        self.sampler.fill(self.duals.gaps[self.own])
        return losses, rewards

    def weights_of_duals(self) -> np.ndarray:
        """The part of w(alpha) that the dual variables of this shard make."""
        W = np.zeros_like(self.V)
        _weights(self.data, self.own, 1.0 / (self.lam * self.n), self.duals.mu, W)
        return W

    def set_weights(self, W: np.ndarray) -> None:
        self.V[:] = W

    def weights(self) -> np.ndarray:
        return self.V

    def gaps(self) -> float:
        """The sum of the block gaps of this shard, each as last seen."""
        return float(self.duals.gaps[self.own].sum())


# ---- Kernels ----------------------------------------------------------------------------------


@kernel
def _row_count(data, i):
    return rows_of(data, i).size


@kernel
def _start(data, own, mu, h, gaps):
    for i in own:
        gold(data, i, mu[data.parts[i] : data.parts[i + 1]])
        h[i], gaps[i] = 0.0, 1.0


@kernel
def _round(data, own, scale, first, draws, weights, duals, V, kept, before, mine):
    """(place, block gap and value of the last step, number of blocks, gain as in Report).

    The subproblem of a shard (Ma et al. 2015, equation 9) is the dual with own changes of the
    weights counted sigma times: SDCA on it is SDCA with lambda n / sigma in place of lambda n.
    """
    memory, m, at, local, gap, value = scratch(data.parts), 0, 0, 0, 0.0, 0.0
    for t in range(draws.shape[0]):
        local = first[t] if first.size else draw(weights, draws[t, 0], draws[t, 1])
        i = own[local]
        if mine[local] < 0:
            block = duals.mu[data.parts[i] : data.parts[i + 1]]
            for p in range(block.size):
                before.mu[at + p] = block[p]
            before.own[m], before.h[m], mine[local] = local, duals.h[i], m
            at += block.size
            m += 1
        keep(data, i, V, kept)
        gap, value, _ = block_update(data, i, scale, memory, duals.mu, duals.h, V, V, None)
        if not is_gap(gap, value):
            break
        duals.gaps[i] = gap
        update(weights, local, gap)
    gain, at = 0.0, 0
    for b in range(m):
        i = own[before.own[b]]
        now = duals.mu[data.parts[i] : data.parts[i + 1]]
        old = before.mu[at : at + now.size]
        gain += duals.h[i] - before.h[b] + reward(data, i, now, now) - reward(data, i, old, old)
        at += now.size
        mine[before.own[b]] = i
    return local, gap, value, m, gain


@kernel
def _retreat(data, t, touched, duals, before, mine):
    """mu <- (1-t) old + t mu, and the same for h, in the blocks of a round. Entropy is concave, so
    h stays a lower bound."""
    at = 0
    for b in range(touched):
        local = before.own[b]
        i = mine[local]
        mine[local] = -1
        now = duals.mu[data.parts[i] : data.parts[i + 1]]
        if t < 1.0:
            for p in range(now.size):
                now[p] = before.mu[at + p] + t * (now[p] - before.mu[at + p])
            duals.h[i] = before.h[b] + t * (duals.h[i] - before.h[b])
        at += now.size


@kernel
def _full_pass(data, own, W, duals, losses, rewards):
    """The full pass of certify_dual (optim/certificate) over the instances of one shard."""
    memory = scratch(data.parts)
    for m in range(own.size):
        i = own[m]
        size = data.parts[i + 1] - data.parts[i]
        theta, nu, z = memory[:size], memory[size : 2 * size], memory[2 * size : 3 * size]
        mu = duals.mu[data.parts[i] : data.parts[i + 1]]
        value = oracle(data, i, W, 1.0, theta, nu)
        gold(data, i, z)
        losses[m] = value - dot(theta, z)
        rewards[m] = duals.h[i] + reward(data, i, theta, mu)
        duals.gaps[i] = value - duals.h[i] - dot(theta, mu)


@kernel
def _weights(data, own, step, mu, W):
    memory = scratch(data.parts)
    for i in own:
        a, b = data.parts[i], data.parts[i + 1]
        z = memory[: b - a]
        gold(data, i, z)
        for p in range(b - a):
            z[p] -= mu[a + p]
        add(data, i, z, step, W)
