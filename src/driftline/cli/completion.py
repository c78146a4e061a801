"""`driftline completion`."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, targets and bugs.

    \b
      eval "$(driftline completion bash)"                            in ~/.bashrc; bash 4.4 or later
      eval "$(driftline completion zsh)"                             in ~/.zshrc, after compinit
      driftline completion fish > ~/.config/fish/completions/driftline.fish
    """
    from click.shell_completion import get_completion_class

    from driftline.cli import cli

    found = get_completion_class(shell)
    assert found
    click.echo(found(cli, {}, "driftline", "_DRIFTLINE_COMPLETE").source())
