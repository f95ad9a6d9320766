"""What rules see of other objects: copies, and before a refusal what is there now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.patch.json_patch import json_patch
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.server.webhooks.judging import Judge
from allhands.server.webhooks.others import MOST_READ, NAMESPACES, KnownObjects
from allhands.server.webhooks.review import question_of
from tests.webhook_cluster import WebhookCluster, cluster_with_copies, job, review

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.server.webhooks.others import Sight


def queue(name: str, **spec: Any) -> Manifest:
    manifest = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}}
    return {**manifest, "spec": {"weight": 1, **spec}}


def question(manifest: Manifest, **more: Any) -> Any:
    return question_of(msgspec.json.encode(review(manifest, **more)))


async def judged(known: KnownObjects, manifest: Manifest) -> str:
    judge = Judge(known, scheduler_name="allhands")
    complete = json_patch(manifest, list((await judge.mutate(question(manifest))).patch))
    refusal = (await judge.validate(question(complete))).refusal
    return "" if refusal is None else refusal.message


async def test_who_is_let_in_by_a_copy_costs_no_request() -> None:
    async with cluster_with_copies() as (cluster, known):
        await cluster.create(QUEUE.resource, queue("team"))
        for _ in range(1000):
            if "team" in known.queues():
                break
            await asyncio.sleep(0)
        calls = len(cluster.calls)
        assert await judged(known, job(queue="team")) == ""
        assert cluster.calls[calls:] == []


async def test_nobody_is_refused_for_a_queue_that_the_copies_do_not_have_yet() -> None:
    async with cluster_with_copies() as (cluster, _):
        await cluster.create(QUEUE.resource, queue("team"))
        late = KnownObjects(cluster)  # it has seen nothing
        assert not late.is_ready()
        assert await judged(late, job(queue="team")) == ""
        assert "spec.queue" in await judged(late, job(queue="nowhere"))


async def test_many_who_are_refused_at_once_share_a_list() -> None:
    async with cluster_with_copies() as (cluster, known):
        calls = len(cluster.calls)
        found = await asyncio.gather(*(judged(known, job(queue="nowhere")) for _ in range(50)))
        assert all("spec.queue" in it for it in found)
        assert len([it for it in cluster.calls[calls:] if it[0] == "list"]) <= 3


async def test_a_group_in_a_namespace_that_was_made_just_now_goes_to_the_queue_of_the_namespace() -> None:
    async with cluster_with_copies() as (cluster, _):
        annotations = {"scheduling.volcano.sh/queue-name": "team"}
        await cluster.create(NAMESPACES, {"metadata": {"name": "lab", "annotations": annotations}})
        manifest = {"name": "g", "namespace": "lab"}
        group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": manifest, "spec": {}}
        judge = Judge(KnownObjects(cluster), scheduler_name="allhands")
        verdict = await judge.mutate(question(group, plural="podgroups", namespace="lab"))
        assert list(verdict.patch) == [{"op": "add", "path": "/spec/queue", "value": "team"}]


async def test_names_that_nothing_can_have_are_not_asked_for_and_many_are_not_all_asked_for() -> None:
    cluster = WebhookCluster()
    known = KnownObjects(cluster)

    def look(sight: Sight) -> list[object]:
        return [sight.one(NAMESPACES, name) for name in ("", ".", "..", "a/b", *(f"n-{it}" for it in range(500)))]

    await known.judge(look, lambda _said, sight: sight.has_missed)
    names = [name for verb, _, name in cluster.calls if verb == "get"]
    assert len(names) <= MOST_READ * 9
    assert not {"", ".", "..", "a/b"} & set(names)
