"""Measure turbotag, page by page: accuracy, time, memory, certificates, and races with its peers.

    python scripts/bench parser quarter full page
    python scripts/bench races --help

A page is a module of this folder, and has parts. Each part leaves its figures in the folder of the
page in docs/; `page` makes the page of all that is there (measure.py).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import main

PAGES = {
    "races": "python-crfsuite, UDPipe, scaling and starting: docs/benchmarks.md",
    "parser": "the parser: docs/parser.md",
    "second_order": "second-order parsing: docs/second_order.md",
    "calibration": "probabilities: docs/calibration.md",
    "pipeline": "the shipped models: docs/models.md",
    "server": "the server with 50 clients: docs/server.md",
    "doors": "sklearn-crfsuite, and documents one by one: docs/doors.md",
    "shards": "dual ascent on shards, workers of Ray: docs/shards.md",
    "optimizers": "all optimizers: docs/optimizers.md",
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        "python scripts/bench",
        description=__doc__.splitlines()[0],
        epilog="\n".join(f"  {name:14}{what}" for name, what in PAGES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("page", choices=PAGES, metavar="PAGE", help="one of those below")
    parser.add_argument("parts", nargs="...", metavar="PART", help="see PAGE --help")
    given = parser.parse_args()
    main(importlib.import_module(given.page).PAGE, given.parts)
