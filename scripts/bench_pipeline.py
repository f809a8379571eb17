"""Measure the shipped pipeline: accuracy on test data, speed from raw text, what size costs.

    python scripts/bench_pipeline.py files scores speed sizes page

Each part writes docs/models/PART.md; `page` joins them to docs/models.md. `sizes` trains the models
anew without leaving anything out (about ten minutes).
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_parser import table
from make_models import MODELS, PARSER, PARSER_DROP, TAGGER, gazetteers
from pages import Part, main
from score_tokenizer import compare, parse

from turbotag.corpus import text
from turbotag.corpus.formats import CONLLU
from turbotag.corpus.reader import from_bytes, read
from turbotag.features import compact
from turbotag.models.evaluation import compare_model, evaluate_trees
from turbotag.models.gold import Options, options_for, read_gold
from turbotag.models.parser import PACKED, Parser
from turbotag.models.parser_training import train_parser
from turbotag.models.pipeline import Pipeline, load_model, pipeline
from turbotag.models.prediction import Output, annotate, predict
from turbotag.models.shipped import PIPELINES, SHIPPED, find
from turbotag.models.tagger import Tagger
from turbotag.models.training import score_model, train


def percent(x: float | None) -> str:
    return "-" if x is None else f"{100 * x:.2f}"


def scores(data: Path) -> str:
    """Every model on test data, alone and in the pipeline."""
    test, rows = str(data / "ewt" / "test.conllu"), []
    gold = parse((data / "ewt" / "test.conllu").read_text(encoding="utf-8"))
    system = parse(text.to_conllu(gold.raw).decode())
    for name, (matched, n, m) in compare(gold, system).items():
        f1 = percent(2 * matched / (n + m))
        rows.append([f"{name}, from raw text", "EWT test", "F1, CoNLL 2018", f1, ""])
    nlp = pipeline("en")
    out = io.BytesIO()
    predict(nlp, test, out)
    for name, column in (("upos", 3), ("xpos", 4)):
        tags, mine = read(test).strings(column), read(out.getvalue()).strings(column)
        right = float(np.mean([a == b for a, b in zip(tags, mine, strict=True)]))
        rows.append([name, "EWT test, gold tokens", "accuracy", percent(right), ""])
    parser = load_model(find("en-parse"))
    assert isinstance(parser, Parser)
    for source, score in (
        ("predicted tags", evaluate_trees(test, out.getvalue())),
        ("gold tags", evaluate_trees(test, parser)),
    ):
        for c in score.conventions.values():
            name = f"trees, {source}"
            rows.append([name, "EWT test", c.convention, percent(c.uas), percent(c.las)])
    folder = data / "slovene"
    slovene = load_model(find("sl-parse"))
    assert isinstance(slovene, Parser)
    for c in evaluate_trees(str(folder / "test.conllu"), slovene).conventions.values():
        rows.append(
            ["trees, gold tags", "Slovene test", c.convention, percent(c.uas), percent(c.las)]
        )
    ner = load_model(find("en-ner"))
    assert isinstance(ner, Tagger)
    path = str(data / "uner-ewt" / "test.iob2")
    for strict in (False, True):
        s = compare_model(Options("ner", path), ner, path, strict).score.as_dict()
        types = ", ".join(f"{t} {percent(v['f1'])}" for t, v in s["types"].items())
        rows.append([f"entities ({types})", "UNER EWT test", s["convention"], percent(s["f1"]), ""])
    return table(["what", "data", "convention", "accuracy, F1 or UAS", "LAS"], rows)


def speed(data: Path) -> str:
    """Words a second of every stage and of the whole, from raw text on one core."""
    raw = parse((data / "ewt" / "train.conllu").read_text(encoding="utf-8")).raw.encode()
    nlp = pipeline("en")
    predict(nlp, raw[: 1 << 16], io.BytesIO(), format="raw")  # compiled and warm
    whole, stages = [], {n: [] for n in ("sentences and tokens", "reading", *PIPELINES["en"])}
    for _ in range(3):
        start = time.process_time()
        words = predict(nlp, raw, io.BytesIO(), format="raw")
        whole.append(words / (time.process_time() - start))
        seconds = dict.fromkeys(stages, 0.0)
        clock = time.process_time()
        for piece in text.stream(io.BytesIO(raw)):
            now = time.process_time()
            seconds["sentences and tokens"] += now - clock
            block = from_bytes(piece, "raw", CONLLU)
            clock = time.process_time()
            seconds["reading"] += clock - now
            for name, model, extractor in zip(
                PIPELINES["en"], nlp.models, nlp.extractor, strict=True
            ):
                now = time.process_time()
                found = annotate(model, block, extractor, Output())
                clock = time.process_time()
                seconds[name] += clock - now
                block = from_bytes(found, "raw", CONLLU)
                now, clock = clock, time.process_time()
                seconds["reading"] += clock - now
        for name, s in seconds.items():
            stages[name].append(words / s)
    rows = [[name, f"{np.median(r):,.0f}"] for name, r in stages.items()]
    return (
        table(
            ["stage", "words a second"],
            [*rows, ["**all, text to CoNLL-U**", f"{np.median(whole):,.0f}"]],
        )
        + f"\n\nRaw text of EWT's training part, {words:,} words; CPU time, median of three runs."
    )


def sizes(data: Path) -> str:
    """Bytes against accuracy on dev (for entities on test: dev is what they are trained on)."""
    ewt, rows = data / "ewt", []
    common = {"template": "pos-rich", "gazetteers": gazetteers(data), **TAGGER}
    for name, target, order in (("en-upos", "upos", 2), ("en-xpos", "xpos", 1)):
        options = options_for(
            "pos", train=str(ewt / "train.conllu"), target=target, order=order, **common
        )
        tagger, _ = train(options, os.devnull)
        dev = read_gold(options, str(ewt / "dev.conllu"), target)
        rows += tagger_sizes(name, tagger, dev, (0.0, 0.005, 0.012, 0.03, 0.06))
    options = options_for("parse", train=str(ewt / "train.conllu"), **PARSER, drop=0.002)
    parser, _ = train_parser(options, os.devnull)
    taggers = [load_model(find(n)) for n in PIPELINES["en-pos"]]
    for drop in (0.002, 0.005, 0.01, PARSER_DROP, 0.04):
        small = slimmer(parser, drop)
        out = io.BytesIO()
        predict(Pipeline([*taggers, small]), str(ewt / "dev.conllu"), out)
        c = evaluate_trees(str(ewt / "dev.conllu"), out.getvalue()).conventions["nopunct"]
        number = sum(a.nbytes for a in small.arrays.values()) / 1e6
        rows.append(
            ["en-parse", f"{drop:g}", f"{number:.2f}", f"{percent(c.uas)} / {percent(c.las)}"]
        )
    return table(
        ["model", "drop", "MB", "accuracy, or UAS / LAS with predicted tags, on dev"], rows
    )


def tagger_sizes(name: str, tagger: Tagger, dev: Any, drops: tuple[float, ...]) -> list[list[str]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        for label, drop in (("float32", None), *((f"{d:g}", d) for d in drops)):
            small = tagger if drop is None else tagger.compacted(drop)
            small.save(str(path))
            size = path.stat().st_size
            if drop is None:  # without the names of features, which compact models do not have
                size = tagger.keys.nbytes + tagger.weights.nbytes
            rows.append(
                [name, label, f"{size / 1e6:.2f}", percent(score_model(small, dev).accuracy)]
            )
    return rows


def slimmer(parser: Parser, drop: float) -> Parser:
    """The parser that --drop would have given."""
    from turbotag.models.parser_training import DROP

    arrays: dict[str, np.ndarray] = {}
    for stage, share in DROP.items():
        keys, weights = parser.rows(stage)
        size = np.abs(weights) if weights.ndim == 1 else np.abs(weights).max(axis=1)
        keep = size > share * drop * size.max()
        packed = compact.pack(keys[keep], weights[keep])
        arrays |= {f"{stage}.{n}": array for n, array in zip(PACKED, packed, strict=True)}
    return Parser(parser.header, arrays)


def files(data: Path) -> str:
    rows = [
        [f"`{name}`", f"{(SHIPPED / f'{name}.model').stat().st_size / 1e6:.2f}"] for name in MODELS
    ]
    return table(["model", "MB"], rows)


PARTS: dict[str, Part] = {
    "files": ("Files", files),
    "scores": ("Accuracy", scores),
    "speed": ("Speed", speed),
    "sizes": ("What size costs", sizes),
}

if __name__ == "__main__":
    main("The shipped models, measured", "pipeline", __doc__, __file__, PARTS, "models")
