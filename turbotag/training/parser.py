"""Training a parser from files: read, train stage after stage, certify, calibrate, save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from turbotag.corpus.hashing import KeyTable
from turbotag.corpus.reader import Block, Source, read
from turbotag.errors import DataError, UsageError
from turbotag.features import arcs as arc_features
from turbotag.features import templates
from turbotag.features.arcs import SECOND, SUPER
from turbotag.features.kinds import kept_resources, read_resources, resource_names
from turbotag.models.gold import score_parser
from turbotag.models.parser import PART_FILES, STAGES, Parser
from turbotag.models.scanner import Scanner
from turbotag.optim.run import Result
from turbotag.optim.trace import Echo, Trace
from turbotag.storage.checkpoints import Progress
from turbotag.structures.arc_problem import ArcProblem
from turbotag.training.calibrating import calibration_of
from turbotag.training.continued import Continued, OldStage, origin
from turbotag.training.fitting import finish, held_out, provenance
from turbotag.training.jackknife import predicted_tags
from turbotag.training.options import ParserOptions
from turbotag.training.stages import ArcScores, Labels, Setup, stages, tree_scorer
from turbotag.training.tree_scorer import TreeScorer
from turbotag.training.treebank import read_treebank, sort_labels, training_treebank
from turbotag.training.work import Training, Work

# The attribute of a form that replaces a column which raw text, or a treebank, does not have.
FORMS = {"lemma": "lower", "feats": "shortshape"}
READ_SUPERTAGS = {"prune": "super-prune", "arc": "super-arcs", "label": "super-labels"}


@Training
def train_parser(options: ParserOptions, work: Work) -> tuple[Parser, Result]:
    """Train a parser and write it, if a file is given. The trace and the result are those
    of the arcs.

    Each stage has a checkpoint, output + '.STAGE.checkpoint', until the model is written.
    """
    block = read(options.train, options.layout.format)
    mark = options.fingerprint(block)
    progress = work.progress(mark)
    setup = prepare(options, block, progress)
    fitted = {}
    for stage in stages(options, work.trace):
        stage.run(setup)
        if isinstance(stage, ArcScores | Labels):
            fitted[stage.name] = stage.fitted
    header = make_header(setup) | provenance(options, block, work.command) | fitted["arc"].header
    header["certified"] = fitted["arc"].certified
    if setup.old and options.init:
        header["init"] = origin(options.init, setup.old.header)
    if "label" in fitted:
        header["label_certificate"] = fitted["label"].header["certificate"]
    parser = Parser(header, setup.arrays)
    if setup.dev and setup.gold_dev:
        score = score_parser(parser, setup.gold_dev, tagged=setup.dev.block)
        header["scores"] = {"dev": score.as_dict()}
    blocks = block, setup.bank.block, setup.dev.block if setup.dev else None

    def calibration() -> dict[str, Any] | None:
        return calibration_of(parser, setup.options, blocks, train_parser, work.echo)

    finish(parser, options, progress, calibration)
    return parser, fitted["arc"].result


def prepare(options: ParserOptions, block: Block, progress: Progress) -> Setup:
    """Read what the stages need: templates, trees, a dev set, a parser to go on from; predict the
    tags of the training data, if asked to. block: the training file."""
    old = Parser.load(options.init) if options.init else None
    echo, texts = progress.echo, template_texts(options, block, old)
    resources = read_resources(options.resources)
    if old:
        resources = kept_resources(old.resources, resources)
    scanner = Scanner(texts, resources)
    check_columns(options, scanner, echo)
    gold_dev = dev = read(options.dev, options.layout.format) if options.dev else None
    tagged = block
    if options.jackknife:
        # mistakes are found before anything is trained
        read_treebank(block, scanner, options.single_root)
        tagged, dev = predicted_tags(block, options, progress, dev)
    bank, decoder = training_treebank(tagged, scanner, options, echo)
    labels = sort_labels(bank, old.labels if old and old.labelled else ())
    setup = Setup(
        replace(options, decoder=decoder),
        progress,
        texts,
        scanner,
        block,
        bank,
        labels,
        read_treebank(dev, scanner, False) if dev else None,
        gold_dev,
        old,
        old_stages(old, texts, echo) if old else {},
        resources,
    )
    if dev:
        echo(held_out(dev))
    return setup


def template_texts(options: ParserOptions, block: Block, old: Parser | None) -> dict[str, str]:
    """The templates of all stages and kinds of parts that suit the training data, or those of a
    parser to go on from."""
    texts = {"arc": templates.load(options.template or "parse")}
    if options.prune:
        texts["prune"] = templates.load("prune")
    if options.labels:
        texts["label"] = templates.load("label")
    texts |= {PART_FILES[p]: templates.load(PART_FILES[p]) for p in options.parts}
    if options.supertags:
        texts["super"] = templates.load("super")
        for stage, more in READ_SUPERTAGS.items():
            if stage in texts and not (stage == "arc" and options.template):
                texts[stage] += templates.load(more)
    for t in arc_features.parse(texts["arc"], options.template or "parse"):
        if any(relation not in "hm" for relation, _ in (*t.head, *t.mod)):
            told = f"template '{t}' looks beyond the arc, which only templates of labels may"
            raise DataError(told, options.template)
    known = " ".join(old.header["templates"].values()) if old else ""
    missing = {
        column: form
        for column, form in FORMS.items()
        if options.jackknife or not (column in known if old else has(block, column))
    }
    return {name: without(missing, text) for name, text in texts.items()} if missing else texts


def without(missing: dict[str, str], text: str) -> str:
    """Templates that read something of the form instead of the missing columns."""
    if not any(column in text for column in missing):
        return text
    for column, form in missing.items():
        text = text.replace(column, form)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(dict.fromkeys(lines)) + "\n"


def check_columns(options: ParserOptions, scanner: Scanner, echo: Echo) -> None:
    """Refuse templates that read the tree that is to be predicted; warn of a set of one's own that
    leaves the supertags unread."""
    hidden = {"head", "deprel"} if options.labels else {"head"}
    seen = hidden & set(scanner.words.tokens.columns)
    if seen:
        raise UsageError(
            f"template {options.template!r} reads column {min(seen)!r}, which is to be predicted"
        )
    if {SUPER, SECOND} & set(scanner.words.at) and not options.supertags:
        raise UsageError(f"template {options.template!r} reads supertags: add --supertags 5")
    if options.supertags and options.template:
        atoms = (a for t in scanner.stage["arc"].templates for _, a in (*t.head, *t.mod))
        if not any(atom.source in (SUPER, SECOND) for atom in atoms):
            echo(
                f"warning: template {options.template!r} reads no supertags: to score arcs by them "
                "too, add the lines of features/templates/super-arcs.txt"
            )


def old_stages(old: Parser, texts: dict[str, str], echo: Echo) -> dict[str, OldStage]:
    """The stages of a parser to go on from that the new parser will have too."""
    had = old.header["templates"]
    echo(f"going on from a parser of {old.header['data']['name']}")
    for stage in [s for s in had if s in texts]:
        lost = set(arc_features.parse(had[stage], stage))
        lost -= set(arc_features.parse(texts[stage], stage))
        if lost:
            echo(
                f"warning: {len(lost)} templates of its stage {stage!r} are not among those of "
                f"this training, such as '{min(map(str, lost))}': their weights are not used"
            )
    return {s: OldStage(old, s) for s in STAGES if s in had and s in texts}


def make_header(setup: Setup) -> dict[str, Any]:
    """The header of the parser, without what training itself finds out."""
    options, order = setup.options, ("super", "prune", "arc", *setup.scanner.parts, "label")
    header: dict[str, Any] = {
        "task": "parse",
        "labels": setup.labels if options.labels else ["_"],
        "decoder": options.decoder,
        "single_root": options.single_root,
        "templates": {s: setup.texts[s] for s in order if s in setup.texts},
        "parts": list(options.parts),
        "approximation": options.approximation.as_dict(),
        "supertags": setup.supertags,
        "tags": f"{options.jackknife}-fold predicted" if options.jackknife else "gold",
        "reads": [c for c in setup.scanner.words.tokens.columns if has(setup.bank.block, c)],
        **resource_names(setup.resources),
    }
    return header | ({"heads": options.heads} if options.heads else {})


def has(block: Block, name: str) -> bool:
    """Whether a column has a value for any word."""
    column = block.format.index(name)
    return column is not None and bool(block.filled(column).any())


@dataclass
class Task:
    """The problem of scoring arcs, for trying optimizers on it: the table of its features, a scorer
    of weights on a treebank, and what training goes on from."""

    problem: ArcProblem
    table: KeyTable
    scorer: Callable[[Source], TreeScorer]
    kept: Continued | None


def problem(options: ParserOptions, echo: Echo = lambda line: None) -> Task:
    """The problem of scoring arcs that `train_parser` solves with these options. The stages before
    it are trained; nothing is written."""
    block = read(options.train, options.layout.format)
    setup = prepare(options, block, Progress(None, {}, echo=echo))
    *before, arcs = stages(replace(options, labels=False), Trace())
    for stage in before:
        stage.run(setup)
    assert isinstance(arcs, ArcScores)
    task = arcs.task(setup)

    def scorer(source: Source) -> TreeScorer:
        gold = read(source, options.layout.format)
        bank = read_treebank(gold, setup.scanner, False)
        if setup.supertagger:
            setup.supertagger.fill(bank.matrix, bank.sentences, setup.scanner)
        return tree_scorer(setup, task, bank, gold)

    return Task(task.problem, task.table, scorer, task.kept)
