"""What makes no sense is refused with the path of its field, on each server; and what must stay as it is, stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.ports import WriteOptions
from tests.compat.volcano.refusals import cases
from tests.compat.volcano.stage import Stage
from tests.compat.volcano.story import Stories
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tests.compat.volcano.clusters import Cluster
    from tests.compat.volcano.refusals import Case
    from tests.compat.volcano.story import Story

pytestmark = pytest.mark.timeout(900)
STORIES = Stories()
INVALID = 422


async def refused(attempt: Awaitable[object]) -> tuple[int, list[str]]:
    """The code, and the fields that are named."""
    try:
        await attempt
    except StatusError as refusal:
        causes = (refusal.details or {}).get("causes") or ()
        return refusal.code, [str(it.get("field", "")) for it in causes]
    return 0, []


@pytest.mark.parametrize("case", cases(), ids=lambda it: it.name.replace(" ", "-"))
def test_what_makes_no_sense_is_refused_with_its_path(cluster: Cluster, case: Case) -> None:
    stage = Stage(cluster.objects, "default")
    code, fields = cluster.do(refused(stage.apply(case.manifest, options=WriteOptions(dry_run=True))))
    assert code == INVALID
    assert any(it == case.path or it.startswith((f"{case.path}.", f"{case.path}[")) for it in fields), fields


@STORIES
async def what_must_stay_stays(stage: Stage) -> None:
    await stage.apply(job("fixed", task("a", 2, seconds=100_000), schedulerName="volcano"))
    await stage.pods_are(2, "Running", "fixed")
    kept = (await stage.get("Job", "fixed"))["spec"]
    for change, path in (
        ({"queue": "other"}, "spec.queue"),
        ({"plugins": {"env": []}}, "spec.plugins"),
        ({"maxRetry": 9}, "spec.maxRetry"),
        ({"tasks": [*kept["tasks"], task("b", 1)]}, "spec.tasks"),
        ({"tasks": [{**kept["tasks"][0], "name": "b"}]}, "spec.tasks[0].name"),
        ({"minAvailable": 3}, "spec.minAvailable"),
        ({"tasks": [{**kept["tasks"][0], "replicas": 1}]}, "spec.tasks[0].minAvailable"),
    ):
        code, fields = await refused(stage.patch("Job", "fixed", {"spec": change}))
        assert (code, path in fields) == (INVALID, True), (path, fields)
    await stage.command("CompleteJob", "fixed")
    await stage.ends("fixed")


@pytest.mark.parametrize("story", STORIES, ids=lambda it: it.name)
def test_a_change_that_makes_no_sense_is_refused(cluster: Cluster, story: Story) -> None:
    cluster.end_of(story.name)
