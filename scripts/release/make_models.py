"""Train the models that are shipped, score them on test data, write cards.

    python scripts/release/make_models.py [NAME...]

Each is a pipeline in one file: English in turbotag/pretrained, others in packages below models/.
Data: UD English EWT, Portuguese Bosque and Slovenian SSJ, Universal NER's annotation of the first
two, the Broad Twitter Corpus, word clusters and lists of names. A model file holds hashed features
and weights, no sentence of the corpora.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from formal_english import formal_english
from third_person import third_person

from corpora import DATA, ROOT
from turbotag.corpus.reader import Content, Source, from_bytes, read
from turbotag.models.bundle import load_bundle, save_bundle
from turbotag.models.evaluation import compare_raw
from turbotag.models.gold import ANY
from turbotag.models.pipeline import Pipeline, joined
from turbotag.models.prediction import predict
from turbotag.models.shipped import SHIPPED
from turbotag.models.tasks import COLUMNS
from turbotag.training import train
from turbotag.training.calibrating import calibrated
from turbotag.training.options import options_for, pipeline_options
from turbotag.training.pipeline import train_pipeline

EWT = "Universal Dependencies English EWT (Silveira et al. 2014), CC BY-SA 4.0"
SSJ = "Universal Dependencies Slovenian SSJ (Dobrovoljc et al. 2017), CC BY-SA 4.0"
UNER = "Universal NER (Mayhew et al. 2024), CC BY-SA 4.0"
BTC = "Broad Twitter Corpus (Derczynski et al. 2016), CC BY 4.0"
LISTS = "lists of names: CIA World Factbook and others (public domain, GFDL), M. Kantrowitz's names"
GLOVE = "word clusters of the GloVe 6B vectors (Pennington et al. 2014), PDDL 1.0"
BOSQUE = "Universal Dependencies Portuguese Bosque (Rademaker et al. 2017), CC BY-SA 4.0"
LICENCE = "CC BY-SA 4.0"
ENTITIES = "uner-ewt train (its early state) and dev, in small letters and capitals too; btc train"
GAZETTEERS = {
    "country": "countries.txt",
    "female": "female-names.txt",
    "male": "male-names.txt",
    "nationality": "nationalities.txt",
    "city": "uscities.txt",
    "state": "usstates.txt",
}
OWN = ROOT / "data" / "gazetteers"
DEMO = ROOT / "data" / "demo"
FORMS = OWN / "company-forms.txt"


def gazetteers(data: Path) -> dict[str, str]:
    """Lists of names by others, and the project's own."""
    own = {f.stem.replace("-", "_"): str(f) for f in sorted(OWN.glob("*.txt")) if f != FORMS}
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
    read = resources(data)
    read["gazetteers"] |= {"company_forms": str(FORMS)}  # Ltd., GmbH: of organisations alone
    given = {"task": "ner", "train": train_on.encode(), **read, "C": 0.25}
    given |= {"label_cost": dict.fromkeys(("LOC", "ORG", "PER"), 2.0)}  # for recall
    return {**given, "loss": "softmax-margin", "scheme": "iobes", "stop_gap": "1%", "drop": 0.01}


def sentences(path: Path) -> list[str]:
    """Those of a file, as text."""
    return path.read_text(encoding="utf-8").strip("\n").split("\n\n")


def present_tense(data: Path) -> bytes:
    """Sentences of EWT again, with names and nouns as subjects of verbs in the present."""
    lists = data / "gazetteers"
    given = words(lists / "female-names.txt") + words(lists / "male-names.txt")
    treebank = (data / "ewt" / "train.conllu").read_text(encoding="utf-8")
    others = words(OWN / "surnames.txt"), words(OWN / "organisations.txt")
    return third_person(treebank, given, *others).encode()


def formal(data: Path, n: int, seed: int) -> bytes:
    """Sentences of letters and news by a grammar. Each stage has a draw of its own, so that it
    reads columns as they are predicted in sentences that no stage before it has learned from. The
    words of the texts that judge the models are not drawn."""
    lists = data / "gazetteers"
    given = words(lists / "female-names.txt") + words(lists / "male-names.txt")
    names = given, words(OWN / "surnames.txt"), words(OWN / "places.txt")
    judged = (DEMO / "formal.conllu").read_text(encoding="utf-8").splitlines()
    texts = [(DEMO / "letter.txt").read_text(encoding="utf-8")]
    texts += [line for line in judged if line.startswith("# text")]
    found = re.findall("[A-Za-z]+", " ".join(texts))
    treebank = (data / "ewt" / "train.conllu").read_text(encoding="utf-8")
    return formal_english(treebank, names, {*found, *map(str.lower, found)}, n, seed).encode()


