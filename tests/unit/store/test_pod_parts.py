"""Ephemeral containers and resources of pods in a store alone; `tests/conformance` compares them with a real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.errors import StatusError
from tests.manifests import PODS, pod

if TYPE_CHECKING:
    from allhands.store import InProcessObjects


def resized(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


def small(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return pod(name, containers=[container], **spec)


async def test_a_pod_that_waits_asks_for_more_as_a_new_generation(objects: InProcessObjects) -> None:
    await objects.create(PODS, small("a"), "default")
    changed = await objects.patch(PODS, "a", "strategic", resized("2"), "default", subresource="resize")
    manifest = changed.manifest()
    assert manifest["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert manifest["metadata"]["generation"] == 2
    again = await objects.patch(PODS, "a", "strategic", resized("2"), "default", subresource="resize")
    assert again.manifest() == manifest


async def test_a_pod_that_runs_where_nobody_can_resize_it_stays_as_it_is(objects: InProcessObjects) -> None:
    await objects.create(PODS, small("a"), "default")
    told: dict[str, Any] = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    status = {"containerStatuses": [told | {"state": {"running": {}}}]}
    await objects.patch(PODS, "a", "merge", {"status": status}, "default", subresource="status")
    with pytest.raises(StatusError, match="Pod running on node without support for resize"):
        await objects.patch(PODS, "a", "strategic", resized("2"), "default", subresource="resize")


async def test_a_pod_does_not_outgrow_its_node(objects: InProcessObjects) -> None:
    await objects.create(PODS, small("a", nodeName="nowhere"), "default")
    with pytest.raises(StatusError, match='node "nowhere" not found') as refusal:
        await objects.patch(PODS, "a", "strategic", resized("2"), "default", subresource="resize")
    assert refusal.value.code == 403


async def test_ephemeral_containers_only_come(objects: InProcessObjects) -> None:
    await objects.create(PODS, small("a"), "default")
    for name in ("one", "two"):
        body = {"spec": {"ephemeralContainers": [{"name": name, "image": "i"}]}}
        changed = await objects.patch(PODS, "a", "strategic", body, "default", subresource="ephemeralcontainers")
    assert {it["name"] for it in changed.manifest()["spec"]["ephemeralContainers"]} == {"one", "two"}
    nothing: dict[str, Any] = {"spec": {"ephemeralContainers": None}}
    with pytest.raises(StatusError, match='existing ephemeral containers "one" may not be removed'):
        await objects.patch(PODS, "a", "merge", nothing, "default", subresource="ephemeralcontainers")
