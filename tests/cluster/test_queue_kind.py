"""The generated definition of Queue means the same to the real API server and to the embedded one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.definitions import DEFINITIONS
from allhands.api.volcano.queue import QUEUE
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.runtime.installing import KINDS, install_kinds
from tests.kubectl import Kubectl, kubectl_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.controlplane import ControlPlane


@pytest.fixture(scope="module", params=["real", "embedded"])
def kubectl(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    real_tools: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    with kubectl_at(request.param, control_plane, real_tools, home, KINDS) as kubectl:
        yield kubectl


@pytest.fixture(scope="module", autouse=True)
def definition_version(kubectl: Kubectl) -> str:
    """The version of the definition after it was brought twice, the second time by several at once."""

    async def install() -> list[str]:
        versions = []
        async with KubeObjects(kubeconfig.load(kubectl.config)) as objects:
            for times in (1, 4):
                await asyncio.gather(*(install_kinds(objects) for _ in range(times)))
                found = (await objects.get(DEFINITIONS, QUEUE.name)).manifest()
                versions.append(found["metadata"]["resourceVersion"])
        return versions

    first, second = asyncio.run(install())
    assert first == second, "what the server stores is not what was generated"
    return second


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _stored(kubectl: Kubectl, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", "queue", name, "-o", "json"))
    return found


def test_the_server_says_nothing_against_the_definition(kubectl: Kubectl) -> None:
    stored = json.loads(kubectl("get", "crd", QUEUE.name, "-o", "json"))
    assert stored["spec"] == QUEUE.manifest()["spec"]
    assert {it["type"]: it["status"] for it in stored["status"]["conditions"]}["Established"] == "True"
    assert "NonStructuralSchema" not in {it["type"] for it in stored["status"]["conditions"]}


def test_explain_shows_every_field_with_its_documentation(kubectl: Kubectl) -> None:
    text = " ".join(kubectl("explain", "queue.spec").split())
    for words in (
        "weight <integer> Its part, beside its siblings",
        "capability <map",
        "enum: fifo, traverse",
        "Whether other queues may take back",
    ):
        assert words in text, text
    assert "Groups that wait." in kubectl("explain", "queues.status.pending")
    assert "nobody else may use" in kubectl("explain", "q.spec.guarantee.resource")


def test_defaults_are_written_and_unknown_fields_are_dropped(kubectl: Kubectl) -> None:
    kubectl("create", "--validate=false", "-f", "-", manifest=_queue("defaults", colour="red", capability={"cpu": 4}))
    assert _stored(kubectl, "defaults")["spec"] == {
        "weight": 1,
        "reclaimable": True,
        "priority": 0,
        "dequeueStrategy": "traverse",
        "capability": {"cpu": 4},
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"weight": 0}, "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1"),
        ({"weight": -5}, "spec.weight: Invalid value: -5"),
        ({"weight": 65536}, "should be less than or equal to 65535"),
        ({"priority": 2**31}, "must be of type integer with format int32 in spec.priority"),
        ({"dequeueStrategy": "lifo"}, 'spec.dequeueStrategy: Unsupported value: "lifo"'),
        ({"capability": {"cpu": "much"}}, "spec.capability.cpu: Invalid value"),
        ({"capability": {"cpu": True}}, "spec.capability.cpu: Invalid value"),
        ({"guarantee": {"resource": {"memory": []}}}, "spec.guarantee.resource.memory: Invalid value"),
        ({"capability": "all"}, "spec.capability: Invalid value"),
    ],
)
def test_what_the_schema_forbids_is_refused_with_its_path(kubectl: Kubectl, spec: dict[str, Any], words: str) -> None:
    code, output = kubectl.attempt("create", "--validate=false", "-f", "-", manifest=_queue("bad", **spec))
    assert (code, words in output) == (1, True), output


def test_status_is_a_subresource_and_its_values_are_checked(kubectl: Kubectl) -> None:
    manifest = _queue("with-status") | {"status": {"state": "Closed", "allocated": {}}}
    kubectl("create", "-f", "-", manifest=manifest)
    assert "status" not in _stored(kubectl, "with-status")
    patch = ["patch", "queue", "with-status", "--subresource=status", "--type=merge", "-p"]
    code, output = kubectl.attempt(*patch, '{"status":{"state":"Shut","allocated":{}}}')
    assert (code, 'status.state: Unsupported value: "Shut"' in output) == (1, True), output
    code, output = kubectl.attempt(*patch, '{"status":{"state":"Open"}}')
    assert (code, "status.allocated: Required value" in output) == (1, True), output
    kubectl(*patch, '{"spec":{"weight":9},"status":{"state":"Closed","pending":3,"allocated":{"cpu":"500m"}}}')
    stored = _stored(kubectl, "with-status")
    assert (stored["spec"]["weight"], stored["status"]["allocated"]) == (1, {"cpu": "500m"})


def test_the_columns_show_what_people_ask_for(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", manifest=_queue("shown", parent="root", weight=4))
    patch = '{"status":{"state":"Open","pending":3,"running":1,"allocated":{}}}'
    kubectl("patch", "q", "shown", "--subresource=status", "--type=merge", "-p", patch)
    header, row = (line.split() for line in kubectl("get", "q", "shown").splitlines())
    assert header == ["NAME", "PARENT", "STATE", "PENDING", "RUNNING", "AGE"]
    assert row[:5] == ["shown", "root", "Open", "3", "1"]
    wide = kubectl("get", "queues", "shown", "-o", "wide").splitlines()[0].split()
    assert wide == ["NAME", "PARENT", "STATE", "WEIGHT", "PENDING", "INQUEUE", "RUNNING", "ACCEPTED", "AGE"]
    assert "queue.scheduling.volcano.sh/shown" in kubectl("get", "allhands", "-o", "name")
