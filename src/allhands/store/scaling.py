"""Writes through an object's scale: they change how many are wanted, and who owns that number, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.apply.scale_owners import SCALE_DEFINITION, SCALE_VERSION
from allhands.api.apply.tracking import Write, owners_of_update
from allhands.api.errors import bad_request, invalid, invalid_object, no_such_object
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.scale import change_of, scale_of
from allhands.api.schema.shape import TypedShape
from allhands.store import bodies
from allhands.store.applying import check_stated_kind, merge
from allhands.store.ownership import after_scaling, scale_typing, with_scale_owners
from allhands.store.record import shown_manifest
from allhands.store.writing import check_name, replace

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind, ScalePlaces
    from allhands.ports import Document, PatchType, WriteOptions
    from allhands.store.record import Record
    from allhands.store.store import Store

_SHAPE = TypedShape(SCALE_DEFINITION)
_DOOR = "scale"


def patch_scale(
    store: Store, kind: Kind, name: str, patch_type: PatchType, changes: Any, namespace: str, options: WriteOptions
) -> Document:
    """The object after its scale was patched; `changes` are of a Scale."""
    record = store.collection(kind).get((namespace if kind.namespaced else "", name))
    places = kind.scales.get(kind.api_version)
    if record is None or places is None:
        raise no_such_object(kind.group, kind.resource.plural, name)
    if patch_type not in ("merge", "apply"):
        raise bad_request(f"a scale is not patched by a {patch_type} patch")
    write = Write(options.field_manager, store.now(), _DOOR)
    document = shown_manifest(kind, record)
    shown = scale_of(kind, document, places)
    entries: list[Manifest] = []
    if patch_type == "apply":
        check_stated_kind(changes, SCALE_VERSION, "Scale")
        owned = with_scale_owners(shown, document, kind)
        applied = merge(scale_typing(), owned, _SHAPE.check({}).document, changes, write, force=options.force)
        new = _checked_scale(applied.document)
        _check_address(new, name, namespace)
        entries = after_scaling(kind, document, applied.entries)
    else:
        new = _checked_scale(merge_patch(shown, changes))
        if record.is_tracked:
            owned = with_scale_owners(shown, document, kind)
            entries = after_scaling(kind, document, owners_of_update(scale_typing(), owned, new, None, write))
    return _put(store, kind, record, places, new, options, entries)


def _checked_scale(document: Manifest) -> Manifest:
    checked = _SHAPE.check(document)
    if checked.mismatch:
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {checked.mismatch}')
    return checked.document


def _check_address(scale: Manifest, name: str, namespace: str) -> None:
    if scale["metadata"].get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    check_name(scale["metadata"].get("name", ""), name)


def _put(
    store: Store,
    kind: Kind,
    record: Record,
    places: ScalePlaces,
    scale: Manifest,
    options: WriteOptions,
    entries: list[Manifest],
) -> Document:
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        fault = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("autoscaling", "Scale", record.key[1], [fault])
    patched = merge_patch(shown_manifest(kind, record), change_of(scale, places))
    document, _ = bodies.in_normal_form(kind, patched, "Ignore")
    return replace(store, kind, record, document, (), options, "", owners=entries)
