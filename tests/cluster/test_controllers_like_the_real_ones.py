"""Our controllers on a real API server and kube-controller-manager's own, through the same story, end up the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.controllers.cron_job import CronJobController
from allhands.controllers.deployment import DeploymentController
from allhands.controllers.disruption_budget import DisruptionBudgetController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.controllers.volume_binding import VolumeBindingController
from allhands.lifecycle.cron_job import CRON_JOBS, JOBS
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS
from allhands.lifecycle.disruption_budget import BUDGETS
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS
from allhands.lifecycle.volume_kinds import CLAIMS, VOLUMES
from tests.controller_cases import deployment, image_patch, replica_set
from tests.controlplane import ControlPlane
from tests.likeness import Place, assert_alike, conditions_of, counts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.ports import Objects

THEIRS = (
    "deployment-controller",
    "replicaset-controller",
    "cronjob-controller",
    "disruption-controller",
    "persistentvolume-binder-controller",
)
ANNOTATIONS = "deployment.kubernetes.io/"


async def _seen(place: Place) -> dict[str, Any]:
    """The state of the namespace without what differs from server to server."""
    pods, sets = await place.all(PODS), await place.all(REPLICA_SETS)
    by_uid = {it["metadata"]["uid"]: _revision(it) for it in sets}
    return {
        "deployments": [
            (it["metadata"]["name"], _revision(it), it["spec"]["replicas"], counts_of(it), conditions_of(it))
            for it in await place.all(DEPLOYMENTS)
        ],
        "replica sets": sorted(
            (_revision(it), it["spec"]["replicas"], sorted(counts_of(it).items()), _notes(it), conditions_of(it))
            for it in sets
        ),
        "pods": sorted(
            (_owner(it, by_uid), it.get("status", {}).get("phase", ""), "deletionTimestamp" in it["metadata"])
            for it in pods
        ),
        "budgets": [(it["metadata"]["name"], counts_of(it), conditions_of(it)) for it in await place.all(BUDGETS)],
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


def _ours(objects: Objects) -> list[Any]:
    return [
        DeploymentController(objects),
        ReplicaSetController(objects),
        CronJobController(objects),
        DisruptionBudgetController(objects),
        VolumeBindingController(objects, "/volumes"),
    ]


@pytest.mark.xdist_group("real")
async def test_our_controllers_end_where_those_of_kubernetes_end(real_tools: Path, control_plane: ControlPlane) -> None:
    with ControlPlane(controllers=THEIRS) as theirs:
        await assert_alike(theirs, control_plane, _ours, STORY, _seen)
