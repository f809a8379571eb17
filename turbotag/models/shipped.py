"""The models that are installed, by name, which is taken wherever a model file is asked for.

English is in the package; packages of other languages register a folder of models under the entry
point `turbotag.models`. The file NAME.model in such a folder is the model NAME; if that is a
pipeline, NAME-STAGE is one of its stages. Nothing is ever downloaded, and a file of that name comes
first.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import turbotag
from turbotag.errors import DataError, did_you_mean
from turbotag.storage import store

SHIPPED = Path(turbotag.__file__).parent / "pretrained"
GROUP = "turbotag.models"  # of entry points; each is a package that holds model files
OTHERS = {"en-pos": ("en-upos", "en-xpos")}  # pipelines of some stages of others


@cache
def files() -> dict[str, Path]:
    """The model files that are installed, by name."""
    folders = [SHIPPED]
    for point in entry_points(group=GROUP):
        module = point.load()
        folders.append(Path(module.__file__).parent)
    found = [path for folder in folders for path in folder.glob("*.model")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


@cache
def _stages_of(name: str) -> dict[str, str]:
    """The stages of a file, by name, with their paths; none if it is one model."""
    path = str(files()[name])
    return {f"{name}-{stage}": f"{path}/{stage}" for stage in store.stages(path)}


@cache
def shipped() -> dict[str, str]:
    """The single models that are installed, by name, with their paths."""
    return {
        name: at
        for file, path in files().items()
        for name, at in (_stages_of(file) or {file: str(path)}).items()
    }


@cache
def pipelines() -> dict[str, tuple[str, ...]]:
    """The names of pipelines, with those of their models in order."""
    found = {name: tuple(_stages_of(name)) for name in files() if _stages_of(name)}
    return found | {n: m for n, m in OTHERS.items() if all(each in shipped() for each in m)}


def is_pipeline(name: str) -> bool:
    if Path(name).is_file():
        return False
    return bool(_stages_of(name)) if name in files() else name in pipelines()


def find(name: str) -> str:
    """The path of a model given by path or by the name of a shipped one."""
    if is_pipeline(name):
        raise DataError(
            f"is a pipeline: name one of its models, {', '.join(pipelines()[name])}", name
        )
    if "/" in name or "." in name or Path(name).is_file():
        return name
    if name in shipped():
        return shipped()[name]
    known, whole = sorted({*pipelines(), *shipped()}), sorted({*pipelines(), *files()})
    raise DataError(
        f"is neither a file nor a shipped model ({', '.join(whole)}, or a stage of one, such as "
        f"en-ner)" + did_you_mean(name, known),
        name,
    )
