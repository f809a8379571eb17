"""turbotag eval."""

from __future__ import annotations

import json

import click

from turbotag.cli.common import announce_compilation, format_option, names, say


@click.command("eval")
@click.argument("gold")
@click.argument("predicted", required=False)
@click.option(
    "--model", metavar="MODEL", help="Use this model on GOLD instead of reading PREDICTED."
)
@click.option(
    "--task",
    type=click.Choice(["tags", "parse"]),
    help="What to compare: tags or trees; by default tags, or what the model predicts.",
)
@format_option
@click.option("--columns", metavar="NAMES", help="Names of the columns, e.g. word,pos,chunk,tag.")
@click.option("--target", metavar="NAME", help="Column with the tags, by name or number.")
@click.option(
    "--strict",
    is_flag=True,
    help="Count only spans whose tags all fit the scheme of GOLD (IOB1, IOB2 or IOBES); default is "
    "conlleval's way, by which a tag that does not fit opens a span.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    help="Write a page too: scores, confusions, attachment by length, calibration of probabilities "
    "(of the model, or from predict --marginals).",
)
def command(
    gold: str,
    predicted: str | None,
    model: str | None,
    task: str | None,
    format: str | None,
    columns: str | None,
    target: str | None,
    strict: bool,
    as_json: bool,
    page: str | None,
) -> None:
    """Score PREDICTED, or --model, against GOLD.

    Span tags (IOB1, IOB2, IOBES) get precision, recall and F1 by type, with the digits that
    conlleval.pl prints; other tags get accuracy. Lines with -DOCSTART- are not counted, and it is
    said what conlleval.pl, which counts them as tokens, would find. Trees get attachment scores by
    three conventions: conllx leaves out words made of punctuation characters, conll18 counts all
    words and cuts labels at ':', nopunct leaves out UPOS PUNCT.

    \b
    turbotag eval --task parse gold.conllu parsed.conllu
    turbotag eval gold.iob2 tagged.iob2
    turbotag eval --model ner.model gold.iob2 --json
    turbotag eval --model parse.model gold.conllu --html parse.html
    """
    from turbotag.metrics.attachment import AttachmentScore
    from turbotag.models.evaluation import (
        Tagged,
        Trees,
        compare_files,
        compare_model,
        compare_trees,
    )
    from turbotag.models.gold import Options
    from turbotag.models.parser import Parser
    from turbotag.models.pipeline import find, load_model
    from turbotag.models.store import check_writable, write_atomically
    from turbotag.report.attachment import attachment_table
    from turbotag.report.page import evaluation_page
    from turbotag.report.tables import score_table

    if (predicted is None) == (model is None):
        raise click.UsageError("give either PREDICTED or --model MODEL")
    if page is not None:
        check_writable(page)
    announce_compilation()
    options = Options("pos", gold, format=format, columns=names(columns), target=target)
    compared: Tagged | Trees
    if model is not None:
        loaded = load_model(find(model))
        parser = isinstance(loaded, Parser)
        if task is not None and (task == "parse") != parser:
            raise click.UsageError(
                f"--task {task}, but {model} is a {'pars' if parser else 'tagg'}er"
            )
        if isinstance(loaded, Parser):
            compared = compare_trees(gold, loaded, format, page is not None)
        else:
            compared = compare_model(options, loaded, gold, strict, page is not None)
    else:
        assert predicted is not None
        if task == "parse":
            compared = compare_trees(gold, predicted, format)
        else:
            compared = compare_files(options, gold, predicted, strict)
    score = compared.score
    if page is not None:
        text = evaluation_page(score, compared.details(), gold, predicted or str(model))
        write_atomically(page, text.encode())
        say(f"wrote {page}")
    if as_json:
        click.echo(json.dumps(score.as_dict(), ensure_ascii=False))
    elif isinstance(score, AttachmentScore):
        click.echo(attachment_table(score))
    else:
        click.echo(score_table(score))
