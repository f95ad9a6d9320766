"""What a request asks for, as far as rights go. It reads the path by the same function that finds who answers, so that
what was allowed is what is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.access.attributes import Attributes
from allhands.api.errors import StatusError
from allhands.api.names import path_segment_name
from allhands.api.selectors import parse_field_selector
from allhands.server import options
from allhands.server.paths import target_of

if TYPE_CHECKING:
    from allhands.server.request import Request

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


def attributes_of(request: Request) -> Attributes:
    """For any request there is an answer; what is no resource is a path."""
    segments = request.segments
    target = target_of(segments)
    if target is None:
        return Attributes(verb=request.method.lower(), path="/" + "/".join(segments))
    verb, name = _VERBS.get(request.method, ""), target.name
    if target.old_watch:
        verb = "watch"
    elif not name and verb == "get":
        verb = "watch" if options.is_watch(request) else "list"
        name = _selected_name(request)
    elif not name and verb == "delete":
        verb = "deletecollection"
    is_namespace = target.resource.plural == "namespaces" and not target.namespace
    return Attributes(
        verb=verb,
        group=target.resource.group,
        version=target.resource.version,
        resource=target.resource.plural,
        subresource=target.subresource,
        name=name,
        namespace=target.name if is_namespace else target.namespace,
    )


def _selected_name(request: Request) -> str:
    """Who asks for the one object of a name by a selector needs no right to the others."""
    text = request.parameter("fieldSelector")
    if not text:
        return ""
    try:
        name = parse_field_selector(text).exact("metadata.name") or ""
    except StatusError:
        return ""
    return "" if path_segment_name(name) else name
