"""turbotag train."""

from __future__ import annotations

import glob
import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from turbotag.cli.common import announce_compilation, format_option, names, pairs, parting, say
from turbotag.features.declared import KINDS
from turbotag.losses import DIFFERENCES, NAMES
from turbotag.models.tasks import ALL_TASKS
from turbotag.optim.algorithms import ALGORITHMS, describe, parameters

OPTIONS = {"no_labels": "labels", "no_prune": "prune"}
OPTIONS |= {kind.flag: kind.option for kind in KINDS}


def parameter_options(command: Any) -> Any:
    """An option for each parameter that optimizers declare."""
    for name, declared in reversed(parameters().items()):
        p = declared[0][1]
        kind: Any = click.Choice(p.choices) if p.choices else type(p.default)
        by_words: dict[str, list[str]] = {}
        for algorithm, own in declared:
            by_words.setdefault(f"{own.help} [{own.shown_default}]", []).append(algorithm)
        text = "; ".join(f"{', '.join(who)}: {words}" for words, who in by_words.items()) + "."
        flag = {"is_flag": True} if kind is bool else {"type": kind}
        command = click.option(f"--{name}", default=None, help=text, **flag)(command)
    return command


def resource_options(command: Any) -> Any:
    """An option for each kind of resource that is declared."""
    for kind in reversed(KINDS):
        names = f"--{kind.flag}", kind.flag
        command = click.option(*names, multiple=True, metavar="NAME=FILE", help=kind.help)(command)
    return command


class _Train(click.Command):
    """--help-params needs --algorithm but none of the required options."""

    def make_context(self, info_name: Any, args: list[str], *rest: Any, **extra: Any) -> Any:
        if "--help-params" in args:
            words = [w for a in args for w in a.split("=", 1)]
            at = [n for n, a in enumerate(words[:-1]) if a == "--algorithm"]
            chosen = [words[n + 1] for n in at] or ALGORITHMS
            click.echo("\n\n".join(describe(name) for name in chosen))
            raise click.exceptions.Exit(0)
        return super().make_context(info_name, args, *rest, **extra)


