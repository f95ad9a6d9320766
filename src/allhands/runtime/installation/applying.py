"""Brings the objects of an installation into a cluster, and says of each what was done. Safe to do again.

By server-side apply where the server has it, so that fields which others set stay theirs; else by create and merge
patch. It looks at everything before it writes anything: what belongs to somebody else is used as it is (kinds, the
namespace) or is a reason to stop, and is never changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.definitions import OURS
from allhands.api.errors import StatusError
from allhands.kube.paths import path_to
from allhands.ports import DeleteOptions, Query
from allhands.runtime.installation.places import (
    COLLECTIONS,
    NOT_FOUND,
    OURS_BY_LABEL,
    SHARED,
    InstallationError,
    Place,
    check_no_release,
    find,
    is_ours,
    manager_of,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.kube.objects import KubeObjects
    from allhands.ports import Document

MANAGER: Final = "allhands-install"
_APPLY: Final = "application/apply-patch+yaml"
_SERVERS_OWN: Final = frozenset({"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"})


class Done(msgspec.Struct, frozen=True):
    """What became of one object: created, configured, unchanged, kept or removed."""

    place: Place
    what: str
    note: str = ""
    warnings: tuple[str, ...] = ()
    """What the server had to say about it."""

    def __str__(self) -> str:
        return f"{self.place} {self.what}" + (f" ({self.note})" if self.note else "")


class Installer:
    """`say` is told of every object as soon as it is done; with `dry_run` the server changes nothing."""

    def __init__(self, objects: KubeObjects, say: Callable[[Done], None], *, dry_run: bool = False) -> None:
        self._objects = objects
        self._say = say
        self._dry_run = dry_run

    async def install(self, manifests: Sequence[Manifest]) -> None:
        """All of them, in their order; then what an earlier installation had and this one has not is removed."""
        await _check_served(self._objects, manifests)
        present = [await find(self._objects, place_of(it)) for it in manifests]
        _check_owners(manifests, present)
        await self._rehearse(manifests)
        for manifest, before in zip(manifests, present, strict=True):
            self._say(await self._bring(manifest, before))
        await self._prune(manifests)

    async def _rehearse(self, manifests: Sequence[Manifest]) -> None:
        """Nobody may grant what he does not have: a server that says so should say it before anything is written."""
        for manifest in manifests:
            if manifest["kind"] == "ClusterRole":
                await self._apply(place_of(manifest), manifest, dry_run=True)

    async def _bring(self, manifest: Manifest, before: Document | None) -> Done:
        place = place_of(manifest)
        if before is not None and not is_ours(before.manifest()):
            return Done(place, "kept", "it is not ours; used as it is")
        try:
            after = await self._apply(place, manifest, dry_run=self._dry_run)
        except StatusError as refusal:
            if self._dry_run and before is None and refusal.code == NOT_FOUND and place.namespace:
                return Done(place, "created", "not checked by the server: its namespace is not there yet")
            raise
        what = "created" if before is None else "unchanged"
        if before is not None and _as_written(before) != _as_written(after):
            what = "configured"
        return Done(place, what, warnings=after.warnings)

    async def _apply(self, place: Place, manifest: Manifest, *, dry_run: bool) -> Document:
        """Forced: what of our own objects somebody changed by hand becomes ours again."""
        parameters = {"fieldManager": MANAGER, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            parameters["dryRun"] = "All"
        path = path_to(place.resource, place.namespace, place.name)
        return await self._objects.request("PATCH", path, parameters, msgspec.json.encode(manifest), _APPLY)

    async def _prune(self, manifests: Sequence[Manifest]) -> None:
        wanted = {place_of(it) for it in manifests}
        namespaces = {it["metadata"]["name"] for it in manifests if it["kind"] == "Namespace"}
        if not namespaces:
            return  # only kinds were brought: that says nothing about the rest
        for place, found in reversed(await installed(self._objects)):
            if place in wanted or place.kind in SHARED or manager_of(found) != OURS:
                continue
            if place.namespace and place.namespace not in namespaces:
                continue
            if not self._dry_run:
                uid = found["metadata"]["uid"]
                options = DeleteOptions(uid=uid, propagation="Background")
                await self._objects.delete(place.resource, place.name, place.namespace, options)
            self._say(Done(place, "removed", "it is no part of this installation any more"))


async def installed(objects: KubeObjects) -> list[tuple[Place, Manifest]]:
    """Whatever carries our label, whoever brought it, in the order in which such objects are brought."""
    found = []
    for kind, (resource, _) in COLLECTIONS.items():
        try:
            items = (await objects.list(resource, Query(labels=OURS_BY_LABEL))).items
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            continue  # the server has no such kind, so there is nothing of it
        for raw in items:
            manifest: Manifest = msgspec.json.decode(raw)
            found.append((place_of({"kind": kind} | manifest), manifest))
    return found


async def _check_served(objects: KubeObjects, manifests: Sequence[Manifest]) -> None:
    if any(it["kind"] not in SHARED for it in manifests) and await _is_embedded(objects):
        raise InstallationError(
            "this is an embedded cluster, which runs the scheduler and the controllers by itself: there is nothing to "
            "install; nothing was changed"
        )
    unknown = []
    for version in dict.fromkeys(str(it["apiVersion"]) for it in manifests):
        try:
            await objects.request("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
            unknown.append(version)
    if unknown:
        raise InstallationError(f"this server does not know {', '.join(unknown)}; nothing was changed")


async def _is_embedded(objects: KubeObjects) -> bool:
    """Whether it is a server of ours, which says so in its version."""
    version = (await objects.request("GET", "/version")).manifest()
    return f"-{OURS}." in str(version.get("gitVersion", ""))


def _check_owners(manifests: Sequence[Manifest], present: Sequence[Document | None]) -> None:
    there = [(it, found.manifest()) for it, found in zip(manifests, present, strict=True) if found is not None]
    check_no_release(found for wanted, found in there if wanted["kind"] not in SHARED)
    foreign = []
    for wanted, found in there:
        if not is_ours(found) and wanted["kind"] not in SHARED:
            foreign.append(str(place_of(wanted)))
        elif wanted["kind"] == "ClusterRoleBinding" and (home := _home(found)) != _home(wanted):
            raise InstallationError(
                f"it is installed in namespace {home!r} already: give --namespace {home}, or uninstall that one first"
            )
    if foreign:
        raise InstallationError(
            "these are there already and are not ours: " + ", ".join(foreign) + ". Nothing was changed."
        )


def _home(binding: Manifest) -> str:
    """The namespace of those whom it grants rights."""
    return next((str(it.get("namespace", "")) for it in binding.get("subjects") or ()), "")


def _as_written(document: Document) -> Manifest:
    manifest = document.manifest()
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _SERVERS_OWN}
    return {key: value for key, value in manifest.items() if key != "status"} | {"metadata": metadata}
