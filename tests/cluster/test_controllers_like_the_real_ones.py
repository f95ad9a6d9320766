"""Our controllers on a real API server and kube-controller-manager's own, through the same story, end up the same."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.kinds import Resource
from allhands.controllers.cron_job import CronJobController
from allhands.controllers.deployment import DeploymentController
from allhands.controllers.disruption_budget import DisruptionBudgetController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.volume_binding import VolumeBindingController
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.cron_job import CRON_JOBS, JOBS
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS
from allhands.lifecycle.disruption_budget import BUDGETS
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS
from allhands.lifecycle.volume_kinds import CLAIMS, VOLUMES
from allhands.ports import Objects, Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from tests import pod_life
from tests.controller_cases import deployment, image_patch, replica_set
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from allhands.api.document import Manifest

NAMESPACES = Resource("", "v1", "namespaces")
THEIRS = (
    "deployment-controller",
    "replicaset-controller",
    "cronjob-controller",
    "disruption-controller",
    "persistentvolume-binder-controller",
)
PATIENCE_SECONDS = 25.0
ANNOTATIONS = "deployment.kubernetes.io/"


class SystemClock:
    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)


class Place:
    """A namespace on one of the two servers."""

    def __init__(self, objects: Objects, namespace: str) -> None:
        self.objects = objects
        self.namespace = namespace

    async def create(self, resource: Resource, manifest: Manifest) -> None:
        await self.objects.create(resource, manifest, self.namespace)

    async def patch(self, resource: Resource, name: str, patch: Manifest, subresource: str = "") -> None:
        await self.objects.patch(resource, name, "merge", patch, self.namespace, subresource=subresource)

    async def all(self, resource: Resource) -> list[Manifest]:
        query = Query(namespace="" if resource == VOLUMES else self.namespace)
        page = await self.objects.list(resource, query)
        return [msgspec.json.decode(item) for item in page.items]

    async def live(self) -> None:
        """Pods live on their own."""
        while True:
            await pod_life.step(self.objects, _now(), self.namespace)
            await asyncio.sleep(0.05)


def _now() -> str:
    return SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(document: Manifest) -> list[tuple[str, str, str]]:
    conditions = document.get("status", {}).get("conditions", ())
    return sorted((it["type"], it["status"], it.get("reason", "")) for it in conditions)


def _counts(document: Manifest) -> dict[str, int]:
    status = document.get("status", {})
    counts = {key: value for key, value in status.items() if isinstance(value, int) and value}
    observed = counts.pop("observedGeneration", 0)
    return {**counts, "behind": document["metadata"].get("generation", 0) - observed}


async def _seen(place: Place) -> dict[str, Any]:
    """The state of the namespace without what differs from server to server."""
    pods, sets = await place.all(PODS), await place.all(REPLICA_SETS)
    by_uid = {it["metadata"]["uid"]: _revision(it) for it in sets}
    return {
        "deployments": [
            (it["metadata"]["name"], _revision(it), it["spec"]["replicas"], _counts(it), _conditions(it))
            for it in await place.all(DEPLOYMENTS)
        ],
        "replica sets": sorted(
            (_revision(it), it["spec"]["replicas"], sorted(_counts(it).items()), _notes(it), _conditions(it))
            for it in sets
        ),
        "pods": sorted(
            (_owner(it, by_uid), it.get("status", {}).get("phase", ""), "deletionTimestamp" in it["metadata"])
            for it in pods
        ),
        "budgets": [(it["metadata"]["name"], _counts(it), _conditions(it)) for it in await place.all(BUDGETS)],
        "crons": [
            (
                it["metadata"]["name"],
                [job["name"] for job in it.get("status", {}).get("active", ())],
                it.get("status", {}).get("lastScheduleTime"),
                "lastSuccessfulTime" in it.get("status", {}),
            )
            for it in await place.all(CRON_JOBS)
        ],
        "jobs": [(it["metadata"]["name"], it["metadata"]["annotations"]) for it in await place.all(JOBS)],
        "claims": [
            (
                it["metadata"]["name"],
                it["spec"].get("volumeName", "").removeprefix(place.namespace),
                it.get("status"),
                sorted(it["metadata"].get("annotations", {}).items()),
            )
            for it in await place.all(CLAIMS)
        ],
        "volumes": [
            (
                it["metadata"]["name"].removeprefix(place.namespace),
                it["spec"].get("claimRef", {}).get("name"),
                it.get("status", {}).get("phase"),
                sorted(it["metadata"].get("annotations", {})),
            )
            for it in await place.all(VOLUMES)
            if it["metadata"]["name"].startswith(place.namespace)
        ],
    }


def _revision(document: Manifest) -> str:
    return str(document["metadata"].get("annotations", {}).get(f"{ANNOTATIONS}revision", ""))


def _notes(document: Manifest) -> list[tuple[str, str]]:
    notes = document["metadata"].get("annotations", {})
    return sorted((key, value) for key, value in notes.items() if key.startswith(ANNOTATIONS))


def _owner(pod: Manifest, revisions: dict[str, str]) -> str:
    owners = pod["metadata"].get("ownerReferences", ())
    return ",".join(f"{it['kind']} {revisions.get(it['uid'], '')}" for it in owners)


# -- the story


async def make_a_deployment(place: Place) -> None:
    await place.create(DEPLOYMENTS, deployment(replicas=3))


async def guard_all(place: Place) -> None:
    """One budget for each: kube-controller-manager looks at one alone of several for the same pod."""
    for app, rule in (
        ("web", {"maxUnavailable": "50%"}),
        ("other", {"minAvailable": 1}),
        ("alone", {"minAvailable": "100%"}),
    ):
        spec: Manifest = {"selector": {"matchLabels": {"app": app}}}
        await place.create(BUDGETS, {"metadata": {"name": app}, "spec": spec | rule})


async def change_and_grow(place: Place) -> None:
    await place.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5, **image_patch("b")}})


async def pause_and_change(place: Place) -> None:
    await place.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    await place.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 8, **image_patch("c")}})


async def resume(place: Place) -> None:
    await place.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})


async def go_back_and_forget(place: Place) -> None:
    spec = {"revisionHistoryLimit": 1, "minReadySeconds": 1, **image_patch("a")}
    await place.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"note": "back"}}, "spec": spec})


async def recreate_another(place: Place) -> None:
    await place.create(DEPLOYMENTS, deployment("other", replicas=2, strategy={"type": "Recreate"}))


async def change_the_other(place: Place) -> None:
    await place.patch(DEPLOYMENTS, "other", {"spec": image_patch("z")})


async def adopt_a_stray(place: Place) -> None:
    containers = [{"name": "c", "image": "x"}]
    stray = {"metadata": {"name": "stray", "labels": {"app": "alone"}}, "spec": {"containers": containers}}
    await place.create(PODS, stray)
    await place.create(REPLICA_SETS, replica_set("alone", replicas=2))


async def let_one_go(place: Place) -> None:
    await place.patch(PODS, "stray", {"metadata": {"labels": {"app": "free"}}})


async def schedule_jobs(place: Place) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    for policy in ("Allow", "Forbid"):
        spec = {
            "schedule": "30 7 1 jan,jul *",
            "timeZone": "Europe/Berlin",
            "concurrencyPolicy": policy,
            "suspend": True,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}},
        }
        await place.create(CRON_JOBS, {"metadata": {"name": policy.lower()}, "spec": spec})
        long_ago = {"status": {"lastScheduleTime": "2021-02-03T04:05:06Z"}}
        await place.patch(CRON_JOBS, policy.lower(), long_ago, "status")
        await place.patch(CRON_JOBS, policy.lower(), {"spec": {"suspend": False}})


async def bind_volumes(place: Place) -> None:
    class_name = f"{place.namespace}-class"
    for name, size in (("small", "1Gi"), ("large", "9Gi")):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "hostPath": {"path": "/volumes/x"},
        }
        await place.objects.create(VOLUMES, {"metadata": {"name": f"{place.namespace}-{name}"}, "spec": spec})
    for name, size in (("two", "2Gi"), ("huge", "90Gi")):
        wanted = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        }
        await place.create(CLAIMS, {"metadata": {"name": name}, "spec": wanted})


async def give_a_volume_back(place: Place) -> None:
    # No controller here takes away the protection of claims, so a finalizer must go by hand.
    await place.patch(CLAIMS, "two", {"metadata": {"finalizers": None}})
    await place.objects.delete(CLAIMS, "two", place.namespace)


STORY: tuple[Callable[[Place], Awaitable[None]], ...] = (
    make_a_deployment,
    guard_all,
    change_and_grow,
    pause_and_change,
    resume,
    go_back_and_forget,
    recreate_another,
    change_the_other,
    adopt_a_stray,
    let_one_go,
    schedule_jobs,
    bind_volumes,
    give_a_volume_back,
)


@contextlib.asynccontextmanager
async def _living(plane: ControlPlane, *, ours: bool) -> AsyncIterator[Place]:
    namespace = f"like-{os.urandom(3).hex()}"
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        await objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        place = Place(objects, namespace)
        tasks = [asyncio.create_task(place.live())]
        if ours:
            clock = SystemClock()
            performer = Performer(objects, Recorder(objects, clock, "test"), flight=4)
            controllers: list[Any] = [
                DeploymentController(objects),
                ReplicaSetController(objects),
                CronJobController(objects),
                DisruptionBudgetController(objects),
                VolumeBindingController(objects, "/volumes"),
            ]
            tasks += [asyncio.create_task(ControllerLoop(it, performer, clock).run()) for it in controllers]
        try:
            yield place
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _agree(one: Place, other: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both states, once they are equal and stay so, or when patience is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_SECONDS
    last: dict[str, Any] = {}
    while True:
        seen, also = await _seen(one), await _seen(other)
        if (seen == also == last) or loop.time() > end:
            return seen, also
        last = seen
        await asyncio.sleep(0.3)


@pytest.mark.xdist_group("real")
async def test_our_controllers_end_where_those_of_kubernetes_end(real_tools: Path, control_plane: ControlPlane) -> None:
    with ControlPlane(controllers=THEIRS) as theirs:
        async with _living(theirs, ours=False) as their_place, _living(control_plane, ours=True) as our_place:
            for move in STORY:
                await move(their_place)
                await move(our_place)
                seen, wanted = await _agree(our_place, their_place)
                for part in wanted:
                    assert seen[part] == wanted[part], f"{part} after {move.__name__}"
            assert all(wanted.values()), "the story leaves a part of the comparison empty"
