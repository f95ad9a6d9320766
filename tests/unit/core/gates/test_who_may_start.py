"""Gates and limits: who may start at all, through whole cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.core.cycle import cycle
from allhands.core.gates.maxrunning import MaxRunning
from allhands.core.gates.minpriority import MinPriority
from allhands.core.gates.overcommit import Overcommit
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.world import World
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.core.plan import Plan

NOW = 1000


def world(groups: int, *, size: int = 2, nodes: int = 4) -> World:
    """Nodes of 4 cpu; groups of pods of 1 cpu, the first with the highest priority."""
    made = World()
    for number in range(nodes):
        amounts = {"cpu": 4000, "memory": 1 << 34, "pods": 10}
        made.set_node(Node(f"node-{number}", ready=True, allocatable=ResourceVector.of(amounts)))
    for number in range(groups):
        group = PodGroup("team", f"g{number}", "", members=SubGroup(min_count=size), priority=100 - number)
        made.set_group(group)
        for rank in range(size):
            made.set_pod(pod(number, rank), group=group.key)
    return made


def pod(group: int, rank: int, node: str = "") -> Pod:
    phase = PodPhase.RUNNING if node else PodPhase.PENDING
    requests = ResourceVector.of({"cpu": 1000})
    return Pod("team", f"g{group}-{rank}", uid=f"{group}-{rank}", node_name=node, phase=phase, requests=requests)


def decide(made: World, **changes: object) -> Plan:
    policy: Policy = msgspec.structs.replace(DEFAULT, **changes)
    return cycle(made.snapshot(), policy, Memo(), NOW)[0]


def started(plan: Plan) -> list[str]:
    return [start.group for start in plan.starts]


def why(plan: Plan, group: str) -> tuple[Reason, str]:
    (found,) = [wait.explanation for wait in plan.waits if wait.group == group]
    return found.reason, str(found)


def test_at_most_so_many_groups_run_those_of_the_same_cycle_included() -> None:
    plan = decide(world(5), limits=(MaxRunning(3),))
    assert started(plan) == ["team/g0", "team/g1", "team/g2"]
    assert why(plan, "team/g4") == (Reason.BEHIND_OTHERS, "3 groups run, and at most 3 may run at a time.")


def test_groups_that_run_already_count_once_and_may_be_completed() -> None:
    made = world(3)
    made.set_pod(pod(2, 0, "node-0"), group="team/g2")
    plan = decide(made, limits=(MaxRunning(1),))
    assert started(plan) == ["team/g2"]


def test_admitted_groups_count_and_are_placed() -> None:
    made = world(3)
    made.set_group(PodGroup("team", "g2", "", members=SubGroup(min_count=2)), GroupStatus(admitted_at_seconds=900))
    plan = decide(made, limits=(MaxRunning(1), Overcommit(1)))
    assert started(plan) == ["team/g2"]


def test_nothing_starts_while_at_most_none_may_run() -> None:
    assert started(decide(world(2), limits=(MaxRunning(0),))) == []


def test_part_of_the_cluster_is_kept_free() -> None:
    plan = decide(world(8), limits=(Overcommit(percent=50),))
    assert len(started(plan)) == 4
    reason, text = why(plan, "team/g7")
    assert reason is Reason.INSUFFICIENT_RESOURCES
    assert text == "8 of at most 8 cpu (50 % of the cluster) are taken; the group asks for 2."


def test_pods_of_others_take_their_part_of_what_may_be_used() -> None:
    made = world(8)
    foreign = Pod("other", "x", uid="x", node_name="node-0", requests=ResourceVector.of({"cpu": 3000}))
    made.set_pod(foreign, ours=False)
    assert len(started(decide(made, limits=(Overcommit(percent=50),)))) == 2


def test_more_than_the_cluster_may_be_promised_but_not_placed() -> None:
    assert len(started(decide(world(20), limits=(Overcommit(percent=300),)))) == 8


def test_all_limits_must_agree() -> None:
    assert len(started(decide(world(8), limits=(Overcommit(percent=50), MaxRunning(2))))) == 2


def test_only_groups_of_some_priority_start() -> None:
    plan = decide(world(4), gates=(MinPriority(99),))
    assert started(plan) == ["team/g0", "team/g1"]
    reason, text = why(plan, "team/g3")
    assert reason is Reason.QUEUE_HELD
    assert text == "Only groups of priority 99 or higher start now; this one has 97."


def test_a_group_that_has_begun_is_completed_whatever_its_priority() -> None:
    made = world(2)
    made.set_pod(pod(1, 0, "node-0"), group="team/g1")
    assert started(decide(made, gates=(MinPriority(1000),))) == ["team/g1"]
