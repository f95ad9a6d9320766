"""The roll says of groups what would be found by looking at all of them again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.actions.lanes import in_order
from allhands.core.facts import Facts
from allhands.core.policy import DEFAULT
from allhands.core.roll import Roll, is_quiet
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.queue import Queue
from allhands.model.resources import ResourceVector
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.policy import Policy
    from allhands.core.snapshot import GroupEntry, Snapshot


class ByQueue:
    """An order that looks at queues."""

    name = "byqueue"
    looks_at_facts = True

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        return next((it.priority for it in snapshot.facts.accounts if it.name == entry.group.queue), 0)

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True


POLICY = msgspec.structs.replace(DEFAULT, orders=(ByQueue(), *DEFAULT.orders))


def _change(chance: random.Random, world: World) -> None:
    name = f"g{chance.randrange(12):02}"
    kind = chance.randrange(5)
    if kind == 0:
        world.delete_group(f"default/{name}")
    elif kind == 1:
        queues = tuple(Queue(name, priority=chance.randrange(3)) for name in ("a", "b"))
        world.set_facts(Facts(accounts=queues))
    elif kind == 2:
        members = SubGroup(min_count=chance.randint(1, 2))
        deadline = chance.choice((None, None, None, 500))
        group = PodGroup("default", name, chance.choice("ab"), members=members, priority=chance.randrange(2))
        world.set_group(msgspec.structs.replace(group, deadline_seconds=deadline, suspended=chance.random() < 0.1))
    else:
        pod = Pod("default", name, uid=name, requests=ResourceVector.of({"cpu": 100}))
        if chance.random() < 0.4:
            pod = msgspec.structs.replace(
                pod, node_name="node", phase=chance.choice((PodPhase.RUNNING, PodPhase.PENDING))
            )
        world.set_pod(pod, group=f"default/{name}")


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32 - 1))
def test_a_roll_that_follows_says_what_a_new_one_says(seed: int) -> None:
    _followed(seed, POLICY)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32 - 1))
def test_where_nobody_is_told_anything_only_those_are_asked_about_for_whom_something_may_be_done(seed: int) -> None:
    _followed(seed, msgspec.structs.replace(POLICY, explains=False))


def _followed(seed: int, policy: Policy) -> None:
    chance = random.Random(seed)
    world = World()
    world.set_node(Node("node", ready=True, allocatable=ResourceVector.of({"cpu": 4000, "pods": 110})))
    roll = Roll(policy)
    before: dict[str, GroupEntry] = {}
    for _ in range(12):
        for _ in range(chance.randrange(4)):
            _change(chance, world)
        snapshot = world.snapshot(lasting=chance.random() < 0.5)
        groups = dict(snapshot.groups)
        roll.follow(snapshot)
        other = {key for key, entry in groups.items() if before.get(key) is not entry}
        assert other <= set(roll.changed)
        assert set(roll.gone) <= set(before) - set(groups)
        line = roll.line()[:]
        assert list(roll.line()) == line
        assert line == in_order(line, policy, snapshot, 0)
        keys = {entry.group.key for entry in line}
        assert not keys & set(roll.open)
        asked = {key for key, entry in groups.items() if not is_quiet(entry)}
        if not policy.explains:
            asked = {key for key in asked if groups[key].pending or groups[key].unstarted}
        assert keys | set(roll.open) == asked
        assert roll.holding() == [entry for entry in groups.values() if entry.bound or entry.leaving]
        queues = {entry.group.queue for entry in line}
        assert roll.only_queue() == (next(iter(queues)) if len(queues) == 1 else None)
        before = groups
