"""The command line: a lazy group, so that --help imports no numba, and one place for errors."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
from typing import Any

import click

import turbotag
from turbotag.cli.common import parting
from turbotag.errors import TurbotagError, did_you_mean
from turbotag.interrupts import Interrupted, pending

COMMANDS = {
    "train": "Train a tagger or a parser on a CoNLL file.",
    "predict": "Tag or parse a file or standard input.",
    "eval": "Score predictions, or a model, against gold tags or trees.",
    "calibrate": "Fit a model's probabilities to text that it has not seen.",
    "explain": "Show which features of a text speak for a tag, an arc or a label.",
    "inspect": "Show what is in a model file.",
    "models": "List the models that are shipped, with their cards.",
    "report": "Plot the traces of training runs.",
    "draw": "Draw trees and entities as a page, a picture or text.",
    "pipeline": "Put models together into one file.",
    "cluster": "Make word clusters from text or from vectors.",
    "serve": "Serve models: a page, a JSON interface, UDPipe's REST verbs.",
    "completion": "Print a script by which a shell completes commands, options, model names.",
    "warmup": "Compile ahead of time what a task needs.",
}


class LazyGroup(click.Group):
    """Imports a subcommand's module when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"turbotag.cli.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of the pipe went away: not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(turbotag.__version__, prog_name="turbotag")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Linear taggers and dependency parsers for CoNLL files, trained to a proven duality gap.

    \b
    turbotag train --task ner --train train.iob2 --dev dev.iob2 -o ner.model
    turbotag predict ner.model text.iob2 > tagged.iob2
    turbotag eval gold.iob2 tagged.iob2
    turbotag train --task parse --train train.conllu --dev dev.conllu -o parse.model
    """


def main(argv: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 success, 1 bad data, 2 bad usage, 130 interrupted, 143 terminated.

    Without arguments it is the command of this process, whose signals it then handles.
    """
    arguments = sys.argv[1:] if argv is None else argv
    debug = "--debug" in arguments
    if argv is None:
        _on_signals(_stop)
    try:
        code = cli.main(arguments, prog_name="turbotag", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except Interrupted as e:
        _end(e.number)
    except (click.Abort, KeyboardInterrupt):
        click.echo("turbotag: interrupted", err=True)
        sys.exit(130)
    except Exception as e:
        if debug:
            raise
        sys.exit(_explain(e))
    finally:
        if argv is None:  # from here on only Python itself ends
            _on_signals(signal.SIG_DFL)


def _on_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and a shell's & set it
            signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:
    """Ctrl-C or SIGTERM: end here and now, unless a training has something to save first.

    An exception would wait for worker threads. It would also be lost if it were raised in a
    callback, or inside an import or a cache that ignores errors.
    """
    if pending.ask(number):
        again = "Ctrl-C again" if number == signal.SIGINT else "another signal"
        _last_words(f"{_word(number)}: finishes {pending.work} to save it; {again} ends at once")
    else:
        _end(number)


def _end(number: int) -> None:
    """End this process because of a signal, with a sentence on what became of its work, and without
    temporary files."""
    _on_signals(signal.SIG_IGN)
    try:
        store = sys.modules.get("turbotag.storage.store")
        getattr(store, "remove_unfinished", lambda: None)()
        notes = [pending.note] if pending.note else [part for say in parting if (part := say())]
        _last_words("; ".join([_word(number), *notes]))
        atexit._run_exitfuncs()
    finally:
        os._exit(128 + number)


def _word(number: int) -> str:
    return "interrupted" if number == signal.SIGINT else "terminated"


def _last_words(line: str) -> None:
    """A message from the handler of a signal, which must not wait for the locks of streams."""
    with contextlib.suppress(OSError):
        os.write(2, f"{chr(10) if os.isatty(2) else ''}turbotag: {line}\n".encode())


def _explain(e: Exception) -> int:
    """One sentence on stderr, and the exit code."""
    if isinstance(e, TurbotagError):
        click.echo(f"turbotag: {e}", err=True)
        return e.exit_code
    if isinstance(e, OSError):
        where = f"{e.filename}: " if e.filename else "standard output: "
        click.echo(f"turbotag: {where}{(e.strerror or str(e)).lower()}", err=True)
        return 1
    if isinstance(e, MemoryError):
        click.echo("turbotag: not enough memory for this data and these options", err=True)
        return 1
    click.echo(
        f"turbotag: internal error, please report it: {type(e).__name__}: {e} "
        "(--debug before the command shows where)",
        err=True,
    )
    return 1
