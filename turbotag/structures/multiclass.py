"""Labels that do not depend on each other: a chain without transitions (order 0).

The labels of all arcs of a sentence are one instance: Z is the product over its words.
"""

from __future__ import annotations

import math

from numba import njit

from turbotag.structures import chain
from turbotag.structures.elementary import exp


@njit(cache=True, nogil=True, fastmath=chain.FAST, error_model="numpy")
def forward_backward(theta, T, K, beta, allowed, start, end, nu):
    """log Z of beta*theta, and softmax(beta theta[t]) into nu; the mask is not looked at."""
    u, out = theta.reshape(T, K), nu.reshape(T, K)
    log_z = 0.0
    for t in range(T):
        row, to = u[t], out[t]
        top, total = row.max(), 0.0
        for k in range(K):
            to[k] = exp(beta * (row[k] - top))
            total += to[k]
        for k in range(K):
            to[k] /= total
        log_z += beta * top + math.log(total)
    return log_z


@njit(cache=True, nogil=True)
def argmax(theta, T, K, allowed, start, end, nu):
    """The best label of every word as stats; returns the score."""
    u, out = theta.reshape(T, K), nu.reshape(T, K)
    value = 0.0
    nu[:] = 0.0
    for t in range(T):
        k = u[t].argmax()
        out[t, k] = 1.0
        value += u[t, k]
    return value
