"""Measure the doors: turbotag.CRF beside sklearn-crfsuite, documents one by one and many at once.

    python scripts/bench doors crf documents page

Dutch NER (CoNLL-2002) with the features of sklearn-crfsuite's tutorial: the word in small letters,
two endings, three kinds of capitals and digits, the tag and its first letters, of a word and its
neighbours. Each training is a process of its own; they take turns.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import Page, Part, Row, Setting, rounds, run, table, values

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


# ---- Training, in a process of its own -----------------------------------------------------------


def sentences(path: Path, most: int | None) -> list[list[list[str]]]:
    """Lines of columns; -DOCSTART- lines are none."""
    blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
    found = [[line.split() for line in block.splitlines() if line.strip()] for block in blocks]
    kept = [[f for f in sentence if f[0] != "-DOCSTART-"] for sentence in found]
    return [sentence for sentence in kept if sentence][:most]


def features(sentence: list[list[str]]) -> list[dict[str, Any]]:
    """Of each word, and of its neighbours under -1: and +1:."""
    own = [
        {
            "word.lower()": word.lower(),
            "word.isupper()": word.isupper(),
            "word.istitle()": word.istitle(),
            "postag": tag,
            "postag[:2]": tag[:2],
        }
        for word, tag, *_ in sentence
    ]
    out = []
    for t, (word, *_) in enumerate(sentence):
        found: dict[str, Any] = {"bias": 1.0, "word[-3:]": word[-3:], "word[-2:]": word[-2:]}
        found |= own[t] | {"word.isdigit()": word.isdigit()}
        for step, edge in ((-1, "BOS"), (1, "EOS")):
            if 0 <= t + step < len(own):
                found |= {f"{step:+d}:{name}": value for name, value in own[t + step].items()}
            else:
                found[edge] = True
        out.append(found)
    return out


def entity_f1(gold: list[list[str]], found: list[list[str]]) -> float:
    """As conlleval counts."""
    import numpy as np

    from turbotag.corpus.reader import Column
    from turbotag.metrics import spans

    def numbered(tags: list[list[str]]) -> Column:
        strings = sorted({tag for sentence in tags for tag in sentence})
        at = {tag: n for n, tag in enumerate(strings)}
        ids = [at[tag] for sentence in tags for tag in sentence]
        return Column(strings, np.array(ids, np.int32))

    cuts = np.cumsum([0, *map(len, gold)])
    score = spans.score(numbered(gold), numbered(found), cuts)
    assert score is not None
    return score.main


def train(kind: str, folder: str, most: str) -> dict[str, Any]:
    """Train one kind and score it on both test files."""
    limit = int(most) or None
    files = [sentences(Path(folder) / f, limit) for f in ("train.txt", "testa.txt", "testb.txt")]
    words = kind == "turbotag.CRF on words"
    make: Any = (lambda s: [(w[0], w[1]) for w in s]) if words else features
    data = [([make(s) for s in file], [[w[-1] for w in s] for s in file]) for file in files]
    if kind == "sklearn-crfsuite":
        from sklearn_crfsuite import CRF
    else:
        from turbotag import CRF
    crf = CRF(**SETTINGS, **({"template": "ner"} if words else {}))
    begin = time.process_time()
    crf.fit(*data[0])
    middle = time.process_time()
    found = [[list(labels) for labels in crf.predict(X)] for X, _ in data[1:]]
    end = time.process_time()
    scores = [entity_f1(y, f) for (_, y), f in zip(data[1:], found, strict=True)]
    tokens = sum(len(s) for X, _ in data[1:] for s in X)
    names = ("f1_testa", "f1_testb")
    return {
        "fit_s": round(middle - begin, 2),
        "words_per_s": round(tokens / (end - middle)),
        **{name: round(100 * score, 2) for name, score in zip(names, scores, strict=True)},
    }


# ---- Parts ---------------------------------------------------------------------------------------


def crf(setting: Setting) -> None:
    """Training and tagging by both."""
    if not setting.has("conll2002-nl"):
        return
    folder, most = setting.data / "conll2002-nl", setting.pick(200, 0)
    found: list[Row] = []
    for repeat, kind in rounds(dict.fromkeys(KINDS, 1 + setting.repeats)):
        done = run([sys.executable, __file__, "train", kind, str(folder), str(most)])
        if repeat:  # the first one may compile kernels
            found.append({"kind": kind, **done.json(), **done.usage()})
    setting.write("crf", found)


def crf_section(out: Path) -> str:
    from measure import read

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
    from measure import read

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

if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        print(json.dumps(train(*sys.argv[2:])))
