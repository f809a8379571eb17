"""Training a whole analysis from one treebank: tokens, tags, morphology, lemmas, trees, entities.

Each stage learns from what the stages before it will give it on new text. So a column of the
training data is predicted fold by fold, by models that have not seen the fold, before the next
stage reads it. In the dev set, columns are predicted by the final models.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turbotag.corpus.formats import Conll
from turbotag.corpus.hashing import pack, unpack
from turbotag.corpus.reader import Block, Content, Source, from_bytes, read
from turbotag.corpus.writer import Edits, sentences_text
from turbotag.errors import DataError, UsageError
from turbotag.models.bundle import KINDS, save_bundle
from turbotag.models.evaluation import compare_raw
from turbotag.models.gold import noted_tags
from turbotag.models.model import BEST, Model
from turbotag.models.pipeline import Pipeline
from turbotag.models.prediction import annotate
from turbotag.models.tasks import COLUMNS, STAGES
from turbotag.optim.trace import Echo, Trace
from turbotag.storage.checkpoints import Arrays, Progress, sha256
from turbotag.training.fitting import provenance
from turbotag.training.jackknife import draw_folds
from turbotag.training.options import (
    PipelineOptions,
    TaggerOptions,
    parser_options,
    tagger_options,
    tokenizer_options,
)
from turbotag.training.parser import train_parser
from turbotag.training.tagger import train as train_tagger
from turbotag.training.tokenizer import train_tokenizer
from turbotag.training.work import Training, Work

OF_PARSERS = ("supertags", "heads", "parts")  # options that stages before do not read
TAGS: dict[str, Any] = {"loss": "softmax-margin", "gamma": 3.0, "stop_gap": "1%", "keep": "last"}
SHOWN = ("Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "Lemmas", "UAS", "LAS")


@dataclass
class Data:
    """The training data and the dev set, with the columns that the next stage will read."""

    train: Block
    dev: Block | None

    def contents(self) -> tuple[Content, Content | None]:
        return _content(self.train), _content(self.dev) if self.dev else None


@Training
def train_pipeline(options: PipelineOptions, work: Work) -> tuple[Pipeline, dict[str, Any]]:
    """Train all stages and write them to one file, if one is given: (pipeline, header).

    Each stage, and each fold, has a checkpoint beside the file until that is written; or, for good,
    in a folder that is given for it.
    """
    block = read_treebank(options.train)
    progress = work.progress(options.fingerprint(block))
    names = chosen_stages(options, block)
    run = _Run(options, block, progress, work.trace, names)
    for n, name in enumerate(names, 1):
        work.echo(f"==== stage {n} of {len(names)}: {name} ====")
        run.stage(name)
    header = {"task": options.task, **provenance(options, block, work.command)}
    if run.gold_dev:
        header["scores"] = {"dev, raw text": run.scores(work.echo)}
    if work.output:
        save_bundle(work.output, run.models, header)
    progress.remove()
    progress.settle(f"{work.output} is written")
    return run.pipeline(), header


def _content(block: Block) -> Content:
    return Content.of(block.buf.tobytes(), block.path)


def read_treebank(source: Source) -> Block:
    block = read(source)
    if block.format.name != "conllu":
        raise DataError(f"is {block.format.name}; a pipeline is learned from CoNLL-U", block.path)
    return block


def chosen_stages(options: PipelineOptions, block: Block) -> list[str]:
    """The stages that are asked for, or all that the data can teach, in order."""
    able = {"tokenize": True, "parse": bool(block.filled(Conll.HEAD).any())}
    for column in COLUMNS:
        at = block.format.index(column)
        able[column] = at is not None and bool(block.filled(at).any())
    able["ner"] = options.ner is not None or noted_tags(block, "NER") is not None
    for name in options.stages or ():
        if not able[name]:
            what = "--ner FILE, or NER= in MISC" if name == "ner" else f"a column {name.upper()}"
            raise UsageError(f"stage {name} needs {what}, which {block.path} does not have")
    return [name for name in STAGES if able[name] and name in (options.stages or STAGES)]


class _Run:
    """One training: the models so far, and the data as the next stage reads them."""

    def __init__(
        self,
        options: PipelineOptions,
        block: Block,
        progress: Progress,
        trace: Trace,
        names: list[str],
    ):
        """names: of the stages. A column that no stage fills is empty in new text, and therefore in
        what the stages learn from."""
        self.options, self.progress, self.trace = options, progress, trace
        self.mark = sha256(block)
        self.gold_dev = read_treebank(options.dev) if options.dev else None
        self.empty = [column for column in COLUMNS if column not in names]
        dev = _emptied(self.gold_dev, self.empty) if self.gold_dev else None
        self.data = Data(_emptied(block, self.empty), dev)
        self.models: dict[str, Any] = {}

    def stage(self, name: str) -> None:
        work = {"tokenize": self._tokenizer, "parse": self._parser, "ner": self._entities}
        make: Callable[[], Model] = work.get(name, partial(self._column, name))
        self._once(name, make)
        if name in COLUMNS:
            self._fill(name)

    def _once(self, name: str, make: Callable[[], Any]) -> None:
        """Train a model, or take the one that was trained before."""

        def work() -> Arrays:
            model = make()
            if name != "ner" or self.options.ner is None:
                # of the file itself, not of the data with changed columns
                model.header["data"]["sha256"] = self.mark
            said = json.dumps({"kind": model.kind, "header": model.header}, ensure_ascii=False)
            return {**model.arrays, "": np.frombuffer(said.encode(), np.uint8)}

        def use(arrays: Arrays) -> None:
            said = json.loads(arrays[""].tobytes())
            own = {key: array for key, array in arrays.items() if key}
            self.models[name] = KINDS[said["kind"]].restored(said["header"], own)

        self._progress(name).once(name, work, use)

    def _progress(self, stage: str) -> Progress:
        """The checkpoints of a stage. In a folder for several pipelines they are known by what the
        stage and those before it read; one that has other options gets a checkpoint of its own."""
        if self.options.kept is None:
            return self.progress
        upto = STAGES[: STAGES.index(stage) + 1]
        unread = OF_PARSERS if "parse" not in upto else ()
        mark = {key: value for key, value in self.progress.mark.items() if key not in unread}
        for key in ("recipes", "more"):
            mark[key] = {name: x for name, x in mark.get(key, {}).items() if name in upto}
        digest = hashlib.sha256(json.dumps(mark, sort_keys=True).encode()).hexdigest()[:16]
        folder = Path(self.options.kept)
        folder.mkdir(parents=True, exist_ok=True)
        return Progress(str(folder / digest), mark, resume=True, echo=self.progress.echo)

    def _say(self) -> dict[str, Any]:
        return {"trace": Trace(self.progress.echo), "echo": self.progress.echo}

    # ---- Models ----------------------------------------------------------------------------------

    def _tokenizer(self) -> Any:
        train, dev = self.data.contents()
        asked = tokenizer_options(train, dev, **self._common(), **self._recipe("tokenize"))
        return train_tokenizer(asked, **self._say())[0]

    def _recipe(self, stage: str) -> dict[str, Any]:
        return self.options.recipes.get(stage, {})

    def _common(self) -> dict[str, Any]:
        return {"seed": self.options.fit.seed, "licence": self.options.licence}

    def _tagger_options(
        self, column: str, train: Source, dev: Source | None, **more: Any
    ) -> TaggerOptions:
        task, given = COLUMNS[column]
        usual = TAGS if task == "pos" else {}
        resources = self.options.resources if task == "pos" else {}
        given = usual | given | {"compact": True} | self._common() | resources | more
        given |= self._recipe(column)
        return tagger_options(task, train, dev, format="conllu", **given)

    def _column(self, column: str) -> Any:
        train, dev = self._contents(column)
        return train_tagger(self._tagger_options(column, train, dev), **self._say())[0]

    def _contents(self, stage: str) -> tuple[Content, Content | None]:
        """The data with the sentences that only this stage learns from. As no stage before it has
        learned from those, their columns are predicted by the models themselves, without folds."""
        train, dev = self.data.contents()
        text = self.options.more.get(stage)
        if not text:
            return train, dev
        block = self.data.train
        more = _emptied(_parsed(text, block), self.empty)
        for column in COLUMNS:
            if column in self.models and self.options.jackknife:
                model = self.models[column]
                more = _parsed(annotate(model, more, model.new_extractor(), BEST), block)
        return Content.of(train + more.buf.tobytes(), train.name), dev

    def _parser(self) -> Any:
        options, (train, dev) = self.options, self._contents("parse")
        given: dict[str, Any] = {
            "format": "conllu",
            "supertags": options.supertags or None,
            "heads": options.heads,
            "parts": options.parts or None,
            "threads": options.fit.threads,
            "shards": 1,
        }
        given |= options.resources | self._common() | self._recipe("parse")
        asked = parser_options(train, dev, **given)
        parser, _ = train_parser(asked, trace=self.trace, echo=self.progress.echo)
        if options.jackknife and any(column in self.models for column in COLUMNS):
            parser.header["tags"] = f"{options.jackknife}-fold predicted"
        return parser

    def _entities(self) -> Any:
        options = self.options
        given: dict[str, Any] = {
            "scheme": "iobes",
            "loss": "softmax-margin",
            "stop_gap": "1%",
            "keep": "last",
        }
        train, dev = self.data.contents()
        files: tuple[Source, Source | None] = (train, dev)
        if options.ner is not None:
            files = options.ner, options.ner_dev
        else:
            given["format"] = "conllu"
        given |= {"compact": True} | options.resources | self._common() | self._recipe("ner")
        asked = tagger_options("ner", *files, **given)
        return train_tagger(asked, **self._say())[0]

    # ---- Columns as new text will have them ------------------------------------------------------

    def _fill(self, column: str) -> None:
        """Fill a column with predictions: in the training data by folds, in the dev set by the
        model that was trained on all."""
        block, k = self.data.train, self.options.jackknife
        model, at = self.models[column], block.format.index(column)
        assert at is not None
        if k:
            gold = np.array(block.strings(at), object)
            found = gold.copy()
            fold = draw_folds(block.n_sentences, k, self.options.fit.seed, block.path)
            lengths = np.diff(block.sentences)
            self._progress(column).folds(
                column,
                k,
                lambda f: self._predict_fold(column, fold == f),
                lambda f, arrays: _put_fold(np.repeat(fold == f, lengths), found, arrays),
                self.options.fit.threads,
            )
            right = 100 * np.mean(found == gold)
            self.progress.echo(f"{column}: {right:.2f} % right over {k} folds")
            edits = Edits(block)
            strings, ids = np.unique(found, return_inverse=True)
            edits.replace(at, strings.tolist(), ids)
            self.data = replace(self.data, train=_parsed(edits.text(), block))
        dev = self.data.dev
        if dev:
            data = annotate(model, dev, model.new_extractor(), BEST)
            self.data = replace(self.data, dev=_parsed(data, dev))

    def _predict_fold(self, column: str, held_out: np.ndarray) -> Arrays:
        block = self.data.train
        options = self._tagger_options(column, sentences_text(block, ~held_out), None)
        quick = replace(options.fit, algorithm="dca", stop_gap=None, epochs=None)
        if options.fit.algorithm == "sdca" and not options.fit.params:
            options = replace(options, fit=quick)
        tagger, _ = train_tagger(replace(options, calibration=False, compact=False))
        held = from_bytes(sentences_text(block, held_out), block.path, block.format)
        tagged = _parsed(annotate(tagger, held, tagger.new_extractor(), BEST), block)
        at = block.format.index(column)
        assert at is not None
        text, offsets = pack(tagged.strings(at))
        return {"text": text, "offsets": offsets}

    # ---- All together ----------------------------------------------------------------------------

    def pipeline(self) -> Pipeline:
        models = [m for name, m in self.models.items() if name != "tokenize"]
        return Pipeline(models, tokenizer=self.models.get("tokenize"))

    def scores(self, echo: Echo) -> dict[str, float]:
        """F1 of the whole on the raw text of the dev set, as the CoNLL 2018 shared task has it."""
        assert self.gold_dev is not None
        score = compare_raw(self.gold_dev.buf.tobytes(), self.pipeline()).score
        found = {name: score.scores[name].f1 for name in score.scores}
        said = ", ".join(f"{name} {100 * found[name]:.2f}" for name in SHOWN if name in found)
        echo(f"dev, from raw text: {said}")
        return found


def _put_fold(words: np.ndarray, found: np.ndarray, arrays: Arrays) -> None:
    values = unpack(arrays["text"], arrays["offsets"])
    if len(values) != words.sum():
        raise ValueError(f"it has {len(values)} words, but the fold has {words.sum()}")
    found[words] = values


def _emptied(block: Block, columns: list[str]) -> Block:
    """A block without the values of some columns."""
    edits, none = Edits(block), np.zeros(block.n_tokens, np.int64)
    for column in columns:
        at = block.format.index(column)
        assert at is not None
        edits.replace(at, ["_"], none)
    return _parsed(edits.text(), block) if columns else block


def _parsed(data: bytes, block: Block) -> Block:
    return from_bytes(data, block.path, block.format)
