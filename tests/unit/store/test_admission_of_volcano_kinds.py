"""A cluster that brings Volcano's kinds admits their objects as their webhook would, and nothing else is touched."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.volcano.admission import ADMISSIONS
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.compose.admission import WEBHOOKS
from allhands.ports import DeleteOptions, Query
from allhands.runtime.installing import install_kinds
from allhands.store import InProcessObjects, Store
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.unit.api.volcano.volcano_objects import container, job, task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAMESPACES = Resource("", "v1", "namespaces")


@contextlib.asynccontextmanager
async def cluster(webhooks: Any = ADMISSIONS) -> AsyncIterator[InProcessObjects]:
    store = Store(ManualClock(), CountingIds(), webhooks=webhooks)
    housekeeping = asyncio.create_task(store.housekeeper.run())
    try:
        objects = InProcessObjects(store)
        await install_kinds(objects)
        yield objects
    finally:
        housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await housekeeping


async def _refused(work: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await work
    return caught.value


async def _queue(objects: InProcessObjects, name: str, **spec: Any) -> None:
    await objects.create(QUEUE.resource, {"metadata": {"name": name}, "spec": spec}, "")


async def test_a_job_is_completed_and_stored() -> None:
    async with cluster() as objects:
        made = (await objects.create(JOB.resource, job(plugins={"ray": []}), "default")).manifest()
        assert made["spec"]["schedulerName"] == "allhands"
        assert made["spec"]["minAvailable"] == 2
        assert made["spec"]["plugins"] == {"ray": [], "svc": []}
        assert (await objects.get(JOB.resource, "train", "default")).manifest() == made


async def test_a_rule_of_the_definition_is_asked_first_as_on_a_real_server() -> None:
    async with cluster() as objects:
        wrong = job(tasks=[task(minAvailable=9)], queue="nowhere")
        refusal = await _refused(objects.create(JOB.resource, wrong, "default"))
        causes = [it["field"] for it in (refusal.details or {})["causes"]]
        assert causes == ["spec.tasks[0].minAvailable"]


async def test_a_job_that_makes_no_sense_is_refused_with_every_path() -> None:
    async with cluster() as objects:
        wrong = job(tasks=[task(), task()], minAvailable=9, queue="nowhere")
        refusal = await _refused(objects.create(JOB.resource, wrong, "default"))
        assert (refusal.code, refusal.reason) == (422, "Invalid")
        causes = [it["field"] for it in (refusal.details or {})["causes"]]
        assert causes == ["spec.tasks[1].name", "spec.minAvailable", "spec.queue"]
        assert not (await objects.list(JOB.resource, Query())).items


async def test_a_cluster_of_this_process_asks_the_plugins_too() -> None:
    async with cluster(WEBHOOKS) as objects:
        refusal = await _refused(objects.create(JOB.resource, job(plugins={"svc": ["--colour=red"]}), "default"))
        assert refusal.code == 422
        assert "spec.plugins[svc]" in refusal.message
        await objects.create(JOB.resource, job(plugins={"svc": [], "env": [], "ssh": []}), "default")


async def test_what_the_schema_forbids_is_told_by_the_schema() -> None:
    async with cluster() as objects:
        for spec, path in (
            ({"tasks": "many"}, "spec.tasks"),
            ({"tasks": [5]}, "spec.tasks[0]"),
            ({"tasks": [task(replicas=-1)]}, "spec.tasks[0].replicas"),
            ({"tasks": [task(minAvailable="x")]}, "spec.tasks[0].minAvailable"),
            ({"plugins": ["svc"]}, "spec.plugins"),
            ({"policies": [{"event": "Odd", "action": "AbortJob"}]}, "spec.policies[0].event"),
        ):
            refusal = await _refused(objects.create(JOB.resource, job(**spec), "default"))
            assert refusal.code == 422
            assert (refusal.details or {})["causes"][0]["field"] == path


async def test_an_unknown_field_in_a_template_is_dropped() -> None:
    async with cluster() as objects:
        template = {"metadata": {"labels": {"a": "b"}, "colour": 1}, "spec": {"containers": [container(speed=9)]}}
        made = await objects.create(JOB.resource, job(tasks=[task(template=template, size="xl")]), "default")
        assert made.manifest()["spec"]["tasks"][0]["template"] == {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container()]},
        }


async def test_a_job_is_scaled_and_otherwise_stays() -> None:
    async with cluster() as objects:
        made = (await objects.create(JOB.resource, job(), "default")).manifest()
        made["spec"]["tasks"][0]["replicas"] = 5
        scaled = (await objects.update(JOB.resource, "train", made, "default")).manifest()
        assert scaled["metadata"]["generation"] == 2
        changed = copy.deepcopy(scaled)
        changed["spec"]["queue"] = "other"
        refusal = await _refused(objects.update(JOB.resource, "train", changed, "default"))
        assert "spec.queue: Forbidden: must stay as it is" in refusal.message
        await objects.patch(JOB.resource, "train", "merge", {"spec": {"minAvailable": 4}}, "default")
        refusal = await _refused(
            objects.patch(JOB.resource, "train", "merge", {"spec": {"minAvailable": 6}}, "default")
        )
        assert "spec.minAvailable: Invalid value: 6" in refusal.message


async def test_the_same_manifest_may_be_put_again() -> None:
    async with cluster() as objects:
        made = (await objects.create(JOB.resource, job(tasks=[task("")]), "default")).manifest()
        again = job(tasks=[task("")])
        again["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        assert (await objects.update(JOB.resource, "train", again, "default")).manifest() == made


async def test_a_status_is_not_asked_about() -> None:
    async with cluster() as objects:
        await _queue(objects, "q")
        await objects.create(JOB.resource, job(queue="q"), "default")
        await objects.patch(
            QUEUE.resource, "q", "merge", {"status": {"state": "Closed", "allocated": {}}}, "", subresource="status"
        )
        status = {"status": {"state": {"phase": "Running"}}}
        await objects.patch(JOB.resource, "train", "merge", status, "default", subresource="status")
        refusal = await _refused(objects.create(JOB.resource, job("late", queue="q"), "default"))
        assert "the queue is Closed" in refusal.message


async def test_a_group_of_a_namespace_with_a_queue_goes_there() -> None:
    async with cluster() as objects:
        await _queue(objects, "theirs")
        annotations = {"scheduling.volcano.sh/queue-name": "theirs"}
        await objects.create(NAMESPACES, {"metadata": {"name": "team", "annotations": annotations}}, "")
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 1}}
        made = (await objects.create(POD_GROUP.resource, group, "team")).manifest()
        assert made["spec"]["queue"] == "theirs"
        made["status"] = {"phase": "Inqueue"}
        assert (await objects.update(POD_GROUP.resource, "g", made, "team")).manifest()["status"] == made["status"]


async def test_a_queue_is_kept_while_others_need_it() -> None:
    async with cluster() as objects:
        await _queue(objects, "top")
        await _queue(objects, "below", parent="top")
        refusal = await _refused(objects.delete(QUEUE.resource, "top", "", DeleteOptions()))
        assert (refusal.code, "queues are below it: below" in refusal.message) == (403, True)
        assert (await _refused(objects.delete(QUEUE.resource, "default", "", DeleteOptions()))).code == 403
        refusal = await _refused(objects.create(JOB.resource, job(queue="top"), "default"))
        assert "only a queue without queues below" in refusal.message
        await objects.delete(QUEUE.resource, "below", "", DeleteOptions())
        await objects.create(JOB.resource, job(queue="top"), "default")
        await objects.delete(QUEUE.resource, "top", "", DeleteOptions())


@pytest.mark.parametrize(
    ("definition", "manifest"),
    [
        (CRON_JOB, {"metadata": {"name": "c"}, "spec": {"schedule": "x", "jobTemplate": {"spec": job()["spec"]}}}),
        (JOB_FLOW, {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]}}),
        (HYPER_NODE, {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": [{"type": "Node"}]}}),
        (QUEUE, {"metadata": {"name": "q"}, "spec": {"parent": "q"}}),
    ],
    ids=lambda it: getattr(it, "name", ""),
)
async def test_every_kind_with_rules_is_admitted_by_them(definition: Any, manifest: dict[str, Any]) -> None:
    namespace = "default" if definition.namespaced else ""
    async with cluster() as objects:
        assert (await _refused(objects.create(definition.resource, manifest, namespace))).code == 422
    async with cluster(webhooks={}) as bare:
        await bare.create(definition.resource, manifest, namespace)


_WORDS = [
    *("spec", "tasks", "name", "replicas", "minAvailable", "template", "policies", "plugins", "volumes", "queue"),
    *("containers", "members", "selector", "flows", "dependsOn", "targets", "jobTemplate", "schedule", "parent"),
    *("capability", "deserved", "guarantee", "resource", "networkTopology", "subGroupPolicy", "labelSelector", "event"),
    *("partitionPolicy", "mountPath", "volumeClaim", "exactMatch", "regexMatch", "pattern", "action", "exitCode"),
]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)


@functools.cache
def _kept_cluster() -> InProcessObjects:
    """One for all examples: making a cluster takes longer than what is tried on it."""

    async def made() -> InProcessObjects:
        async with cluster() as objects:
            return objects

    return asyncio.run(made())


@given(spec=_JSON)
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_written_is_taken_or_refused_and_never_breaks_the_server(spec: Any) -> None:
    objects = _kept_cluster()

    async def write() -> None:
        for definition in VOLCANO_KINDS:
            manifest = {"metadata": {"generateName": "x"}, "spec": copy.deepcopy(spec)}
            try:
                await objects.create(definition.resource, manifest, "default" if definition.namespaced else "")
            except StatusError as refusal:
                assert refusal.code in (400, 422), refusal.message

    asyncio.run(write())
