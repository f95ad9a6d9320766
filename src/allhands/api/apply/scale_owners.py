"""The owners of an object as its scale shows them, and back: all that a scale can change is how many are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.api.apply.field_set import FieldSet, Path
from allhands.api.apply.owners import Owned, Owner, Owners
from allhands.api.apply.path_element import field
from allhands.api.kinds import REPLICAS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.kinds import ScalePlaces

SCALE_VERSION: Final = "autoscaling/v1"
SCALE_DEFINITION: Final = "io.k8s.api.autoscaling.v1.Scale"

Scales: TypeAlias = "Mapping[str, ScalePlaces | None]"
"""By version, where the number stands."""


def _path(names: tuple[str, ...]) -> Path:
    return tuple(map(field, names))


_WANTED: Final = _path(REPLICAS)


def _number(scales: Scales, version: str) -> Path:
    places = scales.get(version)
    return () if places is None else _path(places.wanted)


def owners_of_scale(owners: Owners, scales: Scales) -> Owners:
    """Those who own the number."""
    shown = Owned(FieldSet.of([_WANTED]), SCALE_VERSION)
    owned = {owner: shown for owner, each in owners.owned.items() if _number(scales, each.api_version) in each.fields}
    return Owners(owned, {owner: time for owner, time in owners.times.items() if owner in owned})


def owners_after_scaling(owners: Owners, scaled: Owners, scales: Scales, version: str) -> Owners:
    """The owners of the object, given those of its scale after a write; `version` is that of the request."""
    found: dict[Owner, Owned] = {}
    new = dict(scaled.owned)
    for owner, owned in owners.owned.items():
        if owned.api_version not in scales:
            continue
        number = _number(scales, owned.api_version)
        if number not in owned.fields or new.pop(owner, None) is not None:
            found[owner] = owned
            continue
        left = owned.less(FieldSet.of([number]))
        if left.fields:
            found[owner] = left
    mine = Owned(FieldSet.of([_number(scales, version)]), version)
    found |= {owner: mine for owner, owned in new.items() if _WANTED in owned.fields}
    return Owners(found, owners.times)
