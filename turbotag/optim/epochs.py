"""What the compiled epochs of optimizers share.

An epoch runs in kernels, a slice of its instances at a time: between two slices Python hears
signals. Nothing that is computed depends on where an epoch is cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from turbotag.lean import fast_kernel, kernel

SECONDS = 0.1  # a slice takes about this long


def slices(n: int) -> Iterator[slice]:
    """Cut n steps into slices; their size follows the time that the caller takes for each."""
    begin, size = 0, 16
    while begin < n:
        started = time.perf_counter()
        yield slice(begin, min(begin + size, n))
        begin += size
        if time.perf_counter() - started < 0.5 * SECONDS:
            size *= 2


@kernel
def scratch(parts):
    """Memory for three vectors over the parts of any instance."""
    most = 0
    for i in range(parts.size - 1):
        most = max(most, parts[i + 1] - parts[i])
    return np.empty(3 * most)


@kernel
def three(memory, parts, i):
    """Three vectors over the parts of instance i."""
    size = parts[i + 1] - parts[i]
    return memory[:size], memory[size : 2 * size], memory[2 * size : 3 * size]


@fast_kernel
def dot(x, y):
    """x'y."""
    total = 0.0
    for p in range(x.size):
        total += x[p] * y[p]
    return total
