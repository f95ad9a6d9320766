"""Gangs as people write them: with the plugins by which their pods find each other, in stages, in parts, with volumes;
made larger and smaller, suspended and resumed, and groups that others make."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from allhands.api.volcano.compatibility import State
from allhands.api.volcano.key_compatibility import KEYS
from tests.compat.volcano.stage import CLAIMS, OF, POLICIES, SECRETS, SERVICES, named, phase_of
from tests.compat.volcano.story import Stories
from tests.manifests import CONFIG_MAPS, PODS
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.stage import Stage
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()


@STORIES
async def gang_with_ssh_env_and_svc(stage: Stage) -> None:
    async with stage.keeping(CONFIG_MAPS, SECRETS, SERVICES, POLICIES) as kept:
        await stage.apply_file("gang")
        status = await stage.ends("gang")
        assert (status["succeeded"], status["minAvailable"]) == (6, 3)
        assert status["taskStatusCount"]["worker"]["phase"] == {"Succeeded": 6}
        pods = await stage.pods("gang", "worker")
        assert named(pods) == [f"gang-worker-{index}" for index in range(6)]
        for index, pod in enumerate(pods):
            told = await stage.environment(pod, kept)
            assert (told["VC_TASK_INDEX"], told["VK_TASK_INDEX"]) == (str(index), str(index))
            assert told["VC_WORKER_NUM"] == "6"
            assert told["VC_WORKER_HOSTS"].split(",")[index] == f"gang-worker-{index}.gang"
            assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"gang-worker-{index}", "gang")
            assert pod["metadata"]["labels"]["team"] == "blue"
            assert pod["metadata"]["annotations"]["volcano.sh/template-uid"] == "gang-worker"
        hosts = (await kept.get(CONFIG_MAPS, "gang-svc"))["data"]
        assert hosts["worker.host"].split() == [f"gang-worker-{index}.gang" for index in range(6)]
        service = (await kept.get(SERVICES, "gang"))["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
        await kept.get(POLICIES, "gang")
        volumes = [it["secret"] for it in pods[0]["spec"]["volumes"] if "secret" in it]
        files = {item["path"].rpartition("/")[2]: item["key"] for it in volumes for item in it["items"]}
        assert {"id_rsa", "id_rsa.pub", "authorized_keys", "config"} <= set(files)
        assert set(files.values()) <= set((await kept.get(SECRETS, "gang-ssh"))["data"])


@STORIES
async def tasks_that_wait_for_tasks(stage: Stage) -> None:
    await stage.apply_file("stages")
    status = await stage.ends("stages")
    assert status["succeeded"] == 5
    began = {it["metadata"]["name"]: it["metadata"]["creationTimestamp"] for it in await stage.pods("stages")}
    assert began["stages-server-0"] <= min(began[f"stages-trainer-{index}"] for index in range(3))
    assert max(began[f"stages-trainer-{index}"] for index in range(3)) <= began["stages-report-0"]


@STORIES
async def elastic_job(stage: Stage) -> None:
    await stage.apply_file("elastic")
    await stage.pods_are(2, "Running", "elastic")
    await stage.patch("Job", "elastic", {"spec": {"minAvailable": 2, "tasks": await scaled(stage, 4, 2)}})
    await stage.pods_are(4, "Running", "elastic")
    (group,) = (
        await stage.until("PodGroup", lambda all_: [it for it in all_.values() if it["spec"]["minMember"] == 2])
    ).values()
    assert group["metadata"]["name"].startswith("elastic-")
    await stage.patch("Job", "elastic", {"spec": {"minAvailable": 1, "tasks": await scaled(stage, 1, 1)}})
    (left,) = await stage.pods_are(1, "Running", "elastic")
    assert left["metadata"]["name"] == "elastic-worker-0"
    await stage.command("CompleteJob", "elastic")
    await stage.ends("elastic")


async def scaled(stage: Stage, replicas: int, least: int) -> list[object]:
    (worker,) = (await stage.get("Job", "elastic"))["spec"]["tasks"]
    return [{**worker, "replicas": replicas, "minAvailable": least}]


@STORIES
async def suspended_and_resumed(stage: Stage) -> None:
    manifest = job("held", task("worker", 2, seconds=100000), schedulerName="volcano", minAvailable=2)
    await stage.apply(manifest)
    before = await stage.pods_are(2, "Running", "held")
    await stage.command("AbortJob", "held")
    await stage.ends("held", "Aborted")
    await stage.pods_are(0, "Running", "held")
    await stage.until("Command", lambda found: not found)
    await stage.command("ResumeJob", "held")
    after = await stage.pods_are(2, "Running", "held")
    assert not {it["metadata"]["uid"] for it in before} & {it["metadata"]["uid"] for it in after}
    await stage.command("CompleteJob", "held")
    status = await stage.ends("held")
    assert status.get("retryCount", 0) == 0


@STORIES
async def restarted_and_terminated_by_commands(stage: Stage) -> None:
    manifest = job("told", task("worker", 1, seconds=100000), schedulerName="volcano")
    await stage.apply(manifest)
    await stage.pods_are(1, "Running", "told")
    await stage.command("RestartJob", "told")
    await stage.seen("Job", "told", lambda it: phase_of(it) == "Running" and it["status"].get("version") == 1)
    await stage.command("TerminateJob", "told")
    await stage.ends("told", "Terminated")


@STORIES
async def claims_are_made_and_mounted(stage: Stage) -> None:
    await stage.apply_file("volumes")
    status = await stage.ends("reader")
    made = [it for it in await stage.all(CLAIMS) if it["metadata"]["name"] != "own"]
    assert [it["metadata"]["ownerReferences"][0]["name"] for it in made] == ["reader"]
    names = {it["persistentVolumeClaim"]["claimName"] for it in (await stage.pods("reader"))[0]["spec"]["volumes"]}
    assert names == {"own", made[0]["metadata"]["name"]}
    assert f"volume-pvc-{made[0]['metadata']['name']}" in status["controlledResources"]


@STORIES
async def parts_of_a_task(stage: Stage) -> None:
    """Each part within one HyperNode, which here has one node with room for one part."""
    await stage.nodes(3, "2")
    await stage.apply_file("partitions")
    await stage.seen("HyperNode", f"{stage.namespace}-all", lambda it: it.get("status", {}).get("nodeCount") == 3)
    status = await stage.ends("parts")
    assert status["succeeded"] == 6
    places: dict[str, set[str]] = {}
    for pod in await stage.pods("parts"):
        places.setdefault(pod["metadata"]["labels"]["volcano.sh/partition-id"], set()).add(pod["spec"]["nodeName"])
    assert sorted(places) == ["0", "1", "2"]
    assert all(len(nodes) == 1 for nodes in places.values())


@STORIES
async def tasks_of_higher_priority_go_first(stage: Stage) -> None:
    await stage.nodes(1, "3")
    await stage.apply_file("priority-classes")
    await stage.pods_are(1, "Running", "before")
    await stage.apply_file("priorities")
    await stage.pods_are(6, "Pending", "mixed")
    await stage.command("CompleteJob", "before")
    first = await stage.until(PODS, lambda found: len(placed(found, "mixed")) >= 3)
    assert Counter(placed(first, "mixed")) == {"leader": 3}
    status = await stage.ends("mixed")
    assert status["succeeded"] == 6


def placed(pods: dict[str, Manifest], job_name: str) -> list[str]:
    """The tasks of a Job's pods that have a node."""
    of_job = [it for it in pods.values() if it["metadata"]["labels"]["volcano.sh/job-name"] == job_name]
    return [it["metadata"]["labels"]["volcano.sh/task-spec"] for it in of_job if "nodeName" in it["spec"]]


