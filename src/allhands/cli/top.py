"""`allhands top`: how full the nodes and queues are, and which jobs take most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.grid_text import Cell
    from allhands.views.nodes import NodeRow, UseRow
    from allhands.views.picture import Picture
    from allhands.views.top import HoldingRow, Top

RESOURCES_SHOWN = 3
BAR_LENGTH = 8


@click.command("top", short_help="Show how full nodes and queues are, and the busiest jobs.")
@cluster_options()
@click.option("--nodes", "nodes_shown", type=click.IntRange(0), default=20, show_default=True, help="How many nodes.")
@click.option("--jobs", "jobs_shown", type=click.IntRange(0), default=10, show_default=True, help="How many jobs.")
@output_option("table", "wide", "json", "yaml")
@watch_option
def command(target: Target, nodes_shown: int, jobs_shown: int, output: str, watch: bool) -> None:
    """Show requests against what nodes can give, the fullest nodes first; queues; and the jobs that hold most.

    It counts what pods request, as schedulers do, not what they use.

    \b
    Examples:
      allhands top
      allhands top --watch
      allhands top --nodes 0 -o json
    """
    from allhands.cli.grid_text import say  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.looking import GROUP_PARTS, NODES, look, now_seconds  # noqa: PLC0415
    from allhands.cli.output import show_screen, value_text  # noqa: PLC0415
    from allhands.views.top import top_of  # noqa: PLC0415

    def summary(picture: Picture) -> Top:
        return top_of(picture, nodes_shown, jobs_shown)

    def shown(picture: Picture) -> str:
        top = summary(picture)
        return (
            value_text(top, output) if output in ("json", "yaml") else screen(top, now_seconds(), wide=output == "wide")
        )

    async def talk(session: Session) -> None:
        parts = (*GROUP_PARTS, NODES)
        if watch:
            await show_screen(session, parts, shown, namespace="", is_news=summary)
        else:
            say(shown(await look(session.objects, parts)))

    speak(target, talk)


def screen(top: Top, now: int, *, wide: bool) -> str:
    from allhands.cli.grid_text import grid_lines, width_of_output  # noqa: PLC0415
    from allhands.cli.output import table_lines  # noqa: PLC0415
    from allhands.cli.queues import QueueTable, resources_of  # noqa: PLC0415
    from allhands.views.amounts import in_order, short_name  # noqa: PLC0415

    names = in_order(use.resource for use in top.cluster)
    names = names if wide else [name for name in names if name != "pods"][:RESOURCES_SHOWN]
    nodes: list[list[Cell | str]] = [_node_cells(row, names) for row in top.nodes]
    total: list[Cell | str] = [
        f"all {top.node_count}",
        "",
        str(top.pod_count),
        *(_use_cell(top.cluster, name) for name in names),
    ]
    heading = ["NODE", "STATE", "PODS", *(short_name(name).upper() for name in names)]
    blocks = [grid_lines(heading, [total, *nodes], width=None if wide else width_of_output())]
    if hidden := top.node_count - len(top.nodes):
        blocks[0].append(f"and {hidden} more nodes, none of them fuller" if top.nodes else f"{hidden} nodes")
    if top.queues:
        blocks.append(table_lines(top.queues, QueueTable(resources_of(top.queues)), wide=wide))
    if top.jobs:
        blocks.append(table_lines(top.jobs, HoldingTable(now, names), wide=wide))
    else:
        blocks.append(["No job holds anything."])
    return "\n\n".join("\n".join(block) for block in blocks)


def _node_cells(row: NodeRow, names: Sequence[str]) -> list[Cell | str]:
    from allhands.cli.grid_text import state_cell  # noqa: PLC0415

    return [row.name, state_cell(row.state), str(row.pods), *(_use_cell(row.uses, name) for name in names)]


def _use_cell(uses: Iterable[UseRow], name: str) -> Cell:
    from allhands.cli.grid_text import Cell, bar  # noqa: PLC0415
    from allhands.views.amounts import amount_text  # noqa: PLC0415

    use = next((it for it in uses if it.resource == name), None)
    if use is None:
        return Cell("")
    amounts = f"{amount_text(name, use.used)}/{amount_text(name, use.allocatable)}"
    colour = "red" if use.percent > 100 else "yellow" if use.percent >= 90 else "green"
    return Cell(f"{bar(use.percent, BAR_LENGTH)} {amounts}", colour)


class HoldingTable:
    """The busiest jobs: what each holds, and since when."""

    long_heading = "JOB"

    def __init__(self, now_seconds: int, names: Sequence[str]) -> None:
        self._now = now_seconds
        self._names = names

    def heading(self, *, wide: bool) -> Sequence[str]:
        from allhands.views.amounts import short_name  # noqa: PLC0415

        del wide
        names = [short_name(name).upper() for name in self._names]
        return ["JOB", "QUEUE", "STATE", "PODS", "START", "SHARE", *names]

    def cells(self, row: HoldingRow, *, wide: bool) -> Sequence[Cell | str]:
        from allhands.cli.grid_text import state_cell  # noqa: PLC0415
        from allhands.cli.jobs import start_text  # noqa: PLC0415
        from allhands.views.amounts import amount_text  # noqa: PLC0415

        del wide
        group = row.group
        held = [amount_text(name, row.held.get(name, 0)) for name in self._names]
        pods, start = f"{group.ready}/{group.total}", start_text(group, self._now)
        return [self.name(row), group.queue, state_cell(group.state), pods, start, f"{row.share_percent}%", *held]

    def name(self, row: HoldingRow) -> str:
        return f"{row.group.namespace}/{row.group.label}"
