"""Rollouts: their steps, their history, pauses, scalings, deadlines and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.controllers.deployment import DeploymentController
from allhands.controllers.replica_set import ReplicaSetController
from allhands.lifecycle.deployment import revisions, sizes
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS, Deployment
from allhands.lifecycle.deployment.machine import reconcile
from allhands.lifecycle.instructions import Create, Patch, Record
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS, Refusal, ReplicaSet
from tests.controller_cases import deployment as manifest_of
from tests.controller_cases import image_patch
from tests.controller_world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest

NOW = 1_769_860_800.0
PREFIX = "deployment.kubernetes.io"


def both(objects: Any) -> Sequence[Any]:
    return [DeploymentController(objects), ReplicaSetController(objects)]


async def begun(**spec: Any) -> World:
    world = World()
    await world.create(DEPLOYMENTS, manifest_of(**spec))
    await world.settle(both)
    return world


async def changed(world: World, horizon_seconds: float = 0.0, **spec: Any) -> Manifest:
    await world.patch(DEPLOYMENTS, "web", {"spec": spec})
    await world.settle(both, horizon_seconds=horizon_seconds)
    return await world.get(DEPLOYMENTS, "web")


def condition(document: Manifest, type: str) -> tuple[str, str]:
    found = next(it for it in document["status"]["conditions"] if it["type"] == type)
    return found["status"], found["reason"]


def sizes_by_revision(world: World) -> dict[str, int]:
    return {
        it["metadata"]["annotations"][f"{PREFIX}/revision"]: it["spec"]["replicas"] for it in world.all(REPLICA_SETS)
    }


# -- through the API


async def test_a_new_deployment_comes_up_and_says_so() -> None:
    world = await begun(replicas=3)
    document = await world.get(DEPLOYMENTS, "web")
    status = document["status"]
    assert [status[it] for it in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")] == [3] * 4
    assert status["observedGeneration"] == document["metadata"]["generation"]
    assert condition(document, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(document, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert document["metadata"]["annotations"][f"{PREFIX}/revision"] == "1"


async def test_a_rollout_replaces_all_pods_and_a_rollback_reuses_the_old_set() -> None:
    world = await begun(replicas=4)
    document = await changed(world, **image_patch("b"))
    assert document["metadata"]["annotations"][f"{PREFIX}/revision"] == "2"
    assert sizes_by_revision(world) == {"1": 0, "2": 4}
    document = await changed(world, **image_patch("a"))
    assert document["metadata"]["annotations"][f"{PREFIX}/revision"] == "3"
    assert sizes_by_revision(world) == {"2": 0, "3": 4}
    back = next(it for it in world.all(REPLICA_SETS) if it["spec"]["replicas"])
    assert back["metadata"]["annotations"][f"{PREFIX}/revision-history"] == "1"


async def test_old_revisions_beyond_the_limit_are_forgotten_oldest_first() -> None:
    world = await begun(replicas=1, revisionHistoryLimit=1)
    for image in "bcd":
        await changed(world, **image_patch(image))
    assert sizes_by_revision(world) == {"3": 0, "4": 1}


async def test_a_rollout_whose_pods_never_get_ready_stops_and_is_told_after_its_deadline() -> None:
    world = await begun(replicas=4, progressDeadlineSeconds=60)
    world.broken = lambda pod: pod["spec"]["containers"][0]["image"] == "bad"
    document = await changed(world, horizon_seconds=59, **image_patch("bad"))
    assert condition(document, "Progressing")[0] == "True"
    await world.settle(both, horizon_seconds=2)
    document = await world.get(DEPLOYMENTS, "web")
    assert condition(document, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(document, "Available") == ("True", "MinimumReplicasAvailable")
    assert sizes_by_revision(world) == {"1": 3, "2": 2}
    document = await changed(world, **image_patch("a"))
    assert condition(document, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert sizes_by_revision(world)["3"] == 4


async def test_a_pause_holds_the_rollout_and_its_clock_and_scaling_stays_possible() -> None:
    world = await begun(replicas=2, progressDeadlineSeconds=60)
    document = await changed(world, horizon_seconds=600, paused=True, replicas=4, **image_patch("b"))
    assert sizes_by_revision(world) == {"1": 4}
    assert condition(document, "Progressing") == ("Unknown", "DeploymentPaused")
    document = await changed(world, paused=False)
    assert sizes_by_revision(world) == {"1": 0, "2": 4}
    assert condition(document, "Progressing") == ("True", "NewReplicaSetAvailable")


async def test_recreating_ends_every_old_pod_before_the_first_new_one() -> None:
    world = await begun(replicas=3, strategy={"type": "Recreate"})

    def never_both(world: World) -> None:
        assert len({it["metadata"]["labels"]["pod-template-hash"] for it in world.all(PODS)}) <= 1

    world.watchers.append(never_both)
    await changed(world, **image_patch("b"))
    assert sizes_by_revision(world) == {"1": 0, "2": 3}


async def test_a_set_with_the_deployments_labels_is_adopted_as_its_revision() -> None:
    world = World()
    orphan = manifest_of("web", replicas=2)
    orphan |= {"kind": "ReplicaSet", "metadata": {"name": "old", "labels": {"app": "web"}}}
    await world.create(REPLICA_SETS, orphan)
    await world.create(DEPLOYMENTS, manifest_of("web", replicas=2))
    await world.settle(both)
    (only,) = world.all(REPLICA_SETS)
    assert only["metadata"]["name"] == "old"
    assert only["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    document = await world.get(DEPLOYMENTS, "web")
    assert document["status"]["updatedReplicas"] == 2


async def test_a_name_that_is_taken_is_no_obstacle() -> None:
    world = await begun(replicas=1)
    name = world.all(REPLICA_SETS)[0]["metadata"]["name"]
    await world.objects.delete(DEPLOYMENTS, "web", "default")
    world.store.housekeeper.run_pending()
    blocker = manifest_of("else", replicas=0) | {"kind": "ReplicaSet", "metadata": {"name": name}}
    await world.create(REPLICA_SETS, blocker)
    await world.create(DEPLOYMENTS, manifest_of(replicas=1))
    await world.settle(both)
    document = await world.get(DEPLOYMENTS, "web")
    assert document["status"]["collisionCount"] == 1
    assert document["status"]["availableReplicas"] == 1


async def test_a_deployment_without_a_deadline_says_nothing_about_progress() -> None:
    world = await begun(replicas=1, progressDeadlineSeconds=2_147_483_647)
    document = await world.get(DEPLOYMENTS, "web")
    assert [it["type"] for it in document["status"]["conditions"]] == ["Available"]


# -- single looks


def deployment(replicas: int = 4, surge: Any = 1, unavailable: Any = 1, **more: Any) -> Deployment:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    manifest = manifest_of(replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}, **more)
    manifest["metadata"] |= {"namespace": "ns", "uid": "d", "resourceVersion": "5", "generation": 1}
    manifest["status"] = {}
    return msgspec.convert(manifest, Deployment)


def replica_set(name: str, size: int, available: int, image: str, **annotations: str) -> ReplicaSet:
    manifest = manifest_of("web", image, replicas=size)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    notes = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    manifest["metadata"] = {
        "name": name,
        "uid": name,
        "namespace": "ns",
        "labels": {"app": "web"},
        "annotations": notes,
        "ownerReferences": [owner],
    }
    manifest["status"] = {"replicas": size, "availableReplicas": available, "readyReplicas": available}
    return msgspec.convert(manifest, ReplicaSet)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        (1, 1, 4, (1, 1)),
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        ("0%", "1%", 3, (0, 1)),
        (0, 9, 4, (0, 4)),
        (None, None, 4, (0, 1)),
        ("x%", "", 4, (0, 1)),
        (10**9, 0, 4, (10**9, 0)),
        ("25%", "25%", 0, (0, 0)),
    ],
)
def test_percentages_round_so_that_a_rollout_can_always_move(
    surge: Any, unavailable: Any, replicas: int, expected: tuple[int, int]
) -> None:
    it = deployment(replicas, surge, unavailable)
    assert (it.max_surge, it.max_unavailable) == expected


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ((0, 0), (4, 4), {"new": 1}),  # room for one more
        ((1, 0), (4, 4), {"old": 3}),  # full, but one may be missing
        ((1, 0), (3, 3), {"new": 2}),
        ((2, 0), (3, 3), {}),  # nothing more until the new ones are there
        ((2, 2), (3, 3), {"old": 1}),
        ((1, 0), (4, 2), {"old": 3}),  # broken old ones go first
        ((5, 5), (0, 0), {"new": 4}),
        ((4, 4), (1, 1), {"old": 0}),
    ],
)
def test_a_rollout_takes_one_safe_step(new: tuple[int, int], old: tuple[int, int], expected: dict[str, int]) -> None:
    sets = replica_set("new", *new, "b"), replica_set("old", *old, "a")
    assert sizes.rolled(deployment(), sets[0], [sets[1]]) == expected


def test_scaling_in_the_middle_of_a_rollout_keeps_the_balance() -> None:
    notes = {"desired_replicas": "10", "max_replicas": "13"}
    new, old = replica_set("new", 5, 5, "b", **notes), replica_set("old", 8, 8, "a", **notes)
    wanted, tell_all = sizes.proportional(deployment(20, 3, 2), new, [old])
    assert tell_all
    assert wanted == {"old": 14, "new": 9}
    wanted, _ = sizes.proportional(deployment(0, 3, 2), new, [old])
    assert wanted == {"old": 0, "new": 0}


def test_the_new_set_is_announced_before_it_is_made() -> None:
    outcome = reconcile(deployment(progressDeadlineSeconds=600), [], NOW)
    writes = [it for it in outcome.instructions if not isinstance(it, Record)]
    assert isinstance(writes[0], Patch)
    assert isinstance(writes[1], Create)
    assert outcome.wake_at_seconds == NOW + 600


def test_a_refused_set_is_told_in_the_status() -> None:
    outcome = reconcile(deployment(progressDeadlineSeconds=600), [], NOW, refusal=Refusal("exceeded quota"))
    (patch,) = [it for it in outcome.instructions if isinstance(it, Patch)]
    reasons = {it["type"]: it["reason"] for it in patch.patch["status"]["conditions"]}
    assert reasons["Progressing"] == "ReplicaSetCreateError"


def test_an_empty_selector_is_refused_with_a_word() -> None:
    outcome = reconcile(deployment(selector={}), [], NOW)
    assert [type(it) for it in outcome.instructions] == [Record]


def test_equal_templates_have_equal_names_whatever_their_order_of_fields() -> None:
    one = deployment()
    spec = {"containers": [{"image": "a", "name": "c"}], "volumes": None}
    other = deployment(template={"spec": spec, "metadata": {"labels": {"app": "web"}, "creationTimestamp": None}})
    assert revisions.template_hash(one) == revisions.template_hash(other)
    assert len(revisions.set_name(one, revisions.template_hash(one))) == len("web-") + 10


def test_an_endless_history_is_cut() -> None:
    new = replica_set("new", 1, 1, "a", revision="5", revision_history=",".join(map(str, range(3000))))
    note = revisions.wanted_annotations(deployment(), new, 9)[f"{PREFIX}/revision-history"]
    assert len(note) <= revisions.HISTORY_LIMIT
    assert note.endswith(",2999,5")
