"""The k best trees, from any function that finds the best one (Lawler 1972).

The trees that are left without the best one are split by the first word whose head differs. The
best tree of each such set comes from `argmax` with some arcs ruled out.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np

Argmax = Callable[[np.ndarray, bool, np.ndarray], float]


def kbest(
    argmax: Argmax, scores: np.ndarray, single_root: bool, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """(heads (m, n), scores (m,)) of the m <= k best trees, best first."""
    n = scores.shape[0] - 1
    ties = itertools.count()
    queue: list[tuple[float, int, np.ndarray, np.ndarray, int]] = []

    def push(allowed: np.ndarray, fixed: int) -> None:
        heads = np.empty(n, np.int32)
        value = argmax(allowed, single_root, heads)
        if value > -math.inf:
            heapq.heappush(queue, (-value, next(ties), heads, allowed, fixed))
            if len(queue) > 2 * k + 8:  # each set holds a matrix, so only the k best sets are kept
                queue[:] = heapq.nsmallest(k, queue)

    push(scores, 0)
    found: list[np.ndarray] = []
    values: list[float] = []
    while queue and len(found) < k:
        negative, _, heads, allowed, fixed = heapq.heappop(queue)
        found.append(heads)
        values.append(-negative)
        if len(found) == k:
            break
        allowed = allowed.copy()
        for m in range(fixed, n):  # words 1..m have the same heads, word m+1 has another
            h = int(heads[m])
            other = allowed.copy()
            other[h, m + 1] = -np.inf
            push(other, m)
            keep = allowed[h, m + 1]
            allowed[:, m + 1] = -np.inf
            allowed[h, m + 1] = keep
    return np.array(found, np.int32).reshape(len(found), n), np.array(values)
