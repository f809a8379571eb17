"""Measured pages: parts that are measured one by one, and a page that joins what is there."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path

from corpora import DATA

import turbotag

Part = tuple[str, Callable[[Path], str]]  # a title, and what measures it, given the data folder


def page(title: str, target: str, script: str, parts: dict[str, Part], out: Path) -> None:
    """OUT.md from the files in the folder OUT: remarks, then the parts."""
    lines = [
        f"# {title}",
        "",
        f"Made by `make {target}` (`scripts/{script}`). turbotag {turbotag.__version__}, "
        f"Python {platform.python_version()}, shared cores.",
    ]
    remarks = out / "remarks.md"
    if remarks.exists():
        lines += ["", remarks.read_text(encoding="utf-8").strip()]
    for part, (heading, _) in parts.items():
        path = out / f"{part}.md"
        if path.exists():
            lines += ["", f"## {heading}", "", path.read_text(encoding="utf-8").strip()]
    (out.parent / f"{out.name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(title: str, target: str, doc: str, script: str, parts: dict[str, Part], out: str) -> None:
    """The command line of a script: parts to measure, `page` to join them."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=[*parts, "page"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path("docs") / out)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.parts:
        if name == "page":
            page(title, target, Path(script).name, parts, given.out)
            continue
        text = parts[name][1](given.data)
        print(text, flush=True)
        (given.out / f"{name}.md").write_text(text + "\n", encoding="utf-8")
