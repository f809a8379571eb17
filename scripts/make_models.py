"""Train the models that are shipped in turbotag/pretrained, score them on test data, write cards.

    python scripts/make_models.py [NAME...]

Data: UD English EWT and Slovenian SSJ, Universal NER's annotation of EWT, the Broad Twitter Corpus,
word clusters and lists of names. A model file holds hashed features and weights, no sentence of the
corpora.
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
from turbotag.corpus.reader import from_bytes, read
from turbotag.corpus.surface import read_surface
from turbotag.models.bundle import load_bundle
from turbotag.models.evaluation import compare_raw
from turbotag.models.gold import ANY
from turbotag.models.pipeline import Pipeline, joined
from turbotag.models.prediction import predict
from turbotag.models.shipped import SHIPPED
from turbotag.training import train
from turbotag.training.calibrating import calibrated
from turbotag.training.options import options_for, pipeline_options
from turbotag.training.pipeline import COLUMNS, train_pipeline

EWT = "Universal Dependencies English EWT (Silveira et al. 2014), CC BY-SA 4.0"
SSJ = "Universal Dependencies Slovenian SSJ (Dobrovoljc et al. 2017), CC BY-SA 4.0"
UNER = "Universal NER (Mayhew et al. 2024), CC BY-SA 4.0"
BTC = "Broad Twitter Corpus (Derczynski et al. 2016), CC BY 4.0"
LISTS = "lists of names: CIA World Factbook and others (public domain, GFDL), M. Kantrowitz's names"
GLOVE = "word clusters of the GloVe 6B vectors (Pennington et al. 2014), PDDL 1.0"
BOSQUE = "Universal Dependencies Portuguese Bosque (Rademaker et al. 2017), CC BY-SA 4.0"
LICENCE = "CC BY-SA 4.0"
NAMES = {"tokenize": "tokens"}  # of files, where they are not those of stages
ENTITIES = "uner-ewt train (its early state) and dev, in small letters and capitals too; btc train"
LIMIT = 8_000_000  # bytes
GAZETTEERS = {
    "country": "countries.txt",
    "female": "female-names.txt",
    "male": "male-names.txt",
    "nationality": "nationalities.txt",
    "city": "uscities.txt",
    "state": "usstates.txt",
}
OWN = Path(__file__).parents[1] / "data" / "gazetteers"


def gazetteers(data: Path) -> dict[str, str]:
    """Lists of names by others, and the project's own."""
    own = {f.stem.replace("-", "_"): str(f) for f in sorted(OWN.glob("*.txt"))}
    return own | {n: str(data / "gazetteers" / f) for n, f in GAZETTEERS.items()}


def resources(data: Path) -> dict[str, dict[str, str]]:
    """Of English models."""
    return {"gazetteers": gazetteers(data), "clusters": clusters(data)}


def clusters(data: Path) -> dict[str, str]:
    return {"glove": str(data / "clusters" / "en-glove.tsv")}


def entities(data: Path, parts: tuple[str, ...] = ("train", "dev")) -> dict[str, Any]:
    """Names are learned as they are written and, of a part of the sentences, in small letters and
    in capitals, so that text without the usual capitals has entities too."""
    files = [data / "uner-ewt" / f"{part}.iob2" for part in parts]
    ewt = [s for f in files for s in sentences(f)]
    cased = [*ewt, *sentences(data / "btc" / "train.iob2")]
    copies = [recased(s, str.lower) for s in ewt[::3]] + [recased(s, str.upper) for s in ewt[1::6]]
    train_on = "\n\n".join([*cased, *copies]) + "\n"
    given = {"task": "ner", "train": train_on.encode(), **resources(data), "C": 0.25}
    return {**given, "loss": "softmax-margin", "scheme": "iobes", "stop_gap": "1%", "drop": 0.01}


def sentences(path: Path) -> list[str]:
    """Those of a file of words and tags, as text."""
    return path.read_text(encoding="utf-8").strip("\n").split("\n\n")


