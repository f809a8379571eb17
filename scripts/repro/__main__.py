"""Repeat the papers' experiments: CSV files, plots, docs/results.md with a verdict on each claim.

    python scripts/repro dca-ner dca-parse losses eg egr rates sdca page
    python scripts/repro open-questions halfspaces noise elastic page
    python scripts/repro page                  # plots and the report again, from the CSV files
    python scripts/repro same DIR1 DIR2        # do two runs agree in all but seconds?

Each experiment is a module of this folder: `run` writes CSV files, `plot`, `section` and `claims`
read them. A corpus that is not there is skipped with a sentence.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dca_ner
import dca_parse
import eg
import egr
import elastic
import halfspaces
import losses
import noise
import open_questions
import other
import rates
import sdca
from common import VERDICTS
from figures import read, table
from measure import Page, Part, files_of, main

MODULES = {
    "dca-ner": dca_ner,
    "dca-parse": dca_parse,
    "losses": losses,
    "eg": eg,
    "egr": egr,
    "rates": rates,
    "sdca": sdca,
    "open-questions": open_questions,
    "halfspaces": halfspaces,
    "noise": noise,
    "elastic": elastic,
}


def claims(out: Path) -> str:
    """Every claim and its verdict, those that do not show first."""
    measured = [m for name, m in MODULES.items() if files_of(out, name, ".csv")]
    found = [c for module in (*measured, other) for c in module.claims(out)]
    found.sort(key=lambda c: list(VERDICTS).index(c.shows))
    rows = [[f"**{VERDICTS[c.shows]}**", c.text, c.source, c.why] for c in found]
    head = ["verdict", "claim", "source", "what we see"]
    return "## Every claim and its verdict\n\n" + table(head, rows)


def same(first: Path, second: Path) -> bool:
    """Whether two folders hold the same figures, seconds apart, in what both have; tells which."""
    names = sorted({p.name for p in first.glob("*.csv")} & {p.name for p in second.glob("*.csv")})
    equal = bool(names)
    for name in names:
        a, b = (
            [{k: v for k, v in r.items() if not k.endswith("seconds")} for r in read(folder / name)]
            for folder in (first, second)
        )
        equal &= a == b
        print(f"{name}: {'the same' if a == b else 'DIFFERENT'}, {len(a)} and {len(b)} rows")
    return equal


PAGE = Page(
    "The papers' claims, checked",
    "results",
    "repro",
    "repro",
    {
        name: Part(
            module.TITLE,
            module.run,
            lambda out, m=module: f"{(m.__doc__ or '').splitlines()[0]}\n\n{m.section(out)}",
            module.plot,
        )
        for name, module in MODULES.items()
    },
    "Seconds are CPU seconds of the optimizer alone, on shared cores; everything else is the same "
    "in every run with the same seed.",
    claims,
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["same"]:
        sys.exit(0 if same(*map(Path, sys.argv[2:])) else 1)
    main(PAGE, sys.argv[1:])
