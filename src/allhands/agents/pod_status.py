"""The status of a pod as a kubelet reports it: container states, phase and conditions. All agents share these words.

Pure: what an agent knows of its containers goes in, the `status` of the API comes out. Controllers decide by phase,
reason and exit code, so these must be the words that a kubelet uses; messages are for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Manifest

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
FINISHED: Final = frozenset({SUCCEEDED, FAILED})

KILLED_EXIT_CODE: Final = 137
"""128 + SIGKILL: out of memory, or deaf to SIGTERM."""
TERMINATED_EXIT_CODE: Final = 143
"""128 + SIGTERM: what a process without a handler ends with."""
START_ERROR_EXIT_CODE: Final = 128

_OWN_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """Not started: being created, or held back."""

    reason: str
    message: str = ""

    def state(self) -> Manifest:
        waiting = {"reason": self.reason}
        if self.message:
            waiting["message"] = self.message
        return {"waiting": waiting}


class Running(msgspec.Struct, frozen=True, gc=False):
    started_at: str

    def state(self) -> Manifest:
        return {"running": {"startedAt": self.started_at}}


class Terminated(msgspec.Struct, frozen=True, gc=False):
    """Ended. A container that never began has no start."""

    exit_code: int
    reason: str
    started_at: str | None
    finished_at: str
    message: str = ""

    def state(self) -> Manifest:
        ended: Manifest = {"exitCode": self.exit_code, "reason": self.reason}
        if self.message:
            ended["message"] = self.message
        ended["startedAt"] = self.started_at
        ended["finishedAt"] = self.finished_at
        return {"terminated": ended}


State = Waiting | Running | Terminated

CREATING: Final = Waiting("ContainerCreating")
INITIALIZING: Final = Waiting("PodInitializing")


def ended(
    exit_code: int, started_at: str | None, finished_at: str, *, reason: str = "", message: str = ""
) -> Terminated:
    """How a container ended, with the reason that its exit code implies unless a better one is known."""
    reason = reason or ("Completed" if exit_code == 0 else "Error")
    return Terminated(exit_code, reason, started_at, finished_at, message)


RAN_WITH_THE_AGENT: Final = "ran when allhands was stopped or killed, and ended with it"


def never_seen_again(started_at: str | None, finished_at: str, message: str = "") -> Terminated:
    """A container that was lost with its node or its agent, or whose pod ended before it began."""
    if not message:
        message = "its pod was ended before it began" if started_at is None else "it ran when its node was lost"
    return Terminated(KILLED_EXIT_CODE, "ContainerStatusUnknown", started_at, finished_at, message)


class ContainerReport(msgspec.Struct, frozen=True, gc=False):
    """What is known of one container."""

    name: str
    image: str
    state: State
    last: Terminated | None = None
    restart_count: int = 0
    ready: bool = False
    sidecar: bool = False
    """An init container that stays beside the others."""
    id: str = ""

    def status(self) -> Manifest:
        running = isinstance(self.state, Running)
        status: Manifest = {
            "name": self.name,
            "state": self.state.state(),
            "lastState": self.last.state() if self.last else {},
            "ready": self.ready,
            "restartCount": self.restart_count,
            "image": self.image,
            "imageID": self.image if self.id else "",
            "started": running,
        }
        if self.id:
            status["containerID"] = self.id
        return status


class PodReport(msgspec.Struct, frozen=True, gc=False):
    """What is known of one pod. An empty `phase` is worked out from the containers."""

    containers: Sequence[ContainerReport]
    init_containers: Sequence[ContainerReport] = ()
    restart_policy: str = "Always"
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    generation: int = 0


def status_of(report: PodReport, before: Iterable[Manifest], now: str) -> Manifest:
    """The whole status, as a merge patch for it; `before` are the conditions that the pod has now."""
    phase = report.phase or phase_of(report.containers, report.init_containers, report.restart_policy)
    status: Manifest = {
        "phase": phase,
        "reason": report.reason or None,
        "message": report.message or None,
        "conditions": conditions_of(report, phase, before, now),
        "containerStatuses": [container.status() for container in report.containers],
    }
    if report.generation:
        status["observedGeneration"] = report.generation
    if report.init_containers:
        status["initContainerStatuses"] = [container.status() for container in report.init_containers]
    if report.start_time:
        status["startTime"] = report.start_time
    if report.host_ip:
        status["hostIP"], status["hostIPs"] = report.host_ip, [{"ip": report.host_ip}]
    if report.pod_ip:
        status["podIP"], status["podIPs"] = report.pod_ip, [{"ip": report.pod_ip}]
    return status


def rejection(reason: str, message: str, before: Iterable[Manifest], now: str) -> Manifest:
    """The status of a pod that its node did not take in."""
    report = PodReport((), phase=FAILED, reason=reason, message=f"Pod was rejected: {message}")
    status = status_of(report, before, now)
    del status["containerStatuses"]
    status["startTime"] = now
    return status


def phase_of(
    containers: Sequence[ContainerReport], init_containers: Sequence[ContainerReport], restart_policy: str
) -> str:
    """The phase that follows from the containers, by a kubelet's rules."""
    for container in init_containers:
        if container.sidecar:
            if isinstance(container.state, Waiting) and container.last is None:
                return PENDING
            continue
        state = container.state
        if isinstance(state, Terminated) and state.exit_code != 0 and restart_policy == "Never":
            return FAILED
        if not isinstance(state, Terminated) or state.exit_code != 0:
            return PENDING
    if any(isinstance(it.state, Waiting) and it.last is None for it in containers):
        return PENDING
    over = [it.state for it in containers if isinstance(it.state, Terminated)]
    sidecars_run = any(it.sidecar and isinstance(it.state, Running) for it in init_containers)
    if len(over) < len(containers) or restart_policy == "Always" or sidecars_run:
        return RUNNING
    if all(state.exit_code == 0 for state in over):
        return SUCCEEDED
    return FAILED if restart_policy == "Never" else RUNNING


