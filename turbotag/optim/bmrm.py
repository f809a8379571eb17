"""BMRM: the bundle method for regularised risk minimisation, for any loss of the family.

Teo, Vishwanathan, Smola and Le (2010), "Bundle methods for regularized risk minimization". The mean
loss R is convex, so its tangent at any w_t is a plane below it. Iteration t adds the tangent at w_t
and minimises the regulariser plus the largest plane:
    J_t(w) = lambda/2 |w|^2 + max_{s <= t} R(w_s) + <grad R(w_s), w - w_s>,   w_{t+1} = argmin J_t.
min_w J_t(w) is a lower bound of P*, and the smallest P(w_s) an upper one. One pass over the data
gives R and its gradient; then a quadratic programme in one variable for each plane is all.

In the names of this project: the tangent at w_t belongs to the dual point nu_t of marginals at w_t,
with v_t = w(nu_t) = -grad R(w_t)/lambda and r_t = mean [H(nu_t)/beta + gamma cost(nu_t)], and is
    R(w) >= r_t - lambda <v_t, w>.
The dual of min J_t is max r'x - lambda/2 |sum_t x_t v_t|^2 over the simplex, w = sum_t x_t v_t: the
compact dual (optim/sdca) at the mixture of all dual points seen, with the same weights for all
instances. The first plane is that of the gold answers, v = 0 and r = 0: no loss is negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.optim import simplex
from turbotag.optim.base import Optimizer, Param
from turbotag.optim.certificate import Certificate, check_gap, objective, primal_value, proven
from turbotag.optim.problem import Problem

PLANES = Param("planes", 50, "cutting planes that are kept, each as large as the weights", least=3)


class BMRM(Optimizer):
    name = "bmrm"
    reference = "Teo, Vishwanathan, Smola and Le 2010"
    default_epochs = 1000
    default_gap = 1e-3
    unbounded: tuple[str, ...] = ("bounds",)
    params: tuple[Param, ...] = (PLANES,)

    def __init__(self, problem: Problem, lam: float, rng: np.random.Generator, **params: Any):
        super().__init__(problem, lam, rng, **params)
        self.W = np.zeros(problem.shape)  # w_t
        self.best_W = np.zeros(problem.shape)  # the w_s with the smallest P
        self.planes = Planes(problem.shape, lam)
        self.dual = 0.0
        self.bounds = np.array([np.inf])  # P at best_W

    def epoch(self) -> None:
        """One iteration: a tangent at w_t, then w_{t+1}."""
        primal, grad = objective(self.problem, self.lam, self.W)
        self.oracle_calls += self.problem.n
        self.visited(primal)
        v = self.W - grad / self.lam  # grad P = lambda (w - v)
        loss = primal - 0.5 * self.lam * self.problem.sq_norm(self.W)
        self.cut(v, loss + self.lam * float(np.vdot(v, self.W)))
        self.epochs += 1

    def visited(self, primal: float) -> None:
        """Keep w_t if its P is the smallest so far."""
        if primal < self.bounds[0]:
            self.bounds[0], self.best_W[:] = primal, self.W
        self.primal = float(self.bounds[0])

    def cut(self, v: np.ndarray, r: float) -> None:
        """Add a plane, and go to the minimum of J_t."""
        if len(self.planes) == self.param["planes"]:
            self.planes.merge()
        self.planes.add(v, r)
        self.planes.solve()
        self.W[:] = self.planes.mixture()
        self.dual = self.planes.value(self.problem, self.W)
        check_gap(self.primal - self.dual, self.primal)
        self.updates += 1

    def gap_estimate(self) -> float | None:
        return None if self.primal is None else self.primal - self.dual

    def weights(self) -> np.ndarray:
        return self.best_W

    def certify(self) -> Certificate:
        """P at the best weights by a full pass, and min J_t, whose planes are kept."""
        primal = primal_value(self.problem, self.lam, self.best_W)
        self.oracle_calls += self.problem.n
        return proven(primal, self.planes.value(self.problem, self.planes.mixture()))

    @property
    def state_bytes(self) -> int:
        return self.param["planes"] * self.W.nbytes

    def state(self) -> dict[str, np.ndarray]:
        own = {"W": self.W, "best_W": self.best_W, "bounds": self.bounds}
        return {**own, **self.planes.state()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.planes.restore(state)
        super().restore(state)
        self.primal = float(self.bounds[0]) if np.isfinite(self.bounds[0]) else None
        self.dual = self.planes.value(self.problem, self.W)


class Planes:
    """Planes r_t - lambda <v_t, w> below the mean loss, and the weights x_t of their best mixture.

    V: a list of v_t, each (rows, K); gram: lambda <v_s, v_t>.
    """

    def __init__(self, shape: tuple[int, int], lam: float):
        self.lam = lam
        self.V = [np.zeros(shape)]
        self.r, self.gram, self.x = np.zeros(1), np.zeros((1, 1)), np.ones(1)

    def __len__(self) -> int:
        return len(self.V)

    def add(self, v: np.ndarray, r: float) -> None:
        k = len(self)
        self.V.append(v)
        self.r, self.x = np.append(self.r, r), np.append(self.x, 0.0)
        gram = np.empty((k + 1, k + 1))
        gram[:k, :k] = self.gram
        gram[k] = gram[:, k] = [self.lam * float(np.vdot(u, v)) for u in self.V]
        self.gram = gram

    def merge(self) -> None:
        """Make one plane of the two with the smallest x, never of the first plane: a mixture of
        planes is a plane below the loss too, and the present mixture of all stays what it is."""
        a, b = sorted((1 + np.argsort(self.x[1:], kind="stable")[:2]).tolist())
        total = self.x[a] + self.x[b]
        share = self.x[b] / total if total > 0.0 else 1.0
        self.V[a] = (1.0 - share) * self.V[a] + share * self.V.pop(b)
        for array in (self.r, self.gram, self.gram.T):
            array[a] += share * (array[b] - array[a])
        self.x[a] = total
        self.r, self.x = np.delete(self.r, b), np.delete(self.x, b)
        self.gram = np.delete(np.delete(self.gram, b, 0), b, 1)

    def solve(self) -> None:
        """Find the best mixture x."""
        self.x = simplex.maximize(self.r, self.gram)

    def mixture(self) -> np.ndarray:
        """sum_t x_t v_t."""
        W = np.zeros_like(self.V[0])
        for x, v in zip(self.x.tolist(), self.V, strict=True):
            W += x * v
        return W

    def value(self, problem: Problem, W: np.ndarray) -> float:
        """The dual at x, for W = sum_t x_t v_t."""
        return float(self.r @ self.x - 0.5 * self.lam * problem.sq_norm(W))

    def state(self) -> dict[str, np.ndarray]:
        return {"V": np.stack(self.V), "r": self.r, "gram": self.gram, "x": self.x}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take over a saved state; ValueError if its planes are not of this problem, or the weights
        of the planes no mixture."""
        V, r, gram, x = (state[name] for name in ("V", "r", "gram", "x"))
        k = len(V)
        if k < 1 or V.shape[1:] != self.V[0].shape or gram.shape != (k, k) or r.shape != (k,):
            raise ValueError(f"the planes have the shapes {V.shape}, {r.shape} and {gram.shape}")
        if x.shape != (k,) or not (x >= 0.0).all() or not abs(x.sum() - 1.0) < 1e-9:
            raise ValueError("the weights of the planes are negative, or do not sum to 1")
        self.V, self.r, self.gram, self.x = [v.copy() for v in V], r.copy(), gram.copy(), x.copy()
