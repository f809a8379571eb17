"""The attacks of scripts/torture, fewer of each."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.mark.parametrize("part", ["fuzz", "models", "faults", "extremes", "load", "supply"])
def test_survives(part):
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "torture"), part, "--quick"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
