"""Repeat the papers' experiments: CSV files, plots, docs/results.md with a verdict on each claim.

    python scripts/repro dca-ner dca-parse losses eg egr sdca page
    python scripts/repro page                  # plots and the report again, from the CSV files
    python scripts/repro same DIR1 DIR2        # do two runs agree in all but seconds?

Each experiment is a module of this folder: `run` writes CSV files, `plot`, `section` and `claims`
read them. A corpus that is not there is skipped with a sentence.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numba
import numpy
import scipy
from common import SHOWS, SHOWS_NOT, UNKNOWN, Setting, rows_of, table
from corpora import DATA

import turbotag

EXPERIMENTS = ("dca-ner", "dca-parse", "losses", "eg", "egr", "sdca")


def module(name: str) -> Any:
    return importlib.import_module(name.replace("-", "_"))


def run(name: str, setting: Setting) -> None:
    """One experiment, and beside its CSV files what made them."""
    wall, cpu, load = time.perf_counter(), sum(os.times()[:4]), os.getloadavg()[0]
    module(name).run(setting)
    about = {
        "command": f"make repro-{name}" + (" FULL=1" if setting.size == "full" else ""),
        "seed": setting.seed,
        "date": datetime.date.today().isoformat(),
        "versions": {
            "turbotag": turbotag.__version__,
            "Python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "numba": numba.__version__,
        },
        "wall_seconds": round(time.perf_counter() - wall),
        "cpu_seconds": round(sum(os.times()[:4]) - cpu),
        "load": [round(x, 1) for x in (load, os.getloadavg()[0])],
        "skipped": setting.skipped,
    }
    setting.out.mkdir(parents=True, exist_ok=True)
    (setting.out / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {about['wall_seconds']} s", flush=True)


def page(out: Path) -> None:
    """OUT.md: the claims first, those that do not show before the others, then the figures."""
    sections, verdicts = [], []
    for name in EXPERIMENTS:
        path = out / f"{name}.json"
        if not path.exists():
            continue
        about, made = json.loads(path.read_text(encoding="utf-8")), module(name)
        made.plot(out)
        verdicts += made.claims(out)
        versions = ", ".join(f"{k} {v}" for k, v in about["versions"].items())
        sections += [f"## {made.TITLE}", "", f"{made.__doc__.splitlines()[0]}", ""]
        for picture in sorted(out.glob(f"{name}*.png")):
            sections += [f"![{made.TITLE}]({out.name}/{picture.name})", ""]
        tables = ", ".join(
            f"[{p.name}]({out.name}/{p.name})" for p in sorted(out.glob(f"{name}*.csv"))
        )
        sections += [
            f"`{about['command']}`, seed {about['seed']}, {about['date']}, "
            f"{about['wall_seconds'] / 60:.0f} min at load {about['load'][0]} to "
            f"{about['load'][1]}; {versions}. Figures: {tables}.",
            "",
            *(f"Skipped: {sentence}\n" for sentence in about["skipped"]),
            made.section(out),
            "",
        ]
    verdicts += module("other").claims(out)
    verdicts.sort(key=lambda c: (SHOWS_NOT, UNKNOWN, SHOWS).index(c.verdict))
    remarks = out / "remarks.md"
    lines = [
        "# The papers' claims, checked",
        "",
        "Made by `make repro` (`scripts/repro`) from the CSV files in "
        f"[{out.name}/]({out.name}/). Seconds are CPU seconds of the optimizer alone, on shared "
        "cores; everything else is the same in every run with the same seed.",
        "",
        *([remarks.read_text(encoding="utf-8").strip(), ""] if remarks.exists() else []),
        "## Every claim and its verdict",
        "",
        table(
            ["verdict", "claim", "source", "what we see"],
            [[f"**{c.verdict}**", c.text, c.source, c.why] for c in verdicts],
        ),
        "",
        *sections,
    ]
    (out.parent / f"{out.name}.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def same(first: Path, second: Path) -> bool:
    """Whether two folders hold the same figures, seconds apart; says what differs."""
    names = sorted({p.stem for folder in (first, second) for p in folder.glob("*.csv")})
    equal = bool(names)
    for name in names:
        a, b = (
            [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in rows_of(f, name)]
            for f in (first, second)
        )
        equal &= a == b
        print(f"{name}: {'the same' if a == b else 'DIFFERENT'}, {len(a)} and {len(b)} rows")
    return equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", metavar="PART", help=", ".join(EXPERIMENTS) + ", page")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--size", choices=["tiny", "default", "full"], default="default")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.parts[0] == "same" and len(given.parts) == 3:
        sys.exit(0 if same(Path(given.parts[1]), Path(given.parts[2])) else 1)
    unknown = set(given.parts) - {*EXPERIMENTS, "page"}
    if unknown:
        parser.error(f"{min(unknown)!r} is none of {', '.join(EXPERIMENTS)}, page")
    for name in given.parts:
        if name == "page":
            page(given.out)
        else:
            run(name, Setting(given.data, given.out, given.size, given.seed))


if __name__ == "__main__":
    main()
