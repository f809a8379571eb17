"""Check your own copies of corpora that we may not ship, and convert them for the experiments.

    python scripts/data check
    python scripts/data conll2003 eng.train eng.testa eng.testb
    python scripts/data conllx TRAIN TEST --language sl
    python scripts/data conll2008 TRAIN DEV TEST
    python scripts/data wsj PENN_TREEBANK
    python scripts/data demo data/demo

`check` tells what is in `corpora`, what is missing and how to get it; `demo` writes the embedded
corpus (demo.py). The others check layout and counts and, where one is published, the checksum;
convert; read the result back; and put it into corpora/NAME with a manifest.json, which has
checksums of sources and results: by it `check` sees later changes. A copy whose counts are not the
published ones is refused unless you say --any-size.

CoNLL-2003 becomes IOB2, its columns stay. Treebanks become CoNLL-U: CoNLL-X without PHEAD and
PDEPREL, CoNLL-2008 with the split words, their lemmas and predicted tags, the Penn Treebank by
scripts/data/penn.py with words as they are there. For the last two the UPOS column has coarse tags:
PUNCT for , . : `` '' (what evaluation on them leaves out), else two characters of the Penn tag.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import demo
from conversions import (
    Corpus,
    Result,
    conll2003,
    conll2008,
    conllx,
    section_files,
    sha256,
    text_of,
    wsj,
)

import corpora
import turbotag
from turbotag.corpus.reader import read
from turbotag.corpus.trees import read_heads
from turbotag.errors import DataError, TurbotagError, UsageError
from turbotag.features.clusters import Clusters
from turbotag.storage.store import cannot_write, write_atomically

MANIFEST = "manifest.json"


def differences(counts: dict[str, int], expected: dict[str, int]) -> list[str]:
    return [f"{counts[k]:,} {k}, not {v:,}" for k, v in expected.items() if counts[k] != v]


def check_counts(corpus: Corpus, any_size: bool) -> None:
    """Refuse another corpus, or a part of it, or files in the wrong order."""
    expected = corpus.expected
    source = corpora.entry(corpus.name).get("published", {}).get("source")
    for result in corpus.results:
        wrong = differences(result.counts, expected.get(result.file, {}))
        if not wrong:
            continue
        others = [f for f, e in expected.items() if not differences(result.counts, e)]
        hint = f"it has the counts of {others[0]}" if others else "another version, or not whole?"
        message = f"given as {result.file} has {'; '.join(wrong)} ({source}): {hint}"
        if not any_size:
            raise DataError(f"{message}; --any-size takes it all the same", result.source.path)
        corpus.remarks.append(f"{result.source.path}: {message}")


def checksum_remark(corpus: Corpus, result: Result) -> str:
    """What a source's checksum says."""
    known = corpora.entry(corpus.name).get("checksums", {"sha256": {}})
    if known["sha256"].get(result.file) == result.source.sha256:
        return f"the checksum is that of {known['source']}"
    expected = corpus.expected.get(result.file)
    if not expected:
        return "no published checksum or counts known; the layout is right"
    if differences(result.counts, expected):
        return "no published checksum known; the layout is right, the counts are others"
    source = corpora.entry(corpus.name)["published"]["source"]
    return f"no published checksum known; layout and counts agree with {source}"


def amounts(counts: dict[str, int]) -> str:
    first = f"{counts['sentences']:,} sentences, {counts['tokens']:,} tokens"
    rest = [f"{v:,} {k}" for k, v in counts.items() if k not in ("sentences", "tokens")]
    return ", ".join([first, *rest])


def manifest(corpus: Corpus, command: str) -> dict[str, Any]:
    return {
        "corpus": corpus.name,
        "command": command,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "turbotag": turbotag.__version__,
        "files": {
            r.file: {
                **r.counts,
                "sha256": hashlib.sha256(r.data).hexdigest(),
                "source": vars(r.source),
                "checksum": checksum_remark(corpus, r),
            }
            for r in corpus.results
        },
        "remarks": corpus.remarks,
    }


