"""The clusters that the core is measured on: empty, full, borrowed, huge. The same numbers build the same snapshot.

They are as plain as possible, so that a figure is about the number of things and not about their peculiarities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.columns import NodeColumns, allocatable_columns, resource_names
from allhands.core.facts import Facts
from allhands.core.snapshot import GroupEntry, PodFlag, PodTable, Snapshot
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Account, Queue, Quota
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.measure.core_cases import Case

NODE_CPU_MILLIS = 32_000
NODE = ResourceVector.of({"cpu": NODE_CPU_MILLIS, "memory": 256 << 30, "pods": 110, "ephemeral-storage": 1 << 40})
NODES_IN_RACK = 32
RACKS_IN_BLOCK = 8
QUEUES_IN_TEAM = 10
GANG_OF_BORROWERS = 10
PODS_ON_NODE = 10
GROUP_OF_RUNNING = 100
NAMESPACE = "bench"


def waiting_gangs(case: Case) -> Snapshot:
    """Empty nodes, and gangs that all fit."""
    world = _world(case.nodes)
    queues = tuple(_queue_tree(case.queues))
    world.set_facts(Facts(accounts=queues, domains=tuple(_domains(case.nodes)) if case.topology else ()))
    leaves = [account.name for account in queues if isinstance(account, Queue)]
    rule = TopologyRule(mode=TopologyMode.HARD, highest_tier=2) if case.topology else None
    for number in range(case.groups):
        _wait(world, case, number, leaves[number % len(leaves)], rule)
    return world.snapshot()


def hopeless(case: Case) -> Snapshot:
    """Full nodes, and groups of which none can start: each must be told why."""
    world = _world(case.nodes)
    world.set_facts(Facts(accounts=(Queue("queue"),)))
    full = PodGroup(NAMESPACE, "full", "queue", members=SubGroup(min_count=case.nodes), expected_duration_seconds=3_600)
    world.set_group(full, GroupStatus(started_at_seconds=10))
    whole_node = ResourceVector.of({"cpu": NODE_CPU_MILLIS, "memory": 1 << 30})
    for number in range(case.nodes):
        world.set_pod(_pod(f"full-{number}", whole_node, node=_node_name(number)), group=full.key)
    for number in range(case.groups):
        _wait(world, case, number, "queue", None)
    return world.snapshot()


def owed_to_another(case: Case) -> Snapshot:
    """A full cluster, all of it borrowed by one queue in gangs of ten; the other queue asks for what it is owed."""
    world = _world(case.nodes)
    half = (Quota("cpu", deserved=case.nodes * NODE_CPU_MILLIS // 2),)
    world.set_facts(Facts(accounts=(Queue("lender", quotas=half), Queue("borrower", quotas=half))))
    quarter = ResourceVector.of({"cpu": NODE_CPU_MILLIS // 4, "memory": 8 << 30})
    for number in range(case.nodes * 4):
        if number % GANG_OF_BORROWERS == 0:
            name = f"running-{number // GANG_OF_BORROWERS:05}"
            members = SubGroup(min_count=GANG_OF_BORROWERS)
            gang = PodGroup(NAMESPACE, name, "borrower", members=members, created_at_seconds=number)
            world.set_group(gang, GroupStatus(started_at_seconds=number))
        pod = _pod(f"running-{number:06}", quarter, node=_node_name(number // 4), started_at=number)
        world.set_pod(pod, group=gang.key)
    owed = PodGroup(NAMESPACE, "owed", "lender", members=SubGroup(min_count=case.pods_per_group))
    world.set_group(owed)
    for rank in range(case.pods_per_group):
        world.set_pod(_pod(f"owed-{rank}", quarter), group=owed.key)
    return world.snapshot()


def huge(case: Case) -> Snapshot:
    """Ten running pods on each node, as rows and in groups of a hundred; and gangs that wait."""
    waiting = waiting_gangs(case._replace(nodes=1))
    running = case.nodes * PODS_ON_NODE
    pods = PodTable(
        keys=[f"{NAMESPACE}/run-{number}" for number in range(running)],
        uids=[f"{number:x}" for number in range(running)],
        node=np.arange(running, dtype=np.int32) // PODS_ON_NODE,
        shape=np.arange(running, dtype=np.int32) % case.shapes,
        priority=np.zeros(running, dtype=np.int32),
        since=np.full(running, 10, dtype=np.int64),
        flags=np.full(running, PodFlag.STARTED, dtype=np.uint8),
        shapes=tuple(PodShape.of(_pod("x", _request(kind)), None) for kind in range(case.shapes)),
    )
    groups = {}
    for first in range(0, running, GROUP_OF_RUNNING):
        entry = _running_entry(pods, range(first, min(running, first + GROUP_OF_RUNNING)))
        groups[entry.key] = entry
    columns = _columns(tuple(_nodes(case.nodes)), pods)
    return Snapshot(columns, pods, dict(sorted({**groups, **waiting.groups}.items())), waiting.facts, (), 1)


def _world(nodes: int) -> World:
    world = World()
    for node in _nodes(nodes):
        world.set_node(node)
    return world


def _nodes(count: int) -> Iterator[Node]:
    for number in range(count):
        name = _node_name(number)
        yield Node(name, labels={"kubernetes.io/hostname": name}, ready=True, allocatable=NODE, capacity=NODE)


def _node_name(number: int) -> str:
    return f"node-{number:06}"


def _wait(world: World, case: Case, number: int, queue: str, rule: TopologyRule | None) -> None:
    name = f"gang-{number:05}"
    members = SubGroup(min_count=case.pods_per_group, topology=rule)
    group = PodGroup(NAMESPACE, name, queue, members=members, created_at_seconds=number)
    world.set_group(group)
    # With more shapes than gangs, the first member of each differs from the others, as a master does.
    masters = case.shapes > case.groups
    for rank in range(case.pods_per_group):
        kind = number % case.shapes if not masters else 2 * number % case.shapes + (rank == 0)
        world.set_pod(_pod(f"{name}-{rank}", _request(kind)), group=group.key)


def _request(kind: int) -> ResourceVector:
    """A little different for each kind of pod."""
    return ResourceVector.of({"cpu": 1_000 + kind, "memory": (1 << 30) + kind})


def _pod(name: str, requests: ResourceVector, *, node: str = "", started_at: int = 10) -> Pod:
    return Pod(
        NAMESPACE,
        name,
        uid=name,
        owner="Job/bench",
        node_name=node,
        phase=PodPhase.RUNNING if node else PodPhase.PENDING,
        started_at_seconds=started_at if node else None,
        requests=requests,
    )


def _queue_tree(count: int) -> Iterator[Account | Queue]:
    if count == 1:
        yield Queue("queue")
        return
    teams = max(1, count // QUEUES_IN_TEAM)
    yield Account("root")
    for number in range(teams):
        yield Account(f"team-{number}", parent="root", weight_millis=1_000 + number)
    for number in range(count):
        yield Queue(f"queue-{number:03}", parent=f"team-{number % teams}")


def _domains(nodes: int) -> Iterator[Domain]:
    racks = -(-nodes // NODES_IN_RACK)
    for block in range(-(-racks // RACKS_IN_BLOCK)):
        yield Domain(f"block-{block}", 2)
    for rack in range(racks):
        first = rack * NODES_IN_RACK
        names = tuple(_node_name(number) for number in range(first, min(nodes, first + NODES_IN_RACK)))
        yield Domain(f"rack-{rack}", 1, f"block-{rack // RACKS_IN_BLOCK}", names)


def _running_entry(pods: PodTable, rows: range) -> GroupEntry:
    shapes = [pods.shapes[number].requests for number in pods.shape[rows.start : rows.stop].tolist()]
    held = {name: sum(requests.get(name) for requests in shapes) for name in ("cpu", "memory")}
    members = SubGroup(min_count=len(rows))
    return GroupEntry(
        group=PodGroup(NAMESPACE, f"run-{rows.start:07}", "queue", members=members),
        present=((Slot("", ""), len(rows)),),
        bound=tuple(rows),
        bound_parts=("",) * len(rows),
        is_whole=True,
        holding=tuple(sorted({**held, "pods": len(rows)}.items())),
    )


def _columns(nodes: tuple[Node, ...], pods: PodTable) -> NodeColumns:
    names, resources = tuple(node.name for node in nodes), resource_names(nodes)
    used = np.zeros((len(resources), len(nodes)), dtype=np.int64)
    for name in ("cpu", "memory"):
        units = np.array([shape.requests.get(name) for shape in pods.shapes], dtype=np.int64)
        np.add.at(used[resources.index(name)], pods.node, units[pods.shape])
    used[resources.index("pods")] = PODS_ON_NODE
    generation = np.zeros(len(nodes), dtype=np.int64)
    return NodeColumns(
        names=names,
        nodes=nodes,
        row_by_name={name: row for row, name in enumerate(names)},
        resources=resources,
        column_by_resource={name: column for column, name in enumerate(resources)},
        allocatable=allocatable_columns(nodes, resources),
        used=used,
        generation=generation,
        static_generation=generation.copy(),
        layout=1,
    )
