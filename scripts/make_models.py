"""Train the models that are shipped in turbotag/pretrained, score them on test data, write cards.

    python scripts/make_models.py [NAME...]

Data: UD English EWT and Slovenian SSJ, Universal NER's annotation of EWT, the Broad Twitter Corpus,
and lists of names. A model file holds hashed features and weights, no sentence of the corpora.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpora import DATA

from turbotag.models.evaluation import compare_model, evaluate_trees
from turbotag.models.gold import Options, options_for
from turbotag.models.parser import Parser
from turbotag.models.parser_training import train_parser
from turbotag.models.pipeline import Pipeline, load_model
from turbotag.models.prediction import predict
from turbotag.models.shipped import SHIPPED
from turbotag.models.tagger import Tagger
from turbotag.models.training import train

EWT = "Universal Dependencies English EWT (Silveira et al. 2014), CC BY-SA 4.0"
SSJ = "Universal Dependencies Slovenian SSJ (Dobrovoljc et al. 2017), CC BY-SA 4.0"
UNER = "Universal NER (Mayhew et al. 2024), CC BY-SA 4.0"
BTC = "Broad Twitter Corpus (Derczynski et al. 2016), CC BY 4.0"
LISTS = "lists of names: CIA World Factbook and others (public domain, GFDL), M. Kantrowitz's names"
LICENCE = "CC BY-SA 4.0"
LIMIT = 6_000_000  # bytes
GAZETTEERS = {
    "country": "countries.txt",
    "female": "female-names.txt",
    "male": "male-names.txt",
    "nationality": "nationalities.txt",
    "city": "uscities.txt",
    "state": "usstates.txt",
}


OWN = Path(__file__).parents[1] / "data" / "gazetteers"
TAGGER: dict[str, Any] = {"loss": "softmax-margin", "gamma": 3.0, "stop_gap": "1%"}
PARSER: dict[str, Any] = {"jackknife": 5, "supertags": 5, "heads": 6}
PARSER_DROP = 0.03


def gazetteers(data: Path) -> dict[str, str]:
    """Lists of names by others, and the project's own."""
    own = {n: str(OWN / f"{n}s.txt") for n in ("place", "organisation")}
    return own | {n: str(data / "gazetteers" / f) for n, f in GAZETTEERS.items()}


def words_per_second(model: Any, path: str) -> float:
    """From file to file, the best of three."""
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        words = predict(model, path, io.BytesIO())
        rates.append(words / (time.perf_counter() - start))
    return max(rates)


def tagger(
    name: str, data: Path, out: Path, credits: list[str], test: Path, what: str, **options: Any
) -> None:
    """Train a compact tagger; its card has the score on `test`."""
    given = options_for(licence=LICENCE, compact=True, **options)
    model, _ = train(given, str(out), echo=print, command=f"scripts/make_models.py {name}")
    if isinstance(given.train, bytes):
        model.header["data"]["name"] = "uner-ewt train (its early state) and dev, btc train"
    asked = Options(given.task, str(test), target=given.target)
    scores = {}
    for strict in (False, True) if given.task == "ner" else (False,):
        score = compare_model(asked, model, str(test), strict).score
        scores["test, strict" if strict else "test"] = score.as_dict()
    finish(model, out, credits, what, scores, str(test))


def parser(
    name: str, out: Path, credits: list[str], test: Path, what: str, tags: list[str], **options: Any
) -> None:
    """Train a parser; its card has the scores on `test`, with the gold tags and, if there are
    taggers, with theirs."""
    given = options_for("parse", licence=LICENCE, **options)
    model, _ = train_parser(given, str(out), echo=print, command=f"scripts/make_models.py {name}")
    scores = {"test, gold tags": evaluate_trees(str(test), model).as_dict()}
    if tags:
        taggers = [load_model(str(out.with_name(f"{t}.model"))) for t in tags]
        parsed = io.BytesIO()
        predict(Pipeline([*taggers, model]), str(test), parsed)
        scores["test, predicted tags"] = evaluate_trees(str(test), parsed.getvalue()).as_dict()
    finish(model, out, credits, what, scores, str(test))


