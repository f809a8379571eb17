"""The parts of tags: the attributes of Case=Nom|Number=Sing, the letters of Ncmsn. Labels that
share a part share its weights, and pairs of labels are described by their parts."""

from __future__ import annotations

import numpy as np

from turbotag.structures.candidate_lists import Parts
from turbotag.structures.transitions import Transitions, transitions

WHOLE = 1000  # labels; with more of them, pairs have features of their parts only
POSITIONS = 12  # letters of a tag such as Ncmsn that are parts of their own


def _attributes(label: str) -> dict[str, str]:
    """Case=Nom|Number=Sing by name; the letters of other tags by place, each with the first."""
    if "=" in label:
        return dict(part.partition("=")[::2] for part in label.split("|"))  # type: ignore[misc]
    return {f"{n:02}": label[0] + c for n, c in enumerate(label[:POSITIONS])}


def label_pairs(labels: list[str]) -> Transitions:
    """Features of label pairs: the whole labels, unless there are very many, and each attribute of
    both."""
    found = [_attributes(label) for label in labels]
    names = sorted({name for attributes in found for name in attributes})
    whole = len(labels) <= WHOLE
    return transitions(
        [
            [*([label] if whole else []), *(attributes.get(name, "") for name in names)]
            for label, attributes in zip(labels, found, strict=True)
        ]
    )


def shared_parts(labels: list[str]) -> Parts:
    """The parts of each label that share weights: itself, and each of its attributes."""
    rows = [[(n, v) for n, v in _attributes(label).items()] for label in labels]
    every = sorted({part for row in rows for part in row})
    at = {part: len(labels) + n for n, part in enumerate(every)}
    found = [[k, *sorted(at[part] for part in row)] for k, row in enumerate(rows)]
    first = np.cumsum([0, *map(len, found)]).astype(np.int64)
    return Parts(first, np.array([p for row in found for p in row], np.int32))
