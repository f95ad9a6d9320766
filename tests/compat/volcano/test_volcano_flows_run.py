"""What makes Jobs for others: flows, schedules, and Argo's steps, which only look at `status.state.phase`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.kinds import Resource
from tests.compat.volcano.stage import named, phase_of
from tests.compat.volcano.story import Stories
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.stage import Stage
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()


@STORIES
async def flow_with_two_side_by_side(stage: Stage) -> None:
    await stage.apply_file("flow")
    seen: dict[str, None] = {}

    def ended(found: dict[str, Manifest]) -> bool:
        for name, it in sorted(found.items()):
            if phase_of(it) == "Completed":
                seen.setdefault(name)
        return len(seen) == 5

    await stage.until("Job", ended)
    order = [name.removeprefix("diamond-") for name in seen]
    assert (order[:2], sorted(order[2:4]), order[4]) == (["a", "b"], ["c", "d"], "e")
    await stage.seen("JobFlow", "diamond", lambda it: phase_of(it) == "Succeed")
    await stage.until("Job", lambda found: not found)


@STORIES
async def flow_with_patches_probes_and_retries(stage: Stage) -> None:
    await stage.apply_file("flow-more")
    # Its probe lets it begin while the other one still runs.
    await stage.ends("served-ask")
    assert phase_of(await stage.get("Job", "served-serve")) == "Running"
    await stage.command("CompleteJob", "served-serve")
    served = await stage.seen("JobFlow", "served", lambda it: phase_of(it) == "Succeed")
    assert sorted(served["status"]["completedJobs"]) == ["served-ask", "served-serve"]
    assert (await stage.get("Job", "served-ask"))["status"]["succeeded"] == 2
    failing = await stage.seen("JobFlow", "failing", lambda it: phase_of(it) == "Failed")
    assert failing["status"]["state"]["reason"] == "StepFailed"
    assert (await stage.get("Job", "failing-shaky"))["metadata"]["annotations"]["allhands.dev/flow-attempt"] == "1"
    assert "failing-ask" not in named(await stage.all("Job"))


@STORIES
async def job_every_minute(stage: Stage) -> None:
    await stage.apply_file("cron")
    cron = await stage.seen("CronJob", "tick", lambda it: (it.get("status") or {}).get("lastSuccessfulTime"))
    assert cron["status"]["lastScheduleTime"] <= cron["status"]["lastSuccessfulTime"]
    made = (await stage.all("Job"))[0]
    assert made["metadata"]["name"].startswith("tick-")
    assert made["metadata"]["labels"]["kind-of"] == "tick"
    assert "volcano.sh/cronjob-scheduled-timestamp" in made["metadata"]["annotations"]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    await stage.patch("CronJob", "tick", {"spec": {"suspend": True}})


def holds(condition: str, found: Manifest) -> bool:
    """As Argo reads `successCondition` and `failureCondition`: all parts, each a path, an operator and a value."""
    return all(_part_holds(it, found) for it in condition.split(","))


def _part_holds(part: str, found: Manifest) -> bool:
    operator = next(it for it in ("==", "!=", "=", ">", "<") if it in part)
    path, value = (it.strip() for it in part.split(operator, 1))
    at: Any = found
    for name in path.split("."):
        at = at.get(name) if isinstance(at, dict) else None
    if operator in (">", "<"):
        return at is not None and (float(at) > float(value) if operator == ">" else float(at) < float(value))
    return (str(at) == value) == (operator != "!=") and (at is not None or operator == "!=")


async def step(stage: Stage, workflow: Manifest, manifest: Manifest, success: str, failure: str) -> bool:
    """One step of a workflow: what it makes belongs to the workflow, and how it ends is what the conditions say."""
    owner = {key: workflow[key] for key in ("apiVersion", "kind")}
    owner |= {"name": workflow["metadata"]["name"], "uid": workflow["metadata"]["uid"], "blockOwnerDeletion": True}
    metadata = {"generateName": f"{manifest['metadata']['name']}-", "ownerReferences": [owner]}
    (made,) = await stage.apply({**manifest, "metadata": metadata})
    found = await stage.seen("Job", made["metadata"]["name"], lambda it: holds(success, it) or holds(failure, it))
    return holds(success, found)


WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows")
WORKFLOW_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "workflows.argoproj.io"},
    "spec": {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"plural": "workflows", "singular": "workflow", "kind": "Workflow", "listKind": "WorkflowList"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@STORIES
async def steps_of_argo(stage: Stage) -> None:
    await stage.apply(WORKFLOW_KIND)
    is_there = "Established"
    await stage.seen(
        Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "workflows.argoproj.io",
        lambda it: any(
            each["type"] == is_there and each["status"] == "True" for each in it["status"].get("conditions") or ()
        ),
    )
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "steps"}}
    workflow = (await stage.objects.create(WORKFLOWS, body, stage.namespace)).manifest()
    success, failure = "status.state.phase = Completed", "status.state.phase = Failed"
    good = job("good", task("hello", 2, seconds=1), schedulerName="volcano", minAvailable=1, maxRetry=1)
    bad = job("bad", task("hello", 1, seconds=1, end="1"), schedulerName="volcano", minAvailable=1, maxRetry=1)
    assert await step(stage, workflow, good, success, failure)
    assert not await step(stage, workflow, bad, success, failure)
    assert await step(stage, workflow, good, "status.succeeded > 1", "status.failed > 0")
    await stage.objects.delete(WORKFLOWS, "steps", stage.namespace)
    await stage.until("Job", lambda found: not found)


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_who_makes_jobs_sees_them_end(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
