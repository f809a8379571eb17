"""BLAS has one thread in training, whatever the process has, and gets the others back."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag import blas
from turbotag.optim.algorithms import ALGORITHMS, algorithm
from turbotag.optim.base import serves
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace

LONG = 20_000  # numbers: OpenBLAS sums shorter vectors in one thread anyway
LOSSES = [(1.0, 0.0), (np.inf, 1.0), (np.inf, 0.0)]


def threads():
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_one_thread_within_and_all_after():
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with blas.one_thread():
            assert threads() == {1}
            with blas.one_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == before


def test_two_threads_that_train_at_once_leave_the_process_as_it_was():
    inside, leave = threading.Event(), threading.Event()

    def first():
        with blas.one_thread():
            inside.set()
            leave.wait(10)

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        other = threading.Thread(target=first)
        other.start()
        assert inside.wait(10)
        with blas.one_thread():
            leave.set()
            other.join()
            assert threads() == {1}  # the one that came first has left
        assert threads() == before


@pytest.mark.parametrize("structure", ["chain", "tree"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_same_bytes_whatever_the_number_of_threads(name, structure):
    beta, gamma = next(x for x in LOSSES if serves(algorithm(name).losses, *x))

    def train(n):
        problem = PROBLEMS[structure](beta, gamma)
        with threadpool_limits(n, user_api="blas"):
            assert max(threads()) == n, "this BLAS has but one thread"
            optimizer = algorithm(name)(problem, 0.05, np.random.default_rng(1))
            result = run(optimizer, Limits(3), Trace())
        assert result.weights.size > LONG
        return result.weights.tobytes(), result.certificate

    assert train(1) == train(2)


PROBLEMS = {
    "chain": lambda beta, gamma: chain_problem(
        n=20, K=3, n_attributes=LONG // 2, beta=beta, gamma=gamma, longest=40
    ),
    "tree": lambda beta, gamma: arc_problem(
        n=4, n_rows=2 * LONG, most=2000, beta=beta, gamma=gamma
    ),
}
