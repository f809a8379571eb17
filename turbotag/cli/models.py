"""turbotag models."""

from __future__ import annotations

from pathlib import Path

import click

from turbotag.cli.common import MODEL, announce_compilation


@click.command("models")
@click.argument("name", type=MODEL, required=False)
def command(name: str | None) -> None:
    """List the models that are shipped, or print the card of one.

    \b
    turbotag models
    turbotag models en-parse
    """
    from turbotag.models.pipeline import models_of
    from turbotag.models.shipped import files, find, pipelines, stages
    from turbotag.report.model_card import model_card, summary
    from turbotag.storage import store

    if name is None:
        for each, path in files().items():
            header, _ = store.load_file(str(path), None, ("",))
            click.echo(summary(each, header, path.stat().st_size))
        for each, parts in pipelines().items():
            click.echo(f"{each:<10} pipeline of {', '.join(parts)}")
        return
    announce_compilation()
    models = models_of(name)
    for i, (each, model) in enumerate(models.items()):
        if len(models) > 1:
            click.echo(("\n" if i else "") + f"== {each} ==")
        click.echo(model_card(model))
        if each in stages(name):
            click.echo(f"file         {Path(find(each)).stat().st_size / 1e6:.2f} MB")
