"""Our kinds come into a cluster once, however often and by however many they are brought."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.definitions import DEFINITIONS
from allhands.api.errors import StatusError
from allhands.api.volcano.queue import QUEUE
from allhands.runtime.installing import InstallError, install_kinds
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.kinds import Resource


@contextlib.asynccontextmanager
async def _cluster() -> AsyncIterator[tuple[Store, InProcessObjects]]:
    store = Store(ManualClock(), CountingIds())
    housekeeping = asyncio.create_task(store.housekeeper.run())
    try:
        yield store, InProcessObjects(store)
    finally:
        housekeeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await housekeeping


async def _queue(objects: InProcessObjects, name: str) -> dict[str, Any]:
    return (await objects.get(QUEUE.resource, name)).manifest()


async def test_the_kind_and_both_queues_are_there() -> None:
    async with _cluster() as (_, objects):
        await install_kinds(objects)
        assert (await _queue(objects, "root"))["spec"] == {
            "weight": 1,
            "reclaimable": False,
            "priority": 0,
            "dequeueStrategy": "traverse",
        }
        assert (await _queue(objects, "default"))["spec"]["parent"] == "root"


async def test_a_second_time_writes_nothing() -> None:
    async with _cluster() as (store, objects):
        await install_kinds(objects)
        version = store.version
        await install_kinds(objects)
        assert store.version == version


async def test_volcano_57e79f2_many_at_once_come_to_the_same_end() -> None:
    """Two schedulers that created the queue `root` at the same time ended."""
    async with _cluster() as (_, objects):
        await asyncio.gather(*(install_kinds(objects) for _ in range(10)))
        assert len((await objects.list(QUEUE.resource)).items) == 2


async def test_the_numbers_of_a_queue_that_is_there_stay_its_owners() -> None:
    async with _cluster() as (_, objects):
        await install_kinds(objects)
        await objects.patch(QUEUE.resource, "default", "merge", {"spec": {"weight": 7}})
        await install_kinds(objects)
        assert (await _queue(objects, "default"))["spec"]["weight"] == 7


async def test_an_older_definition_of_ours_is_renewed_and_objects_stay() -> None:
    async with _cluster() as (store, objects):
        old = QUEUE.manifest()
        del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["affinity"]
        await objects.create(DEFINITIONS, old)
        store.housekeeper.run_pending()
        await objects.create(QUEUE.resource, {"metadata": {"name": "mine"}, "spec": {"weight": 3}})
        await install_kinds(objects)
        await objects.patch(QUEUE.resource, "mine", "merge", {"spec": {"affinity": {"nodeGroupAffinity": {}}}})
        assert (await _queue(objects, "mine"))["spec"]["affinity"] == {"nodeGroupAffinity": {}}


async def test_a_definition_of_somebody_else_is_used_as_it_is() -> None:
    async with _cluster() as (_, objects):
        theirs = QUEUE.manifest()
        theirs["metadata"] = {"name": QUEUE.name}
        theirs["spec"]["names"]["shortNames"] = ["theirs"]
        await objects.create(DEFINITIONS, theirs)
        await install_kinds(objects)
        kept = (await objects.get(DEFINITIONS, QUEUE.name)).manifest()
        assert kept["spec"]["names"]["shortNames"] == ["theirs"]
        assert (await _queue(objects, "default"))["spec"]["weight"] == 1


class _Refusing:
    """The port, where the first writes fail: unheard, or with a conflict."""

    def __init__(self, objects: InProcessObjects, refusals: list[StatusError], *, loses_replies: bool) -> None:
        self._objects = objects
        self._refusals = refusals
        self._loses_replies = loses_replies

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._objects, verb)
        if verb not in ("create", "update"):
            return real

        async def write(*arguments: Any, **options: Any) -> Any:
            if self._refusals:
                refusal = self._refusals.pop(0)
                if self._loses_replies:
                    with contextlib.suppress(StatusError):
                        await real(*arguments, **options)
                raise refusal
            return await real(*arguments, **options)

        return write


@pytest.mark.parametrize("loses_replies", [False, True])
async def test_conflicts_outages_and_lost_replies_only_take_time(loses_replies: bool) -> None:
    async with _cluster() as (_, objects):
        refusals = [
            StatusError(409, "Conflict", "somebody was faster"),
            StatusError(503, "ServiceUnavailable", "not now"),
            StatusError(504, "Timeout", "nobody answered"),
        ]
        await install_kinds(_Refusing(objects, refusals, loses_replies=loses_replies))
        assert len((await objects.list(QUEUE.resource)).items) == 2


class _Conflicting(_Refusing):
    """Refuses only to create queues."""

    def __getattr__(self, verb: str) -> Any:
        real, refusing = getattr(self._objects, verb), super().__getattr__(verb)

        async def write(resource: Resource, *arguments: Any, **options: Any) -> Any:
            return await (refusing if resource == QUEUE.resource else real)(resource, *arguments, **options)

        return write if verb == "create" else real


async def test_a_queue_that_was_refused_for_a_conflict_is_asked_for_again() -> None:
    async with _cluster() as (_, objects):
        refusals = [StatusError(409, "Conflict", "somebody was faster") for _ in range(3)]
        await install_kinds(_Conflicting(objects, refusals, loses_replies=False))
        assert not refusals
        assert len((await objects.list(QUEUE.resource)).items) == 2


async def test_a_refusal_for_good_is_told_at_once() -> None:
    async with _cluster() as (_, objects):
        port = _Refusing(objects, [StatusError(403, "Forbidden", "you may not")], loses_replies=False)
        with pytest.raises(InstallError, match=r"the kind queues\.scheduling\.volcano\.sh was refused: you may not"):
            await install_kinds(port)


async def test_without_anybody_who_establishes_kinds_it_ends_and_says_so() -> None:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    with pytest.raises(InstallError, match=r"is not there after 0\.05 s: it is not established yet"):
        await install_kinds(objects, timeout_seconds=0.05)
