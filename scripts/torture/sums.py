"""Sums over trees and chains at extreme scores, compared with the enumeration of all structures."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[2]))  # tests/ has the oracles


from tests import oracles
from tests.tree_oracles import trees
from turbotag.structures import chain, chain2, parts, projective, pruning, second_order, tree
from turbotag.structures.second_order import Approximation, Domain

if TYPE_CHECKING:
    from extremes import Tally

# ---- Sums over trees and chains ------------------------------------------------------------------


def enumerated(
    scores: np.ndarray, beta: float, single_root: bool, is_projective: bool
) -> tuple[float, np.ndarray]:
    """log Z and the probabilities of arcs, by the sum over all trees; each sum is exact."""
    n = len(scores) - 1
    heads = trees(n, single_root, is_projective)
    values = [math.fsum(beta * scores[h, m] for m, h in enumerate(t, 1)) for t in heads.tolist()]
    top, mu = max(values), np.zeros_like(scores)
    if top == -math.inf:
        return top, mu
    weights = np.array([math.exp(v - top) for v in values])
    total = math.fsum(weights)
    for h, m in itertools.product(range(n + 1), range(1, n + 1)):
        mu[h, m] = math.fsum(weights[heads[:, m - 1] == h]) / total
    return top + math.log(total), mu


def graphs(n: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Scores of all sizes up to 700, of -700 and 700, and near-singular ones."""
    shape = (n + 1, n + 1)
    yield "uniform", rng.uniform(-700, 700, shape)
    yield "-700 or 700", 700.0 * rng.choice([-1.0, 1.0], shape)
    yield "all 700", np.full(shape, 700.0)
    yield "all -700", np.full(shape, -700.0)
    one = np.full(shape, -700.0)
    one[rng.integers(0, n + 1), rng.integers(1, n + 1)] = 700.0
    yield "one arc has all the mass", one
    apart, half = rng.normal(size=shape), (n + 1) // 2
    apart[:half, half:] -= 700.0
    apart[half:, :half] -= 700.0
    yield "nearly disconnected", apart
    cycle = np.full(shape, -350.0)
    for m in range(1, n + 1):
        cycle[m % n + 1, m] = 350.0
    yield "a heavy cycle", cycle
    pruned = rng.uniform(-700, 700, shape)
    pruned[rng.random(shape) < 0.4] = -np.inf
    yield "pruned", pruned
    mixed = rng.normal(size=shape) * 10.0 ** rng.uniform(-12, 2.8, shape)
    yield "from 1e-12 to 700", mixed


def sums(tally: Tally, quick: bool) -> list[tuple[str, float, float]]:
    """Kernels against enumeration; the largest errors of log Z (relative) and marginals."""
    rng, worst = np.random.default_rng(4), {}

    def note(kind: str, log_z: float, expected: float, mu: np.ndarray, mean: np.ndarray) -> None:
        assert np.isfinite(mu).all()
        assert mu.min() >= 0.0
        assert mu.max() <= 1.0 + 1e-12
        if expected == -math.inf:
            assert log_z == expected
            return
        errors = abs(log_z - expected) / max(1.0, abs(expected)), float(np.abs(mu - mean).max())
        assert errors[0] <= 1e-12, f"log Z is {log_z!r}, expected {expected!r}"
        assert errors[1] <= 1e-9, f"marginals are off by {errors[1]}"
        worst[kind] = tuple(map(max, zip(worst.get(kind, (0.0, 0.0)), errors, strict=True)))

    def arcs(scores: np.ndarray, single_root: bool, is_projective: bool) -> None:
        mu = np.empty_like(scores)
        kind, structure = ("projective", projective) if is_projective else ("matrix-tree", tree)
        log_z = structure.marginals(scores, single_root, 1.0, mu)
        expected, mean = enumerated(scores, 1.0, single_root, is_projective)
        note(kind, log_z, expected, mu, mean)

    for n in range(1, 5 if quick else 7):
        for _ in range(2 if quick or n == 6 else 12):
            for name, scores in graphs(n, rng):
                for single_root, is_projective in itertools.product((True, False), repeat=2):
                    attack = functools.partial(arcs, scores, single_root, is_projective)
                    kind = "projective sums" if is_projective else "matrix-tree sums"
                    tally.run(kind, f"{n} words, {name}, {single_root}", attack, "finite")
    for order, K, T in ((1, 3, 5), (1, 1, 6), (1, 5, 1), (2, 3, 4), (2, 2, 6)):
        for size in (700.0, 350.0, 1e-300):
            for draw in ("uniform", "signs"):
                attack = functools.partial(sequences, note, rng, order, K, T, size, draw)
                tally.run("chain sums", f"order {order}, {T} words, {size}", attack, "finite")
    long = functools.partial(long_chain, note, rng, 200 if quick else 2000)
    tally.run("chain sums", "2,000 words", long, "finite")
    for n in range(1, 4 if quick else 5):
        for seed in range(3 if quick else 15):
            attack = functools.partial(second_order_trees, n, seed)
            tally.run("second-order bounds and beliefs", f"{n} words, {seed}", attack, "finite")
    return [(kind, *errors) for kind, errors in worst.items()]


