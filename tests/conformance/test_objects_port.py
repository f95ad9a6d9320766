"""The port `Objects` means the same wherever it leads: in process, over HTTP to the embedded or the real server."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.compose.embedded_data import stored
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects, Settings
from allhands.ports import DeleteOptions, Objects, Query, WriteOptions
from allhands.store import InProcessObjects, Store
from allhands.store.admission import NO_WEBHOOKS
from tests.doubles import CountingIds, ManualClock
from tests.manifests import BUDGETS, CONFIG_MAPS, NAMESPACES, NODES, PODS, config_map, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from allhands.compose.embedded import EmbeddedCluster
    from tests.controlplane import ControlPlane

PATIENCE_SECONDS = 20


class Home:
    """One implementation of the port, and a namespace of its own in it."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    async def make(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return (await self.objects.create(CONFIG_MAPS, manifest, self.namespace)).manifest()

    async def names(self, **query: Any) -> list[str]:
        page = await self.objects.list(CONFIG_MAPS, Query(namespace=self.namespace, **query))
        return [msgspec.json.decode(item)["metadata"]["name"] for item in page.items]


@pytest.fixture(params=["in process", "on disk", "embedded", "real", "embedded, packed", "real, packed"])
async def home(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Home]:
    namespace = f"port-{os.urandom(4).hex()}"
    if request.param == "on disk":
        async with stored(tmp_path, ManualClock(), CountingIds(), NO_WEBHOOKS, durable=True) as kept:
            await kept.objects.create(NAMESPACES, {"metadata": {"name": namespace}})
            yield Home(kept.objects, namespace)
        return
    if request.param == "in process":
        objects: Objects = InProcessObjects(Store(ManualClock(), CountingIds()))
        await objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Home(objects, namespace)
        return
    cluster: EmbeddedCluster | ControlPlane = request.getfixturevalue(
        "embedded_cluster" if request.param.startswith("embedded") else "control_plane"
    )
    packed = frozenset({PODS, NODES, CONFIG_MAPS, BUDGETS}) if request.param.endswith("packed") else frozenset()
    async with KubeObjects(kubeconfig.load(cluster.kubeconfig), settings=Settings(packed=packed)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield Home(client, namespace)


async def refused(awaitable: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await awaitable
    return caught.value


async def test_an_object_is_created_read_changed_and_deleted(home: Home) -> None:
    made = await home.make(config_map("a", k="1"))
    assert (await home.objects.get(CONFIG_MAPS, "a", home.namespace)).manifest()["data"] == {"k": "1"}
    changed = await home.objects.update(CONFIG_MAPS, "a", {**made, "data": {"k": "2"}}, home.namespace)
    assert changed.manifest()["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    stale = await refused(home.objects.update(CONFIG_MAPS, "a", {**made, "data": {"k": "3"}}, home.namespace))
    assert (stale.code, stale.reason) == (409, "Conflict")
    deleted = await home.objects.delete(CONFIG_MAPS, "a", home.namespace)
    assert (deleted.gone, deleted.as_status) == (True, True)
    assert (await refused(home.objects.get(CONFIG_MAPS, "a", home.namespace))).code == 404


async def test_refusals_carry_reason_and_path(home: Home) -> None:
    await home.make(config_map("a"))
    again = await refused(home.make(config_map("a")))
    assert (again.code, again.reason) == (409, "AlreadyExists")
    broken = await refused(home.make(config_map("A_b")))
    assert (broken.code, (broken.details or {})["causes"][0]["field"]) == (422, "metadata.name")


async def test_unknown_fields_warn_or_refuse(home: Home) -> None:
    body = {**config_map("a"), "dota": {}}
    made = await home.objects.create(CONFIG_MAPS, body, home.namespace, WriteOptions(field_validation="Warn"))
    assert made.warnings == ('unknown field "dota"',)
    strict = WriteOptions(field_validation="Strict")
    assert (await refused(home.objects.create(CONFIG_MAPS, body, home.namespace, strict))).code == 400


async def test_lists_select_and_come_in_pages(home: Home) -> None:
    for number in range(5):
        await home.make(config_map(f"c{number}", labels={"odd": str(number % 2)}))
    assert await home.names(labels="odd=1") == ["c1", "c3"]
    assert await home.names(fields="metadata.name=c2") == ["c2"]
    page = await home.objects.list(CONFIG_MAPS, Query(namespace=home.namespace, limit=2))
    assert (len(page.items), page.remaining) == (2, 3)
    await home.make(config_map("c22"))
    token = page.continue_token
    rest = await home.objects.list(CONFIG_MAPS, Query(namespace=home.namespace, limit=9, continue_token=token))
    assert [msgspec.json.decode(item)["metadata"]["name"] for item in rest.items] == ["c2", "c3", "c4"]


async def test_a_watch_goes_on_from_a_list(home: Home) -> None:
    await home.make(config_map("before"))
    version = (await home.objects.list(CONFIG_MAPS, Query(namespace=home.namespace))).version
    watch = await home.objects.watch(CONFIG_MAPS, Query(namespace=home.namespace, resource_version=version))
    await home.make(config_map("a"))
    await home.objects.patch(CONFIG_MAPS, "a", "merge", {"data": {"k": "v"}}, home.namespace)
    await home.objects.delete(CONFIG_MAPS, "a", home.namespace)
    seen = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(3):
            event = await watch.__anext__()
            seen.append((event.type, event.manifest()["metadata"]["name"]))
    await watch.close()
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_a_watch_may_begin_with_what_is_there(home: Home) -> None:
    await home.make(config_map("a"))
    watch = await home.objects.watch(
        CONFIG_MAPS, Query(namespace=home.namespace, version_match="NotOlderThan"), bookmarks=True, initial_events=True
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        events = [await watch.__anext__(), await watch.__anext__()]
    await watch.close()
    assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1].manifest()["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("patch_type", "patch"),
    [
        ("merge", {"metadata": {"labels": {"b": "c"}}}),
        ("json", [{"op": "add", "path": "/metadata/labels", "value": {"b": "c"}}]),
        ("strategic", {"metadata": {"labels": {"b": "c"}}}),
    ],
)
async def test_patches_apply(home: Home, patch_type: Any, patch: Any) -> None:
    await home.make(config_map("a"))
    patched = await home.objects.patch(CONFIG_MAPS, "a", patch_type, patch, home.namespace)
    assert patched.manifest()["metadata"]["labels"] == {"b": "c"}


async def test_a_pod_is_bound_once_and_evicted_within_its_budget(home: Home) -> None:
    made = await home.objects.create(PODS, pod("p", labels={"app": "x"}), home.namespace)
    uid = made.manifest()["metadata"]["uid"]
    await home.objects.bind(home.namespace, "p", {"metadata": {"name": "p", "uid": uid}, "target": {"name": "n1"}})
    second = await refused(home.objects.bind(home.namespace, "p", {"target": {"name": "n2"}}))
    assert (second.code, second.reason) == (409, "Conflict")
    running = {"status": {"phase": "Running"}}
    await home.objects.patch(PODS, "p", "merge", running, home.namespace, subresource="status")
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    await home.objects.create(BUDGETS, budget, home.namespace)
    assert (await refused(home.objects.evict(home.namespace, "p", {}))).code == 429
    await home.objects.delete(BUDGETS, "b", home.namespace)
    deleted = await home.objects.delete(PODS, "p", home.namespace)
    assert not deleted.gone
    assert (await home.objects.delete(PODS, "p", home.namespace, DeleteOptions(grace_seconds=0, uid=uid))).gone


async def test_preconditions_and_dry_runs_protect(home: Home) -> None:
    await home.make(config_map("a"))
    wrong = await refused(home.objects.delete(CONFIG_MAPS, "a", home.namespace, DeleteOptions(uid="other")))
    assert wrong.code == 409
    await home.objects.delete(CONFIG_MAPS, "a", home.namespace, DeleteOptions(dry_run=True))
    assert await home.names() == ["a"]
    await home.objects.create(CONFIG_MAPS, config_map("b"), home.namespace, WriteOptions(dry_run=True))
    assert await home.names() == ["a"]


async def test_a_collection_is_deleted_by_label(home: Home) -> None:
    for number in range(4):
        await home.make(config_map(f"c{number}", labels={"odd": str(number % 2)}))
    await home.objects.delete_all(CONFIG_MAPS, Query(namespace=home.namespace, labels="odd=1"))
    assert await home.names() == ["c0", "c2"]


async def test_the_status_has_its_own_door(home: Home) -> None:
    name = f"{home.namespace}-node"
    made = (await home.objects.create(NODES, {"metadata": {"name": name}})).manifest()
    made["status"] = {"capacity": {"cpu": "4000m"}}
    shown = (await home.objects.update(NODES, name, made, subresource="status")).manifest()
    assert shown["status"]["capacity"] == {"cpu": "4"}
    await home.objects.delete(NODES, name)
