"""Attack turbotag and count what survives: docs/reliability.md.

    python scripts/torture fuzz models faults extremes load supply page
    python scripts/torture faults --size tiny --out rehearsal

Each part is a module of this folder whose `measure(quick)` gives a section of the page, or fails.
Tests run the same attacks at the tiny size, which has fewer of each.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import Page, Part, Setting, main

HEADINGS = {
    "fuzz": "Fuzzing: readers, templates, model files, the tokenizer",
    "models": "Hostile model files",
    "faults": "Faults: kills, full disks, closed pipes",
    "extremes": "Extreme numbers",
    "load": "Load",
    "supply": "Supply chain",
}


def part(name: str, heading: str) -> Part:
    def measure(setting: Setting) -> str:
        return importlib.import_module(name).measure(setting.tiny)

    return Part(heading, measure)


PAGE = Page(
    "Hard to break",
    "reliability",
    "torture",
    "torture",
    {name: part(name, heading) for name, heading in HEADINGS.items()},
)

if __name__ == "__main__":
    main(PAGE, sys.argv[1:])
