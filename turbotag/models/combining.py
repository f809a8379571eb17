"""Putting models together into one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turbotag.errors import UsageError
from turbotag.models.bundle import save_bundle
from turbotag.models.pipeline import joined, models_of
from turbotag.models.tokenizer import Tokenizer


def combine(models: tuple[str, ...], output: str, command: str = "") -> list[str]:
    """Write models, given by file or shipped name, into one file, in the order in which they are to
    run. Returns the names of its stages. A model takes the place of an earlier one that fills the
    same columns; a tokenizer comes first."""
    stages: dict[str, Any] = {}
    for given in models:
        for name, model in models_of(given, names=True).items():
            stages = _with(stages, Path(name).stem, model)
    order = sorted(stages, key=lambda name: stages[name].kind != Tokenizer.kind)
    stages = {name: stages[name] for name in order}
    joined(stages).check_order()
    licences = {m.header["licence"] for m in stages.values() if m.header["licence"]}
    first = next(iter(stages.values()))
    header = {"task": "pipeline", "command": command, "versions": first.header["versions"]}
    save_bundle(output, stages, header | {"licence": ", ".join(sorted(licences))})
    return order


def _with(stages: dict[str, Any], name: str, model: Any) -> dict[str, Any]:
    """Stages with one more model, in place of the first that does the same work, or behind all."""
    kept = {n: m for n, m in stages.items() if not _same_work(m, model)}
    same = [n for n, old in enumerate(stages.values()) if _same_work(old, model)]
    found = list(kept.items())
    found.insert(same[0] if same else len(found), (_free(name, kept), model))
    return dict(found)


def _same_work(old: Any, new: Any) -> bool:
    """Whether two models fill the same columns, or both cut text."""
    if Tokenizer.kind in (old.kind, new.kind):
        return bool(old.kind == new.kind)
    same_columns = old.gives == new.gives or "ner" in (old.header["task"], new.header["task"])
    return bool(same_columns and old.header["task"] == new.header["task"])


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name for a stage that no other stage has."""
    if "/" in name or not name:
        raise UsageError(f"{name!r} cannot name a stage")
    found, n = name, 2
    while found in taken:
        found, n = f"{name}{n}", n + 1
    return found
