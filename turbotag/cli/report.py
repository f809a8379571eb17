"""turbotag report."""

from __future__ import annotations

import click

from turbotag.cli.common import say


@click.command("report")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "-o",
    "--output",
    default="report",
    show_default=True,
    metavar="DIR",
    help="Folder for the plots and index.html; made if it is missing.",
)
def command(traces: tuple[str, ...], output: str) -> None:
    """Plot the traces of training runs.

    TRACE is a file of `turbotag train --log`. Several runs are laid over each other: primal and
    dual objective, duality gap, primal suboptimality and dev score, each against epochs, oracle
    calls and seconds, as PNG files and on one page. This needs matplotlib: pip install
    'turbotag[plots]'.

    \b
    turbotag report run.jsonl
    turbotag report runs/ner-sdca.jsonl runs/ner-lbfgs.jsonl -o ner-report
    """
    from turbotag.report.plots import write_report

    say(f"wrote {write_report(traces, output, say)}")
