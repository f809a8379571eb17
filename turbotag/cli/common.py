"""What several subcommands share: messages on stderr and the notice about compilation."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from turbotag import kernels

FORMATS = ("conllu", "conllx", "columns", "crfsuite", "text")

format_option = click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Input format; by default it is told from the content.",
)


class ModelName(click.ParamType):
    """A model file or the name of a shipped model: a shell completes both."""

    name = "model"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from turbotag.models.shipped import pipelines, shipped

        known = sorted({*pipelines(), *shipped()})
        found = [CompletionItem(name) for name in known if name.startswith(incomplete)]
        # files first: click's script for bash forgets what came before them
        return [CompletionItem(incomplete, type="file"), *found]


MODEL = ModelName()

Options = TypeVar("Options")


def taking(
    options: type[Options],
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Decorates a command whose options are the fields of one class."""

    def decorated(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def by_name(**given: Any) -> None:
            command(options(**given))

        return by_name

    return decorated


parting: list[Callable[[], str]] = []  # what to add when a signal ends the command, if anything


def say(line: str) -> None:
    """Show a message to the user, on stderr. If nobody reads stderr any more, work goes on in
    silence."""
    try:
        click.echo(line, err=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def announce_compilation() -> None:
    """Tell the user when kernels have to be compiled, as in the first run after installation."""
    kernels.tell(say)


def names(text: str | None, option: str = "--columns") -> tuple[str, ...] | None:
    """A comma-separated list of names, by default of columns."""
    found = tuple(n.strip() for n in text.split(",")) if text else None
    if found and len(set(found)) < len(found):
        raise click.UsageError(f"{option} has a name twice: {text}")
    return found


def pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """The values of a NAME=FILE option as a dictionary."""
    out = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise click.UsageError(f"{option} takes NAME=FILE, not {item!r}")
        if name in out:
            raise click.UsageError(f"{option} names {name!r} twice")
        out[name] = value
    return out
