"""turbotag serve."""

from __future__ import annotations

import click

from turbotag.cli.common import MODEL, announce_compilation, say


@click.command("serve")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=MODEL)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; the default can only be reached from this machine. There is no "
    "password: for any other address, put a server that asks for one in front.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of requests that are worked on at the same time [the number of cores].",
)
@click.option(
    "--waiting",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of requests that may wait for a thread; further ones are refused and told to "
    "try again.",
)
@click.option(
    "--max-size",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    metavar="BYTES",
    help="Largest request.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time for one request, in seconds.",
)
def command(
    models: tuple[str, ...],
    port: int,
    host: str,
    threads: int | None,
    waiting: int,
    max_size: int,
    timeout: float,
) -> None:
    """Serve MODELs, files or shipped ones: a page for people, a JSON interface for programs.

    The page shows tokens, trees and entities of what is typed, and explains each word on a click.
    /api/annotate and /api/explain answer in JSON (/openapi.json describes them); /process and
    /models answer as UDPipe's REST service does. Ctrl-C finishes what is being worked on.

    \b
    turbotag serve en                     # then open http://127.0.0.1:8000
    turbotag serve en pt my.model --port 8080
    curl --data '{"text": "Ada flew to Oslo."}' http://127.0.0.1:8000/api/annotate
    """
    from turbotag.errors import UsageError

    try:
        from turbotag.integrations.server import Limits, run
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise UsageError(
            f"serve needs the package {e.name}: pip install 'turbotag[serve]'"
        ) from None

    import os

    announce_compilation()
    limits = Limits(max_size, timeout, threads or os.cpu_count() or 1, waiting)
    run(list(models), host, port, limits, say)
