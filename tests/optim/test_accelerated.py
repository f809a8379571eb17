"""Accelerated SDCA: its certificate is of the original problem, and it wins where it should."""

import numpy as np
import pytest

from tests.arc_problems import arc_problem
from tests.problems import chain_problem
from turbotag.optim.algorithms import algorithm
from turbotag.optim.run import Limits, run
from turbotag.optim.trace import Trace


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
@pytest.mark.parametrize("kappa", [0.0, 8.0])
def test_the_running_dual_of_accelerated_sdca_is_that_of_the_original_problem(make, kappa):
    opt = algorithm("sdca-accelerated")(make(gamma=1.0), 0.002, rng(), kappa=kappa)
    for _ in range(20):
        opt.epoch()
        running, weights = opt.dual, opt.weights().copy()
        certificate = opt.certify()
        assert certificate.gap >= -1e-9
        assert certificate.dual == pytest.approx(running, abs=1e-10)
        opt.finish()
        np.testing.assert_allclose(opt.weights(), weights, atol=1e-9)
    assert opt.kappa[0] > 0.0


@pytest.mark.parametrize("make", [chain_problem, arc_problem])
def test_acceleration_pays_where_lambda_is_small(make):
    epochs = {}
    for name in ("sdca", "sdca-accelerated"):
        opt = algorithm(name)(make(beta=3.0, gamma=1.0), 0.002, rng())
        run(opt, Limits(3000, 1e-7), Trace())
        epochs[name] = opt.oracle_calls
    assert epochs["sdca-accelerated"] < 0.5 * epochs["sdca"]


@pytest.mark.parametrize(("lam", "kappa", "larger"), [(0.002, 500.0, False), (1e-6, 3.0, True)])
def test_a_kappa_that_does_not_fit_is_mended(lam, kappa, larger):
    """As a stall of a few epochs makes it far too large, and few epochs do not show a huge one."""
    opt = algorithm("sdca-accelerated")(chain_problem(beta=3.0, gamma=1.0), lam, rng())
    opt.epoch()
    opt._begin(kappa * lam)
    for _ in range(60):
        opt.epoch()
    now = float(opt.kappa[0]) / lam
    assert now >= 4 * kappa if larger else now <= kappa / 4
    given = algorithm("sdca-accelerated")(chain_problem(gamma=1.0), lam, rng(), kappa=kappa)
    for _ in range(25):
        given.epoch()
    assert given.kappa[0] == pytest.approx(kappa * lam)  # what was asked for stays