Note = Callable[[str, float, float, np.ndarray, np.ndarray], None]


def sequences(
    note: Note, rng: np.random.Generator, order: int, K: int, T: int, size: float, draw: str
) -> None:
    """All label sequences of a short chain, one by one."""
    parts_of = T * K + K * K + (K**3 if order == 2 else 0)
    theta = size * (
        rng.uniform(-1, 1, parts_of) if draw == "uniform" else rng.choice([-1.0, 1.0], parts_of)
    )
    Z = np.array([oracles.stats(y, K, order) for y in oracles.sequences(T, K)])
    values = [math.fsum(theta * z) for z in Z]
    top = max(values)
    weights = np.array([math.exp(v - top) for v in values])
    nu, inference = np.empty(parts_of), chain if order == 1 else chain2
    log_z = inference.marginals(theta, *chain.free(K), 1.0, nu)
    expected = top + math.log(math.fsum(weights))
    mean = weights @ Z / weights.sum()
    note("chain", log_z, expected, np.minimum(nu / T, 1.0), mean / T)


def long_chain(note: Note, rng: np.random.Generator, T: int) -> None:
    """Scores of -700 and 700 over a long sentence, against NumPy's sums of logarithms."""
    for K in (2, 7):
        theta = 700.0 * rng.choice([-1.0, 1.0], T * K + K * K)
        u, trans = theta[: T * K].reshape(T, K), theta[T * K :].reshape(K, K)
        forward, backward = [u[0]], [np.zeros(K)]
        for t in range(1, T):
            forward.append(u[t] + np.logaddexp.reduce(forward[-1][:, None] + trans, axis=0))
            ahead = u[T - t] + backward[-1]
            backward.append(np.logaddexp.reduce(trans + ahead, axis=1))
        expected = float(np.logaddexp.reduce(forward[-1]))
        both = np.array(forward) + np.array(backward[::-1])
        mean = np.exp(both - np.logaddexp.reduce(both, axis=1)[:, None])
        nu = np.empty(theta.size)
        log_z = chain.marginals(theta, *chain.free(K), 1.0, nu)
        note("chain of 2,000", log_z, expected, nu[: T * K].reshape(T, K), mean)


def second_order_trees(n: int, seed: int) -> None:
    """Scores of -700 to 700: the convex bound lies above log Z, and all beliefs are some."""
    rng = np.random.default_rng(seed)
    p = parts.parts(*pruning.full(n), True)
    theta = 700.0 * rng.choice([-1.0, 1.0], parts.size(p))
    if seed % 3 == 1:
        theta = rng.uniform(-700, 700, theta.size)
    if seed % 3 == 2:
        theta[: p.heads.size] = rng.normal(size=p.heads.size)
    for single_root, beta in itertools.product((True, False), (1e-6, 1.0, 1e6)):
        values, z = [], np.empty(theta.size)
        for heads in trees(n, single_root):
            parts.indicator(heads, p, z)
            values.append(beta * math.fsum(theta * z))
        log_z = max(values) + math.log(math.fsum(math.exp(v - max(values)) for v in values))
        pi, nu = np.empty((2, theta.size + 2 * p.heads.size))
        domain = Domain(p, single_root, Approximation())
        bound, _, _ = second_order.bound(theta, None, domain, beta, pi, nu)
        assert beta * bound >= log_z - 1e-12 * max(1.0, abs(log_z), beta * 700.0 * theta.size)
        assert np.isfinite(pi).all()
        assert np.isfinite(nu).all()
        for entropy in ("convex", "bethe"):
            approximation, mu = Approximation(entropy, 30, 0.3, 1e-3), np.empty_like(theta)
            second_order.marginals(theta, Domain(p, single_root, approximation), beta, mu)
            arcs = mu[: p.heads.size]
            assert ((arcs >= 0.0) & (arcs <= 1.0 + 1e-9)).all()
