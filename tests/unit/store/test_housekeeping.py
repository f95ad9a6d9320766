"""What happens by itself: dependents follow their owners, namespaces empty before they end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.ports import DeleteOptions
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.manifests import CONFIG_MAPS, NAMESPACES, PODS, config_map, owned_by, pod

if TYPE_CHECKING:
    import datetime

    from allhands.api.kinds import Resource
    from allhands.ports import Propagation


async def exists(
    objects: InProcessObjects, name: str, resource: Resource = CONFIG_MAPS, namespace: str = "default"
) -> bool:
    try:
        await objects.get(resource, name, namespace)
    except StatusError as refusal:
        assert refusal.code == 404
        return False
    return True


async def family(objects: InProcessObjects, *, blocks: bool = False) -> None:
    owner = (await objects.create(CONFIG_MAPS, config_map("owner"), "default")).manifest()
    child = (
        await objects.create(CONFIG_MAPS, owned_by(config_map("child"), owner, blocks=blocks), "default")
    ).manifest()
    await objects.create(CONFIG_MAPS, owned_by(config_map("grandchild"), child, blocks=blocks), "default")


async def test_background_deletion_takes_the_whole_family(objects: InProcessObjects, store: Store) -> None:
    await family(objects)
    await objects.delete(CONFIG_MAPS, "owner", "default", DeleteOptions(propagation="Background"))
    assert await exists(objects, "child")
    store.housekeeper.run_pending()
    assert not await exists(objects, "child")
    assert not await exists(objects, "grandchild")


async def test_orphans_stay_and_forget_their_owner(objects: InProcessObjects, store: Store) -> None:
    await family(objects)
    await objects.delete(CONFIG_MAPS, "owner", "default", DeleteOptions(propagation="Orphan"))
    store.housekeeper.run_pending()
    assert not await exists(objects, "owner")
    child = (await objects.get(CONFIG_MAPS, "child", "default")).manifest()
    assert "ownerReferences" not in child["metadata"]
    assert await exists(objects, "grandchild")


async def test_foreground_deletion_waits_for_blocking_dependents(objects: InProcessObjects, store: Store) -> None:
    owner = (await objects.create(CONFIG_MAPS, config_map("owner"), "default")).manifest()
    held = owned_by(config_map("child"), owner, blocks=True)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await objects.create(CONFIG_MAPS, held, "default")
    await objects.delete(CONFIG_MAPS, "owner", "default", DeleteOptions(propagation="Foreground"))
    store.housekeeper.run_pending()
    assert await exists(objects, "owner")
    await objects.patch(CONFIG_MAPS, "child", "merge", {"metadata": {"finalizers": []}}, "default")
    store.housekeeper.run_pending()
    assert not await exists(objects, "child")
    assert not await exists(objects, "owner")


async def test_one_of_two_owners_is_enough_to_stay(objects: InProcessObjects, store: Store) -> None:
    one = (await objects.create(CONFIG_MAPS, config_map("one"), "default")).manifest()
    two = (await objects.create(CONFIG_MAPS, config_map("two"), "default")).manifest()
    await objects.create(CONFIG_MAPS, owned_by(owned_by(config_map("child"), one), two), "default")
    await objects.delete(CONFIG_MAPS, "one", "default")
    store.housekeeper.run_pending()
    child = (await objects.get(CONFIG_MAPS, "child", "default")).manifest()
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["two"]


async def test_an_object_born_to_a_missing_owner_goes(objects: InProcessObjects, store: Store) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
    await objects.create(CONFIG_MAPS, owned_by(config_map("child"), ghost), "default")
    store.housekeeper.run_pending()
    assert not await exists(objects, "child")


async def test_a_cycle_of_owners_ends(objects: InProcessObjects, store: Store) -> None:
    a = (await objects.create(CONFIG_MAPS, config_map("a"), "default")).manifest()
    b = (await objects.create(CONFIG_MAPS, owned_by(config_map("b"), a, blocks=True), "default")).manifest()
    owners = owned_by(config_map("a"), b, blocks=True)["metadata"]["ownerReferences"]
    await objects.patch(CONFIG_MAPS, "a", "merge", {"metadata": {"ownerReferences": owners}}, "default")
    await objects.delete(CONFIG_MAPS, "a", "default", DeleteOptions(propagation="Background"))
    store.housekeeper.run_pending()
    assert not await exists(objects, "b")


async def test_a_namespace_empties_before_it_ends(objects: InProcessObjects, store: Store) -> None:
    await objects.create(NAMESPACES, {"metadata": {"name": "team"}})
    await objects.create(CONFIG_MAPS, config_map("a"), "team")
    await objects.create(PODS, pod("p"), "team")
    await objects.bind("team", "p", {"target": {"name": "n1"}})
    await objects.delete(NAMESPACES, "team")
    store.housekeeper.run_pending()
    ending = (await objects.get(NAMESPACES, "team")).manifest()
    assert ending["status"]["phase"] == "Terminating"
    assert not await exists(objects, "a", namespace="team")
    with pytest.raises(StatusError, match="because it is being terminated") as caught:
        await objects.create(CONFIG_MAPS, config_map("b"), "team")
    assert caught.value.code == 403
    await objects.delete(PODS, "p", "team", DeleteOptions(grace_seconds=0))
    store.housekeeper.run_pending()
    assert not await exists(objects, "team", NAMESPACES, "")


async def test_the_default_namespace_stays(objects: InProcessObjects) -> None:
    with pytest.raises(StatusError, match="this namespace may not be deleted"):
        await objects.delete(NAMESPACES, "default")


class BrokenClock(ManualClock):
    """Fails once when it is told to."""

    is_broken = False

    def now(self) -> datetime.datetime:
        if self.is_broken:
            self.is_broken = False
            raise RuntimeError("the clock is broken")
        return super().now()


async def test_what_fails_once_does_not_end_the_work_in_the_background(caplog: pytest.LogCaptureFixture) -> None:
    clock = BrokenClock()
    store = Store(clock, CountingIds())
    objects = InProcessObjects(store)
    held = owned_by(config_map("held"), (await objects.create(CONFIG_MAPS, config_map("owner"), "default")).manifest())
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await objects.create(CONFIG_MAPS, held, "default")
    await family_of(objects, "other")
    running = asyncio.create_task(store.housekeeper.run())
    await objects.delete(CONFIG_MAPS, "owner", "default", DeleteOptions(propagation="Background"))
    clock.is_broken = True
    await objects.delete(CONFIG_MAPS, "other", "default", DeleteOptions(propagation="Background"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not await exists(objects, "other-child")
    assert "housekeeping failed" in caplog.text
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def family_of(objects: InProcessObjects, name: str) -> None:
    owner = (await objects.create(CONFIG_MAPS, config_map(name), "default")).manifest()
    await objects.create(CONFIG_MAPS, owned_by(config_map(f"{name}-child"), owner), "default")


@pytest.mark.parametrize("propagation", ["Foreground", "Background", "Orphan"])
@pytest.mark.parametrize("circle", ["a", "ab", "abc"])
async def test_owners_in_a_circle_do_not_wait_for_each_other(
    store: Store, objects: InProcessObjects, circle: str, propagation: Propagation
) -> None:
    uids = {}
    for name in circle:
        made = await objects.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
        uids[name] = made.manifest()["metadata"]["uid"]
    for name, owner in zip(circle, circle[1:] + circle[0], strict=True):
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uids[owner]}
        changes = {"metadata": {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}
        await objects.patch(CONFIG_MAPS, name, "merge", changes, "default")
    await objects.delete(CONFIG_MAPS, "a", "default", DeleteOptions(propagation=propagation))
    store.housekeeper.run_pending()
    left = [name for name in circle if await exists(objects, name)]
    assert left == (list(circle[1:]) if propagation == "Orphan" else [])