def conditions_of(report: PodReport, phase: str, before: Iterable[Manifest], now: str) -> list[Manifest]:
    """A kubelet's own conditions, in its order, and whatever others have written beside them."""
    known = {condition["type"]: condition for condition in before}
    containers = _containers_ready(report, phase)
    answers = {
        "PodReadyToStartContainers": ("True" if phase == RUNNING else "False", "", ""),
        "Initialized": _initialized(report, phase),
        "Ready": containers,
        "ContainersReady": containers,
        "PodScheduled": ("True", "", ""),
    }
    conditions = [_condition(kind, answers[kind], known.get(kind), now, report.generation) for kind in _OWN_CONDITIONS]
    conditions.extend(condition for kind, condition in known.items() if kind not in answers)
    return conditions


def _condition(kind: str, answer: tuple[str, str, str], before: Manifest | None, now: str, generation: int) -> Manifest:
    status, reason, message = answer
    turned = before is None or before["status"] != status
    condition: Manifest = {"type": kind, "status": status}
    condition["lastTransitionTime"] = now if turned or before is None else before["lastTransitionTime"]
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    if generation:
        condition["observedGeneration"] = generation
    return condition


def _initialized(report: PodReport, phase: str) -> tuple[str, str, str]:
    if phase == SUCCEEDED:
        return "True", "PodCompleted", ""
    if any(not isinstance(it.state, Waiting) or it.last is not None for it in report.containers):
        return "True", "", ""
    incomplete = [it.name for it in report.init_containers if not _is_initialized(it)]
    if incomplete:
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]"
    return "True", "", ""


def _is_initialized(container: ContainerReport) -> bool:
    if container.sidecar:
        return isinstance(container.state, Running)
    return isinstance(container.state, Terminated) and container.state.exit_code == 0


def _containers_ready(report: PodReport, phase: str) -> tuple[str, str, str]:
    if phase in FINISHED:
        return "False", "PodCompleted" if phase == SUCCEEDED else "PodFailed", ""
    sidecars = [it for it in report.init_containers if it.sidecar]
    unready = [it.name for it in (*sidecars, *report.containers) if not it.ready]
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return "True", "", ""
