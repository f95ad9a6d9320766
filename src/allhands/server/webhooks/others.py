"""What rules may know of other objects: copies that are kept up to date by watching, and fresh ones before a refusal.

A copy is a moment old. Nobody is refused for that: what a refusal was based on is read again, and judged again. Whoever
is let in by an old copy is no worse off than somebody who came a moment earlier.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QUEUE
from allhands.api.volcano.surroundings import queue_facts
from allhands.ports import Query
from allhands.runtime.informer import Informer, key_of
from allhands.server.webhooks import asks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import QueueFacts
    from allhands.ports import Objects

T = TypeVar("T")

NAMESPACES: Final = Resource("", "v1", "namespaces")
WATCHED: Final = tuple(dict.fromkeys((QUEUE.resource, NAMESPACES, *asks.READS)))
"""Everything that a rule may ask about."""
NOT_FOUND: Final = 404
MOST_ROUNDS: Final = 8
"""What is read anew may raise new questions: a queue that is there now has a parent. There is an end to it."""
MOST_READ: Final = 64
"""Of one round: an object that names thousands of others must not make us ask thousands of times."""
PAGE_SIZE: Final = 500
_One = tuple[Resource, str, str]


def _manifest(raw: bytes) -> Manifest:
    return msgspec.json.decode(raw)  # type: ignore[no-any-return]


class KnownObjects:
    """Copies of a few collections. `run` keeps them; before it has seen everything they are just empty."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._copies = {it: Informer(objects, it, _manifest, optional=True) for it in WATCHED}
        self._facts: dict[str, QueueFacts] | None = None
        self._restricted: set[str] = set()
        """Queues that are not for everyone."""
        self._copies[QUEUE.resource].on_change(lambda key, _old, new: self._see_queue(key, new))
        self._restriction_changed: Callable[[], None] = lambda: None
        self._listing: asyncio.Task[Mapping[str, QueueFacts]] | None = None
        self._next_listing: asyncio.Task[Mapping[str, QueueFacts]] | None = None

    def is_ready(self) -> bool:
        return all(copy.synced.is_set() for copy in self._copies.values())

    async def until_ready(self) -> None:
        for copy in self._copies.values():
            await copy.synced.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for copy in self._copies.values():
                tasks.create_task(copy.run())

    def one(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        return self._copies[resource].get(key_of(namespace, name))

    def queues(self) -> Mapping[str, QueueFacts]:
        if self._facts is None:
            self._facts = _facts_of(self._copies[QUEUE.resource].all())
        return self._facts

    def is_any_restricted(self) -> bool | None:
        """Whether there is a queue that is not for everyone; None before all have been seen."""
        return bool(self._restricted) if self._copies[QUEUE.resource].synced.is_set() else None

    def on_restriction(self, changed: Callable[[], None]) -> None:
        """Calls it when the first queue becomes restricted or the last is no more."""
        self._restriction_changed = changed

    def _see_queue(self, key: str, queue: Manifest | None) -> None:
        self._facts = None
        before = bool(self._restricted)
        if queue is not None and asks.is_marked(queue):
            self._restricted.add(key)
        else:
            self._restricted.discard(key)
        if before != bool(self._restricted):
            self._restriction_changed()

    async def judge(self, rule: Callable[[Sight], T], is_doubtful: Callable[[T, Sight], bool]) -> T:
        """What the rule says, by the copies; while that is doubtful, by what is there now."""
        sight = Sight(self)
        said = rule(sight)
        for _ in range(MOST_ROUNDS):
            if not sight.may_be_old() or not is_doubtful(said, sight):
                break
            await sight.refresh()
            said = rule(sight)
        return said

    async def read(self, resource: Resource, name: str, namespace: str) -> Manifest | None:
        """The object as it is now."""
        if name in ("", ".", "..") or "/" in name:
            return None  # nothing can be called so, and it must not become another path
        try:
            return (await self._objects.get(resource, name, namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            return None

    async def list_queues(self) -> Mapping[str, QueueFacts]:
        """All queues, by a list that began after this was called. However many ask, one list runs at a time."""
        if self._next_listing is None:
            self._next_listing = asyncio.create_task(self._list_after(self._listing), name="list of queues")
            self._next_listing.add_done_callback(_noticed)
        return await asyncio.shield(self._next_listing)

    async def _list_after(self, earlier: asyncio.Task[Mapping[str, QueueFacts]] | None) -> Mapping[str, QueueFacts]:
        if earlier is not None:
            await asyncio.wait((earlier,))
        self._listing, self._next_listing = self._next_listing, None
        found: list[Manifest] = []
        token = ""
        while True:
            try:
                page = await self._objects.list(QUEUE.resource, Query(limit=PAGE_SIZE, continue_token=token))
            except StatusError as refusal:
                if refusal.code != NOT_FOUND:
                    raise
                break
            found += [_manifest(raw) for raw in page.items]
            token = page.continue_token
            if not token:
                break
        return _facts_of(found)


class Sight:
    """What one rule sees. It notes what was asked, and answers with what was read anew where that was done."""

    def __init__(self, known: KnownObjects) -> None:
        self._known = known
        self._fresh: dict[_One, Manifest | None] = {}
        self._fresh_queues: Mapping[str, QueueFacts] | None = None
        self._asked: dict[_One, None] = {}
        self._asked_queues = False
        self.has_missed = False
        """Whether something was asked for that the copies do not have."""

    def may_be_old(self) -> bool:
        return bool(self._asked) or self._asked_queues

    def one(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        key = (resource, name, namespace)
        if key in self._fresh:
            return self._fresh[key]
        self._asked[key] = None
        found = self._known.one(*key)
        self.has_missed = self.has_missed or found is None
        return found

    def queues(self) -> Mapping[str, QueueFacts]:
        if self._fresh_queues is not None:
            return self._fresh_queues
        self._asked_queues = True
        return self._known.queues()

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]:
        found = self.one(NAMESPACES, namespace) if namespace else None
        return {} if found is None else found["metadata"].get("annotations") or {}

    async def refresh(self) -> None:
        """Reads anew what was asked for."""
        asked, self._asked, self.has_missed = list(self._asked), {}, False
        for resource, name, namespace in asked[:MOST_READ]:
            self._fresh[resource, name, namespace] = await self._known.read(resource, name, namespace)
        if self._asked_queues:
            self._asked_queues = False
            self._fresh_queues = await self._known.list_queues()


def _facts_of(queues: Iterable[Manifest]) -> dict[str, QueueFacts]:
    facts = map(queue_facts, queues)
    return {it.name: it for it in facts}


def _noticed(task: asyncio.Task[Mapping[str, QueueFacts]]) -> None:
    """Whoever waited for it may have gone; what went wrong is nobody's surprise then."""
    if not task.cancelled():
        task.exception()
