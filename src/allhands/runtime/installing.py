"""Brings our kinds, and the queues that everybody expects, into a cluster; safe to do again, and by many at once.

What somebody else has defined under the same name is left as it is and used. It never deletes anything, and never
changes a queue that is there: its numbers are its owner's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.definitions import DEFINITIONS, MANAGED_BY, OURS, Definition
from allhands.api.errors import StatusError
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.api.volcano.queue import DEFAULT, QUEUE, ROOT
from allhands.ports import WriteOptions
from allhands.runtime.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Objects

KINDS: Final[tuple[Definition, ...]] = VOLCANO_KINDS
"""The visible list of the kinds that we bring."""
READY_SECONDS: Final = 60.0
NOT_FOUND: Final = 404
ALREADY_THERE: Final = "AlreadyExists"
_HOPELESS: Final = frozenset({400, 401, 403, 405, 413, 415, 422})
"""Refusals that asking again does not change."""
_OPTIONS: Final = WriteOptions(field_manager=OURS)
_LOG = logging.getLogger(__name__)


class InstallError(RuntimeError):
    """What could not be brought into the cluster, and what the server said last."""


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Definition(msgspec.Struct, frozen=True):
    """A stored CustomResourceDefinition. Its spec is long, and is opened only if it may be another one."""

    metadata: _Meta = _Meta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _Status = _Status()

    def condition(self, type: str) -> _Condition:
        return next((it for it in self.status.conditions or () if it.type == type), _Condition())


async def install_kinds(
    objects: Objects, *, timeout_seconds: float = READY_SECONDS, kinds: Sequence[Definition] = KINDS
) -> None:
    """All kinds are served and the queues `root` and `default` exist; or an InstallError after so long."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for definition in kinds:
                tasks.create_task(_serve(objects, definition, timeout_seconds), name=definition.name)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    for manifest in first_queues():
        name = manifest["metadata"]["name"]
        await _insist(f"the queue {name}", timeout_seconds, lambda it=manifest: _add_queue(objects, it))  # type: ignore[misc]


def first_queues() -> tuple[Manifest, Manifest]:
    """As Volcano makes them at its start."""
    envelope = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind}
    return (
        {**envelope, "metadata": {"name": ROOT}, "spec": {"weight": 1, "reclaimable": False}},
        {**envelope, "metadata": {"name": DEFAULT}, "spec": {"weight": 1, "reclaimable": True, "parent": ROOT}},
    )


async def _insist(what: str, timeout_seconds: float, attempt: Callable[[], Awaitable[str]]) -> None:
    """Until it has nothing more to wait for. An attempt says what it waits for, "" if nothing."""
    deadline = asyncio.get_running_loop().time() + timeout_seconds
    backoff = Backoff(first_seconds=0.01, most_seconds=1.0)
    while True:
        try:
            waiting = await attempt()
        except StatusError as refusal:
            if refusal.code in _HOPELESS:
                raise InstallError(f"{what} was refused: {refusal.message}") from refusal
            waiting = refusal.message
        if not waiting:
            return
        pause = backoff.next_seconds()
        if asyncio.get_running_loop().time() + pause > deadline:
            raise InstallError(f"{what} is not there after {timeout_seconds:g} s: {waiting}")
        await asyncio.sleep(pause)


class _Bringing(msgspec.Struct):
    """A kind on its way into a cluster."""

    definition: Definition
    wanted: Manifest
    right: bytes = b""
    """A spec that was found to be the wanted one, as the server writes it."""


async def _serve(objects: Objects, definition: Definition, timeout_seconds: float) -> None:
    kind = _Bringing(definition, definition.manifest())
    await _insist(f"the kind {definition.name}", timeout_seconds, lambda: _define(objects, kind))


async def _define(objects: Objects, kind: _Bringing) -> str:
    definition, wanted = kind.definition, kind.wanted
    try:
        found = (await objects.get(DEFINITIONS, definition.name)).decode(_Definition)
    except StatusError as refusal:
        if refusal.code != NOT_FOUND:
            raise
        found = (await objects.create(DEFINITIONS, wanted, options=_OPTIONS)).decode(_Definition)
        kind.right = bytes(found.spec)
    if (found.metadata.labels or {}).get(MANAGED_BY) != OURS:
        _LOG.info("%s is defined by somebody else and is used as it is", definition.name)
    elif bytes(found.spec) != kind.right and msgspec.json.decode(found.spec) != wanted["spec"]:
        metadata = wanted["metadata"] | {"resourceVersion": found.metadata.resource_version}
        await objects.update(DEFINITIONS, definition.name, wanted | {"metadata": metadata}, options=_OPTIONS)
        return "it was renewed just now"  # the server needs a moment until it serves what it has stored
    kind.right = bytes(found.spec)
    if found.condition("NamesAccepted").status == "False":
        return found.condition("NamesAccepted").message
    return "" if found.condition("Established").status == "True" else "it is not established yet"


async def _add_queue(objects: Objects, manifest: Manifest) -> str:
    """An established kind may still be unknown for a moment: then the refusal is a 404, and is asked again."""
    try:
        await objects.create(QUEUE.resource, manifest, options=_OPTIONS)
    except StatusError as refusal:
        if refusal.reason != ALREADY_THERE:  # any other conflict may leave nothing behind
            raise
    return ""
