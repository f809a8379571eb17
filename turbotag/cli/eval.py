"""turbotag eval."""

from __future__ import annotations

import json

import click

from turbotag.cli.common import announce_compilation, format_option, names


@click.command("eval")
@click.argument("gold")
@click.argument("predicted", required=False)
@click.option(
    "--model", metavar="MODEL", help="Tag GOLD with this model instead of reading PREDICTED."
)
@format_option
@click.option("--columns", metavar="NAMES", help="Names of the columns, e.g. word,pos,chunk,tag.")
@click.option("--target", metavar="NAME", help="Column with the tags, by name or number.")
@click.option(
    "--strict", is_flag=True, help="Count only well-formed spans; default is conlleval's way."
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def command(
    gold: str,
    predicted: str | None,
    model: str | None,
    format: str | None,
    columns: str | None,
    target: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Score PREDICTED, or --model, against GOLD.

    Span tags (IOB1, IOB2, IOBES) get precision, recall and F1 by type; other tags get accuracy.

    \b
    turbotag eval gold.iob2 tagged.iob2
    turbotag eval --model ner.model gold.iob2 --json
    """
    from turbotag.models.evaluation import evaluate_files, evaluate_model
    from turbotag.models.gold import Options
    from turbotag.models.tagger import Tagger
    from turbotag.report.tables import score_table

    if (predicted is None) == (model is None):
        raise click.UsageError("give either PREDICTED or --model MODEL")
    announce_compilation()
    options = Options("pos", gold, format=format, columns=names(columns), target=target)
    if model is not None:
        score = evaluate_model(options, Tagger.load(model), gold, strict)
    else:
        assert predicted is not None
        score = evaluate_files(options, gold, predicted, strict)
    click.echo(json.dumps(score.as_dict(), ensure_ascii=False) if as_json else score_table(score))