def refuse_existing(data: Path, names: Iterable[str], force: bool) -> None:
    for name in names:
        for file in [*corpora.entry(name)["files"], MANIFEST]:
            if (data / name / file).exists() and not force:
                raise DataError("is there already: --force replaces it", str(data / name / file))


def install(data: Path, found: list[Corpus], command: str) -> None:
    """Write everything beside its place, read it back, then move it there, manifests last."""
    stages: list[tuple[Path, Path]] = []
    try:
        for corpus in found:
            target = data / corpus.name
            make_folder(target)
            stage = Path(tempfile.mkdtemp(dir=target, prefix=".new."))
            stages.append((stage, target))
            for result in corpus.results:
                write_atomically(str(stage / result.file), result.data)
                result.verify(stage / result.file)
            text = json.dumps(manifest(corpus, command), indent=2, ensure_ascii=False) + "\n"
            write_atomically(str(stage / MANIFEST), text.encode())
        for stage, target in stages:
            for path in sorted(stage.iterdir(), key=lambda p: p.name == MANIFEST):
                os.replace(path, target / path.name)
    except OSError as e:
        raise cannot_write(str(e.filename or data), e) from e
    finally:
        for stage, _ in stages:
            shutil.rmtree(stage, ignore_errors=True)
        for corpus in found:
            with contextlib.suppress(OSError):  # only one that is empty goes
                (data / corpus.name).rmdir()


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise cannot_write(str(path), e) from e


def convert(given: argparse.Namespace, command: str) -> None:
    data: Path = given.output
    if given.what == "wsj":
        names = ["wsj", "wsj-pos"] if section_files(given.folder, "mrg") else ["wsj-pos"]
        refuse_existing(data, names, given.force)
        found = wsj(given.folder, given.dev_section)
    elif given.what == "conllx":
        if not re.fullmatch("[a-z]{2,3}(-[A-Za-z0-9]+)*", given.language):
            raise UsageError(f"--language {given.language!r} is not a code such as sl")
        refuse_existing(data, [f"conllx-{given.language}"], given.force)
        found = [conllx([given.train, given.test], given.language)]
    elif given.what == "conll2008":
        refuse_existing(data, ["conll2008"], given.force)
        found = [conll2008([given.train, given.dev, given.test])]
    else:
        refuse_existing(data, ["conll2003"], given.force)
        found = [conll2003([given.train, given.testa, given.testb])]
    for corpus in found:
        check_counts(corpus, given.any_size)
    install(data, found, command)
    for source in {r.source.path: r.source for c in found for r in c.results}.values():
        print(f"{source.path}: sha256 {source.sha256}")
    for corpus in found:
        for result in corpus.results:
            print(f"{data / corpus.name / result.file}: {amounts(result.counts)}")
            print(f"  {checksum_remark(corpus, result)}")
        for remark in corpus.remarks:
            print(f"{corpus.name}: {remark}")


# What is there


def check(data: Path) -> int:
    """Print what is in DATA; 1 if something there is damaged or was changed, else 0."""
    if not data.is_dir():
        print(f"{data}: no such folder", file=sys.stderr)
    names = [n for n in corpora.table() if n != corpora.FAMILY]
    family = sorted(p.name for p in data.glob(corpora.PREFIX + "?*") if p.is_dir())
    complete: list[str] = []
    lacking: list[str] = []
    damaged = 0
    for name in [*names, *(family or [corpora.FAMILY])]:
        corpus = corpora.entry(name)
        sentence = corpora.missing(data, name)
        (lacking if sentence else complete).append(name)
        if any((data / name / file).is_file() for file in corpus["files"]):
            print(f"{name}: {corpus['what']}; licence: {corpus['licence']}")
            for file in corpus["files"]:
                if (data / name / file).is_file():
                    told, right = examine(data / name / file, corpus)
                    damaged += not right
                    print(f"  {file}: {told}")
        if sentence:
            print(sentence)
    print(f"{len(complete)} corpora are there: {', '.join(complete) or 'none'}")
    if lacking:
        print(f"{len(lacking)} are missing, in whole or part: {', '.join(lacking)}")
    if damaged:
        print(f"{damaged} files are damaged or were changed", file=sys.stderr)
    return int(damaged > 0)


