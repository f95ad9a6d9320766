"""Waits until an installation works, or until nothing of it is left; and says why if it takes too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.ports import Query
from allhands.runtime.installation.places import InstallationError, Place, find, place_of
from allhands.runtime.scheduling.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.ports import Objects

LOOK_SECONDS: Final = 0.5


async def until_ready(objects: Objects, manifests: Sequence[Manifest], timeout_seconds: float) -> None:
    """Every kind is served, and every Deployment has all of its replicas available."""

    async def missing() -> str:
        for manifest in manifests:
            place = place_of(manifest)
            if place.kind == "CustomResourceDefinition":
                problem = await _kind_problem(objects, place)
            elif place.kind == "Deployment":
                problem = await _deployment_problem(objects, place)
            else:
                continue
            if problem:
                return problem
        return ""

    await _until(missing, timeout_seconds, "it is installed, but does not work yet")


async def until_gone(objects: Objects, places: Sequence[Place], timeout_seconds: float) -> None:
    async def missing() -> str:
        for place in places:
            document = await find(objects, place)
            if document is not None:
                return f"{place} is still there{_why_still_there(document.manifest())}"
        return ""

    await _until(missing, timeout_seconds, "all of it was asked to go, but not all is gone yet")


async def _until(missing: Callable[[], Awaitable[str]], timeout_seconds: float, trouble: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    while problem := await missing():
        if loop.time() >= deadline:
            raise InstallationError(f"{trouble} after {timeout_seconds:g} s: {problem}")
        await asyncio.sleep(LOOK_SECONDS)


async def _kind_problem(objects: Objects, place: Place) -> str:
    document = await find(objects, place)
    conditions = _conditions(document.manifest()) if document is not None else {}
    established = conditions.get("Established", {})
    if established.get("status") == "True":
        return ""
    return f"{place} is not established: {established.get('message') or 'the server has not said so yet'}"


async def _deployment_problem(objects: Objects, place: Place) -> str:
    document = await find(objects, place)
    if document is None:
        return f"{place} is gone"
    manifest = document.manifest()
    status = manifest.get("status") or {}
    wanted = manifest["spec"].get("replicas", 1)
    is_seen = status.get("observedGeneration", 0) >= manifest["metadata"].get("generation", 0)
    available = status.get("availableReplicas", 0) if is_seen else 0
    if is_seen and min(available, status.get("updatedReplicas", 0)) >= wanted:
        return ""
    why = await _pod_problem(objects, manifest)
    return f"{place} has {available} of {wanted} replicas available{why}"


async def _pod_problem(objects: Objects, deployment: Manifest) -> str:
    """What its first pod in trouble says."""
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    page = await objects.list(PODS, Query(namespace=deployment["metadata"]["namespace"], labels=selector))
    for raw in page.items:
        status = msgspec.json.decode(raw).get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting:
                return f": {waiting.get('reason', '')}: {waiting.get('message', '')}".rstrip(": ")
        scheduled: Manifest = next((it for it in status.get("conditions") or () if it["type"] == "PodScheduled"), {})
        if scheduled.get("status") == "False":
            return f": {scheduled.get('reason', '')}: {scheduled.get('message', '')}".rstrip(": ")
    refused = _conditions(deployment).get("ReplicaFailure", {})
    return f": {refused['message']}" if refused.get("message") else ""


def _conditions(manifest: Manifest) -> dict[str, Any]:
    return {it["type"]: it for it in (manifest.get("status") or {}).get("conditions") or ()}


def _why_still_there(manifest: Manifest) -> str:
    """What the namespace's own conditions say, or who holds it by a finalizer."""
    told = [it["message"] for it in _conditions(manifest).values() if it.get("status") == "True" and it.get("message")]
    finalizers = manifest["metadata"].get("finalizers") or (manifest.get("spec") or {}).get("finalizers") or ()
    return ": " + (told[0] if told else f"it waits for {', '.join(finalizers)}") if told or finalizers else ""
