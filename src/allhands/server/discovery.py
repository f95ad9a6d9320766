"""What is served, told in the two ways clients ask: the legacy documents, one per group and version, and the
aggregated one. Everything is derived from the kinds; nothing is listed by hand but what a sub-resource is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Final

import msgspec

import allhands
from allhands.server.accept import check_route, form_of, wants_aggregated_discovery
from allhands.server.answers import Answer, written, wrong_method

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind, Kinds
    from allhands.server.request import Request

KUBERNETES_MINOR: Final = "36"
_COMPATIBLE_MINOR: Final = "35"
_GROUP_ORDER: Final = (
    *("", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch"),
    *("networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io"),
    *("apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io"),
)
"""Built-in groups as the real server orders them; clients that find a name in two groups take the first."""
_STORED_VERSIONS: Final = {"CustomResourceDefinition": "v1beta1"}
"""Kinds that the real server stores in another version than the one it serves."""
_ALWAYS: Final = ("get", "patch", "update")
_TUNNEL: Final = ("create", "get")
_ANY_METHOD: Final = ("create", "delete", "get", "patch", "update")


class Part(msgspec.Struct, frozen=True):
    """What answers at a sub-resource; without a kind it is the object itself."""

    verbs: tuple[str, ...] = _ALWAYS
    kind: str = ""
    api_version: str = ""


_PARTS: Final[dict[str, Part]] = {
    "binding": Part(("create",), "Binding"),
    "eviction": Part(("create",), "Eviction", "policy/v1"),
    "scale": Part(_ALWAYS, "Scale", "autoscaling/v1"),
    "token": Part(("create",), "TokenRequest", "authentication.k8s.io/v1"),
    "finalize": Part(("update",)),
    "log": Part(("get",)),
    "attach": Part(_TUNNEL, "PodAttachOptions"),
    "exec": Part(_TUNNEL, "PodExecOptions"),
    "portforward": Part(_TUNNEL, "PodPortForwardOptions"),
}


PART_DEFINITIONS: Final = {
    "Binding": "io.k8s.api.core.v1.Binding",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "Scale": "io.k8s.api.autoscaling.v1.Scale",
    "TokenRequest": "io.k8s.api.authentication.v1.TokenRequest",
    "SelfSubjectReview": "io.k8s.api.authentication.v1.SelfSubjectReview",
    "TokenReview": "io.k8s.api.authentication.v1.TokenReview",
    "LocalSubjectAccessReview": "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    "SelfSubjectAccessReview": "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "SelfSubjectRulesReview": "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "SubjectAccessReview": "io.k8s.api.authorization.v1.SubjectAccessReview",
}
"""The published definitions of what answers at a sub-resource instead of the object itself, and of questions."""


def part_of(kind: Kind, subresource: str) -> Part:
    if subresource == "proxy":
        return Part(_ANY_METHOD, f"{kind.kind}ProxyOptions")
    part = _PARTS.get(subresource, Part())
    return part if part.kind else Part(part.verbs, kind.kind)


def version_order(version: str) -> tuple[int, int, int, str]:
    """Stable before beta before alpha before anything else, newer before older."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version)


def _place(kind: Kind) -> tuple[int, str]:
    known = kind.group in _GROUP_ORDER
    return (_GROUP_ORDER.index(kind.group), "") if known else (len(_GROUP_ORDER) + kind.custom, kind.group)


def groups_of(kinds: Iterable[Kind]) -> dict[str, dict[str, list[Kind]]]:
    """Kinds by group and version. Built-in groups come first, so that a bare `jobs` means what it always meant."""
    groups: dict[str, dict[str, list[Kind]]] = {}
    for kind in sorted(kinds, key=_place):
        groups.setdefault(kind.group, {}).setdefault(kind.resource.version, []).append(kind)
    return {
        group: {version: versions[version] for version in sorted(versions, key=version_order)}
        for group, versions in groups.items()
    }


