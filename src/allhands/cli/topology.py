"""`allhands topology`: the tree of domains and nodes, what is free where, what is ill, and which jobs sit where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak
from allhands.cli.options import near_misses, output_option, watch_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.cli.cluster import Session, Target
    from allhands.cli.grid_text import Cell
    from allhands.views.picture import Picture
    from allhands.views.topology import RoomRow, Seat, TopologyDomain, TopologyNode

RESOURCES_SHOWN = 3
JOBS_SHOWN = 3
NO_DOMAINS = "No node has a label that makes it part of a domain: {}; and there are no HyperNodes."
SET_ASIDE = "Not used"


@click.command(
    "topology", short_help="Show racks, zones and nodes: what is free, what is ill, and which jobs sit where."
)
@click.argument("domain", required=False, default="", metavar="[DOMAIN]")
@cluster_options()
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY",
    help="A label of nodes that makes domains, the closest first. [default: rack, zone and region]",
)
@click.option("--nodes", "nodes_shown", type=click.IntRange(0), default=16, show_default=True,
              help="How many nodes of each domain.")  # fmt: skip
@output_option("table", "wide", "json", "yaml")
@watch_option
def command(target: Target, domain: str, labels: tuple[str, ...], nodes_shown: int, output: str, watch: bool) -> None:
    """Show the tree of domains with their nodes, and that of HyperNodes if there are any. For each resource: free /
    total, of what pods request.

    What is on a node that is not ready, cordoned or tainted is not free. NODES counts those where something can start.
    JOBS are those with the most pods there. `wide` cuts nothing.

    \b
    Examples:
      allhands topology
      allhands topology rack-2 -o wide
      allhands topology --nodes 0 --watch
      allhands topology --label example.com/switch --label topology.kubernetes.io/zone -o json
    """
    from allhands.cli.grid_text import say  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.cli.looking import GROUP_PARTS, HYPER_NODES, NODES, look  # noqa: PLC0415
    from allhands.cli.output import show_screen, value_text  # noqa: PLC0415
    from allhands.dialects.topology_labels import DEFAULT_LABELS  # noqa: PLC0415
    from allhands.views.topology import topology_of  # noqa: PLC0415

    chosen = labels or DEFAULT_LABELS

    def wanted(picture: Picture) -> TopologyDomain:
        whole = topology_of(picture, chosen)
        return _found(whole, domain) if domain else whole

    def shown(picture: Picture) -> str:
        tree = wanted(picture)
        if output in ("json", "yaml"):
            return value_text(tree, output)
        return screen(tree, chosen, nodes_shown, wide=output == "wide")

    async def talk(session: Session) -> None:
        parts = (*GROUP_PARTS, NODES, HYPER_NODES)
        if watch:
            await show_screen(session, parts, shown, namespace="", is_news=wanted)
        else:
            say(shown(await look(session.objects, parts)))

    speak(target, talk)


def _found(whole: TopologyDomain, name: str) -> TopologyDomain:
    from allhands.views.topology import all_domains, find_domain  # noqa: PLC0415

    found = find_domain(whole, name)
    if found is not None:
        return found
    names = [it.name for it in all_domains(whole)]
    several = [it for it in names if it.rpartition("/")[2] == name]
    if several:
        raise click.ClickException(f"there are several domains {name}: {', '.join(several)}")
    near = near_misses(name, [*names, *(it.rpartition("/")[2] for it in names)])
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names[:8]) or 'none'}."
    raise click.ClickException(f"there is no domain {name}. {hint}")


def screen(tree: TopologyDomain, labels: Sequence[str], nodes_shown: int, *, wide: bool) -> str:
    from allhands.cli.grid_text import grid_lines, width_of_output  # noqa: PLC0415
    from allhands.views.amounts import in_order, short_name  # noqa: PLC0415

    names = in_order(it.resource for it in tree.room)
    names = names if wide else [name for name in names if name != "pods"][:RESOURCES_SHOWN]
    heading = ["DOMAIN", "NODES", "STATE", *(f"{short_name(name).upper()} FREE" for name in names), "JOBS"]
    limits = (None, None) if wide else (nodes_shown, JOBS_SHOWN)
    # Where only HyperNodes say who is close, the other tree would say nothing.
    shown = tree.trees if tree.trees and not tree.domains else (tree, *tree.trees)
    lines: list[str] = []
    for number, it in enumerate(shown):
        rows = list(_rows(it, names, "", "", *limits))
        lines += [""] if number else []
        lines += grid_lines(heading, rows, width=None if wide else width_of_output(), long=len(heading) - 1)
        lines += [f"{SET_ASIDE}: {name}: {why}" for name, why in it.set_aside.items()]
    if not tree.domains and not tree.trees and tree.is_whole:
        lines.append(NO_DOMAINS.format(", ".join(labels)))
    return "\n".join(lines)


def _rows(
    domain: TopologyDomain, names: Sequence[str], first: str, rest: str, most_nodes: int | None, most_jobs: int | None
) -> Iterator[Sequence[Cell | str]]:
    """`first` stands before the domain's own line, `rest` before all below it."""
    from allhands.cli.grid_text import Cell  # noqa: PLC0415

    is_well = domain.ready_count == domain.node_count
    counts = Cell(f"{domain.ready_count}/{domain.node_count}", "" if is_well else "red")
    title = domain.name if domain.is_whole else f"{domain.tier} {domain.name.rpartition('/')[2]}"
    yield [f"{first}{title}", counts, "", *_free(domain.room, names), _jobs(domain.jobs, most_jobs)]
    nodes = domain.nodes if most_nodes is None else _most_telling(domain.nodes, most_nodes)
    hidden = len(domain.nodes) - len(nodes) if most_nodes != 0 else 0
    left = len(domain.domains) + len(nodes) + (hidden > 0)
    for below in domain.domains:
        left -= 1
        yield from _rows(below, names, f"{rest}{_branch(left)}", f"{rest}{_stem(left)}", most_nodes, most_jobs)
    for node in nodes:
        left -= 1
        yield _node_row(node, names, f"{rest}{_branch(left)}", most_jobs)
    if hidden:
        yield [f"{rest}{_branch(0)}{hidden} more node{'s' if hidden > 1 else ''}", *([" "] * (len(names) + 3))]


