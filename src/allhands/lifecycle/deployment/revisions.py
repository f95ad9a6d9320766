"""Which ReplicaSet stands for which revision of a Deployment's template, how a new one is named, which old ones go.

Names come from the template alone, so that making the same revision twice fails instead of doubling it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.deployment.kinds import (
    DESIRED_REPLICAS,
    HASH_LABEL,
    MAX_REPLICAS,
    NOT_COPIED,
    REVISION,
    REVISION_HISTORY,
    Deployment,
)
from allhands.lifecycle.observed import NO_LABELS, Template

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.api.document import Json, Manifest
    from allhands.lifecycle.replica_set import ReplicaSet

HISTORY_LIMIT: Final = 2_000
"""Characters of the annotation that lists former revisions."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_NAME: Final = 253
_HASH_LENGTH: Final = 10


def by_age(replica_set: ReplicaSet) -> tuple[float, str]:
    return replica_set.metadata.created_seconds, replica_set.metadata.name


def split(deployment: Deployment, sets: Iterable[ReplicaSet]) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
    """The ReplicaSet of the present template, the oldest if there are several, and all others."""
    ordered = sorted(sets, key=by_age)
    wanted = plain(deployment.spec.template)
    new = next((it for it in ordered if plain(it.spec.template) == wanted), None)
    return new, [it for it in ordered if it is not new]


def plain(template: Template) -> Json:
    """The template without what a Deployment adds to it, and without fields that say nothing."""
    labels = {key: value for key, value in template.labels.items() if key != HASH_LABEL}
    return _told({"metadata": {**template.metadata, "labels": labels}, "spec": template.spec})


def _told(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: it for key, item in value.items() if (it := _told(item)) not in (None, {}, [])}
    return [_told(item) for item in value] if isinstance(value, list) else value


def template_hash(deployment: Deployment) -> str:
    text = msgspec.json.encode(plain(deployment.spec.template), order="sorted")
    collisions = deployment.count("collisionCount")
    digest = hashlib.sha256(text + (b"\0%d" % collisions if collisions else b"")).digest()
    number = int.from_bytes(digest[:8], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def set_name(deployment: Deployment, digest: str) -> str:
    return f"{deployment.metadata.name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def revision(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotation(REVISION)
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max(map(revision, old), default=0) + 1


def wanted_annotations(deployment: Deployment, new: ReplicaSet, number: int) -> dict[str, str]:
    """What the present ReplicaSet should carry and does not: the Deployment's own, and its place in the history."""
    present = new.metadata.annotations or NO_LABELS
    missing = {
        key: value
        for key, value in (deployment.metadata.annotations or NO_LABELS).items()
        if key not in NOT_COPIED and present.get(key) != value
    }
    known = present.get(REVISION, "")
    if (known and not known.isdecimal()) or revision(new) >= number:
        return missing
    missing[REVISION] = str(number)
    if known:
        missing[REVISION_HISTORY] = _history(present.get(REVISION_HISTORY, ""), known)
    return missing


def _history(listed: str, gone: str) -> str:
    revisions = [*filter(None, listed.split(",")), gone]
    while len(revisions) > 1 and len(",".join(revisions)) > HISTORY_LIMIT:
        del revisions[0]
    return ",".join(revisions)


def size_annotations(deployment: Deployment) -> dict[str, str]:
    wanted = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(wanted), MAX_REPLICAS: str(wanted + deployment.max_surge)}


def new_set(deployment: Deployment, replicas: int, number: int) -> Manifest:
    """The ReplicaSet of the present template."""
    digest = template_hash(deployment)
    template, selector = deployment.spec.template, deployment.spec.selector or {}
    labels = {**template.labels, HASH_LABEL: digest}
    copied = deployment.metadata.annotations or NO_LABELS
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": set_name(deployment, digest),
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": {
                **{key: value for key, value in copied.items() if key not in NOT_COPIED},
                **size_annotations(deployment),
                REVISION: str(number),
            },
            "ownerReferences": [owner_reference("apps/v1", "Deployment", deployment.metadata)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
            "template": {"metadata": {**template.metadata, "labels": labels}, "spec": template.spec},
        },
    }


def out_of_history(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old revisions beyond the number to keep, oldest first; never one that has or may have pods."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    present = sorted((it for it in old if not it.metadata.is_going), key=lambda it: (revision(it), *by_age(it)))
    surplus = present[: max(0, len(present) - max(0, limit))]
    return [
        it
        for it in surplus
        if it.spec.replicas == 0
        and it.count("replicas") == 0
        and it.metadata.generation <= it.count("observedGeneration")
    ]
