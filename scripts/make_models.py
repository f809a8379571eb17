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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora import DATA

from turbotag.models.calibrating import calibrate_file
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
TAGGER: dict[str, Any] = {"loss": "softmax-margin", "gamma": 3.0, "stop_gap": "1%", "keep": "last"}


def gazetteers(data: Path) -> dict[str, str]:
    """Lists of names by others, and the project's own."""
    own = {n: str(OWN / f"{n}s.txt") for n in ("place", "organisation")}
    return own | {n: str(data / "gazetteers" / f) for n, f in GAZETTEERS.items()}


def ewt_tagger(data: Path, target: str, **more: Any) -> dict[str, Any]:
    files = {part: str(data / "ewt" / f"{part}.conllu") for part in ("train", "dev")}
    given = {"template": "pos-rich", "gazetteers": gazetteers(data), **TAGGER, **more}
    return {"task": "pos", **files, "target": target, **given}


def entities(data: Path) -> dict[str, Any]:
    files = [data / "uner-ewt" / f"{part}.iob2" for part in ("train", "dev")]
    texts = [f.read_bytes().rstrip(b"\n") for f in (*files, data / "btc" / "train.iob2")]
    train_on = b"\n\n".join(texts) + b"\n"
    given = {"task": "ner", "train": train_on, "gazetteers": gazetteers(data)}
    return {**given, "loss": "softmax-margin", "scheme": "iobes", "stop_gap": "1%", "drop": 0.01}


def trees(data: Path, corpus: str, **more: Any) -> dict[str, Any]:
    return {"task": "parse", "train": str(data / corpus / "train.conllu"), "supertags": 5, **more}


@dataclass(frozen=True)
class Recipe:
    """test: the file that its card has scores of; options: what it is trained with, given the data
    folder; tags: taggers of a parser, with whose tags it is scored too, and with those of
    `held_out` calibrated."""

    what: str
    credits: list[str]
    test: str
    options: Callable[[Path], dict[str, Any]]
    tags: tuple[str, ...] = ()
    held_out: str = ""


MODELS = {
    "en-upos": Recipe(
        "universal parts of speech of English",
        [EWT, LISTS],
        "ewt/test.conllu",
        lambda data: ewt_tagger(data, "upos", C=1.0, order=2, drop=0.014),
    ),
    "en-xpos": Recipe(
        "Penn parts of speech of English",
        [EWT, LISTS],
        "ewt/test.conllu",
        lambda data: ewt_tagger(data, "xpos", C=0.6, drop=0.03),
    ),
    "en-parse": Recipe(
        "dependency trees of English, trained on predicted tags",
        [EWT],
        "ewt/test.conllu",
        lambda data: trees(data, "ewt", jackknife=5, heads=6, drop=0.0265),
        ("en-upos", "en-xpos"),
        "ewt/dev.conllu",
    ),
    "en-ner": Recipe(
        "persons, organisations and places in English",
        [UNER, EWT, BTC, LISTS],
        "uner-ewt/test.iob2",
        entities,
    ),
    "sl-parse": Recipe(
        "dependency trees of Slovene, second order, from gold tags and features",
        [SSJ],
        "slovene/test.conllu",
        lambda data: trees(data, "slovene", parts=("cs", "gp"), drop=0.01),
    ),
}


def words_per_second(model: Any, path: str) -> float:
    """From file to file, the best of three."""
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        words = predict(model, path, io.BytesIO())
        rates.append(words / (time.perf_counter() - start))
    return max(rates)


def tag_scores(model: Tagger, options: Options, test: str) -> dict[str, Any]:
    asked = Options(options.task, test, target=options.target)
    scores = {"test": compare_model(asked, model, test, False).score.as_dict()}
    if options.task == "ner":
        scores["test, strict"] = compare_model(asked, model, test, True).score.as_dict()
    return scores


def tree_scores(model: Parser, taggers: list[Any], test: str) -> dict[str, Any]:
    scores = {"test, gold tags": evaluate_trees(test, model).as_dict()}
    if taggers:
        parsed = annotated([*taggers, model], test)
        scores["test, predicted tags"] = evaluate_trees(test, parsed).as_dict()
    return scores


def annotated(stages: list[Any], path: str) -> bytes:
    """A file with what models find in it."""
    out = io.BytesIO()
    predict(Pipeline(stages), path, out)
    return out.getvalue()


def make(name: str, data: Path, folder: Path) -> None:
    recipe, out = MODELS[name], folder / f"{name}.model"
    options = options_for(licence=LICENCE, **recipe.options(data))
    command, test = f"scripts/make_models.py {name}", str(data / recipe.test)
    model: Tagger | Parser
    if options.task == "parse":
        options.calibration = not recipe.held_out
        model, _ = train_parser(options, str(out), echo=print, command=command)
        taggers = [load_model(str(folder / f"{t}.model")) for t in recipe.tags]
        if recipe.held_out:
            gold, said = annotated(taggers, str(data / recipe.held_out)), recipe.held_out
            calibrate_file(model, options, gold, f"{said} with predicted tags", print)
        scores = tree_scores(model, taggers, test)
    else:
        options.compact = True
        model, _ = train(options, str(out), echo=print, command=command)
        if isinstance(options.train, bytes):
            model.header["data"]["name"] = "uner-ewt train (its early state) and dev, btc train"
        scores = tag_scores(model, options, test)
    rate = round(words_per_second(model, test), -2)
    credits = recipe.credits
    model.header["card"] = {"what": recipe.what, "credits": credits, "words_per_second": rate}
    model.header["scores"] = model.header.get("scores", {}) | scores
    model.save(str(out))
    size = out.stat().st_size
    print(f"{out.name}: {size / 1e6:.2f} MB, {scores}")
    if size > LIMIT:
        raise SystemExit(f"{out.name} has {size} bytes, more than {LIMIT}")


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
        make(name, given.data, given.out)


if __name__ == "__main__":
    main()
