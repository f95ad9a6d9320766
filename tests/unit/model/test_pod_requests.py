"""The effective requests of a pod, case by case; random cases are in the recorded answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests
from allhands.model.quantity import QuantityError

Requests = dict[str, Any]


def container(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **fields}


def sidecar(name: str, cpu: str) -> dict[str, Any]:
    return container(name, cpu, restartPolicy="Always")


def status(name: str, actual: str | None = None, allocated: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name}
    if actual is not None:
        row["resources"] = {"requests": {"cpu": actual}}
    if allocated is not None:
        row["allocatedResources"] = {"cpu": allocated}
    return row


def pending_resize(reason: str) -> list[dict[str, str]]:
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


CASES: list[tuple[str, Requests, Requests, dict[str, int]]] = [
    ("a pod that asks for nothing", {"containers": [{"name": "a"}]}, {}, {}),
    ("containers add up", {"containers": [container("a", "1"), container("b", "500m")]}, {}, {"cpu": 1500}),
    (
        "fractions add up before they are rounded",
        {"containers": [{"name": n, "resources": {"requests": {"memory": "400m"}}} for n in "abc"]},
        {},
        {"memory": 2},
    ),
    (
        "a large init container decides",
        {"containers": [container("a", "1")], "initContainers": [container("i", "3"), container("j", "2")]},
        {},
        {"cpu": 3000},
    ),
    (
        "a small init container does not count",
        {"containers": [container("a", "2")], "initContainers": [container("i", "1")]},
        {},
        {"cpu": 2000},
    ),
    (
        "a sidecar adds to the containers",
        {"containers": [container("a", "2")], "initContainers": [sidecar("s", "1")]},
        {},
        {"cpu": 3000},
    ),
    (
        "a sidecar adds only to the init containers after it",
        {
            "containers": [container("a", "1")],
            "initContainers": [container("i", "5"), sidecar("s", "1"), container("j", "5")],
        },
        {},
        {"cpu": 6000},
    ),
    (
        "overhead comes on top",
        {"containers": [container("a", "1")], "overhead": {"cpu": "250m", "memory": "1Mi"}},
        {},
        {"cpu": 1250, "memory": 1 << 20},
    ),
    (
        "requests of the whole pod replace the sum, for what they name and may name",
        {
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "4", "memory": "1", "x.io/y": "1"}}}],
            "resources": {"requests": {"cpu": "3", "x.io/y": "7"}},
            "overhead": {"cpu": "1"},
        },
        {},
        {"cpu": 4000, "memory": 1, "x.io/y": 1},
    ),
    (
        "while it shrinks, it counts as what it has",
        {"containers": [container("a", "1")]},
        {"containerStatuses": [status("a", "3", "2")]},
        {"cpu": 3000},
    ),
    (
        "while it grows, it counts as what it wants",
        {"containers": [container("a", "4")]},
        {"containerStatuses": [status("a", "1", "2")], "conditions": pending_resize("Deferred")},
        {"cpu": 4000},
    ),
    (
        "an infeasible resize is not wanted any more",
        {"containers": [container("a", "4")]},
        {"containerStatuses": [status("a", "1", "2")], "conditions": pending_resize("Infeasible")},
        {"cpu": 2000},
    ),
    (
        "an allocation without reported resources does not count",
        {"containers": [container("a", "1")]},
        {"containerStatuses": [status("a", None, "2")]},
        {"cpu": 1000},
    ),
    (
        "a sidecar is resized like a container, a plain init container is not",
        {"containers": [], "initContainers": [sidecar("s", "1"), container("i", "1")]},
        {"initContainerStatuses": [status("s", "2", "2"), status("i", "9", "9")]},
        {"cpu": 3000},
    ),
    (
        "a whole pod being resized counts as the largest",
        {"containers": [], "resources": {"requests": {"cpu": "1"}}},
        {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}},
        {"cpu": 3000},
    ),
    (
        "a whole pod with an infeasible resize and nothing allocated counts as zero",
        {"containers": [], "resources": {"requests": {"cpu": "1"}}},
        {"resources": {}, "conditions": pending_resize("Infeasible")},
        {"cpu": 0},
    ),
    ("null lists are empty", {"containers": None, "initContainers": None, "overhead": None}, {}, {}),
]


@pytest.mark.parametrize(("spec", "state", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_effective_requests(spec: Requests, state: Requests, wanted: dict[str, int]) -> None:
    document = msgspec.convert({"spec": spec, "status": state}, PodDocument)
    assert dict(effective_requests(document).entries) == wanted


def test_a_malformed_amount_is_refused() -> None:
    document = msgspec.convert({"spec": {"containers": [container("a", "one")]}}, PodDocument)
    with pytest.raises(QuantityError):
        effective_requests(document)
