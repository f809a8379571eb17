"""The contents of a tagger's file: header and arrays, checked before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from turbotag.corpus import schemes
from turbotag.corpus.hashing import unpack
from turbotag.features import compact
from turbotag.features.kinds import load_resources
from turbotag.features.resources import Resource
from turbotag.features.templates import MAX_ATOMS
from turbotag.models.calibration import CALIBRATION
from turbotag.storage.checks import (
    PROVENANCE,
    RESOURCES,
    check_entry,
    check_names,
    expect,
    expect_resources,
)
from turbotag.storage.tensors import Entries

PACKED = ("counts", "lows", "rows", "scales")  # arrays of a compact tagger's features
HEADER = PROVENANCE | {
    "scheme": (str, None),
    "file_scheme": (str, None),
    "constraints": str,
    "order": int,
    "label_cost?": {"*": float},
    "format": str,
    "columns": [str],
    "target": str,
    "templates": str,
    **RESOURCES,
    "compact?": bool,
    "lists?": {"by": str, "most": int, "margin": float},
    "calibration?": CALIBRATION,
    "scores?": {"*": {"measure": str, "convention": str, "f1?": float, "accuracy?": float}},
}
Named = tuple[list[Resource], np.ndarray | None, dict[str, list[str]]]


def named(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Named:
    """(resources, origins, vocabulary) of a file."""
    vocabulary = {
        name.split(".")[1]: unpack(arrays[name], arrays[name[:-4] + "offsets"])
        for name in arrays
        if name.startswith("vocabulary.") and name.endswith(".text")
    }
    return load_resources(header, arrays), arrays.get("origins"), vocabulary


def check_weights(weights: np.ndarray) -> None:
    """ValueError unless weights are numbers that can be summed."""
    low, high = weights.min(initial=0.0), weights.max(initial=0.0)
    if not -compact.LARGEST < low <= high < compact.LARGEST:  # NaN is refused too
        raise ValueError("weights are not finite, or too large to be summed")


def wanted(header: dict[str, Any], entries: Entries, names: bool = False) -> list[str]:
    """The arrays to be read of a file; ValueError if its header and shapes are not those of a
    tagger."""
    check_entry(header, HEADER, "header")
    labels, order = header["labels"], header["order"]
    check_names(labels, "labels")
    check_names([header["task"]], "task")
    check_names([header["target"]], "target")
    scheme, written = header["scheme"], header["file_scheme"]
    if not labels or order not in (0, 1, 2):
        raise ValueError(f"{len(labels)} labels, order {order}")
    if scheme != written or scheme is not None:
        if scheme not in schemes.SCHEMES or written not in (*schemes.SCHEMES, "bilou"):
            raise ValueError(f"schemes {scheme!r:.20} and {written!r:.20}")
        if schemes.parse(labels) is None:
            raise ValueError("labels are not those of spans")
    K = len(labels)
    shared = sum(K**o for o in range(1, order + 1))
    if "lists" in header:
        from turbotag.models.cells import list_arrays

        n, found = list_arrays(header, entries)
    elif header.get("compact"):
        n = expect(entries, "lows", "uint16", (None,))
        expect(entries, "counts", "uint8 uint16", (compact.HIGHS,))
        expect(entries, "rows", "int8", (n, K))
        expect(entries, "scales", "float32", (n,))
        expect(entries, "shared", "float32", (shared, K))
        found = [*PACKED, "shared"]
    else:
        n = expect(entries, "keys", "uint64", (None,))
        expect(entries, "weights", "float32", (n + shared, K))
        found = ["keys", "weights"]
    found += expect_resources(header, entries)
    if names and "origins" in entries:
        expect(entries, "origins", "int32", (n, 1 + MAX_ATOMS))
        found.append("origins")
        for text in [e for e in entries if e.startswith("vocabulary.") and e.endswith(".text")]:
            expect(entries, text, "uint8", (None,))
            expect(entries, text[:-4] + "offsets", "int64", (None,))
            found += [text, text[:-4] + "offsets"]
    return found
