"""turbotag calibrate."""

from __future__ import annotations

from pathlib import Path

import click

from turbotag.cli.common import announce_compilation, format_option, names, say


@click.command("calibrate")
@click.argument("model")
@click.argument("gold")
@click.option("-o", "--output", required=True, metavar="MODEL", help="Model file to write.")
@format_option
@click.option("--columns", metavar="NAMES", help="Names of the columns, e.g. word,pos,chunk,tag.")
@click.option("--target", metavar="NAME", help="Column with the tags, by name or number.")
def command(
    model: str,
    gold: str,
    output: str,
    format: str | None,
    columns: str | None,
    target: str | None,
) -> None:
    """Fit the probabilities of MODEL to GOLD, sentences that it was not trained on.

    Training does so by itself; this is for text of another kind. A few hundred sentences are
    enough. Predictions stay as they are. A parser should be given the tags that it will meet:

    \b
    turbotag calibrate ner.model own.iob2 -o own.model
    turbotag predict en-pos own.conllu | turbotag calibrate en-parse - -o own.model
    """
    from turbotag.corpus.reader import display_name
    from turbotag.models.calibrating import calibrate_file
    from turbotag.models.gold import Options
    from turbotag.models.pipeline import find, load_model
    from turbotag.models.store import check_writable

    check_writable(output)
    announce_compilation()
    options = Options("pos", gold, format=format, columns=names(columns), target=target)
    loaded = load_model(find(model), names=True)
    calibrate_file(loaded, options, gold, Path(display_name(gold)).name, say)
    loaded.save(output)
    say(f"wrote {output}")
