"""`allhands resume KIND/NAME...`: lets suspended jobs go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.suspending import RESUME, change, suspending_options

if TYPE_CHECKING:
    from allhands.cli.cluster import Target
    from allhands.cli.options import Subject


@click.command("resume", short_help="Let suspended jobs go on.")
@suspending_options
def command(target: Target, subjects: tuple[Subject, ...], selector: str, dry_run: bool) -> None:
    """Resume Jobs that were suspended: their pods are made again and wait for room, in their queue, like all others.

    \b
    Examples:
      allhands resume job/train
      allhands resume -l team=vision -A
    """
    change(target, subjects, selector, dry_run, RESUME)
