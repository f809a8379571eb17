import numpy as np
from numba import njit

from turbotag.structures.elementary import exp, log


@njit(fastmath=True)  # as the kernels that call them: flags must not leak into exp and log
def _each(x, exps, logs):
    for i in range(x.size):
        exps[i] = exp(x[i])
    for i in range(x.size):
        logs[i] = log(abs(x[i]))


def test_exp_and_log_are_within_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-700, 700, 20_000), rng.normal(size=20_000), 1 + 1e-7 * rng.normal(size=5_000)]
    )
    exps, logs = np.empty_like(x), np.empty_like(x)
    _each(x, exps, logs)
    assert (np.abs(exps - np.exp(x)) <= 2 * np.spacing(np.exp(x))).all()
    expected = np.log(np.abs(x))
    assert (np.abs(logs - expected) <= 2 * np.spacing(np.abs(expected))).all()


def test_log_over_the_whole_range_of_magnitudes():
    x = 10.0 ** np.linspace(-307, 308, 5_001)
    exps, logs = np.empty_like(x), np.empty_like(x)
    _each(x, exps, logs)
    np.testing.assert_allclose(logs, np.log(x), rtol=4e-16, atol=4e-16)


def test_exp_at_the_ends():
    assert exp(-1e9) == 0.0
    assert exp(-np.inf) == 0.0
    assert exp(0.0) == 1.0
    assert np.isfinite(exp(709.0))
