"""Quotas and limit ranges in the store: exact whatever the order, paid only where there are some."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.lifecycle.quota_admission import usage_of
from allhands.lifecycle.quota_charges import pod_charge
from allhands.lifecycle.resource_quota import QUOTAS
from allhands.ports import DeleteOptions, WriteOptions
from allhands.store import InProcessObjects, Store
from allhands.store.disk import DiskError
from tests.depth import examples
from tests.disks import MemoryDisk, living
from tests.doubles import CountingIds, ManualClock

PODS = Resource("", "v1", "pods")
SERVICES = Resource("", "v1", "services")
RANGES = Resource("", "v1", "limitranges")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NOW = DeleteOptions(grace_seconds=0)


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def quota(name: str, hard: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


class Kept:
    def __init__(self) -> None:
        self.store = Store(ManualClock(), CountingIds(), keeps_quotas=True)
        self.objects = InProcessObjects(self.store)

    async def used(self, name: str = "q") -> Any:
        self.store.housekeeper.run_pending()
        return (await self.objects.get(QUOTAS, name, "default")).manifest()["status"]["used"]

    async def refusal(self, resource: Resource, body: dict[str, Any]) -> str:
        with pytest.raises(StatusError) as refused:
            await self.objects.create(resource, body, "default")
        assert refused.value.code == 403
        return refused.value.message


async def test_what_is_there_counts_when_a_quota_comes_and_what_goes_makes_room() -> None:
    kept = Kept()
    await kept.objects.create(PODS, pod("old"), "default")
    await kept.objects.create(QUOTAS, quota("q", {"pods": "2", "requests.cpu": "2"}), "default")
    assert await kept.used() == {"pods": "1", "requests.cpu": "1"}
    await kept.objects.create(PODS, pod("new"), "default")
    why = "exceeded quota: q, requested: {0}=1,{1}=1, used: {0}=2,{1}=2, limited: {0}=2,{1}=2"
    why = why.format("pods", "requests.cpu")
    assert await kept.refusal(PODS, pod("more")) == f'pods "more" is forbidden: {why}'
    await kept.objects.delete(PODS, "old", "default", NOW)
    assert await kept.used() == {"pods": "1", "requests.cpu": "1"}
    await kept.objects.create(PODS, pod("more"), "default")


async def test_no_two_requests_take_the_last_room_before_anybody_has_tidied_up() -> None:
    kept = Kept()
    await kept.objects.create(QUOTAS, quota("q", {"pods": "3"}), "default")
    kept.store.housekeeper.run_pending()
    made = 0
    for number in range(9):
        with contextlib.suppress(StatusError):
            await kept.objects.create(PODS, pod(f"p{number}"), "default")
            made += 1
    assert made == 3


async def test_equal_specs_are_charged_each_and_limited_ones_are_not_taken_from_memory() -> None:
    kept = Kept()
    for number in range(3):  # a spec is remembered when it comes again
        await kept.objects.create(PODS, pod(f"before-{number}"), "default")
    await kept.objects.create(QUOTAS, quota("q", {"requests.cpu": "5"}), "default")
    kept.store.housekeeper.run_pending()
    for number in range(2):
        await kept.objects.create(PODS, pod(f"after-{number}"), "default")
    assert "exceeded quota" in await kept.refusal(PODS, pod("one-more"))
    await kept.objects.create(
        RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}}]}}, "default"
    )
    assert "minimum cpu usage per Container is 2, but request is 1" in await kept.refusal(PODS, pod("large"))
    await kept.objects.delete(RANGES, "l", "default")
    assert "exceeded quota" in await kept.refusal(PODS, pod("one-more"))


async def test_a_dry_run_a_failed_create_and_another_namespace_take_nothing() -> None:
    kept = Kept()
    await kept.objects.create(QUOTAS, quota("q", {"pods": "5"}), "default")
    kept.store.housekeeper.run_pending()
    await kept.objects.create(PODS, pod("a"), "default")
    await kept.objects.create(PODS, pod("b"), "default", WriteOptions(dry_run=True))
    with pytest.raises(StatusError, match="already exists"):
        await kept.objects.create(PODS, pod("a"), "default")
    await kept.objects.create(Resource("", "v1", "namespaces"), {"metadata": {"name": "other"}})
    await kept.objects.create(PODS, pod("c"), "other")
    assert (await kept.objects.get(QUOTAS, "q", "default")).manifest()["status"]["used"] == {"pods": "1"}


async def test_what_is_applied_is_limited_and_counted_too() -> None:
    kept = Kept()
    await kept.objects.create(QUOTAS, quota("q", {"pods": "1", "requests.cpu": "2"}), "default")
    kept.store.housekeeper.run_pending()
    applying = WriteOptions(field_manager="ada")
    for name, fits in (("a", True), ("a", True), ("b", False)):
        body = {"apiVersion": "v1", "kind": "Pod"} | pod(name)
        with contextlib.nullcontext() if fits else pytest.raises(StatusError, match="exceeded quota"):
            await kept.objects.patch(PODS, name, "apply", body, "default", applying)
    assert await kept.used() == {"pods": "1", "requests.cpu": "1"}


async def test_objects_of_custom_kinds_are_counted_under_any_of_their_versions() -> None:
    kept = Kept()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v1beta1")]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    await kept.objects.create(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    kept.store.housekeeper.run_pending()
    await kept.objects.create(QUOTAS, quota("q", {"count/widgets.example.com": "2", "count/x.nowhere": "1"}), "default")
    assert await kept.used() == {"count/widgets.example.com": "0"}
    for version in ("v1", "v1beta1"):
        resource = Resource("example.com", version, "widgets")
        await kept.objects.create(resource, {"metadata": {"name": version}}, "default")
    assert await kept.used() == {"count/widgets.example.com": "2"}
    one_more = {"metadata": {"name": "z"}}
    assert "exceeded quota" in await kept.refusal(Resource("example.com", "v1beta1", "widgets"), one_more)


async def test_a_service_that_becomes_a_larger_one_is_charged_the_difference() -> None:
    kept = Kept()
    await kept.objects.create(QUOTAS, quota("q", {"services": "1", "services.nodeports": "1"}), "default")
    kept.store.housekeeper.run_pending()
    ports = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]
    await kept.objects.create(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": ports}}, "default")
    with pytest.raises(StatusError, match=r"exceeded quota: q, requested: services.nodeports=2, used: .*=0"):
        await kept.objects.patch(SERVICES, "s", "merge", {"spec": {"type": "NodePort"}}, "default")
    await kept.objects.patch(SERVICES, "s", "merge", {"spec": {"type": "NodePort", "ports": ports[:1]}}, "default")
    assert await kept.used() == {"services": "1", "services.nodeports": "1"}


async def test_what_a_client_writes_into_the_status_is_put_right() -> None:
    kept = Kept()
    await kept.objects.create(QUOTAS, quota("q", {"pods": "5"}), "default")
    kept.store.housekeeper.run_pending()
    lie = {"status": {"hard": {"pods": "99"}, "used": {"pods": "50"}}}
    await kept.objects.patch(QUOTAS, "q", "merge", lie, "default", subresource="status")
    assert await kept.used() == {"pods": "0"}


async def test_a_bare_api_server_leaves_the_status_to_others() -> None:
    store = Store(ManualClock(), CountingIds())
    objects = InProcessObjects(store)
    await objects.create(QUOTAS, quota("q", {"pods": "0"}), "default")
    store.housekeeper.run_pending()
    await objects.create(PODS, pod("a"), "default")
    assert (await objects.get(QUOTAS, "q", "default")).manifest()["status"] == {}


HARD = {"pods": "4", "requests.cpu": "5", "count/pods": "6"}
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "end", "delete", "settle", "quota"]), st.integers(0, 7), st.integers(1, 3)),
    max_size=40,
)


@given(STEPS)
@settings(max_examples=examples(60), deadline=None)
def test_no_order_of_requests_gets_past_a_quota_and_in_the_end_it_tells_the_truth(
    steps: list[tuple[str, int, int]],
) -> None:
    kept = Kept()
    _drive(_all(kept, steps))


def _drive(steps: Any) -> None:
    """The store never waits, so a coroutine over it ends at its first step."""
    with contextlib.suppress(StopIteration):
        steps.send(None)


async def _all(kept: Kept, steps: list[tuple[str, int, int]]) -> None:
    limited = False
    for what, number, size in steps:
        with contextlib.suppress(StatusError):
            await _one(kept, what, number, size)
        limited = limited or what == "settle"
        pods = [record.manifest() for record in kept.store.collection(kept.store.kind(PODS))]
        if (await _status(kept)).get("used") is not None and limited:
            assert len(pods) <= max(6, await _before(kept))
    kept.store.housekeeper.run_pending()
    pods = [record.manifest() for record in kept.store.collection(kept.store.kind(PODS))]
    alive = [it for it in pods if it["status"]["phase"] not in ("Succeeded", "Failed")]
    cpu = sum(int(it["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for it in alive)
    status = await _status(kept)
    if status:
        assert status["used"] == {"pods": str(len(alive)), "requests.cpu": str(cpu), "count/pods": str(len(pods))}


async def _before(kept: Kept) -> int:
    return int((await _status(kept))["used"]["count/pods"])


async def _status(kept: Kept) -> Any:
    with contextlib.suppress(StatusError):
        return (await kept.objects.get(QUOTAS, "q", "default")).manifest()["status"]
    return {}


async def _one(kept: Kept, what: str, number: int, size: int) -> None:
    match what:
        case "create":
            await kept.objects.create(PODS, pod(f"p{number}", str(size)), "default")
        case "end":
            ended = {"status": {"phase": "Succeeded"}}
            await kept.objects.patch(PODS, f"p{number}", "merge", ended, "default", subresource="status")
        case "delete":
            await kept.objects.delete(PODS, f"p{number}", "default", NOW)
        case "settle":
            kept.store.housekeeper.run_pending()
        case "quota":
            await kept.objects.create(QUOTAS, quota("q", HARD), "default")


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]),
    st.sampled_from(["0", "1", "2", "3Gi", "4M"]),
    max_size=3,
)
RESOURCES = st.fixed_dictionaries({"requests": AMOUNTS, "limits": AMOUNTS})


@given(
    st.lists(RESOURCES, min_size=1, max_size=3),
    st.lists(st.tuples(RESOURCES, st.booleans()), max_size=3),
    st.sampled_from([{}, {"cpu": "250m", "memory": "64Mi"}]),
    st.one_of(st.none(), RESOURCES),
)
@settings(max_examples=examples(150), deadline=None)
def test_what_is_refused_by_and_what_is_counted_are_the_same_amounts(
    containers: list[Any], starting: list[Any], overhead: Any, whole: Any
) -> None:
    spec = {
        "containers": [{"name": f"c{n}", "resources": it} for n, it in enumerate(containers)],
        "initContainers": [
            {"name": f"i{n}", "resources": it, **({"restartPolicy": "Always"} if sidecar else {})}
            for n, (it, sidecar) in enumerate(starting)
        ],
        "overhead": overhead,
    }
    if whole is not None:
        spec["resources"] = whole
    manifest: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {}}
    counted = {name: nanos for name, nanos in pod_charge(msgspec.json.encode(manifest)).charge.amounts if nanos}
    assert {name: amount.nanos for name, amount in usage_of(PODS, manifest).items() if amount} == counted


async def test_after_a_crash_and_after_a_refusing_disk_a_quota_knows_what_is_used() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.objects.create(QUOTAS, quota("q", {"pods": "3"}), "default")
        life.store.housekeeper.run_pending()
        await life.objects.create(PODS, pod("a"), "default")
        disk.fault = DiskError("full")
        with pytest.raises(StatusError):
            await life.objects.create(PODS, pod("b"), "default")
        disk.fault = None
        await life.objects.create(PODS, pod("c"), "default")
        life.store.housekeeper.run_pending()
        await life.committer.settled()
        assert (await life.objects.get(QUOTAS, "q", "default")).manifest()["status"]["used"] == {"pods": "2"}
    async with living(disk) as life:
        life.store.housekeeper.run_pending()
        await life.objects.create(PODS, pod("d"), "default")
        with pytest.raises(StatusError, match="exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"):
            await life.objects.create(PODS, pod("e"), "default")
