"""A small cluster in virtual time for scenarios of preemption: pods end, leave after their grace and are made again.

Everything is deterministic: one step is one cycle and `STEP_SECONDS`. Victims that have an owner come back as new pods;
bare ones are gone for ever. What a plan holds is remembered in the status of groups, as the runtime would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from allhands.core.actions.allocate import Allocate
from allhands.core.actions.preempt import Preempt
from allhands.core.calendar.calendar import Calendar
from allhands.core.charges import Charges, charges_of
from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Policy
from allhands.core.work import Work
from allhands.core.world import NO_SLOT, World
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.plan import Evict, Plan, Start
    from allhands.core.snapshot import Snapshot
    from allhands.model.domain import Domain
    from allhands.model.queue import Account, Queue

STEP_SECONDS = 10
POLICY = DEFAULT


class Desk(NamedTuple):
    """What decides about one group, for tests that look closer than a plan does."""

    work: Work
    charges: Charges
    allocate: Allocate
    preempt: Preempt


def desk(snapshot: Snapshot, policy: Policy = POLICY, now: int = 0) -> Desk:
    work = Work(snapshot, policy, Memo(), now)
    charges = charges_of(work)
    calendar = Calendar(work)
    allocate = Allocate(work, charges.book, calendar, charges.tenants)
    return Desk(work, charges, allocate, Preempt(work, allocate, charges.book, calendar, charges.tenants))


def decide(snapshot: Snapshot, policy: Policy = POLICY, now: int = 0) -> Plan:
    """What a cycle decides that remembers nothing."""
    return cycle(snapshot, policy, Memo(), now)[0]


class Member(NamedTuple):
    pod: Pod
    group: str
    slot: Slot


class Cluster:
    """Nodes, queues, gangs, and a clock. `step` decides once and lets everything happen that follows."""

    def __init__(self, *, policy: Policy = POLICY, leave_after: int = 1, stagger: bool = False) -> None:
        """Victims are gone `leave_after` steps after their eviction; with `stagger` each a step later than the last."""
        self.world = World()
        self.policy = policy
        self.now = 1_000_000
        self.leave_after = leave_after
        self.stagger = stagger
        self.memo = Memo()
        self.evictions: list[list[Evict]] = []
        self.starts: list[list[str]] = []
        self.plans: list[Plan] = []
        self._pods: dict[str, Member] = {}
        self._groups: dict[str, PodGroup] = {}
        self._status: dict[str, GroupStatus] = {}
        self._leaves_at: dict[str, int] = {}
        self._ends_at: dict[str, int] = {}
        self._seconds: dict[str, int] = {}
        self._steps = 0
        self._serial = 0

    def nodes(
        self, count: int, *, first: int = 0, labels: Mapping[str, str] | None = None, **resources: int
    ) -> Cluster:
        for number in range(first, first + count):
            amounts = {"cpu": 1_000_000, "memory": 1 << 40, "pods": 110, **resources}
            self.world.set_node(Node(f"n{number:03d}", labels=labels or {}, allocatable=ResourceVector.of(amounts)))
        return self

    def facts(self, *accounts: Account | Queue, domains: Iterable[Domain] = (), **more: object) -> Cluster:
        self.world.set_facts(Facts(accounts=accounts, domains=tuple(domains), **more))  # type: ignore[arg-type]
        return self

    def gang(
        self,
        name: str,
        count: int,
        *,
        queue: str = "q",
        minimum: int | None = None,
        on: Iterable[str] = (),
        ran: int = 600,
        ends_after: int | None = None,
        parts: Iterable[str] = (),
        shape: Mapping[str, object] | None = None,
        owner: str = "Job/it",
        group: Mapping[str, object] | None = None,
        others: Iterable[Mapping[str, int]] = (),
        **resources: int,
    ) -> Cluster:
        """`on` are the nodes of the members that run already, for `ran` seconds; the others wait.

        `others` are what the last members ask for, where they are not like the first.
        """
        own = {"members": SubGroup(min_count=count if minimum is None else minimum), **(group or {})}
        made = PodGroup("default", name, queue, created_at_seconds=self.now, **own)  # type: ignore[arg-type]
        self._groups[made.key] = made
        nodes, subgroups = list(on), list(parts)
        status = NO_STATUS if not nodes else GroupStatus(started_at_seconds=self.now - ran)
        self._set_status(made.key, status)
        requests = [resources] * count
        for number, other in enumerate(others, 1):
            requests[-number] = dict(other)
        for number in range(count):
            node = nodes[number] if number < len(nodes) else ""
            pod = Pod(
                "default",
                f"{name}-{number}",
                uid=f"{name}-{number}",
                node_name=node,
                priority=made.priority,
                phase=PodPhase.RUNNING if node else PodPhase.PENDING,
                requests=ResourceVector.of(requests[number]),
                created_at_seconds=self.now - ran,
                started_at_seconds=self.now - ran if node else None,
                owner=owner,
                **(shape or {}),  # type: ignore[arg-type]
            )
            self._put(Member(pod, made.key, Slot(subgroups[number], "") if subgroups else NO_SLOT))
        if ends_after is not None:
            self._seconds[made.key] = ends_after
        return self

    def snapshot(self) -> Snapshot:
        return self.world.snapshot()

    def decide(self) -> Plan:
        """The plan of this moment; nothing happens."""
        return decide(self.snapshot(), self.policy, self.now)

    def desk(self) -> Desk:
        return desk(self.snapshot(), self.policy, self.now)

    def step(self) -> Plan:
        """One cycle, and what follows from it."""
        plan, self.memo = cycle(self.snapshot(), self.policy, self.memo, self.now)
        self.plans.append(plan)
        self.evictions.append(list(plan.evictions))
        self.starts.append([start.group for start in plan.starts])
        for start in plan.starts:
            self._bind(start)
        for number, evict in enumerate(plan.evictions):
            self._leave(evict, self.leave_after + (number if self.stagger else 0))
        for hold in plan.holds:
            if not hold.awaits_leaving:
                continue
            known = self._status[hold.group]
            if known.preempting_since_seconds is None or any(it.for_group == hold.group for it in plan.evictions):
                known = msgspec.structs.replace(known, preempting_since_seconds=self.now)
            self._set_status(hold.group, msgspec.structs.replace(known, nominated_nodes=hold.nodes))
        self._steps += 1
        self.now += STEP_SECONDS
        self._let_go()
        return plan

    def run(self, steps: int) -> Cluster:
        for _ in range(steps):
            self.step()
        return self

    # -- what can be asked

    @property
    def evicted(self) -> list[str]:
        """Pods, in the order of their eviction."""
        return [evict.pod.partition("/")[2] for evicts in self.evictions for evict in evicts]

    def running(self, name: str) -> int:
        """How many members run and are not leaving."""
        return sum(
            1
            for uid, it in self._pods.items()
            if it.group == f"default/{name}" and it.pod.node_name and uid not in self._leaves_at
        )

    def where(self, name: str) -> list[str]:
        return sorted(
            it.pod.node_name for it in self._pods.values() if it.group == f"default/{name}" and it.pod.node_name
        )

    def bound(self) -> list[Member]:
        return [it for it in self._pods.values() if it.pod.node_name]

    def finish(self, name: str) -> None:
        """It ends: its pods are gone and do not come back."""
        for uid in [uid for uid, it in self._pods.items() if it.group == f"default/{name}"]:
            self._remove(uid)
        self._groups.pop(f"default/{name}")
        self.world.delete_group(f"default/{name}")

    # -- what happens

    def _set_status(self, key: str, status: GroupStatus) -> None:
        self._status[key] = status
        self.world.set_group(self._groups[key], status)

    def _put(self, it: Member) -> None:
        self._pods[it.pod.uid] = it
        self.world.set_pod(it.pod, group=it.group, slot=it.slot)

    def _remove(self, uid: str) -> Member:
        it = self._pods.pop(uid)
        self._leaves_at.pop(uid, None)
        self._ends_at.pop(uid, None)
        self.world.delete_pod(uid)
        return it

    def _bind(self, start: Start) -> None:
        for bind in start.binds:
            it = self._pods[bind.uid]
            assert not it.pod.node_name, f"{bind.pod} is bound twice"
            self._put(
                it._replace(
                    pod=msgspec.structs.replace(
                        it.pod, node_name=bind.node, phase=PodPhase.RUNNING, started_at_seconds=self.now
                    )
                )
            )
            if start.group in self._seconds:
                self._ends_at[bind.uid] = self.now + self._seconds[start.group]
        known = self._status[start.group]
        self._set_status(
            start.group,
            msgspec.structs.replace(
                known,
                started_at_seconds=self.now if not known.started_at_seconds else known.started_at_seconds,
                preempting_since_seconds=None,
                nominated_nodes=(),
            ),
        )

    def _leave(self, evict: Evict, after: int) -> None:
        assert evict.uid not in self._leaves_at, f"{evict.pod} is evicted twice"
        it = self._pods[evict.uid]
        self._leaves_at[evict.uid] = self._steps + after
        self._put(it._replace(pod=msgspec.structs.replace(it.pod, deleting=True)))

    def _let_go(self) -> None:
        for uid in [uid for uid, at in self._ends_at.items() if at <= self.now and uid not in self._leaves_at]:
            self._remove(uid)
        for uid in [uid for uid, at in self._leaves_at.items() if at < self._steps]:
            it = self._remove(uid)
            if it.pod.owner and it.group in self._groups:
                self._serial += 1
                again = msgspec.structs.replace(
                    it.pod,
                    uid=f"{it.pod.name}~{self._serial}",
                    node_name="",
                    phase=PodPhase.PENDING,
                    deleting=False,
                    started_at_seconds=None,
                    created_at_seconds=self.now,
                )
                self._put(it._replace(pod=again))
