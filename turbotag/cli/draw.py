"""turbotag draw."""

from __future__ import annotations

import re
from pathlib import Path

import click

from turbotag.cli.common import announce_compilation, format_option, say


@click.command("draw")
@click.argument("file")
@click.option("--gold", metavar="FILE", help="Compare with the trees and entities of this file.")
@click.option("-o", "--output", metavar="FILE", help="Write an .html page or an .svg picture.")
@click.option("--ascii", "as_text", is_flag=True, help="Print to standard output as text instead.")
@click.option(
    "--sentences",
    metavar="LIST",
    help="Draw only these sentences, e.g. 1-5,8; by default all, or the first in an .svg.",
)
@format_option
def command(
    file: str,
    gold: str | None,
    output: str | None,
    as_text: bool,
    sentences: str | None,
    format: str | None,
) -> None:
    """Draw the trees and entities of FILE, which is CoNLL-U or CoNLL-X (- for standard input).

    Entities are IOB tags under NER= in the MISC column. The more probable an arc is (`turbotag
    predict --marginals`), the thicker it is. With --gold, wrong arcs and labels are marked by ✗,
    and the gold ones that were missed are dashed; UAS and LAS count all words and whole labels.

    \b
    turbotag draw parsed.conllu -o trees.html
    turbotag draw parsed.conllu --gold gold.conllu --sentences 3 -o errors.svg
    turbotag draw parsed.conllu --ascii | less
    """
    from turbotag.report import draw
    from turbotag.storage.store import check_writable, write_atomically

    if as_text == (output is not None):
        raise click.UsageError("give either -o FILE or --ascii")
    kind = "" if output is None else Path(output).suffix
    if output is not None and kind not in (".html", ".svg"):
        raise click.UsageError(f"-o takes a name that ends in .html or .svg, not {output!r}")
    if file == gold == "-":
        raise click.UsageError("only one of FILE and --gold can be standard input")
    ranges = _ranges(sentences)
    if output is not None:
        check_writable(output)
    announce_compilation()
    drawings = draw.read_drawings(file, gold, format)
    n = len(drawings)
    if ranges:
        if max(b for _, b in ranges) > n:
            raise click.UsageError(f"--sentences is {sentences}, but {file} has {n} sentences")
        drawings = [d for d in drawings if any(a <= d.number <= b for a, b in ranges)]
    elif kind == ".svg" and n > 1:
        say(f"drawing the first of {n} sentences (--sentences chooses others)")
        drawings = drawings[:1]
    if output is None:
        text = "\n\n".join(map(draw.ascii, drawings)) + "\n"
        click.echo(text.encode(), nl=False)
    else:
        title = "standard input" if file == "-" else Path(file).name
        page = draw.svg(*drawings) if kind == ".svg" else draw.html(drawings, title)
        write_atomically(output, page.encode())


def _ranges(text: str | None) -> list[tuple[int, int]]:
    """First and last number of each part of a list such as 1-5,8."""
    found = []
    for part in text.split(",") if text is not None else []:
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        a, b = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= a <= b:
            raise click.UsageError(f"--sentences takes a list such as 1-5,8, not {text!r}")
        found.append((a, b))
    return found
