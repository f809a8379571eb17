"""What the exact dual of Le Priol et al. (2018) stores: a distribution as marginals of cliques.

structures/chain_cliques and structures/projective_cliques say what the cliques are. The logs of
the marginals are kept beside them, with LOG_ZERO for what is impossible.
"""

from __future__ import annotations

import math

from turbotag.lean import njit
from turbotag.structures.elementary import FAST, exp, log

LOG_ZERO = -1e5
TINY = 1e-300


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def exponentials(log_mu, mu):
    """mu = exp(log_mu)."""
    for i in range(log_mu.size):
        mu[i] = exp(log_mu[i])


@njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def mix(mu, log_mu, nu, log_nu, eta):
    """mu and log_mu become those of (1 - eta) mu + eta nu; logs stay right where mu underflows."""
    if eta == 1.0:
        mu[:] = nu
        log_mu[:] = log_nu
        return
    if eta == 0.0:
        return
    keep, take = math.log1p(-eta), math.log(eta)
    small = False
    for i in range(mu.size):
        m = (1.0 - eta) * mu[i] + eta * nu[i]
        small |= m < TINY
        mu[i] = m
    if small:
        for i in range(mu.size):
            if mu[i] < TINY:
                high, low = log_mu[i] + keep, log_nu[i] + take
                if high < low:
                    high, low = low, high
                log_mu[i] = max(high + math.log1p(math.exp(low - high)), LOG_ZERO)
            else:
                log_mu[i] = math.log(mu[i])
    else:
        for i in range(mu.size):
            log_mu[i] = log(mu[i])
