"""What the scheduler counts, under the names of `metric_families`. It only looks on: nothing here changes a decision.

Durations are differences of the loop's time, so that a simulation counts the same each time. What changes with every
event (how many wait, how much is held) is counted when somebody reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.plan import NOTHING
from allhands.model.resources import CPU, MEMORY
from allhands.runtime.metrics import Unmeasured

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from allhands.core.plan import Evict, Plan, Start
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.model.reason import Reason
    from allhands.ports import Clock, Metrics
    from allhands.runtime.scheduling.watched_world import WatchedWorld


_ATTEMPT_SECONDS: Final = (
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
)
"""By groups, and by their pods."""


class Attempt(NamedTuple):
    """A start on its way: since when, and when its group was told that it would start, if this is its first."""

    began_at: float
    expected_seconds: int | None = None
    created_seconds: int | None = None


MOST_HELD: Final = 1 << 14
"""So many pods of starts that went well wait at most to be counted."""


class _Ended(NamedTuple):
    """A start that went well at the first attempt, by the loop's time."""

    start: Start
    attempt: Attempt
    at: float


class SchedulingMeasures:
    """`paused` are the groups that are not tried for a moment; whoever pauses them says so."""

    def __init__(self, metrics: Metrics, watched: WatchedWorld, clock: Clock, profile: str) -> None:
        self._metrics = metrics
        self._watched = watched
        self._clock = clock
        self._profile = profile
        self._is_read = not isinstance(metrics, Unmeasured)
        self._began_at = 0.0
        self._told: Plan = NOTHING
        self._reasons: dict[str, Reason] = {}
        """Group -> why it waits, as it was last counted."""
        self._failures: dict[str, int] = {}
        """Group -> how often it could not be bound."""
        self._attempts: dict[str, Attempt] = {}
        """Groups whose start is on its way."""
        self._ended: list[_Ended] = []
        """To be counted together, once there is time: there may be a thousand a second, and others wait to be bound."""
        self._ended_pods = 0
        self._snapshot: Snapshot | None = None
        self.paused: Container[str] = ()
        metrics.refresh_with("scheduler", self._refresh)

    # -- cycles

    def begun(self, snapshot: Snapshot, began_at: float) -> None:
        """What a cycle sees, and when it began."""
        self._began_at = began_at
        if self._is_read:
            self._snapshot = snapshot

    def cycle(self, began_at: float, snapshot_at: float, decided_at: float, *, tells: bool) -> None:
        """When it began, had its snapshot, and had decided."""
        seconds = decided_at - snapshot_at
        metrics = self._metrics
        metrics.count("allhands_cycles_total", sort="telling" if tells else "quick")
        metrics.observe("scheduler_scheduling_algorithm_duration_seconds", seconds)
        metrics.observe("volcano_e2e_scheduling_latency_milliseconds", (decided_at - began_at) * 1000)
        metrics.observe("allhands_cycle_step_seconds", snapshot_at - began_at, step="snapshot")
        metrics.observe("allhands_cycle_step_seconds", seconds, step="decide")

    def handed_over(self, seconds: float) -> None:
        self._metrics.observe("allhands_cycle_step_seconds", seconds, step="hand over")

    def planned(self, plan: Plan, snapshot: Snapshot, *, tells: bool) -> None:
        """Before it is carried out."""
        if not self._is_read:
            return
        victims = Counter(evict.for_group or evict.group for evict in plan.evictions)
        for count in victims.values():
            self._metrics.observe("scheduler_preemption_victims", count)
            self._metrics.count("scheduler_preemption_attempts_total")
        if tells:
            self._count_waits(plan, snapshot)

    def _count_waits(self, plan: Plan, snapshot: Snapshot) -> None:
        """A group that waits for the same reason as before has not been tried anew, and one without pods not at all."""
        self._told = plan
        before, self._reasons = self._reasons, {wait.group: wait.explanation.reason for wait in plan.waits}
        seconds = asyncio.get_running_loop().time() - self._began_at
        for group, reason in self._reasons.items():
            entry = snapshot.groups.get(group)
            if entry is not None and entry.pending and before.get(group) is not reason:
                self._attempted("unschedulable", _waiting_pods(entry), seconds)
        if self._failures:
            self._failures = {group: count for group, count in self._failures.items() if group in snapshot.groups}

    # -- starts

    def taken(self, start: Start) -> None:
        """The executor has taken it over; it ends as refused or as started."""
        if not self._is_read:
            return
        entry = None if self._snapshot is None else self._snapshot.groups.get(start.group)
        expected = created = None
        if entry is not None and not entry.present:
            said = entry.status.said
            expected = said.expected_start_seconds if said is not None else None
            created = entry.group.created_at_seconds
        self._attempts[start.group] = Attempt(self._began_at, expected, created)

    def refused(self, start: Start) -> None:
        """It was stale, or could not be prepared."""
        if (attempt := self._attempts.pop(start.group, None)) is None:
            return
        self._failures[start.group] = self._failures.get(start.group, 0) + 1
        self._metrics.count("allhands_starts_refused_total")
        self._attempted("error", len(start.binds), self._since(attempt))

    def started(self, start: Start, done: Sequence[bool]) -> None:
        """Which of its binds were done."""
        group = start.group
        if (attempt := self._attempts.pop(group, None)) is None:
            return
        if attempt.expected_seconds is None and group not in self._failures and all(done):  # as nearly every one does
            self._ended.append(_Ended(start, attempt, asyncio.get_running_loop().time()))
            self._ended_pods += len(done)
            if self._ended_pods >= MOST_HELD:
                self.settle()
            return
        metrics, seconds = self._metrics, self._since(attempt)
        attempts = self._failures.pop(group, 0) + 1
        bound = sum(done)
        failed = len(start.binds) - bound
        metrics.count("allhands_binds_total", bound, result="bound")
        self._attempted("error" if failed else "scheduled", len(start.binds), seconds)
        if failed:
            self._failures[start.group] = attempts
            metrics.count("allhands_binds_total", failed, result="failed")
            metrics.count("allhands_starts_partial_total")
        now = self._clock.now().timestamp()
        label = str(attempts) if attempts < 16 else "16+"
        for bind, is_bound in zip(start.binds, done, strict=True):
            record = self._watched.pods.get(bind.pod)
            if is_bound and record is not None:
                waited = max(0.0, now - record.pod.created_at_seconds)
                metrics.observe("scheduler_pod_scheduling_sli_duration_seconds", waited, attempts=label)
                metrics.observe("scheduler_pod_scheduling_attempts", attempts)
        if attempt.created_seconds is not None:
            waited = max(0.0, now - attempt.created_seconds)
            metrics.observe("volcano_e2e_job_scheduling_latency_milliseconds", waited * 1000)
        if attempt.expected_seconds is not None:
            error = now - attempt.expected_seconds
            direction = "late" if error >= 0 else "early"
            metrics.observe("allhands_expected_start_error_seconds", abs(error), direction=direction)

    def settle(self) -> None:
        """Counts what went well; to be called when nothing else is to be done."""
        if not self._ended:
            return
        ended, pods, self._ended, self._ended_pods = self._ended, self._ended_pods, [], 0
        metrics, labels = self._metrics, {"result": "scheduled", "profile": self._profile}
        metrics.count("allhands_binds_total", pods, result="bound")
        metrics.count("scheduler_podgroup_schedule_attempts_total", len(ended), **labels)
        metrics.count("scheduler_schedule_attempts_total", pods, **labels)
        alone = [at - attempt.began_at for start, attempt, at in ended if len(start.binds) == 1]
        for name in _ATTEMPT_SECONDS:
            metrics.observe_all(name, alone, **labels)
        for start, attempt, at in ended:
            if len(start.binds) != 1:
                for name, times in zip(_ATTEMPT_SECONDS, (1, len(start.binds)), strict=True):
                    metrics.observe(name, at - attempt.began_at, times, **labels)
        now = self._clock.now().timestamp() - asyncio.get_running_loop().time()
        seen = self._watched.pods.get
        waited = [
            max(0.0, now + at - record.pod.created_at_seconds)
            for start, _, at in ended
            for bind in start.binds
            if (record := seen(bind.pod)) is not None
        ]
        metrics.observe_all("scheduler_pod_scheduling_sli_duration_seconds", waited, attempts="1")
        if waited:
            metrics.observe("scheduler_pod_scheduling_attempts", 1, len(waited))
        metrics.observe_all(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            [
                max(0.0, now + at - attempt.created_seconds) * 1000
                for _, attempt, at in ended
                if attempt.created_seconds is not None
            ],
        )

    def evicted(self, evict: Evict) -> None:
        self._metrics.count("allhands_evictions_total", reason=evict.why.reason.value)

    def _since(self, attempt: Attempt) -> float:
        return asyncio.get_running_loop().time() - attempt.began_at

    def _attempted(self, result: str, pods: int, seconds: float) -> None:
        metrics, profile = self._metrics, self._profile
        metrics.count("scheduler_podgroup_schedule_attempts_total", result=result, profile=profile)
        metrics.observe(
            "scheduler_podgroup_scheduling_attempt_duration_seconds", seconds, result=result, profile=profile
        )
        if pods:
            metrics.count("scheduler_schedule_attempts_total", pods, result=result, profile=profile)
            metrics.observe(
                "scheduler_scheduling_attempt_duration_seconds", seconds, pods, result=result, profile=profile
            )

    # -- what there is

    def _refresh(self) -> None:
        self.settle()
        if self._snapshot is None:
            return
        metrics, snapshot = self._metrics, self._snapshot
        waits = {wait.group: wait.explanation.reason for wait in self._told.waits}
        pods = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
        reasons: Counter[tuple[str, ...]] = Counter()
        pending: Counter[tuple[str, ...]] = Counter()
        running: Counter[tuple[str, ...]] = Counter()
        held: dict[str, Counter[tuple[str, ...]]] = {CPU: Counter(), MEMORY: Counter()}
        for key, entry in snapshot.groups.items():
            queue = (entry.group.queue,)
            pods["gated"] += max((count for _, count in entry.gated), default=0)
            if entry.holding:
                running[queue] += 1
                for name, units in entry.holding:
                    if name in held:
                        held[name][queue] += units
            if entry.pending:
                place = "backoff" if key in self.paused else "unschedulable" if key in waits else "active"
                pods[place] += _waiting_pods(entry)
                if not entry.is_whole:
                    pending[queue] += 1
            if key in waits and not entry.is_whole:
                reasons[(waits[key].value,)] += 1
        metrics.replace("scheduler_pending_pods", {(place,): count for place, count in pods.items()})
        metrics.replace("allhands_groups_waiting", reasons)
        metrics.set("volcano_unschedule_job_count", reasons.total())
        columns = snapshot.columns
        metrics.set("allhands_nodes_overcommitted", int((columns.used > columns.allocatable).any(axis=0).sum()))
        metrics.replace("volcano_queue_pod_group_pending_count", pending)
        metrics.replace("volcano_queue_pod_group_running_count", running)
        metrics.replace("volcano_queue_allocated_milli_cpu", held[CPU])
        metrics.replace("volcano_queue_allocated_memory_bytes", held[MEMORY])
        watched = self._watched
        metrics.set("scheduler_cache_size", len(watched.nodes), type="nodes")
        metrics.set("scheduler_cache_size", len(watched.pods), type="pods")


def _waiting_pods(entry: GroupEntry) -> int:
    return sum(len(members.pods) for members in entry.pending)
