"""Measure the shipped pipeline: accuracy on test data, speed from raw text, what size costs.

    python scripts/bench_pipeline.py files scores speed sizes page

`sizes` trains the models anew, with more or less left out (about half an hour).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import segmentation
from make_models import MODELS
from measure import Page, Part, Setting, main, run, table, timed, turbotag, words_per_second

from turbotag.corpus import text
from turbotag.models.gold import options_for, read_gold
from turbotag.models.parser_training import train_parser
from turbotag.models.pipeline import load
from turbotag.models.shipped import SHIPPED
from turbotag.models.training import score_model, train


def percent(x: float | None) -> str:
    return "-" if x is None else f"{100 * x:.2f}"


def files(setting: Setting) -> str:
    sizes = {name: (SHIPPED / f"{name}.model").stat().st_size for name in MODELS}
    return table(["model", "MB"], [[f"`{n}`", f"{x / 1e6:.2f}"] for n, x in sizes.items()])


def evaluate(*arguments: object) -> dict[str, Any]:
    return run(turbotag("eval", "--json", *arguments)).json()


def scores(setting: Setting) -> str:
    """Every model on test data, alone and in the pipeline."""
    test, rows = setting.data / "ewt" / "test.conllu", []
    gold = segmentation.parse(test.read_text(encoding="utf-8"))
    system = segmentation.parse(text.to_conllu(gold.raw).decode())
    for name, x in segmentation.f1(gold, system).items():
        rows.append([f"{name}, from raw text", "EWT test", "F1, CoNLL 2018", percent(x), ""])

    def trees(what: str, data: str, found: dict[str, Any]) -> None:
        for c in found["conventions"].values():
            rows.append([what, data, c["convention"], percent(c["uas"]), percent(c["las"])])

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.conllu"
        run(turbotag("predict", "en", test, "-o", out))
        for name in ("upos", "xpos"):
            right = evaluate(test, out, "--target", name)["accuracy"]
            rows.append([name, "EWT test, gold tokens", "accuracy", percent(right), ""])
        trees("trees, predicted tags", "EWT test", evaluate("--task", "parse", test, out))
    trees("trees, gold tags", "EWT test", evaluate("--model", "en-parse", test))
    slovene = setting.data / "slovene" / "test.conllu"
    trees("trees, gold tags", "Slovene test", evaluate("--model", "sl-parse", slovene))
    for strict in ([], ["--strict"]):
        names = setting.data / "uner-ewt" / "test.iob2"
        s = evaluate("--model", "en-ner", names, *strict)
        types = ", ".join(f"{t} {percent(v['f1'])}" for t, v in s["types"].items())
        rows.append([f"entities ({types})", "UNER EWT test", s["convention"], percent(s["f1"]), ""])
    return table(["what", "data", "convention", "accuracy, F1 or UAS", "LAS"], rows)


def speed(setting: Setting) -> str:
    """Words a second of every stage and of the whole, from raw text on one core."""
    source = setting.data / "ewt" / setting.pick("dev.conllu", "train.conllu")
    gold = segmentation.parse(source.read_text(encoding="utf-8"))
    words = sum(map(len, gold.words))
    seconds = sorted(timed(lambda: text.to_conllu(gold.raw)) for _ in range(3))[1]
    rows = [["sentences and tokens", f"{words / seconds:,.0f}"]]
    with tempfile.TemporaryDirectory() as folder:
        tagged = Path(folder) / "tagged.conllu"
        run(turbotag("predict", "en-pos", source, "-o", tagged))
        for name in ("en-upos", "en-xpos", "en-parse", "en-ner"):
            rows.append([name, f"{words_per_second(load(name), str(tagged)):,.0f}"])
    whole = words_per_second(load("en"), gold.raw.encode(), format="raw")
    rows.append(["**all, text to CoNLL-U**", f"{whole:,.0f}"])
    return table(["stage", "words a second"], rows) + (
        f"\n\nEWT's training part, {words:,} words: raw text for the first stage and the whole, "
        "CoNLL-U in memory, which is read and written, for the models. CPU time, median of three "
        "runs."
    )


def sizes(setting: Setting) -> str:
    """Bytes against accuracy on dev (for entities on test: dev is what they are trained on)."""
    dev, rows = setting.data / "ewt" / "dev.conllu", []
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "model", Path(folder) / "out.conllu"
        for name in ("en-upos", "en-xpos"):
            options = options_for(**MODELS[name].options(setting.data))
            options.dev, options.calibration = None, False
            whole, _ = train(options, str(path))
            gold = read_gold(options, str(dev), options.target)
            for drop in (None, 0.0, 0.005, 0.014, 0.03, 0.06):
                small = whole if drop is None else whole.compacted(drop)
                small.save(str(path))
                accuracy = percent(score_model(small, gold).accuracy)
                label = "all, float32" if drop is None else f"{drop:g}"
                rows.append([name, label, f"{path.stat().st_size / 1e6:.2f}", accuracy])
        tagged = Path(folder) / "tagged.conllu"
        run(turbotag("predict", "en-pos", dev, "-o", tagged))
        for drop in (0.002, 0.01, 0.03, 0.05):
            given = MODELS["en-parse"].options(setting.data) | {"drop": drop}
            train_parser(options_for(**given, calibration=False), str(path))
            run(turbotag("predict", path, tagged, "-o", out))
            c = evaluate("--task", "parse", dev, out)["conventions"]["nopunct"]
            score = f"{percent(c['uas'])} / {percent(c['las'])}"
            rows.append(["en-parse", f"{drop:g}", f"{path.stat().st_size / 1e6:.2f}", score])
            print(rows[-1], flush=True)
    return table(
        ["model", "drop", "MB", "accuracy, or UAS / LAS with predicted tags, on dev"], rows
    )


PAGE = Page(
    "The shipped models, measured",
    "models",
    "pipeline",
    "bench_pipeline.py",
    {
        "files": Part("Files", files),
        "scores": Part("Accuracy", scores),
        "speed": Part("Speed", speed),
        "sizes": Part("What size costs", sizes),
    },
)

if __name__ == "__main__":
    main(PAGE, __doc__)
