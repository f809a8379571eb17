"""turbotag inspect."""

from __future__ import annotations

import json

import click

from turbotag.cli.common import MODEL, announce_compilation


@click.command("inspect")
@click.argument("model", type=MODEL)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    help="Features shown for each label, or for arcs [5].",
)
@click.option("--label", metavar="LABEL", help="Show features of this label only.")
@click.option(
    "--data",
    metavar="FILE",
    help="Show the heaviest features that occur in this file. Parsers and compact taggers need "
    "it, because their files have no names of features.",
)
@click.option(
    "--templates",
    "show_templates",
    is_flag=True,
    help="Print the model's templates and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the header as JSON and nothing else.")
def command(
    model: str,
    top: int | None,
    label: str | None,
    data: str | None,
    show_templates: bool,
    as_json: bool,
) -> None:
    """Show MODEL, a file or a shipped model: its card, labels, transitions and heaviest features.

    The features of a parser are those of arcs, or with --label those of the labels of arcs. Of a
    pipeline, --label shows what the models that have this label say for and against it.

    \b
    turbotag inspect ner.model --label B-PER --top 20
    turbotag inspect ner.model --templates > my-templates.txt
    turbotag inspect en-parse --data some.conllu --label nsubj
    """
    from turbotag.errors import UsageError
    from turbotag.models.pipeline import models_of
    from turbotag.report.heaviest import features_text
    from turbotag.report.model_card import inside, model_card

    announce_compilation()
    models = models_of(model, names=True)
    if as_json:
        headers = {name: each.header for name, each in models.items()}
        click.echo(json.dumps(headers.get(model, headers), ensure_ascii=False, indent=1))
        return
    if label is not None and not any(label in each.labels for each in models.values()):
        known = ", ".join(dict.fromkeys(x for each in models.values() for x in each.labels))
        raise UsageError(f"unknown label {label!r}; the model has {known}")
    having = {name: m for name, m in models.items() if label is None or label in m.labels}
    for n, (name, each) in enumerate(having.items()):
        features = "" if show_templates else features_text(each, label, top, data)
        if len(models) > 1:
            click.echo(("\n" if n else "") + f"== {name} ==")
        if show_templates:
            texts = each.header["templates"]
            click.echo((texts if isinstance(texts, str) else texts["arc"]).rstrip())
            continue
        if label is None or len(models) == 1:
            click.echo(model_card(each))
            if inside(each):
                click.echo(inside(each))
        if features:
            click.echo(features)
