"""Pods that were written for Volcano and get a group, and pods whose queue names node groups: whatever the order in
which objects are seen, the world is that of a scheduler that begins now."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError
from allhands.core.dump import canonical
from allhands.dialects.pods import read_pod
from allhands.lifecycle.volcano_job.names import POD_GROUPS
from allhands.ports import DeleteOptions
from allhands.runtime.scheduling.scheduler import SchedulerOptions
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import PODS
from tests.scheduler_world import QUEUES, SchedulerWorld
from tests.virtual import on_virtual_time

REPLICA_SETS = "ReplicaSet"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
GROUP = "scheduling.k8s.io/group-name"
LABEL = "volcano.sh/nodegroup-name"


class World(SchedulerWorld):
    """Serves Volcano's pods too. An owner may be named before it is there."""

    def __init__(self) -> None:
        super().__init__()
        self._options = SchedulerOptions(names=("allhands", "volcano"), flight=1)
        self.uids: dict[str, str] = {}

    async def owner(self, name: str, least: str) -> None:
        from allhands.lifecycle.workload_group import REPLICA_SETS as RESOURCE  # noqa: PLC0415

        body = {
            "metadata": {"name": name, "annotations": {MIN_MEMBER: least}},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "x"}]},
                },
            },
        }
        try:
            made = await self.objects.create(RESOURCE, body, "default")
            self.uids[name] = made.manifest()["metadata"]["uid"]
        except StatusError:
            await self.objects.patch(
                RESOURCE, name, "merge", {"metadata": {"annotations": {MIN_MEMBER: least}}}, "default"
            )

    async def owned_pod(self, name: str, owner: str) -> None:
        uid = self.uids.get(owner, "unknown")
        reference = {"apiVersion": "apps/v1", "kind": REPLICA_SETS, "metadata": {"name": owner, "uid": uid}}
        await self.pod(name, owner=reference, schedulerName="volcano")

    async def group(self, owner: str, least: int, queue: str = "default") -> None:
        name = f"podgroup-{self.uids.get(owner, 'unknown')}"
        spec = {"minMember": least, "queue": queue}
        try:
            await self.objects.create(POD_GROUPS, {"metadata": {"name": name}, "spec": spec}, "default")
        except StatusError:
            await self.objects.patch(POD_GROUPS, name, "merge", {"spec": spec}, "default")


@on_virtual_time
async def test_pods_of_an_owner_that_asks_for_several_wait_for_their_group_and_need_not_name_it() -> None:
    world = World()
    await world.install()
    await world.node("a", 4)
    async with world.scheduling():
        await world.owner("web", "2")
        await world.owned_pod("one", "web")
        await world.owned_pod("two", "web")
        await asyncio.sleep(10)
        assert await world.bound() == {}
        await world.group("web", 2)
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["one", "two"]


@on_virtual_time
async def test_plain_pods_and_those_of_an_owner_that_asks_for_one_go_at_once() -> None:
    world = World()
    await world.install()
    await world.node("a", 4)
    async with world.scheduling():
        await world.owner("web", "1")
        await world.owned_pod("one", "web")
        await world.pod("two", schedulerName="volcano")
        await asyncio.sleep(5)
        assert sorted(await world.bound()) == ["one", "two"]


def test_owners_of_other_groups_are_not_asked_though_their_kind_is_called_the_same() -> None:
    for api_version, is_asked in (("apps/v1", True), ("apps.kruise.io/v1", False)):
        owner = {"apiVersion": api_version, "kind": "StatefulSet", "name": "x", "uid": "u", "controller": True}
        body = {"metadata": {"name": "p", "uid": "v", "ownerReferences": [owner]}, "spec": {"schedulerName": "volcano"}}
        record = read_pod(msgspec.json.encode(body))
        assert (record.group_to_be, record.asks_owner) == ("volcano:podgroup-u", is_asked)


@on_virtual_time
async def test_a_pod_that_is_seen_before_its_owner_waits_until_that_has_spoken() -> None:
    world = World()
    await world.install()
    await world.node("a", 4)
    async with world.scheduling():
        await world.owned_pod("one", "web")
        await asyncio.sleep(10)
        assert await world.bound() == {}


_NAMES = st.sampled_from(["web", "db"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("owner"), _NAMES, st.sampled_from(["1", "2", "x"])),
        st.tuples(st.just("pod"), _NAMES, st.just("")),
        st.tuples(st.just("plain"), _NAMES, st.just("")),
        st.tuples(st.just("group"), _NAMES, st.sampled_from(["default", "reds", "below"])),
        st.tuples(st.just("no group"), _NAMES, st.just("")),
        st.tuples(st.just("join"), _NAMES, st.just("")),
        st.tuples(
            st.just("queue"), st.sampled_from(["reds", "below", "default"]), st.sampled_from(["red", "blue", ""])
        ),
        st.tuples(st.just("node"), st.sampled_from(["n0", "n1"]), st.sampled_from(["red", "blue", ""])),
    ),
    max_size=9,
)


async def _do(world: World, number: int, what: str, name: str, more: str) -> None:
    with contextlib.suppress(StatusError):
        if what == "owner":
            await world.owner(name, more)
        elif what == "pod":
            await world.owned_pod(f"{name}-{number}", name)
        elif what == "plain":
            queue = {"scheduling.volcano.sh/queue-name": "reds"}
            await world.pod(f"plain-{number}", schedulerName="volcano", annotations=queue)
        elif what == "group":
            await world.group(name, 1 + number % 2, more)
        elif what == "no group":
            group = f"podgroup-{world.uids.get(name, 'unknown')}"
            await world.objects.delete(POD_GROUPS, group, "default", DeleteOptions(propagation="Background"))
        elif what == "join":
            for pod in await world.pods():
                if pod["metadata"]["name"].startswith(f"{name}-"):
                    note = {GROUP: f"podgroup-{world.uids.get(name, 'unknown')}"}
                    patch = {"metadata": {"annotations": note}}
                    await world.objects.patch(PODS, pod["metadata"]["name"], "merge", patch, "default")
                    break
        elif what == "queue":
            await _queue(world, name, more)
        else:
            await world.node(name, 4, **({LABEL: more} if more else {}))


async def _queue(world: World, name: str, group: str) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [group]}
    spec: dict[str, Any] = {"affinity": {"nodeGroupAffinity": required} if group else None}
    if name == "below":
        spec["parent"] = "reds"
    try:
        await world.queue(name, **{key: it for key, it in spec.items() if it is not None})
    except StatusError:
        await world.objects.patch(QUEUES, name, "merge", {"spec": spec})


@settings(max_examples=examples(25), deadline=None)
@given(steps=_STEPS)
def test_a_world_that_was_kept_up_to_date_is_that_of_a_scheduler_that_begins_now(
    steps: list[tuple[str, str, str]],
) -> None:
    async def main() -> None:
        world = World()
        await world.install()
        async with world.scheduling() as kept:
            for number, step in enumerate(steps):
                await _do(world, number, *step)
                await asyncio.sleep(1)
            await asyncio.sleep(5)
            async with world.scheduling() as fresh:
                await asyncio.sleep(0.001)
                assert canonical(kept.watched.snapshot()) == canonical(fresh.watched.snapshot())

    run_virtually(VirtualTimeLoop(), main())
