"""Instructions are carried out in their order, up to the first refusal; what is as wanted already is no refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.lifecycle.instructions import Create, Delete, Instruction, Patch, Record
from allhands.runtime.informer import Informer
from allhands.runtime.performer import SECRETS, Performer
from allhands.runtime.recorder import EVENTS, Recorder
from tests.manifests import CONFIG_MAPS, LEASES, PODS, config_map, metadata, pod
from tests.virtual import Cluster, cluster, on_virtual_time, refused, running


def performer_of(world: Cluster, flight: int = 1) -> Performer:
    return Performer(world.noted.port, Recorder(world.objects, world.clock, "test"), flight=flight)


def create(name: str) -> Create:
    return Create(CONFIG_MAPS, "default", config_map(name, color="red"))


def paint(name: str, color: str, version: str = "") -> Patch:
    return Patch(CONFIG_MAPS, "default", name, {"data": {"color": color}}, version=version)


async def maps(world: Cluster) -> dict[str, str]:
    page = await world.objects.list(CONFIG_MAPS)
    found = [msgspec.json.decode(raw) for raw in page.items]
    return {it["metadata"]["name"]: it["data"]["color"] for it in found if "color" in (it.get("data") or {})}


@on_virtual_time
async def test_the_first_refusal_ends_it_and_what_came_before_has_happened() -> None:
    world = cluster()
    with pytest.raises(StatusError):
        await performer_of(world).perform([create("a"), create("a"), create("b")])
    assert await maps(world) == {"a": "red"}


@on_virtual_time
async def test_what_is_done_shows_in_the_informers_of_the_process_at_once() -> None:
    world = cluster()
    performer = performer_of(world)
    informer: Informer[Any] = Informer(world.objects, CONFIG_MAPS, msgspec.json.decode)
    performer.show(informer)
    await performer.perform([create("a"), create("b")])
    assert sorted(informer.keys()) == ["default/a", "default/b"]
    record = informer.get("default/a")
    assert record is not None
    await performer.perform([paint("a", "blue"), Delete(CONFIG_MAPS, "default", "b")])
    assert sorted(informer.keys()) == ["default/a"]
    assert informer.get("default/a")["data"] == {"color": "blue"}  # type: ignore[index]


@on_virtual_time
async def test_deleting_what_is_gone_is_fine_and_the_copy_forgets_it() -> None:
    world = cluster()
    performer = performer_of(world)
    informer: Informer[Any] = Informer(world.objects, CONFIG_MAPS, msgspec.json.decode)
    performer.show(informer)
    await performer.perform([create("a")])
    await world.objects.delete(CONFIG_MAPS, "a", "default")
    await performer.perform([Delete(CONFIG_MAPS, "default", "a"), create("b")])
    assert sorted(informer.keys()) == ["default/b"]


@on_virtual_time
async def test_only_the_very_object_is_deleted_and_a_namesake_stays() -> None:
    world = cluster()
    performer = performer_of(world)
    await performer.perform([create("a")])
    first = (await world.objects.get(CONFIG_MAPS, "a", "default")).manifest()["metadata"]["uid"]
    await world.objects.delete(CONFIG_MAPS, "a", "default")
    await performer.perform([create("a")])
    await performer.perform([Delete(CONFIG_MAPS, "default", "a", uid=first), create("after")])
    assert await maps(world) == {"a": "red", "after": "red"}


@on_virtual_time
async def test_a_conflict_about_the_very_object_is_a_refusal() -> None:
    world = cluster()
    performer = performer_of(world)
    await performer.perform([create("a")])
    uid = (await world.objects.get(CONFIG_MAPS, "a", "default")).manifest()["metadata"]["uid"]
    world.noted.refuse = lambda it: refused(409) if it.verb == "delete" else None
    with pytest.raises(StatusError):
        await performer.perform([Delete(CONFIG_MAPS, "default", "a", uid=uid)])


@on_virtual_time
async def test_a_pod_that_takes_its_time_to_end_is_shown_as_ending_and_not_as_gone() -> None:
    world = cluster()
    performer = performer_of(world)
    informer: Informer[Any] = Informer(world.objects, PODS, msgspec.json.decode)
    performer.show(informer)
    await performer.perform([Create(PODS, "default", pod("a", nodeName="node"))])
    await performer.perform([Delete(PODS, "default", "a", grace_seconds=30)])
    record = informer.get("default/a")
    assert record is not None
    assert "deletionTimestamp" in record["metadata"]


@on_virtual_time
async def test_a_patch_with_a_version_is_refused_if_the_object_has_moved_on() -> None:
    world = cluster()
    performer = performer_of(world)
    await performer.perform([create("a")])
    version = (await world.objects.get(CONFIG_MAPS, "a", "default")).manifest()["metadata"]["resourceVersion"]
    await performer.perform([paint("a", "blue", version)])
    with pytest.raises(StatusError):
        await performer.perform([paint("a", "green", version)])
    assert await maps(world) == {"a": "blue"}


class _Slow:
    """Every request takes a second: what runs side by side begins in the same moment."""

    def __init__(self, world: Cluster) -> None:
        self._port = world.noted

    def __getattr__(self, verb: str) -> Any:
        async def slow(*arguments: Any, **options: Any) -> Any:
            try:
                return await getattr(self._port, verb)(*arguments, **options)
            finally:
                await asyncio.sleep(1)

        return slow


async def moments(instructions: list[Instruction], flight: int) -> list[tuple[float, str, str]]:
    world = cluster()
    for name in ("a", "b", "c"):
        await world.objects.create(CONFIG_MAPS, config_map(name, color="red"), "default")
    lease = {"metadata": metadata("lease"), "spec": {}}
    await world.objects.create(LEASES, lease, "default")
    performer = Performer(_Slow(world), Recorder(world.objects, world.clock, "test"), flight=flight)
    await performer.perform(instructions)
    return [(it.at_seconds, it.kind, it.name) for it in world.noted.requests]


@on_virtual_time
async def test_neighbours_on_objects_of_one_kind_go_together_as_many_as_allowed() -> None:
    done = await moments([paint("a", "blue"), paint("b", "blue"), paint("c", "blue")], flight=2)
    assert [at for at, _, _ in done] == [0, 0, 1]


@on_virtual_time
async def test_what_is_done_to_another_kind_waits_for_what_comes_before_it() -> None:
    """A volume is promised to a claim before the claim says so; a Job counts a pod before the pod may go."""
    lease = Patch(LEASES, "default", "lease", {"spec": {"holderIdentity": "me"}})
    done = await moments([paint("a", "blue"), lease, paint("b", "blue"), paint("c", "blue")], flight=8)
    assert done == [(0, "configmaps", "a"), (1, "leases", "lease"), (2, "configmaps", "b"), (2, "configmaps", "c")]


@on_virtual_time
async def test_two_writes_to_one_object_keep_their_order() -> None:
    done = await moments([paint("a", "blue"), paint("b", "blue"), paint("a", "green")], flight=8)
    assert done == [(0, "configmaps", "a"), (0, "configmaps", "b"), (1, "configmaps", "a")]


@on_virtual_time
async def test_a_refusal_among_those_that_go_together_ends_it_after_them() -> None:
    world = cluster()
    performer = performer_of(world, flight=8)
    with pytest.raises(StatusError):
        await performer.perform([create("a"), paint("missing", "blue"), paint("a", "blue"), create("never")])
    assert await maps(world) == {"a": "blue"}


@on_virtual_time
async def test_telling_is_left_to_the_recorder() -> None:
    world = cluster()
    recorder = Recorder(world.objects, world.clock, "test")
    performer = Performer(world.noted.port, recorder)
    involved = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a", "uid": "1"}
    await performer.perform([Record(involved, "Normal", "Painted", "It is red.")])
    assert world.noted.requests == []
    async with running(recorder.run()):
        await asyncio.sleep(1)
    assert "Painted" in str((await world.objects.list(EVENTS)).items)


def owned(name: str, uid: str, color: str = "red") -> Create:
    manifest = config_map(name, color=color)
    owner = {"apiVersion": "v1", "kind": "Owner", "name": f"of-{uid}", "uid": uid, "controller": True}
    manifest["metadata"]["ownerReferences"] = [owner]
    return Create(CONFIG_MAPS, "default", manifest, unless_there=True)


@on_virtual_time
async def test_what_is_made_unless_it_is_there_may_be_there_if_it_has_the_same_manager() -> None:
    world = cluster()
    performer = performer_of(world)
    informer: Informer[Any] = Informer(world.objects, CONFIG_MAPS, msgspec.json.decode)
    await performer.perform([owned("a", "me")])
    performer.show(informer)
    await performer.perform([owned("a", "me", "blue")])
    assert await maps(world) == {"a": "red"}
    assert informer.get("default/a") is not None


@on_virtual_time
@pytest.mark.parametrize(("theirs", "whose"), [("you", "belongs to Owner of-you"), ("", "belongs to nobody")])
async def test_somebody_elses_object_of_the_same_name_is_a_refusal_that_says_whose_it_is(
    theirs: str, whose: str
) -> None:
    world = cluster()
    performer = performer_of(world)
    await performer.perform([owned("a", theirs) if theirs else create("a")])
    with pytest.raises(StatusError, match=whose) as refusal:
        await performer.perform([owned("a", "me")])
    assert refusal.value.reason == "Taken"


@on_virtual_time
async def test_what_is_deleted_for_its_owner_is_deleted_only_if_it_is_his() -> None:
    world = cluster()
    performer = performer_of(world)
    await performer.perform([owned("mine", "me"), owned("yours", "you"), create("nobodys")])
    names = ("mine", "yours", "nobodys", "never-there")
    await performer.perform([Delete(CONFIG_MAPS, "default", name, owner_uid="me") for name in names])
    assert sorted(await maps(world)) == ["nobodys", "yours"]


@on_virtual_time
async def test_a_secret_that_is_there_is_never_read() -> None:
    world = cluster()
    secret = {"metadata": {"name": "keys"}, "stringData": {"key": "somebody's"}}
    await world.objects.create(SECRETS, secret, "default")
    await performer_of(world).perform([Create(SECRETS, "default", secret, unless_there=True)])
    assert world.noted.of("get") == []
