"""What is read in protobuf is what is read in JSON, of every kind that a real API server keeps, listed and watched."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.catalog import builtin_kinds
from allhands.api.errors import StatusError
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects, Settings
from allhands.ports import Query
from tests.manifests import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.controlplane import ControlPlane

IN_TIME = 60
NOT_SERVED = 404
KINDS = [kind.resource for kind in builtin_kinds() if {"list", "watch"} <= set(kind.verbs)]
RICH: dict[str, Any] = {
    "schedulerName": "nobody",
    "nodeSelector": {"disk": "ssd"},
    "terminationGracePeriodSeconds": 0,
    "hostname": "first",
    "subdomain": "all",
    "securityContext": {"runAsUser": 1000, "supplementalGroups": [1, 2], "sysctls": [{"name": "a.b", "value": "c"}]},
    "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": -5, "effect": "NoExecute"}],
    "schedulingGates": [{"name": "example.com/wait"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 7, "podAffinityTerm": {"topologyKey": "host", "labelSelector": {"matchLabels": {"x": ""}}}}
            ]
        },
    },
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1500M"}},
        {"name": "settings", "configMap": {"name": "c", "defaultMode": 256, "items": [{"key": "k", "path": "p"}]}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    ],
    "initContainers": [{"name": "before", "image": "i", "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "main",
            "image": "registry.example/work:1",
            "args": ["--say=\"a\\b\"", "\u20ac", ""],
            "env": [
                {"name": "EMPTY"},
                {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            "ports": [{"containerPort": 80, "name": "web"}],
            "resources": {"limits": {"cpu": "1500m", "example.com/gpu": "2"}, "requests": {"memory": "0.5Gi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 3},
            "livenessProbe": {"tcpSocket": {"port": 80}},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/s", "readOnly": True}],
        }
    ],
}  # fmt: skip


@pytest.fixture
async def clients(control_plane: ControlPlane) -> AsyncIterator[tuple[KubeObjects, KubeObjects]]:
    access = kubeconfig.load(control_plane.kubeconfig)
    packed = Settings(packed=frozenset(KINDS))
    async with KubeObjects(access) as plain, KubeObjects(access, settings=packed) as packing, asyncio.timeout(IN_TIME):
        yield plain, packing


async def test_lists_of_every_kind_are_the_same(
    clients: tuple[KubeObjects, KubeObjects], caplog: pytest.LogCaptureFixture
) -> None:
    plain, packing = clients
    namespace = await _filled(plain)
    compared = 0
    for resource in KINDS:
        try:
            listed = await plain.list(resource)
        except StatusError as refusal:
            assert refusal.code == NOT_SERVED
            continue
        again = await packing.list(resource, Query(resource_version=listed.version, version_match="Exact"))
        assert [_shown(it) for it in again.items] == [_shown(it) for it in listed.items]
        compared += len(again.items)
    assert compared > 10
    assert "JSON is asked for instead" not in caplog.text
    assert len((await packing.list(PODS, Query(namespace=namespace))).items) == 2


async def test_a_watch_shows_the_same(clients: tuple[KubeObjects, KubeObjects]) -> None:
    plain, _ = clients
    version = (await plain.list(PODS)).version
    namespace = await _filled(plain)
    await plain.patch(PODS, "rich", "merge", {"metadata": {"annotations": {"a": "b"}}}, namespace)
    await plain.delete(PODS, "rich", namespace)
    query = Query(namespace=namespace, resource_version=version)
    seen: list[list[tuple[str, Any]]] = []
    for client in clients:
        watch = await client.watch(PODS, query, bookmarks=True)
        seen.append([(event.type, _shown(event.raw)) for event in [await anext(watch) for _ in range(5)]])
        await watch.close()
    assert seen[0] == seen[1]
    assert [kind for kind, _ in seen[1]] == ["ADDED", "ADDED", "MODIFIED", "MODIFIED", "DELETED"]


async def test_a_refusal_of_a_packed_list_says_what_json_says(clients: tuple[KubeObjects, KubeObjects]) -> None:
    told = []
    for client in clients:
        with pytest.raises(StatusError) as refused:
            await client.list(PODS, Query(labels="a b"))
        told.append((refused.value.code, refused.value.reason, refused.value.message))
    assert told[0] == told[1]
    assert told[0][0] == 400


async def _filled(client: KubeObjects) -> str:
    namespace = f"packed-{os.urandom(4).hex()}"
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    odd = {"labels": {"a": "b", "empty": ""}, "annotations": {"text": '"\n\t\u20ac\U0001f600', "none": ""}}
    await client.create(PODS, {"metadata": {"name": "rich", **odd}, "spec": RICH}, namespace)
    plain = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "i"}]}
    await client.create(PODS, {"metadata": {"name": "plain"}, "spec": plain}, namespace)
    return namespace


def _shown(raw: bytes) -> Any:
    """Without what is not asked for, what lists leave out, and what JSON writes for nothing."""
    document = msgspec.json.decode(raw)
    document["metadata"].pop("managedFields", None)
    for template in document.get("spec", {}).get("volumeClaimTemplates", ()):  # messages do not say what these are
        template.pop("kind", None)
        template.pop("apiVersion", None)
    return _without_nothing({name: it for name, it in document.items() if name not in ("apiVersion", "kind")})


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(it) for name, it in value.items() if it is not None}
    return [_without_nothing(it) for it in value] if isinstance(value, list) else value