def finish(
    model: Tagger | Parser, out: Path, credits: list[str], what: str, scores: Any, test: str
) -> None:
    model.header["card"] = {
        "what": what,
        "credits": credits,
        "words_per_second": round(words_per_second(model, test), -2),
    }
    model.header["scores"] = model.header.get("scores", {}) | scores
    model.save(str(out))
    size = out.stat().st_size
    print(f"{out.name}: {size / 1e6:.2f} MB, {scores}")
    if size > LIMIT:
        raise SystemExit(f"{out.name} has {size} bytes, more than {LIMIT}")


def en_upos(data: Path, out: Path) -> None:
    ewt = data / "ewt"
    tagger(
        "en-upos", data, out, [EWT, LISTS], ewt / "test.conllu",
        "universal parts of speech of English",
        task="pos", train=str(ewt / "train.conllu"), dev=str(ewt / "dev.conllu"), target="upos",
        template="pos-rich", gazetteers=gazetteers(data), **TAGGER, C=1.0, order=2, drop=0.014,
    )  # fmt: skip


def en_xpos(data: Path, out: Path) -> None:
    ewt = data / "ewt"
    tagger(
        "en-xpos", data, out, [EWT, LISTS], ewt / "test.conllu", "Penn parts of speech of English",
        task="pos", train=str(ewt / "train.conllu"), dev=str(ewt / "dev.conllu"), target="xpos",
        template="pos-rich", gazetteers=gazetteers(data), **TAGGER, C=0.6, drop=0.03,
    )  # fmt: skip


def en_ner(data: Path, out: Path) -> None:
    test = data / "uner-ewt" / "test.iob2"
    files = [data / "uner-ewt" / f"{part}.iob2" for part in ("train", "dev")]
    texts = [f.read_bytes().rstrip(b"\n") for f in (*files, data / "btc" / "train.iob2")]
    train_on = b"\n\n".join(texts) + b"\n"
    tagger(
        "en-ner", data, out, [UNER, EWT, BTC, LISTS], test,
        "persons, organisations and places in English",
        task="ner", train=train_on, gazetteers=gazetteers(data), loss="softmax-margin",
        scheme="iobes", stop_gap=1e-2, drop=0.01,
    )  # fmt: skip


def en_parse(data: Path, out: Path) -> None:
    ewt = data / "ewt"
    parser(
        "en-parse", out, [EWT], ewt / "test.conllu",
        "dependency trees of English, trained on predicted tags", ["en-upos", "en-xpos"],
        train=str(ewt / "train.conllu"), **PARSER, drop=PARSER_DROP,
    )  # fmt: skip


def sl_parse(data: Path, out: Path) -> None:
    folder = data / "slovene"
    parser(
        "sl-parse", out, [SSJ], folder / "test.conllu",
        "dependency trees of Slovene, second order, from gold tags and features", [],
        train=str(folder / "train.conllu"), parts=("cs", "gp"), supertags=5, drop=0.01,
    )  # fmt: skip


MODELS: dict[str, Callable[[Path, Path], None]] = {
    "en-upos": en_upos,
    "en-xpos": en_xpos,
    "en-parse": en_parse,
    "en-ner": en_ner,
    "sl-parse": sl_parse,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--out", type=Path, default=SHIPPED)
    given = options.parse_args()
    given.out.mkdir(exist_ok=True)
    for name in given.names or MODELS:
        if name not in MODELS:
            options.error(f"no model {name!r}: they are {', '.join(MODELS)}")
        print(f"== {name} ==", flush=True)
        MODELS[name](given.data, given.out / f"{name}.model")


if __name__ == "__main__":
    main()
