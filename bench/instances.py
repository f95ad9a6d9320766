"""Random clusters with gangs, so small that the best possible plan can be computed, and the core's plan for them.

Everything comes from one seed. All priorities are equal but for the preemptor of `crowded`; nobody's duration is known,
so that order, room and topology alone decide.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.policy import Policy

NOW_SECONDS = 1_000
GPU = "example.com/gpu"
Amounts = tuple[int, int]
"""Of whole CPUs, and of GPUs."""


class Kind(NamedTuple):
    """So many equal pods of a gang."""

    request: Amounts
    number: int


class Gang(NamedTuple):
    """It needs all of its pods, or at least `minimum` if it has one kind of pods alone."""

    name: str
    kinds: tuple[Kind, ...]
    minimum: int
    mode: TopologyMode | None = None
    tier: int = 1
    on: tuple[int, ...] = ()
    """The nodes of its pods, if it runs."""
    priority: int = 0

    @property
    def size(self) -> int:
        return sum(kind.number for kind in self.kinds)


class Instance(NamedTuple):
    """`rack` is that of each node, `block` that of each rack; no blocks if there is one tier alone."""

    seed: int
    nodes: tuple[Amounts, ...]
    rack: tuple[int, ...]
    block: tuple[int, ...]
    gangs: tuple[Gang, ...]

    def block_of(self, node: int) -> int:
        return self.block[self.rack[node]] if self.block else 0


def queued(seed: int) -> Instance:
    """An empty cluster, and gangs that want somewhat less to much more than there is."""
    chance = random.Random(seed)
    nodes, rack, block = _cluster(chance)
    gangs: list[Gang] = []
    asked, wanted = 0, chance.uniform(0.7, 1.6) * sum(cpu for cpu, _ in nodes)
    most = chance.randint(4, 10)
    while len(gangs) < 2 or (len(gangs) < most and asked < wanted):
        gang = _gang(chance, len(gangs), tiers=2 if block else 1)
        asked += sum(kind.request[0] * kind.number for kind in gang.kinds)
        gangs.append(gang)
    return Instance(seed, nodes, rack, block, tuple(gangs))


def crowded(seed: int) -> Instance:
    """A cluster full of gangs of low priority, rigid and elastic, and one gang of high priority that waits."""
    chance = random.Random(seed)
    nodes, rack, block = _cluster(chance)
    free = [list(amounts) for amounts in nodes]
    gangs = []
    for number in range(chance.randint(6, 16)):
        gang = _gang(chance, number, tiers=1)._replace(mode=None)
        on = _bound_at_random(chance, gang, free)
        if on is not None:
            gangs.append(gang._replace(on=on))
    first = _gang(chance, 99, tiers=2 if block else 1)
    mode = TopologyMode.HARD if chance.random() < 0.3 else None
    gangs.append(first._replace(name="first", minimum=first.size, mode=mode, priority=10))
    return Instance(seed, nodes, rack, block, tuple(gangs))


def _cluster(chance: random.Random) -> tuple[tuple[Amounts, ...], tuple[int, ...], tuple[int, ...]]:
    count = chance.randint(3, 8)
    nodes = tuple((chance.choice((4, 8, 8, 16)), chance.choice((0, 4, 8))) for _ in range(count))
    racks = chance.randint(2, max(2, count // 2))
    rack = tuple(sorted(chance.randrange(racks) for _ in range(count)))
    numbers = {old: new for new, old in enumerate(dict.fromkeys(rack))}
    rack = tuple(numbers[it] for it in rack)
    block = tuple(number // 2 for number in range(len(numbers))) if chance.random() < 0.5 else ()
    return nodes, rack, block


def _gang(chance: random.Random, number: int, tiers: int) -> Gang:
    kinds = [Kind(_request(chance), chance.randint(1, 6))]
    minimum = kinds[0].number
    if chance.random() < 0.3:
        kinds.insert(0, Kind(_request(chance), 1))
        minimum += 1
    elif chance.random() < 0.3:
        minimum = chance.randint(1, minimum)
    mode = chance.choice((None, TopologyMode.SOFT, TopologyMode.SOFT, TopologyMode.HARD))
    # Two pods of one request are one kind.
    if len({kind.request for kind in kinds}) < len(kinds):
        kinds = [Kind(kinds[0].request, sum(kind.number for kind in kinds))]
    return Gang(f"gang-{number:02}", tuple(kinds), minimum, mode, chance.randint(1, tiers))


def _request(chance: random.Random) -> Amounts:
    return chance.choice(((1, 0), (2, 0), (3, 0), (1, 1), (2, 2), (3, 1), (4, 4)))


def _bound_at_random(chance: random.Random, gang: Gang, free: list[list[int]]) -> tuple[int, ...] | None:
    """A node for each of its pods, taken from what is free; None, and nothing taken, if they do not fit."""
    left = [list(amounts) for amounts in free]
    on = []
    for kind in gang.kinds:
        for _ in range(kind.number):
            holding = [node for node, amounts in enumerate(left) if all(map(int.__ge__, amounts, kind.request))]
            if not holding:
                return None
            node = chance.choice(holding)
            left[node] = [have - need for have, need in zip(left[node], kind.request, strict=True)]
            on.append(node)
    free[:] = left
    return tuple(on)


def node_name(number: int) -> str:
    return f"node-{number}"


def plan_of(instance: Instance, policy: Policy = DEFAULT) -> Plan:
    """What the core decides."""
    world = World()
    for number, amounts in enumerate(instance.nodes):
        allocatable = _vector(amounts) + ResourceVector.of({"memory": 1 << 40, "pods": 110})
        world.set_node(Node(node_name(number), ready=True, allocatable=allocatable))
    world.set_facts(Facts(accounts=(Queue("queue"),), domains=tuple(domains(instance))))
    for age, gang in enumerate(instance.gangs):
        _add(world, gang, age)
    return cycle(world.snapshot(), policy, Memo(), NOW_SECONDS)[0]


def _vector(amounts: Amounts) -> ResourceVector:
    return ResourceVector.of({"cpu": 1_000 * amounts[0], GPU: amounts[1]})


def domains(instance: Instance) -> list[Domain]:
    found = [Domain(f"block-{number}", 2) for number in sorted(set(instance.block))]
    for rack in sorted(set(instance.rack)):
        names = tuple(node_name(node) for node, its in enumerate(instance.rack) if its == rack)
        found.append(Domain(f"rack-{rack}", 1, f"block-{instance.block[rack]}" if instance.block else None, names))
    return found


def _add(world: World, gang: Gang, age: int) -> None:
    rule = None if gang.mode is None else TopologyRule(gang.mode, highest_tier=gang.tier)
    members = SubGroup(min_count=gang.minimum, topology=rule)
    group = PodGroup(
        "default", gang.name, "queue", members=members, priority=gang.priority, created_at_seconds=900 + age
    )
    world.set_group(group, GroupStatus(started_at_seconds=900 + age if gang.on else None))
    requests = [kind.request for kind in gang.kinds for _ in range(kind.number)]
    for rank, request in enumerate(requests):
        node = node_name(gang.on[rank]) if gang.on else ""
        pod = Pod(
            "default",
            f"{gang.name}-{rank}",
            uid=f"{gang.name}-{rank}",
            owner="Job/it",
            priority=gang.priority,
            node_name=node,
            phase=PodPhase.RUNNING if node else PodPhase.PENDING,
            started_at_seconds=900 + age if node else None,
            requests=_vector(request),
        )
        world.set_pod(pod, group=group.key, slot=Slot("", ""))
