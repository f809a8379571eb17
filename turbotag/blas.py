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
    """A context in which every BLAS that is loaded uses one thread; afterwards each uses as many as
    before. Contexts may be nested, and entered by several threads; one inside another also holds a
    BLAS that was loaded in between."""
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
                while _limits:  # only the outermost context knows how many threads the user had
                    _limits.pop().restore_original_limits()
