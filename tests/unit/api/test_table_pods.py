"""What READY, STATUS and RESTARTS of a pod say. Every expected cell was read off a real kube-apiserver 1.36."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from allhands.api.tables.builtin import printer_for

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-03-01T11:00:00Z"
FIVE_MINUTES_AGO = "2026-03-01T11:55:00Z"
TEN_MINUTES_AGO = "2026-03-01T11:50:00Z"

READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False"}
INITIALIZED = {"type": "Initialized", "status": "True"}
NOT_INITIALIZED = {"type": "Initialized", "status": "False"}


def running(name: str = "main", *, ready: bool = True, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return status(name, {"running": {}}, ready=ready, restarts=restarts, **more)


def waiting(reason: str, name: str = "main", *, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return status(name, {"waiting": {"reason": reason} if reason else {}}, restarts=restarts, **more)


def ended(code: int, reason: str = "", name: str = "main", *, signal: int = 0, **more: Any) -> dict[str, Any]:
    terminated: dict[str, Any] = {"exitCode": code}
    if reason:
        terminated["reason"] = reason
    if signal:
        terminated["signal"] = signal
    return status(name, {"terminated": terminated}, **more)


def status(
    name: str, state: dict[str, Any], *, ready: bool = False, restarts: int = 0, last: str = "", **more: Any
) -> dict[str, Any]:
    document = {"name": name, "state": state, "ready": ready, "restartCount": restarts, "image": "i", "imageID": "i"}
    if last:
        document["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": last}}
    return {**document, **more}


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": "busybox"} for name in names]


def sidecar(name: str) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "restartPolicy": "Always"}


def pod(
    main: list[dict[str, Any]],
    init: list[dict[str, Any]] | None = None,
    *,
    phase: str = "Running",
    reason: str = "",
    conditions: list[dict[str, Any]] | None = None,
    init_spec: list[dict[str, Any]] | None = None,
    deleted: bool = False,
    spec: dict[str, Any] | None = None,
) -> dict[str, Any]:
    names = [container["name"] for container in main] or ["main"]
    document: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "default", "creationTimestamp": CREATED},
        "spec": {"containers": containers(*names), **(spec or {})},
        "status": {"phase": phase, "containerStatuses": main, "conditions": conditions or []},
    }
    if reason:
        document["status"]["reason"] = reason
    if init is not None:
        document["status"]["initContainerStatuses"] = init
        document["spec"]["initContainers"] = init_spec or containers(*(container["name"] for container in init))
    if deleted:
        document["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:30Z"
    return document


CASES: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "a pod nobody has placed is Pending": (pod([], phase="Pending"), ("0/1", "Pending", "0")),
    "a pod whose only container is ready is Running": (pod([running()]), ("1/1", "Running", "0")),
    "a container that runs but is not ready does not count": (pod([running(ready=False)]), ("0/1", "Running", "0")),
    "containers are counted one by one": (
        pod([running("a"), running("b", ready=False), running("c")]),
        ("2/3", "Running", "0"),
    ),
    "a waiting container says why": (
        pod([waiting("ContainerCreating")], phase="Pending"),
        ("0/1", "ContainerCreating", "0"),
    ),
    "a waiting container without a reason leaves the phase": (
        pod([waiting("")], phase="Pending"),
        ("0/1", "Pending", "0"),
    ),
    "the first of two waiting containers wins": (
        pod([waiting("ImagePullBackOff", "a"), waiting("CrashLoopBackOff", "b")], phase="Pending"),
        ("0/2", "ImagePullBackOff", "0"),
    ),
    "a crash loop shows restarts and how long ago the last one was": (
        pod([waiting("CrashLoopBackOff", restarts=3, last=FIVE_MINUTES_AGO)]),
        ("0/1", "CrashLoopBackOff", "3 (5m ago)"),
    ),
    "restarts without a known time are a bare number": (pod([running(restarts=2)]), ("1/1", "Running", "2")),
    "a termination without a restart shows no time": (pod([running(last=FIVE_MINUTES_AGO)]), ("1/1", "Running", "0")),
    "restarts of all containers add up and the latest time counts": (
        pod([running("a", restarts=1, last=TEN_MINUTES_AGO), running("b", restarts=2, last=FIVE_MINUTES_AGO)]),
        ("2/2", "Running", "3 (5m ago)"),
    ),
    "a pod that succeeded is Completed": (pod([ended(0, "Completed")], phase="Succeeded"), ("0/1", "Completed", "0")),
    "a pod that failed shows its container's reason": (pod([ended(1, "Error")], phase="Failed"), ("0/1", "Error", "0")),
    "a container killed for memory says OOMKilled": (
        pod([ended(137, "OOMKilled")], phase="Failed"),
        ("0/1", "OOMKilled", "0"),
    ),
    "an end without a reason shows the exit code": (pod([ended(7)], phase="Failed"), ("0/1", "ExitCode:7", "0")),
    "an end without a reason shows the signal rather than the code": (
        pod([ended(137, signal=9)], phase="Failed"),
        ("0/1", "Signal:9", "0"),
    ),
    "one container completed while another is ready in a ready pod is Running": (
        pod([ended(0, "Completed", "a"), running("b")], conditions=[READY]),
        ("1/2", "Running", "0"),
    ),
    "one container completed while another is ready in a pod that is not ready is NotReady": (
        pod([ended(0, "Completed", "a"), running("b")], conditions=[NOT_READY]),
        ("1/2", "NotReady", "0"),
    ),
    "an error is not hidden by an earlier container that completed": (
        pod([ended(0, "Completed", "a"), ended(1, "Error", "b")], phase="Failed"),
        ("0/2", "Error", "0"),
    ),
    "an error weighs more than a container that still runs": (
        pod([ended(0, "Completed", "a"), running("b"), ended(1, "Error", "c")], conditions=[NOT_READY]),
        ("1/3", "Error", "0"),
    ),
    "a reason of the pod replaces its phase": (
        pod([], phase="Failed", reason="Evicted"),
        ("0/1", "Evicted", "0"),
    ),
    "a container's reason replaces the pod's": (
        pod([ended(1, "Error")], phase="Failed", reason="DeadlineExceeded"),
        ("0/1", "Error", "0"),
    ),
    "a pod behind a gate is SchedulingGated": (
        pod([], phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        ("0/1", "SchedulingGated", "0"),
    ),
    "an unschedulable pod is just Pending": (
        pod([], phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]),
        ("0/1", "Pending", "0"),
    ),
    "a deleted pod that still runs is Terminating": (pod([running()], deleted=True), ("1/1", "Terminating", "0")),
    "a deleted pod that was never placed is Terminating": (
        pod([], phase="Pending", deleted=True),
        ("0/1", "Terminating", "0"),
    ),
    "a deleted pod that has finished keeps its reason": (
        pod([ended(0, "Completed")], phase="Succeeded", deleted=True),
        ("0/1", "Completed", "0"),
    ),
    "a deleted pod on a lost node is Unknown": (
        pod([running()], reason="NodeLost", deleted=True),
        ("1/1", "Unknown", "0"),
    ),
    "a pod on a lost node that nobody deleted is NodeLost": (
        pod([running()], reason="NodeLost"),
        ("1/1", "NodeLost", "0"),
    ),
    "the first init container is running": (
        pod([waiting("PodInitializing")], [running("one", ready=False)], phase="Pending"),
        ("0/1", "Init:0/1", "0"),
    ),
    "one of three init containers is done": (
        pod(
            [waiting("PodInitializing")],
            [ended(0, "Completed", "one"), running("two", ready=False), waiting("PodInitializing", "three")],
            phase="Pending",
        ),
        ("0/1", "Init:1/3", "0"),
    ),
    "an init container that waits for an image says why": (
        pod([waiting("PodInitializing")], [waiting("ImagePullBackOff", "one")], phase="Pending"),
        ("0/1", "Init:ImagePullBackOff", "0"),
    ),
    "an init container that failed says its reason": (
        pod([waiting("PodInitializing")], [ended(1, "Error", "one")], phase="Pending"),
        ("0/1", "Init:Error", "0"),
    ),
    "an init container that failed without a reason says its exit code": (
        pod([waiting("PodInitializing")], [ended(3, name="one")], phase="Pending"),
        ("0/1", "Init:ExitCode:3", "0"),
    ),
    "an init container that was killed without a reason says the signal": (
        pod([waiting("PodInitializing")], [ended(137, name="one", signal=9)], phase="Pending"),
        ("0/1", "Init:Signal:9", "0"),
    ),
    "restarts of an init container count while it blocks": (
        pod(
            [waiting("PodInitializing")],
            [waiting("CrashLoopBackOff", "one", restarts=4, last=FIVE_MINUTES_AGO)],
            phase="Pending",
            conditions=[NOT_INITIALIZED],
        ),
        ("0/1", "Init:CrashLoopBackOff", "4 (5m ago)"),
    ),
    "restarts of an init container are forgotten once it is done": (
        pod([running()], [ended(0, "Completed", "one", restarts=4, last=FIVE_MINUTES_AGO)], conditions=[INITIALIZED]),
        ("1/1", "Running", "0"),
    ),
    "all init containers are done and the main one is being made": (
        pod([waiting("PodInitializing")], [ended(0, "Completed", "one")], phase="Pending"),
        ("0/1", "PodInitializing", "0"),
    ),
    "an init container that runs again names the status, but the main container counts as ready": (
        pod([running()], [running("one", ready=False)], conditions=[INITIALIZED]),
        ("1/1", "Init:0/1", "0"),
    ),
    "a side-car counts among the containers": (
        pod([running()], [running("log", started=True)], init_spec=[sidecar("log")]),
        ("2/2", "Running", "0"),
    ),
    "a side-car that has started but is not ready does not block": (
        pod([running()], [running("log", ready=False, started=True)], init_spec=[sidecar("log")]),
        ("1/2", "Running", "0"),
    ),
    "a side-car that has not started blocks": (
        pod(
            [waiting("PodInitializing")],
            [running("log", ready=False, started=False)],
            init_spec=[sidecar("log")],
            phase="Pending",
        ),
        ("0/2", "Init:0/1", "0"),
    ),
    "restarts of a side-car stay in the count": (
        pod(
            [running(restarts=1, last=TEN_MINUTES_AGO)],
            [running("log", started=True, restarts=2, last=FIVE_MINUTES_AGO)],
            init_spec=[sidecar("log")],
            conditions=[INITIALIZED],
        ),
        ("2/2", "Running", "3 (5m ago)"),
    ),
    "a side-car beside an init container that waits": (
        pod(
            [waiting("PodInitializing")],
            [running("log", started=True), running("one", ready=False)],
            init_spec=[sidecar("log"), *containers("one")],
            phase="Pending",
        ),
        ("1/2", "Init:1/2", "0"),
    ),
    "a terminating pod that is still initialising": (
        pod([waiting("PodInitializing")], [running("one", ready=False)], phase="Pending", deleted=True),
        ("0/1", "Terminating", "0"),
    ),
}


@pytest.mark.parametrize(("document", "expected"), CASES.values(), ids=CASES.keys())
def test_status_of_a_pod(document: dict[str, Any], expected: tuple[str, str, str]) -> None:
    cells = printer_for("", "Pod").row(document, NOW)
    assert (cells[0], *cells[1:4], cells[4]) == ("p", *expected, "60m")


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {}, ["<none>"] * 4, id="nothing is known of a pod nobody has placed"),
        pytest.param(
            {"nodeName": "n1"},
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
            ["10.0.0.1", "n1", "<none>", "<none>"],
            id="the first address is shown",
        ),
        pytest.param(
            {}, {"podIPs": [{"ip": "10.0.0.2"}]}, ["10.0.0.2", *["<none>"] * 3], id="an address of the list is enough"
        ),
        pytest.param(
            {}, {"nominatedNodeName": "n2"}, ["<none>", "<none>", "n2", "<none>"], id="a nominated node is shown"
        ),
        pytest.param(
            {"readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]},
            {"conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]},
            ["<none>", "<none>", "<none>", "1/3"],
            id="readiness gates count those that are met",
        ),
    ],
)
def test_wide_cells_of_a_pod(spec: dict[str, Any], status: dict[str, Any], expected: list[str]) -> None:
    document = {"metadata": {"name": "p"}, "spec": {"containers": [], **spec}, "status": status}
    cells = printer_for("", "Pod").row(document, NOW)
    assert cells[5:] == expected
    assert cells[4] == "<unknown>"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Running", [], id="a running pod has no row condition"),
        pytest.param(
            "Succeeded",
            [
                {
                    "type": "Completed",
                    "status": "True",
                    "reason": "Succeeded",
                    "message": "The pod has completed successfully.",
                }
            ],
            id="a row of a pod that succeeded is completed",
        ),
        pytest.param(
            "Failed",
            [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
            id="a row of a pod that failed is completed, too",
        ),
    ],
)
def test_row_conditions_of_a_pod(phase: str, expected: list[dict[str, str]]) -> None:
    assert printer_for("", "Pod").conditions({"status": {"phase": phase}}) == expected


def test_a_pod_with_nothing_but_a_name_can_be_shown() -> None:
    assert printer_for("", "Pod").row({"metadata": {"name": "p"}}, NOW)[:5] == ["p", "0/0", "", "0", "<unknown>"]
