"""The corpora that experiments read: what each is, its licence and how to get it.

They are in `corpora`, a folder of the repository that git ignores, or a link to one elsewhere.
data/corpora.json has the table. `files` has counts and checksums of the copies that this project's
figures were measured on, `published` has counts that others printed, `checksums` has sums that
others printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "data" / "demo"  # the embedded corpus
DATA = Path("corpora")
TABLE = ROOT / "data" / "corpora.json"
FAMILY = "conllx-LANG"  # one entry for the treebanks of all languages
PREFIX = FAMILY.removesuffix("LANG")


def table() -> dict[str, dict[str, Any]]:
    """Corpora by the name of their folder."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def entry(name: str) -> dict[str, Any]:
    """One corpus; a name as conllx-sl is one of a family."""
    corpora = table()
    if name in corpora:
        return corpora[name]
    language = name.removeprefix(PREFIX)
    if language in ("", name):
        raise KeyError(f"no corpus {name!r} in {TABLE.name}: they are {', '.join(corpora)}")
    family = corpora[FAMILY]
    published = family["published"]
    return {
        **family,
        "what": f"{family['what']}, language {language}",
        "get": family["get"].replace("LANG", language),
        "published": {**published, "files": published["languages"].get(language, {})},
    }


def missing(data: Path, name: str, called: Path | None = None) -> str | None:
    """One sentence on what is missing of a corpus and how to get it; None if all is there.

    called: the folder's name in the sentence, where it is not its own."""
    corpus, called = entry(name), called or data
    absent = [file for file in corpus["files"] if not (data / name / file).is_file()]
    if not absent:
        return None
    get = corpus["get"].replace(" -o DATA", "" if called == DATA else f" -o {called}")
    return (
        f"{name}: no {', '.join(absent)} in {called / name}: {corpus['what']}; "
        f"licence: {corpus['licence']}; to get it, {get}."
    )
