"""turbotag eval."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click

from turbotag.cli.common import MODEL, announce_compilation, format_option, names, say, taking


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    gold: str
    predicted: str | None
    model: str | None
    task: str | None
    raw: bool
    format: str | None
    columns: str | None
    target: str | None
    strict: bool
    as_json: bool
    page: str | None

    def check(self) -> None:
        if (self.predicted is None) == (self.model is None):
            raise click.UsageError("give either PREDICTED or --model MODEL")
        if self.raw and (self.model is None or self.task not in (None, "all")):
            raise click.UsageError("--raw goes with --model, and with no --task but all")


@click.command("eval")
@click.argument("gold")
@click.argument("predicted", required=False)
@click.option(
    "--model",
    type=MODEL,
    metavar="MODEL",
    help="Use this model on GOLD instead of reading PREDICTED.",
)
@click.option(
    "--task",
    type=click.Choice(["tags", "parse", "all"]),
    help="What to compare: tags, trees (parse), or all that CoNLL-U has, from tokens to trees "
    "(all), where words may differ. By default it is what the model predicts; for two "
    "files, tags if their words are the same, and otherwise all.",
)
@click.option(
    "--raw",
    is_flag=True,
    help="Give --model the raw text of GOLD, without its words and sentences, and compare all.",
)
@format_option
@click.option("--columns", metavar="NAMES", help="Names of the columns, e.g. word,pos,chunk,tag.")
@click.option("--target", metavar="NAME", help="Column with the tags, by name or number.")
@click.option(
    "--strict",
    is_flag=True,
    help="Count only spans whose tags all fit the scheme of GOLD (IOB1, IOB2 or IOBES). By "
    "default spans are counted as conlleval does: a tag that does not fit opens a span.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    help="Write a page too: scores, confusions, attachment by length, calibration of probabilities "
    "(of the model, or from predict --marginals).",
)
@taking(Asked)
def command(asked: Asked) -> None:
    """Score PREDICTED, or --model, a file or a shipped model or pipeline, against GOLD.

    Span tags (IOB1, IOB2, IOBES) get precision, recall and F1 by type, with the digits that
    conlleval.pl prints; other tags get accuracy. Lines with -DOCSTART- are not counted, and it is
    said what conlleval.pl, which counts them as tokens, would find. Trees get attachment scores by
    three conventions: conllx leaves out words made of punctuation characters, conll18 counts all
    words and cuts labels at ':', nopunct leaves out UPOS PUNCT.

    --raw, and --task all for two files, score everything as the CoNLL 2018 shared task did, with
    the figures of its conll18_ud_eval.py: tokens, sentences, words, tags, features, lemmas and
    trees, where words are aligned by their characters. GOLD is CoNLL-U, whose `# text`, `# newpar`,
    `# newdoc` and SpaceAfter=No tell the raw text.

    \b
    turbotag eval --task parse gold.conllu parsed.conllu
    turbotag eval gold.iob2 tagged.iob2
    turbotag eval --model ner.model gold.iob2 --json
    turbotag eval --model parse.model gold.conllu --html parse.html
    turbotag eval --model en gold.conllu
    turbotag eval --model en gold.conllu --raw
    turbotag eval --task all gold.conllu predicted.conllu --json
    """
    from turbotag.metrics.attachment import AttachmentScore
    from turbotag.metrics.conll18 import Conll18Score
    from turbotag.models.evaluation import compare
    from turbotag.models.gold import Layout
    from turbotag.models.pipeline import load
    from turbotag.report.attachment import attachment_table
    from turbotag.report.page import evaluation_page
    from turbotag.report.tables import conll18_table, score_table
    from turbotag.storage.store import check_writable, write_atomically

    asked.check()
    gold, page = asked.gold, asked.page
    if page is not None:
        check_writable(page)
    announce_compilation()
    layout = Layout(asked.format, names(asked.columns), asked.target)
    other = load(asked.model) if asked.model is not None else str(asked.predicted)
    whole = "all" if asked.raw else asked.task
    compared = compare(gold, other, layout, whole, asked.strict, page is not None)
    if page is not None:
        sections = {name: (c.score, c.details()) for name, c in compared.items()}
        compared_with = asked.predicted or str(asked.model)
        write_atomically(page, evaluation_page(sections, gold, compared_with).encode())
        say(f"wrote {page}")
    scores = {name: c.score for name, c in compared.items()}
    if asked.as_json:
        found = {name: score.as_dict() for name, score in scores.items()}
        click.echo(json.dumps(found.get("", found), ensure_ascii=False))
        return
    for n, (name, score) in enumerate(scores.items()):
        if name:
            click.echo(("\n" if n else "") + f"== {name} ==")
        if isinstance(score, AttachmentScore):
            click.echo(attachment_table(score))
        elif isinstance(score, Conll18Score):
            click.echo(conll18_table(score))
        else:
            click.echo(score_table(score))
