"""turbotag calibrate."""

from __future__ import annotations

from pathlib import Path

import click

from turbotag.cli.common import MODEL, announce_compilation, format_option, names, say


@click.command("calibrate")
@click.argument("model", type=MODEL)
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
    from turbotag.models.gold import Layout
    from turbotag.models.pipeline import find, load_model
    from turbotag.models.tokenizer import Tokenizer
    from turbotag.storage.store import check_writable
    from turbotag.training.calibrating import calibrated

    check_writable(output)
    announce_compilation()
    layout = Layout(format, names(columns), target)
    loaded = load_model(find(model), names=True)
    if isinstance(loaded, Tokenizer):
        raise click.UsageError(f"{model} is a tokenizer: only taggers and parsers are calibrated")
    name = Path(display_name(gold)).name
    loaded.set_calibration(calibrated(loaded, gold, layout, name, say))
    loaded.save(output)
    say(f"wrote {output}")
