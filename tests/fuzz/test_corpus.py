"""Inputs that once were a failure, or that reach rare code: each is accepted or refused as it
should be (scripts/torture/targets.py)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
if not (ROOT / "scripts" / "torture").is_dir():
    pytest.skip("needs the scripts of the repository", allow_module_level=True)
sys.path.insert(0, str(ROOT / "scripts" / "torture"))

import attempts  # noqa: E402
from attempts import attempt  # noqa: E402
from targets import TARGETS  # noqa: E402

KEPT = [(name, path) for name in TARGETS for path in (CORPUS / name.replace(" ", "-")).glob("*")]


@pytest.mark.parametrize(("name", "path"), KEPT, ids=[f"{n} {p.name}" for n, p in KEPT])
def test_kept(name, path, monkeypatch):
    monkeypatch.setattr(attempts, "THOROUGH", True)
    attempt(TARGETS[name].run, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_accepted(name):
    """At least one: a target that refuses everything would find nothing."""
    assert any(attempt(TARGETS[name].run, seed) for seed in TARGETS[name].seeds())


def test_every_folder_has_a_target():
    assert {p.name for p in CORPUS.iterdir()} <= {name.replace(" ", "-") for name in TARGETS}
