"""Telling a Volcano Job or a Queue what to do: by a Command, the small object that its controller reads and removes.

Nothing is changed here but that one object is made; the controller does the rest, and only once. What is as wanted
already is told, and no Command is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from allhands.cli.cluster import all_of, sentence_of, speak
from allhands.cli.options import FULL_NAMES, Subject, SubjectType, not_found, resource_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.cli.cluster import Session, Target

MANAGER: Final = "allhands-command"
NAMESPACE_OF_QUEUES: Final = "default"
"""Commands are namespaced, queues are not: theirs are where everybody expects them."""
_UNAVAILABLE: Final = (401, 503)
OVER: Final = {"Completed": "has succeeded", "Failed": "has failed", "Terminated": "was ended for good"}


class Order(NamedTuple):
    """What is wanted, and how it is said. `already`: the states that are as wanted."""

    action: str
    doing: str
    already: tuple[str, ...]
    verb: str


ABORT: Final = Order("AbortJob", "is being suspended", ("Aborting", "Aborted"), "suspend")
RESUME: Final = Order("ResumeJob", "is being resumed", (), "resume")
TERMINATE: Final = Order("TerminateJob", "is being ended for good", ("Terminating",), "end")
RESTART: Final = Order("RestartJob", "is being restarted", ("Restarting",), "restart")
OPEN: Final = Order("OpenQueue", "is being opened", ("Open",), "open")
CLOSE: Final = Order("CloseQueue", "is being closed", ("Closing", "Closed"), "close")


def subjects_argument(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.argument("subjects", metavar="KIND/NAME...", nargs=-1, required=True, type=SubjectType(kind))


def tell(target: Target, subjects: Sequence[Subject], order: Order, *, dry_run: bool) -> None:
    """The whole command."""

    async def talk(session: Session) -> None:
        if not all([await tell_one(session, it, order, dry_run=dry_run) for it in subjects]):
            raise SystemExit(1)

    speak(target, talk)


async def tell_one(session: Session, subject: Subject, order: Order, *, dry_run: bool) -> bool:
    """Whether it was told, or is as wanted already."""
    from allhands.api.errors import StatusError  # noqa: PLC0415 (`--help` must not pay for it)

    namespace = "" if subject.kind == "queue" else session.namespace
    try:
        document = await session.objects.get(resource_of(subject.kind), subject.name, namespace)
    except StatusError as refusal:
        if refusal.code in _UNAVAILABLE:
            raise
        problem = sentence_of(refusal)
        if refusal.code == 404:
            problem = (await _missing(session, subject, namespace)).format_message()
        click.echo(f"Error: {problem}", err=True)
        return False
    return await give(session, subject.kind, document.manifest(), order, dry_run=dry_run)


async def give(session: Session, kind: str, manifest: Manifest, order: Order, *, dry_run: bool) -> bool:
    """The same for an object that has been read."""
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.ports import WriteOptions  # noqa: PLC0415

    metadata = manifest["metadata"]
    shown = f"{FULL_NAMES[kind]}/{metadata['name']}"
    if session.everywhere and metadata.get("namespace"):
        shown = f"{metadata['namespace']}/{shown}"
    state = state_of(kind, manifest)
    if end := OVER.get(state):
        click.echo(f"Error: {shown} {end}: there is nothing to {order.verb}", err=True)
        return False
    if state in order.already:
        click.echo(f"{shown} is {state} already")
        return True
    if order is RESUME and state not in ABORT.already:
        click.echo(f"{shown} is not suspended")
        return True
    if order is OPEN and (above := await _shut_above(session, manifest)):
        click.echo(f"Error: {shown} cannot be opened: {above}; open that one first", err=True)
        return False
    command = command_for(kind, manifest, order)
    options = WriteOptions(dry_run=dry_run, field_manager=MANAGER)
    try:
        await session.objects.create(resource_of("command"), command, command["metadata"]["namespace"], options)
    except StatusError as refusal:
        if refusal.code in _UNAVAILABLE:
            raise
        problem = sentence_of(refusal)
        if refusal.code == 404:
            problem = "this cluster does not know the kind Command (bus.volcano.sh); install allhands there first"
        click.echo(f"Error: {shown}: {problem}", err=True)
        return False
    click.echo(f"{shown} {order.doing}{' (dry run)' if dry_run else ''}")
    return True


async def _shut_above(session: Session, queue: Manifest) -> str:
    """The queue right above one, if it is closed: a queue follows it, so its controller would not obey."""
    from allhands.api.errors import StatusError  # noqa: PLC0415

    parent = (queue.get("spec") or {}).get("parent") or ""
    if not parent or parent == queue["metadata"]["name"]:
        return ""
    try:
        document = await session.objects.get(resource_of("queue"), parent, "")
    except StatusError as refusal:
        if refusal.code in _UNAVAILABLE:
            raise
        return ""  # it is gone, or not for everybody's eyes: the controller says what it does
    state = state_of("queue", document.manifest())
    return f"the queue {parent} above it is {state}" if state in CLOSE.already else ""


def state_of(kind: str, manifest: Manifest) -> str:
    """Where it is in its life, in its own word."""
    status = manifest.get("status") or {}
    return str((status.get("state") if kind == "queue" else (status.get("state") or {}).get("phase")) or "")


def command_for(kind: str, manifest: Manifest, order: Order) -> Manifest:
    metadata = manifest["metadata"]
    is_queue = kind == "queue"
    target = {
        "apiVersion": manifest.get("apiVersion") or resource_of(kind).api_version,
        "kind": "Queue" if is_queue else "Job",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": resource_of("command").api_version,
        "kind": "Command",
        "metadata": {
            "generateName": f"{metadata['name'][:40]}-{order.action.lower()}-",
            "namespace": NAMESPACE_OF_QUEUES if is_queue else metadata["namespace"],
            # Gone with what it is about, even if nobody reads it.
            "ownerReferences": [target],
        },
        "action": order.action,
        "target": target,
    }


async def _missing(session: Session, subject: Subject, namespace: str) -> click.ClickException:
    from allhands.api.errors import StatusError  # noqa: PLC0415

    try:
        found = await all_of(session, resource_of(subject.kind), namespace)
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        kind = "Queue" if subject.kind == "queue" else "Job of Volcano"
        return click.ClickException(f"{subject} was not found: this cluster does not know the kind {kind}.")
    return not_found(subject, namespace, [it["metadata"]["name"] for it in found])
