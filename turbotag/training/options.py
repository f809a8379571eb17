"""Options of training: Fit (how weights are fitted), TaggerOptions, ParserOptions and so on.

Options are made by `options_for` from flat names, those of the command line. Their constructors
check them, so options that exist are legal, before any file is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from turbotag import losses
from turbotag.corpus import schemes
from turbotag.corpus.reader import Block, Source
from turbotag.errors import ArgumentError, UsageError, did_you_mean
from turbotag.features.declared import OPTIONS as RESOURCES
from turbotag.models.gold import ANY, SPAN_TASKS, Layout
from turbotag.models.parser import DECODERS, MOST_HEADS, PART_FILES
from turbotag.models.shipped import find
from turbotag.models.tasks import ALL_TASKS, STAGES, TASKS
from turbotag.optim.algorithms import ALGORITHMS, algorithm, parameters
from turbotag.optim.base import LOOPY, SECOND_ORDER
from turbotag.storage.checkpoints import FILES, content, sha256
from turbotag.structures.second_order import ENTROPIES, Approximation
from turbotag.training.fit import Fit, at_least, one_of, within

CONSTRAINTS = ("none", "decode", "train")
CROSSING = ("lift", "skip")
PASSIVE_AGGRESSIVE = ("dca", "dca-planes", "mira")  # in these, C is the largest step
LEAST_COST, MOST_COST = 1e-6, 1e6  # of a label, and weight of a sentence
PARSER_GAP = "1%"  # of the primal objective, for optimizers that stop at a gap
MANY_LABELS = 100  # with more labels, a chain runs over candidate lists
CANDIDATES, MOST_CANDIDATES = 12, 1000  # labels of a word
GROUPS = ("layout", "fit", "loss", "params", "resources")  # fields that are groups of options
# Options that do not change what a training is, only when it ends.
FREE = (
    *("licence", "calibration", "kept"),
    *("epochs", "stop_gap", "patience", "max_oracle_calls", "max_seconds", "threads"),
    *("workers", "address"),
)
LATER = (
    "difference",
    "l1",
    "label_cost",
    "more",
    "sentence_weights",
    "shards",
    *(kind for kind in RESOURCES if kind != "gazetteers"),
)  # in checkpoints only if they are asked for, because older checkpoints lack them
ROUNDS = {  # of messages between second-order parts, where nothing else is asked for
    "convex": Approximation("convex", 8, 0.5, 1e-4),
    "bethe": Approximation("bethe", 30, 0.3, 1e-3),
}


@dataclass(frozen=True)
class TrainingOptions:
    """The options that all trainings have.

    resources: files by their option (features/declared) and by name; init: a model to go on from;
    drop: weights below this share of the largest are left out of a compact model.
    """

    task: str
    train: Source
    dev: Source | None = None
    layout: Layout = ANY
    fit: Fit = field(default_factory=Fit)
    template: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    init: str | None = None
    licence: str = ""
    drop: float = 0.01
    calibration: bool = True

    def __post_init__(self) -> None:
        if self.fit.patience is not None and not self.dev:
            raise UsageError("--patience needs --dev")

    def fingerprint(self, block: Block) -> dict[str, Any]:
        """What must be equal for a checkpoint to be continued: the options that matter, under their
        flat names and with their defaults, and the contents of files. block: the training data."""
        loss = self.fit.loss
        settings = asdict(self) | asdict(self.layout) | asdict(self.fit) | asdict(loss)
        settings |= {kind: self.resources.get(kind, {}) for kind in RESOURCES}
        settings["shards"] = self.fit.dealt
        settings |= algorithm(self.fit.algorithm).check(loss.beta, loss.gamma, self.fit.params)
        settings = {k: v for k, v in settings.items() if k not in (*GROUPS, *FREE, "train")}
        settings |= {name: content(settings[name]) for name in FILES if name in settings}
        settings["train"] = sha256(block)
        settings["more"] = {name: content(text) for name, text in settings.get("more", {}).items()}
        settings = {k: v for k, v in settings.items() if v or k not in LATER}
        return dict(json.loads(json.dumps(settings, default=str)))


@dataclass(frozen=True)
class TaggerOptions(TrainingOptions):
    """Options of the training of a tagger; the help of `turbotag train` explains each."""

    scheme: str | None = None
    strict: bool = False
    constraints: str = "decode"
    order: int = 1
    candidates: int | None = None
    compact: bool = False
    label_cost: dict[str, float] = field(default_factory=dict)
    sentence_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_task()
        self._check_costs()
        one_of("constraints", self.constraints, CONSTRAINTS)
        if self.scheme is not None:
            one_of("scheme", self.scheme, schemes.SCHEMES)
        if self.order not in (0, 1, 2):
            raise UsageError(f"order is {self.order}: it must be 0, 1 or 2")
        if self.order == 0 and self.constraints == "train":
            raise UsageError(
                "--constraints train forbids pairs of tags, and --order 0 has none: leave out one"
            )
        if not 0.0 <= self.drop < 1.0:
            raise UsageError(f"drop is {self.drop}: it must be at least 0 and below 1")
        if self.candidates is not None:
            within("candidates", self.candidates, 0, MOST_CANDIDATES)
            if self.candidates and (self.order == 2 or self.task in SPAN_TASKS):
                raise UsageError("--candidates needs tags that are not spans, and --order 0 or 1")

    def _check_task(self) -> None:
        """Refuse options that the task has no use for."""
        task, usual = TASKS[self.task], {f.name: f.default for f in fields(self)}
        for name, why in task.refused.items():
            value = getattr(self, name)
            if value not in (task.defaults.get(name, usual[name]), {}):
                raise UsageError(why)

    def _check_costs(self) -> None:
        for name, cost in self.label_cost.items():
            within(f"label-cost of {name}", cost, LEAST_COST, MOST_COST)
        if self.label_cost and not self.fit.loss.gamma:
            raise UsageError(
                "--label-cost weighs the cost in the loss, and a loss with gamma 0 has none: take "
                "--loss softmax-margin or svm"
            )
        if self.label_cost and self.candidates:
            raise UsageError("--label-cost does not go with --candidates: leave out one")
        for weight in self.sentence_weights:
            within("the weight of a sentence", weight, LEAST_COST, MOST_COST)
        if self.sentence_weights and self.fit.params.get("dual") == "exact":
            raise UsageError("weights of sentences need --dual compact")

    def lists(self, n_labels: int) -> int:
        """The number of candidates of a word, 0 for all labels."""
        if self.candidates is not None:
            return self.candidates
        many = n_labels > MANY_LABELS and self.order < 2 and self.task not in SPAN_TASKS
        # candidate lists leave out the costs of labels, which are in the loss of the whole chain
        return CANDIDATES if many and not self.init and not self.label_cost else 0


@dataclass(frozen=True)
class ParserOptions(TrainingOptions):
    """Options of the training of a parser; the help of `turbotag train` explains each."""

    decoder: str = "auto"
    multi_root: bool = False
    crossing: str = "lift"
    labels: bool = True
    prune: bool = True
    parts: tuple[str, ...] = ()
    entropy: str = "convex"
    rounds: int | None = None
    damping: float | None = None
    tolerance: float | None = None
    min_count: int = 4
    jackknife: int = 0
    supertags: int = 0
    heads: int | None = None

    @property
    def single_root(self) -> bool:
        return not self.multi_root

    @property
    def approximation(self) -> Approximation:
        """How second-order parts are summed over."""
        asked = {"rounds": self.rounds, "damping": self.damping, "tolerance": self.tolerance}
        given: dict[str, Any] = {k: v for k, v in asked.items() if v is not None}
        return replace(ROUNDS[self.entropy], **given)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("decoder", self.decoder, ("auto", *DECODERS))
        one_of("crossing", self.crossing, CROSSING)
        one_of("entropy", self.entropy, ENTROPIES)
        unknown = [p for p in self.parts if p not in PART_FILES]
        if unknown:
            raise UsageError(f"--parts takes some of {', '.join(PART_FILES)}, not {unknown[0]!r}")
        try:
            self.approximation.check()
        except ValueError as e:
            raise UsageError(str(e)) from e
        if self.parts:
            self._check_second_order()
        if self.min_count < 0:
            raise UsageError(f"min-count is {self.min_count}: it must not be negative")
        within("drop", self.drop, 0.0, 0.1)
        for name, folds in (("jackknife", self.jackknife), ("supertags", self.supertags)):
            if folds == 1 or folds < 0:
                raise UsageError(f"{name} is {folds}: it takes 2 folds or more")
        if self.heads is not None:
            within("heads", self.heads, 1, MOST_HEADS)
            if not self.prune:
                raise UsageError("--heads needs the pruning model: leave out --no-prune")
        if self.supertags and not self.labels:
            raise UsageError("--supertags needs labels: leave out --no-labels")
        if self.fit.params.get("dual") == "exact":
            if self.decoder != "projective":
                raise UsageError("--dual exact needs --decoder projective; or use --dual compact")
            if not self.fit.loss.smooth:
                raise UsageError("--dual exact needs a finite beta; or use --dual compact")

    def _check_second_order(self) -> None:
        fit = self.fit
        structure = SECOND_ORDER if self.entropy == "convex" else LOOPY
        able = [name for name, cls in ALGORITHMS.items() if structure in cls.structures]
        if fit.algorithm not in able:
            raise UsageError(
                f"--parts with --entropy {self.entropy} is trained by {', '.join(able)}; "
                f"{fit.algorithm} needs the exact log Z"
            )
        if fit.params.get("l1"):
            raise UsageError("--l1 does not go with --parts: leave out one")
        if fit.loss.difference:
            raise UsageError("--parts does not go with the losses ramp and risk: take another one")
        if self.entropy == "bethe" and not fit.loss.smooth:
            raise UsageError("--entropy bethe needs a loss with finite beta, such as crf")
        if fit.params.get("sampling") in ("importance", "gap-importance"):
            raise UsageError("--parts does not go with sampling by importance: use --sampling gap")
        if self.decoder == "projective":
            raise UsageError(
                "--parts sums over all trees: take --decoder projective-decoding or nonprojective"
            )
        if self.decoder == "projective-decoding" and not fit.loss.smooth:
            raise UsageError("--decoder projective-decoding with --parts needs a finite beta")
        if not self.prune:
            raise UsageError("--parts needs pruned arcs: leave out --no-prune")


@dataclass(frozen=True)
class TokenizerOptions(TrainingOptions):
    """Options of the training of a tokenizer; the help of `turbotag train` explains each.

    by_letter: None decides by the training data.
    """

    by_letter: bool | None = None
    min_count: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("min-count", self.min_count, 1)
        within("drop", self.drop, 0.0, 0.1)


@dataclass(frozen=True)
class PipelineOptions(TrainingOptions):
    """Options of the training of a whole pipeline; the help of `turbotag train` explains each.

    ner, ner_dev: files with entities; stages: some of STAGES, None for all that the data can teach;
    jackknife: the number of folds by which columns are predicted, 0 for gold columns; supertags,
    heads, parts: of the parser; recipes: options of single stages by their names, in place of the
    usual ones; more: by the name of a column, or "parse", CoNLL-U text that this stage learns from
    beside the treebank, and that no other stage sees; kept: a folder in which finished stages and
    folds stay, and where pipelines that differ in later stages find them (these only from Python).
    """

    ner: Source | None = None
    ner_dev: Source | None = None
    stages: tuple[str, ...] | None = None
    jackknife: int = 5
    supertags: int = 5
    heads: int | None = 6
    parts: tuple[str, ...] = ()
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    more: dict[str, bytes] = field(default_factory=dict)
    kept: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in (*(self.stages or ()), *self.recipes, *self.more):
            if name not in STAGES:
                raise UsageError(f"unknown stage {name!r}: it is one of {', '.join(STAGES)}")
        if self.ner_dev and not self.ner:
            raise UsageError("--ner-dev needs --ner")
        for name, folds in (("jackknife", self.jackknife), ("supertags", self.supertags)):
            if folds == 1 or folds < 0:
                raise UsageError(f"{name} is {folds}: it takes 2 folds or more, or 0 for none")
        parser_options(b"", b"", heads=self.heads, parts=self.parts, supertags=self.supertags)


# ---- Options by their flat names -----------------------------------------------------------------


def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


COMMON = (
    *(n for n in _names(TrainingOptions) if n not in ("task", "train", "dev", *GROUPS)),
    *("loss", "beta", "gamma"),
    *(n for n in _names(Fit) if n not in ("loss", "params")),
)
LAYOUT = ("columns", "target")  # of taggers: a treebank has its own
DATA = ("sentence_weights",)  # comes with the data, not by name
TAGGERS = tuple(n for n in _names(TaggerOptions) if n not in (*_names(TrainingOptions), *DATA))
PARSERS = tuple(n for n in _names(ParserOptions) if n not in _names(TrainingOptions))
TOKENIZERS = tuple(n for n in _names(TokenizerOptions) if n not in _names(TrainingOptions))
OF_ONE = (  # of single models: a pipeline has its own recipe for each stage
    *("template", "drop", "loss", "beta", "gamma", "difference", "l1"),
    *(n for n in _names(Fit) if n not in ("loss", "params", "seed", "threads")),
)
OF_WORDS = ("init", "calibration", *RESOURCES)  # of models whose input are words
PIPELINES = tuple(n for n in _names(PipelineOptions) if n not in _names(TrainingOptions))
USERS = {  # of options that not all tasks have
    "taggers": (*TAGGERS, *LAYOUT, *OF_WORDS, *OF_ONE),
    "parsers": (*PARSERS, *OF_WORDS, *OF_ONE),
    "tokenizers": (*TOKENIZERS, *OF_ONE),
    "pipelines": (*PIPELINES, *RESOURCES),
}
NEEDS = dict.fromkeys(("entropy", "rounds", "damping", "tolerance"), "parts")


def options_for(
    task: str, train: Source, dev: Source | None = None, **given: Any
) -> TaggerOptions | ParserOptions | TokenizerOptions | PipelineOptions:
    """The options of a task by their flat names, with the defaults of the task where nothing is
    given (None counts as nothing). params: parameters of the algorithm."""
    if task == "parse":
        return parser_options(train, dev, **given)
    if task == "tokenize":
        return tokenizer_options(train, dev, **given)
    if task == "pipeline":
        return pipeline_options(train, dev, **given)
    return tagger_options(task, train, dev, **given)


LOSS = {"loss", "beta", "gamma"}  # if one of them is given, the others have no defaults


def tagger_options(
    task: str, train: Source, dev: Source | None = None, **given: Any
) -> TaggerOptions:
    if task not in TASKS:
        raise UsageError(f"unknown task {task!r}: it is one of {', '.join(ALL_TASKS)}")
    given = {k: v for k, v in given.items() if v is not None}
    defaults = TASKS[task].defaults
    if given.keys() & LOSS:
        defaults = {k: v for k, v in defaults.items() if k not in LOSS}
    elif given.get("label_cost"):
        defaults = defaults | {"loss": "softmax-margin"}
    return TaggerOptions(task, train, dev, **_grouped(task, defaults | given))


def parser_options(train: Source, dev: Source | None = None, **given: Any) -> ParserOptions:
    given = {k: v for k, v in given.items() if v is not None}
    return ParserOptions("parse", train, dev, **_grouped("parse", parser_defaults(given) | given))


def tokenizer_options(train: Source, dev: Source | None = None, **given: Any) -> TokenizerOptions:
    given = {k: v for k, v in given.items() if v is not None}
    # Chosen on dev data of four treebanks (docs/howto/tokenizer.md).
    defaults = {"C": 0.3, "drop": 0.002, "keep": "last", "stop_gap": PARSER_GAP}
    return TokenizerOptions("tokenize", train, dev, **_grouped("tokenize", defaults | given))


def pipeline_options(train: Source, dev: Source | None = None, **given: Any) -> PipelineOptions:
    # Threads work on folds: what is trained does not depend on them.
    return PipelineOptions("pipeline", train, dev, **_grouped("pipeline", given | {"shards": 1}))


def _grouped(task: str, given: dict[str, Any]) -> dict[str, Any]:
    """Flat options, with those of Layout, Fit and the resources grouped."""
    rest = {k: v for k, v in given.items() if v is not None}

    def take(*names: str) -> dict[str, Any]:
        return {name: rest.pop(name) for name in names if name in rest}

    if "init" in rest:
        rest["init"] = find(rest["init"])
    layout = Layout(task=task, **take("format", *LAYOUT))
    loss = losses.loss(rest.pop("loss", "crf"), **take("beta", "gamma"))
    fit, files = Fit(loss=loss, **take(*_names(Fit))), take(*RESOURCES)
    return {"layout": layout, "fit": fit, "resources": files, **rest}


def parser_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Defaults of a parser, chosen on dev data of four treebanks (docs/parser.md)."""
    second_order = bool(given.get("parts"))
    # sdca certifies, but needs a log Z that is exact or an upper bound
    usual = "dca" if second_order and given.get("entropy") == "bethe" else "sdca"
    name = given.get("algorithm", usual)
    if name in PASSIVE_AGGRESSIVE:
        C = 0.03
    else:
        C = 0.3 if second_order else 0.1
    defaults: dict[str, Any] = {
        "algorithm": usual,
        "C": C,
        "drop": 0.005 if second_order else 0.01,  # parts have smaller weights beside the arcs'
        # The last epochs before a certified gap differ by noise on dev; the last has the proof.
        "keep": "last" if name == "sdca" else "best",
    }
    if not given.keys() & LOSS:
        defaults |= {"loss": "softmax-margin", "gamma": 3.0}
    # The objective is a sum over all words of a sentence: no number fits all treebanks.
    if algorithm(name).default_gap is not None:
        defaults["stop_gap"] = PARSER_GAP
    return defaults


