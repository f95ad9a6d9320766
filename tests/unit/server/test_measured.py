"""metrics.k8s.io, as `kubectl top` asks for it: served beside the stored kinds, measured for each request."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from allhands.agents.usage import InUse, NodeUsage, PodUsage
from allhands.server.app import App, build_app
from allhands.store import InProcessObjects, Store
from tests.access_face import AccessFace
from tests.doubles import CountingIds, ManualClock
from tests.manifests import NAMESPACES, NODES, PODS
from tests.unit.server.asgi_client import TOKEN, Client

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

API = "/apis/metrics.k8s.io/v1beta1"
WHEN = datetime.datetime(2026, 1, 31, 12, 0, 5, tzinfo=datetime.UTC)
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


class Told:
    """Usages that are made up."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeUsage] = {}
        self.pods: dict[str, PodUsage] = {}
        self.asked: list[Sequence[str]] = []

    async def of_nodes(self, names: Sequence[str]) -> dict[str, NodeUsage]:
        self.asked.append(names)
        return {name: self.nodes[name] for name in names if name in self.nodes}

    async def of_pods(self, keys: Sequence[str]) -> dict[str, PodUsage]:
        self.asked.append(keys)
        return {key: self.pods[key] for key in keys if key in self.pods}


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock, CountingIds())


@pytest.fixture
def objects(store: Store) -> InProcessObjects:
    return InProcessObjects(store)


@pytest.fixture
def app(store: Store, objects: InProcessObjects, clock: ManualClock, told: Told) -> App:
    return build_app(objects, store.kinds, token=TOKEN, clock=clock, usages=told)


async def add_pod(objects: InProcessObjects, name: str, namespace: str = "default", **labels: str) -> None:
    body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    await objects.create(PODS, body, namespace)


def measured(**containers: tuple[int, int]) -> PodUsage:
    return PodUsage({name: InUse(*it) for name, it in containers.items()}, WHEN, 1.5)


async def names(client: Client, path: str) -> list[str]:
    reply = await client.get(f"{API}/{path}")
    assert reply.code == 200, reply.body
    return [it["metadata"]["name"] for it in reply.json()["items"]]


async def test_a_pod_shows_what_each_container_uses(client: Client, objects: InProcessObjects, told: Told) -> None:
    await add_pod(objects, "a", app="x")
    told.pods["default/a"] = measured(c=(12_345_678, 20 * 2**20), d=(250_000_000, 1000))
    document = (await client.get(f"{API}/namespaces/default/pods/a")).json()
    created = document["metadata"].pop("creationTimestamp")
    assert created.endswith("Z")
    assert document == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "x"}},
        "timestamp": "2026-01-31T12:00:05Z",
        "window": "1.5s",
        "containers": [
            {"name": "c", "usage": {"cpu": "12345678n", "memory": "20Mi"}},
            {"name": "d", "usage": {"cpu": "250m", "memory": "1k"}},
        ],
    }


async def test_lists_are_selected_as_lists_of_pods_are(client: Client, objects: InProcessObjects, told: Told) -> None:
    await objects.create(NAMESPACES, {"metadata": {"name": "other"}})
    for name, namespace, label in (("a", "default", "x"), ("b", "default", "y"), ("c", "other", "x")):
        await add_pod(objects, name, namespace, app=label)
        told.pods[f"{namespace}/{name}"] = measured(c=(1, 1))
    await add_pod(objects, "idle")
    assert await names(client, "pods") == ["a", "b", "c"]
    assert await names(client, "namespaces/default/pods") == ["a", "b"]
    assert await names(client, "pods?labelSelector=app%3Dx") == ["a", "c"]
    assert await names(client, "pods?fieldSelector=metadata.name%3Db") == ["b"]
    assert await names(client, "namespaces/default/pods?limit=1") == ["a", "b"], "it is never told in pages"
    assert told.asked[1] == ["default/a", "default/b", "default/idle"]


