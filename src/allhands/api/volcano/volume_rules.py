"""Which volumes of a Volcano Job make sense, with the path of each field. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.errors import FieldError, duplicate, forbidden, invalid, required
from allhands.api.names import dns1123_subdomain
from allhands.api.volcano.template_rules import claim_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest


def volume_errors(volumes: Sequence[Manifest], path: str) -> list[FieldError]:
    """What is wrong with the volumes of a new Job. Later the name of a claim that was made may stand beside it."""
    errors: list[FieldError] = []
    mounted: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        mount, name, claim = volume.get("mountPath", ""), volume.get("volumeClaimName", ""), volume.get("volumeClaim")
        if not mount:
            errors.append(required(f"{where}.mountPath", "where containers see the volume"))
        elif mount in mounted:
            errors.append(duplicate(f"{where}.mountPath", mount))
        mounted.add(mount)
        if claim is None and not name:
            detail = "either the name of a claim that is there, or what to claim in volumeClaim"
            errors.append(required(f"{where}.volumeClaimName", detail))
        elif claim is not None and name:
            detail = "a claim is either there, by its name, or made from volumeClaim under a name that is made up"
            errors.append(forbidden(f"{where}.volumeClaimName", detail))
        if name:
            errors += [invalid(f"{where}.volumeClaimName", name, fault) for fault in dns1123_subdomain(name)]
        if claim is not None:
            errors += claim_errors(claim, f"{where}.volumeClaim")
    return errors
