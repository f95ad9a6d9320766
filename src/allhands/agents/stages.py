"""The life of one simulated pod on its node: pull, init containers, start, run, end, and a restart if it is due.

A machine without a clock: it is told what time it is (`now`, monotonic seconds, and `text`, the same as the API writes
it), moves on as far as that allows, and says when to be asked again. All containers of a pod run and end together.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Final

from allhands.agents.before import CRASH_LOOP, back_off_seconds
from allhands.agents.pod_status import (
    CREATING,
    FAILED,
    INITIALIZING,
    KILLED_EXIT_CODE,
    SUCCEEDED,
    TERMINATED_EXIT_CODE,
    ContainerReport,
    PodReport,
    Running,
    State,
    Terminated,
    Waiting,
    ended,
    never_seen_again,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.agents.behaviour import RunPlan
    from allhands.agents.seen import SpecSeen

FIRST_BACK_OFF_SECONDS: Final = 10.0
MOST_BACK_OFF_SECONDS: Final = 300.0
QUIET_SECONDS: Final = 600.0
"""A container that ran for so long is restarted as if it had never failed."""
SAME_MOMENT_SECONDS: Final = 1e-6
"""Times that differ by less are the same: a timer may come a rounding error too early."""
DEADLINE_MESSAGE: Final = "the pod was active on its node for longer than its activeDeadlineSeconds"


class Stage(enum.IntEnum):
    PULLING = 0
    INITIALISING = 1
    STARTING = 2
    RUNNING = 3
    BACKING_OFF = 4
    NO_IMAGE = 5
    STOPPING = 6
    OVER = 7


class PodRun:
    """One pod between the moment when its node takes it in and its end. `changes` counts what is worth reporting."""

    __slots__ = (
        "_back_off_seconds",
        "_deadline_at",
        "_ended",
        "_ends_by_itself_at",
        "_init_states",
        "_killed_at",
        "_last",
        "_plan",
        "_plan_of",
        "_reason",
        "_restarts",
        "_running_since",
        "_started_at",
        "_stops_at",
        "changes",
        "key",
        "node_name",
        "phase",
        "pod_ip",
        "released",
        "shown",
        "spec",
        "stage",
        "start_time",
        "uid",
        "until",
        "written",
    )

    def __init__(self, key: str, uid: str, node_name: str, spec: SpecSeen, plan_of: Callable[[int], RunPlan]) -> None:
        self.key = key
        self.uid = uid
        self.node_name = node_name
        self.spec = spec
        self.stage = Stage.PULLING
        self.until = math.inf
        """When this stage ends."""
        self.start_time = ""
        self.pod_ip = ""
        self.phase = ""
        """Set at the end; before it follows from the containers."""
        self.released = False
        """Whether its node has back what it held."""
        self.changes = 0
        self.written = 0
        """How many of the changes the API knows."""
        self.shown: int | None = None
        """The digest of what the API showed after the last report."""
        self._plan_of = plan_of
        self._plan = plan_of(0)
        self._restarts = 0
        self._back_off_seconds = 0.0
        self._running_since = 0.0
        self._ends_by_itself_at = math.inf
        self._stops_at = math.inf
        self._killed_at = math.inf
        self._deadline_at = math.inf
        self._started_at: str | None = None
        self._last: Terminated | None = None
        self._ended: Terminated | None = None
        self._init_states: list[State] = []
        self._reason = ""

    @property
    def is_over(self) -> bool:
        return self.stage == Stage.OVER

    @property
    def wakes_at(self) -> float:
        """When to be asked again."""
        return math.inf if self.is_over else min(self.until, self._deadline_at)

    # -- what happens to it

    def set_deadline(self, now: float, age_seconds: float) -> None:
        """The pod's own time limit counts from when its node first took it in, so long ago."""
        if self.spec.active_deadline_seconds is not None:
            self._deadline_at = now - max(0.0, age_seconds) + self.spec.active_deadline_seconds

    def begin(self, now: float, text: str) -> None:
        self.start_time = self.start_time or text
        self._started_at = None
        self._init_states = []
        self._enter(Stage.PULLING, now + self._plan.pull_seconds)

    def remember(self, restarts: int, last: Terminated | None) -> None:
        """What the API still knows of a pod that this agent knew before it was started again."""
        self._restarts, self._last = restarts, last
        self._plan = self._plan_of(restarts)
        self._back_off_seconds = back_off_seconds(restarts, FIRST_BACK_OFF_SECONDS, MOST_BACK_OFF_SECONDS)

    def wait_on(self, now: float, waited_seconds: float) -> None:
        """It failed under the agent before, and has waited for so long to be restarted."""
        text = self.start_time
        self._init_states = [
            Running(text) if it.is_sidecar else ended(0, text, text) for it in self.spec.init_containers
        ]
        pause = self._back_off_seconds
        self._back_off_seconds = min(MOST_BACK_OFF_SECONDS, pause * 2 or FIRST_BACK_OFF_SECONDS)
        self._enter(Stage.BACKING_OFF, now + max(0.0, pause - waited_seconds))

    def go_on(self, now: float, elapsed_seconds: float, started_at: str) -> None:
        """Its containers have been running for so long."""
        began = now - max(0.0, elapsed_seconds)
        self._started_at, self._running_since = started_at, began
        self._init_states = [
            Running(started_at) if it.is_sidecar else ended(0, started_at, started_at)
            for it in self.spec.init_containers
        ]
        self._enter(Stage.RUNNING, began + self._plan.run_seconds)

    def stop(self, now: float, text: str, grace_seconds: float) -> None:
        """SIGTERM now, SIGKILL after the grace period. A second one can only shorten it."""
        if self.is_over:
            return
        if self.stage not in (Stage.RUNNING, Stage.STOPPING):
            self._end(never_seen_again(None, text), FAILED)
            return
        if self.stage == Stage.RUNNING:
            self._ends_by_itself_at = self.until
            self._stops_at = math.inf if self._plan.ignores_sigterm else now + self._plan.stop_seconds
            self._enter(Stage.STOPPING, min(self.until, self._stops_at))
        self._killed_at = min(self._killed_at, now + grace_seconds)
        self.until = min(self.until, self._killed_at)

    def lose(self, now: float, text: str, *, deleting: bool) -> None:
        """Its node was gone for a while and is back: whatever ran there does not run any more."""
        if self.is_over:
            return
        if self.stage in (Stage.RUNNING, Stage.STOPPING):
            lost = never_seen_again(self._started_at, text)
            if deleting or self.spec.restart_policy == "Never":
                self._end(lost, FAILED)
                return
            self._last = lost
            self._restarts += 1
            self._plan = self._plan_of(self._restarts)
        self.begin(now, text)

    def advance(self, now: float, text: str) -> None:
        """Moves on as far as the time allows."""
        while not self.is_over:
            if now + SAME_MOMENT_SECONDS >= self._deadline_at:
                code = KILLED_EXIT_CODE if self._plan.ignores_sigterm else TERMINATED_EXIT_CODE
                self._reason = "DeadlineExceeded"
                started = self._started_at if self.stage in (Stage.RUNNING, Stage.STOPPING) else None
                self._end(ended(code, started, text), FAILED)
            elif now + SAME_MOMENT_SECONDS >= self.until:
                self._next(now, text)
            else:
                return

    # -- from stage to stage

    def _enter(self, stage: Stage, until: float) -> None:
        self.stage = stage
        self.until = until
        self.changes += 1

    def _next(self, now: float, text: str) -> None:
        match self.stage:
            case Stage.PULLING if self._plan.pull_fails:
                self._enter(Stage.NO_IMAGE, math.inf)
            case Stage.PULLING | Stage.INITIALISING:
                self._initialise(now, text)
            case Stage.STARTING:
                self._started_at = text
                self._running_since = now
                self._enter(Stage.RUNNING, now + self._plan.run_seconds)
            case Stage.RUNNING:
                self._exit(now, ended(self._plan.exit_code, self._started_at, text, reason=self._plan.reason))
            case Stage.BACKING_OFF:
                self._restarts += 1
                self._plan = self._plan_of(self._restarts)
                self._enter(Stage.STARTING, now + self._plan.start_seconds)
            case Stage.STOPPING:
                state = ended(self._stop_code(), self._started_at, text)
                self._end(state, SUCCEEDED if state.exit_code == 0 else FAILED)

    def _initialise(self, now: float, text: str) -> None:
        states = self._init_states
        if self.stage == Stage.INITIALISING:
            states[-1] = _init_end(states[-1], text)
        while len(states) < len(self.spec.init_containers):
            states.append(Running(text))
            if not self.spec.init_containers[len(states) - 1].is_sidecar:
                self._enter(Stage.INITIALISING, now + self._plan.init_seconds)
                return
        self._enter(Stage.STARTING, now + self._plan.start_seconds)

    def _exit(self, now: float, state: Terminated) -> None:
        policy = self.spec.restart_policy
        if policy == "Never" or (policy == "OnFailure" and state.exit_code == 0):
            self._end(state, SUCCEEDED if state.exit_code == 0 else FAILED)
            return
        self._last = state
        if now - self._running_since >= QUIET_SECONDS:
            self._back_off_seconds = 0.0
        pause = self._back_off_seconds
        # The first restart comes at once; every further failure doubles the pause.
        self._back_off_seconds = min(MOST_BACK_OFF_SECONDS, pause * 2 or FIRST_BACK_OFF_SECONDS)
        self._enter(Stage.BACKING_OFF, now + pause)

    def _end(self, state: Terminated, phase: str) -> None:
        self._ended = state
        self.phase = phase
        self._init_states = [_init_end(it, state.finished_at) for it in self._init_states]
        self._enter(Stage.OVER, math.inf)

    def _stop_code(self) -> int:
        if self._ends_by_itself_at <= self.until:
            return self._plan.exit_code
        return TERMINATED_EXIT_CODE if self._stops_at <= self._killed_at else KILLED_EXIT_CODE

    # -- what is reported

    def report(self, host_ip: str, generation: int) -> PodReport:
        state = self._state()
        running = isinstance(state, Running)
        identity = f"simulated://{self.uid}/{self._restarts}" if self._started_at is not None else ""
        containers = [
            ContainerReport(it.name, it.image, state, self._last, self._restarts, running, id=identity)
            for it in self.spec.containers
        ]
        return PodReport(
            containers,
            self._init_reports() if self.spec.init_containers else (),
            self.spec.restart_policy,
            self.phase,
            self._reason,
            DEADLINE_MESSAGE if self._reason else "",
            self.start_time,
            host_ip,
            self.pod_ip,
            generation,
        )

    def _state(self) -> State:
        match self.stage:
            case Stage.RUNNING | Stage.STOPPING:
                return Running(self._started_at or "")
            case Stage.OVER:
                assert self._ended is not None
                return self._ended
            case Stage.BACKING_OFF:
                return Waiting(CRASH_LOOP, f"restarted {self._restarts} times; waiting before the next try")
            case Stage.NO_IMAGE:
                image = self.spec.containers[0].image if self.spec.containers else ""
                return Waiting("ImagePullBackOff", f"the image {image!r} cannot be pulled; trying again later")
            case _:
                return INITIALIZING if self.spec.init_containers else CREATING

    def _init_reports(self) -> list[ContainerReport]:
        reports = []
        for index, container in enumerate(self.spec.init_containers):
            state: State = self._init_states[index] if index < len(self._init_states) else INITIALIZING
            done = isinstance(state, Terminated) and state.exit_code == 0
            ready = isinstance(state, Running) if container.is_sidecar else done
            identity = "" if isinstance(state, Waiting) else f"simulated://{self.uid}/init/{index}"
            reports.append(
                ContainerReport(
                    container.name, container.image, state, ready=ready, sidecar=container.is_sidecar, id=identity
                )
            )
        return reports


def _init_end(state: State, text: str) -> State:
    return ended(0, state.started_at, text) if isinstance(state, Running) else state
