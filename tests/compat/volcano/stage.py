"""A namespace of its own on one of the servers, for one story: what a user does there, and what a user sees.

Everything goes through the API: nothing here knows how the cluster is made. Whoever waits, waits by watching.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from allhands.api.kinds import Resource
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.compose.nodes import NODES, NodeSize, node_manifest
from allhands.ports import DEFAULT_WRITE, Query
from tests.manifests import CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, NAMESPACES, PODS, PRIORITY_CLASSES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from allhands.api.document import Manifest
    from allhands.kube.objects import KubeObjects
    from allhands.ports import Watch, WriteOptions

MANIFESTS = Path(__file__).parent / "manifests"
WITHIN_SECONDS = 420.0
"""For one thing to come about; on two quiet cores each takes a few seconds, a CronJob up to a minute."""
SERVICES = Resource("", "v1", "services")
SECRETS = Resource("", "v1", "secrets")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes")
CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
PLAIN_JOBS = Resource("batch", "v1", "jobs")
REPLICA_SETS = Resource("apps", "v1", "replicasets")
_OF_KUBERNETES: dict[tuple[str, str], tuple[Resource, bool]] = {
    ("v1", "ConfigMap"): (CONFIG_MAPS, True),
    ("v1", "Pod"): (PODS, True),
    ("v1", "PersistentVolume"): (VOLUMES, False),
    ("v1", "PersistentVolumeClaim"): (CLAIMS, True),
    ("storage.k8s.io/v1", "StorageClass"): (CLASSES, False),
    ("apps/v1", "Deployment"): (DEPLOYMENTS, True),
    ("apps/v1", "ReplicaSet"): (REPLICA_SETS, True),
    ("batch/v1", "Job"): (PLAIN_JOBS, True),
    ("scheduling.k8s.io/v1", "PriorityClass"): (PRIORITY_CLASSES, False),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): (DEFINITIONS, False),
}
KNOWN = _OF_KUBERNETES | {(it.api_version, it.kind): (it.resource, it.namespaced) for it in VOLCANO_KINDS}
OF = {it.kind: it.resource for it in VOLCANO_KINDS}
"""Volcano's resources by kind."""


def phase_of(manifest: Manifest) -> str:
    """`status.state.phase`, which is what Volcano's clients read."""
    return str(((manifest.get("status") or {}).get("state") or {}).get("phase", ""))


def named(found: Iterable[Manifest]) -> list[str]:
    return sorted(it["metadata"]["name"] for it in found)


