"""exp and log that LLVM can vectorise, log-odds, probabilities, expectations.

A call of the C library stops the vectoriser: 5 to 8 ns for each number. Written out in arithmetic
and bit operations, four or eight numbers go at once. Errors stay within 2 units in the last place
(tests/structures/test_elementary.py); results below 1e-307 are 0.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from turbotag.lean import FAST as FAST
from turbotag.lean import njit

_LOG2E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490  # ln 2 = high + low; high * n is exact for |n| < 2048
_LN2_LOW = 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, in the low bits
_LOWEST, _HIGHEST = -707.0, 709.0


@intrinsic
def _bits(typingctx, x):
    """The bits of a double as an unsigned integer (AVX2 has no signed shift of 64 bits)."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def _double(typingctx, x):
    """The double with these bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


# fastmath=False is needed: without it a kernel inherits the flags of its caller, and reassociation
# would cancel _MAGIC. error_model: that of Python would test the divisor, and such a branch stops
# the vectoriser.


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def exp(x):
    """exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2; Taylor series to r^13."""
    y = min(max(x, _LOWEST), _HIGHEST)
    shifted = y * _LOG2E + _MAGIC
    n = shifted - _MAGIC
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.388888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = (p * r) * r + r + 1.0
    # the low bits of `shifted` hold n: moved into the exponent of 1.0
    scale = _double((_bits(shifted) << np.uint64(52)) + np.uint64(0x3FF0000000000000))
    return p * scale if x > _LOWEST else 0.0


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def log(x):
    """log(x) = e ln 2 + log(m), sqrt(1/2) <= m < sqrt(2); log(m) = 2 atanh((m-1)/(m+1)).

    For x > 1e-307; callers keep 0 and subnormal numbers away.
    """
    # as in fdlibm: add so that the exponent steps at sqrt(1/2)
    bits = _bits(x) + np.uint64(0x0009_5F61_9980_C433)
    exponent = bits >> np.uint64(52)
    m = _double((bits & np.uint64(0x000F_FFFF_FFFF_FFFF)) + np.uint64(0x3FE6_A09E_667F_3BCD))
    e = _double(exponent | np.uint64(0x4330_0000_0000_0000)) - 4503599627371519.0
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    q = 1.479819860511658591e-01
    q = q * z + 1.531383769920937332e-01
    q = q * z + 1.818357216161805012e-01
    q = q * z + 2.222219843214978396e-01
    q = q * z + 2.857142874366239149e-01
    q = q * z + 3.999999999940941908e-01
    q = q * z + 6.666666666666735130e-01
    half = 0.5 * f * f
    return e * _LN2_HIGH - ((half - (s * (half + q * z) + e * _LN2_LOW)) - f)


@njit(cache=True, nogil=True)
def logit(p, certain):
    """log-odds of a probability that is taken to be no nearer than `certain` to 0 and 1."""
    p = min(max(p, certain), 1.0 - certain)
    return math.log(p / (1.0 - p))


@njit(cache=True, nogil=True)
def sigmoid(x):
    """The probability with these log-odds."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else math.exp(x) / (1.0 + math.exp(x))


@njit(cache=True, nogil=True)
def probability(x):
    """exp(x), where only rounding errors of large scores can make x positive."""
    return math.exp(min(x, 0.0))


@njit(cache=True, nogil=True)
def expectation(scores, mu):
    """scores'mu over the parts that can occur: the scores of others may be -inf or NaN."""
    total = 0.0
    for s, m in zip(scores.flat, mu.flat):  # noqa: B905 (numba's zip knows no strict)
        if m > 0.0:
            total += s * m
    return total


@njit(cache=True, nogil=True)
def find_each(cuts, entries, wanted):
    """(words,) which of the entries cuts[t]:cuts[t+1] of word t is wanted[t], -1 if none is."""
    out = np.full(wanted.size, -1, np.int64)
    for t in range(wanted.size):
        for e in range(cuts[t], cuts[t + 1]):
            if entries[e] == wanted[t]:
                out[t] = e
    return out
