"""`allhands controllers`: what a real cluster lacks to work with queues, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.process import process_options, run_process

if TYPE_CHECKING:
    from allhands.cli.process import Started


@click.command("controllers", short_help="Run the controllers that a real cluster lacks.")
@process_options
def command(started: Started) -> None:
    """Run the controllers that a real cluster lacks: for now that of queues, which counts what each holds and says so
    in its status. Never those that kube-controller-manager runs. It runs until Ctrl-C or SIGTERM.

    \b
    Examples:
      allhands controllers --kubeconfig ~/.kube/config
    """
    from allhands.compose.lacking import run_lacking_controllers  # noqa: PLC0415 (`--help` must not pay for it)

    run_process(started, run_lacking_controllers)
