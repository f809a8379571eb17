"""Files that hold several models, the stages of a pipeline. A stage has a path of its own:
en.model/ner is the stage ner of the pipeline in en.model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turbotag.errors import did_you_mean
from turbotag.storage.checks import check_entry, check_names

KIND = "pipeline"
HEADER = {
    "task": str,
    "command": str,
    "versions": {"*": str},
    "licence": str,
    "stages": [{"name": str, "kind": str, "header": {"task": str}}],
    "shared": {"*": str},
    "data?": {"name": str, "sha256": str, "sentences": int, "tokens": int},
    "card?": {"what": str, "credits": [str]},
    "scores?": {"*": {"*": float}},
}


def split(path: str) -> tuple[str, str]:
    """(file, stage) of the path of a stage; the path of a file gives (path, "")."""
    given = Path(path)
    if not given.exists() and given.parent.is_file():
        return str(given.parent), given.name
    return path, ""


def check_header(header: dict[str, Any]) -> None:
    """ValueError unless a header is that of a pipeline."""
    check_entry(header, HEADER, "header")
    check_names([stage["name"] for stage in header["stages"]], "stages")


def places(name: str, shared: dict[str, str], stored: Iterable[str]) -> dict[str, str]:
    """The name in the file of each array of a stage, by its name in the stage. shared: arrays that
    are stored under the name of another; stored: the names in the file."""
    begin, known = f"{name}/", set(stored)
    own = {place[len(begin) :]: place for place in stored if place.startswith(begin)}
    others = {p[len(begin) :]: at for p, at in shared.items() if p.startswith(begin)}
    return own | {key: place for key, place in others.items() if place in known}


def stage(
    name: str, header: dict[str, Any], stored: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """(header of a stage, with its kind; the names of its arrays as in `places`), given the header
    of a file and the names of its arrays; ValueError if the file has no such stage."""
    if header["kind"] != KIND:
        raise ValueError(f"the file is a {header['kind']}, which has no stages")
    check_header(header)
    found = {each["name"]: each for each in header["stages"]}
    if name not in found:
        raise ValueError(
            f"the file has no stage {name!r:.60}: its stages are {', '.join(found)}"
            f"{did_you_mean(name, found)}"
        )
    own = found[name]
    return own["header"] | {"kind": own["kind"]}, places(name, header["shared"], stored)
