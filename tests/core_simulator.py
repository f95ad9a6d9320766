"""A cluster in virtual time, driven by events: jobs come, run for as long as they really take, and end.

After every moment at which something happened, and whenever the core asked to be woken, one cycle is run and its plan
carried out: starts at once, evicted pods after their grace (those with an owner are made again, and their group starts
over). It records when groups started, ended, and when they had been told to expect it. Everything is deterministic.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.world import NO_SLOT, World
from allhands.model.group_status import NO_STATUS, GroupStatus, Said
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allhands.core.facts import Facts
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

GRACE_SECONDS = 30


class Task(NamedTuple):
    """Members that are alike."""

    number: int
    requests: ResourceVector
    slot: Slot = NO_SLOT


class Job(NamedTuple):
    """A group, its pods, and how long it really runs once it is whole (None: until the end of the simulation)."""

    group: PodGroup
    tasks: tuple[Task, ...]
    real_seconds: int | None


class Told(NamedTuple):
    """At `at`, the group heard that it would start at `start` (None: that nobody knows)."""

    at: int
    start: int | None
    because_of: str


def job(
    name: str,
    count: int = 1,
    *,
    seconds: int | None,
    estimate: int | None = None,
    created: int = 0,
    queue: str = "q",
    priority: int = 0,
    members: SubGroup | None = None,
    deadline: int | None = None,
    **requests: int,
) -> Job:
    """A gang of `count` pods that really runs for `seconds` and says that it takes `estimate`."""
    group = PodGroup(
        "default",
        name,
        queue,
        members=SubGroup(min_count=count) if members is None else members,
        priority=priority,
        created_at_seconds=created,
        expected_duration_seconds=estimate,
        deadline_seconds=deadline,
    )
    return Job(group, (Task(count, ResourceVector.of(requests)),), seconds)


def node(name: str, **amounts: int) -> Node:
    return Node(name, ready=True, allocatable=ResourceVector.of({"memory": 1 << 40, "pods": 110, **amounts}))


class Simulator:
    def __init__(
        self,
        nodes: Iterable[Node],
        facts: Facts,
        *,
        policy: Policy = DEFAULT,
        check: Callable[[Snapshot, Plan, int], None] | None = None,
    ) -> None:
        """`check` is called with every snapshot, its plan and the time."""
        self.world = World()
        self.policy = policy
        self.now = 0
        self.cycles = 0
        self.started: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self.told: dict[str, list[Told]] = {}
        self.evicted: list[str] = []
        self.memo = Memo()
        self.plan: Plan | None = None
        self._check = check
        self._jobs: dict[str, Job] = {}
        self._status: dict[str, GroupStatus] = {}
        self._pods: dict[str, tuple[Pod, str, Slot]] = {}
        self._events: list[tuple[int, int, str, str]] = []
        """(time, serial, what, whose); the serial keeps the order of events of one moment."""
        self._serial = 0
        self._attempt: dict[str, int] = {}
        self._arriving: dict[str, Job] = {}
        for it in nodes:
            self.world.set_node(it)
        self.world.set_facts(facts)

    def submit(self, *jobs: Job) -> Simulator:
        """Each comes at the time at which it says it was created."""
        for it in jobs:
            self._arriving[it.group.key] = it
            self._at(it.group.created_at_seconds, "arrive", it.group.key)
        return self

    def run(self, until: int) -> Simulator:
        """Lets time pass; nothing happens after `until`."""
        while True:
            wake = self.memo.wakes_at if self.cycles else self.now
            following = min(
                (time for time in (wake, self._events[0][0] if self._events else None) if time is not None),
                default=None,
            )
            if following is None or following > until:
                self.now = until
                return self
            self.now = max(self.now, following)
            while self._events and self._events[0][0] <= self.now:
                _, _, what, whose = heapq.heappop(self._events)
                getattr(self, f"_{what}")(whose)
            self.step()

    def step(self) -> Plan:
        """One cycle, carried out; cycles go on at this moment as long as they start something."""
        while True:
            snapshot = self.world.snapshot()
            plan, self.memo = cycle(snapshot, self.policy, self.memo, self.now)
            self.plan = plan
            self.cycles += 1
            if self._check is not None:
                self._check(snapshot, plan, self.now)
            self._carry_out(plan)
            if not plan.starts:
                return plan

    def wait_of(self, name: str) -> int | None:
        """How long a group waited; None if it has not started."""
        key = f"default/{name}"
        return self.started[key] - self._jobs[key].group.created_at_seconds if key in self.started else None

    def errors(self) -> list[int]:
        """For every group that waited and was given a time when it first was: by how many seconds that was wrong."""
        return [
            abs(self.started[key] - first.start)
            for key, told in sorted(self.told.items())
            if key in self.started and (first := told[0]).start is not None
        ]

    # -- events

    def _at(self, time: int, what: str, whose: str) -> None:
        self._serial += 1
        heapq.heappush(self._events, (time, self._serial, what, whose))

    def _arrive(self, key: str) -> None:
        self._jobs[key] = it = self._arriving.pop(key)
        self._set_status(key, NO_STATUS)
        number = 0
        for task in it.tasks:
            for _ in range(task.number):
                self._make_pod(key, f"{it.group.name}-{number}", task)
                number += 1

    def _end(self, whose: str) -> None:
        key, _, attempt = whose.partition("#")
        if self._attempt.get(key) != int(attempt):
            return
        self.ended[key] = self.now
        for uid in [uid for uid, (_, group, _) in self._pods.items() if group == key]:
            del self._pods[uid]
            self.world.delete_pod(uid)
        self.world.delete_group(key)
        del self._status[key], self._attempt[key]

    def _leave(self, uid: str) -> None:
        if uid not in self._pods:
            return
        pod, key, slot = self._pods.pop(uid)
        self.world.delete_pod(uid)
        if pod.owner:
            self._make_pod(key, pod.name, Task(1, pod.requests, slot))

    # -- plans

    def _carry_out(self, plan: Plan) -> None:
        for start in plan.starts:
            for bind in start.binds:
                pod, key, slot = self._pods[bind.uid]
                assert not pod.node_name, f"{bind.pod} is bound twice"
                running = {"node_name": bind.node, "phase": PodPhase.RUNNING, "started_at_seconds": self.now}
                self._put(msgspec.structs.replace(pod, **running), key, slot)
            self._started(start.group)
        for evict in plan.evictions:
            pod, key, slot = self._pods[evict.uid]
            self.evicted.append(evict.pod)
            self._put(msgspec.structs.replace(pod, deleting=True), key, slot)
            grace = GRACE_SECONDS if evict.grace_seconds is None else evict.grace_seconds
            self._at(self.now + grace, "leave", evict.uid)
            self._attempt.pop(key, None)
            self._set_status(key, msgspec.structs.replace(self._status[key], started_at_seconds=None))
        for release in plan.releases:
            known = self._status[release.group]
            retry = {"retry_at_seconds": release.retry_at_seconds, "avoid_nodes": release.avoid_nodes}
            self._set_status(
                release.group,
                msgspec.structs.replace(known, failed_starts=known.failed_starts + 1, **retry),
            )
        evicting = {evict.for_group for evict in plan.evictions}
        for hold in plan.holds:
            if hold.awaits_leaving:
                since = self._status[hold.group].preempting_since_seconds
                since = self.now if since is None or hold.group in evicting else since
                fields = {"preempting_since_seconds": since, "nominated_nodes": hold.nodes}
                self._set_status(hold.group, msgspec.structs.replace(self._status[hold.group], **fields))
        for wait in plan.waits:
            if wait.say and wait.group in self._status:
                said = Said(wait.explanation, wait.expected_start_seconds)
                self._set_status(wait.group, msgspec.structs.replace(self._status[wait.group], said=said))
                told = Told(self.now, wait.expected_start_seconds, wait.unknown_because_of)
                self.told.setdefault(wait.group, []).append(told)

    def _started(self, key: str) -> None:
        if key in self._attempt:
            return
        self.started.setdefault(key, self.now)
        self._serial += 1
        self._attempt[key] = self._serial
        fresh = {"started_at_seconds": self.now, "preempting_since_seconds": None, "nominated_nodes": ()}
        self._set_status(key, msgspec.structs.replace(self._status[key], **fresh))
        seconds = self._jobs[key].real_seconds
        if seconds is not None:
            self._at(self.now + seconds, "end", f"{key}#{self._attempt[key]}")

    # -- objects

    def _set_status(self, key: str, status: GroupStatus) -> None:
        self._status[key] = status
        self.world.set_group(self._jobs[key].group, status)

    def _make_pod(self, key: str, name: str, task: Task) -> None:
        self._serial += 1
        made = Pod(
            "default",
            name,
            uid=f"{name}~{self._serial:06d}",
            priority=self._jobs[key].group.priority,
            requests=task.requests,
            created_at_seconds=self.now,
            owner="Job/it",
        )
        self._put(made, key, task.slot)

    def _put(self, pod: Pod, key: str, slot: Slot) -> None:
        self._pods[pod.uid] = (pod, key, slot)
        self.world.set_pod(pod, group=key, slot=slot)