def _most_telling(nodes: Sequence[TopologyNode], most: int) -> list[TopologyNode]:
    """Those that are ill before those that are well; what is left is by name."""
    chosen = sorted(nodes, key=lambda it: (it.state == "Ready", it.name))[:most]
    return sorted(chosen, key=lambda it: it.name)


def _node_row(node: TopologyNode, names: Sequence[str], first: str, most_jobs: int | None) -> Sequence[Cell | str]:
    from allhands.cli.grid_text import state_cell  # noqa: PLC0415

    jobs = _jobs(node.jobs, most_jobs)
    return [f"{first}{node.name}", " ", state_cell(node.state), *_free(node.room, names), jobs]


def _branch(left: int) -> str:
    return "├─ " if left else "└─ "


def _stem(left: int) -> str:
    return "│  " if left else "   "


def _free(room: Sequence[RoomRow], names: Sequence[str]) -> list[Cell | str]:
    from allhands.cli.grid_text import Cell  # noqa: PLC0415
    from allhands.views.amounts import amount_text  # noqa: PLC0415

    known = {it.resource: it for it in room}
    cells: list[Cell | str] = []
    for name in names:
        it = known.get(name)
        text = "" if it is None else f"{amount_text(name, it.free)}/{amount_text(name, it.total)}"
        cells.append(Cell(text, "" if it is None or it.free else "yellow"))
    return cells


def _jobs(seats: Sequence[Seat], most: int | None) -> str:
    shown = seats if most is None else seats[:most]
    texts = [f"{it.job} ×{it.pods}" for it in shown]
    if len(seats) > len(shown):
        texts.append(f"and {len(seats) - len(shown)} more")
    return ", ".join(texts)
