"""Decision-only simulation: the scheduling core on a trace, driven by a heap of arrivals and ends. No API objects.

It is no second scheduler: who starts, and when, is decided by `core.cycle` alone, which sees the same World that it
sees in a cluster. This module only lets time pass, tells the world what happened, and carries plans out at once.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.world import World
from allhands.model.group_status import GroupStatus, Said
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.queue import Queue
from allhands.model.reason import Reason, explain
from allhands.sim.disciplines import Discipline, Redecides
from allhands.sim.history import History, Moment, Ran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.core.plan import Bind, Hold, Plan
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot
    from allhands.model.resources import ResourceVector
    from allhands.sim.machine import Machine
    from allhands.sim.traces.job import TraceJob

QUEUE: Final = "trace"
NAMESPACE: Final = "trace"
COMMITTED_PRIORITY: Final = 1


class _Live:
    """A job that has come and not ended."""

    __slots__ = (
        "group",
        "is_running",
        "job",
        "key",
        "left_seconds",
        "pods",
        "preemptions",
        "run",
        "run_since_seconds",
        "started",
    )

    def __init__(self, job: TraceJob, group: PodGroup, pods: tuple[Pod, ...]) -> None:
        self.job = job
        self.group = group
        self.key = group.key
        self.pods = pods
        self.left_seconds = job.run_seconds
        self.is_running = False
        self.run = 0
        """Which run it is in; the end of an older one means nothing."""
        self.run_since_seconds = 0
        self.started: int | None = None
        self.preemptions = 0


class DecisionSimulator:
    """One replay. `check` is called with every snapshot, its plan and the time; `progress` with how many jobs ended."""

    def __init__(
        self,
        machine: Machine,
        discipline: Discipline,
        *,
        check: Callable[[Snapshot, Plan, int], None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._machine = machine
        self._is_committing = discipline.redecides is Redecides.COMMITTED
        if not self._is_committing:
            # Nobody looks at promises that nobody comes to break.
            quick = msgspec.structs.replace(discipline.policy, tells_promises=False)
            discipline = msgspec.structs.replace(discipline, policy=quick)
        self._discipline = discipline
        self._check = check
        self._progress = progress
        self._world = World()
        self._memos: dict[int, Memo] = {}
        self._now = 0
        self._cycles = 0
        self._asked: dict[int, tuple[int, ResourceVector, SubGroup]] = {}
        """By width: how many pods a job has, what each asks for, and how many must start together."""
        self._live: dict[str, _Live] = {}
        self._ends: list[tuple[int, int, str]] = []
        """(time, run, key); the number of the run keeps the order in which they began."""
        self._has_news = False
        self._serial = 0
        self._used = 0
        self._waiting = 0
        self._waiting_width = 0
        self._committed = ""
        self._late: dict[str, _Live] = {}
        """Where the first is committed to: who runs and will take longer than it said."""
        self._ran: list[Ran] = []
        self._moments: list[Moment] = []
        for node in machine.all_nodes():
            self._world.set_node(node)
        self._world.set_facts(Facts(accounts=(Queue(QUEUE, order=discipline.order),)))

    def run(self, jobs: Iterable[TraceJob]) -> History:
        """Replays the jobs by their time of submission, those of one moment in the order given."""
        arriving = sorted(jobs, key=lambda job: job.submit_seconds)
        too_wide = tuple(job for job in arriving if job.width > self._machine.units)
        arriving = [job for job in arriving if job.width <= self._machine.units]
        position = 0
        while position < len(arriving) or self._ends:
            following = self._ends[0][0] if self._ends else None
            if position < len(arriving):
                submit = arriving[position].submit_seconds
                following = submit if following is None else min(submit, following)
            assert following is not None
            self._now = following
            self._has_news = False
            position = self._happen(arriving, position)
            if self._has_news:
                self._decide()
                self._note()
        unfinished = tuple(live.job for live in self._live.values())
        return History(
            self._machine,
            self._discipline.name,
            tuple(self._ran),
            too_wide,
            unfinished,
            tuple(self._moments),
            self._cycles,
        )

    # -- what happens

    def _happen(self, arriving: Sequence[TraceJob], position: int) -> int:
        """Everything of this moment: who comes, then who ends; or just the first of it."""
        while position < len(arriving) and arriving[position].submit_seconds <= self._now:
            self._arrive(arriving[position], position)
            position += 1
            if self._is_committing:
                return position
        while self._ends and self._ends[0][0] <= self._now:
            _, number, key = heapq.heappop(self._ends)
            live = self._live.get(key)
            if live is not None and live.is_running and live.run == number:
                self._end(live)
                if self._is_committing:
                    break
        return position

    def _arrive(self, job: TraceJob, position: int) -> None:
        self._has_news = True
        asked = self._asked.get(job.width)
        if asked is None:
            count, requests = self._machine.pods_of(job.width)
            asked = self._asked[job.width] = (count, requests, SubGroup(min_count=count))
        count, requests, members = asked
        name = f"{position:08d}"
        group = PodGroup(
            NAMESPACE,
            name,
            QUEUE,
            members=members,
            created_at_seconds=job.submit_seconds,
            expected_duration_seconds=job.expected_seconds,
        )
        pods = tuple(
            Pod(
                NAMESPACE,
                pod_name := name if count == 1 else f"{name}-{number}",
                uid=pod_name,
                requests=requests,
                created_at_seconds=job.submit_seconds,
                owner="Job/trace",
            )
            for number in range(count)
        )
        live = _Live(job, group, pods)
        self._live[live.key] = live
        self._world.set_group(group)
        for pod in pods:
            self._world.set_pod(pod, group=live.key)
        self._waiting += 1
        self._waiting_width += job.width

    def _end(self, live: _Live) -> None:
        self._has_news = True
        self._used -= live.job.width
        for pod in live.pods:
            self._world.delete_pod(pod.uid)
        self._world.delete_group(live.key)
        del self._live[live.key]
        self._late.pop(live.key, None)
        assert live.started is not None
        self._ran.append(Ran(live.job, live.started, self._now, live.preemptions))
        if self._progress is not None:
            self._progress(len(self._ran))

    def _note(self) -> None:
        moment = Moment(self._now, self._used, self._waiting, self._waiting_width)
        if self._moments and self._moments[-1].at_seconds == self._now:
            self._moments[-1] = moment
        else:
            self._moments.append(moment)

    # -- what is decided

    def _decide(self) -> None:
        """One cycle decides all that can be decided now; a second one, who may pass the one that is committed to."""
        if not self._waiting:
            return
        if self._discipline.redecides is Redecides.EVERYTHING:
            self._redecide()
            return
        self._expect_late_ends()
        plan = self._cycle(self._discipline.policy)
        self._commit(plan.holds)
        passing = self._discipline.passing
        if self._committed and passing is not None:
            self._cycle(passing)

    def _cycle(self, policy: Policy) -> Plan:
        """One cycle, carried out. Each policy has a memo of its own, which says nothing about the other."""
        # Who checks may keep what it is shown; otherwise nothing reads it any more when the world moves on.
        snapshot = self._world.snapshot(lasting=self._check is not None)
        memo = self._memos.get(id(policy)) or Memo()
        plan, self._memos[id(policy)] = cycle(snapshot, policy, memo, self._now)
        self._cycles += 1
        if self._check is not None:
            self._check(snapshot, plan, self._now)
        if self._discipline.redecides is not Redecides.EVERYTHING:
            for start in plan.starts:
                self._bind(self._live[start.group], start.binds)
        return plan

    def _bind(self, live: _Live, binds: Sequence[Bind]) -> None:
        nodes = {bind.uid: bind.node for bind in binds}
        for pod in live.pods:
            running = msgspec.structs.replace(
                pod, node_name=nodes[pod.uid], phase=PodPhase.RUNNING, started_at_seconds=self._now
            )
            self._world.set_pod(running, group=live.key)
        if live.key == self._committed:
            self._committed = ""
            self._world.set_group(live.group)
        self._begin(live)
        self._count(live, 1)
        if self._is_committing and live.job.expected_seconds < live.job.run_seconds:
            self._late[live.key] = live

    def _begin(self, live: _Live) -> None:
        self._serial += 1
        live.is_running, live.run, live.run_since_seconds = True, self._serial, self._now
        live.started = self._now if live.started is None else live.started
        heapq.heappush(self._ends, (self._now + live.left_seconds, self._serial, live.key))

    def _expect_late_ends(self) -> None:
        """Who has outlived what it said is expected to end at once, as the rule has it; the core would double it."""
        for live in self._late.values():
            ran = self._now - live.run_since_seconds
            if ran >= live.job.expected_seconds:
                live.group = msgspec.structs.replace(live.group, expected_duration_seconds=ran + 1)
                self._world.set_group(live.group)

    def _commit(self, holds: Sequence[Hold]) -> None:
        """Keeps the first that did not fit in its place, and what it was told about its start."""
        if not self._is_committing or self._committed or not holds:
            return
        hold = holds[0]
        live = self._live[hold.group]
        self._committed = live.key
        raised = msgspec.structs.replace(live.group, priority=COMMITTED_PRIORITY)
        said = Said(explain(Reason.ROOM_RESERVED, owner=live.key), hold.start_seconds)
        self._world.set_group(raised, GroupStatus(said=said))

    # -- ideal preemption

    def _redecide(self) -> None:
        """Who runs from now on, of all who are there. In the world they all wait, on a machine that is empty.

        So the core decides as if everything had been taken back, which costs nothing here; who is chosen and ran
        before simply goes on, and nobody loses what it has done.
        """
        running = [live for live in self._live.values() if live.is_running]
        for live in running:
            self._progressed(live)
        plan = self._cycle(self._discipline.policy)
        chosen = {start.group for start in plan.starts}
        for live in running:
            if live.key not in chosen:
                live.is_running = False
                live.preemptions += 1
                self._count(live, -1)
        for start in plan.starts:
            live = self._live[start.group]
            if not live.is_running:
                self._begin(live)
                self._count(live, 1)

    def _progressed(self, live: _Live) -> None:
        """What it has left to do is what it is judged by."""
        done = self._now - live.run_since_seconds
        if done <= 0:
            return
        live.left_seconds -= done
        live.run_since_seconds = self._now
        expected = max(1, (live.group.expected_duration_seconds or 0) - done)
        live.group = msgspec.structs.replace(live.group, expected_duration_seconds=expected)
        self._world.set_group(live.group)

    def _count(self, live: _Live, sign: int) -> None:
        """One more that runs, or one less."""
        self._used += sign * live.job.width
        self._waiting -= sign
        self._waiting_width -= sign * live.job.width
