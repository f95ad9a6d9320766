"""`allhands abort vcjob/NAME...`: takes Volcano Jobs off the nodes; for good, if that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options
from allhands.cli.commanding import ABORT, TERMINATE, subjects_argument, tell

if TYPE_CHECKING:
    from allhands.cli.cluster import Target
    from allhands.cli.options import Subject


@click.command("abort", short_help="Take Volcano Jobs off the nodes, or end them for good.")
@subjects_argument("vcjob")
@click.option("--for-good", is_flag=True, help="End it: it cannot be resumed.")
@click.option("--dry-run", is_flag=True, help="The server checks everything and changes nothing.")
@cluster_options()
def command(target: Target, subjects: tuple[Subject, ...], for_good: bool, dry_run: bool) -> None:
    """Abort Volcano Jobs: their pods are ended, what has succeeded stays. `allhands resume` brings them back, unless
    it was for good. The same as `suspend`, in Volcano's own word (AbortJob; TerminateJob with --for-good).

    \b
    Examples:
      allhands abort vcjob/train
      allhands abort vcjob/train --for-good
    """
    tell(target, subjects, TERMINATE if for_good else ABORT, dry_run=dry_run)
