"""turbotag predict."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import click

from turbotag.cli.common import announce_compilation, format_option, names


@click.command("predict")
@click.argument("model")
@click.argument("file", default="-")
@click.option("-o", "--output", metavar="FILE", help="Write here instead of standard output.")
@format_option
@click.option(
    "--columns", metavar="NAMES", help="Names of the columns, if not those of the training file."
)
@click.option(
    "--decode",
    type=click.Choice(["viterbi", "posterior"]),
    default="viterbi",
    show_default=True,
    help="The most probable answer, or the one with the fewest expected errors.",
)
@click.option(
    "--marginals",
    is_flag=True,
    help="Add the probability of each tag and entity, or head and label: columns at the end, or in "
    "CoNLL-U the MISC column.",
)
@click.option(
    "--nbest",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Write the N most probable answers for each sentence, with their probabilities.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Worker threads."
)
def command(
    model: str,
    file: str,
    output: str | None,
    format: str | None,
    columns: str | None,
    decode: str,
    marginals: bool,
    nbest: int,
    threads: int,
) -> None:
    """Tag or parse FILE (standard input by default) with MODEL.

    Writes the input back with the tag column filled in, or added if there is none; a parser fills
    in the head and label columns of CoNLL-U and CoNLL-X. All other columns, comments and blank
    lines come out byte for byte.

    \b
    turbotag predict ner.model text.iob2 > tagged.iob2
    turbotag predict parse.model tagged.conllu --marginals > parsed.conllu
    printf 'Ada\\nsings\\n.\\n' | turbotag predict ner.model
    """
    from turbotag.models.prediction import Output, load, predict

    if nbest > 1 and (marginals or decode != "viterbi"):
        raise click.UsageError("--nbest goes with neither --marginals nor --decode posterior")
    announce_compilation()
    loaded = load(model)
    what = Output(decode, marginals, nbest)
    with progress_bar(output is not None) as progress:
        if output is None:
            predict(
                loaded, file, sys.stdout.buffer, what, format, threads, names(columns), progress
            )
            return
        with replacing(output) as out:
            predict(loaded, file, out, what, format, threads, names(columns), progress)


@contextlib.contextmanager
def progress_bar(to_file: bool) -> Iterator[Callable[[int], object] | None]:
    """A bar on stderr, if a person is looking and the tags themselves do not go to the screen."""
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not to_file):
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit=" tokens", unit_scale=True) as bar:
        yield bar.update


class replacing:
    """A file that appears under its name only when it has been written whole."""

    def __init__(self, path: str):
        self.path, self.temporary = path, f"{path}.{os.getpid()}.tmp"

    def __enter__(self) -> IO[bytes]:
        from turbotag.models.store import cannot_write, check_writable

        check_writable(self.path)
        self.direct = os.path.exists(self.path) and not os.path.isfile(self.path)
        try:
            self.file = open(self.path if self.direct else self.temporary, "wb")
        except OSError as e:
            raise cannot_write(self.path, e) from e
        return self.file

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from turbotag.models.store import cannot_write

        try:
            self.file.close()
            if error is None and not self.direct:
                os.replace(self.temporary, self.path)
        except OSError as e:
            error = error or e
        if not self.direct and os.path.exists(self.temporary):
            os.unlink(self.temporary)
        if isinstance(error, OSError):
            raise cannot_write(self.path, error) from error
