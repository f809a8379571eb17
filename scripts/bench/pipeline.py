"""Measure the shipped pipeline: sizes of its files, accuracy on test data, speed from raw text.

python scripts/bench pipeline files scores speed page
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from figures import table
from measure import Page, Part, Setting, evaluate, run, scratch, turbotag, words_per_second

from turbotag.corpus.reader import read
from turbotag.corpus.surface import read_surface
from turbotag.models import shipped
from turbotag.models.gold import Layout
from turbotag.models.pipeline import load
from turbotag.storage import store


def percent(x: float | None) -> str:
    return "-" if x is None else f"{100 * x:.2f}"


def files(setting: Setting) -> str:
    sizes = {
        name: store.size(str(path)) for name, path in (shipped.files() | shipped.shipped()).items()
    }
    return table(["model", "MB"], [[f"`{n}`", f"{x / 1e6:.2f}"] for n, x in sizes.items()])


def scores(setting: Setting) -> str:
    """Every model on test data, alone and in the pipeline."""
    test, rows = setting.data / "ewt" / "test.conllu", []
    for name, x in evaluate("--raw", "--model", "en", test)["scores"].items():
        rows.append([f"{name}, from raw text", "EWT test", "F1, CoNLL 2018", percent(x["f1"]), ""])

    def trees(what: str, data: str, found: dict[str, Any]) -> None:
        for c in found["conventions"].values():
            rows.append([what, data, c["convention"], percent(c["uas"]), percent(c["las"])])

    with scratch() as folder:
        out = folder / "out.conllu"
        run(turbotag("predict", "en", test, "-o", out))
        for name in ("upos", "xpos", "feats", "lemma"):
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
    gold = read(str(source))
    raw, words = read_surface(gold).text(), gold.n_tokens
    cut = words_per_second(load("en-tokenize"), raw.encode(), layout=Layout("raw"))
    rows = [["en-tokenize", f"{cut:,.0f}"]]
    with scratch() as folder:
        tagged = folder / "tagged.conllu"
        run(turbotag("predict", "en", source, "-o", tagged))
        for name in shipped.pipelines()["en"][1:]:
            rows.append([name, f"{words_per_second(load(name), str(tagged)):,.0f}"])
    whole = words_per_second(load("en"), raw.encode(), layout=Layout("raw"))
    rows.append(["**all, text to CoNLL-U**", f"{whole:,.0f}"])
    return table(["stage", "words a second"], rows) + (
        f"\n\nEWT's training part, {words:,} words: raw text for the first stage and the whole, "
        "CoNLL-U in memory, which is read and written, for the models. CPU time, median of three "
        "runs."
    )


def errors(out: Path) -> str:
    """What was found by reading, written by hand."""
    path = out / "errors.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


PAGE = Page(
    "The shipped models, measured",
    "models",
    "pipeline",
    "bench/pipeline.py",
    {
        "files": Part("Files", files),
        "scores": Part("Accuracy", scores),
        "speed": Part("Speed", speed),
    },
    lead=errors,
)
