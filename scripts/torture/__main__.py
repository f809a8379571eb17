"""Attack turbotag and count what survives: docs/reliability.md.

    python scripts/torture fuzz models faults extremes load supply page
    python scripts/torture faults --quick

Each part is a module of this folder whose `measure(quick)` gives a section of the page, or fails.
It writes docs/reliability/PART.md; `page` joins what is there. `--quick` is what CI runs: the same
attacks, fewer of each, and nothing is written.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import page

HEADINGS = {
    "fuzz": "Fuzzing: readers, templates, model files, the tokenizer",
    "models": "Hostile model files",
    "faults": "Faults: kills, full disks, closed pipes",
    "extremes": "Extreme numbers",
    "load": "Load",
    "supply": "Supply chain",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=[*HEADINGS, "page"])
    parser.add_argument("--quick", action="store_true", help="fewer of each attack; write nothing")
    parser.add_argument("--out", type=Path, default=Path("docs/reliability"))
    given = parser.parse_args()
    for name in given.parts:
        if name == "page":
            parts = {name: (heading, lambda data: "") for name, heading in HEADINGS.items()}
            page("Hard to break", "torture", "torture", parts, given.out)
            continue
        start = time.perf_counter()
        text = importlib.import_module(name).measure(given.quick)
        print(f"{text}\n\n{name}: {time.perf_counter() - start:.0f} s", flush=True)
        if not given.quick:
            given.out.mkdir(parents=True, exist_ok=True)
            head = f"`python scripts/torture {name}`, {time.perf_counter() - start:.0f} s."
            (given.out / f"{name}.md").write_text(f"{head}\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
