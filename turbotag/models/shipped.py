"""The models in the package, by name, which is taken wherever a model file is asked for.

Nothing is ever downloaded, and a file of that name comes first.
"""

from __future__ import annotations

from pathlib import Path

import turbotag
from turbotag.errors import DataError, did_you_mean

SHIPPED = Path(turbotag.__file__).parent / "pretrained"
PIPELINES = {"en": ("en-upos", "en-xpos", "en-parse", "en-ner"), "en-pos": ("en-upos", "en-xpos")}


def shipped() -> list[str]:
    """Names of the models in the package."""
    return sorted(p.stem for p in SHIPPED.glob("*.model"))


def is_pipeline(name: str) -> bool:
    return name in PIPELINES and not Path(name).is_file()


def stages(name: str) -> tuple[str, ...]:
    """The models of a pipeline, or the one model itself."""
    return PIPELINES[name] if is_pipeline(name) else (name,)


def find(name: str) -> str:
    """The file of a model given by path or by the name of a shipped one."""
    if is_pipeline(name):
        raise DataError(f"is a pipeline: name one of its models, {', '.join(stages(name))}", name)
    if Path(name).is_file() or name not in shipped():
        if not Path(name).exists() and "/" not in name and "." not in name:
            known = sorted({*PIPELINES, *shipped()})
            raise DataError(
                f"is neither a file nor a shipped model ({', '.join(known)})"
                + did_you_mean(name, known),
                name,
            )
        return name
    return str(SHIPPED / f"{name}.model")
