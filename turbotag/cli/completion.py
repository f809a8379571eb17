"""turbotag completion."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and names of shipped models.

    \b
    turbotag completion bash > ~/.local/share/bash-completion/completions/turbotag
    turbotag completion zsh > ~/.zfunc/_turbotag      # a folder of $fpath, before compinit
    turbotag completion fish > ~/.config/fish/completions/turbotag.fish
    """
    from click.shell_completion import get_completion_class

    from turbotag.cli.main import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "turbotag", "_TURBOTAG_COMPLETE").source())
