"""Kernels: the linear one equals the plain form; EGR trains within its bound on all of them."""

import math

import numpy as np
import pytest

from tests.structures.problem_conformance import ExactProblem
from tests.structures.test_chain_problem import instance
from turbotag.errors import UsageError
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import serves
from turbotag.optim.egr import EGR
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace
from turbotag.structures import sparse
from turbotag.structures.chain_problem import ChainProblem
from turbotag.structures.chain_verbs import label_sequences
from turbotag.structures.kernel_problem import KERNELS, Kernel, KernelChainProblem

LAM = 0.1


def data(seed=0, n=8, d=4, K=3):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, n)
    sentences = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    tokens = int(sentences[-1])
    X = rng.normal(size=(tokens, d)).astype(np.float32).astype(np.float64)
    gold = rng.integers(0, K, tokens).astype(np.int32)
    return sentences, X, gold, K


def plain(sentences, X, gold, K, beta=math.inf, gamma=1.0):
    tokens, d = X.shape
    lengths = np.diff(sentences)
    position = np.arange(tokens) - np.repeat(sentences[:-1], lengths)
    rows = np.tile(np.arange(d, dtype=np.int32), tokens)
    positions = np.repeat(position, d).astype(np.int32)
    occurrences = sentences * d, rows, positions, X.reshape(-1).astype(np.float32)
    sparse.sort_occurrences(*occurrences)
    return ChainProblem(sentences, occurrences, gold, d, label_sequences(K), beta, gamma)


class TestKernels(ExactProblem):
    variants = tuple({"kernel": Kernel(name)} for name in KERNELS)
    test_settle_moves_the_rows_of_one_instance = None  # scores read the rows of all words

    def make(self, beta, gamma, kernel):
        sentences, X, gold, K = data(n=5)
        problem = KernelChainProblem(sentences, X, gold, K, beta, gamma, kernel)
        return problem, [instance(problem, i) for i in range(problem.n)]

    def metric(self, problem):
        words, shared = np.kron(problem.G, np.eye(problem.K)), np.eye(problem.n_shared)
        zeros = np.zeros((len(words), len(shared)))
        return np.block([[words, zeros], [zeros.T, shared]])


# a loss that each kind of optimizer serves
LOSSES = {"any": (1.0, 1.0), "smooth": (1.0, 0.0), "hinge": (math.inf, 1.0)}
LOSSES["perceptron"] = math.inf, 0.0
SERVING = [name for name, cls in ALGORITHMS.items() if "kernel-chain" in cls.structures]


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - SERVING))
def test_an_optimizer_that_takes_weights_for_vectors_is_refused(name):
    problem = KernelChainProblem(*data(), *LOSSES[algorithm(name).losses], Kernel("rbf"))
    with pytest.raises(UsageError, match=f"{name} serves .*, not kernel-chain"):
        algorithm(name)(problem, LAM, np.random.default_rng(0))


@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
@pytest.mark.parametrize("kind", ["any", "hinge"])
def test_bounds_of_all_optimizers_hold_for_each_other(kind, kernel):
    beta, gamma = LOSSES[kind]
    problem = KernelChainProblem(*data(), beta, gamma, Kernel(kernel, width=2.0))
    found = {}
    for name in SERVING:
        if serves(algorithm(name).losses, beta, gamma):
            opt = algorithm(name)(problem, LAM, np.random.default_rng(0))
            found[name] = run(opt, Limits(100, 1e-6), Trace()).certificate
    best = max(c.dual for c in found.values())
    assert all(c.primal >= best - 1e-9 for c in found.values()), found
    assert min(c.gap for c in found.values()) <= 1e-6
    assert len(found) >= 6


@pytest.mark.parametrize("name", SERVING)
def test_linear_kernel_equals_the_plain_form(name):
    sentences, X, gold, K = data()
    optimizer, loss = algorithm(name), LOSSES[algorithm(name).losses]
    kernel = KernelChainProblem(sentences, X, gold, K, *loss)
    linear = plain(sentences, X, gold, K, *loss)
    linear.radius_sq = kernel.radius_sq  # steps of EG and EGR start from this bound
    runs = [optimizer(p, LAM, np.random.default_rng(0)) for p in (kernel, linear)]
    # after a step of SMO two answers are equally good, and rounding decides between them
    for _ in range(3 if name == "smo" else 30):
        for opt in runs:
            opt.epoch()
    a, b = (opt.certify() for opt in runs)
    assert a.primal == pytest.approx(b.primal, abs=1e-8)
    assert a.dual == pytest.approx(b.dual, abs=1e-8)
    w = X.T @ runs[0].weights()[: X.shape[0]]
    np.testing.assert_allclose(w, runs[1].weights()[: X.shape[1]], atol=1e-6)
    np.testing.assert_allclose(
        kernel.score_words(X, runs[0].weights()), X @ runs[1].weights()[: X.shape[1]], atol=1e-6
    )


@pytest.mark.parametrize("kernel", ["polynomial", "rbf"])
def test_other_kernels_train_within_the_bound(kernel):
    sentences, X, gold, K = data()
    problem = KernelChainProblem(sentences, X, gold, K, kernel=Kernel(kernel))
    opt = EGR(problem, LAM, np.random.default_rng(0))
    gaps = []
    for _ in range(200):
        opt.epoch()
        assert opt.smoothed <= opt.dual + 1e-9
        assert -1e-9 <= opt.gap_estimate() <= opt.bound()
        gaps.append(opt.gap_estimate())
    assert gaps[-1] < gaps[20] / 10


def test_kernels_are_their_definitions():
    X = np.random.default_rng(1).normal(size=(3, 2))
    x, y = X[0], X[1]
    assert Kernel("polynomial", 3).gram(X, X)[0, 1] == pytest.approx((1 + x @ y) ** 3)
    expected = math.exp(-float((x - y) @ (x - y)) / (2 * 0.5**2))
    assert Kernel("rbf", width=0.5).gram(X, X)[0, 1] == pytest.approx(expected)
    with pytest.raises(UsageError, match="unknown kernel"):
        Kernel("other")
