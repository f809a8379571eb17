"""Write docs/reference.md: what `import turbotag` offers, from its signatures and docstrings.

python scripts/release/reference.py
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import turbotag
from turbotag import api

OUT = Path(__file__).parents[2] / "docs" / "reference.md"
HEAD = """# The Python library

Made from the docstrings (`make docs`); [Use from Python](python.md) has examples.
"""
ORDER = (
    *("load", "NLP", "Document", "Sentence", "Token", "Entity", "Span"),
    *("draw", "Tagger", "Parser", "CRF", "explain", "Explanation"),
)
WIDTH = 100
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def reference() -> str:
    """The page: functions, and classes with all that is public of them."""
    parts = [HEAD]
    for name in ORDER:
        found = getattr(turbotag if name in turbotag.__all__ else api, name)
        parts.append(section("##", name, found))
        if inspect.isclass(found):
            parts += [section("###", f"{name}.{member}", of) for member, of in members(found)]
    return "\n".join(parts)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties, those of base classes too; of an NLP, how it is called."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("turbotag"):
            found |= vars(base)
    for name, value in found.items():
        if name == "__call__" or not name.startswith("_"):
            if isinstance(value, (classmethod, staticmethod)):
                yield name, value.__func__
            elif inspect.isfunction(value) or isinstance(value, property):
                yield name, value


def section(hashes: str, name: str, found: Any) -> str:
    text = inspect.getdoc(found)
    if not text or text.startswith(f"{name}("):  # what dataclasses write where nobody did
        raise SystemExit(f"{name} has no docstring")
    if made_by_users(found) and not dataclasses.is_dataclass(found):
        text += "\n\n" + inspect.cleandoc(found.__init__.__doc__)
    name = name.replace("NLP.__call__", "nlp")
    return f"{hashes} {name}\n\n```\n{signature(name, found)}\n```\n\n{text}\n"


def made_by_users(found: Any) -> bool:
    """Whether it is a class with a documented constructor, or one whose fields all have defaults;
    others come from functions."""
    if not inspect.isclass(found):
        return False
    if dataclasses.is_dataclass(found):
        return all(f.default is not dataclasses.MISSING for f in dataclasses.fields(found))
    return found.__init__.__doc__ is not None


def signature(name: str, found: Any) -> str:
    """How it is called; of a class of data, its fields; of a property, what it is."""
    if dataclasses.is_dataclass(found) and not made_by_users(found):
        return "\n".join([name, *(f"    {f.name}: {f.type}" for f in dataclasses.fields(found))])
    if isinstance(found, property):
        return f"{name}: {inspect.signature(found.fget).return_annotation}"  # type: ignore[arg-type]
    if inspect.isclass(found) and not made_by_users(found):
        return name
    given = inspect.signature(found)
    named = [p for p in given.parameters.values() if p.name not in ("self", "cls")]
    arguments = [argument(p) for p in named]
    by_name = [p.kind is p.KEYWORD_ONLY for p in named]
    if any(by_name):
        arguments.insert(by_name.index(True), "*")
    empty = inspect.isclass(found) or given.return_annotation is given.empty
    returns = "" if empty else f" -> {given.return_annotation}"
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {x}," for x in arguments), f"){returns}"])


def argument(p: inspect.Parameter) -> str:
    default = "" if p.default is p.empty else f" = {p.default!r}"
    return f"{STARS.get(p.kind, '')}{p.name}: {p.annotation}{default}"


if __name__ == "__main__":
    OUT.write_text(reference(), encoding="utf-8")