def english_more(data: Path) -> dict[str, bytes]:
    """What single stages learn from beside the treebank."""
    return {
        "upos": present_tense(data) + formal(data, 1500, seed=2),
        "xpos": formal(data, 1000, seed=3),
        "parse": formal(data, 1000, seed=1),
    }


def words(path: Path) -> list[str]:
    """The lines of a list that are one word."""
    lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line.isalpha()]


def recased(sentence: str, change: Callable[[str], str]) -> str:
    """The same tags with other letters."""
    rows = [line.split("\t") for line in sentence.split("\n")]
    return "\n".join("\t".join([change(word), *tags]) for word, *tags in rows)


@dataclass(frozen=True)
class Whole:
    """A pipeline from one treebank. what: the language; corpus: its folder, with train, test and
    maybe dev; most: bytes that it may have; options: of `--task pipeline`, given the data folder;
    recipes: of its stages; entities: with those of several English corpora; dev_too: learned from
    four fifths of dev too, once everything is chosen; every fifth sentence of dev is held out."""

    what: str
    credits: list[str]
    corpus: str
    most: int
    options: Callable[[Path], dict[str, Any]]
    recipes: dict[str, dict[str, Any]]
    entities: bool = False
    dev_too: bool = False


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
        25_000_000,
        lambda data: (
            resources(data)
            | {"stages": ("tokenize", *COLUMNS, "parse"), "more": english_more(data)}
        ),
        {
            "upos": {"C": 1.0, "order": 2, "drop": 0.018},
            "xpos": {"C": 0.6, "drop": 0.024},
            "parse": {"drop": 0.0265, "gazetteers": {}},
        },
        entities=True,
        dev_too=True,
    ),
    "pt": Whole(
        "Portuguese",
        [BOSQUE, UNER],
        "portuguese",
        25_000_000,
        lambda data: {f: str(data / "uner-pt" / n) for f, n in ENTITY_FILES.items()},
        {"upos": {"drop": 0.02}, "parse": {"drop": 0.02}},
    ),
    "sl": Whole(
        "Slovene",
        [SSJ],
        "slovene",
        25_000_000,
        lambda data: {
            "stages": ("tokenize", *COLUMNS, "parse"),
            "parts": ("cs", "gp"),
            "heads": 4,
        },
        {},
    ),
}
WHOLE["en-accurate"] = replace(
    WHOLE["en"],
    most=35_000_000,
    options=lambda data: WHOLE["en"].options(data) | {"parts": ("cs", "gp"), "heads": 4},
    recipes=WHOLE["en"].recipes | {"parse": {"drop": 0.012, "gazetteers": {}}},
)
# Words a second on one core, file to file (`make pipeline`).
RATES = {
    "tokenize": 238_000,
    "upos": 182_000,
    "xpos": 255_000,
    "feats": 127_000,
    "lemma": 428_000,
    "parse": 42_600,
    "parse, second order": 23_200,
    "ner": 202_000,
}
# What was found by reading errors on dev (docs/models/errors.md); the examples are invented.
WEAK = {
    "tokenize": ["the end of a sentence without a full stop, in lists and headings"],
    "upos": [
        "a noun or an adjective before a noun: velvet curtain",
        "a preposition, a particle or an adverb: she looked over",
        "a noun or a verb where letters do not tell: the choir sings",
    ],
    "parse": [
        "what a prepositional phrase belongs to: met a painter with her uncle",
        "compounds and names of several words: old harbour road",
        "what is joined by and: they know he left and will call",
        "clauses that run on without a comma: we missed the ferry where do we sleep",
    ],
    "ner": [
        "rare places, and shops and restaurants: lunch at Button Barn",
        "where a name of several words begins and ends: Office of Roads and Bridges of Oslo",
        "'s in the name of a business: Lena's Bakery",
        "acronyms, and names in small letters: ask jo",
    ],
}
KEPT = ROOT / "build" / "stages"  # of all pipelines, until the last is made
PACKAGES = ROOT / "models"  # of other languages than English
ENTITY_FILES = {"ner": "train.iob2", "ner_dev": "dev.iob2"}


def folder_of(name: str) -> Path:
    return SHIPPED if name == "en" else PACKAGES / name / f"turbotag_{name.replace('-', '_')}"


def annotated(stages: list[Any], path: str) -> bytes:
    """A file with what models find in it."""
    out = io.BytesIO()
    predict(Pipeline(stages), path, out)
    return out.getvalue()


