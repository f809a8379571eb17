"""turbotag pipeline."""

from __future__ import annotations

import shlex
import sys

import click

from turbotag.cli.common import MODEL, say


@click.group("pipeline")
def command() -> None:
    """Put models together into one file, or take them out of it.

    A pipeline is trained as a whole by `turbotag train --task pipeline`.
    """


@command.command("combine")
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option("-o", "--output", required=True, metavar="MODEL", help="Model file to write.")
def combine(models: tuple[str, ...], output: str) -> None:
    """Put MODELS into one file, in the order in which they are to run.

    A model is a file or a shipped name; of a pipeline all stages are taken. Where two models fill
    the same column, the later one takes the place of the earlier.

    \b
    turbotag pipeline combine tok.model tags.model parse.model -o own.model
    turbotag pipeline combine en own-ner.model -o en-own.model
    """
    from turbotag.models.combining import combine as join_models
    from turbotag.storage.store import check_writable

    check_writable(output)
    names = join_models(models, output, shlex.join(["turbotag", *sys.argv[1:]]))
    say(f"wrote {output}: {', '.join(names)}")


@command.command("split")
@click.argument("model", type=MODEL)
@click.option("-o", "--output-dir", required=True, metavar="FOLDER", help="Where to put the files.")
def split(model: str, output_dir: str) -> None:
    """Write each stage of a pipeline to a file of its own, FOLDER/STAGE.model."""
    from pathlib import Path

    from turbotag.models.pipeline import models_of

    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in models_of(model, names=True).items():
        path = folder / f"{Path(name).stem}.model"
        each.save(str(path))
        say(f"wrote {path}")
