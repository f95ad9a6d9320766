"""Queues as people set them up: below each other by name or by annotation, closed and opened, and what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from tests.compat.volcano.stage import OF, PLAIN_JOBS
from tests.compat.volcano.story import Stories
from tests.manifests import PODS
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.stage import Stage
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()


@STORIES
async def queues_below_a_queue(stage: Stage) -> None:
    """One of them may use three cores, and both together four."""
    await stage.apply_file("queues-by-parent")
    both = f"{stage.namespace}-research"
    used = await stage.seen("Queue", both, lambda it: int(_cores(it)) > 0)
    assert int(_cores(used)) <= 4
    for name in ("vision", "speech"):
        await stage.ends(name)
    await stage.seen("Queue", both, lambda it: int(_cores(it)) == 0)


def _cores(queue: Manifest) -> str:
    return str(((queue.get("status") or {}).get("allocated") or {}).get("cpu", "0"))


@STORIES
async def queues_by_annotation(stage: Stage) -> None:
    await stage.apply_file("queues-by-annotation")
    for name in ("eng-prod", "eng-dev", "sci-prod"):
        status = await stage.ends(name)
        assert status["succeeded"] == 2


@STORIES
async def queue_that_is_closed_and_opened(stage: Stage) -> None:
    name = f"{stage.namespace}-gate"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    await stage.apply(queue)
    await stage.seen("Queue", name, lambda it: (it.get("status") or {}).get("state") == "Open")
    await stage.apply(job("inside", task("a", 1, seconds=4), schedulerName="volcano", queue=name))
    await stage.pods_are(1, "Running", "inside")
    await stage.command("CloseQueue", name, "Queue")
    await stage.seen("Queue", name, lambda it: it["status"]["state"] in ("Closing", "Closed"))
    with pytest.raises(StatusError) as refusal:
        await stage.apply(job("late", task("a", 1), schedulerName="volcano", queue=name))
    assert (refusal.value.code, "spec.queue" in refusal.value.message) == (422, True)
    await stage.ends("inside")
    await stage.seen("Queue", name, lambda it: it["status"]["state"] == "Closed")
    await stage.command("OpenQueue", name, "Queue")
    await stage.seen("Queue", name, lambda it: it["status"]["state"] == "Open")
    await stage.apply(job("late", task("a", 1, seconds=1), schedulerName="volcano", queue=name))
    await stage.ends("late")
    await stage.seen("Queue", name, lambda it: it["status"].get("completed", 0) >= 1)
    await stage.objects.delete(OF["Job"], "inside", stage.namespace)
    await stage.objects.delete(OF["Job"], "late", stage.namespace)
    await stage.seen("Queue", name, lambda it: it["status"]["allocated"].get("pods", "0") == "0")
    await stage.objects.delete(OF["Queue"], name)
    await stage.gone("Queue", name)


@STORIES
async def deployment_in_a_queue(stage: Stage) -> None:
    """The queue has room for two of its three pods, which are in a group that is made for them."""
    await stage.apply_file("deployment")
    await stage.until(PODS, lambda found: len(found) == 3 and _running(found) == 2)
    queue = f"{stage.namespace}-web"
    (group,) = (await stage.until("PodGroup", len)).values()
    assert (group["spec"]["queue"], group["spec"]["minMember"]) == (queue, 1)
    assert group["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    await stage.seen("Queue", queue, lambda it: _cores(it) == "1800m")
    await stage.patch("Queue", queue, {"spec": {"capability": {"cpu": 3}}})
    await stage.until(PODS, lambda found: _running(found) == 3)


@STORIES
async def workloads_that_are_gangs_by_annotation(stage: Stage) -> None:
    """Two of the three pods would find room at first."""
    await stage.nodes(1, "2")
    await stage.apply_file("workloads-as-gangs")
    await stage.seen(PLAIN_JOBS, "sum", lambda it: (it.get("status") or {}).get("succeeded") == 2)
    await stage.until("PodGroup", lambda found: [it for it in found.values() if it["spec"]["minMember"] == 3])
    waiting = await stage.until(PODS, lambda found: len(_of_web(found)) == 3)
    assert not [it for it in _of_web(waiting) if "nodeName" in it["spec"]]
    await stage.nodes(1, "1", first=1)
    await stage.until(PODS, lambda found: _running(found) == 3)


def _of_web(found: dict[str, Manifest]) -> list[Manifest]:
    return [it for it in found.values() if (it["metadata"].get("labels") or {}).get("app") == "web"]


def _running(found: dict[str, Manifest]) -> int:
    return sum(it["status"].get("phase") == "Running" for it in found.values())


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_a_queue_holds_what_its_manifest_says(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
