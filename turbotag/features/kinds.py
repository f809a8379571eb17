"""The classes of all kinds of resources, and the resources of files and of models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from turbotag.errors import UsageError
from turbotag.features import declared
from turbotag.features.resources import Arrays, Resource

KINDS: dict[str, type[Resource]] = {  # by the option that gives their files
    kind.option: getattr(import_module(f"turbotag.features.{kind.module}"), kind.name)
    for kind in declared.KINDS
}


def read_resources(files: dict[str, dict[str, Any]]) -> list[Resource]:
    """The resources that files hold; files: paths by kind and by name."""
    return [
        cls.read(name, path)
        for entry, cls in KINDS.items()
        for name, path in sorted(files.get(entry, {}).items())
    ]


def kept_resources(old: list[Resource], new: list[Resource]) -> list[Resource]:
    """The resources of a model to go on from, and new ones. A new gazetteer takes the place of an
    old one of the same name; other clusters would change what the model's weights mean."""
    for r in old:
        for other in new:
            same = (r.kind, r.name) == (other.kind, other.name)
            if same and not r.replaceable and not r.same(other):
                raise UsageError(
                    f"--init has other {r.prefix} {r.name!r}: leave them out, or choose another "
                    "name"
                )
    found = {(r.kind, r.name): r for r in (*old, *new)}
    return [found[each] for cls in KINDS.values() for each in sorted(found) if each[0] == cls.kind]


def resource_names(resources: list[Resource]) -> dict[str, list[str]]:
    """The names of resources, as a model's header has them."""
    return {
        entry: [r.name for r in resources if isinstance(r, cls)] for entry, cls in KINDS.items()
    }


def resource_arrays(resources: list[Resource]) -> Arrays:
    """The arrays of resources, as a model file has them."""
    return {
        f"{r.prefix}.{r.name}.{array}": values
        for r in resources
        for array, values in r.arrays().items()
    }


def load_resources(header: dict[str, Any], arrays: Arrays) -> list[Resource]:
    """The resources that a model's header names; ValueError if their arrays are damaged."""
    return [
        cls.load(name, {a: arrays[f"{cls.prefix}.{name}.{a}"] for a in cls.layout})
        for entry, cls in KINDS.items()
        for name in header.get(entry, [])
    ]
