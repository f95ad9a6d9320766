"""Reads from a cluster what the views need: once, or kept up to date for as long as somebody watches."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.dialects.group_kinds import GROUP_KINDS
from allhands.dialects.hyper_nodes import read_hyper_node
from allhands.ports import Query
from allhands.runtime.informer import Informer
from allhands.views.picture import (
    Picture,
    see_event,
    see_flow,
    see_job,
    see_node,
    see_pod,
    see_queue,
    seeing_pod_groups,
)
from allhands.views.volcano_job import see_volcano_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.ports import Objects

PAGE_SIZE: Final = 500
SETTLE_SECONDS: Final = 0.2
"""Changes that come together are shown together."""
CLOSING_SECONDS: Final = 0.05
"""Connections that are ended while they are being made let go of their sockets a moment later."""
NOT_THERE: Final = frozenset({403, 404})


class Part(NamedTuple):
    """One collection of a picture, or one of those that are shown together under the same name. One that is optional
    may be unknown to the server, or not be shown to us."""

    name: str
    resource: Resource
    see: Callable[[bytes], Any]
    is_optional: bool = False
    is_namespaced: bool = True


JOBS: Final = Part("jobs", Resource("batch", "v1", "jobs"), see_job)
VOLCANO_JOBS: Final = Part("jobs", Resource("batch.volcano.sh", "v1alpha1", "jobs"), see_volcano_job, is_optional=True)
POD_GROUPS: Final = tuple(
    Part("pod_groups", kind.resource, seeing_pod_groups(kind), is_optional=True) for kind in GROUP_KINDS
)
PODS: Final = Part("pods", Resource("", "v1", "pods"), see_pod)
QUEUES: Final = Part(
    "queues", Resource("scheduling.volcano.sh", "v1beta1", "queues"), see_queue, is_optional=True, is_namespaced=False
)
NODES: Final = Part("nodes", Resource("", "v1", "nodes"), see_node, is_namespaced=False)
NODES_IF_SHOWN: Final = NODES._replace(is_optional=True)
HYPER_NODES: Final = Part(
    "hyper_nodes",
    Resource("topology.volcano.sh", "v1alpha1", "hypernodes"),
    read_hyper_node,
    is_optional=True,
    is_namespaced=False,
)
FLOWS: Final = Part("flows", Resource("flow.volcano.sh", "v1alpha1", "jobflows"), see_flow, is_optional=True)
EVENTS: Final = Part("events", Resource("", "v1", "events"), see_event, is_optional=True)

JOBS_IF_SHOWN: Final = JOBS._replace(is_optional=True)
PODS_IF_SHOWN: Final = PODS._replace(is_optional=True)

GROUP_PARTS: Final = (JOBS, VOLCANO_JOBS, *POD_GROUPS, PODS, QUEUES)
"""What a list of groups is made of."""
QUEUE_PARTS: Final = (JOBS_IF_SHOWN, VOLCANO_JOBS, *POD_GROUPS, PODS_IF_SHOWN, QUEUES, NODES_IF_SHOWN)
EVERYWHERE: Final = (JOBS, PODS)
"""What no cluster is without: if it is not there, it is not for us."""


def now_seconds() -> int:
    return int(time.time())


async def look(objects: Objects, parts: Sequence[Part], namespace: str = "") -> Picture:
    """The picture of now. Raises the server's refusal of anything that is not optional."""
    return _picture(parts, await _look(objects, parts, namespace))


async def _look(objects: Objects, parts: Sequence[Part], namespace: str) -> dict[Resource, list[Any] | None]:
    """By part; None for one that is not there or not for us."""
    answers = await asyncio.gather(*(_listed(objects, part, namespace) for part in parts))
    return {part.resource: seen for part, seen in zip(parts, answers, strict=True)}


def _together(parts: Sequence[Part], seen: dict[Resource, list[Any] | None]) -> dict[str, list[Any]]:
    """By the name of the parts."""
    found: dict[str, list[Any]] = {}
    for part in parts:
        if (items := seen.get(part.resource)) is not None:
            found.setdefault(part.name, []).extend(items)
    return found


def _picture(parts: Sequence[Part], seen: dict[Resource, list[Any] | None]) -> Picture:
    hidden = frozenset(it.name for it in EVERYWHERE if it.resource in seen and seen[it.resource] is None)
    return Picture(**_together(parts, seen), hidden=hidden)


async def _listed(objects: Objects, part: Part, namespace: str) -> list[Any] | None:
    raws: list[bytes] = []
    token = ""
    scope = namespace if part.is_namespaced else ""
    while True:
        query = Query(namespace=scope, limit=PAGE_SIZE, continue_token=token)
        try:
            page = await objects.list(part.resource, query)
        except StatusError as refusal:
            if part.is_optional and refusal.code in NOT_THERE:
                return None
            if refusal.code == 410 and token:  # the list grew old while it was read
                raws, token = [], ""
                continue
            raise
        raws.extend(page.items)
        token = page.continue_token
        if not token:
            return list(_readable(part, raws))


def _readable(part: Part, raws: Sequence[bytes]) -> Iterator[Any]:
    """One object that cannot be read does not hide the others."""
    for raw in raws:
        try:
            yield part.see(raw)
        except (msgspec.MsgspecError, ValueError, OverflowError) as error:
            head = msgspec.json.decode(raw)
            name = head.get("metadata", {}).get("name", "?")
            click.echo(f"Warning: {part.resource}/{name} cannot be read and is left out: {error}", err=True)


class LivePictures:
    """Pictures that are kept up to date. Use as an async context manager; what is not shown at first is left out."""

    def __init__(self, objects: Objects, parts: Sequence[Part], namespace: str = "") -> None:
        self._objects = objects
        self._parts = parts
        self._namespace = namespace
        self._changed = asyncio.Event()
        self._informers: dict[Resource, Informer[Any]] = {}
        self._seen: dict[Resource, list[Any] | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.first = Picture()

    async def __aenter__(self) -> LivePictures:
        self._seen = await _look(self._objects, self._parts, self._namespace)
        self.first = _picture(self._parts, self._seen)
        for part in self._parts:
            if self._seen[part.resource] is not None:
                self._informers[part.resource] = self._informer(part)
        return self

    async def __aexit__(self, *reason: object) -> None:
        del reason
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            await asyncio.sleep(CLOSING_SECONDS)

    def _informer(self, part: Part) -> Informer[Any]:
        scope = self._namespace if part.is_namespaced else ""
        informer: Informer[Any] = Informer(
            self._objects, part.resource, part.see, query=Query(namespace=scope), optional=part.is_optional
        )
        informer.on_change(lambda *_: self._changed.set())
        return informer

    async def next(self, at_most_seconds: float | None = None) -> Picture:
        """The picture after the next change, or after so many seconds without one."""
        if not self._tasks:
            self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_seconds):
                for informer in self._informers.values():
                    await informer.synced.wait()
                await self._changed.wait()
                await asyncio.sleep(SETTLE_SECONDS)
        self._changed.clear()
        for resource, informer in self._informers.items():
            if informer.synced.is_set():
                self._seen[resource] = list(informer.all())
        return _picture(self._parts, self._seen)
