"""The scale of an object: a small view (autoscaling/v1 Scale) of its replicas, read from it and written back to it.

Built-in kinds have their replicas in one place; custom kinds say in their definition where theirs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.custom import scale_paths
from allhands.api.errors import Telling, bad_request, invalid, invalid_object
from allhands.api.kinds import Resource
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.tables.cells import at, labels_text, mapping_at, selector_text
from allhands.server import bodies, options, resources
from allhands.server.answers import unknown_path, warning_headers, written
from allhands.server.parts import decoded, read_part

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import WriteOptions
    from allhands.server.answers import Answer
    from allhands.server.resources import Call

_DEFINITIONS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Places(msgspec.Struct, frozen=True):
    """Where an object has its replicas."""

    wanted: tuple[str, ...] = ("spec", "replicas")
    present: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ()
    """Where the selector stands as text; built-in kinds have it as an object at a place of its own."""


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(name for name in dotted.split(".") if name)


async def _places(call: Call) -> Places:
    if not call.kind.custom:
        return Places()
    resource = call.target.resource
    definition = await call.face.objects.get(_DEFINITIONS, f"{resource.plural}.{resource.group}")
    found = scale_paths(definition.manifest(), resource.version)
    if found is None:
        raise unknown_path()
    selector = _path(found.get("labelSelectorPath") or "")
    return Places(_path(found["specReplicasPath"]), _path(found["statusReplicasPath"]), selector)


def scale_of(kind: Kind, document: Manifest, places: Places) -> Manifest:
    """The scale that an object shows."""
    metadata = mapping_at(document, "metadata")
    status: Manifest = {"replicas": at(document, *places.present) or 0}
    selector = _selector(kind, document, places)
    if selector:
        status["selector"] = selector
    wanted = at(document, *places.wanted)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in _METADATA if field in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _selector(kind: Kind, document: Manifest, places: Places) -> str:
    if kind.custom:
        return str(at(document, *places.selector) or "") if places.selector else ""
    selector = at(document, "spec", "selector")
    if not selector:
        return ""
    return labels_text(selector) if kind.kind == "ReplicationController" else selector_text(selector) or ""


async def answer(call: Call) -> Answer:
    """The reply to GET, PUT or PATCH of a scale."""
    method, target = call.request.method, call.target
    if method not in ("GET", "PUT", "PATCH"):
        raise resources.refused_method(call)
    call.form()  # refused before anything is written
    places = await _places(call)
    if method == "PUT":
        return await _put(call, places)
    if method == "PATCH":
        return await _patch(call, places)
    document = await call.face.objects.get(target.resource, target.name, target.namespace)
    return _written(call, document.manifest(), places)


async def _put(call: Call, places: Places) -> Answer:
    target = call.target
    how = options.write_options(call.request, "UpdateOptions")
    scale, warnings = await read_part(call.request, "Scale", how.field_validation)
    metadata = scale["metadata"]
    with Telling(warnings):
        if metadata.get("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        stated = metadata.get("name")
        if not stated:
            why = f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
            raise bad_request(why)
        if stated != target.name:
            raise bad_request(f"the name of the object ({stated}) does not match the name on the URL ({target.name})")
        await call.face.objects.get(target.resource, target.name, target.namespace)  # absent comes before invalid
        return await _rescale(call, places, scale, how, warnings)


async def _patch(call: Call, places: Places) -> Answer:
    target = call.target
    form_of_patch = bodies.patch_type(call.request, call.kind)
    how = options.write_options(call.request, "PatchOptions")
    change, _warnings = await bodies.read_patch(call.request, form_of_patch, how.field_validation)
    document = await call.face.objects.get(target.resource, target.name, target.namespace)
    scale = scale_of(call.kind, document.manifest(), places)
    if form_of_patch == "json":
        patched = json_patch(scale, change)
    else:
        del scale["metadata"]["resourceVersion"]  # unless the patch names one, any version will do
        patched = merge_patch(scale, change)
    new, complaints, fault = decoded(patched, "Scale")
    if not fault and complaints and how.field_validation == "Strict":
        fault = f"strict decoding error: {', '.join(complaints)}"
    if fault:
        shown = msgspec.json.encode({name: patched[name] for name in sorted(patched)}).decode()
        raise invalid_object("", "", "", [invalid("patch", shown, fault)])
    warnings = () if how.field_validation == "Ignore" else complaints
    with Telling(warnings):
        return await _rescale(call, places, new, how, warnings)


async def _rescale(call: Call, places: Places, scale: Manifest, how: WriteOptions, warnings: tuple[str, ...]) -> Answer:
    target = call.target
    replicas, metadata = scale.get("spec", {}).get("replicas", 0), scale["metadata"]
    if replicas < 0:
        fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("autoscaling", "Scale", target.name, [fault])
    change: Json = replicas
    for name in reversed(places.wanted):
        change = {name: change}
    if metadata.get("resourceVersion"):
        change["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
    document = await call.face.objects.patch(target.resource, target.name, "merge", change, target.namespace, how)
    return _written(call, document.manifest(), places, warnings)


def _written(call: Call, document: Manifest, places: Places, warnings: tuple[str, ...] = ()) -> Answer:
    return written(scale_of(call.kind, document, places), call.form(), headers=warning_headers(warnings))
