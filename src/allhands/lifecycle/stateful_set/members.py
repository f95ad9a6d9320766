"""The pods of a StatefulSet: their names, which are their places, and what each is made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.lifecycle.controller_revision import HASH_LABEL
from allhands.lifecycle.stateful_set.claims import claim_name, template_name
from allhands.lifecycle.stateful_set.kinds import INDEX_LABEL, NAME_LABEL

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.lifecycle.observed import Pod, Template
    from allhands.lifecycle.ownership import Manager
    from allhands.lifecycle.stateful_set.kinds import StatefulSet

_MEMBER: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)
_MOST: Final = 2**31


def place_of(name: str) -> tuple[str, int] | None:
    """Of which set a pod of this name would be, and its ordinal there; None if of none."""
    found = _MEMBER.fullmatch(name)
    if found is None or int(found[2]) >= _MOST:
        return None
    return found[1], int(found[2])


def ordinal_of(stateful: StatefulSet, pod: Pod) -> int | None:
    place = place_of(pod.metadata.name)
    return None if place is None or place[0] != stateful.metadata.name else place[1]


def pod_name(stateful: StatefulSet, ordinal: int) -> str:
    return f"{stateful.metadata.name}-{ordinal}"


def new_pod(manager: Manager, stateful: StatefulSet, template: Template, revision: str, ordinal: int) -> Manifest:
    name = pod_name(stateful, ordinal)
    metadata: Manifest = {
        "name": name,
        "generateName": f"{stateful.metadata.name}-",
        "labels": {**template.labels, NAME_LABEL: name, INDEX_LABEL: str(ordinal), HASH_LABEL: revision},
        "ownerReferences": [manager.reference],
    }
    for field in ("annotations", "finalizers"):
        if template.metadata.get(field):
            metadata[field] = template.metadata[field]
    spec: Manifest = {**template.spec, "hostname": name, "subdomain": stateful.spec.service_name}
    if stateful.spec.claim_templates:
        spec["volumes"] = _volumes(stateful, template, ordinal)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _volumes(stateful: StatefulSet, template: Template, ordinal: int) -> list[Json]:
    """Its own claims stand before a volume of the same name."""
    claims: dict[str, Json] = {
        template_name(it): {"persistentVolumeClaim": {"claimName": claim_name(stateful, it, ordinal)}}
        for it in stateful.spec.claim_templates or ()
    }
    own = [{"name": name, **source} for name, source in claims.items()]
    return [*own, *(it for it in template.spec.get("volumes") or () if it.get("name") not in claims)]


def identity_patch(stateful: StatefulSet, pod: Pod, ordinal: int) -> Manifest:
    """What lacks a pod that was not made here; nothing for all others."""
    if pod.metadata.label(NAME_LABEL) == pod.metadata.name:
        return {}
    labels = {NAME_LABEL: pod_name(stateful, ordinal), INDEX_LABEL: str(ordinal)}
    return {"metadata": {"uid": pod.metadata.uid, "labels": labels}}
