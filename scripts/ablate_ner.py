"""What each group of features adds to the shipped NER templates: F1 without it, and alone.

python scripts/ablate_ner.py --train train.txt --test testb.txt --gazetteer country=countries.txt
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from turbotag.features import templates
from turbotag.models.evaluation import evaluate_model
from turbotag.models.gold import Options
from turbotag.models.training import train

GROUPS = {
    "shape": r"shape|capital|allcaps|mixedcase|digit\[|number|hyphen|abbreviation|punctuation",
    "affixes": r"prefix|suffix",
    "gazetteer": r"gaz",
}


def f1(text: str, args: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "t.txt"
        template.write_text(text, encoding="utf-8")
        gazetteers = dict(g.split("=", 1) for g in args.gazetteer)
        options = Options("ner", args.train, template=str(template), gazetteers=gazetteers)
        tagger, _ = train(options, str(Path(folder) / "m"))
        return 100 * evaluate_model(options, tagger, args.test, strict=False).main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--gazetteer", action="append", default=[])
    args = parser.parse_args()
    lines = [x for x in templates.load("ner").splitlines() if x and not x.startswith("#")]

    def of(group: str) -> set[str]:
        return {x for x in lines if re.search(GROUPS[group], x)}

    base = [x for x in lines if not any(x in of(g) for g in GROUPS)]
    print(f"{'templates':<28}{'F1':>7}")
    print(f"{'words only':<28}{f1(chr(10).join(base), args):>7.2f}", flush=True)
    for group in GROUPS:
        some = [x for x in lines if x in base or x in of(group)]
        print(f"{'words + ' + group:<28}{f1(chr(10).join(some), args):>7.2f}", flush=True)
    for group in GROUPS:
        rest = [x for x in lines if x not in of(group)]
        print(f"{'all but ' + group:<28}{f1(chr(10).join(rest), args):>7.2f}", flush=True)
    print(f"{'all':<28}{f1(chr(10).join(lines), args):>7.2f}")


if __name__ == "__main__":
    main()
