"""`allhands queue open|close NAME...`: lets a queue start groups again, or takes no more into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options
from allhands.cli.commanding import CLOSE, OPEN, tell
from allhands.cli.options import Subject

if TYPE_CHECKING:
    from allhands.cli.cluster import Target


@click.group("queue", short_help="Open and close queues.")
def command() -> None:
    """Open and close queues. `allhands queues` lists them, `allhands explain queue/NAME` tells about one."""


@command.command("open", short_help="Let queues take and start groups again.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="The server checks everything and changes nothing.")
@cluster_options()
def open_queues(target: Target, names: tuple[str, ...], dry_run: bool) -> None:
    """Open queues: they take groups, and start those that wait.

    \b
    Examples:
      allhands queue open team-a
    """
    tell(target, [Subject("queue", name) for name in names], OPEN, dry_run=dry_run)


@command.command("close", short_help="Let queues finish what runs, and start nothing more.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="The server checks everything and changes nothing.")
@cluster_options()
def close_queues(target: Target, names: tuple[str, ...], dry_run: bool) -> None:
    """Close queues: what runs goes on to its end, nothing else starts. Closing until the last group is gone, then
    Closed.

    \b
    Examples:
      allhands queue close team-a team-b
    """
    tell(target, [Subject("queue", name) for name in names], CLOSE, dry_run=dry_run)
