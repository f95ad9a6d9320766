"""`allhands uninstall`: takes everything away that `allhands install` brought, and what our processes made there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target

MOST_NAMED = 20


@click.command("uninstall", short_help="Take allhands out of a cluster again.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("--purge", is_flag=True, help="Delete queues, and what else people made, along with it.")
@click.option("--keep-kinds", is_flag=True, help="Leave our kinds, and so the queues, where they are.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Until nothing of it is left.")
@click.option("--timeout", default="2m", show_default=True, help="How long that may take.")
@cluster_options()
def command(target: Target, dry_run: bool, purge: bool, keep_kinds: bool, wait: bool, timeout: str) -> None:
    """Delete the processes, their rights, their namespace and our kinds. Pods that run go on running; who waits for
    our scheduler waits on.

    Queues that people made would be lost with their kind: they are listed, and without --purge or --keep-kinds
    nothing is deleted, unless you say yes on a terminal.

    \b
    Examples:
      allhands uninstall --kubeconfig FILE
      allhands uninstall --purge
    """
    from allhands.cli.wait import timeout_seconds  # noqa: PLC0415 (`--help` must not pay for it)

    if purge and keep_kinds:
        raise click.UsageError("--purge and --keep-kinds say different things; give one of them")
    seconds = timeout_seconds(timeout)

    async def talk(session: Session) -> None:
        wait_seconds = (float("inf") if seconds is None else seconds) if wait and not dry_run else 0.0
        await _uninstall(session, purge=purge, keep_kinds=keep_kinds, dry_run=dry_run, wait_seconds=wait_seconds)

    speak(target, talk)


async def _uninstall(session: Session, *, purge: bool, keep_kinds: bool, dry_run: bool, wait_seconds: float) -> None:
    from allhands.runtime.installation.applying import Done  # noqa: PLC0415
    from allhands.runtime.installation.permissions import REMOVING, require, rights_for  # noqa: PLC0415
    from allhands.runtime.installation.places import COLLECTIONS, InstallationError  # noqa: PLC0415
    from allhands.runtime.installation.removing import look, remove  # noqa: PLC0415
    from allhands.runtime.installation.waiting import until_gone  # noqa: PLC0415

    def say(done: Done) -> None:
        click.echo(f"{done}{' (dry run)' if dry_run else ''}")

    try:
        await require(session.objects, rights_for(COLLECTIONS, ("list",), ""))
        standing = await look(session.objects, keep_kinds=keep_kinds)
        if not standing.objects:
            click.echo("nothing of allhands is in this cluster", err=True)
            return
        if standing.would_be_lost and not purge:
            _ask(standing.would_be_lost, dry_run=dry_run)
        if dry_run:
            for place, _ in standing.objects:
                say(Done(place, "deleted"))
            return
        for home in standing.homes or ("",):
            await require(session.objects, rights_for({it.kind: None for it, _ in standing.objects}, REMOVING, home))
        await remove(session.objects, standing, say)
        if wait_seconds:
            await until_gone(session.objects, [place for place, _ in standing.objects], wait_seconds)
    except InstallationError as error:
        raise click.ClickException(str(error)) from None


def _ask(would_be_lost: Sequence[str], *, dry_run: bool) -> None:
    """Returns only if all of this may go."""
    shown = "".join(f"  {it}\n" for it in would_be_lost[:MOST_NAMED])
    more = len(would_be_lost) - MOST_NAMED
    listing = f"These would be deleted with it:\n{shown}" + (f"  and {more} more\n" if more > 0 else "")
    if dry_run:
        click.echo(listing, err=True, nl=False)
    elif sys.stdin.isatty():
        click.echo(listing, err=True, nl=False)
        click.confirm("Delete them too?", abort=True, err=True)
    else:
        raise click.ClickException(
            f"{listing}Nothing was deleted. Add --purge to delete them too, or --keep-kinds to leave our kinds and "
            "all queues."
        )
