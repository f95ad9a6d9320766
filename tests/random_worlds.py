"""Random clusters for the laws of the core: nodes, queues, domains, groups with all kinds of minimums, and bound pods.

Everything comes from one seed, and everything is small, so that odd cases meet often. `objects(seed)` gives the
objects, `build(objects)` a World that has seen them all.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from allhands.core.facts import Facts
from allhands.core.world import NO_SLOT, World
from allhands.model.domain import Domain
from allhands.model.node import Node, Taint, Toleration
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.queue import Account, Queue, QueueOrder, Quota
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Iterable

GPU = "example.com/gpu"


class PodObject(NamedTuple):
    pod: Pod
    group: str
    slot: Slot


class Objects(NamedTuple):
    nodes: tuple[Node, ...]
    pods: tuple[PodObject, ...]
    groups: tuple[PodGroup, ...]
    facts: Facts


def objects(seed: int, *, max_nodes: int = 12, max_groups: int = 14) -> Objects:
    chance = random.Random(seed)
    nodes = tuple(_node(chance, number) for number in range(chance.randint(1, max_nodes)))
    facts = Facts(accounts=_accounts(chance), domains=_domains(chance, nodes))
    queues = [account.name for account in facts.accounts if isinstance(account, Queue)]
    groups = []
    pods: list[PodObject] = []
    for number in range(chance.randint(0, max_groups)):
        group, members = _group(chance, number, queues, nodes)
        groups.append(group)
        pods.extend(members)
    pods.extend(
        PodObject(_pod(chance, "default", f"lone-{number}", nodes, bound=chance.random() < 0.5), "", NO_SLOT)
        for number in range(chance.randint(0, 5))
    )
    return Objects(nodes, tuple(pods), tuple(groups), facts)


def build(parts: Objects) -> World:
    world = World()
    for node in parts.nodes:
        world.set_node(node)
    for group in parts.groups:
        world.set_group(group)
    for pod, group_key, slot in parts.pods:
        world.set_pod(pod, group=group_key, slot=slot)
    world.set_facts(parts.facts)
    return world


def _node(chance: random.Random, number: int) -> Node:
    amounts = {
        "cpu": chance.choice((0, 1000, 4000, 8000)),
        "memory": chance.choice((1, 4, 16)) << 30,
        "pods": chance.choice((1, 3, 110)),
    }
    if chance.random() < 0.4:
        amounts[GPU] = chance.choice((1, 4, 8))
    taints = (Taint("dedicated", "NoSchedule", "batch"),) if chance.random() < 0.15 else ()
    return Node(
        name=f"node-{number}",
        labels={"kubernetes.io/hostname": f"node-{number}", "zone": chance.choice("ab")},
        taints=taints,
        unschedulable=chance.random() < 0.08,
        ready=True,
        allocatable=ResourceVector.of(amounts),
    )


def _accounts(chance: random.Random) -> tuple[Account | Queue, ...]:
    accounts: list[Account | Queue] = [Account("root", quotas=_quotas(chance))]
    accounts += [
        Queue(
            f"queue-{number}",
            parent="root" if chance.random() < 0.7 else None,
            quotas=_quotas(chance),
            weight_millis=chance.choice((0, 500, 1000, 3000)),
            priority=chance.choice((0, 0, 5)),
            order=chance.choice((QueueOrder.FIFO_STRICT, QueueOrder.FIFO_BEST_EFFORT)),
        )
        for number in range(chance.randint(1, 4))
    ]
    return tuple(accounts)


def _quotas(chance: random.Random) -> tuple[Quota, ...]:
    if chance.random() < 0.5:
        return ()
    capability = chance.choice((None, 0, 2000, 8000, 20000))
    deserved = chance.choice((None, 0, 1000))
    if capability is not None and deserved is not None:
        deserved = min(deserved, capability)
    return (Quota("cpu", capability=capability, deserved=deserved),)


def _domains(chance: random.Random, nodes: tuple[Node, ...]) -> tuple[Domain, ...]:
    if chance.random() < 0.3:
        return ()
    racks = chance.randint(1, 4)
    inside: list[list[str]] = [[] for _ in range(racks)]
    for node in nodes:
        if chance.random() < 0.9:
            inside[chance.randrange(racks)].append(node.name)
    return (
        Domain("hall", 2),
        *(Domain(f"rack-{number}", 1, "hall", tuple(names)) for number, names in enumerate(inside)),
    )


def _group(
    chance: random.Random, number: int, queues: list[str], nodes: tuple[Node, ...]
) -> tuple[PodGroup, list[PodObject]]:
    namespace, name = chance.choice(("default", "team")), f"group-{number}"
    parts = chance.choice(((), (), ("a", "b")))
    tasks = chance.choice((("",), ("",), ("master", "worker")))
    size = chance.randint(0, 6)
    slots = [Slot(chance.choice(parts) if parts else "", chance.choice(tasks)) for _ in range(size)]
    children = tuple(SubGroup(part, min_count=chance.randint(0, 2), topology=_rule(chance)) for part in parts)
    minimums = (TaskMinimum("master", 1),) if "master" in tasks and chance.random() < 0.5 else ()
    members = SubGroup(
        min_count=chance.randint(0, 6),
        task_minimums=minimums,
        children=children,
        min_children=chance.choice((None, 1)) if children else None,
        topology=_rule(chance),
    )
    group = PodGroup(
        namespace,
        name,
        chance.choice((*queues, "nowhere")),
        uid=f"uid-{name}",
        members=members,
        priority=chance.choice((0, 0, 10)),
        created_at_seconds=chance.randint(0, 50),
    )
    running = chance.random() < 0.3
    template = chance.randrange(3)
    pods = [
        PodObject(
            _pod(
                chance, namespace, f"{name}-{rank}", nodes, bound=running and chance.random() < 0.8, template=template
            ),
            group.key,
            slot,
        )
        for rank, slot in enumerate(slots)
    ]
    return group, pods


def _rule(chance: random.Random) -> TopologyRule | None:
    if chance.random() < 0.7:
        return None
    return TopologyRule(mode=chance.choice(list(TopologyMode)), highest_tier=chance.choice((1, 2)))


def _pod(
    chance: random.Random,
    namespace: str,
    name: str,
    nodes: tuple[Node, ...],
    *,
    bound: bool,
    template: int | None = None,
) -> Pod:
    kind = chance.randrange(3) if template is None else template
    requests = (
        {"cpu": 1000, "memory": 1 << 30},
        {"cpu": 500, GPU: 1},
        {"cpu": chance.choice((0, 250, 3000)), "memory": 2 << 30},
    )[kind]
    phase = chance.choice((PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.PENDING, PodPhase.SUCCEEDED))
    return Pod(
        namespace,
        name,
        uid=f"uid-{namespace}-{name}",
        labels={"app": name.rpartition("-")[0], "rank": name.rpartition("-")[2]},
        node_name=chance.choice([*(node.name for node in nodes), "gone"]) if bound else "",
        phase=phase if bound else PodPhase.PENDING,
        deleting=bound and chance.random() < 0.1,
        scheduling_gates=("example.com/wait",) if not bound and chance.random() < 0.05 else (),
        tolerations=(Toleration("dedicated", "Exists"),) if kind == 1 else (),
        node_selector={"zone": "a"} if kind == 2 and name.endswith("0") else {},
        requests=ResourceVector.of(requests),
        owner="" if chance.random() < 0.2 else "Job/job",
        created_at_seconds=chance.randint(0, 50),
        started_at_seconds=60 if bound else None,
    )


def shuffled(parts: Objects, seed: int) -> Objects:
    """The same objects in another order."""
    chance = random.Random(seed)

    def mixed(rows: Iterable[object]) -> tuple[object, ...]:
        return tuple(chance.sample(list(rows), k=len(list(rows)))) if isinstance(rows, tuple) else ()

    return Objects(mixed(parts.nodes), mixed(parts.pods), mixed(parts.groups), parts.facts)  # type: ignore[arg-type]
