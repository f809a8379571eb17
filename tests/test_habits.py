"""What contributors rely on: `make help`, one version everywhere, `make pythons`, plain words."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import turbotag

ROOT = Path(__file__).parents[1]
if not (ROOT / "Makefile").is_file():
    pytest.skip("the Makefile is not here", allow_module_level=True)
sys.path.insert(0, str(ROOT / "scripts" / "release"))

import pythons  # noqa: E402


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def make(*arguments):
    """As from a shell: these tests are themselves run by make, whose flags are inherited."""
    command = ["make", "-s", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_make_help_has_a_line_for_every_target():
    listed = re.findall(r"^  make ([a-z-]+) +\S", make("help").stdout, re.M)
    phony = " ".join(re.findall(r"^\.PHONY: (.*)", text("Makefile"), re.M)).split()
    assert sorted(listed) == sorted(name for name in phony if "$" not in name and "%" not in name)
    assert make().stdout == make("help").stdout


def test_make_test_passes_arguments_on():
    done = make("-n", "-o", ".venv/.installed", "test", "ARGS=tests/corpus -k iob")
    assert done.stdout.endswith("-m pytest tests/corpus -k iob\n")


def test_one_version_everywhere():
    assert f"\nversion: {turbotag.__version__}\n" in text("CITATION.cff")
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.M)
    assert newest
    assert newest[1] == turbotag.__version__


def test_hooks_before_a_commit_are_those_of_make_lint():
    hooks = re.findall(r"entry: (\.venv/bin/\w+(?: [a-z]+)?)", text(".pre-commit-config.yaml"))
    lint = text("Makefile").split("\nlint:")[1].split("\n\n")[0].replace("$(BIN)", ".venv/bin")
    assert len(hooks) == 3
    assert all(hook in lint for hook in hooks)
    assert "repo: local" in text(".pre-commit-config.yaml")  # none is fetched


def command(folder, name, script):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_python_is_found_on_the_path_or_in_pyenvs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    shim = command(tmp_path, "python3.77", 'echo "pyenv: command not found" >&2; exit 127')
    assert pythons.find("3.77") is None
    command(tmp_path, "pyenv/versions/3.77.1/bin/python", "echo 3.6")
    assert pythons.find("3.77") is None
    own = command(tmp_path, "pyenv/versions/3.77.2/bin/python", "echo 3.77")
    assert pythons.find("3.77") == str(own)
    command(tmp_path, "python3.77", "echo 3.77")
    assert pythons.find("3.77") == str(shim)


def test_pythons_that_are_missing_are_skipped_and_failures_told(monkeypatch, capsys):
    monkeypatch.setattr(pythons, "find", {"3.10": "a", "3.12": "b"}.get)
    monkeypatch.setattr(pythons, "test", lambda version, python, arguments: version == "3.10")
    with pytest.raises(SystemExit):
        pythons.main(["-x"])
    said = capsys.readouterr().out.splitlines()
    assert said[-4:] == [
        "Python 3.10: the tests pass",
        "Python 3.11: skipped, as it is not installed",
        "Python 3.12: FAILED",
        "Python 3.13: skipped, as it is not installed",
    ]


PRONOUN = re.compile(r"(Those|Its|It|They|More of it|All of it|Of)\b")


def test_docstrings_open_with_what_they_are_about():
    """A reader who has not seen the code knows no noun that a pronoun could stand for."""
    for path in (ROOT / "turbotag").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                assert not PRONOUN.match(text), f"{path}: {text}"