def recased(sentence: str, change: Callable[[str], str]) -> str:
    """The same tags with other letters."""
    rows = [line.split("\t") for line in sentence.split("\n")]
    return "\n".join("\t".join([change(word), *tags]) for word, *tags in rows)


@dataclass(frozen=True)
class Recipe:
    """test: the file that its card has scores of; options: what it is trained with, given the data
    folder. A tagger that learns from `held_out` in the end takes the calibration of one that is
    trained with the options `without`."""

    what: str
    credits: list[str]
    test: str
    options: Callable[[Path], dict[str, Any]]
    held_out: str = ""
    without: Callable[[Path], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Whole:
    """A pipeline from one treebank. what: the language; corpus: its folder, with train, test and
    maybe dev; options: of `--task pipeline`, given the data folder; recipes: of its stages; names:
    of the models, by stage."""

    what: str
    credits: list[str]
    corpus: str
    options: Callable[[Path], dict[str, Any]]
    recipes: dict[str, dict[str, Any]]


WHAT = {
    "tokenize": "sentences, tokens and words of {} text",
    "upos": "universal parts of speech of {}",
    "xpos": "other parts of speech of {}",
    "feats": "morphological features of {}",
    "lemma": "lemmas of {}",
    "parse": "dependency trees of {}, from predicted columns",
    "ner": "persons, organisations and places in {}",
}
WHOLE = {
    "en": Whole(
        "English",
        [EWT, LISTS, GLOVE],
        "ewt",
        lambda data: resources(data) | {"stages": ("tokenize", *COLUMNS, "parse")},
        {
            "upos": {"C": 1.0, "order": 2, "drop": 0.018},
            "xpos": {"C": 0.6, "drop": 0.024},
            "parse": {"drop": 0.0265, "gazetteers": {}},
        },
    ),
    "pt": Whole(
        "Portuguese",
        [BOSQUE, UNER],
        "portuguese",
        lambda data: {f: str(data / "uner-pt" / n) for f, n in ENTITY_FILES.items()},
        {"upos": {"drop": 0.02}, "parse": {"drop": 0.02}},
    ),
}
OTHERS = Path(__file__).parents[1] / "models"  # packages of other languages than English
FOLDERS = {name: OTHERS / name / f"turbotag_{name}" for name in ("pt",)}
ENTITY_FILES = {"ner": "train.iob2", "ner_dev": "dev.iob2"}
MODELS = {
    "en-ner": Recipe(
        "persons, organisations and places in English",
        [UNER, EWT, BTC, LISTS, GLOVE],
        "uner-ewt/test.iob2",
        entities,
        held_out="uner-ewt/dev.iob2",
        without=lambda data: entities(data, ("train",)),
    ),
    "sl-parse": Recipe(
        "dependency trees of Slovene, second order, from gold tags and features",
        [SSJ],
        "slovene/test.conllu",
        lambda data: {
            "task": "parse",
            "train": str(data / "slovene" / "train.conllu"),
            "supertags": 5,
            "parts": ("cs", "gp"),
            "drop": 0.01,
        },
    ),
}


def words_per_second(model: Any, path: Any) -> float:
    """From file to file, the best of three."""
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        words = predict(model, path, io.BytesIO())
        rates.append(words / (time.perf_counter() - start))
    return max(rates)


def annotated(stages: list[Any], path: str) -> bytes:
    """A file with what models find in it."""
    out = io.BytesIO()
    predict(Pipeline(stages), path, out)
    return out.getvalue()


def make(name: str, data: Path, folder: Path) -> None:
    recipe, out = MODELS[name], folder / f"{name}.model"
    given = recipe.options(data) | {"licence": LICENCE}
    command, test = f"scripts/make_models.py {name}", str(data / recipe.test)
    small = {} if given["task"] == "parse" else {"compact": True}  # parsers always are
    options = options_for(**given, **small, calibration=not recipe.without)
    model, _ = train(options, str(out), echo=print, command=command)
    if recipe.without:
        asked = options_for(**recipe.without(data), compact=True, calibration=False)
        second, held_out = train(asked, None)[0], str(data / recipe.held_out)
        said = f"{recipe.held_out}, by a model without it"
        model.set_calibration(calibrated(second, held_out, ANY, said, print))
    if isinstance(options.train, bytes):
        model.header["data"]["name"] = ENTITIES
    scores = {"test": model.compare(test, ANY).score.as_dict()}
    if model.header.get("scheme"):
        strict = model.compare(test, ANY, strict=True)
        scores["test, strict"] = strict.score.as_dict()
    rate = round(words_per_second(model, test), -2)
    credits = recipe.credits
    model.header["card"] = {"what": recipe.what, "credits": credits, "words_per_second": rate}
    model.header["scores"] = model.header.get("scores", {}) | scores
    model.save(str(out))
    size = out.stat().st_size
    print(f"{out.name}: {size / 1e6:.2f} MB, {scores}")
    if size > LIMIT:
        raise SystemExit(f"{out.name} has {size} bytes, more than {LIMIT}")


def make_pipeline(name: str, data: Path, folder: Path) -> None:
    """Train the stages of a pipeline; each goes to a file of its own, NAME-STAGE.model."""
    recipe, files = WHOLE[name], data / WHOLE[name].corpus
    dev, test = files / "dev.conllu", str(files / "test.conllu")
    options = pipeline_options(
        str(files / "train.conllu"),
        str(dev) if dev.exists() else None,
        licence=LICENCE,
        recipes=recipe.recipes,
        **recipe.options(data),
    )
    command = f"scripts/make_models.py {name}"
    bundle = folder / f".{name}.pipeline"
    if not bundle.exists():  # it is there if sizes were refused
        train_pipeline(options, str(bundle), None, print, command, resume=True)
    stages = load_bundle(str(bundle))[1]
    whole = joined(stages)
    score = compare_raw(test, whole).score
    print({n: round(100 * f.f1, 2) for n, f in score.scores.items()}, flush=True)
    gold, tagged = read(test), annotated(list(whole.models), test)
    for stage, model in stages.items():
        model.header["command"] = command
        text: Any = test
        if stage == "tokenize":
            model, text = joined({stage: model}), read_surface(gold).text().encode()
        rate = round(words_per_second(model, text), -2)
        model = stages[stage]
        what = WHAT[stage].format(recipe.what)
        model.header["card"] = {"what": what, "credits": recipe.credits, "words_per_second": rate}
        if stage != "tokenize":
            predicted = from_bytes(tagged, test, gold.format)
            found = model.compare_blocks(gold, predicted)
            if found:
                said = {"test, predicted columns": found[1].score.as_dict()}
                model.header["scores"] = model.header.get("scores", {}) | said
        out = folder / f"{name}-{NAMES.get(stage, stage)}.model"
        model.save(str(out))
        print(f"{out.name}: {out.stat().st_size / 1e6:.2f} MB, {rate} words a second", flush=True)
        if out.stat().st_size > LIMIT:
            raise SystemExit(f"{out.name} has more than {LIMIT} bytes")
    bundle.unlink()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*WHOLE, *MODELS)))
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--out", type=Path, help="folder [that of the package of each model]")
    given = options.parse_args()
    for name in given.names or (*WHOLE, *MODELS):
        if name not in MODELS and name not in WHOLE:
            options.error(f"no model {name!r}: they are {', '.join((*WHOLE, *MODELS))}")
        print(f"== {name} ==", flush=True)
        folder = given.out or FOLDERS.get(name, SHIPPED)
        folder.mkdir(exist_ok=True)
        (make if name in MODELS else make_pipeline)(name, given.data, folder)


if __name__ == "__main__":
    main()
