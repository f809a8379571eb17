"""Keys and weights of a model in few bytes: three bytes for a feature with one weight.

Keys are cut to their upper 32 bits and sorted. Written are the number of keys with each upper half
(16 bits) and all lower halves: two bytes a key. An unknown feature is then mistaken for a known one
with probability rows / 2^32. Weights have eight bits on a square-root scale, w = s q|q| / 127^2,
where s is the largest weight of the row. So small weights, which are the most frequent, keep two
digits. Rows without a large weight are left out, and so are the small weights of the other rows.
"""

from __future__ import annotations

import numpy as np

HALF = np.uint64(32)
HIGHS = 1 << 16
# small weights are those below this share of the least size that the largest weight of a row has
SMALL = 1 / 3
# largest weight: a sum of millions of them, times values of 1e10, is still a finite float
LARGEST = 1e20


def fold(keys: np.ndarray) -> np.ndarray:
    """The upper 32 bits of each key, twice: all that a compact model can tell apart."""
    upper = keys >> HALF
    return upper | (upper << HALF)


def distinct(keys: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Indices in order of folded key. Of keys that fold alike, the one with the largest size is
    taken."""
    upper = (keys >> HALF).astype(np.uint32)
    order = np.lexsort((-size, upper))
    first = np.ones(order.size, bool)
    first[1:] = upper[order[1:]] != upper[order[:-1]]
    return order[first & (upper[order] != 0)]


def kept_rows(keys: np.ndarray, weights: np.ndarray, drop: float) -> tuple[np.ndarray, np.ndarray]:
    """(indices of the rows with a weight above `drop` times the largest, in the order of
    `distinct`; their weights, the small ones 0)."""
    size = np.abs(weights).max(axis=1, initial=0.0)
    least = drop * size.max(initial=0.0)
    rows = np.flatnonzero(size > least)
    rows = rows[distinct(keys[rows], size[rows])]
    kept = weights[rows]
    kept[np.abs(kept) <= SMALL * least] = 0.0
    return rows, kept


Packed = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # counts, lows, weights, scales


def pack(keys: np.ndarray, weights: np.ndarray) -> Packed:
    """Keys in the order of `distinct`, and their weights, (rows,) or (rows, K)."""
    return *pack_keys(keys), *quantize(weights)


def unpack(*packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(folded keys, float32 weights); ValueError if they are damaged."""
    counts, lows, q, scales = packed
    keys, weights = unpack_keys(counts, lows), dequantize(q, scales)
    if len(weights) != keys.size:
        raise ValueError(f"{keys.size} keys, but {len(weights)} weights")
    return keys, weights


def pack_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(counts (65536,), uint8 or if necessary uint16; lows uint16) of keys in the order of
    `distinct`."""
    upper = keys >> HALF
    counts = np.bincount((upper >> np.uint64(16)).astype(np.int64), minlength=HIGHS)
    if counts.max() >= HIGHS:
        raise ValueError("more keys than a compact model can hold")
    small = counts.astype(np.uint8 if counts.max() < 256 else np.uint16)
    return small, (upper & np.uint64(0xFFFF)).astype(np.uint16)


def unpack_keys(counts: np.ndarray, lows: np.ndarray) -> np.ndarray:
    """Folded keys, all distinct; ValueError if they are not from `pack_keys`."""
    if counts.dtype not in (np.uint8, np.uint16) or counts.shape != (HIGHS,):
        raise ValueError(f"counts of keys are {counts.shape} {counts.dtype}")
    if lows.dtype != np.uint16 or lows.ndim != 1:
        raise ValueError(f"keys are {lows.shape} {lows.dtype}")
    if int(counts.sum(dtype=np.int64)) != lows.size:
        raise ValueError(f"{lows.size} keys, but counts of {int(counts.sum(dtype=np.int64))}")
    high = np.repeat(np.arange(HIGHS, dtype=np.uint64), counts)
    upper = (high << np.uint64(16)) | lows.astype(np.uint64)
    if upper.size and ((upper[1:] <= upper[:-1]).any() or upper[0] == 0):
        raise ValueError("keys are not in order")
    return upper | (upper << HALF)


def quantize(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(q int8 of the same shape, scales float32, one for each row or one for a vector)."""
    rows = np.atleast_2d(weights)
    scales = np.abs(rows).max(axis=1, initial=0.0).astype(np.float32)
    part = np.abs(rows) / np.where(scales > 0, scales, 1.0)[:, None]
    q = np.sign(rows) * np.rint(127.0 * np.sqrt(np.minimum(part, 1.0)))
    return q.astype(np.int8).reshape(weights.shape), scales


def dequantize(q: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """The float32 weights that `quantize` made eight bits of."""
    check_scales(q, scales)
    rows = np.atleast_2d(q)
    step = np.arange(-128, 128, dtype=np.float32)
    table = step * np.abs(step) / np.float32(127.0**2)
    return (table[rows.astype(np.int16) + 128] * scales[:, None]).reshape(q.shape)


def check_scales(q: np.ndarray, scales: np.ndarray) -> None:
    """ValueError if they are not from `quantize`."""
    rows = np.atleast_2d(q)
    if q.dtype != np.int8 or scales.dtype != np.float32 or scales.shape != (rows.shape[0],):
        raise ValueError(f"weights are {q.shape} {q.dtype} with {scales.shape} scales")
    if not ((scales >= 0).all() and (scales < LARGEST).all()):  # NaN is refused too
        raise ValueError("scales are not numbers from 0 up, or too large to be summed")
