"""`allhands completion SHELL`."""

from __future__ import annotations

import click


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes commands and options.

    \b
    bash:  source <(allhands completion bash)
    zsh:   source <(allhands completion zsh)
    fish:  allhands completion fish | source
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 (only this command needs it)

    from allhands.cli import root  # noqa: PLC0415 (the root knows us; not the other way round at import)

    script = get_completion_class(shell)
    if script is None:
        raise click.ClickException(f"no completion for {shell}")
    click.echo(script(root, {}, "allhands", "_ALLHANDS_COMPLETE").source())
