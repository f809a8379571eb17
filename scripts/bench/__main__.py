"""Race turbotag against its peers, and measure how it scales and starts: docs/benchmarks.md.

    python scripts/bench crfsuite udpipe scaling start page

Each part writes CSV files with every single measurement into docs/benchmarks; `page` makes the
plots and docs/benchmarks.md from them. What is compared runs in turn within one run; figures are
medians with the smallest and the largest. A peer that is not installed is left out, and the page
says so. Needs the `bench` extra.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpora import DATA
from measure import Setting, Skipped, record

PARTS = ["crfsuite", "udpipe", "scaling", "start"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "page"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--repeats", type=int, default=3, help="of what is fast")
    parser.add_argument("--long-repeats", type=int, default=1, help="of what takes minutes")
    parser.add_argument("--small", action="store_true", help="little data, to try the script")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    setting = Setting(given.data, given.out, given.repeats, given.long_repeats, given.small)
    for name in given.parts:
        module = importlib.import_module(name)
        if name == "page":
            module.page(setting.out, [importlib.import_module(p) for p in PARTS])
            continue
        before, start = os.getloadavg()[0], time.perf_counter()
        try:
            notes = module.measure(setting)
        except Skipped as e:
            print(f"{name}: {e}", flush=True)
            continue
        seconds = time.perf_counter() - start
        record(setting, name, seconds, before, notes)
        print(f"{name}: {seconds / 60:.1f} minutes. {' '.join(notes)}", flush=True)


if __name__ == "__main__":
    main()
