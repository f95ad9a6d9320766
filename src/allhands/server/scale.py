"""Requests on the scale of an object: it is shown, and a new one is written back through the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import Telling, bad_request, invalid, invalid_object
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.scale import scale_of
from allhands.server import bodies, options, resources
from allhands.server.answers import unknown_path, warning_headers, written
from allhands.server.parts import decoded, read_part

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import ScalePlaces
    from allhands.ports import WriteOptions
    from allhands.server.answers import Answer
    from allhands.server.resources import Call


async def answer(call: Call) -> Answer:
    """The reply to GET, PUT or PATCH of a scale."""
    method, target = call.request.method, call.target
    if method not in ("GET", "PUT", "PATCH"):
        raise resources.refused_method(call)
    call.form()  # refused before anything is written
    places = call.kind.scales.get(call.kind.api_version)
    if places is None:
        raise unknown_path()
    if method == "PUT":
        return await _put(call, places)
    if method == "PATCH":
        return await _patch(call, places)
    document = await call.face.objects.get(target.resource, target.name, target.namespace)
    return _written(call, document.manifest(), places)


async def _put(call: Call, places: ScalePlaces) -> Answer:
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


async def _patch(call: Call, places: ScalePlaces) -> Answer:
    target = call.target
    form_of_patch = bodies.patch_type(call.request, call.kind)
    how = options.patch_options(call.request, form_of_patch)
    change, warnings = await bodies.read_patch(call.request, form_of_patch, how.field_validation)
    if form_of_patch == "apply":
        applied = await call.face.objects.patch(
            target.resource, target.name, "apply", change, target.namespace, how, subresource="scale"
        )
        return _written(call, applied.manifest(), places, warnings)
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


async def _rescale(
    call: Call, places: ScalePlaces, scale: Manifest, how: WriteOptions, warnings: tuple[str, ...]
) -> Answer:
    target = call.target
    replicas, metadata = scale.get("spec", {}).get("replicas", 0), scale["metadata"]
    if replicas < 0:
        fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("autoscaling", "Scale", target.name, [fault])
    change: Manifest = {"spec": {"replicas": replicas}}
    if metadata.get("resourceVersion"):
        change["metadata"] = {"resourceVersion": metadata["resourceVersion"]}
    document = await call.face.objects.patch(
        target.resource, target.name, "merge", change, target.namespace, how, subresource="scale"
    )
    return _written(call, document.manifest(), places, warnings)


def _written(call: Call, document: Manifest, places: ScalePlaces, warnings: tuple[str, ...] = ()) -> Answer:
    return written(scale_of(call.kind, document, places), call.form(), headers=warning_headers(warnings))