def examine(path: Path, corpus: dict[str, Any]) -> tuple[str, bool]:
    """What a file holds and whether we know it; False if it is damaged or was changed."""
    try:
        found = sha256(str(path))
        told = contents(path)
        made = recorded(path)
    except DataError as e:
        return str(e), False
    if made is not None:
        if found != made["sha256"]:
            return f"{told}: CHANGED since it was made on {made['date']}", False
        return f"{told}: unchanged since it was made on {made['date']}", True
    known = corpus.get("checksums", {"sha256": {}})
    if known["sha256"].get(path.name) == found:
        return f"{told}: the checksum is that of {known['source']}", True
    measured = corpus["files"][path.name]
    if not measured:
        return f"{told}: not made by this script, so there is no checksum to compare", True
    if measured["sha256"] == found:
        return f"{told}: the file that this project's figures were measured on", True
    other = [f"{measured[k]:,} {k}" for k in ("sentences", "tokens") if k in measured]
    return f"{told}: not the file that was measured here ({', '.join(other) or 'other'})", True


def contents(path: Path) -> str:
    if path.parent.name == "gazetteers":
        names = sum(1 for line in text_of(str(path)).split("\n") if line.strip())
        return f"{names:,} names"
    if path.parent.name == "clusters":
        return f"{len(Clusters.read('en', str(path)).paths):,} clusters"
    block = read(
        str(path), {".conllu": "conllu", ".crfsuite": "crfsuite"}.get(path.suffix, "columns")
    )
    if block.format.name == "conllu":
        read_heads(block)
    if block.format.name == "crfsuite":
        return f"{block.n_sentences:,} sequences, {block.n_tokens:,} items"
    return amounts({"sentences": block.n_sentences, "tokens": block.n_tokens})


def recorded(path: Path) -> dict[str, str] | None:
    """Checksum and date of a file by the manifest beside it; None if there is none."""
    source = path.parent / MANIFEST
    if not source.is_file():
        return None
    try:
        made = json.loads(source.read_text(encoding="utf-8"))
        return {"sha256": made["files"][path.name]["sha256"], "date": made["date"]}
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"has no readable record of {path.name}", str(source)) from None


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python scripts/data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-o", "--output", type=Path, default=corpora.DATA, metavar="DATA")
    common.add_argument("--force", action="store_true", help="replace what is there")
    common.add_argument(
        "--any-size", action="store_true", help="take a corpus with other counts than published"
    )
    command = commands.add_parser("check", help="what is in corpora, and how to get the rest")
    command.add_argument("data", type=Path, nargs="?", default=corpora.DATA, metavar="DATA")
    command = commands.add_parser("conll2003", parents=[common], help="English names, 4 columns")
    for name in ("train", "testa", "testb"):
        command.add_argument(name, metavar=f"eng.{name}")
    command = commands.add_parser("conllx", parents=[common], help="a CoNLL-X treebank")
    command.add_argument("train", metavar="TRAIN")
    command.add_argument("test", metavar="TEST")
    command.add_argument("--language", required=True, help="its code, such as sl")
    command = commands.add_parser("conll2008", parents=[common], help="CoNLL-2008, closed track")
    for name in ("train", "dev", "test"):
        command.add_argument(name, metavar=name.upper())
    command = commands.add_parser("wsj", parents=[common], help="the Penn Treebank's WSJ")
    command.add_argument("folder", metavar="PENN_TREEBANK")
    command.add_argument(
        "--dev-section", type=int, choices=(22, 24), default=22, help="of trees; default 22"
    )
    command = commands.add_parser("demo", help="write the embedded corpus")
    command.add_argument("folder", type=Path)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 success, 1 bad data, 2 bad usage, 130 interrupted."""
    given = arguments().parse_args(argv)
    try:
        if given.what == "check":
            return check(given.data)
        if given.what == "demo":
            demo.write(given.folder)
            return 0
        words = sys.argv[1:] if argv is None else argv
        convert(given, shlex.join(["scripts/data", *words]))
    except TurbotagError as e:
        print(f"scripts/data: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print("scripts/data: interrupted", file=sys.stderr)
        return 130
    return 0
