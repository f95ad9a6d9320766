"""How a pod is shown. People search for the words in its STATUS column, so every rule of the real server is here.

The rules look at init containers first: while one of them has not finished, it alone decides the status.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.tables.cells import (
    NONE,
    age_of,
    at,
    condition_is_true,
    container_cells,
    integer_at,
    is_terminating,
    labels_text,
    list_at,
    name_of,
    text_at,
)
from allhands.api.tables.column import AGE, CORE, NAME, Printers, TablePrinter, described, documented
from allhands.api.tables.duration import human_duration, time_or_none

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")


class _Restarts(msgspec.Struct, frozen=True):
    count: int = 0
    last: datetime = _NEVER

    def plus(self, status: Manifest) -> _Restarts:
        finished = time_or_none(at(status, "lastState", "terminated", "finishedAt"))
        return _Restarts(
            self.count + integer_at(status, "restartCount"), self.last if finished is None else max(self.last, finished)
        )

    def cell(self, now: datetime) -> str:
        if self.count == 0 or self.last == _NEVER:
            return str(self.count)
        return f"{self.count} ({human_duration(now - self.last)} ago)"


class _View(msgspec.Struct, frozen=True):
    """What the containers looked at so far say about the pod."""

    reason: str
    ready: int = 0
    restarts: _Restarts = _Restarts()


def _pod_reason(pod: Manifest) -> str:
    for condition in list_at(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return text_at(pod, "status", "reason") or text_at(pod, "status", "phase")


def _sidecar_names(pod: Manifest) -> set[str]:
    return {
        text_at(container, "name")
        for container in list_at(pod, "spec", "initContainers")
        if container.get("restartPolicy") == "Always"
    }


def _termination_reason(terminated: Manifest) -> str:
    if reason := text_at(terminated, "reason"):
        return reason
    if signal := integer_at(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{integer_at(terminated, 'exitCode')}"


def _init_blocker(status: Manifest, position: int, total: int) -> str:
    """Why initialisation has not got past this container."""
    terminated = at(status, "state", "terminated")
    if terminated is not None:
        return "Init:" + _termination_reason(terminated)
    waiting = text_at(status, "state", "waiting", "reason")
    if waiting and waiting != "PodInitializing":
        return "Init:" + waiting
    return f"Init:{position}/{total}"


def _init_view(pod: Manifest) -> tuple[_View, _Restarts, bool]:
    """(what the init containers say, restarts of side-cars alone, whether the pod is still initialising)."""
    sidecars = _sidecar_names(pod)
    view, sidecar_restarts = _View(_pod_reason(pod)), _Restarts()
    total = len(list_at(pod, "spec", "initContainers"))
    for position, status in enumerate(list_at(pod, "status", "initContainerStatuses")):
        view = msgspec.structs.replace(view, restarts=view.restarts.plus(status))
        is_sidecar = status.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts = sidecar_restarts.plus(status)
        terminated = at(status, "state", "terminated")
        if terminated is not None and integer_at(terminated, "exitCode") == 0:
            continue
        if is_sidecar and status.get("started"):
            view = msgspec.structs.replace(view, ready=view.ready + bool(status.get("ready")))
            continue
        return msgspec.structs.replace(view, reason=_init_blocker(status, position, total)), sidecar_restarts, True
    return view, sidecar_restarts, False


def _main_view(pod: Manifest, before: _View, restarts: _Restarts) -> _View:
    """The containers are read last to first, so that the first with something to say wins."""
    reason, ready, has_running, error_reason = before.reason, before.ready, False, ""
    for status in reversed(list_at(pod, "status", "containerStatuses")):
        restarts = restarts.plus(status)
        terminated = at(status, "state", "terminated")
        if waiting := text_at(status, "state", "waiting", "reason"):
            reason = waiting
        elif terminated is not None:
            reason = _termination_reason(terminated)
            if integer_at(terminated, "exitCode") != 0:
                error_reason = reason
        elif status.get("ready") and at(status, "state", "running") is not None:
            has_running = True
            ready += 1
    if reason == "Completed":
        reason = _not_quite_completed(pod, has_running=has_running, error_reason=error_reason)
    return _View(reason, ready, restarts)


def _not_quite_completed(pod: Manifest, *, has_running: bool, error_reason: str) -> str:
    if has_running and condition_is_true(pod, "Ready"):
        return "Running"
    return error_reason or ("NotReady" if has_running else "Completed")


def _view(pod: Manifest) -> _View:
    view, sidecar_restarts, initializing = _init_view(pod)
    if not initializing or condition_is_true(pod, "Initialized"):
        view = _main_view(pod, view, sidecar_restarts)
    if is_terminating(pod):
        if text_at(pod, "status", "reason") == "NodeLost":
            return msgspec.structs.replace(view, reason="Unknown")
        if text_at(pod, "status", "phase") not in _TERMINAL_PHASES:
            return msgspec.structs.replace(view, reason="Terminating")
    return view


def _pod_ip(pod: Manifest) -> str:
    addresses = list_at(pod, "status", "podIPs")
    return text_at(pod, "status", "podIP") or (text_at(addresses[0], "ip") if addresses else "")


def _readiness_gates(pod: Manifest) -> str:
    gates = list_at(pod, "spec", "readinessGates")
    met = sum(condition_is_true(pod, text_at(gate, "conditionType")) for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def pod_row(pod: Manifest, now: datetime) -> list[Json]:
    view = _view(pod)
    total = len(list_at(pod, "spec", "containers")) + len(_sidecar_names(pod))
    return [
        name_of(pod),
        f"{view.ready}/{total}",
        view.reason,
        view.restarts.cell(now),
        age_of(pod, now),
        _pod_ip(pod) or NONE,
        text_at(pod, "spec", "nodeName") or NONE,
        text_at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def pod_conditions(pod: Manifest) -> list[Manifest]:
    phase = text_at(pod, "status", "phase")
    if phase not in _TERMINAL_PHASES:
        return []
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def pod_template_row(template: Manifest, _now: datetime) -> list[Json]:
    pod = at(template, "template") or {}
    return [name_of(template), *container_cells(pod.get("spec")), labels_text(at(pod, "metadata", "labels"))]


PRINTERS: Final[Printers] = {
    ("", "Pod"): TablePrinter(
        (
            NAME,
            described("Ready", "The aggregate readiness state of this pod for accepting traffic."),
            described("Status", "The aggregate status of the containers in this pod."),
            described(
                "Restarts",
                "The number of times the containers in this pod have been restarted and when the last container in "
                "this pod has restarted.",
            ),
            AGE,
            documented("IP", CORE + "PodStatus", "podIP", priority=1),
            documented("Node", CORE + "PodSpec", "nodeName", priority=1),
            documented("Nominated Node", CORE + "PodStatus", "nominatedNodeName", priority=1),
            documented("Readiness Gates", CORE + "PodSpec", "readinessGates", priority=1),
        ),
        pod_row,
        pod_conditions,
    ),
    ("", "PodTemplate"): TablePrinter(
        (
            NAME,
            described("Containers", "Names of each container in the template."),
            described("Images", "Images referenced by each container in the template."),
            described("Pod Labels", "The labels for the pod template."),
        ),
        pod_template_row,
    ),
}
