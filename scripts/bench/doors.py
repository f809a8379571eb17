"""Measure the doors: turbotag.CRF beside sklearn-crfsuite, documents one by one and many at once.

    python scripts/bench doors crf documents page

Dutch NER (CoNLL-2002) with the features of sklearn-crfsuite's tutorial: the word in small letters,
two endings, three kinds of capitals and digits, the tag and its first letters, of a word and its
neighbours. Each training is a process of its own; they take turns.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

from figures import Row, read, table, values
from measure import Page, Part, Setting, evaluate, rounds, run, scratch, some
from peers import worker

SETTINGS = {
    "algorithm": "lbfgs",
    "c2": 0.1,
    "max_iterations": 100,
    "all_possible_transitions": True,
}
KINDS = {
    "sklearn-crfsuite": "features of the tutorial",
    "turbotag.CRF": "features of the tutorial",
    "turbotag.CRF on words": '`template="ner"`',
}


# ---- Parts ---------------------------------------------------------------------------------------


def crf(setting: Setting) -> None:
    """Training and tagging by both."""
    if not setting.has("conll2002-nl"):
        return
    folder, found = setting.data / "conll2002-nl", list[Row]()
    with scratch() as at:
        for name in ("train", "testa", "testb"):
            some(folder / f"{name}.txt", 1, at / f"{name}.txt", setting.pick(200, None))
        for repeat, kind in rounds(dict.fromkeys(KINDS, 1 + setting.repeats)):
            done = run(worker("sklearn_crf", kind, json.dumps(SETTINGS), at))
            if repeat:  # the first one may compile kernels
                row = {"kind": kind, **done.json()}
                for name in ("testa", "testb"):
                    f1 = evaluate(at / f"{name}.txt", at / f"{name}.tagged")["f1"]
                    row[f"f1_{name}"] = round(100 * f1, 2)
                found.append({**row, **done.usage()})
    setting.write("crf", found)


def crf_section(out: Path) -> str:
    rows = read(out / "crf.csv")
    lines = []
    for kind, what in KINDS.items():

        def middle(column: str, kind: str = kind) -> float:
            return statistics.median(values(rows, column, kind=kind))

        lines.append(
            [
                kind, what, f"{middle('fit_s'):.1f}", f"{middle('cpu_s'):.1f}",
                f"{middle('peak_mb'):.0f}", f"{middle('words_per_s'):,.0f}",
                f"{middle('f1_testa'):.2f}", f"{middle('f1_testb'):.2f}",
            ]
        )  # fmt: skip
    given = ", ".join(f"{name}={value!r}" for name, value in SETTINGS.items())
    header = [
        "", "features", "`fit`, CPU s", "whole process, CPU s", "peak MB",
        "words a second, `predict`", "F1 testa", "F1 testb",
    ]  # fmt: skip
    return f"`CRF({given})`, 15,806 sentences; F1 of whole entities. Medians.\n\n" + table(
        header, lines
    )


def documents(setting: Setting) -> None:
    """Words a second of a loaded pipeline: texts one by one, many at once, and as one text."""
    import turbotag

    if not setting.has("ewt"):
        return
    lines = (setting.data / "ewt" / "dev.conllu").read_text(encoding="utf-8").splitlines()
    texts = [x.removeprefix("# text = ") for x in lines if x.startswith("# text = ")]
    texts = texts[: setting.pick(50, 1000)]
    nlp, whole = turbotag.load("en"), "\n\n".join(texts)
    ways: dict[str, Any] = {
        "`nlp(text)`, one after the other": lambda: [nlp(text) for text in texts],
        "`nlp.pipe(texts)`": lambda: list(nlp.pipe(texts)),
        "`nlp(all texts in one)`": lambda: [nlp(whole)],
        "`nlp.pipe(texts, probabilities=True)`": lambda: list(nlp.pipe(texts, probabilities=True)),
    }
    found: list[Row] = []
    for repeat, way in rounds(dict.fromkeys(ways, 1 + setting.repeats)):
        begin = time.process_time()
        words = sum(len(doc.tokens) for doc in ways[way]())
        rate = words / (time.process_time() - begin)
        if repeat:  # the first one may compile kernels
            found.append({"way": way, "words_per_cpu_s": round(rate)})
    setting.write("documents", found)


def documents_section(out: Path) -> str:
    rows = read(out / "documents.csv")
    lines = []
    for way in dict.fromkeys(row["way"] for row in rows):
        rate = statistics.median(values(rows, "words_per_cpu_s", way=way))
        lines.append([way, f"{rate:,.0f}"])
    return table(["1,000 sentences of EWT dev, each a text", "words a CPU second"], lines)


PAGE = Page(
    "Doors, measured",
    "doors",
    "doors",
    "bench/doors.py",
    {
        "crf": Part("turbotag.CRF and sklearn-crfsuite", crf, crf_section),
        "documents": Part("Documents", documents, documents_section),
    },
)
