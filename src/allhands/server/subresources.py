"""Requests on a part of an object: its status and scale, and for pods their binding and eviction.

What would need a kubelet's streams behind it (exec, attach, …) is refused with a sentence that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError, Telling, bad_request, no_such_object
from allhands.server import logs, options, resources, scale, token_requests
from allhands.server.answers import success, unknown_path, wrong_method
from allhands.server.discovery import part_of
from allhands.server.parts import read_part

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import WriteOptions
    from allhands.server.resources import Call, Reply

NOT_SERVED: Final = frozenset({"attach", "exec", "portforward", "proxy"})


async def answer(call: Call) -> Reply:
    """The reply to a request on a sub-resource."""
    name, resource = call.target.subresource, call.target.resource
    if call.kind.custom and name not in call.kind.subresources:
        raise no_such_object(resource.group, resource.plural, call.target.name)
    if name in NOT_SERVED:
        raise StatusError(501, "NotImplemented", f"{resource.plural}/{name} is not served by the embedded cluster")
    if name == "log" and resource.plural == "pods":
        return await logs.answer(call)
    if name not in call.kind.subresources:
        raise unknown_path()
    if name in ("binding", "eviction"):
        return await (bind(call) if name == "binding" else _evict(call))
    if name == "scale":
        return await scale.answer(call)
    if name == "token":
        return await token_requests.answer(call)
    return await _part(call)


async def _part(call: Call) -> Reply:
    """The object itself, through a sub-resource that the port knows."""
    method, target = call.request.method, call.target
    verb = {"GET": "get", "PUT": "update", "PATCH": "patch"}.get(method)
    if verb not in part_of(call.kind, target.subresource).verbs:
        raise resources.refused_method(call)
    if method == "GET":
        return await resources.get(call)
    if method == "PUT":
        return await resources.update(call)
    return await resources.patch(call)


async def _posted(call: Call, kind_name: str) -> tuple[Manifest, WriteOptions, tuple[str, ...]]:
    """The small object in a POST to a sub-resource of a pod, which must be about that pod, and warnings about it."""
    if call.request.method != "POST":
        raise wrong_method()
    call.form()  # refused before anything is written
    how = options.write_options(call.request, "CreateOptions")
    body, warnings = await read_part(call.request, kind_name, how.field_validation)
    metadata = body["metadata"]
    with Telling(warnings):
        if metadata.get("namespace") not in (None, "", call.target.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if call.target.name and metadata.get("name") != call.target.name:
            raise bad_request(f"name in URL does not match name in {kind_name} object")
    return body, how, warnings


async def bind(call: Call) -> Reply:
    """POST of a Binding, to a pod or to the collection `bindings`."""
    body, how, warnings = await _posted(call, "Binding")
    with Telling(warnings):
        name = call.target.name or body["metadata"].get("name")
        if not name:
            raise bad_request("Name parameter required.")
        await call.face.objects.bind(call.target.namespace, name, body, how)
    return success(201, call.form(), warnings=warnings)


async def _evict(call: Call) -> Reply:
    body, how, warnings = await _posted(call, "Eviction")
    with Telling(warnings):
        await call.face.objects.evict(call.target.namespace, call.target.name, body, how)
    return success(201, call.form(), warnings=warnings)
