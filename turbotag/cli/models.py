"""turbotag models."""

from __future__ import annotations

from pathlib import Path

import click

from turbotag.cli.common import announce_compilation


@click.command("models")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the models that are shipped, or print the card of one.

    \b
    turbotag models
    turbotag models en-parse
    """
    from turbotag.models import store
    from turbotag.models.pipeline import load_model
    from turbotag.models.shipped import PIPELINES, SHIPPED, find, shipped, stages
    from turbotag.report.model_card import model_card, summary

    if name is None:
        for each in shipped():
            path = SHIPPED / f"{each}.model"
            header, _ = store.load_file(str(path), None, ("",))
            click.echo(summary(each, header, path.stat().st_size))
        for each, parts in PIPELINES.items():
            click.echo(f"{each:<10} pipeline of {', '.join(parts)}")
        return
    announce_compilation()
    names = stages(name)
    for i, each in enumerate(names):
        file = find(each)
        model = load_model(file)
        if len(names) > 1:
            click.echo(("\n" if i else "") + f"== {each} ==")
        click.echo(model_card(model))
        click.echo(f"file         {Path(file).stat().st_size / 1e6:.2f} MB")
