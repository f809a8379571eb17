"""Kernels: the linear one equals the plain form; EGR trains within its bound on all of them."""

import math

import numpy as np
import pytest

from tests.structures.problem_conformance import ExactProblem
from tests.structures.test_chain_problem import instance
from turbotag.errors import UsageError
from turbotag.optim.egr import EGR
from turbotag.optim.sdca import SDCA
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


def plain(sentences, X, gold, K):
    tokens, d = X.shape
    lengths = np.diff(sentences)
    position = np.arange(tokens) - np.repeat(sentences[:-1], lengths)
    rows = np.tile(np.arange(d, dtype=np.int32), tokens)
    positions = np.repeat(position, d).astype(np.int32)
    occurrences = sentences * d, rows, positions, X.reshape(-1).astype(np.float32)
    sparse.sort_occurrences(*occurrences)
    return ChainProblem(sentences, occurrences, gold, d, label_sequences(K), math.inf, 1.0)


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


@pytest.mark.parametrize("optimizer", [EGR, SDCA])
def test_linear_kernel_equals_the_plain_form(optimizer):
    sentences, X, gold, K = data()
    kernel = KernelChainProblem(sentences, X, gold, K)
    linear = plain(sentences, X, gold, K)
    linear.radius_sq = kernel.radius_sq  # EGR starts from this bound
    runs = [optimizer(p, LAM, np.random.default_rng(0)) for p in (kernel, linear)]
    for _ in range(30):
        for run in runs:
            run.epoch()
    a, b = (run.certify() for run in runs)
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