@STORIES
async def ended_as_soon_as_enough_have_succeeded(stage: Stage) -> None:
    tasks = task("quick", 2, seconds=1), task("slow", 2, seconds=100000)
    await stage.apply(job("enough", *tasks, schedulerName="volcano", minAvailable=2, minSuccess=2))
    status = await stage.ends("enough")
    assert status["succeeded"] >= 2


@STORIES
async def gone_when_its_time_is_over(stage: Stage) -> None:
    async with stage.keeping(OF["Job"]) as kept:
        await stage.apply(job("short", task("a", 1, seconds=1), schedulerName="volcano", ttlSecondsAfterFinished=1))
        await stage.gone("Job", "short")
        await kept.get(OF["Job"], "short", lambda it: phase_of(it) == "Completed")


@STORIES
async def group_that_somebody_else_makes(stage: Stage) -> None:
    """Its status is written by an update of the whole: there is no part of its own for it, as in Volcano."""
    await stage.apply_file("group-by-hand")
    await stage.seen("PodGroup", "driver", lambda it: it.get("status", {}).get("phase") == "Inqueue")
    (first,) = await stage.all(PODS)
    assert "nodeName" not in first["spec"]
    second = {
        **first,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver-1", "annotations": first["metadata"]["annotations"]},
    }
    del second["status"]
    await stage.apply(second)
    await stage.pods_are(2, "Succeeded")
    group = await stage.seen("PodGroup", "driver", lambda it: it["status"].get("succeeded") == 2)
    group["status"]["conditions"] = [*group["status"].get("conditions", ()), MINE]
    await stage.objects.update(OF["PodGroup"], "driver", group, stage.namespace)
    kept = await stage.get("PodGroup", "driver")
    assert MINE in kept["status"]["conditions"]


MINE = {"type": "Seen", "status": "True", "reason": "Here", "message": "by hand", "transitionID": "1"}


@STORIES
async def unknown_fields_are_pruned(stage: Stage) -> None:
    odd = task("a", 1, seconds=1, size="large")
    odd["template"]["spec"]["priorityClass"] = "high"
    (stored,) = await stage.apply(job("odd", odd, schedulerName="volcano", colour="red"))
    assert "colour" not in stored["spec"]
    assert "size" not in stored["spec"]["tasks"][0]
    assert "priorityClass" not in stored["spec"]["tasks"][0]["template"]["spec"]
    await stage.ends("odd")


@STORIES
async def notes_that_nobody_reads(stage: Stage) -> None:
    """All annotations and labels of Volcano that are only kept, on a Job and its pods at once."""
    unread = {it.key: "x" for it in KEYS if it.state is State.KEPT and it.where != "resource of a pod"}
    noted = task("a", 1, seconds=1)
    noted["template"]["metadata"]["annotations"] |= unread
    noted["template"]["metadata"]["labels"] = unread
    await stage.apply(job("noted", noted, annotations=unread, schedulerName="volcano"))
    await stage.ends("noted")
    (pod,) = await stage.pods("noted")
    assert unread.items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_a_gang_lives_as_its_manifest_says(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
