"""turbotag inspect."""

from __future__ import annotations

import json

import click

from turbotag.cli.common import announce_compilation


@click.command("inspect")
@click.argument("model")
@click.option(
    "--top",
    default=5,
    show_default=True,
    type=click.IntRange(min=0),
    help="Features shown for each label.",
)
@click.option("--label", metavar="LABEL", help="Show features of this label only.")
@click.option(
    "--templates",
    "show_templates",
    is_flag=True,
    help="Print the model's templates and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the header as JSON and nothing else.")
def command(model: str, top: int, label: str | None, show_templates: bool, as_json: bool) -> None:
    """Show a model: its card, labels, transitions and heaviest features.

    \b
    turbotag inspect ner.model --label B-PER --top 20
    turbotag inspect ner.model --templates > my-templates.txt
    """
    from turbotag.errors import UsageError
    from turbotag.models import store
    from turbotag.models.parser import Parser
    from turbotag.models.tagger import Tagger
    from turbotag.report.model_card import card, parser_card, top_features, transitions

    announce_compilation()
    if store.kind(model) == "parser":
        parser = Parser.load(model)
        if as_json:
            click.echo(json.dumps(parser.header, ensure_ascii=False, indent=1))
        elif show_templates:
            click.echo(parser.header["templates"]["arc"].rstrip())
        else:
            click.echo(parser_card(parser))
        return
    tagger = Tagger.load(model, names=True)
    if as_json:
        click.echo(json.dumps(tagger.header, ensure_ascii=False, indent=1))
        return
    if show_templates:
        click.echo(tagger.header["templates"].rstrip())
        return
    if label is not None and label not in tagger.labels:
        raise UsageError(f"unknown label {label!r}; the model has {', '.join(tagger.labels)}")
    click.echo(card(tagger))
    click.echo("\nlabels: " + " ".join(tagger.labels))
    click.echo("\ntransitions, heaviest and lightest\n" + transitions(tagger))
    for k, name in enumerate(tagger.labels):
        if top and label in (None, name):
            click.echo(f"\n{name}")
            for weight, feature in top_features(tagger, k, top):
                click.echo(f"{weight:>9.4f}  {feature}")
