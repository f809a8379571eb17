"""Run the tests on every Python that the package promises to run on and that is installed.

    python scripts/release/pythons.py [ARGUMENTS OF PYTEST]

The promise is the classifiers of pyproject.toml. Each Python has an environment in dist/pythonX.Y;
one that is not installed is skipped with a sentence.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLASSIFIER = re.compile(r'"Programming Language :: Python :: (3\.\d+)"')


def promised() -> list[str]:
    return CLASSIFIER.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def find(version: str) -> str | None:
    """The interpreter of a version, None if there is none that runs."""
    for path in _candidates(version):
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([path, "-c", ask], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:
            return path
    return None


def _candidates(version: str) -> Iterator[str]:
    """On the path; or in pyenv's folder, whose commands on the path run only what is chosen."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True))


def test(version: str, python: str, arguments: list[str]) -> bool:
    """Whether the tests pass on a Python, in an environment that is made on first use."""
    folder = ROOT / "dist" / f"python{version}"
    own = folder / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    languages = [each for path in sorted((ROOT / "models").iterdir()) for each in ("-e", str(path))]
    install = [own, "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[dev]"]
    subprocess.run([*install, *languages], check=True)
    return subprocess.run([own, "-m", "pytest", *arguments], cwd=ROOT).returncode == 0


def main(arguments: list[str]) -> None:
    said = {}
    for version in promised():
        python = find(version)
        if python is None:
            said[version] = "skipped, as it is not installed"
            continue
        print(f"== Python {version}: {python}", flush=True)
        said[version] = "the tests pass" if test(version, python, arguments) else "FAILED"
    for version, result in said.items():
        print(f"Python {version}: {result}")
    if "FAILED" in said.values():
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
