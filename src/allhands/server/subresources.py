"""Requests on a part of an object: its status and scale, and for pods their binding and eviction.

What would need a kubelet behind it (log, exec, …) is refused with a sentence that says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError, bad_request, go_quote, no_such_object
from allhands.api.schema.definitions import is_published
from allhands.server import bodies, options, resources, scale
from allhands.server.answers import internal_package, success, unknown_path, wrong_method
from allhands.server.discovery import PART_DEFINITIONS, part_of

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import WriteOptions
    from allhands.server.accept import Form
    from allhands.server.resources import Call, Reply

NOT_SERVED: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_VERSIONS: Final = {"Binding": ("v1",), "Eviction": ("policy/v1", "policy/v1beta1")}
"""In which versions the small objects may come; the first is meant if they say nothing."""


async def answer(call: Call) -> Reply:
    """The reply to a request on a sub-resource."""
    name, resource = call.target.subresource, call.target.resource
    if call.kind.custom and name not in call.kind.subresources:
        raise no_such_object(resource.group, resource.plural, call.target.name)
    if name in NOT_SERVED:
        raise StatusError(501, "NotImplemented", f"{resource.plural}/{name} is not served by the embedded cluster")
    if name not in call.kind.subresources:
        raise unknown_path()
    if name in ("binding", "eviction"):
        return await (bind(call) if name == "binding" else _evict(call))
    if name == "scale":
        return await scale.answer(call)
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


async def _posted(call: Call, kind_name: str) -> tuple[Manifest, WriteOptions, Form]:
    """The small object in a POST to a sub-resource of a pod, which must be about that pod."""
    if call.request.method != "POST":
        raise wrong_method()
    form = call.form()
    how = options.write_options(call.request, "CreateOptions")
    body, _warnings = await bodies.read_object(
        call.request, kind_name, PART_DEFINITIONS[kind_name], how.field_validation
    )
    _check_kind(body, kind_name)
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request(f"json: cannot unmarshal the field {kind_name}.metadata: it must be an object")
    if metadata.get("namespace") not in (None, "", call.target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if call.target.name and metadata.get("name") != call.target.name:
        raise bad_request(f"name in URL does not match name in {kind_name} object")
    return body, how, form


def _check_kind(body: Manifest, kind_name: str) -> None:
    versions = _VERSIONS[kind_name]
    api_version, found = body.get("apiVersion") or versions[0], body.get("kind") or kind_name
    if found == kind_name and api_version in versions:
        return
    version = api_version.rpartition("/")[2]
    if is_published(api_version, found):
        internal = f"{internal_package(versions[0].rpartition('/')[0])}.{kind_name}"
        why = f"converting ({version}.{found}) to ({internal}): unknown conversion"
    else:
        why = f"no kind {go_quote(found)} is registered for version {go_quote(api_version)} {bodies.SCHEME}"
    raise bad_request(f"{found} in version {go_quote(version)} cannot be handled as a {kind_name}: {why}")


async def bind(call: Call) -> Reply:
    """POST of a Binding, to a pod or to the collection `bindings`."""
    body, how, form = await _posted(call, "Binding")
    name = call.target.name or (body.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise bad_request("Name parameter required.")
    await call.face.objects.bind(call.target.namespace, name, body, how)
    return success(201, form)


async def _evict(call: Call) -> Reply:
    body, how, form = await _posted(call, "Eviction")
    await call.face.objects.evict(call.target.namespace, call.target.name, body, how)
    return success(201, form)
