"""`allhands jobs`: every Job and PodGroup, how far it is, and why it is not further."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.grid_text import Cell
    from allhands.views.picture import Picture
    from allhands.views.rows import GroupRow

STATES = ("waiting", "starting", "running", "succeeded", "failed")


@click.command("jobs", short_help="List jobs: how far each is, and why it is not further.")
@cluster_options(everywhere=True)
@click.option("-q", "--queue", default="", metavar="NAME", help="Only what is in this queue.")
@click.option(
    "--state", type=click.Choice(["waiting", "starting", "running", "succeeded", "failed"]), help="Only these."
)
@output_option()
@watch_option
def command(target: Target, queue: str, state: str | None, output: str, watch: bool) -> None:
    """List Jobs (of Kubernetes and of Volcano) and PodGroups (native, coscheduling, Volcano): queue, pods, state,
    start, and what is in the way.

    START says when it started, when it is expected to, or that nobody can know. `wide` cuts nothing.

    \b
    Examples:
      allhands jobs
      allhands jobs -A --state waiting
      allhands jobs --queue team-a --watch
    """
    from allhands.cli.looking import GROUP_PARTS, now_seconds  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.output import show_rows  # noqa: PLC0415

    def rows(picture: Picture) -> Sequence[GroupRow]:
        return [it for it in group_rows(picture) if _is_wanted(it, queue, state)]

    where = "any namespace" if target.everywhere else 'namespace "{}"'

    async def talk(session: Session) -> None:
        await show_rows(
            session,
            GROUP_PARTS,
            rows,
            lambda: JobTable(now_seconds(), with_namespace=session.everywhere),
            output=output,
            watch=watch,
            nothing=lambda: (
                f"No jobs in {where.format(session.namespace)}" + (" that match." if queue or state else ".")
            ),
        )

    speak(target, talk)


def group_rows(picture: Picture) -> list[GroupRow]:
    from allhands.views.groups import groups_of  # noqa: PLC0415
    from allhands.views.rows import row_of  # noqa: PLC0415

    return [row_of(group) for group in groups_of(picture)]


def _is_wanted(row: GroupRow, queue: str, state: str | None) -> bool:
    return (not queue or row.queue == queue) and (state is None or row.state.value.lower() == state)


class JobTable:
    """Groups as lines, at one moment."""

    long_heading = "WHY"

    def __init__(self, now_seconds: int, *, with_namespace: bool = False) -> None:
        self._now = now_seconds
        self._with_namespace = with_namespace

    def heading(self, *, wide: bool) -> Sequence[str]:
        first = ["NAMESPACE"] if self._with_namespace else []
        more = ["MIN", "DONE", "PRIORITY", "NODES"] if wide else []
        return [*first, "NAME", "QUEUE", "PODS", "STATE", "START", "AGE", *more, "WHY"]

    def cells(self, row: GroupRow, *, wide: bool) -> Sequence[Cell | str]:
        from allhands.cli.grid_text import state_cell  # noqa: PLC0415
        from allhands.views.moments import span_text  # noqa: PLC0415

        first = [row.namespace] if self._with_namespace else []
        done = f"{row.succeeded}/{'?' if row.completions is None else row.completions}"
        more = [str(row.min_count), done, str(row.priority), ",".join(row.nodes)] if wide else []
        pods = done if row.state.is_over or not row.total else f"{row.ready}/{row.total}"
        age = span_text(self._now - row.created_at_seconds)
        why = row.told if wide else row.why
        return [*first, row.label, row.queue, pods, state_cell(row.state), start_text(row, self._now), age, *more, why]

    def name(self, row: GroupRow) -> str:
        where = f"{row.namespace}/" if self._with_namespace else ""
        return f"{where}{row.full_kind}/{row.name}"


def start_text(row: GroupRow, now: int) -> str:
    """Since when it runs, how long it ran, or when it may start."""
    from allhands.views.moments import ago_text, ahead_text, span_text  # noqa: PLC0415
    from allhands.views.rows import GroupState  # noqa: PLC0415

    if row.state is GroupState.WAITING:
        if row.expected_start_seconds is not None:
            return ahead_text(row.expected_start_seconds, now)
        return "never" if row.is_never else "unknown"
    if row.started_at_seconds is None:
        return ""
    if row.finished_at_seconds is not None:
        return f"took {span_text(row.finished_at_seconds - row.started_at_seconds)}"
    return ago_text(row.started_at_seconds, now)
