"""`allhands queues`: what each queue may have, what it uses, who runs and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import FULL_NAMES, output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.grid_text import Cell
    from allhands.views.picture import Picture
    from allhands.views.queues import QueueRow, QuotaRow

NO_QUEUES = "This cluster has no queues: it does not know the kind Queue. All jobs share the whole cluster as equals."
NOT_COUNTED = "You may not list jobs and pods everywhere: what is used is told as the queues' own status says."
RESOURCES_SHOWN = 3


@click.command("queues", short_help="List queues: what each may have, what it uses, who runs and who waits.")
@cluster_options()
@output_option()
@watch_option
def command(target: Target, output: str, watch: bool) -> None:
    """List queues. For each resource: used / deserved / at most, with - where nothing is said.

    SHARE is the largest part of any resource that the queue uses: of what it deserves, or of the cluster if it
    deserves nothing in particular. RUNNING and WAITING count jobs that are directly in it.

    \b
    Examples:
      allhands queues
      allhands queues --watch
      allhands queues -o json
    """
    from allhands.cli.looking import QUEUE_PARTS  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.output import show_rows  # noqa: PLC0415

    shown: list[str] = []
    served = [False]
    said: list[str] = []

    def rows(picture: Picture) -> Sequence[QueueRow]:
        from allhands.views.queues import queue_rows, shows_everybody  # noqa: PLC0415

        served[0] = picture.queues is not None
        if not shows_everybody(picture) and not said:
            said.append(NOT_COUNTED)
            click.echo(NOT_COUNTED, err=True)
        found = queue_rows(picture) if served[0] else []
        shown[:] = resources_of(found)
        return found

    async def talk(session: Session) -> None:
        await show_rows(
            session,
            QUEUE_PARTS,
            rows,
            lambda: QueueTable(shown),
            output=output,
            watch=watch,
            nothing=lambda: "No queues." if served[0] else NO_QUEUES,
            namespace="",
        )

    speak(target, talk)


def resources_of(rows: Sequence[QueueRow]) -> list[str]:
    """Those that any queue uses or says something about."""
    from allhands.views.amounts import in_order  # noqa: PLC0415

    return in_order(quota.resource for row in rows for quota in row.quotas)


class QueueTable:
    long_heading = ""

    def __init__(self, resources: Sequence[str]) -> None:
        self._resources = resources

    def _shown(self, *, wide: bool) -> Sequence[str]:
        return self._resources if wide else self._resources[:RESOURCES_SHOWN]

    def heading(self, *, wide: bool) -> Sequence[str]:
        from allhands.views.amounts import short_name  # noqa: PLC0415

        more = ["PARENT", "PRIORITY"] if wide else []
        names = [short_name(name).upper() for name in self._shown(wide=wide)]
        last = ["PROBLEM"] if wide else []
        return ["NAME", *more, "STATE", "WEIGHT", "SHARE", *names, "RUNNING", "WAITING", *last]

    def cells(self, row: QueueRow, *, wide: bool) -> Sequence[Cell | str]:
        from allhands.cli.grid_text import Cell, state_cell  # noqa: PLC0415

        quotas = {quota.resource: quota for quota in row.quotas}
        more = [row.parent, str(row.priority)] if wide else []
        amounts = [_amounts(quotas.get(name)) for name in self._shown(wide=wide)]
        share = Cell(f"{row.share_percent}%", "red" if row.share_percent > 100 else "")
        counts = [str(row.running), str(row.waiting)]
        weight = "" if row.state in ("-", "Missing") else f"{row.weight:g}"
        last = ["; ".join(it for it in (row.problem, *row.notes) if it)] if wide else []
        return [row.name or "(none)", *more, state_cell(row.state), weight, share, *amounts, *counts, *last]

    def name(self, row: QueueRow) -> str:
        return f"{FULL_NAMES['queue']}/{row.name}" if row.name else "(none)"


def _amounts(quota: QuotaRow | None) -> str:
    from allhands.views.amounts import amount_text  # noqa: PLC0415

    if quota is None:
        return ""
    values = (quota.used, quota.deserved, quota.capability)
    return "/".join("-" if it is None else amount_text(quota.resource, it) for it in values)
