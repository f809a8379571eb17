"""A pipeline in one file: its stages in order, each with its header and its arrays.

Arrays that several stages have, such as those of word clusters, are stored once.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from turbotag.errors import DataError
from turbotag.models.parser import Parser
from turbotag.models.tagger import Tagger
from turbotag.models.tokenizer import Tokenizer
from turbotag.storage import store
from turbotag.storage.checks import fitting
from turbotag.storage.members import KIND, check_header, places
from turbotag.storage.tensors import Entries

KINDS: dict[str, Any] = {cls.kind: cls for cls in (Tagger, Parser, Tokenizer)}  # of model files
SMALL = 1 << 12  # bytes: arrays below are not worth sharing


def save_bundle(path: str, stages: dict[str, Any], header: dict[str, Any]) -> None:
    """Write models by their names. header: what is said of all of them together."""
    arrays: dict[str, np.ndarray] = {}
    shared: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, model in stages.items():
        for key, array in model.arrays.items():
            place = f"{name}/{key}"
            data = np.ascontiguousarray(array)
            mark = data.dtype.str, data.shape, hashlib.sha256(data.data).digest()
            if data.nbytes >= SMALL and mark in seen:
                shared[place] = seen[mark]
            else:
                arrays[place] = data
                seen[mark] = place
    said = [{"name": n, "kind": m.kind, "header": m.header} for n, m in stages.items()]
    store.save_file(path, KIND, header | {"stages": said, "shared": shared}, arrays)


def load_bundle(path: str, names: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, models by their names). names: whether to read the names of features too, where
    there are any."""

    def wanted(header: dict[str, Any], entries: Entries) -> list[str]:
        check_header(header)
        return [
            place
            for stage in header["stages"]
            for place in _wanted(stage, header["shared"], entries, names).values()
        ]

    header, arrays = store.load_file(path, KIND, wanted=wanted)
    models = {}
    with fitting(path):
        for stage in header["stages"]:
            at = places(stage["name"], header["shared"], arrays)
            own = {key: arrays[place] for key, place in at.items()}
            models[stage["name"]] = KINDS[stage["kind"]].restored(stage["header"], own)
    return header, models


def _wanted(
    stage: dict[str, Any], shared: dict[str, str], entries: Entries, names: bool
) -> dict[str, str]:
    """The arrays of a stage that are to be read, by their names in the file; ValueError if they are
    not as they should be."""
    if stage["kind"] not in KINDS:
        raise ValueError(f"a stage is a {stage['kind']!r:.20}")
    at = places(stage["name"], shared, entries)
    view: Any = {key: entries[place] for key, place in at.items()}
    chosen = KINDS[stage["kind"]].wanted(stage["header"], view, names)
    return {key: at[key] for key in chosen}


def load_model(path: str, names: bool = False) -> Any:
    """A model of any kind except a pipeline. names: whether to read the names of its features too,
    if it has them."""
    kind = store.kind(path)
    if kind == KIND:
        raise DataError(f"is a pipeline: name one of its stages, as in {path}/upos", path)
    header, arrays = store.load_file(
        path, kind if kind in KINDS else Tagger.kind, wanted=_check(kind, names)
    )
    with fitting(path):
        return KINDS[kind].restored(header, arrays)


def _check(kind: str, names: bool) -> store.Wanted:
    return lambda header, entries: KINDS[kind].wanted(header, entries, names)
