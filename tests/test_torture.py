"""The attacks of scripts/torture, fewer of each."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.mark.parametrize("part", ["fuzz", "models", "faults", "extremes", "load", "supply"])
def test_survives(part, tmp_path):
    script = [sys.executable, str(SCRIPTS / "torture"), part, "--size", "tiny", "--out", tmp_path]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / f"{part}.md").read_text(encoding="utf-8").startswith(("|", "Every", "Str"))


def test_the_guard_tells_libraries_from_the_package(tmp_path, monkeypatch):
    """A library is foreign in any folder, even in a clone of this project named turbotag."""
    monkeypatch.syspath_prepend(str(SCRIPTS / "torture"))
    import guard

    library = tmp_path / "turbotag" / ".venv" / "lib"
    monkeypatch.setattr(guard, "LIBRARIES", (f"{library}/",))
    assert guard.foreign(str(library / "numba" / "core.py"))
    assert not guard.foreign(str(tmp_path / "turbotag" / "somewhere.py"))
    monkeypatch.setattr(guard, "PACKAGE", f"{library / 'turbotag'}/")  # as a wheel installs it
    assert not guard.foreign(str(library / "turbotag" / "api.py"))
