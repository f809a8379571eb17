"""One thread for BLAS while a model is trained.

NumPy and SciPy hand long sums to BLAS, whose threads wait for the next one by spinning: with two
cores that took up to ten times the time of parser training. And a sum over two threads is rounded
in another order, so that the same seed gave other bytes with another number of cores.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_limits: list[threadpool_limits] = []
_inside = 0


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within it, every BLAS that is loaded at the entry uses one thread; after it, as many as
    before. May be nested, by code that loads another BLAS, and entered by several threads."""
    global _inside
    with _lock:
        _inside += 1
        _limits.append(threadpool_limits(1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                while _limits:  # the first one knows what the user's process had
                    _limits.pop().restore_original_limits()
