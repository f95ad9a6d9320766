"""Carries out instructions through the port, in their order, and shows the results to the informers of this process.

The first refusal ends it; whoever asked looks again and asks anew. What is already as wanted is no refusal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.lifecycle.instructions import Create, Delete, Instruction, Patch, Record
from allhands.ports import DeleteOptions, WriteOptions
from allhands.runtime.informer import Informer, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Document, Objects
    from allhands.runtime.recorder import Recorder

NOT_FOUND, CONFLICT = 404, 409
SECRETS: Final = Resource("", "v1", "secrets")
"""Never read, since nobody should be trusted to read them all. One that is there is taken for ours: if it is not, pods
that mount it have nothing that their owner could not have mounted without us."""


class Performer:
    """`flight`: how many writes of one kind may be under way at a time; 1 where a write waits for nothing."""

    def __init__(self, objects: Objects, recorder: Recorder, *, manager: str = "allhands", flight: int = 1) -> None:
        self._objects = objects
        self._recorder = recorder
        self._options = WriteOptions(field_manager=manager)
        self._flight = flight
        self._informers: dict[Resource, list[Informer[Any]]] = {}

    def show(self, informer: Informer[Any]) -> None:
        """From now on this informer sees our writes at once."""
        self._informers.setdefault(informer.resource, []).append(informer)

    async def perform(self, instructions: Sequence[Instruction]) -> None:
        if self._flight == 1 or len(instructions) == 1:
            for instruction in instructions:
                await self._do(instruction)
            return
        for run in _runs(instructions):
            if len(run) == 1:
                await self._do(run[0])
            else:
                await self._together(run)

    async def _together(self, run: Sequence[Instruction]) -> None:
        free = asyncio.Semaphore(self._flight)

        async def one(instruction: Instruction) -> None:
            async with free:
                await self._do(instruction)

        results = await asyncio.gather(*map(one, run), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _do(self, instruction: Instruction) -> None:
        if isinstance(instruction, Record):
            self._recorder.record(instruction)
        elif isinstance(instruction, Create):
            await self._create(instruction)
        elif isinstance(instruction, Patch):
            await self._patch(instruction)
        else:
            await self._delete(instruction)

    async def _create(self, wanted: Create) -> None:
        # A body in bytes is what the store is fastest with; over HTTP it has to be made anyway.
        body = msgspec.json.encode(wanted.manifest)
        try:
            document = await self._objects.create(wanted.resource, body, wanted.namespace, self._options)
        except StatusError as refusal:
            if not wanted.unless_there or refusal.reason != "AlreadyExists":
                raise
            if wanted.resource == SECRETS:
                return
            document = await self._own(wanted, refusal)
        self._observe(wanted.resource, document)

    async def _own(self, wanted: Create, refusal: StatusError) -> Document:
        """What is there under that name, if whoever asks is its manager."""
        found = await self._objects.get(wanted.resource, wanted.manifest["metadata"]["name"], wanted.namespace)
        owner, ours = (_manager(it["metadata"]) for it in (found.manifest(), wanted.manifest))
        if owner.get("uid") == ours.get("uid"):
            return found
        whose = f"it belongs to {owner['kind']} {owner['name']}" if owner else "it belongs to nobody"
        raise StatusError(CONFLICT, "Taken", f"{refusal.message}, and {whose}", {})

    async def _patch(self, wanted: Patch) -> None:
        patch = wanted.patch
        if wanted.version:
            patch = patch | {"metadata": {**patch.get("metadata", {}), "resourceVersion": wanted.version}}
        document = await self._objects.patch(
            wanted.resource,
            wanted.name,
            "merge",
            patch,
            wanted.namespace,
            self._options,
            subresource=wanted.subresource,
        )
        self._observe(wanted.resource, document)

    async def _delete(self, wanted: Delete) -> None:
        if wanted.owner_uid:
            uid = await self._uid_if_owned(wanted)
            if not uid:
                return
            wanted = msgspec.structs.replace(wanted, uid=uid)
        options = DeleteOptions(grace_seconds=wanted.grace_seconds, propagation=wanted.propagation, uid=wanted.uid)
        try:
            deleted = await self._objects.delete(wanted.resource, wanted.name, wanted.namespace, options)
        except StatusError as refusal:
            if refusal.code != NOT_FOUND and not await self._is_another(wanted, refusal):
                raise
        else:
            if not deleted.gone:
                self._observe(wanted.resource, deleted.document)
                return
        for informer in self._informers.get(wanted.resource, ()):
            informer.observe_gone(key_of(wanted.namespace, wanted.name), wanted.uid)

    async def _uid_if_owned(self, wanted: Delete) -> str:
        """Of what is there under that name; "" if nothing is, or another manages it."""
        try:
            found = await self._objects.get(wanted.resource, wanted.name, wanted.namespace)
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            return ""
        metadata = found.manifest()["metadata"]
        return str(metadata["uid"]) if _manager(metadata).get("uid") == wanted.owner_uid else ""

    async def _is_another(self, wanted: Delete, refusal: StatusError) -> bool:
        """Whether the very object is gone, and the refusal is about another one that now has its name."""
        if not wanted.uid or refusal.code != CONFLICT:
            return False
        try:
            found = await self._objects.get(wanted.resource, wanted.name, wanted.namespace)
        except StatusError as answer:
            return answer.code == NOT_FOUND
        return bool(found.manifest()["metadata"].get("uid") != wanted.uid)

    def _observe(self, resource: Resource, document: Document) -> None:
        for informer in self._informers.get(resource, ()):
            try:
                informer.observe(document.raw, document.head)
            except ValueError:  # an answer that is not the object, such as a Status
                continue


def _manager(metadata: Manifest) -> Manifest:
    return next((it for it in metadata.get("ownerReferences") or () if it.get("controller")), {})


def _runs(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Neighbours of one type, on distinct objects of one kind: these may be done in any order. What is done to
    objects of different kinds may build on each other."""
    runs: list[list[Instruction]] = []
    last: tuple[object, ...] | None = None
    seen: set[tuple[str, str]] = set()
    for instruction in instructions:
        sort, about = _sort(instruction), _about(instruction)
        if sort != last or about in seen:
            runs.append([])
            last = sort
            seen.clear()
        runs[-1].append(instruction)
        if about is not None:
            seen.add(about)
    return runs


def _sort(instruction: Instruction) -> tuple[object, ...]:
    if isinstance(instruction, Record):
        return (Record,)
    if isinstance(instruction, Patch):
        return (Patch, instruction.resource, instruction.subresource)
    return (type(instruction), instruction.resource)


def _about(instruction: Instruction) -> tuple[str, str] | None:
    if isinstance(instruction, Patch | Delete):
        return instruction.namespace, instruction.name
    return None
