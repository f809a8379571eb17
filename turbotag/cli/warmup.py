"""turbotag warmup."""

from __future__ import annotations

import click

from turbotag.cli.common import say
from turbotag.models.tasks import ALL_TASKS


@click.command("warmup")
@click.argument(
    "task",
    required=False,
    type=click.Choice(ALL_TASKS),
)
def command(task: str | None) -> None:
    """Compile the kernels of TASK, or of all tasks and the shipped pipelines, ahead of their use.

    Kernels are compiled when they are first used, and kept beside the package, in the user's cache
    folder, or in NUMBA_CACHE_DIR. An image or an installer runs this command while the package can
    be written; users of an installation that cannot be written then find the kernels there. It
    compiles what `train`, `predict` and `eval` need with their usual options; other optimizers and
    second-order parts are compiled when they are first used, for the processor at hand.

    \b
    turbotag warmup
    turbotag warmup ner
    """
    from turbotag.training.warmup import warm

    found = warm(task)
    say(f"compiled {found.compiled} kernels in {found.seconds:.0f} s; kept in {found.folder}")
