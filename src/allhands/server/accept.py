"""In which form an answer is wanted: JSON or YAML, and the object itself, its metadata, or a table.

The real server asks twice, and refuses in other words each time: its router looks at the bare media types, the handler
at the first clause of `Accept` that it can serve, weights considered. Custom kinds have no router. Protobuf is not
written: a client that accepts nothing else is told what there is.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from allhands.api.errors import StatusError

Shown = Literal["object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
SPOKEN: Final = (_JSON, _YAML, _PROTOBUF)
"""What the real server says that it speaks."""
STREAMED: Final = (f"{_JSON};stream=watch", f"{_PROTOBUF};stream=watch")
"""What it speaks in a watch."""
_ANY: Final = frozenset({"*/*", "application/*", _JSON})
_TRANSFORMS: Final[tuple[Shown, ...]] = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})


class Form(msgspec.Struct, frozen=True):
    """How to write the answer."""

    yaml: bool = False
    shown: Shown = "object"
    version: str = "v1"
    """The version of meta.k8s.io in which tables and metadata are written."""

    @property
    def media_type(self) -> str:
        return _YAML if self.yaml else _JSON


class Clause(msgspec.Struct, frozen=True):
    """One alternative of an `Accept` header."""

    media_type: str
    parameters: dict[str, str]
    weight: float


PLAIN: Final = Form()


def clauses(header: str) -> list[Clause]:
    """The alternatives, best first; those of weight zero are left out."""
    found = []
    for part in header.split(","):
        media_type, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(_parameter(piece) for piece in rest)
        try:
            weight = float(parameters.pop("q", "1"))
        except ValueError:
            weight = 1.0
        if media_type and weight > 0:
            found.append(Clause(media_type.lower(), parameters, weight))
    return sorted(found, key=lambda clause: -clause.weight)


def _parameter(piece: str) -> tuple[str, str]:
    name, _, value = piece.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def form_of(header: str, *, stream: bool = False) -> Form:
    """The form to answer in; refused with the real server's words if nothing acceptable can be served."""
    if not header or header in (_JSON, "*/*"):
        return PLAIN
    form = next((found for clause in clauses(header) if (found := _served(clause)) is not None), None)
    if form is None:
        spoken = (_JSON, _YAML) if _only_protobuf(header) else SPOKEN
        raise not_acceptable(f"only the following media types are accepted: {', '.join(spoken)}")
    if stream and form.yaml:
        raise not_acceptable(f"only the following media types are accepted: {', '.join(STREAMED)}")
    return form


def error_form(header: str) -> Form:
    """The form of a refusal. It is never a table, and a client that can read nothing of ours gets JSON."""
    forms = (_served(clause) for clause in clauses(header) if "as" not in clause.parameters)
    return next((form for form in forms if form is not None), PLAIN)


def check_route(header: str, offered: tuple[str, ...] = SPOKEN) -> None:
    """What the real server's router refuses before anything looks at the request; wildcards but `*/*` are no match."""
    asked = {part.partition(";")[0].strip() for part in header.split(",")}
    if not header or "*/*" in asked or not asked.isdisjoint(offered):
        return
    representations = f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}"
    raise StatusError(406, "NotAcceptable", representations, {})


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)


def _only_protobuf(header: str) -> bool:
    return {clause.media_type for clause in clauses(header)} == {_PROTOBUF}


def _served(clause: Clause) -> Form | None:
    if clause.media_type not in _ANY and clause.media_type != _YAML:
        return None
    yaml = clause.media_type == _YAML
    wanted = clause.parameters.get("as", "")
    if not wanted:
        return Form(yaml)
    version = clause.parameters.get("v", "")
    if clause.parameters.get("g") != "meta.k8s.io" or version not in _META_VERSIONS:
        return None
    shown = next((known for known in _TRANSFORMS if known == wanted), None)
    return None if shown is None else Form(yaml, shown, version)


def wants_aggregated_discovery(header: str) -> str:
    """The version of aggregated discovery that is preferred to the legacy documents; empty if those are."""
    for clause in clauses(header):
        if clause.media_type not in _ANY:
            continue
        wanted = clause.parameters
        if wanted.get("as") == "APIGroupDiscoveryList" and wanted.get("g") == "apidiscovery.k8s.io":
            if wanted.get("v") in ("v2", "v2beta1"):
                return wanted["v"]
        elif "as" not in wanted:
            return ""
    return ""
