"""`allhands suspend KIND/NAME...`: takes jobs off the nodes, and keeps them, until somebody resumes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.suspending import SUSPEND, change, suspending_options

if TYPE_CHECKING:
    from allhands.cli.cluster import Target
    from allhands.cli.options import Subject


@click.command("suspend", short_help="Take jobs off the nodes until somebody resumes them.")
@suspending_options
def command(target: Target, subjects: tuple[Subject, ...], selector: str, dry_run: bool) -> None:
    """Suspend Jobs: their pods are ended and what they held is free; they keep their place as objects. Resumed, they
    wait in their queue again and begin anew; what had succeeded stays done. A suspended CronJob starts no more Jobs.

    \b
    Examples:
      allhands suspend job/train
      allhands suspend job/a job/b cronjob/nightly
      allhands suspend -l team=vision --dry-run
    """
    change(target, subjects, selector, dry_run, SUSPEND)
