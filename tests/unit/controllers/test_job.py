"""The shell of Jobs on the real store: whose business an event is, and what is left when a Job or its owner is gone."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from allhands.lifecycle.job import JOBS, PODS
from allhands.ports import DeleteOptions
from tests.depth import examples
from tests.job_cluster import NAMESPACE, JobCluster, is_tracked, play

if TYPE_CHECKING:
    from allhands.api.document import Manifest

IN_CHARGE = {"completions": 2, "parallelism": 2}


def all_well(_job: str, _index: int, _failures: int) -> int:
    return 0


def test_a_job_runs_through() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", completions=5, parallelism=2)
        await asyncio.sleep(120)
        status = await cluster.status("train")
        assert [it["type"] for it in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert status["succeeded"] == 5
        assert not any(map(is_tracked, await cluster.everything(PODS)))

    cluster = play(story, all_well)
    assert cluster.most_active["train"] == 2
    assert cluster.reasons().count("Completed") == 1


def test_what_the_controller_writes_itself_is_no_reason_to_look_again() -> None:
    """Four pods: looks that make, see and find them running; at their end they are told, let go and counted, and one
    look finds that it is over."""

    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", completions=4, parallelism=4)
        await asyncio.sleep(120)
        assert (await cluster.status("train"))["succeeded"] == 4

    assert play(story, all_well).looks <= 7


async def _succeed(cluster: JobCluster, number: int) -> None:
    """So many running pods come to their end at this moment."""
    running = [it for it in await cluster.everything(PODS) if it["status"].get("phase") == "Running"]
    for pod in running[:number]:
        await cluster.report(pod["metadata"]["name"], "Succeeded", 0)


async def _run_all(cluster: JobCluster) -> None:
    for pod in await cluster.everything(PODS):
        if pod["status"].get("phase", "Pending") == "Pending":
            await cluster.report(pod["metadata"]["name"], "Running", 0)


def test_successes_that_nothing_follows_from_are_counted_once_a_second_and_the_last_at_once() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", completions=4, parallelism=4)
        await asyncio.sleep(1.1)
        await _run_all(cluster)
        await asyncio.sleep(0.1)
        before = cluster.looks
        await _succeed(cluster, 1)
        await asyncio.sleep(0.1)
        await _succeed(cluster, 1)
        await asyncio.sleep(0.5)  # at 1.8 seconds
        assert cluster.looks == before
        await asyncio.sleep(0.3)
        assert (await cluster.status("train"))["succeeded"] == 2
        await _succeed(cluster, 2)
        await asyncio.sleep(0.1)
        assert [it["type"] for it in (await cluster.status("train"))["conditions"]][-1] == "Complete"

    play(story)


def test_a_success_that_another_pod_comes_after_is_looked_at_at_once() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", completions=4, parallelism=2)
        await asyncio.sleep(1.1)
        await _run_all(cluster)
        await asyncio.sleep(0.1)
        await _succeed(cluster, 1)
        await asyncio.sleep(0.1)
        assert len(await cluster.everything(PODS)) == 3
        assert (await cluster.status("train"))["succeeded"] == 1

    play(story)


def test_a_job_that_is_over_goes_when_its_time_to_live_has_passed() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", completions=1, ttlSecondsAfterFinished=60)
        await asyncio.sleep(50)
        assert [it["type"] for it in (await cluster.status("train"))["conditions"]][-1] == "Complete"
        await asyncio.sleep(60)
        assert await cluster.everything(JOBS) == []

    play(story, all_well)


def test_a_quota_that_lets_some_pods_through_is_told_and_the_status_says_what_is_there() -> None:
    async def story(cluster: JobCluster) -> None:
        cluster.most_pods = 2
        await cluster.create("train", completions=3, parallelism=3)
        await asyncio.sleep(300)
        assert len(await cluster.everything(PODS)) == 2
        assert (await cluster.status("train"))["active"] == 2

    cluster = play(story)
    assert "FailedCreate" in cluster.reasons()


def test_when_a_job_is_deleted_in_the_background_its_pods_can_go() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", **IN_CHARGE)
        await asyncio.sleep(2)
        assert len(await cluster.everything(PODS)) == 2
        await cluster.objects.delete(JOBS, "train", NAMESPACE, DeleteOptions(propagation="Background"))
        await asyncio.sleep(60)
        assert await cluster.everything(PODS) == []

    play(story)


def test_when_a_job_is_deleted_in_the_foreground_its_pods_go_first() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", **IN_CHARGE)
        await asyncio.sleep(2)
        await cluster.objects.delete(JOBS, "train", NAMESPACE, DeleteOptions(propagation="Foreground"))
        await asyncio.sleep(60)
        assert await cluster.everything(PODS) == []
        assert await cluster.everything(JOBS) == []

    play(story, all_well)


def test_pods_that_a_deleted_job_leaves_behind_lose_the_finalizer() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", **IN_CHARGE)
        await asyncio.sleep(2)
        await cluster.objects.delete(JOBS, "train", NAMESPACE, DeleteOptions(propagation="Orphan"))
        await asyncio.sleep(60)
        pods = await cluster.everything(PODS)
        assert len(pods) == 2
        assert not any(map(is_tracked, pods))

    play(story)


def test_an_orphan_with_the_label_of_a_job_is_adopted() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", **IN_CHARGE)
        await asyncio.sleep(2)
        name = (await cluster.everything(PODS))[0]["metadata"]["name"]
        patch = {"metadata": {"ownerReferences": None}}
        await cluster.objects.patch(PODS, name, "merge", patch, NAMESPACE)
        await asyncio.sleep(10)
        pods = await cluster.everything(PODS)
        assert [len(it["metadata"]["ownerReferences"]) for it in pods] == [1, 1]
        assert all(map(is_tracked, pods))

    play(story)


def test_an_orphan_is_adopted_by_a_job_that_selects_by_hand() -> None:
    async def story(cluster: JobCluster) -> None:
        bare = {
            "metadata": {"name": "bare", "labels": {"app": "mine"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]},
        }
        await cluster.objects.create(PODS, bare, NAMESPACE)
        job: Manifest = {
            "metadata": {"name": "train"},
            "spec": {
                "manualSelector": True,
                "selector": {"matchLabels": {"app": "mine"}},
                "template": {"metadata": {"labels": {"app": "mine"}}, "spec": bare["spec"]},
            },
        }
        await cluster.objects.create(JOBS, job, NAMESPACE)
        await asyncio.sleep(10)
        (pod,) = await cluster.everything(PODS)
        assert pod["metadata"]["name"] == "bare"
        assert pod["metadata"]["ownerReferences"][0]["name"] == "train"

    play(story)


def test_a_finished_job_is_gone_after_its_time_to_live() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train", ttlSecondsAfterFinished=100)
        await asyncio.sleep(60)
        assert len(await cluster.everything(JOBS)) == 1
        await asyncio.sleep(120)
        assert await cluster.everything(JOBS) == []
        assert await cluster.everything(PODS) == []

    play(story, all_well)


def test_the_pause_after_a_failure_holds_even_if_the_pod_is_gone() -> None:
    async def story(cluster: JobCluster) -> None:
        await cluster.create("train")
        await asyncio.sleep(2)
        name = (await cluster.everything(PODS))[0]["metadata"]["name"]
        await cluster.objects.delete(PODS, name, NAMESPACE)
        await asyncio.sleep(8)
        assert await cluster.everything(PODS) == []
        await asyncio.sleep(5)
        assert len(await cluster.everything(PODS)) == 1
        assert (await cluster.status("train"))["failed"] == 1

    play(story)


EXIT_42 = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
INDEXED = {"completions": 4, "parallelism": 3, "completionMode": "Indexed"}


def fates(job: str, index: int, failures: int) -> int:
    """Well, badly, or better at the second try."""
    match job:
        case "bad":
            return 1
        case "fatal":
            return 42 if index == 1 else 0
        case "by-index":
            return 1 if index == 2 or (index == 0 and failures == 0) else 0
    return 0


async def many_jobs(cluster: JobCluster) -> None:
    await cluster.create("plain", completions=5, parallelism=3)
    await cluster.create("queue", parallelism=2)
    await cluster.create("indexed", **INDEXED)
    await cluster.create("bad", backoffLimit=2)
    await cluster.create("fatal", **INDEXED, podFailurePolicy=EXIT_42)
    await cluster.create("by-index", **INDEXED, backoffLimitPerIndex=1)
    await cluster.create("early", **INDEXED, successPolicy={"rules": [{"succeededIndexes": "0"}]})
    await cluster.create("suspended", completions=2, parallelism=2)
    await asyncio.sleep(7)
    await cluster.objects.patch(JOBS, "suspended", "merge", {"spec": {"suspend": True}}, NAMESPACE)
    await asyncio.sleep(20)
    await cluster.objects.patch(JOBS, "suspended", "merge", {"spec": {"suspend": False}}, NAMESPACE)
    await asyncio.sleep(900)


def ends(cluster: JobCluster) -> dict[str, Manifest]:
    """The statuses without times, and how many pods are left in which phase."""
    found: dict[str, Manifest] = {}

    async def read() -> None:
        for job in await cluster.everything(JOBS):
            status = job["status"]
            status.pop("startTime", None)
            status.pop("completionTime", None)
            status["conditions"] = [(it["type"], it["status"], it["reason"]) for it in status["conditions"]]
            found[job["metadata"]["name"]] = status
        for pod in await cluster.everything(PODS):
            assert not is_tracked(pod)
            phases = found[pod["metadata"]["labels"]["job-name"]].setdefault("phases", [])
            phases.append(pod["status"]["phase"])
            phases.sort()

    asyncio.run(read())
    return found


@pytest.fixture(scope="module")
def without_crash() -> dict[str, Manifest]:
    return ends(play(many_jobs, fates))


def test_every_job_has_the_end_that_its_pods_give_it(without_crash: dict[str, Manifest]) -> None:
    last = {name: status["conditions"][-1][0] for name, status in without_crash.items()}
    assert last == {
        "plain": "Complete",
        "queue": "Complete",
        "indexed": "Complete",
        "bad": "Failed",
        "fatal": "Failed",
        "by-index": "Failed",
        "early": "Complete",
        "suspended": "Complete",
    }
    assert without_crash["by-index"]["failedIndexes"] == "2"
    assert without_crash["by-index"]["completedIndexes"] == "0,1,3"
    assert without_crash["bad"]["failed"] == 3


@pytest.mark.parametrize("seed", range(examples(6)))
def test_killed_between_any_two_writes_it_ends_the_same(seed: int, without_crash: dict[str, Manifest]) -> None:
    chance = random.Random(seed)
    crashes = [(chance.randint(0, 12), chance.random() < 0.5) for _ in range(20)]
    cluster = play(many_jobs, fates, crashes)
    assert cluster.restarts >= 10
    assert ends(cluster) == without_crash
    assert cluster.most_active["plain"] == 3