def check_given(
    task: str, given: Mapping[str, Any], spelling: Callable[[str], str] = lambda name: name
) -> None:
    """Refuse options that belong to another task, and options that need another one. spelling: how
    a user writes the name of an option."""
    for name in given:
        users = [who for who, own in USERS.items() if name in own]
        if users and _user(task) not in users:
            raise ArgumentError(
                f"{spelling(name)} is for {' and '.join(users)}: the task {task} has no use for it"
            )
        needed = "compact" if name == "drop" and task in TASKS else NEEDS.get(name)
        if needed and not given.get(needed):
            raise ArgumentError(f"{spelling(name)} needs {spelling(needed)}")


def _user(task: str) -> str:
    own = {"parse": "parsers", "tokenize": "tokenizers", "pipeline": "pipelines"}
    return own.get(task, "taggers")


def named(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a task and parameters of the algorithm, given by name, as `options_for` takes
    them. None counts as nothing. A name that is neither is refused, with a list of the names that
    there are."""
    given = {name: value for name, value in given.items() if value is not None}
    check_given(task, given)
    of_algorithms = {name.replace("-", "_") for name in parameters()}
    every = (*COMMON, *USERS[_user(task)])
    own = tuple(dict.fromkeys(n for n in every if n not in (*LAYOUT, *of_algorithms)))
    options = {name: value for name, value in given.items() if name in own}
    chosen = options_for(task, b"", b"", **options).fit.algorithm
    known = {p.name.replace("-", "_"): p.name for p in algorithm(chosen).params}
    params = dict(given.get("params", {}))
    for name, value in given.items():
        if name in known:
            params[known[name]] = value
        elif name not in own and name != "params":
            raise ArgumentError(_unknown(name, own, chosen, tuple(known)))
    return options | {"params": params}


def _unknown(name: str, own: tuple[str, ...], chosen: str, known: tuple[str, ...]) -> str:
    """What to say of a name that is neither an option nor a parameter of the algorithm."""
    of_others = parameters().get(name.replace("_", "-"))
    if of_others:
        return f"{name} is a parameter of {', '.join(who for who, _ in of_others)}, not of {chosen}"
    return (
        f"there is no option {name!r}{did_you_mean(name, (*own, *known))} "
        f"(options: {', '.join(sorted(own))}; parameters of {chosen}: {', '.join(known) or 'none'})"
    )