@cache
def english_entities(data: Path) -> Any:
    """The model of entities, with the calibration of one that has not seen the dev data."""
    given = {"compact": True, "calibration": False, "licence": LICENCE}
    model, _ = train(options_for(**entities(data), **given), None, echo=print)
    second, _ = train(options_for(**entities(data, ("train",)), **given), None)
    held_out = "uner-ewt/dev.iob2"
    said = f"{held_out}, by a model without it"
    model.set_calibration(calibrated(second, str(data / held_out), ANY, said, print))
    model.header["data"]["name"] = ENTITIES
    score_entities(model, data / "uner-ewt" / "test.iob2")
    card(model, "ner", "English", [UNER, EWT, BTC, LISTS, GLOVE])
    return model


def score_entities(model: Any, test: Path) -> None:
    scores = {
        "test": model.compare(str(test), ANY).score.as_dict(),
        "test, strict": model.compare(str(test), ANY, strict=True).score.as_dict(),
    }
    print({name: round(100 * score["f1"], 2) for name, score in scores.items()}, flush=True)
    model.header["scores"] = model.header.get("scores", {}) | scores


def card(model: Any, stage: str, language: str, credits: list[str]) -> None:
    """Speeds are those of docs/models.md: measured here, they would be others in each run."""
    second_order = bool(model.header.get("parts"))
    rate = float(RATES["parse, second order" if second_order else stage])
    what = WHAT[stage].format(language)
    model.header["card"] = {"what": what, "credits": credits, "words_per_second": rate}
    if language == "English" and stage in WEAK:
        model.header["card"]["weak"] = WEAK[stage]


def learned_from(files: Path, dev_too: bool) -> tuple[Source, Source | None]:
    """The training data and, if there is any, what is held out to calibrate and score."""
    train, dev = files / "train.conllu", files / "dev.conllu"
    if not dev_too:
        return str(train), str(dev) if dev.exists() else None
    held = sentences(dev)
    more = [s for n, s in enumerate(held) if n % 5]

    def content(parts: list[str], name: str) -> Content:
        return Content.of(("\n\n".join(parts) + "\n\n").encode(), name)

    both = content(sentences(train) + more, f"{files.name}/train.conllu, four fifths of dev.conllu")
    return both, content(held[::5], f"every fifth sentence of {files.name}/dev.conllu")


def make(name: str, data: Path, folder: Path) -> None:
    """Train the stages of a pipeline and write them to one file, with the scores of each."""
    recipe, files, out = WHOLE[name], data / WHOLE[name].corpus, folder / f"{name}.model"
    test = str(files / "test.conllu")
    options = pipeline_options(
        *learned_from(files, recipe.dev_too),
        licence=LICENCE,
        threads=os.cpu_count(),  # for folds; what is trained does not depend on it
        recipes=recipe.recipes,
        kept=str(KEPT),
        **recipe.options(data),
    )
    command = f"scripts/release/make_models.py {name}"
    begun = folder / f".{name}.pipeline"
    if not begun.exists():  # it is there if its size was refused
        train_pipeline(options, str(begun), None, print, command, resume=True)
    header, stages = load_bundle(str(begun))
    whole = joined(stages)
    score = compare_raw(test, whole).score
    found = {n: f.f1 for n, f in score.scores.items()}
    print({n: round(100 * f1, 2) for n, f1 in found.items()}, flush=True)
    header["scores"] = header.get("scores", {}) | {"test, raw text": found}
    gold, tagged = read(test), annotated(list(whole.models), test)
    for stage, model in stages.items():
        model.header["command"] = command
        card(model, stage, recipe.what, recipe.credits)
        if stage != "tokenize":
            predicted = from_bytes(tagged, test, gold.format)
            right = model.compare_blocks(gold, predicted)
            if right:
                said = {"test, predicted columns": right[1].score.as_dict()}
                model.header["scores"] = model.header.get("scores", {}) | said
    if recipe.entities:
        stages["ner"] = english_entities(data)
        stages["ner"].header["command"] = command
    elif options.ner:
        score_entities(stages["ner"], Path(str(options.ner)).parent / "test.iob2")
    credits = {c for model in stages.values() for c in model.header["card"]["credits"]}
    what = f"whole analysis of {recipe.what}"
    header["card"] = {"what": what, "credits": sorted(credits)}
    save_bundle(str(out), stages, header)
    size = out.stat().st_size
    print(f"{out.name}: {size / 1e6:.2f} MB", flush=True)
    if size > recipe.most:
        raise SystemExit(f"{out.name} has {size} bytes, more than {recipe.most}")
    begun.unlink()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WHOLE))
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--out", type=Path, help="folder [that of the package of each model]")
    given = options.parse_args()
    for name in given.names or WHOLE:
        if name not in WHOLE:
            options.error(f"no model {name!r}: they are {', '.join(WHOLE)}")
        print(f"== {name} ==", flush=True)
        folder = given.out or folder_of(name)
        folder.mkdir(exist_ok=True)
        make(name, given.data, folder)
    shutil.rmtree(KEPT, ignore_errors=True)


if __name__ == "__main__":
    main()
