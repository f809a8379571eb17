"""Measure calibration: are predictions of probability p right in a share p of cases?

    python scripts/bench calibration shipped genres second_model page

All words count, and labels with their subtypes. Models are of EWT; `genres` and `second_model` take
every fourth training sentence.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from figures import table
from measure import Page, Part, Setting, joined, sentences

from turbotag.corpus.formats import Conll
from turbotag.corpus.reader import Column, read
from turbotag.corpus.trees import read_heads
from turbotag.metrics.calibration import calibrate
from turbotag.metrics.tags import same_tag
from turbotag.models.calibration import PLAIN, Confidence, Items, confidence_of, measure
from turbotag.models.gold import ANY
from turbotag.models.model import Model
from turbotag.models.parser import Parser
from turbotag.models.pipeline import Pipeline, load
from turbotag.models.prediction import predict
from turbotag.models.tagger import Tagger
from turbotag.training import train
from turbotag.training.options import options_for

GENRES = ("weblog", "newsgroup", "email", "reviews", "answers")
HEADER = ["data", "answers", "right, %", "mean probability, %", "ECE, %", "log loss"]


def items_of(model: Model, gold: bytes | str) -> dict[str, Items]:
    """What is known of a model's answers on a gold file."""
    return model.held_out(gold, ANY)[0]


def rows(data: str, model: Model, gold: bytes | str, name: str = "") -> Iterator[list[Any]]:
    """Of each kind of answer, before and after calibration."""
    for kind, items in items_of(model, gold).items():
        both = PLAIN, confidence_of(model.header, kind)
        found = [measure(items, c) for c in both]
        yield [
            data,
            f"{name} {kind}".strip(),
            f"{100 * items.right.mean():.2f}",
            " -> ".join(f"{100 * mean_probability(items, c):.2f}" for c in both),
            " -> ".join(f"{100 * ece:.2f}" for _, ece in found),
            " -> ".join(f"{loss:.3f}" for loss, _ in found),
        ]


def mean_probability(items: Items, c: Confidence) -> float:
    return float(np.mean(c.mix(items.at(c.sharpness)[0], items.chance[0])))


def both_right(parser: Parser, gold: bytes) -> str:
    """ECE of the smaller of two probabilities, as that of head and label."""
    block = read(gold)
    parsed = parser.parse(block, probabilities=True)
    right = same_tag(block.column(Conll.DEPREL), Column(parser.labels, parsed.labels))
    right &= parsed.heads == read_heads(block)
    assert parsed.head_probability is not None
    assert parsed.label_probability is not None
    less = np.minimum(parsed.head_probability, parsed.label_probability)
    return f"{100 * calibrate(less, right).ece:.2f}"


def tagged(taggers: list[Model], gold: bytes | str) -> bytes:
    """A gold file with predicted tags."""
    out = io.BytesIO()
    predict(Pipeline(taggers), gold, out)
    return out.getvalue()


# ---- Parts ---------------------------------------------------------------------------------------


def shipped(setting: Setting) -> str:
    """The shipped English models on EWT test: tags predicted, as in a text."""
    data = setting.data
    test = str(data / "ewt" / "test.conllu")
    names = {n: load(n) for n in ("en-upos", "en-xpos", "en-parse", "en-ner")}
    predicted = tagged([names["en-upos"], names["en-xpos"]], test)
    found: list[list[Any]] = []
    for name, model in names.items():
        ner = str(data / "uner-ewt" / "test.iob2")
        gold = predicted if name == "en-parse" else ner if name == "en-ner" else test
        found += rows("EWT test", model, gold, name)
    slovene = str(data / "slovene" / "test.conllu")
    found += rows("SSJ test", load("sl-parse"), slovene, "sl-parse")
    parser = names["en-parse"]
    assert isinstance(parser, Parser)
    both = both_right(parser, predicted)
    note = f"Heads and labels of en-parse both right, by the smaller probability: ECE {both} %."
    return f"{table(HEADER, found)}\n\n{note}"


def trained(learn: list[bytes], dev: bytes) -> tuple[list[Model], Parser]:
    """Taggers and a parser of their tags, calibrated on a dev set."""
    common = {"train": joined(learn), "dev": dev}
    taggers: list[Model] = [
        train(options_for("pos", target=column, **common))[0] for column in ("upos", "xpos")
    ]
    return taggers, train(options_for("parse", jackknife=5, **common))[0]


def genres(setting: Setting) -> str:
    """Models that have not seen one genre of EWT, on that genre and on test data of the others."""
    folder, first = setting.data / "ewt", setting.pick(300, None)
    texts = {s: sentences(folder / f"{s}.conllu") for s in ("train", "dev", "test")}
    found: list[list[Any]] = []
    for genre in GENRES:
        own = {s: [t for t in ts if _genre(t) == genre] for s, ts in texts.items()}
        rest = {s: [t for t in ts if _genre(t) != genre] for s, ts in texts.items()}
        taggers, parser = trained(rest["train"][::4][:first], joined(rest["dev"]))
        for name, chosen in (("the others", rest["test"]), (genre, own["train"])):
            gold = joined(chosen)
            found += rows(f"without {genre}: {name}", taggers[0], gold, "UPOS")
            found += rows(f"without {genre}: {name}", parser, tagged(taggers, gold))
            print(table(HEADER, found[-3:]), flush=True)
    return table(HEADER, found)


def _genre(sentence: bytes) -> str:
    found = re.search(rb"^# sent_id = (\w+)-", sentence, re.MULTILINE)
    assert found is not None
    return found[1].decode()


def second_model(setting: Setting) -> str:
    """A dev set, or a second model of a third of the training data: maps, errors on dev, times."""
    folder, first = setting.data / "ewt", setting.pick(300, None)
    learn = joined(sentences(folder / "train.conllu")[::4][:first])
    dev = str(folder / "dev.conllu")
    found = []
    for task in ("pos", "parse"):
        for how, more in (
            ("none", {"calibration": False}),
            ("dev set", {"dev": dev}),
            ("second model", {}),
        ):
            start = time.process_time()
            options = options_for(task, train=learn, **more)
            model: Tagger | Parser = train(options)[0]
            seconds = time.process_time() - start
            for kind, items in items_of(model, dev).items():
                c = confidence_of(model.header, kind)
                loss, ece = measure(items, c)
                found.append(
                    [
                        f"{task}, {kind}", how, f"{c.sharpness:.3f}", f"{c.doubt:.4f}",
                        f"{100 * ece:.2f}", f"{loss:.3f}", f"{seconds:.0f}",
                    ]
                )  # fmt: skip
    header = ["model", "fitted by", "sharpness", "doubt", "ECE on dev, %", "log loss", "CPU s"]
    return table(header, found)


PAGE = Page(
    "Probabilities, measured",
    "calibration",
    "calibration",
    "bench/calibration.py",
    {
        "shipped": Part("The shipped models", shipped),
        "genres": Part("Another domain: one genre of EWT left out", genres),
        "second_model": Part("With and without a dev set", second_model),
    },
)