@click.command("train", cls=_Train)
@click.option(
    "--task",
    required=True,
    type=click.Choice(ALL_TASKS),
    help="What to train: a tagger of entities (ner), parts of speech (pos), chunks (chunk), "
    "morphology (morph, the FEATS of CoNLL-U) or lemmas (lemma); a dependency parser "
    "(parse); a tokenizer, which cuts running text into sentences, tokens and words "
    "(tokenize); or all of these from one treebank into one file (pipeline).",
)
@click.option(
    "--train", required=True, metavar="FILE", help="Training data; .gz and - are read too."
)
@click.option("--dev", metavar="FILE", help="Held-out data, scored after each epoch.")
@click.option("-o", "--output", required=True, metavar="MODEL", help="Model file to write.")
@format_option
@click.option("--columns", metavar="NAMES", help="Names of the columns, e.g. word,pos,chunk,tag.")
@click.option(
    "--target",
    metavar="NAME",
    help="Column with the tags, by name or number. By default it is the last column, or for "
    "--task chunk the column chunk if there is one; in CoNLL-U it is upos, for --task "
    "morph feats, for --task lemma lemma.",
)
@click.option(
    "--template",
    metavar="NAME|FILE",
    help="Feature templates: a shipped set (ner, pos, chunk, morph, lemma, conll2000, "
    "attributes, attributes-bias; parse; tokenize, tokenize-letters) or a file. By default"
    " the set of the task, or 'attributes' for a CRFsuite file.",
)
@resource_options
@click.option(
    "--label-cost",
    multiple=True,
    metavar="LABEL=COST",
    help="The cost of a mistake on a word whose right label is this one, in place of 1. B-ORG=3 is "
    "for one tag, ORG=3 for all tags of a type. The cost is part of the loss, which is then "
    "softmax-margin. Repeatable.",
)
@click.option(
    "--scheme",
    type=click.Choice(["iob1", "iob2", "iobes"]),
    help="Convert span tags to this scheme for training. Predictions are written in the scheme "
    "of the file.",
)
@click.option(
    "--strict",
    is_flag=True,
    default=None,
    help="Refuse irregular span tags instead of repairing them.",
)
@click.option(
    "--constraints",
    type=click.Choice(["none", "decode", "train"]),
    help="Where tag pairs that the scheme forbids (O then I-X) are ruled out [decode].",
)
@click.option(
    "--order",
    type=click.IntRange(0, 2),
    help="Order of the chain; at 0 a tag does not depend on the one before it [1].",
)
@click.option(
    "--candidates",
    type=int,
    metavar="N",
    help="Keep at most this many labels for each word, those that a model of order 0 finds "
    "likely. The chain runs over these, and only features and labels that meet have "
    "weights. 0 takes all labels [12 if there are more than 100 labels].",
)
@click.option(
    "--loss",
    type=click.Choice([*NAMES, *DIFFERENCES]),
    help="A named loss; --beta and --gamma choose any other member of the family. ramp and risk"
    " are svm and softmax-margin minus the loss without cost: they are not convex, robust "
    "to wrong tags, and trained by concave-convex rounds [crf; parse, morph: "
    "softmax-margin with gamma 3].",
)
@click.option(
    "--beta", type=float, help="Inverse temperature of the loss, above 0; 'inf' is legal."
)
@click.option("--gamma", type=float, help="Weight of the Hamming cost in the loss, 0 or more.")
@click.option(
    "-C",
    "C",
    type=float,
    help="Regularization: lambda = 1/(C n) [1; parse: 0.1, with --parts 0.3; dca and mira: 0.03; "
    "tokenize: 0.3].",
)
@click.option(
    "--algorithm",
    type=click.Choice(list(ALGORITHMS)),
    help="The optimizer. sdca runs to a certified optimum; dca is online, averages its weights,"
    " and soon has a good model [sdca].",
)
@click.option(
    "--help-params",
    is_flag=True,
    is_eager=True,
    help="List the parameters, losses and reference of --algorithm, and exit.",
)
@parameter_options
@click.option(
    "--epochs", type=int, help="At most this many passes or iterations [sdca 200, dca 10]."
)
@click.option(
    "--stop-gap",
    metavar="GAP",
    help="Stop at this certified duality gap, or at this share of the primal objective, as in 1% "
    "[sdca 1e-3; parse, tokenize: 1%].",
)
@click.option(
    "--patience", type=int, help="Stop after this many epochs without a better dev score."
)
@click.option(
    "--keep",
    type=click.Choice(["best", "last"]),
    help="With --dev: which epoch the model is taken from, the one with the best dev score or "
    "the last [best; parse by sdca, tokenize, morph and lemma: last, which has the "
    "certified gap].",
)
@click.option("--max-oracle-calls", type=int, help="Stop a stage after this many inferences.")
@click.option("--max-seconds", type=float, help="Stop a stage after this many seconds.")
@click.option(
    "--threads",
    type=int,
    help="Compute with this many threads [1]. Folds (--jackknife, --supertags, pipeline) are "
    "trained at the same time, with the same result; for sdca, sentences are dealt to "
    "shards.",
)
@click.option(
    "--shards",
    type=int,
    help="sdca: deal the sentences to this many shards. Shards make their steps at the same "
    "time, and the changes are added [one for each thread; pipeline: 1]. The model depends"
    " on the number of shards, never on the number of threads.",
)
@click.option(
    "--workers",
    type=int,
    metavar="N",
    help="sdca: deal the sentences to N shards, each in a process of its own, on this machine or "
    "on those of a Ray cluster (pip install 'turbotag[ray]'). The model is that of --shards N.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="With --workers: the Ray cluster; by default one is started on this machine alone.",
)
@click.option(
    "--init",
    metavar="MODEL",
    help="Go on from another model, given by file or name. Its features and labels are kept, "
    "and the regulariser pulls towards its weights instead of 0 (docs/howto/continue.md).",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all randomness.")
@click.option(
    "--decoder",
    type=click.Choice(["auto", "nonprojective", "projective", "projective-decoding"]),
    help="parse: which trees are summed over in training and given in prediction: all trees, "
    "projective trees, or sums over all and the best projective tree. auto takes "
    "projective trees if hardly any arcs of the training data cross [auto].",
)
@click.option(
    "--multi-root",
    is_flag=True,
    default=None,
    help="parse: let several words have the root as head.",
)
@click.option(
    "--crossing",
    type=click.Choice(["lift", "skip"]),
    help="parse: what a projective decoder does with non-projective sentences: lift the arcs "
    "that cross (Nivre and Nilsson 2005), or skip the sentences [lift].",
)
@click.option("--no-labels", is_flag=True, help="parse: find heads only, no labels of arcs.")
@click.option(
    "--no-prune",
    is_flag=True,
    help="parse: score all arcs, not only those that a small model leaves.",
)
@click.option(
    "--parts",
    metavar="LIST",
    help="parse: second-order parts: a list of cs (consecutive siblings), gp (grandparents) and"
    " as (all siblings), such as cs,gp; by default only arcs.",
)
@click.option(
    "--entropy",
    type=click.Choice(["convex", "bethe"]),
    help="With --parts: the approximation of log Z: a convex upper bound, with which no loss is"
    " negative, or Bethe's, by loopy belief propagation (Smith and Eisner 2008) [convex].",
)
@click.option("--rounds", type=int, help="With --parts: rounds of messages [convex 8, bethe 30].")
@click.option(
    "--damping",
    type=float,
    help="With --parts: the share of old messages that is kept [0.5, bethe 0.3].",
)
@click.option(
    "--tolerance",
    type=float,
    help="With --parts: end the rounds when beliefs change or differ by at most this [1e-4, "
    "bethe 1e-3].",
)
@click.option(
    "--min-count",
    type=int,
    help="parse: features of wrong arcs get a weight if at least this many candidate arcs have "
    "them; 0 takes only features of gold arcs [4]. tokenize: features seen less often get "
    "no weight [2].",
)
@click.option(
    "--by-letter/--by-word",
    "by_letter",
    default=None,
    help="tokenize: let a token begin at any letter, or only at the edges of runs of letters or"
    " digits. By default the training data decide.",
)
@click.option(
    "--drop",
    type=float,
    help="parse, tokenize, or --compact: leave features whose weights are all below this share of "
    "the largest out of the model file, and weights below a third of it [0.01; with --parts "
    "0.005; tokenize 0.002].",
)
@click.option(
    "--compact",
    is_flag=True,
    default=None,
    help="Taggers: write a small model file, with eight-bit weights and without the names of "
    "features that inspect shows. Files of parsers are always small.",
)
@click.option(
    "--jackknife",
    type=int,
    metavar="K",
    help="parse: train on tags that K-fold taggers predict, as the parser will meet them in raw"
    " text, without lemmas and features; by default the tags of the file are used. "
    "pipeline: the same for every column; 0 uses the columns of the file [5].",
)
@click.option(
    "--supertags",
    type=int,
    metavar="K",
    help="parse: first guess the label of each word and the side of its head, by K folds in "
    "training, and let arcs and labels read these guesses: about a point better, a quarter "
    "slower.",
)
@click.option(
    "--heads",
    type=int,
    metavar="N",
    help="parse: how many heads a word keeps at most when arcs are pruned; fewer heads are "
    "faster [10; with --parts 8].",
)
@click.option(
    "--no-calibration",
    is_flag=True,
    help="Do not calibrate probabilities. By default they are fitted to --dev or, if there is "
    "none, to training data that a second model, trained on a third of it, has not seen.",
)
@click.option("--ner", metavar="FILE", help="pipeline: a file with entities (IOB tags).")
@click.option("--ner-dev", metavar="FILE", help="pipeline: a file with held-out entities.")
@click.option(
    "--stages",
    metavar="LIST",
    help="pipeline: which of tokenize, upos, xpos, feats, lemma, parse and ner to train [all that "
    "the data can teach].",
)
@click.option("--log", metavar="FILE", help="Write the trace as JSON lines.")
@click.option("--licence", default="", help="Licence of the model, kept in its header.")
@click.option(
    "--resume",
    is_flag=True,
    help="Continue from MODEL.checkpoint, or from the checkpoints of stages, if there are any. "
    "Limits may be changed.",
)
@click.option(
    "--checkpoint-seconds",
    type=float,
    default=30.0,
    show_default=True,
    help="Save a checkpoint after an epoch if this many seconds have passed since the last one;"
    " 0 saves after every epoch.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors on stderr.")
def command(
    task: str,
    output: str,
    log: str | None,
    resume: bool,
    checkpoint_seconds: float,
    quiet: bool,
    **rest: Any,
) -> None:
    """Train a tagger, a parser or a whole pipeline and prove how far it is from the optimum.

    The table on stderr shows primal and dual objective and their gap; a ~ marks estimates, rows
    without it are certified by a full pass over the data, as the last one always is.

    \b
    turbotag train --task chunk --template conll2000 --train train.txt --dev test.txt \\
        --stop-gap 1e-4 -o chunk.model
    turbotag train --task ner --train ner.iob2 --gazetteer country=countries.txt -o ner.model
    turbotag train --task parse --train train.conllu --dev dev.conllu -o parse.model
    turbotag train --task parse --train train.conllu --loss crf --stop-gap 1e-3 -o p.model
    turbotag train --task tokenize --train train.conllu --dev dev.conllu -o tok.model
    turbotag train --task pipeline --train train.conllu --dev dev.conllu -o lang.model
    """
    from turbotag.optim.trace import Trace
    from turbotag.training import train
    from turbotag.training.options import check_given, options_for

    context = click.get_current_context()
    named = [
        n for n in context.params if context.get_parameter_source(n) is ParameterSource.COMMANDLINE
    ]
    check_given(task, {OPTIONS.get(n, n): context.params[n] for n in named}, _flag)
    if rest["keep"] and not rest["dev"]:
        raise click.UsageError("--keep needs --dev")
    options = options_for(task, **_asked(rest))
    announce_compilation()
    echo = (lambda line: say(line) if line.startswith("warning") else None) if quiet else say
    parting.append(lambda: _continues(output))
    train(
        options,
        output,
        Trace(None if quiet else say, log, say),
        echo,
        shlex.join(["turbotag", *sys.argv[1:]]),
        resume,
        checkpoint_seconds,
    )
    echo(f"wrote {output}")


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """Options of the command line as training takes them."""
    rest = {name: value for name, value in given.items() if name != "help_params"}
    params = {name: rest.pop(name.replace("-", "_")) for name in parameters()}
    for name in ("columns", "parts", "stages"):
        rest[name] = names(rest[name], f"--{name}")
    for kind in KINDS:
        rest[kind.option] = pairs(rest.pop(kind.flag), f"--{kind.flag}") or None
    for option in ("labels", "prune", "calibration"):
        rest[option] = False if rest.pop(f"no_{option}") else None
    rest["label_cost"] = _costs(rest["label_cost"]) or None
    return rest | {"params": {k: v for k, v in params.items() if v is not None}}


def _costs(items: tuple[str, ...]) -> dict[str, float]:
    """LABEL=COST options as a dictionary; a label may have = in it."""
    found = {}
    for item in items:
        label, _, cost = item.rpartition("=")
        try:
            found[label] = float(cost)
        except ValueError:
            label = ""
        if not label:
            raise click.UsageError(f"--label-cost takes LABEL=COST, not {item!r}")
    return found


def _flag(name: str) -> str:
    """How an option is written on the command line."""
    spelt = {option: flag for flag, option in OPTIONS.items()}.get(name, name)
    return f"--{spelt.replace('_', '-')}"


def _continues(output: str) -> str:
    """What --resume would go on from."""
    own = Path(output + ".checkpoint")
    stages = own.parent.glob(f"{glob.escape(Path(output).name)}.*.checkpoint")
    found = [str(p) for p in (own, *sorted(stages)) if p.exists()]
    if not found:
        return "there was nothing to save yet"
    if len(found) > 2:
        return f"--resume goes on from {output}.*.checkpoint, {len(found)} files"
    return f"--resume goes on from {' and '.join(found)}"
