"""The verbs of the API on collections and objects: each reads its request, makes one call of the port, and answers.

Nothing is decided here about what an object may be; a refusal of the port is passed on as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError, bad_request, method_not_supported
from allhands.server import bodies, options
from allhands.server.accept import SPOKEN, STREAMED, check_route, form_of
from allhands.server.answers import Answer, success, wrong_method
from allhands.server.logs import LogStream
from allhands.server.watching import EventWriter, WatchStream, error_answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import Document, WriteOptions
    from allhands.server.accept import Form
    from allhands.server.face import Face
    from allhands.server.paths import Target
    from allhands.server.request import Request

Reply = Answer | WatchStream | LogStream

_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
VERB_OF: Final = _OBJECT_VERBS | {"POST": "create"}
"""What a method means to custom kinds, on whatever path: they have no router that would refuse it."""


class Call:
    """One request on one kind: what all verbs need."""

    def __init__(self, face: Face, request: Request, kind: Kind, target: Target) -> None:
        self.face = face
        self.request = request
        self.kind = kind
        self.target = target

    def form(self, *, stream: bool = False) -> Form:
        """The form of the answer, if there is one that the client accepts."""
        accept = self.request.header(b"accept")
        if not self.kind.custom:
            listing = self.request.method == "GET" and not self.target.name
            check_route(accept, (*SPOKEN, *STREAMED) if stream or listing else SPOKEN)
        return form_of(accept, stream=stream)

    async def reply(self, document: Document, form: Form, code: int = 200, warnings: tuple[str, ...] = ()) -> Answer:
        writer = self.face.writer(self.kind, form, self.request)
        return await writer.of_object(document.raw, code, warnings + document.warnings)


def in_scope(kind: Kind, target: Target, method: str) -> bool:
    """A path that names a namespace where there is none, or leaves one out, leads nowhere."""
    if not kind.namespaced:
        return not target.namespace
    if target.namespace:
        return True
    return not target.name and (method == "GET" or not kind.custom)


async def answer(call: Call) -> Reply:
    """The reply to a request on a collection or an object, without a sub-resource."""
    target, kind, method = call.target, call.kind, call.request.method
    if target.old_watch:
        return await _watch(call, target.name) if method == "GET" and "watch" in kind.verbs else _refuse_method()
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(method)
    if verb is None and kind.custom:
        verb = VERB_OF.get(method)
        if verb in ("update", "patch"):
            raise bad_request("name must be provided")
    if verb == "list" and options.is_watch(call.request):
        verb = "watch"
    if verb is None or verb not in kind.verbs:
        raise refused_method(call)
    if verb in ("create", "deletecollection") and kind.namespaced and not target.namespace:
        raise wrong_method()
    return await _VERBS[verb](call)


def _refuse_method() -> Answer:
    raise wrong_method()


def refused_method(call: Call) -> StatusError:
    resource, method = call.target.resource, call.request.method
    if call.kind.custom:
        return method_not_supported(resource.group, resource.plural, VERB_OF.get(method, method.lower()))
    return wrong_method()


async def get(call: Call) -> Reply:
    """GET of the object, or of the sub-resource that the path names."""
    target, form = call.target, call.form()
    version = call.request.parameter("resourceVersion")
    document = await call.face.objects.get(
        target.resource, target.name, target.namespace, subresource=target.subresource, resource_version=version
    )
    return await call.reply(document, form)


async def _list(call: Call) -> Reply:
    form = call.form()
    writer = call.face.writer(call.kind, form, call.request)
    query = options.selection(call.request, call.target.namespace)
    return await writer.of_page(await call.face.objects.list(call.target.resource, query))


async def _watch(call: Call, name: str = "") -> Reply:
    face, request = call.face, call.request
    form = call.form(stream=True)
    writer = face.writer(call.kind, form, request)
    query = options.selection(request, call.target.namespace, name=name)
    terms = options.watch_terms(request)
    face.check_room_for_watch()
    try:
        watch = await face.objects.watch(
            call.target.resource, query, bookmarks=terms.bookmarks, initial_events=terms.initial_events
        )
    except StatusError as error:
        if error.code != 410:
            raise
        return error_answer(error)
    return WatchStream(watch, EventWriter(writer), terms, face.limits)


async def _read_object(call: Call, how: WriteOptions) -> tuple[Manifest, tuple[str, ...]]:
    kind = call.kind
    body, warnings = await bodies.read_object(call.request, kind.kind, kind.definition, how.field_validation)
    if kind.custom:
        bodies.check_custom(kind, body)
    return body, warnings


async def _create(call: Call) -> Reply:
    form, target = call.form(), call.target
    how = options.write_options(call.request, "CreateOptions")
    body, warnings = await _read_object(call, how)
    document = await call.face.objects.create(target.resource, body, target.namespace, how)
    return await call.reply(document, form, 201, warnings)


async def update(call: Call) -> Reply:
    """PUT of the object, or of the sub-resource that the path names."""
    form, target = call.form(), call.target
    how = options.write_options(call.request, "UpdateOptions")
    body, warnings = await _read_object(call, how)
    document = await call.face.objects.update(
        target.resource, target.name, body, target.namespace, how, subresource=target.subresource
    )
    return await call.reply(document, form, 201 if document.created else 200, warnings)


async def patch(call: Call) -> Reply:
    """PATCH of the object, or of the sub-resource that the path names."""
    form_of_patch = bodies.patch_type(call.request, call.kind)
    form, target = call.form(), call.target
    how = options.patch_options(call.request, form_of_patch)
    body, warnings = await bodies.read_patch(call.request, form_of_patch, how.field_validation)
    document = await call.face.objects.patch(
        target.resource, target.name, form_of_patch, body, target.namespace, how, subresource=target.subresource
    )
    return await call.reply(document, form, 201 if document.created else 200, warnings)


class _Identity(msgspec.Struct, frozen=True):
    uid: str = ""


class _Identified(msgspec.Struct, frozen=True):
    metadata: _Identity = _Identity()


async def _delete(call: Call) -> Reply:
    form, target = call.form(), call.target
    terms = options.delete_terms(call.request, await bodies.read_options(call.request))
    deleted = await call.face.objects.delete(target.resource, target.name, target.namespace, terms.options)
    code = 202 if terms.accepted_if_pending and not deleted.gone else 200
    if not deleted.as_status:
        return await call.reply(deleted.document, form, code)
    details = {"name": target.name, "group": target.resource.group, "kind": target.resource.plural}
    details["uid"] = deleted.document.decode(_Identified).metadata.uid
    return success(code, form, {key: value for key, value in details.items() if value})


async def _delete_collection(call: Call) -> Reply:
    form = call.form()
    writer = call.face.writer(call.kind, form, call.request)
    query = options.selection(call.request, call.target.namespace)
    options.check_selectors(query)
    terms = options.delete_terms(call.request, await bodies.read_options(call.request))
    return await writer.of_page(await call.face.objects.delete_all(call.target.resource, query, terms.options))


_VERBS: Final[dict[str, Callable[[Call], Awaitable[Reply]]]] = {
    "get": get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": update,
    "patch": patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
