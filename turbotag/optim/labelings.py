"""Dual variables as lists of answers: for each instance some labelings and the weight of each.

The distribution alpha_i of an instance is kept as a mixture of points p with weights a_p that sum
to 1. A point is a labeling (beta = inf), or a distribution of which the stats z_p and the entropy
over beta, h_p, are known (finite beta). The mixture has stats sum_p a_p z_p, and its entropy over
beta is at least h = sum_p a_p h_p: this is the compact dual of optim/sdca, with its terms kept
apart. Mass can then move between two points of an instance, not only from all points to a new one:
    from b to a:   alpha <- alpha + delta (a - b),   0 <= delta <= a_b,
    gain of n D:   delta (score_a - score_b) - delta^2/2 |F (z_b - z_a)|^2 / (lambda n),
with score_p = theta'z_p + h_p at the present weights. Points are stored sparse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from turbotag.optim.base import EXACT, KERNEL_CHAIN, DualOptimizer
from turbotag.optim.certificate import check_gap
from turbotag.optim.problem import Problem

# An answer is new if its score is above the best known score by more than this share of it.
SAME = 1e-12


class Point(NamedTuple):
    """Stats z_p of a labeling or a distribution (its non-zero parts, and their values), and its
    entropy over beta."""

    parts: np.ndarray
    values: np.ndarray
    entropy: float


class Lists:
    """A list of points for each instance, at first its gold answer."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self.points = [[sparse(problem.gold(i), 0.0)] for i in range(problem.n)]

    def scores(self, i: int, theta: np.ndarray) -> np.ndarray:
        """theta'z_p + h_p of the points of instance i."""
        return np.array([theta[p.parts] @ p.values + p.entropy for p in self.points[i]])

    def stats(self, i: int, p: int) -> np.ndarray:
        point, z = self.points[i][p], np.zeros(self.problem.size(i))
        z[point.parts] = point.values
        return z

    def remember(self, i: int, point: Point, most: int) -> None:
        """Put a point first. The `most` newest points stay, and the gold answer, which comes
        last."""
        self.points[i].insert(0, point)
        del self.points[i][most:-1]

    @property
    def nbytes(self) -> int:
        return sum(p.parts.nbytes + p.values.nbytes for mine in self.points for p in mine)

    def state(self) -> dict[str, np.ndarray]:
        every = [p for mine in self.points for p in mine]
        return {
            "counts": np.array([len(mine) for mine in self.points]),
            "entropies": np.array([p.entropy for p in every]),
            "sizes": np.array([p.parts.size for p in every]),
            "parts": np.concatenate([p.parts for p in every]),
            "values": np.concatenate([p.values for p in every]),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take over a saved state; ValueError if it has no lists of this problem."""
        names = ("counts", "entropies", "sizes", "parts", "values")
        counts, entropies, sizes, parts, values = (state[name] for name in names)
        kinds = [a.dtype.kind for a in (counts, entropies, sizes, parts, values)]
        if kinds != ["i", "f", "i", "i", "f"] or (counts < 1).any() or (sizes < 0).any():
            raise ValueError("the lists of answers have wrong types, or negative sizes")
        shapes = counts.shape, entropies.shape, sizes.shape, parts.shape, values.shape
        k, m = int(counts.sum()), int(sizes.sum())
        if shapes != ((self.problem.n,), (k,), (k,), (m,), (m,)):
            raise ValueError(f"the lists of answers have the shapes {shapes}")
        cuts, ends = np.cumsum([0, *sizes.tolist()]), np.cumsum(counts)
        every = [
            Point(parts[a:b].copy(), values[a:b].copy(), h)
            for a, b, h in zip(cuts[:-1], cuts[1:], entropies.tolist(), strict=True)
        ]
        self.points = [every[end - count : end] for end, count in zip(ends, counts, strict=True)]
        for i, mine in enumerate(self.points):
            size = self.problem.size(i)
            if any(p.parts.size and not 0 <= p.parts.min() <= p.parts.max() < size for p in mine):
                raise ValueError(f"an answer of instance {i} has parts that it lacks")


class Labelings(DualOptimizer):
    """What methods with lists share: a distribution over the points of each instance."""

    default_epochs = 200
    default_gap = 1e-3
    structures = (*EXACT, KERNEL_CHAIN)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.scale = lam * problem.n
        self.W = np.zeros(problem.shape)
        self.dual: float = 0.0
        self.lists = Lists(problem)
        self.alpha = [np.ones(1) for _ in range(problem.n)]

    def point(self, i: int) -> tuple[np.ndarray, float]:
        mu, h = np.zeros(self.problem.size(i)), 0.0
        for a, p in zip(self.alpha[i].tolist(), self.lists.points[i], strict=True):
            mu[p.parts] += a * p.values
            h += a * p.entropy
        return mu, h

    def answer(self, i: int, theta: np.ndarray, known: np.ndarray) -> tuple[float, int]:
        """Ask the oracle; return its value, and the number of its answer in the list of points. A
        new answer is added to the list, with weight 0. known: (points,) scores at theta."""
        value, nu = self.problem.infer(i, theta)
        self.oracle_calls += 1
        check_gap(value - float(self.alpha[i] @ known), value)
        best = int(known.argmax())
        if value - known[best] <= SAME * max(1.0, abs(value)):
            return value, best
        self.lists.points[i].append(sparse(nu, value - float(theta @ nu)))
        self.alpha[i] = np.append(self.alpha[i], 0.0)
        return value, len(self.lists.points[i]) - 1

    def shift(self, i: int, b: int, a: int, slope: float) -> float:
        """Move mass from point b to point a, whose score is larger by slope; return n times the
        gain of the dual."""
        if a == b or slope <= 0.0:
            return 0.0
        d = self.lists.stats(i, b) - self.lists.stats(i, a)
        curvature = self.problem.norm_sq(i, d) / self.scale
        delta, all_of_b = float(self.alpha[i][b]), True
        if slope < delta * curvature:
            delta, all_of_b = slope / curvature, False
        self.problem.add(i, d, delta / self.scale, self.W)
        self.alpha[i][a] += delta
        self.alpha[i][b] = 0.0 if all_of_b else self.alpha[i][b] - delta
        return self.gained(delta * slope - 0.5 * delta * delta * curvature)

    def mix(self, i: int, p: int, eta: float, slope: float, limit: float) -> float:
        """alpha <- alpha + eta size (p - alpha), towards point p (eta = 1) or away from it
        (eta = -1), with the best size up to `limit`; return n times the gain of the dual."""
        d = self.point(i)[0] - self.lists.stats(i, p)
        curvature = self.problem.norm_sq(i, d) / self.scale
        size = limit if slope >= limit * curvature else slope / curvature
        self.problem.add(i, d, eta * size / self.scale, self.W)
        alpha = self.alpha[i]
        alpha *= 1.0 - eta * size
        alpha[p] = max(alpha[p] + eta * size, 0.0) if size < limit else float(eta > 0.0)
        alpha /= alpha.sum()
        return self.gained(size * slope - 0.5 * size * size * curvature)

    def gained(self, gain: float) -> float:
        self.dual += gain / self.problem.n
        self.updates += 1
        return gain

    def forget(self, i: int, most: int) -> None:
        """Keep at most `most` points: points without weight go first, the oldest before others;
        then the two points with the least weight become one point, their mixture."""
        points, alpha = self.lists.points[i], self.alpha[i]
        while len(points) > most:
            a, b = np.argsort(alpha, kind="stable")[:2].tolist()
            if alpha[a] > 0.0:
                share = float(alpha[a] / (alpha[a] + alpha[b]))
                z = self.lists.stats(i, b) + share * (
                    self.lists.stats(i, a) - self.lists.stats(i, b)
                )
                h = points[b].entropy + share * (points[a].entropy - points[b].entropy)
                points[b], alpha[b] = sparse(z, h), alpha[a] + alpha[b]
            del points[a]
            self.alpha[i] = alpha = np.delete(alpha, a)

    @property
    def state_bytes(self) -> int:
        return self.lists.nbytes

    def state(self) -> dict[str, np.ndarray]:
        own = {"W": self.W, "dual": np.array([self.dual]), "alpha": np.concatenate(self.alpha)}
        return {**own, **self.lists.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.lists.restore(state)
        alpha, ends = state["alpha"], np.cumsum(state["counts"])
        if alpha.shape != (ends[-1],) or not (alpha >= 0.0).all():
            raise ValueError("the weights of answers are too few, too many or negative")
        self.alpha = [a.copy() for a in np.split(alpha, ends[:-1])]
        if not all(abs(a.sum() - 1.0) < 1e-9 for a in self.alpha):
            raise ValueError("the weights of the answers of an instance do not sum to 1")
        super().restore(state)
        self.dual = float(state["dual"][0])


def sparse(stats: np.ndarray, entropy: float) -> Point:
    """A point from its stats."""
    parts = np.flatnonzero(stats)
    return Point(parts, stats[parts].copy(), entropy)
