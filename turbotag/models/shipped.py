"""The models that are installed, by name, which is taken wherever a model file is asked for.

English is in the package; packages of other languages register a folder of models under the entry
point `turbotag.models`. In such a folder NAME-STAGE.model is a stage of the pipeline NAME. Nothing
is ever downloaded, and a file of that name comes first.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import turbotag
from turbotag.errors import DataError, did_you_mean

SHIPPED = Path(turbotag.__file__).parent / "pretrained"
GROUP = "turbotag.models"  # of entry points; each is a package that holds model files
ORDER = ("tokens", "upos", "xpos", "feats", "lemma", "parse", "ner")  # of the stages
PIPELINES = {"en-pos": ("en-upos", "en-xpos")}  # those that are not all stages of a language


@cache
def files() -> dict[str, Path]:
    """The files of the models that are installed, by name."""
    folders = [SHIPPED]
    for point in entry_points(group=GROUP):
        module = point.load()
        folders.append(Path(module.__file__).parent)
    found = [path for folder in folders for path in folder.glob("*.model")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


def shipped() -> list[str]:
    """The names of the models that are installed."""
    return list(files())


@cache
def pipelines() -> dict[str, tuple[str, ...]]:
    """The names of pipelines, with those of their models in order."""
    languages = sorted({name.rpartition("-")[0] for name in files() if "-" in name})
    found = {
        name: tuple(f"{name}-{stage}" for stage in ORDER if f"{name}-{stage}" in files())
        for name in languages
    }
    found = {name: models for name, models in found.items() if len(models) > 1}
    return found | {n: m for n, m in PIPELINES.items() if all(each in files() for each in m)}


def is_pipeline(name: str) -> bool:
    return name in pipelines() and not Path(name).is_file()


def stages(name: str) -> tuple[str, ...]:
    """The models of a pipeline, or the one model itself."""
    return pipelines()[name] if is_pipeline(name) else (name,)


def find(name: str) -> str:
    """The file of a model given by path or by the name of a shipped one."""
    if is_pipeline(name):
        raise DataError(f"is a pipeline: name one of its models, {', '.join(stages(name))}", name)
    if Path(name).is_file() or name not in files():
        if not Path(name).exists() and "/" not in name and "." not in name:
            known = sorted({*pipelines(), *files()})
            raise DataError(
                f"is neither a file nor a shipped model ({', '.join(known)})"
                + did_you_mean(name, known),
                name,
            )
        return name
    return str(files()[name])
