"""Test with the oldest versions of all dependencies that pyproject.toml allows.

    python scripts/release/lowest.py pins  what to install: numpy==1.26 ..., for what users install
    python scripts/release/lowest.py test  there: run the tests, write docs/reliability/lowest.csv

`make lowest` does both in an environment of its own, so bounds and tests cannot drift apart.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest brings the same under this name
    import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "reliability" / "lowest.csv"
BOUND = re.compile(r"([A-Za-z0-9._-]+)>=([0-9]+(?:\.[0-9]+)*)")


def bounds(*extras: str) -> dict[str, str]:
    """The lower bound of each dependency, and of those of some extras; one without is refused."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    found = {}
    for line in wanted:
        match = BOUND.fullmatch(line)
        assert match, f"pyproject.toml: {line!r} is not a name with a lower bound alone"
        found[match[1]] = match[2]
    return found


def extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def same(installed: str, bound: str) -> bool:
    """Whether a version is the bound itself: 1.26.0 is 1.26."""

    def numbers(version: str) -> list[int]:
        parts = [int(n) for n in version.split(".")]
        while parts and parts[-1] == 0:
            parts.pop()
        return parts

    return numbers(installed) == numbers(bound)


def compiled(folder: Path) -> None:
    """Have the kernels of parsers compiled before tests that wait only so long for a command."""
    data = folder / "data" / "demo" / "train.conllu"
    for more in ([], ["--decoder", "projective"], ["--parts", "cs,gp,as"]):
        command = [sys.executable, "-m", "turbotag", "train", "--task", "parse", "--quiet"]
        command += ["--train", str(data), "--epochs", "1", "-o", os.devnull, *more]
        subprocess.run(command, cwd=folder, check=True)


def test(folder: Path) -> None:
    """Run the tests of a folder with the packages of this Python, which must be the lowest."""
    lowest = bounds("plots")
    installed = {name: importlib.metadata.version(name) for name in lowest}
    for name, bound in lowest.items():
        assert same(installed[name], bound), f"{name} is {installed[name]}, not {bound}"
    compiled(folder)
    result = folder / "result.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    left_out = ["--ignore=tests/test_torture.py", "--ignore=tests/test_architecture.py"]
    code = subprocess.run([*command, *left_out, f"--junitxml={result}"], cwd=folder).returncode
    suite = ET.parse(result).getroot().find("testsuite")
    assert suite is not None
    count = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    passed = count["tests"] - count["failures"] - count["errors"] - count["skipped"]
    if code:
        raise SystemExit(f"{passed} of {count['tests']} tests passed")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with open(OUT, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["date", "passed", "skipped", "python", *lowest])
        today = datetime.date.today().isoformat()
        versions = [platform.python_version(), *installed.values()]
        writer.writerow([today, passed, count["skipped"], *versions])
    print(f"{passed} tests passed with " + ", ".join(f"{n} {v}" for n, v in installed.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["pins", "test"])
    parser.add_argument("--folder", type=Path, default=ROOT, help="where tests/ and data/ are")
    given = parser.parse_args()
    if given.what == "pins":
        print(" ".join(f"{name}=={bound}" for name, bound in bounds("plots").items()))
    else:
        test(given.folder.resolve())


if __name__ == "__main__":
    main()
