"""One-way imports (each package imports only from those before it) and a README that runs."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

from turbotag.cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
ORDER = [
    "errors",
    "lean",
    "corpus",
    "kernels",
    "features",
    "structures",
    "losses",
    "optim",
    "metrics",
    "models",
    "api",
    "report",
    "cli",
]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("turbotag"):
            if node.module == "turbotag":
                yield from (alias.name for alias in node.names)
            else:
                yield node.module.split(".")[1]


def test_imports_point_one_way():
    for path in (ROOT / "turbotag").rglob("*.py"):
        package = path.relative_to(ROOT / "turbotag").parts[0].removesuffix(".py")
        if package not in ORDER:
            continue
        for other in imported(path):
            if other in ORDER:
                assert ORDER.index(other) <= ORDER.index(package), f"{path} imports {other}"


def test_readme_python_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Oslo PROPN" in done.stdout


def test_python_page_runs(tmp_path):
    """The blocks of docs/python.md, as one program."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "[['B-PER', 'O', 'O', 'B-LOC'], ['O', 'O']]" in done.stdout
    assert "[[(2, 'nsubj'), (0, 'root')]]" in done.stdout


def test_readme_commands_run(tmp_path):
    """Every turbotag command of the README, in order, in an empty folder beside data/."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [
        line[2:]
        for block in re.findall(r"```console\n(.*?)```", text, re.S)
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("$ ")
    ]
    assert len(commands) >= 6
    turbotag = f"{shlex.quote(sys.executable)} -m turbotag"
    for command in commands:
        line = re.sub(
            rf"\bturbotag (?={'|'.join(COMMANDS)})",
            lambda m: turbotag + " ",
            command,
        )
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