async def test_a_list_says_what_it_is_a_list_of(client: Client, objects: InProcessObjects, told: Told) -> None:
    await add_pod(objects, "a")
    told.pods["default/a"] = measured(c=(1, 1))
    document = (await client.get(f"{API}/pods")).json()
    assert (document["kind"], document["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    assert "kind" not in document["items"][0]


async def test_nodes_say_what_they_use(client: Client, objects: InProcessObjects, told: Told) -> None:
    for name in ("n1", "n2"):
        await objects.create(NODES, {"metadata": {"name": name, "labels": {"zone": name}}})
    told.nodes["n1"] = NodeUsage(InUse(1_500_000_000, 3 * 2**30), WHEN, 61.25)
    document = (await client.get(f"{API}/nodes/n1")).json()
    assert document["kind"] == "NodeMetrics"
    assert (document["usage"], document["window"]) == ({"cpu": "1500m", "memory": "3Gi"}, "1m1.25s")
    assert await names(client, "nodes") == ["n1"]
    assert await names(client, "nodes?labelSelector=zone%3Dn2") == []


async def test_what_is_not_measured_is_not_found(client: Client, objects: InProcessObjects) -> None:
    await add_pod(objects, "idle")
    await objects.create(NODES, {"metadata": {"name": "n1"}})
    for path, words in (
        ("namespaces/default/pods/idle", 'podmetrics.metrics.k8s.io "default/idle" not found'),
        ("namespaces/default/pods/nobody", 'pods "nobody" not found'),
        ("nodes/n1", 'nodemetrics.metrics.k8s.io "n1" not found'),
        ("nodes/n9", 'nodes "n9" not found'),
    ):
        reply = await client.get(f"{API}/{path}")
        assert (reply.code, reply.json()["message"]) == (404, words)


async def test_nobody_writes_or_watches_it(client: Client, objects: InProcessObjects) -> None:
    await add_pod(objects, "a")
    for method, path in (
        ("POST", "namespaces/default/pods"),
        ("DELETE", "namespaces/default/pods/a"),
        ("DELETE", "namespaces/default/pods"),
        ("PUT", "nodes/n1"),
        ("GET", "pods?watch=true"),
        ("GET", "watch/pods"),
    ):
        reply = await client.ask(method, f"{API}/{path}", b"{}" if method in ("POST", "PUT") else None)
        assert reply.code == 405, (method, path, reply.body)
    assert (await client.get(f"{API}/namespaces/default/pods/a/status")).code == 404
    assert (await client.get("/api/v1/namespaces/default/pods/a")).code == 200


async def test_a_table_sums_the_containers(client: Client, objects: InProcessObjects, told: Told) -> None:
    await add_pod(objects, "a")
    told.pods["default/a"] = measured(c=(100_000_000, 2**20), d=(150_000_000, 2**20))
    table = (await client.ask("GET", f"{API}/pods", headers=TABLE)).json()
    assert [it["name"] for it in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert table["rows"][0]["cells"] == ["a", "250m", "2Mi", "1.5s"]


async def test_it_is_discovered_and_described(client: Client) -> None:
    groups = [it["name"] for it in (await client.get("/apis")).json()["groups"]]
    assert "metrics.k8s.io" in groups
    rows: list[dict[str, Any]] = (await client.get(API)).json()["resources"]
    assert [(it["name"], it["kind"], it["namespaced"], it["verbs"]) for it in rows] == [
        ("nodes", "NodeMetrics", False, ["get", "list"]),
        ("pods", "PodMetrics", True, ["get", "list"]),
    ]
    assert all("storageVersionHash" not in it for it in rows)
    schemas = (await client.get("/openapi/v3/apis/metrics.k8s.io/v1beta1")).json()["components"]["schemas"]
    assert "containers" in schemas["io.k8s.metrics.v1beta1.PodMetrics"]["properties"]


async def test_without_anybody_to_ask_it_is_not_served(store: Store, objects: InProcessObjects) -> None:
    client = Client(build_app(objects, store.kinds, token=TOKEN, clock=ManualClock()))
    assert (await client.get(f"{API}/pods")).code == 404
    assert "metrics.k8s.io" not in [it["name"] for it in (await client.get("/apis")).json()["groups"]]


async def test_whoever_has_the_role_sees_what_pods_of_the_namespace_use(tmp_path: Path) -> None:
    face = AccessFace(tmp_path, usages=Told())
    await face.begin("ada", "grace")
    subjects = [{"kind": "User", "name": "ada"}]
    role = {"kind": "ClusterRole", "name": "system:aggregated-metrics-reader"}
    binding = {"metadata": {"name": "ada"}, "roleRef": role, "subjects": subjects}
    await face.make("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    found = (await face.ask("admin", "GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role['name']}")).json()
    for gathering in ("view", "edit", "admin"):
        assert found["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{gathering}"] == "true"
    assert (await face.ask("ada", "GET", f"{API}/namespaces/default/pods")).code == 200
    for who, path, what in (
        ("ada", "pods", 'cannot list resource "pods" in API group "metrics.k8s.io" at the cluster scope'),
        ("ada", "nodes", 'cannot list resource "nodes" in API group "metrics.k8s.io" at the cluster scope'),
        ("grace", "namespaces/default/pods", 'cannot list resource "pods" in API group "metrics.k8s.io" in the namesp'),
    ):
        reply = await face.ask(who, "GET", f"{API}/{path}")
        assert reply.code == 403
        assert what in reply.json()["message"]
