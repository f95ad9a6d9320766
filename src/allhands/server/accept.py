"""In which form an answer is wanted: JSON or YAML, and the object itself, its metadata, or a table.

The first clause of `Accept` that can be served wins, weights considered. Errors are written as JSON whatever was
asked for. Protobuf is not served: a client that accepts nothing else is told what there is.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from allhands.api.errors import StatusError

Shown = Literal["object", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
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
    for clause in clauses(header):
        form = _served(clause, stream=stream)
        if form is not None:
            return form
    offered = f"{_JSON};stream=watch" if stream else f"{_JSON}, {_YAML}"
    raise not_acceptable(f"only the following media types are accepted: {offered}")


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)


def _served(clause: Clause, *, stream: bool) -> Form | None:
    if clause.media_type not in _ANY and (stream or clause.media_type != _YAML):
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
