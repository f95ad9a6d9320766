"""A bare cluster for the webhooks: the store without admission of its own, which also answers whether somebody may do
something, and keeps configurations of webhooks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.definitions import DEFINITIONS
from allhands.api.errors import already_exists, conflict, no_such_object
from allhands.api.kinds import Resource
from allhands.api.patch.values import copied
from allhands.api.volcano.job import JOB
from allhands.api.volcano.queue import QUEUE
from allhands.ports import DEFAULT_WRITE, Document
from allhands.runtime.installation.webhooks import MUTATING, VALIDATING
from allhands.server.webhooks.others import KnownObjects
from allhands.server.webhooks.review import API_VERSION, KIND
from allhands.server.webhooks.submitters import REVIEWS
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.definitions import Definition
    from allhands.api.document import Manifest
    from allhands.ports import WriteOptions

SECRETS = Resource("", "v1", "secrets")
SPACE = "default"


class WebhookCluster(InProcessObjects):
    """`grants` are who may do what: (user, verb, resource, name). `calls` are all calls, in their order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, CountingIds())
        super().__init__(self.store)
        self.grants: set[tuple[str, str, str, str]] = set()
        self.reviews: list[Manifest] = []
        self.calls: list[tuple[str, Resource, str]] = []
        self.configurations: dict[Resource, Manifest] = {}
        self.refuses: dict[tuple[str, Resource], Exception] = {}

    def _note(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append((verb, resource, name))
        if (verb, resource) in self.refuses:
            raise self.refuses[verb, resource]

    async def get(self, resource: Resource, name: str, namespace: str = "", **more: Any) -> Document:
        self._note("get", resource, name)
        if resource not in (MUTATING, VALIDATING):
            return await super().get(resource, name, namespace, **more)
        if resource not in self.configurations:
            raise no_such_object(resource.group, resource.plural, name)
        return Document(msgspec.json.encode(self.configurations[resource]))

    async def list(self, resource: Resource, *arguments: Any, **more: Any) -> Any:
        self._note("list", resource, "")
        return await super().list(resource, *arguments, **more)

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        manifest = copied(body) if isinstance(body, dict) else msgspec.json.decode(body)
        self._note("create", resource, (manifest.get("metadata") or {}).get("name", ""))
        if resource == REVIEWS:
            return Document(msgspec.json.encode(self._reviewed(manifest)))
        if resource in (MUTATING, VALIDATING):
            if resource in self.configurations:
                raise already_exists(resource.group, resource.plural, manifest["metadata"]["name"])
            manifest["metadata"]["resourceVersion"] = "1"
            self.configurations[resource] = manifest
            return Document(msgspec.json.encode(manifest))
        return await super().create(resource, body, namespace, options)

    def _reviewed(self, review: Manifest) -> Manifest:
        spec = review["spec"]
        self.reviews.append(spec)
        wanted = spec["resourceAttributes"]
        right = (spec["user"], wanted["verb"], wanted["resource"], wanted.get("name", ""))
        return {**review, "status": {"allowed": right in self.grants}}

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Manifest | bytes,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Document:
        self._note("update", resource, name)
        if resource not in (MUTATING, VALIDATING):
            return await super().update(resource, name, body, namespace, options, subresource=subresource)
        manifest = copied(body) if isinstance(body, dict) else msgspec.json.decode(body)
        version = self.configurations[resource]["metadata"]["resourceVersion"]
        if manifest["metadata"]["resourceVersion"] != version:
            raise conflict(resource.group, resource.plural, name, "it was changed")
        manifest["metadata"]["resourceVersion"] = str(int(version) + 1)
        self.configurations[resource] = manifest
        return Document(msgspec.json.encode(manifest))


@contextlib.asynccontextmanager
async def cluster_with_copies(*kinds: Definition) -> AsyncIterator[tuple[WebhookCluster, KnownObjects]]:
    """With queues, other kinds if wanted, and copies that are up to date."""
    cluster = WebhookCluster()
    for definition in (QUEUE, *kinds):
        await cluster.create(DEFINITIONS, definition.manifest())
    cluster.store.housekeeper.run_pending()
    known = KnownObjects(cluster)
    copying = asyncio.create_task(known.run())
    try:
        async with asyncio.timeout(30):
            await known.until_ready()
        yield cluster, known
    finally:
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)


def review(
    manifest: Manifest | None,
    old: Manifest | None = None,
    *,
    operation: str = "CREATE",
    user: str = "bob",
    plural: str = "jobs",
    **more: Any,
) -> Manifest:
    """The question that an API server would ask."""
    about = manifest or old or {}
    group, _, version = about.get("apiVersion", JOB.api_version).rpartition("/")
    request = {
        "uid": "the-uid",
        "kind": {"group": group, "version": version, "kind": about.get("kind", "Job")},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": (about.get("metadata") or {}).get("name", ""),
        "namespace": SPACE,
        "operation": operation,
        "userInfo": {"username": user, "uid": "7", "groups": ["people"], "extra": {"from": ["there"]}},
        "object": manifest,
        "oldObject": old,
        "dryRun": False,
        **more,
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "request": request}


def job(name: str = "train", **spec: Any) -> Manifest:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
    tasks = [{"replicas": 2, "template": template}]
    return {
        "apiVersion": JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"tasks": tasks, **spec},
    }
