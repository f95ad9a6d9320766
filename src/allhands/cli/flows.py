"""`allhands flows`: how far each JobFlow is, which of its steps run, and why it does not go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import FULL_NAMES, output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.grid_text import Cell
    from allhands.views.flows import FlowRow
    from allhands.views.picture import Picture


@click.command("flows", short_help="List flows: how far each is, which steps run, and why it does not go on.")
@cluster_options(everywhere=True)
@output_option()
@watch_option
def command(target: Target, output: str, watch: bool) -> None:
    """List JobFlows (Volcano's). STEPS counts those that are done, NOW names those whose Jobs wait, start or run.

    \b
    Examples:
      allhands flows
      allhands flows -A --watch
      allhands explain flow/nightly        what each of its steps does or waits for
    """
    from allhands.cli.explain import NO_FLOWS  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.looking import FLOWS, GROUP_PARTS, now_seconds  # noqa: PLC0415
    from allhands.cli.output import show_rows  # noqa: PLC0415

    served = [False]

    def rows(picture: Picture) -> Sequence[FlowRow]:
        from allhands.views.flows import flow_rows  # noqa: PLC0415

        served[0] = picture.flows is not None
        return flow_rows(picture)

    where = "any namespace" if target.everywhere else 'namespace "{}"'

    async def talk(session: Session) -> None:
        await show_rows(
            session,
            (FLOWS, *GROUP_PARTS),
            rows,
            lambda: FlowTable(now_seconds(), with_namespace=session.everywhere),
            output=output,
            watch=watch,
            nothing=lambda: f"No flows in {where.format(session.namespace)}." if served[0] else NO_FLOWS,
        )

    speak(target, talk)


class FlowTable:
    """Flows as lines, at one moment."""

    long_heading = "WHY"

    def __init__(self, now_seconds: int, *, with_namespace: bool = False) -> None:
        self._now = now_seconds
        self._with_namespace = with_namespace

    def heading(self, *, wide: bool) -> Sequence[str]:
        first = ["NAMESPACE"] if self._with_namespace else []
        more = ["PHASE", "REASON"] if wide else []
        return [*first, "NAME", "STATE", "STEPS", "NOW", "AGE", *more, "WHY"]

    def cells(self, row: FlowRow, *, wide: bool) -> Sequence[Cell | str]:
        from allhands.cli.grid_text import state_cell  # noqa: PLC0415
        from allhands.views.moments import span_text  # noqa: PLC0415

        first = [row.namespace] if self._with_namespace else []
        now = ",".join(it.name for it in row.steps if it.state is not None and not it.state.is_over)
        more = [row.phase, row.reason] if wide else []
        steps, age = f"{row.done}/{len(row.steps)}", span_text(self._now - row.created_at_seconds)
        return [*first, row.name, state_cell(row.state), steps, now, age, *more, row.why]

    def name(self, row: FlowRow) -> str:
        where = f"{row.namespace}/" if self._with_namespace else ""
        return f"{where}{FULL_NAMES['flow']}/{row.name}"
