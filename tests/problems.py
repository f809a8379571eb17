"""Small random chain problems, and the optimum of any problem."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

from turbotag.optim.algorithms import algorithm
from turbotag.optim.certificate import objective
from turbotag.optim.dca import DCA
from turbotag.optim.problem import Problem
from turbotag.optim.sdca import SDCA, Visits
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import label_sequences


def chain_problem(
    seed: int = 0,
    n: int = 12,
    K: int = 3,
    n_attributes: int = 9,
    beta: float = 1.0,
    gamma: float = 0.0,
    order: int = 1,
    longest: int = 5,
    mask=None,
    values: bool = True,
    costs=None,
) -> ChainProblem:
    """n sentences of random length, attributes (some several times in a sentence) and labels."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, n)
    sentences = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    per_token = 3
    tokens = int(sentences[-1])
    rows = rng.integers(0, n_attributes, tokens * per_token).astype(np.int32)
    token = np.repeat(np.arange(tokens), per_token)
    start = np.repeat(np.repeat(sentences[:-1], lengths), per_token)
    positions = (token - start).astype(np.int32)
    weights = rng.normal(size=rows.size) if values else np.ones(rows.size)
    offsets = sentences * per_token
    occurrences = offsets, rows, positions, weights.astype(np.float32)
    sparse.sort_occurrences(*occurrences)
    gold = rng.integers(0, K, tokens).astype(np.int32)
    domain = label_sequences(K, order, mask)
    return ChainProblem(sentences, occurrences, gold, n_attributes, domain, beta, gamma, costs)


def dense(problem: ChainProblem, i: int) -> np.ndarray:
    """F_i as a dense matrix: (weights, parts of instance i)."""
    F = np.zeros((problem.shape[0] * problem.K, problem.size(i)))
    K, T = problem.K, int(problem.lengths[i])
    for o in range(problem.offsets[i], problem.offsets[i + 1]):
        for k in range(K):
            F[problem.rows[o] * K + k, problem.positions[o] * K + k] += problem.values[o]
    for p in range(problem.n_shared):
        F[problem.n_attributes * K + p, T * K + p] = 1.0
    return F


def block_step(opt: SDCA, i: int) -> tuple[float, float]:
    """One block update; the block gap before it and the gain of the dual."""
    before, one = float(opt.dual), np.zeros((1, 2))
    visits = Visits(np.array([i]), one, opt.sampler.weights, opt.gaps)
    opt.dual = opt.duals.steps(visits, opt.W, before)
    return float(opt.gaps[i]), float(opt.dual) - before


def check_every_step(opt: SDCA) -> None:
    """Each step raises the dual by what it says, no gap is negative, W stays w(alpha)."""
    for _ in range(4):
        before = opt.dual
        opt.epoch()
        assert opt.dual >= before - 1e-12
        running = opt.dual
        certificate = opt.certify()
        assert certificate.gap >= -1e-9
        assert certificate.dual == pytest.approx(running, abs=1e-10)
        W = opt.W.copy()
        opt.finish()
        np.testing.assert_allclose(opt.W, W, atol=1e-10)
        for i in range(opt.problem.n):
            gap, gain = block_step(opt, i)
            assert gap >= -1e-9
            assert gain >= -1e-12


def check_first_epoch(problem: Problem, lam: float) -> None:
    """The first epoch of compact SDCA is an epoch of DCA."""
    sdca = SDCA(problem, lam, np.random.default_rng(0))
    dca = DCA(problem, lam, np.random.default_rng(0))
    sdca.rng.random((problem.n, 2))  # sdca draws its samples before its permutation
    dca.rng.bit_generator.state = sdca.rng.bit_generator.state
    sdca.rng = np.random.default_rng(0)
    sdca.epoch()
    dca.epoch()
    np.testing.assert_allclose(sdca.W, dca.W, atol=1e-12)


def check_delayed_steps(problem: Problem, lam: float) -> None:
    """SAG, which settles rows when they are read, gives the weights of dense steps."""
    opt = algorithm("sag")(problem, lam, np.random.default_rng(0))
    W, total, memory = np.zeros(problem.shape), np.zeros(problem.shape), {}
    original = opt._step

    def spy(i: int) -> None:
        original(i)
        alpha = opt._step_size()
        _, _, nu = problem.oracle(i, W)
        g = nu - problem.gold(i)
        problem.add(i, g - memory.get(i, 0.0 * g), 1.0, total)
        memory[i] = g.copy()
        W[:] = (1 - alpha * lam) * W - alpha / len(memory) * total

    opt._step = spy
    for _ in range(3):
        opt.epoch()
    np.testing.assert_allclose(opt.weights(), W, atol=1e-10)


_OPTIMA: dict[bytes, tuple[float, np.ndarray]] = {}  # by problem: many tests share one


def optimum(problem: Problem, lam: float) -> tuple[float, np.ndarray]:
    """P* and its weights, by SciPy's L-BFGS; computed once for problems that are equal."""
    key = pickle.dumps((type(problem).__name__, problem.shape, lam, problem.data))
    if key not in _OPTIMA:
        _OPTIMA[key] = _optimum(problem, lam)
    value, weights = _OPTIMA[key]
    return value, weights.copy()


def _optimum(problem: Problem, lam: float) -> tuple[float, np.ndarray]:
    def flat(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, grad = objective(problem, lam, w.reshape(problem.shape))
        return value, grad.reshape(-1)

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000}
    start = np.zeros(problem.shape).reshape(-1)
    found = minimize(flat, start, jac=True, method="L-BFGS-B", options=options)
    return found.fun, found.x.reshape(problem.shape)
