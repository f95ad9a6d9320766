"""Small worlds in numbers: nodes by their cores, running groups by where they are and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.actions.allocate import Allocate, Demand
from allhands.core.calendar.calendar import Calendar
from allhands.core.charges import charges_of
from allhands.core.facts import Facts, Reservation
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.work import Work
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.queue import Queue
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.core.gang import Part
    from allhands.core.snapshot import GroupEntry

NOW = 1000


class Rooms:
    def __init__(self, *cores: int, windows: tuple[Reservation, ...] = ()) -> None:
        """Nodes n0, n1 ... with so many cores."""
        self.world = World()
        for number, amount in enumerate(cores):
            room = ResourceVector.of({"cpu": amount, "memory": 100, "pods": 20})
            self.world.set_node(Node(f"n{number}", ready=True, allocatable=room))
        self.world.set_facts(Facts(accounts=(Queue("q"),), reservations=windows))

    def run(self, name: str, *nodes: int, cores: int = 1, since: int = NOW, seconds: int | None = None) -> Rooms:
        """A group that runs, with a pod on each of these nodes."""
        return self._put(name, [f"n{node}" for node in nodes], len(nodes), cores, since, seconds)

    def wait(self, name: str, pods: int = 1, *, cores: int = 1, seconds: int | None = None) -> Rooms:
        return self._put(name, [], pods, cores, NOW, seconds)

    def _put(self, name: str, nodes: list[str], pods: int, cores: int, since: int, seconds: int | None) -> Rooms:
        members = SubGroup(min_count=pods)
        group = PodGroup("ns", name, "q", members=members, expected_duration_seconds=seconds)
        self.world.set_group(group)
        for number in range(pods):
            pod = Pod(
                "ns",
                f"{name}-{number}",
                uid=f"{name}-{number}",
                node_name=nodes[number] if nodes else "",
                phase=PodPhase.RUNNING if nodes else PodPhase.PENDING,
                started_at_seconds=since if nodes else None,
                requests=ResourceVector.of({"cpu": cores}),
            )
            self.world.set_pod(pod, group=group.key)
        return self

    def work(self, policy: Policy = DEFAULT) -> Work:
        return Work(self.world.snapshot(), policy, Memo(), NOW)


def waiting(work: Work, name: str) -> GroupEntry:
    return work.snapshot.groups[f"ns/{name}"]


def part_of(work: Work, name: str) -> Part:
    demand = Allocate(work, charges_of(work).book, Calendar(work)).demand(waiting(work, name))
    assert isinstance(demand, Demand)
    return demand.part
