"""`allhands scheduler`: places pods and gangs in a real cluster, until it is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.process import begin_process, process_options

if TYPE_CHECKING:
    from allhands.cli.process import Started


@click.command("scheduler", short_help="Place the pods and gangs of a real cluster.")
@click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="How to decide. (docs/policy.md)")
@process_options
def command(started: Started) -> None:
    """Place the pods of a real cluster that name us as their scheduler: gangs whole or not at all, in queues, beside
    any other scheduler on the same nodes. It runs until Ctrl-C or SIGTERM. (docs/scheduler.md)

    \b
    Examples:
      allhands scheduler --kubeconfig ~/.kube/config
      allhands scheduler --scheduler-name allhands --scheduler-name volcano
      allhands scheduler --policy policy.yaml --metrics-address 127.0.0.1:8080
    """
    from allhands.compose.early import run_scheduler  # noqa: PLC0415 (`--help` must not pay for it)

    begin_process(started, run_scheduler)
