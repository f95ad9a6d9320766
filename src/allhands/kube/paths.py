"""How requests are addressed: the paths of resources, the parameters of queries and writes, and how to say in words
what was asked for. Nothing here sends anything."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.kinds import Resource
    from allhands.ports import DeleteOptions, Query, WriteOptions

_needs_no_quotes: Final = re.compile(r"[A-Za-z0-9._~-]*").fullmatch


class Asked(msgspec.Struct, frozen=True):
    """What a request is about, in the words that access rules have for it."""

    verb: str
    resource: str
    """With its group and sub-resource: `pods/binding`, `jobs.batch`."""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        name = f' "{self.name}"' if self.name else ""
        where = f' in namespace "{self.namespace}"' if self.namespace else ""
        return f"{self.verb} {self.resource}{name}{where}"


def asked(verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> Asked:
    plural = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    return Asked(verb, f"{plural}/{subresource}" if subresource else plural, namespace, name)


def path_to(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The URL path of a collection, an object or one of its sub-resources."""
    path = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    if namespace:
        path = f"{path}/namespaces/{quoted(namespace)}"
    path = f"{path}/{resource.plural}"
    if name:
        path = f"{path}/{quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def quoted(text: str) -> str:
    """Names need it hardly ever, and looking is quicker than quoting."""
    return text if _needs_no_quotes(text) else quote(text, safe="")


def with_params(path: str, params: Mapping[str, str] | None) -> str:
    if not params:
        return path
    return path + "?" + "&".join([f"{name}={quoted(value)}" for name, value in params.items()])


def selection(query: Query) -> dict[str, str]:
    """The parameters of a list or a watch."""
    values = {
        "labelSelector": query.labels,
        "fieldSelector": query.fields,
        "resourceVersion": query.resource_version,
        "resourceVersionMatch": query.version_match,
        "limit": str(query.limit) if query.limit else "",
        "continue": query.continue_token,
    }
    return {name: value for name, value in values.items() if value}


@functools.lru_cache(maxsize=64)
def write_query(options: WriteOptions) -> str:
    """What is appended to the path of a write."""
    params: dict[str, str] = {"fieldValidation": options.field_validation}
    if options.dry_run:
        params["dryRun"] = "All"
    if options.field_manager:
        params["fieldManager"] = options.field_manager
    if options.force:
        params["force"] = "true"
    return with_params("", params)


def delete_body(options: DeleteOptions) -> bytes:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if options.grace_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation:
        body["propagationPolicy"] = options.propagation
    preconditions = {"uid": options.uid, "resourceVersion": options.version}
    if any(preconditions.values()):
        body["preconditions"] = {name: value for name, value in preconditions.items() if value}
    if options.dry_run:
        body["dryRun"] = ["All"]
    return msgspec.json.encode(body)
