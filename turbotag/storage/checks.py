"""What the loaders of models check before they use a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from turbotag.errors import DataError
from turbotag.features.kinds import KINDS
from turbotag.storage.tensors import Entries


@contextlib.contextmanager
def fitting(path: str) -> Iterator[None]:
    """Whatever goes wrong while a model is put together from its file is reported as a fault of the
    file."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as e:
        why = f"no {e}" if isinstance(e, KeyError) else str(e)
        raise DataError(f"is damaged: its parts do not fit together ({why})", path) from e
    except DataError as e:
        if e.path == path:
            raise
        raise DataError(f"is damaged: {e}", path) from e


def expect(entries: Entries, name: str, dtypes: str, shape: tuple[int | None, ...]) -> int:
    """The first dimension of an array; ValueError unless the array has one of the dtypes and this
    shape, in which None is any number."""
    if name not in entries:
        raise ValueError(f"it has no array {name!r}")
    found = entries[name]
    fits = len(found.shape) == len(shape) and all(
        n is None or n == m for n, m in zip(shape, found.shape, strict=True)
    )
    if not fits or found.dtype.name not in dtypes.split():
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        told = f"array {name!r} is {found.shape} {found.dtype}"
        raise ValueError(f"{told}, expected ({sizes}) {dtypes.replace(' ', '/')}")
    return found.shape[0]


# Names of the resources in a model, by their kinds.
RESOURCES = {f"{entry}?": [str] for entry in KINDS}


def expect_resources(header: dict[str, Any], entries: Entries) -> list[str]:
    """The arrays of the resources that a header names, checked."""
    found = []
    for entry, cls in KINDS.items():
        for name in header.get(entry, []):
            for array, (dtypes, shape) in cls.layout.items():
                expect(entries, f"{cls.prefix}.{name}.{array}", dtypes, shape)
                found.append(f"{cls.prefix}.{name}.{array}")
    return found


def check_entry(value: Any, kind: Any, name: str) -> None:
    """ValueError unless an entry of a header is of a kind: str, int, float or bool; [kind], a list
    of it; a table of kinds by name, where '?' follows names that may be missing and '*' stands for
    any name; (kind, None), which may be null."""
    if isinstance(kind, tuple):
        if value is not None:
            check_entry(value, kind[0], name)
    elif isinstance(kind, list):
        _check_type(value, list, name)
        for each in value:
            check_entry(each, kind[0], name)
    elif isinstance(kind, dict):
        _check_type(value, dict, name)
        for key, each in kind.items():
            if key == "*":
                for own in value:
                    check_entry(value[own], each, f"{name}.{own}")
            elif key.rstrip("?") in value:
                check_entry(value[key.rstrip("?")], each, f"{name}.{key.rstrip('?')}")
            elif not key.endswith("?"):
                raise ValueError(f"{name} has no entry {key!r}")
    else:
        _check_type(value, kind, name)


def _check_type(value: Any, kind: type, name: str) -> None:
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if isinstance(value, bool) and kind is not bool:
        fits = False
    if isinstance(value, int) and abs(value) >= 1 << 63:
        fits = False
    if not fits:
        raise ValueError(f"{name} is {value!r:.60}, expected {_TYPES[kind]}")


_TYPES: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}

# What the headers of all models have, for their cards.
PROVENANCE = {
    "task": str,
    "labels": [str],
    "loss": {"name": str, "beta": str, "gamma": float},
    "seed": int,
    "command": str,
    "versions": {"*": str},
    "data": {"name": str, "sha256": str, "sentences": int, "tokens": int},
    "licence": str,
    "init?": {"name": str, "data": {"name": str, "sentences": int}, "licence": str},
    "algorithm": {"name": str},
    "certificate": {"primal": float, "dual": float, "gap": float},
    "epochs": int,
    "kept_epoch?": int,
    "card?": {"what": str, "credits": [str], "words_per_second": float, "weak?": [str]},
}


def check_names(names: list[str], what: str) -> None:
    """ValueError unless the names are distinct, and text that a column can hold."""
    if len(set(names)) != len(names):
        raise ValueError(f"{what} are not distinct")
    for name in names:
        if not name or any(c in name for c in "\t\n\0"):
            raise ValueError(f"{what} have {name!r:.60}, which no column can hold")
