"""What is done about what happens to pods: each action that a policy may name, and each event that leads to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from tests.compat.volcano.stage import phase_of
from tests.compat.volcano.story import Stories
from tests.manifests import PODS
from tests.volcano_jobs import job, policy, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.stage import Stage
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()
EVER = 100_000
INVALID = 422


def failing(action: str, **more: object) -> Manifest:
    """One pod fails with 7 at once, two others would run for ever."""
    tasks = task("bad", 1, seconds=0, end="7"), task("good", 2, seconds=EVER)
    return job("j", *tasks, policies=[policy(action, **more)], schedulerName="volcano", minAvailable=3, maxRetry=2)


@STORIES
async def abort_the_job(stage: Stage) -> None:
    await stage.apply(failing("AbortJob", exitCode=7))
    await stage.ends("j", "Aborted")
    await stage.pods_are(0, "Running", "j", "good")


@STORIES
async def terminate_the_job(stage: Stage) -> None:
    await stage.apply(failing("TerminateJob", event="PodFailed"))
    await stage.ends("j", "Terminated")
    await stage.pods_are(0, "Running", "j", "good")


@STORIES
async def complete_the_job(stage: Stage) -> None:
    await stage.apply(failing("CompleteJob", events=["PodFailed", "PodEvicted"]))
    await stage.ends("j", "Completed")
    await stage.pods_are(0, "Running", "j", "good")


@STORIES
async def restart_the_job_until_retries_are_used_up(stage: Stage) -> None:
    await stage.apply(failing("RestartJob", exitCode=7))
    status = await stage.ends("j", "Failed")
    assert (status["retryCount"], status["version"]) == (2, 1)


async def others_stay(stage: Stage, manifest: Manifest) -> None:
    """Those of the other task are still the first ones when the retries are used up."""
    async with stage.keeping(PODS) as kept:
        await stage.apply(manifest)
        first = [(await kept.get(PODS, f"j-good-{index}"))["metadata"]["uid"] for index in range(2)]
        status = await stage.ends("j", "Failed")
        assert status["retryCount"] == 2
        assert [(await kept.get(PODS, f"j-good-{index}"))["metadata"]["uid"] for index in range(2)] == first


@STORIES
async def restart_the_task(stage: Stage) -> None:
    await others_stay(stage, failing("RestartTask", exitCode=7))


@STORIES
async def restart_the_pod(stage: Stage) -> None:
    await others_stay(stage, failing("RestartPod", event="PodFailed"))


@STORIES
async def restart_the_partition(stage: Stage) -> None:
    manifest = failing("RestartPartition", exitCode=7)
    manifest["spec"]["tasks"][0] |= {"replicas": 1, "partitionPolicy": {"totalPartitions": 1, "partitionSize": 1}}
    await others_stay(stage, manifest)


@STORIES
async def resume_what_was_aborted(stage: Stage) -> None:
    """A policy may name it; it is a word for Jobs that are aborted, which no event leads out of."""
    manifest = job("j", task("a", 1, seconds=1), policies=[policy("ResumeJob", "PodFailed")], schedulerName="volcano")
    await stage.apply(manifest)
    await stage.ends("j")


@STORIES
async def a_task_goes_before_its_job(stage: Stage) -> None:
    manifest = failing("AbortJob", event="PodFailed")
    manifest["spec"]["tasks"][0]["policies"] = [policy("CompleteJob", event="PodFailed")]
    await stage.apply(manifest)
    await stage.ends("j", "Completed")


@STORIES
async def when_a_task_has_completed(stage: Stage) -> None:
    tasks = task("quick", 1, seconds=1), task("slow", 1, seconds=EVER)
    tasks[0]["policies"] = [policy("CompleteJob", event="TaskCompleted")]
    await stage.apply(job("j", *tasks, schedulerName="volcano", minAvailable=2))
    await stage.ends("j")


@STORIES
async def when_a_task_has_failed(stage: Stage) -> None:
    """That is when its containers were restarted as often as `maxRetry` says."""
    tasks = task("bad", 2, seconds=0, end="1", maxRetry=1), task("slow", 1, seconds=EVER)
    tasks[0]["template"]["spec"]["restartPolicy"] = "OnFailure"
    policies = [policy("TerminateJob", "TaskFailed")]
    await stage.apply(job("j", *tasks, policies=policies, schedulerName="volcano", minAvailable=3))
    await stage.ends("j", "Terminated")


@STORIES
async def when_a_pod_is_evicted(stage: Stage) -> None:
    manifest = job("j", task("a", 2, seconds=EVER), policies=[policy("RestartJob", "PodEvicted")], minAvailable=2)
    manifest["spec"]["schedulerName"] = "volcano"
    await stage.apply(manifest)
    first = await stage.pods_are(2, "Running", "j")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "j-a-1"}}
    await stage.objects.evict(stage.namespace, "j-a-1", eviction)
    await stage.seen("Job", "j", lambda it: phase_of(it) == "Running" and it["status"].get("version") == 1)
    after = await stage.pods_are(2, "Running", "j")
    assert not {it["metadata"]["uid"] for it in first} & {it["metadata"]["uid"] for it in after}
    await stage.command("CompleteJob", "j")
    await stage.ends("j")


@STORIES
async def when_a_pod_waits_for_too_long(stage: Stage) -> None:
    """One is enough to begin; the other one never finds room."""
    tasks = task("small", 1, seconds=EVER), task("huge", 1, cpu="4000")
    policies = [policy("AbortJob", "PodPending", timeout="1s")]
    await stage.apply(job("j", *tasks, policies=policies, schedulerName="volcano", minAvailable=1))
    await stage.ends("j", "Aborted")


@STORIES
async def when_anything_happens(stage: Stage) -> None:
    await stage.apply(failing("AbortJob", event="*"))
    await stage.ends("j", "Aborted")


@STORIES
async def a_command_that_jobs_do_not_know(stage: Stage) -> None:
    """It is refused: it could not say which task it means."""
    await stage.apply(job("j", task("a", 1, seconds=1), schedulerName="volcano"))
    with pytest.raises(StatusError) as refusal:
        await stage.command("RestartTask", "j")
    assert refusal.value.code == INVALID
    await stage.ends("j")


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_a_policy_does_what_it_says(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