class Kept:
    """Objects as they were last seen, also those that are gone."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._found: dict[Resource, dict[str, Manifest]] = {it: {} for it in resources}
        self._changed = asyncio.Condition()

    async def keep(self, resource: Resource, watch: Watch) -> None:
        async for event in watch:
            manifest = event.manifest()
            async with self._changed:
                self._found[resource][manifest["metadata"]["name"]] = manifest
                self._changed.notify_all()

    async def get(self, resource: Resource, name: str, good: Callable[[Manifest], Any] = bool) -> Manifest:
        """What this watch tells may come a little later than what others have told already."""
        found = self._found[resource]
        async with asyncio.timeout(WITHIN_SECONDS), self._changed:
            await self._changed.wait_for(lambda: name in found and good(found[name]))
        return found[name]


class Stage:
    def __init__(self, objects: KubeObjects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    async def prepare(self) -> None:
        await self.objects.create(NAMESPACES, {"metadata": {"name": self.namespace}})

    async def nodes(self, count: int, cpu: str, first: int = 0) -> None:
        """Nodes that nobody else uses: they are tainted, and pods ask for them by `room: NAMESPACE`."""
        taints = [{"key": "room", "value": self.namespace, "effect": "NoSchedule"}]
        for number in range(first, first + count):
            name = f"{self.namespace}-{number}"
            manifest = node_manifest(name, NodeSize(cpu), "2026-01-01T00:00:00Z", {"room": self.namespace})
            await self.objects.create(NODES, {**manifest, "spec": {"taints": taints}})
            await self.objects.patch(NODES, name, "merge", {"spec": {"taints": taints}})
            await self.objects.patch(NODES, name, "merge", {"status": manifest["status"]}, subresource="status")

    async def apply(self, *manifests: Manifest, options: WriteOptions = DEFAULT_WRITE) -> list[Manifest]:
        """One after the other, into this namespace; as they are stored."""
        stored = []
        for it in manifests:
            resource, namespaced = KNOWN[it["apiVersion"], it["kind"]]
            answer = await self.objects.create(resource, it, self.namespace if namespaced else "", options)
            stored.append(answer.manifest())
        return stored

    async def apply_file(self, name: str) -> list[Manifest]:
        """As `kubectl apply -n NAMESPACE -f FILE`. NAMESPACE in it is this one: what has no namespace needs a name of
        its own."""
        text = (MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8").replace("NAMESPACE", self.namespace)
        return await self.apply(*(it for it in yaml.safe_load_all(text) if it))

    async def get(self, kind: str | Resource, name: str) -> Manifest:
        resource = OF[kind] if isinstance(kind, str) else kind
        return (await self.objects.get(resource, name, self._space(resource))).manifest()

    async def all(self, kind: str | Resource, labels: str = "") -> list[Manifest]:
        resource = OF[kind] if isinstance(kind, str) else kind
        page = await self.objects.list(resource, Query(namespace=self._space(resource), labels=labels))
        return [msgspec.json.decode(raw) for raw in page.items]

    async def pods(self, job: str = "", task: str = "") -> list[Manifest]:
        """Those of a Job, as tools look for them."""
        wanted = {"volcano.sh/job-name": job, "volcano.sh/task-spec": task}
        labels = ",".join(f"{key}={value}" for key, value in wanted.items() if value)
        return sorted(await self.all(PODS, labels), key=lambda it: str(it["metadata"]["name"]))

    async def environment(self, pod: Manifest, kept: Kept) -> dict[str, str]:
        """That of its first container, as its kubelet would tell it: also what is in ConfigMaps."""
        told = {}
        for it in pod["spec"]["containers"][0].get("env") or ():
            source = (it.get("valueFrom") or {}).get("configMapKeyRef")
            told[it["name"]] = it.get("value", "")
            if source:
                told[it["name"]] = (await kept.get(CONFIG_MAPS, source["name"]))["data"][source["key"]]
        return told

    @contextlib.asynccontextmanager
    async def keeping(self, *resources: Resource) -> AsyncIterator[Kept]:
        """What there ever was of these kinds: what plugins make goes when the Job has ended."""
        kept = Kept(resources)
        watches = [await self.objects.watch(it, Query(namespace=self.namespace)) for it in resources]
        tasks = [asyncio.create_task(kept.keep(*each)) for each in zip(resources, watches, strict=True)]
        try:
            yield kept
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for watch in watches:
                await watch.close()

    async def patch(self, kind: str | Resource, name: str, patch: Manifest) -> None:
        resource = OF[kind] if isinstance(kind, str) else kind
        await self.objects.patch(resource, name, "merge", patch, self._space(resource))

    async def command(self, action: str, name: str, kind: str = "Job") -> None:
        """As vcctl writes it."""
        found = await self.get(kind, name)
        target = {"apiVersion": found["apiVersion"], "kind": kind, "name": name, "uid": found["metadata"]["uid"]}
        manifest = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": f"{name}-{action.lower()}-"},
            "action": action,
            "target": {**target, "controller": True},
        }
        await self.apply(manifest)

    async def ends(self, job: str, phase: str = "Completed") -> Manifest:
        """The Job's status in that phase."""
        found = await self.seen("Job", job, lambda it: phase_of(it) == phase)
        return found["status"]  # type: ignore[no-any-return]

    async def seen(self, kind: str | Resource, name: str, good: Callable[[Manifest], Any]) -> Manifest:
        """The object, as soon as it is as wanted."""
        found = await self.until(kind, lambda all_: name in all_ and good(all_[name]), only=name)
        return found[name]

    async def gone(self, kind: str | Resource, name: str) -> None:
        await self.until(kind, lambda found: not found, only=name)

    async def pods_are(self, count: int, phase: str, job: str = "", task: str = "") -> list[Manifest]:
        """So many pods in that phase that are not told to go, and no others that are not."""

        def good(found: dict[str, Manifest]) -> bool:
            staying = self._chosen(found, job, task)
            return len(staying) == count and all(it["status"].get("phase") == phase for it in staying)

        return self._chosen(await self.until(PODS, good), job, task)

    @staticmethod
    def _chosen(found: dict[str, Manifest], job: str, task: str) -> list[Manifest]:
        def is_meant(labels: dict[str, str]) -> bool:
            return (not job or labels.get("volcano.sh/job-name") == job) and (
                not task or labels.get("volcano.sh/task-spec") == task
            )

        chosen = [it for _, it in sorted(found.items()) if is_meant(it["metadata"].get("labels") or {})]
        return [it for it in chosen if "deletionTimestamp" not in it["metadata"]]

    async def until(
        self, kind: str | Resource, good: Callable[[dict[str, Manifest]], Any], *, only: str = ""
    ) -> dict[str, Manifest]:
        """The objects by name, as soon as they are as wanted together."""
        resource = OF[kind] if isinstance(kind, str) else kind
        query = Query(namespace=self._space(resource), fields=f"metadata.name={only}" if only else "")
        found: dict[str, Manifest] = {}
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while not await self._watched(resource, query, found, good):
                    pass
        except TimeoutError:
            shown = {name: it.get("status") for name, it in found.items()}
            raise AssertionError(f"{resource.plural} in {self.namespace} never became so: {shown}") from None
        return found

    async def _watched(
        self, resource: Resource, query: Query, found: dict[str, Manifest], good: Callable[[dict[str, Manifest]], Any]
    ) -> bool:
        """False if the watch ends before they are as wanted."""
        page = await self.objects.list(resource, query)
        found.clear()
        found.update({it["metadata"]["name"]: it for it in map(msgspec.json.decode, page.items)})
        if good(found):
            return True
        watch = await self.objects.watch(resource, msgspec.structs.replace(query, resource_version=page.version))
        try:
            async for event in watch:
                if event.type == "ERROR":
                    return False
                manifest = event.manifest()
                if event.type == "DELETED":
                    found.pop(manifest["metadata"]["name"], None)
                else:
                    found[manifest["metadata"]["name"]] = manifest
                if good(found):
                    return True
        finally:
            await watch.close()
        return False

    def _space(self, resource: Resource) -> str:
        return self.namespace if _NAMESPACED.get(resource, True) else ""


_NAMESPACED = dict(KNOWN.values())
