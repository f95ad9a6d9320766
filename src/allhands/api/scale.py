"""The scale of an object: a small view (autoscaling/v1 Scale) of how many it wants and has.

Built-in kinds have their numbers in one place; custom kinds say in their definition where theirs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import at, labels_text, mapping_at, selector_text

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind, ScalePlaces

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, document: Manifest, places: ScalePlaces) -> Manifest:
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


def _selector(kind: Kind, document: Manifest, places: ScalePlaces) -> str:
    if kind.custom:
        return str(at(document, *places.selector) or "") if places.selector else ""
    selector = at(document, "spec", "selector")
    if not selector:
        return ""
    return labels_text(selector) if kind.kind == "ReplicationController" else selector_text(selector) or ""


def change_of(scale: Manifest, places: ScalePlaces) -> Manifest:
    """The merge patch of the object that gives it this scale. A version that the scale names is asked for."""
    change: Json = scale.get("spec", {}).get("replicas", 0)
    for name in reversed(places.wanted):
        change = {name: change}
    found: Manifest = change
    version = (scale.get("metadata") or {}).get("resourceVersion")
    return found | {"metadata": {"resourceVersion": version}} if version else found
