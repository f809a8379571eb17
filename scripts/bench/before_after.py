"""Train the same models with another checkout of turbotag and with this one, in turns.

    python scripts/bench/before_after.py OTHER      # a folder with the other checkout

Prints a table of certificates, scores on held-out sentences, arrays and CPU seconds. Every tenth
training sentence of CoNLL-2000 and OCR is held out, since they have no dev set; Dutch and EWT have
one. Both checkouts are run by this Python, and compile their kernels before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from figures import table
from measure import Run, held_out, run, scratch, sentences, some, turbotag

from corpora import DATA, ROOT
from turbotag.storage import store

CORPORA = DATA.resolve()
PARSE = ("--task", "parse")
HELD_OUT = 10  # every so many sentences, where there is no dev set


def corpora(folder: Path) -> Iterator[tuple[str, tuple[str, ...], Path, Path]]:
    """Name, options, training and held-out file of each training."""
    chunk = "--task", "chunk", "--template", "conll2000", "--stop-gap", "1e-4"
    for name, file, options in (
        ("CoNLL-2000", "conll2000/train.txt", chunk),
        ("OCR", "ocr/train.crfsuite", ("--task", "pos", "--stop-gap", "1e-3")),
    ):
        paths = [folder / f"{part}-{Path(file).parent}" for part in ("train", "dev")]
        for path, text in zip(paths, held_out(sentences(CORPORA / file), HELD_OUT), strict=True):
            path.write_bytes(text)
        yield name, options, *paths
    dutch = CORPORA / "conll2002-nl"
    yield "Dutch NER", ("--task", "ner"), dutch / "train.txt", dutch / "testa.txt"
    quarter = some(CORPORA / "ewt" / "train.conllu", 4, folder / "quarter.conllu")
    dev = CORPORA / "ewt" / "dev.conllu"
    yield "EWT QUARTER", PARSE, quarter, dev
    yield "EWT QUARTER, second order", (*PARSE, "--parts", "cs,gp"), quarter, dev


def train(place: Path, options: tuple[str, ...], train: Path, dev: Path, model: Path) -> Run:
    files = ["--train", train, "--dev", dev, "-o", model, "--keep", "last"]
    command = [*turbotag("train", *options, *files), "--no-calibration", "-q"]
    before = os.getcwd()
    os.chdir(place)  # which comes before what is installed
    try:
        return run(command)
    finally:
        os.chdir(before)


def main_score(header: dict[str, Any]) -> str:
    found = header["scores"]["dev"]
    if "conventions" in found:
        c = found["conventions"]["nopunct"]
        return f"UAS {100 * c['uas']:.2f}, LAS {100 * c['las']:.2f}"
    return f"{found['measure']} {100 * found.get('f1', found['accuracy']):.2f}"


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> str:
    """How far arrays are apart, each as a share of its largest number; the most of them."""
    if one.keys() != other.keys() or any(one[k].shape != other[k].shape for k in one):
        return "other rows"
    pairs = [(one[k].astype(np.float64), other[k].astype(np.float64)) for k in one]
    shares = [abs(a - b).max(initial=0.0) / max(1.0, abs(a).max(initial=0.0)) for a, b in pairs]
    return f"{max(shares):.1e}" if max(shares) else "equal"


def compared(other: Path) -> Iterator[list[Any]]:
    places = {"before": other, "after": ROOT}
    with scratch() as folder:
        for name, options, *files in corpora(folder):
            few = [some(path, 200, folder / f"few{n}{path.suffix}") for n, path in enumerate(files)]
            for place in places.values():
                train(place, (*options, "--epochs", "2"), *few, folder / "few.model")
            done, models = {}, {}
            for when, place in places.items():
                path = folder / f"{when}.model"
                done[when] = train(place, options, *files, path)
                models[when] = store.load_file(str(path), store.kind(str(path)))
            apart = difference(models["before"][1], models["after"][1])
            for when, (header, _) in models.items():
                c, used = header["certificate"], done[when]
                figures = f"{c['primal']:.9f}", f"{c['gap']:.2e}", main_score(header)
                row = [name, when, *figures, f"{used.cpu:.1f}", f"{used.load:.0f}"]
                yield [*row, "" if when == "before" else apart]
                print(*row, apart, file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a folder with the other checkout")
    head = ["training", "", "primal", "gap", "held out", "CPU s", "load", "arrays"]
    print(table(head, compared(parser.parse_args().other.resolve())))
