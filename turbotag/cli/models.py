"""turbotag models."""

from __future__ import annotations

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
    from turbotag.models.pipeline import models_of, paths_of
    from turbotag.models.shipped import files, pipelines, shipped
    from turbotag.report.model_card import model_card, summary
    from turbotag.storage import store

    if name is None:
        width = max(map(len, (*shipped(), *pipelines())))
        for each, path in shipped().items():
            header, _ = store.load_file(path, None, ("",))
            click.echo(f"{each:<{width}} {summary(header, store.size(path))}")
        for each, parts in pipelines().items():
            size = sum(store.size(shipped()[part]) for part in parts)
            if each in files():  # what its stages share is stored once
                size = store.size(str(files()[each]))
            click.echo(f"{each:<{width}} pipeline of {', '.join(parts)}, {size / 1e6:.1f} MB")
        return
    announce_compilation()
    models, paths = models_of(name), paths_of(name)
    for i, (each, model) in enumerate(models.items()):
        if len(models) > 1:
            click.echo(("\n" if i else "") + f"== {each} ==")
        click.echo(model_card(model))
        click.echo(f"file         {store.size(paths[each]) / 1e6:.2f} MB")
