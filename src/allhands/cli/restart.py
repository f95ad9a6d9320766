"""`allhands restart vcjob/NAME...`: ends the pods of Volcano Jobs and begins anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options
from allhands.cli.commanding import RESTART, subjects_argument, tell

if TYPE_CHECKING:
    from allhands.cli.cluster import Target
    from allhands.cli.options import Subject


@click.command("restart", short_help="End the pods of Volcano Jobs and begin anew.")
@subjects_argument("vcjob")
@click.option("--dry-run", is_flag=True, help="The server checks everything and changes nothing.")
@cluster_options()
def command(target: Target, subjects: tuple[Subject, ...], dry_run: bool) -> None:
    """Restart Volcano Jobs: all of their pods are ended, and made again when there is room. It counts as one of the
    restarts that a Job may have (spec.maxRetry).

    \b
    Examples:
      allhands restart vcjob/train
      allhands restart vcjob/a vcjob/b
    """
    tell(target, subjects, RESTART, dry_run=dry_run)