def version_document() -> Manifest:
    return {
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "emulationMajor": "1",
        "emulationMinor": KUBERNETES_MINOR,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": _COMPATIBLE_MINOR,
        "gitVersion": f"v1.{KUBERNETES_MINOR}.3-allhands.{allhands.__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def _group_versions(group: str, versions: Iterable[str]) -> list[Manifest]:
    return [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]


def group_document(group: str, versions: Iterable[str]) -> Manifest:
    listed = _group_versions(group, versions)
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _by_name(kinds: Iterable[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.resource.plural)


def _verbs(kind: Kind) -> list[str]:
    return list(kind.verbs) if kind.custom else sorted(kind.verbs)


def _parts(kind: Kind) -> Sequence[str]:
    return kind.subresources if kind.custom else sorted(kind.subresources)


def storage_hash(kind: Kind) -> str:
    """Tells clients when objects are stored in another version than before."""
    version = kind.storage.version if kind.storage else _STORED_VERSIONS.get(kind.kind, kind.resource.version)
    stored = f"{kind.storage.group if kind.storage else kind.group}/{version}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def resource_documents(kinds: Sequence[Kind]) -> list[Manifest]:
    """The legacy rows of one group and version, sub-resources after their resource."""
    rows: list[Manifest] = []
    if any("binding" in kind.subresources for kind in kinds):
        rows.append(_legacy_row("bindings", "binding", True, "Binding", ("create",)))
    for kind in _by_name(kinds):
        plural = kind.resource.plural
        row = _legacy_row(plural, kind.singular, kind.namespaced, kind.kind, _verbs(kind))
        if kind.short_names:
            row["shortNames"] = list(kind.short_names)
        if kind.categories:
            row["categories"] = list(kind.categories)
        if not kind.is_question and not kind.is_measured:
            row["storageVersionHash"] = storage_hash(kind)
        rows.append(row)
        for name in _parts(kind):
            part = part_of(kind, name)
            row = _legacy_row(f"{plural}/{name}", "", kind.namespaced, part.kind, part.verbs)
            if part.api_version:
                row["group"], _, row["version"] = part.api_version.rpartition("/")
            rows.append(row)
    return rows


def _legacy_row(name: str, singular: str, namespaced: bool, kind: str, verbs: Sequence[str]) -> Manifest:
    return {"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": list(verbs)}


def aggregated_resources(kinds: Sequence[Kind]) -> list[Manifest]:
    rows = []
    if any("binding" in kind.subresources for kind in kinds):
        rows.append(_aggregated_row("bindings", "binding", "Namespaced", _kind_of("Binding", ""), ("create",)))
    for kind in _by_name(kinds):
        scope = "Namespaced" if kind.namespaced else "Cluster"
        itself = _kind_of(kind.kind, kind.api_version if kind.custom else "")
        row = _aggregated_row(kind.resource.plural, kind.singular, scope, itself, _verbs(kind))
        if kind.short_names:
            row["shortNames"] = list(kind.short_names)
        if kind.categories:
            row["categories"] = list(kind.categories)
        if kind.subresources:
            row["subresources"] = [_aggregated_part(kind, name) for name in _parts(kind)]
        rows.append(row)
    return rows


def _aggregated_row(resource: str, singular: str, scope: str, kind: Manifest, verbs: Sequence[str]) -> Manifest:
    return {
        "resource": resource,
        "responseKind": kind,
        "scope": scope,
        "singularResource": singular,
        "verbs": list(verbs),
    }


def _aggregated_part(kind: Kind, name: str) -> Manifest:
    part = part_of(kind, name)
    api_version = part.api_version or (kind.api_version if kind.custom else "")
    return {"subresource": name, "responseKind": _kind_of(part.kind, api_version), "verbs": list(part.verbs)}


def _kind_of(kind: str, api_version: str) -> Manifest:
    """Empty group and version mean those of the document in which the row stands."""
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}


class Discovery:
    """Answers of `/api` and `/apis` and of what is below them, made once per state of the registry."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._revision = -1
        self._groups: dict[str, dict[str, list[Kind]]] = {}
        self._aggregated: dict[tuple[bool, str], tuple[bytes, bytes]] = {}

    def groups(self) -> dict[str, dict[str, list[Kind]]]:
        if self._revision != self._kinds.revision:
            self._revision = self._kinds.revision
            self._groups = groups_of(self._kinds.all())
            self._aggregated = {}
        return self._groups

    def is_routed(self, segments: list[str]) -> bool:
        """Whether a path lies below a built-in group."""
        if segments[:1] == ["api"]:
            return True
        kinds = [kind for each in self.groups().get((*segments, "", "")[1], {}).values() for kind in each]
        return segments[:1] == ["apis"] and any(not kind.custom for kind in kinds)

    def answer(self, request: Request, segments: list[str]) -> Answer | None:
        """The document at this path; None if nothing is served there."""
        accept, core = request.header(b"accept"), segments[0] == "api"
        document = self._document(request, segments)
        if document is None:
            return None
        if core or (len(segments) > 2 and self.is_routed(segments)):
            if request.method not in ("GET", "HEAD"):
                raise wrong_method()
            check_route(accept)
        version = wants_aggregated_discovery(accept) if len(segments) == 1 else ""
        return self._aggregated_answer(request, core, version) if version else written(document, form_of(accept))

    def _document(self, request: Request, segments: list[str]) -> Manifest | None:
        groups = self.groups()
        if len(segments) == 1:
            return self._legacy(segments == ["api"], request)
        if segments[0] == "api":
            return self._versioned("", segments[1]) if len(segments) == 2 else None
        if len(segments) == 2 and segments[1] in groups and segments[1]:
            document = group_document(segments[1], groups[segments[1]])
            return {"kind": "APIGroup", "apiVersion": "v1"} | document
        return self._versioned(segments[1], segments[2]) if len(segments) == 3 and segments[1] else None

    def paths(self) -> list[str]:
        """What `/` lists."""
        below = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        for group, versions in self.groups().items():
            root = f"/apis/{group}" if group else "/api"
            below += [root, *(f"{root}/{version}" for version in versions)]
        return sorted(set(below))

    def _legacy(self, core: bool, request: Request) -> Manifest:
        groups = self.groups()
        if core:
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": request.host}]
            return {
                "kind": "APIVersions",
                "versions": list(groups.get("", {})),
                "serverAddressByClientCIDRs": addresses,
            }
        listed = [group_document(group, versions) for group, versions in groups.items() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

    def _versioned(self, group: str, version: str) -> Manifest | None:
        kinds = self.groups().get(group, {}).get(version)
        if kinds is None:
            return None
        name = f"{group}/{version}" if group else version
        document: Manifest = {"kind": "APIResourceList", "groupVersion": name, "resources": resource_documents(kinds)}
        if group:
            document = {"kind": "APIResourceList", "apiVersion": "v1"} | document
        return document

    def _aggregated_answer(self, request: Request, core: bool, version: str) -> Answer:
        found = self._aggregated.get((core, version))
        if found is None:
            body = msgspec.json.encode(self._aggregated_document(core, version))
            found = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode())
            self._aggregated[(core, version)] = found
        body, tag = found
        media_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList".encode()
        return tagged(request, body, tag, media_type)

    def _aggregated_document(self, core: bool, version: str) -> Manifest:
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {"version": name, "resources": aggregated_resources(kinds), "freshness": "Current"}
                    for name, kinds in versions.items()
                ],
            }
            for group, versions in self.groups().items()
            if core == (group == "")
        ]
        head: Manifest = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
        return head | {"metadata": {}, "items": items}


def tagged(request: Request, body: bytes, tag: bytes, media_type: bytes, *, cache: bytes = b"public") -> Answer:
    """The body, or 304 if the client has it already."""
    headers = ((b"etag", tag), (b"cache-control", cache), (b"vary", b"Accept"))
    known = {part.strip().encode("latin-1") for part in request.header(b"if-none-match").split(",")}
    if tag in known:
        return Answer(304, b"", media_type, headers)
    return Answer(200, body, media_type, headers)
